"""Every op: what it is on one number and, above it, its derivative by each input.

This page is the calculus of the whole project. Each formula is written once, in the functions of
``micro.fields`` (``f``), and so serves every kind of number: on floats it is evaluated, on Values
it is recorded and can be differentiated again. Derivatives are expressed through the inputs. An
int 0 or 1 is exact: a derivative of 0 stops the gradient even where it is inf or nan.

The functions that stand here at the end take Values or plain numbers and return a Value; the
comparisons return a bool.
"""

from __future__ import annotations

import builtins
from types import SimpleNamespace

from micro import fields as f
from micro.fields import Number
from micro.value import OPS, Value, op, predicate
from micro.vocab import install_operators

# --- arithmetic


@op(da=1, db=1)
def add(a: Number, b: Number) -> Number:
    """a + b."""
    return a + b


@op(da=1, db=-1)
def sub(a: Number, b: Number) -> Number:
    """a - b."""
    return a - b


@op(da=lambda _, b: b, db=lambda a, _: a)
def mul(a: Number, b: Number) -> Number:
    """a b."""
    return a * b


@op(da=lambda _, b: f.div(1, b), db=lambda a, b: -f.div(f.div(a, b), b))
def div(a: Number, b: Number) -> Number:
    """a / b; of floats, a / 0 is inf or nan."""
    return f.div(a, b)


@op(da=-1)
def neg(a: Number) -> Number:
    """-a."""
    return -a


@op(
    da=lambda a, b: 0 if b == 0 else b * f.pow(a, b - 1),
    db=lambda a, b: f.like(a, 0) if a == 0 and b >= 0 else f.pow(a, b) * f.log(a),
)
def pow(a: Number, b: Number) -> Number:
    """a to the power b; 0 ** 0 is 1.

    By convention, d/da is 0 where b = 0, and d/db is 0 where a = 0 and b >= 0.
    """
    return f.pow(a, b)


@op(da=lambda a: 2 * a)
def square(a: Number) -> Number:
    """a squared."""
    return a * a


@op(da=f.sign)
def abs(a: Number) -> Number:
    """The distance of a from 0. By convention, its derivative at 0 is 0."""
    return a if a > 0 else 0 - a


@op(da=0)
def sign(a: Number) -> Number:
    """-1, 0 or 1; 0 for nan. Its derivative is 0 everywhere."""
    return f.sign(a)


@op(da=lambda a: f.div(-1, a * a))
def reciprocal(a: Number) -> Number:
    """1 / a; of floats, 1 / 0 is inf."""
    return f.div(1, a)


@op(da=0, db=0)
def floor_divide(a: Number, b: Number) -> Number:
    """The largest integer that is not above a / b. Its derivatives are 0 everywhere."""
    return f.floor_divide(a, b)


@op(da=1, db=lambda a, b: -f.floor_divide(a, b))
def remainder(a: Number, b: Number) -> Number:
    """a - b (a // b), which has the sign of b; of floats, nan where b = 0.

    By convention, its derivatives where it jumps are those of either side.
    """
    return f.remainder(a, b)


# --- rounding


@op(da=0)
def floor(a: Number) -> Number:
    """The largest integer that is not above a. Its derivative is 0 everywhere."""
    return f.floor(a)


@op(da=0)
def ceil(a: Number) -> Number:
    """The smallest integer that is not below a. Its derivative is 0 everywhere."""
    return f.ceil(a)


@op(da=0)
def round(a: Number, decimals: int = 0) -> Number:
    """The integer next to a, of two the even one, or the multiple of 10^-decimals next to a.

    Its derivative is 0 everywhere.
    """
    if not isinstance(decimals, int) or isinstance(decimals, bool):
        raise TypeError(f"decimals must be an int, got {decimals!r}")
    if decimals == 0:
        return f.round(a)
    scale = f.pow(f.like(a, 10), f.like(a, builtins.abs(decimals)))
    if decimals < 0:
        return f.round(f.div(a, scale)) * scale
    scaled = a * scale
    return f.div(f.round(scaled), scale) if not isinf(scaled) else a


# --- powers, exponentials and logarithms


@op(da=lambda a: f.div(1, 2 * f.sqrt(a)))
def sqrt(a: Number) -> Number:
    """The square root of a. Its derivative at 0 is inf."""
    return f.sqrt(a)


@op(da=lambda a: f.div(-1, 2 * f.sqrt(a) * f.sqrt(a) * f.sqrt(a)))
def rsqrt(a: Number) -> Number:
    """1 / sqrt(a). Its derivative at 0 is -inf."""
    return f.div(1, f.sqrt(a))


@op(da=f.exp)
def exp(a: Number) -> Number:
    """e to the power a."""
    return f.exp(a)


def _log_of(n: int, a: Number) -> Number:
    return f.log(f.like(a, n))


