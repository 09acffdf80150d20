"""Ops that rearrange elements, or change how they are stored."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from ..dispatch import Operand, kernel
from ..dtypes import as_dtype
from ..errors import ShapeError
from ..graph import Array
from ..kernels import reference, scatter
from ..shapes import axes, axis, integers, size

__all__ = [
    "cast",
    "cat",
    "clone",
    "diagonal",
    "diagonal_adjoint",
    "expand",
    "flatten",
    "flip",
    "pad",
    "permute",
    "repeat",
    "reshape",
    "roll",
    "squeeze",
    "stack",
    "transpose",
    "tril",
    "triu",
    "unfold",
    "unfold_adjoint",
    "unsqueeze",
]


@kernel()
def reshape(a: Operand, shape: Sequence[int] | int) -> Any:
    """Return the same elements in another shape, a view where possible; one length may be -1.

    Raises:
        ShapeError: the number of elements would change.
    """
    lengths = size(shape, lowest=-1)
    if lengths.count(-1) > 1:
        raise ShapeError(f"only one length of shape {lengths} may be -1")
    known = math.prod(n for n in lengths if n != -1)
    fits = known > 0 and a.size % known == 0 if -1 in lengths else a.size == known
    if not fits:
        raise ShapeError(f"{a.size} elements of shape {a.shape} do not fit into shape {lengths}")
    return np.reshape(a, lengths)


@kernel()
def flatten(a: Operand, start_dim: int = 0, end_dim: int = -1) -> Any:
    """Return the tensor with dimensions ``start_dim`` to ``end_dim`` made into one.

    Raises:
        ShapeError: ``end_dim`` comes before ``start_dim``.
    """
    start, end = axis(start_dim, a.ndim), axis(end_dim, a.ndim)
    if end < start:
        raise ShapeError(f"end_dim {end_dim} comes before start_dim {start_dim}")
    middle = int(np.prod(a.shape[start : end + 1], dtype=np.int64))
    return a.reshape(*a.shape[:start], middle, *a.shape[end + 1 :])


@kernel()
def permute(a: Operand, dims: Sequence[int]) -> Any:
    """Return a view with the dimensions in the order ``dims``.

    Raises:
        ShapeError: ``dims`` does not name every dimension once.
    """
    if not isinstance(dims, (tuple, list)):
        raise TypeError(f"dims must be a sequence of integers, got {dims!r}")
    order = axes(dims, a.ndim)
    if len(order) != a.ndim:
        raise ShapeError(f"dims {tuple(dims)} must name each of {a.ndim} dimensions once")
    return np.transpose(a, order)


@kernel()
def transpose(a: Operand, dim0: int, dim1: int) -> Any:
    """Return a view with two dimensions exchanged."""
    first, second = axis(dim0, a.ndim), axis(dim1, a.ndim)
    return np.swapaxes(a, first, second) if a.ndim else a.view()


@kernel()
def squeeze(a: Operand, dim: int | Sequence[int] | None = None) -> Any:
    """Return a view without those of the dimensions ``dim`` (by default all) whose length is 1."""
    return np.squeeze(a, tuple(d for d in axes(dim, a.ndim) if a.shape[d] == 1))


@kernel()
def unsqueeze(a: Operand, dim: int) -> Any:
    """Return a view with a new dimension of length 1 at ``dim``."""
    return np.expand_dims(a, axis(dim, a.ndim + 1))


@kernel()
def expand(a: Operand, shape: Sequence[int] | int) -> Any:
    """Return a read-only view of ``shape``, repeating dimensions of length 1; -1 keeps a length.

    Raises:
        ShapeError: another length than 1 would have to change.
    """
    wanted = size(shape, lowest=-1)
    ahead = len(wanted) - a.ndim
    if ahead < 0:
        raise ShapeError(f"shape {wanted} has fewer dimensions than the tensor's {a.shape}")
    if any(n == -1 and i < ahead for i, n in enumerate(wanted)):
        raise ShapeError(f"-1 in shape {wanted} stands for a dimension that is not there yet")
    full = tuple(a.shape[i - ahead] if n == -1 else n for i, n in enumerate(wanted))
    if any(old not in (1, new) for old, new in zip(a.shape, full[ahead:], strict=True)):
        raise ShapeError(f"shape {a.shape} cannot be expanded to {wanted}")
    return np.broadcast_to(a, full)


@kernel()
def cat(tensors: Operand, dim: int = 0) -> Any:
    """Return tensors joined along an existing dimension.

    Raises:
        ShapeError: none given, or lengths of other dimensions differ.
    """
    if not tensors:
        raise ShapeError("expected at least one tensor")
    if tensors[0].ndim == 0:
        raise ShapeError("0-d tensors cannot be joined; use stack")
    return np.concatenate(tensors, axis(dim, tensors[0].ndim))


@kernel()
def stack(tensors: Operand, dim: int = 0) -> Any:
    """Return tensors of equal shape joined along a new dimension.

    Raises:
        ShapeError: none given, or the shapes differ.
    """
    if not tensors:
        raise ShapeError("expected at least one tensor")
    return np.stack(tensors, axis(dim, tensors[0].ndim + 1))


@kernel()
def cast(a: Operand, dtype: Any) -> Any:
    """Return a copy with another dtype; the gradient is cast back."""
    return a.astype(as_dtype(dtype))


@kernel()
def clone(a: Operand) -> Any:
    """Return a copy with memory of its own, through which gradients flow."""
    return a.copy()


# Rearranged.


@kernel()
def flip(a: Operand, dims: Sequence[int] | int) -> Any:
    """Return a copy with the elements in reverse order along ``dims``.

    Raises:
        ShapeError: a dimension is named twice.
    """
    return np.flip(a, axes(integers("dims", dims), a.ndim)).copy()


@kernel()
def roll(a: Operand, shifts: Sequence[int] | int, dims: Sequence[int] | int | None = None) -> Any:
    """Return a copy with the elements moved ``shifts`` places along ``dims``, the last ones first.

    Without ``dims`` the elements move as if they lay in one row.

    Raises:
        ShapeError: not as many shifts as dims.
    """
    places = integers("shifts", shifts)
    if dims is None or dims == ():
        if len(places) != 1:
            raise ShapeError(f"without dims there must be one shift, got {len(places)}")
        return np.roll(a, places[0])
    over = tuple(axis(d, a.ndim) for d in integers("dims", dims))
    if len(places) != len(over):
        raise ShapeError(f"shifts {places} and dims {dims} must be equally many")
    return np.roll(a, places, over) if a.ndim else a.copy()


@kernel()
def repeat(a: Operand, repeats: Sequence[int] | int) -> Any:
    """Return copies of ``a`` side by side, ``repeats[d]`` of them along dimension d.

    Where there are more counts than dimensions, new dimensions stand in front.

    Raises:
        ShapeError: fewer counts than dimensions, or a negative one.
    """
    counts = integers("repeats", repeats)
    if len(counts) < a.ndim or min(counts, default=0) < 0:
        raise ShapeError(
            f"repeats {counts} must hold at least {a.ndim} numbers, one for each dimension, "
            "and none below 0"
        )
    return np.tile(a, counts)


@kernel()
def pad(a: Operand, pad: Sequence[int], value: float = 0.0) -> Any:
    """Return ``a`` with ``value`` before and after its elements.

    ``pad`` holds two lengths for each dimension, before and after, beginning
    with the last dimension; those it does not reach stay. A negative length
    takes elements away.

    Raises:
        ShapeError: an odd number of lengths, more than two for each dimension,
            or more elements taken away than there are.
        TypeError: lengths that are not integers, or a value that is no number.
        RuntimeError: a value that the dtype cannot hold.
    """
    lengths = integers("pad", pad)
    if len(lengths) % 2 or len(lengths) > 2 * a.ndim:
        raise ShapeError(
            f"pad {lengths} must hold two lengths for each dimension from the last, "
            f"at most {2 * a.ndim}"
        )
    if not isinstance(value, (int, float, np.number)):
        raise TypeError(f"value must be a number, got {value!r}")
    ends = [(0, 0)] * (a.ndim - len(lengths) // 2)
    ends += zip(lengths[-2::-2], lengths[-1::-2], strict=True)
    for d, (n, (before, after)) in enumerate(zip(a.shape, ends, strict=True)):
        if n + min(before, 0) + min(after, 0) < 0:
            raise ShapeError(f"pad ({before}, {after}) takes away more than the {n} of dim {d}")
    sizes = [n + before + after for n, (before, after) in zip(a.shape, ends, strict=True)]
    if a.dtype.kind in "iu":
        limits = np.iinfo(a.dtype)
        if not limits.min <= value <= limits.max:
            raise RuntimeError(f"value {value} does not fit into {a.dtype}")
    out = np.full(sizes, value, a.dtype)
    out[_without(sizes, ends)] = a[_without(a.shape, [(-before, -after) for before, after in ends])]
    return out


def _without(shape: Sequence[int], ends: Sequence[tuple[int, int]]) -> tuple[slice, ...]:
    """Return where an array lies without the elements at its ends; a negative number is none."""
    pairs = zip(shape, ends, strict=True)
    return tuple(slice(max(before, 0), n - max(after, 0)) for n, (before, after) in pairs)


# Parts.


@kernel()
def tril(a: Operand, diagonal: int = 0) -> Any:
    """Return matrices (..., m, n) with 0 above the diagonal, ``diagonal`` places to its right.

    Raises:
        ShapeError: fewer than two dimensions.
    """
    return reference.masked(a, _below(a, diagonal, 0))


@kernel()
def triu(a: Operand, diagonal: int = 0) -> Any:
    """Return matrices (..., m, n) with 0 below the diagonal, ``diagonal`` places to its right.

    Raises:
        ShapeError: fewer than two dimensions.
    """
    return reference.masked(a, ~_below(a, diagonal, -1))


def _below(a: Array, diagonal: Any, shift: int) -> Array:
    """Return where in a matrix the column is at most the row's number plus diagonal and shift."""
    if a.ndim < 2:
        raise ShapeError("a must be matrices, with at least 2 dimensions")
    (offset,) = integers("diagonal", (diagonal,))
    return np.tri(a.shape[-2], a.shape[-1], offset + shift, dtype=bool)


