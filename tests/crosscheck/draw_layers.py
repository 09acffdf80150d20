"""Draws of losses, layers, attention, convolution and pooling."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from tests.crosscheck.draw_table import Call, draws, row

if TYPE_CHECKING:
    from tests.crosscheck.generate import Draft

__all__: list[str] = []


@draws("cross_entropy")
def _cross_entropy(d: Draft, i: int) -> Call:
    if d.data[i].dtype.kind == "i":
        target = row(d, i)
        classes = int(d.data[i].max(initial=0)) + 1
        i = d.other((d.data[target].size, classes))
    else:
        i = d.with_ndim(i, 1, 2)
        *rows, classes = d.data[i].shape
        if not classes:
            return None
        classed = np.asarray(d.rng.integers(0, classes, rows))
        if d.chance(0.3) and classed.size > 1:
            classed.reshape(-1)[0] = -100
        target = d.constant(classed)
    attrs = {
        "reduction": d.choose(["mean", "sum", "none"]),
        "label_smoothing": d.choose([0.0, 0.0, 0.25]),
    }
    return (i, target), attrs


def _weighing(d: Draft, i: int, shape: Callable[[int], tuple[int, ...]]) -> tuple[int, Any]:
    """An operand of a norm, and its weight; the value i is one or, at times, the other."""
    count = d.data[i].size
    if 1 < count <= 3 and d.chance(0.25):
        return d.leaf(shape(count)), d.viewed(i, (count,))
    return i, None


@draws("layer_norm")
def _layer_norm(d: Draft, i: int) -> Call:
    i, weight = _weighing(d, i, lambda n: (2, n))
    i = d.with_ndim(i, 1, 4)
    shape = d.data[i].shape
    last = shape[-1 if weight is not None else -d.integer(1, len(shape) + 1) :]
    if math.prod(last) < 2:
        return None
    i = d.into(i, -4.0, 4.0)
    count = len(last)
    variances = d.data[i].var(tuple(range(-count, 0)))
    if variances.size and variances.min() < 0.05:
        return None
    operands = [d.other(last) if d.chance(0.7) else None for _ in range(2)]
    operands[0] = operands[0] if weight is None else weight
    return (i, *operands), {"normalized_shape": last, "eps": d.choose([1e-5, 0.125])}


@draws("rms_norm")
def _rms_norm(d: Draft, i: int) -> Call:
    i, given = _weighing(d, i, lambda n: (2, n))
    i = d.into(d.with_ndim(i, 1, 4), -4.0, 4.0)
    shape = d.data[i].shape
    last = shape[-1 if given is not None else -d.integer(1, len(shape) + 1) :]
    squares = np.square(d.data[i]).mean(tuple(range(-len(last), 0))) if math.prod(last) else 0
    if np.size(squares) and np.min(squares) < 0.05:
        return None
    weight = given if given is not None else d.other(last) if d.chance(0.7) else None
    return (i, weight), {"normalized_shape": last, "eps": d.choose([1e-5, 0.125])}


def _channels(d: Draft, i: int, least: float) -> int | None:
    """The value i as (N, C, ...), if every channel's variance is large enough."""
    i = d.into(d.with_ndim(i, 2, 4), -4.0, 4.0)
    a = d.data[i]
    if a.size > 1 and a.size == a.shape[1]:  # one element in every channel
        i = d.viewed(i, (a.size, 1))
        a = d.data[i]
    count = a.size // max(a.shape[1], 1)
    over = (0, *range(2, a.ndim))
    return i if count > 1 and a.size and a.var(over).min() >= least else None


@draws("group_norm")
def _group_norm(d: Draft, i: int) -> Call:
    i, weight = _weighing(d, i, lambda n: (1, n, 3))
    i = d.into(d.with_ndim(i, 2, 4), -4.0, 4.0)
    channels = d.data[i].shape[1]
    groups = channels if channels and d.chance(0.4) else 1
    a = d.data[i]
    if not a.size or a.reshape(len(a), groups, -1).var(-1).min() < 0.05:
        return None
    operands = [d.other((channels,)) if d.chance(0.6) else None for _ in range(2)]
    operands[0] = operands[0] if weight is None else weight
    return (i, *operands), {"num_groups": groups, "eps": d.choose([1e-5, 0.125])}


@draws("batch_moments")
def _batch_moments(d: Draft, i: int) -> Call:
    place = _channels(d, i, 0.0)
    return None if place is None else ((place,), {})


