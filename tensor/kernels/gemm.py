"""Products of matrices in blocks that stay in registers and caches.

A training step of a small network is a chain of matrix products with one short side, the batch, at
which a BLAS that is made for large squares loses up to a third of its speed. The products here
follow Goto and van de Geijn: the result is computed in tiles of a few rows and vectors, whose sums
stay in registers while the inner dimension goes by; what a tile reads is copied into the order in
which it is read where its own order is worse (K. Goto and R. van de Geijn, "Anatomy of
high-performance matrix multiplication", ACM Trans. Math. Softw. 34, 2008; F. Van Zee and R. van de
Geijn, "BLIS", ACM Trans. Math. Softw. 41, 2015). Transposed operands are read as they are: one
loop serves every layout.

numba turns loops into vectors where LLVM can tell that it may; a block of sums that stays in
registers is beyond that. So the innermost functions emit LLVM's vector instructions themselves.
Memory is given to them by addresses and distances in bytes.

Each element is a sum of products in the order of the inner dimension, one fused multiply-add for
each; long sums are cut into blocks of 1,536 bytes, which are added. The last two blocks are of
about equal length. The result therefore depends on nothing but the operands.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Sequence
from typing import Any, Final

import numba
import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.registry import cpu_target

from ..graph import Array
from . import jit
from .compiled import exact, instruction
from .threads import Divided, entry, parts, place, portion, share, shared, threads

__all__ = ["is_wide", "product"]


def _vector_bytes() -> int:
    """Return how long this processor's vectors are, or 0 where they lack fused multiply-adds."""
    features = cpu_target.target_context.codegen().magic_tuple()[2].split(",")
    if "+avx512f" in features:
        return 64
    return 32 if {"+avx2", "+fma"} <= set(features) else 0


VECTOR: Final = _vector_bytes()

# A tile is ROWS by up to three vectors of sums. With the factors it fills the 32 registers of
# AVX-512, or the 16 of AVX2, and covers the time that a multiply-add takes.
ROWS: Final = 8 if VECTOR == 64 else 4
_MOST: Final = 3

_UNROLLED: Final = 4
_AHEAD: Final = 8  # steps that memory is asked for before its use

_DEEP: Final = 1536  # bytes of a block of the inner dimension
_READ: Final = 4  # blocks of a strip of rows that are read at once
_COPIED: Final = 5 << 18  # bytes of what is copied of the right operand, for the second cache

_INT: Final = ir.IntType(64)
_SMALL: Final = ir.IntType(32)
_BYTE: Final = ir.IntType(8)


# Instructions. ``kind`` is any number of the dtype that is meant.


