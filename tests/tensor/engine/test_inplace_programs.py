"""Random programs that change Tensors and views of them in place, against PyTorch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch

from tensor import Tensor, grad

# A value in both libraries: a program is run in both at once, and drawn by shapes alone.
Pair = tuple[Any, Any]

PLACES = [f"p{i}" for i in range(20)]

RTOL, ATOL = 1e-10, 1e-11


class Stopped(Exception):  # noqa: N818 - no fault, but the end of a program
    """PyTorch refuses it, for example as something was changed that a backward pass needs."""


class Program:
    """Statements drawn from a seed and carried out at once, in this library and in PyTorch."""

    def __init__(self, seed: int) -> None:
        self.random = np.random.default_rng(seed)
        self.text: list[str] = []
        self.leaves = [self._leaf(3, 4), self._leaf(4), self._leaf()]
        x, row, _ = self.leaves
        product = (x[0] * row[0], x[1] * row[1])
        buffer = np.arange(12.0).reshape(3, 4) / 7
        # Results, a constant that gradients may come to flow through, and views of both.
        self.pool: list[Pair] = [product, (Tensor(buffer), torch.from_numpy(buffer.copy()))]
        self.outputs: list[Pair] = []

    def _leaf(self, *shape: int) -> Pair:
        values = self.random.normal(size=shape)
        ours = Tensor(values, requires_grad=True)
        return ours, torch.tensor(np.asarray(values), requires_grad=True)

    def _choose(self, options: Sequence[Any]) -> Any:
        return options[int(self.random.integers(len(options)))]

    def both(self, text: str, function: Any, *pairs: Pair) -> Pair:
        """Carry out a statement in both libraries; what PyTorch can do must be possible here."""
        self.text.append(text)
        try:
            theirs = function(*(pair[1] for pair in pairs))
        except RuntimeError as error:
            raise Stopped from error
        return function(*(pair[0] for pair in pairs)), theirs

    def _index(self, ndim: int) -> Any:
        basic = [0, -1, slice(1, None), slice(None, None, 2), ...]
        if not ndim:
            return ...
        index = self._choose(basic)
        return (index, self._choose(basic[:4])) if ndim > 1 and index is not ... else index

    def _value(self, target: Pair, index: Any) -> tuple[str, Pair]:
        """Something that fits, and its name: a number, a leaf or a result."""
        written = target[0].detach()[index]
        shape = written.shape
        fitting = [
            (name, pair)
            for names, pairs in (("xrn", self.leaves), (PLACES, self.pool))
            for name, pair in zip(names, pairs, strict=False)
            # PyTorch copies what overlaps element by element: what was just written is read.
            if not np.shares_memory(written.data, pair[0].data)
            and len(pair[0].shape) <= len(shape)
            and all(n in (1, m) for n, m in zip(pair[0].shape[::-1], shape[::-1], strict=False))
        ]
        return self._choose([*fitting, ("0.25", (0.25, 0.25))])

    def step(self) -> None:
        """Draw a statement and carry it out."""
        i = int(self.random.integers(len(self.pool)))
        target = self.pool[i]
        ndim = target[0].ndim
        kinds = ["view", "view", "set", "set", "set", "op", "mask", "put", "use", "fill"]
        kind = self._choose(kinds)
        index = self._index(ndim)
        if kind == "view":
            views: dict[str, Any] = {
                f"p{i}[{index}]": lambda t: t[index],
                f"p{i}.reshape(-1)": lambda t: t.reshape(-1),
                f"p{i}.unsqueeze(0)": lambda t: t.unsqueeze(0),
            }
            if ndim > 1:
                views[f"p{i}.transpose(0, 1)"] = lambda t: t.transpose(0, 1)
            text = self._choose(list(views))
            if 0 not in views[text](target[0].detach()).shape and ndim < 4:
                self.pool.append(self.both(f"p{len(self.pool)} = {text}", views[text], target))
        elif kind == "set":
            name, value = self._value(target, index)
            text = f"p{i}[{index}] = {name}"
            self.both(text, lambda t, v: t.__setitem__(index, v), target, value)
        elif kind == "op":
            method = self._choose(["add_", "sub_", "mul_", "copy_"])
            name, value = self._value(target, ...)
            self.both(f"p{i}.{method}({name})", lambda t, v: getattr(t, method)(v), target, value)
        elif kind == "mask":
            mask = self.random.random(target[0].shape) < 0.5
            masks = (Tensor(mask), torch.from_numpy(np.asarray(mask)))
            value = self._choose([self.leaves[2], (1.5, 1.5)])
            self.both(
                f"p{i}.masked_fill_({mask.tolist()}, value)",
                lambda t, m, v: t.masked_fill_(m, v),
                target,
                masks,
                value,
            )
        elif kind == "put" and ndim:
            rows = self.random.integers(0, len(target[0]), 3)
            indices = (Tensor(rows),), (torch.from_numpy(rows),)
            self.both(
                f"p{i}.index_put_({rows}, leaf, accumulate=True)",
                lambda t, at, v: t.index_put_(at, v, accumulate=True),
                target,
                indices,
                self.leaves[2],
            )
        elif kind == "use":
            function = self._choose([lambda t: t * 3, lambda t: (t * t).sum(), lambda t: t.sin()])
            self.outputs.append(self.both(f"use p{i}", function, target))
        elif kind == "fill":
            self.both(f"p{i}.fill_(leaf)", lambda t, v: t.fill_(v), target, self.leaves[2])

    def check(self) -> None:
        """Compare what everything holds, whether it has a gradient, and the gradients."""
        pairs = [*self.pool, *self.outputs]
        for k, (ours, theirs) in enumerate(pairs):
            assert ours.requires_grad == theirs.requires_grad, f"{k} of\n{self}"
            wanted = theirs.detach().numpy()
            np.testing.assert_allclose(ours.data, wanted, RTOL, ATOL, err_msg=f"{k} of\n{self}")
        kept = [(a, b) for a, b in pairs if a.requires_grad]
        factors = [self.random.normal(size=a.shape) for a, _ in kept]
        ours, theirs = ([leaf[side] for leaf in self.leaves] for side in (0, 1))

        def our_gradients() -> Any:
            seeds = [Tensor(f) for f in factors]
            return grad([a for a, _ in kept], ours, seeds, allow_unused=True)

        def their_gradients() -> Any:
            seeds = [torch.tensor(f) for f in factors]
            return torch.autograd.grad([b for _, b in kept], theirs, seeds, allow_unused=True)

        try:
            wanted = their_gradients()
        except RuntimeError as error:
            if "modified by an inplace operation" not in str(error):
                raise
            raise Stopped from error
        for a, b in zip(our_gradients(), wanted, strict=True):
            a = np.zeros(()) if a is None else a.data
            b = np.zeros(()) if b is None else b.numpy()
            np.testing.assert_allclose(a, b, RTOL, ATOL, err_msg=str(self))

    def __str__(self) -> str:
        return "\n".join(self.text)


@pytest.mark.parametrize("start", range(0, 600, 100))
def test_programs_of_changes_in_place_agree_with_torch(start: int) -> None:
    compared = 0
    for seed in range(start, start + 100):
        program = Program(seed)
        try:
            for _ in range(10):
                program.step()
            program.check()
            compared += 1
        except Stopped:
            pass
    assert compared >= 40


def test_a_view_that_is_not_recorded_anew_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tensor.graph.Version.add_view", lambda self, view: None)
    with pytest.raises(AssertionError):
        test_programs_of_changes_in_place_agree_with_torch(0)
