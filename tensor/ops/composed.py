"""Ops that are made of other ops: these are what is recorded, drawn and differentiated.

Operands come as the caller gave them: Tensors, ndarrays or numbers. What is returned is made by
the ops that are called: views where those give views, recorded and refused as those are.
"""

from __future__ import annotations

import math
import string
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..dispatch import Operand, composite
from ..dtypes import as_array, check_bool
from ..errors import ShapeError
from ..graph import Array
from ..selection import Ranking
from ..shapes import axes, axis, integers
from ..tensor import Tensor
from .elementwise import add, mul, where
from .indexing import (
    argsort,
    gather,
    gather_adjoint,
    getitem,
    index_select_adjoint,
    setitem,
    topk_indices,
)
from .linalg import einsum
from .shape import cast, expand, permute, repeat, reshape, transpose

__all__ = [
    "chunk",
    "index_add",
    "index_put",
    "masked_fill",
    "masked_select",
    "moveaxis",
    "movedim",
    "scatter_add",
    "sort",
    "split",
    "swapaxes",
    "take_along_axis",
    "take_along_dim",
    "tensordot",
    "tile",
    "topk",
    "unbind",
]

Shape = tuple[int, ...]

# Products and dimensions.


@composite
def tensordot(a: Operand, b: Operand, dims: Any = 2) -> Tensor:
    """Return the sum of products over pairs of dimensions; the others stay in order, a's first.

    ``dims`` is a pair of sequences, of dimensions of ``a`` and as many of
    ``b``; or an integer n, the last n of ``a`` with the first n of ``b``.

    Raises:
        ShapeError: lengths that differ, not as many dimensions of one as of
            the other, one named twice, or n out of range.
        IndexError: a dimension out of range.
        RuntimeError: the dtypes differ.
    """
    a_shape, b_shape = np.shape(a), np.shape(b)
    if isinstance(a, Tensor) and isinstance(b, Tensor) and a.dtype != b.dtype:
        raise RuntimeError(
            f"a and b must have one dtype, got {a.dtype} and {b.dtype}; convert one with .to(dtype)"
        )
    left, right = _paired(dims, a_shape, b_shape)
    for i, j in zip(left, right, strict=True):
        if a_shape[i] != b_shape[j]:
            raise ShapeError(
                f"dim {i} of a, {a_shape}, and dim {j} of b, {b_shape}, must be of equal length"
            )
    letters = iter(string.ascii_letters)
    names = [next(letters) for _ in a_shape]
    pairs = dict(zip(right, left, strict=True))
    others = [names[pairs[j]] if j in pairs else next(letters) for j in range(len(b_shape))]
    kept = [c for c in names if c not in others] + [c for c in others if c not in names]
    return einsum((a, b), f"{''.join(names)},{''.join(others)}->{''.join(kept)}")


def _paired(dims: Any, a_shape: Shape, b_shape: Shape) -> tuple[Shape, Shape]:
    """Return which dimensions of two shapes ``dims`` pairs, counted from the front."""
    a_ndim, b_ndim = len(a_shape), len(b_shape)
    if isinstance(dims, (tuple, list)) and len(dims) == 2:
        given = [integers("dims", d) for d in dims]
        left = tuple(axis(d, a_ndim) for d in given[0])
        right = tuple(axis(d, b_ndim) for d in given[1])
    else:
        (count,) = integers("dims", (dims,))
        if not 0 <= count <= min(a_ndim, b_ndim):
            raise ShapeError(
                f"dims must lie in [0, {min(a_ndim, b_ndim)}], the number of dimensions of shapes "
                f"{a_shape} and {b_shape}, got {count}"
            )
        left, right = tuple(range(a_ndim - count, a_ndim)), tuple(range(count))
    if len(left) != len(right) or len({*left}) < len(left) or len({*right}) < len(right):
        raise ShapeError(f"dims must pair dimensions, each of them once, got {left} and {right}")
    return left, right


