"""Normalisation, a block of rows or samples at a time, so that what is between stays in the cache.

What is returned is an array of its own and no view, so that the engine may add to it. Layer norm,
RMS norm and group norm are one: an array ``(N, G, C, S)`` is normalised over its last
two dimensions, and weighted and shifted by ``(G, C)``. Batch norm sees ``(N, C, S)`` and is
normalised by statistics that it is given.

Results are written to ``into`` if that is given, and what is between to memory from ``room``.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np

from ..graph import Array
from ..shapes import size
from .choice import accelerated
from .half import in_single
from .room import Memory, fresh, zeros

__all__ = [
    "batch_moments",
    "batch_moments_backward",
    "batch_norm",
    "batch_norm_backward",
    "group_norm",
    "group_norm_backward",
    "layer_norm",
    "layer_norm_backward",
    "rms_norm",
    "rms_norm_backward",
    "wanted",
]

# Where gradients are to be written, None for those that are not wanted.
Places: TypeAlias = Sequence[Array | None]

# A block takes about this many bytes: it, its gradient and two temporaries fit the second-level
# cache.
BLOCK: Final = 2**18


def _blocks(a: Array) -> Iterator[slice]:
    """Yield slices of the first dimension that together are all of it."""
    width = math.prod(a.shape[1:]) * a.itemsize
    step = max(1, BLOCK // max(1, width))
    for start in range(0, len(a), step):
        yield slice(start, min(start + step, len(a)))


def wanted(
    needs: Sequence[bool], shapes: Sequence[tuple[int, ...]], dtype: Any, into: Places | None
) -> Places:
    """Return where to write gradients: to ``into``, or to arrays of their own where need is."""
    if into is not None:
        return into
    return [
        np.empty(shape, dtype) if need else None for shape, need in zip(shapes, needs, strict=True)
    ]


# Over rows: layer norm, RMS norm, group norm.


def _row_means(name: str, room: Memory, a: Array, b: Array | None = None) -> Array:
    """Return the mean of ``a``, or of ``a b``, over the last two dimensions, as (N, G, 1, 1)."""
    rows = a.reshape(*a.shape[:2], a.shape[2] * a.shape[3])
    if b is None:  # products of vectors are the fastest sums of short rows
        other = room("ones", rows.shape[2:], a.dtype)
        other.fill(1)
    else:
        other = b.reshape(rows.shape)
    total = np.vecdot(rows, other, out=room(name, a.shape[:2], a.dtype))
    total /= total.dtype.type(rows.shape[2])
    return total[..., None, None]


class _Rows(NamedTuple):
    """How an operand is laid out as (N, G, C, S)."""

    shape: tuple[int, int, int, int]
    centred: bool
    eps: float

    @property
    def affine(self) -> tuple[int, int, int]:
        """The shape in which a weight or bias of G times C numbers is broadcast."""
        return (*self.shape[1:3], 1)

    def normalize(self, a: Array, out: Array, room: Memory) -> Array:
        """Write ``(a - mean) / sqrt(var + eps)`` to ``out`` and return the factor."""
        if self.centred:
            a = np.subtract(a, _row_means("mean", room, a), out=out)
        scale = _row_means("scale", room, a, a)
        scale += self.eps
        np.divide(1, np.sqrt(scale, out=scale), out=scale)
        np.multiply(a, scale, out=out)
        return scale


@accelerated
def normalize_rows(
    a: Array,
    weight: Array | None,
    bias: Array | None,
    shape: tuple[int, int, int, int],
    centred: bool,
    eps: float,
    into: Array | None,
    room: Memory,
) -> Any:
    """Return ``a``, seen as ``shape``, normalised, weighted and shifted."""
    out = np.empty(a.shape, a.dtype) if into is None else into
    form = _Rows(shape, centred, eps)
    rows, results = a.reshape(shape), out.reshape(shape)
    for part in _blocks(rows):
        block = results[part]
        form.normalize(rows[part], block, room)
        if weight is not None:
            np.multiply(block, weight.reshape(form.affine), out=block)
        if bias is not None:
            np.add(block, bias.reshape(form.affine), out=block)
    return out


@accelerated
def normalize_rows_backward(
    g: Array,
    needs: Sequence[bool],
    a: Array,
    weight: Array | None,
    affine: tuple[int, ...],
    shape: tuple[int, int, int, int],
    centred: bool,
    eps: float,
    into: Places | None,
    room: Memory,
) -> tuple[Any, Any, Any]:
    """Return the gradients of operand, weight and bias, the latter two of shape ``affine``.

    With ``n`` for what is normalised and ``h = g weight``, that of the operand is
    ``scale (h - mean(h) - n mean(h n))``; the normalised values are recomputed, not kept.
    """
    out = wanted(needs, (a.shape, affine, affine), g.dtype, into)
    for_a, for_weight, for_bias = out
    for total in (for_weight, for_bias):
        if total is not None:
            total.fill(0)
    form = _Rows(shape, centred, eps)
    g, rows = g.reshape(shape), a.reshape(shape)
    gradients = None if for_a is None else for_a.reshape(shape)
    for part in _blocks(rows):
        block = g[part]
        each = room("each", shape[1:3], g.dtype)
        if for_bias is not None:
            for_bias += np.einsum("ngcs->gc", block, out=each).reshape(affine)
        if gradients is None and for_weight is None:
            continue
        normal = room("normal", block.shape, a.dtype)
        scale = form.normalize(rows[part], normal, room)
        if for_weight is not None:
            for_weight += np.einsum("ngcs,ngcs->gc", block, normal, out=each).reshape(affine)
        if gradients is None:
            continue
        h = block
        if weight is not None:
            weighted = room("weighted", block.shape, a.dtype)
            h = np.multiply(block, weight.reshape(form.affine), out=weighted)
        np.multiply(normal, _row_means("mean", room, h, normal), out=normal)
        gradient = np.subtract(h, normal, out=gradients[part])
        if centred:
            np.subtract(gradient, _row_means("mean", room, h), out=gradient)
        np.multiply(gradient, scale, out=gradient)
    return for_a, for_weight, for_bias


def _of_layer(a: Array, shape: Sequence[int]) -> tuple[int, int, int, int]:
    return math.prod(a.shape[: a.ndim - len(shape)]), 1, math.prod(shape), 1


def _of_groups(a: Array, groups: int) -> tuple[int, int, int, int]:
    return len(a), groups, a.shape[1] // groups, math.prod(a.shape[2:])


@in_single
def layer_norm(
    a: Array,
    weight: Array | None,
    bias: Array | None,
    shape: Sequence[int],
    eps: float,
    into: Array | None = None,
    room: Memory = fresh,
) -> Any:
    """Return layer norm over the last dimensions, which are ``shape``."""
    return normalize_rows(a, weight, bias, _of_layer(a, shape), True, eps, into, room)


@in_single
def layer_norm_backward(
    g: Array,
    needs: Sequence[bool],
    a: Array,
    weight: Array | None,
    normalized_shape: Sequence[int] | int,
    eps: float,
    into: Places | None = None,
    room: Memory = fresh,
) -> tuple[Any, Any, Any]:
    """Return the gradients of operand, weight and bias."""
    affine = size(normalized_shape)
    form = _of_layer(a, affine)
    return normalize_rows_backward(g, needs, a, weight, affine, form, True, eps, into, room)


@in_single
def rms_norm(
    a: Array,
    weight: Array | None,
    shape: Sequence[int],
    eps: float,
    into: Array | None = None,
    room: Memory = fresh,
) -> Any:
    """Return RMS norm over the last dimensions, which are ``shape``."""
    return normalize_rows(a, weight, None, _of_layer(a, shape), False, eps, into, room)


@in_single
def rms_norm_backward(
    g: Array,
    needs: Sequence[bool],
    a: Array,
    weight: Array | None,
    shape: Sequence[int],
    eps: float,
    into: Places | None = None,
    room: Memory = fresh,
) -> tuple[Any, Any]:
    """Return the gradients of operand and weight."""
    three = None if into is None else (*into, None)
    affine, form = tuple(shape), _of_layer(a, shape)
    grads: tuple[Any, ...] = normalize_rows_backward(
        g, (*needs, False), a, weight, affine, form, False, eps, three, room
    )
    return grads[0], grads[1]


@in_single
def group_norm(
    a: Array,
    weight: Array | None,
    bias: Array | None,
    groups: int,
    eps: float,
    into: Array | None = None,
    room: Memory = fresh,
) -> Any:
    """Return group norm of (N, C, ...) over ``groups`` of its channels."""
    return normalize_rows(a, weight, bias, _of_groups(a, groups), True, eps, into, room)


@in_single
def group_norm_backward(
    g: Array,
    needs: Sequence[bool],
    a: Array,
    weight: Array | None,
    num_groups: int,
    eps: float,
    into: Places | None = None,
    room: Memory = fresh,
) -> tuple[Any, Any, Any]:
    """Return the gradients of operand, weight and bias."""
    affine, form = (a.shape[1],), _of_groups(a, num_groups)
    return normalize_rows_backward(g, needs, a, weight, affine, form, True, eps, into, room)


# Over a batch.


def _channels(a: Array) -> Array:
    """Return (N, C, ...) as (N, C, S)."""
    return a.reshape(*a.shape[:2], math.prod(a.shape[2:]))


def _deviations(a: Array, mean: Array, room: Memory) -> Iterator[tuple[slice, Array]]:
    """Yield blocks of ``a - mean``, each in the memory of the one before."""
    memory = room("deviation", a[next(_blocks(a), slice(0, 0))].shape, a.dtype)
    for part in _blocks(a):
        yield part, np.subtract(a[part], mean, out=memory[: len(a[part])])


@in_single
@accelerated
def batch_moments(a: Array, into: Array | None = None, room: Memory = fresh) -> Any:
    """Return the mean and the biased variance of every channel of (N, C, ...), as (2, C)."""
    out = np.empty((2, a.shape[1]), a.dtype) if into is None else into
    a = _channels(a)
    count = a.dtype.type(len(a) * a.shape[2])
    mean, variance = out
    np.einsum("ncs->c", a, out=mean)
    mean /= count
    variance.fill(0)
    each = room("each", mean.shape, a.dtype)
    for _, deviation in _deviations(a, mean[:, None], room):
        variance += np.einsum("ncs,ncs->c", deviation, deviation, out=each)
    variance /= count
    return out


@in_single
@accelerated
def batch_moments_backward(
    g: Array,
    needs: Sequence[bool],
    a: Array,
    out: Array,
    into: Places | None = None,
    room: Memory = fresh,
) -> tuple[Any]:
    """Return ``(g[0] + 2 (a - mean) g[1]) / n``."""
    (gradient,) = wanted((True,), (a.shape,), g.dtype, into)
    assert gradient is not None
    rows = _channels(a)
    mean, (for_mean, for_variance) = out[0, :, None], g[:, :, None]
    count = a.dtype.type(len(rows) * rows.shape[2])
    slope, shift = for_variance * 2 / count, for_mean / count
    results = gradient.reshape(rows.shape)
    for part in _blocks(rows):
        block = results[part]
        np.subtract(rows[part], mean, out=block)
        np.multiply(block, slope, out=block)
        np.add(block, shift, out=block)
    return (gradient,)


def _scale(statistics: Array, eps: float, room: Memory) -> tuple[Array, Array]:
    """Return the mean and ``1 / sqrt(var + eps)``, each as (C, 1)."""
    mean, variance = statistics[:, :, None]
    scale = np.add(variance, eps, out=room("scale", variance.shape, variance.dtype))
    return mean, np.divide(1, np.sqrt(scale, out=scale), out=scale)


@in_single
@accelerated
def batch_norm(
    a: Array,
    statistics: Array,
    weight: Array | None,
    bias: Array | None,
    eps: float,
    into: Array | None = None,
    room: Memory = fresh,
) -> Any:
    """Return ``(a - mean) / sqrt(var + eps) * weight + bias`` by channel."""
    rows = _channels(a)
    mean, scale = _scale(statistics, eps, room)
    if weight is not None:
        np.multiply(scale, weight[:, None], out=scale)
    out = np.empty(a.shape, a.dtype) if into is None else into
    results = out.reshape(rows.shape)
    for part in _blocks(rows):
        block = results[part]
        np.subtract(rows[part], mean, out=block)
        np.multiply(block, scale, out=block)
        if bias is not None:
            np.add(block, bias[:, None], out=block)
    return out


@in_single
@accelerated
def batch_norm_backward(
    g: Array,
    needs: Sequence[bool],
    a: Array,
    statistics: Array,
    weight: Array | None,
    eps: float,
    into: Places | None = None,
    room: Memory = fresh,
) -> tuple[Any, Any, Any, Any]:
    """Return the gradients of operand, statistics, weight and bias, which share two sums."""
    shapes = a.shape, statistics.shape, a.shape[1:2], a.shape[1:2]
    out = wanted(needs, shapes, g.dtype, into)
    for_a, for_statistics, for_weight, for_bias = out
    g, rows = _channels(g), _channels(a)
    mean, scale = _scale(statistics, eps, room)
    factor = room("factor", scale.shape, scale.dtype)
    np.multiply(scale, 1 if weight is None else weight[:, None], out=factor)
    # Sums of g, and of g (a - mean).
    total, along = (zeros(room, name, a.shape[1:2], g.dtype) for name in ("total", "along"))
    each = room("each", total.shape, g.dtype)
    if for_statistics is not None or for_weight is not None:
        for part, deviation in _deviations(rows, mean, room):
            along += np.einsum("ncs,ncs->c", g[part], deviation, out=each)
    if for_statistics is not None or for_bias is not None:
        np.einsum("ncs->c", g, out=total)
    if for_a is not None:
        np.multiply(g, factor, out=for_a.reshape(rows.shape))
    scale, factor = scale[:, 0], factor[:, 0]
    if for_bias is not None:
        np.copyto(for_bias, total)
    if for_weight is not None:
        np.multiply(along, scale, out=for_weight)
    if for_statistics is not None:
        for_mean, for_variance = for_statistics
        np.multiply(np.negative(total, out=total), factor, out=for_mean)
        np.multiply(along, factor, out=for_variance)
        for constant in (scale, scale, g.dtype.type(-0.5)):
            np.multiply(for_variance, constant, out=for_variance)
    return for_a, for_statistics, for_weight, for_bias
