"""Layers and losses as functions, with PyTorch's names and order of arguments."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from .. import ops
from ..errors import ShapeError
from ..functions import dropout
from ..ops import gelu, linear, log_softmax, one_hot, relu, sigmoid, softmax, tanh
from ..tensor import Tensor

__all__ = [
    "cross_entropy",
    "dropout",
    "embedding",
    "gelu",
    "l1_loss",
    "layer_norm",
    "linear",
    "log_softmax",
    "mse_loss",
    "one_hot",
    "relu",
    "sigmoid",
    "softmax",
    "tanh",
]


def embedding(input: Any, weight: Tensor, padding_idx: int | None = None) -> Tensor:
    """Return the rows of ``weight`` (rows, width) named by ``input`` (...): (..., width).

    Args:
        input: integers in [0, rows).
        weight: the table.
        padding_idx: a row that no gradient flows to; negative counts from the end.

    Raises:
        IndexError: an index or ``padding_idx`` out of range, or not an integer.
    """
    chosen = ops.embedding(weight, input)
    if padding_idx is None:
        return chosen
    padding = row_number("embedding", padding_idx, len(weight))
    # The same values, but where the padding is they come from a constant.
    return ops.where(ops.eq(input, padding).unsqueeze(-1), weight.detach()[padding], chosen)


def row_number(name: str, padding_idx: int, rows: int) -> int:
    """Return ``padding_idx`` counted from the front.

    Raises:
        IndexError: out of range.
    """
    if not -rows <= padding_idx < rows:
        raise IndexError(f"{name}: padding_idx must lie in [{-rows}, {rows}), got {padding_idx}")
    return padding_idx % rows


def layer_norm(
    input: Tensor,
    normalized_shape: Sequence[int] | int,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Tensor:
    """Return ``(input - mean) / sqrt(var + eps) * weight + bias`` over the last dimensions.

    ``normalized_shape`` is the shape of those dimensions, of ``weight`` and of
    ``bias``. The variance is the biased one.

    Raises:
        ShapeError: shapes that do not fit.
    """
    return ops.layer_norm(input, weight, bias, normalized_shape, eps)


def check_reduction(name: str, reduction: str) -> None:
    """Raise ValueError unless ``reduction`` is "mean", "sum" or "none"."""
    if reduction not in ("mean", "sum", "none"):
        raise ValueError(f"{name}: reduction must be 'mean', 'sum' or 'none', got {reduction!r}")


def _reduced(losses: Tensor, reduction: str) -> Tensor:
    if reduction == "none":
        return losses
    return losses.mean() if reduction == "mean" else losses.sum()


def cross_entropy(
    input: Tensor,
    target: Any,
    *,
    ignore_index: int = -100,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Tensor:
    """Return the cross-entropy of logits against class numbers.

    ``-log(softmax(input)[target])`` for every target; with smoothing s over C
    classes the wanted distribution is ``1 - s`` at the target plus ``s / C``
    everywhere.

    Args:
        input: logits (C,), (N, C) or (N, C, d1, ...).
        target: class numbers (), (N,) or (N, d1, ...).
        ignore_index: targets of this class do not count.
        reduction: "mean" over the targets that count (NaN if none does), "sum" or "none".
        label_smoothing: s, in [0, 1].

    Raises:
        IndexError: a class outside [0, C).
        RuntimeError: targets that are not integers.
        ValueError: shapes that do not fit, an unknown reduction, smoothing outside [0, 1].
    """
    options = (ignore_index, reduction, label_smoothing)
    if input.ndim <= 2:
        return ops.cross_entropy(input, target, *options)
    shape = (input.shape[0], *input.shape[2:])  # (N, d1, ...)
    if np.shape(target) != shape:
        raise ShapeError(
            f"cross_entropy: input of shape {input.shape} needs target of shape {shape}, "
            f"got {np.shape(target)}"
        )
    classes_last = input.permute(0, *range(2, input.ndim), 1)  # (N, d1, ..., C)
    logits = classes_last.reshape(math.prod(shape), input.shape[1])
    losses = ops.cross_entropy(logits, target.reshape(-1), *options)
    return losses.reshape(shape) if reduction == "none" else losses


def _difference(name: str, input: Tensor, target: Any, reduction: str) -> Tensor:
    check_reduction(name, reduction)
    if np.shape(input) != np.shape(target):
        raise ShapeError(
            f"{name}: input has shape {np.shape(input)} and target {np.shape(target)}; they must "
            "be equal, because broadcasting would average over the wrong number of elements: "
            "reshape one of them"
        )
    return ops.sub(input, target)


def mse_loss(input: Tensor, target: Any, *, reduction: str = "mean") -> Tensor:
    """Return the mean (or sum, or "none" of them) of ``(input - target)**2``.

    Raises:
        ShapeError: the shapes are not equal; nothing is broadcast.
        ValueError: an unknown reduction.
    """
    return _reduced(_difference("mse_loss", input, target, reduction).square(), reduction)


def l1_loss(input: Tensor, target: Any, *, reduction: str = "mean") -> Tensor:
    """Return the mean (or sum, or "none" of them) of ``|input - target|``; gradient 0 at 0.

    Raises:
        ShapeError: the shapes are not equal; nothing is broadcast.
        ValueError: an unknown reduction.
    """
    return _reduced(_difference("l1_loss", input, target, reduction).abs(), reduction)
