"""Layers as functions: normalisation, convolution, pooling, padding."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal, overload

from .. import ops
from ..arguments import check_probability, generator_of
from ..errors import ShapeError
from ..functions import Extremum
from ..modes import no_grad
from ..random import Generator
from ..shapes import axis
from ..tensor import Tensor

__all__ = [
    "adaptive_avg_pool2d",
    "batch_norm",
    "conv1d",
    "conv_transpose2d",
    "dropout2d",
    "group_norm",
    "max_pool2d",
    "pad",
    "pair",
    "rms_norm",
]


def pair(value: Any) -> tuple[Any, Any]:
    """Return one value, or a sequence of one or two, as two: for height and width."""
    values = tuple(value) if isinstance(value, (tuple, list)) else (value,)
    return values[0], values[-1]


# Dropout.


def dropout2d(
    input: Tensor, p: float = 0.5, training: bool = True, generator: Generator | None = None
) -> Tensor:
    """Return ``input`` (N, C, H, W) with whole planes 0 with probability ``p``, the rest scaled.

    Outside training, ``input`` itself. The planes are drawn from ``generator``,
    or from the default one.
    Source: Tompson et al., 2015, arXiv:1411.4280.

    Raises:
        ValueError: ``p`` outside [0, 1].
        ShapeError: ``input`` of other dimensions.
    """
    check_probability("dropout2d: p", p)
    if input.ndim != 4:
        raise ShapeError(f"dropout2d: the input must be (N, C, H, W), got shape {input.shape}")
    if not training or p == 0:
        return input
    kept = generator_of("dropout2d", generator).bernoulli(1 - p, (*input.shape[:2], 1, 1))
    return ops.dropout(input, kept, p)


# Normalisation.


def batch_norm(
    input: Tensor,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    training: bool = False,
    momentum: float | Tensor = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    """Return ``(input - mean) / sqrt(var + eps) * weight + bias`` by channel.

    In training, mean and biased variance are those of ``input`` (N, C, ...)
    over all dimensions but the second, and the running averages, where given,
    are overwritten by ``(1 - momentum) * running + momentum * new``, with the
    unbiased variance. Otherwise they are the running averages.
    Source: Ioffe and Szegedy, 2015, arXiv:1502.03167.

    Raises:
        ValueError: in training, one value per channel; otherwise, no running averages.
        ShapeError: shapes that do not fit.
    """
    if not training:
        if running_mean is None or running_var is None:
            raise ValueError("batch_norm: running_mean and running_var are needed in evaluation")
        # Their copy is what the gradient needs: the averages may move before the backward pass.
        return ops.batch_norm(input, ops.stack([running_mean, running_var]), weight, bias, eps)
    count = len(input) * math.prod(input.shape[2:]) if input.ndim else 1
    if count == 1:
        raise ValueError(
            "batch_norm: Expected more than 1 value per channel when training, "
            f"got input size {input.shape}; use a larger batch, or eval()"
        )
    for name, running in (("running_mean", running_mean), ("running_var", running_var)):
        if running is not None and running.shape != input.shape[1:2]:
            raise ShapeError(
                f"batch_norm: {name} must have shape {input.shape[1:2]}, got {running.shape}"
            )
    statistics = ops.batch_moments(input)
    out = ops.batch_norm(input, statistics, weight, bias, eps)
    with no_grad():
        new = statistics.detach()
        unbiased = count / max(count - 1, 1)
        for running, value in ((running_mean, new[0]), (running_var, new[1] * unbiased)):
            if running is not None:
                running.copy_(running * (1 - momentum) + value * momentum)
    return out


def group_norm(
    input: Tensor,
    num_groups: int,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Tensor:
    """Return ``(input - mean) / sqrt(var + eps) * weight + bias`` over groups of channels.

    ``input`` is (N, C, ...); see ``tensor.group_norm``.

    Raises:
        ShapeError: shapes that do not fit, or C is not divisible by ``num_groups``.
    """
    return ops.group_norm(input, weight, bias, num_groups, eps)


def rms_norm(
    input: Tensor,
    normalized_shape: Sequence[int] | int,
    weight: Tensor | None = None,
    eps: float | None = None,
) -> Tensor:
    """Return ``input / sqrt(mean(input**2) + eps) * weight`` over the last dimensions.

    ``normalized_shape`` is the shape of those dimensions and of ``weight``;
    see ``tensor.rms_norm``.

    Raises:
        ShapeError: shapes that do not fit.
    """
    return ops.rms_norm(input, weight, normalized_shape, eps)


# Convolution.


def _single(name: str, argument: str, value: Any) -> Any:
    """Return what a sequence of one holds, or the value itself."""
    if not isinstance(value, (tuple, list)):
        return value
    if len(value) != 1:
        raise ShapeError(f"{name}: {argument} must be an integer or one in a tuple, got {value!r}")
    return value[0]


def conv1d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
) -> Tensor:
    """Return the cross-correlation of rows with kernels, plus ``bias``.

    This is ``conv2d`` of planes of one row. Shapes: ``input`` is (N, C, L) or
    (C, L), ``weight`` (O, C / groups, K), ``bias`` (O,) or None.

    Raises:
        ShapeError: shapes that do not fit, or an argument out of range.
    """
    if weight.ndim != 3 or input.ndim not in (2, 3):
        raise ShapeError(
            "conv1d: the input must be (N, C, L) or (C, L) and weight (out_channels, in_channels "
            f"/ groups, length), got shapes {input.shape} and {weight.shape}"
        )
    steps, dilations = (
        (1, _single("conv1d", name, value))
        for name, value in (("stride", stride), ("dilation", dilation))
    )
    if not isinstance(padding, str):
        padding = (0, _single("conv1d", "padding", padding))
    planes, kernels = input.unsqueeze(-2), weight.unsqueeze(-2)
    return ops.conv2d(planes, kernels, bias, steps, padding, dilations, groups).squeeze(-2)


def conv_transpose2d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Any = 1,
    padding: Any = 0,
    output_padding: Any = 0,
    groups: int = 1,
    dilation: Any = 1,
) -> Tensor:
    """Return the transposed convolution: the gradient of ``conv2d`` for its input, plus ``bias``.

    Shapes: ``input`` is (N, C, H, W) or (C, H, W), ``weight`` (C, O / groups, KH,
    KW), ``bias`` (O,) or None; the result has ``(H - 1) * stride - 2 * padding +
    dilation * (KH - 1) + output_padding + 1`` rows.

    Raises:
        ShapeError: shapes that do not fit, or an argument out of range.
    """
    name = "conv_transpose2d"
    if weight.ndim != 4 or input.ndim not in (3, 4):
        raise ShapeError(
            f"{name}: the input must be (N, C, H, W) or (C, H, W) and weight (in_channels, "
            f"out_channels / groups, height, width), got shapes {input.shape} and {weight.shape}"
        )
    strides, paddings, dilations = pair(stride), pair(padding), pair(dilation)
    extra = pair(output_padding)
    if not all(0 <= e < s for e, s in zip(extra, strides, strict=True)):
        raise ShapeError(
            f"{name}: output_padding must be at least 0 and below stride {strides}, got {extra}"
        )
    plane = [
        (n - 1) * s - 2 * p + d * (k - 1) + e + 1
        for n, s, p, d, k, e in zip(
            input.shape[-2:], strides, paddings, dilations, weight.shape[2:], extra, strict=True
        )
    ]
    shape = (*input.shape[:-3], weight.shape[1] * groups, *plane)
    out = ops.conv2d_input_adjoint(input, weight, shape, strides, paddings, dilations, groups)
    return out if bias is None else out + bias.reshape(-1, 1, 1)


# Pooling.


@overload
def max_pool2d(
    input: Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
    return_indices: Literal[False] = False,
) -> Tensor: ...
@overload
def max_pool2d(
    input: Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Tensor | Extremum: ...
def max_pool2d(
    input: Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Tensor | Extremum:
    """Return the largest element of every window; see ``tensor.max_pool2d``.

    With ``return_indices`` also where it was found, as a position in its plane
    of height times width.
    """
    options = (kernel_size, stride, padding, dilation, ceil_mode)
    values = ops.max_pool2d(input, *options)
    if not return_indices:
        return values
    found = ops.max_pool2d_indices(input, *options)
    plane = max(math.prod(input.shape[-2:]), 1)
    return Extremum(values, Tensor(found.data % plane))


def adaptive_avg_pool2d(input: Tensor, output_size: Any) -> Tensor:
    """Return means over as many windows as are asked for, of nearly equal size.

    Of n rows, window i of k holds those from ``floor(i n / k)`` up to but not
    including ``ceil((i + 1) n / k)``. Shapes: ``input`` is (N, C, H, W) or
    (C, H, W); ``output_size`` is k for both dimensions or a pair, None for as
    many as there are.

    Raises:
        ShapeError: ``input`` of other dimensions, or fewer than one window.
    """
    if input.ndim not in (3, 4):
        raise ShapeError(
            f"adaptive_avg_pool2d: the input must be (N, C, H, W) or (C, H, W), got {input.shape}"
        )
    sizes = input.shape[-2:]
    counts = [n if k is None else k for n, k in zip(sizes, pair(output_size), strict=True)]
    if min(counts) < 1:
        raise ShapeError(f"adaptive_avg_pool2d: output_size must be at least 1, got {counts}")
    if all(n % k == 0 and n for n, k in zip(sizes, counts, strict=True)):
        return ops.avg_pool2d(input, tuple(n // k for n, k in zip(sizes, counts, strict=True)))
    for dim, n, k in zip((-2, -1), sizes, counts, strict=True):
        windows = [(i * n // k, -(-(i + 1) * n // k)) for i in range(k)]
        parts = [_narrowed(input, dim, slice(*window)).mean(dim, True) for window in windows]
        input = ops.cat(parts, dim)
    return input


# Padding.


def _narrowed(a: Tensor, dim: int, part: slice) -> Tensor:
    """Return a slice along ``dim``, which is negative."""
    return a[(..., part, *(slice(None),) * (-dim - 1))]


def pad(input: Tensor, pad: Sequence[int], mode: str = "constant", value: float = 0.0) -> Tensor:
    """Return ``input`` with elements before and after its own.

    Args:
        input: of any shape.
        pad: two lengths for each dimension, before and after, from the last dimension on.
        mode: "constant" for ``value``; "reflect" for the elements mirrored at the edge, without
            it; "replicate" for the one at the edge; "circular" for those at the other end.
        value: what a constant padding consists of.

    Raises:
        ShapeError: lengths that do not fit.
        ValueError: an unknown mode, or a value where none is used.
    """
    if mode == "constant":
        return ops.pad(input, pad, value)
    if mode not in _ENDS:
        raise ValueError(
            f"pad: mode must be 'constant', 'reflect', 'replicate' or 'circular', got {mode!r}"
        )
    if value:
        raise ValueError(f"pad: mode {mode!r} takes no value, got {value}")
    lengths = tuple(pad)
    if len(lengths) % 2 or len(lengths) > 2 * input.ndim:
        raise ShapeError(
            f"pad: pad must hold two lengths for each of at most {input.ndim} dimensions, "
            f"got {lengths}"
        )
    for i in range(len(lengths) // 2):
        before, after = lengths[2 * i : 2 * i + 2]
        dim = -1 - i
        n = input.shape[axis(dim, input.ndim)]
        longest = {"reflect": n - 1, "circular": n}.get(mode, math.inf if n else 0)
        if min(before, after) < 0 or max(before, after) > longest:
            raise ShapeError(
                f"pad: mode {mode!r} can pad {n} elements by 0 to {longest}, got {before} and "
                f"{after}"
            )
        first, last = _ENDS[mode](input, dim, before, after)
        parts = [part for part, m in ((first, before), (input, n), (last, after)) if m]
        input = ops.cat(parts, dim) if parts else input
    return input


def _reflected(a: Tensor, dim: int, before: int, after: int) -> tuple[Tensor, Tensor]:
    n = a.shape[dim]
    first, last = (
        slice(before, 0, -1),
        slice(n - 2, n - 2 - after if n - 2 - after >= 0 else None, -1),
    )
    return _narrowed(a, dim, first), _narrowed(a, dim, last)


def _replicated(a: Tensor, dim: int, before: int, after: int) -> tuple[Tensor, Tensor]:
    first, last = _narrowed(a, dim, slice(0, 1)), _narrowed(a, dim, slice(-1, None))
    return (
        first.expand(*_lengthened(first, dim, before)),
        last.expand(*_lengthened(last, dim, after)),
    )


def _lengthened(a: Tensor, dim: int, length: int) -> list[int]:
    shape = list(a.shape)
    shape[dim] = length
    return shape


def _wrapped(a: Tensor, dim: int, before: int, after: int) -> tuple[Tensor, Tensor]:
    n = a.shape[dim]
    return _narrowed(a, dim, slice(n - before, n)), _narrowed(a, dim, slice(0, after))


_ENDS = {"reflect": _reflected, "replicate": _replicated, "circular": _wrapped}
