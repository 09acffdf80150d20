"""Special functions that numpy does not have, and what is made of them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from ..graph import Array
from .choice import accelerated
from .half import in_single
from .norms import Places, wanted
from .room import Memory, contiguous, fresh

__all__ = [
    "BLOCK",
    "DENSITY",
    "FITS",
    "ROOT",
    "SPLIT",
    "TOP",
    "Fit",
    "erf",
    "gelu",
    "gelu_backward",
]


class Fit(NamedTuple):
    """Coefficients, lowest power first, of the two polynomials that make up ``erf``."""

    near: tuple[float, ...]
    far: tuple[float, ...]


# Up to SPLIT the first polynomial holds, from there to TOP the second; beyond TOP, erf is 1.
SPLIT: Final = 1.0
TOP: Final = 6.0

FITS: Final = {
    np.dtype(np.float64): Fit(
        near=(
            0.12837916709551256,
            -0.37612638903183543,
            0.11283791670945006,
            -0.02686617064323777,
            0.0052239776071164225,
            -0.0008548325975389692,
            0.00012055294904839707,
            -1.492473690741966e-05,
            1.6447424703317362e-06,
            -1.6208483801871705e-07,
            1.3720064546777686e-08,
            -7.795898827002142e-10,
        ),
        far=(
            0.2553956763105057,
            -0.4271858474139585,
            0.24165819424248763,
            -0.07897858101571269,
            0.0037328924016564484,
            0.006997461739200575,
            -0.0008471431229415333,
            -0.0009819771114740715,
            4.355265359817883e-05,
            0.00017436477257256738,
            2.7560352756678313e-05,
            -2.7640727821912852e-05,
            -1.4166339069117108e-05,
            1.859427387429402e-06,
            4.146302183268488e-06,
            -2.22812957637235e-07,
        ),
    ),
    np.dtype(np.float32): Fit(
        near=(
            0.12837917,
            -0.37612626,
            0.11283594,
            -0.026854211,
            0.0051890872,
            -0.00080168643,
            7.875875e-05,
        ),
        far=(
            0.25539568,
            -0.42718586,
            0.24165817,
            -0.07897715,
            0.0037336068,
            0.0069735423,
            -0.0008467641,
            -0.0008468609,
        ),
    ),
}

# Elements that are worked on at a time, so that what is between stays in the cache.
BLOCK: Final = 8192


def _blocks(count: int) -> Iterator[slice]:
    for start in range(0, count, BLOCK):
        yield slice(start, min(start + BLOCK, count))


@in_single
@accelerated
def erf(a: Array, into: Array | None = None, room: Memory = fresh) -> Any:
    r"""Return the error function of every element, to within 2 units in the last place.

    With P and Q polynomials,

        erf(a) = a + a P(a^2)                                  where |a| < 1,
        erf(a) = sign(a) (1 - exp(-a^2) Q((|a| - 2) / (|a| + 2)))  elsewhere.

    P interpolates erf(a) / a - 1 as a function of a^2 over [0, 1], and Q interpolates
    exp(a^2) erfc(a) for a in [1, 6], each at the Chebyshev nodes of its interval and in 50
    digits, before the coefficients are rounded: in double precision at 12 and 16 nodes, where
    the fit is off by less than 1e-17, and in single at 7 and 8, where it is off by less than
    2e-9. Half precision is computed in single.
    """
    out = np.empty(a.shape, a.dtype) if into is None else into
    flat, results = contiguous(room, "a", a).reshape(-1), out.reshape(-1)
    for part in _blocks(flat.size):
        _erf(flat[part], results[part], room)
    return out


def _erf(x: Array, out: Array, room: Memory) -> None:
    """Write the error function of a block to ``out``."""
    fit = FITS[x.dtype]
    names = ("square", "beyond", "y", "t", "tail")
    square, beyond, y, t, tail = (room(name, (BLOCK,), x.dtype) for name in names)
    square = np.multiply(x, x, out=square[: x.size])
    np.multiply(_polynomial(fit.near, square, out), x, out=out)
    np.add(out, x, out=out)
    large = np.flatnonzero(np.absolute(x, out=square) >= SPLIT)  # NaN is not: it stays what it is
    if large.size:
        beyond, y, t, tail = (array[: large.size] for array in (beyond, y, t, tail))
        np.take(x, large, out=beyond, mode="clip")
        np.minimum(np.absolute(beyond, out=y), TOP, out=y)
        np.divide(np.subtract(y, 2, out=t), np.add(y, 2, out=tail), out=t)
        _polynomial(fit.far, t, tail)
        np.multiply(np.negative(y, out=t), y, out=t)
        np.multiply(tail, np.exp(t, out=t), out=tail)
        out[large] = np.copysign(np.subtract(1, tail, out=tail), beyond, out=tail)


def _polynomial(coefficients: tuple[float, ...], t: Array, out: Array) -> Array:
    """Write the polynomial's value, by Horner's scheme, to ``out`` and return that."""
    *lower, highest = coefficients
    out.fill(highest)
    for coefficient in reversed(lower):
        np.multiply(out, t, out=out)
        np.add(out, coefficient, out=out)
    return out


# The Gaussian error linear unit.


@in_single
@accelerated
def gelu(a: Array, approximate: str, into: Array | None = None, room: Memory = fresh) -> Any:
    """Return ``a * Phi(a)``, or with "tanh" the approximation to it through that."""
    out = np.empty(a.shape, a.dtype) if into is None else into
    flat, results = contiguous(room, "a", a).reshape(-1), out.reshape(-1)
    for part in _blocks(flat.size):
        x, result = flat[part], results[part]
        inner, scaled = (room(name, x.shape, x.dtype) for name in ("inner", "scaled"))
        if approximate == "tanh":
            np.multiply(np.multiply(x, x, out=inner), x, out=inner)
            np.add(x, np.multiply(inner, _CUBIC, out=inner), out=inner)
            np.tanh(np.multiply(inner, _TANH, out=inner), out=inner)
        else:
            _erf(np.multiply(x, ROOT, out=scaled), inner, room)
        np.multiply(x, 0.5, out=result)
        np.multiply(result, np.add(inner, 1, out=inner), out=result)
    return out


ROOT: Final = math.sqrt(0.5)
_TANH: Final = math.sqrt(2 / math.pi)
_CUBIC: Final = 0.044715
DENSITY: Final = 1 / math.sqrt(2 * math.pi)

# Beyond, the approximation is 0 or ``a``, and powers of ``a`` might overflow.
_REACH: Final = 10.0


@in_single
@accelerated
def gelu_backward(
    g: Array,
    needs: Sequence[bool],
    a: Array,
    approximate: str,
    into: Places | None = None,
    room: Memory = fresh,
) -> tuple[Any]:
    """Return ``g (Phi(a) + a phi(a))``, or the derivative of the approximation."""
    (gradient,) = wanted((True,), (a.shape,), g.dtype, into)
    assert gradient is not None
    flat, results = contiguous(room, "a", a).reshape(-1), gradient.reshape(-1)
    above = contiguous(room, "g", g).reshape(-1)
    for part in _blocks(flat.size):
        x, result = flat[part], results[part]
        near, inner, other = (room(n, x.shape, x.dtype) for n in ("near", "inner", "other"))
        if approximate == "tanh":
            np.clip(x, -_REACH, _REACH, out=near)
            square = np.multiply(near, near, out=other)
            np.multiply(np.multiply(near, square, out=inner), _CUBIC, out=inner)
            t = np.tanh(np.multiply(np.add(near, inner, out=inner), _TANH, out=inner), out=inner)
            np.multiply(
                np.add(np.multiply(square, 3 * _CUBIC, out=other), 1, out=other), near, near
            )
            np.multiply(near, 0.5 * _TANH, out=near)
            np.subtract(1, np.multiply(t, t, out=other), out=other)
            np.multiply(near, other, out=near)
        else:
            np.multiply(np.multiply(x, x, out=other), -0.5, out=other)
            np.multiply(np.exp(other, out=other), DENSITY, out=other)
            np.multiply(x, other, out=near)
            _erf(np.multiply(x, ROOT, out=other), inner, room)
        np.multiply(np.add(inner, 1, out=inner), 0.5, out=inner)
        np.multiply(above[part], np.add(inner, near, out=near), out=result)
    return (gradient,)
