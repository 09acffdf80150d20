"""Choosing and writing elements, in PyTorch's forms: methods and functions at once.

The ops of these names take their operands first and ``dim`` after; PyTorch has ``dim`` in the
middle.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from .methods import Methods, recorded

if TYPE_CHECKING:
    import builtins
    from collections.abc import Sequence

    from .tensor import Tensor

__all__ = [
    "Ranking",
    "gather",
    "index_add",
    "index_put",
    "index_select",
    "nonzero",
    "scatter",
    "scatter_add",
]


class Ranking(NamedTuple):
    """Elements in order along a dimension, and where each was found."""

    values: Tensor
    indices: Tensor


class Selection(Methods):
    """The part of Tensor that chooses elements; nothing here changes it.

    Where a place is written to several times, the last value for it remains, and it alone has a
    gradient. What was overwritten has the gradient 0.

    Raises (all of them):
        IndexError: an index below 0 or too large, or not an integer; ``dim`` out of range.
        ShapeError: shapes that do not fit.
        RuntimeError: a mask that is not bool.
    """

    def gather(self, dim: int, index: Any) -> Tensor:
        """Return the elements that ``index`` names along ``dim``, in the shape of ``index``.

        ``out[i][j][k] = self[i][index[i][j][k]][k]`` for ``dim`` 1. ``index`` has as many
        dimensions as the tensor, and may be shorter in the others.
        """
        return recorded("gather")(self, index, dim)

    def scatter(self, dim: int, index: Any, src: Any) -> Tensor:
        """Return a copy with ``src``, a Tensor or a number, written at ``index`` along ``dim``.

        ``out[i][index[i][j][k]][k] = src[i][j][k]`` for ``dim`` 1. ``src`` is at least as long as
        ``index`` in every dimension; what is longer is not used.
        """
        return recorded("scatter")(self, index, src, dim)

    def scatter_add(self, dim: int, index: Any, src: Any) -> Tensor:
        """Return a copy with ``src`` added at ``index`` along ``dim``, as often as it repeats."""
        return recorded("scatter_add")(self, index, src, dim)

    def index_select(self, dim: int, index: Any) -> Tensor:
        """Return the slices along ``dim`` that ``index``, a row of integers, names."""
        return recorded("index_select")(self, index, dim)

    def index_add(self, dim: int, index: Any, source: Any, *, alpha: float = 1) -> Tensor:
        """Return a copy with slices of ``alpha * source`` added at ``index`` along ``dim``."""
        return recorded("index_add")(self, index, source, dim, alpha)

    def index_put(
        self, indices: Sequence[Any], values: Any, accumulate: builtins.bool = False
    ) -> Tensor:
        """Return a copy with ``values`` at ``indices``, a tuple of Tensors; or added there."""
        return recorded("index_put")(self, values, indices, accumulate)

    def nonzero(self, *, as_tuple: builtins.bool = False) -> Any:
        """Return where the elements are not 0: (how many, dimensions), or a row per dimension."""
        places = recorded("nonzero")(self)
        if not as_tuple:
            return places
        return tuple(places[:, d].clone() for d in range(places.shape[1]))


gather = Selection.gather
index_add = Selection.index_add
index_put = Selection.index_put
index_select = Selection.index_select
nonzero = Selection.nonzero
scatter = Selection.scatter
scatter_add = Selection.scatter_add
