"""Rules of products."""

from __future__ import annotations

import math
from typing import Any

from ..subscripts import parse
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
vjp("outer", a=lambda xp, g, b: xp.matmul(g, b), b=lambda xp, g, a: xp.matmul(a, g))


# A sum of products is linear in each operand, and the gradient of one is the sum of the products
# of g with all others: an einsum in which the operand and the result have changed places.


def _einsum(
    xp: Any,
    g: Any,
    needs: list[bool],
    shapes: list[tuple[int, ...]],
    others: list[Any],
    equation: str,
) -> list[Any]:
    terms, out, lengths, _ = parse(equation, tuple(shapes))
    gradients: list[Any] = []
    for i, need in enumerate(needs):
        if not need:
            gradients.append(None)
            continue
        factors, names = [g, *others[:i], *others[i + 1 :]], [out, *terms[:i], *terms[i + 1 :]]
        own = dict(zip(terms[i], shapes[i], strict=True))
        known = {c for c in own if own[c] == lengths[c] and any(c in name for name in names)}
        kept = "".join(c for c in own if c in known)
        product = xp.einsum(factors, f"{','.join(names)}->{kept}")
        # Along what the operand alone has, all its elements have the same gradient.
        found = iter(product.shape)
        shape = tuple(next(found) if c in known else 1 for c in own)
        if shape != product.shape:
            product = xp.reshape(product, shape)
        if shape != tuple(own.values()):
            product = xp.expand(product, tuple(own.values()))
        gradients.append(_on_diagonals(xp, product, terms[i]))
    return gradients


def _on_diagonals(xp: Any, x: Any, term: str) -> Any:
    """Return zeros with ``x``, which has every index of ``term`` once, where equal ones are."""
    letters = list(dict.fromkeys(term))
    for c in letters:
        for _ in range(term.count(c) - 1):
            at = letters.index(c)
            x = xp.permute(x, (*range(at), *range(at + 1, len(letters)), at))
            x = xp.diagonal_adjoint(x, (*x.shape, x.shape[-1]), 0, -2, -1)
            letters = [*letters[:at], *letters[at + 1 :], c, c]
    if letters == list(term):
        return x
    places = {c: [d for d, letter in enumerate(letters) if letter == c] for c in term}
    return xp.permute(x, tuple(places[c].pop() for c in term))


vjp("einsum", tensors=_einsum)


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
