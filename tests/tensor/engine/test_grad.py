"""grad() returns gradients and collects none; outputs and inputs come in any form."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tensor as st
from tensor import Tensor, grad, no_grad
from tests.tensor.engine.helpers import leaf, weights


def test_gradients_are_returned_in_the_order_of_the_inputs_and_not_collected() -> None:
    x, y = leaf(3), leaf(3, seed=1)
    gy, gx = grad((x * y * y).sum(), [y, x])
    np.testing.assert_allclose(gx, y.data**2)
    np.testing.assert_allclose(gy, 2 * x.data * y.data)
    assert x.grad is None and y.grad is None
    assert gx.is_leaf and not gx.requires_grad


@pytest.mark.parametrize("form", ["tensor", "list", "tuple", "generator"])
def test_one_input_or_several_in_any_sequence(form: str) -> None:
    x = leaf(3)
    inputs: Any = {"tensor": x, "list": [x], "tuple": (x,), "generator": (t for t in [x])}[form]
    found = grad((x * x).sum(), inputs)
    assert isinstance(found, tuple) and len(found) == 1
    np.testing.assert_allclose(found[0], 2 * x.data)


def test_gradients_with_respect_to_intermediates() -> None:
    x = leaf(3)
    h = x * 2
    y = h.exp()
    gh, gx, gy = grad((y * weights(3)).sum(), [h, x, y])
    np.testing.assert_allclose(gy, weights(3))
    np.testing.assert_allclose(gh, weights(3).data * y.data)
    np.testing.assert_allclose(gx, 2 * weights(3).data * y.data)
    assert h._grad is None and y._grad is None


def test_an_intermediate_that_depends_on_another_input() -> None:
    """d/dh holds x fixed where it does not go through h."""
    x = leaf(3)
    h = x * x
    gx, gh = grad((h * x).sum(), [x, h])
    np.testing.assert_allclose(gh, x.data)
    np.testing.assert_allclose(gx, 3 * x.data**2)


def test_the_output_itself_as_input() -> None:
    x = leaf(3)
    y = (x * x).sum()
    gy, gx = grad(y, [y, x])
    assert gy.item() == 1
    np.testing.assert_allclose(gx, 2 * x.data)


def test_a_leaf_as_its_own_output() -> None:
    x = leaf(3)
    (g,) = grad(x, x, grad_outputs=weights(3))
    np.testing.assert_array_equal(g, weights(3))
    assert not np.shares_memory(g.data, weights(3).data)


def test_the_same_input_twice() -> None:
    x = leaf(3)
    first, second = grad((x * x).sum(), [x, x])
    np.testing.assert_allclose(first, 2 * x.data)
    np.testing.assert_allclose(second, 2 * x.data)


def test_an_unused_input_is_refused_or_none() -> None:
    x, y = leaf(3), leaf(3, seed=1)
    h = y * 2
    loss = (x * x).sum()
    for stranger in (y, h):
        with pytest.raises(RuntimeError, match=r"inputs\[1\] of shape \(3,\) was not used"):
            grad(loss, [x, stranger], retain_graph=True)
    gx, gy, gh = grad(loss, [x, y, h], allow_unused=True)
    assert gy is None and gh is None
    np.testing.assert_allclose(gx, 2 * x.data)


def test_the_position_of_an_unused_input_counts_repeats() -> None:
    x = leaf(3)
    with pytest.raises(RuntimeError, match=r"inputs\[2\]"):
        grad(x.sum(), [x, x, leaf(2)])


def test_nothing_but_unused_inputs() -> None:
    assert grad(leaf(3).sum(), [leaf(3), leaf(2)], allow_unused=True) == (None, None)


def test_a_sum_over_outputs_with_and_without_gradients() -> None:
    x = leaf(3)
    total, each = (x * x).sum(), x.exp()
    (g,) = grad([total, each], x, grad_outputs=[None, weights(3)], retain_graph=True)
    np.testing.assert_allclose(g, 2 * x.data + weights(3).data * np.exp(x.data))
    (g,) = grad([total, each.sum()], [x])
    np.testing.assert_allclose(g, 2 * x.data + np.exp(x.data))


@pytest.mark.parametrize("kind", [Tensor, np.asarray, list])
def test_grad_outputs_may_be_tensors_arrays_or_lists(kind: Any) -> None:
    x = leaf(3)
    (g,) = grad([x * 2], [x], grad_outputs=[kind([1.0, 2.0, 3.0])])
    np.testing.assert_array_equal(g, [2, 4, 6])
    assert g.dtype == np.float64


def test_grad_outputs_of_another_dtype_are_converted() -> None:
    x = leaf(3, dtype=np.float32)
    (g,) = grad(x * 2, x, grad_outputs=np.array([1, 2, 3]))
    assert g.dtype == np.float32
    np.testing.assert_array_equal(g, [2, 4, 6])


@pytest.mark.parametrize("shape", [(1,), (3, 1), (1, 3), (2,), ()])
def test_grad_outputs_of_another_shape_are_refused(shape: tuple[int, ...]) -> None:
    x = leaf(3)
    y = x * 2
    with pytest.raises(RuntimeError, match=r"grad: mismatch in shape: gradient 0 .*\(3,\)"):
        grad(y, x, grad_outputs=weights(*shape))
    grad(y, x, grad_outputs=weights(3))  # nothing was freed


@pytest.mark.parametrize("count", [0, 1, 3])
def test_as_many_grad_outputs_as_outputs(count: int) -> None:
    x = leaf(3)
    with pytest.raises(RuntimeError, match=f"grad: got {count} gradients for 2 outputs"):
        grad([x * 2, x * 3], x, grad_outputs=[weights(3)] * count)


def test_the_rest_of_the_graph_is_left_alone() -> None:
    x, y, seen = leaf(3), leaf(3, seed=1), list[Any]()
    side = y.exp()
    side.register_hook(seen.append)
    loss = (x * x + side).sum()
    grad(loss, x)
    assert seen == [] and side.node.saved is not None


def test_hooks_take_part() -> None:
    x = leaf(3)
    h = x * 2
    h.register_hook(lambda g: g * 10)
    gh, gx = grad(h.sum(), [h, x])
    np.testing.assert_array_equal(gh, [10, 10, 10])
    np.testing.assert_array_equal(gx, [20, 20, 20])


# backward with inputs


def test_backward_may_collect_for_some_inputs_alone() -> None:
    x, y = leaf(3), leaf(3, seed=1)
    loss = (x * y).sum()
    loss.backward(inputs=[x], retain_graph=True)
    assert y.grad is None
    np.testing.assert_allclose(x.grad, y.data)
    loss.backward(inputs=y)
    np.testing.assert_allclose(x.grad, y.data)
    np.testing.assert_allclose(y.grad, x.data)


def test_backward_may_collect_for_an_intermediate() -> None:
    x = leaf(3)
    h = x * 2
    loss = (h * h).sum()
    loss.backward(inputs=[h])
    np.testing.assert_allclose(h.grad, 4 * x.data)
    assert x.grad is None


def test_backward_for_an_input_that_was_not_used_changes_nothing() -> None:
    x, y = leaf(3), leaf(3, seed=1)
    x.sum().backward(inputs=[y])
    assert x.grad is None and y.grad is None


def test_backward_of_several_tensors_adds_up() -> None:
    x = leaf(3)
    st.backward([x.sum(), (x * x).sum(), x * 3], [None, Tensor(2.0), weights(3)])
    np.testing.assert_allclose(x.grad, 1 + 4 * x.data + 3 * weights(3).data)


def test_a_pass_is_recorded_within_no_grad_if_it_is_asked_to() -> None:
    x = leaf(3)
    loss = (x**3).sum()
    with no_grad():
        (g,) = grad(loss, x, create_graph=True)
    (gg,) = grad((g * weights(3)).sum(), x)
    np.testing.assert_allclose(gg, 6 * x.data * weights(3).data)
