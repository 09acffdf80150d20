"""Exercises of lesson 9: batches, accuracy, and a twin of AdamW. All arrays are numpy's."""

import numpy as np


def minibatches(n: int, size: int) -> list[list[int]]:
    """Return the numbers 0 to n - 1, in order, in lists of the given size.

    The last list is shorter if n is no multiple of size; no list is empty.
    """
    raise NotImplementedError


def accuracy(logits: np.ndarray, labels: np.ndarray) -> float:
    """Return the part, from 0.0 to 1.0, of the rows of logits (N, C) with the label on top.

    A row's answer is the class with the largest score. labels (N,) are the right classes.
    """
    raise NotImplementedError


def adamw(
    p: np.ndarray,
    g: np.ndarray,
    m: np.ndarray,
    v: np.ndarray,
    t: int,
    lr: float,
    weight_decay: float,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return p, m and v after one step of AdamW (Loshchilov and Hutter, arXiv:1711.05101).

    g is the gradient; m and v are the running means of g and of its square, so far; t counts
    steps, from 1. With beta1 = 0.9, beta2 = 0.999 and eps = 1e-8, in this order:

    - p shrinks by lr * weight_decay times itself;
    - m becomes beta1 times itself plus (1 - beta1) times the gradient, v likewise with beta2 and
      the squared gradient;
    - both means start at 0 and are too small at first: their corrected values are m / (1 -
      beta1^t) and v / (1 - beta2^t);
    - p moves against the corrected m, by lr, over the square root of the corrected v plus eps
      (eps is added to the root).

    The arrays that were given stay as they are.
    """
    raise NotImplementedError
