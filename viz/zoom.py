"""Opening a node: what is folded in it, or the same op number by number."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final

from .graph import Group, Node, Walk

__all__ = ["MOST_SCALARS", "Gathered", "Outside", "inside_of", "scalars_of"]

MOST_SCALARS: Final = 200

_NO_ATTRS: Final[Mapping[str, Any]] = MappingProxyType({})


@dataclass(eq=False, slots=True)
class Gathered:
    """The array that some numbers make up, as the last node of their graph."""

    symbol: str
    label: str
    shape: tuple[int, ...]
    inputs: Sequence[Any]
    op: str = "gather"
    attrs: Mapping[str, Any] = field(default_factory=lambda: _NO_ATTRS)


@dataclass(eq=False, slots=True)
class Outside:
    """What a folded node takes from outside, as an input of the graph within it."""

    label: str
    shape: Any = None
    dtype: Any = None
    data: Any = None
    grad: Any = None
    op: str = ""
    inputs: Sequence[Any] = ()
    attrs: Mapping[str, Any] = field(default_factory=lambda: _NO_ATTRS)


def inside_of(walk: Walk, group: Group, names: Mapping[int, str]) -> tuple[Walk, list[int]]:
    """The graph within a folded node, and where in the walk its records come from.

    Args:
        walk: the whole graph.
        group: what is folded into the node; its members are in backward order. Of the copies of
            a block it is the last one, the nearest to the output.
        names: by position, what the drawing calls a record.
    """
    ops = [i for i in group.members if walk.inputs[i]]
    ops = ops[: len(ops) // group.copies]
    used = {x for i in ops for x in walk.inputs[i]}
    members = ops + [i for i in group.members if i in used and not walk.inputs[i]]
    origins = members + sorted(used.difference(members))
    here = {i: at for at, i in enumerate(origins)}
    count = len(members)
    records = [walk.records[i] for i in origins[:count]]
    for i in origins[count:]:
        record = walk.records[i]
        shape, dtype = getattr(record, "shape", None), getattr(record, "dtype", None)
        records.append(Outside(f"from {names[i]}", shape, dtype, getattr(record, "data", None)))
    inputs = [[here[x] for x in walk.inputs[i]] for i in members]
    arguments = [walk.arguments[i] for i in members]
    nothing: list[list[int]] = [[] for _ in origins[count:]]
    return Walk(records, inputs + nothing, arguments + nothing), origins


def scalars_of(record: Any, node: Node, g: Any) -> Any:
    """Return the graph of numbers of one op as a record; or why there is none, in words.

    An engine offers it by ``scalars(g, limit)``, a method of its records, which returns an array
    of records, one for each number of the result, made of at most about ``limit`` records. With
    ``g``, the gradient of the result, these have their gradients.

    Args:
        record: the op.
        node: as which it is drawn.
        g: its gradient, or None.
    """
    scalars = getattr(record, "scalars", None)
    if all(_is_number(x) for x in (record, *record.inputs)):
        return "it is an op on single numbers already"
    if scalars is None:
        return "the engine offers no graph of numbers for it"
    try:
        results = scalars(g, 2 * MOST_SCALARS)
    except (RuntimeError, ValueError, NotImplementedError) as error:
        return " ".join(str(error).split())
    numbers = results.reshape(-1).tolist()
    if len(numbers) == 1:
        return numbers[0]
    return Gathered(node.symbol, node.label, tuple(results.shape), numbers)


def _is_number(record: Any) -> bool:
    shape = getattr(record, "shape", None)
    return not shape or all(n == 1 for n in shape)
