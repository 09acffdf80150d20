"""Kernels that numba compiles: the twins of those in this folder that are ``@accelerated``.

Like its neighbours of ``choice.TWINS`` it imports numba, and is itself imported by the first call
of a kernel. A twin takes what the kernel of its name takes, returns the same, and
``NotImplemented`` for operands that it has no loop for. Loops are compiled for a dtype when they
first see it, and kept on disk.

Elementwise loops round as numpy does, one operation after the other: scalars are cast to the
arrays' dtype first, and nothing is contracted, so that results are equal bit for bit. Sums along
rows are taken in any order (``reassoc``), which lets them use vectors; only float32 is summed so,
since float64 runs are compared with others to the last digits. NaN is never assumed away.
Transcendental functions are left to numpy, which has vectors for them where numba has none.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from ..graph import Array
from .compiled import exact, summing
from .room import Memory, contiguous, fresh

__all__ = [
    "activation_backward",
    "add_rows",
    "cross_entropy",
    "cross_entropy_backward",
    "dropout",
    "finish",
    "finish_turned",
    "log_softmax",
    "log_softmax_backward",
    "softmax",
    "softmax_backward",
    "sum",
]

SINGLE: Final = np.dtype(np.float32)
DOUBLE: Final = np.dtype(np.float64)
INDEX: Final = np.dtype(np.int64)


def _alike(dtype: np.dtype[Any], *arrays: Array | None) -> bool:
    """Return whether the arrays are of this dtype and lie in memory in order."""
    return all(a is None or (a.dtype == dtype and a.flags.c_contiguous) for a in arrays)


def _floating(a: Array, *others: Array | None) -> bool:
    return a.dtype in (SINGLE, DOUBLE) and _alike(a.dtype, a, *others)


# Layers.


@exact
def _finish_loop(out: Any, bias: Any, relu: Any) -> None:
    zero = out.dtype.type(0)
    for i in range(out.shape[0]):
        row = out[i]
        for j in range(len(row)):
            x = row[j] + bias[j]
            row[j] = zero if relu and x <= zero else x


def finish(out: Array, bias: Array | None, activation: str | None, room: Any = None) -> Any:
    """Add the bias to a product and apply the activation, in place."""
    if bias is None or activation not in (None, "relu") or not _floating(out, bias):
        return NotImplemented
    _finish_loop(out, bias, activation == "relu")
    return None


TILE: Final = 16


@exact
def _finish_turned_loop(turned: Any, bias: Any, relu: Any, out: Any) -> None:
    """Write a product's transpose, with bias and activation, to ``out``, tile by tile."""
    zero = out.dtype.type(0)
    rows, width = out.shape
    tile = np.empty((TILE, TILE), out.dtype)
    for k in range(0, width, TILE):
        across = min(TILE, width - k)
        for h in range(0, rows, TILE):
            down = min(TILE, rows - h)
            for j in range(across):
                b = bias[k + j]
                for i in range(down):
                    x = turned[k + j, h + i] + b
                    tile[j, i] = zero if relu and x <= zero else x
            for i in range(down):
                for j in range(across):
                    out[h + i, k + j] = tile[j, i]


def finish_turned(
    turned: Array, bias: Array, activation: str | None, out: Array, room: Any = None
) -> Any:
    """Write the transpose of a product, with bias and activation, to ``out``."""
    if activation not in (None, "relu") or not _floating(out, bias, turned):
        return NotImplemented
    _finish_turned_loop(turned, bias, activation == "relu", out)
    return None


@exact
def _backward_loop(g: Any, out: Any, slope: Any, before: Any, total: Any) -> None:
    """Write the gradient before the activation, and add up its rows; either may be None.

    The activation is known by its slope: 0 is none, 1 ReLU, 2 tanh, 3 the sigmoid.
    """
    zero, one = g.dtype.type(0), g.dtype.type(1)
    rows, width = g.shape
    for i in range(rows):
        if before is not None:
            if slope == 1:
                for j in range(width):
                    before[i, j] = zero if out[i, j] <= zero else g[i, j]
            elif slope == 2:
                for j in range(width):
                    before[i, j] = g[i, j] * (one - out[i, j] * out[i, j])
            elif slope == 3:
                for j in range(width):
                    before[i, j] = g[i, j] * ((one - out[i, j]) * out[i, j])
            if total is not None:
                for j in range(width):
                    total[j] += before[i, j]
        elif total is not None:
            for j in range(width):
                total[j] += g[i, j]


