"""Reading elements by index, writing them, and adding them back."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..dispatch import OPS, Operand, kernel
from ..errors import ShapeError
from ..graph import Array
from ..inplace import plain_index
from ..kernels import scatter as scatters
from ..shapes import axis

__all__ = [
    "argsort",
    "embedding",
    "embedding_adjoint",
    "gather",
    "gather_adjoint",
    "getitem",
    "getitem_adjoint",
    "index_select",
    "index_select_adjoint",
    "nonzero",
    "one_hot",
    "scatter",
    "setitem",
    "topk_indices",
]


def _chosen(a: Any, index: Any) -> Any:
    """Return ``a[index]``; numpy does not say which part of an index is none, so say it."""
    try:
        return a[index]
    except IndexError as error:
        for part in index if isinstance(index, tuple) else (index,):
            if part is None or part is ... or isinstance(part, slice):
                continue
            dtype = np.asarray(part).dtype
            if dtype.kind not in "iub" and np.size(part):
                got = f"an array of {dtype}" if np.ndim(part) else repr(part)
                raise IndexError(f"{error}; got {got}") from error
        raise


@kernel(prepare={"index": plain_index})
def getitem(a: Operand, index: Any) -> Any:
    """Return ``a[index]``: integers, slices, None, ``...``, integer and boolean arrays, mixed.

    Basic indices give a view; arrays give a copy, in which an element may
    stand several times. As in numpy, and unlike in PyTorch, an integer beside
    an array counts as an array: ``a[0, :, [1, 2]]`` has the chosen ones first.

    Raises:
        IndexError: out of range, too many indices, or not integer or boolean.
    """
    out = _chosen(a, index)
    if isinstance(out, np.generic):  # the one element, as a view and not a copy
        out = a[(*index, ...) if isinstance(index, tuple) else (index, ...)]
    return out


def _add_to(total: Array, g: Array, index: Any) -> bool:
    if scatters.may_repeat(index):
        return False
    scatters.put(total, index, g, accumulate=True)
    return True


OPS["getitem"].adds = _add_to


@kernel(prepare={"index": plain_index})
def getitem_adjoint(a: Operand, index: Any, shape: tuple[int, ...]) -> Any:
    """Return zeros of ``shape`` to which ``a`` is added at ``index``, repeats included."""
    return scatters.add_at(a, index, shape)


@kernel("first", prepare={"index": plain_index})
def setitem(a: Operand, value: Operand, index: Any, accumulate: bool = False) -> Any:
    """Return a copy of ``a`` with ``value`` at ``index``, broadcast; or added there.

    Where a place is named several times, the last value for it remains, and alone has a gradient.
    ``value`` is converted to the dtype of ``a``. What an index may be: see ``getitem``.

    Raises:
        IndexError: as ``getitem``.
        ShapeError: ``value`` does not fit into what ``index`` names.
    """
    target, value = np.shape(_chosen(a, index)), np.asarray(value)
    if not scatters.fits(value.shape, target):
        raise ShapeError(f"values of shape {value.shape} do not fit into shape {target}")
    out = a.copy()
    scatters.put(out, index, value, accumulate)
    return out


@kernel()
def gather(a: Operand, index: Operand, dim: int) -> Any:
    """Return the elements that ``index``, integers, names along ``dim``, in the shape of ``index``.

    ``out[i][j][k] = a[i][index[i][j][k]][k]`` for ``dim`` 1. ``index`` has as many dimensions as
    ``a``, and may be shorter in the others.

    Raises:
        IndexError: an index below 0 or too large, or not an integer; ``dim`` out of range.
        ShapeError: the shape of ``index`` does not fit.
    """
    along = scatters.check_along(a.shape, index, dim)
    index1 = np.atleast_1d(index)
    corner = np.atleast_1d(a)[scatters.region(index1.shape, along)]
    return np.take_along_axis(corner, index1, along).reshape(index.shape)


@kernel()
def gather_adjoint(a: Operand, index: Operand, dim: int, shape: tuple[int, ...]) -> Any:
    """Return zeros of ``shape`` to which ``a`` is added at ``index`` along ``dim``."""
    along = scatters.check_along(tuple(shape), index, dim)
    if a.shape != index.shape:
        raise ShapeError(f"a has shape {a.shape}, but index has shape {index.shape}")
    values, places = np.atleast_1d(a), np.atleast_1d(index)
    return scatters.add_along(values, places, along, tuple(shape) or (1,)).reshape(shape)


@kernel("first")
def scatter(a: Operand, index: Operand, src: Operand, dim: int) -> Any:
    """Return a copy of ``a`` with ``src`` written at ``index`` along ``dim``.

    ``out[i][index[i][j][k]][k] = src[i][j][k]`` for ``dim`` 1. ``src`` is a number, or at least as
    long as ``index`` in every dimension; what is longer is not used. Where a place is named
    several times, the last value for it remains, and alone has a gradient. ``src`` is converted to
    the dtype of ``a``.

    Raises:
        IndexError, ShapeError: as ``gather``; or ``src`` is too short.
    """
    along = scatters.check_along(a.shape, index, dim)
    out, places = a.copy(), np.atleast_1d(index)
    written = _used(np.asarray(src), index.shape)
    scatters.put_along(np.atleast_1d(out), places, written, along)
    return out


def _used(src: Any, shape: tuple[int, ...]) -> Any:
    """Return the part of ``src`` that an index of ``shape`` asks for."""
    if src.ndim == 0:
        return src
    if src.ndim != max(len(shape), 1) or any(
        n < wanted for n, wanted in zip(src.shape, shape or (1,), strict=True)
    ):
        raise ShapeError(f"src of shape {src.shape} must be a number, or cover index, {shape}")
    return src[scatters.region(shape or (1,))] if shape != src.shape else src


@kernel()
def index_select(a: Operand, index: Operand, dim: int) -> Any:
    """Return the slices of ``a`` along ``dim`` that ``index``, a row of integers, names.

    Raises:
        IndexError: an index below 0 or too large, or not an integer; ``dim`` out of range.
        ShapeError: ``index`` has more than one dimension.
    """
    along = axis(dim, a.ndim)
    if index.ndim > 1:
        raise ShapeError(f"index must have one dimension, got shape {index.shape}")
    scatters.check_rows(index, np.shape(a)[along] if a.ndim else 1)
    taken = np.take(np.atleast_1d(a), np.atleast_1d(index), along)
    return taken if a.ndim else taken.reshape(() if index.size == 1 else index.shape)


@kernel()
def index_select_adjoint(a: Operand, index: Operand, dim: int, length: int) -> Any:
    """Return zeros, ``length`` long in ``dim``, with the slices of ``a`` added at ``index``."""
    along = axis(dim, a.ndim)
    places, slices = np.atleast_1d(index), np.moveaxis(np.atleast_1d(a), along, 0)
    if len(slices) != places.size:
        raise ShapeError(f"a has {len(slices)} slices, but index has shape {index.shape}")
    scatters.check_rows(places, length)
    rest = slices.shape[1:]
    rows = slices.reshape(places.size, math.prod(rest))
    sums = scatters.add_rows(rows, places.reshape(-1), length).reshape(length, *rest)
    return np.moveaxis(sums, 0, along) if a.ndim or length != 1 else sums.reshape(())


@kernel()
def argsort(a: Operand, dim: int = -1, descending: bool = False, stable: bool = False) -> Any:
    """Return the indices that put the elements along ``dim`` in order; NaN counts as largest.

    Equal elements keep their order, ``stable`` or not.
    """
    along = axis(dim, a.ndim)
    return _order(a, along, descending) if a.ndim else np.zeros((), np.int64)


def _order(a: Any, along: int, descending: bool) -> Any:
    """Return the indices that put the elements in order; equal ones stand as they did."""
    if not descending:
        return np.argsort(a, along, kind="stable")
    backwards = np.argsort(np.flip(a, along), along, kind="stable")
    return a.shape[along] - 1 - np.flip(backwards, along)


@kernel()
def topk_indices(
    a: Operand, k: int, dim: int = -1, largest: bool = True, sorted: bool = True
) -> Any:
    """Return the indices of the ``k`` largest elements along ``dim``, the largest first.

    Or of the smallest, the smallest first; as they stand unless ``sorted``. Of equal elements the
    first are taken, and come first. NaN counts as largest.

    Raises:
        TypeError: ``k`` is not an integer.
        RuntimeError: ``k`` is negative or more than there are.
    """
    if isinstance(k, bool) or not hasattr(k, "__index__"):
        raise TypeError(f"k must be an integer, got {k!r}")
    along = axis(dim, a.ndim)
    length = a.shape[along] if a.ndim else 1
    if not 0 <= k <= length:
        raise RuntimeError(f"k must lie in [0, {length}], the length of dimension {along}, got {k}")
    if not a.ndim:
        return np.zeros((), np.int64)
    rows = np.moveaxis(a, along, -1)
    indices = np.moveaxis(_best(rows, k, largest), -1, along)
    if not sorted:
        return indices
    order = _order(np.take_along_axis(a, indices, along), along, largest)
    return np.take_along_axis(indices, order, along)


def _best(rows: Any, k: int, largest: bool) -> Any:
    """Return where the ``k`` largest or smallest stand in each row, the first of equal ones."""
    shape = (*rows.shape[:-1], k)
    if 0 in shape:
        return np.zeros(shape, np.int64)
    if rows.dtype.kind == "f" and np.isnan(rows).any():  # which a comparison does not find
        return np.sort(_order(rows, rows.ndim - 1, largest)[..., :k], -1)
    place = rows.shape[-1] - k if largest else k - 1
    last = np.partition(rows, place, -1)[..., place : place + 1]
    better, ties = (rows > last if largest else rows < last), rows == last
    missing = k - better.sum(-1, keepdims=True)
    chosen = better | (ties & (ties.cumsum(-1) <= missing))
    return np.nonzero(chosen)[-1].reshape(shape)


@kernel()
def nonzero(a: Operand) -> Any:
    """Return the indices of the elements that are not 0: (how many, number of dimensions)."""
    return np.argwhere(a)


@kernel()
def embedding(weight: Operand, indices: Operand) -> Any:
    """Return the rows of ``weight`` (rows, width) named by ``indices`` (...): (..., width).

    Raises:
        IndexError: an index below 0 or not below the number of rows, or not an integer.
        ShapeError: ``weight`` has not two dimensions.
    """
    if weight.ndim != 2:
        raise ShapeError(f"weight must be (rows, width), got shape {weight.shape}")
    scatters.check_rows(indices, len(weight))
    return weight[indices]


@kernel()
def embedding_adjoint(a: Operand, indices: Operand, rows: int) -> Any:
    """Return (rows, width) zeros to which row i of ``a`` is added at row ``indices[i]``."""
    if a.shape[:-1] != indices.shape:
        raise ShapeError(f"a must be {(*indices.shape, 'width')}, one row for each index")
    scatters.check_rows(indices, rows)
    return scatters.add_rows(a.reshape(indices.size, a.shape[-1]), indices.reshape(-1), rows)


@kernel()
def one_hot(indices: Operand, num_classes: int) -> Any:
    """Return integers of shape ``(*indices.shape, num_classes)``, 1 at each index and 0 elsewhere.

    Raises:
        IndexError: an index outside ``[0, num_classes)``.
        TypeError: ``num_classes`` is not an integer.
    """
    if isinstance(num_classes, bool) or not hasattr(num_classes, "__index__"):
        raise TypeError(f"num_classes must be an integer, got {num_classes!r}")
    scatters.check_rows(indices, num_classes)
    return (np.arange(num_classes) == np.asarray(indices)[..., None]).astype(np.int64)
