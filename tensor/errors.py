"""The exception classes that are ours."""

from __future__ import annotations

__all__ = ["NotOperandError", "ShapeError"]


class ShapeError(RuntimeError, ValueError):
    """Shapes that do not fit.

    A RuntimeError for those who come from PyTorch and a ValueError for those
    who come from numpy, so that either habit of catching it works.
    """


class NotOperandError(TypeError):
    """An operand is neither a Tensor nor an ndarray nor a number."""
