"""Planned programs: memory that is used again, and results that are not touched."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tensor
from tensor import Tensor, fuse, nn, trace
from tensor.kernels.choice import kernels_in_use
from tensor.plan import Plan


def plan(function: Any, *args: Tensor) -> Plan:
    fast = kernels_in_use() == "numba"
    return Plan(fuse.optimized(trace(function)(*args), fast), args, fast)


def test_memory_is_used_again() -> None:
    def chain(x: Tensor) -> Tensor:
        for _ in range(20):
            x = (x @ x).tanh() * 0.5
        return x

    x = Tensor(np.random.default_rng(0).normal(size=(50, 50)))
    planned = plan(chain, x)
    assert planned.nbytes() <= 3 * x.data.nbytes + 100
    for _ in range(2):
        np.testing.assert_array_equal(planned([x]).data, chain(x).data)


def test_a_result_is_not_written_over_what_is_needed_later() -> None:
    def mixed(x: Tensor) -> tuple[Tensor, ...]:
        a = x * 2
        b = a + 1
        c = a.T @ b
        d = (a - b).exp()
        return a * d, b.reshape(-1), c, a.sum(0) + d[0]

    x = Tensor(np.random.default_rng(1).normal(size=(3, 4)))
    planned = plan(mixed, x)
    for seed in range(3):
        x = Tensor(np.random.default_rng(seed).normal(size=(3, 4)))
        for found, wanted in zip(planned([x]), mixed(x), strict=True):
            np.testing.assert_array_equal(found.data, wanted.data)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x.sigmoid() * x.relu() + x.softmax(-1) - x.log_softmax(0),
        lambda x: tensor.where(x > 0, x, -x) + tensor.where(x > 1, 0.0, x),
        lambda x: tensor.cat([x, 2 * x], 1) @ tensor.stack([x[:2], x[1:3]]).reshape(8, -1)[:, :2],
        lambda x: (x.mean(0), x.sum(), x.var(1), x.amax(1), x.max(), x.std()),
        lambda x: x.expand(2, 3, 4).sum((0, 2)) + x.T.reshape(3, 4).sum(1),
        lambda x: (x.square(), x**2, x**3.0, 1 / x, x.reciprocal(), x.maximum(0.5), x.clip(0, 1)),
        lambda x: tensor.embedding(x, Tensor([2, 0, 2])) + nn.functional.layer_norm(x, (4,)),
        lambda x: (x.to("float32") * 2, x.long(), x > 0, x.isnan(), x.argmax(1), x[[0, 1], 1:3]),
        lambda x: tensor.gelu(x) + tensor.silu(x) + tensor.erf(x) + x.cumsum(0),
        lambda x: x[..., None] * x[:, None] - x.squeeze().unsqueeze(1).permute(2, 0, 1)[:, 0],
    ],
    ids=[
        "softmax",
        "where",
        "join",
        "reduce",
        "views",
        "powers",
        "rows",
        "kinds",
        "other",
        "index",
    ],
)
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
def test_every_kind_of_instruction_gives_the_same_bits(function: Any, dtype: str) -> None:
    values = np.random.default_rng(3).normal(size=(3, 4)) * 2
    values[0, 0], values[1, 2] = 0.0, np.nan
    x = Tensor(values.astype(dtype))
    planned = plan(function, x)
    for _ in range(2):
        for found, wanted in zip(
            tensor.program.leaves(planned([x])), tensor.program.leaves(function(x)), strict=True
        ):
            np.testing.assert_array_equal(found.data, wanted.data, strict=True)


@pytest.mark.parametrize("rows", [1, 2, 17, 64, 100, 200])
@pytest.mark.parametrize("activation", [None, "relu", "tanh"])
def test_a_layer_that_is_computed_the_other_way_round_is_the_same(
    rows: int, activation: str | None
) -> None:
    rng = np.random.default_rng(rows)
    w, b = (Tensor(rng.normal(size=shape).astype("f")) for shape in ((150, 70), (150,)))
    x = Tensor(rng.normal(size=(rows, 70)).astype("f"))
    found = plan(lambda x: tensor.linear(x, w, b, activation), x)([x])
    assert found.data.tobytes() == tensor.linear(x, w, b, activation).data.tobytes()
    wanted = tensor.linear(x.double(), w.double(), b.double(), activation)
    # the sum of 70 products, in whatever order
    bound = 70 * np.finfo("f").eps * (np.abs(x.data) @ np.abs(w.data.T)).max()
    np.testing.assert_allclose(found.data, wanted.data, rtol=0, atol=bound)
