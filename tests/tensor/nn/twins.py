"""The same model here and in PyTorch, and the comparison of the two."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from tensor import Tensor, nn
from tests.tensor.tolerances import assert_close


def names_and_shapes(state: Any) -> list[tuple[str, tuple[int, ...]]]:
    """A state dict without its values."""
    return [(name, tuple(value.shape)) for name, value in state.items()]


def load(ours: nn.Module, theirs: torch.nn.Module, dtype: str) -> None:
    """Convert both models and give ours the weights of theirs."""
    theirs.to(getattr(torch, dtype))
    ours.to(dtype)
    ours.load_state_dict({name: value.numpy() for name, value in theirs.state_dict().items()})


def assert_same_gradients(ours: nn.Module, theirs: torch.nn.Module, what: str = "") -> None:
    """Fail unless both models have parameters of the same names with the same gradients."""
    expected = dict(theirs.named_parameters())
    actual = dict(ours.named_parameters())
    assert list(actual) == list(expected)
    for name, parameter in actual.items():
        gradient = expected[name].grad
        assert (parameter.grad is None) == (gradient is None), name
        if parameter.grad is not None and gradient is not None:
            assert_close(parameter.grad.data, gradient.numpy(), what, f"gradient of {name}")


@dataclass(frozen=True)
class Layer:
    """A module, as a function of the library that has it, and what it is called with.

    Attributes:
        make: gives the module.
        inputs: an array, or a tuple of them for as many arguments.
        options: arguments by name; arrays and tuples of arrays become tensors.
    """

    make: Callable[[Any], Any]
    inputs: Any
    options: Mapping[str, Any] = field(default_factory=dict)


_rng = np.random.default_rng(11)


def real(*shape: int) -> np.ndarray:
    return _rng.normal(size=shape)


def classes(high: int, *shape: int) -> np.ndarray:
    return _rng.integers(0, high, shape)


def _tensors(value: Any, make: Callable[[np.ndarray], Any]) -> Any:
    """``value`` with its arrays made tensors."""
    if isinstance(value, tuple):
        return tuple(_tensors(part, make) for part in value)
    return make(value) if isinstance(value, np.ndarray) else value


def _flat(value: Any) -> list[Any]:
    """The tensors in nested tuples."""
    if isinstance(value, tuple):
        return [tensor for part in value for tensor in _flat(part)]
    return [value] if hasattr(value, "requires_grad") else []


def assert_same_run(ours: nn.Module, theirs: torch.nn.Module, layer: Layer, dtype: str) -> None:
    """Fail unless one call gives the same outputs, and a weighted sum of them the same gradients.

    Gradients are those of the inputs and of the parameters; the state must be the same after it.
    """
    load(ours, theirs, dtype)

    def cast(array: np.ndarray) -> np.ndarray:
        return array.astype(dtype) if array.dtype.kind == "f" else array

    def mine(array: np.ndarray) -> Tensor:
        return Tensor(cast(array), requires_grad=array.dtype.kind == "f")

    def other(array: np.ndarray) -> torch.Tensor:
        return torch.tensor(cast(array), requires_grad=array.dtype.kind == "f")

    inputs = layer.inputs if isinstance(layer.inputs, tuple) else (layer.inputs,)
    given, given_there = ((_tensors(inputs, make), dict(layer.options)) for make in (mine, other))
    for (_, options), make in ((given, mine), (given_there, other)):
        options.update({name: _tensors(value, make) for name, value in options.items()})
    xs, ts = (_flat((args, tuple(options.values()))) for args, options in (given, given_there))
    ys, us = _flat(ours(*given[0], **given[1])), _flat(theirs(*given_there[0], **given_there[1]))
    assert len(ys) == len(us)
    total: Any = 0.0
    total_there: Any = 0.0
    for i, (y, u) in enumerate(zip(ys, us, strict=True)):
        assert_close(y.data, u.detach().numpy(), note=f"output {i}")
        assert y.requires_grad == u.requires_grad
        if y.requires_grad:
            weights = np.random.default_rng([3, i]).uniform(0.5, 2, y.shape).astype(dtype)
            total = total + (y * weights).sum()
            total_there = total_there + (u * torch.tensor(weights)).sum()
    if isinstance(total, Tensor):
        total.backward()
        total_there.backward()
    for i, (x, t) in enumerate(zip(xs, ts, strict=True)):
        assert (x.grad is None) == (t.grad is None), f"gradient of input {i}"
        if t.grad is not None:
            assert_close(x.grad.data, t.grad.numpy(), note=f"gradient of input {i}")
    assert_same_gradients(ours, theirs)
    after = theirs.state_dict()
    for name, value in ours.state_dict().items():
        assert_close(value.data, after[name].numpy(), note=f"{name} after it")
