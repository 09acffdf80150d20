"""One table of optimizers and options, and the two models they are tried on."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final, NamedTuple

import numpy as np
import torch

from tensor import Tensor, nn, optim

__all__ = ["CASES", "LOSS_RTOL", "MODELS", "WEIGHT_RTOL", "Case", "Pair", "assert_equal_weights"]

# What a trajectory of 20 steps may differ from PyTorch's by, float64.
LOSS_RTOL: Final = 1e-9
WEIGHT_RTOL: Final = 1e-8


class Case(NamedTuple):
    """An optimizer of both libraries by name, and its options."""

    name: str
    options: dict[str, Any]


CASES: Final[dict[str, Case]] = {
    "sgd": Case("SGD", {"lr": 0.1}),
    "sgd, default rate": Case("SGD", {}),
    "sgd, no rate": Case("SGD", {"lr": 0.0, "momentum": 0.9}),
    "sgd, momentum": Case("SGD", {"lr": 0.1, "momentum": 0.9}),
    "sgd, nesterov": Case("SGD", {"lr": 0.1, "momentum": 0.9, "nesterov": True}),
    "sgd, dampening": Case("SGD", {"lr": 0.1, "momentum": 0.8, "dampening": 0.3}),
    "sgd, decay": Case("SGD", {"lr": 0.1, "weight_decay": 0.05}),
    "sgd, maximize": Case("SGD", {"lr": 0.01, "momentum": 0.5, "maximize": True}),
    "sgd, everything": Case(
        "SGD",
        {
            "lr": 0.02,
            "momentum": 0.9,
            "weight_decay": 0.01,
            "nesterov": True,
            "maximize": True,
        },
    ),
    **{
        f"{name.lower()}, {what}": Case(name, options)
        for name in ("Adam", "AdamW")
        for what, options in {
            "defaults": {},
            "rate": {"lr": 0.01},
            "betas": {"lr": 0.01, "betas": (0.7, 0.9)},
            "short memory": {"lr": 0.01, "betas": (0.3, 0.4)},
            "no memory": {"lr": 0.01, "betas": (0.0, 0.0)},
            "eps": {"lr": 0.01, "eps": 1e-3},
            "no decay": {"lr": 0.01, "weight_decay": 0.0},
            "decay": {"lr": 0.01, "weight_decay": 0.2},
            "amsgrad": {"lr": 0.01, "betas": (0.5, 0.6), "amsgrad": True},
            "maximize": {"lr": 0.001, "maximize": True},
            "everything": {
                "lr": 0.003,
                "betas": (0.8, 0.95),
                "eps": 1e-6,
                "weight_decay": 0.1,
                "amsgrad": True,
                "maximize": True,
            },
        }.items()
    },
    **{
        f"rmsprop, {what}": Case("RMSprop", options)
        for what, options in {
            "defaults": {},
            "alpha": {"lr": 0.002, "alpha": 0.7},
            "no memory": {"lr": 0.002, "alpha": 0.0},
            "eps": {"lr": 0.002, "eps": 1e-3},
            "decay": {"lr": 0.002, "weight_decay": 0.2},
            "momentum": {"lr": 0.001, "momentum": 0.8},
            "centered": {"lr": 0.001, "centered": True, "eps": 1e-4},
            "maximize": {"lr": 0.001, "maximize": True},
            "everything": {
                "lr": 0.001,
                "alpha": 0.9,
                "eps": 1e-4,
                "weight_decay": 0.1,
                "momentum": 0.5,
                "centered": True,
                "maximize": True,
            },
        }.items()
    },
    **{
        f"adagrad, {what}": Case("Adagrad", options)
        for what, options in {
            "defaults": {},
            "rate decay": {"lr": 0.05, "lr_decay": 0.3},
            "eps": {"eps": 1e-2},
            "decay": {"weight_decay": 0.2},
            "start": {"lr": 0.1, "initial_accumulator_value": 0.5},
            "maximize": {"lr": 0.001, "maximize": True},
            "everything": {
                "lr": 0.003,
                "lr_decay": 0.1,
                "weight_decay": 0.1,
                "initial_accumulator_value": 0.1,
                "eps": 1e-6,
                "maximize": True,
            },
        }.items()
    },
}


class Model(NamedTuple):
    """A model as a function of the library that has its layers, and its inputs."""

    make: Callable[[Any], Any]
    batch: Callable[[np.random.Generator], np.ndarray]


MODELS: Final[dict[str, Model]] = {
    "mlp": Model(
        lambda lib: lib.Sequential(
            lib.Linear(6, 16), lib.ReLU(), lib.Linear(16, 8), lib.Tanh(), lib.Linear(8, 4)
        ),
        lambda rng: rng.normal(size=(12, 6)),
    ),
    "embedding and layer norm": Model(
        lambda lib: lib.Sequential(
            lib.Embedding(11, 5),
            lib.Flatten(),
            lib.Linear(15, 12),
            lib.LayerNorm(12),
            lib.Tanh(),
            lib.Linear(12, 4),
        ),
        lambda rng: rng.integers(0, 11, (12, 3)),
    ),
}


class Pair:
    """A model, its optimizer and its data here and in PyTorch, stepped together."""

    def __init__(self, model: Model, case: Case, dtype: str = "float64") -> None:
        torch.manual_seed(1)
        self.model, self.case, self.dtype = model, case, dtype
        self.theirs = model.make(torch.nn).to(getattr(torch, dtype))
        self.their_optimizer = getattr(torch.optim, case.name)(
            self.theirs.parameters(), **case.options
        )
        self.fresh()
        self.ours.load_state_dict({k: v.numpy() for k, v in self.theirs.state_dict().items()})
        self.rng = np.random.default_rng(6)

    def fresh(self) -> None:
        """Put a new model and a new optimizer on our side."""
        self.ours = self.model.make(nn).to(self.dtype)
        self.optimizer = getattr(optim, self.case.name)(self.ours.parameters(), **self.case.options)

    def gradients(self) -> tuple[float, float]:
        """Compute the gradients of one batch on both sides, and return the losses."""
        batch, target = self.model.batch(self.rng), self.rng.integers(0, 4, 12)
        if batch.dtype.kind == "f":
            batch = batch.astype(self.dtype)
        self.optimizer.zero_grad()
        loss = nn.functional.cross_entropy(self.ours(Tensor(batch)), target)
        loss.backward()
        self.their_optimizer.zero_grad()
        expected = torch.nn.functional.cross_entropy(
            self.theirs(torch.tensor(batch)), torch.tensor(target)
        )
        expected.backward()
        return loss.item(), expected.item()

    def step(self) -> tuple[float, float]:
        """Take one step on both sides, and return the losses before it."""
        losses = self.gradients()
        self.optimizer.step()
        self.their_optimizer.step()
        return losses

    def run(self, steps: int) -> None:
        """Take steps; fail unless losses agree at each and weights at the end."""
        for i in range(steps):
            loss, expected = self.step()
            assert math.isclose(loss, expected, rel_tol=LOSS_RTOL), f"loss at step {i}"
        assert_equal_weights(self.ours, self.theirs)


def assert_equal_weights(ours: nn.Module, theirs: torch.nn.Module) -> None:
    """Fail unless the parameters have the same names and values."""
    expected = dict(theirs.named_parameters())
    actual = dict(ours.named_parameters())
    assert list(actual) == list(expected)
    for name, parameter in actual.items():
        reference = expected[name].detach().numpy()
        assert parameter.data.dtype == reference.dtype, name
        np.testing.assert_allclose(
            parameter.data,
            reference,
            rtol=WEIGHT_RTOL,
            # of a weight that starts at 0, what counts is how it compares with its step
            atol=WEIGHT_RTOL * 1e-4,
            err_msg=name,
        )


def moved(kind: Callable[..., optim.Optimizer], w: float, g: float, **options: Any) -> float:
    """Where one step takes a weight that has a gradient."""
    p = nn.Parameter(np.array(w))
    p.grad = Tensor(np.array(g))
    kind([p], **options).step()
    return float(p.item())
