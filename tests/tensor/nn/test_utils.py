"""Clipping gradients, and parameters as one vector, against PyTorch's."""

from __future__ import annotations

import math
import warnings
from typing import Any, Final

import numpy as np
import pytest
import torch

import tensor
from tensor import ShapeError, Tensor, nn
from tensor.nn import utils
from tests.tensor.tolerances import assert_close

SHAPES: Final = [(3, 4), (), (0, 2), (5,)]
inf, nan = math.inf, math.nan


def pairs(
    dtype: str = "float64", scale: float = 1.0
) -> tuple[list[nn.Parameter], list[torch.nn.Parameter]]:
    """Parameters with gradients here and in PyTorch, the last one without."""
    rng = np.random.default_rng(3)
    ours, theirs = [], []
    for shape in [*SHAPES, (2,)]:
        p = nn.Parameter(np.ones(shape, dtype))
        q = torch.nn.Parameter(torch.ones(shape, dtype=getattr(torch, dtype)))
        if shape != (2,):
            g = np.asarray(rng.normal(size=shape) * scale).astype(dtype)
            p.grad, q.grad = Tensor(g), torch.tensor(g)
        ours.append(p)
        theirs.append(q)
    return ours, theirs


def filled(tensors: Any) -> list[torch.Tensor]:
    """Those with elements: of no elements PyTorch has no largest one."""
    return [tensor for tensor in tensors if tensor is not None and tensor.numel()]


def gradients(parameters: Any) -> list[np.ndarray]:
    return [np.asarray(p.grad).copy() for p in parameters if p.grad is not None]


def assert_same_gradients(ours: Any, theirs: Any) -> None:
    for actual, expected in zip(gradients(ours), gradients(theirs), strict=True):
        assert_close(actual, expected)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("limit", [0.0, 0.5, 3.0, 1e6, inf])
@pytest.mark.parametrize("order", [1, 2.0, 3.5, 0.5, inf])
def test_the_norm_is_clipped_as_in_pytorch(order: float, limit: float, dtype: str) -> None:
    ours, theirs = pairs(dtype)
    norm = utils.clip_grad_norm_(ours, limit, order)
    expected = torch.nn.utils.clip_grad_norm_(filled(theirs), limit, order)
    assert_close(norm.data, expected.numpy())
    assert_same_gradients(ours, theirs)
    assert ours[-1].grad is None
    ours, theirs = pairs(dtype)
    norm = utils.get_total_norm([p.grad for p in ours if p.grad is not None], order)
    expected = torch.nn.utils.get_total_norm(filled(q.grad for q in theirs), order)
    assert_close(norm.data, expected.numpy())


def test_gradients_within_the_limit_are_not_touched() -> None:
    ours, _ = pairs()
    before = [(p.grad, p.grad.version) for p in ours if p.grad is not None]
    utils.clip_grad_norm_(ours, 100.0)
    assert [(p.grad, p.grad.version) for p in ours if p.grad is not None] == before


def test_one_tensor_and_nothing_can_be_clipped() -> None:
    p = nn.Parameter(np.ones(2))
    p.grad = Tensor(np.array([3.0, 4.0]))
    kept = p.grad
    assert utils.clip_grad_norm_(p, 1.0).item() == 5
    np.testing.assert_allclose(kept.data, [0.6, 0.8], rtol=1e-6)
    assert p.grad is kept and kept.version == 1
    assert utils.get_total_norm([]).item() == 0


def test_a_tied_weight_counts_once() -> None:
    model = nn.Sequential(nn.Linear(2, 2, bias=False), nn.Linear(2, 2, bias=False))
    model[1].weight = model[0].weight
    weight = model[0].weight
    weight.grad = Tensor(np.full((2, 2), 2.0, np.float32))
    for parameters in (model.parameters(), [model[0].weight, model[1].weight]):
        weight.grad = Tensor(np.full((2, 2), 2.0, np.float32))
        assert utils.clip_grad_norm_(parameters, 1.0).item() == 4
        assert weight.grad.tolist()[0][0] == pytest.approx(0.5, rel=1e-5)


