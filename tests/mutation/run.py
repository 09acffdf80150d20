"""Change the calculus in every way that cosmic-ray knows, and see which test notices.

    python -m tests.mutation.run [--only WORD ...] [--each N] [--seconds S ...] [--jobs N]

Every mutant runs in a process of its own, forked from one that has imported and collected
everything. The test that killed it when the table was last published comes first; then those that
run the mutated statement, the quickest of each kind first, and more of them for what survives
without a reason that is known. What was found is kept, so that a run that was interrupted goes on
where it stopped, and survivors are tried again when the tests have changed.
The results go to mutation.csv and mutation.json, and become a section of proof.md.
"""

from __future__ import annotations

import argparse
import os
import sys
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, TextIO

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # before numpy is imported
os.environ.setdefault("OMP_NUM_THREADS", "1")

import mpmath  # noqa: F401 - imported once, here, and not in every fork
import torch  # noqa: F401

from tests.mutation.report import publish
from tests.mutation.sessions import Session
from tests.mutation.sessions import main as pytest_main
from tests.mutation.survey import TESTS, Survey
from tests.structure import ROOT

__all__ = ["FILES", "in_forks", "main"]

FILES: Final = [
    *sorted(p.relative_to(ROOT).as_posix() for p in (ROOT / "tensor/rules").glob("*.py")),
    "tensor/engine.py",
    "tensor/passes.py",
    "tensor/gradients.py",
    *sorted(p.relative_to(ROOT).as_posix() for p in (ROOT / "tensor/optim").glob("*.py")),
    "tensor/kernels/optimizers.py",
    "micro/ops.py",
    "micro/optim.py",
]


def in_forks(survey: Survey, tests: Sequence[str], budgets: Sequence[float]) -> None:
    """Try the mutants: where everything is imported, then where nothing of the project is."""
    with (survey.known.path.parent / "pytest.log").open("w") as log:

        def collected() -> None:
            plugin = Session(lambda session: survey.in_place(session, budgets))
            if status := pytest_main(tests, plugin):
                raise RuntimeError(f"pytest ended with {status}; see {log.name}")

        _in_fork(collected, log)
        _in_fork(lambda: survey.imported(budgets), log)


def _in_fork(work: Callable[[], object], log: TextIO) -> None:
    """Do something in a process of its own, which then ends; raise if it fails."""
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            os.dup2(log.fileno(), 1)
            work()
            status = 0
        except Exception:  # noqa: BLE001 - the process ends here
            traceback.print_exc()
        finally:
            os._exit(status)
    if os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]):
        raise RuntimeError(f"a part of the run failed: the reason is above, or in {log.name}")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; the exit status says whether every survivor is explained."""
    parser = argparse.ArgumentParser(prog="make mutate", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--only", nargs="*", default=[], help="mutants of these files")
    parser.add_argument("--each", type=int, help="at most so many mutants of each file")
    parser.add_argument(
        "--seconds", nargs="*", type=float, default=[2, 10], help="of tests, in each round"
    )
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="mutants at a time")
    parser.add_argument("--out", type=Path, default=ROOT / "results", help="folder of the results")
    parser.add_argument(
        "--state", type=Path, default=ROOT / ".prove", help="folder of what is kept"
    )
    options = parser.parse_args(argv)
    files = [f for f in FILES if not options.only or any(word in f for word in options.only)]
    if not files or options.jobs < 1:
        parser.error("no such file is mutated" if not files else "--jobs must be positive")
    published = options.out / "mutation.csv"
    survey = Survey(files, options.each, options.jobs, options.state, published=published)
    if options.seconds:
        in_forks(survey, TESTS, options.seconds)
    summary = publish(survey, options.out)
    unexplained = summary["survivors"].get("not explained", 0)
    sys.stdout.write(
        f"{summary['killed']} of {summary['tried']} mutants are killed, "
        f"{summary['killed, of those tried']}; {unexplained} survivors are not explained\n"
    )
    return int(unexplained > 0)


if __name__ == "__main__":
    sys.exit(main())
