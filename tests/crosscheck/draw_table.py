"""The table that draws of calls stand in, one line or function per op, and what they share."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from tests.crosscheck.generate import Draft

__all__ = ["DRAWS", "Call", "broadcast", "draws", "row"]

Call = tuple[tuple[int | None, ...], dict[str, Any]] | None
Draw = Callable[["Draft", int], Call]

DRAWS: Final[dict[str, Draw]] = {}


def draws(*names: str) -> Callable[[Draw], Draw]:
    """Enter a function as that which draws calls of the ops ``names``."""

    def enter(function: Draw) -> Draw:
        DRAWS.update(dict.fromkeys(names, function))
        return function

    return enter


def broadcast(d: Draft, i: int) -> tuple[int, ...]:
    """A shape that fits the value i: fewer dimensions, or some of length 1, or one in front."""
    shape = tuple(n if d.chance(0.75) else 1 for n in d.data[i].shape)
    if d.chance(0.15) and math.prod(shape) <= 4:
        return (2, *shape)
    return shape[d.integer(0, len(shape) + 1) :] if d.chance(0.3) else shape


def row(d: Draft, i: int) -> int:
    """The integers i in one row."""
    return d.viewed(i, (d.data[i].size,))
