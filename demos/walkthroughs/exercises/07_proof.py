"""Exercises of lesson 7: a gradient checker. All arrays are numpy's, float64."""

from collections.abc import Callable

import numpy as np


def numeric(
    f: Callable[[np.ndarray], np.ndarray], x: np.ndarray, w: np.ndarray, eps: float
) -> np.ndarray:
    """Return the gradient of (w * f(x)).sum() by x, from central differences.

    x can have any shape and f(x) another; w has the shape of f(x). The result has that of x. x
    itself is as it was afterwards.
    """
    raise NotImplementedError


def accepts(
    f: Callable[[np.ndarray], np.ndarray],
    rule: Callable[[np.ndarray, np.ndarray], np.ndarray],
    x: np.ndarray,
) -> bool:
    """Return whether rule(g, x) is the gradient of f at x, for an incoming gradient g.

    Decide by comparing with numeric(f, x, g, eps), for a g that you choose. Right rules are to be
    accepted; rules that are wrong by 1 % in one place, have the wrong shape, or give nan are not.
    """
    raise NotImplementedError
