"""Ops that combine the elements along dimensions."""

from __future__ import annotations

import math
from typing import Any, TypeAlias

import numpy as np

from ..arguments import check_number
from ..dispatch import Operand, kernel
from ..errors import ShapeError
from ..kernels import reference
from ..kernels.half import in_single
from ..shapes import axis, reduced

__all__ = [
    "all",
    "amax",
    "amin",
    "any",
    "argmax",
    "argmin",
    "cumprod",
    "cumsum",
    "logsumexp",
    "max",
    "mean",
    "min",
    "norm",
    "prod",
    "std",
    "sum",
    "var",
]

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
    check_number("correction", correction)
    return reference.var(a, reduced(dim, a.ndim), correction, keepdim)


@kernel("float")
def std(a: Operand, dim: Dims = None, correction: float = 1, keepdim: bool = False) -> Any:
    """Return the square root of ``var``; where that is 0, the gradient is 0."""
    check_number("correction", correction)
    return _std(a, reduced(dim, a.ndim), correction, keepdim)


@in_single
def _std(a: Any, over: tuple[int, ...], correction: float, keepdim: bool) -> Any:
    return np.sqrt(reference.var(a, over, correction, keepdim))


@kernel()
def prod(a: Operand, dim: int | None = None, keepdim: bool = False) -> Any:
    """Return the product along ``dim``, or of everything. The product of nothing is 1.

    The gradient multiplies the other elements and divides by none: zeros are like other numbers.
    """
    over = None if dim is None or (a.ndim == 0 and axis(dim, 0) == 0) else axis(dim, a.ndim)
    return _prod(a, over, keepdim)


@in_single
def _prod(a: Any, over: int | None, keepdim: bool) -> Any:
    return np.prod(a, axis=over, keepdims=keepdim, dtype=_accumulated(a))


@kernel("float")
def norm(a: Operand, p: float = 2, dim: Dims = None, keepdim: bool = False) -> Any:
    """Return the vector norm ``sum(|a|**p)**(1/p)`` over ``dim``, or over everything.

    With ``p`` inf the largest ``|a|``, with -inf the smallest, with 0 how many elements are not 0.
    The gradient is 0 where the norm is, and always for ``p`` 0.

    Raises:
        TypeError: ``p`` is not a number.
        ShapeError: ``p`` is inf or negative, and there are no elements.
    """
    if isinstance(p, bool) or not isinstance(p, (int, float, np.number)):
        raise TypeError(f"p must be a number, got {p!r}; 2 gives the Euclidean norm")
    over = reduced(dim, a.ndim)
    if (p == math.inf or p < 0) and math.prod(a.shape[d] for d in over) == 0:
        raise ShapeError(f"there is no norm with p = {p} of no elements")
    return reference.norm(a, float(p), over, keepdim)


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
def amax(a: Operand, dim: Dims = None, keepdim: bool = False) -> Any:
    """Return the largest element over ``dim``, or over everything. NaN counts as largest.

    Each of n equal winners gets 1/n of the gradient.
    """
    return _extreme(np.max, a, reduced(dim, a.ndim), keepdim)


@kernel()
def amin(a: Operand, dim: Dims = None, keepdim: bool = False) -> Any:
    """Return the smallest element over ``dim``, or over everything; ties as for ``amax``."""
    return _extreme(np.min, a, reduced(dim, a.ndim), keepdim)


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
    return _extreme(function, a, over if a.ndim else None, keepdim)


def _extreme(function: Any, a: Any, over: int | tuple[int, ...] | None, keepdim: bool) -> Any:
    if math.prod(a.shape[d] for d in reduced(over, a.ndim)) == 0:
        raise ShapeError("there is no largest or smallest of no elements")
    return function(a, axis=over, keepdims=keepdim)


@kernel()
def any(a: Operand, dim: Dims = None, keepdim: bool = False) -> Any:
    """Return whether an element is true over ``dim``, or over everything; of none, False."""
    return np.any(a, axis=reduced(dim, a.ndim), keepdims=keepdim)


@kernel()
def all(a: Operand, dim: Dims = None, keepdim: bool = False) -> Any:
    """Return whether all elements are true over ``dim``, or over everything; of none, True."""
    return np.all(a, axis=reduced(dim, a.ndim), keepdims=keepdim)


@kernel("float")
def logsumexp(a: Operand, dim: Dims, keepdim: bool = False) -> Any:
    """Return ``log(sum(exp(a)))`` over ``dim``, shifted by the maximum so that nothing overflows.

    -inf for a row that is -inf throughout; such elements get the gradient 0.
    """
    return reference.logsumexp(a, reduced(dim, a.ndim), keepdim)


@kernel()
def cumsum(a: Operand, dim: int) -> Any:
    """Return the sums of the elements up to and including each one along ``dim``."""
    return _accumulate(a, np.cumsum, axis(dim, a.ndim))


@kernel()
def cumprod(a: Operand, dim: int) -> Any:
    """Return the products of the elements up to and including each one along ``dim``.

    The gradient divides by no element: zeros are like other numbers.
    """
    return _accumulate(a, np.cumprod, axis(dim, a.ndim))


@in_single
def _accumulate(a: Any, function: Any, along: int) -> Any:
    row = a if a.ndim else a.reshape(1)
    return function(row, axis=along, dtype=_accumulated(a)).reshape(a.shape)


def _accumulated(a: Any) -> Any:
    return a.dtype if a.dtype.kind == "f" else np.int64
