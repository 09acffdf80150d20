"""A computation as data: a flat list of instructions that can be printed, drawn and replayed."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, ClassVar

import numpy as np

from . import modes
from .dispatch import OPS, quietly
from .errors import ShapeError
from .graph import Array, Constant
from .tensor import Tensor
from .tracing import TRACER, Argument, Captured, Edge, Instruction, Tracer

__all__ = ["EDGES", "Program", "leaves", "mapped", "record", "tensors", "trace"]


@dataclass(frozen=True, eq=False)
class Program:
    """What a function did when it was traced.

    Attributes:
        arguments: the Tensors that the function takes.
        captured: the Tensors that it uses besides: parameters, buffers, constants.
        instructions: what is done, in order.
        outputs: what the function returned, each Tensor replaced by what yields it.
        gradients: for each leaf that a backward pass inside has reached, what yields its ``grad``.
            A replay sets it, as if it had been None.
    """

    name: str
    arguments: tuple[Argument, ...]
    captured: tuple[Captured, ...]
    instructions: tuple[Instruction, ...]
    outputs: Any
    gradients: tuple[tuple[Argument | Captured, Edge], ...]

    def __post_init__(self) -> None:
        for leaf, edge in self.gradients:
            if isinstance(edge, Instruction) and not edge.label:
                edge.label = f"{leaf.label}.grad"

    # A drawing shows a program as one last node, into which all that it yields flows.
    op: ClassVar[str] = "return"
    attrs: ClassVar[Mapping[str, Any]] = MappingProxyType({})

    @property
    def label(self) -> str:
        """The name of the function."""
        return self.name

    @property
    def inputs(self) -> tuple[Edge, ...]:
        """What it yields: results, gradients, and effects that nothing else uses."""
        used = {id(edge) for instruction in self.instructions for edge in instruction.inputs}
        yields = [leaf for leaf in leaves(self.outputs) if isinstance(leaf, EDGES)]
        yields += [edge for _, edge in self.gradients]
        yields += [i for i in self.instructions if i.effect is not None and id(i) not in used]
        return tuple({id(edge): edge for edge in yields}.values())

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Do it again, with other arguments of the same shapes and dtypes.

        Raises:
            TypeError: another number of Tensors.
            ShapeError: another shape or dtype.
        """
        given = tensors((args, kwargs))
        values = self._run(given, None)
        self._collect(given, values)
        return mapped(
            self.outputs,
            lambda leaf: Tensor._wrap(_value(values, leaf)) if isinstance(leaf, EDGES) else leaf,
        )

    def trace_replay(
        self, observe: Callable[[Edge, Array], object], /, *args: Any, **kwargs: Any
    ) -> list[tuple[Edge, Array]]:
        """Do it again, as a call does, and tell ``observe`` the numbers of every edge.

        ``observe(edge, array)`` is called for what is taken when it is first read, and for what an
        instruction yields at once. Arrays are copies. What the program changes is changed.

        Returns:
            Every leaf that a backward pass inside has reached, with its gradient.

        Raises:
            TypeError, ShapeError: as a call.
        """
        given = tensors((args, kwargs))
        values = self._run(given, observe)
        self._collect(given, values)
        return [(leaf, _value(values, edge).copy()) for leaf, edge in self.gradients]

    def _run(
        self, given: list[Tensor], observe: Callable[[Edge, Array], object] | None
    ) -> dict[int, Any]:
        """Return what the arguments are and what the instructions yield, by the edge's id."""
        self.check(given)
        values: dict[int, Any] = {
            id(argument): tensor.data
            for argument, tensor in zip(self.arguments, given, strict=True)
        }
        seen: set[int] = set()
        for instruction in self.instructions:
            arrays = [_value(values, edge) for edge in instruction.inputs]
            if observe is not None:
                for edge, array in zip(instruction.inputs, arrays, strict=True):
                    if isinstance(edge, Argument | Captured) and id(edge) not in seen:
                        seen.add(id(edge))
                        observe(edge, array.copy())
            if instruction.effect is not None:
                out = instruction.effect(*arrays)
            elif instruction.kernel is not None:
                out = quietly().run(instruction.kernel, *arrays)
            else:
                op = OPS[instruction.op]
                operands = (arrays,) if op.variadic else arrays
                out = quietly().run(op.kernel, *operands, **instruction.attrs)
            out = out if out is None or type(out) is tuple else np.asarray(out)
            values[id(instruction)] = out
            if observe is not None and type(out) is np.ndarray:
                observe(instruction, out.copy())
        return values

    def _collect(self, given: list[Tensor], values: Mapping[int, Any]) -> None:
        """Set the gradients of the leaves."""
        for leaf, edge in self.gradients:
            if isinstance(leaf, Captured):
                tensor = leaf.tensor
            else:
                tensor = given[self.arguments.index(leaf)]
            tensor.grad = Tensor._wrap(_value(values, edge))

    def replaced(self, instructions: Sequence[Instruction], new: Mapping[int, Edge]) -> Program:
        """Return this program with other instructions.

        Args:
            instructions: what is done.
            new: what takes the place of an edge, by the id of the old one.
        """

        def renewed(leaf: Any) -> Any:
            return new.get(id(leaf), leaf) if isinstance(leaf, EDGES) else leaf

        return dataclasses.replace(
            self,
            instructions=tuple(instructions),
            outputs=mapped(self.outputs, renewed),
            gradients=tuple((leaf, renewed(edge)) for leaf, edge in self.gradients),
        )

    def check(self, given: list[Tensor]) -> None:
        """Raise unless the program was made for such arguments."""
        if len(given) != len(self.arguments):
            raise TypeError(
                f"{self.name}: the program takes {len(self.arguments)} Tensors, got {len(given)}"
            )
        for argument, tensor in zip(self.arguments, given, strict=True):
            if (argument.shape, argument.dtype) != (tensor.shape, tensor.dtype):
                raise ShapeError(
                    f"{self.name}: argument {argument.label} was traced with shape "
                    f"{argument.shape} and dtype {argument.dtype}, got {tensor.shape} and "
                    f"{tensor.dtype}; trace the function again"
                )

    def __len__(self) -> int:
        return len(self.instructions)

    def __str__(self) -> str:
        names = {id(edge): edge.label for edge in self.arguments}
        names |= {id(edge): edge.label for edge in self.captured}
        names |= {id(ins): f"%{i}" for i, ins in enumerate(self.instructions)}

        def named(edge: Any) -> str:
            if isinstance(edge, Constant):
                if edge.array is None and edge.value is None:
                    return "None"
                return repr(edge.value) if edge.value is not None else _typed(edge)
            return names[id(edge)]

        takes = ", ".join(f"{a.label}: {_typed(a)}" for a in self.arguments)
        lines = [f"{self.name}({takes}):"]
        for i, ins in enumerate(self.instructions):
            words = [named(edge) for edge in ins.inputs]
            words += [f"{key}={_short(value)}" for key, value in ins.attrs.items()]
            result = f": {_typed(ins)}" if ins.yields_array else ""
            place = f"  # {ins.module}" if ins.module else ""
            lines.append(f"  %{i}{result} = {ins.op}({', '.join(words)}){place}")
        for leaf, edge in self.gradients:
            lines.append(f"  {leaf.label}.grad = {named(edge)}")
        returned = mapped(self.outputs, lambda x: _Bare(named(x)) if isinstance(x, EDGES) else x)
        lines.append(f"  return {returned!r}")
        return "\n".join(lines)

    __repr__ = __str__


