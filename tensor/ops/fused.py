"""Ops that are one for speed and for accuracy, though smaller ops could spell them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..dispatch import Operand, kernel
from ..dtypes import check_bool, check_floating
from ..errors import ShapeError
from ..kernels import reference
from ..shapes import axis, size

__all__ = ["cross_entropy", "dropout", "layer_norm", "log_softmax", "softmax"]


@kernel("float")
def softmax(a: Operand, dim: int) -> Any:
    """Return ``exp(a) / sum(exp(a))`` along ``dim``, shifted by the maximum."""
    return reference.softmax(a, axis(dim, a.ndim))


@kernel("float")
def log_softmax(a: Operand, dim: int) -> Any:
    """Return ``a - logsumexp(a)`` along ``dim``, shifted by the maximum."""
    return reference.log_softmax(a, axis(dim, a.ndim))


@kernel("float", fused=reference.cross_entropy_backward)
def cross_entropy(
    a: Operand,
    target: Operand,
    ignore_index: int = -100,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Any:
    """Return the cross-entropy of logits against class numbers, ``-log_softmax(a)[target]``.

    With smoothing s over C classes the target is ``(1 - s)`` at the class plus
    ``s / C`` everywhere. Rows whose target is ``ignore_index`` do not count.

    Shapes: ``a`` is ``(N, C)`` with ``target`` ``(N,)``, or ``(C,)`` with ``()``.
    ``reduction`` is "mean" (over the rows that count; NaN if none does),
    "sum" or "none".

    Raises:
        IndexError: a class below 0 or not below C.
        RuntimeError: targets that are not integers.
        ValueError: numbers of rows that differ, or an unknown reduction.
    """
    return reference.cross_entropy(a, target, ignore_index, reduction, label_smoothing)


@kernel("strict", fused=reference.layer_norm_backward)
def layer_norm(
    a: Operand,
    weight: Operand,
    bias: Operand,
    normalized_shape: Sequence[int] | int,
    eps: float = 1e-5,
) -> Any:
    """Return ``(a - mean) / sqrt(var + eps) * weight + bias`` over the last dimensions.

    ``normalized_shape`` is the shape of those dimensions, and of ``weight``
    and ``bias``, either of which may be None. The variance is the biased one.
    Source: Ba, Kiros and Hinton, 2016, arXiv:1607.06450.

    Raises:
        RuntimeError: ``a`` is not floating.
        ShapeError: the last dimensions of ``a`` are not ``normalized_shape``.
    """
    check_floating("a", a)
    shape = size(normalized_shape)
    if not shape or a.shape[-len(shape) :] != shape:
        raise ShapeError(f"the last dimensions must be normalized_shape {shape}, got {a.shape}")
    for name, operand in (("weight", weight), ("bias", bias)):
        if operand is not None and operand.shape != shape:
            raise ShapeError(f"{name} must have shape {shape}, got {operand.shape}")
    return reference.layer_norm(a, weight, bias, len(shape), eps)


@kernel("float")
def dropout(a: Operand, mask: Operand, p: float = 0.5) -> Any:
    """Return ``a * mask / (1 - p)``: elements whose ``mask`` is False become 0.

    Source: Srivastava et al., 2014, JMLR 15.

    Raises:
        RuntimeError: ``mask`` is not bool.
        ValueError: ``p`` outside [0, 1].
    """
    check_bool("mask", mask)
    if not 0 <= p <= 1:
        raise ValueError(f"p must lie in [0, 1], got {p}")
    scale = 0.0 if p == 1 else 1 / (1 - p)
    return a * (mask * a.dtype.type(scale))
