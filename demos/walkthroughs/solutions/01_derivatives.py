"""Solutions of lesson 1."""

from collections.abc import Callable


def slope(f: Callable[[float], float], x: float, eps: float) -> float:
    """Look to both sides; the two points are 2 eps apart."""
    return (f(x + eps) - f(x - eps)) / (2 * eps)


def gradient(f: Callable[[list[float]], float], xs: list[float], eps: float) -> list[float]:
    """Move one number at a time, in a copy."""
    slopes = []
    for i, x in enumerate(xs):
        ahead, back = list(xs), list(xs)
        ahead[i], back[i] = x + eps, x - eps
        slopes.append((f(ahead) - f(back)) / (2 * eps))
    return slopes


def relative_error(got: float, wanted: float) -> float:
    """Compare with the larger of the two sizes."""
    size = max(abs(got), abs(wanted))
    return abs(got - wanted) / size if size else 0.0
