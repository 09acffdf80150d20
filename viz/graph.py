"""Reading a graph: from any objects that record how they were made to what a drawing shows.

Nothing here knows an engine. A graph is walked once, without recursion; then its records are
put into groups, most of them of one record each; then the groups, and nothing else, are read.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal, NamedTuple, Protocol, TypeAlias, runtime_checkable

from .sites import of_record, site_of
from .summary import Summary, describe_attrs, is_faulty, magnitude, summarize

__all__ = [
    "BACKWARD",
    "Edge",
    "Graph",
    "Group",
    "Kind",
    "Node",
    "Record",
    "Walk",
    "attrs_of",
    "depths",
    "is_record",
    "kind_of",
    "module_of",
    "read",
    "symbol_of",
    "walk",
]

# What the name of a module begins with, where an op of it is differentiated.
BACKWARD: Final = "backward of "

Kind: TypeAlias = Literal["op", "input", "parameter", "constant", "folded"]


@runtime_checkable
class Record(Protocol):
    """What an object says about itself so that it can be drawn.

    These are read too where an object has them: ``data`` and ``grad`` (numbers or arrays),
    ``shape``, ``dtype``, ``name`` (where the label is empty), ``symbol`` or ``_op`` (what is
    written instead of the op's name), ``is_constant``, ``is_parameter``, ``value`` (the number of
    a constant that has no ``data``), ``partials()``, the local derivative by each input,
    ``site``, the ``file:line`` that made it, ``module``, the dotted name of the module that called
    the op ("backward of ..." where a backward pass called it for an op of that module),
    ``sequence``, a number that rises in the order in which ops were made, ``formula``, lines that
    are written in place of ``attrs``, ``yields_array``, False if it is done for an effect or yields
    several arrays, ``is_fixed``, of an array that belongs to what is drawn and is no input, and
    ``is_missing``, of an input that was not given. The output may have them all in order, as
    ``instructions``.
    """

    @property
    def op(self) -> str:
        """The op that made it; "" for a leaf."""

    @property
    def inputs(self) -> Sequence[Any]:
        """What the op was given, in order and with repeats."""

    @property
    def attrs(self) -> Mapping[str, Any]:
        """The op's parameters that are not inputs."""

    @property
    def label(self) -> str | None:
        """A name for people."""


class Walk(NamedTuple):
    """Every record of a graph, once, and how they hang together.

    Attributes:
        records: in backward order: the output first, and each before what it was made from.
        inputs: for each record the positions in ``records`` of its inputs, in order, with repeats.
        arguments: which argument each of these inputs is, from 0.
    """

    records: list[Any]
    inputs: list[list[int]]
    arguments: list[list[int]]


class Group(NamedTuple):
    """Records that are drawn as one node.

    Attributes:
        members: their positions in a walk.
        title: what is written on the node; not used where there is one member.
        has_one_result: whether only the first member is used outside the group.
        contents: what ops are in it, in words.
        module: the name of the module that it lies in.
        copies: how often a block is repeated in it.
    """

    members: list[int]
    title: str = ""
    has_one_result: bool = False
    contents: str = ""
    module: str = ""
    copies: int = 1


@dataclass(frozen=True, slots=True)
class Edge:
    """An arrow from an input to the node that used it.

    Attributes:
        source: the id of the node where it starts.
        argument: which argument it is, from 1; 0 if the op takes but one, if it goes to a folded
            node, or if it stands for several.
        derivative: the local derivative of the node by this argument, or "".
        count: how many edges it stands for.
    """

    source: int
    argument: int = 0
    derivative: str = ""
    count: int = 1


