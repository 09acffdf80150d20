"""The numbers that a Value can hold, and what the elementary functions mean on each.

The formulas of ``micro.ops`` are written once, with Python's ``+ - *``, its comparisons, and the
functions below, which look at the type of their argument:

==================  ====================================================================
float (int, bool)   IEEE 754: ``div(1, 0)`` is inf, ``log(-1)`` is nan; nothing is raised
Fraction            exact: division and integer powers; anything irrational raises TypeError
complex             the holomorphic functions, on ``cmath``'s branches
mpmath mpf, mpc     the same at whatever precision is set (mpmath is never imported here)
Value               the op itself, recorded: so a derivative can be differentiated again
==================  ====================================================================

The gradient of a complex number is the complex derivative (PyTorch has its conjugate).
"""

from __future__ import annotations

import cmath
import math
import numbers
from collections.abc import Callable
from fractions import Fraction
from typing import Any, TypeAlias

Number: TypeAlias = Any  # a float, Fraction, complex, mpf or mpc, or a Value that holds one of them
Function: TypeAlias = Callable[..., Any]

inf, nan = math.inf, math.nan


def _quiet(function: Function, undefined: Number = nan, overflow: Number = inf) -> Function:
    """``function``, returning a number where the standard library raises an error."""

    def quiet(x: Number) -> Number:
        try:
            return function(x)
        except ValueError:
            return undefined
        except OverflowError:
            return overflow

    return quiet


def _mpmath(name: str) -> Function:
    """mpmath's function; each of its numbers carries the context that knows them all."""
    return lambda x: getattr(x.context, name)(x)


# A class below is a table of functions by name; it is never instantiated. Of two operands, the
# one whose field has the higher rank decides.


class Real:
    """float: the answers of IEEE 754 and of C's mathematical library."""

    rank = 2
    exp = _quiet(math.exp)
    expm1 = _quiet(math.expm1)
    sqrt = _quiet(math.sqrt)
    sin = _quiet(math.sin)
    cos = _quiet(math.cos)
    tanh = math.tanh
    erf = math.erf

    def pi(x: Number) -> Number:
        return math.pi

    def sign(x: Number) -> Number:
        return float((x > 0) - (x < 0))

    def log(x: Number) -> Number:
        return math.log(x) if x > 0 else -inf if x == 0 else nan

    def log1p(x: Number) -> Number:
        return math.log1p(x) if x > -1 else -inf if x == -1 else nan

    def sigmoid(x: Number) -> Number:
        if x < 0:  # so that no large number is ever exponentiated
            e = math.exp(x)
            return e / (1 + e)
        return 1 / (1 + math.exp(-x))

    def div(a: Number, b: Number) -> Number:
        try:
            return a / b
        except ZeroDivisionError:
            return nan if a == 0 or a != a else math.copysign(inf, a) * math.copysign(1, b)

    def pow(a: Number, b: Number) -> Number:
        try:
            return math.pow(a, b)
        except (ValueError, OverflowError):
            if a < 0 and b % 1 != 0:
                return nan
            return math.copysign(inf, a) if b % 2 == 1 else inf


class Integer(Real):
    """int and bool: floats, but beside a Fraction the Fraction decides."""

    rank = 0


class Rational:
    """Fraction: exact, where the answer is rational."""

    rank = 1

    def sign(x: Number) -> Number:
        return Fraction((x > 0) - (x < 0))

    def div(a: Number, b: Number) -> Number:
        if b == 0:
            raise ZeroDivisionError(f"div: {a} / 0 is no Fraction; floats would give inf or nan")
        return Fraction(a) / b

    def pow(a: Number, b: Number) -> Number:
        if b != int(b):
            raise TypeError(f"pow: {a} ** ({b}) need not be a Fraction; hold a float or an mpf")
        if a == 0 and b < 0:
            raise ZeroDivisionError(f"pow: 0 ** {b} is no Fraction; floats would give inf")
        return Fraction(a) ** int(b)


