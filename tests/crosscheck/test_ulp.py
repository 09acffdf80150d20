"""Every op against 50 digits: values and gradients are right to the last places."""

from __future__ import annotations

import csv
import json
import math
from pathlib import Path
from typing import Any, Final

import mpmath
import numpy as np
import pytest

from micro import fields
from micro.value import PARTIALS
from tensor.dispatch import OPS, Rule
from tests.crosscheck import digits
from tests.crosscheck.oracle import exact, program_of, slope_fault
from tests.crosscheck.ulp import (
    ARRAY_OPS,
    DTYPES,
    ELEMENTWISE,
    REASONS,
    Figure,
    array_figure,
    elementwise_figures,
    figures_at,
    sample_points,
    units,
)
from tests.micro.cases import Case
from tests.tensor.ops.cases import CASES
from tests.tensor.ops.harness import COMPOSITE, DIFFERENTIABLE

POINTS: Final = 24  # make prove takes several hundred


def elementwise(name: str) -> Case:
    return next(case for case in ELEMENTWISE if str(case) == name)


def beyond(figures: list[Figure]) -> list[Figure]:
    return [figure for figure in figures if not figure.right]


# The engines


@pytest.mark.parametrize("case", ELEMENTWISE, ids=str)
def test_values_and_gradients_of_an_elementwise_op_are_right_to_the_last_places(
    case: Case,
) -> None:
    for dtype in DTYPES:
        assert beyond(elementwise_figures(case, dtype, POINTS, seed=7)) == []


@pytest.mark.parametrize("name", ARRAY_OPS)
def test_values_and_gradients_of_an_op_of_arrays_are_right_within_rounding(name: str) -> None:
    for dtype in DTYPES:
        figure = array_figure(name, dtype, samples=2)
        assert figure.points > 0
        assert beyond([figure]) == []


def test_no_differentiable_op_is_left_out() -> None:
    measured = {case.spec.name for case in ELEMENTWISE} | {*ARRAY_OPS}
    assert measured | {*COMPOSITE} == {*DIFFERENTIABLE} and not measured & {*COMPOSITE}


def test_a_rule_that_loses_digits_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    rule = Rule(lambda xp, g, a: g * (xp.expm1(a) + 1), ("a",))
    monkeypatch.setitem(OPS["expm1"].rules, "a", rule)
    assert len(beyond(elementwise_figures(elementwise("expm1"), "float64", POINTS, 7))) == 1


def test_a_kernel_that_loses_digits_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(OPS["log1p"], "kernel", lambda a: np.log(1 + a))
    assert len(beyond(elementwise_figures(elementwise("log1p"), "float64", POINTS, 7))) == 1


def test_a_constant_of_8_digits_is_found_in_micro(monkeypatch: pytest.MonkeyPatch) -> None:
    case, operands = elementwise("erf"), [np.array([0.5])]
    right = exact(case, (0.5,))
    monkeypatch.setitem(PARTIALS, "erf", (lambda a: 1.12837917 * math.exp(-a * a),))
    monkeypatch.setattr("tests.crosscheck.ulp.exact", lambda case, point: right)
    of_tensor, of_micro = figures_at(case, "float64", operands)
    assert of_tensor.right and not of_micro.right