@dataclass(frozen=True, slots=True)
class Node:
    """One node as it is drawn.

    ``id`` is its place in backward order, from 0 for the output; ``attrs`` are its parameters that
    are not inputs, or lines that say what it computes; ``notes`` say where numbers that
    are not finite come from; ``size`` is the largest absolute value in the gradient, if known;
    ``module`` is the dotted name of the module that the node lies in; ``contents`` are the ops in a
    folded node.
    """

    id: int
    kind: Kind
    op: str
    symbol: str
    label: str
    attrs: str
    shape: str
    data: Summary | None
    grad: Summary | None
    inputs: tuple[Edge, ...]
    members: int = 1
    notes: tuple[str, ...] = ()
    size: float | None = None
    module: str = ""
    contents: str = ""

    @property
    def name(self) -> str:
        """How the node is referred to in texts."""
        return f"n{self.id}"

    @property
    def faults(self) -> tuple[str, ...]:
        """What is NaN or infinite in it, in words."""
        summaries = (("data", self.data), ("grad", self.grad))
        return tuple(f"{what}: {s.faults}" for what, s in summaries if s is not None and s.faults)


@dataclass(frozen=True, slots=True)
class Graph:
    """What is drawn: nodes in backward order, and how many nodes and edges there are in all."""

    nodes: tuple[Node, ...]
    nodes_in_all: int
    edges_in_all: int

    @property
    def folded(self) -> int:
        """How many records are not drawn as nodes of their own."""
        return sum(node.members for node in self.nodes if node.kind == "folded")

    @property
    def span(self) -> int:
        """How many ranks all the edges cross together: what it costs to lay the graph out."""
        ranks = depths([[edge.source for edge in node.inputs] for node in self.nodes])
        return sum(ranks[e.source] - ranks[node.id] for node in self.nodes for e in node.inputs)


def walk(root: Any) -> Walk:
    """Find every record that ``root`` was made from: each once, in time linear in the edges.

    Raises:
        TypeError: ``root`` is not a record.
    """
    if not is_record(root):
        raise TypeError(
            f"draw: obj is a {type(root).__name__}; wanted an object with op, inputs, attrs and "
            "label, such as a micro.Value or a tensor.Tensor"
        )
    # ``inputs`` may be made anew at each access: it is read once, and what it gave is kept alive,
    # since an object is known by its id.
    inputs_of: dict[int, tuple[Any, Sequence[tuple[int, Any]]]] = {}
    order: list[Any] = []
    stack: list[tuple[Any, bool]] = [(root, False)]
    while stack:
        record, inputs_are_placed = stack.pop()
        if inputs_are_placed:
            order.append(record)
        elif id(record) not in inputs_of:
            inputs = tuple(record.inputs) if is_record(record) else ()
            given = [(i, x) for i, x in enumerate(inputs) if not getattr(x, "is_missing", False)]
            inputs_of[id(record)] = record, given
            stack.append((record, True))
            stack.extend((x, False) for _, x in given)
    order.reverse()
    place = {id(record): i for i, record in enumerate(order)}
    found = [inputs_of[id(record)][1] for record in order]
    return Walk(
        order,
        [[place[id(x)] for _, x in inputs] for inputs in found],
        [[i for i, _ in inputs] for inputs in found],
    )


def depths(inputs: Sequence[Iterable[int]]) -> list[int]:
    """The length of the longest way from the output to each node, nodes in backward order."""
    depth = [0] * len(inputs)
    for i, sources in enumerate(inputs):
        for source in sources:
            depth[source] = max(depth[source], depth[i] + 1)
    return depth


