"""Solutions of lesson 12."""

from collections.abc import Callable

from micro import Value, grad


def derivative(f: Callable[[Value], Value], x: float, n: int) -> float:
    """Differentiate what was recorded, n times."""
    at = Value(x)
    y = f(at)
    for _ in range(n):
        y = grad(y, at, create_graph=True)
    return y.data


def newton(f: Callable[[Value], Value], x: float, steps: int) -> float:
    """To the bottom of the parabola, again and again."""
    for _ in range(steps):
        at = Value(x)
        slope = grad(f(at), at, create_graph=True)
        x = x - slope.data / grad(slope, at).data
    return x


def hessian_times(
    f: Callable[[list[Value]], Value], xs: list[float], v: list[float]
) -> list[float]:
    """The gradient of g . v."""
    at = [Value(x) for x in xs]
    gradient = grad(f(at), at, create_graph=True)
    along = sum((g * vi for g, vi in zip(gradient, v, strict=True)), Value(0.0))
    return [h.data for h in grad(along, at)]
