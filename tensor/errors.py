"""The one exception class that is ours: an error about shapes."""

from __future__ import annotations

__all__ = ["ShapeError"]


class ShapeError(RuntimeError, ValueError):
    """Shapes that do not fit.

    A RuntimeError for those who come from PyTorch and a ValueError for those
    who come from numpy, so that either habit of catching it works.
    """
