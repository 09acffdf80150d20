"""Solutions of lesson 8."""

from dataclasses import dataclass

import numpy as np


@dataclass
class Box:
    """An array and its version."""

    data: np.ndarray
    version: int = 0


def total(gradients: list[np.ndarray]) -> np.ndarray:
    """Own an array first, then add in place."""
    first, *others = gradients
    result = first.copy()
    for gradient in others:
        result += gradient
    return result


def scaled(x: np.ndarray, factor: float) -> np.ndarray:
    """The factor takes the dtype of x, not the other way round."""
    return x * x.dtype.type(factor)


def square_backward(g: np.ndarray, box: Box, version: int) -> np.ndarray:
    """Refuse first."""
    if box.version != version:
        raise RuntimeError(f"the box has version {box.version}; version {version} was squared")
    return 2 * g * box.data
