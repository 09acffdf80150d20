"""Exercises of lesson 5: gradients of broadcast operands. All arrays are numpy's."""

import numpy as np


def unbroadcast(g: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """Return the gradient of an operand that had this shape before it was broadcast to g.shape.

    Sum over what broadcasting repeated. unbroadcast(np.ones((3, 4)), (4,)) is
    np.array([3.0, 3.0, 3.0, 3.0]). A scalar, of shape (), gives an array of that shape.
    """
    raise NotImplementedError


def mul_backward(g: np.ndarray, a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the gradients of a and of b, where g is the gradient of a * b.

    a and b may have been broadcast. Each gradient has the shape of its operand.
    """
    raise NotImplementedError


def mean_backward(g: np.ndarray, shape: tuple[int, ...], dim: int) -> np.ndarray:
    """Return the gradient of x, of this shape, where g is the gradient of x.mean(axis=dim).

    g lacks the dimension dim, which is counted from 0.
    """
    raise NotImplementedError
