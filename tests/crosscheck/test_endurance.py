"""Endurance in small, every day; ``make endure`` measures it in full."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest

import tensor
from tensor import modes
from tensor.kernels import choice
from tests.crosscheck import endurance

RIGHT: Final = {"chain": 2_000, "growth": 100, "toggling": 100, "training": 4, "rounds": 5}


@pytest.mark.parametrize("engine", endurance.CHAINS)
def test_a_chain_has_the_gradient_of_every_use(engine: str) -> None:
    assert endurance.chain_seconds(engine, RIGHT["chain"]) > 0


def test_a_chain_with_another_gradient_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(endurance.CHAINS, "tensor", float)
    with pytest.raises(ArithmeticError, match="a chain of 10 is 10"):
        endurance.chain_seconds("tensor", 10)


@pytest.mark.parametrize("kernels", choice.KERNELS)
@pytest.mark.parametrize("engine", endurance.STEPS)
def test_training_steps_leave_nothing_behind(engine: str, kernels: str) -> None:
    with tensor.use_kernels(kernels):
        step = endurance.STEPS[engine]()
        left, unreachable = endurance.growth(step, RIGHT["growth"], warm_up=50)
    assert left <= endurance.LIMITS["growth"] and unreachable == 0


def test_a_step_that_keeps_something_is_found() -> None:
    kept: list[Any] = []
    left, unreachable = endurance.growth(lambda: kept.append([1.5]), RIGHT["growth"], warm_up=20)
    assert left > endurance.LIMITS["growth"] and unreachable == 0


def test_a_step_that_leaves_a_cycle_is_found() -> None:
    def step() -> None:
        cycle: list[Any] = []
        cycle.append(cycle)

    assert endurance.growth(step, RIGHT["growth"], warm_up=20)[1] == RIGHT["growth"]


RUNS: Final = {"threads": endurance.threads, "tasks": endurance.tasks}


@pytest.mark.parametrize("run", RUNS.values(), ids=list(RUNS))
def test_a_hundred_that_toggle_do_not_disturb_those_that_train(run: Callable[..., int]) -> None:
    assert run(RIGHT["toggling"], RIGHT["training"], RIGHT["rounds"]) == 0
    assert modes.ACTIVE.get() is None


class Shared:
    """A mode that is everybody's, as a global variable would be."""

    value: Any = None

    def get(self) -> Any:
        return self.value

    def set(self, value: Any) -> None:
        self.value = value


def test_a_mode_that_is_shared_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(modes, "ACTIVE", Shared())
    assert endurance.tasks(RIGHT["toggling"], RIGHT["training"], RIGHT["rounds"]) > 0


def test_two_processes_end_with_the_same_weights() -> None:
    first, second = (endurance.digest_elsewhere(20) for _ in range(2))
    assert first == second and len(first) == 64
    assert endurance.trained(21) != first


def test_the_figures_are_written_and_decide_the_status(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    figures = {
        "chain, tensor": {"ratio": 10.5, "right": True},
        "memory, micro": {"bytes left behind": 0, "right": True},
        "two processes": {"SHA-256 of all weights": ["a" * 64, "a" * 64], "right": True},
    }
    monkeypatch.setattr(endurance, "PARTS", {"all": figures.items, "none": dict})
    assert endurance.main(["--out", str(tmp_path)]) == 0
    assert endurance.main(["--out", str(tmp_path), "--only", "none"]) == 0
    assert json.loads((tmp_path / "endurance.json").read_text("utf-8")) == figures
    page = (tmp_path / "proof.md").read_text("utf-8")
    assert "| chain, tensor | ratio: 10.5 | 12 times" in page and "aaaa..." in page
    figures["chain, tensor"]["right"] = False
    assert endurance.main(["--out", str(tmp_path)]) == 1
    assert "2 of 3 hold ['chain, tensor']" in capsys.readouterr().out
    assert "**WRONG**" in (tmp_path / "proof.md").read_text("utf-8")
