"""Convolution and pooling: a small kernel that moves over planes.

At every step a kernel's taps lie on places of the plane that are a stride
apart from one step to the next. What one tap sees in the course of all steps
is a strided slice, and what all of them see is a strided view; nothing here
loops over elements. A convolution is then a product of matrices: the weights
times the columns that the view is copied into (im2col). The columns are made
for a few samples at a time, so that they are still in the cache when they are
multiplied.

Results are written to ``into`` if that is given, and what is between to memory from ``room``.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator
from typing import Any, Final

import numpy as np
from numpy.lib.stride_tricks import as_strided

from ..graph import Array
from .half import in_single
from .planes import Axis, Plane
from .reference import masked
from .room import Memory, contiguous, fresh, zeros

__all__ = [
    "avg_pool2d",
    "avg_pool2d_adjoint",
    "col2im",
    "conv2d",
    "conv2d_input_adjoint",
    "conv2d_weight_adjoint",
    "im2col",
    "max_pool2d",
    "max_pool2d_backward",
    "max_pool2d_indices",
]

# Columns are made in blocks of about this many bytes: half of a usual second-level cache.
BLOCK: Final = 2**20

# With fewer steps than this in a plane a product for each sample is too small for BLAS.
FEW_STEPS: Final = 64

# Gradients are widened with zeros for the sake of longer runs up to this many times their size.
WIDENING: Final = 4


# Convolution.


def _parts(count: int, width: int, itemsize: int) -> Iterator[slice]:
    """Yield slices of ``count`` samples, of each of which ``width`` numbers are made."""
    step = max(1, BLOCK // max(1, width * itemsize))
    for start in range(0, count, step):
        yield slice(start, min(start + step, count))


def _padded(a: Array, plane: Plane, room: Memory) -> Array:
    (height, width), (rows, columns) = plane.size, plane
    if (rows.padded, columns.padded) == (height, width):
        return a
    out = zeros(room, "padded", (*a.shape[:2], rows.padded, columns.padded), a.dtype)
    out[:, :, rows.before : rows.before + height, columns.before : columns.before + width] = a
    return out


def _seen(a: Array, dim: int, axis: Axis) -> Array:
    """Return a view with a dimension of taps before ``dim``, which becomes that of the steps."""
    shape, strides = list(a.shape), list(a.strides)
    stride = strides[dim]
    shape[dim : dim + 1] = axis.taps, axis.steps
    strides[dim : dim + 1] = stride * axis.dilation, stride * axis.stride
    return as_strided(a, shape, strides, writeable=False)


def _columns(a: Array, plane: Plane, samples_last: bool, room: Memory) -> Array:
    """Return what the taps see (samples, channels, *taps, *steps), or with samples after taps."""
    rows, columns = plane
    seen = _seen(_padded(a, plane, room), 3, columns).swapaxes(2, 3)  # (N, C, column taps, H, ...)
    if rows.stride == 1 and rows.taps > 1 < columns.taps:
        seen = contiguous(room, "runs", seen)  # now what a tap sees in a plane is one run
    seen = _seen(seen, 3, rows)  # (N, C, column taps, row taps, row steps, column steps)
    order = (1, 3, 2, 0, 4, 5) if samples_last else (0, 1, 3, 2, 4, 5)
    return contiguous(room, "columns", seen.transpose(order))


@in_single
def conv2d(
    a: Array,
    weight: Array,
    bias: Array | None,
    plane: Plane,
    groups: int,
    into: Array | None = None,
    room: Memory = fresh,
) -> Any:
    """Return the convolution of ``a`` (N, C, H, W) with ``weight`` (O, C / groups, KH, KW)."""
    samples, outputs, steps = len(a), len(weight), math.prod(plane.steps)
    taps = math.prod(weight.shape[1:])
    out = np.empty((samples, outputs, *plane.steps), a.dtype) if into is None else into
    kernels = contiguous(room, "kernels", weight).reshape(groups, outputs // groups, taps)
    for part in _parts(samples, groups * taps * steps, a.itemsize):
        target, few = out[part], steps < FEW_STEPS
        columns, n = _columns(a[part], plane, few, room), len(target)
        if few:
            product = room("product", (groups, outputs // groups, n * steps), a.dtype)
            np.matmul(kernels, columns.reshape(groups, taps, n * steps), out=product)
            target[...] = product.reshape(outputs, n, *plane.steps).swapaxes(0, 1)
        else:
            each = target.reshape(n, groups, outputs // groups, steps)
            np.matmul(kernels, columns.reshape(n, groups, taps, steps), out=each)
        if bias is not None:
            target += bias[:, None, None]
    return out


@in_single
def conv2d_weight_adjoint(
    g: Array,
    a: Array,
    plane: Plane,
    groups: int,
    into: Array | None = None,
    room: Memory = fresh,
) -> Any:
    """Return the gradient of a convolution's weight: ``g`` times the columns of ``a``."""
    (samples, outputs), steps = g.shape[:2], math.prod(plane.steps)
    each, out_each = a.shape[1] // groups, outputs // groups
    taps = each * math.prod(plane.taps)
    total = zeros(room, "total", (groups, taps, out_each), g.dtype)
    product = room("product", total.shape, g.dtype)
    for part in _parts(samples, groups * taps * steps, a.itemsize):
        width = len(a[part]) * steps
        columns = _columns(a[part], plane, True, room).reshape(groups, taps, width)
        rows = contiguous(room, "rows", g[part].swapaxes(0, 1)).reshape(groups, out_each, width)
        total += np.matmul(columns, rows.swapaxes(1, 2), out=product)
    out = np.empty((outputs, each, *plane.taps), g.dtype) if into is None else into
    out.reshape(groups, out_each, taps)[...] = total.swapaxes(1, 2)
    return out


