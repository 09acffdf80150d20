"""Why those mutants survive that do."""

from __future__ import annotations

import re
from functools import cache
from typing import Final, NamedTuple

from tests.mutation.mutants import Mutant
from tests.structure import ROOT

__all__ = ["REASONS", "Reason", "misfits", "reason"]


class Reason(NamedTuple):
    """Why mutants of a line survive: those that it becomes, in full, by a regular expression."""

    path: str
    line: str
    becomes: str
    why: str


REASONS: Final = [
    Reason(
        "micro/optim.py",
        "if self.momentum == 0:",
        r"if self\.momentum <= 0:",
        "equivalent: momentum is at least 0",
    ),
]


@cache
def _lines(path: str) -> list[str]:
    return [line.strip() for line in (ROOT / path).read_text("utf-8").splitlines()]


def reason(mutant: Mutant) -> str:
    """Why no test can notice a mutant, or "" if that is not known."""
    line = _lines(mutant.path)[mutant.line - 1]
    for path, text, becomes, why in REASONS:
        if (path, text) == (mutant.path, line) and re.fullmatch(becomes, mutant.text):
            return why
    return ""


def misfits(reasons: list[Reason]) -> list[str]:
    """The reasons for lines that are not in the sources."""
    return [f"{r.path}: {r.line}" for r in reasons if r.line not in _lines(r.path)]
