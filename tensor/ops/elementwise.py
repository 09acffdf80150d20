"""Ops that act on each element alone, with broadcasting."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..dispatch import Operand, kernel
from ..dtypes import check_bool, float32
from ..kernels import reference, special

__all__ = [
    "abs",
    "add",
    "clip",
    "cos",
    "div",
    "eq",
    "erf",
    "exp",
    "expm1",
    "ge",
    "gelu",
    "gt",
    "isinf",
    "isnan",
    "le",
    "log",
    "log1p",
    "lt",
    "maximum",
    "minimum",
    "mul",
    "ne",
    "neg",
    "pow",
    "relu",
    "sigmoid",
    "sign",
    "sin",
    "sqrt",
    "square",
    "sub",
    "tanh",
    "where",
]

# Arithmetic.


@kernel()
def add(a: Operand, b: Operand) -> Any:
    """Return ``a + b``, broadcast."""
    return np.add(a, b)


@kernel()
def sub(a: Operand, b: Operand) -> Any:
    """Return ``a - b``, broadcast."""
    return np.subtract(a, b)


@kernel()
def mul(a: Operand, b: Operand) -> Any:
    """Return ``a * b``, broadcast."""
    return np.multiply(a, b)


@kernel("float")
def div(a: Operand, b: Operand) -> Any:
    """Return ``a / b``, broadcast; IEEE where ``b`` is 0. Integers become float32."""
    return np.divide(a, b)


@kernel()
def neg(a: Operand) -> Any:
    """Return ``-a``."""
    return np.negative(a)


@kernel()
def pow(a: Operand, b: Operand) -> Any:
    """Return ``a ** b``, broadcast.

    The gradient of ``a`` is 0 where ``b`` is 0; that of ``b`` is 0 where
    ``a`` is 0 and ``b >= 0``, and NaN where ``a`` is negative.

    Raises:
        TypeError: both are bool.
        RuntimeError: a negative power of integers.
    """
    if a.dtype == bool:
        raise TypeError("a power of bool is not defined; convert one operand")
    if np.ndim(b) == 0:
        if b == 2:
            return np.square(a)
        if b == 1:
            return np.array(a)
    return np.power(a, b)


@kernel()
def square(a: Operand) -> Any:
    """Return ``a * a``; of bool, 0 or 1 in int64."""
    return np.square(a, dtype=np.int64 if a.dtype == bool else None)


@kernel()
def abs(a: Operand) -> Any:
    """Return ``|a|``; the gradient at 0 is 0."""
    return np.absolute(a)


@kernel()
def sign(a: Operand) -> Any:
    """Return -1, 0 or 1; 0 for NaN. No gradient."""
    return a > 0 if a.dtype == bool else np.subtract(a > 0, a < 0, dtype=a.dtype)


# Powers, exponentials and logarithms.


@kernel("float")
def sqrt(a: Operand) -> Any:
    """Return the square root; NaN below 0, gradient inf at 0."""
    return np.sqrt(a)


@kernel("float")
def exp(a: Operand) -> Any:
    """Return ``e ** a``."""
    return np.exp(a)


@kernel("float")
def expm1(a: Operand) -> Any:
    """Return ``e ** a - 1``, exact for small ``a``."""
    return np.expm1(a)


@kernel("float")
def log(a: Operand) -> Any:
    """Return the natural logarithm; -inf at 0, NaN below."""
    return np.log(a)


@kernel("float")
def log1p(a: Operand) -> Any:
    """Return ``log(1 + a)``, exact for small ``a``."""
    return np.log1p(a)


# Trigonometry.


@kernel("float")
def sin(a: Operand) -> Any:
    """Return the sine of ``a`` in radians."""
    return np.sin(a)


@kernel("float")
def cos(a: Operand) -> Any:
    """Return the cosine of ``a`` in radians."""
    return np.cos(a)


# Activations.


@kernel("float")
def tanh(a: Operand) -> Any:
    """Return the hyperbolic tangent."""
    return np.tanh(a)


@kernel("float")
def sigmoid(a: Operand) -> Any:
    """Return ``1 / (1 + exp(-a))``; no overflow at either end."""
    return reference.sigmoid(a)


@kernel()
def relu(a: Operand) -> Any:
    """Return ``max(a, 0)``; the gradient at 0 is 0."""
    return reference.relu(a)


@kernel("float")
def erf(a: Operand) -> Any:
    """Return the error function, ``2 / sqrt(pi)`` times the integral of ``exp(-t**2)`` to ``a``."""
    return special.erf(a)


@kernel("float")
def gelu(a: Operand, approximate: str = "none") -> Any:
    """Return ``a * Phi(a)``, with Phi the normal distribution function.

    With ``approximate="tanh"``,
    ``0.5 a (1 + tanh(sqrt(2/pi) (a + 0.044715 a**3)))``.
    Source: Hendrycks and Gimpel, 2016, arXiv:1606.08415.

    Raises:
        RuntimeError: another ``approximate`` than "none" or "tanh".
    """
    if approximate not in ("none", "tanh"):
        raise RuntimeError(f"approximate must be 'none' or 'tanh', got {approximate!r}")
    return reference.gelu(a, approximate == "tanh")


# Choices.


@kernel()
def maximum(a: Operand, b: Operand) -> Any:
    """Return the larger of two, broadcast; equal operands share the gradient equally."""
    return np.maximum(a, b)


@kernel()
def minimum(a: Operand, b: Operand) -> Any:
    """Return the smaller of two, broadcast; equal operands share the gradient equally."""
    return np.minimum(a, b)


@kernel()
def clip(a: Operand, min: float | None = None, max: float | None = None) -> Any:
    """Return ``a`` limited to ``[min, max]``; the gradient at a bound is 1.

    ``max`` wins where it is below ``min``, and then no gradient flows. Integers become float32
    if a bound is not an integer.

    Raises:
        RuntimeError: neither bound is given.
        TypeError: a bound is not a number.
        ValueError: an integer bound that the dtype of ``a`` cannot hold.
    """
    if min is None and max is None:
        raise RuntimeError("at least one of min and max must be given, got None for both")
    for name, bound in (("min", min), ("max", max)):
        if bound is not None and not isinstance(bound, (int, float, np.number)):
            raise TypeError(f"{name} must be a number, got {type(bound).__name__}")
        if a.dtype.kind != "f" and isinstance(bound, (float, np.floating)):
            a = a.astype(float32)
    try:
        low, high = (None if bound is None else a.dtype.type(bound) for bound in (min, max))
    except OverflowError:
        raise ValueError(f"min {min} or max {max} does not fit into {a.dtype}") from None
    return np.clip(a, low, high)


@kernel()
def where(cond: Operand, a: Operand, b: Operand) -> Any:
    """Return ``a`` where ``cond`` holds and ``b`` elsewhere, broadcast.

    The operand not chosen gets the gradient 0, which its own derivative may
    still turn into NaN if that is infinite: choose the argument too.

    Raises:
        RuntimeError: ``cond`` is not bool.
    """
    check_bool("cond", cond)
    return reference.where(cond, a, b)


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
