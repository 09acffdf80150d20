"""How numba compiles the loops here."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numba
from numba.extending import intrinsic

__all__ = ["exact", "instruction", "summing"]

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


def instruction(function: Callable[..., Any]) -> Any:
    """Make a function that emits code into one that compiled loops can call."""
    return intrinsic(function)
