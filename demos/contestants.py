"""The same two models, with the same training step, in every engine that bench.py compares.

``mlp`` is a chain of linear layers with ReLU between them, ``char`` the character model of
train_char.py. A contestant is made of a workload: initial weights and one batch. All take
AdamW steps with the same rates.
"""

from __future__ import annotations

import itertools
import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import numpy as np
import train_char
from report import import_torch

import tensor
from tensor import Generator, Tensor, nn, optim
from tensor.kernels import optimizers, reference, scatter

__all__ = ["CONTESTANTS", "MNIST_SIZES", "OURS", "Contestant", "Workload", "absent"]

MNIST_SIZES = (784, 512, 256, 10)
VOCABULARY, CONTEXT = 65, 16
# So small that gradients stay what they are, however many steps are timed on one batch: with
# gradients that vanish, numbers become denormal and arithmetic slow.
RATES = {"lr": 1e-6, "weight_decay": 0.01}
BETAS, EPS, LAYER_NORM_EPS = (0.9, 0.999), 1e-8, 1e-5


@dataclass
class Workload:
    """What every contestant starts from.

    ``weights`` are in the order of the model's parameters; ``x`` and ``y`` are one batch.
    """

    model: str
    sizes: tuple[int, ...]
    batch: int
    weights: list[np.ndarray]
    x: np.ndarray
    y: np.ndarray

    @classmethod
    def make(
        cls, model: str, batch: int, sizes: Sequence[int] = MNIST_SIZES, seed: int = 0
    ) -> Workload:
        """Return a workload with weights and a batch drawn from the seed."""
        tensor.manual_seed(seed)
        generator = Generator(seed)
        if model == "char":
            network = train_char.build(VOCABULARY)
            x = generator.integers(0, VOCABULARY, (batch, CONTEXT))
            y = generator.integers(0, VOCABULARY, batch)
        else:
            network = smolgrad_mlp(sizes)
            x = generator.uniform(shape=(batch, sizes[0]))
            y = generator.integers(0, sizes[-1], batch)
        weights = [p.data.copy() for p in network.parameters()]
        return cls(model, tuple(sizes), batch, weights, x, y)


