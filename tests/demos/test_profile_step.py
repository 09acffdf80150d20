"""The profile of a step: its phases, its functions, and that an expensive one shows."""

from __future__ import annotations

import csv
import json
import time
from pathlib import Path

import pytest

import tensor
from tests.demos.programs import DEMOS, load

profile_step = load("profile_step")


@pytest.fixture(scope="module")
def step() -> object:
    return profile_step.Step("char", 8, 0)


def test_the_phases_are_all_there_and_take_time(step: object) -> None:
    phases = step.phases(3)
    assert list(phases) == ["forward", "backward", "optimizer"]
    assert all(taken > 0 for taken in phases.values())


def test_the_functions_of_the_engine_are_named_by_their_place(step: object) -> None:
    names = {row["function"]: row for row in profile_step.functions(step, 2)}
    assert names["tensor/kernels/reference.py: linear_backward"]["calls_per_step"] == 2
    file = "steps" if tensor.kernels_in_use() == "numba" else "optimizers"
    assert names[f"tensor/kernels/{file}.py: sweep"]["calls_per_step"] == 1
    assert not any(str(DEMOS.parent) in name for name in names)


def test_functions_are_in_the_order_of_their_own_time_and_a_slow_one_comes_first(
    step: object,
) -> None:
    def busy(loss: object) -> None:
        end = time.process_time() + 0.2
        while time.process_time() < end:
            pass

    class Slow:
        def run(self, count: int) -> None:
            step.run(count)
            busy(None)

    rows = profile_step.functions(Slow(), 1)
    assert rows[0]["function"].endswith("busy") or rows[1]["function"].endswith("busy")
    times = [row["own_ms"] for row in rows]
    assert times == sorted(times, reverse=True)


@pytest.mark.parametrize(("model", "parameters"), [("char", 299_105), ("mlp", 535_818)])
def test_it_writes_the_table_and_the_plot(tmp_path: Path, model: str, parameters: int) -> None:
    profile_step.main(
        profile_step.Options(model=model, batch=4, steps=2, top=5, tag="t", out=tmp_path)
    )
    summary = json.loads((tmp_path / f"profile_{model}_t.json").read_text())
    assert summary["parameters"] == parameters
    assert summary["step_ms"] == pytest.approx(sum(summary["phases_ms"].values()), rel=1e-3)
    assert {"load_average", "versions", "threads", "command"} <= set(summary)
    with (tmp_path / f"profile_{model}_t.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["function"] for row in rows[:5]] == summary["most_expensive"]
    for suffix in ("svg", "png"):
        assert (tmp_path / f"profile_{model}_t.{suffix}").stat().st_size > 500


@pytest.mark.parametrize("name", ["batch", "steps", "top"])
def test_an_option_out_of_range_is_refused(name: str) -> None:
    with pytest.raises(SystemExit, match=f"--{name} must be at least 1, got 0"):
        profile_step.main(profile_step.Options(**{name: 0}))


def test_a_folder_that_cannot_be_is_refused_before_the_work(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(SystemExit, match=r"--out must be a folder, but .*file is none"):
        profile_step.main(profile_step.Options(out=tmp_path / "file" / "out"))
