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

import builtins
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


def _whole(function: Function) -> Function:
    """``function``, which rounds to an integer, on floats: -0.5 may become -0.0, inf stays."""
    return lambda x: math.copysign(function(x), x) if math.isfinite(x) else x


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
    tan = _quiet(math.tan)
    atan = math.atan
    cosh = _quiet(math.cosh)
    tanh = math.tanh
    erf = math.erf
    floor = _whole(math.floor)
    ceil = _whole(math.ceil)
    round = _whole(builtins.round)

    def pi(x: Number) -> Number:
        return math.pi

    def sign(x: Number) -> Number:
        return float((x > 0) - (x < 0))

    def log(x: Number) -> Number:
        return math.log(x) if x > 0 else -inf if x == 0 else nan

    def log2(x: Number) -> Number:
        return math.log2(x) if x > 0 else Real.log(x)

    def log10(x: Number) -> Number:
        return math.log10(x) if x > 0 else Real.log(x)

    def log1p(x: Number) -> Number:
        return math.log1p(x) if x > -1 else -inf if x == -1 else nan

    def sigmoid(x: Number) -> Number:
        if x < 0:  # so that no large number is ever exponentiated
            e = math.exp(x)
            return e / (1 + e)
        return 1 / (1 + math.exp(-x))

    def logsigmoid(x: Number) -> Number:
        e = math.exp(-x if x > 0 else x)  # nor here
        return (x if x < 0 else 0.0) - math.log1p(e)

    def sinh(x: Number) -> Number:
        try:
            return math.sinh(x)
        except OverflowError:
            return math.copysign(inf, x)

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

    def floor_divide(a: Number, b: Number) -> Number:
        return float(a // b) if b != 0 else Real.div(a, b)

    def remainder(a: Number, b: Number) -> Number:
        return float(a % b) if b != 0 else nan


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

    def floor_divide(a: Number, b: Number) -> Number:
        return Rational.floor(Rational.div(a, b))

    def remainder(a: Number, b: Number) -> Number:
        return a - b * Rational.floor_divide(a, b)

    def floor(x: Number) -> Number:
        return Fraction(math.floor(x))

    def ceil(x: Number) -> Number:
        return Fraction(math.ceil(x))

    def round(x: Number) -> Number:
        return Fraction(builtins.round(x))


class Complex:
    """complex: ``cmath``, and nan where it has no answer."""

    rank = 3
    undefined = complex(nan, nan)
    exp = _quiet(cmath.exp, undefined, undefined)
    log = _quiet(cmath.log, complex(-inf))
    sqrt = cmath.sqrt
    sin = _quiet(cmath.sin, undefined, undefined)
    cos = _quiet(cmath.cos, undefined, undefined)
    tan = _quiet(cmath.tan, undefined, undefined)
    atan = _quiet(cmath.atan, undefined, undefined)
    sinh = _quiet(cmath.sinh, undefined, undefined)
    cosh = _quiet(cmath.cosh, undefined, undefined)
    tanh = _quiet(cmath.tanh, undefined, undefined)

    def pi(z: Number) -> Number:
        return math.pi

    def log2(z: Number) -> Number:
        return Complex.log(z) / math.log(2)

    def log10(z: Number) -> Number:
        return Complex.log(z) / math.log(10)

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

    def logsigmoid(z: Number) -> Number:
        if z.real < 0:
            return z - Complex.log1p(Complex.exp(z))
        return -Complex.log1p(Complex.exp(-z))

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
    sqrt, sin, cos, tan, atan = map(_mpmath, ("sqrt", "sin", "cos", "tan", "atan"))
    sinh, cosh, tanh, erf, log10 = map(_mpmath, ("sinh", "cosh", "tanh", "erf", "log10"))
    sign, floor, ceil, round = map(_mpmath, ("sign", "floor", "ceil", "nint"))

    def pi(x: Number) -> Number:
        return +x.context.pi

    def sigmoid(x: Number) -> Number:
        return 1 / (1 + Precise.exp(-x))

    def logsigmoid(x: Number) -> Number:
        return -Precise.log1p(Precise.exp(-x))  # no exponent is too large here

    def log2(x: Number) -> Number:
        return x.context.log(x, 2)

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

    def floor_divide(a: Number, b: Number) -> Number:
        q = Precise.div(a - Precise.remainder(a, b), b)  # whole, but for the rounding
        return Precise.round(q) if b != 0 else Precise.div(a, b)

    def remainder(a: Number, b: Number) -> Number:
        return a % b if b != 0 else b * nan


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
        apply = getattr(fa if fa.rank >= fb.rank else fb, name, None)
        if apply is None:
            raise TypeError(f"{name}: not defined for {a} and {b}; hold floats or mpmath mpf")
        return apply(a, b)

    return function


exp, expm1, log, log1p = map(_unary, ("exp", "expm1", "log", "log1p"))
log2, log10, sqrt, erf, sign, pi = map(_unary, ("log2", "log10", "sqrt", "erf", "sign", "pi"))
sin, cos, tan, atan = map(_unary, ("sin", "cos", "tan", "atan"))
sinh, cosh, tanh = map(_unary, ("sinh", "cosh", "tanh"))
sigmoid, logsigmoid = map(_unary, ("sigmoid", "logsigmoid"))
floor, ceil, round = map(_unary, ("floor", "ceil", "round"))
div, pow = map(_binary, ("div", "pow"))
floor_divide, remainder = map(_binary, ("floor_divide", "remainder"))