def smolgrad_mlp(sizes: Sequence[int]) -> nn.Sequential:
    """Return linear layers with ReLU between them."""
    layers: list[nn.Module] = []
    for m, n in itertools.pairwise(sizes):
        layers += [nn.Linear(m, n), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


class Contestant:
    """One model in one engine, and its batch.

    ``phases`` are the parts of a step, to be called in order, where an engine can take them one
    by one.
    """

    phases: Mapping[str, Callable[[], Any]] | None = None

    def step(self) -> None:
        """Take a step: forward, backward, optimizer."""
        assert self.phases is not None
        for phase in self.phases.values():
            phase()

    def first(self) -> tuple[float, list[np.ndarray] | None]:
        """Return the loss and, if the engine shows them, the gradients, before any step."""
        raise NotImplementedError

    def weights(self) -> list[np.ndarray]:
        """Return copies of the weights as they are."""
        raise NotImplementedError


# This engine


class SmolgradEager(Contestant):
    """This engine, op by op."""

    def __init__(self, work: Workload, threads: int) -> None:
        self.model = (
            train_char.build(VOCABULARY) if work.model == "char" else smolgrad_mlp(work.sizes)
        )
        for parameter, values in zip(self.model.parameters(), work.weights, strict=True):
            parameter.data[...] = values
        self.optimizer = optim.AdamW(self.model.parameters(), **RATES)
        self.x, self.y = tensor.from_numpy(work.x), tensor.from_numpy(work.y)
        self.phases = {
            "forward": self.forward,
            "backward": self.backward,
            "optimizer": self.optimizer.step,
        }

    def forward(self) -> Tensor:
        """Compute the loss."""
        self.loss = tensor.cross_entropy(self.model(self.x), self.y)
        return self.loss

    def backward(self) -> None:
        """Compute the gradients anew."""
        self.optimizer.zero_grad()
        self.loss.backward()

    def first(self) -> tuple[float, list[np.ndarray] | None]:
        """Return the loss and the gradients."""
        loss = self.forward().item()
        self.backward()
        return loss, [p.grad.data.copy() for p in self.model.parameters() if p.grad is not None]

    def weights(self) -> list[np.ndarray]:
        """Return copies of the weights."""
        return [p.data.copy() for p in self.model.parameters()]


class SmolgradCompiled(SmolgradEager):
    """This engine, with the whole step compiled into one program."""

    def __init__(self, work: Workload, threads: int) -> None:
        super().__init__(work, threads)
        self.phases = None

        def step(x: Tensor, y: Tensor) -> Tensor:
            loss = tensor.cross_entropy(self.model(x), y)
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            return loss

        self.compiled = tensor.compile(step)

    def step(self) -> None:
        """Replay the program."""
        self.compiled(self.x, self.y)


# By hand


class ByHand(Contestant):
    """Plain numpy with every buffer reused, and the kernels of this engine where it has them."""

    def __init__(self, work: Workload, threads: int) -> None:
        self.work = work
        shapes = [w.shape for w in work.weights]
        ends = np.cumsum([w.size for w in work.weights]).tolist()
        self.flat, self.flat_grad, self.m, self.v = np.zeros((4, ends[-1]), np.float32)
        self.params, self.grads = (
            [
                part.reshape(shape)
                for part, shape in zip(np.split(flat, ends[:-1]), shapes, strict=True)
            ]
            for flat in (self.flat, self.flat_grad)
        )
        for param, values in zip(self.params, work.weights, strict=True):
            param[...] = values
        self.scratch = optimizers.workspace(self.flat.dtype)
        self.steps = 0
        self.rows = np.arange(work.batch)
        # logits and everything between, by layer; and the gradients of the same
        widths = work.sizes[1:] if work.model == "mlp" else (self.params[1].shape[0], VOCABULARY)
        self.acts, self.deltas = (
            [np.empty((work.batch, width), np.float32) for width in widths] for _ in range(2)
        )
        self.phases = {
            "forward": self.forward,
            "backward": self.backward,
            "optimizer": self.optimize,
        }

    def linear(self, a: np.ndarray, layer: int, out: np.ndarray) -> np.ndarray:
        """Write a @ w.T + b of a layer; its weight and bias are params[layer:layer + 2]."""
        np.matmul(a, self.params[layer].T, out=out)
        return np.add(out, self.params[layer + 1], out=out)

    def linear_grads(self, g: np.ndarray, a: np.ndarray, layer: int) -> None:
        """Write the gradients of a layer's weight and bias."""
        if len(g) == 1:  # an outer product, which a GEMM is slow at
            np.multiply(g.T, a, out=self.grads[layer])
        else:
            np.matmul(g.T, a, out=self.grads[layer])
        np.sum(g, 0, out=self.grads[layer + 1])

    def cross_entropy(self, logits: np.ndarray, g: np.ndarray) -> float:
        """Return the mean loss, and write its gradient."""
        y = self.work.y
        np.subtract(logits, logits.max(1, keepdims=True), out=logits)
        np.exp(logits, out=g)
        total = g.sum(1, keepdims=True)
        loss = float(np.mean(np.log(total[:, 0]) - logits[self.rows, y]))
        np.divide(g, total, out=g)
        g[self.rows, y] -= 1
        np.divide(g, np.float32(len(y)), out=g)
        return loss

    def forward(self) -> None:
        """Compute the loss and the gradient of the logits."""
        raise NotImplementedError

    def backward(self) -> None:
        """Compute the gradients."""
        raise NotImplementedError

    def optimize(self) -> None:
        """Take AdamW's step over one flat array."""
        self.steps += 1
        optimizers.sweep(
            optimizers.adam,
            self.flat,
            self.flat_grad,
            {"exp_avg": self.m, "exp_avg_sq": self.v},
            self.scratch,
            betas=BETAS,
            eps=EPS,
            maximize=False,
            decoupled=True,
            step=self.steps,
            **RATES,
        )

    def first(self) -> tuple[float, list[np.ndarray] | None]:
        """Return the loss and the gradients."""
        self.forward()
        self.backward()
        return self.loss, [g.copy() for g in self.grads]

    def weights(self) -> list[np.ndarray]:
        """Return copies of the weights."""
        return [p.copy() for p in self.params]


class ByHandMLP(ByHand):
    """Linear layers with ReLU between them."""

    def forward(self) -> None:
        """Compute the loss and the gradient of the logits."""
        a, last = self.work.x, len(self.acts) - 1
        for i, out in enumerate(self.acts):
            self.linear(a, 2 * i, out)
            a = out if i == last else reference.relu(out, out=out)
        self.loss = self.cross_entropy(a, self.deltas[-1])

    def backward(self) -> None:
        """Compute the gradients."""
        for i in reversed(range(len(self.acts))):
            below = self.acts[i - 1] if i else self.work.x
            self.linear_grads(self.deltas[i], below, 2 * i)
            if i:
                np.matmul(self.deltas[i], self.params[2 * i], out=self.deltas[i - 1])
                np.multiply(self.deltas[i - 1], below > 0, out=self.deltas[i - 1])


class ByHandChar(ByHand):
    """The character model: embedding, linear, LayerNorm, tanh, linear."""

    def __init__(self, work: Workload, threads: int) -> None:
        super().__init__(work, threads)
        width = work.weights[0].shape[1]
        self.seen = np.empty((work.batch, CONTEXT * width), np.float32)
        self.below = np.empty_like(self.seen)
        self.normal, self.slope = (np.empty_like(self.acts[0]) for _ in range(2))

    def forward(self) -> None:
        """Compute the loss and the gradient of the logits."""
        table, (gain, shift), hidden = self.params[0], self.params[3:5], self.acts[0]
        # a mode that clips writes straight into the buffer
        np.take(table, self.work.x, 0, self.seen.reshape(*self.work.x.shape, -1), "clip")
        normal = self.linear(self.seen, 1, self.normal)
        np.subtract(normal, normal.mean(1, keepdims=True), out=normal)
        variance = np.einsum("ij,ij->i", normal, normal) / np.float32(normal.shape[1])
        self.scale = (1 / np.sqrt(variance + np.float32(LAYER_NORM_EPS)))[:, None]
        np.multiply(normal, self.scale, out=normal)
        np.multiply(normal, gain, out=hidden)
        np.add(hidden, shift, out=hidden)
        np.tanh(hidden, out=hidden)
        self.loss = self.cross_entropy(self.linear(hidden, 5, self.acts[1]), self.deltas[1])

    def backward(self) -> None:
        """Compute the gradients."""
        hidden, normal, slope, g = self.acts[0], self.normal, self.slope, self.deltas[0]
        self.linear_grads(self.deltas[1], hidden, 5)
        np.matmul(self.deltas[1], self.params[5], out=g)
        np.multiply(hidden, hidden, out=slope)
        np.subtract(1, slope, out=slope)
        np.multiply(g, slope, out=g)
        np.einsum("ij,ij->j", g, normal, out=self.grads[3])
        np.sum(g, 0, out=self.grads[4])
        np.multiply(g, self.params[3], out=g)
        along = np.einsum("ij,ij->i", g, normal) / np.float32(g.shape[1])
        np.subtract(g, g.mean(1, keepdims=True), out=g)
        np.subtract(g, np.multiply(normal, along[:, None], out=normal), out=g)
        np.multiply(g, self.scale, out=g)
        self.linear_grads(g, self.seen, 1)
        np.matmul(g, self.params[1], out=self.below)
        rows = self.below.reshape(self.work.x.size, -1)
        self.grads[0][...] = scatter.add_rows(rows, self.work.x.reshape(-1), VOCABULARY)


def by_hand(work: Workload, threads: int) -> ByHand:
    """Return the model in plain numpy."""
    return (ByHandChar if work.model == "char" else ByHandMLP)(work, threads)


# PyTorch


class Torch(Contestant):
    """PyTorch, eager or compiled, with one of its three AdamWs."""

    def __init__(
        self, work: Workload, threads: int, adamw: Mapping[str, bool], compiled: bool = False
    ) -> None:
        self.torch = torch = import_torch(threads, "bench.py")
        modules: list[Any] = []
        if work.model == "char":
            table, first, last = work.weights[0], work.weights[1], work.weights[5]
            modules = [
                torch.nn.Embedding(*table.shape),
                torch.nn.Flatten(),
                torch.nn.Linear(*first.shape[::-1]),
                torch.nn.LayerNorm(len(first)),
                torch.nn.Tanh(),
                torch.nn.Linear(*last.shape[::-1]),
            ]
        else:
            for m, n in itertools.pairwise(work.sizes):
                modules += [torch.nn.Linear(m, n), torch.nn.ReLU()]
            del modules[-1]
        self.model = torch.nn.Sequential(*modules)
        with torch.no_grad():
            for parameter, values in zip(self.model.parameters(), work.weights, strict=True):
                parameter.copy_(torch.from_numpy(values))
        self.optimizer = torch.optim.AdamW(self.model.parameters(), **RATES, **adamw)
        self.x, self.y = torch.from_numpy(work.x), torch.from_numpy(work.y)

        def loss(x: Any, y: Any) -> Any:
            return torch.nn.functional.cross_entropy(self.model(x), y)

        self.loss_of = loss
        if compiled:
            from torch._inductor import config

            config.compile_threads = 1  # no processes that wait beside those that are timed
            self.loss_of = torch.compile(loss, dynamic=False)
        self.phases = {
            "forward": self.forward,
            "backward": self.backward,
            "optimizer": self.optimizer.step,
        }

    def forward(self) -> Any:
        """Compute the loss."""
        self.loss = self.loss_of(self.x, self.y)
        return self.loss

    def backward(self) -> None:
        """Compute the gradients anew."""
        self.optimizer.zero_grad()
        self.loss.backward()

    def first(self) -> tuple[float, list[np.ndarray] | None]:
        """Return the loss and the gradients."""
        loss = self.forward().item()
        self.backward()
        return loss, [p.grad.numpy().copy() for p in self.model.parameters()]

    def weights(self) -> list[np.ndarray]:
        """Return copies of the weights."""
        return [p.detach().numpy().copy() for p in self.model.parameters()]


# Engines that differentiate functions of arrays


def functional_loss(xp: Any, model: str, params: Sequence[Any], x: Any, y: Any, pick: Any) -> Any:
    """Return the loss in the functions of a numpy-like namespace; ``pick`` is arange(batch)."""
    if model == "char":
        table, w1, b1, gain, shift, w2, b2 = params
        a = xp.reshape(table[x], (len(pick), -1))
        z = xp.dot(a, w1.T) + b1
        z = z - xp.mean(z, axis=1, keepdims=True)
        z = z / xp.sqrt(xp.mean(z * z, axis=1, keepdims=True) + LAYER_NORM_EPS)
        logits = xp.dot(xp.tanh(z * gain + shift), w2.T) + b2
    else:
        a = x
        for i in range(0, len(params), 2):
            if i:
                a = xp.maximum(a, 0.0)
            a = xp.dot(a, params[i].T) + params[i + 1]
        logits = a
    logits = logits - xp.max(logits, axis=1, keepdims=True)
    return xp.mean(xp.log(xp.sum(xp.exp(logits), axis=1)) - logits[pick, y])


@contextmanager
def few_cores(count: int) -> Iterator[None]:
    """Let what is begun here see so many cores, where the system can tell it so.

    JAX has no setting for its threads: it begins one for each core, and keeps them.
    """
    if not hasattr(os, "sched_setaffinity"):
        yield
        return
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, sorted(cores)[:count])
    try:
        yield
    finally:
        os.sched_setaffinity(0, cores)


