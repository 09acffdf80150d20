"""Ops that rearrange elements: what holds beyond the table of cases."""

from __future__ import annotations

import time

import numpy as np

import tensor as st
from tensor import Tensor, grad
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
