"""Nothing recurses: a chain of a million nodes works at the default recursion limit."""

from __future__ import annotations

import ctypes
import sys
from typing import Any

import numpy as np
import pytest

from tensor import Tensor, grad
from tensor.passes import reachable
from tests.tensor.engine.helpers import in_thread, leaf

LIMIT = 1_000


@pytest.fixture(autouse=True)
def default_recursion_limit() -> Any:
    """pytest and its plugins may raise the limit."""
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(max(LIMIT, len(_stack()) + 200))
    yield
    sys.setrecursionlimit(before)


def _stack() -> list[Any]:
    frames, frame = [], sys._getframe()
    while frame is not None:
        frames.append(frame)
        frame = frame.f_back
    return frames


def chain(x: Tensor, length: int) -> Tensor:
    y = x
    for _ in range(length):
        y = y + x
    return y


def test_a_deep_graph_is_freed_without_a_backward_pass() -> None:
    x = leaf(2)
    y = chain(x, 200_000)
    y.sum()
    del y
    assert x.is_leaf


def test_a_deep_graph_is_freed_in_a_thread_with_a_small_stack() -> None:
    import threading

    before = threading.stack_size(256 * 1024)
    try:
        x = Tensor(1.0, requires_grad=True)
        assert in_thread(lambda: chain(x, 50_000).item()) == 50_001
    finally:
        threading.stack_size(before)


@pytest.mark.parametrize("kind", ["views", "unary", "in place"])
def test_other_deep_chains(kind: str) -> None:
    x = Tensor(np.arange(4.0), requires_grad=True)
    y = x * 1
    for i in range(20_000):
        if kind == "views":
            y = y.reshape(2, 2) if i % 2 else y.reshape(4)
        elif kind == "unary":
            y = -y
        else:
            y += 1
    y.sum().backward()
    np.testing.assert_array_equal(x.grad, np.ones(4))


def test_a_deep_graph_is_differentiated_twice() -> None:
    x = Tensor(1.0, dtype="float64", requires_grad=True)
    y = x
    for _ in range(3_000):
        y = y * 1.0 + x * x
    (g,) = grad(y, x, create_graph=True)
    (gg,) = grad(g, x)
    assert g.item() == 1 + 2 * 3_000
    assert gg.item() == 2 * 3_000


def test_a_graph_as_wide_as_it_is_deep() -> None:
    x = leaf(3)
    layers = [x] * 5
    for _ in range(500):
        layers = [sum(layers[i:], layers[i]) * 0.1 for i in range(5)]
    total = sum(layers, x)
    total.sum().backward()
    assert np.isfinite(x.grad.data).all() and (x.grad.data > 0).all()


def visits(y: Tensor) -> tuple[int, int]:
    """How many nodes a pass looks at, and how many bytecodes that costs."""
    steps = 0

    def count(frame: Any, event: str, arg: Any) -> Any:
        nonlocal steps
        steps += 1
        frame.f_trace_opcodes = False
        return count

    nodes = reachable([y.node])
    sys.settrace(count)
    try:
        y.backward()
    finally:
        sys.settrace(None)
    return len(nodes), steps


@pytest.mark.parametrize("shape", ["chain", "doubling"])
def test_the_work_grows_with_the_number_of_nodes(shape: str) -> None:
    """Lines executed, not seconds: twice the nodes is twice the lines, and no more."""
    found = []
    for length in (200, 400, 800):
        x = Tensor(1.0, requires_grad=True)
        y = x
        for _ in range(length):
            y = y + x if shape == "chain" else (y + y) * 0.5
        found.append(visits(y))
    (n1, s1), (n2, s2), (n3, s3) = found
    assert (n2, n3) == (2 * n1, 4 * n1)
    assert (s3 - s2) == pytest.approx(2 * (s2 - s1), rel=0.01)


def test_the_stack_is_not_used_by_backward() -> None:
    """With only a few dozen frames to spare, a chain of thousands still goes back."""
    x = leaf(3)
    y = chain(x, 5_000)
    sys.setrecursionlimit(len(_stack()) + 60)
    y.sum().backward()
    np.testing.assert_array_equal(x.grad, np.full(3, 5_001))


def test_recursion_would_be_noticed() -> None:
    """The limit that these tests run under is one that a recursive walk breaks."""

    def walk(node: Any) -> int:
        return 1 + max((walk(edge) for edge in node.inputs), default=0)

    y = chain(leaf(3), 5_000)
    with pytest.raises(RecursionError):
        walk(y.node)


def test_a_node_is_as_small_as_its_fields() -> None:
    """A million of them must fit: no dict per node."""
    node = (leaf(3) * 2).node
    assert not hasattr(node, "__dict__")
    assert sys.getsizeof(node) < 32 * ctypes.sizeof(ctypes.c_void_p)
