"""Exercises of lesson 6: what a classifier is made of. All arrays are numpy's, float64."""

import numpy as np


def matmul_backward(g: np.ndarray, a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the gradients of a (m, k) and of b (k, n), where g (m, n) is that of a @ b."""
    raise NotImplementedError


def softmax(x: np.ndarray) -> np.ndarray:
    """Return the softmax of every row of x (N, C).

    Scores may be as large or as small as 1e6: no result is nan, and there is no overflow.
    """
    raise NotImplementedError


def cross_entropy(logits: np.ndarray, target: np.ndarray) -> float:
    """Return the mean cross-entropy of logits (N, C) for the right classes target (N,).

    It is finite for scores as large as 1e6, also where the right class has a probability too
    small for a float: scores [0, 1000] with the right class 0 cost 1000.
    """
    raise NotImplementedError


def cross_entropy_backward(logits: np.ndarray, target: np.ndarray) -> np.ndarray:
    """Return the gradient (N, C) of the mean cross-entropy by the logits."""
    raise NotImplementedError
