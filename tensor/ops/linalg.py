"""Products of matrices."""

from __future__ import annotations

from typing import Any

from ..dispatch import Operand, kernel
from ..dtypes import check_floating
from ..errors import ShapeError
from ..kernels import reference

__all__ = ["linear", "matmul"]


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
