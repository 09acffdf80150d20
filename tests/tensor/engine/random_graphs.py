"""Random programs over the ops, to be run by this engine and by PyTorch.

A program is data: a list of steps, each with the positions of its operands among the values so
far. Generating one needs shapes alone, so the same program can be run again on other values, which
is what finite differences do.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import torch

import tensor as st
from tensor import Tensor

Value = Any  # a Tensor or a torch.Tensor


class Step(NamedTuple):
    """One step: what is done to which of the values so far; the result is the next of them."""

    name: str
    operands: tuple[int, ...]
    attrs: tuple[Any, ...] = ()

    def __str__(self) -> str:
        arguments = [f"v{i}" for i in self.operands] + [repr(attr) for attr in self.attrs]
        return f"{self.name}({', '.join(arguments)})"


@dataclass
class Program:
    """Leaves' shapes, steps, and which of the values are outputs."""

    leaves: list[tuple[int, ...]]
    steps: list[Step] = field(default_factory=list)
    outputs: list[int] = field(default_factory=list)

    def __str__(self) -> str:
        lines = [f"v{i} = leaf{shape}" for i, shape in enumerate(self.leaves)]
        lines += [f"v{i} = {step}" for i, step in enumerate(self.steps, len(self.leaves))]
        return "\n".join([*lines, f"outputs {self.outputs}"])


def bounded(a: Value) -> Value:
    """Of order 1, whatever came in, and smooth."""
    return (0.7 * a).tanh()


def positive(a: Value) -> Value:
    return a * a + 0.5


def scaled(factor: float) -> Callable[[Value], Value]:
    return lambda g: g * factor


def hooked(a: Value, factor: float) -> Value:
    result = a * 1.0
    result.register_hook(scaled(factor))
    return result


def changed(method: str, copies: bool) -> Callable[[Value, Value], Value]:
    """A change in place of a copy, or of an intermediate that others have used."""
    return lambda a, b: getattr(a.clone() if copies else a, method)(b)


def written(a: Value, b: Value, index: Any) -> Value:
    a[index] = b.mean()
    return a


# Steps that are written alike in both libraries, by the number of operands.
ALIKE: dict[str, Callable[..., Value]] = {
    "sin": lambda a: a.sin(),
    "tanh": lambda a: a.tanh(),
    "exp": lambda a: bounded(a).exp(),
    "log": lambda a: positive(a).log(),
    "sqrt": lambda a: positive(a).sqrt(),
    "square": lambda a: bounded(a).square(),
    "neg": lambda a: -a,
    "sigmoid": lambda a: a.sigmoid(),
    "relu": lambda a: a.relu(),
    "abs": lambda a: a.abs(),
    "cube": lambda a: bounded(a) ** 3,
    "clone": lambda a: a.clone(),
    "detach": lambda a: a.detach(),
    "hook": hooked,
    "softmax": lambda a, dim: a.softmax(dim),
    "log_softmax": lambda a, dim: a.log_softmax(dim),
    "logsumexp": lambda a, dim, keep: a.logsumexp(dim, keep),
    "sum": lambda a, dim, keep: bounded(a).sum(dim, keep),
    "sum all": lambda a: bounded(a).sum(),
    "mean": lambda a, dim, keep: a.mean(dim, keep),
    "var": lambda a, dim, keep: a.var(dim, correction=0, keepdim=keep),
    "max": lambda a, dim, keep: a.max(dim, keep)[0],
    "reshape": lambda a, shape: a.reshape(shape),
    "permute": lambda a, dims: a.permute(dims),
    "T": lambda a, i, j: a.transpose(i, j),
    "unsqueeze": lambda a, dim: a.unsqueeze(dim),
    "expand": lambda a, shape: a.expand(shape),
    "slice": lambda a, index: a[index],
    "take": lambda a, index: a[list(index)],
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: bounded(a) * b,
    "div": lambda a, b: a / positive(b),
    "pow": lambda a, b: positive(bounded(a)) ** bounded(b),
    "matmul": lambda a, b: bounded(a) @ b,
    "twice": lambda a: a + a,
    "half detached": lambda a: a * a.detach(),
    "add_": changed("add_", copies=True),
    "sub_": changed("sub_", copies=True),
    "mul_": changed("mul_", copies=True),
    "div_": lambda a, b: a.clone().div_(positive(b)),
    "own add_": changed("add_", copies=False),
    "own mul_": changed("mul_", copies=False),
    "self mul_": lambda a: _by_itself(bounded(a)),
    "own copy_": changed("copy_", copies=False),
    "own fill_": lambda a: a.fill_(0.5),
    "put_": lambda a, b, index: written(a.clone(), b, index),
    "own put_": written,
}


