"""Adding into places that may repeat: the adjoint of reading by index, and by windows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from ..errors import ShapeError
from ..graph import Array
from ..shapes import reduced
from .choice import accelerated
from .half import in_single

__all__ = [
    "ONE_HOT_LIMIT",
    "add_along",
    "add_at",
    "add_rows",
    "add_windows",
    "check_along",
    "check_rows",
    "counted",
    "fits",
    "may_repeat",
    "put",
    "put_along",
    "region",
]

# Up to this many entries a one-hot matrix times the rows is the fastest
# scatter-add that numpy has; above it, sorting wins. See demos/bench_scatter.py.
ONE_HOT_LIMIT: Final = 2**20


def counted(shape: tuple[int, ...]) -> Array:
    """Return 0, 1, 2, ... in ``shape``: a number for every place."""
    return np.arange(math.prod(shape)).reshape(shape)


def fits(shape: tuple[int, ...], target: tuple[int, ...]) -> bool:
    """Return whether values of ``shape`` can be broadcast into ``target``."""
    lengths = zip(shape[::-1], target[::-1], strict=False)
    return len(shape) <= len(target) and all(n in (1, wanted) for n, wanted in lengths)


def may_repeat(index: Any) -> bool:
    """Return whether ``index`` may name a place twice: whether arrays of integers are in it."""
    parts = index if isinstance(index, tuple) else (index,)
    return any(
        isinstance(part, list) or (isinstance(part, np.ndarray) and part.dtype != bool)
        for part in parts
    )


def put(array: Array, index: Any, value: Array, accumulate: bool = False) -> None:
    """Write ``value``, broadcast, at ``index``, or add it there; the last for a place remains."""
    repeats = may_repeat(index)
    if accumulate and repeats:
        values = np.broadcast_to(value.astype(array.dtype, copy=False), array[index].shape)
        np.add(array, add_at(values, index, array.shape), array)
    elif accumulate:
        array[index] += value.astype(array.dtype, copy=False)
    elif repeats and value.ndim > 1:
        # Which value is the last must not depend on how they lie in memory.
        array[index] = np.ascontiguousarray(np.broadcast_to(value, array[index].shape))
    else:
        array[index] = value


def check_along(a_shape: tuple[int, ...], index: Array, dim: int) -> int:
    """Raise unless ``index`` names places along a dimension; return the dimension from the front.

    Raises:
        IndexError: ``dim`` or an index is out of range, or the dtype is not integer.
        ShapeError: another number of dimensions, or ``index`` is longer in another one.
    """
    (along,) = reduced(dim, len(a_shape)) or (0,)
    shape, wanted = np.shape(index) or (1,), a_shape or (1,)
    if len(shape) != len(wanted):
        raise ShapeError(f"index has shape {index.shape}, but the tensor has shape {a_shape}")
    if any(n > wanted[d] for d, n in enumerate(shape) if d != along):
        raise ShapeError(
            f"index has shape {index.shape}, and may exceed {a_shape} in dimension {along} alone"
        )
    check_rows(index, wanted[along])
    return along


def region(shape: tuple[int, ...], dim: int = -1) -> tuple[slice, ...]:
    """Return the index of the corner of ``shape``, but whole along ``dim``."""
    return tuple(slice(None if d == dim else n) for d, n in enumerate(shape))


def put_along(array: Array, index: Array, value: Array, dim: int) -> None:
    """Write ``value`` at ``index`` along ``dim``; of several for a place the last remains."""
    values = np.ascontiguousarray(np.broadcast_to(value, index.shape))
    np.put_along_axis(array[region(index.shape, dim)], index, values, dim)


@in_single
def add_along(values: Array, index: Array, dim: int, shape: tuple[int, ...]) -> Array:
    """Return zeros of ``shape`` with ``values`` added at ``index`` along ``dim``."""
    grid: list[Array] = list(np.ogrid[region(index.shape)])
    grid[dim] = index
    return _add_flat(values, _counted_in(shape, grid), shape)


def _counted_in(shape: tuple[int, ...], index: Sequence[Array]) -> Array:
    """Return what element of ``shape``, counted in C order, each index names.

    Raises:
        IndexError: one is out of range.
    """
    places: Any = 0
    for length, part in zip(shape, index, strict=True):
        low, high = (part.min(), part.max()) if part.size else (0, -1)
        if low < -length or high >= length:
            worst = low if low < -length else high
            raise IndexError(f"index {worst} is out of bounds for a dimension of length {length}")
        step = np.where(part < 0, part + length, part) if low < 0 else part
        places = step if isinstance(places, int) else places * length + step
    return np.asarray(places)


def _add_flat(values: Array, places: Array, shape: tuple[int, ...]) -> Array:
    """Return zeros of ``shape`` with ``values`` added at ``places``, counted in C order."""
    out = np.zeros(math.prod(shape), values.dtype)
    # In one dimension numpy has a loop of its own for this, many times as fast as for several.
    np.add.at(out, places.reshape(-1), values.reshape(-1))
    return out.reshape(shape)


def check_rows(indices: Any, rows: int, what: str = "index") -> None:
    """Raise unless every index is an integer in ``[0, rows)``.

    Raises:
        IndexError: one is not.
    """
    if indices.dtype.kind not in "iu":
        raise IndexError(f"{what} must hold integers, got {indices.dtype}")
    if indices.size:
        low, high = indices.min(), indices.max()
        if low < 0 or high >= rows:
            raise IndexError(f"{what} {low if low < 0 else high} is outside [0, {rows})")


@in_single
@accelerated
def add_rows(values: Array, indices: Array, rows: int) -> Array:
    """Return (rows, width) zeros with row i of ``values`` (n, width) added at ``indices[i]``."""
    count = len(indices)
    # In a product with a one-hot matrix every row meets every other, times 0:
    # one that is not finite would spread to them all.
    small = count * rows <= ONE_HOT_LIMIT and values.dtype.kind == "f"
    if small and math.isfinite(values.sum(dtype=np.float64)):
        one_hot = np.equal(np.arange(rows)[:, None], indices).astype(values.dtype)
        product: Array = np.matmul(one_hot, values)
        return product
    out = np.zeros((rows, values.shape[1]), values.dtype)
    if count:
        order = np.argsort(indices, kind="stable")
        places = indices[order]
        starts = np.flatnonzero(np.r_[True, places[1:] != places[:-1]])
        out[places[starts]] = np.add.reduceat(values[order], starts, axis=0)
    return out


def _whole(part: Any) -> bool:
    return not isinstance(part, bool) and np.asarray(part).dtype.kind in "iu"


@in_single
def add_at(values: Array, index: Any, shape: tuple[int, ...]) -> Array:
    """Return zeros of ``shape`` with ``values`` added at ``index``, as often as it repeats."""
    out = np.zeros(shape, values.dtype)
    parts = index if isinstance(index, tuple) else (index,)
    arrays = [part for part in parts if isinstance(part, (np.ndarray, list))]
    if not arrays:
        out[index] = values  # slices and integers name each element once
        return out
    if all(isinstance(part, (int, np.integer, np.ndarray)) and _whole(part) for part in parts):
        lead, rest = shape[: len(parts)], shape[len(parts) :]
        places = _counted_in(lead, [np.asarray(part) for part in parts])
        width = math.prod(rest)
        if values.shape != places.shape + rest:
            raise ShapeError(f"values of shape {values.shape} must be {places.shape + rest}")
        if not rest:
            return _add_flat(values, places, shape)
        if width and places.size:
            rows = values.reshape(-1, width)
            added: Array = add_rows(rows, places.reshape(-1), math.prod(lead))
            return added.reshape(shape)
    if all(isinstance(part, np.ndarray) and part.dtype == bool for part in arrays) and (
        len(arrays) == 1
    ):
        out[index] = values  # one mask names each element once
        return out
    return _add_flat(values, counted(shape)[index], shape)


@in_single
def add_windows(
    values: Array, shape: tuple[int, ...], dim: int, step: int, into: Array | None = None
) -> Array:
    """Return zeros of ``shape`` with windows, of which ``values`` has one in its last dimension.

    Window t, of as many elements as that dimension has, begins ``t * step`` along ``dim``.
    """
    out = np.empty(shape, values.dtype) if into is None else into
    out.fill(0)
    along, windows = np.moveaxis(out, dim, 0), np.moveaxis(values, (dim, -1), (0, 1))
    count, width = windows.shape[:2]
    if width <= count:  # what all windows have at one place is a slice
        for i in range(width):
            along[i : i + (count - 1) * step + 1 : step] += windows[:, i]
    else:
        for t in range(count):
            along[t * step : t * step + width] += windows[t]
    return out
