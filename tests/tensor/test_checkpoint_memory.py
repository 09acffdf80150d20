"""Checkpoints: what they keep, and when it is let go."""

from __future__ import annotations

import tracemalloc
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np

from tensor import Tensor, checkpoint, grad
from tests.tensor.engine.helpers import blocks_left_behind, collector_off, leaf


def peak(step: Callable[[], object]) -> int:
    tracemalloc.start()
    try:
        step()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def part_of_ten(a: Tensor) -> Tensor:
    for _ in range(10):
        a = a.sin()
    return a


def chain(x: Tensor, count: int, checkpointed: bool) -> Tensor:
    for _ in range(count):
        x = checkpoint(part_of_ten, x) if checkpointed else part_of_ten(x)
    return x.sum()


def test_the_peak_of_a_step_falls_to_the_boundaries_and_one_part() -> None:
    x = leaf(20_000)
    size = x.data.nbytes
    plain = peak(lambda: chain(x, 10, False).backward())
    x.grad = None
    saving = peak(lambda: chain(x, 10, True).backward())
    assert plain > 95 * size  # 100 intermediate results
    assert saving < 28 * size  # 10 boundaries, one part of 10, a few gradients
    assert saving < 0.3 * plain


def test_what_a_kept_graph_ran_again_is_let_go_after_the_pass() -> None:
    x = leaf(20_000)
    loss = chain(x, 5, True)
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        loss.backward(retain_graph=True)
        x.grad = None
        left = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    assert left < 0.1 * x.data.nbytes


def test_intermediate_results_die_when_the_part_returns_and_arguments_with_the_graph() -> None:
    x = leaf(3)
    inner: list[Any] = []

    def part(a: Tensor) -> Tensor:
        h = a.exp()
        inner.append(weakref.ref(h.data))
        return h.sin() * h

    with collector_off():
        argument = x * 2
        loss = checkpoint(part, argument).sum()
        outer = weakref.ref(argument)
        del argument
        assert inner[0]() is None and outer() is not None
        loss.backward()
        assert inner[1]() is None and outer() is None


def test_there_is_no_reference_cycle() -> None:
    x, w = leaf(3, 3), leaf(3, 3, seed=1)

    def once() -> None:
        out = checkpoint(lambda a: checkpoint(lambda b: (b @ w).tanh().exp(), a.exp()).sin(), x)
        out.sum().backward(retain_graph=True)
        grad(out.sum(), x, create_graph=True)
        x.grad = w.grad = None

    assert blocks_left_behind(once, 1_000) < 250


def test_a_long_chain_of_checkpoints_does_not_recurse() -> None:
    x = y = leaf(1)
    for _ in range(5_000):
        y = checkpoint(lambda a: a * 1.0, y)
    y.sum().backward()
    np.testing.assert_array_equal(x.grad, [1])
