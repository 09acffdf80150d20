"""Train the MNIST network from several seeds and on several thread counts.

Question: how far does the accuracy depend on chance, and does the same run give the same
weights again?

Every run is demos/train_mnist.py with its defaults, in a process of its own. Accuracy after
the last epoch stands beside accuracy at the epoch that validation chose. The first seed is
trained twice on every thread count: two runs that agree have weights of equal bytes.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import tyro
from report import (
    RESULTS,
    STYLES,
    check_out,
    check_range,
    command,
    environment,
    figure,
    progress,
    rounded,
    save_figure,
    write_csv,
    write_json,
)

PROGRAM = Path(__file__).with_name("train_mnist.py")
ACCURACIES = {
    "test_accuracy_final": "after the last epoch",
    "test_accuracy_at_best_validation": "at the epoch that validation chose",
}


@dataclass
class Options:
    """Options of the runs."""

    seeds: tuple[int, ...] = (0, 1, 2)
    """of the weights, the validation split and the order of the batches"""
    threads: tuple[int, ...] = (1, 2)
    """thread counts; every seed is trained on each"""
    epochs: int = 10
    """passes over the training images"""
    images: int | None = None
    """use only so many training images, for a quick trial"""
    validation: int = 5_000
    """training images set aside to choose the best epoch"""
    data: Literal["mnist", "generated"] = "mnist"
    """train on generated digits even where MNIST can be had"""
    out: Path = RESULTS
    """the folder that the results go to"""


def check(options: Options) -> None:
    """Leave with a message that names the option if one makes no sense."""
    check_out(options.out)
    check_range("epochs", options.epochs, 1)
    check_range("validation", options.validation, 1)
    for name in ("seeds", "threads"):
        if not getattr(options, name):
            raise SystemExit(f"--{name} must name at least one")
    for count in options.threads:
        check_range("threads", count, 1)


def train(options: Options, seed: int, threads: int, folder: Path) -> dict[str, Any]:
    """Run the training program once and return its summary."""
    arguments = {
        "seed": seed,
        "threads": threads,
        "epochs": options.epochs,
        "images": options.images,
        "validation": options.validation,
        "data": options.data,
        "out": folder,
    }
    given = [f"--{name}={value}" for name, value in arguments.items() if value is not None]
    done = subprocess.run(
        [sys.executable, str(PROGRAM), *given], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(f"seed {seed}, threads {threads}: the training failed.\n{done.stderr}")
    (path,) = folder.glob("*_summary.json")
    summary: dict[str, Any] = json.loads(path.read_text())
    return summary


def measure(options: Options) -> list[dict[str, Any]]:
    """Return a row for every run."""
    runs = [
        (threads, seed, repeat)
        for threads in options.threads
        for seed in options.seeds
        for repeat in range(2 if seed == options.seeds[0] else 1)
    ]
    rows: list[dict[str, Any]] = []
    for threads, seed, repeat in progress(runs, unit="run"):
        with tempfile.TemporaryDirectory() as folder:
            summary = train(options, seed, threads, Path(folder))
        kept = ("data", *ACCURACIES, "best_epoch_by_validation", "seconds", "load_average")
        rows.append(
            {"threads": threads, "seed": seed, "repeat": repeat}
            | {name: summary[name] for name in kept}
            | {"weights_sha256": summary["weights_sha256"]}
        )
        print(
            f"threads {threads}, seed {seed}{', again' if repeat else ''}: "
            f"{summary['test_accuracy_final']:.2%} final, "
            f"{summary['test_accuracy_at_best_validation']:.2%} by validation, "
            f"{summary['seconds']:.1f} s, weights {summary['weights_sha256'][:12]}"
        )
    return rows


def summarize(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Return mean and spread of both accuracies, and whether equal runs gave equal bytes."""
    first = [row for row in rows if not row["repeat"]]
    spread: dict[str, Any] = {}
    for name in ACCURACIES:
        values = [row[name] for row in first]
        spread[name] = {
            "mean": rounded(statistics.fmean(values)),
            "lowest": min(values),
            "highest": max(values),
            "standard_deviation": rounded(statistics.stdev(values)) if len(values) > 1 else None,
        }
    hashes: dict[tuple[int, int], set[str]] = {}
    for row in rows:
        hashes.setdefault((row["threads"], row["seed"]), set()).add(row["weights_sha256"])
    repeated = {(row["threads"], row["seed"]) for row in rows if row["repeat"]}
    across = {
        seed: set().union(*(found for (_, other), found in hashes.items() if other == seed))
        for _, seed in hashes
    }
    return {
        "data": rows[0]["data"],
        "runs": len(rows),
        **spread,
        "equal_bytes_at_a_fixed_thread_count": all(len(hashes[run]) == 1 for run in repeated),
        "equal_bytes_across_thread_counts": all(len(found) == 1 for found in across.values()),
    }


def plot(rows: list[dict[str, Any]], summary: dict[str, Any], stem: Path) -> list[Path]:
    """Draw both accuracies of every run."""
    drawing, ax = figure(width=6.4)
    first = [row for row in rows if not row["repeat"]]
    for (name, label), style in zip(ACCURACIES.items(), STYLES, strict=False):
        mean = 100 * summary[name]["mean"]
        ax.plot(
            [100 * row[name] for row in first],
            label=f"{label}, mean {mean:.2f}%",
            **{**style, "linestyle": "none", "markersize": 8, "markerfacecolor": "none"},
        )
        ax.axhline(mean, color=style["color"], linestyle=style["linestyle"], linewidth=0.8)
    ticks = [f"seed {row['seed']}\nthreads {row['threads']}" for row in first]
    ax.set_xticks(range(len(first)), ticks)
    ax.set(title=f"Test accuracy on {summary['data']}", ylabel="per cent")
    ax.margins(0.08, 0.15)
    drawing.legend(loc="outside lower center")
    return save_figure(drawing, stem)


def main(options: Options) -> None:
    """Train, report, and write the results."""
    check(options)
    rows = measure(options)
    summary = summarize(rows)
    threads = max(options.threads)
    report = {"command": command(), **summary, **environment(threads, ("numpy", "smolgrad"))}
    report["threads"] = list(options.threads)
    stem = options.out / f"{'mnist' if summary['data'] == 'mnist' else 'generated'}_seeds"
    written = [
        write_csv(stem.with_suffix(".csv"), rows),
        write_json(stem.with_suffix(".json"), report),
        *plot(rows, summary, stem),
    ]
    for name, label in ACCURACIES.items():
        found = summary[name]
        print(f"{label}: mean {found['mean']:.2%}, {found['lowest']:.2%} to {found['highest']:.2%}")
    print(
        "weights of a run and its repetition: "
        + ("equal bytes" if summary["equal_bytes_at_a_fixed_thread_count"] else "DIFFERENT")
    )
    print("written: " + ", ".join(str(path) for path in written))


if __name__ == "__main__":
    main(tyro.cli(Options, description=__doc__))