def read(
    graph: Walk,
    groups: Sequence[Group],
    names: Mapping[int, str],
    gradients: Mapping[int, Any] | None = None,
    values: Mapping[int, Any] | None = None,
) -> Graph:
    """Read what is shown of each group, as it is now.

    Args:
        graph: the walk.
        groups: a partition of its records, in backward order.
        names: by id, the objects that are parameters, with a name or "".
        gradients: by position in the walk; None if each record's own ``grad`` is shown.
        values: by position in the walk, numbers to be shown in place of a record's own.
    """
    place = {member: i for i, group in enumerate(groups) for member in group.members}
    nodes = []
    for i, group in enumerate(groups):
        first, edges = group.members[0], _edges(graph, groups, place, i)
        record = graph.records[first]
        members = len(group.members)
        if members == 1 or group.has_one_result:
            grad = _received(record, first, gradients)
            node = _node(record, i, edges, names, grad, (values or {}).get(first))
        if members > 1:
            if not group.has_one_result:
                node = Node(i, "folded", "", "", "", "", "", None, None, edges)
            contents = group.contents if group.title else ""
            node = replace(node, kind="folded", op="", symbol=group.title, attrs="")
            node = replace(node, members=members, contents=contents)
        nodes.append(replace(node, module=group.module))
    bad_values = [i for i, x in enumerate(graph.records) if is_faulty(_shown(x, i, values))]
    bad_grads = [i for i, x in enumerate(graph.records) if is_faulty(_received(x, i, gradients))]
    if bad_values:  # forward, the records furthest from the output come first
        _note_value(nodes, place[bad_values[-1]], graph.records[bad_values[-1]])
    if bad_grads:  # backward, the output does
        _note_gradient(nodes, place[bad_grads[0]], groups, graph.records)
    return Graph(tuple(nodes), len(graph.records), sum(map(len, graph.inputs)))


def _shown(record: Any, i: int, values: Mapping[int, Any] | None) -> Any:
    """The numbers that are shown of a record."""
    value = (values or {}).get(i)
    if value is None:
        return _data(record) if is_record(record) else record
    return value


def _received(record: Any, i: int, gradients: Mapping[int, Any] | None) -> Any:
    """The gradient that is shown of a record."""
    return _grad(record) if gradients is None else gradients.get(i)


def _note_value(nodes: list[Node], at: int, record: Any) -> None:
    """Point at the first value that is not finite, though it be folded."""
    inside = f" in here, of {symbol_of(record)}" if nodes[at].kind == "folded" else ""
    note = f"first value that is not finite{inside}{_made(record, ', made at')}"
    nodes[at] = replace(nodes[at], notes=(*nodes[at].notes, note))


def _note_gradient(
    nodes: list[Node], at: int, groups: Sequence[Group], records: Sequence[Any]
) -> None:
    """Point at the first gradient that is not finite, though it be folded."""
    note = "first gradient that is not finite"
    if nodes[at].kind == "folded":
        note += " in here"
    elif (origin := _origin(nodes, at)) is not None:
        made = _made(records[groups[origin.id].members[0]], " at")
        note += f", from {origin.symbol}{made}"
    nodes[at] = replace(nodes[at], notes=(*nodes[at].notes, note))


def _origin(nodes: Sequence[Node], target: int) -> Node | None:
    """The node that passed on a gradient that is not finite, though its own is; None if unknown."""
    users = [(node, e) for node in nodes for e in node.inputs if e.source == target and node.grad]
    if len({node.id for node, _ in users}) > 1:  # one of them: by a derivative that is not finite
        users = [(node, e) for node, e in users if "inf" in e.derivative or "NaN" in e.derivative]
    return users[0][0] if users else None


def _made(record: Any, how: str) -> str:
    place, code = site_of(record)
    return f"{how} {place}{': ' if code else ''}{code}" if place else ""


def _edges(
    graph: Walk, groups: Sequence[Group], place: Mapping[int, int], target: int
) -> tuple[Edge, ...]:
    members = groups[target].members
    alone = len(members) == 1
    sources = [place[x] for member in members for x in graph.inputs[member]]
    arguments = graph.arguments[members[0]]
    derivatives = _derivatives(graph.records[members[0]], arguments) if alone else []
    edges: list[Edge] = []
    merged: dict[int, int] = {}
    for i, source in enumerate(sources):
        if source == target:
            continue
        if source in merged:
            at = merged[source]
            edges[at] = Edge(source, count=edges[at].count + 1)
            continue
        if not alone or len(groups[source].members) > 1:
            merged[source] = len(edges)
        argument = arguments[i] + 1 if alone and len(sources) > 1 else 0
        edges.append(Edge(source, argument, derivatives[i] if alone else ""))
    return tuple(edges)


