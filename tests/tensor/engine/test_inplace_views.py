"""Changes in place of views, and of what there are views of."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import tensor as st
from tensor import Tensor, grad, no_grad
from tests.tensor.engine.helpers import leaf, weights
from tests.tensor.engine.test_inplace import UPDATES

VIEWS: dict[str, Callable[[Tensor], Tensor]] = {
    "reshape": lambda x: x.reshape(3, 2),
    "getitem": lambda x: x[:, 1:],
    "element": lambda x: x[1, 2],
    "T": lambda x: x.T,
    "squeeze": lambda x: x.unsqueeze(0).squeeze(),
    "flatten": lambda x: x.flatten(),
    "reversed": lambda x: x[::-1],
    "view of a view": lambda x: x.T[1:].reshape(2, 1, 2)[0],
}


@pytest.mark.parametrize("make", VIEWS)
@pytest.mark.parametrize("name", UPDATES)
def test_a_change_of_a_view_is_one_of_its_base(make: str, name: str) -> None:
    """Against the same change of a base that is put together from its elements."""
    places = VIEWS[make](Tensor(np.arange(6.0).reshape(2, 3))).data.astype(int)
    found = []
    for in_place in (True, False):
        x, z = leaf(2, 3), leaf(*places.shape, seed=1)
        base = x * x
        if in_place:
            view = VIEWS[make](base)
            same = UPDATES[name][0](view, z)
            assert same is view and view.op != name
        else:
            flat = base.reshape(6)
            changed = UPDATES[name][1](flat[places], z).reshape(-1)
            spread = [
                changed[list(places.flat).index(i)] if i in places else flat[i] for i in range(6)
            ]
            base = st.stack(spread).reshape(2, 3)
            view = base.reshape(6)[places]
        out = (base * base * weights(2, 3)).sum() + (view * weights(*places.shape)).sum()
        found.append([base.data, view.data, *(g.data for g in grad(out, [x, z]))])
    for actual, expected in zip(*found, strict=True):
        np.testing.assert_allclose(actual, expected, rtol=1e-13, atol=1e-14)


@pytest.mark.parametrize("make", VIEWS)
def test_a_change_of_the_base_is_one_of_its_views(make: str) -> None:
    x, w = leaf(2, 3), weights(2, 3)
    base = x * 2
    view = VIEWS[make](base)
    base *= w
    base[0, 0] = 1.0
    again = VIEWS[make](base)
    np.testing.assert_array_equal(view.data, again.data)
    seed = weights(*view.shape)
    for a, b in zip(grad(view, x, seed, retain_graph=True), grad(again, x, seed), strict=True):
        np.testing.assert_array_equal(a.data, b.data)
    assert view.op == again.op


def test_a_view_of_what_has_no_gradient_comes_to_have_one() -> None:
    x, buffer = leaf(), Tensor(np.zeros(3))
    first, other = buffer[0], buffer[1:]
    first += x
    assert buffer.op == "setitem" and first.op == "getitem" and other.requires_grad
    (buffer.sum() + other.sum()).backward()
    np.testing.assert_array_equal(x.grad, 1)


def test_a_view_made_under_no_grad_stays_without_history() -> None:
    y = leaf(3) * 2
    with no_grad():
        view = y[:2]
    y[0] = 4.0
    assert view.node is None and view.data[0] == 4


def test_dead_views_are_forgotten() -> None:
    x = leaf(3)
    y = x * 1
    for _ in range(10_000):
        assert y[0].op == "getitem"
    assert y._shared_version().views is not None
    assert len(y._shared_version().views) < 100
    y += 1
    assert y.inputs[0].op == "mul"


def test_living_views_are_not_forgotten() -> None:
    x = leaf(200)
    y = x * 1
    views = [y[i] for i in range(200)]
    for i in range(0, 200, 2):
        assert y[i].item() == x.data[i]
    y *= 2
    (g,) = grad(st.stack(views).sum(), x)
    np.testing.assert_array_equal(g, np.full(200, 2.0))


def test_a_detached_tensor_is_changed_without_history() -> None:
    x = leaf(3)
    y = x * 1
    detached = y.detach()
    detached[0] = 7.0
    assert y.op == "mul" and y.data[0] == 7 and y.version == 1 and not detached.requires_grad
