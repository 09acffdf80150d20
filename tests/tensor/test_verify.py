"""The check that users run on their own machine: it covers every op, and it can fail."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from collections.abc import Iterator
from typing import Any, Final

import numpy as np
import pytest

from micro.value import PARTIALS
from micro.vocab import VOCAB
from tensor.dispatch import OPS, Rule
from tensor.verify import CHECKS, OUTSIDE, Result, checks, outside
from tensor.verify.__main__ import main
from tensor.verify.calls import Call, calls
from tensor.verify.checks import distance
from tests.structure import ROOT

# The others take too long for every day, and the suite does the same with other samples.
FAST: Final = {
    name: check for name, check in {**CHECKS, **OUTSIDE}.items() if "finite differences" not in name
}


@pytest.fixture
def of(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Have the checks see the calls of some ops alone."""

    def chosen(*names: str) -> None:
        def some(seed: int, every: bool = True) -> Iterator[Call]:
            return (call for call in calls(seed, every) if call.op in names)

        monkeypatch.setattr(checks, "calls", some)
        monkeypatch.setattr(outside, "calls", some)

    return chosen


def test_every_op_is_called() -> None:
    assert {call.op for call in calls(0)} == {*VOCAB}
    assert [call.op for call in calls(0, every=False)] == [*VOCAB]


def test_the_seed_decides_the_numbers_and_nothing_else() -> None:
    first, again, other = ([*calls(seed)] for seed in (1, 1, 2))
    for a, b, c in zip(first, again, other, strict=True):
        assert str(a) == str(b) == str(c)
        for p, q in zip(a.operands, b.operands, strict=True):
            assert (p is None) is (q is None)
            np.testing.assert_array_equal(p, q)
    assert any(
        not np.array_equal(p, q)
        for a, c in zip(first, other, strict=True)
        for p, q in zip(a.operands, c.operands, strict=True)
        if p is not None
    )


@pytest.mark.parametrize("name", FAST)
def test_everything_holds(name: str) -> None:
    result = FAST[name](11, 1)
    assert result.failures == [] and result.cases >= 8 and result.worst <= result.bound


def test_finite_differences_hold(of: Any) -> None:
    of("mul", "softmax", "gather", "einsum")
    for check in (checks.finite_differences, checks.second_differences):
        result = check(0, 1)
        assert result.cases == 6 and result.failures == []


def off_by_a_thousandth(rule: Rule) -> Rule:
    return Rule(lambda xp, g, **given: rule.function(xp, g, **given) * 1.001, rule.names)


@pytest.mark.parametrize(
    "check",
    [
        checks.finite_differences,
        checks.second_differences,
        checks.scalar_engine,
        outside.fifty_digits,
        outside.pytorch,
    ],
)
def test_a_wrong_rule_is_found(check: Any, of: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    of("exp")
    monkeypatch.setitem(OPS["exp"].rules, "a", off_by_a_thousandth(OPS["exp"].rules["a"]))
    result = check(0, 1)
    assert result.failures and "exp((3, 4))" in result.failures[0]
    assert result.worst > result.bound


def test_a_wrong_rule_of_the_scalar_engine_is_found(
    of: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    of("exp")
    monkeypatch.setitem(PARTIALS, "exp", (lambda a: 1.5,))
    assert checks.scalar_engine(0, 1).failures


def test_a_rounding_is_found_where_nothing_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    rule = OPS["mul"].rules["a"]
    slightly = Rule(lambda xp, g, b: g * b * (1 + 2.0**-22), rule.names)
    monkeypatch.setitem(OPS["mul"].rules, "a", slightly)
    result = checks.exact_arithmetic(0, 1)
    assert result.failures and "program" in result.failures[0]


def test_a_wrong_order_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(OPS["cosh"].rules, "a", Rule(lambda xp, g, a: g * xp.cosh(a), ("a",)))
    assert "derivative 1 of cosh" in checks.orders(0, 1).failures[0]


def test_a_promotion_is_found(of: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    of("exp")
    monkeypatch.setattr(OPS["exp"], "kernel", lambda a: np.exp(a.astype(np.float64)))
    assert "exp((3, 4)) gives float64" in checks.dtypes(0, 1).failures[0]


def test_a_broken_promise_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tensor.passes._changed", lambda *args: None)
    failures = checks.contracts(0, 1).failures
    assert any("changed in place is noticed" in failure for failure in failures)


def test_distance_is_relative_to_the_largest_number_and_sees_shapes_and_nan() -> None:
    assert distance([1.0, 200.0], [3.0, 200.0]) == 0.01
    assert distance([0.5], [0.25]) == 0.25
    assert distance([np.nan, np.inf], [np.nan, np.inf]) == 0
    assert distance([np.nan], [1.0]) == distance([1.0], [[1.0]]) == np.inf


def test_what_is_not_installed_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    for check in OUTSIDE.values():
        result = check(0, 1)
        assert result.missing.endswith("is not installed") and result.cases == 0


# The program


def result_of(figure: float) -> Result:
    result = Result(1.0, "unit")
    result.note(0.5, "one")
    result.note(figure, "another")
    return result


@pytest.mark.parametrize(
    ("figure", "worst", "status"),
    [(0.25, "0.5", 0), (2.0, "2", 1), (float("nan"), "nan", 1)],
)
def test_the_table_says_what_was_found_and_so_does_the_status(
    figure: float, worst: str, status: int, capsys: pytest.CaptureFixture[str]
) -> None:
    given: list[tuple[int, int]] = []

    def check(seed: int, rounds: int) -> Result:
        given.append((seed, rounds))
        return result_of(figure)

    def absent(seed: int, rounds: int) -> Result:
        return Result(1.0, "unit", missing="numbers are not installed")

    assert main(["--seed", "7", "--quick"], {"this": check, "that": absent}) == status
    assert main([], {"this": check}) == status
    assert given[0] == (7, 1) and given[1][0] == 0 and given[1][1] > 1
    text = capsys.readouterr().out
    line = next(line for line in text.splitlines() if line.startswith("this"))
    assert line.split()[:4] == ["this", "2", worst, "1"]
    assert line.endswith("FAILED" if status else "ok")
    assert "that" in text and "numbers are not installed" in text and "seed 7" in text
    assert ("another: " in text) is bool(status)
    assert ("Everything holds." in text) is not bool(status)


def test_a_check_that_breaks_off_is_a_failure_and_the_others_are_done(
    capsys: pytest.CaptureFixture[str],
) -> None:
    def broken(seed: int, rounds: int) -> Result:
        raise ValueError("no such thing")

    assert main([], {"this": broken, "that": lambda seed, rounds: result_of(0)}) == 1
    text = capsys.readouterr().out
    assert "ValueError: no such thing" in text
    assert [line.split()[-1] for line in text.splitlines() if line[:4] in ("this", "that")] == [
        "FAILED",
        "ok",
    ]


def test_it_is_a_program_that_refuses_what_makes_no_sense() -> None:
    command = [sys.executable, "-m", "tensor.verify", "--seed", "-1"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "--seed must be 0 or more, got -1" in done.stderr
