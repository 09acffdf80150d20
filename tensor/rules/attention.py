"""Rules of attention. The gradient of the scores is that of a softmax along the keys."""

from __future__ import annotations

import math
from typing import Any

from .table import vjp


def _scores(xp: Any, g: Any, out: Any) -> Any:
    return out * (g - xp.sum(g * out, -1, True))


def _scale(operand: Any, scale: float | None) -> float:
    return 1 / math.sqrt(max(operand.shape[-1], 1)) if scale is None else scale


def _by_query(xp: Any, scores: Any, key: Any, scale: float | None) -> Any:
    return xp.matmul(scores, key) * _scale(key, scale)


def _by_key(xp: Any, scores: Any, query: Any, scale: float | None) -> Any:
    return xp.matmul(xp.transpose(scores, -2, -1), query) * _scale(query, scale)


vjp(
    "attention_weights",
    query=lambda xp, g, key, out, scale: _by_query(xp, _scores(xp, g, out), key, scale),
    key=lambda xp, g, query, out, scale: _by_key(xp, _scores(xp, g, out), query, scale),
    attn_mask=_scores,
)


def _attention_scores(
    xp: Any, g: Any, query: Any, key: Any, value: Any, attn_mask: Any, attrs: Any
) -> Any:
    weights = xp.attention_weights(query, key, attn_mask, **attrs)
    return _scores(xp, xp.matmul(g, xp.transpose(value, -2, -1)), weights)


def _attention_query(
    xp: Any, g: Any, query: Any, key: Any, value: Any, attn_mask: Any, attrs: Any
) -> Any:
    scores = _attention_scores(xp, g, query, key, value, attn_mask, attrs)
    return _by_query(xp, scores, key, attrs["scale"])


def _attention_key(
    xp: Any, g: Any, query: Any, key: Any, value: Any, attn_mask: Any, attrs: Any
) -> Any:
    scores = _attention_scores(xp, g, query, key, value, attn_mask, attrs)
    return _by_key(xp, scores, query, attrs["scale"])


def _attention_value(xp: Any, g: Any, query: Any, key: Any, attn_mask: Any, attrs: Any) -> Any:
    weights = xp.attention_weights(query, key, attn_mask, **attrs)
    return xp.matmul(xp.transpose(weights, -2, -1), g)


def _attention_mask(
    xp: Any, g: Any, query: Any, key: Any, value: Any, attn_mask: Any, attrs: Any
) -> Any:
    scores = _attention_scores(xp, g, query, key, value, attn_mask, attrs)
    # The engine sums over what is repeated in the result, but the scores are not of its shape.
    shape, ahead = attn_mask.shape, len(scores.shape) - len(attn_mask.shape)
    repeated = tuple(
        d for d in range(len(scores.shape)) if d < ahead or shape[d - ahead] != scores.shape[d]
    )
    return xp.reshape(xp.sum(scores, repeated, True), shape) if repeated else scores


vjp(
    "scaled_dot_product_attention",
    query=_attention_query,
    key=_attention_key,
    value=_attention_value,
    attn_mask=_attention_mask,
)
