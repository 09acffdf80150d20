"""Convolutions: kernels that move over rows or planes."""

from __future__ import annotations

import math
from typing import Any

from ..dtypes import float32
from ..errors import ShapeError
from ..random import Generator
from ..tensor import Tensor
from . import functional, init
from ._layer_functions import pair
from ._module import Module
from ._parameter import Parameter, empty_parameter

__all__ = ["Conv1d", "Conv2d", "ConvTranspose2d"]

_MODES = ("zeros", "reflect", "replicate", "circular")


class _Convolution(Module):
    """What convolutions share: sizes, first values, text."""

    bias: Parameter | None
    dims: int
    transposed = False

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Any,
        stride: Any = 1,
        padding: Any = 0,
        dilation: Any = 1,
        groups: int = 1,
        bias: bool = True,
        padding_mode: str = "zeros",
        *,
        dtype: Any = float32,
        generator: Generator | None = None,
    ) -> None:
        name = type(self).__name__
        for what, channels in (("in_channels", in_channels), ("out_channels", out_channels)):
            if groups < 1 or channels % groups:
                raise ShapeError(
                    f"{name}: {what} must be divisible by groups, got {channels} and {groups}"
                )
        if padding_mode not in _MODES:
            raise ValueError(f"{name}: padding_mode must be one of {_MODES}, got {padding_mode!r}")
        if isinstance(padding, str) and padding not in ("same", "valid"):
            raise ValueError(
                f"{name}: padding must be integers, 'same' or 'valid', got {padding!r}"
            )
        self.in_channels = in_channels
        self.out_channels = out_channels
        self.kernel_size = self._each(kernel_size)
        self.stride = self._each(stride)
        self.padding = padding if isinstance(padding, str) else self._each(padding)
        self.dilation = self._each(dilation)
        if padding == "same" and any(s != 1 for s in self.stride):
            raise ShapeError(f"{name}: padding 'same' needs a stride of 1, got {self.stride}")
        self.groups = groups
        self.padding_mode = padding_mode
        ends = (
            (in_channels, out_channels // groups)
            if self.transposed
            else (out_channels, in_channels // groups)
        )
        self.weight = empty_parameter(name, (*ends, *self.kernel_size), dtype)
        self.bias = empty_parameter(name, out_channels, dtype) if bias else None
        self.reset_parameters(generator)

    def _each(self, value: Any) -> tuple[Any, ...]:
        """Return ``value`` once for each dimension."""
        values = tuple(value) if isinstance(value, (tuple, list)) else (value,) * self.dims
        if len(values) != self.dims:
            raise ShapeError(
                f"{type(self).__name__}: sizes must be an integer or {self.dims} of them, "
                f"got {value!r}"
            )
        return values

    def reset_parameters(self, generator: Generator | None = None) -> None:
        """Draw the parameters anew."""
        init.kaiming_uniform_(self.weight, a=math.sqrt(5), generator=generator)
        if self.bias is not None:
            inputs = math.prod(self.weight.shape[1:])
            bound = 1 / math.sqrt(inputs) if inputs else 0.0
            init.uniform_(self.bias, -bound, bound, generator=generator)

    def _surrounded(self, input: Tensor) -> tuple[Tensor, Any]:
        """Return ``input`` with what is not zeros around it, and the padding that is left."""
        if self.padding_mode == "zeros":
            return input, self.padding
        if isinstance(self.padding, str):
            totals = [
                d * (k - 1) if self.padding == "same" else 0
                for k, d in zip(self.kernel_size, self.dilation, strict=True)
            ]
        else:
            totals = [2 * p for p in self.padding]
        lengths = [n for total in reversed(totals) for n in (total // 2, total - total // 2)]
        return functional.pad(input, lengths, self.padding_mode), 0

    def extra_repr(self) -> str:
        """Return the sizes, and what differs from the defaults."""
        parts = [
            f"{self.in_channels}, {self.out_channels}",
            f"kernel_size={self.kernel_size}",
            f"stride={self.stride}",
        ]
        if self.padding != (0,) * self.dims:
            parts.append(f"padding={self.padding}")
        if self.dilation != (1,) * self.dims:
            parts.append(f"dilation={self.dilation}")
        parts += self._more_repr()
        if self.groups != 1:
            parts.append(f"groups={self.groups}")
        if self.bias is None:
            parts.append("bias=False")
        if self.padding_mode != "zeros":
            parts.append(f"padding_mode={self.padding_mode}")
        return ", ".join(parts)

    def _more_repr(self) -> list[str]:
        return []


class Conv1d(_Convolution):
    """The cross-correlation of rows with kernels, plus a bias; see ``functional.conv1d``.

    Arguments and first values are as for ``Conv2d``, with one dimension for two.

    Shapes: input ``(N, in_channels, L)`` or ``(in_channels, L)``, weight
    ``(out_channels, in_channels / groups, K)``, bias ``(out_channels,)``.
    """

    dims = 1

    def forward(self, input: Tensor) -> Tensor:
        """Return the convolution of ``input``."""
        rows, padding = self._surrounded(input)
        return functional.conv1d(
            rows, self.weight, self.bias, self.stride, padding, self.dilation, self.groups
        )


class Conv2d(_Convolution):
    """The cross-correlation of planes with kernels, plus a bias; see ``tensor.conv2d``.

    Both start uniform in ``(-1/sqrt(n), 1/sqrt(n))`` for the
    ``n = in_channels / groups * KH * KW`` inputs of each output.

    Args:
        in_channels: channels of the input.
        out_channels: channels of the output.
        kernel_size: height and width, or one number for both; likewise the next three.
        stride: how far apart the steps are.
        padding: how much is put around the input; also "same", for an output as large as the
            input, or "valid", for none.
        dilation: how far apart the taps are.
        groups: into how many groups channels are divided, each convolved by itself.
        bias: whether there is a bias.
        padding_mode: "zeros", or what ``functional.pad`` calls "reflect", "replicate" and
            "circular".
        dtype: of the parameters.
        generator: draws their first values; by default the default one.

    Shapes: input ``(N, in_channels, H, W)`` or ``(in_channels, H, W)``, weight
    ``(out_channels, in_channels / groups, KH, KW)``, bias ``(out_channels,)``.

    Raises:
        ShapeError: channels that ``groups`` does not divide.
        ValueError: an unknown padding or padding mode.
    """

    dims = 2

    def forward(self, input: Tensor) -> Tensor:
        """Return the convolution of ``input``."""
        planes, padding = self._surrounded(input)
        return functional.conv2d(
            planes, self.weight, self.bias, self.stride, padding, self.dilation, self.groups
        )


class ConvTranspose2d(_Convolution):
    """The transposed convolution of planes, plus a bias; see ``functional.conv_transpose2d``.

    Both start uniform in ``(-1/sqrt(n), 1/sqrt(n))`` for
    ``n = out_channels / groups * KH * KW``.

    Args:
        in_channels: channels of the input.
        out_channels: channels of the output.
        kernel_size: height and width, or one number for both; likewise the next three.
        stride: how far apart the input's elements are laid.
        padding: how much is taken off around the output.
        output_padding: how many rows and columns of the output more there are behind.
        groups: into how many groups channels are divided, each convolved by itself.
        bias: whether there is a bias.
        dilation: how far apart the taps are.
        dtype: of the parameters.
        generator: draws their first values; by default the default one.

    Shapes: input ``(N, in_channels, H, W)`` or ``(in_channels, H, W)``, weight
    ``(in_channels, out_channels / groups, KH, KW)``, bias ``(out_channels,)``.
    """

    dims = 2
    transposed = True

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Any,
        stride: Any = 1,
        padding: Any = 0,
        output_padding: Any = 0,
        groups: int = 1,
        bias: bool = True,
        dilation: Any = 1,
        *,
        dtype: Any = float32,
        generator: Generator | None = None,
    ) -> None:
        self.output_padding = pair(output_padding)
        super().__init__(
            in_channels,
            out_channels,
            kernel_size,
            stride,
            padding,
            dilation,
            groups,
            bias,
            dtype=dtype,
            generator=generator,
        )

    def forward(self, input: Tensor) -> Tensor:
        """Return the transposed convolution of ``input``."""
        return functional.conv_transpose2d(
            input,
            self.weight,
            self.bias,
            self.stride,
            self.padding,
            self.output_padding,
            self.groups,
            self.dilation,
        )

    def _more_repr(self) -> list[str]:
        return [] if self.output_padding == (0, 0) else [f"output_padding={self.output_padding}"]
