"""Entries like those of ``into``, of convolution and pooling: the ops' own kernels, given memory.

How a kernel moves is found out once, when a plan is made.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from ..graph import Array
from . import convolution
from .into import Call, entry, pullback
from .planes import convolved, moved, pair, pooled
from .room import Room

__all__: list[str] = []  # entered in the tables of ``into``


def _batch(a: Array) -> Array:
    return a if a.ndim == 4 else a[None]


def _moving(attrs: Any) -> Any:
    return attrs["stride"], attrs["padding"], attrs["dilation"], attrs["groups"]


@entry
def conv2d(
    attrs: Any, room: Room, out: Array, a: Array, weight: Array, bias: Array | None
) -> list[Call]:
    plane = convolved(a.shape, weight.shape, *_moving(attrs))
    run = partial(convolution.conv2d, into=_batch(out), room=room)
    return [(run, (_batch(a), weight, bias, plane, int(attrs["groups"])))]


@entry
def conv2d_input_adjoint(attrs: Any, room: Room, out: Array, a: Array, weight: Array) -> list[Call]:
    plane = convolved(attrs["shape"], weight.shape, *_moving(attrs))
    run = partial(convolution.conv2d_input_adjoint, into=_batch(out), room=room)
    return [(run, (_batch(a), weight, plane, int(attrs["groups"])))]


@entry
def conv2d_weight_adjoint(attrs: Any, room: Room, out: Array, a: Array, input: Array) -> list[Call]:
    plane = convolved(input.shape, attrs["shape"], *_moving(attrs))
    run = partial(convolution.conv2d_weight_adjoint, into=out, room=room)
    return [(run, (_batch(a), _batch(input), plane, int(attrs["groups"])))]


def _window(attrs: Any) -> Any:
    given = attrs["kernel_size"], attrs["stride"], attrs["padding"], attrs.get("dilation", 1)
    return (*given, attrs["ceil_mode"])


@entry
def max_pool2d(attrs: Any, room: Room, out: Array, a: Array) -> list[Call]:
    plane = pooled(a.shape, *_window(attrs))
    return [(partial(convolution.max_pool2d, into=out, room=room), (a, plane))]


@pullback
def max_pool2d_backward(
    room: Room, outs: Any, g: Array, a: Array, out: Array, **attrs: Any
) -> list[Call]:
    plane = pooled(a.shape, *_window(attrs))
    run = partial(convolution.max_pool2d_backward, into=outs[0], room=room)
    return [(run, (g, a, out, plane))]


@entry
def max_pool2d_indices(attrs: Any, room: Room, out: Array, a: Array) -> list[Call]:
    plane = pooled(a.shape, *_window(attrs))
    return [(partial(convolution.max_pool2d_indices, into=out, room=room), (a, plane))]


def _counting(attrs: Any) -> Any:
    return bool(attrs["count_include_pad"]), attrs["divisor_override"]


@entry
def avg_pool2d(attrs: Any, room: Room, out: Array, a: Array) -> list[Call]:
    plane = pooled(a.shape, *_window(attrs))
    return [(partial(convolution.avg_pool2d, into=out, room=room), (a, plane, *_counting(attrs)))]


@entry
def avg_pool2d_adjoint(attrs: Any, room: Room, out: Array, a: Array) -> list[Call]:
    plane = pooled(attrs["shape"], *_window(attrs))
    run = partial(convolution.avg_pool2d_adjoint, into=out, room=room)
    return [(run, (a, plane, *_counting(attrs)))]


# Columns.


def _sliding(attrs: Any, size: Any) -> Any:
    return moved(size, *(attrs[name] for name in ("kernel_size", "dilation", "padding", "stride")))


@entry
def im2col(attrs: Any, room: Room, out: Array, a: Array) -> list[Call]:
    plane = _sliding(attrs, a.shape[-2:])
    run = partial(convolution.im2col, into=out if a.ndim == 4 else out[None], room=room)
    return [(run, (_batch(a), plane))]


@entry
def col2im(attrs: Any, room: Room, out: Array, a: Array) -> list[Call]:
    plane = _sliding(attrs, pair("output_size", attrs["output_size"], 0))
    run = partial(convolution.col2im, into=_batch(out), room=room)
    return [(run, (a if a.ndim == 3 else a[None], plane))]
