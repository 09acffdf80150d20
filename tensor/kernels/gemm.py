"""Products of matrices in blocks that stay in registers and caches.

A training step of a small network is a chain of matrix products with one short side, the batch, at
which a BLAS that is made for large squares loses up to a third of its speed. The products here
follow Goto and van de Geijn: the result is computed in tiles of a few rows and vectors, whose sums
stay in registers while the inner dimension goes by; what a tile reads is copied into the order in
which it is read where its own order is worse (K. Goto and R. van de Geijn, "Anatomy of
high-performance matrix multiplication", ACM Trans. Math. Softw. 34, 2008; F. Van Zee and R. van de
Geijn, "BLIS", ACM Trans. Math. Softw. 41, 2015). Transposed operands are read as they are: one
loop serves every layout.

The tiles themselves are in ``tiles.py``. Each element is a sum of products in the order of the
inner dimension, one fused multiply-add for each; long sums are cut into blocks of 1,536 bytes,
which are added. The last two blocks are of about equal length. The result therefore depends on
nothing but the operands.
"""

from __future__ import annotations

import functools
import threading
from typing import Any, Final

import numba
import numpy as np
from numba import types

from ..graph import Array
from . import jit
from .compiled import exact
from .threads import Divided, entry, parts, place, portion, share, shared, threads
from .tiles import (
    MOST,
    ROWS,
    VECTOR,
    address,
    clear_number,
    copy_number,
    copy_strip,
    copy_turned,
    copy_vector,
    dots,
    finish_vector,
    one,
    three,
    two,
)

__all__ = ["is_wide", "layer", "product"]


_DEEP: Final = 1536  # bytes of a block of the inner dimension
_READ: Final = 4  # blocks of a strip of rows that are read at once
_COPIED: Final = 5 << 18  # bytes of what is copied of the right operand, for the second cache


@exact
def _copy(
    kind: Any,
    size: Any,
    rows: Any,
    cols: Any,
    source: Any,
    s_row: Any,
    s_col: Any,
    target: Any,
    t_row: Any,
    t_col: Any,
) -> None:
    """Copy a matrix of numbers of ``size`` bytes from one layout to another."""
    lanes = VECTOR // size
    if s_row == size and s_col != size:
        rows, cols = cols, rows
        s_row, s_col = s_col, s_row
        t_row, t_col = t_col, t_row
    i = 0
    while i < rows:
        j, high = 0, 1
        if s_col == size and t_col == size:
            while j <= cols - lanes:
                copy_vector(kind, source + i * s_row + j * size, target + i * t_row + j * size)
                j += lanes
            while j <= cols - ROWS:
                copy_strip(kind, source + i * s_row + j * size, target + i * t_row + j * size)
                j += ROWS
        elif s_col == size and t_row == size and i <= rows - ROWS:
            high = ROWS
            while j <= cols - lanes:
                begin = source + i * s_row + j * size
                copy_turned(kind, begin, s_row, target + i * size + j * t_col, t_col)
                j += lanes
        while j < cols:
            for h in range(i, i + high):
                copy_number(kind, source + h * s_row + j * s_col, target + h * t_row + j * t_col)
            j += 1
        i += high


@exact
def _cut(rest: Any, most: Any) -> Any:
    """Return how long the next block of a sum is: full ones, and at the end two about equal."""
    return most if rest >= 2 * most else rest // 2 if rest > most else rest