@draws("batch_norm")
def _batch_norm(d: Draft, i: int) -> Call:
    i, weight = _weighing(d, i, lambda n: (3, n))
    place = _channels(d, i, 0.05)
    if place is None:
        return None
    channels = d.data[place].shape[1]
    if d.chance(0.6):
        statistics = d.bridge("batch_moments", place)
    else:
        statistics = d.into(d.other((2, channels)), 0.25, 4.0)
    operands = [d.other((channels,)) if d.chance(0.6) else None for _ in range(2)]
    operands[0] = operands[0] if weight is None else weight
    return (place, statistics, *operands), {"eps": d.choose([1e-5, 0.125])}


@draws("binary_cross_entropy")
def _binary_cross_entropy(d: Draft, i: int) -> Call:
    other = d.into(d.other(d.data[i].shape), 0.125, 0.875)
    i = d.into(i, 0.125, 0.875)
    return ((i, other) if d.chance(0.7) else (other, i)), {}


@draws("dropout")
def _dropout(d: Draft, i: int) -> Call:
    p = 0.5 if d.exact else d.choose([0.5, 0.25, 0.2, 0.0])
    if d.data[i].dtype.kind == "b":
        return (d.other(d.data[i].shape), i), {"p": p}
    return (i, d.constant(d.rng.random(d.data[i].shape) < 0.7)), {"p": p}


def _attention(d: Draft, i: int, valued: bool) -> Call:
    i = d.into(d.with_ndim(i, 2, 3), -3.0, 3.0)
    *lead, length, width = d.data[i].shape
    if 0 in (length, width) or length * width > 6 or math.prod(lead) > 2:
        return None
    keys = d.integer(1, 3)
    role = d.choose(["query", "key", "value"] if valued else ["query", "key"])
    shapes = {
        "query": (*lead, keys, width),
        "key": (*lead, keys, width),
        "value": (*lead, keys, d.integer(1, 3)),
    }
    if role == "key":
        shapes["value"] = (*lead, length, 2)
    if role == "value":
        shapes["key"] = (*lead, length, 2)
        shapes["query"] = (*lead, keys, 2)
    names = ["query", "key", "value"] if valued else ["query", "key"]
    operands = [i if name == role else d.other(shapes[name]) for name in names]
    operands = [d.into(j, -3.0, 3.0) for j in operands]
    causal = d.chance(0.3)
    rows, seen = d.data[operands[0]].shape[-2], d.data[operands[1]].shape[-2]
    mask = d.other((rows, seen)) if not causal and d.chance(0.4) else None
    return (*operands, mask), {"is_causal": causal, "scale": d.choose([None, 0.5])}


@draws("attention_weights")
def _attention_weights(d: Draft, i: int) -> Call:
    return _attention(d, i, valued=False)


@draws("scaled_dot_product_attention")
def _scaled_dot_product_attention(d: Draft, i: int) -> Call:
    return _attention(d, i, valued=True)


# Convolution and pooling.


