"""Exercises of lesson 12: higher derivatives, by micro.

grad(y, x) is d y / d x as a Value; with a list of xs it is a tuple. Its options are those of the
lesson.
"""

from collections.abc import Callable

from micro import Value, grad


def derivative(f: Callable[[Value], Value], x: float, n: int) -> float:
    """Return the n-th derivative of f at x; for n = 0, its value.

    f takes a Value and gives one, and is differentiable as often as is asked for.
    """
    raise NotImplementedError


def newton(f: Callable[[Value], Value], x: float, steps: int) -> float:
    """Return where so many steps of Newton's method for a minimum of f lead, from x."""
    raise NotImplementedError


def hessian_times(
    f: Callable[[list[Value]], Value], xs: list[float], v: list[float]
) -> list[float]:
    """Return H v, where H is the matrix of the second derivatives of f at xs.

    f takes a list of Values, all of which it uses, and none just as a multiple: every first
    derivative depends on some x. f is called once, and grad twice.
    """
    raise NotImplementedError
