"""Programs made shorter: each pass takes a Program and returns one that does the same.

A pass rewrites instructions in their order. What an effect may have changed is never read from
before it: instructions are merged only where nothing was written between them. A program that
writes into results of its own, whose views may be read later, keeps all of its copies.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from .dispatch import OPS, quietly
from .graph import Constant
from .kernels.into import computed
from .program import Program
from .shapes import is_basic, reduced
from .tracing import Captured, Edge, Instruction

__all__ = [
    "DRAWS",
    "RESHAPES",
    "VIEWS",
    "folded",
    "is_view",
    "is_whole",
    "merged",
    "optimized",
    "overwrites",
    "pruned",
    "root",
    "split",
    "without_copies",
]

# Ops whose result is a view of what they are given, the first ones if that is contiguous.
RESHAPES = frozenset({"reshape", "flatten", "squeeze", "unsqueeze"})
VIEWS = RESHAPES | {"transpose", "permute", "expand", "diagonal", "unfold"}

# What ``split`` makes; these names say all that the instructions do.
_HIDDEN = frozenset({"losses", "nll", "nll_backward", "probabilities", "shifted"})

# Draws from a generator change nothing that a program reads.
DRAWS = frozenset({"uniform", "normal", "integers", "permutation", "bernoulli"})


def optimized(program: Program, fast: bool = False) -> Program:
    """Return a program with all passes applied; ``fast`` if numba's kernels are to run it."""
    return pruned(merged(split(without_copies(folded(program)), fast)))


def is_view(edge: Edge) -> bool:
    """Return whether what ``edge`` yields may be a view of its first input."""
    if not isinstance(edge, Instruction):
        return False
    if edge.effect is not None:
        return edge.op == "setitem"
    if edge.kernel is not None:
        return False
    return edge.op in VIEWS or (edge.op == "getitem" and is_basic(edge.attrs["index"]))


def root(edge: Edge) -> Edge:
    """Return whose memory ``edge`` may be a view of."""
    while is_view(edge):
        edge = edge.inputs[0]  # type: ignore[assignment]
    return edge


def is_whole(edge: Edge) -> bool:
    """Return whether ``edge`` is all of its root in the same order, as far as can be said."""
    while is_view(edge):
        if edge.op not in RESHAPES:
            return False
        edge = edge.inputs[0]  # type: ignore[assignment]
    return True


def overwrites(program: Program) -> bool:
    """Return whether a program writes into what it has made or was given."""
    return any(
        ins.op == "setitem" and ins.effect is not None and not isinstance(root(ins), Captured)
        for ins in program.instructions
    )


def rewritten(
    program: Program, visit: Callable[[Instruction], Edge | list[Instruction]]
) -> Program:
    """Return a program in which ``visit`` has replaced instructions.

    ``visit`` sees each instruction, its inputs replaced already, and returns what takes its place:
    an instruction, which is then part of the program, what yields the same already, or a list of
    instructions, the last of which yields the result.
    """
    new: dict[int, Edge] = {}
    present: dict[int, Instruction] = {}
    for old in program.instructions:
        inputs = tuple(new.get(id(edge), edge) for edge in old.inputs)
        same = all(map(_is, inputs, old.inputs))
        instruction = old if same else dataclasses.replace(old, inputs=inputs)
        found = visit(instruction)
        placed: list[Edge] = list(found) if isinstance(found, list) else [found]
        for edge in placed:
            if isinstance(edge, Instruction):
                present.setdefault(id(edge), edge)
        new[id(old)] = placed[-1]

    return program.replaced(list(present.values()), new)


def _is(a: Any, b: Any) -> bool:
    return a is b


def folded(program: Program) -> Program:
    """Return a program in which what depends on constants alone is a constant."""
    if overwrites(program):
        return program

    def visit(ins: Instruction) -> Edge:
        constant = all(isinstance(edge, Constant) for edge in ins.inputs)
        if not constant or ins.effect is not None or ins.kernel is not None:
            return ins
        op, arrays = OPS[ins.op], [edge.array for edge in ins.inputs]  # type: ignore[union-attr]
        out = np.asarray(
            quietly().run(op.kernel, *([arrays] if op.variadic else arrays), **ins.attrs)
        )
        return Constant.fixed(out)

    return rewritten(program, visit)


def without_copies(program: Program) -> Program:
    """Return a program without copies that nothing tells from what they are copies of."""
    if overwrites(program):
        return program

    def visit(ins: Instruction) -> Edge:
        if ins.effect is not None or ins.op not in ("clone", "cast", "reshape"):
            return ins
        (source,) = ins.inputs
        if (source.dtype, source.shape) != (ins.dtype, ins.shape):
            return ins
        # A parameter may be changed before the copy is read.
        return source if ins.op == "reshape" or isinstance(root(source), Instruction) else ins

    return rewritten(program, visit)


