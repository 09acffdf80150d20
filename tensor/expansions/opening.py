"""One node of a graph of arrays, opened: what it does number by number."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np

from micro.value import OPS as SCALAR_OPS
from micro.value import Value

from ..graph import Array, Constant, Edge, Node
from ..scalarize import LIMIT, expand, labelled, operand_name, wrapped
from .scalars import Scalars, array_of

__all__ = ["opened"]


def opened(node: Node, g: Any = None, limit: int | None = None) -> Array:
    """Return the Values of a node's result, made by micro from the numbers of its operands.

    Every element of a floating operand becomes a Value, whose label is that of the operand, or
    what the op calls it, and its index: ``weight[0,1]``. With ``g``, the gradient of the node, a
    backward pass of micro's is run, so that every Value has its share of the gradient. The other
    uses of an operand have no part in it.

    Args:
        node: made in ``record_details()``; else the record must have kept the numbers of every
            operand for a rule.
        g: numbers of the node's shape, or None.
        limit: the largest number of Values to make.

    Raises:
        RuntimeError: the numbers of an operand were not kept, or have been changed or freed since.
        TooManyValuesError: more than ``limit`` Values would be needed.
        NotImplementedError: an op outside the vocabulary.
    """
    m = Scalars(float, LIMIT if limit is None else limit)
    stands: dict[int, Any] = {}
    values: dict[int, Array] = {}
    for i, edge in enumerate(node.inputs):
        if isinstance(edge, Constant) and edge.is_missing:
            stands[id(edge)] = edge
        elif id(edge) not in stands:
            array = _numbers(node, i, edge)
            if array.dtype.kind == "f":
                stands[id(edge)] = stand = object()
                name = edge.label or operand_name(node, i)
                values[id(stand)] = labelled(m, array, name, f"the operands of {node.op}")
            else:
                stands[id(edge)] = Constant(array.shape, array.dtype, None, None, array)
    inputs = tuple(stands[id(edge)] for edge in node.inputs)
    same = SimpleNamespace(
        op=node.op, inputs=inputs, attrs=node.attrs, shape=node.shape, dtype=node.dtype
    )
    expand(m, [same], values)
    out = wrapped(values[id(same)])
    out = out if node.shape else array_of([out], ())
    if g is not None:
        _send(out, np.broadcast_to(np.asarray(g), node.shape))
    for index in np.ndindex(node.shape):
        value: Any = out[index]
        if value.inputs and not value.label:
            value.label = f"out[{','.join(map(str, index))}]" if index else "out"
    return out


def _send(out: Array, g: Array) -> None:
    """Run micro's backward pass from the elements of ``out``, each with its gradient in ``g``."""
    total: Any = None
    for value, share in zip(out.flat, g.reshape(-1).tolist(), strict=True):
        term = SCALAR_OPS["mul"](value, float(share))
        total = term if total is None else SCALAR_OPS["add"](total, term)
    if isinstance(total, Value):
        total.backward()


def _numbers(node: Node, i: int, edge: Edge) -> Array:
    """Return the numbers of an operand.

    Raises:
        RuntimeError: they were not kept.
    """
    kept = node.intact(operand_name(node, i))
    if kept is not None:
        return kept
    if isinstance(edge, Constant):
        found = edge.array if edge.value is None else np.asarray(edge.value, edge.dtype)
    else:
        found = edge.data
    if found is None:
        raise RuntimeError(
            f"scalarize: the record does not keep the numbers of {operand_name(node, i)} of "
            f"{node.op}, of shape {edge.shape}; compute it within record_details(), or draw the "
            "function that computes it, draw(fn, *args)"
        )
    return found