def _product(a: Any, b: Any, out: Any, bias: Any, relu: Any, room: Any) -> None:
    """Write the product of two matrices; the rows of the result lie in order.

    If there is a bias, of one number for each column, it is added at the end, tile by tile, and
    ``relu``, which is 0 or 1, says whether the result is rectified.
    """
    kind, size = out.dtype.type(0), out.itemsize
    (m, n), k = out.shape, len(b)
    left, right, c = address(a), address(b), address(out)
    (l_row, l_step), (r_step, r_col), (c_row, c_col) = a.strides, b.strides, out.strides
    lanes = VECTOR // size
    wide = MOST * lanes
    finished, shift = len(bias) > 0, address(bias)
    each = 1
    if r_col != size and (l_step != size or m < n):  # the transpose, of what lies in order
        m, n = n, m
        left, right = right, left
        l_row, l_step, r_step, r_col = r_col, r_step, l_step, l_row
        c_row, c_col = c_col, c_row
        each = 0
    spare = address(room)
    spare += -spare % 64
    aside = spare + MOST * VECTOR
    strip = aside + ROWS * MOST * VECTOR
    block = strip + ROWS * _READ * _DEEP
    most = _DEEP // size
    # The right operand is copied where that pays, or where its rows would drive each other out of
    # the cache. If it is not, or strips of the left one are, blocks are taken one by one.
    direct = (
        r_col == size
        and (m <= 128 or (right | r_step) % VECTOR == 0)
        and (k <= 256 or r_step % 4096 != 0)
    )
    z = 0
    while z < k:
        depth = k - z
        if direct or (l_step != size and n > wide):
            depth = _cut(depth, most)
        elif depth > _READ * most:
            depth = _READ // 2 * most
        broad = n if direct else max(1, _COPIED // (depth * wide * size)) * wide
        y = 0
        while y < n:
            width = min(broad, n - y)
            packed = l_step != size and width >= wide
            x = 0
            while x < m:
                rows = min(ROWS, m - x)
                p, p_row, p_step = left + x * l_row + z * l_step, l_row, l_step
                if packed:
                    _copy(kind, size, rows, depth, p, p_row, p_step, strip, size, ROWS * size)
                    p, p_row, p_step = strip, size, ROWS * size
                place, j = block, 0
                while j < width:
                    vectors = (width - j + lanes - 1) // lanes
                    vectors = 2 if vectors == 4 else min(MOST, vectors)
                    span = vectors * lanes
                    cols = min(span, width - j)
                    q, q_step = right + z * r_step + (y + j) * r_col, r_step
                    if not direct or cols < span:
                        if x == 0:
                            if cols < span:
                                for i in range(depth * span):
                                    clear_number(kind, place + i * size)
                            _copy(
                                kind, size, depth, cols, q, r_step, r_col, place, span * size, size
                            )
                        q, q_step = place, span * size
                        place += depth * span * size
                    at = c + x * c_row + (y + j) * c_col
                    apart = c_col != size or rows < ROWS or cols < span
                    t, t_row = (aside, span * size) if apart else (at, c_row)
                    if apart and z:
                        _copy(kind, size, rows, cols, at, c_row, c_col, aside, span * size, size)
                    h = 0
                    while h < depth:
                        deep = _cut(k - z - h, most)
                        adding = 1 if z or h else 0
                        f, s = p + h * p_step, q + h * q_step
                        if vectors == 3:
                            three(kind, deep, f, p_row, p_step, rows, s, q_step, t, t_row, adding)
                        elif vectors == 2:
                            two(kind, deep, f, p_row, p_step, rows, s, q_step, t, t_row, adding)
                        else:
                            one(kind, deep, f, p_row, p_step, rows, s, q_step, t, t_row, adding)
                        h += deep
                    if finished and z + depth == k:
                        add, add_row, add_col = shift + x * size, size, 0
                        if each:
                            add, add_row, add_col = shift + (y + j) * size, 0, VECTOR
                            if cols < span:  # beyond the last there is no bias to read
                                _copy(kind, size, 1, cols, add, size, size, spare, size, size)
                                add = spare
                        for i in range(rows):
                            for v in range(vectors):
                                here = t + i * t_row + v * VECTOR
                                finish_vector(
                                    kind, here, add + i * add_row + v * add_col, each, relu
                                )
                    if apart:
                        _copy(kind, size, rows, cols, aside, span * size, size, at, c_row, c_col)
                    j += span
                x += ROWS
            y += width
        z += depth


# What the loops copy to lies here, for each thread.
_room = threading.local()
_ROOM: Final = 128 + (ROWS + MOST * VECTOR) * _READ * _DEEP + 3 * ROWS * MOST * VECTOR + _COPIED


def _layout(a: Array) -> int:
    """Return 1 if rows lie in memory one after the other, -1 if columns do, otherwise 0."""
    if not a.flags.aligned:
        return 0
    size = a.itemsize
    along, down = a.strides[1], a.strides[0]
    if along == size and down >= a.shape[1] * size and down % size == 0:
        return 1
    if down == size and along >= a.shape[0] * size and along % size == 0:
        return -1
    return 0


# BLAS is as fast where there is little to do, where sides are short, and for very large products.
_SHORTEST: Final = 8
_WORTHWHILE: Final = range(1 << 18, 1 << 31)  # products of numbers

# A product is shared among threads by its rows or its columns alone, which is too coarse for many.
_MOST_THREADS: Final = 4
_LEAST: Final = 1 << 19  # products of numbers for each


def _takes(a: Array, b: Array) -> bool:
    """Return whether the product of two matrices is one that the loops here are faster at."""
    m, k, n = len(a), *b.shape
    return (
        VECTOR > 0
        and min(m, k, n) >= _SHORTEST
        and m * k * n in _WORTHWHILE
        and a.dtype == b.dtype
        and a.dtype in (jit.SINGLE, jit.DOUBLE)
        and _layout(a) != 0
        and _layout(b) != 0
        and 1 <= threads() <= _MOST_THREADS
    )


_whole = exact(_product)


def _part_of_product(
    part: Any, count: Any, a: Any, b: Any, out: Any, bias: Any, relu: Any, room: Any
) -> None:
    """Write some rows or columns of the product of two matrices."""
    m, n = out.shape
    # Little should be copied twice: neither strips of a, where its rows are not in order, nor b.
    by_rows = a.strides[1] != a.itemsize or m > n
    if by_rows and m < count * ROWS:
        by_rows = False
    elif not by_rows and n < count * MOST * VECTOR // a.itemsize:
        by_rows = True
    if by_rows:
        s = portion(m, part, count, ROWS)
        _whole(a[s], b, out[s], bias, relu, room[part])
    else:
        s = portion(n, part, count, VECTOR // a.itemsize)
        _whole(a, b[:, s], out[:, s], bias[s], relu, room[part])


_part = exact(_part_of_product)


def _product_in_parts(memory: Any, count: Any, args: Any) -> None:
    share(memory, count, entry(_part, args), place(count, args))


@functools.cache
def _compiled(dtype: np.dtype[Any], threads: bool = False) -> Any:
    """Return the loop for a dtype: one for all layouts, and for operands that are read-only."""
    number = numba.from_dtype(dtype)
    given = types.Array(number, 2, "A", readonly=True)
    written = types.Array(number, 2, "A")
    bias = types.Array(number, 1, "C", readonly=True)
    loop: Any
    if threads:
        rooms = types.Array(types.uint8, 2, "C")
        taken = types.Tuple((given, given, written, bias, types.int64, rooms))  # type: ignore[no-untyped-call]
        loop = exact(_product_in_parts)
        loop.compile((types.int64, types.int64, taken))
    else:
        loop = exact(_product)
        loop.compile((given, given, written, bias, types.int64, types.Array(types.uint8, 1, "C")))
    loop.disable_compile()
    return loop


def _rooms(count: int) -> Array:
    """Return room for so many threads; each thread of the program has its own."""
    rooms: Array | None = getattr(_room, "bytes", None)
    if rooms is None or len(rooms) < count:
        rooms = _room.bytes = np.empty((count, _ROOM), np.uint8)
    return rooms


_NO_BIAS: Final = {dtype: np.empty(0, dtype) for dtype in (jit.SINGLE, jit.DOUBLE)}


def _multiply(
    a: Array, b: Array, out: Array, bias: Array | None = None, relu: bool = False
) -> None:
    count = parts(out.size * len(b), _LEAST)
    rooms = _rooms(count)
    given = a, b, out, _NO_BIAS[out.dtype] if bias is None else bias, int(relu)
    if count == 1 or not shared(_compiled(out.dtype, True), count, (*given, rooms)):
        _compiled(out.dtype)(*given, rooms[0])


# The twins.


@exact
def _outer_loop(part: Any, count: Any, out: Any, a: Any, b: Any) -> None:
    s = portion(len(a), part, count, 1)
    out, a = out[s], a[s]
    for i in range(len(a)):
        x = a[i]
        for j in range(len(b)):
            out[i, j] = x * b[j]


@exact
def _outer_both(memory: Any, count: Any, args: Any) -> None:
    share(memory, count, entry(_outer_loop, args), place(count, args))


_outer: Final = Divided(_outer_loop, _outer_both, 1 << 14)


@exact
def _dots_loop(part: Any, count: Any, w: Any, x: Any, out: Any) -> None:
    kind, size = out.dtype.type(0), out.itemsize
    s = portion(len(w), part, count, ROWS)
    for j in range(s.start, s.stop, ROWS):
        row, here = address(w) + j * w.strides[0], address(out) + j * size
        rows = min(ROWS, s.stop - j)
        dots(kind, len(x) * size // VECTOR, address(x), row, w.strides[0], rows, here)


@exact
def _dots_both(memory: Any, count: Any, args: Any) -> None:
    share(memory, count, entry(_dots_loop, args), place(count, args))


_dots: Final = Divided(_dots_loop, _dots_both, 1 << 15)


def _is_vector(a: Array, b: Array) -> bool:
    """Return whether the product is that of a row by columns that lie in memory in order."""
    return (
        len(a) == 1
        and b.strides[0] == b.itemsize
        and VECTOR > 0
        and a.dtype in (jit.SINGLE, jit.DOUBLE)
        and jit._alike(a.dtype, a, b.T)
        and b.shape[1] >= ROWS
        and len(b) > 0
        and len(b) * b.itemsize % VECTOR == 0
    )


def product(a: Array, b: Array, out: Array | None = None) -> Any:
    """Return ``a @ b`` of matrices: outer products and those of a batch here, others by BLAS."""
    if a.shape[1] == 1:
        if out is None:
            out = np.empty((len(a), b.shape[1]), a.dtype)
        if not jit._floating(out):
            return NotImplemented
        _outer(out, np.ascontiguousarray(a[:, 0]), np.ascontiguousarray(b[0]))
        return out
    if _is_vector(a, b) and (out is None or jit._alike(a.dtype, out)):
        out = np.empty((1, b.shape[1]), a.dtype) if out is None else out
        _dots(b.T, a[0], out[0])
        return out
    if not _takes(a, b):
        return np.matmul(a, b, out)
    if out is None:
        out = np.empty((len(a), b.shape[1]), a.dtype)
    elif out.dtype != a.dtype or _layout(out) != 1:
        return np.matmul(a, b, out)
    _multiply(a, b, out)
    return out


def layer(
    rows: Array,
    weight: Array,
    bias: Array | None,
    activation: str | None,
    out: Array,
    room: Any = None,
) -> Any:
    """Write ``activation(rows @ weight.T + bias)``, each tile finished while it is at hand."""
    b = weight.T
    if (
        bias is None
        or activation not in (None, "relu")
        or not jit._floating(out, bias)
        or rows.dtype != out.dtype
    ):
        return NotImplemented
    if _takes(rows, b):
        _multiply(rows, b, out, bias, activation == "relu")
    elif len(rows) > 1 and len(weight) >= 128:  # is perhaps better turned
        return NotImplemented
    else:
        product(rows, b, out)
        jit._finish_loop(out, bias, activation == "relu")
    return None


def is_wide(rows: Array, weight: Array, out: Array) -> Any:
    """Return False for a layer that is not the slower for its transposed operand."""
    return False if _takes(rows, weight.T) else NotImplemented
