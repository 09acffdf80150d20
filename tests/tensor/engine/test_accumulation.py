"""Leaves accumulate across calls, and a leaf's gradient shares memory with nothing."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tensor as st
from micro.vocab import OpSpec
from tensor import Tensor, grad, no_grad
from tensor.dispatch import OPS, Rule
from tensor.graph import Node
from tests.tensor.engine.helpers import cases, leaf, planted, weights


def test_gradients_add_up_over_calls() -> None:
    x, w = leaf(3), weights(3)
    (x * w).sum().backward()
    (x * x).sum().backward()
    np.testing.assert_allclose(x.grad, w.data + 2 * x.data)


def test_a_gradient_set_to_none_starts_again() -> None:
    x = leaf(3)
    (x * 2).sum().backward()
    x.grad = None
    (x * 3).sum().backward()
    np.testing.assert_array_equal(x.grad, [3, 3, 3])


def test_the_second_pass_adds_into_the_array_of_the_first() -> None:
    """Gradients can be views of one flat buffer: they must stay where they are."""
    x = leaf(3)
    x.sum().backward()
    assert x.grad is not None
    first = x.grad.data
    x.sum().backward()
    assert x.grad.data is first
    np.testing.assert_array_equal(first, [2, 2, 2])


def test_gradients_collect_in_views_of_a_buffer() -> None:
    buffer = np.zeros(6)
    x, y = leaf(3), leaf(3, seed=1)
    x.grad, y.grad = st.from_numpy(buffer[:3]), st.from_numpy(buffer[3:])
    (x + 2 * y).sum().backward()
    np.testing.assert_array_equal(buffer, [1, 1, 1, 2, 2, 2])


# What a gradient could share memory with. Each entry computes an output from two leaves.
PASSING: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "add": lambda x, y: x + y,
    "add twice": lambda x, y: x + x + y,
    "sub": lambda x, y: x - y,
    "mul": lambda x, y: x * y,
    "reshape": lambda x, y: x.reshape(3, 2) + y.reshape(3, 2),
    "transpose": lambda x, y: x.T + y.transpose(0, 1),
    "expand": lambda x, y: x.expand(4, 2, 3) + y,
    "same expand": lambda x, y: x.expand(2, 3) + y.expand(2, 3),
    "squeeze": lambda x, y: x.unsqueeze(0).squeeze(0) + y.unsqueeze(1).squeeze(1),
    "getitem": lambda x, y: x[:] + y[...],
    "reversed": lambda x, y: x[::-1] + y[::-1],
    "cat": lambda x, y: st.cat([x, y, x]),
    "stack": lambda x, y: st.stack([x, y]),
    "clone": lambda x, y: x.clone() + y.clone(),
    "where": lambda x, y: st.where(Tensor(np.ones((2, 3), bool)), x, y),
    "clip": lambda x, y: x.clip(0, 9) + y.clip(0, 9),
    "sum": lambda x, y: x.sum() + y.sum(),
    "sum of one dimension": lambda x, y: x.sum(0) + y.sum(0),
    "sum of views": lambda x, y: x.expand(4, 2, 3).sum(0) + y,
    "mean": lambda x, y: x.mean() + y.mean(),
    "max": st.maximum,
    "cast": lambda x, y: x.float() + y.float(),
    "in place": lambda x, y: (x * 1).add_(y),
    "linear": st.linear,
    "matmul": lambda x, y: x @ y.T,
    "softmax": lambda x, y: x.softmax(1) + y.log_softmax(1),
    "layer_norm": lambda x, y: st.layer_norm(x, y[0], y[1], (3,)),
    "exp": lambda x, y: x.exp() + y.exp(),
    "leaf and result": lambda x, y: x + y.exp() + y,
}


def arrays_of(*nodes: Any) -> list[Any]:
    """Every array that a graph has saved."""
    found, stack, seen = [], [n for n in nodes if isinstance(n, Node)], set()
    while stack:
        node = stack.pop()
        if node in seen:
            continue
        seen.add(node)
        found += [array for array, _, _ in (node.saved or {}).values()]
        stack += [edge for edge in node.inputs if isinstance(edge, Node)]
    return found


@pytest.mark.parametrize("create_graph", [False, True])
@pytest.mark.parametrize("how", ["backward", "grad"])
@pytest.mark.parametrize("name", PASSING)
def test_gradients_share_memory_with_nothing(name: str, how: str, create_graph: bool) -> None:
    x, y = leaf(2, 3), leaf(2, 3, seed=1)
    out = PASSING[name](x, y)
    seed = Tensor(np.ones(out.shape, out.dtype))
    if how == "backward":
        out.backward(seed, retain_graph=True, create_graph=create_graph)
        grads = [x.grad, y.grad]
    else:
        grads = list(grad(out, [x, y], seed, retain_graph=True, create_graph=create_graph))
    found = [g.data for g in grads if g is not None]
    assert len(found) == 2
    others = [x.data, y.data, out.data, seed.data, *arrays_of(out.node)]
    shared = [np.shares_memory(g, other) for g in found for other in others]
    assert not any(shared)
    assert not np.shares_memory(*found)
    for g in found:
        assert np.may_share_memory(g, g)
        g += 1  # its own, and writable
    np.testing.assert_array_equal(seed, np.ones(out.shape))


def test_shared_memory_is_noticed() -> None:
    """The check above in the case it is there to reject."""
    buffer = np.zeros(4)
    assert any(np.shares_memory(a, b) for a, b in itertools.combinations([buffer, buffer[1:]], 2))


@pytest.mark.parametrize("create_graph", [False, True])
@pytest.mark.parametrize("name", PASSING)
def test_accumulating_into_one_leaf_leaves_the_other_and_the_seed_alone(
    name: str, create_graph: bool
) -> None:
    x, y = leaf(2, 3), leaf(2, 3, seed=1)
    out = PASSING[name](x, y)
    seed = weights(*out.shape, dtype=out.dtype)
    kept = seed.data.copy()
    out.backward(seed, create_graph=create_graph)
    assert y.grad is not None
    first = y.grad.data.copy()
    for _ in range(2):
        (x * 5).sum().backward()
    np.testing.assert_array_equal(y.grad.data, first)
    np.testing.assert_array_equal(seed, kept)


def test_the_gradients_of_leaf_and_intermediates_are_apart() -> None:
    x = leaf(3)
    y = x + 0
    z = y + 0
    y.retain_grad()
    z.retain_grad()
    seed = Tensor(np.ones(3))
    z.backward(seed)
    found = [t.grad.data for t in (x, y, z) if t.grad is not None] + [seed.data]
    assert len(found) == 4
    assert not any(np.shares_memory(a, b) for a, b in itertools.combinations(found, 2))


@pytest.mark.parametrize("create_graph", [False, True])
def test_what_a_hook_sees_is_its_own(create_graph: bool) -> None:
    x, y = leaf(3), leaf(3, seed=1)

    def spoil(g: Tensor) -> None:
        g.data[:] = np.nan

    z = x + y
    for t in (x, y, z):
        t.register_hook(spoil)
    z.backward(weights(3), create_graph=create_graph)
    np.testing.assert_array_equal(x.grad, weights(3))
    np.testing.assert_array_equal(y.grad, weights(3))


def test_what_a_hook_returns_stays_the_hooks() -> None:
    x, given = leaf(3), Tensor(np.ones(3))
    x.register_hook(lambda g: given)
    for loss in (x.sum(), (x * x).sum(), x.exp().sum()):
        x.grad = None
        loss.backward()
        assert not np.shares_memory(x.grad.data, given.data)
        x.sum().backward()
        np.testing.assert_array_equal(x.grad, [2, 2, 2])
        np.testing.assert_array_equal(given, [1, 1, 1])


@pytest.mark.parametrize("create_graph", [False, True])
@cases(
    "rule",
    {
        "g": lambda xp, g, b: g,
        "what was saved": lambda xp, g, b: b,
        "a view of what was saved": lambda xp, g, b: xp.transpose(b, 0, 1),
    },
)
def test_whatever_a_rule_returns_the_gradient_is_the_leafs_own(
    rule: Callable[..., Any], create_graph: bool
) -> None:
    spec = OpSpec("planted", ("a", "b"), domain=("real", "real"), scope="tensor")
    x, other, seed = leaf(2, 2), weights(2, 2), weights(2, 2, seed=5)
    kept = other.data.copy()
    with planted(spec, np.add, {"a": rule, "b": lambda xp, g: g}) as op:
        out = op(x, other)
        for _ in range(3):
            out.backward(seed, retain_graph=True, create_graph=create_graph)
    assert not any(np.shares_memory(x.grad.data, t.data) for t in (other, seed, out))
    np.testing.assert_array_equal(other, kept)


def test_intermediates_returned_by_grad_are_apart_from_those_that_follow() -> None:
    x = leaf(3)
    y = x + 0
    gy, gx = grad((y + 0).sum(), [y, x], create_graph=True)
    assert gy is not None and gx is not None
    assert gy is not gx and not np.shares_memory(gy.data, gx.data)


# The gradient itself


def test_a_gradient_may_be_set_to_a_tensor_of_the_same_shape_and_dtype() -> None:
    x = leaf(3)
    x.grad = weights(3)
    x.sum().backward()
    np.testing.assert_allclose(x.grad, weights(3).data + 1)


@pytest.mark.parametrize(
    ("value", "error", "message"),
    [
        (np.ones(3), TypeError, "ndarray"),
        (Tensor(np.ones(2)), RuntimeError, r"\(2,\).*\(3,\)"),
        (Tensor(np.ones((3, 1))), ValueError, r"\(3, 1\).*\(3,\)"),
        (Tensor(np.ones(3, np.float32)), RuntimeError, "float32.*float64"),
    ],
)
def test_a_gradient_that_does_not_fit_is_refused(
    value: Any, error: type[Exception], message: str
) -> None:
    x = leaf(3)
    with pytest.raises(error, match=message):
        x.grad = value
    assert x.grad is None


def test_a_gradient_with_history_is_added_to_without_changing_it() -> None:
    x = leaf(3)
    (x**3).sum().backward(create_graph=True)
    first = x.grad
    assert first is not None and first.requires_grad
    (x * 2).sum().backward()
    np.testing.assert_allclose(first.data, 3 * x.data**2)
    np.testing.assert_allclose(x.grad.data, 3 * x.data**2 + 2)


def test_a_gradient_that_cannot_be_written_to_is_replaced() -> None:
    x = leaf(3)
    values = np.ones(3)
    values.setflags(write=False)
    x.grad = st.from_numpy(values)
    x.sum().backward()
    np.testing.assert_array_equal(x.grad, [2, 2, 2])
    np.testing.assert_array_equal(values, [1, 1, 1])


def test_accumulating_is_a_change_that_a_graph_through_the_gradient_notices() -> None:
    x, y = leaf(3), leaf(3, seed=1)
    x.sum().backward()
    assert x.grad is not None
    loss = (x.grad * y).sum()
    x.sum().backward()
    with pytest.raises(RuntimeError, match=r"mul: .*version 1, expected version 0"):
        loss.backward()


def test_gradients_are_collected_within_no_grad() -> None:
    x = leaf(3)
    loss = (x * x).sum()
    with no_grad():
        loss.backward()
    np.testing.assert_allclose(x.grad, 2 * x.data)


# Slices

INDICES: list[Any] = [
    *(0, 1, slice(1, 3), slice(None, None, -2), (slice(None), 1), 1, (..., None), (2, 3)),
    *(np.array([1, 1, 0]), np.array([True, False, True]), (slice(None), [0, 0])),
]


def test_gradients_of_slices_add_up_where_they_stand() -> None:
    x = leaf(3, 4)
    expected = np.zeros((3, 4))
    total = x.sum() * 0
    for seed, index in enumerate(INDICES):
        w = np.random.default_rng(seed).normal(size=x.data[index].shape)
        total = total + (x[index] * Tensor(w)).sum()
        np.add.at(expected, index, w)
    (recorded,) = grad(total, x, create_graph=True)
    total.backward()
    np.testing.assert_allclose(x.grad, expected, rtol=1e-12)
    assert x.grad.data.tobytes() == recorded.data.tobytes()


def test_a_gradient_of_full_size_is_made_for_the_first_slices_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    right, made = OPS["getitem"].rules["a"], []

    def counted(xp: Any, g: Any, index: Any, a_shape: Any) -> Any:
        made.append(index)
        return right.function(xp, g, index, a_shape)

    monkeypatch.setitem(OPS["getitem"].rules, "a", Rule(counted, right.names))
    x = leaf(20, 3)
    rows = x.unbind()
    sum((row * k for k, row in enumerate(rows)), x.sum() * 0).sum().backward()
    np.testing.assert_array_equal(x.grad, np.arange(20.0)[:, None] * np.ones(3))
    assert len(made) <= 2
