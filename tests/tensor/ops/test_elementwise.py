"""Elementwise ops at the ends of the range, in steps, in quotients and in logic."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

import mpmath
import numpy as np
import pytest

import tensor as st
from tensor import Tensor, grad

inf, nan = math.inf, math.nan


def leaf(*values: float, dtype: str = "float64") -> Tensor:
    return Tensor(np.array(values, dtype), requires_grad=True)


def slope(function: Callable[[Tensor], Tensor], *values: float, dtype: str = "float64") -> Any:
    x = leaf(*values, dtype=dtype)
    (g,) = grad(function(x).sum(), x)
    assert g is not None and g.dtype == dtype
    return g.data


# The whole range, against 50 digits

_log = mpmath.log


def _exp(x: Any) -> Any:
    return mpmath.exp(max(min(x, mpmath.mpf(2e4)), mpmath.mpf(-2e4)))  # which no dtype can tell


def _sinh(x: Any) -> Any:
    return mpmath.sinh(x) if abs(x) < 1 else (_exp(x) - _exp(-x)) / 2


def _cosh(x: Any) -> Any:
    return (_exp(x) + _exp(-x)) / 2


EXACT: Final[dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]]] = {
    "rsqrt": (lambda x: 1 / mpmath.sqrt(x), lambda x: -1 / (2 * x * mpmath.sqrt(x))),
    "reciprocal": (lambda x: 1 / x, lambda x: -1 / (x * x)),
    "log2": (lambda x: _log(x) / _log(2), lambda x: 1 / (x * _log(2))),
    "log10": (lambda x: _log(x) / _log(10), lambda x: 1 / (x * _log(10))),
    "log1p": (mpmath.log1p, lambda x: 1 / (1 + x)),
    "expm1": (lambda x: mpmath.expm1(x) if x < 1 else _exp(x) - 1, _exp),
    "exp2": (lambda x: _exp(x * _log(2)), lambda x: _exp(x * _log(2)) * _log(2)),
    "atan": (mpmath.atan, lambda x: 1 / (1 + x * x)),
    "sinh": (_sinh, _cosh),
    "cosh": (_cosh, _sinh),
    "logsigmoid": (lambda x: min(x, 0) - mpmath.log1p(_exp(-abs(x))), lambda x: 1 / (1 + _exp(x))),
    "softplus": (
        lambda x: x if x > 20 else mpmath.log1p(_exp(x)),
        lambda x: 1 if x > 20 else 1 / (1 + _exp(-x)),
    ),
    "silu": (
        lambda x: x / (1 + _exp(-x)),
        lambda x: (1 + x / (1 + _exp(x))) / (1 + _exp(-x)),
    ),
    "elu": (
        lambda x: x if x > 0 else mpmath.expm1(max(x, mpmath.mpf(-2e4))),
        lambda x: 1 if x > 0 else _exp(x),
    ),
    "leaky_relu": (
        lambda x: x if x > 0 else x * mpmath.mpf(0.01),
        lambda x: 1 if x > 0 else mpmath.mpf(0.01),
    ),
}
POSITIVE: Final = {"rsqrt", "log2", "log10", "log1p"}

# Units in the last place: those of numpy's elementary functions, twice over in a gradient.
UNITS: Final = 8
# The gradient of silu, which crosses 0, is measured against 1. It multiplies a by 1 - sigmoid(a),
# which has the rounding error of numbers near 1, also where a is 30.
SILU_UNITS: Final = 20


def rounding_errors(name: str, dtype: str, values: Any) -> Any:
    """By how many units each value and gradient is off that is neither tiny nor nearly too large.

    Tiny is what lies below the smallest number with all its digits.
    """
    function, derivative = EXACT[name]
    info = np.finfo(dtype)
    x = Tensor(values, requires_grad=True)
    out = getattr(st, name)(x)
    (g,) = grad(out.sum(), x)
    assert g is not None and out.dtype == g.dtype == dtype
    worst = []
    with mpmath.workdps(50):
        top = float(info.max)
        for number, *found in zip(values, out.data, g.data, strict=True):
            for exact, actual, of in ((function, found[0], 0), (derivative, found[1], 1)):
                wanted = exact(mpmath.mpf(float(number)))
                if abs(wanted) > top / 2 and abs(actual) == inf:
                    continue
                scale = 1 if name == "silu" and of and abs(wanted) < 1 else abs(wanted)
                error = abs(mpmath.mpf(float(actual)) - wanted)
                if error > float(info.tiny):
                    worst.append(float(error / (scale * float(info.eps))))
    return np.array([0.0, *worst])


def spread(name: str, dtype: str) -> Any:
    """Numbers of every size that the dtype has, of both signs where the op takes them."""
    info = np.finfo(dtype)
    sizes = np.geomspace(float(info.tiny), float(info.max) * 0.999, 40)
    near = np.array([0.1, 0.5, 1, 1.5, 2, 5, 10, 16, 19.5, 21, 30, 50, 80, 87, 100, 700, 1000, 1e4])
    sizes = np.concatenate([sizes, near])
    values = sizes if name in POSITIVE else np.concatenate([-sizes, sizes])
    return values.astype(dtype)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("name", EXACT)
def test_values_and_gradients_are_right_to_the_last_places_over_the_whole_range(
    name: str, dtype: str
) -> None:
    assert rounding_errors(name, dtype, spread(name, dtype)).max() <= (
        SILU_UNITS if name == "silu" else UNITS
    )


def test_a_formula_that_overflows_on_the_way_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(st, "logsigmoid", lambda x: -((-x).exp() + 1).log())
    worst = rounding_errors("logsigmoid", "float64", np.array([-700.0, 40.0]))
    assert worst.max() > UNITS


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_log2_is_exact_at_powers_of_two(dtype: str) -> None:
    info = np.finfo(dtype)
    powers = np.arange(info.minexp, info.maxexp)
    np.testing.assert_array_equal(Tensor(np.ldexp(np.ones(1, dtype), powers)).log2().data, powers)


def test_second_derivatives_stay_finite_far_out() -> None:
    far = (-1e4, -1000.0, -100.0, 100.0, 1000.0, 1e4)
    for name in ("softplus", "logsigmoid", "silu", "elu", "leaky_relu", "gelu"):
        for dtype in ("float16", "float32", "float64"):
            x = leaf(*far, dtype=dtype)
            (g,) = grad(getattr(st, name)(x).sum(), x, create_graph=True)
            assert g is not None
            (second,) = grad(g.sum(), x)
            assert second is not None
            np.testing.assert_allclose(second.data, 0, atol=1e-40, err_msg=f"{name} {dtype}")


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_gelu_of_large_numbers_has_the_slopes_0_and_1_in_both_forms(dtype: str) -> None:
    far = [-float(np.finfo(dtype).max), -300.0, -50.0, 50.0, 300.0, float(np.finfo(dtype).max)]
    for approximate in ("none", "tanh"):
        x = leaf(*far, dtype=dtype)
        out = x.gelu(approximate)
        np.testing.assert_array_equal(out.data, np.maximum(x.data, 0))
        (g,) = grad(out.sum(), x, create_graph=True)
        assert g is not None and g.tolist() == [0, 0, 0, 1, 1, 1]
        (second,) = grad(g.sum(), x)
        assert second is not None and second.tolist() == [0.0] * 6


def test_softplus_does_not_overflow_below_a_high_threshold() -> None:
    x = leaf(-1e4, 1e4)
    out = x.softplus(2.0, 1e6)
    assert out.tolist() == [0, 1e4]
    (g,) = grad(out.sum(), x)
    assert g is not None and g.tolist() == [0, 1]


def test_nan_stays_nan() -> None:
    for name in ("elu", "leaky_relu", "softplus", "silu", "logsigmoid", "floor", "round", "rsqrt"):
        assert math.isnan(getattr(leaf(nan), name)().item()), name


# Steps


STEPS: Final[dict[str, Callable[[Tensor], Tensor]]] = {
    "sign": lambda x: x.sign(),
    "floor": lambda x: x.floor(),
    "ceil": lambda x: x.ceil(),
    "round": lambda x: x.round(),
    "round to a tenth": lambda x: x.round(1),
    "quotient": lambda x: x // 2,
    "reflected quotient": lambda x: 2 // x,
    "quotient of itself": lambda x: x // x,
}


@pytest.mark.parametrize("name", STEPS)
def test_a_step_has_the_gradient_0_and_stays_in_the_graph(name: str) -> None:
    step = STEPS[name]
    x = leaf(-1.7, 0.25, 2.5)
    out = step(x)
    assert out.requires_grad
    out.sum().backward()
    assert x.grad is not None and x.grad.tolist() == [0, 0, 0]
    (g,) = grad(step(x), x, Tensor(np.array([inf, nan, 1.0])))
    assert g is not None and g.tolist() == [0, 0, 0]
    np.testing.assert_array_equal(slope(lambda x: step(x) * x, -1.7, 0.25, 2.5), step(x).data)


def test_comparisons_and_tests_give_truth_values_without_a_gradient() -> None:
    x = leaf(1.0, inf, nan)
    for out in (x > 0, x.isnan(), x.isinf(), x.isfinite(), x.any(), x.all(), x.logical_not()):
        assert out.dtype == bool and not out.requires_grad
    assert x.isfinite().tolist() == [True, False, False]


def test_round_takes_halves_to_even_and_leaves_what_would_overflow() -> None:
    assert Tensor([0.5, 1.5, 2.5, -0.5]).round().tolist() == [0, 2, 2, 0]
    assert Tensor([125.0, 135.0]).round(-1).tolist() == [120, 140]
    for dtype, large in (("float16", 60000.0), ("float32", 1e38), ("float64", 1e308)):
        x = Tensor(np.array([large], dtype))
        assert x.round(3).item() == x.item()
    assert Tensor(np.array([3, -4])).round().dtype == np.int64


# Quotients


def test_floor_division_and_remainder_are_pythons_operators() -> None:
    a, b = [7.0, -7.0, 7.0, -7.0], [3.0, 3.0, -3.0, -3.0]
    x, y = Tensor(a), Tensor(b)
    assert (x // y).tolist() == [2, -3, -3, 2] == [p // q for p, q in zip(a, b, strict=True)]
    assert (x % y).tolist() == [1, 2, -2, -1] == [p % q for p, q in zip(a, b, strict=True)]
    assert (7 // y).tolist() == [2, 2, -3, -3] and (7 % y).tolist() == [1, 1, -2, -2]
    assert (x // 2).tolist() == [3, -4, 3, -4] and (x % 2).tolist() == [1, 1, 1, 1]
    whole = Tensor(np.array([7, -7]))
    assert (whole // 2).tolist() == [3, -4] and (whole % 2).tolist() == [1, 1]
    assert (whole // 2).dtype == np.int64
    assert (Tensor(np.array([1.0])) // 0.1).item() == 9  # 0.1 is a little more than a tenth


def test_the_gradient_of_a_remainder() -> None:
    a, b = leaf(7.5, -7.5), leaf(2.0, 2.0)
    ga, gb = grad(a % b, [a, b], Tensor(np.array([2.0, 3.0])))
    assert ga is not None and gb is not None
    assert ga.tolist() == [2, 3] and gb.tolist() == [-6, 12]


def test_an_integer_divided_by_0_is_refused_and_a_float_is_not() -> None:
    for operation in (st.floor_divide, st.remainder):
        with pytest.raises(RuntimeError, match=f"{operation.__name__}: an integer is divided by 0"):
            operation(Tensor(np.array([1, 2])), 0)
    assert (Tensor([1.0, -1.0]) // 0).tolist() == [inf, -inf]
    assert math.isnan((Tensor([1.0]) % 0).item())


# Logic


def test_truth_values_have_the_operators_of_logic() -> None:
    a, b = Tensor([True, True, False, False]), Tensor([True, False, True, False])
    assert (a & b).tolist() == [True, False, False, False]
    assert (a | b).tolist() == [True, True, True, False]
    assert (a ^ b).tolist() == [False, True, True, False]
    assert (~a).tolist() == [False, False, True, True]
    assert (a & True).tolist() == (True & a).tolist() == a.tolist()
    for mixed in (a & b.data, a.data & b, a | b.data, a.data ^ b, np.invert(a)):
        assert isinstance(mixed, Tensor) and mixed.dtype == bool


def test_minus_a_truth_value_is_refused_with_advice_that_works() -> None:
    t = Tensor([True, False])
    with pytest.raises(TypeError, match=r"neg.*~"):
        _ = -t
    assert (~t).tolist() == [False, True]


@pytest.mark.parametrize("numbers", [np.array([1, 2]), np.array([1.0, 2.0])], ids=["int", "float"])
def test_the_operators_of_logic_refuse_numbers(numbers: Any) -> None:
    t, mask = Tensor(numbers), Tensor([True, False])
    for call in (lambda: t & mask, lambda: mask | t, lambda: t ^ mask, lambda: ~t):
        with pytest.raises(RuntimeError, match="must be bool, got"):
            call()
    for stranger in (None, "text", [True, False]):
        with pytest.raises(TypeError):
            mask & stranger
    assert t.logical_and(mask).tolist() == [True, False]


# Other names


def test_clamp_is_another_name_for_clip() -> None:
    x = leaf(-1.0, 0.5, 2.0)
    assert st.clamp(x, 0, 1).tolist() == x.clamp(0, 1).tolist() == [0, 0.5, 1]
    assert x.clamp(min=0).tolist() == [0, 0.5, 2]


# Choices and powers, where a factor is 0 or not finite


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int64", "bool"])
def test_a_choice_of_zero_is_a_choice_whatever_the_other_side_holds(dtype: str) -> None:
    values = np.array([[-inf, -2.5, -0.0], [0.0, 1.5, nan], [inf, 3.0, 5e-8]])
    zeros: list[Any] = [0, 0.0, -0.0, np.zeros(3, dtype)]
    if dtype in ("int64", "bool"):
        values, zeros = np.arange(-4, 5).reshape(3, 3), [False, np.zeros(3, dtype)]
    a = values.astype(dtype)
    for mask in (a > 0, np.array([True, False, True]), np.array([[False], [True], [True]])):
        for zero in zeros:
            wide = np.asarray(zero).astype(dtype)
            for ours, wanted in (
                (st.where(mask, Tensor(a), zero), np.where(mask, a, wide)),
                (st.where(mask, zero, Tensor(a)), np.where(mask, wide, a)),
            ):
                assert ours.dtype == wanted.dtype
                assert ours.data.tobytes() == wanted.tobytes()


def test_a_masked_infinity_stays_out_of_the_gradient() -> None:
    # sqrt has an infinite slope at 0, which relu's 0 must stop.
    assert slope(lambda x: x.relu().sqrt(), -1.0, 4.0).tolist() == [0, 0.25]
    assert slope(lambda x: st.maximum(x, 0.0).sqrt(), -1.0, 4.0).tolist() == [0, 0.25]
    assert slope(lambda x: x.clip(0).sqrt(), -1.0, 4.0).tolist() == [0, 0.25]


def test_powers_at_zero_have_flat_slopes() -> None:
    assert slope(lambda x: x**0, 2.0).tolist() == [0]
    assert slope(lambda x: x**1, 0.0).tolist() == [1]
    assert slope(lambda x: x**2, 0.0, -3.0).tolist() == [0, -6]
    assert slope(lambda x: x**3, 0.0, -2.0).tolist() == [0, 12]
    assert slope(lambda x: 0.0**x, 2.0, 0.0).tolist() == [0, 0]
    assert slope(lambda x: 2.0**x, 3.0)[0] == pytest.approx(8 * math.log(2))


@pytest.mark.parametrize(
    ("base", "exponent", "derivatives"),
    [
        (0.0, 3.0, [0, 0, 6, 0]),
        (0.0, 2.0, [0, 2, 0, 0]),
        (0.0, 1.0, [1, 0, 0, 0]),
        (0.0, 0.0, [0, 0, 0, 0]),
        (-2.0, 3.0, [12, -12, 6, 0]),
        (-2.0, -1.0, [-1 / 4, -1 / 4, -3 / 8, -3 / 4]),
        (4.0, 0.5, [1 / 4, -1 / 32, 3 / 256, -15 / 2048]),
    ],
)
def test_four_derivatives_of_a_power(
    base: float, exponent: float, derivatives: list[float]
) -> None:
    x = leaf(base)
    y, found = (x**exponent).sum(), []
    for _ in range(4):
        (g,) = grad(y, x, create_graph=True)
        assert g is not None
        y = g.sum()
        found.append(y.item())
    assert found == derivatives


def test_derivatives_by_the_exponent_of_a_power_of_zero_are_zero() -> None:
    x = leaf(0.5, 1.0, 2.0)
    y = (0.0**x).sum()
    for _ in range(3):
        (g,) = grad(y, x, create_graph=True)
        assert g is not None and g.tolist() == [0, 0, 0]
        y = g.sum()