def split(program: Program, fast: bool) -> Program:
    """Return a program in which cross-entropy and its gradient begin with the same instructions.

    With numba's kernels a mean of rows becomes a sum and a quotient.

    These are a log-softmax, or the exponentials that it is made of where the kernels are those that
    numba compiles.
    """

    def is_plain(a: Edge) -> bool:
        return len(a.shape) == 2 and a.dtype != np.float16

    def beginning(a: Edge, target: Edge, ins: Instruction) -> list[Instruction]:
        """Return what both have in common."""
        if not shares(a, target, ins):
            return [made("log_softmax", a, {"dim": -1}, ins)]
        shifted = hidden("shifted", (a,), {}, a.shape, ins, fast)
        return [shifted, made("exp", shifted, {}, ins)]

    def shares(a: Edge, target: Edge, ins: Instruction) -> bool:
        kinds = a.dtype == np.float32 and target.dtype == np.int64 and 0 not in a.shape
        plain = ins.attrs["reduction"] in ("mean", "sum") and not ins.attrs["label_smoothing"]
        return fast and kinds and is_whole(a) and plain

    def visit(ins: Instruction) -> Edge | list[Instruction]:
        if ins.op == "cross_entropy" and is_plain(ins.inputs[0]):
            a, target = ins.inputs
            first = beginning(a, target, ins)
            name = "losses" if len(first) == 2 else "nll"
            inputs = (*reversed(first), target)
            return [*first, hidden(name, inputs, _loss(ins), ins.shape, ins, fast)]
        if ins.op == "cross_entropy_backward" and is_plain(ins.inputs[1]):
            g, a, target = ins.inputs
            first = beginning(a, target, ins)
            if len(first) == 2:
                name, inputs = "probabilities", (first[1], target, g)
            else:
                name, inputs = "nll_backward", (g, first[0], target)
            return [*first, hidden(name, inputs, _loss(ins), a.shape, ins, fast)]
        if ins.op == "part" and ins.inputs[0].op in ("nll_backward", "probabilities"):
            return ins.inputs[0]
        if fast and ins.op == "mean" and ins.kernel is None:
            return _divided(ins)
        return ins

    return rewritten(program, visit)


def _divided(ins: Instruction) -> Instruction | list[Instruction]:
    """Return a mean over the last dimension, or all others, as a sum, which may end a loop."""
    (a,) = ins.inputs
    over = reduced(ins.attrs["dim"], len(a.shape))
    rows = over and over == tuple(range(len(a.shape) - 1)) and ins.dtype != np.float16
    if not rows and (over != (len(a.shape) - 1,) or ins.dtype != np.float32):
        return ins
    count = np.asarray(math.prod(a.shape[d] for d in over), ins.dtype)
    total = Instruction("sum", (a,), ins.attrs, ins.shape, ins.dtype, ins.module)
    shares = (total, Constant((), ins.dtype, count.item(), None, count))
    return [total, Instruction("div", shares, {}, ins.shape, ins.dtype, ins.module)]


def _loss(ins: Instruction) -> dict[str, Any]:
    return {name: ins.attrs[name] for name in ("ignore_index", "reduction", "label_smoothing")}


def hidden(
    name: str,
    inputs: tuple[Edge, ...],
    attrs: Mapping[str, Any],
    shape: tuple[int, ...],
    place: Instruction,
    fast: bool,
) -> Instruction:
    """Return an instruction that is in no vocabulary, but among the kernels that write into memory.

    Its dtype is that of its first input.
    """
    dtype = inputs[0].dtype
    kernel = functools.partial(computed, name, attrs, shape, dtype, fast)
    return Instruction(
        name, inputs, attrs, shape, dtype, place.module, kernel=kernel, site=place.site
    )


def made(op: str, a: Edge, attrs: Mapping[str, Any], place: Instruction) -> Instruction:
    """Return an instruction for an elementwise op, or one along rows, in the place of another."""
    return Instruction(op, (a,), attrs, a.shape, a.dtype, place.module, site=place.site)


def merged(program: Program) -> Program:
    """Return a program in which no instruction repeats another one."""
    if overwrites(program):
        return program
    known: dict[Any, Instruction] = {}
    age = 0

    def visit(ins: Instruction) -> Edge:
        nonlocal age
        if ins.effect is not None:
            age += ins.op not in DRAWS
            return ins
        if ins.kernel is not None and ins.op != "part" and ins.op not in _HIDDEN:
            return ins
        key = (age, ins.op, tuple(map(_identity, ins.inputs)), _frozen(ins.attrs))
        return known.setdefault(key, ins)

    return rewritten(program, visit)


def _identity(edge: Edge) -> Any:
    if not isinstance(edge, Constant):
        return id(edge)
    return (edge.shape, edge.dtype, None if edge.array is None else edge.array.tobytes())


def _frozen(value: Any) -> Any:
    """Return something hashable that is equal only for equal attributes."""
    if isinstance(value, np.ndarray):
        return (value.shape, value.dtype, value.tobytes())
    if isinstance(value, slice):
        return ("slice", _frozen((value.start, value.stop, value.step)))
    if isinstance(value, tuple | list):
        return tuple(map(_frozen, value))
    if isinstance(value, dict) or hasattr(value, "items"):
        return tuple((key, _frozen(held)) for key, held in value.items())
    if isinstance(value, int | float | np.generic | str | None):
        return (type(value), repr(value))  # 0.0 and -0.0 differ, 1 and True too
    return value if isinstance(value, np.dtype) else id(value)


def pruned(program: Program) -> Program:
    """Return a program without what nothing needs: no result, gradient or effect."""
    needed = {id(edge) for edge in program.inputs}
    kept: list[Instruction] = []
    for ins in reversed(program.instructions):
        if ins.effect is not None or id(ins) in needed:
            needed.update(map(id, ins.inputs))
            kept.append(ins)
    return dataclasses.replace(program, instructions=tuple(reversed(kept)))
