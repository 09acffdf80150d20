"""Ops that combine the elements along dimensions."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

from ..dispatch import Operand, kernel
from ..errors import ShapeError
from ..kernels import reference
from ..shapes import axis, reduced

__all__ = ["argmax", "argmin", "logsumexp", "max", "mean", "min", "sum", "var"]

Dims: TypeAlias = int | tuple[int, ...] | None


@kernel()
def sum(a: Operand, dim: Dims = None, keepdim: bool = False) -> Any:
    """Return the sum over ``dim``, or over everything. The sum of nothing is 0."""
    return reference.sum(a, reduced(dim, a.ndim), keepdim)


@kernel("float")
def mean(a: Operand, dim: Dims = None, keepdim: bool = False) -> Any:
    """Return the mean over ``dim``, or over everything. The mean of nothing is NaN."""
    return reference.mean(a, reduced(dim, a.ndim), keepdim)


@kernel("float")
def var(a: Operand, dim: Dims = None, correction: float = 1, keepdim: bool = False) -> Any:
    """Return ``sum((a - mean(a))**2) / (n - correction)`` over ``dim``, or over everything.

    inf where ``n <= correction``, or NaN if the elements are equal.
    """
    return reference.var(a, reduced(dim, a.ndim), correction, keepdim)


@kernel()
def max(a: Operand, dim: int | None = None, keepdim: bool = False) -> Any:
    """Return the largest element, or the largest along ``dim``. NaN counts as largest.

    Over the whole tensor each of n equal winners gets 1/n of the gradient;
    along a dimension the first one gets it all.
    """
    return _extremum(np.max, a, dim, keepdim)


@kernel()
def min(a: Operand, dim: int | None = None, keepdim: bool = False) -> Any:
    """Return the smallest element, or the smallest along ``dim``; ties as for ``max``."""
    return _extremum(np.min, a, dim, keepdim)


@kernel()
def argmax(a: Operand, dim: int | None = None, keepdim: bool = False) -> Any:
    """Return the index of the first largest element, flat or along ``dim``."""
    return _extremum(np.argmax, a, dim, keepdim)


@kernel()
def argmin(a: Operand, dim: int | None = None, keepdim: bool = False) -> Any:
    """Return the index of the first smallest element, flat or along ``dim``."""
    return _extremum(np.argmin, a, dim, keepdim)


def _extremum(function: Any, a: Any, dim: int | None, keepdim: bool) -> Any:
    over = None if dim is None else axis(dim, a.ndim)
    if (a.size if over is None else a.shape[over] if a.ndim else 1) == 0:
        raise ShapeError("there is no largest or smallest of no elements")
    if a.ndim == 0:
        over = None
    return function(a, axis=over, keepdims=keepdim)


@kernel("float")
def logsumexp(a: Operand, dim: Dims, keepdim: bool = False) -> Any:
    """Return ``log(sum(exp(a)))`` over ``dim``, shifted by the maximum so that nothing overflows.

    -inf for a row that is -inf throughout; such elements get the gradient 0.
    """
    return reference.logsumexp(a, reduced(dim, a.ndim), keepdim)
