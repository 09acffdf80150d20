"""Gradients at the edge of a rule: where a limit, a length of 0 or 1, or a choice decides."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import tensor
from tensor import Tensor, grad
from tests.tensor.tolerances import assert_close


def test_the_target_of_a_cross_entropy_has_a_bounded_gradient_at_certainty() -> None:
    a, target = np.array([0.0, 1.0, 0.25]), np.array([0.5, 0.25, 0.75])
    weights = np.array([0.3, -1.7, 0.9])
    ours = Tensor(target, requires_grad=True)
    out = tensor.binary_cross_entropy(Tensor(a), ours)
    (found,) = grad(out, [ours], Tensor(weights))
    assert found is not None
    expected = weights * np.array([100.0, -100.0, np.log(0.75) - np.log(0.25)])
    np.testing.assert_allclose(found.data, expected, rtol=1e-15)


def test_one_number_scattered_from_a_row_gives_its_first_element_the_gradient() -> None:
    row, index = np.array([1.5, -2.0, 0.5]), np.array(0)
    ours, theirs = Tensor(row, requires_grad=True), torch.tensor(row, requires_grad=True)
    out = tensor.scatter(Tensor(np.array(0.25)), 0, Tensor(index), ours)
    place = torch.tensor(0.25, dtype=torch.float64)
    expected = torch.scatter(place, 0, torch.tensor(index), theirs)
    assert_close(out.data, expected.detach().numpy())
    (found,) = grad(out, [ours], Tensor(-1.75))
    assert found is not None
    assert found.tolist() == [-1.75, 0.0, 0.0]


def test_what_is_written_to_no_place_has_the_gradient_0() -> None:
    a, value = Tensor(np.ones((3, 2))), Tensor(np.array([[5.0, 6.0]]), requires_grad=True)
    for accumulate in (False, True):
        out = tensor.setitem(a, value, slice(0, 0), accumulate)
        assert out.tolist() == a.tolist()
        (found,) = grad(out, [value], Tensor(np.arange(6.0).reshape(3, 2)))
        assert found is not None
        assert found.tolist() == [[0.0, 0.0]]


@pytest.mark.parametrize(
    "shape",
    [(), (5,), (1,), (4, 1), (4, 5), (3, 1, 5), (3, 4, 1), (1, 4, 5), (1, 1, 1, 5), (2, 1, 4, 1)],
)
def test_a_value_written_to_many_places_has_the_sum_of_their_gradients(
    shape: tuple[int, ...],
) -> None:
    rng = np.random.default_rng(len(shape))
    value, weights = rng.normal(size=shape), rng.normal(size=(2, 3, 4, 5))
    ours, theirs = Tensor(value, requires_grad=True), torch.tensor(value, requires_grad=True)
    out = tensor.setitem(Tensor(np.zeros(weights.shape)), ours, ..., False)
    torch.broadcast_to(theirs, weights.shape).backward(torch.from_numpy(weights))
    (found,) = grad(out, [ours], Tensor(weights))
    assert found is not None and theirs.grad is not None
    assert_close(found.data, theirs.grad.numpy(), "setitem")


def test_a_mask_of_one_key_for_no_key_has_the_gradient_0() -> None:
    rng = np.random.default_rng(3)
    query, key, value = (Tensor(rng.normal(size=s)) for s in ((4, 2), (0, 2), (0, 3)))
    mask = Tensor(rng.normal(size=(4, 1)), requires_grad=True)
    out = tensor.scaled_dot_product_attention(query, key, value, mask)
    (found,) = grad(out, [mask], Tensor(rng.normal(size=(4, 3))))
    assert found is not None
    assert found.tolist() == [[0.0]] * 4
