"""Arithmetic on shapes and dimensions, and the errors it can find."""

from __future__ import annotations

from typing import Any

from .errors import ShapeError

__all__ = ["axes", "axis", "integers", "is_basic", "reduced", "size"]


def axis(dim: Any, ndim: int, *, what: str = "") -> int:
    """Return ``dim`` counted from the front; a 0-d tensor counts as having one dimension.

    ``what`` is whose dimension it is, for messages; kernels need not say.

    Raises:
        TypeError: not an integer.
        IndexError: out of range.
    """
    prefix = f"{what}: " if what else ""
    if isinstance(dim, bool) or not hasattr(dim, "__index__"):
        raise TypeError(f"{prefix}dim must be an integer, got {dim!r}")
    number = int(dim.__index__())
    limit = max(ndim, 1)
    if not -limit <= number < limit:
        raise IndexError(
            f"{prefix}dim {number} is out of range for {ndim} dimensions; "
            f"it must lie in [{-limit}, {limit - 1}]"
        )
    return number % limit


def axes(dim: Any, ndim: int, *, what: str = "") -> tuple[int, ...]:
    """Return ``dim``, an integer, several or None for all, as a tuple counted from the front.

    ``what`` is whose dimensions they are, for messages; kernels need not say.

    Raises:
        ShapeError: a dimension is named twice.
    """
    if dim is None:
        return tuple(range(ndim))
    given = tuple(dim) if isinstance(dim, (tuple, list)) else (dim,)
    found = tuple(axis(d, ndim, what=what) for d in given)
    if len(set(found)) != len(found):
        raise ShapeError(f"{f'{what}: ' if what else ''}dim {given} names a dimension twice")
    return found if ndim else ()


def reduced(dim: Any, ndim: int) -> tuple[int, ...]:
    """Return the dimensions that a reduction over ``dim`` removes; all for None and for ().

    Raises:
        ShapeError: a dimension is named twice.
    """
    empty = isinstance(dim, (tuple, list)) and not dim
    return axes(None if empty else dim, ndim)


def size(shape: Any, lowest: int = 0, *, what: str = "") -> tuple[int, ...]:
    """Return a shape given as an integer or a sequence of them as a tuple.

    ``what`` is whose shape it is, for messages; kernels need not say.

    Raises:
        TypeError: an entry is not an integer.
        ShapeError: an entry is below ``lowest``.
    """
    entries = tuple(shape) if isinstance(shape, (tuple, list)) else (shape,)
    prefix = f"{what}: " if what else ""
    for entry in entries:
        if isinstance(entry, bool) or not hasattr(entry, "__index__"):
            raise TypeError(f"{prefix}a shape consists of integers, got {entry!r}")
    lengths = tuple(int(entry.__index__()) for entry in entries)
    if any(length < lowest for length in lengths):
        raise ShapeError(f"{prefix}the lengths in shape {lengths} must be at least {lowest}")
    return lengths


def integers(name: str, value: Any) -> tuple[int, ...]:
    """Return an integer or a sequence of them, the argument ``name``, as a tuple.

    Raises:
        TypeError: it is neither.
    """
    entries = tuple(value) if isinstance(value, (tuple, list)) else (value,)
    if any(isinstance(entry, bool) or not hasattr(entry, "__index__") for entry in entries):
        raise TypeError(f"{name} must be an integer or a sequence of them, got {value!r}")
    return tuple(int(entry.__index__()) for entry in entries)


def is_basic(index: Any) -> bool:
    """Return whether an index gives a view: whether there are no arrays in it."""
    parts = index if isinstance(index, tuple) else (index,)
    return all(
        part is None or part is ... or type(part) is int or isinstance(part, slice)
        for part in parts
    )
