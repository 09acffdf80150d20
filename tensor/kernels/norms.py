"""Normalisation, a block of rows or samples at a time, so that what is between stays in the cache.

What is returned is an array of its own and no view, so that the engine may add to it. Layer norm,
RMS norm and group norm are one: an array ``(N, G, C, S)`` is normalised over its last
two dimensions, and weighted and shifted by ``(G, C)``. Batch norm sees ``(N, C, S)`` and is
normalised by statistics that it is given.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from ..graph import Array
from ..shapes import size
from .choice import accelerated
from .half import in_single

__all__ = [
    "batch_moments",
    "batch_moments_backward",
    "batch_norm",
    "batch_norm_backward",
    "group_norm",
    "group_norm_backward",
    "layer_norm",
    "layer_norm_backward",
    "layer_norm_backward_into",
    "layer_norm_into",
    "layer_norm_room",
    "rms_norm",
    "rms_norm_backward",
]

# A block takes about this many bytes: it, its gradient and two temporaries fit the second-level
# cache.
BLOCK: Final = 2**18


def _blocks(a: Array) -> Iterator[slice]:
    """Yield slices of the first dimension that together are all of it."""
    width = math.prod(a.shape[1:]) * a.itemsize
    step = max(1, BLOCK // max(1, width))
    for start in range(0, len(a), step):
        yield slice(start, min(start + step, len(a)))


# Over rows: layer norm, RMS norm, group norm.


def _row_means(a: Array, b: Array | None = None) -> Array:
    """Return the mean of ``a``, or of ``a b``, over the last two dimensions, as (N, G, 1, 1)."""
    rows = a.reshape(*a.shape[:2], a.shape[2] * a.shape[3])
    # Products of vectors are the fastest sums of short rows.
    other = np.ones(rows.shape[2], a.dtype) if b is None else b.reshape(rows.shape)
    total: Array = np.vecdot(rows, other)
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

    @property
    def room(self) -> tuple[int, int, int, int, int]:
        """The shape of the memory that ``backward`` works in: that of two blocks."""
        width = math.prod(self.shape[1:]) * 8
        return (2, min(self.shape[0], max(1, BLOCK // max(1, width // 2))), *self.shape[1:])

    def _normalize(self, a: Array, out: Array) -> Array:
        """Write ``(a - mean) / sqrt(var + eps)`` to ``out`` and return the factor."""
        if self.centred:
            a = np.subtract(a, _row_means(a), out=out)
        variance = _row_means(a, a)
        scale = np.divide(1, np.sqrt(variance + self.eps)).astype(a.dtype, copy=False)
        np.multiply(a, scale, out=out)
        return scale

    def normalized(
        self, a: Array, weight: Array | None, bias: Array | None, out: Array | None = None
    ) -> Array:
        """Return ``a`` normalised, weighted and shifted."""
        if out is None:
            out = np.empty(a.shape, a.dtype)
        rows, results = a.reshape(self.shape), out.reshape(self.shape)
        for part in _blocks(rows):
            block = results[part]
            self._normalize(rows[part], block)
            if weight is not None:
                np.multiply(block, weight.reshape(self.affine), out=block)
            if bias is not None:
                np.add(block, bias.reshape(self.affine), out=block)
        return out

    def backward(
        self,
        g: Array,
        needs: Sequence[bool],
        a: Array,
        weight: Array | None,
        affine: Any,
        out: Sequence[Array | None] | None = None,
        memory: Array | None = None,
    ) -> tuple[Any, Any, Any]:
        """Return the gradients of operand, weight and bias, the latter two of shape ``affine``.

        With ``n`` for what is normalised and ``h = g weight``, that of the operand is
        ``scale (h - mean(h) - n mean(h n))``; the normalised values are recomputed, not kept.
        ``out`` is where to write them, and ``memory`` what ``room`` asks for.
        """
        if out is None:
            shapes = a.shape, affine, affine
            out = [
                np.empty(shape, g.dtype) if need else None
                for shape, need in zip(shapes, needs, strict=True)
            ]
        for_a, for_weight, for_bias = out
        for total in (for_weight, for_bias):
            if total is not None:
                total.fill(0)
        g, rows = g.reshape(self.shape), a.reshape(self.shape)
        gradients = None if for_a is None else for_a.reshape(self.shape)
        # Memory that is used again is in the cache.
        memory = np.empty(self.room, a.dtype) if memory is None else memory
        for part in _blocks(rows):
            block = g[part]
            normal, weighted = (array[: len(block)] for array in memory)
            if for_bias is not None:
                for_bias += np.einsum("ngcs->gc", block).reshape(affine)
            if gradients is None and for_weight is None:
                continue
            scale = self._normalize(rows[part], normal)
            if for_weight is not None:
                along = np.einsum("ngcs,ngcs->gc", block, normal)
                for_weight += along.reshape(affine)
            if gradients is None:
                continue
            h = block
            if weight is not None:
                h = np.multiply(block, weight.reshape(self.affine), out=weighted)
            np.multiply(normal, _row_means(h, normal), out=normal)
            gradient = np.subtract(h, normal, out=gradients[part])
            if self.centred:
                np.subtract(gradient, _row_means(h), out=gradient)
            np.multiply(gradient, scale, out=gradient)
        return for_a, for_weight, for_bias


def _of_layer(a: Array, shape: Sequence[int], eps: float, centred: bool) -> _Rows:
    rows = math.prod(a.shape[: a.ndim - len(shape)])
    return _Rows((rows, 1, math.prod(shape), 1), centred, eps)


@accelerated
def normalize_rows(
    a: Array,
    weight: Array | None,
    bias: Array | None,
    shape: Sequence[int],
    eps: float,
    centred: bool,
) -> Any:
    """Return layer norm over the last dimensions, or RMS norm if it is not centred."""
    return _of_layer(a, shape, eps, centred).normalized(a, weight, bias)


@accelerated
def normalize_rows_backward(
    g: Array,
    needs: Sequence[bool],
    a: Array,
    weight: Array | None,
    shape: Sequence[int],
    eps: float,
    centred: bool,
) -> tuple[Any, Any, Any]:
    """Return the gradients of operand, weight and bias."""
    return _of_layer(a, shape, eps, centred).backward(g, needs, a, weight, shape)


def _of_groups(a: Array, groups: int, eps: float) -> _Rows:
    each = a.shape[1] // groups
    return _Rows((len(a), groups, each, math.prod(a.shape[2:])), True, eps)


@in_single
def layer_norm(
    a: Array, weight: Array | None, bias: Array | None, shape: Sequence[int], eps: float
) -> Any:
    """Return layer norm over the last dimensions, which are ``shape``."""
    return normalize_rows(a, weight, bias, shape, eps, True)


@in_single
def layer_norm_backward(
    g: Array,
    needs: Sequence[bool],
    a: Array,
    weight: Array | None,
    normalized_shape: Sequence[int] | int,
    eps: float,
) -> tuple[Any, Any, Any]:
    """Return the gradients of operand, weight and bias."""
    return normalize_rows_backward(g, needs, a, weight, size(normalized_shape), eps, True)


def layer_norm_into(
    out: Array,
    a: Array,
    weight: Array | None,
    bias: Array | None,
    shape: Sequence[int],
    eps: float,
) -> None:
    """Write layer norm over the last dimensions, which are ``shape``, to ``out``."""
    _of_layer(a, shape, eps, True).normalized(a, weight, bias, out)


def layer_norm_backward_into(
    out: Sequence[Array | None],
    memory: Array,
    g: Array,
    a: Array,
    weight: Array | None,
    shape: Sequence[int],
    eps: float,
) -> None:
    """Write the gradients of operand, weight and bias to ``out``, those that are not None there."""
    needs = [array is not None for array in out]
    _of_layer(a, shape, eps, True).backward(g, needs, a, weight, shape, out, memory)


def layer_norm_room(a: Array, shape: Sequence[int]) -> tuple[int, ...]:
    """Return the shape of the memory that ``layer_norm_backward_into`` is given."""
    return _of_layer(a, shape, 0.0, True).room


@in_single
def rms_norm(a: Array, weight: Array | None, shape: Sequence[int], eps: float) -> Any:
    """Return RMS norm over the last dimensions, which are ``shape``."""
    return normalize_rows(a, weight, None, shape, eps, False)


@in_single
def rms_norm_backward(
    g: Array,
    needs: Sequence[bool],
    a: Array,
    weight: Array | None,
    shape: Sequence[int],
    eps: float,
) -> tuple[Any, Any]:
    """Return the gradients of operand and weight."""
    grads: tuple[Any, ...] = normalize_rows_backward(
        g, (*needs, False), a, weight, shape, eps, False
    )
    return grads[0], grads[1]


@in_single
def group_norm(a: Array, weight: Array | None, bias: Array | None, groups: int, eps: float) -> Any:
    """Return group norm of (N, C, ...) over ``groups`` of its channels."""
    return _of_groups(a, groups, eps).normalized(a, weight, bias)


@in_single
def group_norm_backward(
    g: Array, needs: Sequence[bool], a: Array, weight: Array | None, num_groups: int, eps: float
) -> tuple[Any, Any, Any]:
    """Return the gradients of operand, weight and bias."""
    return _of_groups(a, num_groups, eps).backward(g, needs, a, weight, a.shape[1])


# Over a batch.


def _channels(a: Array) -> Array:
    """Return (N, C, ...) as (N, C, S)."""
    return a.reshape(*a.shape[:2], math.prod(a.shape[2:]))


def _sum(a: Array, b: Array | None = None) -> Array:
    """Return the sum of ``a``, or of ``a b``, over every channel, as (C, 1)."""
    total: Array = np.einsum("ncs->c", a) if b is None else np.einsum("ncs,ncs->c", a, b)
    return total[:, None]


def _deviations(a: Array, mean: Array) -> Iterator[tuple[slice, Array]]:
    """Yield blocks of ``a - mean``, each in the memory of the one before."""
    memory = np.empty_like(a[next(_blocks(a), slice(0, 0))])
    for part in _blocks(a):
        yield part, np.subtract(a[part], mean, out=memory[: len(a[part])])


@in_single
def batch_moments(a: Array) -> Any:
    """Return the mean and the biased variance of every channel of (N, C, ...), as (2, C)."""
    a = _channels(a)
    count = a.dtype.type(len(a) * a.shape[2])
    mean = _sum(a) / count
    total = np.zeros_like(mean)
    for _, deviation in _deviations(a, mean):
        total += _sum(deviation, deviation)
    return np.stack([mean[:, 0], total[:, 0] / count])


@in_single
def batch_moments_backward(g: Array, needs: Sequence[bool], a: Array, out: Array) -> tuple[Any]:
    """Return ``(g[0] + 2 (a - mean) g[1]) / n``."""
    rows = _channels(a)
    mean, (for_mean, for_variance) = out[0, :, None], g[:, :, None]
    count = a.dtype.type(len(rows) * rows.shape[2])
    slope, shift = for_variance * 2 / count, for_mean / count
    gradient = np.empty(a.shape, g.dtype)
    for part in _blocks(rows):
        block = gradient.reshape(rows.shape)[part]
        np.subtract(rows[part], mean, out=block)
        np.multiply(block, slope, out=block)
        np.add(block, shift, out=block)
    return (gradient,)


def _scale(statistics: Array, eps: float) -> tuple[Array, Array]:
    """Return the mean and ``1 / sqrt(var + eps)``, each as (C, 1)."""
    mean, variance = statistics[:, :, None]
    return mean, np.divide(1, np.sqrt(variance + eps)).astype(mean.dtype, copy=False)


@in_single
def batch_norm(
    a: Array, statistics: Array, weight: Array | None, bias: Array | None, eps: float
) -> Any:
    """Return ``(a - mean) / sqrt(var + eps) * weight + bias`` by channel."""
    rows = _channels(a)
    mean, scale = _scale(statistics, eps)
    if weight is not None:
        scale = scale * weight[:, None]
    out = np.empty(a.shape, a.dtype)
    for part in _blocks(rows):
        block = out.reshape(rows.shape)[part]
        np.subtract(rows[part], mean, out=block)
        np.multiply(block, scale, out=block)
        if bias is not None:
            np.add(block, bias[:, None], out=block)
    return out


@in_single
def batch_norm_backward(
    g: Array,
    needs: Sequence[bool],
    a: Array,
    statistics: Array,
    weight: Array | None,
    eps: float,
) -> tuple[Any, Any, Any, Any]:
    """Return the gradients of operand, statistics, weight and bias, which share two sums."""
    for_a = np.empty(a.shape, g.dtype) if needs[0] else None
    g, rows = _channels(g), _channels(a)
    mean, scale = _scale(statistics, eps)
    factor = scale if weight is None else scale * weight[:, None]
    total, along = np.zeros_like(mean), np.zeros_like(mean)  # of g, and of g (a - mean)
    if needs[1] or needs[2]:
        for part, deviation in _deviations(rows, mean):
            along += _sum(g[part], deviation)
    if needs[1] or needs[3]:
        total += _sum(g)
    if for_a is not None:
        np.multiply(g, factor, out=for_a.reshape(rows.shape))
    for_variance = along * factor * scale * scale * g.dtype.type(-0.5)
    return (
        for_a,
        np.stack([-total[:, 0] * factor[:, 0], for_variance[:, 0]]) if needs[1] else None,
        (along * scale)[:, 0] if needs[2] else None,
        total[:, 0] if needs[3] else None,
    )
