"""Rules of what moves elements, copies them or changes their type."""

from __future__ import annotations

from typing import Any

from .table import vjp

vjp("reshape", a=lambda xp, g, a_shape: xp.reshape(g, a_shape))
vjp("flatten", a=lambda xp, g, a_shape: xp.reshape(g, a_shape))
vjp("squeeze", a=lambda xp, g, a_shape: xp.reshape(g, a_shape))
vjp("unsqueeze", a=lambda xp, g, a_shape: xp.reshape(g, a_shape))
vjp("transpose", a=lambda xp, g, dim0, dim1: xp.transpose(g, dim0, dim1))
vjp("expand", a=lambda xp, g: g)


def _permute(xp: Any, g: Any, dims: tuple[int, ...]) -> Any:
    inverse = [0] * len(dims)
    for position, dim in enumerate(dims):
        inverse[dim % len(dims)] = position
    return xp.permute(g, tuple(inverse))


def _cat(xp: Any, g: Any, i: int, shapes: list[tuple[int, ...]], dim: int) -> Any:
    axis = dim % len(shapes[0])
    start = sum(shape[axis] for shape in shapes[:i])
    part = slice(start, start + shapes[i][axis])
    return xp.getitem(g, (slice(None),) * axis + (part,))


def _stack(xp: Any, g: Any, i: int, shapes: list[tuple[int, ...]], dim: int) -> Any:
    return xp.getitem(g, (slice(None),) * (dim % (len(shapes[0]) + 1)) + (i,))


vjp("permute", a=_permute)
vjp("cat", tensors=_cat)
vjp("stack", tensors=_stack)
vjp("cast", a=lambda xp, g: g)
vjp("clone", a=lambda xp, g: g)
