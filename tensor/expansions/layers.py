"""Expansions of losses and layers, from their definitions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..graph import Array
from ..shapes import size
from .scalars import Scalars, numbers_of
from .table import expansion, log_softmax, matmul, mean, shift_of, var

__all__: list[str] = []


@expansion
def cross_entropy(
    m: Scalars,
    a: Array,
    target: Array,
    ignore_index: int,
    reduction: str,
    label_smoothing: float,
) -> Array:
    classes = a.shape[-1]
    logits, targets = a.reshape(-1, classes), numbers_of(target).astype(np.int64).reshape(-1)
    counted = targets != ignore_index
    log_p = log_softmax(m, logits, 1)
    picked = log_p[np.arange(len(targets)), np.where(counted, targets, 0)]
    losses = m.neg(picked)
    if label_smoothing:
        rest = m.mul(m.sum(log_p, (1,)), m.number(label_smoothing / classes))
        losses = m.sub(m.mul(losses, m.number(1 - label_smoothing)), rest)
    losses = np.where(counted, losses, m.number(0.0))
    if reduction == "none":
        return losses.reshape(target.shape)
    total = m.sum(losses, (0,))
    return total if reduction == "sum" else m.div(total, int(counted.sum()))


@expansion
def layer_norm(
    m: Scalars,
    a: Array,
    weight: Array | None,
    bias: Array | None,
    normalized_shape: Sequence[int] | int,
    eps: float,
) -> Array:
    over = tuple(range(-len(size(normalized_shape)), 0))
    variance = var(m, a, over, 0, True)
    out = m.div(m.sub(a, mean(m, a, over, True)), m.sqrt(m.add(variance, m.number(eps))))
    out = out if weight is None else m.mul(out, weight)
    return out if bias is None else m.add(out, bias)


@expansion
def rms_norm(
    m: Scalars,
    a: Array,
    weight: Array | None,
    normalized_shape: Sequence[int] | int,
    eps: float | None,
    out_dtype: Any,
) -> Array:
    over = tuple(range(-len(size(normalized_shape)), 0))
    spacing = np.finfo(np.promote_types(out_dtype, np.float32)).eps if eps is None else eps
    out = m.div(a, m.sqrt(m.add(mean(m, m.square(a), over, True), m.number(float(spacing)))))
    return out if weight is None else m.mul(out, weight)


def _by_channel(a: Array, ndim: int) -> Array:
    """Return ``a`` (C,) as (C, 1, ...), beside an array of ``ndim`` dimensions (N, C, ...)."""
    return a.reshape(-1, *(1,) * (ndim - 2))


def _scaled(m: Scalars, out: Array, weight: Array | None, bias: Array | None) -> Array:
    out = out if weight is None else m.mul(out, _by_channel(weight, out.ndim))
    return out if bias is None else m.add(out, _by_channel(bias, out.ndim))


@expansion
def group_norm(
    m: Scalars, a: Array, weight: Array | None, bias: Array | None, num_groups: int, eps: float
) -> Array:
    count = math.prod(a.shape[1:]) // num_groups
    rows = a.reshape(len(a), num_groups, count)
    normal = layer_norm(m, rows, None, None, (count,), eps)
    return _scaled(m, normal.reshape(a.shape), weight, bias)


@expansion
def batch_moments(m: Scalars, a: Array) -> Array:
    over = (0, *range(2, a.ndim))
    return np.stack([mean(m, a, over, False), var(m, a, over, 0, False)])


@expansion
def batch_norm(
    m: Scalars,
    a: Array,
    statistics: Array,
    weight: Array | None,
    bias: Array | None,
    eps: float,
) -> Array:
    centre, variance = (_by_channel(row, a.ndim) for row in statistics)
    out = m.div(m.sub(a, centre), m.sqrt(m.add(variance, m.number(eps))))
    return _scaled(m, out, weight, bias)


@expansion
def binary_cross_entropy(m: Scalars, a: Array, target: Array) -> Array:
    one = m.number(1.0)
    log_p, log_q = (m.clip(m.log(p), min=m.number(-100.0)) for p in (a, m.sub(one, a)))
    return m.neg(m.add(m.mul(target, log_p), m.mul(m.sub(one, target), log_q)))


@expansion
def dropout(m: Scalars, a: Array, mask: Array, p: float) -> Array:
    scale = m.number(0.0 if p == 1 else 1 / (1 - p))
    return m.mul(a, np.where(numbers_of(mask).astype(bool), scale, m.number(0.0)))


@expansion
def attention_weights(
    m: Scalars,
    query: Array,
    key: Array,
    attn_mask: Array | None,
    is_causal: bool,
    scale: float | None,
) -> Array:
    factor = 1 / math.sqrt(max(query.shape[-1], 1)) if scale is None else scale
    scores = m.mul(matmul(m, query, key.swapaxes(-1, -2)), m.number(factor))
    if attn_mask is not None:
        scores = m.add(scores, attn_mask)
    if is_causal:
        seen = np.tri(*scores.shape[-2:]) == 1
        scores = np.where(seen, scores, m.number(-math.inf))
    numbers = numbers_of(scores)
    e = m.exp(m.sub(scores, shift_of(m, scores, (-1,))))
    total = m.sum(e, (-1,), True)
    blind = (numbers == -math.inf).all(-1, keepdims=True)  # no key is seen: every weight is 0
    return np.where(blind, m.number(0.0), m.div(e, np.where(blind, m.number(1.0), total)))


@expansion
def scaled_dot_product_attention(
    m: Scalars,
    query: Array,
    key: Array,
    value: Array,
    attn_mask: Array | None,
    is_causal: bool,
    scale: float | None,
) -> Array:
    return matmul(m, attention_weights(m, query, key, attn_mask, is_causal, scale), value)
