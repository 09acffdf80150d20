"""A compiled training step, after the first ones, allocates no array."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable, Iterator
from typing import Any, Final

import numpy as np
import pytest

import tensor
from tensor import Tensor, dispatch, nn, optim

# Python's own objects: views, tuples, attributes of a step. The smallest array that a layer of
# these models makes takes twice as much.
SMALL: Final = 16_000


class Block(nn.Module):
    """A block of a transformer that sees what came before."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.mixed, self.joined = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.wide, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.act, self.dropout = nn.GELU(), nn.Dropout(0.1)

    def forward(self, x: Tensor) -> Tensor:
        """Return the next layer's input, of the shape of ``x`` (N, T, C)."""
        n, t, c = x.shape
        query, key, value = (
            part.reshape(n, t, self.heads, -1).transpose(1, 2)
            for part in self.mixed(self.first(x)).chunk(3, -1)
        )
        seen = nn.functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.dropout(self.joined(seen.transpose(1, 2).reshape(n, t, c)))
        return x + self.dropout(self.narrow(self.act(self.wide(self.second(x)))))


class Transformer(nn.Module):
    """A small language model."""

    def __init__(self, words: int, length: int, width: int) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(words, width), nn.Embedding(length, width)
        self.blocks = nn.Sequential(nn.Dropout(0.1), *(Block(width, 4) for _ in range(2)))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, words)

    def forward(self, x: Tensor) -> Tensor:
        """Return logits, a row for each word of ``x`` (N, T)."""
        places = self.places(tensor.arange(x.shape[1]))
        return self.head(self.norm(self.blocks(self.words(x) + places))).flatten(0, 1)


def mlp() -> tuple[nn.Module, Tensor, int]:
    layers = [nn.Linear(784, 256), nn.ReLU(), nn.Linear(256, 128), nn.Tanh(), nn.Linear(128, 64)]
    return nn.Sequential(*layers), tensor.randn(256, 784), 64


def char() -> tuple[nn.Module, Tensor, int]:
    layers = [nn.Embedding(65, 32), nn.Flatten(), nn.Linear(512, 256), nn.LayerNorm(256)]
    x = Tensor(np.random.default_rng(0).integers(0, 65, (256, 16)))
    return nn.Sequential(*layers, nn.Tanh(), nn.Linear(256, 65)), x, 65


def convolutional() -> tuple[nn.Module, Tensor, int]:
    layers = [
        *(nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Dropout(0.1), nn.Conv2d(8, 16, 3, padding=1), nn.GroupNorm(4, 16), nn.SiLU()),
        *(nn.MaxPool2d(3, stride=1), nn.Conv2d(16, 16, 3, stride=2), nn.BatchNorm2d(16)),
        *(nn.ReLU(), nn.AvgPool2d(2, ceil_mode=True), nn.Flatten(), nn.Linear(144, 64)),
    ]
    return nn.Sequential(*layers), tensor.randn(128, 3, 28, 28), 64


def transformer() -> tuple[nn.Module, Tensor, int]:
    x = Tensor(np.random.default_rng(0).integers(0, 65, (8, 64)))
    return Transformer(65, 64, 64), x, 65


def step_of(model: nn.Module, classes: int) -> tuple[Callable[..., Tensor], Tensor]:
    """Return a compiled training step and its targets."""
    optimizer = optim.AdamW(model.parameters(), lr=1e-3)

    @tensor.compile
    def step(x: Tensor, y: Tensor) -> Tensor:
        loss = tensor.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    return step, Tensor(np.random.default_rng(1).integers(0, classes, 512))


@pytest.fixture
def small_buffers() -> Iterator[None]:
    """Have numpy's ufuncs make buffers of 16 elements, so that what is seen is arrays."""
    before = dispatch._quiet.run(np.setbufsize, 16)
    yield
    dispatch._quiet.run(np.setbufsize, before)


def allocated(function: Callable[..., Any], *args: Tensor) -> tuple[int, int]:
    """Return how many bytes a call needs at its peak, and how many remain."""
    for _ in range(3):
        function(*args)
    tracemalloc.start()
    try:
        function(*args)
        before, _ = tracemalloc.get_traced_memory()
        tracemalloc.reset_peak()
        function(*args)
        after, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    return peak - before, after - before


@pytest.mark.usefixtures("small_buffers")
@pytest.mark.parametrize(
    "make", [mlp, char, convolutional, transformer], ids=lambda make: make.__name__
)
def test_a_training_step_allocates_no_array(make: Callable[[], Any]) -> None:
    model, x, classes = make()
    step, y = step_of(model, classes)
    peak, left = allocated(step, x, y[: 512 if make is transformer else len(x)])
    assert peak < SMALL
    assert left < SMALL


@pytest.mark.usefixtures("small_buffers")
def test_an_array_that_is_allocated_is_seen() -> None:
    @tensor.custom_op(rules={"a": lambda xp, g: 2 * g})
    def doubled_in_memory_of_its_own(a: Any) -> Any:
        """Return ``2 * a``."""
        return 2 * a

    try:
        replay = tensor.compile(lambda x: doubled_in_memory_of_its_own(x).sum())
        peak, _ = allocated(replay, tensor.randn(64, 128))
    finally:
        tensor.remove_op(doubled_in_memory_of_its_own)
    assert peak > 2 * SMALL


def test_a_traced_run_drops_what_the_function_is_done_with() -> None:
    def repeatedly(x: Tensor) -> Tensor:
        for _ in range(40):
            x = x * 1.5
        return x

    x = tensor.randn(64, 128)
    trace = tensor.trace(repeatedly)
    trace(x)
    tracemalloc.start()
    try:
        trace(x)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 10 * x.data.nbytes
