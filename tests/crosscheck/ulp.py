"""How far every op's value and gradient are from the truth, in units in the last place.

Elementwise ops are tried over the whole range of a precision, each number of which is as likely
as any other of its sign and exponent; ops of arrays at the calls of the table of ops. The truth is
``oracle``'s. What is measured are ``tensor`` in float32 and float64, and ``micro`` on floats.

A unit in the last place is the distance of two neighbouring numbers where the right answer lies.
Below the smallest normal number precision is absolute: there an error may be that number.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import mpmath
import numpy as np

import tensor
from micro import Value
from tensor import Tensor
from tensor.dispatch import recording
from tests.crosscheck.bounds import UNIT, C, bound_of, bounds
from tests.crosscheck.engines import in_micro, in_tensor
from tests.crosscheck.oracle import DIGITS, exact, program_of
from tests.micro.cases import CASES as SCALAR_CASES
from tests.micro.cases import Case
from tests.tensor.ops.cases import CASES
from tests.tensor.ops.harness import COMPOSITE, DIFFERENTIABLE

__all__ = [
    "ARRAY_OPS",
    "BOUND",
    "DTYPES",
    "ELEMENTWISE",
    "LIMITS",
    "REASONS",
    "Figure",
    "Reason",
    "Worst",
    "array_figure",
    "elementwise_figures",
    "figures_at",
    "sample_points",
    "units",
]

Array = np.ndarray[Any, Any]

DTYPES: Final = ("float32", "float64")

# Per precision: how many units a value or a gradient of an elementwise op may be off.
LIMITS: Final = {"float32": 6.0, "float64": 4.0}

# From which part of the largest number on an infinity counts as right: a formula may have to take a
# few times its result on the way.
OVERFLOW: Final = 1 / 4

# For ops of arrays, whose terms may cancel: how many u B a number may be off (``bounds`` says what
# B is, and why C; here only one side is inexact).
BOUND: Final = C / 2


class Reason(NamedTuple):
    """Why an elementwise op may be off by more, and what holds instead.

    Attributes:
        why: the cause.
        limit: in units in the last place.
        of_one: whether these are the units of max(1, the right answer).
        engines: which of the engines it is about.
        overflow: from which part of the largest number on an infinity counts as right.
    """

    why: str
    limit: float
    of_one: bool = True
    engines: tuple[str, ...] = ("tensor", "micro")
    overflow: float = OVERFLOW


_SATURATED: Final = (
    "computed, as in PyTorch, from the result, which near its limits keeps few of the digits "
    "of its distance from them"
)

REASONS: Final = {
    "pow": Reason(
        "b - 1 is rounded before it becomes an exponent, and a ** (b - 1) may overflow before it "
        "is multiplied by a small b",
        1_000,
        of_one=False,
        overflow=1 / 1_000,
    ),
    "rsqrt": Reason("the cube of the result, whose error counts three times", 6, of_one=False),
    "tanh": Reason(_SATURATED, 4, engines=("tensor",)),
    "sigmoid": Reason(_SATURATED, 4, engines=("tensor",)),
    "softplus-beta=-1.5": Reason("beta a is rounded before it becomes an exponent", 4),
    "silu": Reason(
        "crosses 0 at -1.278, where its two terms cancel; 1 - sigmoid(a), rounded near 1, is "
        "multiplied by a",
        20,
    ),
    "erf": Reason("a^2 is rounded before it becomes an exponent", 4),
    "gelu-approximate=none": Reason("1 + erf cancels below 0, as in PyTorch", 4),
    "gelu-approximate=tanh": Reason(
        "1 + tanh cancels below 0, as in PyTorch; the argument, a polynomial, is rounded", 16
    ),
}

# An op of both engines, with its attributes. The bounds of ``clip`` may be no number elsewhere.
ELEMENTWISE: Final = [case for case in SCALAR_CASES if not any(v != v for v in case.attrs.values())]
# Those that are made of others round where these do.
ARRAY_OPS: Final = [
    name
    for name in DIFFERENTIABLE
    if name not in {*COMPOSITE, *(case.spec.name for case in SCALAR_CASES)}
]


@dataclass
class Worst:
    """The largest error, in units in the last place; in those of max(1, right answer); and where.

    Where the errors of several numbers are equal, the first counts.
    """

    units: float = 0.0
    of_one: float = 0.0
    at: str = ""

    def allowed(self, limit: float, reason: Reason | None) -> bool:
        """Whether the errors keep to the limit, or to that of the reason why they need not."""
        if self.units <= limit or reason is None:
            return self.units <= limit
        return (self.of_one if reason.of_one else self.units) <= reason.limit


@dataclass
class Figure:
    """The largest errors of one op in one engine and precision.

    Attributes:
        points: how many values were compared.
        bound: the largest error of value or gradient relative to u B; of ops of arrays alone.
    """

    op: str
    engine: str
    dtype: str
    points: int = 0
    value: Worst = field(default_factory=Worst)
    gradient: Worst = field(default_factory=Worst)
    bound: float | None = None

    @property
    def reason(self) -> Reason | None:
        """Why this may be off by more than the limit, if it may."""
        found = REASONS.get(self.op)
        return found if found is not None and self.engine in found.engines else None

    @property
    def right(self) -> bool:
        """Whether everything keeps to its limits."""
        if self.bound is not None:
            return self.bound <= BOUND
        limit = LIMITS[self.dtype]
        return all(w.allowed(limit, self.reason) for w in (self.value, self.gradient))

    def note(self, worst: Worst, actual: float, wanted: Any, at: Any) -> None:
        """Take one number into account."""
        overflow = self.reason.overflow if self.reason else OVERFLOW
        error = units(actual, wanted, self.dtype, overflow=overflow)
        if not error <= worst.units:
            worst.units, worst.at = error, str(at)
        error = units(actual, wanted, self.dtype, at_least=1, overflow=overflow)
        worst.of_one = max(worst.of_one, error)


def units(
    actual: float, wanted: Any, dtype: str, *, at_least: float = 0, overflow: float = OVERFLOW
) -> float:
    """By how many units in the last place of ``wanted`` a number is off; inf if by all of them."""
    info = np.finfo(dtype)
    if mpmath.isnan(wanted) or math.isnan(actual):
        return 0.0 if mpmath.isnan(wanted) and math.isnan(actual) else math.inf
    if math.isinf(actual):
        beyond = wanted * math.copysign(1, actual) >= mpmath.mpf(float(info.max)) * overflow
        return 0.0 if beyond else math.inf
    if mpmath.isinf(wanted):
        return math.inf
    error, size = abs(mpmath.mpf(actual) - wanted), max(abs(wanted), mpmath.mpf(at_least))
    if size < float(info.tiny):
        return 0.0 if error <= float(info.tiny) else math.inf
    unit = mpmath.ldexp(float(info.eps), mpmath.mag(size) - 1)
    return float(error / unit)


# Elementwise

# Where an op is defined, if that is not all numbers.
_ABOVE: Final = {
    **dict.fromkeys(("sqrt", "rsqrt", "log", "log2", "log10", "pow"), 0.0),
    "log1p": -1.0,
}


def sample_points(case: Case, dtype: str, count: int, seed: int) -> list[Array]:
    """Operands of an elementwise op: of every size that there is, half of them of common ones."""
    info = np.finfo(dtype)
    rng = np.random.default_rng([seed, *str(case).encode()])
    operands = []
    for place, domain in enumerate(case.spec.domain):
        if domain == "bool":
            operands.append(rng.random(count) < 0.5)
            continue
        low, high = math.log2(float(info.tiny)), math.log2(float(info.max))
        sizes = rng.uniform(low, high, count)
        common = rng.uniform(-10, 7, count)
        x = np.exp2(np.where(rng.random(count) < 0.5, common, sizes)).astype(dtype)
        if place or case.spec.name not in _ABOVE:
            x *= rng.choice([-1, 1], count).astype(dtype)
        elif _ABOVE[case.spec.name] < 0:
            negative = -rng.uniform(0, 1, count).astype(dtype)
            x = np.where((rng.random(count) < 0.3) & (negative > -1), negative, x)
        operands.append(x)
    return operands


def elementwise_figures(case: Case, dtype: str, count: int, seed: int = 0) -> list[Figure]:
    """What ``tensor`` makes of an elementwise op in a precision, and ``micro`` in float64."""
    return figures_at(case, dtype, sample_points(case, dtype, count, seed), seed)


def figures_at(case: Case, dtype: str, operands: Sequence[Array], seed: int = 0) -> list[Figure]:
    """The same at points of one's own, given as one array for each operand."""
    points = [tuple(map(float, point)) for point in zip(*operands, strict=True)]
    truth = [exact(case, point) for point in points]
    # Powers of 2, so that they round nothing.
    weights = np.random.default_rng(seed).choice([-2.0, -1.0, -0.5, 0.5, 1.0, 2.0], len(points))
    figures = [_tensor_figure(case, dtype, operands, points, weights, truth)]
    if dtype == "float64":
        figures.append(_micro_figure(case, points, truth))
    return figures


