"""Special functions that numpy does not have."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np

from ..graph import Array
from .half import in_single

__all__ = ["SPLIT", "TOP", "Fit", "erf"]


class Fit(NamedTuple):
    """Coefficients, lowest power first, of the two polynomials that make up ``erf``."""

    near: tuple[float, ...]
    far: tuple[float, ...]


# Up to SPLIT the first polynomial holds, from there to TOP the second; beyond TOP, erf is 1.
SPLIT: Final = 1.0
TOP: Final = 6.0

_FITS: Final = {
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
_BLOCK: Final = 16384


@in_single
def erf(a: Any) -> Any:
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
    a = np.asarray(a)
    fit = _FITS[a.dtype]
    out = np.empty(a.shape, a.dtype)
    flat, results = a.reshape(-1), out.reshape(-1)
    for start in range(0, flat.size, _BLOCK):
        part = slice(start, start + _BLOCK)
        _block(flat[part], results[part], fit)
    return out


def _block(x: Array, out: Array, fit: Fit) -> None:
    np.multiply(_polynomial(fit.near, x * x), x, out=out)
    np.add(out, x, out=out)
    large = np.flatnonzero(np.absolute(x) >= SPLIT)  # NaN is not large: it stays what it is
    if large.size:
        beyond = x[large]
        y = np.minimum(np.absolute(beyond), TOP)
        tail = _polynomial(fit.far, (y - 2) / (y + 2))
        tail *= np.exp(-y * y)
        out[large] = np.copysign(1 - tail, beyond)


def _polynomial(coefficients: tuple[float, ...], t: Array) -> Array:
    """Return the polynomial's value by Horner's scheme."""
    *lower, highest = coefficients
    total = np.full_like(t, highest)
    for coefficient in reversed(lower):
        np.multiply(total, t, out=total)
        np.add(total, coefficient, out=total)
    return total
