"""The program that reruns all the others."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from tests.demos.programs import load, run
from tests.demos.test_programs import EXPERIMENTS
from tests.structure import ROOT

experiments = load("experiments")
Experiment, Options = experiments.Experiment, experiments.Options


def test_every_program_that_measures_something_is_among_them() -> None:
    programs = {e.command.split()[0].removesuffix(".py") for e in experiments.EXPERIMENTS}
    assert set(EXPERIMENTS) <= programs
    names = [e.name for e in experiments.EXPERIMENTS]
    assert len(set(names)) == len(names)


def test_every_command_that_the_results_name_is_among_them() -> None:
    index = (ROOT / "results/README.md").read_text("utf-8")
    named = set(re.findall(r"`python demos/([^`]+)`", index))
    assert named
    assert named <= {e.command for e in experiments.EXPERIMENTS}


def test_the_list_says_how_long_each_takes_and_runs_nothing() -> None:
    done = run("experiments", "--list")
    assert done.returncode == 0
    total = round(sum(e.minutes for e in experiments.EXPERIMENTS))
    assert f"{len(experiments.EXPERIMENTS)} experiments, about {total} min" in done.stdout
    for experiment in experiments.EXPERIMENTS:
        assert experiment.command in done.stdout
    assert "===" not in done.stdout


def test_an_unknown_name_is_refused_before_anything_runs() -> None:
    done = run("experiments", "--only", "char", "nothing")
    assert done.returncode == 1
    assert "--only: no experiment nothing" in done.stderr
    assert "===" not in done.stdout


def test_the_folder_and_the_wait_are_passed_on(tmp_path: Path) -> None:
    options = Options(out=tmp_path, wait_load=0.5)
    words = experiments.arguments(Experiment("a", "bench.py --threads 1", 1, timed=True), options)
    assert words == ["bench.py", "--threads", "1", "--wait-load", "0.5", "--out", str(tmp_path)]
    words = experiments.arguments(Experiment("b", "draw_graph.py", 1, folder="graphs"), options)
    assert words == ["draw_graph.py", "--out", str(tmp_path / "graphs")]
    assert experiments.arguments(Experiment("c", "eps_sweep.py", 1), Options()) == ["eps_sweep.py"]


def test_one_that_fails_is_named_and_the_others_are_run(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    plan = (
        Experiment("bad", "eps_sweep.py --no-such-option", 1),
        Experiment("good", "eps_sweep.py --help", 1),
    )
    monkeypatch.setattr(experiments, "EXPERIMENTS", plan)
    with pytest.raises(SystemExit, match=r"^failed: bad$"):
        experiments.main(Options())
    out = capfd.readouterr().out
    assert "=== bad: FAILED with exit status 2" in out
    assert "=== good: done" in out


def test_an_experiment_runs_with_the_interpreter_that_runs_them(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "executable", "/no/such/python")
    with pytest.raises(FileNotFoundError):
        experiments.run(Experiment("a", "eps_sweep.py --help", 1), Options())
    assert "=== a: python demos/eps_sweep.py --help" in capfd.readouterr().out