def _tensor_figure(
    case: Case,
    dtype: str,
    operands: Sequence[Array],
    points: Sequence[tuple[float, ...]],
    weights: Array,
    truth: Sequence[tuple[Any, ...]],
) -> Figure:
    figure = Figure(str(case), "tensor", dtype, len(points))
    leaves = [Tensor(a, requires_grad=a.dtype.kind == "f") for a in operands]
    out = getattr(recording, case.spec.name)(*leaves, **case.attrs)
    wanted = [x for x in leaves if x.requires_grad]
    seed = Tensor(weights.astype(dtype))
    found = iter(tensor.grad([out], wanted, [seed], allow_unused=True))
    columns = [next(found) if x.requires_grad else None for x in leaves]
    with mpmath.workdps(DIGITS):
        for i, (point, (value, *slopes)) in enumerate(zip(points, truth, strict=True)):
            figure.note(figure.value, float(out.data[i]), value, point)
            for g, slope in zip(columns, slopes, strict=True):
                if g is not None:
                    figure.note(figure.gradient, float(g.data[i]), slope * float(weights[i]), point)
    return figure


def _micro_figure(
    case: Case, points: Sequence[tuple[float, ...]], truth: Sequence[tuple[Any, ...]]
) -> Figure:
    figure = Figure(str(case), "micro", "float64", len(points))
    with mpmath.workdps(DIGITS):
        for point, (value, *slopes) in zip(points, truth, strict=True):
            out = case(*map(Value, point))
            figure.note(figure.value, out.data, value, point)
            for d, slope in zip(out.partials(), slopes, strict=True):
                figure.note(figure.gradient, d, slope, point)
    return figure


