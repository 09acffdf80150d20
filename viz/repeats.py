"""Finding what is repeated in a sequence."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from operator import eq
from typing import Any, Final, NamedTuple

__all__ = ["Repeat", "repeats"]

LONGEST: Final = 256  # elements of a block

Count = Callable[[int, int, int], int]


class Repeat(NamedTuple):
    """A block of ``period`` elements that comes ``copies`` times in a row, from ``start`` on."""

    start: int
    period: int
    copies: int

    @property
    def stop(self) -> int:
        """Where the last copy ends."""
        return self.start + self.period * self.copies

    @property
    def saved(self) -> int:
        """How many elements fewer there are if the block is written once."""
        return self.period * (self.copies - 1)


def repeats(sequence: Sequence[Any], count: Count) -> list[Repeat]:
    """Find the repetitions that make a sequence shortest, the largest first; return them in order.

    Args:
        sequence: elements that are equal where they may be copies of each other.
        count: how many copies there really are: of the ``period`` elements from ``start`` on, at
            most ``most``, given as (start, period, most). It stops at the first difference.

    >>> repeats("xababab.ccc", lambda start, period, most: most)
    [Repeat(start=1, period=2, copies=3), Repeat(start=8, period=1, copies=3)]
    """
    numbers: dict[Any, int] = {}
    ids = [numbers.setdefault(x, len(numbers)) for x in sequence]
    found: list[Repeat] = []
    for period in range(1, min(LONGEST, len(ids) // 2) + 1):
        same = bytes(map(eq, ids, ids[period:]))
        for run in re.finditer(rb"\x01{%d,}" % period, same):
            start, stop = run.start(), run.end() + period
            # A block twice as long as one that is known is the same repetition.
            if any(
                r.start <= start and stop - r.period < r.stop and period % r.period == 0
                for r in found
            ):
                continue
            found += _within(start, stop, period, count)
    taken: list[Repeat] = []
    for r in sorted(found, key=lambda r: (-r.saved, r.period, r.start)):
        if all(r.stop <= other.start or other.stop <= r.start for other in taken):
            taken.append(r)
    return sorted(taken)


def _within(start: int, stop: int, period: int, count: Count) -> list[Repeat]:
    """The repetitions of this period between two places that look like one."""
    found = []
    while stop - start >= 2 * period:
        copies = count(start, period, (stop - start) // period)
        repeat = Repeat(start, period, copies)
        if repeat.saved >= 2:
            found.append(repeat)
        start += period * copies
    return found
