"""Whole models against PyTorch: output, loss and every gradient to 1e-10 relative, in float64."""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any, Final

import numpy as np
import pytest
import torch

import tensor
from tensor import Tensor, nn
from tests.tensor.nn.twins import load, names_and_shapes

# Of the largest element of each array. Whole models add up more rounding than one op does.
RELATIVE: Final = 1e-10

RNG: Final = np.random.default_rng(17)


def assert_relative(actual: Any, expected: Any, what: str) -> None:
    """Fail unless the arrays agree to ``RELATIVE`` of the largest element expected."""
    actual, expected = np.asarray(actual), np.asarray(expected)
    assert actual.dtype == expected.dtype == np.float64, what
    assert actual.shape == expected.shape, what
    scale = np.abs(expected).max()
    assert scale > 0, f"{what} vanishes, which shows nothing"
    assert np.abs(actual - expected).max() <= RELATIVE * scale, what


def library(lib: Any) -> Any:
    """What the models are made of: a library's layers, and the few functions they need."""
    here = lib is nn
    return types.SimpleNamespace(
        nn=lib,
        F=lib.functional,
        tensor=Tensor if here else torch.tensor,
        cat=tensor.cat if here else torch.cat,
    )


def compare(
    make: Callable[[Any], Any],
    inputs: np.ndarray,
    targets: np.ndarray,
    vanishing: tuple[str, ...] = (),
) -> tuple[Any, Any]:
    """Compare a model's logits (..., classes), its loss and all gradients; return both models.

    A gradient that is 0 in exact arithmetic must be rounding in both: ``vanishing`` names them.
    """
    ours, theirs = make(library(nn)), make(library(torch.nn))
    assert names_and_shapes(ours.state_dict()) == names_and_shapes(theirs.state_dict())
    load(ours, theirs, "float64")
    results = []
    for lib, model in ((library(nn), ours), (library(torch.nn), theirs)):
        logits = model(lib.tensor(inputs))
        flat = logits.reshape(-1, logits.shape[-1])
        loss = lib.F.cross_entropy(flat, lib.tensor(targets).reshape(-1))
        loss.backward()
        results.append((logits.detach(), loss.detach()))
    (logits, loss), (logits_there, loss_there) = results
    assert_relative(logits.data, logits_there, "logits")
    assert_relative(loss.data, loss_there, "loss")
    gradients = {name: p.grad for name, p in theirs.named_parameters()}
    assert [name for name, _ in ours.named_parameters()] == list(gradients)
    for name, parameter in ours.named_parameters():
        assert parameter.grad is not None, name
        if name in vanishing:
            assert np.abs(parameter.grad.data).max() < 1e-14 > gradients[name].abs().max(), name
            continue
        assert_relative(parameter.grad.data, gradients[name], f"gradient of {name}")
    return ours, theirs


def test_the_comparison_rejects_a_gradient_that_is_off_by_little() -> None:
    gradient = RNG.normal(size=(4, 5))
    assert_relative(gradient, gradient * (1 + 1e-11), "close")
    with pytest.raises(AssertionError, match="off"):
        assert_relative(gradient, gradient * (1 + 2e-10), "off")
    with pytest.raises(AssertionError, match="vanishes"):
        assert_relative(gradient, gradient * 0, "nothing")


# A small GPT: two causal layers, learned positions, the embedding for a head.

VOCABULARY: Final = 11
LENGTH: Final = 7
WIDTH: Final = 12
HEADS: Final = 3

TOKENS: Final = RNG.integers(0, VOCABULARY, (4, LENGTH))
FOLLOWING: Final = RNG.integers(0, VOCABULARY, (4, LENGTH))