def test_single_precision_on_the_way_is_found_in_an_op_of_arrays(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def rounded(a: Any, dim: Any, keepdim: bool) -> Any:
        return a.astype(np.float32).sum(dim, keepdims=keepdim).astype(a.dtype)

    monkeypatch.setattr(OPS["sum"], "kernel", rounded)
    assert not array_figure("sum", "float64", samples=2).right


# Where a gradient is off by more than the limit, as the reason says.
FAR_OFF: Final[dict[str, tuple[float, ...]]] = {
    "pow": (5.761370572830177e-297, -0.00795234860255375),
    "rsqrt": (0.2635239560307343,),
    "tanh": (10.0,),
    "sigmoid": (30.0,),
    "softplus-beta=-1.5": (118.46815398831879,),
    "silu": (-1.2677820173496035,),
    "erf": (-25.766068654817058,),
    "gelu-approximate=none": (-8.0,),
    "gelu-approximate=tanh": (-8.0,),
}


@pytest.mark.parametrize("name", REASONS)
def test_no_exception_is_made_without_need(name: str) -> None:
    operands = [np.array([x]) for x in FAR_OFF[name]]
    figures = figures_at(elementwise(name), "float64", operands)
    excused = [figure for figure in figures if figure.reason]
    assert len(excused) == len(REASONS[name].engines)
    assert any(figure.gradient.units > 4 for figure in excused)
    assert beyond(figures) == []


# The oracle


@pytest.mark.parametrize("name", [name for name in DIFFERENTIABLE if name not in COMPOSITE])
def test_the_oracles_derivative_is_a_quotient_of_differences_at_60_digits(name: str) -> None:
    assert slope_fault(program_of(name, CASES[name].samples[0])) is None


def test_a_wrong_rule_of_the_oracle_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    program = program_of("softmax", CASES["softmax"].samples[0])
    monkeypatch.setitem(PARTIALS, "exp", (lambda a: fields.exp(a) * (1 + mpmath.mpf(10) ** -30),))
    assert "softmax: derivative" in (slope_fault(program) or "")


def test_digits_are_added_where_numbers_cancel() -> None:
    value, slope = exact(elementwise("gelu-approximate=none"), (-37.0,))
    with mpmath.workdps(50):
        density = mpmath.exp(mpmath.mpf(-37) ** 2 / -2) / mpmath.sqrt(2 * mpmath.pi)
        tail = mpmath.erfc(37 / mpmath.sqrt(2)) / 2
        assert abs(value / (-37 * tail) - 1) < 1e-25
        assert abs(slope / (tail - 37 * density) - 1) < 1e-25


def test_what_no_number_of_digits_settles_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.crosscheck.oracle._settled", lambda *args: False)
    with pytest.raises(ArithmeticError, match=r"exp at \(1\.0,\): 3200 digits"):
        exact(elementwise("exp"), (1.0,))


# What is measured


@pytest.mark.parametrize(
    ("actual", "wanted", "error"),
    [
        (1.0, 1.0, 0),
        (1 + 2**-52, 1.0, 1),
        (1 - 2**-53, 1.0, 0.5),
        (2 - 2**-52, 2 - 2**-51, 1),
        (2 + 2**-51, 2.0, 1),
        (-3.0, 3.0, 6 * 2**51),
        (0.0, 1e-310, 0),
        (1.0, 1e-310, math.inf),
        (math.inf, 1e308, 0),
        (-math.inf, 1e308, math.inf),
        (math.inf, 1e307, math.inf),
        (1e308, math.inf, math.inf),
        (math.nan, 1.0, math.inf),
        (math.nan, math.nan, 0),
        (0.0, math.nan, math.inf),
    ],
)
def test_units_in_the_last_place(actual: float, wanted: float, error: float) -> None:
    assert units(actual, mpmath.mpf(wanted), "float64") == error


def test_units_of_one_are_those_of_numbers_that_are_not_smaller() -> None:
    assert units(2**-60 + 2**-52, mpmath.mpf(2) ** -60, "float64", at_least=1) == 1
    assert units(2 + 2**-50, mpmath.mpf(2), "float64", at_least=1) == 2


@pytest.mark.parametrize("dtype", DTYPES)
def test_points_are_spread_over_the_whole_range(dtype: str) -> None:
    info = np.finfo(dtype)
    for name in ("exp", "sqrt", "log1p", "div"):
        for i, x in enumerate(sample_points(elementwise(name), dtype, 300, 0)):
            assert x.dtype == dtype and np.isfinite(x).all()
            sizes = np.abs(x)
            assert sizes.min() < float(info.tiny) ** 0.9 and sizes.max() > float(info.max) ** 0.9
            assert (x < 0).any() == (name != "sqrt")
            assert (x > -1).all() or name != "log1p"
            assert i < 2
    exponents = sample_points(elementwise("pow"), dtype, 300, 0)[1]
    assert (exponents < 0).any() and (exponents > 0).any()


# The program


def test_figures_become_a_table_a_summary_and_a_section(tmp_path: Path) -> None:
    (tmp_path / "proof.md").write_text("# Proof\n\n## Other\n\ntext\n", "utf-8")
    (tmp_path / "proof.json").write_text('{"other": 1}', "utf-8")
    arguments = ["--ops", "exp", "tanh", "sum", "--points", "8", "--jobs", "1"]
    arguments += ["--out", str(tmp_path), "--state", str(tmp_path / "state")]
    for _ in range(2):  # the second time from what is kept
        assert digits.main(arguments) == 0
    assert len([*(tmp_path / "state").glob("*/ulp-*.json")]) == 6
    with (tmp_path / "ulp.csv").open(encoding="utf-8") as file:
        table = list(csv.DictReader(file))
    assert [row["op"] for row in table] == ["exp"] * 3 + ["tanh"] * 3 + ["sum"] * 2
    assert {row["within_limits"] for row in table} == {"True"}
    proof = json.loads((tmp_path / "proof.json").read_text("utf-8"))
    assert proof["other"] == 1 and proof["fifty digits"]["reasons"] == ["tanh"]
    page = (tmp_path / "proof.md").read_text("utf-8")
    assert page.startswith("# Proof\n\n## Other\n\ntext\n\n## Fifty digits\n")
    assert page.count("## Fifty digits") == 1 and "| `exp` |" in page and "| `sum` |" in page


def test_a_figure_beyond_its_limit_fails_the_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(OPS["exp"].rules, "a", Rule(lambda xp, g, out: g * out * 1.0001, ("out",)))
    arguments = ["--ops", "exp", "--points", "8", "--jobs", "1"]
    arguments += ["--out", str(tmp_path), "--state", str(tmp_path / "state")]
    assert digits.main(arguments) == 1
    assert "2 of 3 figures beyond their limits" in capsys.readouterr().out


def test_an_unknown_op_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        digits.main(["--ops", "expp"])
    assert "no such op: ['expp']" in capsys.readouterr().err