@in_single
def conv2d_input_adjoint(
    g: Array,
    weight: Array,
    plane: Plane,
    groups: int,
    into: Array | None = None,
    room: Memory = fresh,
) -> Any:
    """Return the gradient of a convolution's input: the columns' gradients, added up (col2im).

    With a stride of 1, and ``g`` widened with zeros to the padded plane, what
    a tap sees in all channels is one run in memory, and what the next one sees
    is the same, shifted: the additions go through without a stop at each row.
    Rows and planes share the zeros between them.
    """
    (samples, outputs), (rows, columns) = g.shape[:2], plane
    each, out_each = weight.shape[1], outputs // groups
    height, width, positions = rows.padded, columns.padded, plane.steps
    if rows.stride == columns.stride == 1:
        tall = max(rows.size + max(rows.before, rows.after), rows.steps)
        wide = max(columns.size + max(columns.before, columns.after), columns.steps)
        worth = tall * wide <= WIDENING * math.prod(plane.steps)
        # A weight that is not finite would make NaN of the zeros.
        if worth and math.isfinite(weight.sum(dtype=np.float64)):
            height, width = positions = tall, wide
    taps, area, count = each * math.prod(plane.taps), height * width, math.prod(positions)
    kernels = weight.reshape(groups, out_each, each, *plane.taps).transpose(0, 3, 4, 2, 1)
    kernels = contiguous(room, "kernels", kernels).reshape(groups, taps, out_each)
    # The steps of the last positions reach beyond the last plane.
    beyond = rows.dilation * (rows.taps - 1) * width + columns.dilation * (columns.taps - 1)
    shape = (samples, groups * each, *plane.size)
    out = np.empty(shape, g.dtype) if into is None else into
    for part in _parts(samples, groups * taps * count, g.itemsize):
        n = len(out[part])
        widened = zeros(room, "widened", (outputs, n, *positions), g.dtype)
        widened[:, :, : rows.steps, : columns.steps] = g[part].swapaxes(0, 1)
        product = room("product", (groups, taps, n * count), g.dtype)
        _multiply(kernels, widened.reshape(groups, out_each, n * count), product)
        gradients = product.reshape(groups, *plane.taps, each, n, *positions)
        memory = zeros(room, "memory", (groups * each * n * area + beyond,), g.dtype)
        shifts = (rows.dilation * width, columns.dilation)
        strides = (each * n * area, *shifts, n * area, area, rows.stride * width, columns.stride)
        seen = as_strided(memory, gradients.shape, [stride * g.itemsize for stride in strides])
        for i in range(rows.taps):
            for j in range(columns.taps):
                np.add(seen[:, i, j], gradients[:, i, j], out=seen[:, i, j])
        planes = memory[: groups * each * n * area].reshape(groups * each, n, height, width)
        inside = planes[:, :, rows.before :, columns.before :][:, :, : rows.size, : columns.size]
        out[part] = inside.swapaxes(0, 1)
    return out


