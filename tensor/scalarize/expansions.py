"""Every op that ``micro`` does not have, spelled out in the ops that it has.

An expansion takes the namespace ``m`` (``Scalars``), and by name what else it asks for: operands
as ndarrays of Values and numbers, attributes, and ``out_shape``. It is written from the op's
definition, not from the kernel, whose result it is compared with.

Ops that only move elements need one word here (``MOVES``): their kernel moves numbers as well.
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
from ..shapes import reduced, size
from .scalars import Scalars, array_of, numbers_of, per_row

__all__ = ["EXPANSIONS", "MOVES"]

Shape = tuple[int, ...]
Dims = int | tuple[int, ...] | None

# Ops whose result holds elements of their operands, or zeros.
MOVES: Final = {
    *("reshape", "flatten", "permute", "transpose", "squeeze", "unsqueeze", "expand"),
    *("cat", "stack", "getitem", "clone"),
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
    over = reduced(dim, a.ndim)
    return m.div(m.sum(a, over, keepdim), math.prod(a.shape[d] for d in over))


@expansion
def var(m: Scalars, a: Array, dim: Dims, correction: float, keepdim: bool) -> Array:
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


def _shift(m: Scalars, a: Array, over: Sequence[int]) -> Array:
    """Return the largest of every row, a constant, by which exponents are kept from overflowing."""
    top = numbers_of(a).max(axis=tuple(over), keepdims=True, initial=-np.inf)
    top = np.where(np.isfinite(top), top, 0.0)
    return array_of(map(m.number, top.reshape(-1).tolist()), top.shape)


@expansion
def logsumexp(m: Scalars, a: Array, dim: Dims, keepdim: bool) -> Array:
    over = reduced(dim, a.ndim)
    shift = _shift(m, a, over)
    total = m.sum(m.exp(m.sub(a, shift)), over, True)
    out = m.add(m.log(total), shift)
    return out if keepdim else out.reshape([n for d, n in enumerate(out.shape) if d not in over])


@expansion
def softmax(m: Scalars, a: Array, dim: int) -> Array:
    over = reduced(dim, a.ndim)
    e = m.exp(m.sub(a, _shift(m, a, over)))
    return m.div(e, m.sum(e, over, True))


@expansion
def log_softmax(m: Scalars, a: Array, dim: int) -> Array:
    return m.sub(a, logsumexp(m, a, dim, True))


# Products of matrices.


@expansion
def matmul(m: Scalars, a: Array, b: Array) -> Array:
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


# Indexing.


@expansion
def getitem_adjoint(m: Scalars, a: Array, index: Any, shape: Shape) -> Array:
    places = np.arange(math.prod(shape)).reshape(shape)[index]
    return m.scattered(a, np.broadcast_to(places, a.shape), math.prod(shape)).reshape(shape)


@expansion
def embedding(m: Scalars, weight: Array, indices: Array) -> Array:
    return weight[numbers_of(indices).astype(np.int64)]


@expansion
def embedding_adjoint(m: Scalars, a: Array, indices: Array, rows: int) -> Array:
    width = a.shape[-1]
    places = numbers_of(indices).astype(np.int64)[..., None] * width + np.arange(width)
    return m.scattered(a, places, rows * width).reshape(rows, width)


# Losses and layers.


@expansion
def cross_entropy(
    m: Scalars,
    a: Array,
    target: Array,
    ignore_index: int,
    reduction: str,
    label_smoothing: float,
) -> Array:
    classes = a.shape[-1]
    logits, targets = a.reshape(-1, classes), numbers_of(target).astype(np.int64).reshape(-1)
    counted = targets != ignore_index
    log_p = log_softmax(m, logits, 1)
    picked = log_p[np.arange(len(targets)), np.where(counted, targets, 0)]
    losses = m.neg(picked)
    if label_smoothing:
        rest = m.mul(m.sum(log_p, (1,)), m.number(label_smoothing / classes))
        losses = m.sub(m.mul(losses, m.number(1 - label_smoothing)), rest)
    losses = np.where(counted, losses, m.number(0.0))
    if reduction == "none":
        return losses.reshape(target.shape)
    total = m.sum(losses, (0,))
    return total if reduction == "sum" else m.div(total, int(counted.sum()))


@expansion
def layer_norm(
    m: Scalars,
    a: Array,
    weight: Array | None,
    bias: Array | None,
    normalized_shape: Sequence[int] | int,
    eps: float,
) -> Array:
    over = tuple(range(-len(size(normalized_shape)), 0))
    variance = var(m, a, over, 0, True)
    out = m.div(m.sub(a, mean(m, a, over, True)), m.sqrt(m.add(variance, m.number(eps))))
    out = out if weight is None else m.mul(out, weight)
    return out if bias is None else m.add(out, bias)


@expansion
def dropout(m: Scalars, a: Array, mask: Array, p: float) -> Array:
    scale = m.number(0.0 if p == 1 else 1 / (1 - p))
    return m.mul(a, np.where(numbers_of(mask).astype(bool), scale, m.number(0.0)))


@expansion
def attention_weights(
    m: Scalars,
    query: Array,
    key: Array,
    attn_mask: Array | None,
    is_causal: bool,
    scale: float | None,
) -> Array:
    factor = 1 / math.sqrt(max(query.shape[-1], 1)) if scale is None else scale
    scores = m.mul(matmul(m, query, key.swapaxes(-1, -2)), m.number(factor))
    if attn_mask is not None:
        scores = m.add(scores, attn_mask)
    if is_causal:
        seen = np.tri(*scores.shape[-2:]) == 1
        scores = np.where(seen, scores, m.number(-math.inf))
    numbers = numbers_of(scores)
    e = m.exp(m.sub(scores, _shift(m, scores, (-1,))))
    total = m.sum(e, (-1,), True)
    blind = (numbers == -math.inf).all(-1, keepdims=True)  # no key is seen: every weight is 0
    return np.where(blind, m.number(0.0), m.div(e, np.where(blind, m.number(1.0), total)))


@expansion
def scaled_dot_product_attention(
    m: Scalars,
    query: Array,
    key: Array,
    value: Array,
    attn_mask: Array | None,
    is_causal: bool,
    scale: float | None,
) -> Array:
    return matmul(m, attention_weights(m, query, key, attn_mask, is_causal, scale), value)


# Convolution and pooling, in which a window's element (y, x, i, j) lies in row
# y * stride + i * dilation - padding of the plane, and in the column found likewise.


def _pair(value: Any) -> tuple[int, int]:
    entries = tuple(value) if isinstance(value, (tuple, list)) else (value,)
    return int(entries[0]), int(entries[-1])


def _windows(
    plane: Shape,
    steps: Shape,
    taps: Shape,
    stride: tuple[int, int],
    before: tuple[int, int],
    dilation: tuple[int, int],
) -> Array:
    """Return where in a plane each window's elements lie (Y, X, I, J); -1 where that is outside."""
    along = [
        np.arange(n)[:, None] * s + np.arange(k) * d - p
        for n, k, s, p, d in zip(steps, taps, stride, before, dilation, strict=True)
    ]
    rows, columns = along[0][:, None, :, None], along[1][None, :, None, :]
    (height, width) = plane
    inside = (rows >= 0) & (rows < height) & (columns >= 0) & (columns < width)
    return np.where(inside, rows * width + columns, -1)


