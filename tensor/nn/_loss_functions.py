"""Losses as functions, with PyTorch's names and arguments.

Every one compares an ``input`` with a ``target`` and ends in a ``reduction``:
"mean" and "sum" over all its terms, or "none" of them. Nothing is broadcast:
the mean of an (N, 1) against an (N,) would be over N**2 wrong differences.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from .. import ops
from ..dtypes import is_operand
from ..errors import ShapeError
from ..graph import Array
from ..kernels.scatter import check_rows
from ..tensor import Tensor

__all__ = [
    "KL_REDUCTIONS",
    "REDUCTIONS",
    "binary_cross_entropy",
    "binary_cross_entropy_with_logits",
    "check_reduction",
    "cross_entropy",
    "huber_loss",
    "kl_div",
    "l1_loss",
    "mse_loss",
    "nll_loss",
    "smooth_l1_loss",
]

REDUCTIONS: Final = ("mean", "sum", "none")
KL_REDUCTIONS: Final = ("batchmean", *REDUCTIONS)


def check_reduction(name: str, reduction: str, known: Sequence[str] = REDUCTIONS) -> None:
    """Raise ValueError unless ``reduction`` is one of ``known``."""
    if reduction not in known:
        listed = ", ".join(map(repr, known[:-1]))
        raise ValueError(f"{name}: reduction must be {listed} or {known[-1]!r}, got {reduction!r}")


def _reduced(losses: Tensor, reduction: str, count: Any = None) -> Tensor:
    """Reduce losses; ``count`` is what a mean divides by, if not their number."""
    if reduction == "none":
        return losses
    if reduction == "sum":
        return losses.sum()
    return losses.mean() if count is None else losses.sum() / count


def _operand(name: str, what: str, value: Any, input: Tensor) -> Tensor:
    """Return ``value`` as a Tensor; an array or a number takes the dtype of a floating input."""
    if isinstance(value, Tensor):
        return value
    if not is_operand(value):
        raise TypeError(
            f"{name}: {what} must be a Tensor or an ndarray, got {type(value).__name__}"
        )
    return Tensor(value, input.dtype if input.dtype.kind == "f" else None)


# Classes.


def cross_entropy(
    input: Tensor,
    target: Any,
    weight: Any = None,
    *,
    ignore_index: int = -100,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Tensor:
    """Return the cross-entropy of logits against class numbers or probabilities.

    ``-sum_c weight[c] * wanted[c] * log(softmax(input)[c])``, where ``wanted``
    is 1 at the class number, or the probabilities given; with smoothing s over
    C classes it is ``(1 - s) * wanted + s / C``.

    Args:
        input: logits (C,), (N, C) or (N, C, d1, ...).
        target: class numbers (), (N,) or (N, d1, ...); or probabilities, floating and of the
            shape of ``input``.
        weight: of each class, (C,).
        ignore_index: targets of this class do not count.
        reduction: "mean" (over the weights of the targets that count, NaN if none does; for
            probabilities over N * d1 * ...), "sum" or "none".
        label_smoothing: s, in [0, 1].

    Raises:
        IndexError: a class outside [0, C).
        RuntimeError: targets that are neither integers nor of the shape of ``input``, or an
            ``ignore_index`` for probabilities.
        ValueError: shapes that do not fit, an unknown reduction, smoothing outside [0, 1].
    """
    name = "cross_entropy"
    check_reduction(name, reduction)
    if not 0 <= label_smoothing <= 1:
        raise ValueError(f"{name}: label_smoothing must lie in [0, 1], got {label_smoothing}")
    if _floating(target) and input.ndim > 0 and np.shape(target) == input.shape:
        if ignore_index >= 0:
            raise RuntimeError(
                f"{name}: ignore_index {ignore_index} is for class numbers; with probabilities "
                "leave rows out by probabilities of 0"
            )
        return _against_probabilities(input, target, weight, reduction, label_smoothing)
    if weight is None and input.ndim <= 2:
        return ops.cross_entropy(input, target, ignore_index, reduction, label_smoothing)
    classes, counted = _classes(name, input, target, ignore_index)
    if weight is not None:
        log_p = ops.log_softmax(input, _class_dim(input))
        return _negative_log(name, log_p, classes, counted, weight, reduction, label_smoothing)
    classes_last = input.permute(0, *range(2, input.ndim), 1)  # (N, d1, ..., C)
    logits = classes_last.reshape(classes.size, input.shape[1])
    rows = _array(target).reshape(-1)
    losses = ops.cross_entropy(logits, rows, ignore_index, reduction, label_smoothing)
    return losses.reshape(classes.shape) if reduction == "none" else losses


def nll_loss(
    input: Tensor,
    target: Any,
    weight: Any = None,
    *,
    ignore_index: int = -100,
    reduction: str = "mean",
) -> Tensor:
    """Return the negative log-likelihood ``-weight[target] * input[target]``.

    Args:
        input: logarithms of probabilities (C,), (N, C) or (N, C, d1, ...).
        target: class numbers (), (N,) or (N, d1, ...).
        weight: of each class, (C,).
        ignore_index: targets of this class do not count.
        reduction: "mean" (over the weights of the targets that count, NaN if none does),
            "sum" or "none".

    Raises:
        IndexError: a class outside [0, C).
        RuntimeError: targets that are not integers.
        ValueError: shapes that do not fit, or an unknown reduction.
    """
    check_reduction("nll_loss", reduction)
    classes, counted = _classes("nll_loss", input, target, ignore_index)
    return _negative_log("nll_loss", input, classes, counted, weight, reduction, 0.0)


def _floating(target: Any) -> bool:
    return isinstance(target, (Tensor, np.ndarray)) and target.dtype.kind == "f"


def _array(target: Any) -> Array:
    return target.data if isinstance(target, Tensor) else np.asarray(target)


def _class_dim(input: Tensor) -> int:
    return 0 if input.ndim == 1 else 1


def _classes(name: str, input: Tensor, target: Any, ignore_index: int) -> tuple[Array, Array]:
    """Return class numbers, 0 for those ignored, and which of them count, both of one shape."""
    if not is_operand(target):
        raise TypeError(
            f"{name}: target must be a Tensor or an ndarray, got {type(target).__name__}"
        )
    classes = _array(target)
    if classes.dtype.kind not in "iu":
        raise RuntimeError(f"{name}: target must hold integers, got {classes.dtype}")
    if input.ndim == 0:
        raise ShapeError(f"{name}: input must be (C,), (N, C) or (N, C, d1, ...), got shape ()")
    dim = _class_dim(input)
    wanted = (*input.shape[:dim], *input.shape[dim + 1 :])
    if classes.shape != wanted:
        raise ShapeError(
            f"{name}: input of shape {input.shape} needs target of shape {wanted}, "
            f"got {classes.shape}"
        )
    counted = classes != ignore_index
    safe = np.where(counted, classes, 0)
    try:
        check_rows(safe, input.shape[dim], what="target")
    except IndexError as error:
        raise IndexError(f"{name}: {error}") from None
    return safe, counted


def _class_weight(name: str, weight: Any, input: Tensor) -> Tensor:
    scale = _operand(name, "weight", weight, input)
    count = input.shape[_class_dim(input)]
    if scale.shape != (count,):
        raise ShapeError(
            f"{name}: weight must have one number for each of {count} classes, "
            f"got shape {scale.shape}"
        )
    return scale


def _along_classes(weight: Tensor, input: Tensor) -> Tensor:
    """Return a weight of each class in a shape that broadcasts with the input's."""
    return weight.reshape(-1, *[1] * max(input.ndim - 2, 0))


