"""How far rounding can move a result: a tolerance that follows from the computation itself.

Every op rounds its result, by at most a few units u of its relative precision, and what it is given
has been rounded before. To the first order, the error of a result y is therefore at most

    c u B,    B = sum over every op v on the way to y of  |v| * (sum over paths from v to y of the
                                                           absolute product of the derivatives),

where c says how many u an op may be off. One pass over the graph from the leaves up gives B:

    B(v) = |v| + sum over inputs x of |dv/dx| B(x),       B(leaf) = 0.

A gradient is a computation like any other (``micro`` records it), and so is a second derivative:
the same pass bounds all three. Two refinements make B hold for engines that compute the same
thing by another formula:

- Sums may be taken in another order, and factors multiplied out. In place of |v| stands what v
  would be if every number in sums and products were replaced by its absolute value.
- Derivatives may be computed through identities such as 1 - tanh^2, or exp(a) = expm1(a) + 1, in
  which numbers of size 1 cancel. For functions that are not arithmetic, |v| is at least 1.

c is the product of

    2   u per unit in the last place,
    4   units in the last place, which numpy promises of its vectorised functions,
    4   ops that an engine may use where ``micro`` uses one (a fused kernel's shift by the maximum,
        the scaling of a mean, the factors of a derivative),
    2   engines that are off, each to its own side.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, Final

import numpy as np

from micro.value import CONSTANT, PARTIALS, Value

__all__ = ["DETACHED", "UNIT", "C", "bound_of", "bounds"]

C: Final = 2 * 4 * 4 * 2

# The label of ``where(True, constant, x)``, in which the constant is as inexact as x.
DETACHED: Final = "detached"

UNIT: Final = {"float64": 2.0**-53, "float32": 2.0**-24}


def _order(roots: Iterable[Value]) -> list[Value]:
    """The roots and all that they were computed from, every node after its inputs."""
    order: list[Value] = []
    seen: set[int] = set()
    stack: list[Any] = list(roots)
    while stack:
        node = stack.pop()
        if type(node) is tuple:
            order.append(node[0])
        elif id(node) not in seen:
            seen.add(id(node))
            stack.append((node,))
            stack.extend(node.inputs)
    return order


def bounds(roots: Iterable[Value]) -> dict[int, float]:
    """B of every root and of all that it was computed from, by ``id``."""
    size: dict[int, float] = {}  # with absolute values in place of all numbers
    bound: dict[int, float] = {}
    for v in _order(roots):
        key, op, inputs, value = id(v), v.op, v.inputs, abs(v.data)
        if not inputs:
            size[key], bound[key] = value, value if op == CONSTANT else 0.0
            continue
        if op in ("add", "sub"):
            a, b = id(inputs[0]), id(inputs[1])
            s = size[a] + size[b]
            total = s + bound[a] + bound[b]
        elif op == "mul":
            a, b = id(inputs[0]), id(inputs[1])
            s = size[a] * size[b]
            total = s + abs(inputs[1].data) * bound[a] + abs(inputs[0].data) * bound[b]
        elif op == "neg":
            a = id(inputs[0])
            s, total = size[a], bound[a]
        else:
            data = [x.data for x in inputs]
            if op == "div":
                s = size[id(inputs[0])] / abs(data[1]) if data[1] else math.inf
            elif op == "square":
                s = size[id(inputs[0])] ** 2
            elif op in _CHOICES:
                s = value
            else:
                s = max(value, 1.0)
            total = s
            for x, partial in zip(inputs, PARTIALS[op], strict=True):
                if bound[id(x)]:
                    d = partial if isinstance(partial, int) else partial(*data, **v.attrs)
                    if d:
                        total += abs(d) * bound[id(x)]
            if v.label == DETACHED:
                total = s + bound[id(inputs[2])]
        size[key], bound[key] = s, total
    return bound


# What gives back an operand, rounding nothing.
_CHOICES: Final = {"maximum", "minimum", "where", "relu", "abs", "clip", "sign"}


def bound_of(array: Any, found: dict[int, float]) -> np.ndarray[Any, Any]:
    """The bounds of an array of Values, 0 where there is none."""
    flat = [found[id(v)] if isinstance(v, Value) else 0.0 for v in array.flat]
    return np.array(flat, np.float64).reshape(array.shape)
