"""Anomaly mode names the op that yielded NaN or inf, and the line of the user's code."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tensor as st
from tensor import Tensor, detect_anomaly, grad
from tests.tensor.engine.helpers import cases, leaf


def line() -> int:
    """The line of the caller."""
    return sys._getframe(1).f_lineno


def at(number: int) -> str:
    """How a message names a line of this file, as a pattern."""
    return rf"{__file__}:{number}$"


FORWARD: dict[str, tuple[Callable[[Tensor], Tensor], str, str]] = {
    "log": (lambda x: x.log(), "log", "inf"),
    "sqrt": (lambda x: (x - 1).sqrt(), "sqrt", "NaN"),
    "method": (lambda x: x.div(x), "div", "NaN"),
    "operator": (lambda x: (x + 1) / x, "div", "inf"),
    "reflected operator": (lambda x: 1 / x, "div", "inf"),
    "reflected power": (lambda x: 0.0 ** (x - 1), "pow", "inf"),
    "function": (lambda x: st.log(x * 1), "log", "inf"),
    "ufunc": (lambda x: np.log(x * 1), "log", "inf"),
    "array on the left": (lambda x: np.ones(3) / x, "div", "inf"),
    "constant": (lambda x: Tensor([0.0]).log(), "log", "inf"),
    "iterating": (lambda x: next(iter(1000 * (x + 1) * 1e306 * 1e306)), "mul", "inf"),
}


@cases("function, op, what", FORWARD)
def test_the_forward_pass_names_the_op_and_the_line(
    function: Callable[[Tensor], Tensor], op: str, what: str
) -> None:
    x = Tensor(np.zeros(3), requires_grad=True)
    where = at(function.__code__.co_firstlineno)
    with (
        detect_anomaly(),
        pytest.raises(RuntimeError, match=rf"{op}: the forward yielded {what} at {where}"),
    ):
        function(x)
    assert not st.is_anomaly_enabled()
    assert not np.isfinite(function(x).data).all()


def test_a_forward_pass_outside_of_the_mode_has_no_line() -> None:
    x = Tensor([0.0], requires_grad=True)
    loss = x.sqrt().sum()
    with (
        detect_anomaly(),
        pytest.raises(RuntimeError, match=r"sqrt: the backward yielded inf .*a line unknown"),
    ):
        loss.backward()
    assert x.grad is None


def test_the_operand_of_a_variadic_op_is_named_by_its_position() -> None:
    x, y = leaf(2), leaf(2, seed=1)
    seed = Tensor([1.0, 1.0, np.inf, 1.0], dtype="float64")
    with (
        detect_anomaly(),
        pytest.raises(RuntimeError, match=r"cat: the backward yielded inf for operand tensors\[1"),
    ):
        st.cat([x, y]).backward(seed)


def test_nan_and_inf_are_told_apart() -> None:
    x = Tensor([0.0, 0.0], requires_grad=True)
    with detect_anomaly():
        loss = x.sqrt()
        with pytest.raises(RuntimeError, match="yielded NaN"):
            loss.backward(Tensor([1.0, 0.0]))


def test_the_second_order_is_searched_too() -> None:
    x = Tensor([0.0], dtype="float64", requires_grad=True)
    with detect_anomaly():
        loss = (x**1.5).sum()
        (g,) = grad(loss, x, create_graph=True)
        with pytest.raises(RuntimeError, match=r"pow: the backward yielded inf .*made at .*:\d+$"):
            grad(g.sum(), x)


def test_finite_numbers_pass() -> None:
    x = leaf(3)
    with detect_anomaly():
        (x.exp().log() / x).sum().backward()
    np.testing.assert_allclose(x.grad, np.zeros(3), atol=1e-14)


def test_what_is_not_floating_is_not_searched() -> None:
    with detect_anomaly():
        assert (Tensor([1, 2]) + 1).tolist() == [2, 3]
        assert (Tensor([1.0]) > 0).tolist() == [True]


def test_an_infinity_in_a_leaf_is_no_fault_of_an_op() -> None:
    with detect_anomaly():
        x = Tensor([np.inf, 1.0], requires_grad=True)
        y = x.clip(0, 5)
        y.sum().backward()
    np.testing.assert_array_equal(x.grad, [0, 1])


@pytest.mark.parametrize("bad", [0, 1, 2, 3])
def test_what_is_read_from_one_array_many_times_is_searched_every_time(bad: int) -> None:
    x = leaf(4)
    seeds: list[Tensor | None] = [Tensor(np.array(np.nan if i == bad else 1.0)) for i in range(4)]
    with detect_anomaly():
        parts = [x[i] for i in range(4)]
        with pytest.raises(RuntimeError, match="getitem: the backward yielded NaN for operand a"):
            st.backward(parts, seeds)
    assert x.grad is None


def test_without_the_mode_nothing_is_searched_and_no_line_is_kept() -> None:
    x = Tensor([0.0], requires_grad=True)
    y = x.log()
    y.backward()
    assert np.isinf(x.grad.data).all()
    assert x.exp().node.site is None


def test_the_line_is_that_of_the_innermost_code_of_the_user() -> None:
    def helper(x: Tensor) -> Tensor:
        return x * 2

    with detect_anomaly():
        node: Any = helper(leaf(3)).node
    assert node.site == f"{__file__}:{helper.__code__.co_firstlineno + 1}"
    assert node.site in repr(node)


def test_a_layer_is_not_the_users_code() -> None:
    from tensor import nn

    layer = nn.Linear(3, 2)
    with detect_anomaly():
        out, made = layer(Tensor(np.ones((1, 3), np.float32))), line()
    assert out.node.site == f"{__file__}:{made}"


def test_a_version_error_names_the_line() -> None:
    x = leaf(3)
    with detect_anomaly():
        y, made = x.exp(), line()
    with st.no_grad():
        y.zero_()
    with pytest.raises(RuntimeError, match=rf"exp: .*made at {__file__}:{made}"):
        y.sum().backward()


def test_as_a_decorator() -> None:
    @detect_anomaly()
    def function(x: Tensor) -> Tensor:
        return x.log()

    with pytest.raises(RuntimeError, match="log: the forward yielded NaN"):
        function(Tensor([-1.0]))