def _before(padding: Any, taps: Shape, dilation: tuple[int, int]) -> tuple[int, int]:
    if padding == "same":
        return (dilation[0] * (taps[0] - 1) // 2, dilation[1] * (taps[1] - 1) // 2)
    return (0, 0) if padding == "valid" else _pair(padding)


def _seen(planes: Array, places: Array) -> Array:
    """Return the elements of planes (..., H, W) at places (Y, X, I, J): (..., Y, X, I, J)."""
    rows = planes.reshape(*planes.shape[:-2], math.prod(planes.shape[-2:]))
    outside = array_of([0] * math.prod(rows.shape[:-1]), (*rows.shape[:-1], 1))
    return np.concatenate([rows, outside], -1)[..., places]


class _Convolution:
    """Operands of a convolution by group: (N, G, O / G, C / G, Y, X, I, J)."""

    def __init__(
        self,
        input_shape: Shape,
        weight_shape: Shape,
        out_shape: Shape,
        stride: Any,
        padding: Any,
        dilation: Any,
        groups: int,
    ) -> None:
        self.input_shape, self.weight_shape = tuple(input_shape), tuple(weight_shape)
        self.out_shape, self.groups = tuple(out_shape), groups
        taps, spacing = self.weight_shape[2:], _pair(dilation)
        self.places = _windows(
            self.input_shape[-2:],
            self.out_shape[-2:],
            taps,
            _pair(stride),
            _before(padding, taps, spacing),
            spacing,
        )

    def inputs(self, a: Array) -> Array:
        *_, channels, height, width = self.input_shape
        planes = a.reshape(-1, self.groups, 1, channels // self.groups, height, width)
        return _seen(planes, self.places)

    def weights(self, weight: Array) -> Array:
        outputs, each, *taps = self.weight_shape
        shape = (1, self.groups, outputs // self.groups, each, 1, 1, *taps)
        return weight.reshape(shape)

    def outputs(self, g: Array) -> Array:
        *_, outputs, height, width = self.out_shape
        shape = (-1, self.groups, outputs // self.groups, 1, height, width, 1, 1)
        return g.reshape(shape)


@expansion
def conv2d(
    m: Scalars,
    a: Array,
    weight: Array,
    bias: Array | None,
    out_shape: Shape,
    stride: Any,
    padding: Any,
    dilation: Any,
    groups: int,
) -> Array:
    c = _Convolution(a.shape, weight.shape, out_shape, stride, padding, dilation, groups)
    out = m.sum(m.mul(c.inputs(a), c.weights(weight)), (3, 6, 7)).reshape(out_shape)
    return out if bias is None else m.add(out, bias[:, None, None])


@expansion
def conv2d_input_adjoint(
    m: Scalars,
    a: Array,
    weight: Array,
    shape: Shape,
    stride: Any,
    padding: Any,
    dilation: Any,
    groups: int,
) -> Array:
    c = _Convolution(shape, weight.shape, a.shape, stride, padding, dilation, groups)
    terms = m.sum(m.mul(c.outputs(a), c.weights(weight)), (2,))  # (N, G, C / G, Y, X, I, J)
    return _returned(m, terms, c.places, tuple(shape))


def _returned(m: Scalars, terms: Array, places: Array, shape: Shape) -> Array:
    """Return planes of ``shape`` to which the elements of windows are added where they came from.

    ``terms`` is (..., *places.shape).
    """
    area = shape[-2] * shape[-1]
    planes = np.arange(math.prod(shape[:-2])).reshape(-1, *(1,) * places.ndim) * area
    inside = np.where(places >= 0, planes + places, -1)
    return m.scattered(terms.reshape(inside.shape), inside, math.prod(shape)).reshape(shape)


@expansion
def conv2d_weight_adjoint(
    m: Scalars,
    a: Array,
    input: Array,
    shape: Shape,
    stride: Any,
    padding: Any,
    dilation: Any,
    groups: int,
) -> Array:
    c = _Convolution(input.shape, shape, a.shape, stride, padding, dilation, groups)
    return m.sum(m.mul(c.outputs(a), c.inputs(input)), (0, 4, 5)).reshape(shape)


@expansion
def max_pool2d(
    m: Scalars,
    a: Array,
    out_shape: Shape,
    kernel_size: Any,
    stride: Any,
    padding: Any,
    dilation: Any,
) -> Array:
    taps, spacing = _pair(kernel_size), _pair(dilation)
    places = _windows(
        a.shape[-2:],
        out_shape[-2:],
        taps,
        taps if stride is None else _pair(stride),
        _pair(padding),
        spacing,
    )
    windows = _seen(a, places).reshape(*out_shape, math.prod(taps))
    numbers = np.where(places.reshape(*places.shape[:2], -1) < 0, -math.inf, numbers_of(windows))
    inside = np.broadcast_to(places.reshape(*places.shape[:2], -1) >= 0, windows.shape)
    nan, best = np.isnan(numbers), numbers == np.fmax.reduce(numbers, -1, keepdims=True)
    last_nan = windows.shape[-1] - 1 - np.argmax(nan[..., ::-1], -1)
    winner = np.where(nan.any(-1), last_nan, np.argmax(best & inside, -1))
    return np.take_along_axis(windows, winner[..., None], -1)[..., 0]


def _averaged(
    plane: Shape,
    steps: Shape,
    kernel_size: Any,
    stride: Any,
    padding: Any,
    count_include_pad: bool,
    divisor_override: int | None,
) -> tuple[Array, Array]:
    """Return where the windows' elements lie (Y, X, I, J), and what each sum is divided by."""
    taps, pads = _pair(kernel_size), _pair(padding)
    strides = taps if stride is None else _pair(stride)
    places = _windows(plane, steps, taps, strides, pads, (1, 1))
    if divisor_override is not None:
        divisors = np.full(places.shape[:2], divisor_override)
    elif count_include_pad:
        # As if the plane were as large as with its padding, of which both sides count.
        padded = (plane[0] + 2 * pads[0], plane[1] + 2 * pads[1])
        whole = _windows(padded, steps, taps, strides, (0, 0), (1, 1))
        divisors = (whole >= 0).sum((2, 3))
    else:
        divisors = (places >= 0).sum((2, 3))
    return places, divisors.astype(object)


@expansion
def avg_pool2d(
    m: Scalars,
    a: Array,
    out_shape: Shape,
    kernel_size: Any,
    stride: Any,
    padding: Any,
    count_include_pad: bool,
    divisor_override: int | None,
) -> Array:
    places, divisors = _averaged(
        a.shape[-2:],
        out_shape[-2:],
        kernel_size,
        stride,
        padding,
        count_include_pad,
        divisor_override,
    )
    return m.div(m.sum(_seen(a, places), (-2, -1)), divisors)


@expansion
def avg_pool2d_adjoint(
    m: Scalars,
    a: Array,
    shape: Shape,
    kernel_size: Any,
    stride: Any,
    padding: Any,
    count_include_pad: bool,
    divisor_override: int | None,
) -> Array:
    places, divisors = _averaged(
        tuple(shape[-2:]),
        a.shape[-2:],
        kernel_size,
        stride,
        padding,
        count_include_pad,
        divisor_override,
    )
    shares = np.broadcast_to(m.div(a, divisors)[..., None, None], (*a.shape, *places.shape[2:]))
    return _returned(m, shares, places, tuple(shape))


# Conversion. Values have the precision of their numbers, whatever the dtype was.


@expansion
def cast(m: Scalars, a: Array, dtype: Any) -> Array:
    wanted = np.dtype(dtype)
    if wanted.kind == "f":
        items = (m.number(float(x)) if isinstance(x, (bool, int)) else x for x in a.flat)
        return array_of(items, a.shape)
    return array_of(numbers_of(a).astype(wanted).reshape(-1).tolist(), a.shape)
