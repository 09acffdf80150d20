"""Choosing, writing and ordering elements, in PyTorch's forms: methods and functions at once.

The ops that they are made of take their operands first and ``dim`` after; PyTorch has ``dim`` in
the middle.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from .dtypes import as_array, check_bool
from .errors import ShapeError
from .methods import Methods, recorded
from .shapes import axis

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
    "masked_fill",
    "masked_select",
    "nonzero",
    "scatter",
    "scatter_add",
    "sort",
    "take_along_dim",
    "topk",
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

    def take_along_dim(self, indices: Any, dim: int | None = None) -> Tensor:
        """Return the elements that ``indices`` names along ``dim``, as ``argsort`` returns them.

        The other dimensions broadcast. Without ``dim`` both are flattened.
        """
        if dim is None:
            return recorded("gather")(
                recorded("reshape")(self, (-1,)), recorded("reshape")(indices, (-1,)), 0
            )
        a, places = _shape(self), _shape(indices)
        along = axis(dim, len(a), what="take_along_dim")
        if len(a) != len(places):
            raise ShapeError(f"take_along_dim: indices has shape {places}, but the tensor has {a}")
        common = _common("take_along_dim", _without(a, along), _without(places, along))
        whole, wanted = (
            (*common[:along], *shape[along : along + 1], *common[along:]) for shape in (a, places)
        )
        return recorded("gather")(_expanded(self, whole), _expanded(indices, wanted), dim)

    def scatter(self, dim: int, index: Any, src: Any) -> Tensor:
        """Return a copy with ``src``, a Tensor or a number, written at ``index`` along ``dim``.

        ``out[i][index[i][j][k]][k] = src[i][j][k]`` for ``dim`` 1. ``src`` is at least as long as
        ``index`` in every dimension; what is longer is not used.
        """
        return recorded("scatter")(self, index, src, dim)

    def scatter_add(self, dim: int, index: Any, src: Any) -> Tensor:
        """Return a copy with ``src`` added at ``index`` along ``dim``, as often as it repeats."""
        shape, wanted = _shape(index), _shape(src)
        if len(shape) != len(wanted) or any(n > m for n, m in zip(shape, wanted, strict=True)):
            raise ShapeError(f"scatter_add: src of shape {wanted} must cover index, {shape}")
        if shape != wanted:
            src = recorded("getitem")(src, tuple(slice(n) for n in shape))
        return recorded("add")(self, recorded("gather_adjoint")(src, index, dim, _shape(self)))

    def index_select(self, dim: int, index: Any) -> Tensor:
        """Return the slices along ``dim`` that ``index``, a row of integers, names."""
        return recorded("index_select")(self, index, dim)

    def index_add(self, dim: int, index: Any, source: Any, *, alpha: float = 1) -> Tensor:
        """Return a copy with slices of ``alpha * source`` added at ``index`` along ``dim``."""
        shape, wanted = _shape(source), _shape(self)
        along = axis(dim, len(wanted), what="index_add")
        if len(shape) != len(wanted) or _without(shape, along) != _without(wanted, along):
            raise ShapeError(
                f"index_add: source of shape {shape} must equal {wanted} but in dimension {along}"
            )
        scaled = source if alpha == 1 else recorded("mul")(source, alpha)
        length = wanted[along] if wanted else 1
        return recorded("add")(self, recorded("index_select_adjoint")(scaled, index, dim, length))

    def index_put(
        self, indices: Sequence[Any], values: Any, accumulate: builtins.bool = False
    ) -> Tensor:
        """Return a copy with ``values`` at ``indices``, a tuple of Tensors; or added there."""
        return recorded("setitem")(self, values, tuple(indices), accumulate)

    def masked_fill(self, mask: Any, value: Any) -> Tensor:
        """Return a copy with ``value``, one number, where ``mask`` is True; both broadcast."""
        _check_mask("masked_fill", mask)
        if _shape(value):
            raise ShapeError(f"masked_fill: value must be one number, got shape {_shape(value)}")
        filled = recorded("where")(mask, value, self)
        return recorded("cast")(filled, self.dtype) if filled.dtype != self.dtype else filled

    def masked_select(self, mask: Any) -> Tensor:
        """Return the elements where ``mask`` is True, in a row; both broadcast."""
        _check_mask("masked_select", mask)
        shape = _common("masked_select", _shape(self), _shape(mask))
        return recorded("getitem")(_expanded(self, shape), _expanded(mask, shape))

    def sort(
        self, dim: int = -1, descending: builtins.bool = False, stable: builtins.bool = False
    ) -> Ranking:
        """Return ``(values, indices)`` of the elements in order along ``dim``; NaN is the largest.

        Equal elements keep their order, ``stable`` or not.
        """
        indices = recorded("argsort")(self, dim, descending, stable)
        return Ranking(recorded("gather")(self, indices, dim), indices)

    def topk(
        self,
        k: int,
        dim: int = -1,
        largest: builtins.bool = True,
        sorted: builtins.bool = True,
    ) -> Ranking:
        """Return ``(values, indices)`` of the ``k`` largest elements along ``dim``, largest first.

        Or of the smallest, smallest first; as they stand unless ``sorted``. Of equal elements the
        first are taken, and come first. NaN is the largest.

        Raises:
            RuntimeError: ``k`` is negative or more than there are.
        """
        indices = recorded("topk_indices")(self, k, dim, largest, sorted)
        return Ranking(recorded("gather")(self, indices, dim), indices)

    def nonzero(self, *, as_tuple: builtins.bool = False) -> Any:
        """Return where the elements are not 0: (how many, dimensions), or a row per dimension."""
        places = recorded("nonzero")(self)
        if not as_tuple:
            return places
        return tuple(places[:, d].clone() for d in range(places.shape[1]))

    if TYPE_CHECKING:

        @property
        def data(self) -> np.typing.NDArray[Any]: ...
        @property
        def dtype(self) -> np.dtype[Any]: ...


def _shape(x: Any) -> tuple[int, ...]:
    return tuple(np.shape(x))


def _without(shape: tuple[int, ...], dim: int) -> tuple[int, ...]:
    return shape[:dim] + shape[dim + 1 :]


def _common(name: str, *shapes: tuple[int, ...]) -> tuple[int, ...]:
    try:
        return np.broadcast_shapes(*shapes)
    except ValueError as error:
        raise ShapeError(f"{name}: shapes {shapes[0]} and {shapes[1]} do not broadcast") from error


def _expanded(a: Any, shape: tuple[int, ...]) -> Any:
    return a if _shape(a) == shape else recorded("expand")(a, shape)


def _check_mask(name: str, mask: Any) -> None:
    array = mask.data if isinstance(mask, Selection) else as_array(mask, what=f"{name}: mask")
    check_bool(f"{name}: mask", array)


gather = Selection.gather
index_add = Selection.index_add
index_put = Selection.index_put
index_select = Selection.index_select
masked_fill = Selection.masked_fill
masked_select = Selection.masked_select
nonzero = Selection.nonzero
scatter = Selection.scatter
scatter_add = Selection.scatter_add
sort = Selection.sort
take_along_dim = Selection.take_along_dim
topk = Selection.topk
