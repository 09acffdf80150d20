"""Pieces of products of matrices that stay in registers, as instructions for compiled loops.

numba turns loops into vectors where LLVM can tell that it may; a block of sums that stays in
registers is beyond that. So these functions emit LLVM's vector instructions themselves. Memory is
given to them by addresses and distances in bytes, and ``kind`` is any number of the dtype that is
meant. Every product is added with one rounding.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.registry import cpu_target

from .compiled import instruction

__all__ = [
    "MOST",
    "ROWS",
    "VECTOR",
    "address",
    "clear_number",
    "copy_number",
    "copy_strip",
    "copy_turned",
    "copy_vector",
    "dots",
    "finish_vector",
    "one",
    "three",
    "two",
]


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
MOST: Final = 3

_UNROLLED: Final = 4
_AHEAD: Final = 8  # steps that memory is asked for before its use

_INT: Final = ir.IntType(64)
_SMALL: Final = ir.IntType(32)
_BYTE: Final = ir.IntType(8)


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
def address(typing: Any, array: Any) -> Any:
    """Return where the first element of an array lies."""

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        made = context.make_array(signature.args[0])(context, builder, arguments[0])
        return builder.ptrtoint(made.data, _INT)

    return types.int64(array), codegen


@instruction
def copy_vector(typing: Any, kind: Any, source: Any, target: Any) -> Any:
    """Copy a vector of numbers."""
    return _emitted(kind, lambda k, b, s, t: k.store(b, k.load(b, s, k.vector), t), 2)


@instruction
def copy_strip(typing: Any, kind: Any, source: Any, target: Any) -> Any:
    """Copy ROWS numbers."""

    def emit(k: _Kind, b: Any, source: Any, target: Any) -> None:
        k.store(b, k.load(b, source, ir.VectorType(k.number, ROWS)), target)

    return _emitted(kind, emit, 2)


@instruction
def copy_number(typing: Any, kind: Any, source: Any, target: Any) -> Any:
    """Copy one number."""
    return _emitted(kind, lambda k, b, s, t: k.store(b, k.load(b, s, k.number), t), 2)


@instruction
def clear_number(typing: Any, kind: Any, target: Any) -> Any:
    """Set one number to zero."""
    return _emitted(kind, lambda k, b, t: k.store(b, ir.Constant(k.number, 0.0), t), 1)


@instruction
def copy_turned(typing: Any, kind: Any, source: Any, s_row: Any, target: Any, t_row: Any) -> Any:
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


@instruction
def finish_vector(typing: Any, kind: Any, place: Any, bias: Any, each: Any, relu: Any) -> Any:
    """Add a bias for each lane, or one for all, to a vector; where ``relu`` is set apply that."""

    def emit(k: _Kind, b: Any, place: Any, bias: Any, each: Any, relu: Any) -> None:
        zero = ir.Constant(k.vector, [0.0] * k.lanes)
        with b.if_else(b.icmp_signed("!=", each, _int(0))) as (then, otherwise):
            with then:
                many, last = k.load(b, bias, k.vector), b.block
            with otherwise:
                one = b.insert_element(zero, k.load(b, bias, k.number), ir.Constant(_SMALL, 0))
                one, other = _chosen(b, one, one, [0] * k.lanes), b.block
        shift = _either(b, (many, last), (one, other))
        x = b.fadd(k.load(b, place, k.vector), shift)
        shut = b.fcmp_ordered("<=", x, zero)  # which NaN is not
        rectified = b.select(shut, zero, x)
        k.store(b, b.select(b.icmp_signed("!=", relu, _int(0)), rectified, x), place)

    return _emitted(kind, emit, 4)


@instruction
def dots(
    typing: Any, kind: Any, vectors: Any, x: Any, w: Any, w_row: Any, rows: Any, y: Any
) -> Any:
    """Write the inner products of x, which is some vectors long, with up to ROWS rows of w.

    Each lane is summed by itself, and then one half of the lanes is added to the other.
    """

    def emit(k: _Kind, b: Any, vectors: Any, x: Any, w: Any, w_row: Any, rows: Any, y: Any) -> None:
        last = b.sub(rows, _int(1))
        numbers = [b.select(b.icmp_signed("<", _int(i), last), _int(i), last) for i in range(ROWS)]
        starts = [b.add(w, b.mul(number, w_row)) for number in numbers]

        def stepped(along: Any, *sums: Any) -> list[Any]:
            factor = k.load(b, b.add(x, along), k.vector)
            loaded = [k.load(b, b.add(start, along), k.vector) for start in starts]
            pairs = zip(loaded, sums, strict=True)
            found = [k.add_product(b, factor, other, total) for other, total in pairs]
            return [b.add(along, _int(VECTOR)), *found]

        zero = ir.Constant(k.vector, [0.0] * k.lanes)
        _, *sums = _repeated(b, stepped, [_int(0), *[zero] * ROWS], vectors, 1)
        for number, total in zip(numbers, sums, strict=True):
            lanes = k.lanes
            while lanes > 1:
                lanes //= 2
                lower = _chosen(b, total, total, range(lanes))
                total = b.fadd(lower, _chosen(b, total, total, range(lanes, 2 * lanes)))
            value = b.extract_element(total, ir.Constant(_SMALL, 0))
            k.store(b, value, b.add(y, b.mul(number, _int(k.size))))

    return _emitted(kind, emit, 6)


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


one, two, three = (_tile(vectors) for vectors in (1, 2, 3))
