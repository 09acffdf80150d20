"""Compare the speed of a training step here, in PyTorch and elsewhere.

Question: how long does a step take in this engine, beside what the same step takes in
plain numpy and in other engines, and where does it go?

All start from the same weights and the same batch, and are first checked to give the same
loss, gradients and step. Then they take turns, in an order that is drawn anew for every
round, so that whatever else the machine does falls on all alike. A turn is a short rest, in
which the threads of the one before go to sleep, one step that is not timed and three that
are. Sections:

  steps     a training step: forward, backward, AdamW
  phases    the three apart, at batch 128
  overhead  ops on tensors of one element
  scaling   time and peak memory by batch, width and depth

An engine that is not installed is left out. Quote the minima: what is added to them is the
machine's. With --wait-load the timing begins when the machine is quiet.
"""

from __future__ import annotations

import multiprocessing
import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import tyro
from contestants import CONTESTANTS, MNIST_SIZES, OURS, Contestant, Workload, absent
from report import (
    RESULTS,
    check_out,
    check_range,
    command,
    environment,
    import_torch,
    limit_threads,
    progress,
    rounded,
    tagged,
    wait_for_quiet,
    write_json,
)

import micro
import tensor
from tensor import Generator, Tensor

MODELS = ("mlp", "char")
SECTIONS = ("steps", "phases", "overhead", "scaling")
CHAR_BATCH, PHASES_BATCH = 256, 128
TIMED = 3  # steps in a turn, after one that is not timed
REST = 0.05  # seconds before a turn, in which the threads of the one before go to sleep
CALLS = 20  # of an op in a turn: as short as the clock allows, to fit between interruptions
# How closely contestants must agree, relative and in float32. Losses: to rounding. Gradients:
# a ReLU within rounding of zero may be open in one and shut in another, which moves those of a
# wide network by almost 1e-3. Steps: AdamW divides small gradients by themselves.
AGREEMENT = {"loss": 1e-5, "gradients": 5e-3, "step": 1e-2}
# What the scaling section compares, and the networks it is measured on: (batch, sizes).
SCALED = ("smolgrad-eager", "smolgrad-compiled", "numpy-by-hand", "torch-fused")
SWEEPS: Mapping[str, Mapping[int, tuple[int, tuple[int, ...]]]] = {
    "batch": {b: (b, MNIST_SIZES) for b in (1, 32, 128, 512, 2_048)},
    "width": {w: (128, (784, w, w, 10)) for w in (64, 256, 1_024, 2_048)},
    "depth": {d: (128, (784, *(256,) * d, 10)) for d in (1, 4, 16, 32)},
}


@dataclass
class Options:
    """Options of the comparison."""

    threads: int = 1
    """threads of the matrix products, in every engine"""
    models: str = ",".join(MODELS)
    """mlp, char, or both"""
    batches: str = "1,32,128,512,2048"
    """batch sizes of mlp; that of char is 256"""
    impls: str = ",".join(CONTESTANTS)
    """who takes part"""
    sections: str = ",".join(SECTIONS)
    """what to measure"""
    kernels: Literal["numpy", "numba"] | None = None
    """what this engine's loops are made of; by default numba where it is installed"""
    repeats: int = 20
    """turns that each takes"""
    json: Path | None = None
    """the file to write; by default bench_threads<N>[_<kernels>].json in --out"""
    wait_load: float | None = None
    """wait until the load average of the last minute is below this"""
    seed: int = 0
    """of the weights, the batches and the order of the turns"""
    tag: str = ""
    """added to the name of the file"""
    out: Path = RESULTS
    """the folder that the file goes to"""


def listed(name: str, text: str, allowed: Iterable[str]) -> list[str]:
    """Return the parts of a comma-separated option; leave with a message if one is unknown."""
    parts, known = [part.strip() for part in text.split(",") if part.strip()], list(allowed)
    unknown = [part for part in parts if part not in known]
    if unknown or not parts:
        got = ", ".join(unknown) or "nothing"
        raise SystemExit(f"--{name} must be one or more of {','.join(known)}, got {got}")
    return parts


def numbers(name: str, text: str) -> list[int]:
    """Return a comma-separated option as integers from 1."""
    try:
        values = [int(part) for part in text.split(",") if part.strip()]
    except ValueError:
        raise SystemExit(f"--{name} must be integers with commas between, got {text}") from None
    if not values:
        raise SystemExit(f"--{name} must name at least one number")
    for value in values:
        check_range(name, value, 1)
    return values


