"""Pooling: the largest element or the mean of every window."""

from __future__ import annotations

from typing import Any

from ..functions import Extremum
from ..tensor import Tensor
from . import functional
from ._module import Module

__all__ = ["AdaptiveAvgPool2d", "AvgPool2d", "MaxPool2d"]


class MaxPool2d(Module):
    """The largest element of every window; see ``tensor.max_pool2d``.

    Args:
        kernel_size: height and width of a window, or one number for both; likewise the next three.
        stride: how far apart windows are; by default ``kernel_size``.
        padding: how much of -inf is put around the input.
        dilation: how far apart a window's elements are.
        return_indices: whether ``(values, indices)`` are returned, the latter positions in a plane.
        ceil_mode: whether the last window may stick out.
    """

    def __init__(
        self,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        dilation: Any = 1,
        return_indices: bool = False,
        ceil_mode: bool = False,
    ) -> None:
        self.kernel_size = kernel_size
        self.stride = kernel_size if stride is None else stride
        self.padding = padding
        self.dilation = dilation
        self.return_indices = return_indices
        self.ceil_mode = ceil_mode

    def forward(self, input: Tensor) -> Tensor | Extremum:
        """Return the largest elements of ``input`` (N, C, H, W) or (C, H, W)."""
        return functional.max_pool2d(
            input,
            self.kernel_size,
            self.stride,
            self.padding,
            self.dilation,
            self.ceil_mode,
            self.return_indices,
        )

    def extra_repr(self) -> str:
        """Return how the window moves."""
        return (
            f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}, "
            f"dilation={self.dilation}, ceil_mode={self.ceil_mode}"
        )


class AvgPool2d(Module):
    """The mean of every window; see ``tensor.avg_pool2d``.

    Args:
        kernel_size: height and width of a window, or one number for both; likewise the next two.
        stride: how far apart windows are; by default ``kernel_size``.
        padding: how many zeros are put around the input.
        ceil_mode: whether the last window may stick out.
        count_include_pad: whether those zeros count.
        divisor_override: what sums are divided by in place of the number of elements.
    """

    def __init__(
        self,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: int | None = None,
    ) -> None:
        self.kernel_size = kernel_size
        self.stride = kernel_size if stride is None else stride
        self.padding = padding
        self.ceil_mode = ceil_mode
        self.count_include_pad = count_include_pad
        self.divisor_override = divisor_override

    def forward(self, input: Tensor) -> Tensor:
        """Return the means of ``input`` (N, C, H, W) or (C, H, W)."""
        return functional.avg_pool2d(
            input,
            self.kernel_size,
            self.stride,
            self.padding,
            self.ceil_mode,
            self.count_include_pad,
            self.divisor_override,
        )

    def extra_repr(self) -> str:
        """Return how the window moves."""
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class AdaptiveAvgPool2d(Module):
    """The means over as many windows as are asked for; see ``functional.adaptive_avg_pool2d``."""

    def __init__(self, output_size: Any) -> None:
        self.output_size = output_size

    def forward(self, input: Tensor) -> Tensor:
        """Return the means of ``input`` (N, C, H, W) or (C, H, W)."""
        return functional.adaptive_avg_pool2d(input, self.output_size)

    def extra_repr(self) -> str:
        """Return the size of the output."""
        return f"output_size={self.output_size}"
