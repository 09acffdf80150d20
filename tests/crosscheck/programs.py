"""Programs as data: leaves, steps and outputs, that every engine can run and everyone can read.

Printed, a program is Python: ``Program(...)`` to be kept as a regression case, or, by ``code``, a
script of calls that shows the same thing without any of this.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from micro.vocab import VOCAB

__all__ = [
    "CHANGES",
    "FIRST",
    "RESULT",
    "SAME",
    "SECOND",
    "SPECIAL",
    "Leaf",
    "Program",
    "Step",
    "Value",
    "cotangent",
    "run",
    "special",
]

Value = Any  # a Tensor or a torch.Tensor
Array = np.ndarray[Any, Any]

FIRST, SECOND = 1_000, 2_000  # where the cotangents of outputs and of gradients are drawn

RESULT = "result"  # the attribute that says which result of an op of several is taken

SAME = "the program's"  # as an attribute ``dtype``: the one that the program is run in


# Steps that are methods and no ops: those that change their first operand, or with the attribute
# ``copy`` a copy of it, and others.
CHANGES = ("add_", "sub_", "mul_", "div_", "copy_", "fill_", "put_")
SPECIAL = ("detach", "hook", *CHANGES)


@dataclass(frozen=True)
class Leaf:
    """An input. Its numbers are short binary fractions, the same in every precision."""

    shape: tuple[int, ...]
    values: tuple[float, ...]
    kind: Literal["float", "int", "bool"] = "float"
    grad: bool = True

    def array(self, dtype: Any = np.float64) -> Array:
        kinds = {"float": dtype, "int": np.int64, "bool": np.bool_}
        return np.array(self.values, kinds[self.kind]).reshape(self.shape)


@dataclass(frozen=True)
class Step:
    """One call. Operands are positions among the leaves and the results so far, or None.

    A bridge is a step that only serves the next one: it puts an operand into its domain or shape.
    """

    op: str
    operands: tuple[int | None, ...]
    attrs: Mapping[str, Any] = field(default_factory=dict)
    bridge: bool = False


@dataclass(frozen=True)
class Program:
    """Leaves, steps, the positions of the outputs, and the seed of their cotangents."""

    leaves: tuple[Leaf, ...]
    steps: tuple[Step, ...]
    outputs: tuple[int, ...]
    seed: int = 0

    def __str__(self) -> str:
        lines = ["Program("]
        for name in ("leaves", "steps"):
            lines += [f"    {name}=(", *(f"        {x!r}," for x in getattr(self, name)), "    ),"]
        return "\n".join([*lines, f"    outputs={self.outputs!r},", f"    seed={self.seed},", ")"])

    def code(self, dtype: str = "float64") -> str:
        """A script that computes the outputs and the gradients of the first two orders."""
        lines = [
            "import numpy as np",
            "import tensor",
            "from tests.crosscheck.programs import Step, cotangent, special",
            "",
        ]
        for i, leaf in enumerate(self.leaves):
            kind = {"float": dtype, "int": "int64", "bool": "bool"}[leaf.kind]
            numbers = leaf.array().reshape(-1).tolist()
            grad = ", requires_grad=True" if leaf.grad else ""
            data = f"np.array({numbers}, '{kind}').reshape({leaf.shape})"
            lines.append(f"v{i} = tensor.Tensor({data}{grad})")
        for i, step in enumerate(self.steps, len(self.leaves)):
            lines.append(f"v{i} = {_call(step, dtype)}")
        pairs = ", ".join(f"(v{i}, {FIRST + i})" for i in self.outputs)
        grads = ", ".join(f"v{i}" for i, leaf in enumerate(self.leaves) if leaf.grad)
        return "\n".join(
            [
                *lines,
                f"pairs = [(y, i) for y, i in [{pairs}] if y.requires_grad]",
                "def seeds(pairs):",
                "    weights = [cotangent(SEED, i, y.shape) for y, i in pairs]",
                "    return [tensor.Tensor(w, y.dtype) for w, (y, _) in zip(weights, pairs)]",
                "def grad(pairs, **options):",
                "    options = {'allow_unused': True, **options}",
                "    return tensor.grad([y for y, _ in pairs], leaves, seeds(pairs), **options)",
                f"SEED, leaves = {self.seed}, [{grads}]",
                "first = grad(pairs, create_graph=True)",
                "print(*pairs, *first, sep='\\n')",
                f"pairs = [(g, i) for i, g in enumerate(first, {SECOND}) if g is not None]",
                "pairs = [(g, i) for g, i in pairs if g.requires_grad]",
                "print(*(grad(pairs) if pairs else ()), sep='\\n')",
                "",
            ]
        )

    def pairs(self) -> Iterator[tuple[str, str, bool]]:
        """Every op and the op that takes its result, and whether it takes it directly."""
        origins: list[str | None] = [None] * len(self.leaves)
        for step in self.steps:
            main = step.operands[0] if step.bridge else None
            if not step.bridge:
                for i in step.operands:
                    if i is not None and (origin := origins[i]) is not None:
                        yield origin, step.op, not self._is_bridge(i)
            origins.append(step.op if main is None else origins[main])

    def _is_bridge(self, i: int) -> bool:
        return i >= len(self.leaves) and self.steps[i - len(self.leaves)].bridge


def _call(step: Step, dtype: str) -> str:
    operands = ["None" if i is None else f"v{i}" for i in step.operands]
    given = {k: v for k, v in step.attrs.items() if k != RESULT}
    attrs = [f"{k}={dtype!r}" if v == SAME else f"{k}={v!r}" for k, v in given.items()]
    if step.op in SPECIAL:
        return f"special(Step({step.op!r}, (), {dict(step.attrs)!r}), [{', '.join(operands)}])"
    if VOCAB[step.op].variadic:
        operands = [f"[{', '.join(operands)}]"]
    chosen = f"[{step.attrs[RESULT]}]" if RESULT in step.attrs else ""
    return f"tensor.ops.{step.op}({', '.join([*operands, *attrs])}){chosen}"


def run(
    program: Program, leaves: Sequence[Value], call: Callable[[Step, list[Value]], Value]
) -> list[Value]:
    """All values that a program computes from ``leaves``."""
    values = list(leaves)
    for step in program.steps:
        values.append(call(step, [None if i is None else values[i] for i in step.operands]))
    return values


def special(step: Step, operands: Sequence[Value]) -> Value:
    """Do a step that is written alike in both libraries."""
    a, *others = operands
    if step.op in CHANGES and step.attrs["copy"]:
        a = a.clone()
    match step.op:
        case "detach":
            return a.detach()
        case "hook":
            a = a * 1.0
            factor = step.attrs["factor"]
            # PyTorch calls hooks with None where a convolution's second derivative is none, and
            # makes a float64 of a cumprod's.
            a.register_hook(lambda g: None if g is None else (g * factor).to(g.dtype))
        case "put_":
            a[step.attrs["index"]] = others[0]
        case "fill_":
            a.fill_(step.attrs["value"])
        case _:
            getattr(a, step.op)(*others)
    return a


@functools.lru_cache(maxsize=1_000)
def cotangent(seed: int, place: int, shape: tuple[int, ...]) -> Array:
    """Random weights, multiples of 1/4 of size 1/4 to 2: none is 0, and no rounding brings them."""
    rng = np.random.default_rng([seed, place])
    count = math.prod(shape)
    sizes = rng.integers(1, 9, count) * rng.choice([-0.25, 0.25], count)
    weights = sizes.reshape(shape)
    weights.flags.writeable = False
    return weights
