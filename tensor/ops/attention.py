"""Attention: values weighted by how well their keys fit a query."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..dispatch import Operand, kernel
from ..dtypes import check_floating
from ..errors import ShapeError
from ..graph import Array
from ..kernels import attention

__all__ = ["attention_weights", "scaled_dot_product_attention"]


def _checked(query: Array, key: Array, mask: Array | None, causal: bool, scale: Any) -> float:
    """Return the scale, after checking what gives the weights."""
    check_floating("query", query)
    for name, operand in (("query", query), ("key", key)):
        if operand.ndim < 2:
            raise ShapeError(f"{name} must have two dimensions at least, got {operand.shape}")
    if query.shape[-1] != key.shape[-1]:
        raise ShapeError(
            f"query and key must be equally wide, got {query.shape[-1]} and {key.shape[-1]}"
        )
    if mask is not None:
        if causal:
            raise ShapeError("attn_mask must be None where is_causal is True; give one of them")
        batch = np.broadcast_shapes(query.shape[:-2], key.shape[:-2])
        _check_expands("attn_mask", mask, (*batch, query.shape[-2], key.shape[-2]))
    if scale is None:
        return 1 / math.sqrt(max(query.shape[-1], 1))
    if isinstance(scale, bool) or not isinstance(scale, (int, float, np.number)):
        raise TypeError(f"scale must be a number or None, got {scale!r}")
    return float(scale)


def _check_expands(name: str, a: Array, shape: tuple[int, ...]) -> None:
    lengths = (1,) * (len(shape) - a.ndim) + a.shape
    if len(lengths) > len(shape) or any(
        m not in (1, n) for m, n in zip(lengths, shape, strict=True)
    ):
        raise ShapeError(f"{name} must be expandable to the scores' shape {shape}, got {a.shape}")


def _weights_backward(
    g: Array,
    needs: Sequence[bool],
    query: Array,
    key: Array,
    out: Array,
    scale: float | None,
) -> Any:
    factor = _checked(query, key, None, False, scale)
    return attention.attention_weights_backward(g, needs, query, key, out, factor)


@kernel("strict", fused=_weights_backward)
def attention_weights(
    query: Operand,
    key: Operand,
    attn_mask: Operand = None,
    is_causal: bool = False,
    scale: float | None = None,
) -> Any:
    """Return ``softmax(scale * query @ key.T + attn_mask)``, by which attention weights its values.

    Shapes: ``query`` is ``(..., L, E)``, ``key`` ``(..., S, E)``; the result is
    ``(..., L, S)``, and ``attn_mask`` must be expandable to it. Leading
    dimensions are broadcast. ``scale`` is ``1 / sqrt(E)`` by default. With
    ``is_causal``, row i sees keys 0 to i alone. A row that sees no key, or
    whose scores are all -inf, gets the weights 0.

    Raises:
        ShapeError: shapes that do not fit, or both a mask and ``is_causal``.
        RuntimeError: dtypes that differ or are not floating.
        TypeError: a ``scale`` that is not a number.
    """
    factor = _checked(query, key, attn_mask, is_causal, scale)
    return attention.attention_weights(query, key, attn_mask, bool(is_causal), factor)


def _backward(
    g: Array,
    needs: Sequence[bool],
    query: Array,
    key: Array,
    value: Array,
    attn_mask: Array | None,
    is_causal: bool,
    scale: float | None,
) -> Any:
    factor = _checked(query, key, attn_mask, is_causal, scale)
    return attention.attention_backward(
        g, needs, query, key, value, attn_mask, bool(is_causal), factor
    )


@kernel("strict", fused=_backward)
def scaled_dot_product_attention(
    query: Operand,
    key: Operand,
    value: Operand,
    attn_mask: Operand = None,
    is_causal: bool = False,
    scale: float | None = None,
) -> Any:
    """Return ``softmax(scale * query @ key.T + attn_mask) @ value``.

    Shapes: ``query`` is ``(..., L, E)``, ``key`` ``(..., S, E)``, ``value``
    ``(..., S, V)``; the result is ``(..., L, V)``. The rest is as for
    ``attention_weights``, which are not kept: they are computed again for the
    gradient.
    Source: Vaswani et al., 2017, arXiv:1706.03762.

    Raises:
        ShapeError: shapes that do not fit, or both a mask and ``is_causal``.
        RuntimeError: dtypes that differ or are not floating.
        TypeError: a ``scale`` that is not a number.
    """
    factor = _checked(query, key, attn_mask, is_causal, scale)
    if value.ndim < 2 or value.shape[-2] != key.shape[-2]:
        raise ShapeError(
            f"value must be (..., S, V) with a row for each of {key.shape[-2]} keys, "
            f"got {value.shape}"
        )
    return attention.attention(query, key, value, attn_mask, bool(is_causal), factor)