# Ops of arrays


def array_figure(name: str, dtype: str, samples: int | None = None) -> Figure:
    """What ``tensor`` makes of the calls of an op in the table of ops, or of so many of them."""
    figure = Figure(name, "tensor", dtype, bound=0.0)
    tiny = float(np.finfo(dtype).tiny)
    for number, sample in enumerate(CASES[name].samples[:samples]):
        program = program_of(name, sample, dtype, number)
        outcome = in_tensor(program, np.dtype(dtype))
        with mpmath.workdps(DIGITS):
            truth = in_micro(program, mpmath.mpf, recorded=False)
            found = bounds(
                v for a in (*truth.outputs, *truth.first) for v in a.flat if v is not None
            )
            for worst, arrays, right in (
                (figure.value, outcome.outputs, truth.outputs),
                (figure.gradient, outcome.plain, truth.first),
            ):
                for actual, wanted in zip(arrays, right, strict=True):
                    limits = bound_of(wanted, found)
                    for at in np.ndindex(actual.shape):
                        v = mpmath.mpf(0) if wanted[at] is None else wanted[at].data
                        figure.note(worst, float(actual[at]), v, f"{sample} {at}")
                        figure.points += worst is figure.value
                        error = float(abs(float(actual[at]) - v))
                        allowed = UNIT[dtype] * float(limits[at])
                        ratio = 0.0 if error <= tiny else error / allowed if allowed else math.inf
                        figure.bound = max(figure.bound or 0.0, ratio)
    return figure
