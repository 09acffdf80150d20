"""Run the proof in full, or go on with it: random programs in three engines, and exact ones.

    python -m tests.crosscheck.prove [--programs N] [--exact N] [--jobs N] [--out FOLDER]

The work is cut into blocks, each kept on disk when it is done, so that a run that was interrupted
goes on where it stopped. Blocks are kept by a digest of the sources: a change of any engine or of
the checks starts over. The figures go to proof.json and, to be read, to proof.md.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.metadata
import json
import multiprocessing
import os
import platform
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # one process for each core is enough
os.environ.setdefault("OMP_NUM_THREADS", "1")

from tqdm import tqdm

from tests.crosscheck import draws, generate
from tests.crosscheck.bounds import C
from tests.crosscheck.check import OUTLIERS, Disagreement, Report, check, check_exact, shrunk
from tests.crosscheck.generate import NoProgramError, draw, pairs
from tests.crosscheck.page import with_section
from tests.crosscheck.programs import Program
from tests.structure import ROOT

__all__ = ["main", "prove"]

BLOCK: Final = 500
FIRST_SEED: Final = 1_000_000  # the everyday suite draws from smaller ones
KEPT: Final = 20  # failures of a block that are shrunk and printed

OPS: Final = draws.OPS
EXACT_OPS: Final = [name for name in OPS if name in generate.EXACT]
PAIRS: Final = pairs(OPS)


def digest() -> str:
    """What the sources are, in short."""
    total = hashlib.sha256()
    folders = ("micro", "tensor", "tests/crosscheck", "tests/tensor/ops")
    for path in sorted(p for folder in folders for p in (ROOT / folder).rglob("*.py")):
        total.update(path.relative_to(ROOT).as_posix().encode() + b"\0" + path.read_bytes())
    return total.hexdigest()[:16]


def _random_block(seeds: Sequence[int]) -> dict[str, Any]:
    report, undrawn, failures = Report(), [], []
    found: Counter[str] = Counter()
    direct: Counter[str] = Counter()
    ops: Counter[str] = Counter()
    for seed in seeds:
        pair = PAIRS[seed % len(PAIRS)]
        try:
            program = draw(seed, pair=pair, ops=OPS)
        except NoProgramError:
            undrawn.append(" ".join(pair))
            continue
        ops.update(step.op for step in program.steps)
        for first, second, directly in program.pairs():
            found[f"{first} {second}"] += 1
            direct[f"{first} {second}"] += directly
        failures += _failure(program, lambda p: check(p, report))
    return {
        "programs": len(seeds) - len(undrawn),
        "numbers": report.numbers,
        "unbounded": report.unbounded,
        "refused": report.refused,
        "worst": report.worst,
        "ops": ops,
        "pairs": found,
        "direct": direct,
        "undrawn": undrawn,
        "failures": failures,
    }


def _exact_block(seeds: Sequence[int]) -> dict[str, Any]:
    exact, failures = 0, []
    ops: Counter[str] = Counter()

    def checked(program: Program) -> None:
        nonlocal exact
        if check_exact(program):
            exact += 1
            ops.update(step.op for step in program.steps)

    for seed in seeds:
        failures += _failure(draw(seed, ops=EXACT_OPS, exact=True), checked)
    return {"drawn": len(seeds), "exact": exact, "ops": ops, "failures": failures}


def _failure(program: Program, checker: Callable[[Program], object]) -> list[dict[str, Any]]:
    """What is wrong with a program, and the smallest one that shows it; nothing if it is right."""

    def fails(candidate: Program) -> bool:
        try:
            checker(candidate)
        except Disagreement:
            return True
        return False

    try:
        checker(program)
    except Disagreement as error:
        what = str(error).partition("\n")[0]
        return [{"seed": program.seed, "what": what, "program": str(shrunk(program, fails))}]
    except Exception as error:  # noqa: BLE001 - a crash is a finding too, not the end of the run
        what = f"{type(error).__name__}: {error}"
        return [{"seed": program.seed, "what": what, "program": str(program)}]
    return []


BLOCKS: Final[dict[str, Callable[[Sequence[int]], dict[str, Any]]]] = {
    "random": _random_block,
    "exact": _exact_block,
}


def _work(job: tuple[str, int, int, str]) -> dict[str, Any]:
    """Do one block, and keep it."""
    kind, start, stop, path = job
    begun = time.perf_counter()
    result = BLOCKS[kind](range(start, stop)) | {"seconds": time.perf_counter() - begun}
    part = Path(path).with_suffix(".part")
    part.write_text(json.dumps(result), "utf-8")
    part.rename(path)
    return result


@contextmanager
def _workers(count: int) -> Iterator[Callable[..., Iterable[Any]]]:
    """A ``map`` over so many processes, in whatever order they finish; over one, without any."""
    if count <= 1:
        yield map
        return
    with multiprocessing.get_context("spawn").Pool(count) as pool:
        yield pool.imap_unordered


def prove(programs: int, exact: int, jobs: int, state: Path) -> dict[str, Any]:
    """Do what is not done yet of so many programs of each kind, and sum it up."""
    folder = state / digest()
    folder.mkdir(parents=True, exist_ok=True)
    wanted: list[tuple[str, int, int, str]] = []
    for kind, count in (("random", programs), ("exact", exact)):
        for start in range(0, count, BLOCK):
            stop = min(start + BLOCK, count)
            name = f"{kind}-{FIRST_SEED + start}-{FIRST_SEED + stop}.json"
            wanted.append((kind, FIRST_SEED + start, FIRST_SEED + stop, str(folder / name)))
    missing = [job for job in wanted if not Path(job[3]).exists()]
    sys.stderr.write(f"{len(wanted) - len(missing)} of {len(wanted)} blocks are done already\n")
    with _workers(min(jobs, len(missing))) as work:
        for _ in tqdm(work(_work, missing), total=len(missing), unit="block", disable=None):
            pass
    results: dict[str, list[dict[str, Any]]] = {kind: [] for kind in BLOCKS}
    for kind, _, _, path in wanted:
        results[kind].append(json.loads(Path(path).read_text("utf-8")))
    return {
        "random programs": _random_summary(results["random"]),
        "exact programs": _exact_summary(results["exact"]),
        "machine": _machine(jobs),
    }


def _summed(results: list[dict[str, Any]], key: str) -> Counter[str]:
    return sum((Counter(r[key]) for r in results), Counter())


def _random_summary(results: list[dict[str, Any]]) -> dict[str, Any]:
    hit, ops = _summed(results, "pairs"), _summed(results, "ops")
    wanted = {" ".join(pair) for pair in PAIRS}
    worst: dict[str, float] = {}
    for result in results:
        for engine, ratio in result["worst"].items():
            worst[engine] = max(worst.get(engine, 0.0), ratio)
    counts = [hit[pair] for pair in wanted]
    programs = sum(r["programs"] for r in results)
    return {
        "programs": programs,
        "seeds": [FIRST_SEED, FIRST_SEED + programs],
        "numbers compared": sum(r["numbers"] for r in results),
        "numbers without a finite bound": sum(r["unbounded"] for r in results),
        "left aside, as a change in place was refused": sum(r["refused"] for r in results),
        "failures": [failure for r in results for failure in r["failures"]][:KEPT],
        "failure count": sum(len(r["failures"]) for r in results),
        "worst error in units of u B": {k: round(v, 2) for k, v in sorted(worst.items())},
        "allowed": C,
        "ops": len(ops),
        "calls of the rarest op": min(ops.values(), default=0),
        "pairs": len(wanted),
        "pairs hit": sum(count > 0 for count in counts),
        "pairs hit directly": sum(pair in wanted for pair in _summed(results, "direct")),
        "hits of the rarest pair": min(counts, default=0),
        "pairs not hit": sorted(pair for pair in wanted if not hit[pair])[:KEPT],
        "pairs that could not be drawn": sorted({p for r in results for p in r["undrawn"]})[:KEPT],
        "core seconds": round(sum(r["seconds"] for r in results)),
    }


def _exact_summary(results: list[dict[str, Any]]) -> dict[str, Any]:
    ops = _summed(results, "ops")
    return {
        "drawn": sum(r["drawn"] for r in results),
        "exact": sum(r["exact"] for r in results),
        "failures": [failure for r in results for failure in r["failures"]][:KEPT],
        "failure count": sum(len(r["failures"]) for r in results),
        "ops": len(ops),
        "calls of the rarest op": min(ops.values(), default=0),
        "core seconds": round(sum(r["seconds"] for r in results)),
    }


def _machine(jobs: int) -> dict[str, Any]:
    libraries = ("numpy", "torch", "hypothesis", "smolgrad")
    return {
        "system": platform.platform(),
        "processor": platform.processor() or platform.machine(),
        "cores": os.cpu_count(),
        "jobs": jobs,
        "python": platform.python_version(),
        **{name: importlib.metadata.version(name) for name in libraries},
        "sources": digest(),
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
    }


def sections(proof: dict[str, Any]) -> dict[str, str]:
    """The figures as sections of a page, by title."""
    random, exact, machine = (proof[k] for k in ("random programs", "exact programs", "machine"))
    in_three = [
        (
            "Programs of a few steps over the whole vocabulary go through `micro` (expanded to "
            "single numbers), `tensor` and PyTorch: values, gradients, second derivatives; float64 "
            "and float32. An error may be at most c u B; B follows from the computation itself "
            "(tests/crosscheck/bounds.py says how, and what c is)."
        ),
        "",
        "| what | figure |",
        "|---|---|",
        f"| programs | {random['programs']:,} |",
        f"| numbers compared | {random['numbers compared']:,} |",
        f"| of these without a finite bound | {random['numbers without a finite bound']:,} |",
        (
            f"| left aside, as an engine refused to follow a change in place | "
            f"{random['left aside, as a change in place was refused']:,} |"
        ),
        f"| unexplained differences | {random['failure count']} |",
        f"| ops | {random['ops']}, the rarest called {random['calls of the rarest op']:,} times |",
        (
            f"| ordered pairs of ops | {random['pairs hit']:,} of {random['pairs']:,} hit, "
            f"{random['pairs hit directly']:,} with nothing between; "
            f"the rarest {random['hits of the rarest pair']:,} times |"
        ),
        *(
            f"| worst error of {engine}, of {random['allowed']} allowed | {ratio} u B |"
            for engine, ratio in random["worst error in units of u B"].items()
        ),
        "",
        "PyTorch's own derivatives of some ops go beyond the bound:",
        "",
        *(f"- `{op}`: {outlier.reason}" for op, outlier in OUTLIERS.items()),
    ]
    bits = [
        (
            "Rational ops on short binary fractions, where nothing rounds: `Fraction` and float in "
            "`micro`, both precisions of `tensor` and PyTorch, two orders, no tolerance."
        ),
        "",
        "| what | figure |",
        "|---|---|",
        f"| programs in which nothing rounds | {exact['exact']:,} of {exact['drawn']:,} drawn |",
        f"| in which any bit differs | {exact['failure count']} |",
        f"| ops | {exact['ops']}, the rarest called {exact['calls of the rarest op']:,} times |",
    ]
    where = [
        "Made by `make prove`; all figures are in [proof.json](proof.json).",
        "",
        "| what | value |",
        "|---|---|",
        *(f"| {what} | {value} |" for what, value in machine.items()),
        f"| seeds | {random['seeds'][0]:,} to {random['seeds'][1]:,} |",
    ]
    for lines, failures in ((in_three, random["failures"]), (bits, exact["failures"])):
        for failure in failures:
            lines += ["", f"### Seed {failure['seed']}: {failure['what']}", "", "```python"]
            lines += [failure["program"], "```"]
    return {
        "Random programs in three engines": "\n".join(in_three),
        "Exact arithmetic": "\n".join(bits),
        "Where the programs ran": "\n".join(where),
    }


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; the exit status says whether everything agreed."""
    parser = argparse.ArgumentParser(prog="make prove", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--programs", type=int, default=200_000, help="random programs")
    parser.add_argument("--exact", type=int, default=12_000, help="exact programs to draw")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes")
    parser.add_argument("--out", type=Path, default=ROOT / "results", help="folder of the figures")
    parser.add_argument("--state", type=Path, default=ROOT / ".prove", help="folder of the blocks")
    options = parser.parse_args(argv)
    for name in ("programs", "exact", "jobs"):
        if getattr(options, name) < (name == "jobs"):
            parser.error(f"--{name} must not be negative, got {getattr(options, name)}")
    proof = prove(options.programs, options.exact, options.jobs, options.state)
    options.out.mkdir(parents=True, exist_ok=True)
    path = options.out / "proof.json"
    before = json.loads(path.read_text("utf-8")) if path.exists() else {}
    path.write_text(json.dumps(before | proof, indent=1) + "\n", "utf-8")
    page = options.out / "proof.md"
    text = page.read_text("utf-8") if page.exists() else "# Proof\n"
    for title, section in sections(proof).items():
        text = with_section(text, title, section)
    page.write_text(text, "utf-8")
    wrong = sum(proof[f"{kind} programs"]["failure count"] for kind in BLOCKS)
    sys.stdout.write(f"{wrong} unexplained differences; see {options.out / 'proof.md'}\n")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
