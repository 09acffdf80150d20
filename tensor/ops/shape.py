"""Ops that rearrange elements, or change how they are stored."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..dispatch import Operand, kernel
from ..dtypes import as_dtype
from ..errors import ShapeError
from ..shapes import axes, axis, size

__all__ = [
    "cast",
    "cat",
    "clone",
    "expand",
    "flatten",
    "permute",
    "reshape",
    "squeeze",
    "stack",
    "transpose",
    "unsqueeze",
]


@kernel()
def reshape(a: Operand, shape: Sequence[int] | int) -> Any:
    """Return the same elements in another shape, a view where possible; one length may be -1.

    Raises:
        ShapeError: the number of elements would change.
    """
    lengths = size(shape, lowest=-1)
    if lengths.count(-1) > 1:
        raise ShapeError(f"only one length of shape {lengths} may be -1")
    known = math.prod(n for n in lengths if n != -1)
    fits = known > 0 and a.size % known == 0 if -1 in lengths else a.size == known
    if not fits:
        raise ShapeError(f"{a.size} elements of shape {a.shape} do not fit into shape {lengths}")
    return np.reshape(a, lengths)


@kernel()
def flatten(a: Operand, start_dim: int = 0, end_dim: int = -1) -> Any:
    """Return the tensor with dimensions ``start_dim`` to ``end_dim`` made into one.

    Raises:
        ShapeError: ``end_dim`` comes before ``start_dim``.
    """
    start, end = axis(start_dim, a.ndim), axis(end_dim, a.ndim)
    if end < start:
        raise ShapeError(f"end_dim {end_dim} comes before start_dim {start_dim}")
    middle = int(np.prod(a.shape[start : end + 1], dtype=np.int64))
    return a.reshape(*a.shape[:start], middle, *a.shape[end + 1 :])


@kernel()
def permute(a: Operand, dims: Sequence[int]) -> Any:
    """Return a view with the dimensions in the order ``dims``.

    Raises:
        ShapeError: ``dims`` does not name every dimension once.
    """
    if not isinstance(dims, (tuple, list)):
        raise TypeError(f"dims must be a sequence of integers, got {dims!r}")
    order = axes(dims, a.ndim)
    if len(order) != a.ndim:
        raise ShapeError(f"dims {tuple(dims)} must name each of {a.ndim} dimensions once")
    return np.transpose(a, order)


@kernel()
def transpose(a: Operand, dim0: int, dim1: int) -> Any:
    """Return a view with two dimensions exchanged."""
    first, second = axis(dim0, a.ndim), axis(dim1, a.ndim)
    return np.swapaxes(a, first, second) if a.ndim else a.view()


@kernel()
def squeeze(a: Operand, dim: int | Sequence[int] | None = None) -> Any:
    """Return a view without those of the dimensions ``dim`` (by default all) whose length is 1."""
    return np.squeeze(a, tuple(d for d in axes(dim, a.ndim) if a.shape[d] == 1))


@kernel()
def unsqueeze(a: Operand, dim: int) -> Any:
    """Return a view with a new dimension of length 1 at ``dim``."""
    return np.expand_dims(a, axis(dim, a.ndim + 1))


@kernel()
def expand(a: Operand, shape: Sequence[int] | int) -> Any:
    """Return a read-only view of ``shape``, repeating dimensions of length 1; -1 keeps a length.

    Raises:
        ShapeError: another length than 1 would have to change.
    """
    wanted = size(shape, lowest=-1)
    ahead = len(wanted) - a.ndim
    if ahead < 0:
        raise ShapeError(f"shape {wanted} has fewer dimensions than the tensor's {a.shape}")
    if any(n == -1 and i < ahead for i, n in enumerate(wanted)):
        raise ShapeError(f"-1 in shape {wanted} stands for a dimension that is not there yet")
    full = tuple(a.shape[i - ahead] if n == -1 else n for i, n in enumerate(wanted))
    if any(old not in (1, new) for old, new in zip(a.shape, full[ahead:], strict=True)):
        raise ShapeError(f"shape {a.shape} cannot be expanded to {wanted}")
    return np.broadcast_to(a, full)


@kernel()
def cat(tensors: Operand, dim: int = 0) -> Any:
    """Return tensors joined along an existing dimension.

    Raises:
        ShapeError: none given, or lengths of other dimensions differ.
    """
    if not tensors:
        raise ShapeError("expected at least one tensor")
    if tensors[0].ndim == 0:
        raise ShapeError("0-d tensors cannot be joined; use stack")
    return np.concatenate(tensors, axis(dim, tensors[0].ndim))


@kernel()
def stack(tensors: Operand, dim: int = 0) -> Any:
    """Return tensors of equal shape joined along a new dimension.

    Raises:
        ShapeError: none given, or the shapes differ.
    """
    if not tensors:
        raise ShapeError("expected at least one tensor")
    return np.stack(tensors, axis(dim, tensors[0].ndim + 1))


@kernel()
def cast(a: Operand, dtype: Any) -> Any:
    """Return a copy with another dtype; the gradient is cast back."""
    return a.astype(as_dtype(dtype))


@kernel()
def clone(a: Operand) -> Any:
    """Return a copy with memory of its own, through which gradients flow."""
    return a.copy()
