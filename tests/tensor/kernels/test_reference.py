"""What the kernels promise beyond the results that the ops are tested for."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tensor.kernels import reference


def in_eight_lanes(row: list[float]) -> float:
    """Add up ``row`` as eight running sums, joined in order."""
    lanes = [0.0] * 8
    for i, value in enumerate(row):
        lanes[i % 8] += value
    total = lanes[0]
    for lane in lanes[1:]:
        total += lane
    return total


@pytest.mark.parametrize("length", [0, 1, 7, 8, 9, 10, 16, 65])
def test_log_softmax_of_float64_sums_in_eight_lanes(length: int) -> None:
    rng = np.random.default_rng(length)
    rows = np.exp(rng.normal(0, 8, (50, length)))
    sums = reference._sum_in_lanes(rows)
    assert sums.tolist() == [in_eight_lanes(row.tolist()) for row in rows]


def test_the_order_of_the_lanes_is_not_that_of_numpy() -> None:
    rows = np.exp(np.random.default_rng(0).normal(0, 8, (200, 10)))
    assert (reference._sum_in_lanes(rows) != rows.sum(1)).any()


@pytest.mark.parametrize("dim", [0, 1])
def test_log_softmax_is_right_along_either_dimension(dim: int) -> None:
    a = np.random.default_rng(1).normal(0, 3, (9, 11))
    rows = a if dim == 1 else a.T
    exact = [[x - math.log(math.fsum(map(math.exp, row))) for x in row] for row in rows.tolist()]
    result = reference.log_softmax(a, dim)
    np.testing.assert_allclose(result if dim == 1 else result.T, exact, rtol=1e-14, atol=1e-15)