class Complex:
    """complex: ``cmath``, and nan where it has no answer."""

    rank = 3
    undefined = complex(nan, nan)
    exp = _quiet(cmath.exp, undefined, undefined)
    log = _quiet(cmath.log, complex(-inf))
    sqrt = cmath.sqrt
    sin = _quiet(cmath.sin, undefined, undefined)
    cos = _quiet(cmath.cos, undefined, undefined)
    tanh = _quiet(cmath.tanh, undefined, undefined)

    def pi(z: Number) -> Number:
        return math.pi

    def log1p(z: Number) -> Number:
        x, y = z.real, z.imag
        return complex(Real.log1p(x * (2 + x) + y * y) / 2, math.atan2(y, 1 + x))

    def expm1(z: Number) -> Number:
        x, y = z.real, z.imag
        s = Real.sin(y / 2)  # cos y = 1 - 2 s^2 keeps the digits that cos y - 1 would lose
        return complex(Real.expm1(x) * Real.cos(y) - 2 * s * s, Real.exp(x) * Real.sin(y))

    def sigmoid(z: Number) -> Number:
        if z.real < 0:
            e = Complex.exp(z)
            return Complex.div(e, 1 + e)
        return Complex.div(1, 1 + Complex.exp(-z))

    def div(a: Number, b: Number) -> Number:
        try:
            return a / b
        except (ZeroDivisionError, OverflowError):
            return Complex.undefined

    def pow(a: Number, b: Number) -> Number:
        try:
            return complex(a) ** b
        except (ZeroDivisionError, OverflowError):
            return Complex.undefined


class Precise:
    """mpmath's mpf and mpc, which need no help but at the poles."""

    rank = 4
    exp, expm1, log, log1p = map(_mpmath, ("exp", "expm1", "log", "log1p"))
    sqrt, sin, cos, tanh, erf, sign = map(_mpmath, ("sqrt", "sin", "cos", "tanh", "erf", "sign"))

    def pi(x: Number) -> Number:
        return +x.context.pi

    def sigmoid(x: Number) -> Number:
        return 1 / (1 + Precise.exp(-x))

    def div(a: Number, b: Number) -> Number:
        try:
            return a / b
        except ZeroDivisionError:
            return b * nan if a == 0 or a != a else a * (b + inf)

    def pow(a: Number, b: Number) -> Number:
        try:
            return a**b
        except ZeroDivisionError:
            return a * b + inf


# By type of number. ``micro.ops`` adds Value, whose functions are the ops themselves.
FIELDS: dict[Any, Any] = {
    int: Integer,
    bool: Integer,
    Fraction: Rational,
    float: Real,
    complex: Complex,
}


def field(x: Number) -> Any:
    """The table of functions for numbers of x's type; None for what is not a number."""
    kind = type(x)
    found = FIELDS.get(kind)
    if found is None:
        found = next((FIELDS[base] for base in kind.__mro__ if base in FIELDS), None)
        if hasattr(x, "_mpf_") or hasattr(x, "_mpc_"):
            found = Precise
        if found is not None:
            FIELDS[kind] = found
    return found


def number(x: Any, where: str, kin: Number = 0.0) -> Number:
    """x as a number that a Value can hold: itself, or what it stands for.

    An int becomes a number of the same kind as ``kin``, and so does a float beside a complex number
    or an mpf; numpy's real scalars count as floats.

    Raises:
        TypeError: x is no number; ``where`` says what it was passed as.
    """
    if type(x) is type(kin) is float:
        return x
    if isinstance(x, (int, numbers.Integral)):
        return like(kin, int(x))
    found = field(x)
    if found is Real or (found is None and isinstance(x, numbers.Real)):
        return type(kin)(x) if field(kin) in (Complex, Precise) else float(x)
    if found is None:
        raise TypeError(
            f"{where} must be a number (float, int, complex, Fraction, mpmath mpf or Value), "
            f"got {type(x).__name__}: {x!r}; convert it first, for example with float()"
        )
    return complex(x) if found is Complex else x


def like(x: Number, n: int) -> Number:
    """The integer n as a number of the same kind as x; for a Value, as what is inside."""
    while field(x).rank > Precise.rank:
        x = x.data
    try:
        return type(x)(n)
    except OverflowError:  # beyond the largest float
        return inf if n > 0 else -inf


def _unary(name: str) -> Function:
    def function(x: Number) -> Number:
        apply = getattr(field(x), name, None)
        if apply is None:
            kind = type(x).__name__
            raise TypeError(f"{name}: not defined for {kind} {x}; hold a float or an mpmath mpf")
        return apply(x)

    function.__name__ = name
    return function


def _binary(name: str) -> Function:
    def function(a: Number, b: Number) -> Number:
        fa, fb = field(a), field(b)
        return getattr(fa if fa.rank >= fb.rank else fb, name)(a, b)

    return function


exp, expm1, log, log1p = map(_unary, ("exp", "expm1", "log", "log1p"))
sqrt, sin, cos, tanh = map(_unary, ("sqrt", "sin", "cos", "tanh"))
sigmoid, erf, sign, pi = map(_unary, ("sigmoid", "erf", "sign", "pi"))
div, pow = map(_binary, ("div", "pow"))
