"""Contracting results with random, non-uniform weights, in the scalar engine."""

from __future__ import annotations

from typing import Any

import numpy as np

import micro
from micro.value import Value

__all__ = ["contracted", "second_weights"]


def contracted(values: Any, weights: Any) -> Value | None:
    """The sum of every Value times its weight; None if that depends on nothing."""
    flat = np.asarray(values, object).reshape(-1)
    total: Value | None = None
    for value, weight in zip(flat, np.asarray(weights, object).reshape(-1), strict=True):
        term = micro.mul(value, weight)
        total = term if total is None else micro.add(total, term)
    return total


def second_weights(shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
    """Another cotangent, for gradients: none of it near 0, and no two elements alike."""
    rng = np.random.default_rng([7, *shape])
    return np.asarray(rng.uniform(0.5, 1.5, shape) * rng.choice([-1.0, 1.0], shape))