# Taking turns


def in_turns(
    actions: Mapping[str, Callable[[], Sequence[float]]],
    repeats: int,
    generator: Generator,
    rest: float = 0.0,
) -> dict[str, np.ndarray]:
    """Have every action take ``repeats`` turns, each round in a new order; return its times."""
    times: dict[str, list[Sequence[float]]] = {name: [] for name in actions}
    names = list(actions)
    for _ in range(repeats):
        for i in generator.permutation(len(names)):
            time.sleep(rest)
            times[names[i]].append(actions[names[i]]())
    return {name: np.concatenate(taken) for name, taken in times.items()}


def turn(step: Callable[[], Any], warm_up: int = 1, timed: int = TIMED) -> list[float]:
    """Call a function a few times; return the milliseconds that each call took."""
    for _ in range(warm_up):
        step()
    times = []
    for _ in range(timed):
        start = time.perf_counter()
        step()
        times.append(1e3 * (time.perf_counter() - start))
    return times


def timing(times: np.ndarray, unit: str = "ms") -> dict[str, float]:
    """Return the minimum and the median, and the load average at this time."""
    return {
        f"min_{unit}": rounded(times.min(), 4),
        f"median_{unit}": rounded(np.median(times), 4),
        "load_average": round(os.getloadavg()[0], 2),
    }


def labelled(impl: str, threads: int) -> dict[str, Any]:
    """Return what every row says of who was measured."""
    row: dict[str, Any] = {"impl": impl, "threads": threads}
    return row | ({"kernels": tensor.kernels_in_use()} if impl in OURS else {})


# The same work


def enter(work: Workload, impls: Sequence[str], threads: int) -> dict[str, Contestant]:
    """Return the contestants, all of which give the same loss, gradients and first step.

    Raises:
        SystemExit: one does not; the message says by how much it differs.
    """
    entered: dict[str, Contestant] = {}
    reference: tuple[float, list[np.ndarray], list[np.ndarray]] | None = None
    for impl in impls:
        contestant = CONTESTANTS[impl](work, threads)
        loss, grads = contestant.first()
        contestant.step()
        moved = [
            after - before for after, before in zip(contestant.weights(), work.weights, strict=True)
        ]
        if reference is None:
            assert grads is not None
            reference = loss, grads, moved
        differences = {
            "loss": abs(loss / reference[0] - 1),
            "gradients": apart(grads, reference[1]),
            "step": apart(moved, reference[2]),
        }
        for what, difference in differences.items():
            if not difference <= AGREEMENT[what]:
                raise SystemExit(
                    f"{impl} does not do the same work as {impls[0]} ({work.model}, batch "
                    f"{work.batch}): {what} apart by {difference:.1e}, more than "
                    f"{AGREEMENT[what]:.0e}"
                )
        entered[impl] = contestant
    return entered


def apart(arrays: Sequence[np.ndarray] | None, others: Sequence[np.ndarray]) -> float:
    """Return the largest relative distance between two arrays; 0 where there are none."""
    if arrays is None:
        return 0.0
    return max(
        float(np.linalg.norm(a - b) / max(float(np.linalg.norm(b)), 1e-30))
        for a, b in zip(arrays, others, strict=True)
    )


# Sections


def time_steps(
    impls: Sequence[str], models: Sequence[str], batches: Sequence[int], options: Options
) -> list[dict[str, Any]]:
    """Return a row for every model, batch and contestant."""
    cases = [(m, b) for m in models for b in (batches if m == "mlp" else [CHAR_BATCH])]
    generator, rows = Generator(options.seed), []
    for model, batch in progress(cases, desc="steps", unit="case"):
        work = Workload.make(model, batch, seed=options.seed)
        entered = enter(work, impls, options.threads)
        actions = {impl: _turn_of(contestant.step) for impl, contestant in entered.items()}
        times = in_turns(actions, options.repeats, generator, REST)
        found = [
            {"model": model, "batch": batch, **labelled(impl, options.threads), **timing(taken)}
            for impl, taken in times.items()
        ]
        rows += found
        print(f"{model} {batch:5}: " + shown(found))
    return rows


def _turn_of(step: Callable[[], Any]) -> Callable[[], list[float]]:
    return lambda: turn(step)