@pytest.mark.parametrize("bad", [inf, -inf, nan])
@pytest.mark.parametrize("order", [1, 2, inf])
def test_a_norm_that_is_not_finite_is_an_error_if_wanted_and_otherwise_pytorchs(
    order: float, bad: float
) -> None:
    ours, theirs = pairs()
    ours[0].grad.data[1, 1] = bad  # type: ignore[union-attr]
    theirs[0].grad[1, 1] = bad  # type: ignore[index]
    before = gradients(ours)
    with pytest.raises(
        RuntimeError, match=r"clip_grad_norm_: the total norm of order .* (inf|nan)"
    ):
        utils.clip_grad_norm_(ours, 1.0, order, error_if_nonfinite=True)
    for actual, expected in zip(gradients(ours), before, strict=True):
        np.testing.assert_array_equal(actual, expected)
    with pytest.raises(RuntimeError, match="get_total_norm"):
        utils.get_total_norm([p.grad for p in ours[:1] if p.grad is not None], order, True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        norm = utils.clip_grad_norm_(ours, 1.0, order)
    assert_close(norm.data, torch.nn.utils.clip_grad_norm_(filled(theirs), 1.0, order).numpy())
    assert_same_gradients(ours, theirs)


@pytest.mark.parametrize(
    ("dtype", "size"), [("float32", 1e30), ("float64", 1e200), ("float16", 6e4)]
)
def test_squares_that_overflow_do_not_clip_everything_to_0(dtype: str, size: float) -> None:
    p = nn.Parameter(np.ones(2, dtype))
    p.grad = Tensor(np.array([3, 4], dtype) * np.array(size / 8, dtype))
    norm = utils.clip_grad_norm_(p, 10.0)
    assert norm.item() == pytest.approx(5 * size / 8, rel=1e-3)
    np.testing.assert_allclose(p.grad.data, [6, 8], rtol=2e-3)


def test_a_gradient_that_cannot_be_overwritten_is_replaced() -> None:
    p, x = nn.Parameter(np.ones(2)), nn.Parameter(np.array([3.0, 4.0]))
    (p * x).sum().backward(create_graph=True)  # its gradient is recorded
    recorded = p.grad
    q = nn.Parameter(np.ones((2, 2)))
    q.grad = Tensor._wrap(np.broadcast_to(2.0, (2, 2)))
    utils.clip_grad_norm_([p, q], 1.0)
    assert recorded is not None and recorded.tolist() == [3.0, 4.0]
    total = math.sqrt(25 + 16)
    assert p.grad is not None and p.grad is not recorded
    np.testing.assert_allclose(p.grad.data, np.array([3, 4]) / total, rtol=1e-6)
    np.testing.assert_allclose(q.grad.data, np.full((2, 2), 2 / total), rtol=1e-6)
    q.grad = Tensor._wrap(np.broadcast_to(2.0, (2, 2)))
    utils.clip_grad_value_(q, 0.5)
    assert q.grad.tolist() == [[0.5] * 2] * 2


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("limit", [0.0, 0.4, 10.0, inf])
def test_values_are_clipped_as_in_pytorch(limit: float, dtype: str) -> None:
    ours, theirs = pairs(dtype)
    ours[3].grad.data[:3] = nan, inf, -inf  # type: ignore[union-attr]
    theirs[3].grad[:3] = torch.tensor([nan, inf, -inf])  # type: ignore[index]
    kept = ours[0].grad
    utils.clip_grad_value_((p for p in ours), limit)
    torch.nn.utils.clip_grad_value_(theirs, limit)
    assert ours[0].grad is kept
    assert_same_gradients(ours, theirs)


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (
            lambda p: utils.clip_grad_norm_(p, -1.0),
            ValueError,
            "max_norm must be 0 or more, got -1",
        ),
        (
            lambda p: utils.clip_grad_norm_(p, nan),
            ValueError,
            "max_norm must be 0 or more, got nan",
        ),
        (lambda p: utils.clip_grad_norm_(p, 1.0, 0), ValueError, "norm_type must be positive"),
        (lambda p: utils.clip_grad_norm_(p, 1.0, nan), ValueError, "norm_type must be positive"),
        (
            lambda p: utils.clip_grad_norm_([p, 3], 1.0),
            TypeError,
            "number 1 is not a Tensor but int",
        ),
        (lambda p: utils.clip_grad_value_(p, -1.0), ValueError, "clip_value must be 0 or more"),
        (lambda p: utils.clip_grad_value_([None], 1.0), TypeError, "number 0 is not a Tensor"),
        (lambda p: utils.parameters_to_vector([]), ValueError, "there are no parameters"),
        (lambda p: utils.vector_to_parameters([1.0], [p]), TypeError, "vec: number 0 is not"),  # type: ignore[arg-type]
        (
            lambda p: utils.vector_to_parameters(Tensor([1.0] * 3), [p]),
            ShapeError,
            "2 elements, but vec has shape (3,)",
        ),
    ],
    ids=range(10),
)
def test_what_makes_no_sense_is_refused(call: Any, error: type[Exception], words: str) -> None:
    p = nn.Parameter(np.ones(2))
    p.grad = Tensor(np.ones(2))
    with pytest.raises(error) as caught:
        call(p)
    assert words in str(caught.value)
    assert p.tolist() == p.grad.tolist() == [1.0, 1.0]


# One vector


def test_parameters_become_a_vector_and_come_back() -> None:
    model = nn.Sequential(nn.Linear(3, 2), nn.Linear(2, 1))
    vector = utils.parameters_to_vector(model.parameters())
    assert np.array_equal(vector.data, np.concatenate([p.data.ravel() for p in model.parameters()]))
    other = nn.Sequential(nn.Linear(3, 2), nn.Linear(2, 1)).double()
    arrays = [p.data for p in other.parameters()]
    utils.vector_to_parameters(vector, other.parameters())
    for p, q, array in zip(other.parameters(), model.parameters(), arrays, strict=True):
        assert np.array_equal(p.data, q.data.astype(np.float64))
        assert p.data is array and p.dtype == tensor.float64 and p.version > 0
        assert p.is_leaf and p.requires_grad


def test_the_vector_is_differentiable() -> None:
    parameters = [nn.Parameter(np.ones((2, 2))), nn.Parameter(np.array(2.0))]
    (utils.parameters_to_vector(parameters) * np.arange(5.0)).sum().backward()
    assert [p.grad.tolist() for p in parameters if p.grad is not None] == [[[0, 1], [2, 3]], 4]


def test_the_comparison_rejects_gradients_that_are_slightly_off() -> None:
    ours, theirs = pairs()
    utils.clip_grad_norm_(ours, 1.0)
    torch.nn.utils.clip_grad_norm_(theirs, 1.0 + 1e-9)
    with pytest.raises(AssertionError):
        assert_same_gradients(ours, theirs)
