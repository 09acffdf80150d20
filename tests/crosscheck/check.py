"""Holding the engines against each other on one program, and making a failure small."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Final, NamedTuple

import numpy as np

from micro.value import Value
from tests.crosscheck.bounds import UNIT, C, bound_of, bounds
from tests.crosscheck.engines import (
    Disagreement,
    Outcome,
    Refused,
    in_micro,
    in_tensor,
    in_torch,
)
from tests.crosscheck.programs import Array, Leaf, Program, Step

__all__ = ["OUTLIERS", "Disagreement", "Outlier", "Report", "check", "check_exact", "shrunk"]

DTYPES: Final = ("float64", "float32")


class Outlier(NamedTuple):
    """How PyTorch's derivatives of an op go beyond the bound, and why.

    Attributes:
        unit: what its formula adds to relative precision.
        elsewhere: whether what is 0, as no path leads there, comes out as rounding: there the
            largest bound of the program counts.
        reason: which formula that is.
        endless: whether it is infinite or not a number where the right derivative is finite.
    """

    unit: float
    elsewhere: bool
    reason: str
    endless: bool = False


# Where the two engines of this project stay within the bound and PyTorch, by the formula named,
# does not.
OUTLIERS: Final = {
    "prod": Outlier(0.0, True, "g * out / a is differentiated as a quotient"),
    "cumprod": Outlier(0.0, True, "likewise"),
    "binary_cross_entropy": Outlier(
        1e-12,
        False,
        "1e-12 is added to the denominators; the derivative by the target, log(1 - p) - log(p), "
        "does not know that the loss is limited",
        endless=True,
    ),
}


@dataclass
class Report:
    """What was compared: how many numbers, the worst |error| / (u B), and where B is unbounded."""

    numbers: int = 0
    unbounded: int = 0
    refused: int = 0
    worst: dict[str, float] = field(default_factory=dict)

    def note(self, engine: str, ratio: float) -> None:
        self.worst[engine] = max(self.worst.get(engine, 0.0), ratio)


def _data(array: Any, convert: Callable[[Any], Any] = float) -> Array:
    """The numbers of an array of Values; 0 where there is none."""
    flat = [convert(v.data) if isinstance(v, Value) else convert(0) for v in array.flat]
    out = np.empty(len(flat), np.float64 if convert is float else object)
    out[:] = flat
    return out.reshape(array.shape)


def check(program: Program, report: Report | None = None) -> Report:
    """Compare outputs, gradients and second derivatives of the three engines in both precisions.

    An engine that refuses to follow a change in place is left aside.

    Raises:
        Disagreement: two of them differ by more than the bound.
    """
    report = report or Report()
    try:
        _check(program, report)
    except Refused:
        report.refused += 1
    return report


def _check(program: Program, report: Report) -> None:
    scalar = in_micro(program)
    every = [v for part in scalar.parts().values() for a in part for v in a.flat]
    found = bounds(v for v in every if isinstance(v, Value))
    refused = False
    for dtype in DTYPES:
        for engine, run in (("tensor", in_tensor), ("torch", in_torch)):
            try:
                outcome = run(program, np.dtype(dtype))
            except Refused:
                refused = True
                continue
            for what, expected in scalar.parts().items():
                actual = outcome.parts()[what]
                _compare(program, f"{engine} {dtype}", what, actual, expected, found, report)
            if engine == "tensor":
                plain = f"{engine} {dtype}, not recorded"
                _compare(program, plain, "gradient", outcome.plain, scalar.first, found, report)
    report.refused += refused


def _outliers(program: Program) -> list[Outlier]:
    return [OUTLIERS[step.op] for step in program.steps if step.op in OUTLIERS]


def _compare(
    program: Program,
    engine: str,
    what: str,
    actual: list[Any],
    expected: list[Any],
    found: dict[int, float],
    report: Report,
) -> None:
    for i, (a, e) in enumerate(zip(actual, expected, strict=True)):
        where = f"{what} {i}: {engine} against micro"
        if a.shape != e.shape:
            raise Disagreement(f"{where}: shapes {a.shape} and {e.shape}\n{program}")
        if a.dtype.kind == "f" and engine.split()[1].strip(",") != a.dtype.name:
            raise Disagreement(f"{where}: dtype {a.dtype}\n{program}")
        numbers, limits = _data(e), bound_of(e, found)
        outliers = _outliers(program) if engine.startswith("torch") else []
        if any(outlier.elsewhere for outlier in outliers):
            limits = np.maximum(limits, max(found.values(), default=0.0))
        bounded = np.isfinite(limits) & np.isfinite(numbers)
        if any(outlier.endless for outlier in outliers):
            bounded &= np.isfinite(a)
        unit = UNIT.get(a.dtype.name, 0.0)
        if unit:
            unit += max((outlier.unit for outlier in outliers), default=0.0)
        errors = np.abs(np.where(bounded, a - np.where(bounded, numbers, 0.0), 0.0))
        # Below the smallest normal number, precision is absolute.
        allowed = C * (unit * limits + (np.finfo(a.dtype).tiny if unit else 0.0))
        wrong = bounded & ~(errors <= allowed)
        if wrong.any():
            place = tuple(int(k) for k in np.argwhere(wrong)[0])
            raise Disagreement(
                f"{where} at {place}: {a[place]!r} and {numbers[place]!r} differ by "
                f"{errors[place]:.3g}, and rounding explains {allowed[place]:.3g}\n{program}"
            )
        report.numbers += a.size
        report.unbounded += int((~bounded).sum())
        with np.errstate(divide="ignore", invalid="ignore"):
            ratios = np.where(errors > 0, errors / (unit * limits), 0.0)
        if ratios.size:
            report.note(engine, float(ratios[bounded].max(initial=0.0)))


# Exactly


EXACT_BITS: Final = 12


def check_exact(program: Program) -> bool:
    """Compare the engines bit by bit; False if the program's numbers do not stay short enough.

    Every number in ``micro``'s graphs must be a multiple of one power of 2 and at most 2^12 times
    it. The product of any two then fits into the 24 bits of float32, and so does a sum of 2^12
    such products: whatever order an engine takes, nothing rounds.

    Raises:
        Disagreement: two engines differ at all.
    """
    try:
        exact = in_micro(program, Fraction)
    except (TypeError, ZeroDivisionError, Refused):
        return False  # an irrational number or an infinite one, or a change that is not followed
    if not _short(exact):
        return False
    scalar = in_micro(program, float, recorded=False)
    outcomes = {"micro float": {k: [*map(_data, v)] for k, v in scalar.parts().items()}}
    for dtype in DTYPES:
        for engine, run in (("tensor", in_tensor), ("torch", in_torch)):
            if engine == "torch" and any(outlier.elsewhere for outlier in _outliers(program)):
                continue
            try:
                outcome = run(program, np.dtype(dtype))
            except Refused:
                continue
            outcomes[f"{engine} {dtype}"] = outcome.parts()
            if engine == "tensor":
                outcomes[f"{engine} {dtype}, not recorded"] = {"gradient": outcome.plain}
    for engine, parts in outcomes.items():
        for what, arrays in parts.items():
            for i, (a, e) in enumerate(zip(arrays, exact.parts()[what], strict=True)):
                wanted = _data(e, Fraction)
                if a.shape != wanted.shape or any(
                    x != y for x, y in zip(a.reshape(-1).tolist(), wanted.flat, strict=True)
                ):
                    raise Disagreement(
                        f"{what} {i}: {engine} gives {a.tolist()}, and exactly it is "
                        f"{_data(e).tolist()}\n{program}"
                    )
    return True


def _short(outcome: Outcome) -> bool:
    """Whether all numbers on the way lie on one grid of ``EXACT_BITS`` bits."""
    stack = [v for part in outcome.parts().values() for a in part for v in a.flat]
    seen: set[int] = set()
    largest, finest = Fraction(0), 1
    while stack:
        v = stack.pop()
        if not isinstance(v, Value) or id(v) in seen:
            continue
        seen.add(id(v))
        stack.extend(v.inputs)
        if isinstance(v.data, float) and not math.isfinite(v.data):
            return False
        x = Fraction(v.data)
        largest, finest = max(largest, abs(x)), max(finest, x.denominator)
        power_of_2 = x.denominator & (x.denominator - 1) == 0
        if largest * finest > 2**EXACT_BITS or not power_of_2:
            return False
    return True


# Shrinking


def shrunk(program: Program, fails: Callable[[Program], bool], limit: int = 300) -> Program:
    """The smallest program found that still fails: fewer steps and leaves, plainer numbers."""
    for _ in range(limit):
        smaller = next((p for p in _smaller(program) if _still(fails, p)), None)
        if smaller is None:
            return program
        program = smaller
    return program


def _still(fails: Callable[[Program], bool], program: Program) -> bool:
    try:
        return fails(program)
    except Exception:  # noqa: BLE001 - what cannot be run is no smaller example
        return False


def _smaller(program: Program) -> Iterator[Program]:
    """Programs that are one change smaller, the largest changes first."""
    first = len(program.leaves)
    for i in range(len(program.outputs)):
        if len(program.outputs) > 1:
            kept = program.outputs[:i] + program.outputs[i + 1 :]
            yield _pruned(dataclasses.replace(program, outputs=kept))
    for i in program.outputs:
        if i >= first:  # end one step earlier
            for j in program.steps[i - first].operands:
                if j is not None and j >= first:
                    outputs = tuple(sorted({*program.outputs} - {i} | {j}))
                    yield _pruned(dataclasses.replace(program, outputs=outputs))
    for i, step in enumerate(program.steps):  # leave a step out
        for j in step.operands:
            if j is not None:
                yield _pruned(_redirected(program, first + i, j))
    for i, leaf in enumerate(program.leaves):
        plain = tuple(1.0 if abs(x) != 1 else x for x in leaf.values)
        if leaf.kind == "float" and leaf.values != plain:
            for k, x in enumerate(plain):
                if leaf.values[k] != x:
                    values = (*leaf.values[:k], x, *leaf.values[k + 1 :])
                    yield _with_leaf(program, i, dataclasses.replace(leaf, values=values))
        if leaf.kind == "float" and leaf.grad:
            yield _with_leaf(program, i, dataclasses.replace(leaf, grad=False))


def _with_leaf(program: Program, i: int, leaf: Leaf) -> Program:
    leaves = (*program.leaves[:i], leaf, *program.leaves[i + 1 :])
    return dataclasses.replace(program, leaves=leaves)


def _redirected(program: Program, i: int, j: int) -> Program:
    """The program in which j stands wherever i did."""

    def moved(k: int | None) -> int | None:
        return j if k == i else k

    steps = tuple(
        Step(s.op, tuple(map(moved, s.operands)), s.attrs, s.bridge) for s in program.steps
    )
    outputs = tuple(sorted({j if k == i else k for k in program.outputs}))
    return dataclasses.replace(program, steps=steps, outputs=outputs)


def _pruned(program: Program) -> Program:
    """The program without what its outputs do not need."""
    first = len(program.leaves)
    used = set(program.outputs)
    for i in range(first + len(program.steps) - 1, first - 1, -1):
        if i in used:
            used.update(j for j in program.steps[i - first].operands if j is not None)
    order = sorted(used)
    place = {i: k for k, i in enumerate(order)}
    steps = tuple(
        Step(s.op, tuple(None if j is None else place[j] for j in s.operands), s.attrs, s.bridge)
        for i, s in enumerate(program.steps, first)
        if i in used
    )
    return Program(
        tuple(leaf for i, leaf in enumerate(program.leaves) if i in used),
        steps,
        tuple(place[i] for i in program.outputs),
        program.seed,
    )