@op(da=lambda a: f.pow(f.like(a, 2), a) * _log_of(2, a))
def exp2(a: Number) -> Number:
    """2 to the power a."""
    return f.pow(f.like(a, 2), a)


@op(da=lambda a: f.div(1, a))
def log(a: Number) -> Number:
    """The natural logarithm of a. Of floats, it is -inf at 0 and nan below."""
    return f.log(a)


@op(da=lambda a: f.div(1, a * _log_of(2, a)))
def log2(a: Number) -> Number:
    """The logarithm of a to the base 2, exact where a is a power of 2."""
    return f.log2(a)


@op(da=lambda a: f.div(1, a * _log_of(10, a)))
def log10(a: Number) -> Number:
    """The logarithm of a to the base 10."""
    return f.log10(a)


@op(da=lambda a: f.div(1, 1 + a))
def log1p(a: Number) -> Number:
    """log(1 + a), with all its digits where a is small."""
    return f.log1p(a)


@op(da=f.exp)
def expm1(a: Number) -> Number:
    """exp(a) - 1, with all its digits where a is small."""
    return f.expm1(a)


# --- trigonometry


@op(da=f.cos)
def sin(a: Number) -> Number:
    """The sine of a."""
    return f.sin(a)


@op(da=lambda a: -f.sin(a))
def cos(a: Number) -> Number:
    """The cosine of a."""
    return f.cos(a)


@op(da=lambda a: f.div(1, f.cos(a) * f.cos(a)))
def tan(a: Number) -> Number:
    """The tangent of a."""
    return f.tan(a)


@op(da=lambda a: f.div(1, 1 + a * a))
def atan(a: Number) -> Number:
    """The angle, from -pi / 2 to pi / 2, whose tangent is a."""
    return f.atan(a)


@op(da=f.cosh)
def sinh(a: Number) -> Number:
    """The hyperbolic sine of a."""
    return f.sinh(a)


@op(da=f.sinh)
def cosh(a: Number) -> Number:
    """The hyperbolic cosine of a."""
    return f.cosh(a)


# --- activations


@op(da=lambda a: 4 * f.sigmoid(2 * a) * f.sigmoid(-2 * a))
def tanh(a: Number) -> Number:
    """The hyperbolic tangent, which is 2 sigmoid(2a) - 1."""
    return f.tanh(a)


@op(da=lambda a: f.sigmoid(a) * f.sigmoid(-a))
def sigmoid(a: Number) -> Number:
    """1 / (1 + exp(-a))."""
    return f.sigmoid(a)


@op(da=lambda a: f.sigmoid(-a))
def logsigmoid(a: Number) -> Number:
    """log(1 / (1 + exp(-a))), without overflow on either side."""
    return f.logsigmoid(a)


@op(da=lambda a, beta, threshold: 1 if beta * a > threshold else f.sigmoid(beta * a))
def softplus(a: Number, beta: Number = 1.0, threshold: Number = 20.0) -> Number:
    """log(1 + exp(beta a)) / beta, or a where beta a > threshold."""
    beta = f.number(beta, "softplus: beta", a)
    threshold = f.number(threshold, "softplus: threshold", a)
    return a if beta * a > threshold else f.div(0 - f.logsigmoid(-beta * a), beta)


@op(da=lambda a: f.sigmoid(a) + a * (f.sigmoid(a) * f.sigmoid(-a)))
def silu(a: Number) -> Number:
    """a / (1 + exp(-a)), also called swish."""
    return a * f.sigmoid(a)


@op(da=lambda a: 0 if a <= 0 else 1)
def relu(a: Number) -> Number:
    """The larger of a and 0. By convention, its derivative at 0 is 0."""
    return f.like(a, 0) if a <= 0 else a


@op(da=lambda a, negative_slope: 1 if a > 0 else negative_slope)
def leaky_relu(a: Number, negative_slope: Number = 0.01) -> Number:
    """a where a > 0, else negative_slope a; the latter's derivative also at 0."""
    negative_slope = f.number(negative_slope, "leaky_relu: negative_slope", a)
    return a if a > 0 else a * negative_slope


# A constant at 0, so that the second derivative is 0 there, as in PyTorch.
@op(da=lambda a, alpha: alpha * f.exp(a) if a < 0 else alpha if a <= 0 else 1)
def elu(a: Number, alpha: Number = 1.0) -> Number:
    """a where a > 0, else alpha (exp(a) - 1) (Clevert et al., arXiv:1511.07289).

    By convention, its derivative at 0 is alpha.
    """
    alpha = f.number(alpha, "elu: alpha", a)
    return a if a > 0 else alpha * f.expm1(a)


@op(da=lambda a: f.div(2, f.sqrt(f.pi(a))) * f.exp(-a * a))
def erf(a: Number) -> Number:
    """The error function, 2 / sqrt(pi) times the integral of exp(-t^2) from 0 to a."""
    return f.erf(a)


def _normal_cdf(a: Number) -> Number:
    return (1 + f.erf(f.div(a, f.sqrt(f.like(a, 2))))) * 0.5


