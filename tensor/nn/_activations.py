"""Elementwise activations, and softmax."""

from __future__ import annotations

from ..tensor import Tensor
from . import functional
from ._module import Module

__all__ = ["GELU", "LogSoftmax", "ReLU", "Sigmoid", "Softmax", "Tanh"]


class ReLU(Module):
    """``max(x, 0)``, with the gradient 0 at 0."""

    def forward(self, input: Tensor) -> Tensor:
        """Return the activation of ``input``, of its shape."""
        return functional.relu(input)


class Tanh(Module):
    """``tanh(x)``."""

    def forward(self, input: Tensor) -> Tensor:
        """Return the activation of ``input``, of its shape."""
        return functional.tanh(input)


class Sigmoid(Module):
    """``1 / (1 + exp(-x))``."""

    def forward(self, input: Tensor) -> Tensor:
        """Return the activation of ``input``, of its shape."""
        return functional.sigmoid(input)


class GELU(Module):
    """``x`` times the normal distribution function at ``x``.

    Args:
        approximate: "none", or "tanh" for the approximation through tanh.

    Source: Hendrycks and Gimpel, 2016, arXiv:1606.08415.
    """

    def __init__(self, approximate: str = "none") -> None:
        self.approximate = approximate

    def forward(self, input: Tensor) -> Tensor:
        """Return the activation of ``input``, of its shape."""
        return functional.gelu(input, self.approximate)

    def extra_repr(self) -> str:
        """Return the approximation."""
        return f"approximate={self.approximate!r}"


class Softmax(Module):
    """``exp(x) / sum(exp(x))`` along ``dim``."""

    def __init__(self, dim: int) -> None:
        self.dim = dim

    def forward(self, input: Tensor) -> Tensor:
        """Return the probabilities, of the shape of ``input``."""
        return functional.softmax(input, self.dim)

    def extra_repr(self) -> str:
        """Return the dimension."""
        return f"dim={self.dim}"


class LogSoftmax(Module):
    """``x - log(sum(exp(x)))`` along ``dim``."""

    def __init__(self, dim: int) -> None:
        self.dim = dim

    def forward(self, input: Tensor) -> Tensor:
        """Return the logarithms of the probabilities, of the shape of ``input``."""
        return functional.log_softmax(input, self.dim)

    def extra_repr(self) -> str:
        """Return the dimension."""
        return f"dim={self.dim}"
