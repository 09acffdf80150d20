"""From a graph of arrays to a graph of numbers: the same computation, one ``Value`` per element.

``scalarize`` expands what this engine has recorded into what ``micro`` records. An op that both
engines have becomes that op on every element; any other is spelled out in such ops, in
``expansions``. So a small network can be drawn number by number, and the two engines, whose
derivatives were written independently, can be held against each other.

This and ``expansions`` are all of ``tensor`` that knows ``micro``'s Values, but for ``verify``.
"""

from __future__ import annotations

import functools
import inspect
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, overload

import numpy as np

from micro.value import OPS as SCALAR_OPS
from micro.value import Value
from micro.vocab import VOCAB

from .expansions import ADJOINTS, EXPANSIONS, MOVES
from .expansions.scalars import Scalars, array_of, constant
from .graph import Array, Constant, Edge, Node
from .passes import end_of, reachable
from .program import Program, mapped, tensors
from .tensor import Tensor
from .tracing import record_details

__all__ = ["Scalarized", "expand", "labelled", "operand_name", "scalarize", "wrapped"]

LIMIT = 100_000


@dataclass(frozen=True)
class Scalarized:
    """A graph of Values, and where in it the Tensors of the graph it came from are.

    Attributes:
        output: the Values of the output, an ndarray of its shape, or the one Value of a 0-d
            output; a tuple, if several outputs were given.
        leaves: for every leaf Tensor that a gradient flows to, the ndarray of its Values.
    """

    output: Any
    leaves: Mapping[Tensor, Array]
    _values: Mapping[int, Array]

    def __contains__(self, tensor: Tensor) -> bool:
        return id(end_of(tensor)) in self._values

    def __getitem__(self, tensor: Tensor) -> Array:
        """Return the Values of a Tensor of the graph, be it a leaf, an intermediate or an output.

        Raises:
            KeyError: the Tensor is not in the graph.
        """
        found = self._values.get(id(end_of(tensor)))
        if found is None:
            raise KeyError(f"the Tensor of shape {tensor.shape} is not in the scalarized graph")
        return found


@overload
def scalarize(
    output: Tensor | Sequence[Tensor],
    *,
    limit: int = LIMIT,
    number: Callable[[float], Any] = float,
) -> Scalarized: ...
@overload
def scalarize(
    output: Callable[..., Any],
    *,
    limit: int = LIMIT,
    number: Callable[[float], Any] = float,
) -> Callable[..., Scalarized]: ...
def scalarize(
    output: Any, *, limit: int = LIMIT, number: Callable[[float], Any] = float
) -> Scalarized | Callable[..., Scalarized]:
    """Expand a recorded graph into micro's: the same ops on single numbers.

    Elementwise ops keep their names; the others are spelled out in such ops. Every element of a
    leaf becomes a Value with the label of its Tensor and its index, ``w[0,1]``. Leaves count with
    the numbers that they hold now. Hooks are not part of the graph, and no number is rounded to
    the Tensor's dtype on the way.

    A record keeps of an operand that no gradient flows to just what its rules need. Where that is
    too little, scalarize the function instead: ``scalarize(fn)`` takes the arguments of ``fn``,
    runs it, keeps everything, and expands what it returns, a Tensor or a sequence of them. A
    traced ``Program`` is called likewise; all its real arguments become Values.

    Args:
        output: one Tensor, several, a function that returns one or several, or a Program.
        limit: the largest number of Values to make.
        number: makes the numbers that Values hold out of floats: ``float``,
            ``fractions.Fraction`` or ``mpmath.mpf``, for example.

    Returns:
        The Values of the output, of the leaves and of what is between. For a function, a function.

    Raises:
        TooManyValuesError: more than ``limit`` Values would be needed.
        RuntimeError: no output has a graph, or the record lacks numbers that are needed.
        NotImplementedError: an op outside the vocabulary, or an effect of a Program.

    >>> import tensor
    >>> w = tensor.Tensor([1.0, 2.0], requires_grad=True, label="w")
    >>> scalar = scalarize((w * w).sum())
    >>> scalar.output.backward()
    >>> [(x.label, x.data, x.grad) for x in scalar.leaves[w]]
    [('w[0]', 1.0, 2.0), ('w[1]', 2.0, 4.0)]
    """
    if isinstance(output, Program):
        return functools.partial(_of_program, output, limit, number)
    if not isinstance(output, (Tensor, Sequence)) and callable(output):

        @functools.wraps(output)
        def run(*args: Any, **kwargs: Any) -> Scalarized:
            with record_details():
                result = output(*args, **kwargs)
            return _scalarized(result, limit, number)

        return run
    return _scalarized(output, limit, number)


