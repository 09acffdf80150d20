"""Products of matrices, and sums of products."""

from __future__ import annotations

from typing import Any

from ..dispatch import Operand, kernel
from ..dtypes import check_floating
from ..errors import ShapeError
from ..kernels import contraction, reference

__all__ = ["einsum", "linear", "matmul", "outer"]


@kernel("strict")
def matmul(a: Operand, b: Operand) -> Any:
    """Return the matrix product, with batch dimensions broadcast.

    Shapes: ``(m, k) @ (k, n)`` is ``(m, n)``; ``(..., m, k) @ (..., k, n)``
    multiplies batches; a 1-D operand is a row on the left and a column on the
    right, and its dimension of length 1 is dropped from the result.

    Raises:
        ShapeError: the inner lengths differ, or an operand is 0-d.
        RuntimeError: the dtypes differ.
    """
    if a.ndim == 0 or b.ndim == 0:
        raise ShapeError("a 0-d operand cannot be multiplied as a matrix; use * instead")
    if a.shape[-1] != b.shape[max(-2, -b.ndim)]:
        raise ShapeError(
            f"the inner lengths must be equal, got {a.shape[-1]} and {b.shape[max(-2, -b.ndim)]}"
        )
    return reference.matmul(a, b)


@kernel("strict", fused=reference.linear_backward)
def linear(a: Operand, weight: Operand, bias: Operand = None, activation: str | None = None) -> Any:
    """Return ``activation(a @ weight.T + bias)`` in one step.

    Shapes: ``a`` is ``(..., in)``, ``weight`` ``(out, in)``, ``bias`` ``(out,)``
    or None; the result is ``(..., out)``. ``activation`` is None, "relu",
    "tanh" or "sigmoid".

    Raises:
        RuntimeError: an activation of operands that are not floating.
        ShapeError: lengths that do not fit.
        ValueError: an unknown activation.
    """
    if weight.ndim != 2 or a.ndim == 0 or a.shape[-1] != weight.shape[1]:
        raise ShapeError("a must be (..., in) and weight (out, in), with equal in")
    if bias is not None and bias.shape != weight.shape[:1]:
        raise ShapeError(f"bias must have shape {weight.shape[:1]}, got {bias.shape}")
    if activation is not None and activation not in reference.ACTIVATIONS:
        raise ValueError(
            f"activation must be None or one of {sorted(reference.ACTIVATIONS)}, got {activation!r}"
        )
    if activation is not None:
        check_floating("a", a)
    return reference.linear(a, weight, bias, activation)


@kernel("strict")
def einsum(tensors: Operand, equation: str) -> Any:
    """Return a sum of products, as ``equation`` writes it in Einstein's notation.

    Every letter names a dimension. Operands are multiplied where they have a
    letter in common, and summed over the letters that the result lacks:
    ``"ij,jk->ik"`` is a product of matrices, ``"ii->i"`` a diagonal, ``"ij->"``
    a sum. ``...`` stands for dimensions without names, which are broadcast. A
    length of 1 is repeated to that of the same letter elsewhere. Without
    ``->`` the result has ``...`` and then every letter that stands once, in
    alphabetical order. Of one operand of which nothing is summed it is a view.

    Raises:
        ShapeError: the equation is malformed, or does not fit the operands.
        RuntimeError: the dtypes differ.
        TypeError: the equation is not a string.
    """
    if not isinstance(equation, str):
        raise TypeError(f"equation must be a string such as 'ij,jk->ik', got {equation!r}")
    return contraction.einsum(tensors, equation)


@kernel()
def outer(a: Operand, b: Operand) -> Any:
    """Return every element of ``a`` (m,) times every one of ``b`` (n,), of shape (m, n).

    Raises:
        ShapeError: an operand has not one dimension.
    """
    for name, operand in (("a", a), ("b", b)):
        if operand.ndim != 1:
            raise ShapeError(f"{name} must have 1 dimension, got {operand.ndim}; flatten it")
    return a[:, None] * b
