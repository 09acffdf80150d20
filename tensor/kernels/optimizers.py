"""One step of an optimizer over flat arrays, in place and without allocating.

``sweep`` goes over 1-D arrays of one length and dtype (parameters, their
gradients, and the optimizer's state) block by block, so that a block is still
in the cache when the next ufunc comes to it. The functions after it each move
one block: ``p`` and the state are overwritten, ``g`` is not, and ``work`` is
scratch memory, two rows of the block's length.

The operations and their order are PyTorch's (those of its loop over single
tensors), so that trajectories agree to rounding. Rates are Python floats:
they do not promote float32.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np

from ..graph import Array
from .choice import accelerated

__all__ = ["BLOCK", "adagrad", "adam", "rmsprop", "sgd", "sweep", "workspace"]

# Elements per block. Few enough that the arrays of a block stay in the second-level cache, many
# enough that the cost of calling a ufunc is lost in its work.
BLOCK: Final = 2**15


def workspace(dtype: np.dtype[Any]) -> Array:
    """Return the scratch memory that a step needs, (3, BLOCK)."""
    return np.empty((3, BLOCK), dtype)


@accelerated
def sweep(
    update: Callable[..., None],
    param: Array,
    grad: Array,
    state: Mapping[str, Array],
    work: Array,
    *,
    lr: float,
    weight_decay: float,
    maximize: bool,
    decoupled: bool = False,
    **options: Any,
) -> None:
    """Take one step over flat arrays.

    Args:
        update: moves one block; takes the state by its names.
        param: the parameters.
        grad: their gradients.
        state: the optimizer's memory.
        work: what ``workspace`` returned.
        lr: step size.
        weight_decay: pull towards 0.
        maximize: go along the gradient instead of against it.
        decoupled: shrink the parameters themselves, rather than add to the gradient.
        options: passed on to ``update``.
    """
    for start in range(0, len(param), BLOCK):
        block = slice(start, start + BLOCK)
        p, g = param[block], grad[block]
        *spare, changed = work[:, : len(p)]
        if maximize:
            g = np.negative(g, out=changed)
        if weight_decay != 0 and decoupled:
            np.multiply(p, 1 - lr * weight_decay, out=p)
        elif weight_decay != 0:
            np.multiply(p, weight_decay, out=spare[0])
            g = np.add(g, spare[0], out=changed)
        parts = {name: array[block] for name, array in state.items()}
        update(p, g, spare, lr=lr, **parts, **options)


def _move(p: Array, numerator: Array, denominator: Array, factor: float, s: Array) -> None:
    """Add ``factor * numerator / denominator`` to ``p``."""
    np.multiply(numerator, factor, out=s)
    np.divide(s, denominator, out=s)
    np.add(p, s, out=p)


def _follow_square(v: Array, g: Array, keep: float, s: Array) -> None:
    """Set ``v`` to ``keep * v + (1 - keep) * g**2``."""
    np.multiply(v, keep, out=v)
    np.multiply(g, 1 - keep, out=s)
    np.multiply(s, g, out=s)
    np.add(v, s, out=v)


def _follow(m: Array, g: Array, keep: float, s: Array) -> None:
    """Set ``m`` to ``keep * m + (1 - keep) * g``, from whichever end is nearer."""
    np.subtract(g, m, out=s)
    if 1 - keep < 0.5:
        np.multiply(s, 1 - keep, out=s)
        np.add(m, s, out=m)
    else:
        np.multiply(s, 1 - (1 - keep), out=s)
        np.subtract(g, s, out=m)


def sgd(
    p: Array,
    g: Array,
    work: Array,
    *,
    momentum_buffer: Array | None = None,
    lr: float,
    momentum: float,
    dampening: float,
    nesterov: bool,
    step: int,
) -> None:
    """Move one block down the gradient; step 1 starts the momentum from the gradient."""
    s, m = work[0], momentum_buffer
    if m is not None:
        if step == 1:
            np.copyto(m, g)
        else:
            np.multiply(m, momentum, out=m)
            np.multiply(g, 1 - dampening, out=s)
            np.add(m, s, out=m)
        if nesterov:
            np.multiply(m, momentum, out=s)
            g = np.add(g, s, out=s)
        else:
            g = m
    np.multiply(g, -lr, out=s)
    np.add(p, s, out=p)


def adam(
    p: Array,
    g: Array,
    work: Array,
    *,
    exp_avg: Array,
    exp_avg_sq: Array,
    max_exp_avg_sq: Array | None = None,
    lr: float,
    betas: tuple[float, float],
    eps: float,
    step: int,
) -> None:
    """Move one block as Adam does in its step number ``step``, from 1."""
    (beta1, beta2), (s, t), v = betas, work, exp_avg_sq
    _follow(exp_avg, g, beta1, s)
    _follow_square(v, g, beta2, s)
    if max_exp_avg_sq is not None:
        v = np.maximum(max_exp_avg_sq, v, out=max_exp_avg_sq)
    np.sqrt(v, out=s)
    np.divide(s, (1 - beta2**step) ** 0.5, out=s)
    np.add(s, eps, out=s)
    _move(p, exp_avg, s, -(lr / (1 - beta1**step)), t)


def rmsprop(
    p: Array,
    g: Array,
    work: Array,
    *,
    square_avg: Array,
    grad_avg: Array | None = None,
    momentum_buffer: Array | None = None,
    lr: float,
    alpha: float,
    eps: float,
    momentum: float,
) -> None:
    """Move one block along its gradient over the root of the mean square of past ones."""
    s, t = work
    _follow_square(square_avg, g, alpha, s)
    if grad_avg is None:
        np.sqrt(square_avg, out=s)
    else:  # the root of the variance
        _follow(grad_avg, g, alpha, s)
        np.multiply(grad_avg, grad_avg, out=s)
        np.subtract(square_avg, s, out=s)
        np.sqrt(s, out=s)
    np.add(s, eps, out=s)
    if momentum_buffer is None:
        _move(p, g, s, -lr, t)
    else:
        np.multiply(momentum_buffer, momentum, out=momentum_buffer)
        _move(momentum_buffer, g, s, 1.0, t)
        np.multiply(momentum_buffer, -lr, out=t)
        np.add(p, t, out=p)


def adagrad(
    p: Array,
    g: Array,
    work: Array,
    *,
    sum: Array,
    lr: float,
    lr_decay: float,
    eps: float,
    step: int,
) -> None:
    """Move one block along its gradient over the root of the sum of all squares so far."""
    s, t = work
    np.multiply(g, g, out=s)
    np.add(sum, s, out=sum)
    np.sqrt(sum, out=s)
    np.add(s, eps, out=s)
    _move(p, g, s, -(lr / (1 + (step - 1) * lr_decay)), t)
