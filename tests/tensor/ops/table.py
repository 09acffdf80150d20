"""The rows of the table of ops, and how their operands are sampled."""

from __future__ import annotations

import math
import sys
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import numpy as np

__all__ = [
    "SAMPLERS",
    "Bad",
    "Case",
    "Sample",
    "boolean",
    "inf",
    "nan",
    "nonzero",
    "positive",
    "real",
    "unit",
]

inf, nan = math.inf, math.nan


class Sample(NamedTuple):
    """The operands of one call, float64 where they are real, and the attributes given."""

    operands: tuple[Any, ...]
    attrs: Mapping[str, Any] = {}

    def __str__(self) -> str:
        shapes = [None if a is None else np.shape(a) for a in self.operands]
        return f"{shapes} {dict(self.attrs)}".replace(" ", "").replace("Ellipsis", "...")


class Bad(NamedTuple):
    """The arguments of one call, the error it must raise, and what the message must contain."""

    operands: tuple[Any, ...]
    error: type[Exception]
    words: tuple[str, ...]
    attrs: Mapping[str, Any] = {}


@dataclass(frozen=True)
class Case:
    """What is known of one op.

    Attributes:
        torch: PyTorch's equivalent: the same operands, the same attributes by keyword.
        samples: calls at points where the op is smooth.
        points: calls at kinks, ties, bounds and IEEE values.
        bad: calls that must be refused.
    """

    torch: Callable[..., Any]
    samples: tuple[Sample, ...]
    bad: tuple[Bad, ...]
    points: tuple[Sample, ...] = field(default=())


# Sampling.

_generators: dict[str, np.random.Generator] = {}


def _rng() -> np.random.Generator:
    """Return the generator of the module that asks: no family's samples depend on another's."""
    frame = sys._getframe(1)
    while frame.f_globals["__name__"] == __name__ and frame.f_back is not None:
        frame = frame.f_back
    family = frame.f_globals["__name__"]
    seed = zlib.crc32(family.encode())
    return _generators.setdefault(family, np.random.default_rng(seed))


def real(*shape: int) -> Any:
    return np.asarray(_rng().normal(size=shape))


def positive(*shape: int) -> Any:
    return np.asarray(_rng().uniform(0.3, 2.5, shape))


def nonzero(*shape: int) -> Any:
    return np.asarray(_rng().uniform(0.3, 2.0, shape) * _rng().choice([-1.0, 1.0], shape))


def unit(*shape: int) -> Any:
    return np.asarray(_rng().uniform(-0.95, 0.95, shape))


def boolean(*shape: int) -> Any:
    return np.asarray(_rng().random(shape) < 0.5)


SAMPLERS: Final = {
    "real": real,
    "positive": positive,
    "nonzero": nonzero,
    "unit": unit,
    "bool": boolean,
}


# Samples and refused calls of an op with one operand.


def view(*rows: tuple[tuple[int, ...], dict[str, Any]]) -> tuple[Sample, ...]:
    return tuple(Sample((real(*shape),), attrs) for shape, attrs in rows)


def refused(
    name: str, shape: tuple[int, ...], error: type[Exception], /, *words: str, **attrs: Any
) -> Bad:
    return Bad((real(*shape),), error, (name, *words), attrs)
