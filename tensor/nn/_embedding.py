"""Embedding: a table of rows, looked up by number."""

from __future__ import annotations

from typing import Any

from ..dtypes import float32
from ..modes import no_grad
from ..random import Generator
from ..tensor import Tensor
from . import functional, init
from ._module import Module
from ._parameter import empty_parameter

__all__ = ["Embedding"]


class Embedding(Module):
    """``weight[input]``: a row of numbers for every integer.

    The table starts normal with mean 0 and deviation 1; the padding row is 0.

    Args:
        num_embeddings: number of rows.
        embedding_dim: length of a row.
        padding_idx: a row that no gradient flows to; negative counts from the end.
        dtype: of the table.
        generator: draws its first values; by default the default one.

    Shapes: input ``(...)`` of integers, output ``(..., embedding_dim)``, weight
    ``(num_embeddings, embedding_dim)``.

    Raises:
        IndexError: ``padding_idx`` is out of range.
    """

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        padding_idx: int | None = None,
        *,
        dtype: Any = float32,
        generator: Generator | None = None,
    ) -> None:
        self.num_embeddings = num_embeddings
        self.embedding_dim = embedding_dim
        if padding_idx is not None:
            padding_idx = functional.row_number("Embedding", padding_idx, num_embeddings)
        self.padding_idx = padding_idx
        self.weight = empty_parameter("Embedding", (num_embeddings, embedding_dim), dtype)
        self.reset_parameters(generator)

    def reset_parameters(self, generator: Generator | None = None) -> None:
        """Draw the table anew."""
        init.normal_(self.weight, generator=generator)
        if self.padding_idx is not None:
            with no_grad():
                self.weight[self.padding_idx] = 0.0

    def forward(self, input: Any) -> Tensor:
        """Return the rows named by ``input``."""
        return functional.embedding(input, self.weight, self.padding_idx)

    def extra_repr(self) -> str:
        """Return the sizes and the padding row."""
        padding = "" if self.padding_idx is None else f", padding_idx={self.padding_idx}"
        return f"{self.num_embeddings}, {self.embedding_dim}{padding}"