def _multiply(a: Array, b: Array, out: Array) -> None:
    """Write ``a @ b`` to ``out``; of inner size 1 it is an outer product, slow for a GEMM."""
    if a.shape[-1] == 1:
        np.multiply(a, b, out=out)
    else:
        np.matmul(a, b, out=out)


# Columns of their own.


def im2col(a: Array, plane: Plane, into: Array | None = None, room: Memory = fresh) -> Array:
    """Return the columns of ``a`` (N, C, H, W): what each tap sees (N, C * taps, steps)."""
    columns = _columns(a, plane, False, room)
    if into is not None:
        np.copyto(into.reshape(columns.shape), columns)
        return into
    out = columns.reshape(len(a), a.shape[1] * math.prod(plane.taps), math.prod(plane.steps))
    # Windows of one element, or a single one, need no rearrangement; the result is a copy even so.
    return out.copy() if np.may_share_memory(out, a) else out


@in_single
def col2im(columns: Array, plane: Plane, into: Array | None = None, room: Memory = fresh) -> Array:
    """Return planes (N, C, H, W) to which the columns (N, C * taps, steps) are added."""
    (rows, along), channels = plane, columns.shape[1] // math.prod(plane.taps)
    each = columns.reshape(len(columns), channels, *plane.taps, *plane.steps)
    shape = len(columns), channels, rows.padded, along.padded
    out = zeros(room, "planes", shape, columns.dtype)
    for i in range(rows.taps):
        for j in range(along.taps):
            out[:, :, rows.places(i), along.places(j)] += each[:, :, i, j]
    inside = out[:, :, rows.before :, along.before :][:, :, : rows.size, : along.size]
    if into is None:
        return inside
    np.copyto(into, inside)
    return into


# Pooling. A maximum or a sum over a window is taken along rows, then along columns.


def _pooled(
    ufunc: np.ufunc,
    a: Array,
    plane: Plane,
    start: Any,
    into: Array | None,
    room: Memory,
) -> Array:
    for axis, dim in zip(plane, (-2, -1), strict=True):
        shape = _resized(a, dim, axis.steps)
        if dim == -2:
            pooled = room("pooled", shape, a.dtype)
        else:
            pooled = np.empty(shape, a.dtype) if into is None else into
        along, out = np.moveaxis(a, dim, 0), np.moveaxis(pooled, dim, 0)
        meetings = list(axis.meetings())
        whole = [places for steps, places in meetings if steps == slice(0, axis.steps)]
        if len(whole) > 1:  # the first two need nothing to start from
            ufunc(along[whole[0]], along[whole[1]], out=out)
            meetings = [m for m in meetings if m[1] not in whole[:2]]
        else:
            out.fill(start)
        for steps, places in meetings:
            ufunc(out[steps], along[places], out=out[steps])
        a = pooled
    return a


def _resized(a: Array, dim: int, size: int) -> tuple[int, ...]:
    """Return the shape of ``a`` with another size of the dimension ``dim``, which is negative."""
    return (*a.shape[:dim], size, *a.shape[a.ndim + dim + 1 :])


def _lowest(dtype: np.dtype[Any]) -> Any:
    return -np.inf if dtype.kind == "f" else np.iinfo(dtype).min


def max_pool2d(a: Array, plane: Plane, into: Array | None = None, room: Memory = fresh) -> Any:
    """Return the largest element of every window (..., H, W); NaN counts as largest."""
    return _pooled(np.maximum, a, plane, _lowest(a.dtype), into, room)


def max_pool2d_indices(
    a: Array, plane: Plane, into: Array | None = None, room: Memory = fresh
) -> Any:
    """Return the positions in ``a.reshape(-1)`` of every window's first largest element.

    Where there are NaN, of the last of them.
    """
    highest = room("highest", (*a.shape[:-2], *plane.steps), a.dtype)
    winners = _winners(a, max_pool2d(a, plane, highest, room), plane, room)
    positions = _positions(winners, a.shape, plane, room)
    if into is not None:
        np.copyto(into, positions)
    return positions