def _planes(d: Draft, i: int) -> int:
    """The value i as planes of at most 3 by 3."""
    i = d.into(d.with_ndim(i, 3, 4), -4.0, 4.0)
    shape = d.data[i].shape
    if len(shape) == 3 and not shape[0]:
        i = d.viewed(i, (1, *shape))
        shape = (1, *shape)
    if d.chance(0.5) and math.prod(shape) <= 9 and math.prod(shape) > 1:
        size = math.prod(shape)
        sides = [k for k in (1, 2, 3) if size % k == 0]
        k = d.choose(sides)
        i = d.viewed(i, (1, 1, k, size // k))
    return i


def _convolution(d: Draft, i: int) -> tuple[int, int, dict[str, Any]] | None:
    """The input, a weight, and how it moves; the given value is the one or the other."""
    i = _planes(d, i)
    shape = d.data[i].shape
    if not shape[-3]:  # PyTorch's results are of another shape then
        return None
    attrs: dict[str, Any] = {
        "stride": d.choose([1, 1, 2, (2, 1)]),
        "padding": d.choose([0, 0, 1, (0, 1)]),
        "dilation": d.choose([1, 1, 1, 2]),
    }
    if d.chance(0.3) and len(shape) == 4 and max(shape[2:]) <= 3:  # as the weight
        planes = d.other((1, shape[1], min(shape[2] + 1, 3), min(shape[3] + 1, 3)))
        return planes, i, attrs | {"dilation": 1}
    groups = shape[-3] if d.chance(0.3) else 1
    taps = [d.integer(1, min(n, 2) + 1) for n in shape[-2:]]
    weight = d.other((groups * d.integer(1, 3), shape[-3] // groups, *taps))
    return i, weight, attrs | {"groups": groups}


@draws("conv2d")
def _conv2d(d: Draft, i: int) -> Call:
    found = _convolution(d, i)
    if found is None:
        return None
    planes, weight, attrs = found
    bias = d.other(d.data[weight].shape[:1]) if d.chance(0.5) else None
    return (planes, weight, bias), attrs


def _convolved(d: Draft, planes: tuple[int, ...], weight: tuple[int, ...], attrs: Any) -> Any:
    """The shape of a convolution's result."""
    steps = []
    for k, (size, taps) in enumerate(zip(planes[-2:], weight[-2:], strict=True)):
        stride, padding, dilation = (
            v if isinstance(v, int) else v[k]
            for v in (attrs["stride"], attrs["padding"], attrs["dilation"])
        )
        steps.append((size + 2 * padding - dilation * (taps - 1) - 1) // stride + 1)
    return (*planes[:-3], weight[0], *steps)


@draws("conv2d_input_adjoint")
def _conv2d_input_adjoint(d: Draft, i: int) -> Call:
    i = _planes(d, i)
    *lead, outputs, height, width = d.data[i].shape
    if not outputs or not height or not width:
        return None
    taps = (d.integer(1, 3), d.integer(1, 3))
    each = d.integer(1, 3)
    weight = d.other((outputs, each, *taps))
    shape = (*lead, each, height + taps[0] - 1, width + taps[1] - 1)
    return (i, weight), {"shape": shape}


@draws("conv2d_weight_adjoint")
def _conv2d_weight_adjoint(d: Draft, i: int) -> Call:
    i = _planes(d, i)
    *lead, outputs, height, width = d.data[i].shape
    if not outputs or not height or not width:
        return None
    taps = (d.integer(1, 3), d.integer(1, 3))
    planes = d.other((*lead, 1, height + taps[0] - 1, width + taps[1] - 1))
    return (i, planes), {"shape": (outputs, 1, *taps)}


@draws("max_pool2d", "max_pool2d_indices")
def _max_pool2d(d: Draft, i: int) -> Call:
    i = _planes(d, i)
    taps = [d.integer(1, min(n, 2) + 1) for n in d.data[i].shape[-2:] if n]
    if len(taps) < 2 or not d.data[i].shape[-3]:  # PyTorch pools no planes without channels
        return None
    return (i,), {"kernel_size": tuple(taps), "stride": d.choose([None, 1])}


@draws("avg_pool2d")
def _avg_pool2d(d: Draft, i: int) -> Call:
    call = _max_pool2d(d, i)
    if call is None:
        return None
    operands, attrs = call
    attrs["padding"] = d.choose([0, 1]) if min(attrs["kernel_size"]) > 1 else 0
    attrs["count_include_pad"] = d.chance(0.5)
    attrs["divisor_override"] = 2 if d.chance(0.2) else None
    return operands, attrs


@draws("im2col")
def _im2col(d: Draft, i: int) -> Call:
    i = _planes(d, i)
    if 0 in d.data[i].shape[-3:]:  # which PyTorch refuses
        return None
    taps = tuple(d.integer(1, min(n, 2) + 1) for n in d.data[i].shape[-2:])
    return (i,), {"kernel_size": taps, "padding": d.choose([0, 0, 1]), "stride": d.choose([1, 2])}


@draws("col2im")
def _col2im(d: Draft, i: int) -> Call:
    i = d.with_ndim(i, 2, 3)
    taps, steps = d.data[i].shape[-2:]
    if not taps or not steps:
        return None
    return (i,), {"output_size": (1, taps + steps - 1), "kernel_size": (1, taps)}


@draws("avg_pool2d_adjoint")
def _avg_pool2d_adjoint(d: Draft, i: int) -> Call:
    i = _planes(d, i)
    shape = d.data[i].shape
    if not math.prod(shape[-3:]):
        return None
    taps = (d.integer(1, 3), d.integer(1, 3))
    planes = (*shape[:-2], shape[-2] + taps[0] - 1, shape[-1] + taps[1] - 1)
    return (i,), {"shape": planes, "kernel_size": taps, "stride": 1}
