"""Looking at a backward pass while it runs, for drawings and players."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from .dispatch import Op
from .engine import _seeds
from .graph import Array, Node
from .passes import Gradient, Pass
from .tensor import Tensor

__all__ = ["local_derivatives", "trace_backward"]


def trace_backward(tensor: Tensor, observe: Callable[..., object]) -> list[tuple[Tensor, Array]]:
    """Run a backward pass to be watched, which changes no ``grad`` and frees nothing.

    Each time that the pass has added a contribution to the gradient of an operand, ``observe(node,
    argument, operands=, rule=, given=, g=, local=, contribution=, total=)`` is called. Arrays are
    copies.

    * node, argument: the Node that passes its gradient on, and to which of its inputs;
    * operands: what its op calls its inputs;
    * rule, given: the pullback as it stands in ``tensor.rules``, and by name what it was given;
    * g, contribution: the gradient of node, and what the rule made of it for the operand;
    * local: None; it is the scalar engine that has local derivatives;
    * total: the gradient of the operand, as far as it has come.

    Hooks are called, as in every pass.

    Returns:
        Every leaf that ``backward`` reaches, with what it adds to the leaf's ``grad``.

    Raises:
        RuntimeError: as ``backward``.
    """
    seeds = _seeds("backward", [tensor], None)
    found = _WatchedPass([tensor], seeds, observe).run()
    return [(leaf, value) for leaf, value in found.values() if leaf.node is None]


def local_derivatives(node: Node) -> tuple[Any, ...]:
    """Return d result / d operand, where all are single numbers: what the rules make of g = 1.

    Returns:
        One number per operand, None for a constant one; nothing at all where the result or an
        operand has several elements, or what the rules need was freed.

    Raises:
        RuntimeError: an array that a rule needs was changed in place since.
    """
    if node.saved is None or any(math.prod(x.shape) != 1 for x in (node, *node.inputs)):
        return ()
    derivatives: list[Any] = [None] * len(node.inputs)

    def observe(node: Node, argument: int, *, contribution: Array, **said: Any) -> None:
        derivatives[argument] = contribution.item()

    _WatchedPass([], [], observe)._visit(node, np.ones(node.shape, node.dtype))
    return tuple(derivatives)


class _WatchedPass(Pass):
    """A pass that reports each contribution when it has been added."""

    def __init__(
        self, outputs: list[Tensor], seeds: list[Tensor | None], observe: Callable[..., object]
    ) -> None:
        self.observe = observe
        super().__init__(outputs, seeds, None, keep=True)
        self.anomaly, self.watched = self.watched, True

    def _look(
        self,
        op: Op,
        node: Node,
        i: int,
        gradient: Gradient,
        g: Gradient,
        values: Mapping[str, Any],
    ) -> None:
        if self.anomaly:
            super()._look(op, node, i, gradient, g, values)
        operand = op.operands[0 if op.variadic else i]
        rule = op.rules[operand] if op.fused is None else op.fused
        self.observe(
            node,
            i,
            operands=() if op.variadic else op.operands,
            rule=rule.function,
            given={name: _copied(values[name]) for name in rule.names},
            g=g.copy(),
            local=None,
            contribution=gradient.copy(),
            total=self.grads[id(node.inputs[i])].copy(),
        )


def _copied(value: Any) -> Any:
    return value.copy() if isinstance(value, np.ndarray) else value
