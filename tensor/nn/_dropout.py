"""Dropout: zeros at random places, in training."""

from __future__ import annotations

from ..arguments import check_number
from ..random import Generator
from ..tensor import Tensor
from . import functional
from ._module import Module

__all__ = ["Dropout", "Dropout2d"]


class Dropout(Module):
    """In training, each element is 0 with probability ``p`` and otherwise scaled by 1/(1-p).

    In evaluation, the input itself.

    Args:
        p: the probability, in [0, 1].
        generator: draws the places; by default the default one.

    Source: Srivastava et al., 2014, JMLR 15.

    Raises:
        ValueError: ``p`` is outside [0, 1].
    """

    def __init__(self, p: float = 0.5, *, generator: Generator | None = None) -> None:
        check_number("Dropout: p", p)
        if not 0 <= p <= 1:
            raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")
        self.p = p
        self.generator = generator

    def forward(self, input: Tensor) -> Tensor:
        """Return ``input`` with elements dropped, of its shape."""
        return functional.dropout(input, self.p, self.training, self.generator)

    def extra_repr(self) -> str:
        """Return the probability, in PyTorch's text."""
        return f"p={self.p}, inplace=False"


class Dropout2d(Dropout):
    """As ``Dropout``, but whole planes of (N, C, H, W) become 0 together.

    Source: Tompson et al., 2015, arXiv:1411.4280.
    """

    def forward(self, input: Tensor) -> Tensor:
        """Return ``input`` with planes dropped, of its shape."""
        return functional.dropout2d(input, self.p, self.training, self.generator)