def _winners(a: Array, out: Array, plane: Plane, room: Memory) -> Array:
    """Return which tap, in the order of ``plane.meetings()``, sees each window's maximum first."""
    meetings = list(plane.meetings())
    winners = zeros(room, "winners", out.shape, np.min_scalar_type(len(meetings)))
    # It is the number of taps that come before it.
    before, missed = room("before", out.shape, bool), room("missed", out.shape, bool)
    before.fill(True)
    for steps, places in meetings[:-1]:
        np.not_equal(a[places], out[steps], out=missed[steps])
        np.logical_and(before[steps], missed[steps], out=before[steps])
        np.add(winners, before.view(np.uint8), out=winners)
    if np.isnan(out, out=missed).any():
        for tap, (steps, places) in enumerate(meetings):
            np.copyto(winners[steps], tap, where=np.isnan(a[places], out=missed[steps]))
    return winners


def _positions(winners: Array, shape: tuple[int, ...], plane: Plane, room: Memory) -> Array:
    """Return where the winning taps lie in an array of ``shape``, laid out in one row."""
    (rows, columns), (height, width) = plane, plane.size
    shifts = [
        (at[1].start - steps[1].start * rows.stride) * width
        + (at[2].start - steps[2].start * columns.stride)
        for steps, at in plane.meetings()
    ]
    found, taps = (room(name, winners.shape, np.int64) for name in ("positions", "taps"))
    np.copyto(taps, winners)
    np.take(np.array(shifts), taps, out=found, mode="clip")
    found += (np.arange(rows.steps) * rows.stride * width)[:, None]
    found += np.arange(columns.steps) * columns.stride
    starts = room("starts", shape[:-2], np.int64)  # of each plane
    starts.fill(height * width)
    starts.reshape(-1)[:1] = 0
    np.cumsum(starts, out=starts.reshape(-1))
    found += starts[..., None, None]
    return found


def max_pool2d_backward(
    g: Array,
    a: Array,
    out: Array,
    plane: Plane,
    into: Array | None = None,
    room: Memory = fresh,
) -> Any:
    """Return ``g`` at the places of the largest elements, added up where windows overlap."""
    winners = _winners(a, out, plane, room)
    gradient = np.empty(a.shape, g.dtype) if into is None else into
    gradient.fill(0)
    if any(axis.stride < axis.dilation * (axis.taps - 1) + 1 for axis in plane):
        positions = _positions(winners, a.shape, plane, room)
        values = contiguous(room, "values", g)
        np.add.at(gradient.reshape(-1), positions.reshape(-1), values.reshape(-1))
        return gradient
    won = room("won", out.shape, bool)
    for tap, (steps, places) in enumerate(plane.meetings()):
        masked(g[steps], np.equal(winners[steps], tap, out=won[steps]), out=gradient[places])
    return gradient


@functools.lru_cache(maxsize=64)
def _divisor(plane: Plane, whole: bool, divisor: int | None, dtype: np.dtype[Any]) -> Array:
    """Return what the sum of each window is divided by, of shape (*steps) or ()."""
    if divisor is not None:
        return np.asarray(divisor, dtype)
    counts = []
    for axis in plane:
        first = np.arange(axis.steps) * axis.stride - axis.before
        last = np.minimum(first + axis.taps, axis.size + axis.after)
        if not whole:
            first, last = np.maximum(first, 0), np.minimum(last, axis.size)
        counts.append(last - first)
    return np.multiply.outer(*counts).astype(dtype)


@in_single
def avg_pool2d(
    a: Array,
    plane: Plane,
    whole: bool,
    divisor: int | None,
    into: Array | None = None,
    room: Memory = fresh,
) -> Any:
    """Return the mean of every window (..., H, W), with its padding if ``whole``."""
    total = _pooled(np.add, a, plane, 0, into, room)
    return np.divide(total, _divisor(plane, whole, divisor, a.dtype), out=total)


@in_single
def avg_pool2d_adjoint(
    g: Array,
    plane: Plane,
    whole: bool,
    divisor: int | None,
    into: Array | None = None,
    room: Memory = fresh,
) -> Any:
    """Return the gradient of ``avg_pool2d``: each window's share, added to all its elements."""
    shares = room("shares", g.shape, g.dtype)
    g = np.divide(g, _divisor(plane, whole, divisor, g.dtype), out=shares)
    for axis, dim in zip(plane, (-2, -1), strict=True):
        along, shape = np.moveaxis(g, dim, 0), _resized(g, dim, axis.size)
        if dim == -2:
            g = room("spread", shape, g.dtype)
        else:
            g = np.empty(shape, g.dtype) if into is None else into
        g.fill(0)
        out = np.moveaxis(g, dim, 0)
        for steps, places in axis.meetings():
            np.add(out[places], along[steps], out=out[places])
    return g
