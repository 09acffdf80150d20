"""Changes in place: recorded where that is possible, refused with a reason where it is not."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tensor as st
from tensor import ShapeError, Tensor, grad, no_grad
from tests.tensor.engine.helpers import cases, leaf, weights

UPDATES: dict[str, tuple[Callable[[Any, Any], Any], Callable[[Any, Any], Any]]] = {
    "add": (operator.iadd, operator.add),
    "sub": (operator.isub, operator.sub),
    "mul": (operator.imul, operator.mul),
    "div": (operator.itruediv, operator.truediv),
}


# Recorded


@pytest.mark.parametrize("name", UPDATES)
def test_a_recorded_change_has_the_value_and_gradients_of_the_op(name: str) -> None:
    in_place, plain = UPDATES[name]
    found = []
    for update in (in_place, plain):
        x, y, w = leaf(3), leaf(3, seed=1), weights(3)
        h = x * 2
        before = h
        h = update(h, y)
        assert (h is before) == (update is in_place)
        assert h.op == name
        found.append([h.data, *grad((h * h * w).sum(), [x, y])])
    for actual, expected in zip(*found, strict=True):
        np.testing.assert_allclose(actual, expected, rtol=1e-14)


@pytest.mark.parametrize("name", UPDATES)
def test_a_tensor_may_be_changed_by_itself(name: str) -> None:
    found = []
    for update in UPDATES[name]:
        x = leaf(3)
        h = x * 2
        h = update(h, h)
        found.append([h.data, *grad((h * weights(3)).sum(), x)])
    for actual, expected in zip(*found, strict=True):
        np.testing.assert_allclose(actual, expected, rtol=1e-14, atol=1e-14)


@pytest.mark.parametrize("name", UPDATES)
def test_the_second_order_crosses_a_recorded_change(name: str) -> None:
    found = []
    for update in UPDATES[name]:
        x, y = leaf(3), leaf(3, seed=1)
        h = x.exp()
        h = update(h * 1.0, y * y)
        (g,) = grad((h * h).sum(), x, create_graph=True)
        found.append(grad((g * weights(3)).sum(), [x, y], allow_unused=True))
    for actual, expected in zip(*found, strict=True):
        np.testing.assert_allclose(actual, expected, rtol=1e-12, atol=1e-12)


def test_a_total_of_losses() -> None:
    x, total = leaf(3), Tensor(0.0, dtype="float64")
    for k in range(4):
        total += (x * k).sum()
    assert not total.is_leaf
    total.backward()
    np.testing.assert_array_equal(x.grad, [6, 6, 6])


def test_a_total_that_was_looked_at() -> None:
    x, seen = leaf(3), list[float]()
    total = (x * 1).sum()
    for k in range(1, 4):
        seen.append(total.detach().item())
        total += (x * k).sum()
    total.backward()
    np.testing.assert_array_equal(x.grad, [7, 7, 7])
    np.testing.assert_allclose(seen, x.data.sum() * np.array([1, 2, 4]))


def test_a_total_that_starts_as_a_python_number() -> None:
    x, total = leaf(3), 0
    for k in range(4):
        total += (x * k).sum()
    total.backward()
    np.testing.assert_array_equal(x.grad, [6, 6, 6])


def test_a_constant_that_takes_in_a_gradient_is_a_leaf_no_more() -> None:
    x, buffer = leaf(3), Tensor(np.zeros(3))
    buffer += x * 2
    assert buffer.op == "add" and buffer.requires_grad
    buffer.sum().backward()
    np.testing.assert_array_equal(x.grad, [2, 2, 2])


def test_what_was_computed_before_the_change_keeps_its_own_history() -> None:
    x = leaf(3)
    h = x * 2
    before = h + 0
    h += 5
    (before * weights(3)).sum().backward()
    np.testing.assert_allclose(x.grad, 2 * weights(3).data)


def test_a_result_that_its_rule_needs_is_not_changed_unnoticed() -> None:
    x = leaf(3)
    y = x.exp()
    y += 1
    with pytest.raises(RuntimeError, match=r"exp: .*out of shape"):
        y.sum().backward()


def test_two_changes_in_a_row() -> None:
    x = leaf(3)
    h = x * 1
    h *= x
    h *= x
    (h * weights(3)).sum().backward()
    np.testing.assert_allclose(x.grad, 3 * x.data**2 * weights(3).data)


def test_the_change_is_broadcast_into_the_tensor_and_never_the_other_way() -> None:
    x, row = leaf(2, 3), leaf(3, seed=1)
    h = x * 1
    h += row
    h.sum().backward()
    np.testing.assert_array_equal(row.grad, [2, 2, 2])
    small = row * 1
    with pytest.raises(ShapeError, match=r"add_: the result has shape \(2, 3\).*\(3,\)"):
        small += x
    np.testing.assert_array_equal(small.data, row.data)
    assert small.op == "mul"


# Refused


def untouched(tensor: Tensor, change: Callable[[Tensor], object], message: str) -> None:
    """``change`` must be refused and leave value, version, record and memory as they were."""
    data, values, node = tensor.data, tensor.data.copy(), tensor.node
    version = tensor.version
    with pytest.raises((RuntimeError, TypeError, IndexError), match=message):
        change(tensor)
    assert tensor.data is data and tensor.node is node and tensor.version == version
    np.testing.assert_array_equal(data, values)


WRITES: dict[str, Callable[[Tensor], object]] = {
    "add_": lambda t: t.add_(1),
    "sub_": lambda t: t.sub_(1),
    "mul_": lambda t: t.mul_(2),
    "div_": lambda t: t.div_(2),
    "copy_": lambda t: t.copy_(np.zeros(3)),
    "fill_": lambda t: t.fill_(7),
    "zero_": lambda t: t.zero_(),
    "setitem": lambda t: t.__setitem__(0, 9),
}


@pytest.mark.parametrize("write", WRITES)
def test_a_leaf_that_requires_grad_is_not_changed_while_recording(write: str) -> None:
    untouched(leaf(3), WRITES[write], f"^{write}: a leaf Tensor that requires grad .*no_grad")


@pytest.mark.parametrize("write", WRITES)
def test_a_leaf_is_changed_within_no_grad(write: str) -> None:
    x = leaf(3)
    with no_grad():
        WRITES[write](x)
    assert x.is_leaf and x.requires_grad and x.version == 1
    assert (x.data != leaf(3).data).any()


@pytest.mark.parametrize("write", ["copy_", "fill_", "zero_", "setitem"])
def test_what_is_not_recorded_is_refused_for_results(write: str) -> None:
    untouched(leaf(3) * 2, WRITES[write], "a result of mul is being used in an in-place")


@cases(
    "make",
    {
        "reshape": lambda x: x.reshape(3),
        "getitem": lambda x: x[:],
        "T": lambda x: x.T,
        "expand": lambda x: x.expand(2, 3),
        "squeeze": lambda x: x.squeeze(),
        "flatten": lambda x: x.flatten(),
    },
)
@pytest.mark.parametrize("name", UPDATES)
def test_a_view_and_its_base_are_not_changed_while_recording(
    make: Callable[[Tensor], Tensor], name: str
) -> None:
    base = leaf(3) * 1
    view = make(base)
    change: Callable[[Tensor], object] = lambda t: UPDATES[name][0](t, 2)  # noqa: E731
    reason = rf"{name}_: .*(other Tensors share its memory; use {name}|read-only)"
    untouched(view, change, reason)
    untouched(base, change, reason)


@pytest.mark.parametrize("write", WRITES)
def test_an_expanded_view_is_read_only(write: str) -> None:
    view = weights(1).expand(3)
    untouched(view, WRITES[write], "memory is read-only; clone")
    with no_grad():
        untouched(view, WRITES[write], "memory is read-only; clone")


@pytest.mark.parametrize("write", WRITES)
def test_read_only_memory_is_refused(write: str) -> None:
    values = np.ones(3)
    values.setflags(write=False)
    untouched(st.from_numpy(values), WRITES[write], "memory is read-only; clone")


VALUES: dict[str, tuple[Callable[[Tensor, Tensor], object], str]] = {
    "copy_": (lambda t, v: t.copy_(v), "copy_"),
    "setitem": (lambda t, v: t.__setitem__(slice(None), v), "setitem"),
    "fill_": (lambda t, v: t.fill_(v[0]), "fill_"),
}


@pytest.mark.parametrize("way", VALUES)
def test_a_value_whose_gradient_would_be_lost_is_refused(way: str) -> None:
    write, name = VALUES[way]
    message = f"{name}: a value that requires grad .*detach"
    untouched(weights(3), lambda t: write(t, leaf(3)), message)
    target = weights(3)
    with no_grad():
        write(target, leaf(3))
    assert target.version == 1 and not target.requires_grad
    write(target, leaf(3).detach())
    assert target.version == 2


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda t: t.copy_(np.zeros(4)), r"copy_: shape \(4,\) does not fit into shape \(3,\)"),
        (lambda t: t.copy_(np.zeros((2, 3))), r"copy_: shape \(2, 3\)"),
        (lambda t: t.copy_(np.zeros(3, complex)), "copy_: .*complex"),
        (lambda t: t.copy_("abc"), "copy_: .*dtype"),
        (lambda t: t.fill_([1, 2, 3]), r"fill_: value must be one number, got shape \(3,\)"),
        (lambda t: t.fill_("a"), "fill_: .*dtype"),
        (lambda t: t.__setitem__(3, 0), r"setitem: .*out of bounds.*\(3,\)"),
        (lambda t: t.__setitem__((0, 0), 0), "setitem: .*too many indices"),
        (lambda t: t.__setitem__(0.5, 0), "setitem: "),
        (lambda t: t.__setitem__(slice(2), [1, 2, 3]), r"setitem: shape \(3,\).*\(2,\)"),
        (lambda t: t.__setitem__(0, [1, 2]), r"setitem: shape \(2,\).*\(\)"),
        (lambda t: t.add_(np.zeros(4)), r"add: .*\(3,\).*\(4,\)"),
        (lambda t: t.add_(np.zeros((2, 3))), r"add_: the result has shape \(2, 3\)"),
        (lambda t: t.add_(None), "add: b is None"),
        (lambda t: t.add_("a"), "add: b must be a Tensor"),
    ],
)
def test_a_value_that_does_not_fit_is_refused(
    change: Callable[[Tensor], object], message: str
) -> None:
    untouched(weights(3), change, message)


@pytest.mark.parametrize("name", ["add", "div"])
def test_a_result_that_the_dtype_cannot_hold_is_refused(name: str) -> None:
    change: Callable[[Tensor], object] = lambda t: UPDATES[name][0](t, 1.5)  # noqa: E731
    untouched(Tensor([1, 2, 3]), change, f"{name}_: the result, float32, does not fit in int64")


def test_a_recorded_change_may_not_narrow_the_result() -> None:
    x = leaf(3, dtype=np.float32)
    message = "add_: .*because the result would be float64; use add"
    untouched(x * 1, lambda t: t.add_(leaf(3)), message)


# Not recorded


def test_an_element_is_changed_in_place_once() -> None:
    """x[0] += 1 reads a view, changes it, and writes it back."""
    x = leaf(3)
    before = x.data.copy()
    with no_grad():
        x[0] += 1
        x[Tensor([1, 1])] *= 2
        x[x.detach() < 0] -= 1
    np.testing.assert_allclose(x.data, before * [1, 2, 1] + [1, 0, 0])
    h = x * 1
    untouched(h, lambda t: t.__setitem__(0, t[0].add_(1)), "other Tensors share its memory")


def test_elements_are_set_by_any_index() -> None:
    t = Tensor(np.zeros((2, 3)))
    t[0] = 1
    t[1, 2] = 5
    t[:, 1] = Tensor([7.0, 8.0])
    t[Tensor([False, True]), 0] = np.array([9])
    np.testing.assert_array_equal(t, [[1, 7, 1], [9, 8, 5]])


def test_overlapping_memory_is_read_before_it_is_written() -> None:
    t = Tensor([0.0, 1.0, 2.0, 3.0])
    t[1:] = t[:-1]
    np.testing.assert_array_equal(t, [0, 0, 1, 2])
    t.copy_(t[::-1])
    np.testing.assert_array_equal(t, [2, 1, 0, 0])


@pytest.mark.parametrize("dtype", ["int64", "float16", "bool"])
def test_what_a_dtype_cannot_hold_is_converted_without_a_warning(dtype: str) -> None:
    t = Tensor([0.0, 0.0, 0.0], dtype=dtype)
    t.copy_(Tensor([np.nan, np.inf, 1e30], dtype="float64"))
    t[0] = np.inf
    t.fill_(2.0)
    np.testing.assert_array_equal(t, np.full(3, 2, dtype))


def test_a_change_in_place_returns_the_tensor() -> None:
    t = Tensor(np.ones(3))
    assert all(result is t for result in (t.add_(1), t.copy_([1, 2, 3]), t.fill_(0), t.zero_()))


def test_an_optimizer_step_under_no_grad_leaves_a_leaf_a_leaf() -> None:
    x = leaf(3)
    memory = x.data
    (x * x).sum().backward()
    with no_grad():
        x -= 0.5 * x.grad
    assert x.data is memory and x.is_leaf and x.requires_grad
    np.testing.assert_allclose(x.data, np.zeros(3), atol=1e-15)


def test_a_detached_tensor_may_be_changed_and_its_source_sees_it() -> None:
    x = leaf(3)
    x.detach().fill_(4)
    np.testing.assert_array_equal(x.data, [4, 4, 4])
