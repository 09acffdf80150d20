"""Solutions of lesson 9."""

import numpy as np


def minibatches(n: int, size: int) -> list[list[int]]:
    """Every size-th number begins a batch."""
    return [list(range(start, min(start + size, n))) for start in range(0, n, size)]


def accuracy(logits: np.ndarray, labels: np.ndarray) -> float:
    """Compare the places of the largest scores."""
    return float(np.mean(logits.argmax(axis=1) == labels))


def adamw(
    p: np.ndarray,
    g: np.ndarray,
    m: np.ndarray,
    v: np.ndarray,
    t: int,
    lr: float,
    weight_decay: float,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Line by line as it is described."""
    p = p - lr * weight_decay * p
    m = 0.9 * m + (1 - 0.9) * g
    v = 0.999 * v + (1 - 0.999) * g * g
    corrected_m, corrected_v = m / (1 - 0.9**t), v / (1 - 0.999**t)
    return p - lr * corrected_m / (np.sqrt(corrected_v) + 1e-8), m, v
