"""Rules of what moves elements, copies them or changes their type."""

from __future__ import annotations

import itertools
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


def _cat(xp: Any, g: Any, needs: list[bool], shapes: list[tuple[int, ...]], dim: int) -> list[Any]:
    axis = dim % len(shapes[0])
    ahead = (slice(None),) * axis
    ends = itertools.accumulate(shape[axis] for shape in shapes)
    return [
        xp.getitem(g, (*ahead, slice(end - shape[axis], end))) if need else None
        for need, shape, end in zip(needs, shapes, ends, strict=True)
    ]


def _stack(
    xp: Any, g: Any, needs: list[bool], shapes: list[tuple[int, ...]], dim: int
) -> list[Any]:
    ahead = (slice(None),) * (dim % (len(shapes[0]) + 1))
    return [xp.getitem(g, (*ahead, i)) if need else None for i, need in enumerate(needs)]


vjp("permute", a=_permute)
vjp("cat", tensors=_cat)
vjp("stack", tensors=_stack)
vjp("cast", a=lambda xp, g: g)
vjp("clone", a=lambda xp, g: g)
