"""Rules of what combines the elements along dimensions."""

from __future__ import annotations

import math
from typing import Any

from ..shapes import reduced
from .table import vjp

__all__ = ["count", "kept", "spread"]


def spread(
    xp: Any, g: Any, a_shape: tuple[int, ...], dim: int | tuple[int, ...] | None, keepdim: bool
) -> Any:
    """Return ``g``, the gradient of a reduction over ``dim``, expanded to the operand's shape."""
    return xp.expand(kept(xp, g, a_shape, dim, keepdim), a_shape)


def kept(
    xp: Any, x: Any, shape: tuple[int, ...], dim: int | tuple[int, ...] | None, keepdim: bool
) -> Any:
    """Return ``x``, the result of a reduction over ``dim``, with every reduced length kept as 1."""
    if keepdim:
        return x
    over = reduced(dim, len(shape))
    return xp.reshape(x, tuple(1 if i in over else n for i, n in enumerate(shape)))


def count(shape: tuple[int, ...], dim: int | tuple[int, ...] | None) -> int:
    """Return how many elements go into one element of a reduction over ``dim``."""
    return math.prod(shape[d] for d in reduced(dim, len(shape)))


def _mean(xp: Any, g: Any, a_shape: Any, dim: Any, keepdim: bool) -> Any:
    # Of no elements there is no gradient to scale.
    return spread(xp, g / max(count(a_shape, dim), 1), a_shape, dim, keepdim)


def _var(xp: Any, g: Any, a: Any, a_shape: Any, dim: Any, correction: float, keepdim: bool) -> Any:
    freedom = count(a_shape, dim) - correction
    scale = 2 / freedom if freedom > 0 else math.inf
    centred = a - xp.mean(a, dim, True)
    return spread(xp, g, a_shape, dim, keepdim) * (scale * centred)


def _max(xp: Any, g: Any, a: Any, out: Any, a_shape: Any, dim: Any, keepdim: bool) -> Any:
    return _extremum(xp, g, a, out, a_shape, dim, keepdim, xp.argmax)


def _min(xp: Any, g: Any, a: Any, out: Any, a_shape: Any, dim: Any, keepdim: bool) -> Any:
    return _extremum(xp, g, a, out, a_shape, dim, keepdim, xp.argmin)


def _extremum(
    xp: Any, g: Any, a: Any, out: Any, a_shape: Any, dim: Any, keepdim: bool, arg: Any
) -> Any:
    if dim is None:
        ties = xp.where(xp.isnan(out), xp.isnan(a), a == out)
        g = g / xp.cast(xp.sum(ties), g.dtype)
        return xp.where(ties, spread(xp, g, a_shape, dim, keepdim), 0.0)
    if not a_shape:
        return g
    wins = xp.one_hot(arg(a, dim), a_shape[dim]) == 1  # the classes are the last dimension
    order = list(range(len(a_shape) - 1))
    order.insert(dim % len(a_shape), len(a_shape) - 1)
    return xp.where(xp.permute(wins, tuple(order)), spread(xp, g, a_shape, dim, keepdim), 0.0)


def _logsumexp(xp: Any, g: Any, a: Any, out: Any, a_shape: Any, dim: Any, keepdim: bool) -> Any:
    total = kept(xp, out, a_shape, dim, keepdim)
    # Of a row that is -inf throughout, every probability is 0.
    share = xp.exp(a - xp.where(total == -math.inf, 0.0, total))
    return kept(xp, g, a_shape, dim, keepdim) * share


vjp("sum", a=spread)
vjp("mean", a=_mean)
vjp("var", a=_var)
vjp("max", a=_max)
vjp("min", a=_min)
vjp("logsumexp", a=_logsumexp)
