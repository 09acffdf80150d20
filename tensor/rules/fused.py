"""Rules of what is one op for its speed or its accuracy."""

from __future__ import annotations

from typing import Any

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


vjp("cross_entropy", a=_cross_entropy)
vjp("layer_norm", a=_layer_norm_a, weight=_layer_norm_weight, bias=lambda xp, g: g)
vjp("dropout", a=lambda xp, g, mask, p: xp.dropout(g, mask, p))
