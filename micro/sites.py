"""Which line of the caller's code made a Value: noted only where that is asked for."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator

__all__ = ["WANTED", "caller", "record_sites"]

WANTED: list[None] = []  # one entry for each record_sites() in force, in any thread

_HERE = os.path.dirname(os.path.abspath(__file__)) + os.sep


@contextlib.contextmanager
def record_sites() -> Iterator[None]:
    """Have every op note, as ``site`` of what it makes, the line of code that called it.

    For drawings and players, which then show that line. Ops are slower inside, in all threads.

    >>> import micro
    >>> with micro.record_sites():
    ...     y = micro.Value(2.0) * 3
    >>> y.site.rpartition(":")[2]
    '2'
    """
    WANTED.append(None)
    try:
        yield
    finally:
        WANTED.pop()


def caller() -> str:
    """``file:line`` of the innermost caller outside this package."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_HERE):
        frame = frame.f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"
