"""Gradients of intermediates are kept nowhere, unless retain_grad or a hook asks for them."""

from __future__ import annotations

import copy
import gc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tensor as st
from tensor import Tensor, grad, no_grad
from tests.tensor.engine.helpers import leaf, weights
from viz import draw


def test_intermediates_keep_no_gradient() -> None:
    x = leaf(3)
    y = x * 2
    z = y.exp()
    z.sum().backward()
    for result in (y, z):
        with pytest.warns(UserWarning, match=rf"made by {result.op}.*retain_grad\(\)"):
            assert result.grad is None
    assert x.grad is not None


def test_what_looks_at_an_intermediate_by_itself_does_not_warn() -> None:
    """Warnings are errors here."""
    x = leaf(3)
    y = x * 2
    y.retain_grad()
    assert y.grad is None  # it is going to have one
    z = y.exp()
    assert "exp" in repr(z) and "exp" in format(z) and draw(z.sum())
    z.sum().backward(inputs=[y, z])
    assert y.grad is not None and z.grad is not None
    with no_grad():
        z += z.detach()
    with pytest.raises(RuntimeError, match="only leaf Tensors can be copied"):
        copy.copy(z)


def test_nothing_of_a_first_pass_is_left_for_a_second() -> None:
    """A second pass that met stale gradients of intermediates would more than double."""
    x = leaf(3)
    loss = (x.exp() * 2).sum()
    loss.backward(retain_graph=True)
    loss.backward()
    np.testing.assert_allclose(x.grad, 4 * np.exp(x.data))


# retain_grad


def test_retain_grad_keeps_the_gradient_of_an_intermediate() -> None:
    x, w = leaf(3), weights(3)
    y = x * 2
    y.retain_grad()
    (y * w).sum().backward()
    np.testing.assert_array_equal(y.grad, w)
    assert y.grad is not None and y.grad.is_leaf


def test_retained_gradients_add_up_over_passes() -> None:
    x = leaf(3)
    y = x * 2
    y.retain_grad()
    loss = (y * weights(3)).sum()
    loss.backward(retain_graph=True)
    loss.backward()
    np.testing.assert_array_equal(y.grad, 2 * weights(3).data)


def test_retain_grad_of_the_loss_and_of_a_leaf() -> None:
    x = leaf(3)
    x.retain_grad()
    loss = x.sum()
    loss.retain_grad()
    loss.backward()
    assert loss.grad is not None and loss.grad.item() == 1
    np.testing.assert_array_equal(x.grad, [1, 1, 1])


def test_retain_grad_follows_the_tensor_through_a_change_in_place() -> None:
    x = leaf(3)
    y = x * 2
    y.retain_grad()
    y.mul_(3)
    (y * weights(3)).sum().backward()
    np.testing.assert_array_equal(y.grad, weights(3))
    np.testing.assert_allclose(x.grad, 6 * weights(3).data)


def test_retain_grad_twice_counts_once() -> None:
    y = leaf(3) * 2
    y.retain_grad()
    y.mul_(3)
    y.retain_grad()
    y.sum().backward()
    np.testing.assert_array_equal(y.grad, [1, 1, 1])


def test_a_retaining_tensor_that_is_gone_is_no_trouble() -> None:
    x = leaf(3)
    y = x * 2
    y.retain_grad()
    loss = y.sum()
    del y
    gc.collect()
    loss.backward()
    np.testing.assert_array_equal(x.grad, [2, 2, 2])


def test_grad_leaves_retained_gradients_alone() -> None:
    x = leaf(3)
    y = x * 2
    y.retain_grad()
    grad(y.sum(), x)
    assert y.grad is None and x.grad is None


# Hooks

Make = Callable[[Tensor], Tensor]
EITHER: dict[str, Make] = {"leaf": lambda x: x, "result": lambda x: x * 1, "view": lambda x: x[:]}


@pytest.fixture(params=EITHER, name="make")
def _make(request: pytest.FixtureRequest) -> Make:
    return EITHER[request.param]


def test_a_hook_sees_the_complete_gradient_once(make: Make) -> None:
    x, seen = leaf(3), list[Any]()
    y = make(x)
    y.register_hook(seen.append)
    (y * weights(3) + y.exp()).sum().backward()
    assert len(seen) == 1 and isinstance(seen[0], Tensor)
    np.testing.assert_allclose(seen[0], weights(3).data + np.exp(x.data))
    np.testing.assert_allclose(x.grad, seen[0])


def test_a_hook_may_replace_the_gradient(make: Make) -> None:
    x = leaf(3)
    y = make(x)
    y.register_hook(lambda g: g * 10)
    y.register_hook(lambda g: g + 1)
    (y * weights(3)).sum().backward()
    np.testing.assert_allclose(x.grad, weights(3).data * 10 + 1)


def test_what_a_hook_returns_is_converted_to_the_tensors_dtype(make: Make) -> None:
    x = leaf(3, dtype=np.float32)
    y = make(x)
    y.register_hook(lambda g: Tensor(np.array([1, 2, 3])))
    y.sum().backward()
    assert x.grad is not None and x.grad.dtype == np.float32
    np.testing.assert_array_equal(x.grad, [1, 2, 3])


