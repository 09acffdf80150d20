"""Every op: its first and second derivatives against finite differences and PyTorch."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from micro.vocab import VOCAB
from tensor import Tensor, grad, gradcheck, gradgradcheck
from tests.tensor.ops.harness import (
    DIFFERENTIABLE,
    call,
    every,
    leaves,
    requiring,
    torch_call,
    torch_leaves,
    weights_for,
)
from tests.tensor.ops.table import Sample
from tests.tensor.tolerances import assert_close

DTYPES = ("float32", "float64")


def function_of(name: str, sample: Sample) -> Any:
    return lambda *operands: call(name, operands, sample.attrs)


@every(DIFFERENTIABLE)
def test_first_derivatives_agree_with_finite_differences(name: str, sample: Sample) -> None:
    assert gradcheck(function_of(name, sample), leaves(name, sample))


@every(DIFFERENTIABLE)
def test_second_derivatives_agree_with_finite_differences(name: str, sample: Sample) -> None:
    assert gradgradcheck(function_of(name, sample), leaves(name, sample))


def compare_with_torch(name: str, sample: Sample, dtype: str) -> None:
    ours, theirs = leaves(name, sample, dtype), torch_leaves(name, sample, dtype)
    before = [None if x is None else x.data.copy() for x in ours]
    out, expected = call(name, ours, sample.attrs), torch_call(name, theirs, sample.attrs)
    assert_close(out.data, expected.detach().numpy(), name, "value")
    assert out.requires_grad == expected.requires_grad
    if out.requires_grad:
        weights = weights_for(out)
        found = grad(out, requiring(ours), Tensor(weights))
        wanted = torch.autograd.grad(expected, requiring(theirs), torch.from_numpy(weights))
        for i, (g, w) in enumerate(zip(found, wanted, strict=True)):
            assert_close(g.data, w.numpy(), name, f"gradient {i}")
    for x, old in zip(ours, before, strict=True):
        assert old is None or np.array_equal(x.data, old, equal_nan=True)


@every(list(VOCAB))
def test_values_and_gradients_equal_torch(name: str, sample: Sample) -> None:
    for dtype in DTYPES:
        compare_with_torch(name, sample, dtype)


@every(list(VOCAB), "points")
def test_values_and_gradients_at_kinks_and_ieee_values_equal_torch(
    name: str, point: Sample
) -> None:
    for dtype in DTYPES:
        compare_with_torch(name, point, dtype)


@every(DIFFERENTIABLE)
def test_second_derivatives_equal_torch(name: str, sample: Sample) -> None:
    for dtype in DTYPES:
        compare_second_derivatives_with_torch(name, sample, dtype)


# PyTorch has nan for the second derivatives of a power at 0 and for those of a negative base;
# here they are those of the function. See test_elementwise. It has nan, too, where a deviation or a
# norm is 0, and for most norms of what holds a 0; here they are 0 there, as the first ones are.
ZERO_FOR_NAN = {"std", "norm"}


@every([name for name in DIFFERENTIABLE if name != "pow"], "points")
def test_second_derivatives_at_kinks_and_ieee_values_equal_torch(name: str, point: Sample) -> None:
    for dtype in DTYPES:
        compare_second_derivatives_with_torch(name, point, dtype)


def compare_second_derivatives_with_torch(name: str, sample: Sample, dtype: str) -> None:
    ours, theirs = leaves(name, sample, dtype), torch_leaves(name, sample, dtype)
    out, expected = call(name, ours, sample.attrs), torch_call(name, theirs, sample.attrs)
    weights = weights_for(out)
    seed, seed_there = Tensor(weights, requires_grad=True), torch.from_numpy(weights)
    seed_there.requires_grad_()
    active, active_there = requiring(ours), requiring(theirs)
    first = grad(out, active, seed, create_graph=True)
    first_there = torch.autograd.grad(expected, active_there, seed_there, create_graph=True)
    factors = [weights_for(g, seed=1) for g in first]
    second = grad(first, [*active, seed], [Tensor(f) for f in factors], allow_unused=True)
    second_there: Any = [None] * (len(active_there) + 1)
    recorded = [i for i, g in enumerate(first_there) if g.requires_grad]  # not zeros, in PyTorch
    if recorded:
        second_there = torch.autograd.grad(
            [first_there[i] for i in recorded],
            [*active_there, seed_there],
            [torch.from_numpy(factors[i]) for i in recorded],
            allow_unused=True,
        )
    for i, (g, w) in enumerate(zip(second, second_there, strict=True)):
        x = [*active, seed][i]
        actual = np.zeros(x.shape, dtype) if g is None else g.data
        wanted = np.zeros(x.shape, dtype) if w is None else w.detach().numpy(force=True)
        if name in ZERO_FOR_NAN:
            wanted = np.where(np.isnan(wanted) & (actual == 0), actual, wanted)
        assert_close(actual, wanted, name, f"second derivative {i}")
