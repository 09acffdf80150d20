"""Rules of what acts on one element at a time."""

from __future__ import annotations

import math
from typing import Any

from .table import flat, vjp

# Arithmetic.

vjp("add", a=lambda xp, g: g, b=lambda xp, g: g)
vjp("sub", a=lambda xp, g: g, b=lambda xp, g: -g)
vjp("mul", a=lambda xp, g, b: g * b, b=lambda xp, g, a: g * a)
vjp("div", a=lambda xp, g, b: g / b, b=lambda xp, g, b, out: -g * out / b)
vjp("neg", a=lambda xp, g: -g)
vjp("square", a=lambda xp, g, a: g * (2 * a))
vjp("abs", a=lambda xp, g, a: g * xp.sign(a))
vjp("reciprocal", a=lambda xp, g, out: -g * (out * out))
vjp("remainder", a=lambda xp, g: g, b=lambda xp, g, a, b: -g * xp.floor_divide(a, b))


def _pow_base(xp: Any, g: Any, a: Any, b: Any) -> Any:
    # Where b = 0 the power is constant, though a ** (b - 1) may be infinite.
    return g * xp.where(b == 0, 0.0, b * xp.pow(a, xp.where(b == 0, 1.0, b - 1)))


def _pow_exponent(xp: Any, g: Any, a: Any, b: Any, out: Any) -> Any:
    # 0 ** b is 0 for every b > 0, though log(0) is not finite.
    flat = (a == 0) * (b >= 0)
    return g * xp.where(flat, 0.0, out * xp.log(xp.where(flat, 1.0, a)))


vjp("pow", a=_pow_base, b=_pow_exponent)

# What is constant between its jumps.

vjp("sign", a=flat)
vjp("floor", a=flat)
vjp("ceil", a=flat)
vjp("round", a=flat)
vjp("floor_divide", a=flat, b=flat)

# Powers, exponentials and logarithms.

vjp("sqrt", a=lambda xp, g, out: g / (2 * out))
vjp("rsqrt", a=lambda xp, g, out: g * (-0.5 * out * (out * out)))
vjp("exp", a=lambda xp, g, out: g * out)
vjp("exp2", a=lambda xp, g, out: g * (out * math.log(2)))
vjp("expm1", a=lambda xp, g, a: g * xp.exp(a))  # out + 1 would be 0 where out is nearly -1
vjp("log", a=lambda xp, g, a: g / a)
vjp("log2", a=lambda xp, g, a: g / a * (1 / math.log(2)))
vjp("log10", a=lambda xp, g, a: g / a * (1 / math.log(10)))
vjp("log1p", a=lambda xp, g, a: g / (a + 1))

# Trigonometry.

vjp("sin", a=lambda xp, g, a: g * xp.cos(a))
vjp("cos", a=lambda xp, g, a: -g * xp.sin(a))
vjp("tan", a=lambda xp, g, out: g * (1 + out * out))
vjp("atan", a=lambda xp, g, a: g / (1 + a * a))
vjp("sinh", a=lambda xp, g, a: g * xp.cosh(a))
vjp("cosh", a=lambda xp, g, a: g * xp.sinh(a))

# Activations.

vjp("tanh", a=lambda xp, g, out: g * (1 - out * out))
vjp("sigmoid", a=lambda xp, g, out: g * (out * (1 - out)))
vjp("logsigmoid", a=lambda xp, g, a: g * xp.sigmoid(-a))
vjp("relu", a=lambda xp, g, out: xp.where(out <= 0, 0.0, g))
vjp("leaky_relu", a=lambda xp, g, a, negative_slope: xp.where(a > 0, g, g * negative_slope))
vjp("erf", a=lambda xp, g, a: g * ((2 / math.sqrt(math.pi)) * xp.exp(-a * a)))


def _softplus(xp: Any, g: Any, a: Any, beta: float, threshold: float) -> Any:
    return xp.where(a * beta > threshold, g, g * xp.sigmoid(a * beta))


def _silu(xp: Any, g: Any, a: Any) -> Any:
    s = xp.sigmoid(a)
    return g * (s * (1 + a * (1 - s)))


def _elu(xp: Any, g: Any, a: Any, alpha: float) -> Any:
    # The exponential of what is not chosen must not overflow: 0 times inf would be NaN.
    return xp.where(a <= 0, g * (alpha * xp.exp(xp.where(a < 0, a, 0.0))), g)


def _gelu(xp: Any, g: Any, a: Any, approximate: str) -> Any:
    if approximate == "tanh":
        scale, cubic = math.sqrt(2 / math.pi), 0.044715
        near = xp.clip(a, -10.0, 10.0)  # beyond, t is -1 or 1, and powers of a might overflow
        square = near * near
        t = xp.tanh(scale * (near + cubic * (near * square)))
        return g * (0.5 * (1 + t) + 0.5 * scale * near * (1 - t * t) * (1 + 3 * cubic * square))
    density = xp.exp(-0.5 * (a * a)) * (1 / math.sqrt(2 * math.pi))
    return g * (0.5 * (1 + xp.erf(a * math.sqrt(0.5))) + a * density)


vjp("softplus", a=_softplus)
vjp("silu", a=_silu)
vjp("elu", a=_elu)
vjp("gelu", a=_gelu)

# Choices. Equal operands share the gradient of their maximum.

vjp(
    "maximum",
    a=lambda xp, g, a, b: xp.where(a == b, g / 2, xp.where(a < b, 0.0, g)),
    b=lambda xp, g, a, b: xp.where(a == b, g / 2, xp.where(b < a, 0.0, g)),
)
vjp(
    "minimum",
    a=lambda xp, g, a, b: xp.where(a == b, g / 2, xp.where(a > b, 0.0, g)),
    b=lambda xp, g, a, b: xp.where(a == b, g / 2, xp.where(b > a, 0.0, g)),
)
vjp(
    "where",
    a=lambda xp, g, cond: xp.where(cond, g, 0.0),
    b=lambda xp, g, cond: xp.where(cond, 0.0, g),
)


def _clip(xp: Any, g: Any, a: Any, min: float | None, max: float | None) -> Any:
    if min is not None:
        g = xp.where(a >= min, g, 0.0)
    if max is not None:
        g = xp.where(a <= max, g, 0.0)
    return g


vjp("clip", a=_clip)
