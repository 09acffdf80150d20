"""Convolution and pooling of planes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

from ..dispatch import Operand, kernel
from ..errors import ShapeError
from ..graph import Array
from ..kernels import convolution
from ..kernels.planes import Pair, Plane, convolved, is_integer, moved, pair, pooled

__all__ = [
    "avg_pool2d",
    "avg_pool2d_adjoint",
    "col2im",
    "conv2d",
    "conv2d_input_adjoint",
    "conv2d_weight_adjoint",
    "im2col",
    "max_pool2d",
    "max_pool2d_indices",
]


def _frozen(value: Any) -> Any:
    """Return a list as a tuple, which nobody changes between the two passes."""
    return tuple(value) if isinstance(value, list) else value


_PREPARE: Final = dict.fromkeys(
    ("kernel_size", "stride", "padding", "dilation", "shape", "output_size"), _frozen
)


# Convolution.


def _batch(a: Array) -> Array:
    return a if a.ndim == 4 else a[None]


def _check_gradient(a: Array, shape: Sequence[int], channels: int, plane: Plane) -> None:
    expected = (*shape[:-3], channels, *plane.steps)
    if a.shape != expected:
        raise ShapeError(f"a must have the shape of the result, {expected}, got {a.shape}")


@kernel("strict", prepare=_PREPARE)
def conv2d(
    a: Operand,
    weight: Operand,
    bias: Operand = None,
    stride: Pair = 1,
    padding: Pair | str = 0,
    dilation: Pair = 1,
    groups: int = 1,
) -> Any:
    """Return the cross-correlation of planes with kernels, plus ``bias``.

    ``out[n, o, y, x] = bias[o] + sum over c, i, j of``
    ``weight[o, c, i, j] * a[n, c, y * stride + i * dilation - padding, ...]``,
    where ``a`` counts as 0 outside its bounds.

    Shapes: ``a`` is ``(N, C, H, W)`` or ``(C, H, W)``, ``weight``
    ``(O, C / groups, KH, KW)``, ``bias`` ``(O,)`` or None; the result is
    ``(N, O, H', W')`` with ``H' = (H + 2 padding - dilation (KH - 1) - 1) // stride + 1``.
    ``stride``, ``padding`` and ``dilation`` are integers or pairs for height
    and width; ``padding`` may be "valid", none, or "same", so much that
    ``H' = H`` with a stride of 1 (the odd one goes behind). With ``groups``,
    input and output channels are divided into as many groups, each convolved
    by itself.

    Raises:
        ShapeError: shapes that do not fit, a kernel larger than the padded
            input, or a stride, padding, dilation or groups out of range.
        RuntimeError: the dtypes differ.
        TypeError: one of them is not an integer.
        ValueError: another string for ``padding``.
    """
    plane = convolved(a.shape, weight.shape, stride, padding, dilation, groups)
    if bias is not None and bias.shape != weight.shape[:1]:
        raise ShapeError(f"bias must have shape {weight.shape[:1]}, got {bias.shape}")
    out = convolution.conv2d(_batch(a), weight, bias, plane, int(groups))
    return out if a.ndim == 4 else out[0]


@kernel("strict", prepare=_PREPARE)
def conv2d_input_adjoint(
    a: Operand,
    weight: Operand,
    shape: Sequence[int],
    stride: Pair = 1,
    padding: Pair | str = 0,
    dilation: Pair = 1,
    groups: int = 1,
) -> Any:
    """Return the gradient of ``conv2d`` for an input of ``shape``, given that of its result, ``a``.

    This is the transposed convolution of ``a`` with ``weight``.
    """
    plane = convolved(shape, weight.shape, stride, padding, dilation, groups)
    _check_gradient(a, shape, len(weight), plane)
    out = convolution.conv2d_input_adjoint(_batch(a), weight, plane, int(groups))
    return out if a.ndim == 4 else out[0]


@kernel("strict", prepare=_PREPARE)
def conv2d_weight_adjoint(
    a: Operand,
    input: Operand,
    shape: Sequence[int],
    stride: Pair = 1,
    padding: Pair | str = 0,
    dilation: Pair = 1,
    groups: int = 1,
) -> Any:
    """Return the gradient of ``conv2d`` for a weight of ``shape``, given that of its result, ``a``.

    ``input`` is what was convolved.
    """
    plane = convolved(input.shape, shape, stride, padding, dilation, groups)
    _check_gradient(a, input.shape, shape[0], plane)
    return convolution.conv2d_weight_adjoint(_batch(a), _batch(input), plane, int(groups))


# Columns.


@kernel(prepare=_PREPARE)
def im2col(
    a: Operand, kernel_size: Pair, dilation: Pair = 1, padding: Pair = 0, stride: Pair = 1
) -> Any:
    """Return what a window sees at each of its steps over a plane, a column for each step.

    Shapes: ``a`` is ``(N, C, H, W)`` or ``(C, H, W)``; the result is ``(N, C KH KW, L)``
    with ``L = H' W'`` steps, where
    ``H' = (H + 2 padding - dilation (KH - 1) - 1) // stride + 1``. The padding is seen as 0.

    Raises:
        ShapeError: shapes that do not fit, a window larger than the padded
            planes, or an argument out of range.
        TypeError: an argument that is not an integer.
    """
    if a.ndim not in (3, 4):
        raise ShapeError("a must be (N, C, H, W) or (C, H, W); unsqueeze or reshape it")
    plane = moved(a.shape[-2:], kernel_size, dilation, padding, stride)
    out = convolution.im2col(_batch(a), plane)
    return out if a.ndim == 4 else out[0]


@kernel(prepare=_PREPARE)
def col2im(
    a: Operand,
    output_size: Pair,
    kernel_size: Pair,
    dilation: Pair = 1,
    padding: Pair = 0,
    stride: Pair = 1,
) -> Any:
    """Return planes of ``output_size`` to which the columns of ``a`` are added, as im2col sees.

    Shapes: ``a`` is ``(N, C KH KW, L)`` or ``(C KH KW, L)``; the result is
    ``(N, C, H, W)`` with ``(H, W)`` the ``output_size``. Where windows overlap,
    what they hold is summed.

    Raises:
        ShapeError: shapes that do not fit, a window larger than the padded
            planes, or an argument out of range.
        TypeError: an argument that is not an integer.
    """
    plane = moved(pair("output_size", output_size, 0), kernel_size, dilation, padding, stride)
    taps, steps = math.prod(plane.taps), math.prod(plane.steps)
    if a.ndim not in (2, 3) or a.shape[-2] % taps or a.shape[-1] != steps:
        raise ShapeError(
            f"a must be (N, C * {taps}, {steps}) or (C * {taps}, {steps}): a column for each of "
            f"{' x '.join(map(str, plane.steps))} steps, and {taps} taps in it for each channel"
        )
    out = convolution.col2im(a if a.ndim == 3 else a[None], plane)
    return out if a.ndim == 3 else out[0]


# Pooling.


def _max_pooled(
    a: Array, kernel_size: Pair, stride: Pair | None, padding: Pair, dilation: Pair, ceil: bool
) -> Plane:
    plane = pooled(a.shape, kernel_size, stride, padding, dilation, ceil)
    if a.dtype.kind == "b":
        raise TypeError("a must hold numbers, got bool; convert it with .float()")
    for name, axis in zip(("height", "width"), plane, strict=True):
        met = {step for steps, _ in axis.meetings() for step in range(steps.start, steps.stop)}
        if len(met) < axis.steps:
            raise ShapeError(
                f"a window holds nothing but padding in {name}, which has a size of {axis.size}; "
                "reduce padding or dilation"
            )
    return plane


def _max_pool2d_backward(
    g: Array,
    needs: Sequence[bool],
    a: Array,
    out: Array,
    kernel_size: Pair,
    stride: Pair | None,
    padding: Pair,
    dilation: Pair,
    ceil_mode: bool,
) -> tuple[Any]:
    plane = pooled(a.shape, kernel_size, stride, padding, dilation, ceil_mode)
    return (convolution.max_pool2d_backward(g, a, out, plane),)


@kernel(fused=_max_pool2d_backward, prepare=_PREPARE)
def max_pool2d(
    a: Operand,
    kernel_size: Pair,
    stride: Pair | None = None,
    padding: Pair = 0,
    dilation: Pair = 1,
    ceil_mode: bool = False,
) -> Any:
    """Return the largest element of every window; NaN counts as largest.

    Among equal ones the first in the order of rows gets the gradient; among
    several NaN the last.

    Shapes: ``a`` is ``(N, C, H, W)`` or ``(C, H, W)``; the result has
    ``H' = (H + 2 padding - dilation (KH - 1) - 1) / stride + 1`` rows, rounded
    down, or up with ``ceil_mode`` (but no window begins behind the input and
    its first padding). ``kernel_size``, ``stride`` (by default
    ``kernel_size``), ``padding`` (with -inf) and ``dilation`` are integers or
    pairs for height and width.

    Raises:
        ShapeError: a window that does not fit or holds nothing but padding,
            padding above half of a window, or an argument out of range.
        TypeError: an argument that is not an integer, or bool planes.
    """
    plane = _max_pooled(a, kernel_size, stride, padding, dilation, ceil_mode)
    return convolution.max_pool2d(a, plane)


@kernel(prepare=_PREPARE)
def max_pool2d_indices(
    a: Operand,
    kernel_size: Pair,
    stride: Pair | None = None,
    padding: Pair = 0,
    dilation: Pair = 1,
    ceil_mode: bool = False,
) -> Any:
    """Return where ``max_pool2d`` finds its elements, as positions in ``a.reshape(-1)``."""
    plane = _max_pooled(a, kernel_size, stride, padding, dilation, ceil_mode)
    return convolution.max_pool2d_indices(a, plane)


def _check_divisor(divisor: Any) -> None:
    if divisor is not None and not is_integer(divisor):
        raise TypeError(f"divisor_override must be an integer or None, got {divisor!r}")
    if divisor == 0:
        raise ValueError("divisor_override must not be 0")


@kernel("float", prepare=_PREPARE)
def avg_pool2d(
    a: Operand,
    kernel_size: Pair,
    stride: Pair | None = None,
    padding: Pair = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Any:
    """Return the mean of every window.

    The sum of a window is divided by the number of its elements, of which
    those in the padding count as 0 if ``count_include_pad``, and not at all
    otherwise; or by ``divisor_override``. What sticks out beyond the padding
    with ``ceil_mode`` does not count.

    Shapes and the other arguments are as for ``max_pool2d``.

    Raises:
        ShapeError: a window that does not fit, padding above half of a window,
            or an argument out of range.
        TypeError: an argument that is not an integer.
        ValueError: a divisor of 0.
    """
    plane = pooled(a.shape, kernel_size, stride, padding, 1, ceil_mode)
    _check_divisor(divisor_override)
    return convolution.avg_pool2d(a, plane, bool(count_include_pad), divisor_override)


@kernel("float", prepare=_PREPARE)
def avg_pool2d_adjoint(
    a: Operand,
    shape: Sequence[int],
    kernel_size: Pair,
    stride: Pair | None = None,
    padding: Pair = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Any:
    """Return the gradient of ``avg_pool2d`` for an input of ``shape``, given that of its result."""
    plane = pooled(shape, kernel_size, stride, padding, 1, ceil_mode)
    _check_gradient(a, shape, shape[-3], plane)
    _check_divisor(divisor_override)
    return convolution.avg_pool2d_adjoint(a, plane, bool(count_include_pad), divisor_override)
