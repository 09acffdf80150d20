"""Ops that act on each element alone, with broadcasting."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..dispatch import Operand, kernel
from ..dtypes import check_bool, check_floating, float32
from ..kernels import reference, special
from ..kernels.half import in_single

__all__ = [
    "abs",
    "add",
    "atan",
    "ceil",
    "clamp",
    "clip",
    "cos",
    "cosh",
    "div",
    "elu",
    "erf",
    "exp",
    "exp2",
    "expm1",
    "floor",
    "floor_divide",
    "gelu",
    "leaky_relu",
    "log",
    "log1p",
    "log2",
    "log10",
    "logsigmoid",
    "maximum",
    "minimum",
    "mul",
    "neg",
    "pow",
    "reciprocal",
    "relu",
    "remainder",
    "round",
    "rsqrt",
    "sigmoid",
    "sign",
    "silu",
    "sin",
    "sinh",
    "softplus",
    "sqrt",
    "square",
    "sub",
    "tan",
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
    """Return -1, 0 or 1; 0 for NaN. The gradient is 0."""
    return a > 0 if a.dtype == bool else np.subtract(a > 0, a < 0, dtype=a.dtype)


@kernel("float")
def reciprocal(a: Operand) -> Any:
    """Return ``1 / a``; IEEE where ``a`` is 0."""
    return np.divide(1, a, dtype=a.dtype)


@kernel()
def floor_divide(a: Operand, b: Operand) -> Any:
    """Return the largest integer not above ``a / b``, broadcast. The gradient is 0.

    Raises:
        TypeError: both are bool.
        RuntimeError: integers are divided by 0.
    """
    _check_quotient(a, b)
    return np.floor_divide(a, b)


@kernel()
def remainder(a: Operand, b: Operand) -> Any:
    """Return ``a - b * (a // b)``, broadcast: it has the sign of ``b``.

    The gradient of ``a`` is 1 and that of ``b`` is ``-(a // b)``, at the jumps too.

    Raises:
        TypeError: both are bool.
        RuntimeError: integers are divided by 0.
    """
    _check_quotient(a, b)
    return np.remainder(a, b)


def _check_quotient(a: Any, b: Any) -> None:
    if a.dtype == bool:
        raise TypeError("a quotient of bool is not defined; convert one operand")
    if a.dtype.kind != "f" and a.size and not np.all(b):
        raise RuntimeError("an integer is divided by 0; convert one operand to a floating dtype")


# Rounding.


@kernel()
def floor(a: Operand) -> Any:
    """Return the largest integer not above each element, in the same dtype. The gradient is 0.

    Raises:
        TypeError: of bool.
    """
    return _rounded(np.floor, a)


@kernel()
def ceil(a: Operand) -> Any:
    """Return the smallest integer not below each element, in the same dtype. The gradient is 0.

    Raises:
        TypeError: of bool.
    """
    return _rounded(np.ceil, a)


@kernel()
def round(a: Operand, decimals: int = 0) -> Any:
    """Return the multiple of ``10**-decimals`` next to each element, of two the even one.

    That is ``round(a * 10**decimals) / 10**decimals``. The gradient is 0.

    Raises:
        TypeError: ``decimals`` is not an integer, or of bool.
        RuntimeError: ``decimals`` for a dtype that is not floating.
    """
    if isinstance(decimals, bool) or not hasattr(decimals, "__index__"):
        raise TypeError(f"decimals must be an integer, got {decimals!r}")
    if decimals == 0:
        return _rounded(np.rint, a)
    check_floating("a, with decimals,", a)
    return _rounded_to(a, int(decimals))


def _rounded(function: Any, a: Any) -> Any:
    if a.dtype == bool:
        raise TypeError("bool is not rounded; convert it first")
    return function(a) if a.dtype.kind == "f" else a.copy()


@in_single
def _rounded_to(a: Any, decimals: int) -> Any:
    scale = a.dtype.type(10.0 ** np.absolute(decimals))
    if decimals < 0:
        return np.rint(a / scale) * scale
    scaled = a * scale
    return np.where(np.isfinite(scaled), np.rint(scaled) / scale, a)


# Powers, exponentials and logarithms.


@kernel("float")
def sqrt(a: Operand) -> Any:
    """Return the square root; NaN below 0, gradient inf at 0."""
    return np.sqrt(a)


@kernel("float")
@in_single
def rsqrt(a: Operand) -> Any:
    """Return ``1 / sqrt(a)``; inf at 0, where the gradient is -inf, and NaN below."""
    return np.divide(1, np.sqrt(a), dtype=a.dtype)


@kernel("float")
def exp(a: Operand) -> Any:
    """Return ``e ** a``."""
    return np.exp(a)


@kernel("float")
def exp2(a: Operand) -> Any:
    """Return ``2 ** a``."""
    return np.exp2(a)


@kernel("float")
def expm1(a: Operand) -> Any:
    """Return ``e ** a - 1``, exact for small ``a``."""
    return np.expm1(a)


@kernel("float")
def log(a: Operand) -> Any:
    """Return the natural logarithm; -inf at 0, NaN below."""
    return np.log(a)


@kernel("float")
def log2(a: Operand) -> Any:
    """Return the logarithm to the base 2, exact for powers of 2; -inf at 0, NaN below."""
    return np.log2(a)


@kernel("float")
def log10(a: Operand) -> Any:
    """Return the logarithm to the base 10; -inf at 0, NaN below."""
    return np.log10(a)


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


@kernel("float")
def tan(a: Operand) -> Any:
    """Return the tangent of ``a`` in radians."""
    return np.tan(a)


@kernel("float")
def atan(a: Operand) -> Any:
    """Return the angle in radians, from -pi/2 to pi/2, whose tangent is ``a``."""
    return np.arctan(a)


@kernel("float")
def sinh(a: Operand) -> Any:
    """Return the hyperbolic sine."""
    return np.sinh(a)


@kernel("float")
def cosh(a: Operand) -> Any:
    """Return the hyperbolic cosine."""
    return np.cosh(a)


# Activations.


@kernel("float")
def tanh(a: Operand) -> Any:
    """Return the hyperbolic tangent."""
    return np.tanh(a)


@kernel("float")
def sigmoid(a: Operand) -> Any:
    """Return ``1 / (1 + exp(-a))``; no overflow at either end."""
    return reference.sigmoid(a)


@kernel("float")
def logsigmoid(a: Operand) -> Any:
    """Return ``log(sigmoid(a))``; no overflow at either end."""
    return reference.logsigmoid(a)


@kernel("float")
@in_single
def softplus(a: Operand, beta: float = 1.0, threshold: float = 20.0) -> Any:
    """Return ``log(1 + exp(beta * a)) / beta``, or ``a`` where ``beta * a > threshold``."""
    factor = _parameter("beta", beta, a)
    scaled = a * factor
    soft = (np.maximum(scaled, 0) + np.log1p(np.exp(-np.absolute(scaled)))) / factor
    return np.where(scaled > _parameter("threshold", threshold, a), a, soft)


def _parameter(name: str, value: Any, a: Any) -> Any:
    """Return a parameter as a scalar of the dtype of ``a``."""
    _check_number(name, value)
    return a.dtype.type(value)


def _check_number(name: str, value: Any) -> None:
    if not isinstance(value, (int, float, np.number)):
        raise TypeError(f"{name} must be a number, got {type(value).__name__}")


@kernel("float")
@in_single
def silu(a: Operand) -> Any:
    """Return ``a * sigmoid(a)``, also called swish.

    Source: Hendrycks and Gimpel, 2016, arXiv:1606.08415.
    """
    return a * reference.sigmoid(a)


@kernel()
def relu(a: Operand) -> Any:
    """Return ``max(a, 0)``; the gradient at 0 is 0."""
    return reference.relu(a)


@kernel("float")
def leaky_relu(a: Operand, negative_slope: float = 0.01) -> Any:
    """Return ``a`` where it is positive, else ``negative_slope * a``: the gradient at 0 too."""
    return np.where(a > 0, a, a * _parameter("negative_slope", negative_slope, a))


@kernel("float")
@in_single
def elu(a: Operand, alpha: float = 1.0) -> Any:
    """Return ``a`` where it is positive, else ``alpha * (exp(a) - 1)``; the gradient at 0 is alpha.

    Source: Clevert et al., 2015, arXiv:1511.07289.
    """
    return np.where(a > 0, a, _parameter("alpha", alpha, a) * np.expm1(np.minimum(a, 0)))


@kernel("float")
def erf(a: Operand) -> Any:
    """Return the error function, ``2 / sqrt(pi)`` times the integral of ``exp(-t**2)`` to ``a``."""
    return special.erf(a)


@kernel("float", fused=special.gelu_backward)
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
    return special.gelu(a, approximate)


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
        if bound is not None:
            _check_number(name, bound)
        if a.dtype.kind != "f" and isinstance(bound, (float, np.floating)):
            a = a.astype(float32)
    try:
        low, high = (None if bound is None else a.dtype.type(bound) for bound in (min, max))
    except OverflowError:
        raise ValueError(f"min {min} or max {max} does not fit into {a.dtype}") from None
    return np.clip(a, low, high)


clamp = clip


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
