"""Entries like those of ``into``, made of the loops in ``jit``: imported where numba's kernels run.

They are tried first, and are None for operands that a loop is not made for. The loops are those
that the ops call themselves, so that the bits are the same.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from ..graph import Array
from ..shapes import reduced
from . import jit
from .into import Call
from .room import Room
from .scatter import check_rows

__all__ = ["FAST"]

FAST: Final[dict[str, Callable[..., list[Call] | None]]] = {}


def _fast(builder: Callable[..., list[Call] | None]) -> Callable[..., list[Call] | None]:
    FAST[builder.__name__] = builder
    return builder


@_fast
def sum(attrs: Any, room: Room, out: Array, a: Array) -> list[Call] | None:
    over = reduced(attrs["dim"], a.ndim)
    rows = jit.leading(a, over)
    if rows is None:
        rows = jit.last(a, over)
        return None if rows is None else [(jit._across_loop, (rows, out.reshape(-1)))]
    total = out.reshape(-1)
    return [(total.fill, (0,)), (jit._backward_loop, (rows, rows, 0, None, total))]


@_fast
def mean(attrs: Any, room: Room, out: Array, a: Array) -> list[Call] | None:
    found = sum(attrs, room, out, a)
    if found is None:
        return None
    count = a.dtype.type(a.size // max(out.size, 1))
    return [*found, (np.divide, (out, count, out))]


def _rows(a: Array) -> Array:
    return a.reshape(-1, a.shape[-1])


def _is_rows(attrs: Any, a: Array) -> bool:
    last = a.ndim > 0 and attrs["dim"] % a.ndim == a.ndim - 1
    return last and a.size > 0 and jit._alike(jit.SINGLE, a)


@_fast
def softmax(attrs: Any, room: Room, out: Array, a: Array) -> list[Call] | None:
    if not _is_rows(attrs, a):
        return None
    rows = _rows(out)
    return [
        (jit._shift_loop, (_rows(a), rows)),
        (np.exp, (rows, rows)),
        (jit._share_loop, (rows,)),
    ]


@_fast
def log_softmax(attrs: Any, room: Room, out: Array, a: Array) -> list[Call] | None:
    if not _is_rows(attrs, a):
        return None
    rows = _rows(out)
    e = room("e", rows.shape, rows.dtype)
    return [
        (jit._shift_loop, (_rows(a), rows)),
        (np.exp, (rows, e)),
        (jit._log_share_loop, (e, rows)),
    ]


# Cross-entropy, of exponentials that it shares with its gradient.


@_fast
def shifted(attrs: Any, room: Room, out: Array, a: Array) -> list[Call] | None:
    """``a`` (N, C) less the largest of each row."""
    return [(jit._shift_loop, (a, out))]


@_fast
def losses(
    attrs: Any, room: Room, out: Array, e: Array, shifted: Array, target: Array
) -> list[Call] | None:
    """The cross-entropy of logits of which ``e`` are the exponentials, after a shift."""
    return [(_losses, (out, e, shifted, target, attrs["ignore_index"], attrs["reduction"]))]


def _losses(
    out: Array, e: Array, shifted: Array, target: Array, ignored: int, reduction: str
) -> None:
    _counted(e, target, ignored)
    loss, count = jit._losses_loop(e, shifted, target, ignored)
    out[...] = loss if reduction == "sum" else np.float64(loss) / count


@_fast
def probabilities(
    attrs: Any, room: Room, out: Array, e: Array, target: Array, g: Array
) -> list[Call] | None:
    """The gradient by logits of which ``e`` are the exponentials, after a shift."""
    over = out.ctypes.data == e.ctypes.data
    copied: list[Call] = [] if over else [(np.copyto, (out, e))]
    given = out, target, g, attrs["ignore_index"], attrs["reduction"]
    return [*copied, (_probabilities, given)]


def _probabilities(e: Array, target: Array, g: Array, ignored: int, reduction: str) -> None:
    count = _counted(e, target, ignored)
    scale = g[()]
    if reduction == "mean":
        scale = scale / jit.SINGLE.type(count)
    jit._probabilities_loop(e, target, ignored, scale)


def _counted(e: Array, target: Array, ignored: int) -> int:
    """Return how many rows count."""
    count: int = jit._fitting_loop(target, ignored, e.shape[1])
    if count < 0:
        check_rows(target[target != ignored], e.shape[1], what="target")
    return count


@_fast
def embedding_adjoint(
    attrs: Any, room: Room, out: Array, a: Array, indices: Array
) -> list[Call] | None:
    if not jit._floating(a, out):
        return None
    values = a.reshape(indices.size, a.shape[-1])
    return [
        (check_rows, (indices, attrs["rows"])),
        (out.fill, (0,)),
        (jit._add_rows_loop, (values, indices.reshape(-1), out)),
    ]
