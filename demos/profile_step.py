"""Profile a training step: which functions take the time.

Question: where does a step go, in matrix products, in passes over memory or in Python?

Steps are first timed by phase (forward, backward, optimizer) without a profiler, and then
run under cProfile. Times are those of the processor, not of the clock, so that other
programs on the machine matter little; with one thread they are the same on a quiet one.
numpy's ufuncs, matrix products among them, count as part of the function that calls them.
"""

from __future__ import annotations

import cProfile
import pstats
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import train_char
import train_mnist
import tyro
from report import (
    RESULTS,
    STYLES,
    check_out,
    check_range,
    command,
    environment,
    figure,
    limit_threads,
    rounded,
    save_figure,
    tagged,
    wait_for_quiet,
    write_csv,
    write_json,
)

import tensor
from tensor import Generator, Tensor, nn, optim

ROOT = Path(__file__).resolve().parent.parent
PHASES = ("forward", "backward", "optimizer")
WARM_UP = 5


@dataclass
class Options:
    """Options of the profile."""

    model: Literal["char", "mlp"] = "char"
    """the character model, or the MNIST classifier"""
    batch: int | None = None
    """samples in a step; by default 256 of the first and 128 of the second"""
    steps: int = 100
    """steps to time, and as many to profile"""
    top: int = 12
    """functions to show"""
    seed: int = 0
    """of the weights and the batch"""
    threads: int = 1
    """threads of the matrix products"""
    wait_load: float | None = None
    """wait until the load average of the last minute is below this"""
    tag: str = ""
    """added to the names of the results"""
    out: Path = RESULTS
    """the folder that the results go to"""


class Step:
    """A model, its optimizer and one batch, ready to take steps."""

    def __init__(self, model: str, batch: int, seed: int) -> None:
        tensor.manual_seed(seed)
        generator = Generator(seed)
        self.model: nn.Module
        if model == "char":
            self.model = train_char.build(65)
            self.x = Tensor(generator.integers(0, 65, (batch, 16)))
            self.y = Tensor(generator.integers(0, 65, batch))
        else:
            self.model = train_mnist.build(train_mnist.Options(seed=seed))
            self.x = Tensor(generator.uniform(shape=(batch, 784)))
            self.y = Tensor(generator.integers(0, 10, batch))
        self.optimizer = optim.AdamW(self.model.parameters(), lr=1e-3)

    def forward(self) -> Tensor:
        """Return the loss."""
        return tensor.cross_entropy(self.model(self.x), self.y)

    def backward(self, loss: Tensor) -> None:
        """Compute the gradients anew."""
        self.optimizer.zero_grad()
        loss.backward()

    def run(self, count: int) -> None:
        """Take some steps."""
        for _ in range(count):
            self.backward(self.forward())
            self.optimizer.step()

    def phases(self, count: int) -> dict[str, float]:
        """Take some steps; return the median milliseconds of processor time in each phase."""
        times = np.empty((count, len(PHASES)))
        for i in range(count):
            marks = [time.process_time()]
            loss = self.forward()
            marks.append(time.process_time())
            self.backward(loss)
            marks.append(time.process_time())
            self.optimizer.step()
            marks.append(time.process_time())
            times[i] = np.diff(marks)
        return dict(zip(PHASES, (1e3 * np.median(times, 0)).tolist(), strict=True))


def functions(step: Step, count: int) -> list[dict[str, Any]]:
    """Profile some steps; return a row for every function, the most expensive first."""
    profile = cProfile.Profile(time.process_time)
    profile.enable()
    step.run(count)
    profile.disable()
    found: dict[Any, Any] = pstats.Stats(profile).stats
    rows = [
        {
            # lambdas are many to a file, and told apart by their line
            "function": f"{place(file)}{name}{f' in line {line}' * (name == '<lambda>')}",
            "line": line,
            "calls_per_step": rounded(calls / count, 4),
            "own_ms": rounded(1e3 * own / count, 4),
            "total_ms": rounded(1e3 * total / count, 4),
        }
        for (file, line, name), (_, calls, own, total, _) in found.items()
    ]
    return sorted(rows, key=lambda row: -row["own_ms"])


