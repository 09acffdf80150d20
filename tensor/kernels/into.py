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
from ..shapes import axis, reduced, size
from . import norms, reference, scatter

__all__ = [
    "ELEMENTWISE",
    "INTO",
    "UFUNCS",
    "Call",
    "Room",
    "calls",
    "computed",
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


class Room:
    """Scratch memory of one instruction, made when it is first asked for."""

    def __init__(self) -> None:
        self._arrays: dict[Any, Array] = {}

    def __call__(self, name: str, shape: tuple[int, ...], dtype: Any) -> Array:
        """Return the array of that name, shape and dtype; its elements are left as they are."""
        key = name, shape, np.dtype(dtype)
        if key not in self._arrays:
            self._arrays[key] = np.empty(shape, dtype)
        return self._arrays[key]

    def counted(self, count: int) -> Array:
        """Return the integers from 0 to ``count``."""
        key = "counted", (count,), np.dtype(np.int64)
        if key not in self._arrays:
            self._arrays[key] = np.arange(count, dtype=np.int64)
        return self._arrays[key]

    def filled(self, name: str, shape: tuple[int, ...], dtype: Any, value: float) -> Array:
        """Return the array of that name, all of one value."""
        array = self(name, shape, dtype)
        array.fill(value)
        return array


INTO: Final[dict[str, Callable[..., list[Call] | None]]] = {}


def _into(builder: Callable[..., list[Call] | None]) -> Callable[..., list[Call] | None]:
    INTO[builder.__name__.strip("_")] = builder
    return builder


# Elementwise.


@_into
def square(attrs: Any, room: Room, out: Array, a: Array) -> list[Call] | None:
    return None if a.dtype == bool else [(np.square, (a, out))]


@_into
def pow(attrs: Any, room: Room, out: Array, a: Array, b: Array) -> list[Call] | None:
    if b.ndim == 0:  # what it holds may change, and with it what the kernel does
        return None
    return [(np.power, (a, b, out))] if a.dtype != bool else None


@_into
def reciprocal(attrs: Any, room: Room, out: Array, a: Array) -> list[Call]:
    return [(np.divide, (a.dtype.type(1), a, out))]


@_into
def maximum(attrs: Any, room: Room, out: Array, a: Array, b: Array) -> list[Call]:
    return [(partial(np.maximum, out=out), (a, b))]


@_into
def minimum(attrs: Any, room: Room, out: Array, a: Array, b: Array) -> list[Call]:
    return [(partial(np.minimum, out=out), (a, b))]


@_into
def relu(attrs: Any, room: Room, out: Array, a: Array) -> list[Call]:
    return [(reference.relu, (a, out, room))]


@_into
def sigmoid(attrs: Any, room: Room, out: Array, a: Array) -> list[Call]:
    return [(reference.sigmoid, (a, out, room))]


@_into
def where(attrs: Any, room: Room, out: Array, cond: Array, a: Array, b: Array) -> list[Call]:
    return [(np.copyto, (out, b)), (np.copyto, (out, a, "same_kind", cond))]


@_into
def masked(attrs: Any, room: Room, out: Array, mask: Array, a: Array) -> list[Call]:
    """``where(mask, a, 0)``, or with ``attrs["inverted"]`` where it does not hold."""
    if not attrs["inverted"]:
        return [(reference.masked, (a, mask, out))]
    kept = room("kept", mask.shape, bool)
    return [(np.logical_not, (mask, kept)), (reference.masked, (a, kept, out))]


@_into
def dropout(attrs: Any, room: Room, out: Array, a: Array, mask: Array) -> list[Call]:
    p = attrs["p"]
    scale = a.dtype.type(0.0 if p == 1 else 1 / (1 - p))
    factors = room("factors", mask.shape, a.dtype)
    return [(np.multiply, (mask, scale, factors)), (np.multiply, (a, factors, out))]


# Copies.


@_into
def cast(attrs: Any, room: Room, out: Array, a: Array) -> list[Call]:
    return [(np.copyto, (out, a, "unsafe"))]


@_into
def clone(attrs: Any, room: Room, out: Array, a: Array) -> list[Call]:
    return [(np.copyto, (out, a))]


@_into
def reshape(attrs: Any, room: Room, out: Array, a: Array) -> list[Call]:
    return [(np.copyto, (out.reshape(a.shape), a))]


flatten = INTO["flatten"] = INTO["squeeze"] = INTO["unsqueeze"] = reshape


@_into
def cat(attrs: Any, room: Room, out: Array, *arrays: Array) -> list[Call]:
    along, end, calls = axis(attrs["dim"], out.ndim), 0, []
    for array in arrays:
        start, end = end, end + array.shape[along]
        calls.append((np.copyto, (out[(slice(None),) * along + (slice(start, end),)], array)))
    return calls


@_into
def stack(attrs: Any, room: Room, out: Array, *arrays: Array) -> list[Call]:
    along = axis(attrs["dim"], out.ndim)
    places = np.moveaxis(out, along, 0)
    return [(np.copyto, (place, a)) for place, a in zip(places, arrays, strict=True)]


@_into
def getitem_adjoint(attrs: Any, room: Room, out: Array, a: Array) -> list[Call] | None:
    index = attrs["index"]
    parts = index if isinstance(index, tuple) else (index,)
    if any(isinstance(part, np.ndarray | list) for part in parts):
        return None
    return [
        (out.fill, (0,)),
        (np.copyto, (out[*parts, ...] if ... not in parts else out[index], a)),
    ]


# Products.


@_into
def matmul(attrs: Any, room: Room, out: Array, a: Array, b: Array) -> list[Call]:
    return [(reference.matmul, (a, b, out))]


@_into
def linear(
    attrs: Any, room: Room, out: Array, a: Array, weight: Array, bias: Array | None
) -> list[Call]:
    return [(reference.linear, (a, weight, bias, attrs["activation"], out, room))]


@_into
def tanh(attrs: Any, room: Room, out: Array, a: Array) -> list[Call]:
    return [(np.tanh, (a, out))]


# Reductions.


@_into
def sum(attrs: Any, room: Room, out: Array, a: Array) -> list[Call]:
    over = reduced(attrs["dim"], a.ndim)
    return [(np.add.reduce, (a, over, out.dtype, out, attrs["keepdim"]))]


@_into
def mean(attrs: Any, room: Room, out: Array, a: Array) -> list[Call]:
    over = reduced(attrs["dim"], a.ndim)
    count = a.dtype.type(math.prod(a.shape[d] for d in over))
    total = (np.add.reduce, (a, over, None, out, attrs["keepdim"]))
    return [total, (np.divide, (out, count, out))]


@_into
def amax(attrs: Any, room: Room, out: Array, a: Array) -> list[Call] | None:
    over = reduced(attrs["dim"], a.ndim)
    if not math.prod(a.shape[d] for d in over):
        return None
    return [(np.maximum.reduce, (a, over, None, out, attrs["keepdim"]))]


# Softmax and cross-entropy.


def _shifted(room: Room, out: Array, a: Array, dim: int) -> list[Call]:
    top = room("top", tuple(1 if d == dim else n for d, n in enumerate(a.shape)), a.dtype)
    return [
        (np.maximum.reduce, (a, dim, None, top, True, -np.inf)),
        (np.subtract, (a, top, out)),
    ]


@_into
def softmax(attrs: Any, room: Room, out: Array, a: Array) -> list[Call] | None:
    if not a.ndim:
        return None
    dim = axis(attrs["dim"], a.ndim)
    calls = _shifted(room, out, a, dim)
    total: Array = calls[0][1][3]  # the largest are not needed any more
    return [
        *calls,
        (np.exp, (out, out)),
        (np.add.reduce, (out, dim, None, total, True)),
        (np.divide, (out, total, out)),
    ]


@_into
def log_softmax(attrs: Any, room: Room, out: Array, a: Array) -> list[Call] | None:
    if not a.ndim:
        return None
    dim = axis(attrs["dim"], a.ndim)
    if a.dtype == np.float64 and dim == a.ndim - 1:
        return None  # summed in an order of its own
    calls = _shifted(room, out, a, dim)
    total, e = calls[0][1][3], room("e", a.shape, a.dtype)
    return [
        *calls,
        (np.exp, (out, e)),
        (np.add.reduce, (e, dim, None, total, True)),
        (np.log, (total, total)),
        (np.subtract, (out, total, out)),
    ]


@_into
def nll(attrs: Any, room: Room, out: Array, log_p: Array, target: Array) -> list[Call]:
    """The losses of classes ``target`` (N,), of which ``log_p`` (N, C) has the logarithms."""
    return [(_nll, (attrs, room, out, log_p, target))]


def _nll(attrs: Any, room: Room, out: Array, log_p: Array, target: Array) -> None:
    count, ignored, places = _classified(attrs, room, log_p, target)
    losses = out if attrs["reduction"] == "none" else room("losses", target.shape, log_p.dtype)
    np.take(log_p.reshape(-1), places, 0, losses, "clip")
    np.negative(losses, losses)
    if ignored is not None:
        losses[ignored] = 0
    if losses is not out:
        np.add.reduce(losses, 0, out=out)
    if attrs["reduction"] == "mean":
        np.divide(out, out.dtype.type(count), out)


@_into
def nll_backward(
    attrs: Any, room: Room, out: Array, g: Array, log_p: Array, target: Array
) -> list[Call]:
    """The gradient by logits ``a`` of the losses of which ``log_p`` is the log-softmax."""
    return [(np.exp, (log_p, out)), (_nll_backward, (attrs, room, out, g, target))]


def _nll_backward(attrs: Any, room: Room, out: Array, g: Array, target: Array) -> None:
    count, ignored, places = _classified(attrs, room, out, target)
    scale = g / g.dtype.type(count) if attrs["reduction"] == "mean" else g
    if ignored is not None or g.ndim:
        scale = np.broadcast_to(scale.reshape(-1), target.shape)
        scale = scale if ignored is None else np.where(ignored, g.dtype.type(0), scale)
    np.multiply(out, scale[:, None] if np.ndim(scale) else scale, out)
    out.reshape(-1)[places] -= scale


def _classified(
    attrs: Any, room: Room, rows: Array, target: Array
) -> tuple[int, Array | None, Array]:
    """Return how many rows count, which do not, and the place of each row's class in ``rows``."""
    count, classes = rows.shape
    places = np.multiply(room.counted(count), classes, room("places", (count,), np.int64))
    skip, ignored, safe = attrs["ignore_index"], None, target
    if 0 <= skip < classes or (count and not 0 <= target.min() <= target.max() < classes):
        ignored = target == skip
        safe = np.where(ignored, 0, target)
        scatter.check_rows(safe, classes, what="target")
        count -= int(np.count_nonzero(ignored))
    np.add(places, safe, places)
    return count, ignored, places


# Rows by number.


@_into
def embedding(attrs: Any, room: Room, out: Array, weight: Array, indices: Array) -> list[Call]:
    return [
        (scatter.check_rows, (indices, len(weight))),
        (np.take, (weight, indices, 0, out, "clip")),
    ]


@_into
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


# Normalisation.


@_into
def layer_norm(
    attrs: Any, room: Room, out: Array, a: Array, weight: Array | None, bias: Array | None
) -> list[Call]:
    shape = size(attrs["normalized_shape"])
    return [(norms.layer_norm_into, (out, a, weight, bias, shape, attrs["eps"]))]


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
    name: str,
    room: Room,
    outs: Sequence[Array | None],
    kernel: Any,
    arrays: Sequence[Array],
    fast: bool,
) -> list[Call]:
    """Return the calls of what yields several arrays."""
    if name == "layer_norm_backward" and arrays[0].dtype != np.float16:
        g, *operands = arrays
        named = {**dict(zip(kernel.names, operands, strict=True)), **kernel.attrs}
        outs = [*outs, *[None] * (3 - len(outs))]
        if fast:
            from .fast import layer_norm_backward

            found = layer_norm_backward(room, outs, g, named)
            if found is not None:
                return found
        a, weight, shape = named["a"], named["weight"], size(named["normalized_shape"])
        memory = room("blocks", norms.layer_norm_room(a, shape), a.dtype)
        into = norms.layer_norm_backward_into
        return [(into, (outs, memory, g, a, weight, shape, named["eps"]))]
    return [(_copied, (outs, kernel, arrays))]


def _copied(outs: Sequence[Array | None], kernel: Any, arrays: Sequence[Array]) -> None:
    for out, result in zip(outs, kernel(*arrays), strict=False):
        if out is not None:
            np.copyto(out, result)
