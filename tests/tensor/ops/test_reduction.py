"""Reductions at zeros, ties and constants, and over several dimensions."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import tensor as st
from tensor import Tensor, grad

inf, nan = math.inf, math.nan


def leaf(values: Any, dtype: str = "float64") -> Tensor:
    return Tensor(np.array(values, dtype), requires_grad=True)


def slope(function: Callable[[Tensor], Tensor], values: Any, dtype: str = "float64") -> Any:
    x = leaf(values, dtype)
    (g,) = grad(function(x).sum(), x)
    assert g is not None and g.dtype == dtype
    return g.tolist()


# Products


def test_the_gradient_of_a_product_that_holds_zeros() -> None:
    assert slope(lambda x: x.prod(1), [[0.0, 2.0, 3.0], [4.0, 0.0, 5.0]]) == [[6, 0, 0], [0, 20, 0]]
    assert slope(lambda x: x.prod(), 0.0) == 1
    assert slope(lambda x: x.cumprod(0), [0.0, 2.0, 5.0]) == [1 + 2 + 10, 0, 0]


def derivatives(function: Callable[[Tensor], Tensor], values: Any, along: tuple[int, ...]) -> float:
    """The mixed partial derivative by the elements ``along``, one after another."""
    x = leaf(values)
    y = function(x)
    for i in along:
        (g,) = grad(y, x, create_graph=True)
        assert g is not None
        y = g[i]
    return float(y.item())


@pytest.mark.parametrize(
    "values", [[0.0, 0.0, 3.0, 2.0], [0.0, 0.0, 0.0, 0.0], [1.5, -2.0, 0.0, 3.0], [2.0, 1.0, -1, 5]]
)
def test_every_derivative_of_a_product_is_the_product_of_the_others(values: list[float]) -> None:
    numbers = range(len(values))
    for order in (1, 2, 3):
        for along in itertools.product(numbers, repeat=order):
            others = [values[i] for i in numbers if i not in along]
            wanted = math.prod(others) if len(set(along)) == order else 0
            assert derivatives(lambda x: x.prod(), values, along) == wanted, along


@pytest.mark.parametrize("values", [[0.0, 3.0, 0.0, 2.0], [0.0, 0.0, 0.0, 0.0], [1.5, 0.0, -2, 3]])
def test_every_derivative_of_cumulative_products(values: list[float]) -> None:
    weights = [2.0, -1.0, 3.0, 0.5]
    function = lambda x: (x.cumprod(0) * weighted).sum()  # noqa: E731
    weighted = Tensor(np.array(weights))
    for order in (1, 2, 3):
        for along in itertools.product(range(4), repeat=order):
            wanted = 0.0
            if len(set(along)) == order:
                for end in range(max(along), 4):
                    others = [values[i] for i in range(end + 1) if i not in along]
                    wanted += weights[end] * math.prod(others)
            assert derivatives(function, values, along) == wanted, along


def test_the_product_and_the_sum_of_nothing() -> None:
    empty = leaf(np.ones((0, 3)))
    assert empty.prod().item() == 1 and empty.prod(0).tolist() == [1, 1, 1]
    assert empty.cumsum(0).shape == empty.cumprod(1).shape == (0, 3)
    assert not empty.any().item() and empty.all().item()
    assert empty.norm().item() == 0


def test_whole_numbers_are_summed_and_multiplied_in_int64() -> None:
    small = Tensor(np.array([100, 100, 100], np.int8))
    for out in (small.prod(), small.cumsum(0), small.cumprod(0)):
        assert out.dtype == np.int64
    assert small.prod().item() == 10**6 and small.cumsum(0).tolist() == [100, 200, 300]
    assert Tensor([True, True]).cumsum(0).tolist() == [1, 2]


# Norms and deviations


@pytest.mark.parametrize("p", [2, 1, 0, inf, -inf, 3, 1.5, 0.5, -1])
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_a_norm_at_0_has_the_gradient_0(p: float, dtype: str) -> None:
    zeros = [[0.0, 0.0, 0.0]]
    assert slope(lambda x: x.norm(p), zeros, dtype) == zeros
    assert slope(lambda x: x.norm(p, 1) ** 2, zeros, dtype) == zeros
    x = leaf(zeros, dtype)
    (g,) = grad(x.norm(p), x, create_graph=True)
    assert g is not None
    (second,) = grad(g.sum(), x)
    assert second is not None and np.isfinite(second.data).all()


def test_norms_in_closed_form() -> None:
    x = Tensor(np.array([3.0, -4.0, 0.0]))
    norms = [x.norm(p).item() for p in (2, 1, 0, inf, -inf, 3)]
    assert norms[:5] == [5, 7, 2, 4, 0] and norms[5] == pytest.approx(91 ** (1 / 3))
    assert slope(lambda x: x.norm(), [3.0, -4.0, 0.0]) == pytest.approx([0.6, -0.8, 0])
    assert slope(lambda x: x.norm(inf), [4.0, -4.0, 0.0]) == [0.5, -0.5, 0]
    assert slope(lambda x: x.norm(1), [4.0, -4.0, 0.0]) == [1, -1, 0]


def test_a_norm_of_any_order_is_scaled_where_its_powers_would_overflow() -> None:
    assert slope(lambda x: x.norm(), [3e100, 4e100]) == pytest.approx([0.6, 0.8])
    g = slope(lambda x: x.norm(3), [1e100, 1e100])
    assert g == pytest.approx([2 ** (-2 / 3)] * 2)


def test_halves_do_not_overflow_in_norms_and_deviations() -> None:
    x = np.array([300.0, -400.0], np.float16)
    assert Tensor(x).norm().item() == 500
    assert slope(lambda x: x.norm(), x, "float16") == pytest.approx([0.6, -0.8], abs=1e-3)
    spread = np.array([0.0, 1000.0], np.float16)
    assert Tensor(spread).std(correction=0).item() == 500
    assert Tensor(np.full(4000, 1.0, np.float16)).cumsum(0)[-1].item() == 4000


def test_a_constant_has_deviation_0_with_slope_0() -> None:
    assert slope(lambda x: x.std(1), [[2.0, 2.0], [1.0, 3.0]]) == [
        [0, 0],
        pytest.approx([-(0.5**0.5), 0.5**0.5]),
    ]
    x = leaf([3.0, 3.0])
    (g,) = grad(x.std(), x, create_graph=True)
    assert g is not None
    (second,) = grad(g.sum(), x)
    assert second is not None and second.tolist() == [0, 0]


# Extrema


def test_ties_share_the_gradient_of_amax_and_one_wins_that_of_max() -> None:
    rows = [[5.0, 5.0, 1.0], [2.0, 2.0, 2.0]]
    assert slope(lambda x: x.amax(1), rows) == [[0.5, 0.5, 0], [1 / 3] * 3]
    assert slope(lambda x: x.amin(), rows) == [[0, 0, 1], [0, 0, 0]]
    assert slope(lambda x: x.amax((0, 1)), rows) == [[0.5, 0.5, 0], [0, 0, 0]]
    assert slope(lambda x: x.max(1).values, rows) == [[1, 0, 0], [1, 0, 0]]


def test_nan_is_the_largest_and_the_smallest_and_gets_the_gradient() -> None:
    for choose in (st.amax, st.amin):
        assert math.isnan(choose(leaf([1.0, nan, 3.0])).item())
        assert slope(choose, [1.0, nan, 3.0]) == [0, 1, 0]


# Dimensions


@pytest.mark.parametrize("name", ["sum", "mean", "var", "std", "norm", "amax", "amin"])
def test_several_dimensions_are_reduced_at_once(name: str) -> None:
    values = np.random.default_rng(3).normal(size=(2, 3, 4))
    flat = Tensor(values.transpose(1, 0, 2).reshape(3, 8))
    wanted = getattr(flat, name)(dim=1)
    for dims in ((0, 2), [2, 0], (-1, -3)):
        out = getattr(Tensor(values), name)(dim=dims)
        np.testing.assert_allclose(out.data, wanted.data, rtol=1e-14)
        assert getattr(Tensor(values), name)(dim=dims, keepdim=True).shape == (1, 3, 1)


@pytest.mark.parametrize("name", ["any", "all"])
def test_truth_is_asked_over_several_dimensions(name: str) -> None:
    values = np.array([[[1.0, 0.0], [2.0, 3.0]], [[0.0, 0.0], [nan, 1.0]]])
    out = getattr(Tensor(values), name)(dim=(0, 2))
    assert out.dtype == bool
    assert out.tolist() == ([True, True] if name == "any" else [False, True])


def test_a_constant_has_variance_0_with_slope_0() -> None:
    assert slope(lambda x: x.var(), [3.0, 3.0, 3.0]) == [0, 0, 0]


def test_the_slope_0_of_a_constants_deviation_has_the_slope_0_in_everything() -> None:
    x, seed = leaf([[2.0, 2.0, 2.0], [1.0, 2.0, 4.0]]), leaf([1.5, -2.0])
    (g,) = grad(x.std(1), x, seed, create_graph=True)
    assert g is not None
    by_x, by_seed = grad(g, [x, seed], Tensor(np.array([[0.5, -1.0, 2.0], [1.0, 2.0, 0.5]])))
    assert by_x is not None and by_x.tolist()[0] == [0, 0, 0]
    assert by_seed is not None and by_seed.tolist()[0] == 0
    assert np.isfinite(by_x.data).all() and np.isfinite(by_seed.data).all()


def test_a_variance_without_degrees_of_freedom() -> None:
    with pytest.warns(UserWarning, match="degrees of freedom"):
        wanted = torch.tensor([1.0, 2.0, 3.0]).var(correction=5).item()
    x = leaf([1.0, 2.0, 3.0])
    assert x.var(correction=3).item() == x.var(correction=5).item() == wanted == inf
    assert math.isnan(leaf([1.0]).var().item())
    for variance in (lambda x: x.var(correction=3), lambda x: x.var(correction=5)):
        np.testing.assert_array_equal(slope(variance, [1.0, 2.0, 3.0]), [-inf, nan, inf])