def _by_itself(a: Value) -> Value:
    return a.mul_(a).add_(a)


OURS: dict[str, Callable[..., Value]] = ALIKE | {
    "maximum": st.maximum,
    "where": lambda a, b: st.where(a > b, a, b * 2),
    "cat": lambda a, b, dim: st.cat([a, b, a], dim),
    "stack": lambda a, b, dim: st.stack([a, b], dim),
    "mask": lambda a, mask: a[Tensor(np.array(mask))],
    "reverse": lambda a: a[::-1] * 1,
    "layer_norm": lambda a, w: st.layer_norm(a, w, w, (w.shape[0],)),
    "linear": lambda a, w, activation: st.linear(a, w, None, activation),
    "no_grad": lambda a: _without(st.no_grad(), a),
}

THEIRS: dict[str, Callable[..., Value]] = ALIKE | {
    "maximum": torch.maximum,
    "where": lambda a, b: torch.where(a > b, a, b * 2),
    "cat": lambda a, b, dim: torch.cat([a, b, a], dim),
    "stack": lambda a, b, dim: torch.stack([a, b], dim),
    "mask": lambda a, mask: a[torch.tensor(mask)],
    "reverse": lambda a: a.flip(0) * 1,
    "layer_norm": lambda a, w: torch.nn.functional.layer_norm(a, (w.shape[0],), w, w),
    "linear": lambda a, w, activation: getattr(a @ w.T, activation)(),
    "no_grad": lambda a: _without(torch.no_grad(), a),
}


def _without(mode: Any, a: Value) -> Value:
    with mode:
        return a * a


def run(program: Program, leaves: Sequence[Value], ops: dict[str, Callable[..., Value]]) -> Any:
    """All values that a program computes from ``leaves``."""
    values = list(leaves)
    for step in program.steps:
        values.append(ops[step.name](*(values[i] for i in step.operands), *step.attrs))
    return values


