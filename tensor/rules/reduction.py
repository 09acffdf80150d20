"""Rules of what combines the elements along dimensions."""

from __future__ import annotations

import math
from typing import Any

from ..shapes import reduced
from .table import filled, flat, vjp

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


def _std(
    xp: Any, g: Any, a: Any, out: Any, a_shape: Any, dim: Any, correction: float, keepdim: bool
) -> Any:
    still = out == 0
    g = xp.where(still, 0.0, g / (2 * xp.where(still, 1.0, out)))
    return _var(xp, g, a, a_shape, dim, correction, keepdim)


def _prod(xp: Any, g: Any, a: Any, a_shape: Any, dim: Any, keepdim: bool) -> Any:
    """Return ``g`` times the product of all other elements, found by halving: no division.

    Up a tree, the products of pairs, of pairs of pairs and so on; down it, what each of a pair is
    multiplied with is the other one, times what the pair is multiplied with.
    """
    whole = dim is None or not a_shape
    along = 0 if whole else dim % len(a_shape)
    row = xp.reshape(a, (-1,)) if whole else a
    g = xp.reshape(g, (*row.shape[:along], 1, *row.shape[along + 1 :]))
    if not row.shape[along]:
        return xp.reshape(row * g, a_shape)
    ahead = (slice(None),) * along
    pairs = []
    while row.shape[along] > 1:
        length = row.shape[along]
        if length % 2:
            one = filled(xp, xp.getitem(row, (*ahead, slice(1))), 1.0)
            row = xp.cat([row, one], along)
        left = xp.getitem(row, (*ahead, slice(0, None, 2)))
        right = xp.getitem(row, (*ahead, slice(1, None, 2)))
        pairs.append((left, right, length))
        row = left * right
    for left, right, length in reversed(pairs):
        both = xp.stack([g * right, g * left], along + 1)
        row = xp.reshape(both, (*g.shape[:along], 2 * g.shape[along], *g.shape[along + 1 :]))
        g = xp.getitem(row, (*ahead, slice(length)))
    return xp.reshape(g, a_shape)


def _exclusive(xp: Any, a: Any, dim: int) -> Any:
    """Return the products of the elements before each one along ``dim``."""
    return _shifted(xp, xp.cumprod(a, dim), dim, 1, 1.0)


def _shifted(xp: Any, a: Any, dim: int, by: int, fill: float) -> Any:
    """Return ``a`` moved along ``dim`` by a number of places, with ``fill`` where it was."""
    rank, length = len(a.shape), a.shape[dim]
    gap = min(abs(by), length)
    ahead = (slice(None),) * (dim % rank)
    kept = xp.getitem(a, (*ahead, slice(length - gap) if by > 0 else slice(gap, None)))
    filler = filled(xp, xp.getitem(a, (*ahead, slice(gap))), fill)
    return xp.cat([filler, kept] if by > 0 else [kept, filler], dim)


def _reversed(xp: Any, a: Any, dim: int) -> Any:
    ahead = (slice(None),) * (dim % len(a.shape))
    return xp.getitem(a, (*ahead, slice(None, None, -1)))


def _cumsum(xp: Any, g: Any, dim: int) -> Any:
    if not g.shape:
        return g
    return _reversed(xp, xp.cumsum(_reversed(xp, g, dim), dim), dim)


def _cumprod(xp: Any, g: Any, a: Any, a_shape: Any, dim: int) -> Any:
    """Return ``before * s``: the products of what stands before each element, and sums behind it.

    They are s[i] = g[i] + a[i + 1] s[i + 1], found by doubling: in each round s[i] covers twice as
    many elements, and factor[i] is the product that joins those to come.
    """
    if not a_shape:
        return g
    before, s, factor = _exclusive(xp, a, dim), g, _shifted(xp, a, dim, -1, 0.0)
    reach = 1
    while reach < a_shape[dim]:
        s = s + factor * _shifted(xp, s, dim, -reach, 0.0)
        factor = factor * _shifted(xp, factor, dim, -reach, 0.0)
        reach *= 2
    return before * s


def _norm(
    xp: Any, g: Any, a: Any, out: Any, a_shape: Any, p: float, dim: Any, keepdim: bool
) -> Any:
    if p == 0:
        return flat(xp, spread(xp, g, a_shape, dim, keepdim))
    if math.isinf(p):
        return _shared(xp, g, xp.abs(a), out, a_shape, dim, keepdim) * xp.sign(a)
    g = kept(xp, g, a_shape, dim, keepdim)
    if p == 1:
        return g * xp.sign(a)
    size = kept(xp, out, a_shape, dim, keepdim)
    ratio = xp.where(size == 0, 0.0, a / xp.where(size == 0, 1.0, size))
    if p == 2:
        return g * ratio
    flat_here = ratio == 0
    power = xp.pow(xp.where(flat_here, 1.0, xp.abs(ratio)), p - 1)
    return g * xp.where(flat_here, 0.0, xp.sign(a) * power)


def _shared(xp: Any, g: Any, a: Any, out: Any, a_shape: Any, dim: Any, keepdim: bool) -> Any:
    """Return ``g`` shared equally among the elements that equal the result over ``dim``."""
    top = kept(xp, out, a_shape, dim, keepdim)
    ties = xp.where(xp.isnan(top), xp.isnan(a), a == top)
    g = kept(xp, g, a_shape, dim, keepdim)
    g = g / xp.cast(xp.sum(ties, reduced(dim, len(a_shape)), True), g.dtype)
    return xp.where(ties, xp.expand(g, a_shape), 0.0)


def _max(xp: Any, g: Any, a: Any, out: Any, a_shape: Any, dim: Any, keepdim: bool) -> Any:
    return _extremum(xp, g, a, out, a_shape, dim, keepdim, xp.argmax)


def _min(xp: Any, g: Any, a: Any, out: Any, a_shape: Any, dim: Any, keepdim: bool) -> Any:
    return _extremum(xp, g, a, out, a_shape, dim, keepdim, xp.argmin)


def _extremum(
    xp: Any, g: Any, a: Any, out: Any, a_shape: Any, dim: Any, keepdim: bool, arg: Any
) -> Any:
    if dim is None:
        return _shared(xp, g, a, out, a_shape, dim, keepdim)
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
vjp("std", a=_std)
vjp("prod", a=_prod)
vjp("norm", a=_norm)
vjp("amax", a=_shared)
vjp("amin", a=_shared)
vjp("max", a=_max)
vjp("min", a=_min)
vjp("logsumexp", a=_logsumexp)
vjp("cumsum", a=_cumsum)
vjp("cumprod", a=_cumprod)
