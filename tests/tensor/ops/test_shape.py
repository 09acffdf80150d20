"""Ops that rearrange elements: what holds beyond the table of cases."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tensor as st
from tensor import Tensor, grad
from tensor.nn import functional
from tests.tensor.ops.harness import weights_for


def joined(count: int, create_graph: bool) -> None:
    parts = [Tensor(np.full(1 + i % 3, float(i)), requires_grad=True) for i in range(count)]
    out = st.cat(parts)
    seed = Tensor(weights_for(out))
    grads = grad(out, parts, seed, create_graph=create_graph)
    np.testing.assert_array_equal(np.concatenate([g.data for g in grads if g is not None]), seed)


def calls(function: Callable[[], None]) -> int:
    """How often Python entered a function or went on with a generator."""
    count = 0

    def observe(frame: Any, event: str, argument: Any) -> None:
        nonlocal count
        count += event == "call"

    before = sys.getprofile()
    sys.setprofile(observe)
    try:
        function()
    finally:
        sys.setprofile(before)
    return count


@pytest.mark.parametrize("create_graph", [False, True])
def test_thousands_of_tensors_are_joined_in_linear_time(create_graph: bool) -> None:
    few, many = (calls(functools.partial(joined, n, create_graph)) for n in (500, 2_000))
    assert many < 4.5 * few


def test_a_square_law_is_noticed() -> None:
    def squared(n: int) -> None:
        for i in range(n):
            assert sum(1 for _ in range(i)) == i

    few, many = (calls(functools.partial(squared, n)) for n in (50, 200))
    assert many > 4.5 * few


def test_columns_folded_back_count_how_often_an_element_was_seen() -> None:
    planes = Tensor(np.arange(1.0, 25.0).reshape(1, 2, 3, 4))
    columns = functional.unfold(planes, 2)
    assert columns.shape == (1, 8, 6)
    seen = np.array([[1, 2, 2, 1], [2, 4, 4, 2], [1, 2, 2, 1]])
    np.testing.assert_array_equal(functional.fold(columns, (3, 4), 2).data, planes.data * seen)


def test_windows_are_strided_views_whatever_the_layout() -> None:
    base = np.arange(24.0).reshape(4, 6)
    for array in (base, base.T, base[::-1, ::2]):
        x = st.from_numpy(array)
        windows = x.unfold(0, 3, 1)
        assert np.shares_memory(windows.data, base)
        for t in range(len(windows)):
            np.testing.assert_array_equal(windows.data[t], array[t : t + 3].T)
