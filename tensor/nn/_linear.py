"""Linear: an affine map of the last dimension."""

from __future__ import annotations

import math
from typing import Any

from ..dtypes import float32
from ..random import Generator
from ..tensor import Tensor
from . import functional, init
from ._module import Module
from ._parameter import Parameter, empty_parameter

__all__ = ["Linear"]


class Linear(Module):
    """``input @ weight.T + bias``.

    Both start uniform in ``(-1/sqrt(in_features), 1/sqrt(in_features))``.

    Args:
        in_features: length of the input's last dimension.
        out_features: length of the output's last dimension.
        bias: whether there is a bias.
        dtype: of the parameters.
        generator: draws their first values; by default the default one.

    Shapes: input ``(..., in_features)``, output ``(..., out_features)``, weight
    ``(out_features, in_features)``, bias ``(out_features,)``.
    """

    bias: Parameter | None

    def __init__(
        self,
        in_features: int,
        out_features: int,
        bias: bool = True,
        *,
        dtype: Any = float32,
        generator: Generator | None = None,
    ) -> None:
        self.in_features = in_features
        self.out_features = out_features
        self.weight = empty_parameter("Linear", (out_features, in_features), dtype)
        self.bias = empty_parameter("Linear", out_features, dtype) if bias else None
        self.reset_parameters(generator)

    def reset_parameters(self, generator: Generator | None = None) -> None:
        """Draw the parameters anew."""
        init.kaiming_uniform_(self.weight, a=math.sqrt(5), generator=generator)
        if self.bias is not None:
            bound = 1 / math.sqrt(self.in_features) if self.in_features else 0.0
            init.uniform_(self.bias, -bound, bound, generator=generator)

    def forward(self, input: Tensor) -> Tensor:
        """Return the affine map of ``input`` (..., in_features)."""
        return functional.linear(input, self.weight, self.bias)

    def extra_repr(self) -> str:
        """Return the sizes and whether there is a bias."""
        return (
            f"in_features={self.in_features}, out_features={self.out_features}, "
            f"bias={self.bias is not None}"
        )
