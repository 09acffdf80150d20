"""What only shows after long: chains, memory, threads and tasks, and two runs of one program.

    python -m tests.crosscheck.endurance [--only PART ...] [--out FOLDER]

- A chain of a million ops goes forward, back and is freed at the default recursion limit, and takes
  at most twelve times as long as one of a hundred thousand, in both engines.
- Ten thousand training steps without the garbage collector leave at most 1 KiB behind, of small
  models, and of one with a million parameters, op by op and compiled.
- While some threads, or asyncio tasks, train, a hundred others switch gradients off and on: nobody
  sees another's mode, and every gradient is right.
- Two processes that train the same model end with the same weights to the bit.

The figures go to endurance.json, and become a section of proof.md.
"""

from __future__ import annotations

import argparse
import asyncio
import functools
import gc
import hashlib
import itertools
import json
import os
import subprocess
import sys
import threading
import time
import tracemalloc
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import numpy as np

import micro
import tensor
from tensor import Tensor, is_grad_enabled, nn, no_grad, optim
from tests.crosscheck.page import with_section
from tests.structure import ROOT

__all__ = ["LIMITS", "chain_seconds", "digest_elsewhere", "growth", "tasks", "threads", "trained"]

TITLE: Final = "Endurance"

LIMITS: Final = {"chain": 12.0, "growth": 1024, "resident": 2**23, "wrong": 0, "digests": 1}

# One thread, so that sums are taken in one order.
ONE_THREAD: Final = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}


@contextmanager
def collector_off() -> Iterator[None]:
    enabled = gc.isenabled()
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


# Chains


def _array_chain(length: int) -> float:
    x = Tensor(np.array(1.0), requires_grad=True)
    y = x
    for _ in range(length):
        y = y + x
    y.backward()
    assert x.grad is not None
    return x.grad.item()


def _scalar_chain(length: int) -> float:
    x = micro.Value(1.0)
    y = x
    for _ in range(length):
        y = y + x
    y.backward()
    return float(x.grad)


CHAINS: Final = {"tensor": _array_chain, "micro": _scalar_chain}


def chain_seconds(engine: str, length: int) -> float:
    """The processor's time for a chain of additions, forward, backward and freed.

    Raises:
        ArithmeticError: the gradient is not that of every use of the leaf.
    """
    with collector_off():
        begun = time.process_time()
        slope = CHAINS[engine](length)
        seconds = time.process_time() - begun
    if slope != length + 1:
        raise ArithmeticError(f"{engine}: the gradient of a chain of {length} is {slope}")
    return seconds


# Memory


def _model(seed: int = 0) -> tuple[nn.Module, Tensor, Tensor]:
    tensor.manual_seed(seed)
    rng = np.random.default_rng(seed)
    model = nn.Sequential(
        nn.Linear(8, 16), nn.LayerNorm(16), nn.GELU(), nn.Dropout(0.1), nn.Linear(16, 4)
    )
    x = Tensor(rng.normal(size=(32, 8)).astype(np.float32))
    return model, x, Tensor(rng.integers(0, 4, 32))


def _array_step() -> Callable[[], object]:
    model, x, classes = _model()
    rule = optim.AdamW(model.parameters(), lr=1e-3)

    def step() -> None:
        rule.zero_grad()
        nn.functional.cross_entropy(model(x), classes).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        rule.step()

    return step


def _scalar_step() -> Callable[[], object]:
    model = micro.nn.MLP(2, [3, 1])
    rule = micro.optim.Adam(model.parameters(), lr=1e-3)

    def step() -> None:
        rule.zero_grad()
        loss: Any = (model([0.5, -1.5]) - 1.0) ** 2
        loss.backward()
        rule.step()

    return step


# Sizes of the layers of a network with 1,061,386 parameters.
MILLION: Final = (256, 1024, 512, 512, 10)