def _scalarized(output: Any, limit: int, number: Callable[[float], Any]) -> Scalarized:
    outputs = [output] if isinstance(output, Tensor) else list(output)
    for i, tensor in enumerate(outputs):
        if not isinstance(tensor, Tensor):
            kind = type(tensor).__name__
            raise TypeError(f"scalarize: output {i} must be a Tensor, got {kind}")
    if not any(tensor.requires_grad for tensor in outputs):
        raise RuntimeError(
            "scalarize: no output has a graph; compute them from a Tensor that requires grad, "
            "outside no_grad()"
        )
    m = Scalars(number, limit)
    roots = [end_of(tensor) for tensor in outputs]
    nodes = reachable(roots)[::-1]
    edges: list[Any] = [*roots, *(edge for node in nodes for edge in node.inputs)]
    leaves = dict.fromkeys(edge for edge in edges if isinstance(edge, Tensor))
    everything: list[Any] = [*leaves, *nodes]
    shapes = [edge.shape for edge in everything]
    Scalars(number, limit).reserve(sum(map(math.prod, shapes)), "its output")  # before any is made
    found = {leaf: _entered(m, leaf, leaf.label or "", leaf.requires_grad) for leaf in leaves}
    values = {id(tensor): array for tensor, array in found.items()}
    expand(m, nodes, values)
    results = tuple(wrapped(values[id(end_of(tensor))]) for tensor in outputs)
    leaves_only = {t: array for t, array in found.items() if t.requires_grad}
    return Scalarized(results[0] if isinstance(output, Tensor) else results, leaves_only, values)


def _of_program(
    program: Program, limit: int, number: Callable[[float], Any], /, *args: Any, **kwargs: Any
) -> Scalarized:
    """Expand a traced program, run with ``args``."""
    given = tensors((args, kwargs))
    program.check(given)
    for instruction in program.instructions:
        if instruction.effect is not None:
            raise NotImplementedError(
                f"scalarize: {program.name} does more than compute: {instruction.op}; trace a "
                "function without random draws, changes in place or an optimizer's step"
            )
    m = Scalars(number, limit)
    everything: list[Any] = [*given, *program.instructions]
    shapes = [edge.shape for edge in everything]
    Scalars(number, limit).reserve(sum(map(math.prod, shapes)), "its output")
    values: dict[int, Array] = {}
    leaves: dict[Tensor, Array] = {}
    for argument, tensor in zip(program.arguments, given, strict=True):
        leaves[tensor] = _entered(m, tensor, argument.label, tensor.dtype.kind == "f")
        values[id(argument)] = values[id(end_of(tensor))] = leaves[tensor]
    for captured in program.captured:
        tensor = captured.tensor
        leaves[tensor] = _entered(m, tensor, captured.label, captured.is_parameter)
        values[id(captured)] = values[id(end_of(tensor))] = leaves[tensor]
    expand(m, program.instructions, values)
    outputs = mapped(
        program.outputs,
        lambda x: wrapped(values[id(x)]) if id(x) in values else x,
    )
    found = {t: a for t, a in leaves.items() if any(isinstance(v, Value) for v in a.flat)}
    return Scalarized(outputs, found, values)


def _entered(m: Scalars, leaf: Tensor, name: str, as_values: bool) -> Array:
    """Return a leaf's elements: Values, or numbers where no gradient is to flow to it."""
    if as_values:
        return labelled(m, leaf.data, name, "its leaves")
    m.reserve(leaf.numel(), "its leaves")
    items = leaf.data.reshape(-1).tolist()
    return array_of(map(m.number, items) if leaf.dtype.kind == "f" else items, leaf.shape)


