"""Running one program in each engine: its outputs and the derivatives of the first two orders."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

import micro
import tensor
from micro.value import Value
from micro.vocab import VOCAB
from tensor import Tensor
from tensor.dispatch import recording
from tensor.scalarize import scalarize
from tests.crosscheck.bounds import DETACHED
from tests.crosscheck.contraction import contracted
from tests.crosscheck.programs import (
    CHANGES,
    FIRST,
    RESULT,
    SAME,
    SECOND,
    SPECIAL,
    Array,
    Program,
    Step,
    cotangent,
    run,
    special,
)
from tests.tensor.ops.cases import CASES

__all__ = [
    "Disagreement",
    "Outcome",
    "Refused",
    "in_micro",
    "in_tensor",
    "in_torch",
    "refusals",
    "tensor_call",
]


@dataclass
class Outcome:
    """What came out: arrays of numbers, or of Values; a gradient that is not there is 0.

    ``plain`` are the gradients of a pass that is not recorded.
    """

    outputs: list[Any]
    first: list[Any]
    second: list[Any]
    plain: list[Any]

    def parts(self) -> dict[str, list[Any]]:
        """Everything, by what it is."""
        return {"output": self.outputs, "gradient": self.first, "second derivative": self.second}


def _attrs(step: Step, same: Any) -> dict[str, Any]:
    return {k: same if v == SAME else v for k, v in step.attrs.items() if k != RESULT}


def _called(step: Step, function: Callable[..., Any], operands: list[Any], attrs: Any) -> Any:
    """Call a library's function for a step, and take the result that the step names."""
    variadic = VOCAB[step.op].variadic
    result = function(operands, **attrs) if variadic else function(*operands, **attrs)
    return result[step.attrs[RESULT]] if RESULT in step.attrs else result


def tensor_call(step: Step, operands: list[Any], same: Any = np.float64) -> Any:
    """Call the op of ``tensor`` that a step names."""
    if step.op in SPECIAL:
        return special(step, operands)
    return _called(step, getattr(recording, step.op), operands, _attrs(step, same))


def _forwards(index: Any, shape: Sequence[int]) -> Any:
    """An index of PyTorch's, which has no slices that run backwards."""
    backwards = isinstance(index, slice) and (index.step or 1) < 0
    return np.arange(shape[0])[index].copy() if backwards else index


def _reads_backwards(program: Program) -> bool:
    """Whether a step takes a slice that runs backwards."""
    indices = (step.attrs["index"] for step in program.steps if step.op == "getitem")
    parts = (part for index in indices for part in (index if type(index) is tuple else (index,)))
    return any(isinstance(part, slice) and (part.step or 1) < 0 for part in parts)


def _torch_call(step: Step, operands: list[Any], same: Any) -> Any:
    if step.op in SPECIAL:
        return special(step, operands)
    function, attrs = CASES[step.op].torch, _attrs(step, same)
    if step.op == "cast":  # of the same dtype, it would be the operand itself
        return function(*operands, **attrs).clone()
    if step.op in ("getitem", "setitem"):
        attrs["index"] = _forwards(attrs["index"], operands[0].shape)
    return _called(step, function, operands, attrs)


def _differentiated(
    program: Program,
    leaves: Sequence[Any],
    values: Sequence[Any],
    grad: Callable[..., Any],
    make: Callable[[Array], Any],
) -> Outcome:
    """What both libraries of arrays, whose ``grad`` is called alike, make of the outputs."""
    wanted = [x for x in leaves if x.requires_grad]
    places = [i for i in program.outputs if values[i].requires_grad]
    outputs = [values[i] for i in places]
    seeds = [make(cotangent(program.seed, FIRST + i, tuple(values[i].shape))) for i in places]
    plain = grad(outputs, wanted, seeds, retain_graph=True, allow_unused=True)
    first = grad(outputs, wanted, seeds, create_graph=True, allow_unused=True)
    able = [(i, g) for i, g in enumerate(first) if g is not None and g.requires_grad]
    second: Any = [None] * len(wanted)
    if able:
        seeds = [make(cotangent(program.seed, SECOND + i, tuple(g.shape))) for i, g in able]
        second = grad([g for _, g in able], wanted, seeds, allow_unused=True)
    return Outcome(
        [_numbers(values[i]) for i in program.outputs],
        *(_filled(grads, wanted) for grads in (first, second, plain)),
    )


def _numbers(x: Any) -> Array:
    if isinstance(x, Tensor):
        return x.data
    if x._is_zerotensor():  # a gradient without memory, at which numpy() would read
        return np.zeros(x.shape, str(x.dtype).removeprefix("torch."))
    return np.asarray(x.numpy(force=True))


def _filled(grads: Sequence[Any], wanted: Sequence[Any]) -> list[Array]:
    zeros = [np.zeros(tuple(x.shape), _numbers(x).dtype) for x in wanted]
    return [z if g is None else _numbers(g) for g, z in zip(grads, zeros, strict=True)]


def _leaves(program: Program, dtype: Any) -> list[Tensor]:
    return [Tensor(leaf.array(dtype), requires_grad=leaf.grad) for leaf in program.leaves]


class Disagreement(AssertionError):  # noqa: N818 - the engines', not the program's
    """The engines differ by more than rounding, or one does what no engine may do."""


