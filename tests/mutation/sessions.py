"""Sessions of pytest that collect the tests once, and run some of them in forked processes.

What a fork does to the project is gone with it, so every mutant meets the same clean process.
"""

from __future__ import annotations

import gc
import hashlib
import json
import os
import resource
import signal
import sys
import threading
import time
import traceback
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from types import FrameType
from typing import Any, Final

import pytest
from hypothesis import Phase, settings

from tests.structure import ROOT

__all__ = ["Ran", "Session", "digest_of", "forked", "main", "traced"]

CLOCKS: Final = (signal.SIGPROF, signal.SIGALRM)
WAITING: Final = 40  # times as long as it may compute a fork may take by the clock on the wall
MEMORY: Final = 4 << 30  # bytes that a fork may have beyond what it began with


@dataclass
class Ran:
    """What a test does: how long it takes, watched, and which lines of which files it runs."""

    test: str
    file: str  # a digest of the file that it stands in
    seconds: float
    lines: Mapping[str, list[int]] | None  # None if it fails when it is watched


def main(arguments: Sequence[str], plugin: object) -> int:
    """Run pytest quietly on the project, with a plugin of ours."""
    os.environ["SMOLGRAD_KERNELS"] = "numpy"
    os.environ["HYPOTHESIS_PROFILE"] = "mutation"
    # As the everyday profile, but a test that fails need not find the simplest example.
    quick = (Phase.explicit, Phase.generate)
    settings.register_profile("mutation", deadline=None, derandomize=True, phases=quick)
    options = ["-q", "--tb=no", "-p", "no:cacheprovider", "--rootdir", str(ROOT)]
    options += ["-W", "ignore::pytest.PytestAssertRewriteWarning"]  # hypothesis is here already
    return int(pytest.main([*options, *arguments], plugins=[plugin]))


@dataclass(eq=False)
class Session:
    """A plugin that calls ``loop`` in the place of pytest's own loop over the tests."""

    loop: Callable[[Session], None]
    chosen: Collection[str] = ()
    items: dict[str, pytest.Item] = field(default_factory=dict)
    failed: list[str] = field(default_factory=list)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self.failed.append(report.nodeid)

    def pytest_collection_modifyitems(
        self, session: pytest.Session, config: pytest.Config, items: list[pytest.Item]
    ) -> None:
        if self.chosen:
            items[:] = [item for item in items if item.nodeid in self.chosen]

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self.failed.append(report.nodeid)

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        self.items = {item.nodeid: item for item in session.items}
        self.loop(self)
        return True

    def run(self, tests: Iterable[str], before: Callable[[], object] | None = None) -> int:
        """Run tests until one fails; how many were run. ``before`` is called before each."""
        items = [self.items[test] for test in tests if test in self.items]
        for i, item in enumerate(items):
            if before is not None:
                before()
            following = items[i + 1] if i + 1 < len(items) else None
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            if self.failed:
                return i + 1
        return len(items)


@cache
def _digest(path: str) -> str:
    return hashlib.sha256((ROOT / path).read_bytes()).hexdigest()[:16]


def digest_of(test: str) -> str:
    """A digest of the file that a test stands in, or "" if there is none."""
    path = test.partition("::")[0]
    return _digest(path) if (ROOT / path).is_file() else ""


def forked(
    jobs: Sequence[Any],
    work: Callable[[Any], Mapping[str, Any]],
    patience: Callable[[Any], float],
    workers: int,
) -> Iterator[tuple[Any, dict[str, Any] | str, float]]:
    """Do each job in a fork, several at a time: the job, its result and how long it took.

    In the place of a result stands "timeout", if the process computed for longer than
    ``patience`` says, or "died", if it was ended by what it did.
    """
    gc.collect()
    gc.freeze()
    waiting, running = list(reversed(jobs)), {}
    while waiting or running:
        while waiting and len(running) < workers:
            job = waiting.pop()
            reading, writing = os.pipe()
            process = os.fork()
            if process == 0:
                status = 1
                try:
                    os.close(reading)
                    _bounded(patience(job))
                    with open(writing, "w", encoding="utf-8") as file:
                        json.dump(work(job), file)
                    status = 0
                except BaseException:  # noqa: BLE001 - the process ends here
                    traceback.print_exc()
                finally:
                    os._exit(status)
            os.close(writing)
            running[process] = job, reading, time.perf_counter()
        process, status = os.waitpid(-1, 0)
        job, reading, begun = running.pop(process)
        with open(reading, encoding="utf-8") as file:
            text = file.read()
        took = time.perf_counter() - begun
        if status == 0 and text:
            yield job, json.loads(text), took
        else:
            late = os.WIFSIGNALED(status) and os.WTERMSIG(status) in CLOCKS
            yield job, "timeout" if late else "died", took


def _bounded(seconds: float) -> None:
    """Give this process so much time, and not all the memory of the machine."""
    for clock in CLOCKS:
        signal.signal(clock, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_PROF, seconds)  # of computing, however busy the machine is
    signal.setitimer(signal.ITIMER_REAL, WAITING * seconds)  # it may also wait for ever
    pages = int(Path("/proc/self/statm").read_text("ascii").split()[0])
    limit = pages * resource.getpagesize() + MEMORY
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


def traced(session: Session, tests: Sequence[str], paths: Sequence[str]) -> Iterator[Ran]:
    """Run tests, and tell of each that passes which lines of some files it runs."""
    names = {str(ROOT / path): path for path in paths}
    lines: dict[str, set[int]] = defaultdict(set)

    def trace(frame: FrameType, event: str, argument: Any) -> Any:
        if event == "call":
            name = names.get(frame.f_code.co_filename)
            if name is None:
                return None
            seen = lines[name]

            def local(frame: FrameType, event: str, argument: Any) -> Any:
                seen.add(frame.f_lineno)
                return local

            return local(frame, event, argument)
        return None

    for i, test in enumerate(tests):
        item = session.items[test]
        following = session.items[tests[i + 1]] if i + 1 < len(tests) else None
        lines.clear()
        begun = time.perf_counter()
        threading.settrace(trace)
        sys.settrace(trace)
        try:
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
        finally:
            sys.settrace(None)
            threading.settrace(None)  # type: ignore[arg-type]
        took = time.perf_counter() - begun
        found = {name: sorted(seen) for name, seen in lines.items()}
        yield Ran(test, digest_of(test), round(took, 4), None if session.failed else found)
        session.failed.clear()
