"""Loops over rows and channels that numba compiles: the twins of ``norms``.

A row is read two or three times, while it is in the first-level cache, and nothing is kept in
between. See ``jit`` for how loops are compiled; here float64 rows are summed in any order too.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..graph import Array
from . import jit
from .compiled import exact, summing
from .norms import Places, wanted
from .room import Memory, contiguous, fresh

__all__ = [
    "batch_moments",
    "batch_moments_backward",
    "batch_norm",
    "batch_norm_backward",
    "normalize_rows",
    "normalize_rows_backward",
]


def _takes(a: Array, *others: Array | None) -> bool:
    """Return whether there is a loop for operands of these dtypes, and something to do."""
    alike = all(b is None or b.dtype == a.dtype for b in others)
    return a.size > 0 and a.dtype in (jit.SINGLE, jit.DOUBLE) and alike


def _matrix(room: Memory, name: str, a: Array, rows: int) -> Array:
    return contiguous(room, name, a).reshape(rows, a.size // rows)


def _places(
    room: Memory,
    shapes: Sequence[tuple[int, ...]],
    dtype: Any,
    needs: Sequence[bool],
    into: Places | None,
) -> tuple[Places, list[Array]]:
    """Return where gradients go, and the same with scratch memory for those not wanted."""
    out = wanted(needs, shapes, dtype, into)
    full = [
        room(f"unwanted{i}", shape, dtype) if place is None else place
        for i, (place, shape) in enumerate(zip(out, shapes, strict=True))
    ]
    return out, full


# Rows that are normalised by themselves. Row i of a matrix is of group i % G; it has C channels of
# S numbers, each of which has one weight.


@summing
def _moments(a: Any, i: Any, centred: Any, eps: Any) -> Any:
    """Return the mean of a row and the factor that brings its deviations to size 1."""
    zero, one = a.dtype.type(0), a.dtype.type(1)
    width = a.shape[1]
    count = a.dtype.type(width)
    mean, square = zero, zero
    if centred:
        for j in range(width):
            mean += a[i, j]
        mean /= count
    for j in range(width):
        square += (a[i, j] - mean) * (a[i, j] - mean)
    return mean, one / np.sqrt(square / count + eps)


@summing
def _normalize_loop(a: Any, weight: Any, bias: Any, centred: Any, eps: Any, out: Any) -> None:
    """Normalise rows whose channels are single numbers; ``weight`` and ``bias`` are (G, C)."""
    k = 0
    for i in range(a.shape[0]):
        mean, scale = _moments(a, i, centred, eps)
        for j in range(a.shape[1]):
            x = (a[i, j] - mean) * scale
            if weight is not None:
                x = x * weight[k, j]
            if bias is not None:
                x = x + bias[k, j]
            out[i, j] = x
        if weight is not None:
            k = (k + 1) % weight.shape[0]
        elif bias is not None:
            k = (k + 1) % bias.shape[0]


@summing
def _normalize_planes_loop(
    a: Any, weight: Any, bias: Any, channels: Any, centred: Any, eps: Any, out: Any
) -> None:
    """Normalise rows of ``channels[0]`` groups of ``channels[1]`` channels each."""
    zero, one = a.dtype.type(0), a.dtype.type(1)
    groups, each = channels
    width = a.shape[1] // each
    for i in range(a.shape[0]):
        mean, scale = _moments(a, i, centred, eps)
        k = i % groups
        for c in range(each):
            w, b = one, zero
            if weight is not None:
                w = weight[k, c]
            if bias is not None:
                b = bias[k, c]
            for j in range(c * width, c * width + width):
                out[i, j] = (a[i, j] - mean) * scale * w + b


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
    if not _takes(a, weight, bias):
        return NotImplemented
    out = np.empty(a.shape, a.dtype) if into is None else into
    samples, groups, each, width = shape
    rows = _matrix(room, "rows", a, samples * groups)
    weight, bias = (
        None if b is None else _matrix(room, name, b, groups)
        for name, b in (("weight", weight), ("bias", bias))
    )
    results, small = out.reshape(rows.shape), a.dtype.type(eps)
    if width == 1:
        _normalize_loop(rows, weight, bias, centred, small, results)
    else:
        _normalize_planes_loop(rows, weight, bias, (groups, each), centred, small, results)
    return out


@summing
def _normalize_backward_loop(
    g: Any, a: Any, weight: Any, centred: Any, eps: Any, for_a: Any, for_weight: Any, for_bias: Any
) -> None:
    zero, count = a.dtype.type(0), a.dtype.type(a.shape[1])
    groups = for_weight.shape[0]
    for i in range(a.shape[0]):
        k = i % groups
        mean, scale = _moments(a, i, centred, eps)
        level, along = zero, zero
        for j in range(a.shape[1]):
            x = g[i, j]
            n = (a[i, j] - mean) * scale
            for_weight[k, j] += x * n
            for_bias[k, j] += x
            if weight is not None:
                x = x * weight[k, j]
            level += x
            along += x * n
        level = level / count if centred else zero
        along /= count
        for j in range(a.shape[1]):
            x = g[i, j]
            if weight is not None:
                x = x * weight[k, j]
            for_a[i, j] = (x - (a[i, j] - mean) * scale * along - level) * scale


@summing
def _normalize_planes_backward_loop(
    g: Any, a: Any, weight: Any, centred: Any, eps: Any, for_a: Any, for_weight: Any, for_bias: Any
) -> None:
    zero, count = a.dtype.type(0), a.dtype.type(a.shape[1])
    groups, each = for_weight.shape
    width = a.shape[1] // each
    for i in range(a.shape[0]):
        k = i % groups
        mean, scale = _moments(a, i, centred, eps)
        level, along = zero, zero
        for c in range(each):
            total, product = zero, zero
            for j in range(c * width, c * width + width):
                total += g[i, j]
                product += g[i, j] * (a[i, j] - mean)
            product *= scale
            for_weight[k, c] += product
            for_bias[k, c] += total
            if weight is not None:
                total *= weight[k, c]
                product *= weight[k, c]
            level += total
            along += product
        level = level / count if centred else zero
        along = along / count * scale
        for c in range(each):
            w = a.dtype.type(1)
            if weight is not None:
                w = weight[k, c]
            for j in range(c * width, c * width + width):
                for_a[i, j] = (g[i, j] * w - (a[i, j] - mean) * along - level) * scale


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
) -> Any:
    """Return the gradients of operand, weight and bias, the latter two of shape ``affine``."""
    if not _takes(a, g, weight):
        return NotImplemented
    out, full = _places(room, (a.shape, affine, affine), a.dtype, needs, into)
    samples, groups, _, width = shape
    for total in full[1:]:
        total.fill(0)
    loop = _normalize_backward_loop if width == 1 else _normalize_planes_backward_loop
    loop(
        _matrix(room, "g", g, samples * groups),
        _matrix(room, "rows", a, samples * groups),
        None if weight is None else _matrix(room, "weight", weight, groups),
        centred,
        a.dtype.type(eps),
        full[0].reshape(samples * groups, -1),
        full[1].reshape(groups, -1),
        full[2].reshape(groups, -1),
    )
    return tuple(out)


# Channels (N, C, S) that are normalised over a batch. A plane is summed in its dtype, and the
# planes of a channel in double precision.


@summing
def _batch_moments_loop(a: Any, mean: Any, variance: Any) -> None:
    samples, channels, width = a.shape
    zero, count = a.dtype.type(0), samples * width
    if width == 1:  # a loop over channels is the one that has vectors
        mean[:] = zero
        variance[:] = zero
        for n in range(samples):
            for c in range(channels):
                mean[c] += a[n, c, 0]
        for c in range(channels):
            mean[c] /= a.dtype.type(count)
        for n in range(samples):
            for c in range(channels):
                variance[c] += (a[n, c, 0] - mean[c]) * (a[n, c, 0] - mean[c])
        for c in range(channels):
            variance[c] /= a.dtype.type(count)
        return
    for c in range(channels):
        total = 0.0
        for n in range(samples):
            part = zero
            for j in range(width):
                part += a[n, c, j]
            total += part
        middle = a.dtype.type(total / count)
        total = 0.0
        for n in range(samples):
            part = zero
            for j in range(width):
                part += (a[n, c, j] - middle) * (a[n, c, j] - middle)
            total += part
        mean[c] = middle
        variance[c] = total / count


def _channels(room: Memory, name: str, a: Array) -> Array:
    return contiguous(room, name, a).reshape(*a.shape[:2], math.prod(a.shape[2:]))


def batch_moments(a: Array, into: Array | None = None, room: Memory = fresh) -> Any:
    """Return the mean and the biased variance of every channel of (N, C, ...), as (2, C)."""
    if not _takes(a):
        return NotImplemented
    out = np.empty((2, a.shape[1]), a.dtype) if into is None else into
    _batch_moments_loop(_channels(room, "a", a), out[0], out[1])
    return out


@exact
def _batch_moments_backward_loop(g: Any, a: Any, out: Any, gradient: Any) -> None:
    samples, channels, width = a.shape
    count, two = a.dtype.type(samples * width), a.dtype.type(2)
    if width == 1:
        for n in range(samples):
            for c in range(channels):
                slope, shift = g[1, c] * two / count, g[0, c] / count
                gradient[n, c, 0] = (a[n, c, 0] - out[0, c]) * slope + shift
        return
    for n in range(samples):
        for c in range(channels):
            slope, shift, mean = g[1, c] * two / count, g[0, c] / count, out[0, c]
            for j in range(width):
                gradient[n, c, j] = (a[n, c, j] - mean) * slope + shift


def batch_moments_backward(
    g: Array,
    needs: Sequence[bool],
    a: Array,
    out: Array,
    into: Places | None = None,
    room: Memory = fresh,
) -> Any:
    """Return ``(g[0] + 2 (a - mean) g[1]) / n``."""
    if not _takes(a, g, out):
        return NotImplemented
    (gradient,) = wanted((True,), (a.shape,), a.dtype, into)
    assert gradient is not None
    rows, small, out = _channels(room, "a", a), contiguous(room, "g", g), contiguous(room, "o", out)
    _batch_moments_backward_loop(small, rows, out, gradient.reshape(rows.shape))
    return (gradient,)


@exact
def _batch_norm_loop(a: Any, statistics: Any, weight: Any, bias: Any, eps: Any, out: Any) -> None:
    samples, channels, width = a.shape
    zero, one = a.dtype.type(0), a.dtype.type(1)
    for n in range(samples):
        if width == 1:
            for c in range(channels):
                x = a[n, c, 0] - statistics[0, c]
                scale = one / np.sqrt(statistics[1, c] + eps)
                if weight is not None:
                    scale = scale * weight[c]
                x = x * scale
                if bias is not None:
                    x = x + bias[c]
                out[n, c, 0] = x
            continue
        for c in range(channels):
            mean, scale, shift = statistics[0, c], one / np.sqrt(statistics[1, c] + eps), zero
            if weight is not None:
                scale = scale * weight[c]
            if bias is not None:
                shift = bias[c]
            for j in range(width):
                x = (a[n, c, j] - mean) * scale
                if bias is not None:
                    x = x + shift
                out[n, c, j] = x


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
    if not _takes(a, statistics, weight, bias):
        return NotImplemented
    out = np.empty(a.shape, a.dtype) if into is None else into
    rows = _channels(room, "a", a)
    statistics = contiguous(room, "statistics", statistics)
    weight, bias = (
        None if b is None else contiguous(room, name, b)
        for name, b in (("weight", weight), ("bias", bias))
    )
    small = a.dtype.type(eps)
    _batch_norm_loop(rows, statistics, weight, bias, small, out.reshape(rows.shape))
    return out


@summing
def _batch_norm_backward_loop(
    g: Any,
    a: Any,
    statistics: Any,
    weight: Any,
    eps: Any,
    for_a: Any,
    for_statistics: Any,
    for_weight: Any,
    for_bias: Any,
) -> None:
    samples, channels, width = a.shape
    zero, one = a.dtype.type(0), a.dtype.type(1)
    if width == 1:  # sums are kept where their gradients will be
        for_weight[:] = zero
        for_bias[:] = zero
        for n in range(samples):
            for c in range(channels):
                factor = one / np.sqrt(statistics[1, c] + eps)
                if weight is not None:
                    factor = factor * weight[c]
                for_bias[c] += g[n, c, 0]
                for_weight[c] += g[n, c, 0] * (a[n, c, 0] - statistics[0, c])
                for_a[n, c, 0] = g[n, c, 0] * factor
    for c in range(channels):
        mean, scale = statistics[0, c], one / np.sqrt(statistics[1, c] + eps)
        factor = scale
        if weight is not None:
            factor = scale * weight[c]
        total, along = zero, zero
        if width == 1:
            total, along = for_bias[c], for_weight[c]
        else:
            whole, product = 0.0, 0.0
            for n in range(samples):
                part, partly = zero, zero
                for j in range(width):
                    part += g[n, c, j]
                    partly += g[n, c, j] * (a[n, c, j] - mean)
                    for_a[n, c, j] = g[n, c, j] * factor
                whole += part
                product += partly
            total, along = a.dtype.type(whole), a.dtype.type(product)
        for_statistics[0, c] = -total * factor
        for_statistics[1, c] = along * factor * scale * scale * a.dtype.type(-0.5)
        for_weight[c] = along * scale
        for_bias[c] = total


def batch_norm_backward(
    g: Array,
    needs: Sequence[bool],
    a: Array,
    statistics: Array,
    weight: Array | None,
    eps: float,
    into: Places | None = None,
    room: Memory = fresh,
) -> Any:
    """Return the gradients of operand, statistics, weight and bias, which share two sums."""
    if not _takes(a, g, statistics, weight):
        return NotImplemented
    shapes = a.shape, statistics.shape, a.shape[1:2], a.shape[1:2]
    out, full = _places(room, shapes, a.dtype, needs, into)
    rows = _channels(room, "a", a)
    _batch_norm_backward_loop(
        _channels(room, "g", g),
        rows,
        contiguous(room, "statistics", statistics),
        None if weight is None else contiguous(room, "weight", weight),
        a.dtype.type(eps),
        full[0].reshape(rows.shape),
        *full[1:],
    )
    return tuple(out)
