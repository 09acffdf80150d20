"""Entries like those of ``into``, of ops that combine the elements along dimensions."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..graph import Array
from ..shapes import axis, reduced
from .choice import kernels_in_use
from .into import Call, calls, entry
from .room import Room, contiguous

__all__: list[str] = []  # entered in the tables of ``into``


def _like(room: Room, name: str, a: Array, dtype: Any = None) -> Array:
    """Return an array of the shape of ``a`` that lies as a ufunc would have it lie.

    In what order numbers are added up depends on it.
    """
    order = sorted(range(a.ndim), key=np.empty_like(a).strides.__getitem__, reverse=True)
    memory = room(name, tuple(a.shape[d] for d in order), dtype or a.dtype)
    return memory.transpose(np.argsort(order))


def _averaged(room: Room, a: Array, over: tuple[int, ...]) -> tuple[Array, list[Call]]:
    """Return where the mean will be, each reduced length kept as 1, and what computes it."""
    mean = room("mean", tuple(1 if d in over else n for d, n in enumerate(a.shape)), a.dtype)
    fast = kernels_in_use() == "numba"
    found = calls("mean", {"dim": over, "keepdim": True}, room, mean, (a,), fast)
    assert found is not None
    return mean, found


@entry
def var(attrs: Any, room: Room, out: Array, a: Array) -> list[Call]:
    return _varied(attrs, room, out, a)


def _varied(attrs: Any, room: Room, out: Array, a: Array) -> list[Call]:
    over = reduced(attrs["dim"], a.ndim)
    (mean, found), centred = _averaged(room, a, over), _like(room, "centred", a)
    freedom = np.maximum(math.prod(a.shape[d] for d in over) - attrs["correction"], 0)
    return [
        *found,
        (np.subtract, (a, mean, centred)),
        (np.multiply, (centred, centred, centred)),
        (np.add.reduce, (centred, over, None, out, attrs["keepdim"])),
        (np.divide, (out, a.dtype.type(freedom), out)),
    ]


@entry
def std(attrs: Any, room: Room, out: Array, a: Array) -> list[Call]:
    return [*_varied(attrs, room, out, a), (np.sqrt, (out, out))]


@entry
def norm(attrs: Any, room: Room, out: Array, a: Array) -> list[Call]:
    over, p = reduced(attrs["dim"], a.ndim), float(attrs["p"])
    sizes = _like(room, "sizes", a)

    def reduction(ufunc: np.ufunc, of: Array) -> Call:
        return ufunc.reduce, (of, over, None if of is sizes else a.dtype, out, attrs["keepdim"])

    found: list[Call] = [(np.absolute, (a, sizes))]
    if math.isinf(p):
        return [*found, reduction(np.maximum if p > 0 else np.minimum, sizes)]
    if p == 0:
        there = _like(room, "there", a, bool)
        return [*found, (np.not_equal, (sizes, 0, there)), reduction(np.add, there)]
    if p == 1:
        return [*found, reduction(np.add, sizes)]
    if p == 2:
        squares = (np.square, (sizes, sizes))
        return [*found, squares, reduction(np.add, sizes), (np.sqrt, (out, out))]
    powers = (np.power, (sizes, p, sizes))
    total = reduction(np.add, sizes)
    return [*found, powers, total, (np.power, (out, a.dtype.type(1 / p), out))]


@entry
def logsumexp(attrs: Any, room: Room, out: Array, a: Array) -> list[Call]:
    over = reduced(attrs["dim"], a.ndim)
    kept = tuple(1 if d in over else n for d, n in enumerate(a.shape))
    shift, finite = room("shift", kept, a.dtype), room("finite", kept, bool)
    e, total = _like(room, "e", a), out.reshape(kept)
    return [
        (np.maximum.reduce, (a, over, None, shift, True, -np.inf)),
        (np.isfinite, (shift, finite)),
        (np.logical_not, (finite, finite)),
        (np.copyto, (shift, 0, "same_kind", finite)),
        (np.subtract, (a, shift, e)),
        (np.exp, (e, e)),
        (np.add.reduce, (e, over, None, total, True)),
        (np.log, (total, total)),
        (np.add, (total, shift, total)),
    ]


@entry
def cumsum(attrs: Any, room: Room, out: Array, a: Array) -> list[Call] | None:
    return _accumulated(np.add, attrs["dim"], out, a)


@entry
def cumprod(attrs: Any, room: Room, out: Array, a: Array) -> list[Call] | None:
    return _accumulated(np.multiply, attrs["dim"], out, a)


def _accumulated(ufunc: np.ufunc, dim: int, out: Array, a: Array) -> list[Call] | None:
    if not a.ndim:
        return None
    return [(ufunc.accumulate, (a, axis(dim, a.ndim), out.dtype, out))]


@entry
def prod(attrs: Any, room: Room, out: Array, a: Array) -> list[Call]:
    over = reduced(attrs["dim"], a.ndim)
    return [(np.multiply.reduce, (a, over, out.dtype, out, attrs["keepdim"]))]


@entry
def amin(attrs: Any, room: Room, out: Array, a: Array) -> list[Call] | None:
    return _extremum(np.minimum, attrs, out, a)


@entry
def max(attrs: Any, room: Room, out: Array, a: Array) -> list[Call] | None:
    return _extremum(np.maximum, attrs, out, a)


@entry
def min(attrs: Any, room: Room, out: Array, a: Array) -> list[Call] | None:
    return _extremum(np.minimum, attrs, out, a)


def _extremum(ufunc: np.ufunc, attrs: Any, out: Array, a: Array) -> list[Call] | None:
    over = reduced(attrs["dim"], a.ndim)
    if not math.prod(a.shape[d] for d in over):
        return None
    return [(ufunc.reduce, (a, over, None, out, attrs["keepdim"]))]


@entry
def any(attrs: Any, room: Room, out: Array, a: Array) -> list[Call]:
    over = reduced(attrs["dim"], a.ndim)
    return [(np.logical_or.reduce, (a, over, bool, out, attrs["keepdim"]))]


@entry
def all(attrs: Any, room: Room, out: Array, a: Array) -> list[Call]:
    over = reduced(attrs["dim"], a.ndim)
    return [(np.logical_and.reduce, (a, over, bool, out, attrs["keepdim"]))]


@entry
def argmax(attrs: Any, room: Room, out: Array, a: Array) -> list[Call] | None:
    return _position(np.argmax, attrs, room, out, a)


@entry
def argmin(attrs: Any, room: Room, out: Array, a: Array) -> list[Call] | None:
    return _position(np.argmin, attrs, room, out, a)


def _position(function: Any, attrs: Any, room: Room, out: Array, a: Array) -> list[Call] | None:
    if not a.size or not a.ndim or attrs["dim"] is None:
        return None
    moved = np.moveaxis(a, axis(attrs["dim"], a.ndim), -1)
    return [(_find, (function, room, moved, out.reshape(moved.shape[:-1])))]


def _find(function: Any, room: Room, rows: Array, out: Array) -> None:
    function(contiguous(room, "rows", rows), -1, out)
