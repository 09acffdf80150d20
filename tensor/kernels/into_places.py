"""Entries like those of ``into``, of ops that move elements: rearranging, reading and adding back.

Where an index is part of the program, the places that it names are found once.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from ..graph import Array
from ..shapes import axes, axis, integers, is_basic
from . import contraction, reference
from . import scatter as scatters
from .choice import kernels_in_use
from .into import Call, calls, entry
from .room import Room, contiguous

__all__: list[str] = []  # entered in the tables of ``into``


# Rearranged.


@entry
def flip(attrs: Any, room: Room, out: Array, a: Array) -> list[Call]:
    return [(np.copyto, (out, np.flip(a, axes(integers("dims", attrs["dims"]), a.ndim))))]


@entry
def roll(attrs: Any, room: Room, out: Array, a: Array) -> list[Call] | None:
    shifts, dims = integers("shifts", attrs["shifts"]), attrs["dims"]
    if not a.size or not a.ndim or not a.flags.c_contiguous:
        return None
    if dims is None or dims == ():
        a, out, dims = a.reshape(-1), out.reshape(-1), 0
    over = tuple(axis(d, a.ndim) for d in integers("dims", dims))
    by = [0] * a.ndim
    for d, shift in zip(over, shifts, strict=True):
        by[d] = (by[d] + shift) % a.shape[d]
    halves = [
        [(slice(n - k), slice(k, n)), (slice(n - k, n), slice(k))] if k else [(slice(n), slice(n))]
        for n, k in zip(a.shape, by, strict=True)
    ]
    return [
        (np.copyto, (out[tuple(to for _, to in part)], a[tuple(at for at, _ in part)]))
        for part in itertools.product(*halves)
    ]


@entry
def repeat(attrs: Any, room: Room, out: Array, a: Array) -> list[Call]:
    counts = integers("repeats", attrs["repeats"])
    lengths = (1,) * (len(counts) - a.ndim) + a.shape
    shape = tuple(n for pair in zip(counts, lengths, strict=True) for n in pair)
    copies = a.reshape(tuple(n for length in lengths for n in (1, length)))
    return [(np.copyto, (out.reshape(shape), copies))]


@entry
def pad(attrs: Any, room: Room, out: Array, a: Array) -> list[Call]:
    lengths = integers("pad", attrs["pad"])
    ends = [(0, 0)] * (a.ndim - len(lengths) // 2)
    ends += zip(lengths[-2::-2], lengths[-1::-2], strict=True)

    def inside(of: Array, sign: int) -> Array:
        parts: list[Any] = [
            slice(max(sign * before, 0), n - max(sign * after, 0))
            for n, (before, after) in zip(of.shape, ends, strict=True)
        ]
        return of[*parts, ...]

    return [(out.fill, (attrs["value"],)), (np.copyto, (inside(out, 1), inside(a, -1)))]


@entry
def tril(attrs: Any, room: Room, out: Array, a: Array) -> list[Call]:
    kept = np.tri(a.shape[-2], a.shape[-1], attrs["diagonal"], dtype=bool)
    return [(reference.masked, (a, kept, out))]


@entry
def triu(attrs: Any, room: Room, out: Array, a: Array) -> list[Call]:
    kept = ~np.tri(a.shape[-2], a.shape[-1], attrs["diagonal"] - 1, dtype=bool)
    return [(reference.masked, (a, kept, out))]


@entry
def diagonal_adjoint(attrs: Any, room: Room, out: Array, a: Array) -> list[Call]:
    dims = axis(attrs["dim1"], out.ndim), axis(attrs["dim2"], out.ndim)
    view = np.diagonal(out, attrs["offset"], *dims)
    view.flags.writeable = True
    return [(out.fill, (0,)), (np.copyto, (view, a))]


@entry
def unfold_adjoint(attrs: Any, room: Room, out: Array, a: Array) -> list[Call] | None:
    if not out.ndim:
        return None
    given = a, out.shape, axis(attrs["dim"], out.ndim), attrs["step"]
    return [(partial(scatters.add_windows, into=out), given)]


# Products.


@entry
def outer(attrs: Any, room: Room, out: Array, a: Array, b: Array) -> list[Call]:
    return [(np.multiply, (a[:, None], b, out))]


@entry
def einsum(attrs: Any, room: Room, out: Array, *arrays: Array) -> list[Call]:
    return [(_einsum, (arrays, attrs["equation"], out, room))]


def _einsum(arrays: Sequence[Array], equation: str, out: Array, room: Room) -> None:
    np.copyto(out, contraction.einsum(arrays, equation, room))


# Read by index.


def _leading(index: Any) -> tuple[Any, ...] | None:
    """Return the arrays and integers of an index that has nothing else, and arrays among them."""
    parts = index if isinstance(index, tuple) else (index,)
    if not any(isinstance(part, np.ndarray) for part in parts):
        return None
    whole = all(
        isinstance(part, (int, np.integer, np.ndarray))
        and not isinstance(part, bool)
        and np.asarray(part).dtype.kind in "iu"
        for part in parts
    )
    return parts if whole else None


def _named(index: Any, shape: tuple[int, ...]) -> tuple[int, Array]:
    """Return how many of the leading dimensions an index names, and their places, from 0.

    Counted in C order; of an index that has more than arrays of integers, all dimensions.
    """
    parts = _leading(index)
    if parts is None:
        return len(shape), scatters.counted(shape)[index]
    return len(parts), scatters.counted(shape[: len(parts)])[parts]


def _place(a: Array, index: Any) -> Array:
    """Return the view that a basic index names, also where that is one number."""
    parts = index if isinstance(index, tuple) else (index,)
    return a[parts if any(part is ... for part in parts) else (*parts, ...)]


@entry
def getitem(attrs: Any, room: Room, out: Array, a: Array) -> list[Call] | None:
    if not a.size or not out.size:
        return None
    lead, places = _named(attrs["index"], a.shape)
    return [(_take, (room, a, lead, places.reshape(-1), out))]


def _take(room: Room, a: Array, lead: int, places: Array, out: Array) -> None:
    rows = contiguous(room, "source", a).reshape(-1, *a.shape[lead:])
    np.take(rows, places, 0, out.reshape(-1, *a.shape[lead:]), "clip")


@entry
def getitem_adjoint(attrs: Any, room: Room, out: Array, a: Array) -> list[Call] | None:
    index = attrs["index"]
    if is_basic(index):
        return [(out.fill, (0,)), (np.copyto, (_place(out, index), a))]
    if not out.size or not a.size:
        return None
    lead, places = _named(index, out.shape)
    places = places.reshape(-1)
    width = math.prod(out.shape[lead:])
    if _leading(index) and out.shape[lead:]:
        return [(_add_rows, (room, out.reshape(-1, width), a.reshape(-1, width), places))]
    return _added(room, out, a, places)


def _added(room: Room, out: Array, values: Array, places: Array) -> list[Call]:
    """Add numbers to zeros, in the order in which they lie."""
    return [(out.fill, (0,)), (_add_at, (room, out, values, places))]


def _add_at(room: Room, out: Array, values: Array, places: Array) -> None:
    np.add.at(out.reshape(-1), places, contiguous(room, "values", values).reshape(-1))


def _add_rows(room: Room, out: Array, rows: Array, places: Array) -> None:
    """Add rows to zeros, as an embedding's gradient is added up."""
    fast = kernels_in_use() == "numba"
    attrs = {"rows": len(out)}
    for function, arguments in (
        calls("embedding_adjoint", attrs, room, out, (rows, places), fast) or ()
    ):
        function(*arguments)


