"""What defaults, conditions and comparisons with what is no number mean."""

from __future__ import annotations

import math

import pytest
import torch

from micro import Value, ops
from micro.optim import SGD
from tests.micro.cases import close


@pytest.mark.parametrize("x", [-3.0, 0.5, 19.5, 20.5])
def test_softplus_has_pytorchs_defaults(x: float) -> None:
    ours, theirs = Value(x), torch.tensor(x, dtype=torch.float64, requires_grad=True)
    out, expected = ours.softplus(), torch.nn.functional.softplus(theirs)
    out.backward()
    expected.backward()
    assert theirs.grad is not None
    assert close(out.data, expected.item(), "torch")
    assert close(ours.grad, theirs.grad.item(), "torch")


def test_a_condition_has_the_gradient_0() -> None:
    for truth in (1.0, 0.0):
        condition, a, b = Value(truth), Value(2.0), Value(3.0)
        ops.where(condition, a, b).backward()
        assert (condition.grad, a.grad, b.grad) == (0, truth, 1 - truth)


def test_nothing_that_is_no_number_equals_a_value() -> None:
    assert (Value(1.0) == "1.0") is False
    assert (Value(1.0) != "1.0") is True
    assert ops.eq(Value(1.0), Value(1.0)) is True
    assert ops.ne(Value(1.0), Value(1.0)) is False


def test_a_test_of_a_value_is_a_bool() -> None:
    for test, yes, no in (
        (ops.isnan, math.nan, 1.0),
        (ops.isinf, -math.inf, 1.0),
        (ops.isfinite, 1.0, math.inf),
    ):
        assert test(Value(yes)) is True and test(Value(no)) is False


def test_a_momentum_of_1_keeps_the_whole_velocity() -> None:
    w = Value(1.0)
    descent = SGD([w], lr=0.5, momentum=1)
    for _ in range(3):
        w.grad = 1.0
        descent.step()
    assert w.data == 1.0 - 0.5 * (1 + 2 + 3)


def test_without_decay_a_parameter_that_is_infinite_stays_so() -> None:
    w = Value(math.inf)
    w.grad = 1.0
    SGD([w], lr=0.5).step()
    assert w.data == math.inf


def test_a_rectifier_that_leaks_turns_the_sign_of_0_with_its_slope() -> None:
    for slope in (1.0, -1.0):
        out = ops.leaky_relu(Value(0.0), slope)
        assert math.copysign(1, out.data) == slope


def test_many_parameters_are_as_good_as_few() -> None:
    params = [Value(1.0) for _ in range(300)]
    descent = SGD(params, lr=0.5)
    sum(params, Value(0.0)).backward()
    descent.step()
    assert {p.data for p in params} == {0.5}


def test_an_exponential_linear_unit_has_the_slope_alpha_at_0() -> None:
    a = Value(0.0)
    ops.elu(a, 2.0).backward()
    assert a.grad == 2


def test_without_momentum_nothing_is_dampened() -> None:
    w = Value(1.0)
    descent = SGD([w], lr=0.25, dampening=0.5)
    for _ in range(2):
        w.grad = 1.0
        descent.step()
    assert w.data == 0.5


def test_softplus_is_bent_at_its_threshold_and_straight_above() -> None:
    assert close(ops.softplus(Value(1.0), 2.0, 2.0).data, math.log1p(math.exp(2)) / 2, "torch")
    assert ops.softplus(Value(1.125), 2.0, 2.0).data == 1.125


@pytest.mark.parametrize("approximate", ["", "exact", "nonce", "tan", "tanhh", "z"])
def test_gelu_knows_no_other_form(approximate: str) -> None:
    with pytest.raises(RuntimeError, match=f"must be 'none' or 'tanh', got '{approximate}'"):
        ops.gelu(Value(1.0), approximate)
