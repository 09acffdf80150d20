"""Exercises of lesson 10: what a character model is made of. All arrays are numpy's."""

import numpy as np


def embedding_backward(g: np.ndarray, indices: np.ndarray, rows: int) -> np.ndarray:
    """Return the gradient of a table with so many rows, where g is that of table[indices].

    indices (N,) are ints and can repeat; g is (N, D). The result is (rows, D), with the dtype
    of g.
    """
    raise NotImplementedError


def examples(codes: list[int], context: int) -> tuple[list[list[int]], list[int]]:
    """Return every window of context codes that something follows, and what follows it.

    For [7, 8, 9, 5] and a context of 2: ([[7, 8], [8, 9]], [9, 5]). If codes is too short for a
    window and its follower, both lists are empty.
    """
    raise NotImplementedError


def odds(scores: np.ndarray, temperature: float) -> np.ndarray:
    """Return the softmax of scores (C,) divided by the temperature, which is above 0.

    Temperatures can be small, such as 0.001: the largest score then gets all, and nothing is nan.
    """
    raise NotImplementedError
