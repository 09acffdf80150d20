"""Rules of products."""

from __future__ import annotations

import math
from typing import Any

from .table import RULES, anchored, vjp


def _rows(xp: Any, x: Any) -> Any:
    """Return ``x`` (..., k) as a matrix (rows, k)."""
    shape = x.shape
    return x if len(shape) == 2 else xp.reshape(x, (math.prod(shape[:-1]), shape[-1]))


def _matmul_a(xp: Any, g: Any, b: Any, a_shape: Any, b_shape: Any) -> Any:
    if len(b_shape) == 1:  # (..., m, k) @ (k) or (k) @ (k)
        return g * b if len(a_shape) == 1 else xp.unsqueeze(g, -1) * b
    if len(a_shape) == 1:  # (k) @ (..., k, n)
        return xp.squeeze(xp.matmul(b, xp.unsqueeze(g, -1)), -1)
    return xp.matmul(g, xp.transpose(b, -2, -1))


def _matmul_b(xp: Any, g: Any, a: Any, a_shape: Any, b_shape: Any) -> Any:
    if len(a_shape) == 1:  # (k) @ (..., k, n) or (k) @ (k)
        return g * a if len(b_shape) == 1 else xp.unsqueeze(a, -1) * xp.unsqueeze(g, -2)
    if len(b_shape) == 1:  # (..., m, k) @ (k)
        return xp.matmul(xp.transpose(_rows(xp, a), 0, 1), xp.reshape(g, (-1,)))
    if len(b_shape) == 2:  # one product for all batches, not one for each
        return xp.matmul(xp.transpose(_rows(xp, a), 0, 1), _rows(xp, g))
    return xp.matmul(xp.transpose(a, -2, -1), g)


vjp("matmul", a=_matmul_a, b=_matmul_b)


def _before(xp: Any, g: Any, out: Any, activation: str | None) -> Any:
    """Return the gradient before the activation that ``linear`` ends with."""
    if activation is None:
        return g
    g = RULES[activation]["a"](xp, g, out=out)
    return anchored(xp, g, out) if activation == "relu" else g


def _linear_a(xp: Any, g: Any, weight: Any, out: Any, activation: str | None) -> Any:
    return xp.matmul(_before(xp, g, out, activation), weight)


def _linear_weight(xp: Any, g: Any, a: Any, out: Any, activation: str | None) -> Any:
    g = _before(xp, g, out, activation)
    return xp.matmul(xp.transpose(_rows(xp, g), 0, 1), _rows(xp, a))


def _linear_bias(xp: Any, g: Any, out: Any, activation: str | None) -> Any:
    return _before(xp, g, out, activation)


vjp("linear", a=_linear_a, weight=_linear_weight, bias=_linear_bias)