def shown(rows: Sequence[dict[str, Any]]) -> str:
    """Return the rows of one case in a line, and this engine's ratio to the best of PyTorch."""
    text = ", ".join(f"{row['impl']} {row['min_ms']:.3g}" for row in rows) + " ms"
    for impl, ratio in ratios(rows).items():
        text += f"; {impl} / best of torch {ratio:.2f}"
    return text


def ratios(rows: Sequence[dict[str, Any]]) -> dict[str, float]:
    """Return, for this engine's rows of one case, their minima over the best of PyTorch's."""
    torch = [row["min_ms"] for row in rows if row["impl"].startswith("torch")]
    if not torch:
        return {}
    ours = (row for row in rows if row["impl"].startswith("smolgrad"))
    return {row["impl"]: row["min_ms"] / min(torch) for row in ours}


def time_phases(impls: Sequence[str], options: Options) -> list[dict[str, Any]]:
    """Return rows for forward, backward and optimizer, of those that can be taken apart."""
    work = Workload.make("mlp", PHASES_BATCH, seed=options.seed)
    entered = {
        impl: contestant
        for impl, contestant in enter(work, impls, options.threads).items()
        if contestant.phases is not None
    }

    def once(contestant: Contestant) -> list[float]:
        assert contestant.phases is not None
        contestant.step()
        times: list[float] = []
        for _ in range(TIMED):
            for phase in contestant.phases.values():
                times += turn(phase, warm_up=0, timed=1)
        return times

    actions = {impl: (lambda c=contestant: once(c)) for impl, contestant in entered.items()}
    times = in_turns(actions, options.repeats, Generator(options.seed), REST)
    rows = []
    for impl, contestant in entered.items():
        names = list(contestant.phases or ())
        for name, taken in zip(names, times[impl].reshape(-1, len(names)).T, strict=True):
            rows.append(
                {
                    "model": "mlp",
                    "batch": PHASES_BATCH,
                    **labelled(impl, options.threads),
                    "phase": name,
                    **timing(taken),
                }
            )
        print(
            f"{impl:15}: "
            + ", ".join(f"{r['phase']} {r['min_ms']:.3g}" for r in rows[-len(names) :])
            + " ms"
        )
    return rows


Op = tuple[Callable[[], Any], Callable[[], Any]]


def one_element_ops(threads: int) -> dict[str, dict[str, Op]]:
    """Return, by engine and op, functions for the forward alone and with the backward."""

    def of(a: Any, b: Any, none: Any, made: Callable[[Any], Any] = lambda f: f) -> dict[str, Op]:
        def chain() -> Any:
            y = a
            for _ in range(10):
                y = y * b
            return y

        def both(forward: Callable[[], Any]) -> Op:
            step = made(lambda: forward().backward())

            def run() -> None:
                step()
                a.grad = b.grad = none

            return made(forward), run

        forwards = {"mul": lambda: a * b, "exp": a.exp, "chain of 10 muls": chain}
        return {name: both(forward) for name, forward in forwards.items()}

    ops = {
        "smolgrad-eager": of(*(Tensor([v], requires_grad=True) for v in (1.5, 0.5)), None),
        "smolgrad-compiled": of(
            *(Tensor([v], requires_grad=True) for v in (1.5, 0.5)), None, tensor.compile
        ),
        "micro": of(micro.Value(1.5), micro.Value(0.5), 0),
    }
    if not absent("torch"):
        torch = import_torch(threads, "bench.py")
        ops["torch"] = of(*(torch.tensor([v], requires_grad=True) for v in (1.5, 0.5)), None)
    return ops


def time_overhead(options: Options) -> list[dict[str, Any]]:
    """Return rows for ops on one element, in microseconds a call."""

    def calls(function: Callable[[], Any]) -> list[float]:
        start = time.perf_counter()
        for _ in range(CALLS):
            function()
        return [1e6 * (time.perf_counter() - start) / CALLS]

    rows, generator = [], Generator(options.seed)
    engines = one_element_ops(options.threads)
    for op in next(iter(engines.values())):
        for i, what in enumerate(("forward", "forward and backward")):
            actions = {
                impl: (lambda function=ops[op][i]: calls(function)) for impl, ops in engines.items()
            }
            times = in_turns(actions, 10 * options.repeats, generator)
            found = [
                {
                    "op": op,
                    "what": what,
                    **labelled(impl, options.threads),
                    **timing(taken, "us"),
                }
                for impl, taken in times.items()
            ]
            rows += found
            print(
                f"{op}, {what}: "
                + ", ".join(f"{r['impl']} {r['min_us']:.2f}" for r in found)
                + " us"
            )
    return rows


