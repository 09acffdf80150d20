"""Losses as modules and as functions, against PyTorch's."""

from __future__ import annotations

import warnings
from typing import Any, Final

import numpy as np
import pytest
import torch

import tensor
from tensor import ShapeError, Tensor, nn
from tensor.nn import functional
from tests.tensor.tolerances import assert_close

RNG: Final = np.random.default_rng(8)
DTYPES: Final = ["float64", "float32"]
REDUCTIONS: Final = ["mean", "sum", "none"]


def assert_same_loss(
    ours: Any, theirs: Any, input: np.ndarray, target: np.ndarray, dtype: str
) -> None:
    """Fail unless both losses agree, and their gradients by the input and a real target."""
    input = input.astype(dtype)
    x, t = Tensor(input, requires_grad=True), torch.tensor(input, requires_grad=True)
    y: Any = target
    u: Any = torch.tensor(target)
    if target.dtype.kind == "f":
        target = target.astype(dtype)
        y, u = Tensor(target, requires_grad=True), torch.tensor(target, requires_grad=True)
    loss, expected = ours(x, y), theirs(t, u)
    assert_close(loss.data, expected.detach().numpy(), note="loss")
    weights = np.random.default_rng(2).uniform(0.5, 2, loss.shape).astype(dtype)
    (loss * weights).sum().backward()
    (expected * torch.tensor(weights)).sum().backward()
    assert_close(x.grad.data, t.grad.numpy(), note="gradient of the input")  # type: ignore[union-attr]
    if target.dtype.kind == "f":
        assert_close(y.grad.data, u.grad.numpy(), note="gradient of the target")


# Cross-entropy

SHAPES: Final = [(5,), (4, 5), (1, 5), (3, 5, 2), (3, 5, 2, 4), (2, 5, 0), (2, 3, 1, 2, 3)]
OPTIONS: Final[list[dict[str, Any]]] = [
    {},
    {"label_smoothing": 0.1},
    {"label_smoothing": 1.0},
    {"ignore_index": 2},
    {"ignore_index": 2, "label_smoothing": 0.3},
]