def _negative_log(
    name: str,
    log_p: Tensor,
    classes: Array,
    counted: Array,
    weight: Any,
    reduction: str,
    smoothing: float,
) -> Tensor:
    """Return the weighted loss of log-probabilities against class numbers."""
    # One index for every dimension: the class in its place, the others run along.
    index: list[Any] = list(np.ogrid[tuple(map(slice, classes.shape))]) if classes.ndim else []
    index.insert(_class_dim(log_p), classes)
    losses = -log_p[tuple(index)]
    count: Any = float(np.count_nonzero(counted))
    if weight is not None:
        weight = _class_weight(name, weight, log_p)
        share = ops.where(counted, weight[classes], 0.0)
        losses, count = losses * share, share.sum()
        if smoothing:
            every = (log_p * _along_classes(weight, log_p)).sum(_class_dim(log_p))
            losses = losses * (1 - smoothing) - every * (smoothing / len(weight))
    return _reduced(ops.where(counted, losses, 0.0), reduction, count)


def _against_probabilities(
    input: Tensor, target: Any, weight: Any, reduction: str, smoothing: float
) -> Tensor:
    dim = _class_dim(input)
    wanted = _operand("cross_entropy", "target", target, input)
    if smoothing:
        wanted = wanted * (1 - smoothing) + smoothing / input.shape[dim]
    if weight is not None:
        wanted = wanted * _along_classes(_class_weight("cross_entropy", weight, input), input)
    return _reduced(-(wanted * ops.log_softmax(input, dim)).sum(dim), reduction)


