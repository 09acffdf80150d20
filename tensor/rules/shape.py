"""Rules of what moves elements, copies them or changes their type."""

from __future__ import annotations

import itertools
from typing import Any

from ..shapes import integers
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

# Rearranged.


def _roll(xp: Any, g: Any, shifts: int | tuple[int, ...], dims: Any) -> Any:
    return xp.roll(g, tuple(-n for n in integers("shifts", shifts)), dims)


def _repeat(xp: Any, g: Any, a_shape: tuple[int, ...], repeats: int | tuple[int, ...]) -> Any:
    counts = integers("repeats", repeats)
    if not counts:
        return g
    full = (1,) * (len(counts) - len(a_shape)) + a_shape
    pairs = tuple(n for pair in zip(counts, full, strict=True) for n in pair)
    copies = tuple(range(0, len(pairs), 2))
    return xp.reshape(xp.sum(xp.reshape(g, pairs), copies), a_shape)


vjp("flip", a=lambda xp, g, dims: xp.flip(g, dims))
vjp("roll", a=_roll)
vjp("repeat", a=_repeat)
vjp("pad", a=lambda xp, g, pad: xp.pad(g, tuple(-n for n in pad)))

# Parts.

vjp("tril", a=lambda xp, g, diagonal: xp.tril(g, diagonal))
vjp("triu", a=lambda xp, g, diagonal: xp.triu(g, diagonal))


def _diagonal(xp: Any, g: Any, a_shape: tuple[int, ...], offset: int, dim1: int, dim2: int) -> Any:
    return xp.diagonal_adjoint(g, a_shape, offset, dim1, dim2)


def _unfold(xp: Any, g: Any, a_shape: tuple[int, ...], dim: int, size: int, step: int) -> Any:
    return xp.unfold_adjoint(g, a_shape, dim, size, step)


vjp("diagonal", a=_diagonal)
vjp(
    "diagonal_adjoint",
    a=lambda xp, g, offset, dim1, dim2: xp.diagonal(g, offset, dim1, dim2),
)
vjp("unfold", a=_unfold)
vjp("unfold_adjoint", a=lambda xp, g, dim, size, step: xp.unfold(g, dim, size, step))
