"""Elementwise activations, and softmax."""

from __future__ import annotations

from ..tensor import Tensor
from . import functional
from ._module import Module

__all__ = [
    "ELU",
    "GELU",
    "LeakyReLU",
    "LogSigmoid",
    "LogSoftmax",
    "ReLU",
    "SiLU",
    "Sigmoid",
    "Softmax",
    "Softplus",
    "Tanh",
]


class ReLU(Module):
    """``max(x, 0)``, with the gradient 0 at 0."""

    def forward(self, input: Tensor) -> Tensor:
        """Return the activation of ``input``, of its shape."""
        return functional.relu(input)


class LeakyReLU(Module):
    """``x`` where it is above 0, and ``negative_slope * x`` elsewhere.

    Source: Maas, Hannun and Ng, 2013, ICML workshop on deep learning for audio.
    """

    def __init__(self, negative_slope: float = 0.01) -> None:
        self.negative_slope = negative_slope

    def forward(self, input: Tensor) -> Tensor:
        """Return the activation of ``input``, of its shape."""
        return functional.leaky_relu(input, self.negative_slope)

    def extra_repr(self) -> str:
        """Return the slope."""
        return f"negative_slope={self.negative_slope}"


class ELU(Module):
    """``x`` where it is above 0, and ``alpha * (exp(x) - 1)`` elsewhere.

    Source: Clevert, Unterthiner and Hochreiter, 2015, arXiv:1511.07289.
    """

    def __init__(self, alpha: float = 1.0) -> None:
        self.alpha = alpha

    def forward(self, input: Tensor) -> Tensor:
        """Return the activation of ``input``, of its shape."""
        return functional.elu(input, self.alpha)

    def extra_repr(self) -> str:
        """Return the limit on the left."""
        return f"alpha={self.alpha}"


class SiLU(Module):
    """``x * sigmoid(x)``.

    Source: Hendrycks and Gimpel, 2016, arXiv:1606.08415.
    """

    def forward(self, input: Tensor) -> Tensor:
        """Return the activation of ``input``, of its shape."""
        return functional.silu(input)


class Softplus(Module):
    """``log(1 + exp(beta * x)) / beta``, and ``x`` where ``beta * x`` is above ``threshold``."""

    def __init__(self, beta: float = 1.0, threshold: float = 20.0) -> None:
        self.beta = beta
        self.threshold = threshold

    def forward(self, input: Tensor) -> Tensor:
        """Return the activation of ``input``, of its shape."""
        return functional.softplus(input, self.beta, self.threshold)

    def extra_repr(self) -> str:
        """Return the sharpness, and where the function becomes ``x``."""
        return f"beta={self.beta}, threshold={self.threshold}"


class LogSigmoid(Module):
    """``log(1 / (1 + exp(-x)))``."""

    def forward(self, input: Tensor) -> Tensor:
        """Return the activation of ``input``, of its shape."""
        return functional.logsigmoid(input)


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
