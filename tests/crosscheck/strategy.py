"""Hypothesis draws programs through the same generator, making every choice itself."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from hypothesis import assume
from hypothesis import strategies as st

from tests.crosscheck.draws import OPS
from tests.crosscheck.generate import Draft, NoProgramError, grown
from tests.crosscheck.programs import Program

__all__ = ["programs"]


class _Choices:
    """What the generator uses of ``numpy.random.Generator``, with choices that shrink."""

    def __init__(self, draw: Any) -> None:
        self._draw = draw

    def integers(self, low: int, high: int | None = None, size: Any = None) -> Any:
        low, high = (0, low) if high is None else (low, high)
        if size is None:
            return self._draw(st.integers(low, high - 1))
        count = math.prod(size) if isinstance(size, Sequence) else size
        drawn = self._draw(st.lists(st.integers(low, high - 1), min_size=count, max_size=count))
        return np.array(drawn, np.int64).reshape(size)

    def random(self, size: Any = None) -> Any:
        if size is None:
            return self._draw(st.integers(0, 999)) / 1_000
        return self.integers(0, 1_000, size) / 1_000

    def choice(self, options: Any, size: Any, replace: bool = True) -> Any:
        pool = np.asarray(options)
        count = math.prod(size) if isinstance(size, Sequence) else size
        places = st.integers(0, len(pool) - 1)
        drawn = self._draw(st.lists(places, min_size=count, max_size=count, unique=not replace))
        return pool[np.array(drawn, np.int64)].reshape(size)

    def permutation(self, count: int) -> Any:
        return np.array(self._draw(st.permutations(range(count))), np.int64)


@st.composite
def programs(draw: Any, ops: Sequence[str] = OPS, *, exact: bool = False) -> Program:
    """Programs over ``ops`` through which gradients flow."""
    try:
        program = grown(Draft(_Choices(draw), exact=exact), ops, draw(st.integers(0, 9)))
    except NoProgramError:
        program = None
    assume(program is not None)
    assert program is not None
    return program
