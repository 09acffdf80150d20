"""Attention over several heads: what masks mean, dropout, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
import pytest

import tensor
from tensor import ShapeError, Tensor, nn
from tests.tensor.tolerances import assert_close

N, L, S, E, H = 2, 4, 5, 6, 3
RNG: Final = np.random.default_rng(8)
X: Final = RNG.normal(size=(N, L, E))


def attention(**options: Any) -> nn.MultiheadAttention:
    return nn.MultiheadAttention(E, H, batch_first=True, dtype="float64", **options)


def test_is_causal_alone_is_the_causal_mask() -> None:
    layer, x = attention(), Tensor(X)
    mask = ~np.tri(L, dtype=bool)
    for need in (True, False):
        out, weights = layer(x, x, x, need_weights=need, is_causal=True)
        expected, wanted = layer(x, x, x, need_weights=need, attn_mask=mask)
        assert_close(out.data, expected.data)
        if need:
            assert_close(weights.data, wanted.data)
            assert not np.triu(weights.data, 1).any()
        else:
            assert weights is None


def test_padding_joins_is_causal() -> None:
    layer, x = attention(), Tensor(X)
    padding = np.array([[False, True, False, False], [False, False, False, True]])
    out, weights = layer(x, x, x, key_padding_mask=padding, is_causal=True)
    seen = np.tri(L, dtype=bool) & ~padding[:, None]
    assert ((weights.data > 0) == seen).all()
    np.testing.assert_allclose(weights.data.sum(-1), 1, rtol=1e-14)
    without, _ = layer(x, x, x, key_padding_mask=padding, is_causal=True, need_weights=False)
    assert_close(out.data, without.data)


def test_a_bool_mask_hides_where_scaled_dot_product_attention_shows() -> None:
    layer, x = attention(), Tensor(X)
    hidden = np.zeros((L, L), bool)
    hidden[:, 2] = True
    _, weights = layer(x, x, x, attn_mask=hidden)
    assert not weights.data[:, :, 2].any() and weights.data[:, :, [0, 1, 3]].all()
    shown = tensor.scaled_dot_product_attention(x, x, Tensor(np.eye(L)[None]), Tensor(hidden))
    assert (shown.data[:, :, 2] == 1).all()


def test_a_position_that_sees_no_key_gathers_nothing() -> None:
    layer, x = attention(bias=True), Tensor(X, requires_grad=True)
    hidden = np.zeros((L, L), bool)
    hidden[1] = True
    for need in (True, False):
        out, _ = layer(x, x, x, attn_mask=hidden, need_weights=need)
        assert layer.out_proj.bias is not None
        assert_close(out.data[:, 1], np.broadcast_to(layer.out_proj.bias.data, (N, E)))
        out.square().sum().backward()
        assert x.grad is not None and np.isfinite(x.grad.data).all()


def test_dropout_drops_weights_in_training_alone() -> None:
    layer, x = attention(dropout=0.5), Tensor(X)
    _, weights = layer(x, x, x, average_attn_weights=False)
    assert weights.shape == (N, H, L, L) and (weights.data == 0).any()
    _, weights = layer.eval()(x, x, x, average_attn_weights=False)
    assert (weights.data > 0).all()


def test_both_ways_to_attend_draw_the_same_dropout() -> None:
    layer, x = attention(dropout=0.5), Tensor(X)
    results = []
    for need in (True, False):
        tensor.manual_seed(5)
        results.append(layer(x, x, x, need_weights=need)[0].data)
    assert_close(results[0], results[1])


BAD: Final[dict[str, tuple[Callable[[], Any], type[Exception], str]]] = {
    "heads": (lambda: nn.MultiheadAttention(6, 4), ShapeError, "embed_dim must be divisible"),
    "no heads": (lambda: nn.MultiheadAttention(6, 0), ShapeError, "embed_dim must be divisible"),
    "dropout": (
        lambda: nn.MultiheadAttention(6, 2, 1.5),
        ValueError,
        r"dropout must lie in \[0, 1",
    ),
    "dimensions": (
        lambda: attention()(Tensor(X), Tensor(X[0]), Tensor(X[0])),
        ShapeError,
        r"all be of 3 dimensions.*\(4, 6\)",
    ),
    "width": (
        lambda: attention()(*[Tensor(X[..., :5])] * 3),
        ShapeError,
        r"widths \(6, 6, 6\).*\(2, 4, 5\)",
    ),
    "keys and values": (
        lambda: attention()(Tensor(X), Tensor(X), Tensor(X[:, :3])),
        ShapeError,
        r"as many positions.*\(2, 3, 6\)",
    ),
    "batches": (
        lambda: attention()(Tensor(X), Tensor(X[:1]), Tensor(X[:1])),
        ShapeError,
        "one batch",
    ),
    "mask": (
        lambda: attention()(*[Tensor(X)] * 3, attn_mask=np.zeros((4, 5), bool)),
        ShapeError,
        r"attn_mask must have shape \(4, 4\) or \(6, 4, 4\), got \(4, 5\)",
    ),
    "padding": (
        lambda: attention()(*[Tensor(X)] * 3, key_padding_mask=np.zeros(4, bool)),
        ShapeError,
        r"key_padding_mask must have shape \(2, 4\), got \(4,\)",
    ),
    "mask of integers": (
        lambda: attention()(*[Tensor(X)] * 3, attn_mask=np.zeros((4, 4), int)),
        TypeError,
        "bool or floating, got int64",
    ),
    "activation": (
        lambda: nn.TransformerEncoderLayer(6, 2, activation="swish"),
        ValueError,
        "activation must be 'relu', 'gelu' or a function, got 'swish'",
    ),
}


@pytest.mark.parametrize(("use", "error", "words"), BAD.values(), ids=BAD)
def test_what_does_not_fit_is_refused(
    use: Callable[[], Any], error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        use()


def test_a_transformer_layer_takes_a_function() -> None:
    made = {"batch_first": True, "dropout": 0.0, "dtype": "float64"}
    layers = [
        nn.TransformerEncoderLayer(E, H, 8, activation=act, **made, generator=tensor.Generator(1))
        for act in ("gelu", nn.functional.gelu)
    ]
    one, other = (layer(Tensor(X)).data for layer in layers)
    assert np.array_equal(one, other)


def test_dropout_of_a_transformer_layer_is_on_in_training_alone() -> None:
    layer, x = nn.TransformerEncoderLayer(E, H, 8, batch_first=True, dtype="float64"), Tensor(X)
    assert not np.array_equal(layer(x).data, layer(x).data)
    layer.eval()
    assert np.array_equal(layer(x).data, layer(x).data)
