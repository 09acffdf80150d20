"""What fails leaves every gradient as it was and says what it was; a freed graph says so."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import tensor as st
from micro.vocab import OpSpec
from tensor import ShapeError, Tensor, grad, no_grad
from tests.tensor.engine.helpers import cases, leaf, planted, weights


def stop(g: Tensor) -> None:
    raise ArithmeticError("stop")


def wrong_shape(g: Tensor) -> Tensor:
    return weights(7)


class Setting:
    """Two leaves and an intermediate with gradients, and a loss whose backward can be spoilt."""

    def __init__(self) -> None:
        self.x, self.y = leaf(3), leaf(3, seed=1)
        self.h = self.x * self.y
        self.h.retain_grad()
        self.loss = (self.h.exp() + self.x.exp() + self.y).sum()
        self.loss.backward(retain_graph=True)

    def grads(self) -> list[Tensor]:
        return [t.grad for t in (self.x, self.y, self.h)]


def spoil_with_hook_on_first_leaf(s: Setting) -> None:
    s.x.register_hook(stop)


def spoil_with_hook_on_last_leaf(s: Setting) -> None:
    s.y.register_hook(stop)


def spoil_with_hook_on_intermediate(s: Setting) -> None:
    s.h.register_hook(wrong_shape)


def spoil_with_hook_on_loss(s: Setting) -> None:
    s.loss.register_hook(stop)


def spoil_with_version(s: Setting) -> None:
    with no_grad():
        s.x.add_(0)


def spoil_by_freeing(s: Setting) -> None:
    grad(s.h.sum(), s.x)


SPOILT = {
    spoil.__name__.removeprefix("spoil_"): spoil
    for spoil in (
        spoil_with_hook_on_first_leaf,
        spoil_with_hook_on_last_leaf,
        spoil_with_hook_on_intermediate,
        spoil_with_hook_on_loss,
        spoil_with_version,
        spoil_by_freeing,
    )
}


@pytest.mark.parametrize("create_graph", [False, True])
@cases("spoil", SPOILT)
def test_a_failing_pass_leaves_every_gradient_as_it_was(
    spoil: Callable[[Setting], None], create_graph: bool
) -> None:
    setting = Setting()
    spoil(setting)
    before = setting.grads()
    values = [g.data.copy() for g in before]
    with pytest.raises((RuntimeError, ArithmeticError)):
        setting.loss.backward(create_graph=create_graph)
    for was, value, now in zip(before, values, setting.grads(), strict=True):
        assert now is was
        np.testing.assert_array_equal(now, value)
    assert st.is_grad_enabled()
    (setting.x * 2).detach().requires_grad_().sum().backward()


def test_a_gradient_that_was_none_stays_none() -> None:
    x, y = leaf(3), leaf(3, seed=1)
    h = x * 2
    h.retain_grad()
    y.register_hook(stop)
    with pytest.raises(ArithmeticError, match="stop"):
        (h + y).sum().backward()
    assert x.grad is None and y.grad is None and h.grad is None


@pytest.mark.parametrize("shape", [(2, 3), (4, 3)])
def test_a_gradient_of_another_shape_stops_the_pass_before_anything_is_collected(
    shape: tuple[int, int],
) -> None:
    x, y = leaf(3), leaf(3, seed=1)
    for t in (x, y):
        t.sum().backward()
    y.data = np.ones(shape)
    with pytest.raises(ValueError, match=rf"backward: .*\({shape[0]}, 3\).*grad of shape \(3,\)"):
        (x + y).sum().backward()
    np.testing.assert_array_equal(x.grad, [1, 1, 1])
    np.testing.assert_array_equal(y.grad, [1, 1, 1])


@cases(
    "raised, seen",
    {
        "IndexError": (IndexError, IndexError),
        "TypeError": (TypeError, TypeError),
        "RuntimeError": (RuntimeError, RuntimeError),
        "ShapeError": (ShapeError, ShapeError),
        "ValueError, which is numpy's about shapes": (ValueError, ShapeError),
    },
)
def test_what_a_kernel_raises_keeps_its_kind_and_gains_the_op(
    raised: type[Exception], seen: type[Exception]
) -> None:
    def broken(a: object) -> None:
        raise raised("broken kernel")

    spec = OpSpec("planted", ("a",), domain=("real",), scope="tensor")
    with planted(spec, broken, {}) as op, pytest.raises(seen) as caught:
        op(leaf(3))
    assert type(caught.value) is seen
    assert str(caught.value) == "planted: broken kernel (operands: a (3,))"


def test_an_operand_without_a_rule_is_named_when_it_needs_one() -> None:
    spec = OpSpec("planted", ("a", "b"), domain=("real", "real"), scope="tensor")
    with planted(spec, np.add, {"a": lambda xp, g: g}) as op:
        op(leaf(3), Tensor([1.0, 2.0, 3.0])).sum().backward()
        with pytest.raises(RuntimeError, match=r"planted: there is no rule .*\['b'\]"):
            op(leaf(3), leaf(3))


def test_a_rule_that_raises_leaves_every_gradient_as_it_was() -> None:
    def broken(xp: object, g: object) -> None:
        raise ArithmeticError("broken rule")

    x, y = leaf(3), leaf(3, seed=1)
    spec = OpSpec("planted", ("a",), domain=("real",), scope="tensor")
    with planted(spec, np.negative, {"a": broken}) as op:
        y.sum().backward()
        with pytest.raises(ArithmeticError, match="broken rule"):
            (op(x) + y).sum().backward()
    assert x.grad is None
    np.testing.assert_array_equal(y.grad, [1, 1, 1])


def test_a_version_error_is_raised_before_anything_is_freed() -> None:
    x, y = leaf(3), leaf(3, seed=1)
    loss = (x.exp() + y.square()).sum()
    with no_grad():
        y.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()
    loss.backward(inputs=x)  # that part is intact
    np.testing.assert_allclose(x.grad, np.exp(x.data))


def test_it_is_so_where_the_pass_goes_on_beyond_an_intermediate_that_is_asked_for() -> None:
    x = leaf(3)
    h = x.exp()
    loss = (h * 2).square().sum()
    with no_grad():
        h.detach().add_(1)
    with pytest.raises(RuntimeError, match=r"exp: one of the variables .* modified by an inplace"):
        grad(loss, [h, x])
    (found,) = grad(loss, h)  # that part is intact
    assert found is not None
    np.testing.assert_allclose(found.data, 8 * np.exp(x.data))


def test_what_a_hook_has_freed_is_missed_by_the_pass_that_called_it() -> None:
    x = leaf(3)
    h = x.exp()
    first, losses = (h * 2).sum(), [(x + h).sum()]
    h.register_hook(lambda g: losses.pop().backward() if losses else None)
    with pytest.raises(RuntimeError, match=r"exp of shape \(3,\): .*retain_graph=True"):
        first.backward()


# A second pass

GRAPHS: dict[str, Callable[[Tensor], Tensor]] = {
    "mul": lambda x: (x * x).sum(),
    "exp": lambda x: x.exp().sum(),
    "sum": lambda x: x.sum(),
    "add": lambda x: (x + 1)[0],
    "view": lambda x: x.reshape(1, 3)[0, 0],
}


@pytest.mark.parametrize("again", ["backward", "grad"])
@pytest.mark.parametrize("first", ["backward", "grad"])
@cases("make", GRAPHS)
def test_a_second_pass_over_a_freed_graph_is_refused(
    make: Callable[[Tensor], Tensor], first: str, again: str
) -> None:
    x = leaf(3)
    loss = make(x)
    run = {"backward": loss.backward, "grad": lambda: grad(loss, x)}
    run[first]()
    before = None if x.grad is None else x.grad.data.copy()
    message = r"\w+ of shape \(.*\): trying to backward through the graph a second time.*"
    with pytest.raises(RuntimeError, match=message + "retain_graph=True"):
        run[again]()
    if before is None:
        assert x.grad is None
    else:
        np.testing.assert_array_equal(x.grad, before)


@cases("make", GRAPHS)
def test_a_kept_graph_serves_any_number_of_passes(make: Callable[[Tensor], Tensor]) -> None:
    x = leaf(3)
    loss = make(x)
    for _ in range(3):
        loss.backward(retain_graph=True)
    (once,) = grad(loss, x)
    np.testing.assert_allclose(x.grad, 3 * once.data)
    with pytest.raises(RuntimeError, match="retain_graph=True"):
        loss.backward()


def test_a_recorded_pass_keeps_the_graph_unless_told_otherwise() -> None:
    x = leaf(3)
    loss = (x * x).sum()
    grad(loss, x, create_graph=True)
    loss.backward(create_graph=True)
    grad(loss, x, create_graph=True, retain_graph=False)
    x.grad = None
    with pytest.raises(RuntimeError, match="retain_graph=True"):
        grad(loss, x)


def test_a_part_that_two_losses_share_is_freed_by_the_first() -> None:
    x = leaf(3)
    h = x.exp()
    first, second = h.sum(), (h * 2).sum()
    first.backward()
    with pytest.raises(RuntimeError, match=r"exp of shape \(3,\): .*retain_graph=True"):
        second.backward()
    np.testing.assert_allclose(x.grad, np.exp(x.data))


def test_a_pass_frees_only_what_it_went_through() -> None:
    x, y = leaf(3), leaf(3, seed=1)
    loss = (x.exp() + y.exp()).sum()
    grad(loss, x, retain_graph=True)
    loss.backward(inputs=x, retain_graph=True)
    grad(y.exp().sum() + loss, y)
    with pytest.raises(RuntimeError, match="retain_graph=True"):
        loss.backward(inputs=x)


def test_a_pass_that_ends_at_an_intermediate_frees_nothing_before_it() -> None:
    x = leaf(3)
    h = x.exp()
    grad((h * h).sum(), h)
    h.sum().backward()
    np.testing.assert_allclose(x.grad, np.exp(x.data))


def test_what_the_rules_needed_is_let_go_during_the_pass() -> None:
    x = leaf(3)
    loss = (x.exp() * x).sum()
    kept = loss.node.inputs[0]
    assert set(kept.saved) == {"a", "b"}
    loss.backward()
    assert kept.saved is None and loss.node.saved is None


def test_a_new_forward_pass_works_after_a_failure() -> None:
    x = leaf(3)
    loss = (x * x).sum()
    loss.backward()
    with pytest.raises(RuntimeError):
        loss.backward()
    x.grad = None
    (x * x).sum().backward()
    np.testing.assert_allclose(x.grad, 2 * x.data)