def _large_step(compiled: bool, sizes: Sequence[int] = MILLION) -> Callable[[], object]:
    tensor.manual_seed(0)
    layers: list[nn.Module] = []
    for inner, outer in itertools.pairwise(sizes):
        layers += [nn.Linear(inner, outer), nn.ReLU()]
    model = nn.Sequential(*layers[:-1])
    rule = optim.AdamW(model.parameters(), lr=1e-4)
    rng = np.random.default_rng(0)
    x = Tensor(rng.normal(size=(8, sizes[0])).astype(np.float32))
    classes = Tensor(rng.integers(0, sizes[-1], 8))

    def step(x: Tensor, classes: Tensor) -> None:
        rule.zero_grad()
        nn.functional.cross_entropy(model(x), classes).backward()
        rule.step()

    return functools.partial(tensor.compile(step) if compiled else step, x, classes)


STEPS: Final[dict[str, Callable[[], Callable[[], object]]]] = {
    "tensor": _array_step,
    "micro": _scalar_step,
    "a million parameters": functools.partial(_large_step, compiled=False),
    "a million parameters, compiled": functools.partial(_large_step, compiled=True),
}


def growth(step: Callable[[], object], count: int, warm_up: int) -> tuple[int, int]:
    """How many bytes more are allocated after ``count`` steps, and how many objects lie in cycles.

    The collector is off while steps are taken. At both ends it runs once: Python keeps up to some
    thousands of tuples that were freed, which count as allocated until a collection lets them go.
    What it finds besides are objects that only a collector can free.
    """
    step()  # what is compiled or imported the first time is no business of ours
    with collector_off():
        tracemalloc.start()
        try:
            for _ in range(warm_up):
                step()
            gc.collect()
            before = tracemalloc.get_traced_memory()[0]
            for _ in range(count):
                step()
            unreachable = gc.collect()
            return tracemalloc.get_traced_memory()[0] - before, unreachable
        finally:
            tracemalloc.stop()


def resident() -> int:
    """How many bytes of memory the process has; 0 where the system does not say."""
    path = Path("/proc/self/statm")
    if not path.exists():
        return 0
    return int(path.read_text("utf-8").split()[1]) * os.sysconf("SC_PAGE_SIZE")


# Modes


def _right(rng: np.random.Generator) -> bool:
    """Whether a small gradient is recorded and right."""
    x = Tensor(rng.normal(size=5), requires_grad=True)
    y = (x * x * x).sum()
    if not y.requires_grad:
        return False
    y.backward()
    return x.grad is not None and np.allclose(x.grad.data, 3 * x.data**2, rtol=1e-14)


