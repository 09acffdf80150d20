"""One step of an optimizer over flat arrays, in place and without allocating.

Every function takes 1-D arrays of one length and dtype: parameters, their
gradients, and the optimizer's state. They work block by block, so that a block
is still in the cache when the next ufunc comes to it. ``grad`` may be
overwritten; ``work`` is ``workspace(dtype)``.

The operations and their order are PyTorch's (those of its loop over single
tensors), so that trajectories agree to rounding. Rates are Python floats:
they do not promote float32.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import numpy as np

from ..graph import Array

__all__ = ["BLOCK", "adam", "adamw", "sgd", "workspace"]

# Elements per block. Few enough that the arrays of a block stay in the second-level cache, many
# enough that the cost of calling a ufunc is lost in its work.
BLOCK: Final = 2**15


def workspace(dtype: np.dtype[Any]) -> Array:
    """Return the scratch memory that a step needs, (2, BLOCK)."""
    return np.empty((2, BLOCK), dtype)


def _blocks(length: int) -> Iterator[slice]:
    return (slice(start, start + BLOCK) for start in range(0, length, BLOCK))


def sgd(
    param: Array,
    grad: Array,
    momentum_buffer: Array | None,
    work: Array,
    *,
    lr: float,
    momentum: float,
    dampening: float,
    weight_decay: float,
    nesterov: bool,
    maximize: bool,
    first: bool,
) -> None:
    """Take one step of gradient descent; ``first`` starts the momentum from the gradient."""
    for block in _blocks(len(param)):
        p, g = param[block], grad[block]
        s = work[0, : len(p)]
        if maximize:
            np.negative(g, out=g)
        if weight_decay != 0:
            np.multiply(p, weight_decay, out=s)
            np.add(g, s, out=g)
        if momentum_buffer is not None:
            m = momentum_buffer[block]
            if first:
                np.copyto(m, g)
            else:
                np.multiply(m, momentum, out=m)
                np.multiply(g, 1 - dampening, out=s)
                np.add(m, s, out=m)
            if nesterov:
                np.multiply(m, momentum, out=s)
                np.add(g, s, out=g)
            else:
                g = m
        np.multiply(g, -lr, out=s)
        np.add(p, s, out=p)


def adam(
    param: Array,
    grad: Array,
    exp_avg: Array,
    exp_avg_sq: Array,
    max_exp_avg_sq: Array | None,
    work: Array,
    *,
    lr: float,
    beta1: float,
    beta2: float,
    eps: float,
    weight_decay: float,
    maximize: bool,
    step: int,
) -> None:
    """Take the step number ``step``, from 1, of Adam; the decay is added to the gradient."""
    for block in _blocks(len(param)):
        p, g = param[block], grad[block]
        s = work[0, : len(p)]
        if maximize:
            np.negative(g, out=g)
        if weight_decay != 0:
            np.multiply(p, weight_decay, out=s)
            np.add(g, s, out=g)
        peak = None if max_exp_avg_sq is None else max_exp_avg_sq[block]
        _follow_moments(
            p, g, exp_avg[block], exp_avg_sq[block], peak, work, lr, beta1, beta2, eps, step
        )


def adamw(
    param: Array,
    grad: Array,
    exp_avg: Array,
    exp_avg_sq: Array,
    max_exp_avg_sq: Array | None,
    work: Array,
    *,
    lr: float,
    beta1: float,
    beta2: float,
    eps: float,
    weight_decay: float,
    maximize: bool,
    step: int,
) -> None:
    """Take the step number ``step``, from 1, of AdamW; the parameters decay by themselves."""
    for block in _blocks(len(param)):
        p, g = param[block], grad[block]
        if maximize:
            np.negative(g, out=g)
        if weight_decay != 0:
            np.multiply(p, 1 - lr * weight_decay, out=p)
        peak = None if max_exp_avg_sq is None else max_exp_avg_sq[block]
        _follow_moments(
            p, g, exp_avg[block], exp_avg_sq[block], peak, work, lr, beta1, beta2, eps, step
        )


def _follow_moments(
    p: Array,
    g: Array,
    m: Array,
    v: Array,
    peak: Array | None,
    work: Array,
    lr: float,
    beta1: float,
    beta2: float,
    eps: float,
    step: int,
) -> None:
    """Update the moments of one block and move its parameters along them."""
    s, t = work[0, : len(p)], work[1, : len(p)]
    np.subtract(g, m, out=s)
    if 1 - beta1 < 0.5:  # from whichever end is nearer
        np.multiply(s, 1 - beta1, out=s)
        np.add(m, s, out=m)
    else:
        np.multiply(s, 1 - (1 - beta1), out=s)
        np.subtract(g, s, out=m)
    np.multiply(v, beta2, out=v)
    np.multiply(g, 1 - beta2, out=s)
    np.multiply(s, g, out=s)
    np.add(v, s, out=v)
    if peak is not None:
        v = np.maximum(peak, v, out=peak)
    np.sqrt(v, out=s)
    np.divide(s, (1 - beta2**step) ** 0.5, out=s)
    np.add(s, eps, out=s)
    np.multiply(m, -(lr / (1 - beta1**step)), out=t)
    np.divide(t, s, out=t)
    np.add(p, t, out=p)
