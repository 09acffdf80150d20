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


# Writing elements


def test_what_is_written_gets_the_gradient_of_its_place_and_what_was_there_none() -> None:
    x, z = leaf(4), leaf(seed=1)
    y = x * 2
    y[0] = z
    y[Tensor([False, True, False, False])] = 0.0
    assert y.op == "setitem"
    np.testing.assert_array_equal(y.data, [z.item(), 0, 2 * x.data[2], 2 * x.data[3]])
    w = weights(4)
    gx, gz = grad((y * y * w).sum(), [x, z])
    np.testing.assert_allclose(gx, [0, 0, *(8 * x.data * w.data)[2:]])
    np.testing.assert_allclose(gz, 2 * z.data * w.data[0])


def test_of_several_values_for_a_place_the_last_is_stored_and_has_the_gradient() -> None:
    x, z = leaf(3), leaf(4, seed=1)
    y = x * 1
    y[[0, 2, 0, 0]] = z
    np.testing.assert_array_equal(y.data, [z.data[3], x.data[1], z.data[1]])
    gx, gz = grad(y, [x, z], weights(3))
    np.testing.assert_array_equal(gx, [0, weights(3).data[1], 0])
    np.testing.assert_array_equal(gz, [0, weights(3).data[2], 0, weights(3).data[0]])


@pytest.mark.parametrize("order", ["C", "F"])
def test_which_value_is_the_last_does_not_depend_on_the_memory_of_values(order: Any) -> None:
    z = Tensor(np.arange(6.0).reshape(3, 2), requires_grad=True)
    values = st.from_numpy(np.array(z.data, order=order)) if order == "F" else z.detach()
    rows, columns = np.array([[0], [1], [0]]), np.array([[1, 1]])
    y = Tensor(np.zeros((2, 2)))
    y[rows, columns] = values
    np.testing.assert_array_equal(y.data, [[0, 5], [0, 3]])
    h = leaf(2, 2) * 1
    h[rows, columns] = z
    np.testing.assert_array_equal(grad(h.sum(), z)[0].data, [[0, 0], [0, 1], [0, 1]])


def test_index_put_adds_up_where_that_is_asked_for() -> None:
    x, z = leaf(3), leaf(4, seed=1)
    y = x * 1
    assert y.index_put_((Tensor([0, 2, 0, -3]),), z, accumulate=True) is y
    added = np.array([z.data[[0, 2, 3]].sum(), 0, z.data[1]])
    np.testing.assert_allclose(y.data, x.data + added)
    gx, gz = grad(y, [x, z], weights(3))
    np.testing.assert_array_equal(gx, weights(3))
    np.testing.assert_array_equal(gz, weights(3).data[[0, 2, 0, 0]])


def test_index_put_adds_where_no_place_comes_twice() -> None:
    x, v = leaf(4), leaf(2, seed=1)
    y = x * 1
    y.index_put_((np.array([True, False, True, False]),), v, accumulate=True)
    np.testing.assert_array_equal(y.data, x.data + np.array([v.data[0], 0, v.data[1], 0]))
    w = weights(4)
    gx, gv = grad((y * w).sum(), [x, v])
    np.testing.assert_array_equal(gx, w)
    np.testing.assert_array_equal(gv, w.data[[0, 2]])


@cases(
    "write",
    {
        "copy_": lambda y, z: y.copy_(z),
        "copy_ of one": lambda y, z: y.copy_(z[0]),
        "fill_": lambda y, z: y.fill_(z[1]),
        "zero_": lambda y, z: y.zero_(),
        "masked_fill_": lambda y, z: y.masked_fill_(np.array([True, False, True]), z[2]),
        "a number": lambda y, z: y.__setitem__(slice(1, None), 4.0),
        "an array": lambda y, z: y.__setitem__(slice(1, None), np.array([4.0, 5.0])),
        "a list": lambda y, z: y.__setitem__(slice(1, None), [4.0, 5.0]),
    },
)
@pytest.mark.parametrize("order", [1, 2])
def test_an_overwritten_result_has_the_gradients_of_one_built_anew(
    write: Callable[[Tensor, Tensor], object], order: int
) -> None:
    """The places that are overwritten are found by a write of NaN into nothing but them."""
    x, z = leaf(3), leaf(3, seed=1)
    y = x.sin() * 1
    before = y.data.copy()
    write(y, z * z)
    places = y.data != before
    marks = Tensor(np.zeros(3))
    write(marks, Tensor(np.arange(3.0)) + 7)  # which of the values went where
    chosen = (marks.data - 7).astype(int)
    from_z = np.isin(marks.data, [7, 8, 9])
    built = st.where(
        places, st.where(from_z, (z * z)[np.where(from_z, chosen, 0)], y.detach()), x.sin()
    )
    np.testing.assert_array_equal(y.data, built.data)
    found = []
    for result in (y, built):
        out = (result * result * weights(3)).sum()
        grads = grad(out, [x, z], create_graph=order == 2, allow_unused=True)
        if order == 2:
            total = sum((g * weights(3, seed=5)).sum() for g in grads if g is not None)
            grads = grad(total, [x, z], allow_unused=True)
        found.append([np.zeros(3) if g is None else g.data for g in grads])
    np.testing.assert_allclose(*found, rtol=1e-13, atol=1e-14)


