"""Exercises of lesson 1: derivatives from differences."""

from collections.abc import Callable


def slope(f: Callable[[float], float], x: float, eps: float) -> float:
    """Return the central difference of f at x.

    It looks eps ahead and eps back. For a straight line it is the slope of the line, whatever
    eps is: slope(f, 0.0, 0.5) is 3.0 for f(x) = 3 x + 1.
    """
    raise NotImplementedError


def gradient(f: Callable[[list[float]], float], xs: list[float], eps: float) -> list[float]:
    """Return the central differences of f at xs, one for each of its numbers.

    f takes a list of numbers and gives one. For f(xs) = xs[0] * xs[1] at [2.0, 5.0] the answer is
    [5.0, 2.0]. The list xs is the caller's: afterwards it must be as it was.
    """
    raise NotImplementedError


def relative_error(got: float, wanted: float) -> float:
    """Return how far apart the two are, divided by the larger of their sizes.

    Two zeros are not apart: their error is 0.0. For 1.1 and 1.0 it is 0.1 / 1.1.
    """
    raise NotImplementedError
