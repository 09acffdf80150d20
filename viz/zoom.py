"""Opening a node of arrays: the same op, number by number."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final

from .graph import Node

__all__ = ["MOST_SCALARS", "Gathered", "scalars_of"]

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
