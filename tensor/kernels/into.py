"""Kernels that write into memory they are given: what a planned program calls.

Each function takes the attributes of an op, a ``Room`` for scratch memory, the array for the
result, and the operands, and returns the calls that compute it: functions and their arguments, to
be called in order, as often as wanted. They give the bits that the op's own kernel gives. An op
that has no entry here is computed by its kernel and copied.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final, TypeAlias

import numpy as np

from ..graph import Array
from ..shapes import axis, reduced
from . import reference, scatter
from .room import Room

__all__ = [
    "ELEMENTWISE",
    "INTO",
    "PULLBACKS",
    "UFUNCS",
    "Call",
    "calls",
    "computed",
    "entry",
    "pullback",
    "several",
]

Call: TypeAlias = tuple[Callable[..., Any], tuple[Any, ...]]

# Ops that are one ufunc of numpy.
UFUNCS: Final[Mapping[str, np.ufunc]] = {
    "abs": np.absolute,
    "add": np.add,
    "atan": np.arctan,
    "bitwise_and": np.bitwise_and,
    "bitwise_not": np.invert,
    "bitwise_or": np.bitwise_or,
    "bitwise_xor": np.bitwise_xor,
    "cos": np.cos,
    "cosh": np.cosh,
    "div": np.divide,
    "eq": np.equal,
    "exp": np.exp,
    "exp2": np.exp2,
    "expm1": np.expm1,
    "ge": np.greater_equal,
    "gt": np.greater,
    "isfinite": np.isfinite,
    "isinf": np.isinf,
    "isnan": np.isnan,
    "le": np.less_equal,
    "log": np.log,
    "log10": np.log10,
    "log1p": np.log1p,
    "log2": np.log2,
    "logical_and": np.logical_and,
    "logical_not": np.logical_not,
    "logical_or": np.logical_or,
    "logical_xor": np.logical_xor,
    "lt": np.less,
    "mul": np.multiply,
    "ne": np.not_equal,
    "neg": np.negative,
    "sin": np.sin,
    "sinh": np.sinh,
    "sqrt": np.sqrt,
    "sub": np.subtract,
    "tan": np.tan,
    "tanh": np.tanh,
}

# Ops whose result may be written over an operand of its shape and dtype.
ELEMENTWISE: Final = frozenset(UFUNCS) | {
    *("masked", "maximum", "minimum", "probabilities", "reciprocal", "relu", "sigmoid", "square")
}


INTO: Final[dict[str, Callable[..., list[Call] | None]]] = {}

# Of what yields several arrays: functions of a ``Room``, the arrays for the results, None for those
# that are not wanted, the incoming gradient, and the rest by name.
PULLBACKS: Final[dict[str, Callable[..., list[Call] | None]]] = {}


def entry(builder: Callable[..., list[Call] | None]) -> Callable[..., list[Call] | None]:
    """Enter a function as what makes the calls of the op of its name."""
    INTO[builder.__name__] = builder
    return builder


def pullback(builder: Callable[..., list[Call] | None]) -> Callable[..., list[Call] | None]:
    """Enter a function as what makes the calls of the hand-fused pullback of its name."""
    PULLBACKS[builder.__name__] = builder
    return builder


# Elementwise.


@entry
def square(attrs: Any, room: Room, out: Array, a: Array) -> list[Call] | None:
    return None if a.dtype == bool else [(np.square, (a, out))]


@entry
def reciprocal(attrs: Any, room: Room, out: Array, a: Array) -> list[Call]:
    return [(np.divide, (a.dtype.type(1), a, out))]


@entry
def maximum(attrs: Any, room: Room, out: Array, a: Array, b: Array) -> list[Call]:
    return [(partial(np.maximum, out=out), (a, b))]


@entry
def minimum(attrs: Any, room: Room, out: Array, a: Array, b: Array) -> list[Call]:
    return [(partial(np.minimum, out=out), (a, b))]


@entry
def relu(attrs: Any, room: Room, out: Array, a: Array) -> list[Call]:
    return [(reference.relu, (a, out, room))]


@entry
def sigmoid(attrs: Any, room: Room, out: Array, a: Array) -> list[Call]:
    return [(reference.sigmoid, (a, out, room))]


@entry
def silu(attrs: Any, room: Room, out: Array, a: Array) -> list[Call]:
    share = room("share", a.shape, a.dtype)
    return [(reference.sigmoid, (a, share, room)), (np.multiply, (a, share, out))]


@entry
def where(attrs: Any, room: Room, out: Array, cond: Array, a: Array, b: Array) -> list[Call]:
    return [(np.copyto, (out, b)), (np.copyto, (out, a, "same_kind", cond))]


@entry
def masked(attrs: Any, room: Room, out: Array, mask: Array, a: Array) -> list[Call]:
    """``where(mask, a, 0)``, or with ``attrs["inverted"]`` where it does not hold."""
    if not attrs["inverted"]:
        return [(reference.masked, (a, mask, out))]
    kept = room("kept", mask.shape, bool)
    return [(np.logical_not, (mask, kept)), (reference.masked, (a, kept, out))]


# Copies.


@entry
def cast(attrs: Any, room: Room, out: Array, a: Array) -> list[Call]:
    return [(np.copyto, (out, a, "unsafe"))]


@entry
def clone(attrs: Any, room: Room, out: Array, a: Array) -> list[Call]:
    return [(np.copyto, (out, a))]


@entry
def reshape(attrs: Any, room: Room, out: Array, a: Array) -> list[Call]:
    return [(np.copyto, (out.reshape(a.shape), a))]


flatten = INTO["flatten"] = INTO["squeeze"] = INTO["unsqueeze"] = reshape


@entry
def cat(attrs: Any, room: Room, out: Array, *arrays: Array) -> list[Call]:
    along, end, calls = axis(attrs["dim"], out.ndim), 0, []
    for array in arrays:
        start, end = end, end + array.shape[along]
        calls.append((np.copyto, (out[(slice(None),) * along + (slice(start, end),)], array)))
    return calls


@entry
def stack(attrs: Any, room: Room, out: Array, *arrays: Array) -> list[Call]:
    along = axis(attrs["dim"], out.ndim)
    before: tuple[Any, ...] = (slice(None),) * along
    return [(np.copyto, (out[*before, i, ...], a)) for i, a in enumerate(arrays)]


# Products.


@entry
def matmul(attrs: Any, room: Room, out: Array, a: Array, b: Array) -> list[Call]:
    return [(reference.matmul, (a, b, out))]


@entry
def linear(
    attrs: Any, room: Room, out: Array, a: Array, weight: Array, bias: Array | None
) -> list[Call]:
    return [(reference.linear, (a, weight, bias, attrs["activation"], out, room))]


@entry
def tanh(attrs: Any, room: Room, out: Array, a: Array) -> list[Call]:
    return [(np.tanh, (a, out))]


# Reductions.


@entry
def sum(attrs: Any, room: Room, out: Array, a: Array) -> list[Call]:
    over = reduced(attrs["dim"], a.ndim)
    return [(np.add.reduce, (a, over, out.dtype, out, attrs["keepdim"]))]


@entry
def mean(attrs: Any, room: Room, out: Array, a: Array) -> list[Call]:
    over = reduced(attrs["dim"], a.ndim)
    count = a.dtype.type(math.prod(a.shape[d] for d in over))
    total = (np.add.reduce, (a, over, None, out, attrs["keepdim"]))
    return [total, (np.divide, (out, count, out))]


@entry
def amax(attrs: Any, room: Room, out: Array, a: Array) -> list[Call] | None:
    over = reduced(attrs["dim"], a.ndim)
    if not math.prod(a.shape[d] for d in over):
        return None
    return [(np.maximum.reduce, (a, over, None, out, attrs["keepdim"]))]


# Rows by number.


@entry
def embedding(attrs: Any, room: Room, out: Array, weight: Array, indices: Array) -> list[Call]:
    return [
        (scatter.check_rows, (indices, len(weight))),
        (np.take, (weight, indices, 0, out, "clip")),
    ]


@entry
def embedding_adjoint(attrs: Any, room: Room, out: Array, a: Array, indices: Array) -> list[Call]:
    values = a.reshape(indices.size, a.shape[-1])
    return [(_add_rows, (out, values, indices, attrs["rows"], room))]


def _add_rows(out: Array, values: Array, indices: Array, rows: int, room: Room) -> None:
    scatter.check_rows(indices, rows)
    count = indices.size
    small = count * rows <= scatter.ONE_HOT_LIMIT and values.dtype.kind == "f"
    if small and math.isfinite(values.sum(dtype=np.float64)):
        one_hot, places = room("hot", (rows, count), out.dtype), room("places", (count,), np.int64)
        np.multiply(indices.reshape(-1), count, places)
        np.add(places, room.counted(count), places)
        one_hot.fill(0)
        one_hot.reshape(-1)[places] = 1
        np.matmul(one_hot, values, out)
    else:
        np.copyto(out, scatter.add_rows(values, indices.reshape(-1), rows))


def calls(
    name: str, attrs: Any, room: Room, out: Array, arrays: Sequence[Any], fast: bool
) -> list[Call] | None:
    """Return the calls that compute an op, or None if there is no entry for such operands.

    Args:
        name: of the op.
        attrs: its attributes.
        room: scratch memory.
        out: the result.
        arrays: the operands.
        fast: whether to try the loops that numba compiles first.
    """
    if any(array is not None and array.dtype == np.float16 for array in (out, *arrays)):
        return None  # halves are worked on in single precision, which takes copies
    _complete()
    found: list[Call] | None = None
    if fast and name in _loops():
        found = _loops()[name](attrs, room, out, *arrays)
    if found is None and name in INTO:
        found = INTO[name](attrs, room, out, *arrays)
    if found is None and name in UFUNCS:
        found = [(UFUNCS[name], (*arrays, out))]
    return found


def _loops() -> Mapping[str, Callable[..., list[Call] | None]]:
    from .fast import FAST

    return FAST


def computed(
    name: str, attrs: Any, shape: tuple[int, ...], dtype: Any, fast: bool, *arrays: Array
) -> Array:
    """Return what the calls of an entry compute, in memory of its own."""
    out = np.empty(shape, dtype)
    for function, arguments in calls(name, attrs, Room(), out, arrays, fast) or ():
        function(*arguments)
    return out


def several(
    name: str, room: Room, outs: Sequence[Array | None], kernel: Any, arrays: Sequence[Array]
) -> list[Call]:
    """Return the calls of what yields several arrays."""
    _complete()
    if name in PULLBACKS and arrays[0].dtype != np.float16:
        g, *operands = arrays
        named = {**dict(zip(kernel.names, operands, strict=True)), **kernel.attrs}
        outs = [*outs, *[None] * (len(kernel.needs) - len(outs))]
        found = PULLBACKS[name](room, outs, g, **named)
        if found is not None:
            return found
    return [(_copied, (outs, kernel, arrays))]


def _copied(outs: Sequence[Array | None], kernel: Any, arrays: Sequence[Array]) -> None:
    for out, result in zip(outs, kernel(*arrays), strict=False):
        if out is not None:
            np.copyto(out, result)


def _complete() -> None:
    """Have the entries of the other modules entered."""
    from . import (  # noqa: F401
        into_elementwise,
        into_layers,
        into_places,
        into_planes,
        into_reductions,
    )