def _normal_pdf(a: Number) -> Number:
    return f.div(f.exp(-a * a * 0.5), f.sqrt(2 * f.pi(a)))


def _gelu_logit(a: Number) -> Number:
    return f.sqrt(8 / f.pi(a)) * (a + 0.044715 * a * a * a)


def _gelu_slope(a: Number, approximate: str) -> Number:
    if approximate == "none":
        return _normal_cdf(a) + a * _normal_pdf(a)
    u, du = _gelu_logit(a), f.sqrt(8 / f.pi(a)) * (1 + 3 * (0.044715 * a * a))
    chosen, spared = f.sigmoid(u), f.sigmoid(-u)
    if chosen == 0 or spared == 0:  # far out, where du may be inf
        return 0 if chosen == 0 else 1
    return chosen + a * chosen * spared * du


@op(da=_gelu_slope)
def gelu(a: Number, approximate: str = "none") -> Number:
    """a P(X < a) for a standard normal X (Hendrycks and Gimpel, arXiv:1606.08415).

    With ``approximate="tanh"``, a sigmoid(sqrt(8 / pi) (a + 0.044715 a^3)), the paper's other form.
    """
    if approximate == "none":
        return a * _normal_cdf(a)
    if approximate == "tanh":
        return a * f.sigmoid(_gelu_logit(a))
    raise RuntimeError(f"gelu: approximate must be 'none' or 'tanh', got {approximate!r}")


# --- choices


def _larger(a: Number, b: Number) -> Number:
    return a if a > b or a != a else b  # a nan on either side wins


def _smaller(a: Number, b: Number) -> Number:
    return a if a < b or a != a else b


def _half(a: Number) -> Number:
    return f.like(a, 1) / 2


@op(
    da=lambda a, b: 0 if a < b else _half(a) if a == b else 1,
    db=lambda a, b: 0 if b < a else _half(b) if a == b else 1,
)
def maximum(a: Number, b: Number) -> Number:
    """The larger of a and b. By convention, of two equal operands each has derivative 1/2."""
    return _larger(a, b)


@op(
    da=lambda a, b: 0 if a > b else _half(a) if a == b else 1,
    db=lambda a, b: 0 if b > a else _half(b) if a == b else 1,
)
def minimum(a: Number, b: Number) -> Number:
    """The smaller of a and b. By convention, of two equal operands each has derivative 1/2."""
    return _smaller(a, b)


@op(da=lambda a, min, max: 1 if (min is None or a >= min) and (max is None or a <= max) else 0)
def clip(a: Number, min: Number = None, max: Number = None) -> Number:
    """a, but at least min and at most max; where min > max, max.

    By convention, its derivative is 1 at both bounds.
    """
    if min is None and max is None:
        raise RuntimeError("clip: at least one of min and max must be given, got None for both")
    if min is not None:
        a = _larger(a, f.number(min, "clip: min", a))
    if max is not None:
        a = _smaller(a, f.number(max, "clip: max", a))
    return a


@op(
    dcond=0,
    da=lambda cond, _a, _b: 1 if cond else 0,
    db=lambda cond, _a, _b: 0 if cond else 1,
)
def where(cond: Number, a: Number, b: Number) -> Number:
    """a if cond is true, else b. The operand that is not chosen has derivative 0."""
    return a if cond else b


# --- comparisons and tests


@predicate(otherwise=False)
def eq(a: Number, b: Number) -> bool:
    """Whether the numbers are equal; nothing equals a nan, or what is not a number."""
    return bool(a == b)


@predicate(otherwise=True)
def ne(a: Number, b: Number) -> bool:
    """Whether the numbers differ."""
    return bool(a != b)


@predicate()
def lt(a: Number, b: Number) -> bool:
    """Whether a < b."""
    return bool(a < b)


@predicate()
def le(a: Number, b: Number) -> bool:
    """Whether a <= b."""
    return bool(a <= b)


@predicate()
def gt(a: Number, b: Number) -> bool:
    """Whether a > b."""
    return bool(a > b)


@predicate()
def ge(a: Number, b: Number) -> bool:
    """Whether a >= b."""
    return bool(a >= b)


@predicate()
def isnan(a: Number) -> bool:
    """Whether a is not a number: the one number that differs from itself."""
    return bool(a != a)


@predicate()
def isinf(a: Number) -> bool:
    """Whether a is infinite, in either direction."""
    return f.inf in (a.real, -a.real, a.imag, -a.imag)


@predicate()
def isfinite(a: Number) -> bool:
    """Whether a is a number, and not infinite."""
    return bool(a - a == 0)


# Every op is a method too, the operators of Python are among them, and Value is a field.

for _name, _function in OPS.items():
    setattr(Value, _name, _function)
install_operators(Value, OPS)
f.FIELDS[Value] = SimpleNamespace(rank=5, pi=lambda a: f.pi(a.data), **OPS)
