"""Attention beyond the table: masks, broadcasting, tiles, dropout, and whole transformers."""

from __future__ import annotations

import math
import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel

import tensor
from tensor import (
    Generator,
    ShapeError,
    Tensor,
    default_generator,
    grad,
    scaled_dot_product_attention,
)
from tensor.dispatch import raw
from tensor.kernels import attention
from tests.tensor.tolerances import assert_close

Array = np.ndarray[Any, Any]

_rng = np.random.default_rng(47)


def torch_attention(*operands: Any, **attrs: Any) -> Any:
    """PyTorch's, by the one of its kernels that can be differentiated twice."""
    with sdpa_kernel(SDPBackend.MATH):
        return functional.scaled_dot_product_attention(*operands, **attrs)


def compare(
    operands: list[Array],
    mask: Array | None = None,
    theirs: Callable[..., Any] = torch_attention,
    **attrs: Any,
) -> None:
    """Value, gradients, and their derivatives, against PyTorch; a floating mask has them too."""
    arrays = [*operands] if mask is None else [*operands, mask]
    ours = [Tensor(a, requires_grad=a.dtype.kind == "f") for a in arrays]
    others = [torch.tensor(a, requires_grad=a.dtype.kind == "f") for a in arrays]
    out, expected = scaled_dot_product_attention(*ours, **attrs), theirs(*others, **attrs)
    assert_close(out.data, expected.detach().numpy(), note="value")
    leaves = [x for x in ours if x.requires_grad]
    there = [x for x in others if x.requires_grad]
    g = _rng.normal(size=out.shape).astype(out.dtype)
    plain = grad(out, leaves, Tensor(g), retain_graph=True)
    first = grad(out, leaves, Tensor(g), create_graph=True)
    first_there = torch.autograd.grad(expected, there, torch.tensor(g), create_graph=True)
    for i, (once, recorded, wanted) in enumerate(zip(plain, first, first_there, strict=True)):
        assert once is not None and recorded is not None
        assert_close(once.data, wanted.detach().numpy(), note=f"gradient {i}")
        assert_close(recorded.data, wanted.detach().numpy(), note=f"recorded gradient {i}")
    factors = [_rng.normal(size=x.shape).astype(x.dtype) for x in leaves]
    second = grad(first, leaves, [Tensor(f) for f in factors])
    second_there = torch.autograd.grad(first_there, there, [torch.tensor(f) for f in factors])
    for i, (found, wanted) in enumerate(zip(second, second_there, strict=True)):
        assert found is not None
        assert_close(found.data, wanted.detach().numpy(), note=f"second derivative {i}")


def operands(
    *lead: int, length: int = 4, keys: int = 5, width: int = 3, value: int = 2, dtype: Any = float
) -> list[Array]:
    shapes = ((length, width), (keys, width), (keys, value))
    return [_rng.normal(size=(*lead, *shape)).astype(dtype) for shape in shapes]


def test_a_comparison_that_differs_is_found() -> None:
    def wider(query: Any, *others: Any) -> Any:
        return torch_attention(query * (1 + 1e-9), *others)

    def steeper(query: Any, *others: Any) -> Any:
        return torch_attention(1.01 * query - 0.01 * query.detach(), *others)

    for wrong, what in ((wider, "value"), (steeper, "gradient 0")):
        with pytest.raises(AssertionError, match=what):
            compare(operands(2), theirs=wrong)


# Masks


@pytest.mark.parametrize("shape", [(4, 5), (5,), (1, 5), (4, 1), (2, 1, 1, 5), (3, 4, 5), ()])
def test_a_mask_is_expanded_to_the_scores(shape: tuple[int, ...]) -> None:
    bias = _rng.normal(size=shape)
    compare(operands(2, 3), np.asarray(bias))
    if shape:  # PyTorch expands no truth value without dimensions
        compare(operands(2, 3), _rng.random(shape) < 0.6)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_row_that_sees_no_key_gives_zero_and_no_gradient(dtype: str) -> None:
    mask = np.array([[True, False, True], [False, False, False]])
    arrays = operands(2, length=2, keys=3, dtype=dtype)
    compare(arrays, mask)
    query, key, value = (Tensor(a, requires_grad=True) for a in arrays)
    out = scaled_dot_product_attention(query, key, value, Tensor(mask))
    assert not out.data[:, 1].any()
    out.sum().backward()
    assert query.grad is not None and not query.grad.data[:, 1].any()
    for x in (key, value):
        assert x.grad is not None and np.isfinite(x.grad.data).all()
    for hidden in (np.zeros((2, 3), bool), np.full((2, 3), -np.inf, dtype)):
        compare(arrays, hidden)


