"""The same model here and in PyTorch, and the comparison of the two."""

from __future__ import annotations

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


def assert_same_run(
    ours: nn.Module, theirs: torch.nn.Module, array: np.ndarray, dtype: str, what: str = ""
) -> None:
    """Fail unless one input gives the same output, and a weighted sum of it the same gradients."""
    load(ours, theirs, dtype)
    real = array.dtype.kind == "f"
    array = array.astype(dtype) if real else array
    x, t = Tensor(array, requires_grad=real), torch.tensor(array, requires_grad=real)
    y, u = ours(x), theirs(t)
    assert_close(y.data, u.detach().numpy(), what, "output")
    if not y.requires_grad:
        assert not u.requires_grad
        return
    weights = np.random.default_rng(3).uniform(0.5, 2, y.shape).astype(dtype)
    (y * weights).sum().backward()
    (u * torch.tensor(weights)).sum().backward()
    if real:
        assert x.grad is not None and t.grad is not None
        assert_close(x.grad.data, t.grad.numpy(), what, "gradient of the input")
    assert_same_gradients(ours, theirs, what)