_SLOPES: Final = {"relu": 1, "tanh": 2, "sigmoid": 3}


def activation_backward(g: Array, out: Array, activation: str | None, summed: bool) -> Any:
    """Return the gradient before the activation, and its sum over the rows if that is wanted."""
    if not _floating(g, out):
        return NotImplemented
    before = None if activation is None else np.empty_like(g)
    total = np.zeros(g.shape[1], g.dtype) if summed else None
    if before is not None or total is not None:
        _backward_loop(g, out, _SLOPES.get(activation or "", 0), before, total)
    return (g if before is None else before), total


def sum(a: Array, over: tuple[int, ...], keepdim: bool) -> Any:
    """Return the sum over leading dimensions, or of float32 over the last, row by row."""
    rows = leading(a, over)
    if rows is None:
        rows = last(a, over)
        if rows is None:
            return NotImplemented
        total = np.empty(a.shape[:-1], a.dtype)
        _across_loop(rows, total.reshape(-1))
        return total[..., None] if keepdim else total
    total = np.zeros(a.shape[len(over) :], a.dtype)
    _backward_loop(rows, rows, 0, None, total.reshape(-1))
    return total.reshape((1,) * len(over) + total.shape) if keepdim else total


@exact
def added(a: Any, i: Any) -> Any:
    """Return the sum of a row as that of sixteen sums, of every sixteenth element each.

    That is one order, whatever vectors there are: generated loops give the bits of ``sum``.
    """
    width, z = a.shape[1], a.dtype.type(0)
    r0, r1, r2, r3, r4, r5, r6, r7 = z, z, z, z, z, z, z, z
    q0, q1, q2, q3, q4, q5, q6, q7 = z, z, z, z, z, z, z, z
    whole = width - width % 16
    for j in range(0, whole, 16):
        r0 += a[i, j]
        r1 += a[i, j + 1]
        r2 += a[i, j + 2]
        r3 += a[i, j + 3]
        r4 += a[i, j + 4]
        r5 += a[i, j + 5]
        r6 += a[i, j + 6]
        r7 += a[i, j + 7]
        q0 += a[i, j + 8]
        q1 += a[i, j + 9]
        q2 += a[i, j + 10]
        q3 += a[i, j + 11]
        q4 += a[i, j + 12]
        q5 += a[i, j + 13]
        q6 += a[i, j + 14]
        q7 += a[i, j + 15]
    low = ((r0 + q0) + (r1 + q1)) + ((r2 + q2) + (r3 + q3))
    total = low + (((r4 + q4) + (r5 + q5)) + ((r6 + q6) + (r7 + q7)))
    for j in range(whole, width):
        total += a[i, j]
    return total


@exact
def _across_loop(a: Any, out: Any) -> None:
    for i in range(a.shape[0]):
        out[i] = added(a, i)


def last(a: Array, over: tuple[int, ...]) -> Array | None:
    """Return a matrix whose rows are each added up by a sum over the last dimension; else None."""
    if a.ndim < 2 or over != (a.ndim - 1,) or a.size == 0 or not _alike(SINGLE, a):
        return None
    return a.reshape(-1, a.shape[-1])


def leading(a: Array, over: tuple[int, ...]) -> Array | None:
    """Return a matrix whose rows are added up by a sum over leading dimensions; else None."""
    count = len(over)
    if not 0 < count < a.ndim or over != tuple(range(count)) or not _floating(a):
        return None
    return a.reshape(math.prod(a.shape[:count]), math.prod(a.shape[count:]))


@exact
def _dropout_loop(a: Any, mask: Any, scale: Any, out: Any) -> None:
    zero = scale * a.dtype.type(0)
    for i in range(len(a)):
        out[i] = a[i] * (scale if mask[i] else zero)


def dropout(
    a: Array, mask: Array, p: float, into: Array | None = None, room: Memory = fresh
) -> Any:
    """Return ``a * mask / (1 - p)``."""
    if a.shape != mask.shape or not _floating(a, into) or not mask.flags.c_contiguous:
        return NotImplemented
    out = np.empty(a.shape, a.dtype) if into is None else into
    scale = a.dtype.type(0.0 if p == 1 else 1 / (1 - p))
    _dropout_loop(a.reshape(-1), mask.reshape(-1), scale, out.reshape(-1))
    return out


# Rows by number.


