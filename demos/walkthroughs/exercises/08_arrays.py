"""Exercises of lesson 8: memory, dtypes, versions. All arrays are numpy's."""

from dataclasses import dataclass

import numpy as np


@dataclass
class Box:
    """An array and its version, which goes up by one for each change in place."""

    data: np.ndarray
    version: int = 0


def total(gradients: list[np.ndarray]) -> np.ndarray:
    """Return the sum of the arrays, which have one shape and dtype.

    There is at least one. None of them may be changed, and the result is an array of its own: it
    shares memory with none of them. It has their dtype.
    """
    raise NotImplementedError


def scaled(x: np.ndarray, factor: float) -> np.ndarray:
    """Return factor * x as a new array with the dtype of x, a floating one.

    factor may be a Python float or one of numpy's, such as np.float64(0.5).
    """
    raise NotImplementedError


def square_backward(g: np.ndarray, box: Box, version: int) -> np.ndarray:
    """Return the gradient of a square: of box.data, where g is that of its square.

    version is the one that the box had when the square was computed. If the box has another one
    now, raise a RuntimeError: its data are no longer those that were squared.
    """
    raise NotImplementedError
