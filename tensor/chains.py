"""Finding chains: elementwise instructions that can be one loop over the elements.

A chain is written where its last instruction stood. So nothing between its instructions may need
what they yield, and nothing may be overwritten there.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence
from operator import itemgetter
from typing import Any, Final

import numpy as np

from .fuse import DRAWS, is_view, is_whole, overwrites
from .graph import Array, Constant
from .kernels.choice import give_up
from .kernels.into import Call
from .kernels.loops import SCALAR, Chain, Ref, blocked, compiled, matrices
from .kernels.room import Room
from .program import Program
from .shapes import reduced
from .tracing import Edge, Instruction

__all__ = ["chained", "chains"]

# Instructions of a loop, and the pairs of arrays of which it must know that they do not overlap:
# compilers give up on vectors beyond.
LONGEST: Final = 24
PAIRS: Final = 8


_BOOL: Final = np.dtype(bool)

# What takes truth values.
_OF_TRUTHS: Final = frozenset({"where", "bitwise_and", "bitwise_or", "bitwise_not"})


class _Group:
    """Instructions that are to be one loop."""

    def __init__(self, age: int) -> None:
        self.age = age
        self.members: list[Instruction] = []
        self.totals: list[Instruction] = []

    @classmethod
    def of(cls, groups: Sequence[_Group], at: dict[int, int]) -> _Group:
        """Return a group of all members of some, which comes to nothing if they do not go together.

        Args:
            groups: the groups.
            at: the place of each instruction.
        """
        ages, firsts = {group.age for group in groups}, [group.members[0] for group in groups]
        whole = cls(ages.pop() if len(ages) == 1 else -1)
        if all(_same_loop(firsts[0], first) for first in firsts[1:]):
            whole.members = [member for group in groups for member in group.members]
            whole.members.sort(key=lambda member: at[id(member)])
            whole.totals = [member for group in groups for member in group.totals]
        else:
            whole.age = -1
        return whole

    @property
    def all(self) -> list[Instruction]:
        return [*self.members, *self.totals]


def chains(program: Program) -> list[Chain]:
    """Return the chains of a program."""
    return [ins.attrs["body"] for ins in program.instructions if ins.op == "loop"]


def chained(program: Program, fast: bool) -> Program:
    """Return a program in which elementwise instructions that follow each other are one loop.

    With numba's kernels the sum over the rows of a matrix may end a loop.
    """
    if overwrites(program):
        return program
    if fast:
        program = _with_early_totals(program)
    groups = _groups(program, fast)
    place = {id(ins): group for group in groups for ins in group.all}
    last = {id(max(group.all, key=program.instructions.index)): group for group in groups}
    new: dict[int, Edge] = {}
    written: list[Instruction] = []
    needed = _needed(program)
    for ins in program.instructions:
        group = place.get(id(ins))
        if group is None:
            inputs = tuple(new.get(id(edge), edge) for edge in ins.inputs)
            renewed = ins if inputs == ins.inputs else dataclasses.replace(ins, inputs=inputs)
            new[id(ins)] = renewed
            written.append(renewed)
        elif id(ins) in last:
            written += _loop(group, needed, new, fast)
    return program.replaced(written, new)


def _with_early_totals(program: Program) -> Program:
    """Return a program in which sums over rows follow at once what they sum."""
    order: list[Instruction] = []
    moved: dict[int, list[Instruction]] = {
        id(ins.inputs[0]): [] for ins in program.instructions if _sum_form(ins)
    }
    present = {id(ins) for ins in program.instructions}
    for ins in program.instructions:
        if _sum_form(ins) and id(ins.inputs[0]) in present:
            moved[id(ins.inputs[0])].append(ins)
    early = {id(ins) for totals in moved.values() for ins in totals}
    for ins in program.instructions:
        if id(ins) not in early:
            order += [ins, *moved.get(id(ins), ())]
    return dataclasses.replace(program, instructions=tuple(order))


def _needed(program: Program) -> dict[int, set[int]]:
    """Return who reads what an instruction yields; 0 is whoever runs the program."""
    readers: dict[int, set[int]] = {id(edge): {0} for edge in program.inputs}
    for ins in program.instructions:
        for edge in ins.inputs:
            readers.setdefault(id(edge), set()).add(id(ins))
    return readers


def _groups(program: Program, fast: bool) -> list[_Group]:
    readers, at = _needed(program), {id(ins): i for i, ins in enumerate(program.instructions)}
    groups: list[_Group] = []
    place: dict[int, _Group] = {}
    age = 0
    for i, ins in enumerate(program.instructions):
        if ins.effect is not None:
            age += ins.op not in DRAWS
            continue
        if not _fits(ins) and not (fast and _sum_form(ins)):
            continue
        total = not _fits(ins)

        def joins(
            group: _Group,
            i: int = i,
            ins: Instruction = ins,
            total: bool = total,
            age: int = age,
        ) -> bool:
            if group.age != age or not group.members or len(group.all) >= LONGEST:
                return False
            if total:
                if ins.inputs[0] not in group.members:
                    return False
            elif not _same_loop(group.members[0], ins):
                return False
            sums = {id(member) for member in group.totals}
            if any(id(edge) in sums for member in [*group.members, ins] for edge in member.inputs):
                return False  # a sum is there when the loop has ended
            inside = {id(member) for member in group.all}
            between = (
                reader
                for member in group.all
                for reader in readers.get(id(member), ())
                if reader and reader not in inside and at[reader] < i
            )
            return not any(between) and _is_light(group, ins, readers)

        found = [place[id(edge)] for edge in ins.inputs if id(edge) in place]
        sources = list({id(group): group for group in found}.values())
        together = _Group.of(sources, at)
        group = next(filter(joins, [together, *reversed(sources)]), None)
        if group is None:
            if total or _kind(ins) is None:
                continue
            group = _Group(age)
        if group is together:
            groups = [other for other in groups if other not in sources]
        if group not in groups:
            groups.append(group)
        (group.totals if total else group.members).append(ins)
        place.update((id(member), group) for member in group.all)
    return [group for group in groups if _pays(group, fast) and _is_shaped(group, readers)]


def _pays(group: _Group, fast: bool) -> bool:
    heavy = any(ins.op in ("where", "maximum", "minimum") for ins in group.members)
    return len(group.all) > 1 or (fast and heavy)


def _is_shaped(group: _Group, readers: dict[int, set[int]]) -> bool:
    """Return whether a loop reads or writes a whole matrix, which tells it how far to go."""
    operands = (edge for ins in group.members for edge in ins.inputs)
    inside = {id(ins) for ins in group.members}
    shape = group.members[0].shape
    read = any(id(edge) not in inside and _form(edge, shape) == "full" for edge in operands)
    return read or bool(_outputs(group, readers))


def _same_loop(first: Instruction, ins: Instruction) -> bool:
    return first.shape == ins.shape and _kind(ins) in (None, _kind(first))


def _kind(ins: Instruction) -> Any:
    """Return the dtype that a loop works in: of a comparison, that of what is compared."""
    kinds = [edge.dtype for edge in (ins, *ins.inputs) if edge.dtype.kind == "f"]
    return kinds[0] if kinds else None


def _fits(ins: Instruction) -> bool:
    """Return whether a loop can do what an instruction does."""
    if ins.op not in SCALAR or ins.kernel is not None or not ins.shape or 0 in ins.shape:
        return False
    kinds = {edge.dtype for edge in (ins, *ins.inputs)}
    floats = kinds - {_BOOL}
    if len(floats) > 1 or not floats <= {np.dtype(np.float32), np.dtype(np.float64)}:
        return False
    if ins.op not in _OF_TRUTHS and _BOOL in {edge.dtype for edge in ins.inputs}:
        return False
    return all(_form(edge, ins.shape) for edge in ins.inputs)


def _sum_form(ins: Instruction) -> str:
    """Return what an instruction adds up: "total", all rows, "across", each of them, or "".

    The order in which rows of float64 are added up is left to numpy.
    """
    if ins.op != "sum" or ins.dtype.kind != "f":
        return ""
    ndim = len(ins.inputs[0].shape)
    over = reduced(ins.attrs["dim"], ndim)
    if ndim > 1 and over == tuple(range(ndim - 1)):
        return "total"
    return "across" if ndim > 1 and over == (ndim - 1,) and ins.dtype == np.float32 else ""


def _seen(edge: Edge) -> Edge:
    """Return what an expanded edge was before, which a loop repeats itself."""
    while isinstance(edge, Instruction) and edge.op == "expand" and edge.effect is None:
        edge = edge.inputs[0]
    return edge


def _form(edge: Edge, shape: tuple[int, ...]) -> str:
    """Return how ``edge`` lies beside a result of ``shape``; "" if a loop cannot read it."""
    source = _seen(edge)
    if isinstance(source, Constant):
        return "constant" if source.value is not None else ""
    if is_view(source) and not is_whole(source):
        return ""
    if not is_whole(source):
        return ""
    given = source.shape
    if given == shape:
        return "full"
    size = int(np.prod(given))
    if size == 1:
        return "one"
    kept = given
    while kept and kept[0] == 1 and len(kept) > 1:
        kept = kept[1:]
    if kept == shape[-1:]:
        return "row"
    if given == (*shape[:-1], 1):
        return "column"
    return ""


def _outputs(group: _Group, readers: dict[int, set[int]]) -> list[Instruction]:
    inside = {id(member) for member in group.all}
    return [ins for ins in group.members if readers.get(id(ins), set()) - inside]


def _is_light(group: _Group, ins: Instruction, readers: dict[int, set[int]]) -> bool:
    """Return whether a loop that has ``ins`` too is one that compilers vectorise."""
    trial = _Group(group.age)
    trial.members, trial.totals = [*group.members], [*group.totals]
    (trial.totals if ins.op == "sum" else trial.members).append(ins)
    inside = {id(member) for member in trial.members}
    read = {
        id(_seen(edge))
        for member in trial.members
        for edge in member.inputs
        if _form(edge, member.shape) in ("full", "row")
    }
    reads = len(read - inside)
    writes = len(_outputs(trial, readers)) + len(trial.totals)
    return writes * reads + writes * (writes - 1) // 2 <= PAIRS


def _loop(
    group: _Group, readers: dict[int, set[int]], new: dict[int, Edge], fast: bool
) -> list[Instruction]:
    """Return the instruction that is the loop of a group, and those that take its results."""
    shape = group.members[0].shape
    inputs: dict[int, tuple[int, Edge, str]] = {}
    constants: list[float] = []
    number = {id(ins): k for k, ins in enumerate(group.members)}

    def ref(edge: Edge) -> Ref:
        if id(edge) in number:
            return Ref("v", number[id(edge)])
        source = _seen(edge)
        if isinstance(source, Constant):
            assert source.value is not None
            constants.append(float(source.value))
            return Ref("c", len(constants) - 1)
        source = new.get(id(source), source)
        form = _form(source, shape)
        return Ref("x", inputs.setdefault(id(source), (len(inputs), source, form))[0])

    steps = [(ins.op, tuple(map(ref, ins.inputs))) for ins in group.members]
    results = _outputs(group, readers)
    outputs = [(number[id(ins)], "full") for ins in results]
    outputs += [(number[id(ins.inputs[0])], _sum_form(ins)) for ins in group.totals]
    results = [*results, *group.totals]
    chain = Chain(
        str(_kind(group.members[0])),
        tuple(form for _, _, form in inputs.values()),
        tuple(constants),
        tuple(steps),
        tuple(outputs),
    )
    kernel = functools.partial(_computed, chain, tuple((r.shape, r.dtype) for r in results), fast)
    last = group.members[-1]
    edges = tuple(edge for _, edge, _ in inputs.values())
    whole = Instruction(
        *("loop", edges, {"body": chain}, (), np.dtype(bool), last.module),
        kernel=kernel,
        site=last.site,
    )
    written = [whole]
    for k, result in enumerate(results):
        part = dataclasses.replace(
            result, op="part", inputs=(whole,), attrs={"index": k}, kernel=itemgetter(k)
        )
        new[id(result)] = part
        written.append(part)
    return written


def calls(
    chain: Chain, room: Room, outs: Sequence[Any], arrays: Sequence[Array], fast: bool
) -> list[Call]:
    """Return the calls that compute a chain."""
    if fast:
        shaped = matrices(chain, outs, arrays)
        try:
            loop = compiled(chain, tuple(array.dtype.str for array in shaped))
        except Exception as error:  # noqa: BLE001 - numba raises all kinds
            give_up(error)
        else:
            return [loop.bound(*shaped)]
    return blocked(chain, room, outs, arrays)


def _computed(chain: Chain, kinds: Any, fast: bool, *arrays: Array) -> tuple[Array, ...]:
    outs = tuple(np.empty(shape, dtype) for shape, dtype in kinds)
    for function, arguments in calls(chain, Room(), outs, arrays, fast):
        function(*arguments)
    return outs
