"""Rules of indexing: the adjoint of reading is adding, of every element as often as it was read."""

from __future__ import annotations

from typing import Any

from ..kernels import scatter
from .table import vjp


def _summed(xp: Any, g: Any, shape: tuple[int, ...]) -> Any:
    """Return ``g`` summed over what broadcasting from ``shape`` has repeated."""
    extra = len(g.shape) - len(shape)
    dims = tuple(
        k for k, n in enumerate(g.shape) if k < extra or (shape[k - extra] == 1 and n != 1)
    )
    g = xp.sum(g, dims, True) if dims else g
    return xp.reshape(g, shape) if tuple(g.shape) != tuple(shape) else g


def _setitem_value(
    xp: Any, g: Any, index: Any, accumulate: bool, a_shape: Any, value_shape: Any
) -> Any:
    g = xp.getitem(g, index)
    if not accumulate and scatter.may_repeat(index):
        # What is read from the places again is what was written last.
        numbers = scatter.counted(tuple(g.shape))
        places = xp.setitem(scatter.counted(a_shape), numbers, index)
        g = xp.where(xp.eq(xp.getitem(places, index), numbers), g, 0.0)
    return _summed(xp, g, value_shape)


def _scatter_src(xp: Any, g: Any, index: Any, dim: int, a_shape: Any, src_shape: Any) -> Any:
    g = xp.gather(g, index, dim)
    numbers = scatter.counted(tuple(g.shape))
    places = xp.scatter(scatter.counted(a_shape), index, numbers, dim)
    g = xp.where(xp.eq(xp.gather(places, index, dim), numbers), g, 0.0)
    if not src_shape:
        return xp.sum(g)
    if tuple(g.shape) == tuple(src_shape):
        return g
    corner = scatter.region(tuple(g.shape) or (1,))
    return xp.getitem_adjoint(g, corner, src_shape)


vjp("getitem", a=lambda xp, g, index, a_shape: xp.getitem_adjoint(g, index, a_shape))
vjp("getitem_adjoint", a=lambda xp, g, index: xp.getitem(g, index))
vjp(
    "setitem",
    a=lambda xp, g, index, accumulate: g if accumulate else xp.setitem(g, 0.0, index),
    value=_setitem_value,
)
vjp("gather", a=lambda xp, g, index, dim, a_shape: xp.gather_adjoint(g, index, dim, a_shape))
vjp("gather_adjoint", a=lambda xp, g, index, dim: xp.gather(g, index, dim))
vjp(
    "scatter",
    a=lambda xp, g, index, dim: xp.scatter(g, index, 0.0, dim),
    src=_scatter_src,
)
vjp(
    "index_select",
    a=lambda xp, g, index, dim, a_shape: xp.reshape(
        xp.index_select_adjoint(g, index, dim, a_shape[dim] if a_shape else 1), a_shape
    ),
)
vjp(
    "index_select_adjoint",
    a=lambda xp, g, index, dim, a_shape: xp.reshape(xp.index_select(g, index, dim), a_shape),
)
vjp(
    "embedding",
    weight=lambda xp, g, indices, weight_shape: xp.embedding_adjoint(g, indices, weight_shape[0]),
)
vjp("embedding_adjoint", a=lambda xp, g, indices: xp.embedding(g, indices))
