"""Draws of what reads and writes elements by index."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from tests.crosscheck.draw_table import Call, draws, row

if TYPE_CHECKING:
    from tests.crosscheck.generate import Draft

__all__ = ["named"]


def _index(d: Draft, shape: tuple[int, ...]) -> Any:
    """An index: basic, by integers that may repeat, by a mask, or mixed."""
    if not shape:
        return d.choose([(), None, Ellipsis])
    n = shape[0]
    options: list[Any] = [
        slice(None, None, 2),
        slice(1, None),
        slice(None, None, -1),
        None,
        Ellipsis,
        (Ellipsis, slice(0, 1)),
    ]
    if n:
        rows = [d.integer(-n, n) for _ in range(d.integer(1, 5))]
        options += [d.integer(-n, n), rows, rows, [k % n for k in rows] + [0, 0]]
        options += [[bool(d.chance(0.6)) for _ in range(n)]]
    if len(shape) > 1 and n and shape[1]:
        columns = [d.integer(-shape[1], shape[1]) for _ in range(3)]
        rows = [d.integer(-n, n) for _ in range(3)]
        options += [(slice(None), d.integer(0, shape[1])), (slice(None), columns), (rows, columns)]
        options += [(rows, slice(None, 1)), (None, slice(None), columns)]
    return d.choose(options)


@draws("getitem")
def _getitem(d: Draft, i: int) -> Call:
    return (i,), {"index": _index(d, d.data[i].shape)}


@draws("getitem_adjoint")
def _getitem_adjoint(d: Draft, i: int) -> Call:
    a = d.data[i]
    if a.ndim == 0:
        return (i,), {"index": d.integer(0, 3), "shape": (3,)}
    if a.shape[0] == 0:
        return None
    rows = [d.integer(0, 3) for _ in range(a.shape[0])]
    return (i,), {"index": rows, "shape": (3, *a.shape[1:])}


@draws("embedding")
def _embedding(d: Draft, i: int) -> Call:
    if d.data[i].dtype.kind == "i":
        return (d.other((max(int(d.data[i].max(initial=0)) + 1, 2), 2)), i), {}
    i = d.with_ndim(i, 2, 2)
    rows = d.data[i].shape[0]
    if not rows:
        return None
    indices = d.rng.integers(0, rows, d.choose([(), (3,), (2, 2)]))
    return (i, d.constant(np.asarray(indices))), {}


@draws("embedding_adjoint")
def _embedding_adjoint(d: Draft, i: int) -> Call:
    if d.data[i].dtype.kind == "i":
        rows = int(d.data[i].max(initial=0)) + 1
        return (d.other((*d.data[i].shape, 2)), i), {"rows": rows}
    i = d.with_ndim(i, 1, 3)
    rows = d.integer(1, 4)
    indices = d.rng.integers(0, rows, d.data[i].shape[:-1])
    return (i, d.constant(np.asarray(indices))), {"rows": rows}


@draws("one_hot")
def _one_hot(d: Draft, i: int) -> Call:
    a = d.data[i]
    if a.dtype.kind == "i":
        return (i,), {"num_classes": int(a.max(initial=0)) + 1}
    i = d.bridge("argmax", i, dim=0 if a.ndim else None)
    return (i,), {"num_classes": max(a.shape[0] if a.ndim else 1, 1)}


@draws("setitem")
def _setitem(d: Draft, i: int) -> Call:
    i = d.with_ndim(i, 1, 3)
    shape = d.data[i].shape
    if not math.prod(shape):
        return None
    index = _index(d, shape)
    target = np.zeros(shape)[index].shape
    value = d.other(target[1:] if d.chance(0.3) else target)
    accumulate = d.chance(0.5)
    if d.chance(0.3) and target == shape:
        return (value, i), {"index": Ellipsis, "accumulate": accumulate}
    return (i, value), {"index": index, "accumulate": accumulate}


def named(d: Draft, i: int) -> tuple[int, int, int] | None:
    """The value i, a dimension of it, and indices along it in a shape of their own."""
    i = d.with_ndim(i, 1, 3)
    shape = d.data[i].shape
    dim = d.dim(len(shape))
    if not shape[dim]:
        return None
    lengths = [d.integer(1, n + 1) if n else 0 for n in shape]
    lengths[dim] = d.integer(1, 4)
    return i, dim, d.constant(np.asarray(d.rng.integers(0, shape[dim], lengths)))


@draws("gather")
def _gather(d: Draft, i: int) -> Call:
    if d.data[i].dtype.kind == "i":
        return (d.other((int(d.data[i].max(initial=0)) + 1,)), row(d, i)), {"dim": 0}
    found = named(d, i)
    return None if found is None else ((found[0], found[2]), {"dim": found[1]})


@draws("gather_adjoint")
def _gather_adjoint(d: Draft, i: int) -> Call:
    if d.data[i].dtype.kind == "i":
        i = row(d, i)
        size = int(d.data[i].max(initial=0)) + 1
        return (d.other(d.data[i].shape), i), {"dim": 0, "shape": (size,)}
    i = d.with_ndim(i, 1, 3)
    shape = d.data[i].shape
    dim, length = d.integer(0, len(shape)), d.integer(1, 4)
    index = d.constant(np.asarray(d.rng.integers(0, length, shape)))
    return (i, index), {"dim": dim, "shape": (*shape[:dim], length, *shape[dim + 1 :])}


@draws("scatter")
def _scatter(d: Draft, i: int) -> Call:
    if d.data[i].dtype.kind == "i":
        i = row(d, i)
        size = int(d.data[i].max(initial=0)) + 1
        return (d.other((size,)), i, d.other(d.data[i].shape)), {"dim": 0}
    found = named(d, i)
    if found is None:
        return None
    a, dim, index = found
    # PyTorch leaves open which of several values for one place remains, and gives all a gradient.
    places = np.moveaxis(d.data[index], dim, -1)
    if any(len({*row}) < len(row) for row in places.reshape(-1, places.shape[-1]).tolist()):
        return None
    return (a, index, d.other(d.data[index].shape)), {"dim": dim}


@draws("index_select")
def _index_select(d: Draft, i: int) -> Call:
    if d.data[i].dtype.kind == "i":
        return (d.other((int(d.data[i].max(initial=0)) + 1, 2)), row(d, i)), {"dim": 0}
    i = d.with_ndim(i, 1, 3)
    shape = d.data[i].shape
    dim = d.dim(len(shape))
    if not shape[dim]:
        return None
    return (i, d.constant(np.asarray(d.rng.integers(0, shape[dim], 3)))), {"dim": dim}


@draws("index_select_adjoint")
def _index_select_adjoint(d: Draft, i: int) -> Call:
    if d.data[i].dtype.kind == "i":
        i = row(d, i)
        length = int(d.data[i].max(initial=0)) + 1
        return (d.other((d.data[i].size, 2)), i), {"dim": 0, "length": length}
    i = d.with_ndim(i, 1, 3)
    dim, length = d.dim(d.data[i].ndim), d.integer(1, 4)
    index = np.asarray(d.rng.integers(0, length, d.data[i].shape[dim]))
    return (i, d.constant(index)), {"dim": dim, "length": length}


@draws("argsort")
def _argsort(d: Draft, i: int) -> Call:
    return (i,), {"dim": d.dim(d.data[i].ndim), "descending": d.chance(0.5), "stable": True}


@draws("topk_indices")
def _topk_indices(d: Draft, i: int) -> Call:
    i = d.with_ndim(i, 1, 3)
    length = d.data[i].shape[-1]
    return (i,), {"k": d.integer(0, length + 1), "dim": -1, "largest": d.chance(0.5)}