def gpt(lib: Any) -> Any:
    class Block(lib.nn.Module):  # type: ignore[misc,name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.norm1 = lib.nn.LayerNorm(WIDTH)
            self.attention = lib.nn.MultiheadAttention(WIDTH, HEADS, batch_first=True)
            self.norm2 = lib.nn.LayerNorm(WIDTH)
            self.mlp = lib.nn.Sequential(
                lib.nn.Linear(WIDTH, 4 * WIDTH), lib.nn.GELU(), lib.nn.Linear(4 * WIDTH, WIDTH)
            )

        def forward(self, x: Any) -> Any:
            h = self.norm1(x)
            hidden = lib.tensor(~np.tri(x.shape[1], dtype=bool))
            h, _ = self.attention(h, h, h, need_weights=False, attn_mask=hidden)
            x = x + h
            return x + self.mlp(self.norm2(x))

    class GPT(lib.nn.Module):  # type: ignore[misc,name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.tokens = lib.nn.Embedding(VOCABULARY, WIDTH)
            self.positions = lib.nn.Embedding(LENGTH, WIDTH)
            self.blocks = lib.nn.ModuleList([Block(), Block()])
            self.norm = lib.nn.LayerNorm(WIDTH)
            self.head = lib.nn.Linear(WIDTH, VOCABULARY, bias=False)
            self.head.weight = self.tokens.weight

        def forward(self, tokens: Any) -> Any:
            x = self.tokens(tokens) + self.positions(lib.tensor(np.arange(tokens.shape[1])))
            for block in self.blocks:
                x = block(x)
            return self.head(self.norm(x))

    return GPT()


def test_a_two_layer_causal_transformer_is_pytorchs() -> None:
    ours, _ = compare(gpt, TOKENS, FOLLOWING)
    assert ours.head.weight is ours.tokens.weight
    names = [name for name, _ in ours.named_parameters()]
    assert len(names) == 2 + 2 * 12 + 2  # the head is counted once


def test_a_position_of_the_transformer_sees_none_after_it() -> None:
    model = gpt(library(nn))
    changed = TOKENS.copy()
    changed[:, 4] = (changed[:, 4] + 1) % VOCABULARY
    one, other = model(Tensor(TOKENS)).data, model(Tensor(changed)).data
    assert np.array_equal(one[:, :4], other[:, :4])
    assert (one[:, 4:] != other[:, 4:]).any(axis=-1).all()


# The same with RMS norms, gated MLPs and rotary positions, which PyTorch turns as complex numbers.


