"""No reference cycle: without the garbage collector everything is freed at once."""

from __future__ import annotations

import contextlib
import gc
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tensor as st
from tensor import Tensor, grad, no_grad
from tensor.dispatch import OPS
from tests.tensor.engine.helpers import blocks_left_behind, cases, collector_off, leaf, weights


def network(x: Tensor) -> tuple[Tensor, list[Tensor]]:
    """A loss through ops of every kind, and its intermediates."""
    h = (x @ x.T).tanh()
    v = h.reshape(-1)[::2]
    v = v + 1
    s = st.cat([v, v.exp()])
    i = s[[0, 1, 1]]
    m = st.where(i > 0, i, 0 * i).log_softmax(0)
    return (m * m).sum() + h.mean() + s.max(), [h, v, s, i, m]


STEPS: dict[str, Callable[[Tensor, Tensor], object]] = {
    "forward alone": lambda loss, x: None,
    "backward": lambda loss, x: loss.backward(),
    "backward, kept": lambda loss, x: loss.backward(retain_graph=True),
    "grad": grad,
    "recorded grad": lambda loss, x: grad(loss, x, create_graph=True),
    "second order": lambda loss, x: grad(grad(loss, x, create_graph=True)[0].sum(), x),
    "hook": lambda loss, x: (loss.register_hook(lambda g: g * 2), loss.backward()),
    "retain_grad": lambda loss, x: (loss.retain_grad(), loss.backward()),
}


@cases("step", STEPS)
def test_intermediates_die_with_the_loss(step: Callable[[Tensor, Tensor], object]) -> None:
    x = leaf(3, 3)
    with collector_off():
        loss, intermediates = network(x)
        kept = [loss, *intermediates]
        watched: list[Any] = [weakref.ref(t) for t in kept]
        watched += [weakref.ref(t.node) for t in kept]
        watched += [weakref.ref(t.data) for t in kept if t.data.base is None]
        step(loss, x)
        del loss, intermediates, kept
        assert [ref() for ref in watched if ref() is not None] == []


def test_an_array_that_no_rule_needs_dies_with_its_tensor() -> None:
    x = leaf(3)
    with collector_off():
        h = x * 2
        y = h + 1
        array = weakref.ref(h.data)
        del h
        assert array() is None
        y.sum().backward()
    np.testing.assert_array_equal(x.grad, [2, 2, 2])


def test_what_was_saved_dies_during_the_pass() -> None:
    x = leaf(3)
    with collector_off():
        h = x.exp()
        loss = (h * h).sum()
        array = weakref.ref(h.data)
        del h
        assert array() is not None
        loss.backward()
        assert array() is None


def test_a_kept_cycle_would_be_noticed() -> None:
    """The check above in the case it is there to reject."""
    with collector_off():
        y = leaf(3) * 2
        y.node.label = y
        ref = weakref.ref(y)
        del y
        assert ref() is not None
    gc.collect()
    assert ref() is None


def test_errors_hold_nothing_back() -> None:
    x = leaf(3)
    with collector_off():
        y = x * x
        ref = weakref.ref(y)
        with pytest.raises(RuntimeError):
            y.backward()
        with pytest.raises(RuntimeError):
            y @ weights(4)
        del y
        assert ref() is None


# Far below one block for each step.
FEW = 250


@cases("step", {name: STEPS[name] for name in ("second order", "hook", "retain_grad")})
def test_memory_stays_flat_over_many_steps(
    step: Callable[[Tensor, Tensor], object],
) -> None:
    x = leaf(3, 3)

    def once() -> None:
        loss, _ = network(x)
        step(loss, x)
        x.grad = None

    assert blocks_left_behind(once, 500) < FEW


def test_memory_stays_flat_over_ten_thousand_training_steps() -> None:
    w, x = leaf(3), weights(4, 3)

    def train() -> None:
        loss = ((x @ w) ** 2).mean()
        w.grad = None
        loss.backward()
        with no_grad():
            w.sub_(0.01 * w.grad)

    assert blocks_left_behind(train, 5_000) < FEW  # and as many before the count
    assert w.version == 10_000


def test_views_of_a_parameter_leave_nothing_behind() -> None:
    w = leaf(3, 3)
    assert blocks_left_behind(lambda: (w.T, w[0], w.detach(), w.reshape(-1)), 2_500) < FEW


def test_an_op_does_not_remember_every_number_of_operands() -> None:
    x, c = leaf(1), weights(1)
    for length in range(1, 30):
        st.cat([x] * length + [c]).sum().backward()
    assert not OPS["cat"].plans


def test_errors_leave_nothing_behind() -> None:
    x = leaf(3)
    y = x * 2

    def fail() -> None:
        for call in (y.backward, lambda: y @ weights(4), lambda: y.add_(None)):
            with contextlib.suppress(RuntimeError, TypeError):
                call()

    assert blocks_left_behind(fail, 2_500) < FEW


@pytest.mark.parametrize("kept", ["a cycle", "a list"])
def test_a_step_that_keeps_something_is_noticed(kept: str) -> None:
    held: list[Any] = []

    def step() -> None:
        y = leaf(3) * 2
        if kept == "a cycle":
            y.node.label = y
        else:
            held.append(y)

    assert blocks_left_behind(step, 1_000) > 1_000
    gc.collect()