@entry
def setitem(attrs: Any, room: Room, out: Array, a: Array, value: Array) -> list[Call] | None:
    index = attrs["index"]
    copied = (np.copyto, (out, a))
    if is_basic(index):
        place = _place(out, index)
        if value.ndim > place.ndim:
            return None
        if attrs["accumulate"]:
            return [copied, (partial(np.add, casting="unsafe"), (place, value, place))]
        return [copied, (np.copyto, (place, value, "unsafe"))]
    places = scatters.counted(out.shape)[index]
    if value.ndim > places.ndim or not places.size:
        return None
    values = np.broadcast_to(value, places.shape)
    if not attrs["accumulate"]:
        return [copied, (_put, (room, out, values, places.reshape(-1)))]
    if not scatters.may_repeat(index):
        return [copied, (_increase, (room, out, values, places.reshape(-1)))]
    spread, added = room("spread", values.shape, out.dtype), room("added", out.shape, out.dtype)
    found = getitem_adjoint({"index": index}, room, added, spread)
    assert found is not None
    return [copied, (np.copyto, (spread, values, "unsafe")), *found, (np.add, (out, added, out))]


def _increase(room: Room, out: Array, values: Array, places: Array) -> None:
    sums, added = room("sums", places.shape, out.dtype), room("added", values.shape, out.dtype)
    np.copyto(added, values, "unsafe")
    np.take(out.reshape(-1), places, 0, sums, "clip")
    np.add(sums, added.reshape(-1), sums)
    out.reshape(-1)[places] = sums