class _Bare(str):
    """A name, shown without quotation marks."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


EDGES = Instruction | Argument | Captured | Constant


def trace(function: Callable[..., Any]) -> Callable[..., Program]:
    """Return a function that runs ``function`` once and returns all that it did as a Program.

    The Tensors among the arguments, also in tuples, lists and dicts, become the arguments of the
    program; everything else that the function sees is fixed: numbers, branches that were taken,
    loops. A Tensor's value cannot be asked for in between (``item()``, ``if``), because the program
    would not ask again. The run is a real one: what it changes is changed.

    A backward pass, an optimizer's step and random numbers belong to the program. Hyper-parameters
    are read anew at every replay.

    >>> import tensor
    >>> program = trace(lambda x: (2 * x).relu())(tensor.Tensor([1.0, -1.0]))
    >>> print(program)
    <lambda>(x0: float32[2]):
      %0: float32[2] = mul(2.0, x0)
      %1: float32[2] = relu(%0)
      return %1
    >>> program(tensor.Tensor([3.0, -3.0])).tolist()
    [6.0, 0.0]
    """

    @functools.wraps(function)
    def run(*args: Any, **kwargs: Any) -> Program:
        return record(function, args, kwargs, Tracer())[0]

    return run


def record(
    function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], tracer: Tracer
) -> tuple[Program, Any]:
    """Run ``function`` under a tracer; return the program and what the function returned."""
    if TRACER.get() is not None:
        raise RuntimeError("trace: a function is being traced already; trace the outer one")
    given = tensors((args, kwargs))
    arguments = tuple(tracer.argument(t, t.label or f"x{i}") for i, t in enumerate(given))
    token = TRACER.set(tracer)
    try:
        with modes.tracing():
            result = function(*args, **kwargs)
    finally:
        TRACER.reset(token)
    outputs = mapped(result, lambda x: tracer.edge(x) if isinstance(x, Tensor) else x)
    reached: list[tuple[Argument | Captured, Tensor]] = [
        *zip(arguments, given, strict=True),
        *((captured, captured.tensor) for captured in tracer.captured),
    ]
    gradients = tuple(
        (leaf, tracer.edge(tensor.grad))
        for leaf, tensor in reached
        if tensor.is_leaf and tensor.grad is not None and tracer.knows(tensor.grad)
    )
    name = getattr(function, "__name__", type(function).__name__)
    program = Program(
        name, arguments, tuple(tracer.captured), tuple(tracer.instructions), outputs, gradients
    )
    return program, result


def tensors(tree: Any) -> list[Tensor]:
    """Return the Tensors in tuples, lists and dicts, in order."""
    return [leaf for leaf in leaves(tree) if isinstance(leaf, Tensor)]


def _value(values: Mapping[int, Any], edge: Edge) -> Any:
    if isinstance(edge, Captured):
        return edge.array
    if isinstance(edge, Constant):
        return edge.array
    return values[id(edge)]


def leaves(tree: Any) -> Iterator[Any]:
    """Yield what tuples, lists and dicts hold, in order."""
    if isinstance(tree, Constant):  # a tuple too
        yield tree
    elif isinstance(tree, Mapping):
        for value in tree.values():
            yield from leaves(value)
    elif isinstance(tree, tuple | list):
        for value in tree:
            yield from leaves(value)
    else:
        yield tree


def mapped(tree: Any, function: Callable[[Any], Any]) -> Any:
    """Return ``tree`` with ``function`` applied to what its tuples, lists and dicts hold."""
    if isinstance(tree, Constant):  # a tuple too
        return function(tree)
    if isinstance(tree, Mapping):
        return {key: mapped(value, function) for key, value in tree.items()}
    if isinstance(tree, tuple | list):
        parts = [mapped(value, function) for value in tree]
        return type(tree)(*parts) if hasattr(tree, "_fields") else type(tree)(parts)
    return function(tree)


def _typed(edge: Any) -> str:
    return f"{edge.dtype}[{', '.join(map(str, edge.shape))}]"


def _short(value: Any) -> str:
    if isinstance(value, np.ndarray):
        return f"{value.dtype}[{', '.join(map(str, value.shape))}]"
    return str(value) if isinstance(value, np.dtype) else repr(value)
