"""Every op with the points at which it is tested, and how closely results must agree."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import product
from typing import Any, Final

import micro
from micro.vocab import VOCAB, Domain, OpSpec

inf, nan = math.inf, math.nan

SPECS: Final = [spec for spec in VOCAB.values() if spec.scope == "both"]
BOOLEAN: Final = frozenset({"eq", "ne", "lt", "le", "gt", "ge", "isnan", "isinf", "isfinite"})
# Those that choose between their operands or a number, and those that jump.
KINKED: Final = frozenset(
    {
        *("abs", "sign", "relu", "maximum", "minimum", "clip", "where"),
        *("floor", "ceil", "round", "floor_divide"),
    }
)

# Relative to the expected number, or absolute below 1.
TOLERANCE: Final[Mapping[str, float]] = {
    "torch": 1e-13,  # a few units in the last place, for another library's functions
    "torch, second order": 1e-12,  # those of a dozen operations, some of which cancel
    "50 digits": 1e-47,
    "trajectory": 1e-10,
}


def close(actual: float, expected: float, what: str) -> bool:
    """Whether the numbers agree; nan agrees with nan, and an infinity only with itself."""
    if math.isnan(expected) or math.isinf(expected):
        return actual == expected or (math.isnan(actual) and math.isnan(expected))
    return abs(actual - expected) <= TOLERANCE[what] * max(1.0, abs(expected))


@dataclass(frozen=True)
class Case:
    """An op and one choice of its attributes."""

    spec: OpSpec
    attrs: Mapping[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        return "-".join([self.spec.name, *(f"{k}={v}" for k, v in self.attrs.items())])

    def __call__(self, *operands: Any) -> Any:
        return getattr(micro, self.spec.name)(*operands, **self.attrs)

    def smooth(self, count: int = 12) -> Iterator[tuple[float, ...]]:
        """Points of the op's domain; with probability 1 none of them is at a kink."""
        rng = random.Random(f"{self} smooth")
        for _ in range(count):
            yield tuple(_sample(rng, domain) for domain in self.spec.domain)

    def extreme(self) -> Iterator[tuple[float, ...]]:
        """Points at which something is tied, huge, tiny, infinite or undefined."""
        singular = SINGULAR if len(self.spec.inputs) < 3 else (-0.0, 0.0, 2.0, inf, nan)
        choices = [(0.0, 1.0) if d == "bool" else singular for d in self.spec.domain]
        yield from product(*choices)


SINGULAR: Final = (
    *(0.0, -0.0, 5e-324, -1e-300, 1 / 3, 0.5, -0.75, 1.0, -1.0, 2.0, -2.0, 3.0, -8.0),
    *(20.0, -20.0, 1000.0, -1000.0, 1e4, -1e4, 1e200, -1e200, inf, -inf, nan),
)

_VARIANTS: Final[Mapping[str, tuple[Mapping[str, Any], ...]]] = {
    "round": ({}, {"decimals": 2}, {"decimals": -1}),
    "softplus": ({}, {"beta": 2.0, "threshold": 5.0}, {"beta": -1.5}),
    "leaky_relu": ({}, {"negative_slope": -0.5}),
    "elu": ({}, {"alpha": 0.5}),
    "gelu": ({"approximate": "none"}, {"approximate": "tanh"}),
    "clip": (
        {"min": -1.0, "max": 1.0},
        {"min": 0.5},
        {"max": 2.0},
        {"min": 2.0, "max": -1.0},
        {"min": nan},
    ),
}

CASES: Final = [
    Case(spec, attrs)
    for spec in SPECS
    if spec.name not in BOOLEAN
    for attrs in _VARIANTS.get(spec.name, ({},))
]
PREDICATES: Final = [Case(spec) for spec in SPECS if spec.name in BOOLEAN]


def _sample(rng: random.Random, domain: Domain) -> float:
    if domain == "bool":
        return float(rng.random() < 0.5)
    if domain == "unit":
        return rng.uniform(-1, 1)
    if domain == "positive":
        return rng.uniform(0.1, 3)
    if domain == "nonzero":
        return rng.choice((-1, 1)) * rng.uniform(0.1, 3)
    return rng.uniform(-3, 3)


def weight(case: Case) -> float:
    """What a result is multiplied with, so that its gradient is not always 1."""
    return random.Random(f"{case} weight").uniform(0.5, 2)
