"""Half precision: worked on in single precision, and rounded once at the end.

A sum of halves that are added up one by one stops growing at 2048 ones, and squares overflow
beyond 255.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, ParamSpec

import numpy as np

__all__ = ["in_single"]

P = ParamSpec("P")


def in_single(function: Callable[P, Any]) -> Callable[P, Any]:
    """Have a kernel work in single precision where its first operand is a half.

    Every half among its operands is widened, and every single among its results is rounded.
    """

    @functools.wraps(function)
    def widened(*args: P.args, **kwargs: P.kwargs) -> Any:
        first: Any = args[0]
        if first.dtype != np.float16:
            return function(*args, **kwargs)
        wide: Any = [_converted(arg, np.float16, np.float32) for arg in args]
        named: Any = {k: _converted(arg, np.float16, np.float32) for k, arg in kwargs.items()}
        results = function(*wide, **named)
        if isinstance(results, tuple):
            return tuple(_converted(result, np.float32, np.float16) for result in results)
        return _converted(results, np.float32, np.float16)

    return widened


def _converted(value: Any, old: type[np.generic], new: type[np.generic]) -> Any:
    return value.astype(new) if getattr(value, "dtype", None) == old else value