class Jax(Contestant):
    """JAX: the whole step under jit, its state donated."""

    def __init__(self, work: Workload, threads: int) -> None:
        os.environ.setdefault("JAX_PLATFORMS", "cpu")
        with few_cores(threads):
            import jax

            jax.devices()
        jnp = jax.numpy
        self.state = [
            [jnp.array(w) for w in work.weights],
            [jnp.zeros_like(w) for w in work.weights],
            [jnp.zeros_like(w) for w in work.weights],
            jnp.zeros((), jnp.float32),
        ]
        self.batch = (jnp.array(work.x), jnp.array(work.y), jnp.arange(work.batch))

        def loss(params: Any, x: Any, y: Any, pick: Any) -> Any:
            return functional_loss(jnp, work.model, params, x, y, pick)

        def step(params: Any, m: Any, v: Any, t: Any, *batch: Any) -> Any:
            grads = jax.grad(loss)(params, *batch)
            t = t + 1
            (beta1, beta2), lr = BETAS, RATES["lr"]
            m = [beta1 * a + (1 - beta1) * g for a, g in zip(m, grads, strict=True)]
            v = [beta2 * a + (1 - beta2) * g * g for a, g in zip(v, grads, strict=True)]
            moved = [
                p * (1 - lr * RATES["weight_decay"])
                - lr * (a / (1 - beta1**t)) / (jnp.sqrt(b / (1 - beta2**t)) + EPS)
                for p, a, b in zip(params, m, v, strict=True)
            ]
            return moved, m, v, t

        self.jax, self.loss = jax, jax.jit(jax.value_and_grad(loss))
        self.compiled = jax.jit(step, donate_argnums=(0, 1, 2, 3))

    def step(self) -> None:
        """Take a step, and wait for it."""
        self.state = self.compiled(*self.state, *self.batch)
        self.jax.block_until_ready(self.state)

    def first(self) -> tuple[float, list[np.ndarray] | None]:
        """Return the loss and the gradients."""
        loss, grads = self.loss(self.state[0], *self.batch)
        return float(loss), [np.asarray(g) for g in grads]

    def weights(self) -> list[np.ndarray]:
        """Return copies of the weights."""
        return [np.array(w) for w in self.state[0]]