def turned(lib: Any, x: Any) -> Any:
    """The rotary encoding of queries or keys (..., L, D)."""
    if lib.nn is nn:
        return nn.rotary(x)
    length, width = x.shape[-2:]
    rates = 10_000.0 ** (-torch.arange(0, width, 2, dtype=torch.float64) / width)
    angles = torch.outer(torch.arange(length, dtype=torch.float64), rates)
    pairs = torch.view_as_complex(x.reshape(*x.shape[:-1], width // 2, 2).contiguous())
    return torch.view_as_real(pairs * torch.polar(torch.ones_like(angles), angles)).flatten(-2)


def rotary_gpt(lib: Any) -> Any:
    width, heads = 16, 2

    class Block(lib.nn.Module):  # type: ignore[misc,name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.norm1 = lib.nn.RMSNorm(width)
            self.query, self.key, self.value, self.out = (
                lib.nn.Linear(width, width, bias=False) for _ in range(4)
            )
            self.norm2 = lib.nn.RMSNorm(width, eps=1e-5)
            self.gate, self.up = (lib.nn.Linear(width, 24, bias=False) for _ in range(2))
            self.down = lib.nn.Linear(24, width, bias=False)

        def forward(self, x: Any) -> Any:
            h = self.norm1(x)
            q, k, v = (
                layer(h).reshape(*h.shape[:2], heads, width // heads).transpose(1, 2)
                for layer in (self.query, self.key, self.value)
            )
            q, k = turned(lib, q), turned(lib, k)
            h = lib.F.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + self.out(h.transpose(1, 2).reshape(x.shape))
            h = self.norm2(x)
            return x + self.down(lib.F.silu(self.gate(h)) * self.up(h))

    return lib.nn.Sequential(
        lib.nn.Embedding(VOCABULARY, width),
        Block(),
        Block(),
        lib.nn.RMSNorm(width),
        lib.nn.Linear(width, VOCABULARY),
    )


def test_a_causal_transformer_with_rotary_positions_is_pytorchs() -> None:
    compare(rotary_gpt, TOKENS, FOLLOWING)


# A small CNN.


def cnn(lib: Any) -> Any:
    return lib.nn.Sequential(
        lib.nn.Conv2d(2, 4, 3, padding=1),
        lib.nn.BatchNorm2d(4),
        lib.nn.ReLU(),
        lib.nn.MaxPool2d(2),
        lib.nn.Conv2d(4, 6, 3, bias=False),
        lib.nn.GroupNorm(3, 6),
        lib.nn.LeakyReLU(0.1),
        lib.nn.Flatten(),
        lib.nn.Linear(6 * 3 * 2, 5),
    )


def test_a_small_cnn_is_pytorchs_in_training_and_evaluation() -> None:
    planes, labels = RNG.normal(size=(8, 2, 10, 8)), RNG.integers(0, 5, 8)
    # A constant before batch norm changes nothing: the gradient of that bias is rounding alone.
    ours, theirs = compare(cnn, planes, labels, vanishing=("0.bias",))
    for name, value in theirs.state_dict().items():
        if "running" in name:
            assert_relative(ours.state_dict()[name].data, value, name)
    with tensor.no_grad(), torch.no_grad():
        out, expected = ours.eval()(Tensor(planes)), theirs.eval()(torch.tensor(planes))
    assert_relative(out.data, expected, "logits in evaluation")
    before = ours.state_dict()
    ours(Tensor(planes))
    assert all(np.array_equal(before[k].data, v.data) for k, v in ours.state_dict().items())
    # In evaluation that bias matters.
    ours.zero_grad(), theirs.zero_grad()
    weights = RNG.uniform(0.5, 2, out.shape)
    (ours(Tensor(planes)) * weights).sum().backward()
    (theirs(torch.tensor(planes)) * torch.tensor(weights)).sum().backward()
    for (name, p), q in zip(ours.named_parameters(), theirs.parameters(), strict=True):
        assert p.grad is not None
        assert_relative(p.grad.data, q.grad, f"gradient of {name} in evaluation")


# A character model with a state.


def recurrent(kind: str) -> Callable[[Any], Any]:
    def make(lib: Any) -> Any:
        class Recurrent(lib.nn.Module):  # type: ignore[misc,name-defined]
            def __init__(self) -> None:
                super().__init__()
                self.embedding = lib.nn.Embedding(VOCABULARY, 5)
                self.rnn = getattr(lib.nn, kind)(5, 6, num_layers=2, batch_first=True)
                self.head = lib.nn.Linear(6, VOCABULARY)

            def forward(self, tokens: Any) -> Any:
                states, _ = self.rnn(self.embedding(tokens))
                return self.head(states)

        return Recurrent()

    return make


@pytest.mark.parametrize("kind", ["LSTM", "GRU", "RNN"])
def test_a_step_of_a_recurrent_character_model_is_pytorchs(kind: str) -> None:
    ours, theirs = compare(recurrent(kind), TOKENS, FOLLOWING)
    tensor.optim.SGD(ours.parameters(), lr=0.5, momentum=0.9).step()
    torch.optim.SGD(theirs.parameters(), lr=0.5, momentum=0.9).step()
    for (name, p), q in zip(ours.named_parameters(), theirs.parameters(), strict=True):
        assert_relative(p.data, q.detach(), f"{name} after the step")


# Attention by itself.

MASKS: Final[dict[str, dict[str, Any]]] = {
    "plain": {},
    "causal": {"is_causal": True},
    "bool mask": {"attn_mask": np.tri(6, 8, 1, dtype=bool)},
    "added mask": {"attn_mask": RNG.normal(size=(3, 6, 8))},
    "scale": {"scale": 0.3},
}


@pytest.mark.parametrize("options", MASKS.values(), ids=MASKS)
def test_scaled_dot_product_attention_is_pytorchs(options: dict[str, Any]) -> None:
    arrays = [RNG.normal(size=shape) for shape in ((2, 3, 6, 4), (2, 3, 8, 4), (2, 3, 8, 5))]
    weights = RNG.uniform(0.5, 2, (2, 3, 6, 5))
    found = []
    for lib in (library(nn), library(torch.nn)):
        leaves = [lib.tensor(a) for a in arrays]
        given = {k: lib.tensor(v) if isinstance(v, np.ndarray) else v for k, v in options.items()}
        mask = given.get("attn_mask")
        if mask is not None and not str(mask.dtype).endswith("bool"):
            leaves.append(mask)
        for leaf in leaves:
            leaf.requires_grad_()
        out = lib.F.scaled_dot_product_attention(*leaves[:3], **given)
        (out * lib.tensor(weights)).sum().backward()
        found.append([np.asarray(out.detach()), *(np.asarray(leaf.grad) for leaf in leaves)])
    for i, (actual, expected) in enumerate(zip(*found, strict=True)):
        assert_relative(actual, expected, f"output or gradient {i}")