def time_scaling(impls: Sequence[str], options: Options) -> list[dict[str, Any]]:
    """Return rows for time and peak memory by batch, width and depth."""
    rows, generator = [], Generator(options.seed)
    chosen = [impl for impl in impls if impl in SCALED]
    for sweep, cases in SWEEPS.items():
        for value, (batch, sizes) in progress(cases.items(), desc=sweep, unit="case"):
            work = Workload.make("mlp", batch, sizes, options.seed)
            entered = enter(work, chosen, options.threads)
            actions = {impl: _turn_of(contestant.step) for impl, contestant in entered.items()}
            times = in_turns(actions, max(1, options.repeats // 2), generator, REST)
            del entered, actions
            found = [
                {
                    "sweep": sweep,
                    "value": value,
                    "batch": batch,
                    "sizes": list(sizes),
                    **labelled(impl, options.threads),
                    **timing(taken),
                    "peak_mb": in_its_own_process(peak_memory, impl, batch, sizes, options.threads),
                }
                for impl, taken in times.items()
            ]
            rows += found
            print(
                f"{sweep} {value:4}: "
                + ", ".join(f"{r['impl']} {r['min_ms']:.3g} ms {r['peak_mb']} MB" for r in found)
            )
    return rows


def in_its_own_process(function: Callable[..., Any], *arguments: Any) -> Any:
    """Return what a function returns in a fresh process, in which nothing was allocated yet."""
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=context) as pool:
        return pool.submit(function, *arguments).result()


def peak_memory(impl: str, batch: int, sizes: tuple[int, ...], threads: int) -> float | None:
    """Return by how many megabytes the process grows, at most, as a model is made and trained.

    None where the system does not say. The batch and the initial weights are there before.
    """
    status, peak = Path("/proc/self/status"), Path("/proc/self/clear_refs")
    if not (status.exists() and peak.exists()):
        return None
    limit_threads(threads)

    def kilobytes(field: str) -> int:
        line = next(li for li in status.read_text().splitlines() if li.startswith(field))
        return int(line.split()[1])

    warm = CONTESTANTS[impl](Workload.make("mlp", 64, (256, 256, 256)), threads)
    warm.step()  # so that libraries are loaded and have their own buffers
    del warm
    work = Workload.make("mlp", batch, sizes)
    before = kilobytes("VmRSS")
    peak.write_text("5")  # sets the peak to what is now
    contestant = CONTESTANTS[impl](work, threads)
    for _ in range(3):
        contestant.step()
    return rounded((kilobytes("VmHWM") - before) / 1024, 4)


# The program


def main(options: Options) -> None:
    """Measure, report, and write the results."""
    check_out(options.out if options.json is None else options.json.parent)
    models = listed("models", options.models, MODELS)
    batches = numbers("batches", options.batches)
    asked = listed("impls", options.impls, CONTESTANTS)
    sections = listed("sections", options.sections, SECTIONS)
    check_range("repeats", options.repeats, 1)
    check_range("seed", options.seed, 0)
    threads = limit_threads(options.threads)
    if options.kernels is not None:
        tensor.use_kernels(options.kernels)
        os.environ["SMOLGRAD_KERNELS"] = options.kernels  # for the processes that measure memory
    missing = {impl: why for impl in asked if (why := absent(impl))}
    impls = [impl for impl in asked if impl not in missing]
    for impl, why in missing.items():
        print(f"without {impl}: {why}")
    if not impls:
        raise SystemExit("--impls names nobody who can take part here")
    wait_for_quiet(options.wait_load)
    result: dict[str, Any] = {
        "command": command(),
        **environment(threads, ("numpy", "torch", "jax", "autograd", "smolgrad")),
        "repeats": options.repeats,
        "absent": missing,
        "rows": [],
    }
    if "steps" in sections:
        result["rows"] = time_steps(impls, models, batches, options)
    if "phases" in sections:
        result["phases"] = time_phases(impls, options)
    if "overhead" in sections:
        result["overhead"] = time_overhead(options)
    if "scaling" in sections:
        result["scaling"] = time_scaling(impls, options)
    name = tagged(f"bench_threads{threads}", options.kernels or "")
    name = tagged(name, options.tag)
    path = write_json(options.json or options.out / f"{name}.json", result)
    print(f"written: {path}")


if __name__ == "__main__":
    main(tyro.cli(Options, description=__doc__))
