"""Solutions of lesson 7."""

from collections.abc import Callable

import numpy as np


def numeric(
    f: Callable[[np.ndarray], np.ndarray], x: np.ndarray, w: np.ndarray, eps: float
) -> np.ndarray:
    """One element at a time, in a copy."""
    slopes = np.empty(x.shape)
    for place in np.ndindex(x.shape):
        moved = x.copy()
        moved[place] = x[place] + eps
        ahead = (w * f(moved)).sum()
        moved[place] = x[place] - eps
        slopes[place] = (ahead - (w * f(moved)).sum()) / (2 * eps)
    return slopes


def accepts(
    f: Callable[[np.ndarray], np.ndarray],
    rule: Callable[[np.ndarray, np.ndarray], np.ndarray],
    x: np.ndarray,
) -> bool:
    """Random weights, and a comparison that nan does not pass."""
    g = np.random.default_rng(0).uniform(0.5, 1.5, f(x).shape)
    found, wanted = rule(g, x), numeric(f, x, g, 1e-6)
    if found.shape != x.shape:
        return False
    return bool(np.all(np.abs(found - wanted) <= 1e-6 * max(1.0, np.abs(wanted).max())))
