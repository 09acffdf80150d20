"""Modules that only rearrange, or do nothing."""

from __future__ import annotations

from typing import Any

from ..tensor import Tensor
from ._module import Module

__all__ = ["Flatten", "Identity"]


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


class Identity(Module):
    """The input, unchanged; arguments to the constructor are ignored."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        pass

    def forward(self, input: Tensor) -> Tensor:
        """Return ``input``."""
        return input