def test_a_mask_may_be_an_array_and_bool_or_floating() -> None:
    query, key, value = (Tensor(a) for a in operands(2, dtype="float32"))
    mask = _rng.random((4, 5)) < 0.5
    wanted = scaled_dot_product_attention(query, key, value, Tensor(mask))
    found = scaled_dot_product_attention(query, key, value, mask)  # type: ignore[arg-type]
    np.testing.assert_array_equal(found.data, wanted.data)
    added = Tensor(np.where(mask, 0.0, -np.inf).astype(np.float32))
    assert_close(scaled_dot_product_attention(query, key, value, added).data, wanted.data)


def test_of_more_rows_than_keys_the_last_see_every_key() -> None:
    for length, keys in ((5, 3), (3, 5), (1, 4), (4, 1)):
        compare(operands(2, length=length, keys=keys), is_causal=True)
    query, key, value = operands(length=5, keys=3)
    full = raw.scaled_dot_product_attention(query, key, value)
    causal = raw.scaled_dot_product_attention(query, key, value, is_causal=True)
    np.testing.assert_allclose(causal[2:], full[2:], rtol=1e-14)
    np.testing.assert_array_equal(causal[0], value[0])


# Batches


@pytest.mark.parametrize(
    "leads",
    [
        ((2, 3), (2, 1), (2, 1)),  # queries of several heads that share keys and values
        ((2, 3), (1, 3), (2, 1)),
        ((), (2,), (3, 1)),
        ((2, 3), (), (3,)),
        ((1, 1), (2, 3), ()),
    ],
)
def test_leading_dimensions_are_broadcast(leads: tuple[tuple[int, ...], ...]) -> None:
    query, key, value = operands()
    arrays = [
        _rng.normal(size=(*lead, *a.shape))
        for lead, a in zip(leads, (query, key, value), strict=True)
    ]
    compare(arrays)
    compare(arrays, is_causal=True, scale=0.4)


@pytest.mark.parametrize("tile", [1, 300, 2**20])
@pytest.mark.parametrize("rows", [1, 3])
def test_the_division_into_tiles_changes_nothing(
    tile: int, rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attention, "TILE", tile)
    monkeypatch.setattr(attention, "FEW_ROWS", rows)
    arrays = operands(3, 2, length=7, keys=6)
    compare(arrays)
    compare(arrays, is_causal=True)
    compare(arrays, _rng.normal(size=(2, 7, 6)))


def test_tiles_cover_every_score_once() -> None:
    for shape in ((3, 2, 70, 50), (1, 300, 300), (5, 1, 1), (2, 8, 40, 900), (0, 3, 3), (2, 0, 3)):
        for causal in (False, True):
            count = np.zeros(shape, int)
            for tile in attention._tiles(shape, 4, causal):
                tile.of_scores(count)[...] += 1
            seen = np.tri(*shape[-2:], dtype=bool) if causal else np.ones(shape[-2:], bool)
            assert (count[..., seen] == 1).all() and count.max(initial=0) <= 1


def test_the_scores_never_exist_all_at_once() -> None:
    arrays = operands(2, 8, length=512, keys=512, width=16, value=16, dtype="float32")
    query, key, value = (Tensor(a, requires_grad=True) for a in arrays)
    scores = 2 * 8 * 512 * 512 * 4
    tracemalloc.start()
    try:
        out = scaled_dot_product_attention(query, key, value, is_causal=True)
        out.sum().backward()
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < scores / 3


def test_just_the_operands_are_kept_for_the_gradient() -> None:
    query, key, value = (Tensor(a, requires_grad=True) for a in operands(2))
    node = scaled_dot_product_attention(query, key, value).node
    assert node is not None and set(node.saved or {}) == {"query", "key", "value"}


# Dropout


def test_dropout_takes_out_weights_and_scales_the_others() -> None:
    query, key, value = (Tensor(a) for a in operands(2, length=6, keys=7))
    out = scaled_dot_product_attention(query, key, value, dropout_p=0.4, generator=Generator(5))
    kept = Generator(5).bernoulli(0.6, (2, 6, 7))
    weights = tensor.attention_weights(query, key).data * kept / 0.6
    assert_close(out.data, weights @ value.data)
    assert 0 < kept.mean() < 1


def test_dropout_of_everything_gives_zero_and_of_nothing_draws_nothing() -> None:
    query, key, value = (Tensor(a, requires_grad=True) for a in operands(2))
    out = scaled_dot_product_attention(query, key, value, dropout_p=1.0)
    out.sum().backward()
    assert not out.data.any()
    for x in (query, key, value):
        assert x.grad is not None and not x.grad.data.any()
    state = default_generator.get_state()
    scaled_dot_product_attention(query, key, value)
    assert default_generator.get_state() == state


