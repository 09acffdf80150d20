"""Every op that ``micro`` does not have, spelled out in the ops that it has.

An expansion takes the namespace ``m`` (``Scalars``), and by name what else it asks for: operands
as ndarrays of Values and numbers, attributes, ``out_shape`` and ``out_dtype``. It is written from
the op's definition, not from the kernel, whose result it is compared with.

Ops that only move elements need one word here (``MOVES``), and their adjoints one line
(``ADJOINTS``): a kernel moves places as well as numbers.
Ops that no gradient flows through need nothing.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from micro.value import OPS

from ..graph import Array
from ..shapes import reduced
from .scalars import Scalars, array_of, numbers_of, per_row

__all__ = [
    "ADJOINTS",
    "EXPANSIONS",
    "MOVES",
    "Shape",
    "expansion",
    "log_softmax",
    "matmul",
    "mean",
    "shift_of",
    "var",
]

Shape = tuple[int, ...]
Dims = int | tuple[int, ...] | None

# Ops whose result holds elements of their operands, or zeros.
MOVES: Final = {
    *("reshape", "flatten", "permute", "transpose", "squeeze", "unsqueeze", "expand", "cat"),
    *("stack", "flip", "roll", "repeat", "tril", "triu", "diagonal", "unfold", "clone"),
    *("getitem", "gather", "scatter", "index_select", "embedding", "im2col"),
}

# Ops that give every element back to the place from which such an op would take it.
ADJOINTS: Final = {
    "diagonal_adjoint": "diagonal",
    "unfold_adjoint": "unfold",
    "getitem_adjoint": "getitem",
    "gather_adjoint": "gather",
    "index_select_adjoint": "index_select",
    "embedding_adjoint": "embedding",
    "col2im": "im2col",
}

EXPANSIONS: Final[dict[str, Callable[..., Array]]] = {}


def expansion(function: Callable[..., Array]) -> Callable[..., Array]:
    """Enter ``function`` as the expansion of the op of its name, but for a ``_`` at the end."""
    EXPANSIONS[function.__name__.removesuffix("_")] = function
    return function


# Reductions.


@expansion
def sum_(m: Scalars, a: Array, dim: Dims, keepdim: bool) -> Array:
    return m.sum(a, reduced(dim, a.ndim), keepdim)


@expansion
def mean(m: Scalars, a: Array, dim: Dims, keepdim: bool) -> Array:
    """Return the sum, divided by how many elements there are."""
    over = reduced(dim, a.ndim)
    return m.div(m.sum(a, over, keepdim), math.prod(a.shape[d] for d in over))


@expansion
def var(m: Scalars, a: Array, dim: Dims, correction: float, keepdim: bool) -> Array:
    """Return the mean squared distance from the mean, of which ``correction`` are not counted."""
    over = reduced(dim, a.ndim)
    squares = m.square(m.sub(a, mean(m, a, over, True)))
    freedom = max(math.prod(a.shape[d] for d in over) - correction, 0)
    return m.div(m.sum(squares, over, keepdim), freedom)


def _nothing_where_0(m: Scalars, a: Array) -> Array:
    """Return ``a`` with a constant in place of every Value that is 0, where no gradient flows."""
    return np.where(numbers_of(a) == 0, m.number(0.0), a)


@expansion
def std(m: Scalars, a: Array, dim: Dims, correction: float, keepdim: bool) -> Array:
    return m.sqrt(_nothing_where_0(m, var(m, a, dim, correction, keepdim)))


@expansion
def prod(m: Scalars, a: Array, dim: int | None, keepdim: bool) -> Array:
    m.reserve(a.size, "prod")
    return per_row(lambda row: _products(m, row)[-1], a, reduced(dim, a.ndim), keepdim)


def _products(m: Scalars, row: Array) -> list[Any]:
    """Return the products of the elements up to each; of none, 1."""
    products = list(itertools.accumulate(row, OPS["mul"]))
    return products or [m.number(1.0)]


def _sums(m: Scalars, row: Array) -> list[Any]:
    return list(itertools.accumulate(row, OPS["add"]))


def _accumulated(m: Scalars, a: Array, dim: int, function: Any) -> Array:
    m.reserve(a.size, "an accumulation")
    if a.size == 0 or a.ndim == 0:
        return a
    rows = np.moveaxis(a, dim, -1)
    items = [x for row in rows.reshape(-1, rows.shape[-1]) for x in function(m, row)]
    return np.moveaxis(array_of(items, rows.shape), -1, dim)


@expansion
def cumsum(m: Scalars, a: Array, dim: int) -> Array:
    return _accumulated(m, a, dim, _sums)


@expansion
def cumprod(m: Scalars, a: Array, dim: int) -> Array:
    return _accumulated(m, a, dim, _products)


def _mean_of_ties(m: Scalars, row: Array, choose: Any) -> Any:
    """Return the largest or smallest element of a row, to which equal ones contribute equally."""
    numbers = numbers_of(row)
    top = choose.reduce(numbers)
    ties = row[np.isnan(numbers) if np.isnan(top) else numbers == top]
    return ties[0] if len(ties) == 1 else m.div(m.sum(ties, (0,)), len(ties)).item()


def _first_of_ties(m: Scalars, row: Array, choose: Any) -> Any:
    numbers = numbers_of(row)
    top = choose.reduce(numbers)
    return row[np.argmax(np.isnan(numbers) if np.isnan(top) else numbers == top)]


def _extremum(m: Scalars, a: Array, dim: Dims, keepdim: bool, choose: Any, pick: Any) -> Array:
    return per_row(lambda row: pick(m, row, choose), a, reduced(dim, a.ndim), keepdim)


@expansion
def max_(m: Scalars, a: Array, dim: int | None, keepdim: bool) -> Array:
    pick = _mean_of_ties if dim is None else _first_of_ties
    return _extremum(m, a, dim, keepdim, np.maximum, pick)


@expansion
def min_(m: Scalars, a: Array, dim: int | None, keepdim: bool) -> Array:
    pick = _mean_of_ties if dim is None else _first_of_ties
    return _extremum(m, a, dim, keepdim, np.minimum, pick)


@expansion
def amax(m: Scalars, a: Array, dim: Dims, keepdim: bool) -> Array:
    return _extremum(m, a, dim, keepdim, np.maximum, _mean_of_ties)


@expansion
def amin(m: Scalars, a: Array, dim: Dims, keepdim: bool) -> Array:
    return _extremum(m, a, dim, keepdim, np.minimum, _mean_of_ties)


@expansion
def norm(m: Scalars, a: Array, p: float, dim: Dims, keepdim: bool) -> Array:
    sizes = m.abs(a)
    if math.isinf(p):
        return _nothing_where_0(m, (amax if p > 0 else amin)(m, sizes, dim, keepdim))
    if p == 0:
        sizes = np.where(numbers_of(a) == 0, m.number(0.0), m.number(1.0))
    elif p == 2:
        sizes = m.square(a)
    elif p != 1:
        sizes = m.pow(_nothing_where_0(m, sizes) if p < 2 else sizes, m.number(p))
    total = _nothing_where_0(m, m.sum(sizes, reduced(dim, a.ndim), keepdim))
    if p in (0, 1):
        return total
    return m.sqrt(total) if p == 2 else _nothing_where_0(m, m.pow(total, m.number(1 / p)))


def shift_of(m: Scalars, a: Array, over: Sequence[int]) -> Array:
    """Return the largest of every row, a constant, by which exponents are kept from overflowing."""
    top = numbers_of(a).max(axis=tuple(over), keepdims=True, initial=-np.inf)
    top = np.where(np.isfinite(top), top, 0.0)
    return array_of(map(m.number, top.reshape(-1).tolist()), top.shape)


@expansion
def logsumexp(m: Scalars, a: Array, dim: Dims, keepdim: bool) -> Array:
    over = reduced(dim, a.ndim)
    shift = shift_of(m, a, over)
    total = m.sum(m.exp(m.sub(a, shift)), over, True)
    out = m.add(m.log(total), shift)
    return out if keepdim else out.reshape([n for d, n in enumerate(out.shape) if d not in over])


@expansion
def softmax(m: Scalars, a: Array, dim: int) -> Array:
    over = reduced(dim, a.ndim)
    e = m.exp(m.sub(a, shift_of(m, a, over)))
    return m.div(e, m.sum(e, over, True))


@expansion
def log_softmax(m: Scalars, a: Array, dim: int) -> Array:
    """Return ``a`` less the logarithm of the summed exponentials."""
    return m.sub(a, logsumexp(m, a, dim, True))


# Products of matrices.


@expansion
def matmul(m: Scalars, a: Array, b: Array) -> Array:
    """Return sums of products, with an operand of one dimension as a row or a column."""
    left = a if a.ndim > 1 else a[None, :]
    right = b if b.ndim > 1 else b[:, None]
    terms = m.mul(left[..., :, :, None], right[..., None, :, :])  # (..., m, k, n)
    out = m.sum(terms, (-2,))
    if a.ndim == 1:
        out = out[..., 0, :]
    return _array(out[..., 0] if b.ndim == 1 else out)


def _array(a: Any) -> Array:
    """Return what an index gave as an array, also where it is one element."""
    return a if isinstance(a, np.ndarray) else array_of([a], ())


@expansion
def linear(
    m: Scalars, a: Array, weight: Array, bias: Array | None, activation: str | None
) -> Array:
    out = matmul(m, a, weight.T)
    out = out if bias is None else m.add(out, bias)
    return out if activation is None else m.each(activation, out)


@expansion
def outer(m: Scalars, a: Array, b: Array) -> Array:
    return m.mul(a[:, None], b)


@expansion
def einsum(m: Scalars, tensors: Sequence[Array], equation: str) -> Array:
    terms, arrow, result = equation.replace(" ", "").partition("->")
    inputs = terms.split(",")
    if not arrow:
        single = sorted(c for c in {*terms} - {*",."} if terms.count(c) == 1)
        result = "..." * ("." in terms) + "".join(single)
    # Dimensions without names get digits, counted from the last.
    unnamed = max(
        (
            a.ndim - len(t.replace("...", ""))
            for a, t in zip(tensors, inputs, strict=True)
            if "." in t
        ),
        default=0,
    )
    digits = "".join(map(str, range(unnamed)))[::-1]
    order = result.replace("...", digits)
    order += "".join(sorted({*terms.replace("...", digits)} - {*order, ","}))
    product: Array | None = None
    for a, term in zip(tensors, inputs, strict=True):
        spare = a.ndim - len(term.replace("...", ""))
        aligned = _aligned(a, term.replace("...", digits[len(digits) - spare :]), order)
        product = aligned if product is None else m.mul(product, aligned)
    assert product is not None
    kept = len(result.replace("...", digits))
    return m.sum(product, range(kept, len(order))) if kept < len(order) else product


def _aligned(a: Array, letters: str, order: str) -> Array:
    """Return ``a``, whose dimensions have names, with a dimension for every name in ``order``."""
    for letter in {*letters}:
        while letters.count(letter) > 1:
            first = letters.index(letter)
            second = letters.index(letter, first + 1)
            a = np.diagonal(a, axis1=first, axis2=second)
            letters = letters.replace(letter, "", 2) + letter
    a = a.transpose([letters.index(c) for c in order if c in letters])
    return _array(a[tuple(slice(None) if c in letters else None for c in order)])


# Writing elements.


@expansion
def pad(m: Scalars, a: Array, pad: Any, value: float) -> Array:
    return m.moved("pad", [a], float(value), pad=pad)


@expansion
def setitem(m: Scalars, a: Array, value: Array, index: Any, accumulate: bool) -> Array:
    if not accumulate:
        return m.moved("setitem", [a, value], index=index)
    target = np.arange(a.size).reshape(a.shape)[index]
    return m.add(
        a, m.returned("getitem", np.broadcast_to(value, target.shape), [], a.shape, index=index)
    )


# Conversion. Values have the precision of their numbers, whatever the dtype was.


@expansion
def cast(m: Scalars, a: Array, dtype: Any) -> Array:
    wanted = np.dtype(dtype)
    if wanted.kind == "f":
        items = (m.number(float(x)) if isinstance(x, (bool, int)) else x for x in a.flat)
        return array_of(items, a.shape)
    return array_of(numbers_of(a).astype(wanted).reshape(-1).tolist(), a.shape)