# Numbers.


def _alike(name: str, input: Tensor, target: Any) -> Tensor:
    """Return ``target`` as a Tensor of the input's shape."""
    if np.shape(input) != np.shape(target):
        raise ShapeError(
            f"{name}: input has shape {np.shape(input)} and target {np.shape(target)}; they must "
            "be equal, because broadcasting would average over the wrong number of elements: "
            "reshape one of them"
        )
    return _operand(name, "target", target, input)


def _weighted(name: str, losses: Tensor, weight: Any) -> Tensor:
    """Return losses times a weight that is broadcast to their shape."""
    if weight is None:
        return losses
    scale = _operand(name, "weight", weight, losses)
    _check_broadcast(name, "weight", scale, losses)
    return losses * scale


def _check_broadcast(name: str, what: str, weight: Tensor, input: Tensor) -> None:
    pairs = zip(weight.shape[::-1], input.shape[::-1], strict=False)
    if weight.ndim > input.ndim or any(n not in (1, wanted) for n, wanted in pairs):
        raise ShapeError(
            f"{name}: {what} of shape {weight.shape} cannot be broadcast to {input.shape}"
        )


def _element_weight(name: str, weight: Any, input: Tensor) -> Tensor | None:
    if weight is None:
        return None
    scale = _operand(name, "weight", weight, input)
    if scale.shape != input.shape:
        raise ShapeError(
            f"{name}: weight must have the input's shape {input.shape}, got {scale.shape}"
        )
    return scale


def mse_loss(input: Tensor, target: Any, *, reduction: str = "mean", weight: Any = None) -> Tensor:
    """Return the mean (or sum, or "none" of them) of ``weight * (input - target)**2``.

    With a ``weight``, of the shape of ``input``, the mean is over its sum.

    Raises:
        ShapeError: the shapes are not equal; nothing is broadcast.
        ValueError: an unknown reduction.
    """
    check_reduction("mse_loss", reduction)
    losses = (input - _alike("mse_loss", input, target)).square()
    return _by_weight("mse_loss", losses, weight, reduction)


def l1_loss(input: Tensor, target: Any, *, reduction: str = "mean", weight: Any = None) -> Tensor:
    """Return the mean (or sum, or "none") of ``weight * |input - target|``; gradient 0 at 0.

    With a ``weight``, of the shape of ``input``, the mean is over its sum.

    Raises:
        ShapeError: the shapes are not equal; nothing is broadcast.
        ValueError: an unknown reduction.
    """
    check_reduction("l1_loss", reduction)
    losses = (input - _alike("l1_loss", input, target)).abs()
    return _by_weight("l1_loss", losses, weight, reduction)


def _by_weight(name: str, losses: Tensor, weight: Any, reduction: str) -> Tensor:
    scale = _element_weight(name, weight, losses)
    if scale is None:
        return _reduced(losses, reduction)
    return _reduced(losses * scale, reduction, scale.sum())


def _rounded(difference: Tensor, width: float) -> Tensor:
    """Return ``d**2 / 2`` up to ``|d| = width``, and the tangent there beyond."""
    near = difference.clip(-width, width)
    return near * (difference - near / 2)


def huber_loss(
    input: Tensor,
    target: Any,
    reduction: str = "mean",
    delta: float = 1.0,
    weight: Any = None,
) -> Tensor:
    """Return ``d**2 / 2`` where ``|d| <= delta``, else ``delta * (|d| - delta / 2)``, reduced.

    ``d = input - target``. A ``weight`` of the shape of ``input`` scales every
    term; the mean stays the mean over all.
    Source: Huber, 1964, Annals of Mathematical Statistics 35.

    Raises:
        ShapeError: the shapes are not equal; nothing is broadcast.
        ValueError: an unknown reduction.
        RuntimeError: ``delta`` is not positive.
    """
    check_reduction("huber_loss", reduction)
    if not delta > 0:
        raise RuntimeError(f"huber_loss: delta must be positive, got {delta}")
    losses = _rounded(input - _alike("huber_loss", input, target), delta)
    scale = _element_weight("huber_loss", weight, losses)
    return _reduced(losses if scale is None else losses * scale, reduction)


