"""Ops that answer with truth values: comparisons, tests and logic, on each element alone."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..dispatch import Operand, kernel
from ..dtypes import check_bool

__all__ = [
    "bitwise_and",
    "bitwise_not",
    "bitwise_or",
    "bitwise_xor",
    "eq",
    "ge",
    "gt",
    "isfinite",
    "isinf",
    "isnan",
    "le",
    "logical_and",
    "logical_not",
    "logical_or",
    "logical_xor",
    "lt",
    "ne",
]

# Comparisons and tests.


@kernel()
def eq(a: Operand, b: Operand) -> Any:
    """Return whether ``a == b``, elementwise."""
    return np.equal(a, b)


@kernel()
def ne(a: Operand, b: Operand) -> Any:
    """Return whether ``a != b``, elementwise."""
    return np.not_equal(a, b)


@kernel()
def lt(a: Operand, b: Operand) -> Any:
    """Return whether ``a < b``, elementwise."""
    return np.less(a, b)


@kernel()
def le(a: Operand, b: Operand) -> Any:
    """Return whether ``a <= b``, elementwise."""
    return np.less_equal(a, b)


@kernel()
def gt(a: Operand, b: Operand) -> Any:
    """Return whether ``a > b``, elementwise."""
    return np.greater(a, b)


@kernel()
def ge(a: Operand, b: Operand) -> Any:
    """Return whether ``a >= b``, elementwise."""
    return np.greater_equal(a, b)


@kernel()
def isnan(a: Operand) -> Any:
    """Return whether each element is NaN."""
    return np.isnan(a)


@kernel()
def isinf(a: Operand) -> Any:
    """Return whether each element is infinite."""
    return np.isinf(a)


@kernel()
def isfinite(a: Operand) -> Any:
    """Return whether each element is neither NaN nor infinite."""
    return np.isfinite(a)


# Logic.


@kernel()
def bitwise_and(a: Operand, b: Operand) -> Any:
    """Return ``a & b`` of truth values, broadcast.

    Raises:
        RuntimeError: an operand is not bool; ``logical_and`` takes every dtype.
    """
    check_bool("a", a)
    check_bool("b", b)
    return np.bitwise_and(a, b)


@kernel()
def bitwise_or(a: Operand, b: Operand) -> Any:
    """Return ``a | b`` of truth values, broadcast; errors as for ``bitwise_and``."""
    check_bool("a", a)
    check_bool("b", b)
    return np.bitwise_or(a, b)


@kernel()
def bitwise_xor(a: Operand, b: Operand) -> Any:
    """Return ``a ^ b`` of truth values, broadcast; errors as for ``bitwise_and``."""
    check_bool("a", a)
    check_bool("b", b)
    return np.bitwise_xor(a, b)


@kernel()
def bitwise_not(a: Operand) -> Any:
    """Return ``~a`` of truth values; errors as for ``bitwise_and``."""
    check_bool("a", a)
    return np.invert(a)


@kernel()
def logical_and(a: Operand, b: Operand) -> Any:
    """Return whether both are true, which all numbers but 0 are, broadcast."""
    return np.logical_and(a, b)


@kernel()
def logical_or(a: Operand, b: Operand) -> Any:
    """Return whether one of the two is true, or both, broadcast."""
    return np.logical_or(a, b)


@kernel()
def logical_xor(a: Operand, b: Operand) -> Any:
    """Return whether one of the two is true, and not both, broadcast."""
    return np.logical_xor(a, b)


@kernel()
def logical_not(a: Operand) -> Any:
    """Return whether each element is 0 or False."""
    return np.logical_not(a)
