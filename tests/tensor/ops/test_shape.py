"""Ops that rearrange elements: what holds beyond the table of cases."""

from __future__ import annotations

import time

import numpy as np

import tensor as st
from tensor import Tensor, grad
from tensor.nn import functional
from tests.tensor.ops.harness import weights_for


def test_thousands_of_tensors_are_joined_in_linear_time() -> None:
    def seconds(count: int, create_graph: bool) -> float:
        parts = [Tensor(np.full(1 + i % 3, float(i)), requires_grad=True) for i in range(count)]
        start = time.perf_counter()
        out = st.cat(parts)
        seed = Tensor(weights_for(out))
        grads = grad(out, parts, seed, create_graph=create_graph)
        elapsed = time.perf_counter() - start
        np.testing.assert_array_equal(np.concatenate([g.data for g in grads]), seed.data)
        return elapsed

    for create_graph in (False, True):
        few = min(seconds(2_000, create_graph) for _ in range(3))
        many = min(seconds(8_000, create_graph) for _ in range(3))
        assert many < 8 * few  # four times as many operands; a square law would take 16


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