def place(file: str) -> str:
    """Return where a function is: a path in this project, or the name of a file elsewhere."""
    path = Path(file)
    if not path.is_absolute():  # "~": built in
        return ""
    if path.is_relative_to(ROOT) and "site-packages" not in path.parts:
        return f"{path.relative_to(ROOT).as_posix()}: "
    return f"{path.name}: "


def plot(rows: list[dict[str, Any]], summary: dict[str, Any], stem: Path) -> list[Path]:
    """Draw the functions' own times as bars, the longest at the top."""
    drawing, ax = figure(1, width=8.0, height=0.6 + 0.32 * len(rows))
    names = [row["function"] for row in rows]
    times = [row["own_ms"] for row in rows]
    bars = ax.barh(range(len(rows)), times, color=STYLES[0]["color"], height=0.7)
    labels = [
        f"{t:.2f} ms, {r['calls_per_step']:g} calls" for t, r in zip(times, rows, strict=True)
    ]
    ax.bar_label(bars, labels, padding=3, fontsize=8)
    ax.set_yticks(range(len(rows)), names, fontsize=8)
    ax.invert_yaxis()
    ax.margins(x=0.25)
    ax.grid(axis="y", visible=False)
    ax.set_axisbelow(True)
    ax.set(
        title=f"A step of the {summary['model']} model, batch {summary['batch']}, "
        f"{sum(summary['phases_ms'].values()):.1f} ms",
        xlabel="own time in a step, milliseconds of the processor, under the profiler",
    )
    return save_figure(drawing, stem)


def main(options: Options) -> None:
    """Time, profile, report, and write the results."""
    check_out(options.out)
    for name, value, low in (
        ("batch", options.batch, 1),
        ("steps", options.steps, 1),
        ("top", options.top, 1),
        ("seed", options.seed, 0),
    ):
        check_range(name, value, low)
    threads = limit_threads(options.threads)
    wait_for_quiet(options.wait_load)
    batch = options.batch or {"char": 256, "mlp": 128}[options.model]
    place_and_time = environment(threads, ("numpy", "smolgrad"))
    step = Step(options.model, batch, options.seed)
    step.run(WARM_UP)
    phases = step.phases(options.steps)
    rows = functions(step, options.steps)
    shown = rows[: options.top]
    summary = {
        "command": command(),
        "model": options.model,
        "batch": batch,
        "parameters": sum(p.numel() for p in step.model.parameters()),
        "steps": options.steps,
        "phases_ms": {name: rounded(value, 4) for name, value in phases.items()},
        "step_ms": rounded(sum(phases.values()), 4),
        "step_ms_under_the_profiler": rounded(sum(row["own_ms"] for row in rows), 4),
        "most_expensive": [row["function"] for row in shown],
        **place_and_time,
    }
    print(
        f"{options.model}, batch {batch}, threads {threads}: {sum(phases.values()):.2f} ms of the "
        "processor in a step: " + ", ".join(f"{k} {v:.2f}" for k, v in phases.items())
    )
    print(f"{'own ms':>8} {'total ms':>9} {'calls':>7}  function (under the profiler)")
    for row in shown:
        print(
            f"{row['own_ms']:8.3f} {row['total_ms']:9.3f} {row['calls_per_step']:7g}  "
            f"{row['function']}"
        )
    stem = options.out / tagged(f"profile_{options.model}", options.tag)
    written = [
        write_csv(stem.with_name(stem.name + ".csv"), rows),
        write_json(stem.with_name(stem.name + ".json"), summary),
        *plot(shown, summary, stem),
    ]
    print("written: " + ", ".join(str(path) for path in written))


if __name__ == "__main__":
    main(tyro.cli(Options, description=__doc__))
