"""create_graph records the pass, so that gradients of every order can be had."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tensor as st
from tensor import Tensor, grad
from tests.tensor.engine.helpers import cases, leaf, weights


def derivatives(function: Callable[[Tensor], Tensor], x: Tensor, count: int) -> list[float]:
    """The first ``count`` derivatives of a function of one number, at ``x``."""
    found, y = [], function(x)
    for order in range(1, count + 1):
        (y,) = grad(y, x, create_graph=order < count)
        found.append(y.item())
    return found


def number(value: float) -> Tensor:
    return Tensor(value, dtype="float64", requires_grad=True)


@cases(
    "function, expected",
    {
        "sin": (
            lambda x: x.sin(), lambda v: [math.cos(v), -math.sin(v), -math.cos(v), math.sin(v)]),
        "exp": (lambda x: x.exp(), lambda v: [math.exp(v)] * 4),
        "log": (lambda x: x.log(), lambda v: [1 / v, -1 / v**2, 2 / v**3, -6 / v**4]),
        "pow": (lambda x: x**5, lambda v: [5 * v**4, 20 * v**3, 60 * v**2, 120 * v]),
        "reciprocal": (lambda x: 1 / x, lambda v: [-1 / v**2, 2 / v**3, -6 / v**4, 24 / v**5]),
        "product": (lambda x: x * x * x * x, lambda v: [4 * v**3, 12 * v**2, 24 * v, 24]),
        "in place": (
            lambda x: (x * 1).mul_(x).mul_(x).mul_(x),
            lambda v: [4 * v**3, 12 * v**2, 24 * v, 24]),
        "by index": (
            lambda x: x.reshape(1)[[0, 0]].exp().sum(), lambda v: [2 * math.exp(v)] * 4),
    },
)  # fmt: skip
def test_four_derivatives(
    function: Callable[[Tensor], Tensor], expected: Callable[[float], list[float]]
) -> None:
    found = derivatives(function, number(0.7), 4)
    np.testing.assert_allclose(found, expected(0.7), rtol=1e-12, atol=1e-12)


def test_hessian_of_a_quadratic_form_is_its_matrix() -> None:
    x, a = leaf(4), weights(4, 4)
    (g,) = grad(x @ a @ x, x, create_graph=True)
    rows = [grad(g[i], x, retain_graph=True)[0].data for i in range(4)]
    np.testing.assert_allclose(rows, a.data + a.data.T, rtol=1e-13)


def test_hessian_of_a_smooth_function_is_symmetric() -> None:
    x = leaf(5)

    def f(x: Tensor) -> Tensor:
        return ((x.reshape(5, 1) * x).tanh().sum() * x.exp().sum()).log()

    (g,) = grad(f(x), x, create_graph=True)
    rows = np.array([grad(g[i], x, retain_graph=True)[0].data for i in range(5)])
    np.testing.assert_allclose(rows, rows.T, rtol=1e-12, atol=1e-12)
    assert np.abs(rows).min() > 1e-6


def test_a_gradient_penalty() -> None:
    w, x = leaf(3), leaf(4, 3, seed=1)
    (gx,) = grad((x @ w).tanh().sum(), x, create_graph=True)
    penalty = (gx * gx).sum()
    (gw,) = grad(penalty, w)
    eps = 1e-6
    for i in range(3):
        moved = []
        for sign in (1, -1):
            v = w.data.copy()
            v[i] += sign * eps
            slope = 1 - np.tanh(x.data @ v) ** 2
            moved.append(((slope[:, None] * v) ** 2).sum())
        assert gw[i].item() == pytest.approx((moved[0] - moved[1]) / (2 * eps), rel=1e-7)


def test_the_gradient_with_respect_to_the_seed() -> None:
    x, seed = leaf(3), leaf(3, seed=1)
    (g,) = grad(x.exp(), x, grad_outputs=seed, create_graph=True)
    gs, gx = grad((g * weights(3)).sum(), [seed, x])
    np.testing.assert_allclose(gs, weights(3).data * np.exp(x.data))
    np.testing.assert_allclose(gx, weights(3).data * seed.data * np.exp(x.data))


def test_backward_with_create_graph_collects_gradients_with_history() -> None:
    x = leaf(3)
    (x**3).sum().backward(create_graph=True)
    first = x.grad
    assert first is not None and first.requires_grad
    x.grad = None
    (first * weights(3)).sum().backward()
    np.testing.assert_allclose(x.grad, 6 * x.data * weights(3).data)
    x.grad = None


def test_recorded_gradients_add_up_with_their_histories() -> None:
    x = leaf(3)
    for power in (2, 3):
        (x**power).sum().backward(create_graph=True)
    total = x.grad
    x.grad = None
    np.testing.assert_allclose(total.data, 2 * x.data + 3 * x.data**2)
    np.testing.assert_allclose(grad(total.sum(), x)[0], 2 + 6 * x.data)


def test_a_training_step_through_a_training_step() -> None:
    """The loss after a step of gradient descent, as a function of where it started."""
    w, x, rate = leaf(3), weights(4, 3), 0.1

    def loss(w: Tensor) -> Tensor:
        return ((x @ w - 1) ** 2).mean()

    (g,) = grad(loss(w), w, create_graph=True)
    (through,) = grad(loss(w - rate * g), w)
    h = 2 / 4 * x.data.T @ x.data
    after = w.data - rate * g.data
    inner = 2 / 4 * x.data.T @ (x.data @ after - 1)
    np.testing.assert_allclose(through, (np.eye(3) - rate * h) @ inner, rtol=1e-12)


@pytest.mark.parametrize("order", [1, 2, 3])
def test_a_recorded_pass_gives_the_numbers_of_an_unrecorded_one(order: int) -> None:
    x, w = leaf(2, 3), weights(2, 3)

    def nth(last_is_recorded: bool) -> np.ndarray[Any, Any]:
        y = st.cat([x.exp(), x @ x.T], 1).softmax(1).log().sum() + (x * x * w).sum()
        for k in range(1, order + 1):
            (g,) = grad(y, x, create_graph=k < order or last_is_recorded)
            y = (g * g * w).sum() if k < order else y
        return g.data

    np.testing.assert_allclose(nth(True), nth(False), rtol=1e-11, atol=1e-11)


def test_the_graph_of_a_recorded_pass_is_made_of_ordinary_records() -> None:
    x = leaf(3)
    (g,) = grad((x.exp() * weights(3)).sum(), x, create_graph=True)
    assert g.op == "mul"
    assert "exp" in [edge.op for edge in g.inputs]


@pytest.mark.parametrize(
    "function",
    [
        pytest.param(lambda x: x.relu(), id="relu"),
        pytest.param(lambda x: x.abs(), id="abs"),
        pytest.param(lambda x: x.clip(-1, 1), id="clip"),
        pytest.param(lambda x: st.maximum(x, 0.5), id="maximum"),
        pytest.param(st.ops.max, id="max"),
        pytest.param(lambda x: st.ops.min(x, 0), id="min along a dimension"),
        pytest.param(lambda x: (x @ weights(3, 2)).relu(), id="matmul and relu"),
        pytest.param(lambda x: st.linear(x, leaf(2, 3), None, "relu"), id="fused linear and relu"),
    ],
)
def test_the_second_derivative_of_a_piecewise_linear_function_is_zero(
    function: Callable[[Tensor], Tensor],
) -> None:
    x = leaf(3)
    (g,) = grad(function(x).sum(), x, create_graph=True)
    (second,) = grad(g, x, weights(3))
    assert second is not None
    assert second.data.tolist() == [0.0, 0.0, 0.0]


def test_a_factor_that_is_not_finite_leaves_the_second_derivative_of_relu_zero() -> None:
    x = leaf(3)
    (g,) = grad(x.relu().sum() * math.inf, x, create_graph=True)
    (second,) = grad(g, x, weights(3))
    assert second is not None
    assert second.data.tolist() == [0.0, 0.0, 0.0]


def test_the_gradient_of_a_piecewise_linear_function_is_the_same_when_it_is_recorded() -> None:
    x = Tensor([-1.0, -0.0, 0.0, 2.0, math.nan], requires_grad=True)
    for function in (Tensor.relu, Tensor.abs):
        plain = grad(function(x), x, weights(5))[0].data
        recorded = grad(function(x), x, weights(5), create_graph=True)[0].data
        assert plain.tobytes() == recorded.tobytes()


def test_a_linear_function_has_no_second_derivative_to_speak_of() -> None:
    x = leaf(3)
    (g,) = grad((3 * x).sum(), x, create_graph=True)
    with pytest.raises(RuntimeError, match="does not require grad"):
        grad(g.sum(), x)