class _Kind:
    """The types of a dtype's numbers and vectors, and how memory of them is read and written."""

    def __init__(self, kind: Any) -> None:
        double = kind == types.float64
        self.size = 8 if double else 4
        self.number = ir.DoubleType() if double else ir.FloatType()
        self.lanes = max(1, VECTOR // self.size)
        self.vector = ir.VectorType(self.number, self.lanes)

    def load(self, b: Any, address: Any, of: Any) -> Any:
        """Return what lies at an address."""
        return b.load(b.inttoptr(address, of.as_pointer()), align=self.size)

    def store(self, b: Any, value: Any, address: Any) -> None:
        """Write a number or a vector to an address."""
        b.store(value, b.inttoptr(address, value.type.as_pointer()), align=self.size)

    def add_product(self, b: Any, x: Any, y: Any, total: Any) -> Any:
        """Return ``x * y + total``, rounded once."""
        name = f"llvm.fma.v{self.lanes}f{8 * self.size}"
        return b.call(_function(b, name, self.vector, *[self.vector] * 3), [x, y, total])


def _int(value: int) -> Any:
    return ir.Constant(_INT, value)


def _offset(b: Any, address: Any, count: int, distance: Any) -> Any:
    return b.add(address, b.mul(distance, _int(count)))


def _chosen(b: Any, one: Any, other: Any, indices: Sequence[int]) -> Any:
    mask = ir.Constant(ir.VectorType(_SMALL, len(indices)), list(indices))
    return b.shuffle_vector(one, other, mask)


def _function(b: Any, name: str, result: Any, *arguments: Any) -> Any:
    function = ir.FunctionType(result, arguments)
    return cgutils.get_or_insert_function(b.module, function, name)  # type: ignore[no-untyped-call]


def _emitted(kind: Any, emit: Callable[..., None], count: int) -> Any:
    """Return what numba needs to know of a function of a kind and integers."""

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        emit(_Kind(kind), builder, *arguments[1:])
        return context.get_dummy_value()

    return types.void(kind, *[types.int64] * count), codegen


@instruction
def _address(typing: Any, array: Any) -> Any:
    """Return where the first element of an array lies."""

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        made = context.make_array(signature.args[0])(context, builder, arguments[0])
        return builder.ptrtoint(made.data, _INT)

    return types.int64(array), codegen


@instruction
def _copy_vector(typing: Any, kind: Any, source: Any, target: Any) -> Any:
    """Copy a vector of numbers."""
    return _emitted(kind, lambda k, b, s, t: k.store(b, k.load(b, s, k.vector), t), 2)


@instruction
def _copy_strip(typing: Any, kind: Any, source: Any, target: Any) -> Any:
    """Copy ROWS numbers."""

    def emit(k: _Kind, b: Any, source: Any, target: Any) -> None:
        k.store(b, k.load(b, source, ir.VectorType(k.number, ROWS)), target)

    return _emitted(kind, emit, 2)


@instruction
def _copy_number(typing: Any, kind: Any, source: Any, target: Any) -> Any:
    """Copy one number."""
    return _emitted(kind, lambda k, b, s, t: k.store(b, k.load(b, s, k.number), t), 2)


@instruction
def _clear_number(typing: Any, kind: Any, target: Any) -> Any:
    """Set one number to zero."""
    return _emitted(kind, lambda k, b, t: k.store(b, ir.Constant(k.number, 0.0), t), 1)


@instruction
def _copy_turned(typing: Any, kind: Any, source: Any, s_row: Any, target: Any, t_row: Any) -> Any:
    """Write ROWS rows of a vector each as columns: a row of ROWS numbers for each lane."""

    def emit(k: _Kind, b: Any, source: Any, s_row: Any, target: Any, t_row: Any) -> None:
        # A number's place is its row's bits followed by its lane's. Merging each row of the upper
        # half with its fellow of the lower, lane by lane, moves the highest bit to the end: after
        # log2(ROWS) merges the row's bits come last.
        rows = [k.load(b, _offset(b, source, i, s_row), k.vector) for i in range(ROWS)]
        halves = range(k.lanes // 2), range(k.lanes // 2, k.lanes)
        merges = [[x for i in half for x in (i, k.lanes + i)] for half in halves]
        for _ in range(ROWS.bit_length() - 1):
            pairs = zip(rows[: ROWS // 2], rows[ROWS // 2 :], strict=True)
            rows = [_chosen(b, one, other, merge) for one, other in pairs for merge in merges]
        for j in range(k.lanes):
            row, start = divmod(j * ROWS, k.lanes)
            part = _chosen(b, rows[row], rows[row], range(start, start + ROWS))
            k.store(b, part, _offset(b, target, j, t_row))

    return _emitted(kind, emit, 4)


def _tile(vectors: int) -> Any:
    """Return the function that multiplies up to ROWS rows by so many vectors.

    It writes ``sum over k of a[i, k] * b[k, j]`` to ``c[i, j]``, or adds it to what is there, for
    ROWS rows i and as many columns j as the vectors have. At each k the vectors of b are loaded,
    and each number of a is multiplied by all of them and added to sums that stay in registers.
    Where a has fewer rows, the last one stands in for those that are missing.
    """

    def emit(
        k: _Kind,
        b: Any,
        depth: Any,
        a: Any,
        a_row: Any,
        a_step: Any,
        rows: Any,
        right: Any,
        step: Any,
        c: Any,
        c_row: Any,
        adding: Any,
    ) -> None:
        last = b.sub(rows, _int(1))
        lefts = []
        for i in range(ROWS):
            row = b.select(b.icmp_signed("<", _int(i), last), _int(i), last)
            lefts.append(b.add(a, b.mul(row, a_row)))
        zero = ir.Constant(k.vector, [0.0] * k.lanes)
        prefetch = _function(
            b, "llvm.prefetch.p0", ir.VoidType(), _BYTE.as_pointer(), *[_SMALL] * 3
        )
        hints = [ir.Constant(_SMALL, hint) for hint in (0, 3, 1)]  # to read, soon again, data

        def stepped(left: Any, right: Any, *sums: Any) -> list[Any]:
            ahead = _offset(b, right, _AHEAD, step)
            factors = []
            for v in range(vectors):
                factors.append(k.load(b, b.add(right, _int(v * VECTOR)), k.vector))
                place = b.inttoptr(b.add(ahead, _int(v * VECTOR)), _BYTE.as_pointer())
                b.call(prefetch, [place, *hints])
            found = []
            for i in range(ROWS):
                number = k.load(b, b.add(lefts[i], left), k.number)
                spread = b.insert_element(zero, number, ir.Constant(_SMALL, 0))
                spread = _chosen(b, spread, spread, [0] * k.lanes)
                totals = sums[i * vectors : (i + 1) * vectors]
                pairs = zip(factors, totals, strict=True)
                found += [k.add_product(b, spread, factor, total) for factor, total in pairs]
            return [b.add(left, a_step), b.add(right, step), *found]

        values = [_int(0), right, *[zero] * (ROWS * vectors)]
        values = _repeated(b, stepped, values, b.sdiv(depth, _int(_UNROLLED)), _UNROLLED)
        values = _repeated(b, stepped, values, b.srem(depth, _int(_UNROLLED)), 1)
        places = [
            b.add(_offset(b, c, i, c_row), _int(v * VECTOR))
            for i in range(ROWS)
            for v in range(vectors)
        ]
        sums = list(zip(values[2:], places, strict=True))
        with b.if_else(b.icmp_signed("!=", adding, _int(0))) as (then, otherwise):
            with then:
                for value, place in sums:
                    k.store(b, b.fadd(k.load(b, place, k.vector), value), place)
            with otherwise:
                for value, place in sums:
                    k.store(b, value, place)

    @instruction
    def multiplied(
        typing: Any,
        kind: Any,
        depth: Any,
        a: Any,
        a_row: Any,
        a_step: Any,
        rows: Any,
        right: Any,
        step: Any,
        c: Any,
        c_row: Any,
        adding: Any,
    ) -> Any:
        return _emitted(kind, emit, 10)

    return multiplied


def _either(b: Any, *incoming: tuple[Any, Any]) -> Any:
    """Return the value that comes from the block that ran last."""
    phi = b.phi(incoming[0][0].type)
    for value, block in incoming:
        phi.add_incoming(value, block)
    return phi


def _repeated(
    b: Any, step: Callable[..., list[Any]], values: list[Any], count: Any, unrolled: int
) -> list[Any]:
    """Return the values after ``count`` turns of a loop that takes ``unrolled`` steps in each."""
    before, loop, after = b.block, *(b.append_basic_block() for _ in range(2))
    b.cbranch(b.icmp_signed(">", count, _int(0)), loop, after)
    b.position_at_end(loop)
    phis = [b.phi(value.type) for value in (*values, count)]
    found: list[Any] = phis[:-1]
    for _ in range(unrolled):
        found = step(*found)
    left = b.sub(phis[-1], _int(1))
    for phi, first, value in zip(phis, [*values, count], [*found, left], strict=True):
        phi.add_incoming(first, before)
        phi.add_incoming(value, loop)
    b.cbranch(b.icmp_signed(">", left, _int(0)), loop, after)
    b.position_at_end(after)
    pairs = zip(values, found, strict=True)
    return [_either(b, (first, before), (value, loop)) for first, value in pairs]


_one, _two, _three = (_tile(vectors) for vectors in (1, 2, 3))


# Loops.


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
                _copy_vector(kind, source + i * s_row + j * size, target + i * t_row + j * size)
                j += lanes
            while j <= cols - ROWS:
                _copy_strip(kind, source + i * s_row + j * size, target + i * t_row + j * size)
                j += ROWS
        elif s_col == size and t_row == size and i <= rows - ROWS:
            high = ROWS
            while j <= cols - lanes:
                begin = source + i * s_row + j * size
                _copy_turned(kind, begin, s_row, target + i * size + j * t_col, t_col)
                j += lanes
        while j < cols:
            for h in range(i, i + high):
                _copy_number(kind, source + h * s_row + j * s_col, target + h * t_row + j * t_col)
            j += 1
        i += high


@exact
def _cut(rest: Any, most: Any) -> Any:
    """Return how long the next block of a sum is: full ones, and at the end two about equal."""
    return most if rest >= 2 * most else rest // 2 if rest > most else rest


def _product(a: Any, b: Any, out: Any, room: Any) -> None:
    """Write the product of two matrices; the rows of the result lie in order."""
    kind, size = out.dtype.type(0), out.itemsize
    (m, n), k = out.shape, len(b)
    left, right, c = _address(a), _address(b), _address(out)
    (l_row, l_step), (r_step, r_col), (c_row, c_col) = a.strides, b.strides, out.strides
    lanes = VECTOR // size
    wide = _MOST * lanes
    if r_col != size and (l_step != size or m < n):  # the transpose, of what lies in order
        m, n = n, m
        left, right = right, left
        l_row, l_step, r_step, r_col = r_col, r_step, l_step, l_row
        c_row, c_col = c_col, c_row
    aside = _address(room)
    aside += -aside % 64
    strip = aside + ROWS * _MOST * VECTOR
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
                    vectors = 2 if vectors == 4 else min(_MOST, vectors)
                    span = vectors * lanes
                    cols = min(span, width - j)
                    q, q_step = right + z * r_step + (y + j) * r_col, r_step
                    if not direct or cols < span:
                        if x == 0:
                            if cols < span:
                                for i in range(depth * span):
                                    _clear_number(kind, place + i * size)
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
                            _three(kind, deep, f, p_row, p_step, rows, s, q_step, t, t_row, adding)
                        elif vectors == 2:
                            _two(kind, deep, f, p_row, p_step, rows, s, q_step, t, t_row, adding)
                        else:
                            _one(kind, deep, f, p_row, p_step, rows, s, q_step, t, t_row, adding)
                        h += deep
                    if apart:
                        _copy(kind, size, rows, cols, aside, span * size, size, at, c_row, c_col)
                    j += span
                x += ROWS
            y += width
        z += depth


# What the loops copy to lies here, for each thread.
_room = threading.local()
_ROOM: Final = 128 + (ROWS + _MOST * VECTOR) * _READ * _DEEP + 2 * ROWS * _MOST * VECTOR + _COPIED


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


def _part_of_product(part: Any, count: Any, a: Any, b: Any, out: Any, room: Any) -> None:
    """Write some rows or columns of the product of two matrices."""
    m, n = out.shape
    # Nothing should be copied twice: neither strips of a, where its rows are not in order, nor b.
    by_rows = a.strides[1] != a.itemsize
    if by_rows and m < count * ROWS:
        by_rows = False
    elif not by_rows and n < count * _MOST * VECTOR // a.itemsize:
        by_rows = True
    if by_rows:
        s = portion(m, part, count, ROWS)
        _whole(a[s], b, out[s], room[part])
    else:
        s = portion(n, part, count, VECTOR // a.itemsize)
        _whole(a, b[:, s], out[:, s], room[part])


_part = exact(_part_of_product)


def _product_in_parts(memory: Any, count: Any, args: Any) -> None:
    share(memory, count, entry(_part, args), place(count, args))


@functools.cache
def _compiled(dtype: np.dtype[Any], threads: bool = False) -> Any:
    """Return the loop for a dtype: one for all layouts, and for operands that are read-only."""
    number = numba.from_dtype(dtype)
    given = types.Array(number, 2, "A", readonly=True)
    written = types.Array(number, 2, "A")
    loop: Any
    if threads:
        rooms = types.Array(types.uint8, 2, "C")
        taken = types.Tuple((given, given, written, rooms))  # type: ignore[no-untyped-call]
        loop = exact(_product_in_parts)
        loop.compile((types.int64, types.int64, taken))
    else:
        loop = exact(_product)
        loop.compile((given, given, written, types.Array(types.uint8, 1, "C")))
    loop.disable_compile()
    return loop


def _rooms(count: int) -> Array:
    """Return room for so many threads; each thread of the program has its own."""
    rooms: Array | None = getattr(_room, "bytes", None)
    if rooms is None or len(rooms) < count:
        rooms = _room.bytes = np.empty((count, _ROOM), np.uint8)
    return rooms


def _multiply(a: Array, b: Array, out: Array) -> None:
    count = parts(out.size * len(b), _LEAST)
    rooms = _rooms(count)
    if count == 1 or not shared(_compiled(out.dtype, True), count, (a, b, out, rooms)):
        _compiled(out.dtype)(a, b, out, rooms[0])


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


def product(a: Array, b: Array, out: Array | None = None) -> Any:
    """Return ``a @ b`` of matrices: outer products and those of a batch here, others by BLAS."""
    if a.shape[1] == 1:
        if out is None:
            out = np.empty((len(a), b.shape[1]), a.dtype)
        if not jit._floating(out):
            return NotImplemented
        _outer(out, np.ascontiguousarray(a[:, 0]), np.ascontiguousarray(b[0]))
        return out
    if not _takes(a, b):
        return np.matmul(a, b, out)
    if out is None:
        out = np.empty((len(a), b.shape[1]), a.dtype)
    elif out.dtype != a.dtype or _layout(out) != 1:
        return np.matmul(a, b, out)
    _multiply(a, b, out)
    return out


def is_wide(rows: Array, weight: Array, out: Array) -> Any:
    """Return False for a layer that is not the slower for its transposed operand."""
    return False if _takes(rows, weight.T) else NotImplemented
