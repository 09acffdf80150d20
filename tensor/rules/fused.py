"""Rules of what is one op for its speed or its accuracy."""

from __future__ import annotations

import math
from typing import Any, Final

from ..dtypes import epsilon
from ..shapes import size
from .table import vjp

vjp("softmax", a=lambda xp, g, out, dim: out * (g - xp.sum(g * out, dim, True)))
vjp("log_softmax", a=lambda xp, g, out, dim: g - xp.exp(out) * xp.sum(g, dim, True))


def _cross_entropy(
    xp: Any,
    g: Any,
    a: Any,
    target: Any,
    a_shape: Any,
    ignore_index: int,
    reduction: str,
    label_smoothing: float,
) -> Any:
    classes = a_shape[-1]
    target = xp.cast(target, "int64")  # which can hold ignore_index
    counted = xp.ne(target, ignore_index)
    wanted = xp.cast(xp.one_hot(xp.where(counted, target, 0), classes), g.dtype)
    if label_smoothing:
        wanted = wanted * (1 - label_smoothing) + label_smoothing / classes
    if reduction == "mean":
        g = g / xp.cast(xp.sum(counted), g.dtype)
    g = xp.where(counted, g, 0.0)
    return xp.unsqueeze(g, -1) * (xp.softmax(a, -1) - wanted)


def _layer_norm_a(
    xp: Any, g: Any, a: Any, weight: Any, normalized_shape: tuple[int, ...], eps: float
) -> Any:
    axes = tuple(range(-len(size(normalized_shape)), 0))
    scale = 1 / xp.sqrt(xp.var(a, axes, 0, True) + eps)
    normal = (a - xp.mean(a, axes, True)) * scale
    g = g if weight is None else g * weight
    return scale * (g - xp.mean(g, axes, True) - normal * xp.mean(g * normal, axes, True))


def _layer_norm_weight(
    xp: Any, g: Any, a: Any, normalized_shape: tuple[int, ...], eps: float
) -> Any:
    return g * xp.layer_norm(a, None, None, normalized_shape, eps)


def _rms_scale(xp: Any, a: Any, axes: Any, eps: float | None) -> Any:
    eps = epsilon(a.dtype) if eps is None else eps
    return 1 / xp.sqrt(xp.mean(a * a, axes, True) + eps)


def _rms_norm_a(
    xp: Any, g: Any, a: Any, weight: Any, normalized_shape: Any, eps: float | None
) -> Any:
    axes = tuple(range(-len(size(normalized_shape)), 0))
    scale = _rms_scale(xp, a, axes, eps)
    normal = a * scale
    g = g if weight is None else g * weight
    return scale * (g - normal * xp.mean(g * normal, axes, True))


def _rms_norm_weight(xp: Any, g: Any, a: Any, normalized_shape: Any, eps: float | None) -> Any:
    return g * xp.rms_norm(a, None, normalized_shape, eps)


# Group norm is layer norm of each group, weighted by channel.


def _by_channel(xp: Any, channel: Any, dims: int) -> Any:
    """Return numbers (C,) in the shape that multiplies (N, C, ...)."""
    return xp.reshape(channel, (-1, *(1,) * (dims - 2)))


def _over_channels(xp: Any, a: Any) -> Any:
    """Return the sum over all dimensions of (N, C, ...) but the second."""
    return xp.sum(a, (0, *range(2, len(a.shape))))


def _group_norm_a(
    xp: Any, g: Any, a: Any, weight: Any, a_shape: Any, num_groups: int, eps: float
) -> Any:
    g = g if weight is None else g * _by_channel(xp, weight, len(a_shape))
    width = math.prod(a_shape[1:]) // num_groups
    groups = (a_shape[0], num_groups, width)
    rows, g = xp.reshape(a, groups), xp.reshape(g, groups)
    return xp.reshape(_layer_norm_a(xp, g, rows, None, (width,), eps), a_shape)


def _group_norm_weight(xp: Any, g: Any, a: Any, num_groups: int, eps: float) -> Any:
    return _over_channels(xp, g * xp.group_norm(a, None, None, num_groups, eps))


# The gradient of the variance through the mean vanishes: deviations add up to 0.


def _batch_moments(xp: Any, g: Any, a: Any, a_shape: Any, out: Any) -> Any:
    mean, for_mean, for_variance = (
        _by_channel(xp, xp.getitem(of, i), len(a_shape)) for of, i in ((out, 0), (g, 0), (g, 1))
    )
    count = math.prod(a_shape) / a_shape[1] if a_shape[1] else 1
    return (for_mean + (a - mean) * (2 * for_variance)) / count


def _batch_scale(xp: Any, statistics: Any, weight: Any, eps: float) -> Any:
    scale = 1 / xp.sqrt(xp.getitem(statistics, 1) + eps)
    return scale if weight is None else scale * weight


def _batch_norm_a(xp: Any, g: Any, statistics: Any, weight: Any, eps: float) -> Any:
    return g * _by_channel(xp, _batch_scale(xp, statistics, weight, eps), len(g.shape))


def _batch_norm_statistics(
    xp: Any, g: Any, a: Any, statistics: Any, weight: Any, eps: float
) -> Any:
    mean, variance = (xp.getitem(statistics, i) for i in (0, 1))
    scale = _batch_scale(xp, statistics, weight, eps)
    along = _over_channels(xp, g * (a - _by_channel(xp, mean, len(g.shape))))
    for_variance = along * scale / (variance + eps) * -0.5
    return xp.stack([-(_over_channels(xp, g) * scale), for_variance], 0)


def _batch_norm_weight(xp: Any, g: Any, a: Any, statistics: Any, eps: float) -> Any:
    return _over_channels(xp, g * xp.batch_norm(a, statistics, None, None, eps))


def _limited_log(xp: Any, a: Any) -> Any:
    """Return log(a), or -100 where that is more; the derivative is 0 there, not 0 times 1 / 0."""
    low = a <= _LOWEST
    return xp.where(low, -100.0, xp.log(xp.where(low, 1.0, a)))


_LOWEST: Final = math.exp(-100)

vjp("cross_entropy", a=_cross_entropy)
vjp(
    "binary_cross_entropy",
    a=lambda xp, g, a, target: g * (a - target) / xp.maximum(a * (1 - a), 1e-12),
    target=lambda xp, g, a: g * (_limited_log(xp, 1 - a) - _limited_log(xp, a)),
)
vjp("layer_norm", a=_layer_norm_a, weight=_layer_norm_weight, bias=lambda xp, g: g)
vjp("rms_norm", a=_rms_norm_a, weight=_rms_norm_weight)
vjp(
    "group_norm",
    a=_group_norm_a,
    weight=_group_norm_weight,
    bias=_over_channels,
)
vjp("batch_moments", a=_batch_moments)
vjp(
    "batch_norm",
    a=_batch_norm_a,
    statistics=_batch_norm_statistics,
    weight=_batch_norm_weight,
    bias=_over_channels,
)
vjp("dropout", a=lambda xp, g, mask, p: xp.dropout(g, mask, p))
