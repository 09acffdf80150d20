"""Draws of ops that are made of other ops; of several results a program takes one."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from tests.crosscheck.draw_indexing import named
from tests.crosscheck.draw_table import Call, draws, row
from tests.crosscheck.programs import RESULT

if TYPE_CHECKING:
    from tests.crosscheck.generate import Draft

__all__: list[str] = []


@draws("tensordot")
def _tensordot(d: Draft, i: int) -> Call:
    i = d.into(d.with_ndim(i, 0, 3), -4.0, 4.0)
    shape = d.data[i].shape
    count = d.integer(0, len(shape) + 1)
    rest = (d.integer(1, 3),) if d.chance(0.5) else ()
    if d.chance(0.5):  # on the right, its dimensions by number
        over = [int(k) for k in d.rng.permutation(len(shape))[:count]]
        other = d.other((*rest, *(shape[k] for k in over)))
        dims = tuple(range(len(rest), len(rest) + count)), tuple(over)
        return (other, i), {"dims": dims}
    return (i, d.other((*shape[len(shape) - count :], *rest))), {"dims": count}


@draws("swapaxes")
def _swapaxes(d: Draft, i: int) -> Call:
    ndim = d.data[i].ndim
    return (i,), {"dim0": d.dim(ndim), "dim1": d.dim(ndim)}


@draws("moveaxis")
def _moveaxis(d: Draft, i: int) -> Call:
    ndim = d.data[i].ndim
    if not ndim or d.chance(0.5):
        return (i,), {"source": d.dim(ndim), "destination": d.dim(ndim)}
    count = d.integer(0, ndim + 1)
    source, destination = (tuple(int(k) for k in d.rng.permutation(ndim)[:count]) for _ in range(2))
    return (i,), {"source": source, "destination": destination}


@draws("split")
def _split(d: Draft, i: int) -> Call:
    i = d.with_ndim(i, 1, 4)
    dim = d.dim(d.data[i].ndim)
    length = d.data[i].shape[dim]
    if d.chance(0.3):
        first = d.integer(0, length + 1)
        return (i,), {"split_size": (first, length - first), "dim": dim, RESULT: d.choose([0, 1])}
    size = d.integer(1, length + 2)
    count = max(1, -(-length // size))
    return (i,), {"split_size": size, "dim": dim, RESULT: d.integer(-count, count)}


@draws("chunk")
def _chunk(d: Draft, i: int) -> Call:
    i = d.with_ndim(i, 1, 4)
    return (i,), {
        "chunks": d.integer(1, 5),
        "dim": d.dim(d.data[i].ndim),
        RESULT: d.choose([0, -1]),
    }


@draws("unbind")
def _unbind(d: Draft, i: int) -> Call:
    i = d.with_ndim(i, 1, 4)
    dim = d.dim(d.data[i].ndim)
    length = d.data[i].shape[dim]
    return ((i,), {"dim": dim, RESULT: d.integer(-length, length)}) if length else None


@draws("tile")
def _tile(d: Draft, i: int) -> Call:
    counts = tuple(d.choose([1, 1, 2]) for _ in range(d.integer(0, d.data[i].ndim + 2)))
    return (i,), {"dims": counts}


@draws("take_along_dim")
def _take_along_dim(d: Draft, i: int) -> Call:
    if d.data[i].dtype.kind == "i":
        return (d.other((int(d.data[i].max(initial=0)) + 1,)), row(d, i)), {"dim": 0}
    if d.chance(0.2):
        size = d.data[i].size
        return ((i, d.constant(np.asarray(d.rng.integers(0, size, 3)))), {}) if size else None
    i = d.with_ndim(i, 1, 3)
    shape = d.data[i].shape
    dim = d.dim(len(shape))
    if not shape[dim]:
        return None
    lengths = [n if d.chance(0.6) else 1 for n in shape]
    lengths[dim] = d.integer(1, 4)
    return (i, d.constant(np.asarray(d.rng.integers(0, shape[dim], lengths)))), {"dim": dim}


@draws("scatter_add")
def _scatter_add(d: Draft, i: int) -> Call:
    if d.data[i].dtype.kind == "i":
        i = row(d, i)
        size = int(d.data[i].max(initial=0)) + 1
        return (d.other((size,)), i, d.other(d.data[i].shape)), {"dim": 0}
    if d.chance(0.4):  # as what is added
        i = d.with_ndim(i, 1, 3)
        shape = d.data[i].shape
        dim, length = d.dim(len(shape)), d.integer(1, 4)
        index = d.constant(np.asarray(d.rng.integers(0, length, shape)))
        wide = list(shape)
        wide[dim] = length
        return (d.other(tuple(wide)), index, i), {"dim": dim}
    found = named(d, i)
    if found is None:
        return None
    a, dim, index = found
    return (a, index, d.other(d.data[index].shape)), {"dim": dim}


@draws("index_add")
def _index_add(d: Draft, i: int) -> Call:
    alpha = d.choose([1, 1, 2, -0.5])
    if d.data[i].dtype.kind == "i":
        i = row(d, i)
        length = int(d.data[i].max(initial=0)) + 1
        return (d.other((length, 2)), i, d.other((d.data[i].size, 2))), {"dim": 0, "alpha": alpha}
    i = d.with_ndim(i, 1, 3)
    shape = d.data[i].shape
    dim = d.dim(len(shape))
    count, other = d.integer(1, 4), list(shape)
    if d.chance(0.5):  # as what is added
        count, other[dim] = shape[dim], count
        index = d.constant(np.asarray(d.rng.integers(0, other[dim], count)))
        return (d.other(tuple(other)), index, i), {"dim": dim, "alpha": alpha}
    if not shape[dim]:
        return None
    other[dim] = count
    index = d.constant(np.asarray(d.rng.integers(0, shape[dim], count)))
    return (i, index, d.other(tuple(other))), {"dim": dim, "alpha": alpha}


@draws("index_put")
def _index_put(d: Draft, i: int) -> Call:
    i = d.with_ndim(i, 1, 3)
    shape = d.data[i].shape
    if not math.prod(shape):
        return None
    rows = [d.integer(-shape[0], shape[0]) for _ in range(d.integer(1, 5))]
    indices: tuple[list[int], ...] = (rows,)
    if len(shape) > 1 and d.chance(0.5):
        indices = rows, [d.integer(0, shape[1]) for _ in rows]
    target = (len(rows), *shape[len(indices) :])
    value = d.other(target[1:] if d.chance(0.3) else target)
    return (i, value), {"indices": indices, "accumulate": d.chance(0.5)}


@draws("masked_fill")
def _masked_fill(d: Draft, i: int) -> Call:
    if d.data[i].dtype.kind == "b":
        return (d.other(d.data[i].shape), i, d.other(())), {}
    mask = d.constant(d.rng.random(d.data[i].shape) < 0.5)
    if not d.data[i].ndim and d.chance(0.5):  # as the value
        return (d.other((3,)), d.constant(d.rng.random(3) < 0.5), i), {}
    return (i, mask, d.other(())), {}


@draws("masked_select")
def _masked_select(d: Draft, i: int) -> Call:
    shape = d.data[i].shape
    if d.data[i].dtype.kind == "b":
        return (d.other(shape), i), {}
    wanted = tuple(n if d.chance(0.75) else 1 for n in shape)
    return (i, d.constant(d.rng.random(wanted) < 0.6)), {}


@draws("sort")
def _sort(d: Draft, i: int) -> Call:
    dim = d.dim(d.data[i].ndim)
    return (i,), {"dim": dim, "descending": d.chance(0.5), "stable": True, RESULT: 0}


@draws("topk")
def _topk(d: Draft, i: int) -> Call:
    i = d.with_ndim(i, 1, 3)
    dim = d.dim(d.data[i].ndim)
    k = d.integer(0, d.data[i].shape[dim] + 1)
    how = {"largest": d.chance(0.5), "sorted": d.chance(0.7)}
    return (i,), {"k": k, "dim": dim, **how, RESULT: 0}