@kernel()
def diagonal(a: Operand, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Any:
    """Return a view of the diagonal of the planes along ``dim1`` and ``dim2``, as last dimension.

    It holds the elements whose ``dim2`` is their ``dim1`` plus ``offset``.

    Raises:
        ShapeError: fewer than two dimensions, or ``dim1`` and ``dim2`` are the same.
    """
    return _diagonal(a, offset, dim1, dim2)


@kernel()
def diagonal_adjoint(
    a: Operand, shape: tuple[int, ...], offset: int = 0, dim1: int = 0, dim2: int = 1
) -> Any:
    """Return zeros of ``shape`` whose ``diagonal`` is ``a``."""
    out = np.zeros(size(shape), a.dtype)
    view = _diagonal(out, offset, dim1, dim2)
    if view.shape != a.shape:
        raise ShapeError(f"the diagonal of shape {out.shape} has shape {view.shape}")
    view[...] = a
    return out


def _diagonal(a: Array, offset: Any, dim1: Any, dim2: Any) -> Array:
    first, second = axis(dim1, a.ndim), axis(dim2, a.ndim)
    (number,) = integers("offset", (offset,))
    if first == second:
        raise ShapeError(f"dim1 {dim1} and dim2 {dim2} must be two dimensions of shape {a.shape}")
    view = np.diagonal(a, number, first, second)
    view.flags.writeable = a.flags.writeable
    return view


@kernel()
def unfold(a: Operand, dim: int, size: int, step: int) -> Any:
    """Return a view of the windows of ``size`` elements along ``dim``, as last dimension.

    Window t begins at ``t * step``; dimension ``dim`` numbers the
    ``(length - size) // step + 1`` windows that fit. Where windows overlap,
    the view is read-only.

    Raises:
        ShapeError: a window longer than the dimension, a negative size, or a step below 1.
    """
    place, count = _windows(a.shape, dim, size, step)
    if not a.ndim:  # one element, of which all windows together are one
        return a.reshape(1)[:size]
    shape, strides = list(a.shape), list(a.strides)
    shape[place : place + 1] = [count]
    shape.append(size)
    strides.append(strides[place])
    strides[place] *= step
    return as_strided(a, shape, strides, writeable=a.flags.writeable and step >= size)


@kernel()
def unfold_adjoint(a: Operand, shape: tuple[int, ...], dim: int, size: int, step: int) -> Any:
    """Return zeros of ``shape`` to which ``a`` is added window by window, as ``unfold`` reads."""
    place, count = _windows(shape, dim, size, step)
    expected = (*shape[:place], count, *shape[place + 1 :], size) if shape else (size,)
    if a.shape != expected:
        raise ShapeError(f"a must have the shape of the windows, {expected}")
    if not shape:
        return a.sum(dtype=a.dtype)
    return scatter.add_windows(a, shape, place, step)


def _windows(shape: tuple[int, ...], dim: Any, size: Any, step: Any) -> tuple[int, int]:
    """Return along which dimension windows move, and how many there are."""
    place = axis(dim, len(shape))
    length = shape[place] if shape else 1
    width, stride = integers("size and step", (size, step))
    if not 0 <= width <= length or stride < 1:
        raise ShapeError(
            f"size must lie in [0, {length}], the length of dim {dim}, and step be at least 1, "
            f"got {width} and {stride}"
        )
    return place, (length - width) // stride + 1