def test_a_removed_hook_is_not_called(make: Make) -> None:
    x, seen = leaf(3), list[Any]()
    y = make(x)
    first = y.register_hook(lambda g: seen.append("first"))
    y.register_hook(lambda g: seen.append("second"))
    first.remove()
    y.sum().backward()
    assert seen == ["second"]


def test_removing_a_hook_again_removes_no_other(make: Make) -> None:
    x, seen = leaf(3), list[Any]()
    y = make(x)
    first = y.register_hook(lambda g: seen.append("first"))
    first.remove()
    y.register_hook(lambda g: seen.append("second"))
    first.remove()
    y.sum().backward()
    assert seen == ["second"]


def test_a_hook_may_remove_itself(make: Make) -> None:
    x, seen = leaf(3), list[Any]()
    y = make(x)
    handle = y.register_hook(lambda g: (seen.append(1), handle.remove())[1])
    y.register_hook(lambda g: seen.append(2))
    loss = y.sum()
    loss.backward(retain_graph=True)
    loss.backward()
    assert seen == [1, 2, 2]


@pytest.mark.parametrize("create_graph", [False, True])
def test_a_hook_sees_what_the_mode_of_the_pass_is(make: Make, create_graph: bool) -> None:
    x, seen = leaf(3), list[Any]()
    y = make(x)
    y.register_hook(lambda g: seen.append((st.is_grad_enabled(), g.requires_grad)))
    (y * y).sum().backward(create_graph=create_graph)
    assert seen == [(create_graph, create_graph)]


def test_a_hook_that_scales_the_gradient_is_part_of_a_recorded_pass(make: Make) -> None:
    x = leaf(3)
    y = make(x)
    handle = y.register_hook(lambda g: g * x)
    (gx,) = grad((y * y).sum(), x, create_graph=True)
    np.testing.assert_allclose(gx.data, 2 * x.data**2)
    handle.remove()
    (ggx,) = grad(gx.sum(), x, retain_graph=True)
    np.testing.assert_allclose(ggx, 4 * x.data)


@pytest.mark.parametrize(
    ("returned", "message"),
    [
        (lambda g: weights(2), r"shape \(3,\), got \(2,\)"),
        (lambda g: g.sum(), r"shape \(3,\), got \(\)"),
        (lambda g: g.data, r"shape \(3,\), got ndarray"),
        (lambda g: 1.0, r"shape \(3,\), got float"),
    ],
)
def test_a_hook_that_returns_something_else_is_refused(
    make: Make, returned: Callable[[Tensor], Any], message: str
) -> None:
    x = leaf(3)
    y = make(x)
    y.register_hook(returned)
    whose = "a leaf" if y.is_leaf else f"the result of {y.op}"
    with pytest.raises(RuntimeError, match=f"a hook of {whose} must .*{message}"):
        (y.sum() + x.sum()).backward()
    assert x.grad is None


def test_a_hook_runs_before_the_gradient_is_retained() -> None:
    y = leaf(3) * 2
    y.retain_grad()
    y.register_hook(lambda g: g * 5)
    y.sum().backward()
    np.testing.assert_array_equal(y.grad, [5, 5, 5])


def test_hooks_run_from_the_output_to_the_leaves() -> None:
    x, order = leaf(3), list[str]()
    y = x * 2
    z = y * 3
    for name, t in {"x": x, "z": z, "y": y}.items():
        t.register_hook(lambda g, name=name: order.append(name))
    z.sum().backward()
    assert order == ["z", "y", "x"]


def test_a_hook_on_a_tensor_beside_the_path_is_not_called() -> None:
    x, y, seen = leaf(3), leaf(3, seed=1), list[Any]()
    y.register_hook(seen.append)
    (x * x + y).sum().backward(inputs=x)
    assert seen == [] and y.grad is None


def test_a_backward_pass_within_a_hook(make: Make) -> None:
    x, other = leaf(3), leaf(3, seed=1)
    y = make(x)
    y.register_hook(lambda g: (other * g.detach()).sum().backward())
    (y * y).sum().backward(create_graph=True)
    np.testing.assert_allclose(x.grad.data, 2 * x.data)
    np.testing.assert_allclose(other.grad, 2 * x.data)


@pytest.mark.parametrize("method", ["retain_grad", "register_hook"])
def test_without_gradient_there_is_nothing_to_ask_for(method: str) -> None:
    args = [lambda g: None] if method == "register_hook" else []
    for t in (Tensor([1.0]), leaf(3).detach(), leaf(3) > 1):
        with pytest.raises(RuntimeError, match=f"{method}.*require grad"):
            getattr(t, method)(*args)
    with no_grad(), pytest.raises(RuntimeError, match=method):
        getattr(leaf(3) * 2, method)(*args)


def test_a_hook_must_be_callable() -> None:
    x = leaf(3)
    with pytest.raises(TypeError, match="register_hook: hook must be callable, got int"):
        x.register_hook(3)  # type: ignore[arg-type]
    x.sum().backward()
    np.testing.assert_array_equal(x.grad, [1, 1, 1])