# Refusals


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        ({"dropout_p": 1.5}, ValueError, ["dropout_p", "[0, 1]", "1.5"]),
        ({"dropout_p": -0.1}, ValueError, ["dropout_p", "-0.1"]),
        ({"attn_mask": Tensor(np.ones((4, 5), np.int64))}, RuntimeError, ["attn_mask", "int64"]),
        ({"attn_mask": Tensor(np.ones((5, 4), bool))}, ShapeError, ["attn_mask", "(5, 4)"]),
        (
            {"attn_mask": Tensor(np.ones((4, 5), bool)), "is_causal": True},
            ShapeError,
            ["attn_mask", "is_causal"],
        ),
        ({"scale": "large"}, TypeError, ["scale", "'large'"]),
        ({"value": Tensor(np.ones((2, 4, 2)))}, ShapeError, ["value", "5 keys", "(2, 4, 2)"]),
        ({"value": Tensor(np.ones(5))}, ShapeError, ["value", "(5,)"]),
        ({"value": Tensor(np.ones((3, 5, 2)))}, ShapeError, ["(2, 4, 3)", "(3, 5, 2)"]),
        ({"key": None}, TypeError, ["key", "None"]),
    ],
)
def test_a_bad_argument_is_named(
    change: dict[str, Any], error: type[Exception], words: list[str]
) -> None:
    query, key, value = (Tensor(a, requires_grad=True) for a in operands(2))
    state = default_generator.get_state()
    given = {"query": query, "key": key, "value": value, **change}
    with pytest.raises(error) as caught:
        scaled_dot_product_attention(**given)
    for word in ["scaled_dot_product_attention", *words]:
        assert word in str(caught.value)
    assert default_generator.get_state() == state
    assert scaled_dot_product_attention(query, key, value).shape == (2, 4, 2)


# Transformers


def test_a_causal_transformer_of_two_layers_equals_torchs() -> None:
    batch, time, width, heads, classes = 3, 6, 8, 2, 7
    layer = [(width,), (width,), (3 * width, width), (3 * width,), (width, width), (width,)]
    layer += [(width,), (width,), (4 * width, width), (4 * width,), (width, 4 * width), (width,)]
    shapes = [(classes, width), (time, width), *layer, *layer, (width,), (width,)]
    parameters = [_rng.normal(size=s) / math.sqrt(s[-1]) for s in shapes]
    tokens = _rng.integers(0, classes, (batch, time))
    targets = _rng.integers(0, classes, batch * time)

    def forward(ops: Any, attend: Callable[..., Any], x: Any, y: Any, p: list[Any]) -> Any:
        x = ops.embedding(x, p[0]) + p[1]
        for k in (2, 14):
            normal = ops.layer_norm(x, (width,), p[k], p[k + 1])
            parts = ops.linear(normal, p[k + 2], p[k + 3]).reshape(batch, time, 3, heads, -1)
            query, key, value = (parts[:, :, i].permute(0, 2, 1, 3) for i in range(3))
            mixed = attend(query, key, value, is_causal=True).permute(0, 2, 1, 3)
            x = x + ops.linear(mixed.reshape(batch, time, width), p[k + 4], p[k + 5])
            normal = ops.layer_norm(x, (width,), p[k + 6], p[k + 7])
            hidden = ops.gelu(ops.linear(normal, p[k + 8], p[k + 9]))
            x = x + ops.linear(hidden, p[k + 10], p[k + 11])
        x = ops.layer_norm(x, (width,), p[26], p[27])
        logits = ops.linear(x, p[0])  # the embedding once more
        return ops.cross_entropy(logits.reshape(batch * time, classes), y)

    ours = [Tensor(p, requires_grad=True) for p in parameters]
    theirs = [torch.tensor(p, requires_grad=True) for p in parameters]
    nn = tensor.nn.functional
    loss = forward(nn, scaled_dot_product_attention, Tensor(tokens), Tensor(targets), ours)
    there = torch.tensor(tokens), torch.tensor(targets)
    expected = forward(functional, torch_attention, *there, theirs)
    loss.backward()
    expected.backward()
    np.testing.assert_allclose(loss.item(), expected.item(), rtol=1e-12)
    for mine, other in zip(ours, theirs, strict=True):
        assert mine.grad is not None and other.grad is not None
        wanted = other.grad.numpy()
        np.testing.assert_allclose(
            mine.grad.data, wanted, rtol=1e-10, atol=1e-10 * np.abs(wanted).max()
        )