def labelled(m: Scalars, array: Array, name: str, what: str) -> Array:
    """Return the elements as Values, whose labels are the name and their index: ``w[0,1]``."""
    m.reserve(array.size, what)
    numbers = map(m.number, array.reshape(-1).tolist())
    places = [
        name and (f"{name}[{','.join(map(str, index))}]" if index else name)
        for index in np.ndindex(array.shape)
    ]
    values = (Value(x, label) for x, label in zip(numbers, places, strict=True))
    return array_of(values, array.shape)


def wrapped(a: Array) -> Any:
    """Return elements as Values, plain numbers too; the one of a 0-d array itself."""
    values = array_of((x if isinstance(x, Value) else constant(x) for x in a.flat), a.shape)
    return values if a.ndim else values.item()


def expand(m: Scalars, instructions: Iterable[Any], values: dict[int, Array]) -> None:
    """Add to ``values`` what every instruction gives, in order.

    An instruction has ``op``, ``inputs``, ``attrs``, ``shape`` and ``dtype``, as a Node has;
    ``values`` holds the elements of each input and then of each instruction, by id.
    """
    for instruction in instructions:
        operands = [
            _operand(m, instruction, i, edge, values) for i, edge in enumerate(instruction.inputs)
        ]
        out = _expanded(m, instruction, operands)
        assert out.shape == instruction.shape, f"{instruction.op}: expanded to shape {out.shape}"
        values[id(instruction)] = out


def _expanded(m: Scalars, node: Any, operands: list[Array | None]) -> Array:
    name, attrs = node.op, node.attrs
    spec = VOCAB.get(name)
    if spec is None:
        raise NotImplementedError(
            f"scalarize: {name} is not in the vocabulary, so nothing is known of its parts; "
            "write the function with ops of the vocabulary"
        )
    if name in SCALAR_OPS:
        return m.each(name, *operands, **attrs)
    present = [a for a in operands if a is not None]
    if name in MOVES:
        return m.moved(name, present, **attrs)
    if name in ADJOINTS:
        forward = ADJOINTS[name]
        attrs = {k: v for k, v in attrs.items() if k in VOCAB[forward].attrs}
        return m.returned(forward, present[0], present[1:], node.shape, **attrs)
    if name not in EXPANSIONS:
        if not spec.differentiable:
            return m.computed(name, *present, **attrs)
        raise NotImplementedError(f"scalarize: {name} has no expansion")
    function = EXPANSIONS[name]
    given = {"out_shape": node.shape, "out_dtype": node.dtype, **attrs}
    if spec.variadic:
        given[spec.inputs[0][1:]] = operands
    else:
        given.update(zip(spec.inputs, operands, strict=True))
    return function(m, **{key: given[key] for key in _asked(function)})


@functools.cache
def _asked(function: Callable[..., Any]) -> tuple[str, ...]:
    return tuple(inspect.signature(function).parameters)[1:]


def _operand(
    m: Scalars, node: Any, i: int, edge: Edge, values: Mapping[int, Array]
) -> Array | None:
    """Return an operand's elements; None for one that was not given."""
    if not isinstance(edge, Constant):
        return values[id(edge)]
    if edge.array is not None:
        array = edge.array
    elif edge.value is not None:
        array = np.asarray(edge.value)
    elif edge.shape == () and edge.dtype == bool:
        return None
    else:
        array = _kept(node, i, edge)
    items = array.reshape(-1).tolist()
    return array_of(map(m.number, items) if array.dtype.kind == "f" else items, array.shape)


def operand_name(node: Node, i: int) -> str:
    """Return what an op calls its operand number ``i``: ``weight``, ``tensors[1]``."""
    spec = VOCAB[node.op]
    return f"{spec.inputs[0][1:]}[{i}]" if spec.variadic else spec.inputs[i]


def _kept(node: Node, i: int, edge: Constant) -> Array:
    """Return the numbers of an operand that the record has kept for a rule.

    Raises:
        RuntimeError: it has not.
    """
    name = operand_name(node, i)
    kept = node.intact(name)
    if kept is not None:
        return kept
    raise RuntimeError(
        f"scalarize: the record does not keep the numbers of {name} of {node.op}, a constant of "
        f"shape {edge.shape}; scalarize the function that computes it, scalarize(fn)(*args), "
        "which keeps everything"
    )