@exact
def _add_rows_loop(values: Any, indices: Any, out: Any) -> None:
    for i in range(len(indices)):
        row, value = out[indices[i]], values[i]
        for j in range(len(row)):
            row[j] += value[j]


def add_rows(values: Array, indices: Array, rows: int) -> Any:
    """Return (rows, width) zeros with row i of ``values`` added at ``indices[i]``, in order."""
    if values.dtype not in (SINGLE, DOUBLE):
        return NotImplemented
    # Whatever the layout, rows are added in one order: numpy's kernel has others.
    out = np.zeros((rows, values.shape[1]), values.dtype)
    _add_rows_loop(np.ascontiguousarray(values), indices, out)
    return out


# Softmax and its kin, over the last dimension. Of what numpy's kernels do, the exponentials are
# numpy's here too. The largest of a row need not see every NaN: the sum will.


@summing
def _shift_loop(a: Any, out: Any) -> None:
    """Write ``a`` less the largest of each row to ``out``; float32 alone.

    Of the bits of two numbers, seen as integers, the larger one is that of the larger number, once
    all but the sign of the negative ones are turned over. Unlike numbers, integers can be compared
    in any order, and so with vectors.
    """
    bits, sign, rest = a.view(np.int32), np.int32(31), np.int32(0x7FFFFFFF)
    for i in range(a.shape[0]):
        top = np.int32(-0x80000000)
        for j in range(a.shape[1]):
            x = bits[i, j]
            top = max(top, x ^ ((x >> sign) & rest))
        largest = np.int32(top ^ ((top >> sign) & rest)).view(np.float32)
        for j in range(a.shape[1]):
            out[i, j] = a[i, j] - largest


@summing
def _total(e: Any, i: Any) -> Any:
    total = e.dtype.type(0)
    for j in range(e.shape[1]):
        total += e[i, j]
    return total


@summing
def _share_loop(e: Any) -> None:
    """Divide each row by its sum."""
    for i in range(e.shape[0]):
        total = _total(e, i)
        for j in range(e.shape[1]):
            e[i, j] = e[i, j] / total


@summing
def _log_share_loop(e: Any, out: Any) -> None:
    """Take the logarithm of the sum of each row of ``e`` from that of ``out``."""
    for i in range(e.shape[0]):
        total = math.log(_total(e, i))
        for j in range(e.shape[1]):
            out[i, j] = out[i, j] - total


@summing
def _losses_loop(e: Any, shifted: Any, target: Any, ignored: Any) -> Any:
    """Return the sum of the losses, and how many rows count."""
    loss, count = 0.0, 0
    for i in range(len(target)):
        if target[i] == ignored:
            continue
        loss += math.log(_total(e, i)) - shifted[i, target[i]]
        count += 1
    return loss, count


@summing
def _probabilities_loop(e: Any, target: Any, ignored: Any, scale: Any) -> None:
    """Make exponentials into ``softmax * scale``, less ``scale`` at each target."""
    for i in range(len(target)):
        counts = target[i] != ignored
        share = scale if counts else e.dtype.type(0)
        total = _total(e, i)
        for j in range(e.shape[1]):
            e[i, j] = e[i, j] / total * share
        if counts:
            e[i, target[i]] -= share


@summing
def _softmax_backward_loop(g: Any, out: Any, gradient: Any) -> None:
    for i in range(g.shape[0]):
        total = g.dtype.type(0)
        for j in range(g.shape[1]):
            total += g[i, j] * out[i, j]
        for j in range(g.shape[1]):
            gradient[i, j] = out[i, j] * (g[i, j] - total)


@summing
def _log_softmax_backward_loop(g: Any, gradient: Any) -> None:
    """Make probabilities into gradients."""
    for i in range(g.shape[0]):
        total = _total(g, i)
        for j in range(g.shape[1]):
            gradient[i, j] = g[i, j] - gradient[i, j] * total


@exact
def _fitting_loop(target: Any, ignored: Any, classes: Any) -> Any:
    """Return how many rows count, or -1 if a target is no class."""
    count = 0
    for t in target:
        if t != ignored:
            if t < 0 or t >= classes:
                return -1
            count += 1
    return count


def _exponentials(a: Array) -> tuple[Array, Array]:
    """Return what ``a`` is less than the largest of its row, and the exponentials of that."""
    shifted = np.empty(a.shape, a.dtype)
    _shift_loop(a, shifted)
    return shifted, np.exp(shifted)


