"""Entries like those of ``into``, of elementwise ops that take several steps."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from ..graph import Array
from . import reference
from .into import Call, entry
from .room import Room

__all__: list[str] = []  # entered in the tables of ``into``


def _is_floating(*arrays: Array) -> bool:
    return all(array.dtype.kind == "f" for array in arrays)


# Elementwise.


@entry
def pow(attrs: Any, room: Room, out: Array, a: Array, b: Array) -> list[Call] | None:
    if not b.ndim and _is_floating(a, b):  # what it holds may change
        return [(_power, (a, b, out))]
    return [(np.power, (a, b, out))] if b.ndim and a.dtype != bool else None


def _power(a: Array, b: Array, out: Array) -> None:
    if b == 2:
        np.square(a, out)
    elif b == 1:
        np.copyto(out, a)
    else:
        np.power(a, b, out)


@entry
def sign(attrs: Any, room: Room, out: Array, a: Array) -> list[Call] | None:
    if a.dtype == bool:
        return None
    above, below = room("above", a.shape, bool), room("below", a.shape, bool)
    return [
        (np.greater, (a, 0, above)),
        (np.less, (a, 0, below)),
        (partial(np.subtract, dtype=a.dtype), (above, below, out)),
    ]


@entry
def floor_divide(attrs: Any, room: Room, out: Array, a: Array, b: Array) -> list[Call] | None:
    return [(np.floor_divide, (a, b, out))] if _is_floating(a, b) else None


@entry
def remainder(attrs: Any, room: Room, out: Array, a: Array, b: Array) -> list[Call] | None:
    return [(np.remainder, (a, b, out))] if _is_floating(a, b) else None


@entry
def floor(attrs: Any, room: Room, out: Array, a: Array) -> list[Call] | None:
    return [(np.floor, (a, out))] if _is_floating(a) else None


@entry
def ceil(attrs: Any, room: Room, out: Array, a: Array) -> list[Call] | None:
    return [(np.ceil, (a, out))] if _is_floating(a) else None


@entry
def round(attrs: Any, room: Room, out: Array, a: Array) -> list[Call] | None:
    decimals = int(attrs["decimals"])
    if not _is_floating(a):
        return None
    if not decimals:
        return [(np.rint, (a, out))]
    scale = a.dtype.type(10.0 ** np.absolute(decimals))
    if decimals < 0:
        return [
            (np.divide, (a, scale, out)),
            (np.rint, (out, out)),
            (np.multiply, (out, scale, out)),
        ]
    scaled, finite = room("scaled", a.shape, a.dtype), room("finite", a.shape, bool)
    return [
        (np.multiply, (a, scale, scaled)),
        (np.isfinite, (scaled, finite)),
        (np.rint, (scaled, scaled)),
        (np.divide, (scaled, scale, scaled)),
        (np.copyto, (out, a)),
        (np.copyto, (out, scaled, "same_kind", finite)),
    ]


@entry
def rsqrt(attrs: Any, room: Room, out: Array, a: Array) -> list[Call]:
    return [(np.sqrt, (a, out)), (np.divide, (a.dtype.type(1), out, out))]


@entry
def logsigmoid(attrs: Any, room: Room, out: Array, a: Array) -> list[Call]:
    soft = room("soft", a.shape, a.dtype)
    return [
        *_softened(a, soft),
        (partial(np.minimum, out=out), (a, a.dtype.type(0))),
        (np.subtract, (out, soft, out)),
    ]


def _softened(a: Array, out: Array) -> list[Call]:
    """``log(1 + exp(-|a|))``."""
    return [
        (np.absolute, (a, out)),
        (np.negative, (out, out)),
        (np.exp, (out, out)),
        (np.log1p, (out, out)),
    ]


@entry
def softplus(attrs: Any, room: Room, out: Array, a: Array) -> list[Call]:
    number = a.dtype.type
    factor, threshold = number(attrs["beta"]), number(attrs["threshold"])
    scaled, linear = room("scaled", a.shape, a.dtype), room("linear", a.shape, bool)
    return [
        (np.multiply, (a, factor, scaled)),
        (np.greater, (scaled, threshold, linear)),
        *_softened(scaled, out),
        (partial(np.maximum, out=scaled), (scaled, number(0))),
        (np.add, (scaled, out, out)),
        (np.divide, (out, factor, out)),
        (np.copyto, (out, a, "same_kind", linear)),
    ]


@entry
def leaky_relu(attrs: Any, room: Room, out: Array, a: Array) -> list[Call]:
    above = room("above", a.shape, bool)
    return [
        (np.greater, (a, 0, above)),
        (np.multiply, (a, a.dtype.type(attrs["negative_slope"]), out)),
        (np.copyto, (out, a, "same_kind", above)),
    ]


@entry
def elu(attrs: Any, room: Room, out: Array, a: Array) -> list[Call]:
    above, number = room("above", a.shape, bool), a.dtype.type
    return [
        (np.greater, (a, 0, above)),
        (partial(np.minimum, out=out), (a, number(0))),
        (np.expm1, (out, out)),
        (np.multiply, (number(attrs["alpha"]), out, out)),
        (np.copyto, (out, a, "same_kind", above)),
    ]


@entry
def clip(attrs: Any, room: Room, out: Array, a: Array) -> list[Call] | None:
    if not _is_floating(a):
        return None
    low, high = (None if x is None else a.dtype.type(x) for x in (attrs["min"], attrs["max"]))
    return [(partial(np.clip, out=out), (a, low, high))]


@entry
def binary_cross_entropy(attrs: Any, room: Room, out: Array, a: Array, target: Array) -> list[Call]:
    one, least = a.dtype.type(1), a.dtype.type(-100)
    log_q, rest = room("log_q", a.shape, a.dtype), room("rest", a.shape, a.dtype)
    return [
        (reference.check_shares, (a, target)),
        (np.subtract, (one, a, log_q)),
        (np.log, (log_q, log_q)),
        (partial(np.maximum, out=log_q), (log_q, least)),
        (np.subtract, (target, one, rest)),
        (np.multiply, (rest, log_q, rest)),
        (np.log, (a, out)),
        (partial(np.maximum, out=out), (out, least)),
        (np.multiply, (target, out, out)),
        (np.subtract, (rest, out, out)),
    ]
