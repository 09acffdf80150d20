"""What is right: ``micro`` on mpmath's numbers, with 50 digits, or more where those cancel."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import mpmath
import numpy as np

import micro
from micro.value import OPS, Value, topological
from tests.crosscheck.contraction import contracted, second_weights
from tests.crosscheck.engines import in_micro
from tests.crosscheck.programs import SAME, Leaf, Program, Step
from tests.micro.cases import Case
from tests.tensor.ops.harness import domains
from tests.tensor.ops.table import Sample

__all__ = ["DIGITS", "exact", "program_of", "slope_fault"]

DIGITS: Final = 50

# A result is right when it stays what it is at twice the digits. That does not show where numbers
# cancel completely, as 1 + erf(-38) does: a 0 is believed from SURE digits on.
MOST, SURE, AGREED = 3_200, 400, 25


def exact(case: Case, point: Sequence[float]) -> tuple[Any, ...]:
    """The value of an elementwise op at a point, and its derivative by each operand.

    Raises:
        ArithmeticError: not even the largest number of digits settles it.
    """
    digits, before = DIGITS, None
    while digits <= MOST:
        with mpmath.workdps(digits):
            out = case(*[Value(mpmath.mpf(x)) for x in point])
            found = (out.data, *out.partials())
        if before is not None and all(map(_settled, before, found, [digits] * len(found))):
            return found
        digits, before = 2 * digits, found
    raise ArithmeticError(f"{case} at {point}: {MOST} digits do not settle it")


def _settled(before: Any, now: Any, digits: int) -> bool:
    if before == now:
        return now != 0 or digits >= SURE
    return bool(abs(before - now) <= abs(now) * mpmath.mpf(10) ** -AGREED)


# Ops of arrays, spelled out in single numbers


def program_of(name: str, sample: Sample, dtype: Any = np.float64, seed: int = 0) -> Program:
    """One call of the table of ops as a program, its numbers rounded to a precision."""
    leaves, operands = [], []
    for a, domain in zip(sample.operands, domains(name, len(sample.operands)), strict=True):
        if a is None:
            operands.append(None)
            continue
        kind: Any = {"bool": "bool", "index": "int"}.get(domain, "float")
        numbers = np.asarray(a)
        if kind == "float":
            numbers = numbers.astype(dtype)
        operands.append(len(leaves))
        flat = tuple(numbers.reshape(-1).tolist())
        leaves.append(Leaf(numbers.shape, flat, kind, grad=kind == "float"))
    attrs = {k: (v,) if isinstance(v, np.ndarray) else v for k, v in sample.attrs.items()}
    if name == "cast":
        attrs["dtype"] = SAME
    step = Step(name, tuple(operands), attrs)
    return Program(tuple(leaves), (step,), (len(leaves),), seed)


# The oracle's own derivatives, against differences


def slope_fault(program: Program, digits: int = 60) -> str | None:
    """How the derivative of a program's output differs from a quotient of differences, if it does.

    The graph of single numbers is evaluated anew at two points beside the leaves' numbers, h away
    in a random direction: with h = 10^-20 both the quotient's own error, h^2, and its rounding
    leave 35 digits.
    """
    with mpmath.workdps(digits):
        outcome = in_micro(program, mpmath.mpf, recorded=False)
        outputs = [v for array in outcome.outputs for v in array.flat if v.inputs or not v.op]
        total = contracted(outputs, second_weights((len(outputs),)))
        if total is None:
            return None
        leaves = [v for v in topological(total) if not v.inputs and v.op == ""]
        found = micro.grad(total, leaves, allow_unused=True) if leaves else ()
        direction = second_weights((3, len(leaves)))[0].tolist()
        derivative = mpmath.fsum(
            g.data * d for g, d in zip(found, direction, strict=True) if g is not None
        )
        h = mpmath.mpf(10) ** -20
        before, after = (
            _again(
                total, {id(v): v.data + step * d for v, d in zip(leaves, direction, strict=True)}
            )
            for step in (-h, h)
        )
        quotient = (after - before) / (2 * h)
        if abs(quotient - derivative) <= mpmath.mpf(10) ** -35 * max(1, abs(quotient)):
            return None
        return f"{program.steps[-1].op}: derivative {derivative}, differences {quotient}"


def _again(total: Value, data: dict[int, Any]) -> Any:
    """The value of ``total`` where its leaves hold other numbers, ``data`` by id."""
    for v in reversed(topological(total)):
        if id(v) not in data:
            inputs = [data[id(x)] for x in v.inputs]
            data[id(v)] = OPS[v.op](*inputs, **v.attrs).data if inputs else v.data
    return data[id(total)]