class Generator:
    """Draws one program over a few small leaves, from a seed."""

    def __init__(self, seed: int) -> None:
        self.random = np.random.default_rng(seed)
        shapes = [(3,), (2, 3), (1, 3), (3, 3), (2, 1), ()]
        count = int(self.random.integers(1, 4))
        self.program = Program([shapes[self.random.integers(len(shapes))] for _ in range(count)])
        self.values: list[Tensor] = [
            Tensor(self.random.normal(size=shape), requires_grad=True)
            for shape in self.program.leaves
        ]

    def draw(self, steps: int) -> Program:
        """A program of that many steps."""
        while len(self.program.steps) < steps:
            step = self._step()
            if step is None:
                continue
            operands = [self.values[i] for i in step.operands]
            try:
                result = OURS[step.name](*operands, *step.attrs)
            except (RuntimeError, IndexError):  # a change in place that is refused; no elements
                continue
            if not 0 < result.numel() <= 200:
                continue
            self.program.steps.append(step)
            self.values.append(result)
        able = [i for i, t in enumerate(self.values) if t.requires_grad]
        late = [i for i in able if i >= len(self.values) - 3] or able
        self.program.outputs = sorted({self._choose(late), self._choose(able)})
        return self.program

    def _choose(self, options: Sequence[Any]) -> Any:
        return options[int(self.random.integers(len(options)))]

    def _dim(self, ndim: int) -> int:
        return int(self.random.integers(-ndim, ndim))

    def _step(self) -> Step | None:
        """The next step, if the one that was drawn suits the operands that were drawn."""
        name = self._choose(list(OURS))
        # Late values more often: deep graphs, in which nothing is unused for long.
        order = self.random.permutation(len(self.values))[:2].max()
        a, b = int(order), int(self.random.integers(len(self.values)))
        x, y = self.values[a], self.values[b]
        keep = bool(self.random.integers(2))
        match name:
            case "softmax" | "log_softmax":
                return Step(name, (a,), (self._dim(x.ndim),)) if x.ndim else None
            case "logsumexp" | "sum" | "mean" | "var" | "max":
                return Step(name, (a,), (self._dim(x.ndim), keep)) if x.ndim else None
            case "hook":
                return Step(name, (a,), (0.5,)) if x.requires_grad else None
            case "reshape":
                shapes = [(-1,), (x.numel(), 1), (1, *x.shape), x.shape[::-1]]
                return Step(name, (a,), (self._choose(shapes),))
            case "permute":
                return Step(name, (a,), (tuple(map(int, self.random.permutation(x.ndim))),))
            case "T":
                return Step(name, (a,), (self._dim(x.ndim), self._dim(x.ndim))) if x.ndim else None
            case "unsqueeze":
                return Step(name, (a,), (self._dim(x.ndim + 1),)) if x.ndim < 4 else None
            case "expand":
                shape = tuple(2 if n == 1 else n for n in x.shape)
                return Step(name, (a,), ((2, *shape),)) if x.ndim < 4 else None
            case "slice":
                index = (slice(0, 2), slice(None, None, 2), slice(1, None), 0, ..., None)
                return Step(name, (a,), (self._choose(index),)) if x.ndim else None
            case "put_" | "own put_":
                index = (slice(1, None), slice(None, None, 2), -1, ..., [-1])
                return Step(name, (a, b), (self._choose(index),)) if x.ndim and y.numel() else None
            case "take":
                n = x.shape[0] if x.ndim else 0
                rows = tuple(map(int, self.random.integers(-n, n, 4))) if n else None
                return Step(name, (a,), (rows,)) if rows else None
            case "mask":
                mask = self.random.random(x.shape) < 0.6
                return Step(name, (a,), (mask.tolist(),)) if x.ndim and mask.any() else None
            case "reverse":
                return Step(name, (a,)) if x.ndim else None
            case "matmul":
                fits = x.ndim and y.ndim and x.shape[-1] == y.shape[max(-2, -y.ndim)]
                return Step(name, (a, b)) if fits else None
            case "linear":
                fits = x.ndim and y.ndim == 2 and x.shape[-1] == y.shape[1]
                kind = self._choose(["relu", "tanh", "sigmoid"])
                return Step(name, (a, b), (kind,)) if fits else None
            case "layer_norm":
                fits = x.ndim and y.ndim == 1 and x.shape[-1:] == y.shape and y.shape[0] > 1
                return Step(name, (a, b)) if fits else None
            case "cat":
                fits = x.ndim and x.shape == y.shape
                return Step(name, (a, b), (self._dim(x.ndim),)) if fits else None
            case "stack":
                fits = x.shape == y.shape
                return Step(name, (a, b), (self._dim(x.ndim + 1),)) if fits else None
            case "add" | "sub" | "mul" | "div" | "pow" | "maximum" | "where":
                return Step(name, (a, b)) if _broadcasts(x.shape, y.shape) else None
            case "add_" | "sub_" | "mul_" | "div_" | "own add_" | "own mul_" | "own copy_":
                return Step(name, (a, b)) if _broadcasts(x.shape, y.shape) == x.shape else None
            case "no_grad" | "detach" if self.random.random() < 0.7:
                return None
            case _:
                return Step(name, (a,))


def _broadcasts(a: tuple[int, ...], b: tuple[int, ...]) -> tuple[int, ...] | None:
    try:
        return np.broadcast_shapes(a, b)
    except ValueError:
        return None


def leaf_values(program: Program, seed: int) -> list[np.ndarray[Any, Any]]:
    """Values for the leaves; no two are equal, so that no maximum is at a tie by chance."""
    random = np.random.default_rng(seed)
    return [random.normal(size=shape) for shape in program.leaves]


def our_leaves(values: Sequence[Any]) -> list[Tensor]:
    return [Tensor(v, requires_grad=True) for v in values]


def their_leaves(values: Sequence[Any]) -> list[torch.Tensor]:
    return [torch.tensor(np.asarray(v), requires_grad=True) for v in values]
