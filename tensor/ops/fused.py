"""Ops that are one for speed and for accuracy, though smaller ops could spell them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..dispatch import Operand, kernel
from ..dtypes import check_bool, check_floating, epsilon
from ..errors import ShapeError
from ..graph import Array
from ..kernels import norms, reference
from ..shapes import axis, size

__all__ = [
    "batch_moments",
    "batch_norm",
    "binary_cross_entropy",
    "cross_entropy",
    "dropout",
    "group_norm",
    "layer_norm",
    "log_softmax",
    "rms_norm",
    "softmax",
]


@kernel("float", fused=reference.softmax_backward)
def softmax(a: Operand, dim: int) -> Any:
    """Return ``exp(a) / sum(exp(a))`` along ``dim``, shifted by the maximum."""
    return reference.softmax(a, axis(dim, a.ndim))


@kernel("float", fused=reference.log_softmax_backward)
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


@kernel("strict")
def binary_cross_entropy(a: Operand, target: Operand) -> Any:
    """Return ``-(target * log(a) + (1 - target) * log(1 - a))``, elementwise.

    Logarithms are not let fall below -100. In the gradient of ``a``,
    ``(a - target) / (a * (1 - a))``, the denominator is not let fall below 1e-12.

    Raises:
        ShapeError: the operands are not of one shape; nothing is broadcast.
        RuntimeError: operands that are not floating, or not in [0, 1].
    """
    if a.shape != target.shape:
        raise ShapeError(f"a and target must have one shape, got {a.shape} and {target.shape}")
    for name, operand in (("a", a), ("target", target)):
        check_floating(name, operand)
    reference.check_shares(a, target)
    return reference.binary_cross_entropy(a, target)


@kernel("strict", fused=norms.layer_norm_backward)
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
    shape = _normalized(normalized_shape, a)
    _check_affine(shape, weight, bias)
    return norms.layer_norm(a, weight, bias, shape, eps)


def _rms_norm_backward(
    g: Array,
    needs: Sequence[bool],
    a: Array,
    weight: Array | None,
    normalized_shape: Sequence[int] | int,
    eps: float | None,
) -> Any:
    return norms.rms_norm_backward(g, needs, a, weight, size(normalized_shape), _epsilon(a, eps))


@kernel("strict", fused=_rms_norm_backward)
def rms_norm(
    a: Operand,
    weight: Operand,
    normalized_shape: Sequence[int] | int,
    eps: float | None = None,
) -> Any:
    """Return ``a / sqrt(mean(a**2) + eps) * weight`` over the last dimensions.

    ``normalized_shape`` is the shape of those dimensions, and of ``weight``,
    which may be None. ``eps`` is by default the distance from 1 to the next
    number of the dtype, for half precision of float32.
    Source: Zhang and Sennrich, 2019, arXiv:1910.07467.

    Raises:
        RuntimeError: ``a`` is not floating.
        ShapeError: the last dimensions of ``a`` are not ``normalized_shape``.
    """
    shape = _normalized(normalized_shape, a)
    _check_affine(shape, weight)
    return norms.rms_norm(a, weight, shape, _epsilon(a, eps))


def _epsilon(a: Array, eps: float | None) -> float:
    return epsilon(a.dtype) if eps is None else eps


@kernel("strict", fused=norms.group_norm_backward)
def group_norm(
    a: Operand, weight: Operand, bias: Operand, num_groups: int, eps: float = 1e-5
) -> Any:
    """Return ``(a - mean) / sqrt(var + eps) * weight + bias`` over groups of channels.

    ``a`` is ``(N, C, ...)``; mean and biased variance are those of one sample's
    ``C / num_groups`` channels and all dimensions after them. ``weight`` and
    ``bias`` are ``(C,)`` or None.
    Source: Wu and He, 2018, arXiv:1803.08494.

    Raises:
        RuntimeError: ``a`` is not floating.
        ShapeError: shapes that do not fit, or C is not divisible by ``num_groups``.
        TypeError: ``num_groups`` is not an integer.
    """
    channels = _channels(a)
    (groups,) = size(num_groups, 1)
    if channels[0] % groups:
        raise ShapeError(
            f"the number of channels must be divisible by num_groups {groups}, got {channels[0]}"
        )
    _check_affine(channels, weight, bias)
    return norms.group_norm(a, weight, bias, groups, eps)


@kernel("strict", fused=norms.batch_moments_backward)
def batch_moments(a: Operand) -> Any:
    """Return the mean and the biased variance of every channel of ``a`` (N, C, ...): (2, C).

    They are the statistics that ``batch_norm`` takes in training.

    Raises:
        RuntimeError: ``a`` is not floating.
        ShapeError: ``a`` has fewer than two dimensions.
    """
    _channels(a)
    return norms.batch_moments(a)


@kernel("strict", fused=norms.batch_norm_backward)
def batch_norm(
    a: Operand,
    statistics: Operand,
    weight: Operand = None,
    bias: Operand = None,
    eps: float = 1e-5,
) -> Any:
    """Return ``(a - mean) / sqrt(var + eps) * weight + bias`` by channel.

    Shapes: ``a`` is ``(N, C, ...)``, ``statistics`` ``(2, C)``: the mean of every
    channel and its variance; ``weight`` and ``bias`` are ``(C,)`` or None. In
    training the statistics are ``batch_moments(a)``, in evaluation running averages.
    Source: Ioffe and Szegedy, 2015, arXiv:1502.03167.

    Raises:
        RuntimeError: the dtypes differ or are not floating.
        ShapeError: shapes that do not fit.
    """
    channels = _channels(a)
    if statistics.shape != (2, *channels):
        raise ShapeError(f"statistics must have shape {(2, *channels)}, got {statistics.shape}")
    _check_affine(channels, weight, bias)
    return norms.batch_norm(a, statistics, weight, bias, eps)


def _normalized(normalized_shape: Sequence[int] | int, a: Array) -> tuple[int, ...]:
    check_floating("a", a)
    shape = size(normalized_shape)
    if not shape or a.shape[-len(shape) :] != shape:
        raise ShapeError(f"the last dimensions must be normalized_shape {shape}, got {a.shape}")
    return shape


def _channels(a: Array) -> tuple[int]:
    check_floating("a", a)
    if a.ndim < 2:
        raise ShapeError(f"a must be (N, C, ...), got shape {a.shape}")
    return (a.shape[1],)


def _check_affine(shape: tuple[int, ...], weight: Array | None, bias: Array | None = None) -> None:
    for name, operand in (("weight", weight), ("bias", bias)):
        if operand is not None and operand.shape != shape:
            raise ShapeError(f"{name} must have shape {shape}, got {operand.shape}")


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
    return reference.dropout(a, mask, p)
