"""The MNIST program, run as a user runs it, on generated digits."""

from __future__ import annotations

import csv
import json
from functools import partial
from pathlib import Path

import pytest

from tests.demos import programs

run = partial(programs.run, "train_mnist")
QUICK = ("--data", "generated", "--images", "1500", "--validation", "300", "--epochs", "2")


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str, str]:
    """Train twice as briefly as is worth looking at, beside a PyTorch twin, in float64."""
    out = tmp_path_factory.mktemp("out")
    done = run(*QUICK, "--dtype", "float64", "--torch-twin", "--tag", "t", "--out", str(out))
    assert done.returncode == 0, done.stderr
    return out, done.stdout, done.stderr


def test_it_learns_and_follows_the_torch_twin(trained: tuple[Path, str, str]) -> None:
    summary = json.loads((trained[0] / "generated_summary_t.json").read_text())
    assert summary["test_accuracy_final"] > 0.6
    assert summary["max_weight_difference"] < 1e-13
    assert summary["torch_test_accuracy_final"] == summary["test_accuracy_final"]
    assert summary["equal_accuracy_every_epoch"]


def test_the_summary_has_what_a_figure_depends_on(trained: tuple[Path, str, str]) -> None:
    summary = json.loads((trained[0] / "generated_summary_t.json").read_text())
    wanted = (
        "parameters steps seconds threads load_average test_accuracy_final "
        "test_accuracy_at_best_validation test_loss_final versions data seed"
    )
    assert set(wanted.split()) <= set(summary)
    assert summary["parameters"] == 535_818
    assert summary["steps"] == 2 * 10  # 1,200 images in batches of 128


def test_the_table_has_a_row_for_every_epoch(trained: tuple[Path, str, str]) -> None:
    with (trained[0] / "generated_train_t.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["epoch"] for row in rows] == ["1", "2"]
    assert float(rows[1]["train_loss"]) < float(rows[0]["train_loss"])


def test_the_plot_is_written_and_the_paths_are_printed(trained: tuple[Path, str, str]) -> None:
    out, stdout, _ = trained
    for name in ("generated_curves_t.svg", "generated_curves_t.png", "generated_summary_t.json"):
        assert (out / name).stat().st_size > 500
        assert str(out / name) in stdout


def test_generated_digits_are_called_so_loudly(trained: tuple[Path, str, str]) -> None:
    assert "NOT MNIST" in trained[2]
    assert json.loads((trained[0] / "generated_summary_t.json").read_text())["data"] != "mnist"


def test_progress_is_quiet_without_a_terminal(trained: tuple[Path, str, str]) -> None:
    assert "\r" not in trained[1] + trained[2]
    assert "step/s" not in trained[2]


def test_the_same_seed_gives_the_same_numbers(tmp_path: Path) -> None:
    for name in ("a", "b"):
        done = run(*QUICK, "--max-steps", "12", "--threads", "1", "--out", str(tmp_path / name))
        assert done.returncode == 0, done.stderr
    tables = [(tmp_path / name / "generated_train.csv").read_text() for name in ("a", "b")]
    without_times = [
        [line.split(",")[:2] + line.split(",")[3:] for line in table.splitlines()]
        for table in tables
    ]
    assert without_times[0] == without_times[1]
    assert without_times[0][-1][1] == "12"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--validation", "1500"), "--validation must lie in [0, 1499], got 1500"),
        (("--images", "0"), "--images must lie in [1, 60000], got 0"),
        (("--epochs", "0"), "--epochs must be at least 1, got 0"),
        (("--batch-size", "0"), "--batch-size must be at least 1, got 0"),
        (("--max-steps", "0"), "--max-steps must be at least 1, got 0"),
        (("--threads", "0"), "--threads must be at least 1, got 0"),
    ],
)
def test_a_bad_option_is_named_and_writes_nothing(
    tmp_path: Path, options: tuple[str, ...], words: str
) -> None:
    done = run(*QUICK, *options, "--out", str(tmp_path / "out"))
    assert done.returncode == 1
    assert words in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "out").exists()
