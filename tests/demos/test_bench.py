"""The benchmark: that its contestants do the same work, and that one which does not is refused."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.demos.programs import DEMOS, load, run

bench = load("bench")
contestants = load("contestants")

IMPLS = ("smolgrad-eager", "numpy-by-hand", "torch", "torch-foreach", "torch-fused")


def small(model: str = "mlp", batch: int = 4) -> Any:
    return contestants.Workload.make(model, batch, (6, 5, 4, 3))


# The same work


@pytest.mark.parametrize(("model", "batch"), [("mlp", 1), ("mlp", 4), ("char", 3)])
def test_everyone_gives_the_same_loss_gradients_and_step(model: str, batch: int) -> None:
    entered = bench.enter(small(model, batch), IMPLS, 1)
    assert tuple(entered) == IMPLS
    for contestant in entered.values():
        contestant.step()
    moved = [contestant.weights() for contestant in entered.values()]
    for other in moved[1:]:
        assert bench.apart(other, moved[0]) < 1e-5


def test_a_compiled_step_moves_the_weights_as_an_eager_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(contestants.tensor, "compile", lambda function: function, raising=False)
    assert contestants.absent("smolgrad-compiled") == ""
    entered = bench.enter(small(), ("smolgrad-eager", "smolgrad-compiled"), 1)
    weights = [contestant.weights() for contestant in entered.values()]
    assert all(map(np.array_equal, *weights))


class WrongLoss(contestants.SmolgradEager):
    def first(self) -> tuple[float, Any]:
        loss, grads = super().first()
        return loss * 1.001, grads


class WrongGradient(contestants.SmolgradEager):
    def first(self) -> tuple[float, Any]:
        loss, grads = super().first()
        return loss, [*grads[:-1], grads[-1] * 1.9 / 2]


class LazyStep(contestants.SmolgradEager):
    def step(self) -> None:
        self.forward()


@pytest.mark.parametrize(
    ("planted", "what"), [(WrongLoss, "loss"), (WrongGradient, "gradients"), (LazyStep, "step")]
)
def test_one_that_does_other_work_is_refused(
    monkeypatch: pytest.MonkeyPatch, planted: type, what: str
) -> None:
    monkeypatch.setattr(bench, "CONTESTANTS", {**bench.CONTESTANTS, "numpy-by-hand": planted})
    words = rf"numpy-by-hand does not do the same work as smolgrad-eager .* {what} apart by"
    with pytest.raises(SystemExit, match=words):
        bench.enter(small(), ("smolgrad-eager", "numpy-by-hand"), 1)


def test_what_is_not_installed_is_absent_with_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contestants, "find_spec", lambda name: None)
    monkeypatch.delattr(contestants.tensor, "compile", raising=False)
    assert contestants.absent("jax") == "jax is not installed"
    assert contestants.absent("torch-fused") == "torch is not installed"
    assert "no compiler" in contestants.absent("smolgrad-compiled")
    assert contestants.absent("smolgrad-eager") == contestants.absent("numpy-by-hand") == ""
    monkeypatch.setattr(contestants, "find_spec", lambda name: name)
    monkeypatch.setattr(contestants.shutil, "which", lambda name: None)
    assert contestants.absent("torch-compile") == "there is no C++ compiler"
    assert contestants.absent("torch") == ""


# Taking turns


def test_everyone_takes_as_many_turns_and_rounds_differ_in_order() -> None:
    seen: list[str] = []

    def action(name: str) -> Callable[[], Sequence[float]]:
        return lambda: [float(len(seen)), seen.append(name) or 0.5]

    times = bench.in_turns({n: action(n) for n in "abc"}, 20, bench.Generator(0))
    rounds = [tuple(seen[i : i + 3]) for i in range(0, 60, 3)]
    assert all(sorted(one) == ["a", "b", "c"] for one in rounds)
    assert len(set(rounds)) > 1
    assert [len(taken) for taken in times.values()] == [40, 40, 40]
    assert times["b"][::2].tolist() == [i for i, name in enumerate(seen) if name == "b"]


def test_the_steps_that_warm_up_are_not_timed() -> None:
    calls: list[int] = []
    assert len(bench.turn(lambda: calls.append(1), warm_up=2, timed=3)) == 3
    assert len(calls) == 5


def test_the_ratio_is_to_the_best_of_pytorch() -> None:
    rows = [
        {"impl": impl, "min_ms": ms}
        for impl, ms in (
            ("smolgrad-eager", 3.0),
            ("torch", 4.0),
            ("torch-fused", 2.0),
            ("jax", 1.0),
        )
    ]
    assert bench.ratios(rows) == {"smolgrad-eager": 1.5}
    assert bench.ratios(rows[:1]) == {}


def test_peak_memory_counts_weights_gradients_and_moments(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(DEMOS)  # as the process that is started inherits it
    sizes = contestants.MNIST_SIZES
    peak = bench.in_its_own_process(bench.peak_memory, "numpy-by-hand", 8, sizes, 1)
    four_arrays = 4 * 4 * 535_818 / 2**20
    assert 0.9 * four_arrays < peak < 2 * four_arrays


# The program


@pytest.mark.parametrize("kernels", ["numpy", "numba"])
def test_it_writes_rows_with_what_a_figure_depends_on(tmp_path: Path, kernels: str) -> None:
    path = tmp_path / "b.json"
    done = run(
        "bench",
        *("--threads", "1", "--models", "mlp", "--batches", "2", "--repeats", "1"),
        *("--impls", "smolgrad-eager,numpy-by-hand", "--sections", "steps,phases"),
        *("--json", str(path), "--kernels", kernels),
    )
    assert done.returncode == 0, done.stderr
    content = json.loads(path.read_text())
    assert content["kernels"] == kernels
    assert {"load_average", "versions", "threads", "command", "processor"} <= set(content)
    assert [row["impl"] for row in content["rows"]] == ["smolgrad-eager", "numpy-by-hand"]
    for row in content["rows"]:
        assert (row["model"], row["batch"], row["threads"]) == ("mlp", 2, 1)
        assert 0 < row["min_ms"] <= row["median_ms"]
        assert row["kernels"] == kernels
        assert row["load_average"] >= 0
    phases = [(row["impl"], row["phase"]) for row in content["phases"]]
    assert phases[:3] == [("smolgrad-eager", p) for p in ("forward", "backward", "optimizer")]
    assert len(phases) == 6
    assert "overhead" not in content


def test_ops_on_one_element_are_timed_in_every_engine() -> None:
    rows = bench.time_overhead(bench.Options(repeats=1))
    assert {row["impl"] for row in rows} == {
        "smolgrad-compiled",
        "smolgrad-eager",
        "micro",
        "torch",
    }
    assert {row["what"] for row in rows} == {"forward", "forward and backward"}
    assert len({row["op"] for row in rows}) * 8 == len(rows)
    assert all(0 < row["min_us"] <= row["median_us"] for row in rows)


def test_what_is_timed_on_one_element_is_the_same_everywhere() -> None:
    for ops in bench.one_element_ops(1).values():
        for name, wanted in (("mul", 0.75), ("exp", np.exp(1.5)), ("chain of 10 muls", 1.5 / 1024)):
            forward, both = ops[name]
            assert np.ravel(forward().data) == pytest.approx(wanted)
            both()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"models": "mlp,rnn"}, "--models must be one or more of mlp,char, got rnn"),
        ({"batches": "1,two"}, "--batches must be integers with commas between, got 1,two"),
        ({"batches": "0"}, "--batches must be at least 1, got 0"),
        ({"impls": ","}, "--impls must be one or more of .*, got nothing"),
        ({"sections": "all"}, "--sections must be one or more of .*, got all"),
        ({"repeats": 0}, "--repeats must be at least 1, got 0"),
        ({"threads": 0}, "--threads must be at least 1, got 0"),
    ],
)
def test_a_bad_option_is_named(options: dict[str, Any], words: str, tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match=words):
        bench.main(bench.Options(**options, out=tmp_path))
    assert list(tmp_path.iterdir()) == []


def test_nobody_who_can_take_part_is_an_error(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(bench, "absent", lambda impl: "it is not here")
    with pytest.raises(SystemExit, match="--impls names nobody who can take part"):
        bench.main(bench.Options(impls="jax", out=tmp_path))


def test_fewer_cores_are_seen_within_and_all_of_them_again_after(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen: list[set[int]] = []
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 1, 2}, raising=False)
    monkeypatch.setattr(
        os, "sched_setaffinity", lambda pid, cores: seen.append(set(cores)), raising=False
    )
    with contestants.few_cores(2):
        assert seen == [{0, 1}]
    assert seen == [{0, 1}, {0, 1, 2}]
