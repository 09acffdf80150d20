"""How numba compiles the loops here, and shares their work among threads.

A shared loop uses as many threads as numpy's BLAS: what limits the one (an environment variable,
``threadpoolctl``) limits the other. Each thread computes elements of its own, in the order in which
one alone would, so that the number of threads changes no bit.

The threads are OpenMP's or TBB's, whichever numba finds. Its third kind breaks where two threads of
a program call at once, and OpenMP's do not survive a fork: loops then run in one thread.
"""

from __future__ import annotations

import ctypes
import functools
import importlib
import os
from collections.abc import Callable
from typing import Any, Final, TypeVar

import numba

__all__ = [
    "available",
    "divided",
    "exact",
    "parts",
    "portion",
    "run",
    "shared",
    "summing",
    "threads",
]

F = TypeVar("F", bound=Callable[..., Any])


def _compiled(function: F, **flags: Any) -> F:
    flags |= {"nogil": True, "error_model": "numpy"}
    try:
        return numba.njit(function, cache=True, **flags)  # type: ignore[no-any-return]
    except RuntimeError:  # there is no folder to keep it in
        return numba.njit(function, **flags)  # type: ignore[no-any-return]


def exact(function: F) -> F:
    """Compile a loop that rounds every operation."""
    return _compiled(function)


def summing(function: F) -> F:
    """Compile a loop that may take its sums in any order."""
    return _compiled(function, fastmath={"contract", "reassoc"})


def shared(function: F) -> F:
    """Compile a function whose ``prange`` hands parts of the work to threads; see ``run``."""
    return _compiled(function, parallel=True)


# Threads.


def _threads_of_blas() -> Callable[[], int]:
    """Return the function of numpy's BLAS that says how many threads it uses."""
    try:
        library = ctypes.CDLL(importlib.import_module("numpy._core._multiarray_umath").__file__)
    except (ImportError, OSError):
        return lambda: 0
    for name in ("scipy_openblas_get_num_threads64_", "openblas_get_num_threads"):
        if hasattr(library, name):
            return getattr(library, name)  # type: ignore[no-any-return]
    return lambda: 0  # another library, which is left alone


threads: Final = _threads_of_blas()

_SAFE: Final = ("omp", "tbb")


@shared
def _touched(count: Any) -> Any:
    total = 0
    for i in numba.prange(count):
        total += i
    return total


class _Pool:
    """numba's threads, which are started when they are first wanted."""

    def __init__(self) -> None:
        self._size: int | None = None
        os.register_at_fork(after_in_child=self._forked)

    def size(self) -> int:
        """Return how many threads there are; 1 if a loop cannot be shared safely."""
        if self._size is None:
            _touched(2)
            safe = numba.threading_layer() in _SAFE  # type: ignore[no-untyped-call]
            self._size = numba.config.NUMBA_NUM_THREADS if safe else 1  # type: ignore[attr-defined]
        return self._size

    def _forked(self) -> None:
        if self._size is not None:
            self._size = 1


_pool: Final = _Pool()


def available(most: int) -> bool:
    """Return whether loops can have all the threads that BLAS has, which are at most so many."""
    wanted = threads()
    return wanted == 1 or (1 < wanted <= most and wanted <= _pool.size())


def parts(work: int, least: int) -> int:
    """Return among how many threads to share so much work: none gets less than ``least``."""
    if work < 2 * least:
        return 1
    wanted = threads()
    return 1 if wanted < 2 else min(work // least, wanted, _pool.size())


def run(function: Callable[..., Any], count: int, *args: Any) -> None:
    """Call a shared function with its number of parts, of which each gets a thread."""
    before = numba.get_num_threads()  # type: ignore[no-untyped-call]
    if before == count:
        function(count, *args)
        return
    numba.set_num_threads(count)  # type: ignore[no-untyped-call]
    try:
        function(count, *args)
    finally:
        numba.set_num_threads(before)  # type: ignore[no-untyped-call]


@exact
def portion(length: Any, part: Any, count: Any, unit: Any) -> Any:
    """Return where one of so many parts of a length lies; all but the last are whole units."""
    units = (length + unit - 1) // unit
    start, stop = units * part // count * unit, units * (part + 1) // count * unit
    return slice(min(start, length), min(stop, length))


def divided(loop: F, least: int) -> Callable[[Callable[..., Any]], F]:
    """Return a decorator for what shares a loop: it makes a function that calls the one that fits.

    What is decorated takes the number of parts, and then what the loop takes. The first argument
    is an array whose size says how much work there is; no thread gets less than ``least`` elements.
    """

    def decorate(function: Callable[..., Any]) -> F:
        both = shared(function)

        @functools.wraps(function)
        def chosen(*args: Any) -> None:
            count = parts(args[0].size, least)
            if count > 1:
                run(both, count, *args)
            else:
                loop(*args)

        return chosen  # type: ignore[return-value]

    return decorate
