"""The same training from several seeds, run as a user runs it, on generated digits."""

from __future__ import annotations

import csv
import json
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.demos import programs

run = partial(programs.run, "mnist_seeds")
mnist_seeds = programs.load("mnist_seeds")


def test_runs_are_repeated_and_summed_up(tmp_path: Path) -> None:
    quick = ("--epochs", "1", "--images", "400", "--validation", "100", "--seeds", "3")
    done = run(*quick, "--data", "generated", "--threads", "1", "--out", str(tmp_path / "o"))
    assert done.returncode == 0, done.stderr
    with (tmp_path / "o/generated_seeds.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [(row["threads"], row["seed"], row["repeat"]) for row in rows] == [
        ("1", "3", "0"),
        ("1", "3", "1"),
    ]
    assert rows[0]["weights_sha256"] == rows[1]["weights_sha256"]
    report = json.loads((tmp_path / "o/generated_seeds.json").read_text())
    assert report["equal_bytes_at_a_fixed_thread_count"] is True
    final, chosen = (report[name] for name in mnist_seeds.ACCURACIES)
    assert final["mean"] == float(rows[0]["test_accuracy_final"])
    assert chosen["mean"] == float(rows[0]["test_accuracy_at_best_validation"])
    assert {"load_average", "versions", "threads", "command"} <= set(report)
    for suffix in ("svg", "png"):
        assert str(tmp_path / f"o/generated_seeds.{suffix}") in done.stdout


def row(threads: int, seed: int, repeat: int, accuracy: float, weights: str) -> dict[str, Any]:
    return {
        "data": "mnist",
        "threads": threads,
        "seed": seed,
        "repeat": repeat,
        "test_accuracy_final": accuracy,
        "test_accuracy_at_best_validation": accuracy - 0.25,
        "weights_sha256": weights,
    }


def test_mean_and_spread_leave_repetitions_out() -> None:
    rows = [row(1, 0, 0, 0.5, "a"), row(1, 0, 1, 0.5, "a"), row(1, 1, 0, 1.0, "b")]
    found = mnist_seeds.summarize(rows)["test_accuracy_final"]
    assert (found["mean"], found["lowest"], found["highest"]) == (0.75, 0.5, 1.0)
    assert found["standard_deviation"] == pytest.approx(0.353553)


@pytest.mark.parametrize(
    ("again", "other", "fixed", "across"),
    [("a", "a", True, True), ("a", "c", True, False), ("b", "a", False, False)],
)
def test_bytes_that_differ_are_noticed(again: str, other: str, fixed: bool, across: bool) -> None:
    rows = [row(1, 0, 0, 0.5, "a"), row(1, 0, 1, 0.5, again), row(2, 0, 0, 0.5, other)]
    summary = mnist_seeds.summarize(rows)
    assert summary["equal_bytes_at_a_fixed_thread_count"] is fixed
    assert summary["equal_bytes_across_thread_counts"] is across


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--epochs", "0"), "--epochs must be at least 1, got 0"),
        (("--threads", "0"), "--threads must be at least 1, got 0"),
        (("--validation", "0"), "--validation must be at least 1, got 0"),
        (("--images", "0"), "--images must lie in [1, 60000], got 0"),
    ],
)
def test_a_bad_option_is_named_and_writes_nothing(
    tmp_path: Path, options: tuple[str, ...], words: str
) -> None:
    done = run(*options, "--out", str(tmp_path / "out"))
    assert done.returncode == 1
    assert words in done.stderr
    assert not (tmp_path / "out").exists()