@composite
def swapaxes(a: Operand, dim0: int, dim1: int) -> Tensor:
    """Return a view with two dimensions exchanged: ``transpose`` by numpy's name."""
    return transpose(a, dim0, dim1)


@composite
def moveaxis(a: Operand, source: int | Sequence[int], destination: int | Sequence[int]) -> Tensor:
    """Return a view with the dimensions ``source`` at ``destination``, the others in order.

    Raises:
        ShapeError: not as many of one as of the other, or one named twice.
        IndexError: a dimension out of range.
    """
    ndim = len(np.shape(a))
    moved = axes(integers("source", source), ndim)
    places = axes(integers("destination", destination), ndim)
    if len(moved) != len(places):
        raise ShapeError(f"source {source} and destination {destination} must be equally many")
    others = (d for d in range(ndim) if d not in moved)
    chosen = dict(zip(places, moved, strict=True))
    order = tuple(chosen[d] if d in chosen else next(others) for d in range(ndim))
    return permute(a, order)


# Parts and copies.


@composite
def split(a: Operand, split_size: int | Sequence[int], dim: int = 0) -> tuple[Tensor, ...]:
    """Return views of consecutive parts along ``dim``.

    ``split_size`` is the length of each part, of which the last may be
    shorter, or a sequence of lengths that add up to that of ``dim``.

    Raises:
        ShapeError: lengths that are negative, 0 for all, or do not add up.
        IndexError: ``dim`` out of range.
    """
    length, place = _length(a, dim)
    sizes = integers("split_size", split_size)
    if not isinstance(split_size, (tuple, list)):
        size = sizes[0]
        if size < 0 or (size == 0 < length):
            raise ShapeError(f"split_size must be at least 1, got {size}")
        count = max(1, -(-length // size)) if size else 1
        sizes = (size,) * (count - 1) + (length - size * (count - 1),)
    if min(sizes, default=0) < 0 or sum(sizes) != length:
        raise ShapeError(
            f"the lengths {sizes} in split_size must not be negative and add up to {length}, the "
            f"length of dim {dim}"
        )
    return _parts(a, place, sizes)


@composite
def chunk(a: Operand, chunks: int, dim: int = 0) -> tuple[Tensor, ...]:
    """Return views of at most ``chunks`` parts along ``dim``, of equal length but for the last.

    Raises:
        ShapeError: fewer than one.
        IndexError: ``dim`` out of range.
    """
    (count,) = integers("chunks", (chunks,))
    if count < 1:
        raise ShapeError(f"chunks must be at least 1, got {count}")
    length, place = _length(a, dim)
    size = -(-length // count)
    full = length // size if size else count
    return _parts(a, place, (size,) * full + (length - size * full,) * (size * full < length))


def _length(a: Any, dim: int) -> tuple[int, int]:
    """Return the length of ``dim``, of which there must be one, and its number from the front."""
    shape = np.shape(a)
    place = axis(dim, len(shape))
    if not shape:
        raise ShapeError("a 0-d Tensor has no dimension to divide; unsqueeze it")
    return shape[place], place


def _parts(a: Any, place: int, sizes: Sequence[int]) -> tuple[Tensor, ...]:
    """Return views of parts of these lengths, one after the other along a dimension."""
    ahead = (slice(None),) * place
    ends = np.cumsum(sizes).tolist()
    return tuple(
        getitem(a, (*ahead, slice(end - size, end))) for size, end in zip(sizes, ends, strict=True)
    )


@composite
def unbind(a: Operand, dim: int = 0) -> tuple[Tensor, ...]:
    """Return a view of each of the elements along ``dim``, which they no longer have.

    Raises:
        ShapeError: a 0-d Tensor.
        IndexError: ``dim`` out of range.
    """
    length, place = _length(a, dim)
    ahead = (slice(None),) * place
    return tuple(getitem(a, (*ahead, i)) for i in range(length))


@composite
def tile(a: Operand, dims: int | Sequence[int]) -> Tensor:
    """Return copies side by side, ``dims[d]`` of them along dimension d.

    Where there are fewer counts than dimensions they are those of the last ones; ``repeat``
    needs them all.

    Raises:
        ShapeError: a negative count.
    """
    counts = integers("dims", dims)
    if min(counts, default=0) < 0:
        raise ShapeError(f"dims {counts} must hold no number below 0")
    return repeat(a, (1,) * (len(np.shape(a)) - len(counts)) + counts)


# Choosing and writing elements.


@composite
def take_along_dim(a: Operand, indices: Operand, dim: int | None = None) -> Tensor:
    """Return the elements that ``indices`` names along ``dim``, as ``argsort`` returns them.

    The other dimensions broadcast. Without ``dim`` both are flattened.

    Raises:
        IndexError: an index below 0 or too large, or not an integer; ``dim`` out of range.
        ShapeError: the shapes do not fit.
    """
    dtype = _array("indices", indices).dtype
    if dtype.kind not in "iu":
        raise IndexError(f"indices must hold integers, got {dtype}")
    if dim is None:
        return gather(reshape(a, (-1,)), reshape(indices, (-1,)), 0)
    shape, wanted = np.shape(a), np.shape(indices)
    along = axis(dim, len(shape))
    if len(shape) != len(wanted):
        raise ShapeError(f"indices has shape {wanted}, but a has shape {shape}")
    common = _common("a", _without(shape, along), "indices", _without(wanted, along))
    whole, chosen = (
        (*common[:along], *lengths[along : along + 1], *common[along:])
        for lengths in (shape, wanted)
    )
    return gather(_expanded(a, whole), _expanded(indices, chosen), dim)


@composite
def scatter_add(a: Operand, index: Operand, src: Operand, dim: int) -> Tensor:
    """Return a copy of ``a`` with ``src`` added at ``index`` along ``dim``, repeats included.

    ``out[i][index[i][j][k]][k] += src[i][j][k]`` for ``dim`` 1. ``src`` is at least as long as
    ``index`` in every dimension; what is longer is not used.

    Raises:
        IndexError: an index below 0 or too large, or not an integer; ``dim`` out of range.
        ShapeError: the shapes do not fit.
    """
    shape, given = np.shape(index), np.shape(src)
    if len(shape) != len(given) or any(n > m for n, m in zip(shape, given, strict=True)):
        raise ShapeError(f"src of shape {given} must cover index, {shape}")
    if shape != given:
        src = getitem(src, tuple(slice(n) for n in shape))
    return add(a, gather_adjoint(src, index, dim, np.shape(a)))


@composite
def index_add(a: Operand, index: Operand, source: Operand, dim: int, alpha: float = 1) -> Tensor:
    """Return a copy of ``a`` with slices of ``alpha * source`` added at ``index`` along ``dim``.

    Raises:
        IndexError: an index below 0 or too large, or not an integer; ``dim`` out of range.
        ShapeError: not one slice for each index, or slices of another shape.
        RuntimeError: ``alpha`` is no integer where ``source`` holds integers.
    """
    shape, given = np.shape(a), np.shape(source)
    along = axis(dim, len(shape))
    if len(shape) != len(given) or _without(shape, along) != _without(given, along):
        raise ShapeError(f"source of shape {given} must equal {shape} but in dimension {along}")
    slices, places = given[along] if given else 1, np.shape(index)
    if len(places) > 1 or math.prod(places) != slices:
        raise ShapeError(f"source has {slices} slices, but index has shape {places}")
    scaled: Any = source
    if alpha != 1:
        scaled = mul(source, alpha)
        dtype = getattr(source, "dtype", scaled.dtype)
        if scaled.dtype != dtype:
            if scaled.dtype.kind == "f":
                raise RuntimeError(f"alpha must be an integer beside {dtype}, got {alpha}")
            scaled = cast(scaled, dtype)  # of truth values
    length = shape[along] if shape else 1
    return add(a, index_select_adjoint(scaled, index, dim, length))


@composite
def index_put(
    a: Operand, values: Operand, indices: Sequence[Any], accumulate: bool = False
) -> Tensor:
    """Return a copy of ``a`` with ``values`` at ``indices``, a tuple of Tensors; or added there.

    Where a place is named several times, the last value for it remains, and alone has a gradient.

    Raises:
        IndexError: out of range, too many indices, or not integer or boolean.
        ShapeError: ``values`` does not fit into what ``indices`` names.
        TypeError: ``indices`` is not a sequence.
    """
    if not isinstance(indices, (tuple, list)):
        raise TypeError(
            f"indices must be a tuple of Tensors, got {type(indices).__name__}; write (indices,)"
        )
    return setitem(a, values, tuple(indices), accumulate)


@composite
def masked_fill(a: Operand, mask: Operand, value: Operand) -> Tensor:
    """Return a copy of ``a`` with ``value``, one number, where ``mask`` is True; both broadcast.

    Raises:
        RuntimeError: ``mask`` is not bool.
        ShapeError: the shapes do not fit.
    """
    check_bool("mask", _array("mask", mask))
    if np.shape(value):
        raise ShapeError(f"value must be one number, got shape {np.shape(value)}")
    _common("a", np.shape(a), "mask", np.shape(mask))
    filled = where(mask, value, a)
    dtype = getattr(a, "dtype", filled.dtype)
    return cast(filled, dtype) if filled.dtype != dtype else filled


@composite
def masked_select(a: Operand, mask: Operand) -> Tensor:
    """Return the elements of ``a`` where ``mask`` is True, in a row; both broadcast.

    Raises:
        RuntimeError: ``mask`` is not bool.
        ShapeError: the shapes do not fit.
    """
    check_bool("mask", _array("mask", mask))
    shape = _common("a", np.shape(a), "mask", np.shape(mask))
    return getitem(_expanded(a, shape), _expanded(mask, shape))


def _array(name: str, operand: Any) -> Array:
    return operand.data if isinstance(operand, Tensor) else as_array(operand, what=name)


def _common(name: str, shape: Shape, other: str, other_shape: Shape) -> Shape:
    """Return the shape that two operands broadcast to."""
    try:
        return np.broadcast_shapes(shape, other_shape)
    except ValueError as error:
        raise ShapeError(
            f"{name} of shape {shape} and {other} of shape {other_shape} do not broadcast"
        ) from error


def _expanded(a: Any, shape: Shape) -> Any:
    return a if np.shape(a) == shape else expand(a, shape)


def _without(shape: Shape, dim: int) -> Shape:
    return shape[:dim] + shape[dim + 1 :]


# Order.


@composite
def sort(a: Operand, dim: int = -1, descending: bool = False, stable: bool = False) -> Ranking:
    """Return ``(values, indices)`` of the elements in order along ``dim``; NaN is the largest.

    Equal elements keep their order, ``stable`` or not.

    Raises:
        IndexError: ``dim`` out of range.
    """
    indices = argsort(a, dim, descending, stable)
    return Ranking(gather(a, indices, dim), indices)


@composite
def topk(a: Operand, k: int, dim: int = -1, largest: bool = True, sorted: bool = True) -> Ranking:
    """Return ``(values, indices)`` of the ``k`` largest elements along ``dim``, largest first.

    Or of the smallest, smallest first; as they stand unless ``sorted``. Of equal elements the
    first are taken, and come first. NaN is the largest.

    Raises:
        IndexError: ``dim`` out of range.
        TypeError: ``k`` is not an integer.
        RuntimeError: ``k`` is negative or more than there are.
    """
    indices = topk_indices(a, k, dim, largest, sorted)
    return Ranking(gather(a, indices, dim), indices)


# Other libraries' names.
movedim = moveaxis
take_along_axis = take_along_dim
