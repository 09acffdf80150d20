"""Plant every fault of the catalogue in a copy of the project, and see which test catches it.

    python -m tests.faults.run [--only WORD ...] [--mapped] [--jobs N] [--out FOLDER]

Of each fault the tests that are named with it run first, and the whole everyday suite if none of
them fails; --mapped leaves it at the first. What was found is kept by a digest of the sources, so
that a run that was interrupted goes on where it stopped. The results go to faults.csv and
faults.json, and become a section of proof.md.
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import itertools
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from queue import SimpleQueue
from typing import Final

from tqdm import tqdm

from tests.crosscheck.page import with_section
from tests.crosscheck.prove import digest
from tests.faults.catalogue import FAULTS
from tests.faults.fault import Fault, Tests
from tests.structure import ROOT

__all__ = ["Copy", "Finding", "main", "planted", "scratch", "tried"]

TITLE: Final = "Planted faults"
LEFT_OUT: Final = shutil.ignore_patterns(
    *(".git", ".venv", "__pycache__", ".*_cache", ".hypothesis", ".prove", "*.egg-info", "results")
)


@dataclass(frozen=True)
class Finding:
    """What became of a fault: the test that failed, or "" if none did."""

    path: str
    breaks: str
    caught_by: str
    suite: str
    seconds: float


class Copy:
    """A copy of the project, and a process that runs tests in it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        # No bytecode: that of a source changed within a second would be taken for up to date.
        own = {"PYTHONPATH": str(path), "PYTHONDONTWRITEBYTECODE": "1", "PYTHONSAFEPATH": "1"}
        self.process = subprocess.Popen(
            [sys.executable, str(path / "tests/faults/nursery.py")],
            cwd=path,
            env={**os.environ, **own},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def pytest(self, arguments: Sequence[str], kernels: str) -> tuple[int, str]:
        """The exit status and the output of pytest."""
        assert self.process.stdin is not None and self.process.stdout is not None
        output = self.path.parent / "output"
        job = {"arguments": [*arguments], "output": str(output), "kernels": kernels}
        self.process.stdin.write(json.dumps(job) + "\n")
        self.process.stdin.flush()
        status = self.process.stdout.readline()
        return int(status or 3), output.read_text("utf-8")


@contextmanager
def scratch() -> Iterator[Copy]:
    """A copy of the project that is thrown away."""
    with tempfile.TemporaryDirectory(prefix="faults-") as folder:
        path = Path(folder) / "project"
        shutil.copytree(ROOT, path, ignore=LEFT_OUT)
        copy = Copy(path)
        with copy.process:
            yield copy
            assert copy.process.stdin is not None
            copy.process.stdin.close()


@contextmanager
def planted(fault: Fault, copy: Copy) -> Iterator[None]:
    """The copy with a fault in it, for as long as the block lasts.

    Raises:
        LookupError: the source is not what the fault was written for.
    """
    path = copy.path / fault.path
    source = path.read_text("utf-8")
    path.write_text(fault.applied(source), "utf-8")
    try:
        yield
    finally:
        path.write_text(source, "utf-8")


def tried(arguments: Tests, copy: Copy, kernels: str = "numpy") -> str:
    """The first test of a copy of the project that fails, or ""; tests that are gone do not fail.

    Raises:
        RuntimeError: pytest was ended by something else.
    """
    options = ("-x", "-q", "-rfE", "-p", "no:cacheprovider")
    status, output = copy.pytest((*options, *arguments), kernels)
    if status in (0, 4, 5):  # all passed; no such file; none of that name
        return ""
    failed = re.search(r"^(?:FAILED|ERROR) (.*?)(?: - .*)?$", output, re.MULTILINE)
    if failed is None or status > 2:
        raise RuntimeError(f"{' '.join(arguments)}: {output[-2000:]}")
    return failed[1]


def examined(fault: Fault, copy: Copy, mapped_only: bool) -> Finding:
    """What the tests find of one fault."""
    begun, suite = time.perf_counter(), "mapped"
    with planted(fault, copy):
        caught = tried(fault.tests, copy, fault.kernels)
        if not (caught or mapped_only):
            suite = "whole"
            caught = tried((), copy, fault.kernels)
    return Finding(fault.path, fault.breaks, caught, suite, round(time.perf_counter() - begun, 1))


def _key(fault: Fault) -> str:
    return hashlib.sha256("\0".join(map(str, fault)).encode()).hexdigest()[:16]


def survey(faults: Sequence[Fault], mapped_only: bool, jobs: int, state: Path) -> list[Finding]:
    """What becomes of every fault: what is known already, and what is tried now."""
    state.mkdir(parents=True, exist_ok=True)

    def one(fault: Fault) -> Finding:
        kept = state / f"fault-{_key(fault)}.json"
        if kept.exists():
            finding = Finding(**json.loads(kept.read_text("utf-8")))
            if finding.caught_by or mapped_only:
                return finding
        copy = copies.get()
        try:
            finding = examined(fault, copy, mapped_only)
        finally:
            copies.put(copy)
        kept.write_text(json.dumps(asdict(finding)), "utf-8")
        return finding

    copies: SimpleQueue[Copy] = SimpleQueue()  # one for each worker
    with ExitStack() as stack:
        for _ in range(jobs):
            copies.put(stack.enter_context(scratch()))
        pool = stack.enter_context(ThreadPoolExecutor(jobs))
        return [*tqdm(pool.map(one, faults), total=len(faults), unit="fault", disable=None)]


def section(findings: Sequence[Finding]) -> str:
    """The findings to be read: one line for each file."""
    all_of = Counter(f.path for f in findings)
    caught = Counter(f.path for f in findings if f.caught_by)
    survivors = [f for f in findings if not f.caught_by]
    return "\n".join(
        [
            (
                f"{sum(caught.values())} of {len(findings)} faults are caught by the everyday "
                "suite, each planted alone in a copy of the project. What each of them is, and "
                "which test fails first, is in [faults.csv](faults.csv)."
            ),
            "",
            "| file | faults | caught |",
            "|---|---|---|",
            *(f"| {path} | {count} | {caught[path]} |" for path, count in sorted(all_of.items())),
            *itertools.chain.from_iterable(
                ("", f"Not caught: {f.path}: {f.breaks}") for f in survivors
            ),
        ]
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; the exit status says whether every fault was caught."""
    parser = argparse.ArgumentParser(prog="make faults", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--only", nargs="*", default=[], help="faults of these files")
    parser.add_argument("--mapped", action="store_true", help="never run the whole suite")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="faults at a time")
    parser.add_argument("--out", type=Path, default=ROOT / "results", help="folder of the results")
    parser.add_argument(
        "--state", type=Path, default=ROOT / ".prove", help="folder of what is kept"
    )
    options = parser.parse_args(argv)
    chosen = [f for f in FAULTS if not options.only or any(word in f.path for word in options.only)]
    if not chosen or options.jobs < 1:
        parser.error("no fault is in these files" if not chosen else "--jobs must be positive")
    for fault in chosen:
        fault.applied((ROOT / fault.path).read_text("utf-8"))  # all of them, before any is tried
    findings = survey(chosen, options.mapped, options.jobs, options.state / digest())
    survivors = [f"{f.path}: {f.breaks}" for f in findings if not f.caught_by]
    options.out.mkdir(parents=True, exist_ok=True)
    with (options.out / "faults.csv").open("w", newline="", encoding="utf-8") as file:
        table = csv.DictWriter(file, list(asdict(findings[0])), lineterminator="\n")
        table.writeheader()
        table.writerows(map(asdict, findings))
    summary = {
        "faults": len(findings),
        "caught": len(findings) - len(survivors),
        "caught by the tests named with them": sum(
            f.suite == "mapped" and bool(f.caught_by) for f in findings
        ),
        "not caught": survivors,
        "sources": digest(),
    }
    (options.out / "faults.json").write_text(json.dumps(summary, indent=1) + "\n", "utf-8")
    page = options.out / "proof.md"
    text = page.read_text("utf-8") if page.exists() else "# Proof\n"
    page.write_text(with_section(text, TITLE, section(findings)), "utf-8")
    sys.stdout.write(f"{summary['caught']} of {summary['faults']} faults are caught\n")
    for survivor in survivors:
        sys.stdout.write(f"not caught: {survivor}\n")
    return int(bool(survivors))


if __name__ == "__main__":
    sys.exit(main())