def _grad(record: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # as of a result, of which an engine collects no gradient
        return getattr(record, "grad", None)


def _derivatives(record: Any, arguments: Sequence[int]) -> list[str]:
    """The local derivatives by these arguments in words, "" where there is none."""
    nothing = [""] * len(arguments)
    partials = getattr(record, "partials", None)
    if partials is None or not arguments:
        return nothing
    try:
        found = [summarize(d) for d in partials()]
    except (ArithmeticError, ValueError, TypeError, RuntimeError):
        return nothing  # a drawing shows what there is
    texts = [summary.text if summary else "" for summary in found]
    return [texts[i] for i in arguments] if len(texts) == len(record.inputs) else nothing


def _node(
    record: Any,
    i: int,
    inputs: tuple[Edge, ...],
    names: Mapping[int, str],
    grad: Any,
    value: Any,
) -> Node:
    if not is_record(record):  # a plain number among the inputs
        return Node(i, "constant", "", "", "", "", "", summarize(record), None, inputs)
    kind, data = kind_of(record, names), _data(record)
    op = record.op if kind == "op" else ""
    return Node(
        id=i,
        kind=kind,
        op=op,
        symbol=symbol_of(record) if kind == "op" else "",
        label=_label(record) or names.get(id(record), ""),
        attrs=attrs_of(record),
        shape=_shape(record),
        data=summarize(data if value is None else value),
        grad=None if kind == "constant" else summarize(grad),
        inputs=inputs,
        size=None if kind == "constant" else magnitude(grad),
    )


def kind_of(record: Any, names: Mapping[int, str]) -> Kind:
    """What a record is, given the ids of those that are parameters."""
    if not is_record(record):
        return "constant"
    if len(record.inputs):
        return "op"
    if id(record) in names or getattr(record, "is_parameter", False) or _is_a_parameter(record):
        return "parameter"
    return "constant" if _is_constant(record) else "input"


def _is_constant(leaf: Any) -> bool:
    """Whether a leaf has an op of its own, is fixed, or says it is constant and is one number.

    Another array that no gradient flows to is an input like any other.
    """
    if leaf.op or getattr(leaf, "is_fixed", False):
        return True
    is_number = _data(leaf) is not None and not getattr(leaf, "shape", None)
    return is_number and getattr(leaf, "is_constant", False)


def _data(record: Any) -> Any:
    data = getattr(record, "data", None)
    return getattr(record, "value", None) if data is None else data


def attrs_of(record: Any) -> str:
    """An op's formula, if it has one, in lines; else its attributes."""
    formula = getattr(record, "formula", None)
    return describe_attrs(getattr(record, "attrs", {})) if formula is None else "\n".join(formula)


def symbol_of(record: Any) -> str:
    """What is written on the node of an op."""
    return str(getattr(record, "symbol", None) or getattr(record, "_op", None) or record.op)


def _is_a_parameter(record: Any) -> bool:
    return any(base.__name__ == "Parameter" for base in type(record).__mro__)


def module_of(record: Any) -> str:
    """The dotted name of the module that called an op, or ""."""
    return str(of_record(record, "module") or "")


def is_record(obj: Any) -> bool:
    """Whether it says how it was made."""
    # isinstance of a protocol asks the same, twenty times as slowly
    return hasattr(obj, "op") and hasattr(obj, "inputs") and not isinstance(obj, type)


def _label(record: Any) -> str:
    return str(getattr(record, "label", None) or getattr(record, "name", None) or "")


def _shape(record: Any) -> str:
    shape, dtype = getattr(record, "shape", None), getattr(record, "dtype", None)
    if not getattr(record, "yields_array", True):
        return ""
    parts = [] if shape is None else [str(tuple(map(int, shape)))]
    return " ".join([*parts, str(dtype)] if dtype is not None else parts)
