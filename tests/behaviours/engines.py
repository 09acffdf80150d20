"""Both engines behind one face, for behaviours that both have."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

import pytest

import micro
import tensor

__all__ = ["ENGINES", "Engine", "each_engine"]


class Engine(NamedTuple):
    """How an engine makes a float64 number, and how its calls are written.

    Attributes:
        name: the engine's name.
        ops: the module that has the ops as functions.
        leaf: makes a number that a gradient is asked for.
        backward: collects the gradients at the leaves, and keeps the graph.
        derivative: the derivative of a result by one number, which can be differentiated again
            only if ``create_graph`` says so.
    """

    name: str
    ops: Any
    leaf: Callable[[float], Any]
    backward: Callable[[Any], None]
    derivative: Callable[..., Any]

    def slopes(self, function: Callable[..., Any], *values: float) -> list[float]:
        """The derivatives of a function of several numbers, by each of them."""
        leaves = [self.leaf(value) for value in values]
        self.backward(function(*leaves))
        return [float(x.grad) for x in leaves]


def _derivative(y: tensor.Tensor, x: tensor.Tensor, create_graph: bool = False) -> Any:
    return tensor.grad(y, x, retain_graph=True, create_graph=create_graph)[0]


ENGINES: Final = (
    Engine("micro", micro, micro.Value, lambda y: y.backward(), micro.grad),
    Engine(
        "tensor",
        tensor,
        lambda value: tensor.Tensor(value, "float64", requires_grad=True),
        lambda y: y.backward(retain_graph=True),
        _derivative,
    ),
)

each_engine = pytest.mark.parametrize("engine", ENGINES, ids=lambda engine: engine.name)
