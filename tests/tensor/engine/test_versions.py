"""Saved arrays carry a version; what was changed in place before backward is noticed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tensor as st
from tensor import Tensor, grad, no_grad
from tests.tensor.engine.helpers import cases, leaf, weights

# Every way to change a Tensor's memory that the version check can see.
CHANGES: dict[str, Callable[[Tensor], object]] = {
    "add_": lambda t: t.add_(1),
    "sub_": lambda t: t.sub_(1),
    "mul_": lambda t: t.mul_(2),
    "div_": lambda t: t.div_(2),
    "+=": lambda t: t.__iadd__(1),
    "copy_": lambda t: t.copy_(np.zeros(3)),
    "fill_": lambda t: t.fill_(7),
    "zero_": lambda t: t.zero_(),
    "setitem": lambda t: t.__setitem__(0, 9),
    "a slice": lambda t: t.__setitem__(slice(None), 9),
    "through detach": lambda t: t.detach().zero_(),
    "through a view": lambda t: t.reshape(1, 3).zero_(),
    "through an element": lambda t: t[1:2].fill_(0),
    "through a view of a view": lambda t: t.reshape(3, 1)[:2].mul_(0),
    "through a detached view": lambda t: t[:2].detach().add_(1),
    "an optimizer's step": lambda t: t.sub_(0.1 * weights(3)),
}


def refused(tensor: Tensor, op: str, name: str, expected: int = 0) -> None:
    """Backward of ``tensor`` must be refused, and name the op, the array, shape and versions."""
    message = (
        rf"{op}: .*modified by an inplace operation: {name} of shape \(3,\) "
        rf"is at version {expected + 1}, expected version {expected}"
    )
    with pytest.raises(RuntimeError, match=message):
        tensor.sum().backward()


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_of_a_saved_leaf_is_noticed(change: str) -> None:
    x = leaf(3)
    y = x * x
    with no_grad():
        CHANGES[change](x)
    assert x.version == 1
    refused(y, "mul", "a")
    assert x.grad is None


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_of_a_saved_constant_is_noticed(change: str) -> None:
    x, c = leaf(3), weights(3)
    y = x * c
    CHANGES[change](c)
    refused(y, "mul", "b")


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_of_a_saved_intermediate_is_noticed(change: str) -> None:
    x = leaf(3)
    h = x * 2
    y = h * h
    with no_grad():
        CHANGES[change](h)
    refused(y, "mul", "a")


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_of_a_saved_result_is_noticed(change: str) -> None:
    x = leaf(3)
    y = x.exp()
    with no_grad():
        CHANGES[change](y)
    refused(y, "exp", "out")


@pytest.mark.parametrize("change", ["add_", "copy_", "setitem"])
def test_a_change_of_the_base_is_noticed_through_a_saved_view(change: str) -> None:
    base, x = Tensor(np.arange(3.0)), leaf(3)
    y = x * base[::-1]
    CHANGES[change](base)
    refused(y, "mul", "b")


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_of_what_nobody_saved_is_fine(change: str) -> None:
    x, c = leaf(3), weights(3)
    y = x + c
    CHANGES[change](c)
    y.sum().backward()
    np.testing.assert_array_equal(x.grad, [1, 1, 1])


def test_a_change_before_the_forward_pass_is_fine() -> None:
    x = leaf(3)
    with no_grad():
        x.add_(1)
        y_before = x.version
    (x * x).sum().backward()
    assert y_before == 1
    np.testing.assert_allclose(x.grad, 2 * x.data)


def test_a_change_after_backward_is_fine() -> None:
    x = leaf(3)
    for _ in range(3):
        x.grad = None
        (x * x).sum().backward()
        np.testing.assert_allclose(x.grad, 2 * x.data)
        with no_grad():
            x -= 0.1 * x.grad
    assert x.version == 3


def test_a_change_between_two_passes_over_a_kept_graph_is_noticed() -> None:
    x = leaf(3)
    loss = (x * x).sum()
    loss.backward(retain_graph=True)
    with no_grad():
        x.zero_()
    first = x.grad.data.copy()
    with pytest.raises(RuntimeError, match=r"mul: .*version 1, expected version 0"):
        loss.backward()
    np.testing.assert_array_equal(x.grad, first)


def test_a_change_beside_the_path_is_no_matter() -> None:
    x, y = leaf(3), leaf(3, seed=1)
    loss = (x.exp() + y * y).sum()
    with no_grad():
        y.zero_()
    loss.backward(inputs=x)
    np.testing.assert_allclose(x.grad, np.exp(x.data))


def test_a_change_by_a_hook_in_the_middle_of_the_pass_is_noticed() -> None:
    x = leaf(3)
    h = x * x
    y = h * 2
    y.register_hook(lambda g: x.zero_() * 0)
    with pytest.raises(RuntimeError, match=r"mul: .*a of shape \(3,\) is at version 1"):
        y.sum().backward()
    assert x.grad is None


@pytest.mark.parametrize("kind", ["leaf", "intermediate", "result"])
def test_a_change_before_the_second_order_is_noticed(kind: str) -> None:
    """The graph of a recorded pass holds the arrays of the first at the versions of the first."""
    x = leaf(3)
    h = x if kind == "leaf" else x + 1
    # The second derivative of log needs its operand, and nothing of the first pass's graph.
    out = h.exp() if kind == "result" else h.log()
    (g,) = grad((out * weights(3)).sum(), h, create_graph=True)
    changed = out if kind == "result" else h
    del out
    loss = (g * weights(3)).sum()
    with no_grad():
        changed.zero_()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        grad(loss, h)


def test_a_converted_operand_is_a_copy_that_a_change_does_not_reach() -> None:
    x, c = leaf(3), Tensor(np.arange(3))
    y = x * c
    c.zero_()
    y.sum().backward()
    np.testing.assert_array_equal(x.grad, [0, 1, 2])


def test_data_given_to_a_tensor_later_does_not_change_what_was_recorded() -> None:
    for early in (True, False):
        x = leaf(3)
        before = x.data
        loss = (x * x * x).sum()
        if early:
            x.data = np.zeros(3)
        (g,) = grad(loss, x, create_graph=True)
        x.data = np.zeros(3)
        (second,) = grad(g.sum(), x)
        np.testing.assert_allclose(g.data, 3 * before**2)
        np.testing.assert_allclose(second, 6 * before)


# Copies, and what is not copied


@cases(
    "function",
    {
        "on the right": lambda x, a: x * a,
        "on the left": lambda x, a: a * x,
        "ufunc": np.multiply,
        "dividend": lambda x, a: x / (1 / a),
        "in where": lambda x, a: x * st.where(np.array([True, True, True]), a, x),
    },
)
def test_an_array_as_operand_is_copied(
    function: Callable[[Tensor, np.ndarray], Tensor],
) -> None:
    x, a = leaf(3), np.array([1.0, 2.0, 3.0])
    y = function(x, a)
    a[:] = 0
    y.sum().backward()
    np.testing.assert_array_equal(x.grad, [1, 2, 3])


@pytest.mark.parametrize("kind", [np.array, Tensor])
def test_an_index_is_copied(kind: Callable[[list[int]], object]) -> None:
    x, index = leaf(3), kind([0, 0, 2])
    y = x[index]
    index[:] = 1  # type: ignore[index]
    y.sum().backward()
    np.testing.assert_array_equal(x.grad, [2, 0, 1])


def test_a_mask_is_copied() -> None:
    x, mask = leaf(3), np.array([True, False, True])
    y = x[mask]
    mask[:] = False
    y.sum().backward()
    np.testing.assert_array_equal(x.grad, [1, 0, 1])


def test_indices_of_an_embedding_are_watched() -> None:
    table, rows = leaf(3, 2), Tensor([0, 2, 2])
    y = st.embedding(table, rows)
    rows.zero_()
    with pytest.raises(RuntimeError, match=r"embedding: .*indices of shape"):
        y.sum().backward()


def test_from_numpy_shares_memory_and_cannot_see_what_is_written() -> None:
    a = np.ones(3)
    t = st.from_numpy(a)
    a[0] = 9
    assert t.data is a and t[0].item() == 9 and t.version == 0
    assert "invisible" in str(Tensor.__doc__) and "version" in str(st.from_numpy.__doc__)


# Versions are shared with exactly those who share the memory


def test_a_copy_has_a_version_of_its_own() -> None:
    x = leaf(3)
    copies = [x.detach().clone(), Tensor(x), x.detach() * 1, x.detach()[[0, 1, 2]]]
    for copy in copies:
        copy.zero_()
        assert copy.version == 1
    assert x.version == 0
    np.testing.assert_array_equal(x.data, leaf(3).data)


def test_views_share_one_version() -> None:
    x = leaf(2, 3).detach()
    views = [x.T, x[0], x.reshape(3, 2), x.detach(), x.expand(4, 2, 3), x.unsqueeze(0), x[:, ::-1]]
    x.add_(1)
    assert [v.version for v in views] == [1] * len(views)
    views[1].add_(1)
    assert [v.version for v in (x, *views)] == [2] * (len(views) + 1)


def test_a_refused_change_is_not_counted() -> None:
    x = leaf(3)
    with pytest.raises(RuntimeError):
        x.add_(1)
    with no_grad(), pytest.raises(RuntimeError):
        x.copy_(np.zeros(4))
    assert x.version == 0


LISTS: dict[str, tuple[list[int], Callable[[Tensor, list[int]], Tensor]]] = {
    "permute": ([1, 0], st.permute),
    "sum": ([1], st.sum),
    "var": ([1], st.var),
    "logsumexp": ([0], st.logsumexp),
    "reshape": ([3, 2], st.reshape),
    "expand": ([4, 2, 3], st.expand),
    "index": ([1, 0, 0], lambda x, numbers: x[numbers]),
    "index of a column": ([0, 2], lambda x, numbers: x[:, numbers]),
    "layer_norm": ([3], lambda x, numbers: st.layer_norm(x, None, None, numbers)),
}


@pytest.mark.parametrize("name", LISTS)
def test_a_list_given_as_an_argument_may_be_changed_afterwards(name: str) -> None:
    given, call = LISTS[name]
    values = np.random.default_rng(0).normal(size=(2, 3))

    def gradient(change: bool) -> Any:
        x, numbers = Tensor(values, requires_grad=True), list(given)
        y = call(x, numbers)
        if change:
            numbers[:] = [*numbers[::-1], 0]
        (g,) = grad((y * y).sum(), x)
        assert g is not None
        return g.data

    np.testing.assert_array_equal(gradient(True), gradient(False))