def smooth_l1_loss(
    input: Tensor, target: Any, *, reduction: str = "mean", beta: float = 1.0
) -> Tensor:
    """Return ``d**2 / (2 beta)`` where ``|d| <= beta``, else ``|d| - beta / 2``, reduced.

    ``d = input - target``; ``beta`` 0 is ``l1_loss``.
    Source: Girshick, 2015, arXiv:1504.08083.

    Raises:
        ShapeError: the shapes are not equal; nothing is broadcast.
        ValueError: an unknown reduction.
        RuntimeError: ``beta`` is negative.
    """
    check_reduction("smooth_l1_loss", reduction)
    if not beta >= 0:
        raise RuntimeError(f"smooth_l1_loss: beta must be 0 or more, got {beta}")
    difference = input - _alike("smooth_l1_loss", input, target)
    return _reduced(_rounded(difference, beta) / beta if beta else difference.abs(), reduction)


# Probabilities.


def binary_cross_entropy(
    input: Tensor, target: Any, weight: Any = None, *, reduction: str = "mean"
) -> Tensor:
    """Return ``-weight * (target * log(input) + (1 - target) * log(1 - input))``, reduced.

    Logarithms are not let fall below -100, nor ``input * (1 - input)`` in the
    gradient below 1e-12, so a probability of 0 or 1 gives no infinity.
    ``binary_cross_entropy_with_logits`` is more exact.

    Args:
        input: probabilities, of any shape.
        target: what was wanted, in [0, 1], of the same shape.
        weight: broadcast to that shape.
        reduction: "mean", "sum" or "none".

    Raises:
        RuntimeError: an input outside [0, 1].
        ShapeError: the shapes are not equal.
        ValueError: an unknown reduction.
    """
    name = "binary_cross_entropy"
    check_reduction(name, reduction)
    losses = ops.binary_cross_entropy(input, _alike(name, input, target))
    return _reduced(_weighted(name, losses, weight), reduction)


def binary_cross_entropy_with_logits(
    input: Tensor,
    target: Any,
    weight: Any = None,
    *,
    reduction: str = "mean",
    pos_weight: Any = None,
) -> Tensor:
    """Return the binary cross-entropy of ``sigmoid(input)``, finite and exact at any logit.

    ``-weight * (pos_weight * target * log(p) + (1 - target) * log(1 - p))``, where ``p =
    sigmoid(input)``.

    Args:
        input: logits, of any shape.
        target: what was wanted, in [0, 1], of the same shape.
        weight: broadcast to that shape.
        reduction: "mean", "sum" or "none".
        pos_weight: of the positive targets, broadcast to that shape.

    Raises:
        ShapeError: the shapes are not equal.
        ValueError: an unknown reduction.
    """
    name = "binary_cross_entropy_with_logits"
    check_reduction(name, reduction)
    wanted = _alike(name, input, target)
    # log(1 - sigmoid(x)) as log(sigmoid(-x)): computed from log(sigmoid(x)) it would cancel.
    positive, negative = wanted * ops.logsigmoid(input), (1 - wanted) * ops.logsigmoid(-input)
    if pos_weight is not None:
        scale = _operand(name, "pos_weight", pos_weight, input)
        _check_broadcast(name, "pos_weight", scale, input)
        positive = positive * scale
    return _reduced(_weighted(name, -(positive + negative), weight), reduction)


def kl_div(
    input: Tensor, target: Any, *, reduction: str = "mean", log_target: bool = False
) -> Tensor:
    """Return the Kullback-Leibler divergence ``target * (log(target) - input)``, reduced.

    Args:
        input: logarithms of probabilities, of any shape.
        target: probabilities of the same shape; where one is 0 the loss is 0.
        reduction: "batchmean" (the sum over the length of the first dimension, which is the
            divergence by definition), "mean" (over all elements), "sum" or "none".
        log_target: the target holds logarithms too.

    Raises:
        ShapeError: the shapes are not equal; nothing is broadcast.
        ValueError: an unknown reduction.
    """
    check_reduction("kl_div", reduction, KL_REDUCTIONS)
    wanted = _alike("kl_div", input, target)
    if log_target:
        losses = ops.exp(wanted) * (wanted - input)
    else:
        log_wanted = ops.log(ops.where(ops.eq(wanted, 0), 1.0, wanted))
        losses = wanted * log_wanted - wanted * input
    if reduction == "batchmean":
        return losses.sum() / (input.shape[0] if input.ndim else 1)
    return _reduced(losses, reduction)
