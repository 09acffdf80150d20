"""Attention."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import torch
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel

from tensor import ShapeError
from tests.tensor.ops.table import Bad, Case, Sample, inf, real

__all__ = ["ATTENTION"]


def _attention(
    query: Any,
    key: Any,
    value: Any,
    attn_mask: Any = None,
    is_causal: bool = False,
    scale: Any = None,
) -> Any:
    # The one of PyTorch's kernels that can be differentiated twice.
    with sdpa_kernel(SDPBackend.MATH):
        return functional.scaled_dot_product_attention(
            query, key, value, attn_mask, 0.0, is_causal, scale=scale
        )


def _weights(
    query: Any, key: Any, attn_mask: Any = None, is_causal: bool = False, scale: Any = None
) -> Any:
    """The weights are what attention gives for the rows of the identity as values."""
    keys = key.shape[-2]
    value = torch.eye(keys, dtype=key.dtype).expand(*key.shape[:-2], keys, keys)
    return _attention(query, key, value, attn_mask, is_causal, scale)


def _samples(value: bool) -> tuple[Sample, ...]:
    rows: list[tuple[tuple[int, ...], int, int, bool, dict[str, Any]]] = [
        # leading and length, keys, width, mask
        ((2, 3, 4), 5, 3, False, {}),
        ((2, 2, 3), 4, 2, True, {}),
        ((3,), 2, 4, True, {"scale": 0.3}),
        ((1, 2, 4), 4, 3, False, {"is_causal": True}),
        ((2, 5), 3, 2, False, {"is_causal": True, "scale": 2}),
        ((2, 3), 5, 2, False, {"is_causal": True}),
        ((2, 3), 1, 1, True, {}),
        ((0, 3), 4, 2, False, {}),
        ((2, 0), 4, 2, False, {}),
        ((2, 3), 4, 1, False, {}),
        ((2, 3), 4, 0, False, {}),
    ]
    samples = []
    for lead, keys, width, masked, attrs in rows:
        operands = [real(*lead, width), real(*lead[:-1], keys, width)]
        operands += [real(*lead[:-1], keys, 3)] if value else []
        samples.append(Sample((*operands, real(*lead, keys) if masked else None), attrs))
    return tuple(samples)


_HIDING: Final = np.array([[0.0, -inf, 0.5], [-inf, -inf, -inf], [-inf, 1.0, -inf]])


def _bad(name: str, value: bool) -> tuple[Bad, ...]:
    def bad(
        query: Any, key: Any, mask: Any, error: type[Exception], *words: str, **attrs: Any
    ) -> Bad:
        values = (real(*key.shape[:-1], 2),) if value else ()
        return Bad((query, key, *values, mask), error, (name, *words), attrs)

    q, k = real(2, 3, 4), real(2, 5, 4)
    single = k.astype(np.float32)
    return (
        bad(q, real(2, 5, 3), None, ShapeError, "query", "key", "4", "3"),
        bad(real(4), k, None, ShapeError, "query", "two dimensions", "(4,)"),
        bad(q, k[:1, :, :].repeat(3, 0), None, ShapeError, "(2, 3, 4)", "(3, 5, 4)"),
        bad(q, k, real(5, 5), ShapeError, "attn_mask", "(2, 3, 5)", "(5, 5)"),
        bad(q, k, real(1, 2, 3, 5), ShapeError, "attn_mask", "(2, 3, 5)", "(1, 2, 3, 5)"),
        bad(q, k, real(3, 5), ShapeError, "attn_mask", "is_causal", is_causal=True),
        bad(q, single, None, RuntimeError, "float64", "float32", "key"),
        bad(q, k, real(3, 5).astype(np.float32), RuntimeError, "float32", "attn_mask"),
        bad(q, k, None, TypeError, "scale", "'1'", scale="1"),
        bad(q, k, None, TypeError, "scale", "True", scale=True),
    )


ATTENTION: Final = {
    "attention_weights": Case(
        _weights,
        _samples(value=False),
        _bad("attention_weights", value=False),
        (
            Sample((real(3, 2), real(3, 2), _HIDING)),
            Sample((real(2, 3, 2), real(2, 0, 2), None)),
            Sample((1e3 * real(2, 3, 2), 1e3 * real(2, 4, 2), None)),
        ),
    ),
    "scaled_dot_product_attention": Case(
        _attention,
        _samples(value=True),
        (
            *_bad("scaled_dot_product_attention", value=True),
            Bad(
                (real(2, 3, 4), real(2, 5, 4), real(2, 4, 4), None),
                ShapeError,
                ("scaled_dot_product_attention", "value", "5 keys", "(2, 4, 4)"),
            ),
        ),
        (
            Sample((real(3, 2), real(3, 2), real(3, 4), _HIDING)),
            Sample((real(2, 3, 2), real(2, 0, 2), real(2, 0, 2), None)),
            Sample((1e3 * real(2, 3, 2), 1e3 * real(2, 4, 2), real(2, 4, 2), None)),
        ),
    ),
}
