"""Modules that only rearrange, or do nothing."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ..errors import ShapeError
from ..shapes import axis
from ..tensor import Tensor
from ._module import Module

__all__ = ["Flatten", "Identity", "Unflatten"]


class Flatten(Module):
    """Dimensions ``start_dim`` to ``end_dim`` made into one; all but the first by default."""

    def __init__(self, start_dim: int = 1, end_dim: int = -1) -> None:
        self.start_dim = start_dim
        self.end_dim = end_dim

    def forward(self, input: Tensor) -> Tensor:
        """Return ``input`` with those dimensions joined."""
        return input.flatten(self.start_dim, self.end_dim)

    def extra_repr(self) -> str:
        """Return the first and last dimension that are joined."""
        return f"start_dim={self.start_dim}, end_dim={self.end_dim}"


class Unflatten(Module):
    """Dimension ``dim`` made into several, of the lengths ``unflattened_size``; one may be -1."""

    def __init__(self, dim: int, unflattened_size: Sequence[int]) -> None:
        self.dim = dim
        self.unflattened_size = tuple(unflattened_size)

    def forward(self, input: Tensor) -> Tensor:
        """Return ``input`` with that dimension divided.

        Raises:
            IndexError: there is no such dimension.
            ShapeError: its length is not the product of the new ones.
        """
        dim = axis(self.dim, input.ndim)
        # A -1 stands for what the dimension leaves, not for what the whole Tensor does.
        known = math.prod(n for n in self.unflattened_size if n != -1)
        sizes = [input.shape[dim] // max(known, 1) if n == -1 else n for n in self.unflattened_size]
        if math.prod(sizes) != input.shape[dim]:
            raise ShapeError(
                f"Unflatten: dimension {self.dim} of {input.shape} cannot be divided into "
                f"{self.unflattened_size}"
            )
        return input.reshape(*input.shape[:dim], *sizes, *input.shape[dim + 1 :])

    def extra_repr(self) -> str:
        """Return the dimension and its parts."""
        return f"dim={self.dim}, unflattened_size={self.unflattened_size}"


class Identity(Module):
    """The input, unchanged; arguments to the constructor are ignored."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        pass

    def forward(self, input: Tensor) -> Tensor:
        """Return ``input``."""
        return input
