"""Expansions of convolution and pooling.

A window's element (y, x, i, j) lies in row ``y * stride + i * dilation - padding`` of the plane,
and in the column found likewise.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..graph import Array
from .scalars import Scalars, array_of, numbers_of
from .table import Shape, expansion

__all__: list[str] = []


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
        *batch, channels, height, width = self.input_shape
        shape = (math.prod(batch), self.groups, 1, channels // self.groups, height, width)
        return _seen(a.reshape(shape), self.places)

    def weights(self, weight: Array) -> Array:
        outputs, each, *taps = self.weight_shape
        shape = (1, self.groups, outputs // self.groups, each, 1, 1, *taps)
        return weight.reshape(shape)

    def outputs(self, g: Array) -> Array:
        *batch, outputs, height, width = self.out_shape
        shape = (math.prod(batch), self.groups, outputs // self.groups, 1, height, width, 1, 1)
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
