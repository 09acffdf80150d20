"""Check the engine on this machine, and print one table.

    python -m tensor.verify [--quick] [--seed N]

The exit status is 1 if anything failed. What needs a library that is not installed is left out.
"""

from __future__ import annotations

import argparse
import platform
import sys
import time
from collections.abc import Mapping, Sequence

import numpy as np

from . import CHECKS, OUTSIDE, Result
from .checks import Check

__all__ = ["main"]

# Rounds of random numbers.
_ROUNDS, _QUICK = 5, 1

_SHOWN = 5  # failures of each check


def _line(what: str, result: Result, seconds: float) -> str:
    if result.missing:
        return f"{what:<50} {result.missing}"
    verdict = "FAILED" if result.failures else "ok"
    figure, bound = (f"{x:.2g}" for x in (result.worst, result.bound))
    return (
        f"{what:<50} {result.cases:>7,} {figure:>9} {bound:>7}  "
        f"{result.unit:<15} {seconds:>6.1f} s  {verdict}"
    )


def _tried(check: Check, seed: int, rounds: int) -> Result:
    """Return what a check finds; that it could not be done is a failure, and no end of the rest."""
    try:
        return check(seed, rounds)
    except Exception as error:  # noqa: BLE001 - whatever it is
        what = f"{type(error).__name__}: {error}"
        return Result(0, "broken off", cases=1, worst=1, failures=[what])


def main(argv: Sequence[str] | None = None, checks: Mapping[str, Check] | None = None) -> int:
    """Run the command line; the exit status says whether everything is right."""
    parser = argparse.ArgumentParser(
        prog="python -m tensor.verify", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument("--quick", action="store_true", help="a fifth of the cases")
    parser.add_argument("--seed", type=int, default=0, help="of all random numbers (default: 0)")
    options = parser.parse_args(argv)
    if options.seed < 0:
        parser.error(f"--seed must be 0 or more, got {options.seed}")
    rounds = _QUICK if options.quick else _ROUNDS
    write = sys.stdout.write
    write(
        f"Python {platform.python_version()}, numpy {np.__version__}, {platform.machine()}, "
        f"seed {options.seed}\n\n"
        f"{'checked':<50} {'cases':>7} {'worst':>9} {'allowed':>7}\n"
    )
    failures = 0
    for what, check in (checks or {**CHECKS, **OUTSIDE}).items():
        begun = time.perf_counter()
        result = _tried(check, options.seed, rounds)
        write(_line(what, result, time.perf_counter() - begun) + "\n")
        for failure in result.failures[:_SHOWN]:
            write(f"    {failure}\n")
        failures += len(result.failures)
        sys.stdout.flush()
    write(f"\n{'Everything holds.' if not failures else f'{failures} failures.'}\n")
    return int(failures > 0)


if __name__ == "__main__":
    sys.exit(main())
