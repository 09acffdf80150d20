"""Numbers: IEEE values, zeros, ties and infinities, without an exception or a warning."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

import numpy as np
import pytest
import torch

import micro
import tensor as st
from micro import Value
from tensor import Tensor, grad
from tensor.nn import CrossEntropyLoss, functional
from tests.behaviours.engines import Engine, each_engine

inf, nan = math.inf, math.nan


def leaf(*values: Any, dtype: str = "float64") -> Tensor:
    return Tensor(np.array(values, dtype), requires_grad=True)


def slope(function: Callable[[Tensor], Tensor], *values: Any, dtype: str = "float64") -> Any:
    """The gradient of the sum of a function of an array."""
    x = leaf(*values, dtype=dtype)
    (g,) = grad(function(x).sum(), x)
    assert g is not None
    return g.tolist()


# IEEE values and PyTorch's gradients

IEEE: Final[list[tuple[str, tuple[float, ...], float, tuple[float, ...]]]] = [
    # op, operands, value, gradient by each operand
    ("div", (1.0, 0.0), inf, (inf, -inf)),
    ("div", (0.0, 0.0), nan, (inf, nan)),
    ("log", (0.0,), -inf, (inf,)),
    ("sqrt", (0.0,), 0.0, (inf,)),
    ("pow", (0.0, 0.0), 1.0, (0.0, 0.0)),
    ("pow", (0.0, -1.0), inf, (-inf, -inf)),
    ("pow", (-8.0, 1 / 3), nan, (nan, nan)),
    ("exp", (1000.0,), inf, (inf,)),
    ("tanh", (1e4,), 1.0, (0.0,)),
    ("tanh", (-1e4,), -1.0, (0.0,)),
    ("sigmoid", (1e4,), 1.0, (0.0,)),
    ("sigmoid", (-1e4,), 0.0, (0.0,)),
]
each_ieee = pytest.mark.parametrize(
    ("op", "point", "value", "gradient"), IEEE, ids=[f"{op}{point}" for op, point, *_ in IEEE]
)


@each_engine
@each_ieee
def test_values_are_ieee_754s_and_gradients_torchs(
    engine: Engine, op: str, point: tuple[float, ...], value: float, gradient: tuple[float, ...]
) -> None:
    xs = [engine.leaf(x) for x in point]
    out = getattr(engine.ops, op)(*xs)
    engine.backward(out)
    np.testing.assert_array_equal(float(out.data), value)
    np.testing.assert_array_equal([float(x.grad) for x in xs], gradient)
    ts = [torch.tensor(x, dtype=torch.float64, requires_grad=True) for x in point]
    theirs = getattr(torch, op)(*ts)
    theirs.backward()
    np.testing.assert_array_equal(theirs.item(), value)
    np.testing.assert_array_equal([t.grad.item() for t in ts if t.grad is not None], gradient)


@each_ieee
def test_values_and_gradients_of_float32_are_the_same(
    op: str, point: tuple[float, ...], value: float, gradient: tuple[float, ...]
) -> None:
    xs = [leaf(x, dtype="float32") for x in point]
    out = getattr(st, op)(*xs)
    np.testing.assert_array_equal(out.data, np.array([value], np.float32))
    for g, wanted in zip(grad(out, xs), gradient, strict=True):
        assert g is not None
        np.testing.assert_array_equal(g.data, np.array([wanted], np.float32))


@each_engine
def test_derivatives_1_to_4_of_the_bell_curve_at_0(engine: Engine) -> None:
    for square in (lambda x: x**2, lambda x: x * x):
        x = engine.leaf(0.0)
        y, found = engine.ops.exp(-square(x)), []
        for _ in range(4):
            y = engine.derivative(y, x, create_graph=True)
            found.append(float(y))
        assert found == [0, -2, 0, 12]


@each_engine
def test_the_derivative_by_the_exponent_of_a_power_of_zero_is_0(engine: Engine) -> None:
    assert engine.slopes(engine.ops.pow, 0.0, 1.0) == [1, 0]


@each_engine
def test_the_derivative_of_a_power_of_0_at_zero_is_0(engine: Engine) -> None:
    assert engine.slopes(lambda x: x**0, 0.0) == [0]
    assert engine.slopes(engine.ops.pow, 0.0, 0.0) == [0, 0]


def test_the_gradient_of_a_product_that_holds_zeros() -> None:
    assert slope(lambda x: x.prod(), 0.0, 1.0) == [1, 0]
    assert slope(lambda x: x.prod(), 0.0, 0.0, 3.0) == [0, 0, 0]


def test_a_norm_and_its_square_have_the_gradient_0_at_0() -> None:
    for p in (2, 1):
        assert slope(lambda x, p=p: x.norm(p), 0.0, 0.0) == [0, 0]
        assert slope(lambda x, p=p: x.norm(p) ** 2, 0.0, 0.0) == [0, 0]


def test_a_constant_has_a_standard_deviation_with_the_gradient_0() -> None:
    x = leaf(3.0, 3.0, 3.0)
    assert x.std().item() == 0
    assert slope(lambda x: x.std(), 3.0, 3.0, 3.0) == [0, 0, 0]


# Ties


@each_engine
@pytest.mark.parametrize("name", ["maximum", "minimum"])
def test_equal_operands_share_the_gradient_of_the_larger(engine: Engine, name: str) -> None:
    choose = getattr(engine.ops, name)
    assert engine.slopes(choose, 2.0, 2.0) == [0.5, 0.5]
    assert engine.slopes(lambda x: choose(x, x), 2.0) == [1]


@pytest.mark.parametrize("name", ["max", "min"])
def test_n_ties_over_all_elements_have_1_nth_each(name: str) -> None:
    assert slope(lambda x: getattr(x, name)(), 3.0, 3.0, 3.0) == [1 / 3] * 3
    row = [[3.0, 3.0], [3.0, 3.0]]
    assert slope(lambda x: getattr(x, name)(), *row) == [[1 / 4] * 2] * 2


@pytest.mark.parametrize("name", ["max", "min"])
def test_one_of_several_ties_wins_along_a_dimension_with_indices(name: str) -> None:
    x = Tensor(np.full((2, 3), 5.0), requires_grad=True)
    values, indices = getattr(x, name)(1)
    assert indices.tolist() == [0, 0]
    (g,) = grad((values * np.array([2.0, -3.0])).sum(), x)
    assert g is not None and g.tolist() == [[2, 0, 0], [-3, 0, 0]]


# Infinities


def naive(where: Any, exp: Any, a: Any) -> Any:
    return where(a <= 0, exp(a), 1 + a)


def careful(where: Any, exp: Any, a: Any) -> Any:
    return where(a <= 0, exp(where(a <= 0, a, 0)), 1 + a)


def test_a_branch_not_taken_is_nan_unless_its_argument_is_chosen_too() -> None:
    for function, wanted in ((naive, nan), (careful, 1.0)):
        found = slope(lambda a, f=function: f(st.where, st.exp, a), 100.0, dtype="float32")
        t = torch.tensor([100.0], requires_grad=True)
        function(torch.where, torch.exp, t).sum().backward()
        assert t.grad is not None
        np.testing.assert_array_equal(found, [wanted])
        np.testing.assert_array_equal(t.grad.numpy(), [wanted])


def test_a_branch_of_a_value_not_taken_is_nan_unless_its_argument_is_chosen_too() -> None:
    for function, wanted in ((naive, nan), (careful, 1.0)):
        a = Value(1000.0)  # exp(100) is no infinity in float64
        function(micro.where, micro.exp, a).backward()
        np.testing.assert_array_equal(a.grad, wanted)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    "loss",
    [CrossEntropyLoss(), functional.cross_entropy, st.cross_entropy],
    ids=["module", "function", "op"],
)
def test_cross_entropy_of_large_logits(loss: Callable[..., Tensor], dtype: str) -> None:
    x = leaf([-431.0, 279.0, 427.0], dtype=dtype)
    out = loss(x, np.array([0]))
    assert out.item() == 858
    (g,) = grad(out, x)
    assert g is not None
    np.testing.assert_allclose(g.data, [[-1, 0, 1]], atol=1e-60)  # e**-148, in float64


def test_logsumexp_of_infinities() -> None:
    rows = np.array([[-inf, -inf], [-inf, 0.5], [0.0, 0.0]])
    x = Tensor(rows, requires_grad=True)
    y = x.logsumexp(1)
    np.testing.assert_allclose(y.data, [-inf, 0.5, math.log(2)])
    for create_graph in (False, True):
        (g,) = grad(y.sum(), x, create_graph=create_graph, retain_graph=True)
        assert g is not None
        np.testing.assert_allclose(g.data, [[0, 0], [0, 1], [0.5, 0.5]])


def test_softmax_of_a_row_that_is_partly_minus_infinity() -> None:
    x = leaf(-inf, 0.0, 0.0)
    assert x.softmax(0).tolist() == [0, 0.5, 0.5]
    (g,) = grad(x.softmax(0), x, Tensor(np.array([5.0, 1.0, 2.0])))
    assert g is not None
    np.testing.assert_allclose(g.data, [0, -0.25, 0.25])


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_bce_with_logits_is_finite_and_its_gradient_exact(dtype: str) -> None:
    x = leaf(0, 1000, -1000, 1000, -1000, 50, -50, 0, dtype=dtype)
    target = np.array([0, 0, 0, 1, 1, 1, 0, 1])
    loss = functional.binary_cross_entropy_with_logits(x, target, reduction="none")
    loss.sum().backward()
    tail = np.exp(np.array(-50.0, dtype))  # float32 keeps it too
    expected = np.array([np.log(2), 1000, 0, 0, 1000, tail, tail, np.log(2)], dtype)
    np.testing.assert_allclose(loss.data, expected, rtol=4 * np.finfo(dtype).eps)
    assert x.grad is not None
    assert x.grad.tolist()[0] == 0.5 and x.grad.tolist()[-1] == -0.5
    assert x.grad.tolist()[1:5] == [1, 0, 0, -1]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_second_derivatives_of_bce_are_finite_where_its_logarithms_are_limited(dtype: str) -> None:
    p = Tensor([0.0, 1.0, 0.5], dtype, requires_grad=True)
    target = Tensor([0.25, 0.25, 0.25], dtype, requires_grad=True)
    loss = functional.binary_cross_entropy(p, target, reduction="sum")
    (by_target,) = grad(loss, target, create_graph=True)
    np.testing.assert_allclose(by_target.data, [100.0, -100.0, 0.0])
    (by_both,) = grad(by_target.sum(), p)
    np.testing.assert_array_equal(by_both.data, [-1.0, -1.0, -4.0])