def threads(toggling: int, training: int, rounds: int) -> int:
    """How often something was wrong while threads switched modes and others trained."""
    wrong, lock = [0], threading.Lock()
    start = threading.Barrier(toggling + training)

    def note(found: int) -> None:
        with lock:
            wrong[0] += found

    def toggle(seed: int) -> None:
        start.wait()
        found = 0
        for i in range(rounds):
            with no_grad():
                time.sleep(0)
                found += is_grad_enabled() or (Tensor([1.0], requires_grad=True) * i).requires_grad
            found += not is_grad_enabled()
        note(found)

    def train(seed: int) -> None:
        rng = np.random.default_rng(seed)
        start.wait()
        note(sum(not _right(rng) for _ in range(rounds)))

    workers = [threading.Thread(target=toggle, args=(i,)) for i in range(toggling)]
    workers += [threading.Thread(target=train, args=(i,)) for i in range(training)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return wrong[0] + (not is_grad_enabled())


def tasks(toggling: int, training: int, rounds: int) -> int:
    """The same with asyncio tasks, which are suspended within ``no_grad``."""

    async def toggle() -> int:
        found = 0
        for i in range(rounds):
            with no_grad():
                await asyncio.sleep(0)
                found += is_grad_enabled() or (Tensor([1.0], requires_grad=True) * i).requires_grad
            await asyncio.sleep(0)
            found += not is_grad_enabled()
        return found

    async def train(seed: int) -> int:
        rng, found = np.random.default_rng(seed), 0
        for _ in range(rounds):
            found += not _right(rng)
            await asyncio.sleep(0)
        return found

    async def run() -> int:
        jobs = [*(toggle() for _ in range(toggling)), *(train(i) for i in range(training))]
        return sum(await asyncio.gather(*jobs))

    return asyncio.run(run()) + (not is_grad_enabled())


# Two runs


def trained(steps: int) -> str:
    """The SHA-256 of all weights after so many steps of a model with dropout."""
    model, x, classes = _model(seed=5)
    rule = optim.AdamW(model.parameters(), lr=1e-2)
    for _ in range(steps):
        rule.zero_grad()
        nn.functional.cross_entropy(model(x), classes).backward()
        rule.step()
    total = hashlib.sha256()
    for name, array in sorted(model.state_dict().items()):
        total.update(name.encode() + np.ascontiguousarray(array).tobytes())
    return total.hexdigest()


def digest_elsewhere(steps: int) -> str:
    """What ``trained`` returns in a process of its own, with one thread."""
    code = f"from tests.crosscheck.endurance import trained; print(trained({steps}))"
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env={**os.environ, **ONE_THREAD},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip()


# The program


def _chains() -> Iterator[tuple[str, dict[str, Any]]]:
    for engine in CHAINS:
        short = min(chain_seconds(engine, 100_000) for _ in range(3))
        long = min(chain_seconds(engine, 1_000_000) for _ in range(2))
        yield (
            f"chain, {engine}",
            {
                "seconds for 100,000": round(short, 3),
                "seconds for 1,000,000": round(long, 3),
                "ratio": round(long / short, 2),
                "right": long / short <= LIMITS["chain"],
            },
        )


def _memory() -> Iterator[tuple[str, dict[str, Any]]]:
    for engine, make in STEPS.items():
        step = make()
        growth(step, 100, warm_up=100)
        before = resident()
        left, unreachable = growth(step, 10_000, warm_up=500)
        more = max(0, resident() - before)
        yield (
            f"memory, {engine}",
            {
                "steps": 10_000,
                "bytes left behind": left,
                "objects in cycles": unreachable,
                "resident bytes more": more,
                "right": left <= LIMITS["growth"]
                and not unreachable
                and more <= LIMITS["resident"],
            },
        )


def _modes() -> Iterator[tuple[str, dict[str, Any]]]:
    for name, function in (("threads", threads), ("asyncio tasks", tasks)):
        wrong = function(100, 8, 300)
        yield name, {"toggling": 100, "training": 8, "wrong": wrong, "right": not wrong}


def _processes() -> Iterator[tuple[str, dict[str, Any]]]:
    digests = [digest_elsewhere(500) for _ in range(2)]
    same = len(set(digests)) == LIMITS["digests"]
    yield "two processes", {"SHA-256 of all weights": digests, "right": same}


PARTS: Final = {"chains": _chains, "memory": _memory, "modes": _modes, "processes": _processes}


def section(figures: dict[str, Any]) -> str:
    """The figures to be read."""
    lines = ["| what | found | allowed |", "|---|---|---|"]
    allowed = {
        "chain": f"{LIMITS['chain']:g} times the time of 100,000",
        "memory": f"{LIMITS['growth']:,} bytes, no cycle, {LIMITS['resident']:,} resident",
        "threads": "0 wrong",
        "asyncio tasks": "0 wrong",
        "two processes": "equal",
    }
    for name, found in figures.items():
        shown = ", ".join(
            f"{key}: {value:,}" if isinstance(value, int | float) else f"{key}: {value[0][:16]}..."
            for key, value in found.items()
            if key != "right"
        )
        verdict = "" if found["right"] else " **WRONG**"
        lines.append(f"| {name} | {shown}{verdict} | {allowed[name.partition(',')[0]]} |")
    return "\n".join(lines)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; the exit status says whether everything held."""
    parser = argparse.ArgumentParser(prog="make endure", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--only", nargs="*", choices=PARTS, default=[*PARTS], help="parts to do")
    parser.add_argument("--out", type=Path, default=ROOT / "results", help="folder of the figures")
    options = parser.parse_args(argv)
    options.out.mkdir(parents=True, exist_ok=True)
    path = options.out / "endurance.json"
    figures = json.loads(path.read_text("utf-8")) if path.exists() else {}
    for part in options.only:
        figures |= PARTS[part]()
    path.write_text(json.dumps(figures, indent=1) + "\n", "utf-8")
    page = options.out / "proof.md"
    before = page.read_text("utf-8") if page.exists() else "# Proof\n"
    page.write_text(with_section(before, TITLE, section(figures)), "utf-8")
    wrong = [name for name, found in figures.items() if not found["right"]]
    sys.stdout.write(f"{len(figures) - len(wrong)} of {len(figures)} hold {wrong}\n")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