def logits(shape: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
    """Logits of a shape and targets for them."""
    rng = np.random.default_rng(list(shape))
    classes = shape[0] if len(shape) == 1 else shape[1]
    return rng.normal(size=shape), np.asarray(
        rng.integers(0, classes, shape[:1] * (len(shape) > 1) + shape[2:])
    )


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_cross_entropy_is_pytorchs(
    shape: tuple[int, ...], options: dict[str, Any], reduction: str, dtype: str
) -> None:
    input, target = logits(shape)
    if options.get("ignore_index") is not None and target.ndim == 0:
        target = np.asarray(1)
    assert_same_loss(
        nn.CrossEntropyLoss(reduction=reduction, **options),
        torch.nn.CrossEntropyLoss(reduction=reduction, **options),
        input,
        target,
        dtype,
    )


def test_cross_entropy_where_all_targets_are_ignored_is_nan_or_0() -> None:
    x, target = Tensor(RNG.normal(size=(3, 4, 2)), requires_grad=True), np.full((3, 2), -100)
    assert np.isnan(functional.cross_entropy(x, target).item())
    assert functional.cross_entropy(x, target, reduction="sum").item() == 0
    functional.cross_entropy(x, target, reduction="sum").backward()
    assert x.grad is not None and not x.grad.data.any()


def test_smoothing_with_ignored_rows_is_the_loss_of_the_rows_that_are_kept() -> None:
    x, target = RNG.normal(size=(6, 4)), np.array([0, -100, 3, 1, -100, 2])
    kept = target != -100
    for reduction in ("mean", "sum"):
        loss = nn.CrossEntropyLoss(label_smoothing=0.2, reduction=reduction)
        assert_close(
            loss(Tensor(x), target).data, loss(Tensor(x[kept]), target[kept]).data, note=reduction
        )


def test_cross_entropy_of_large_logits_is_exact() -> None:
    x = Tensor([[-431.0, 279.0, 427.0]], requires_grad=True)
    loss = nn.CrossEntropyLoss()(x, Tensor([0]))
    loss.backward()
    assert loss.item() == 858
    assert x.grad is not None and x.grad.tolist() == [[-1, 0, 1]]


def test_the_gradient_is_softmax_minus_onehot_over_the_number_of_rows() -> None:
    array, target = RNG.normal(size=(7, 5)), RNG.integers(0, 5, 7)
    x = Tensor(array, requires_grad=True)
    nn.CrossEntropyLoss()(x, target).backward()
    p = np.exp(array) / np.exp(array).sum(1, keepdims=True)
    p[np.arange(7), target] -= 1
    assert x.grad is not None
    assert_close(x.grad.data, p / 7)


@pytest.mark.parametrize(
    ("shape", "target", "error", "words"),
    [
        ((2, 3), np.array([0, 3]), IndexError, "3"),
        ((2, 3), np.array([0, -1]), IndexError, "-1"),
        ((2, 3, 2), np.array([[0, 1], [2, 3]]), IndexError, "3"),
        ((2, 3), np.array([0.0, 1.0]), RuntimeError, "float"),
        ((2, 3), Tensor([0.0, 1.0]), RuntimeError, "float"),
        ((2, 3), np.array([0, 1, 2]), ValueError, "(3,)"),
        ((2, 3), np.array([[0], [1]]), ValueError, "(2, 1)"),
        ((2, 3, 4), np.array([0, 1]), ValueError, "(2, 4)"),
        ((2, 3, 4), np.zeros((4, 2), int), ValueError, "(4, 2)"),
    ],
    ids=str,
)
def test_targets_that_make_no_sense_are_refused(
    shape: tuple[int, ...], target: Any, error: type[Exception], words: str
) -> None:
    x = Tensor(np.ones(shape), requires_grad=True)
    with pytest.raises(error, match="cross_entropy") as caught:
        nn.CrossEntropyLoss()(x, target)
    assert words in str(caught.value)
    assert x.grad is None


@pytest.mark.parametrize("smoothing", [-0.1, 1.1])
def test_smoothing_outside_0_and_1_is_refused(smoothing: float) -> None:
    with pytest.raises(ValueError, match="label_smoothing"):
        functional.cross_entropy(
            Tensor(np.ones((2, 3))), np.array([0, 1]), label_smoothing=smoothing
        )


# Squares and absolute values

PAIRS: Final = {"MSELoss": "mse_loss", "L1Loss": "l1_loss"}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("shape", [(), (1,), (4,), (4, 3), (0, 3)], ids=str)
@pytest.mark.parametrize("name", PAIRS)
def test_losses_by_element_are_pytorchs(
    name: str, shape: tuple[int, ...], reduction: str, dtype: str
) -> None:
    if shape == (0, 3) and reduction == "mean":
        loss = getattr(nn, name)()(Tensor(np.ones(shape)), np.ones(shape))
        assert np.isnan(loss.item())
        return
    assert_same_loss(
        getattr(nn, name)(reduction=reduction),
        getattr(torch.nn, name)(reduction=reduction),
        np.asarray(RNG.normal(size=shape)),
        np.asarray(RNG.normal(size=shape)),
        dtype,
    )


@pytest.mark.parametrize("name", PAIRS)
def test_shapes_that_would_broadcast_are_refused(name: str) -> None:
    column, row = Tensor(np.ones((4, 1)), requires_grad=True), np.ones(4)
    for error in (ValueError, RuntimeError, ShapeError):
        with pytest.raises(error, match=rf"{PAIRS[name]}: .*\(4, 1\).*\(4,\).*reshape"):
            getattr(nn, name)()(column, row)
    with pytest.raises(ShapeError):
        getattr(functional, PAIRS[name])(column, 1.0)
    assert getattr(nn, name)()(column, row.reshape(4, 1)).item() == 0


def test_the_gradient_of_an_absolute_value_is_0_at_0() -> None:
    x = Tensor([1.0, 2.0, 3.0], requires_grad=True)
    functional.l1_loss(x, Tensor([1.0, 3.0, 1.0]), reduction="sum").backward()
    assert x.grad is not None and x.grad.tolist() == [0, -1, 1]


# All of them


LOSSES: Final = {
    "CrossEntropyLoss": (np.ones((4, 3)), np.array([0, 1, 2, 1])),
    "MSELoss": (np.ones(4), np.zeros(4)),
    "L1Loss": (np.ones(4), np.zeros(4)),
}


@pytest.mark.parametrize("name", LOSSES)
def test_a_loss_has_pytorchs_text_and_no_state(name: str) -> None:
    ours, theirs = getattr(nn, name)(), getattr(torch.nn, name)()
    assert repr(ours) == repr(theirs)
    assert ours.state_dict() == {}


@pytest.mark.parametrize("name", LOSSES)
def test_an_unknown_reduction_is_refused_at_once_and_by_the_function(name: str) -> None:
    with pytest.raises(ValueError, match=f"{name}: reduction must be .* got 'average'"):
        getattr(nn, name)(reduction="average")
    function = {**PAIRS, "CrossEntropyLoss": "cross_entropy"}[name]
    with pytest.raises(ValueError, match=f"{function}.*reduction"):
        getattr(functional, function)(*map(Tensor, LOSSES[name]), reduction="average")


@pytest.mark.parametrize("name", LOSSES)
def test_a_float32_loss_stays_float32(name: str) -> None:
    input, target = LOSSES[name]
    x = Tensor(input.astype(np.float32), requires_grad=True)
    loss = getattr(nn, name)()(x, target)
    loss.backward()
    assert x.grad is not None
    assert (loss.dtype, x.grad.dtype) == (tensor.float32, tensor.float32)


@pytest.mark.parametrize("name", LOSSES)
def test_micro_batches_add_up_to_the_gradient_of_the_batch(name: str) -> None:
    input, target = LOSSES[name]
    input = RNG.normal(size=input.shape)
    loss = getattr(nn, name)(reduction="sum")
    whole, parts = Tensor(input, requires_grad=True), Tensor(input, requires_grad=True)
    (loss(whole, target) / 4).backward()
    for part in (slice(0, 3), slice(3, 4)):
        (loss(parts[part], target[part]) / 4).backward()
    assert whole.grad is not None and parts.grad is not None
    assert_close(parts.grad.data, whole.grad.data)


def test_losses_warn_of_nothing() -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        nn.CrossEntropyLoss()(Tensor([[1e30, -1e30]]), np.array([1]))
        nn.MSELoss()(Tensor([1e30]), np.zeros(1))
        nn.MSELoss()(Tensor([]), np.ones(0))
    assert caught == []
