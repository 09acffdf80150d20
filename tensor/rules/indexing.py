"""Rules of indexing: reading adjoins to adding, once for every time an element was read."""

from __future__ import annotations

from .table import vjp

vjp("getitem", a=lambda xp, g, index, a_shape: xp.getitem_adjoint(g, index, a_shape))
vjp("getitem_adjoint", a=lambda xp, g, index: xp.getitem(g, index))
vjp(
    "embedding",
    weight=lambda xp, g, indices, weight_shape: xp.embedding_adjoint(g, indices, weight_shape[0]),
)
vjp("embedding_adjoint", a=lambda xp, g, indices: xp.embedding(g, indices))
