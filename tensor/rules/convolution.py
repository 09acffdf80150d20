"""Rules of convolution and pooling."""

from __future__ import annotations

import math
from typing import Any

from .table import vjp

# Convolution is linear in its input and in its weight. Its result times a third array is linear
# in all three: to each of them belongs a product of the other two, which is the convolution
# itself or one of its adjoints.


def _moves(attrs: Any) -> dict[str, Any]:
    """Return how a kernel moves: the attributes of an adjoint without its shape."""
    return {name: value for name, value in attrs.items() if name != "shape"}


def _conv2d(xp: Any, a: Any, weight: Any, attrs: Any) -> Any:
    return xp.conv2d(a, weight, None, **_moves(attrs))


def _conv2d_a(xp: Any, g: Any, weight: Any, a_shape: Any, attrs: Any) -> Any:
    return xp.conv2d_input_adjoint(g, weight, a_shape, **_moves(attrs))


def _conv2d_weight(xp: Any, g: Any, a: Any, weight_shape: Any, attrs: Any) -> Any:
    return xp.conv2d_weight_adjoint(g, a, weight_shape, **_moves(attrs))


vjp(
    "conv2d",
    a=_conv2d_a,
    weight=_conv2d_weight,
    bias=lambda xp, g: xp.sum(g, (0, -2, -1) if len(g.shape) == 4 else (-2, -1)),
)
vjp(
    "conv2d_input_adjoint",
    a=_conv2d,
    weight=lambda xp, g, a, weight_shape, attrs: _conv2d_weight(xp, a, g, weight_shape, attrs),
)
vjp(
    "conv2d_weight_adjoint",
    a=lambda xp, g, input, attrs: _conv2d(xp, input, g, attrs),
    input=lambda xp, g, a, input_shape, attrs: _conv2d_a(xp, a, g, input_shape, attrs),
)

# Columns: what was read from a place is added to it.


def _im2col(xp: Any, g: Any, a_shape: Any, attrs: Any) -> Any:
    return xp.col2im(g, a_shape[-2:], **attrs)


def _col2im(xp: Any, g: Any, attrs: Any) -> Any:
    return xp.im2col(g, **{name: value for name, value in attrs.items() if name != "output_size"})


vjp("im2col", a=_im2col)
vjp("col2im", a=_col2im)

# Pooling: reading the largest element adjoins to adding to it, and averaging is linear.


def _max_pool2d(xp: Any, g: Any, a: Any, a_shape: Any, attrs: Any) -> Any:
    winners = xp.reshape(xp.max_pool2d_indices(a, **attrs), (-1,))
    flat = xp.getitem_adjoint(xp.reshape(g, (-1,)), winners, (math.prod(a_shape),))
    return xp.reshape(flat, a_shape)


vjp("max_pool2d", a=_max_pool2d)
vjp("avg_pool2d", a=lambda xp, g, a_shape, attrs: xp.avg_pool2d_adjoint(g, a_shape, **attrs))
vjp("avg_pool2d_adjoint", a=lambda xp, g, attrs: xp.avg_pool2d(g, **_moves(attrs)))
