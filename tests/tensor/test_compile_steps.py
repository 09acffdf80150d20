"""Steps of many kinds, compiled: each gives the bits that it gives without."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tensor
from tensor import Tensor, nn, optim

Step = Callable[[Tensor], Any]
Made = tuple[Step, Callable[[], list[Tensor]]]


def trained(model: nn.Module, optimizer: Any, loss: Callable[[Tensor], Any]) -> Made:
    """Return a step that descends a loss, which is the first of what ``loss`` returns."""

    def step(x: Tensor) -> Any:
        found = loss(x)
        optimizer.zero_grad()
        (found[0] if isinstance(found, tuple) else found).backward()
        optimizer.step()
        return found

    return step, lambda: [*model.parameters(), *model.buffers()]


def checkpointed() -> Made:
    model = nn.Sequential(nn.Linear(6, 7), nn.Tanh(), nn.Linear(7, 3))
    optimizer = optim.SGD(model.parameters(), lr=0.1)
    return trained(model, optimizer, lambda x: tensor.checkpoint(model, x).square().sum())


def twice_differentiated() -> Made:
    w = Tensor(np.ones(6, np.float32), requires_grad=True)

    def step(x: Tensor) -> tuple[Tensor, Tensor | None]:
        (g,) = tensor.grad((x @ w).tanh().sum(), w, create_graph=True)
        (g * g).sum().backward()
        second, w.grad = w.grad, None
        return g.detach() * 1, second

    return step, lambda: [w]


def penalised() -> Made:
    model = nn.Linear(6, 1)
    optimizer = optim.Adam(model.parameters(), lr=0.1)

    def loss(x: Tensor) -> Tensor:
        x = (x.detach() * 1).requires_grad_()
        y = model(x).tanh().sum()
        (g,) = tensor.grad(y, x, create_graph=True)
        return y + (g * g).sum()

    return trained(model, optimizer, loss)


def asked() -> Made:
    model = nn.Linear(6, 4)

    def step(x: Tensor) -> tuple[Tensor, ...]:
        with tensor.no_grad():
            h = model(x)
            made = (tensor.zeros(5, 4) + h) * Tensor([1.0, 2.0, 3.0, 4.0])
        return made, h.argmax(1), h.max(1).values, h.sort(1)[0], h.topk(2)[0]

    return step, list


def normalised() -> Made:
    model = nn.Sequential(
        *(nn.Conv1d(2, 4, 3), nn.BatchNorm1d(4), nn.ReLU(), nn.Flatten(), nn.Linear(4, 3))
    )
    optimizer = optim.AdamW(model.parameters(), lr=0.01)
    return trained(
        model,
        optimizer,
        lambda x: -nn.functional.log_softmax(model(x.reshape(5, 2, 3)), 1)[:, 0].mean(),
    )


def accumulated() -> Made:
    model = nn.Linear(6, 4)
    optimizer = optim.SGD(model.parameters(), lr=0.1)

    def step(x: Tensor) -> Tensor:
        optimizer.zero_grad()
        for part in (x[:2], x[2:]):
            model(part).relu().sum().backward()
        optimizer.step()
        return model.weight.sum()

    return step, lambda: list(model.parameters())


def zeroed() -> Made:
    model = nn.Linear(6, 4)
    optimizer = optim.SGD(model.parameters(), lr=0.1)

    def step(x: Tensor) -> Tensor:
        model(x).sum().backward()
        optimizer.zero_grad(set_to_none=False)
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        return loss

    return step, lambda: [t for p in model.parameters() for t in (p, p.grad) if t is not None]


def dropped() -> Made:
    model = nn.Linear(6, 4)
    optimizer = optim.SGD(model.parameters(), lr=0.1)

    def step(x: Tensor) -> Tensor:
        loss = model(x).square().mean()
        gradients = tensor.grad(loss, list(model.parameters()))
        for p, g in zip(model.parameters(), gradients, strict=True):
            p.grad = g
        optimizer.step()
        optimizer.zero_grad()
        return loss

    return step, lambda: list(model.parameters())


def recurrent() -> Made:
    model = nn.GRU(6, 5, batch_first=True, dropout=0.2, num_layers=2)
    optimizer = optim.RMSprop(model.parameters(), lr=0.01)

    def loss(x: Tensor) -> tuple[Tensor, Tensor]:
        y, h = model(x.reshape(1, 5, 6))
        return y.square().mean(), h

    return trained(model, optimizer, loss)


def two_optimizers() -> Made:
    model = nn.Linear(6, 4)
    both = optim.SGD([model.weight], lr=0.1), optim.AdamW([model.bias], lr=0.1)

    def step(x: Tensor) -> Tensor:
        loss = model(x).sigmoid().var()
        model.zero_grad()
        loss.backward()
        for optimizer in both:
            optimizer.step()
        return loss

    return step, lambda: list(model.parameters())


def partly_used() -> Made:
    model = nn.ModuleList([nn.Linear(6, 4), nn.Linear(3, 3)])
    optimizer = optim.AdamW(model.parameters(), lr=0.1)
    return trained(model, optimizer, lambda x: model[0](x).abs().sum())


def equal_gradients() -> Made:
    a, b = (nn.Parameter(np.ones(6, np.float32)) for _ in range(2))
    optimizer = optim.AdamW([a, b], lr=0.01)

    def step(x: Tensor) -> None:
        loss = ((a + b) * x).sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    return step, lambda: [t for t in (a, b, a.grad, b.grad) if t is not None]


def averaged() -> Made:
    model, average = nn.Linear(6, 4), tensor.zeros(4, 6)
    optimizer = optim.SGD(model.parameters(), lr=0.1)

    def step(x: Tensor) -> tuple[Tensor, Tensor]:
        loss = model(x).exp().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        with tensor.no_grad():
            average.mul_(0.9).add_(model.weight * 0.1)
        return loss, average * 1

    return step, lambda: [average, *model.parameters()]


def hooked() -> Made:
    model = nn.Linear(6, 4)
    model.weight.register_hook(lambda g: g * 2)
    optimizer = optim.SGD(model.parameters(), lr=0.1)
    return trained(model, optimizer, lambda x: model(x).sum())


def attending() -> Made:
    model = nn.MultiheadAttention(6, 2, batch_first=True)
    optimizer = optim.AdamW(model.parameters(), lr=0.01)

    def loss(x: Tensor) -> tuple[Tensor, Tensor]:
        q = x.reshape(1, 5, 6)
        y, weights = model(q, q, q)
        return y.square().sum(), weights

    return trained(model, optimizer, loss)


def grouped() -> Made:
    model = nn.Sequential(
        *(nn.Conv2d(1, 4, 2), nn.GroupNorm(2, 4), nn.SiLU(), nn.AvgPool2d(2), nn.Flatten()),
        nn.Linear(16, 2),
    )
    optimizer = optim.Adagrad(model.parameters(), lr=0.01)

    def loss(x: Tensor) -> Tensor:
        y = model(x.reshape(1, 1, 5, 6))
        return nn.functional.smooth_l1_loss(y, tensor.zeros(1, 2))

    return trained(model, optimizer, loss)


def losses() -> Made:
    model = nn.Linear(6, 1)
    optimizer = optim.AdamW(model.parameters(), lr=0.01)

    def loss(x: Tensor) -> Tensor:
        z, target = model(x), (x[:, :1] > 0).float()
        first = nn.functional.binary_cross_entropy_with_logits(z, target)
        return (
            first
            + nn.functional.mse_loss(z.sigmoid(), target)
            + nn.functional.huber_loss(z, target)
        )

    return trained(model, optimizer, loss)


def run(make: Callable[[], Made], compiled: bool, first: int = 0) -> list[np.ndarray]:
    tensor.manual_seed(3)
    step, state = make()
    replay = tensor.compile(step) if compiled else step
    found: list[Any] = []
    for i in range(first, first + 4):
        x = np.random.default_rng(i).normal(size=(5, 6))
        found += tensor.program.leaves(replay(Tensor(x.astype(np.float32))))
    arrays = [leaf.data.copy() for leaf in found if isinstance(leaf, Tensor)]
    return arrays + [t.data.copy() for t in state()]


@pytest.mark.parametrize(
    "make",
    [
        *(checkpointed, twice_differentiated, penalised, asked, normalised, accumulated),
        *(recurrent, two_optimizers, partly_used, equal_gradients, averaged, hooked),
        *(attending, grouped, losses, zeroed, dropped),
    ],
    ids=lambda make: make.__name__,
)
def test_a_compiled_step_gives_the_same_bits(make: Callable[[], Made]) -> None:
    found, wanted = run(make, True), run(make, False)
    assert len(found) == len(wanted) > 0
    for a, b in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(a, b, strict=True)
    others = run(make, False, 10)
    assert not all(np.array_equal(a, b) for a, b in zip(wanted, others, strict=True))