def softmax(a: Array, dim: int) -> Any:
    """Return ``exp(a) / sum(exp(a))`` along the last dimension."""
    if a.ndim == 0 or dim % a.ndim != a.ndim - 1 or a.size == 0 or not _alike(SINGLE, a):
        return NotImplemented
    out = np.empty(a.shape, a.dtype)
    rows = out.reshape(-1, a.shape[-1])
    _shift_loop(a.reshape(rows.shape), rows)
    np.exp(rows, out=rows)
    _share_loop(rows)
    return out


def log_softmax(a: Array, dim: int) -> Any:
    """Return ``a - log(sum(exp(a)))`` along the last dimension."""
    if a.ndim == 0 or dim % a.ndim != a.ndim - 1 or a.size == 0 or not _alike(SINGLE, a):
        return NotImplemented
    out = np.empty(a.shape, a.dtype)
    rows = out.reshape(-1, a.shape[-1])
    _shift_loop(a.reshape(rows.shape), rows)
    _log_share_loop(np.exp(rows), rows)
    return out


def _backward(
    g: Array, out: Array, dim: int, into: Sequence[Array | None] | None, room: Memory
) -> tuple[Array, Array, Array] | None:
    """Return gradient, result and where to write that of the operand, as rows; or None."""
    if out.ndim == 0 or dim % out.ndim != out.ndim - 1 or out.size == 0:
        return None
    if g.dtype != SINGLE or not _alike(SINGLE, out):
        return None
    rows = -1, out.shape[-1]
    gradient = np.empty(out.shape, out.dtype) if into is None else into[0]
    assert gradient is not None
    return contiguous(room, "g", g).reshape(rows), out.reshape(rows), gradient.reshape(rows)


def softmax_backward(
    g: Array,
    needs: Sequence[bool],
    out: Array,
    dim: int,
    into: Sequence[Array | None] | None = None,
    room: Memory = fresh,
) -> Any:
    """Return ``out (g - sum(g out))``."""
    rows = _backward(g, out, dim, into, room)
    if rows is None:
        return NotImplemented
    _softmax_backward_loop(*rows)
    return (rows[-1].reshape(out.shape),)


def log_softmax_backward(
    g: Array,
    needs: Sequence[bool],
    out: Array,
    dim: int,
    into: Sequence[Array | None] | None = None,
    room: Memory = fresh,
) -> Any:
    """Return ``g - exp(out) sum(g)``."""
    rows = _backward(g, out, dim, into, room)
    if rows is None:
        return NotImplemented
    above, result, gradient = rows
    np.exp(result, out=gradient)
    _log_softmax_backward_loop(above, gradient)
    return (gradient.reshape(out.shape),)


def _counted(a: Array, target: Array, ignore_index: int, label_smoothing: float) -> int:
    """Return how many rows count; -1 for what numpy's kernel is to look at."""
    plain = a.ndim == 2 and a.size and target.shape == a.shape[:1] and label_smoothing == 0
    if not (plain and _alike(SINGLE, a) and _alike(INDEX, target)):
        return -1
    return _fitting_loop(target, ignore_index, a.shape[1])  # type: ignore[no-any-return]


def cross_entropy(
    a: Array, target: Array, ignore_index: int, reduction: str, label_smoothing: float
) -> Any:
    """Return the cross-entropy of logits (N, C), their mean or sum."""
    if reduction not in ("mean", "sum") or _counted(a, target, ignore_index, label_smoothing) < 0:
        return NotImplemented
    shifted, e = _exponentials(a)
    loss, count = _losses_loop(e, shifted, target, ignore_index)
    return np.float32(loss if reduction == "sum" else np.float64(loss) / count)


def cross_entropy_backward(
    g: Array,
    needs: Sequence[bool],
    a: Array,
    target: Array,
    ignore_index: int,
    reduction: str,
    label_smoothing: float,
) -> Any:
    """Return ``softmax(a) * s``, less ``s`` at the target, with ``s = g / rows``."""
    if reduction not in ("mean", "sum") or g.dtype != SINGLE:
        return NotImplemented
    count = _counted(a, target, ignore_index, label_smoothing)
    if count < 0:
        return NotImplemented
    _, e = _exponentials(a)
    scale = g.reshape(())[()]
    if reduction == "mean":
        scale = scale / SINGLE.type(count)
    _probabilities_loop(e, target, ignore_index, scale)
    return e, None
