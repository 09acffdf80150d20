"""Rerun every experiment whose results are committed, one after the other.

It says beforehand how long each takes on two cores, and writes where each writes: to
results/, or to --out. An experiment that fails is named at the end and does not keep the
others from running. Needs torch. Timings are worth something on a quiet machine alone:
--wait-load makes the timed ones wait for it.
"""

from __future__ import annotations

import shlex
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import tyro
from report import RESULTS, check_out

DEMOS = Path(__file__).resolve().parent


@dataclass(frozen=True)
class Experiment:
    """A command in demos/, the minutes it takes on two cores, and where in results/ it writes."""

    name: str
    command: str
    minutes: float
    timed: bool = False
    folder: str = ""


EXPERIMENTS = (
    Experiment("mnist", "train_mnist.py", 1),
    Experiment(
        "mnist-twin",
        "train_mnist.py --torch-twin --dtype float64 --epochs 3 --validation 0 --tag twin",
        2,
    ),
    Experiment("mnist-seeds", "mnist_seeds.py", 6),
    Experiment("char", "train_char.py", 1.5),
    Experiment("char-pydoc", "train_char.py --corpus pydoc", 1.5),
    Experiment("divergence", "divergence.py", 6),
    Experiment("eps-sweep", "eps_sweep.py", 0.2),
    Experiment("bench-1", "bench.py --threads 1", 6, timed=True),
    Experiment("bench-2", "bench.py --threads 2", 6, timed=True),
    Experiment("bench-numpy", "bench.py --threads 1 --kernels numpy", 6, timed=True),
    Experiment("plot-bench", "plot_bench.py", 0.2),
    Experiment("scatter", "bench_scatter.py", 1, timed=True),
    Experiment("profile", "profile_step.py", 0.2, timed=True),
    Experiment("graphs", "draw_graph.py", 0.5, folder="graphs"),
)


@dataclass
class Options:
    """Options of the rerun."""

    only: tuple[str, ...] = ()
    """names of the experiments to run, instead of all"""
    list: bool = False
    """say what there is and how long it takes, and run nothing"""
    wait_load: float | None = None
    """let the timed ones wait until the load average of the last minute is below this"""
    out: Path = RESULTS
    """the folder that the results go to"""


def chosen(options: Options) -> list[Experiment]:
    """Return the experiments to run; leave with a message if one is unknown."""
    names = [experiment.name for experiment in EXPERIMENTS]
    unknown = [name for name in options.only if name not in names]
    if unknown:
        raise SystemExit(f"--only: no experiment {', '.join(unknown)}; there are {names}")
    return [e for e in EXPERIMENTS if not options.only or e.name in options.only]


def arguments(experiment: Experiment, options: Options) -> list[str]:
    """Return what follows ``python demos/`` when the experiment is run."""
    words = shlex.split(experiment.command)
    if experiment.timed and options.wait_load is not None:
        words += ["--wait-load", str(options.wait_load)]
    if options.out != RESULTS:
        words += ["--out", str(options.out.resolve() / experiment.folder)]
    return words


def run(experiment: Experiment, options: Options) -> bool:
    """Run an experiment with its output on this terminal; return whether it succeeded."""
    program, *words = arguments(experiment, options)
    print(f"\n=== {experiment.name}: python demos/{shlex.join([program, *words])}", flush=True)
    start = time.perf_counter()
    done = subprocess.run(
        [sys.executable, f"demos/{program}", *words], cwd=DEMOS.parent, check=False
    )
    minutes = (time.perf_counter() - start) / 60
    ended = "done" if done.returncode == 0 else f"FAILED with exit status {done.returncode}"
    print(f"=== {experiment.name}: {ended} after {minutes:.1f} min", flush=True)
    return done.returncode == 0


def main(options: Options) -> None:
    """Say what will be run and for how long; run it."""
    check_out(options.out)
    plan = chosen(options)
    total = sum(experiment.minutes for experiment in plan)
    print(f"{len(plan)} experiments, about {total:.0f} min on two cores:")
    for experiment in plan:
        print(f"  {experiment.name:12} {experiment.minutes:4.1f} min  {experiment.command}")
    if options.list:
        return
    failed = [experiment.name for experiment in plan if not run(experiment, options)]
    if failed:
        raise SystemExit(f"failed: {', '.join(failed)}")
    print(f"\nall {len(plan)} experiments done; results in {options.out}")


if __name__ == "__main__":
    main(tyro.cli(Options, description=__doc__))
