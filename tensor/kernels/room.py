"""Where kernels get their memory from: the system, or what a planned program has set aside.

A kernel that takes a ``room`` asks it for all arrays that it needs in between, by name, and one
that takes ``into`` writes its result there. So what runs in a replay is what runs anywhere else,
and allocates nothing from the second time on.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

from ..graph import Array

__all__ = ["Memory", "Room", "aligned", "contiguous", "fresh", "zeros"]

# Called with a name, a shape and a dtype; returns an array whose elements are anything. An array
# of one name may be that of the last time, so a kernel asks anew only when it is done with it.
Memory: TypeAlias = Callable[[str, tuple[int, ...], Any], Array]


def fresh(name: str, shape: tuple[int, ...], dtype: Any) -> Array:
    """Return an array of its own."""
    return np.empty(shape, dtype)


def aligned(count: int, dtype: Any) -> Array:
    """Return ``count`` numbers that begin at a multiple of 64 bytes; it is the base of its views.

    A vector of 64 bytes that begins elsewhere lies in two cache lines.
    """
    memory = np.empty(count * np.dtype(dtype).itemsize + 64, np.uint8)
    return np.frombuffer(memory.data, dtype, count, -memory.ctypes.data % 64)


class Room:
    """Scratch memory of one instruction, made when it is first asked for."""

    def __init__(self) -> None:
        self._arrays: dict[Any, Array] = {}

    def __call__(self, name: str, shape: tuple[int, ...], dtype: Any) -> Array:
        """Return the array of that name, shape and dtype; its elements are left as they are."""
        key = name, shape, np.dtype(dtype)
        if key not in self._arrays:
            self._arrays[key] = np.empty(shape, dtype)
        return self._arrays[key]

    def counted(self, count: int) -> Array:
        """Return the integers from 0 to ``count``."""
        key = "counted", (count,), np.dtype(np.int64)
        if key not in self._arrays:
            self._arrays[key] = np.arange(count, dtype=np.int64)
        return self._arrays[key]

    def filled(self, name: str, shape: tuple[int, ...], dtype: Any, value: float) -> Array:
        """Return the array of that name, all of one value."""
        array = self(name, shape, dtype)
        array.fill(value)
        return array


def zeros(room: Memory, name: str, shape: tuple[int, ...], dtype: Any) -> Array:
    """Return an array of zeros."""
    array = room(name, shape, dtype)
    array.fill(0)
    return array


def contiguous(room: Memory, name: str, a: Array) -> Array:
    """Return ``a`` if it lies in memory in order, or a copy that does."""
    if a.flags.c_contiguous:
        return a
    copy = room(name, a.shape, a.dtype)
    np.copyto(copy, a)
    return copy
