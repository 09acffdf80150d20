"""Solutions of lesson 10."""

import numpy as np


def embedding_backward(g: np.ndarray, indices: np.ndarray, rows: int) -> np.ndarray:
    """np.add.at adds once for each index, repeated or not."""
    gradient = np.zeros((rows, g.shape[1]), dtype=g.dtype)
    np.add.at(gradient, indices, g)
    return gradient


def examples(codes: list[int], context: int) -> tuple[list[list[int]], list[int]]:
    """The last window ends one before the end."""
    starts = range(len(codes) - context)
    return [list(codes[i : i + context]) for i in starts], [codes[i + context] for i in starts]


def odds(scores: np.ndarray, temperature: float) -> np.ndarray:
    """Divide first, then shift, then exp."""
    cooled = scores / temperature
    e = np.exp(cooled - cooled.max())
    return e / e.sum()
