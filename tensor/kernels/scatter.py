"""Adding into places that may repeat: the adjoint of reading by index, and by windows."""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

from ..graph import Array
from .half import in_single

__all__ = ["ONE_HOT_LIMIT", "add_at", "add_rows", "add_windows", "check_rows"]

# Up to this many entries a one-hot matrix times the rows is the fastest
# scatter-add that numpy has; above it, sorting wins. See demos/bench_scatter.py.
ONE_HOT_LIMIT: Final = 2**20


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


@in_single
def add_at(values: Array, index: Any, shape: tuple[int, ...]) -> Array:
    """Return zeros of ``shape`` with ``values`` added at ``index``, as often as it repeats."""
    out = np.zeros(shape, values.dtype)
    parts = index if isinstance(index, tuple) else (index,)
    arrays = [part for part in parts if isinstance(part, (np.ndarray, list))]
    if not arrays:
        out[index] = values  # slices and integers name each element once
        return out
    if len(parts) == 1 and isinstance(parts[0], np.ndarray) and len(shape) > 1:
        rows = parts[0]
        if rows.dtype.kind in "iu" and rows.size and math.prod(shape[1:]):
            flat = np.where(rows < 0, rows + shape[0], rows).reshape(-1)
            width = math.prod(shape[1:])
            added: Array = add_rows(values.reshape(-1, width), flat, shape[0])
            return added.reshape(shape)
    if all(isinstance(part, np.ndarray) and part.dtype == bool for part in arrays) and (
        len(arrays) == 1
    ):
        out[index] = values  # one mask names each element once
        return out
    np.add.at(out, index, values)
    return out


@in_single
def add_windows(values: Array, shape: tuple[int, ...], dim: int, step: int) -> Array:
    """Return zeros of ``shape`` with windows, of which ``values`` has one in its last dimension.

    Window t, of as many elements as that dimension has, begins ``t * step`` along ``dim``.
    """
    out = np.zeros(shape, values.dtype)
    along, windows = np.moveaxis(out, dim, 0), np.moveaxis(values, (dim, -1), (0, 1))
    count, width = windows.shape[:2]
    if width <= count:  # what all windows have at one place is a slice
        for i in range(width):
            along[i : i + (count - 1) * step + 1 : step] += windows[:, i]
    else:
        for t in range(count):
            along[t * step : t * step + width] += windows[t]
    return out