def test_a_constant_that_takes_in_an_element_is_a_leaf_no_more() -> None:
    x, buffer = leaf(3), Tensor(np.zeros((2, 3)))
    for i in range(2):
        buffer[i] = x * (i + 1)
    assert buffer.op == "setitem" and buffer.requires_grad
    (buffer * weights(2, 3)).sum().backward()
    np.testing.assert_allclose(x.grad, weights(2, 3).data[0] + 2 * weights(2, 3).data[1])


def test_a_value_of_another_dtype_is_converted_and_its_gradient_converted_back() -> None:
    x, z = leaf(3, dtype=np.float32), leaf(2, seed=1)
    y = x * 1
    y[:2] = z
    assert y.dtype == np.float32
    gx, gz = grad((y * y).sum(), [x, z])
    assert gx.dtype == np.float32 and gz.dtype == np.float64
    np.testing.assert_allclose(gz, 2 * z.data.astype(np.float32))


def test_elements_that_are_moved_within_a_tensor_take_their_gradient_along() -> None:
    x = leaf(4)
    y = x * 1
    y[1:] = y[:-1]
    y[0] = y[3]
    np.testing.assert_array_equal(y.data, x.data[[2, 0, 1, 2]])
    (g,) = grad(y, x, weights(4))
    wanted = np.zeros(4)
    np.add.at(wanted, [2, 0, 1, 2], weights(4).data)
    np.testing.assert_allclose(g, wanted)


def test_what_was_saved_before_elements_were_written_is_missed() -> None:
    x = leaf(3)
    y = x * 2
    z = y * y
    y[0] = 1.0
    with pytest.raises(RuntimeError, match=r"mul: .*modified by an inplace operation"):
        z.sum().backward()
    assert x.grad is None


def test_an_index_and_a_mask_are_copied() -> None:
    for index in (np.array([0, 1]), np.array([True, True, False])):
        x = leaf(3)
        y = x * 1
        y[index] = 0.0
        index[:] = 0
        np.testing.assert_array_equal(grad(y.sum(), x)[0].data, [0, 0, 1])


def test_a_retained_gradient_is_that_of_the_tensor_as_it_is_now() -> None:
    x = leaf(3)
    y = x * 2
    y.retain_grad()
    view = y[1:]
    view.retain_grad()
    y[0] = 5.0
    (y * weights(3)).sum().backward(retain_graph=True)
    np.testing.assert_array_equal(y.grad, weights(3))
    assert view.grad is None  # nothing was computed from it
    (view * view).sum().backward()
    np.testing.assert_allclose(view.grad, 2 * y.data[1:])


def test_a_change_notes_the_line_that_made_it() -> None:
    y = leaf(3) * 1
    with st.record_sites():
        y[0] = 2.0
    assert y.node is not None and str(y.node.site).startswith(f"{__file__}:")


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
    "masked_fill_": lambda t: t.masked_fill_(np.ones(3, bool), 7),
    "index_put_": lambda t: t.index_put_((np.array([0, 0]),), 7, accumulate=True),
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


@pytest.mark.parametrize("write", WRITES)
def test_a_view_of_a_leaf_that_requires_grad_is_not_changed_while_recording(write: str) -> None:
    x = leaf(3)
    message = f"^{write}: a view of a leaf Tensor that requires grad .*no_grad"
    for view in (x[:], x.reshape(3, 1).reshape(3)):
        untouched(view, WRITES[write], message)
    assert x.version == 0


@pytest.mark.parametrize("write", WRITES)
def test_a_view_made_under_no_grad_is_not_changed_while_recording(write: str) -> None:
    h = leaf(3) * 2
    with no_grad():
        view = h[:]
    untouched(view, WRITES[write], f"{write}: a view made under no_grad.. of a result of mul")
    with no_grad():
        WRITES[write](view)
    assert h.version == 1


def test_a_view_whose_base_was_given_other_data_is_not_changed_while_recording() -> None:
    h = leaf(3) * 2
    view = h[:]
    h.data = np.zeros(3)
    untouched(view, lambda t: t.add_(1), "add_: what this Tensor is a view of has been given other")


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
def test_a_value_whose_gradient_integers_would_lose_is_refused(way: str) -> None:
    write, name = VALUES[way]
    message = f"{name}: a value that requires grad .*int64.*detach"
    untouched(Tensor([1, 2, 3]), lambda t: write(t, leaf(3)), message)
    target = Tensor([1, 2, 3])
    with no_grad():
        write(target, leaf(3))
    write(target, leaf(3).detach())
    assert target.version == 2 and not target.requires_grad


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
        (lambda t: t.__setitem__([0, 1], np.ones((2, 2))), r"setitem: shape \(2, 2\).*\(2,\)"),
        (lambda t: t.masked_fill_(np.ones(2, bool), 0), r"masked_fill_: mask of shape \(2,\)"),
        (lambda t: t.masked_fill_(np.ones(3), 0), "masked_fill_: mask must be bool, got float64"),
        (lambda t: t.masked_fill_(t > 0, [1, 2]), r"masked_fill_: value must be one number"),
        (lambda t: t.index_put_((np.array([3]),), 1.0), "index_put_: .*out of bounds"),
        (lambda t: t.index_put_((np.array([0.5]),), 1.0), "index_put_: "),
        (lambda t: t.index_put_((np.array([0, 1]),), np.ones(3)), r"index_put_: shape \(3,\)"),
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
    h[0] += 1
    assert h.version == 1 and h.op == "setitem" and h.inputs[1].op == "add"
    (g,) = grad((h * weights(3)).sum(), x)
    np.testing.assert_array_equal(g, weights(3))


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