class Autograd(Contestant):
    """HIPS autograd, with this engine's AdamW over one flat array."""

    def __init__(self, work: Workload, threads: int) -> None:
        from autograd import numpy as anp
        from autograd import value_and_grad

        self.hand = by_hand(work, threads)
        pick = np.arange(work.batch)
        self.gradient = value_and_grad(
            lambda params: functional_loss(anp, work.model, params, work.x, work.y, pick)
        )

    def first(self) -> tuple[float, list[np.ndarray] | None]:
        """Return the loss and the gradients."""
        loss, grads = self.gradient(self.hand.params)
        return float(loss), grads

    def step(self) -> None:
        """Take a step."""
        _, grads = self.gradient(self.hand.params)
        for place, grad in zip(self.hand.grads, grads, strict=True):
            np.copyto(place, grad)
        self.hand.optimize()

    def weights(self) -> list[np.ndarray]:
        """Return copies of the weights."""
        return self.hand.weights()


CONTESTANTS: Mapping[str, Callable[[Workload, int], Contestant]] = {
    "smolgrad-eager": SmolgradEager,
    "smolgrad-compiled": SmolgradCompiled,
    "numpy-by-hand": by_hand,
    "torch": lambda work, threads: Torch(work, threads, {}),
    "torch-foreach": lambda work, threads: Torch(work, threads, {"foreach": True}),
    "torch-fused": lambda work, threads: Torch(work, threads, {"fused": True}),
    "torch-compile": lambda work, threads: Torch(work, threads, {"fused": True}, compiled=True),
    "jax": Jax,
    "autograd": Autograd,
}


# Those that run on this engine's kernels.
OURS = ("smolgrad-eager", "smolgrad-compiled", "numpy-by-hand")


def absent(impl: str) -> str:
    """Return why a contestant cannot take part here; "" if it can."""
    library = impl.partition("-")[0]
    if impl == "smolgrad-compiled":
        return "" if hasattr(tensor, "compile") else "this engine has no compiler yet"
    if library in ("torch", "jax", "autograd") and find_spec(library) is None:
        return f"{library} is not installed"
    if impl == "torch-compile" and not any(map(shutil.which, ("c++", "g++", "clang++"))):
        return "there is no C++ compiler"
    return ""
