"""The sweep over step sizes: its methods, its figures, and that it would show a wrong gradient."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pytest

from tests.demos.programs import load

eps_sweep = load("eps_sweep")
PROBLEM = eps_sweep.Problem.drawn(seed=3, samples=5)


def error(found: np.ndarray, problem: object = PROBLEM) -> float:
    exact = problem.gradient()
    return float(np.linalg.norm(found - exact) / np.linalg.norm(exact))


def test_the_plain_numpy_loss_is_that_of_the_engine() -> None:
    weights = eps_sweep.Tensor(PROBLEM.weights)
    engine = PROBLEM.loss(weights).item()
    assert PROBLEM.complex_loss(PROBLEM.weights).real == pytest.approx(engine, rel=1e-15)


def test_a_complex_step_gives_the_gradient_to_rounding() -> None:
    assert error(PROBLEM.complex_step(1e-20)) < 1e-15


def test_truncation_grows_with_the_square_of_the_step() -> None:
    for method in (lambda h: PROBLEM.difference(h, "float64"), PROBLEM.complex_step):
        assert error(method(1e-2)) / error(method(1e-3)) == pytest.approx(100, rel=0.05)


def test_rounding_grows_as_the_step_shrinks() -> None:
    assert error(PROBLEM.difference(1e-10, "float64")) > error(PROBLEM.difference(1e-7, "float64"))
    assert error(PROBLEM.difference(1e-6, "float32")) > 0.01


def test_a_float32_difference_is_computed_in_float32() -> None:
    assert PROBLEM.difference(1e-2, "float32").dtype == np.float32
    # a step below the spacing of the weights changes nothing
    assert error(PROBLEM.difference(1e-12, "float32")) == pytest.approx(1)


def test_the_best_steps_are_near_those_of_theory() -> None:
    for dtype in eps_sweep.DTYPES:
        step, wanted = eps_sweep.theory(dtype)
        assert wanted / 10 < error(PROBLEM.difference(step, dtype)) < wanted * 10


def test_a_wrong_gradient_would_show() -> None:
    class Planted(eps_sweep.Problem):
        def gradient(self, dtype: str = "float64") -> np.ndarray:
            return super().gradient(dtype) * np.where(np.arange(67) == 40, 1.9 / 2, 1)

    planted = Planted(PROBLEM.weights, PROBLEM.x, PROBLEM.y)
    assert error(planted.complex_step(1e-20), planted) > 1e-4
    assert error(planted.difference(1e-5, "float64"), planted) > 1e-4


def test_it_writes_a_table_a_summary_and_a_plot(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    eps_sweep.main(eps_sweep.Options(per_decade=1, samples=4, out=tmp_path))
    said = capsys.readouterr()
    assert "a central difference is best at" in said.out
    assert said.err == ""
    with (tmp_path / "eps_sweep.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["dtype"] for row in rows] == (
        ["float32"] * 14 + ["float64"] * 14 + ["complex128"] * 21
    )
    summary = json.loads((tmp_path / "eps_sweep.json").read_text())
    assert summary["parameters"] == 67
    assert 1e-6 <= summary["float64"]["best_step"] <= 1e-5
    assert summary["float64"]["best_error"] < 1e-8
    assert summary["float32"]["error_at_1e-6"] > 0.01
    assert summary["complex128"]["best_error"] < 1e-15
    assert {"load_average", "versions", "threads", "seed", "command"} <= set(summary)
    for suffix in ("svg", "png"):
        assert (tmp_path / f"eps_sweep.{suffix}").stat().st_size > 500


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"per_decade": 0}, "--per-decade must be at least 1, got 0"),
        ({"samples": 0}, "--samples must be at least 1, got 0"),
        ({"seed": -1}, "--seed must be at least 0, got -1"),
    ],
)
def test_a_bad_option_is_named_and_writes_nothing(
    tmp_path: Path, options: dict[str, int], words: str
) -> None:
    with pytest.raises(SystemExit, match=words):
        eps_sweep.main(eps_sweep.Options(**options, out=tmp_path / "out"))
    assert not (tmp_path / "out").exists()
