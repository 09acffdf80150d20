"""Run pytest again and again, each time in a process forked from this one.

Reads a line of JSON for each run, and answers with its exit status. What takes longest to import
and is no part of the project is imported once, here; the project is imported in the fork, as it is
then.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from typing import Final

import mpmath  # noqa: F401
import pytest
import torch  # noqa: F401

PATIENCE: Final = 1_800  # seconds


def run(arguments: list[str], output: str, kernels: str) -> int:
    """The exit status of pytest, whose output goes to a file."""
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        signal.alarm(PATIENCE)  # a fault may make a test run for ever
        status = 3
        try:
            with open(output, "w", encoding="utf-8") as file:
                os.dup2(file.fileno(), 1)
                os.dup2(file.fileno(), 2)
            os.environ["SMOLGRAD_KERNELS"] = kernels
            status = int(pytest.main(arguments))
            sys.stdout.flush()
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


if __name__ == "__main__":
    for line in sys.stdin:
        sys.stdout.write(f"{run(**json.loads(line))}\n")
        sys.stdout.flush()