class Refused(Exception):  # noqa: N818 - no fault, but a reason to leave a program aside
    """An engine does not follow a change in place, and says so."""


@contextmanager
def refusals(program: Program) -> Iterator[None]:
    """Raise ``Refused`` where an engine refuses to follow a change in place."""
    try:
        yield
    except RuntimeError as error:
        changes = any(step.op in CHANGES for step in program.steps)
        if changes and re.search(r"in-?place|Please clone\(\)|memory is read-only", str(error)):
            raise Refused from error
        raise


def in_tensor(program: Program, dtype: Any) -> Outcome:
    """Run a program in ``tensor``."""
    with refusals(program):
        return _in_tensor(program, dtype)


def _in_tensor(program: Program, dtype: Any) -> Outcome:
    leaves = _leaves(program, dtype)

    def call(step: Step, operands: list[Any]) -> Tensor:
        result: Tensor = tensor_call(step, operands, dtype)
        if step.op not in SPECIAL and not VOCAB[step.op].view:
            for x in operands:
                if x is not None and np.shares_memory(x.data, result.data):
                    raise Disagreement(f"{step.op} shares memory and is no view\n{program}")
        return result

    values = run(program, leaves, call)
    return _differentiated(program, leaves, values, tensor.grad, lambda a: Tensor(a.astype(dtype)))


@contextmanager
def _quiet_torch() -> Iterator[None]:
    """Without warnings and without oneDNN, whose gelu refuses some strides of a gradient."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of degrees of freedom, and of what is not yet optimised
        with torch.backends.mkldnn.flags(enabled=False):
            yield


def in_torch(program: Program, dtype: Any) -> Outcome:
    """Run a program in PyTorch."""
    if _reads_backwards(program) and any(step.op in CHANGES for step in program.steps):
        raise Refused  # see ``_forwards``: here it is a view, there a copy
    leaves = [
        torch.from_numpy(leaf.array(dtype)).requires_grad_(leaf.grad) for leaf in program.leaves
    ]
    with refusals(program), _quiet_torch():
        values = run(program, leaves, lambda step, operands: _torch_call(step, operands, dtype))
        return _differentiated(
            program,
            leaves,
            values,
            torch.autograd.grad,
            lambda a: torch.from_numpy(a.astype(dtype)),
        )


def in_micro(
    program: Program, number: Callable[[float], Any] = float, *, recorded: bool = True
) -> Outcome:
    """Run a program in ``micro``: arrays of Values, of the outputs and of all derivatives.

    ``recorded`` says whether second derivatives are to have a graph too.
    """
    leaves = [x.requires_grad_(x.dtype.kind == "f") for x in _leaves(program, np.float64)]
    wanted = [x for x, leaf in zip(leaves, program.leaves, strict=True) if leaf.grad]
    detached: list[Tensor] = []

    def cut(x: Tensor) -> Tensor:
        # What is not chosen gets no gradient, but it is in the graph, for ``bounds`` to see.
        detached.append(recording.where(True, x.detach().clone(), x))
        return detached[-1]

    def call(step: Step, operands: list[Any]) -> Tensor:
        if step.op == "detach":
            return cut(operands[0])
        if step.op == "hook":  # as if a part of it had been detached
            factor, x = step.attrs["factor"], operands[0]
            return x * factor + cut(x) * (1 - factor)
        return tensor_call(step, operands)

    def outputs() -> list[Tensor]:
        values = run(program, leaves, call)
        return [values[i] for i in program.outputs]

    with refusals(program):
        scalar = scalarize(outputs, number=number)()
    for x in detached:
        for v in scalar[x].flat if x in scalar else ():
            if isinstance(v, Value):
                v.label = DETACHED
    results = [np.asarray(y, object) for y in scalar.output]
    columns = [scalar.leaves.get(x) for x in wanted]
    values = [v for column in columns if column is not None for v in column.flat]

    def derivatives(ys: list[Any], weights: list[Array], graph: bool) -> list[Any]:
        found: dict[int, Any] = {}
        joined = [y for array in ys for y in array.flat]
        # Weights that are Values, not constants: what they meet is recorded, and can be bounded.
        total = contracted(joined, [Value(number(w)) for array in weights for w in array.flat])
        if total is not None and values:
            grads = micro.grad(total, values, create_graph=graph, allow_unused=True)
            found = dict(zip(map(id, values), grads, strict=True))
        out = []
        for x, column in zip(wanted, columns, strict=True):
            array = np.empty(x.shape, object)
            if column is None:
                array.fill(None)
            else:
                for place, v in np.ndenumerate(column):
                    array[place] = found.get(id(v))
            out.append(array)
        return out

    seeds = [
        cotangent(program.seed, FIRST + i, y.shape)
        for i, y in zip(program.outputs, results, strict=True)
    ]
    first = derivatives(results, seeds, graph=True)
    kept = [(i, g) for i, g in enumerate(first)]
    seeds = [cotangent(program.seed, SECOND + i, tuple(g.shape)) for i, g in kept]
    present = [
        (g, w)
        for (_, array), weights in zip(kept, seeds, strict=True)
        for g, w in zip(array.flat, weights.flat, strict=True)
        if isinstance(g, Value)
    ]
    ys = np.empty(len(present), object)
    ys[:] = [g for g, _ in present]
    second = derivatives([ys], [np.array([w for _, w in present])], graph=recorded)
    return Outcome(results, first, second, first)
