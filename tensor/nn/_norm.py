"""LayerNorm: mean 0 and variance 1 over the last dimensions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..dtypes import float32
from ..shapes import size
from ..tensor import Tensor
from . import functional, init
from ._module import Module
from ._parameter import Parameter, empty_parameter

__all__ = ["LayerNorm"]


class LayerNorm(Module):
    """``(x - mean) / sqrt(var + eps) * weight + bias`` over the last dimensions.

    The variance is the biased one. ``weight`` starts at 1 and ``bias`` at 0.

    Args:
        normalized_shape: the shape of those dimensions, or the length of one.
        eps: keeps the root away from 0.
        elementwise_affine: whether there are ``weight`` and ``bias``, of that shape.
        bias: whether there is ``bias``.
        dtype: of the parameters.

    Source: Ba, Kiros and Hinton, 2016, arXiv:1607.06450.
    """

    weight: Parameter | None
    bias: Parameter | None

    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        eps: float = 1e-5,
        elementwise_affine: bool = True,
        bias: bool = True,
        *,
        dtype: Any = float32,
    ) -> None:
        self.normalized_shape = size(normalized_shape, what="LayerNorm")
        self.eps = eps
        self.elementwise_affine = elementwise_affine
        shape, affine = self.normalized_shape, elementwise_affine
        self.weight = empty_parameter("LayerNorm", shape, dtype) if affine else None
        self.bias = empty_parameter("LayerNorm", shape, dtype) if affine and bias else None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Set ``weight`` to 1 and ``bias`` to 0."""
        if self.weight is not None:
            init.ones_(self.weight)
        if self.bias is not None:
            init.zeros_(self.bias)

    def forward(self, input: Tensor) -> Tensor:
        """Return ``input`` normalised, of its shape."""
        return functional.layer_norm(input, self.normalized_shape, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        """Return the shape, eps and which parameters there are."""
        return (
            f"{self.normalized_shape}, eps={self.eps}, "
            f"elementwise_affine={self.elementwise_affine}, bias={self.bias is not None}"
        )
