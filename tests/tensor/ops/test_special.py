"""The error function: against 50 digits, at its special values, and where its numbers come from."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from typing import Any

import mpmath
import numpy as np
import pytest

from tensor import Tensor
from tensor.kernels import special
from tensor.kernels.special import SPLIT, TOP

Array = np.ndarray[Any, Any]

LIMIT = 2.0  # units in the last place

# Every binade from the smallest numbers to those whose result is 1, both seams, and random ones.
_rng = np.random.default_rng(8)
POINTS = np.concatenate(
    [
        np.ldexp(_rng.uniform(0.5, 1.0, 60), np.arange(-58, 2)),
        _rng.uniform(0, SPLIT, 1500),
        _rng.uniform(SPLIT, TOP, 1500),
        SPLIT * (1 + np.linspace(-1e-3, 1e-3, 201)),
        np.linspace(5.7, 6.5, 101),
    ]
)


def errors(function: Callable[[Array], Array], points: Array) -> Array:
    """How far the function is from erf, in units in the last place of its dtype."""
    with mpmath.workdps(50):
        exact = [mpmath.erf(float(x)) for x in points]
        values = function(points)
        spacing = np.spacing(np.abs(np.array([float(y) for y in exact], points.dtype)))
        return np.array(
            [
                float(abs(mpmath.mpf(float(v)) - y) / float(s))
                for v, y, s in zip(values, exact, spacing, strict=True)
            ]
        )


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_erf_is_right_to_two_units_in_the_last_place(dtype: str) -> None:
    points = np.concatenate([POINTS, -POINTS]).astype(dtype)
    found = errors(special.erf, points)
    assert special.erf(points).dtype == dtype
    assert found.max() <= LIMIT
    assert 0 < np.median(found) < 0.6


def test_an_error_function_that_is_off_is_found() -> None:
    off = errors(lambda x: special.erf(x) * (1 + 8 * np.finfo(float).eps), POINTS[:200])
    assert off.max() > LIMIT


def test_half_precision_is_the_nearest_half_but_for_a_tie() -> None:
    points = np.arange(2**16, dtype=np.uint16).view(np.float16)
    finite = points[np.isfinite(points)]
    values = Tensor(finite).erf().data
    assert values.dtype == np.float16
    exact = special.erf(np.clip(finite.astype(float), -9, 9))
    nearest = exact.astype(np.float16)
    assert (np.abs(values - nearest) <= np.spacing(np.abs(nearest))).all()
    assert np.count_nonzero(values != nearest) <= 2  # rounded twice


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_special_values(dtype: str) -> None:
    points = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1e30, -1e30, 5e-324], dtype="float64")
    with np.errstate(over="ignore"):
        points = points.astype(dtype)
    out = Tensor(points).erf().data
    wanted = np.array([0.0, -0.0, 1.0, -1.0, np.nan, 1.0, -1.0, 0.0], dtype)
    np.testing.assert_array_equal(out[:-1], wanted[:-1])
    assert np.signbit(out[1]) and not np.signbit(out[0])
    assert 0 <= out[-1] <= 1e-300
    assert Tensor(np.array(0.5, dtype)).erf().shape == ()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_erf_is_odd_bounded_and_never_falls(dtype: str) -> None:
    points = np.linspace(-7, 7, 200_001).astype(dtype)
    out = special.erf(points)
    np.testing.assert_array_equal(out, -special.erf(-points))
    assert np.abs(out).max() == 1
    # Rounding may undo at most a step of the size of the errors allowed.
    assert np.diff(out).min() >= -2 * LIMIT * np.finfo(dtype).eps


def test_many_elements_need_no_more_memory_than_the_result() -> None:
    points = np.linspace(-3, 3, 2_000_000)
    tracemalloc.start()
    special.erf(points)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1.2 * points.nbytes


# Where the coefficients come from


def interpolation(function: Callable[[Any], Any], low: Any, high: Any, nodes: int) -> list[Any]:
    """The coefficients of the polynomial through a function at the Chebyshev nodes."""
    middle, half = (low + high) / 2, (high - low) / 2
    places = [
        middle + half * mpmath.cos((2 * k + 1) * mpmath.pi / (2 * nodes)) for k in range(nodes)
    ]
    powers = mpmath.matrix([[place**j for j in range(nodes)] for place in places])
    values = mpmath.matrix([function(place) for place in places])
    return list(mpmath.lu_solve(powers, values))


def near(t: Any) -> Any:
    return mpmath.erf(mpmath.sqrt(t)) / mpmath.sqrt(t) - 1


def scaled(x: Any) -> Any:
    return (mpmath.mpf(x) - 2) / (mpmath.mpf(x) + 2)


def far(u: Any) -> Any:
    x = 2 * (1 + u) / (1 - u)
    return mpmath.exp(x * x) * mpmath.erfc(x)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_coefficients_are_those_that_the_docstring_derives(dtype: str) -> None:
    fit = special.FITS[np.dtype(dtype)]
    with mpmath.workdps(50):
        wanted_near = interpolation(near, mpmath.mpf(0), mpmath.mpf(SPLIT), len(fit.near))
        wanted_far = interpolation(far, scaled(SPLIT), scaled(TOP), len(fit.far))
        for stored, wanted in ((fit.near, wanted_near), (fit.far, wanted_far)):
            rounded = np.array([float(c) for c in wanted]).astype(dtype)
            np.testing.assert_array_equal(np.array(stored, dtype), rounded)