def _put(room: Room, out: Array, values: Array, places: Array) -> None:
    held = room("values", values.shape, out.dtype)
    np.copyto(held, values, "unsafe")
    out.reshape(-1)[places] = held.reshape(-1)


# Along a dimension, by places that are operands.


def _along(attrs: Any, room: Room, shape: tuple[int, ...], index: Array) -> Array | None:
    """Return memory for the place, in an array of ``shape``, of what each index names."""
    if not shape or index.ndim != len(shape) or not index.size:
        return None
    return room("places", index.shape, np.int64)


def _find(attrs: Any, room: Room, shape: tuple[int, ...], index: Array, places: Array) -> None:
    along = axis(attrs["dim"], len(shape))
    scatters.check_rows(index, shape[along])
    steps = [math.prod(shape[d + 1 :]) for d in range(len(shape))]
    np.multiply(index, steps[along], places)
    for d, n in enumerate(index.shape):
        if d != along:
            step = room(f"steps{d}", (n,), np.int64)
            np.multiply(room.counted(n), steps[d], step)
            np.add(places, step.reshape(n, *(1,) * (len(shape) - d - 1)), places)


@entry
def gather(attrs: Any, room: Room, out: Array, a: Array, index: Array) -> list[Call] | None:
    places = _along(attrs, room, a.shape, index)
    if places is None or not a.size:
        return None
    return [
        (_find, (attrs, room, a.shape, index, places)),
        (_take, (room, a, a.ndim, places.reshape(-1), out)),
    ]


@entry
def gather_adjoint(attrs: Any, room: Room, out: Array, a: Array, index: Array) -> list[Call] | None:
    places = _along(attrs, room, out.shape, index)
    if places is None or not out.size:
        return None
    found = (_find, (attrs, room, out.shape, index, places))
    return [found, *_added(room, out, a, places.reshape(-1))]


@entry
def scatter(
    attrs: Any, room: Room, out: Array, a: Array, index: Array, src: Array
) -> list[Call] | None:
    places = _along(attrs, room, out.shape, index)
    if places is None or not out.size:
        return None
    values = src[scatters.region(index.shape)] if src.ndim else np.broadcast_to(src, index.shape)
    return [
        (np.copyto, (out, a)),
        (_find, (attrs, room, out.shape, index, places)),
        (_put, (room, out, values, places.reshape(-1))),
    ]


@entry
def index_select(attrs: Any, room: Room, out: Array, a: Array, index: Array) -> list[Call] | None:
    if not a.size or index.ndim != 1:
        return None
    return [(_select, (room, a, index, axis(attrs["dim"], a.ndim), out))]


def _select(room: Room, a: Array, index: Array, along: int, out: Array) -> None:
    scatters.check_rows(index, a.shape[along])
    np.take(contiguous(room, "source", a), index, along, out, "clip")


@entry
def index_select_adjoint(
    attrs: Any, room: Room, out: Array, a: Array, index: Array
) -> list[Call] | None:
    if not out.size or not a.size or index.ndim != 1:
        return None
    return [(_select_back, (room, out, a, index, axis(attrs["dim"], a.ndim)))]


def _select_back(room: Room, out: Array, a: Array, index: Array, along: int) -> None:
    slices = contiguous(room, "slices", np.moveaxis(a, along, 0))
    sums = np.moveaxis(out, along, 0)
    rows = sums if sums.flags.c_contiguous else room("sums", sums.shape, sums.dtype)
    _add_rows(room, rows.reshape(len(rows), -1), slices.reshape(len(slices), -1), index)
    if rows is not sums:
        np.copyto(sums, rows)


@entry
def one_hot(attrs: Any, room: Room, out: Array, indices: Array) -> list[Call]:
    hot = room("hot", out.shape, bool)
    return [
        (scatters.check_rows, (indices, out.shape[-1])),
        (np.equal, (room.counted(out.shape[-1]), indices[..., None], hot)),
        (np.copyto, (out, hot)),
    ]
