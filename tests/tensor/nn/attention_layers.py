"""Attention, to be compared with PyTorch's."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from tests.tensor.nn.twins import Layer, real

__all__ = ["ATTENTION"]

# Samples, positions of queries and keys, width, heads.
N, L, S, E, H = 3, 4, 5, 6, 2


def _attention(*inputs: np.ndarray, call: dict[str, Any] | None = None, **options: Any) -> Layer:
    return Layer(lambda nn: nn.MultiheadAttention(E, H, **options), inputs, call or {})


def _three(*shapes: tuple[int, ...]) -> tuple[np.ndarray, ...]:
    return tuple(real(*shape) for shape in shapes)


def _hidden(*shape: int) -> np.ndarray:
    """A mask, True where a key is hidden, that leaves every query its first key."""
    mask = np.random.default_rng(2).random(shape) < 0.5
    mask[..., 0] = False
    return mask


def _layer(*shape: int, call: dict[str, Any] | None = None, **options: Any) -> Layer:
    return Layer(
        lambda nn: nn.TransformerEncoderLayer(E, H, 8, 0.0, **options), real(*shape), call or {}
    )


_CAUSAL: Final = ~np.tri(L, dtype=bool)
_POSITIONS_FIRST: Final = _three((L, N, E), (S, N, E), (S, N, E))
_BATCH_FIRST: Final = _three((N, L, E), (N, S, E), (N, S, E))
_SQUARE: Final = _three((N, L, E), (N, L, E), (N, L, E))
_BIAS: Final = real(L, S)

ATTENTION: Final[dict[str, Layer]] = {
    "attention": _attention(*_POSITIONS_FIRST),
    "attention, batch first": _attention(*_BATCH_FIRST, batch_first=True),
    "attention, no batch": _attention(*_three((L, E), (S, E), (S, E))),
    "attention without bias": _attention(*_POSITIONS_FIRST, bias=False),
    "attention, weights by head": _attention(
        *_POSITIONS_FIRST, call={"average_attn_weights": False}
    ),
    "attention, weights by head, no batch": _attention(
        *_three((L, E), (S, E), (S, E)), call={"average_attn_weights": False}
    ),
    "attention, no weights": _attention(*_POSITIONS_FIRST, call={"need_weights": False}),
    "attention, other widths": _attention(*_three((L, N, E), (S, N, 3), (S, N, 7)), kdim=3, vdim=7),
    "attention, dropout in evaluation": Layer(
        lambda nn: nn.MultiheadAttention(E, H, dropout=0.9).eval(), _POSITIONS_FIRST
    ),
    **{
        f"attention, {name} mask{'' if need else ', no weights'}": _attention(
            *_BATCH_FIRST, batch_first=True, call={"need_weights": need, **masks}
        )
        for need in (True, False)
        for name, masks in {
            "bool": {"attn_mask": _hidden(L, S)},
            "added": {"attn_mask": _BIAS},
            "bool by head": {"attn_mask": _hidden(N * H, L, S)},
            "added by head": {"attn_mask": real(N * H, L, S)},
            "padding": {"key_padding_mask": _hidden(N, S)},
            "padding and bool": {
                "key_padding_mask": _hidden(N, S),
                "attn_mask": _hidden(N * H, L, S),
            },
        }.items()
    },
    **{
        f"attention, causal{'' if need else ', no weights'}": _attention(
            *_SQUARE,
            batch_first=True,
            call={"need_weights": need, "attn_mask": _CAUSAL, "is_causal": True},
        )
        for need in (True, False)
    },
    "attention, padding, no batch": _attention(
        *_three((L, E), (S, E), (S, E)), call={"key_padding_mask": _hidden(S)}
    ),
    "attention, bool by head, no batch": _attention(
        *_three((L, E), (S, E), (S, E)), call={"attn_mask": _hidden(H, L, S)}
    ),
    "attention, causal and padding": _attention(
        *_SQUARE,
        batch_first=True,
        call={"key_padding_mask": _hidden(N, L), "attn_mask": _CAUSAL, "is_causal": True},
    ),
    "transformer layer": _layer(L, N, E),
    "transformer layer, batch first": _layer(N, L, E, batch_first=True),
    "transformer layer, no batch": _layer(L, E),
    "transformer layer, norm first": _layer(N, L, E, batch_first=True, norm_first=True),
    "transformer layer, gelu": _layer(L, N, E, activation="gelu", layer_norm_eps=1e-3),
    "transformer layer without bias": _layer(L, N, E, bias=False),
    "transformer layer, causal": _layer(
        N, L, E, batch_first=True, call={"src_mask": _CAUSAL, "is_causal": True}
    ),
    "transformer layer, padding": _layer(
        N, L, E, batch_first=True, call={"src_key_padding_mask": _hidden(N, L)}
    ),
}
