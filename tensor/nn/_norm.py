"""Normalisation: mean 0 and variance 1 over some of the dimensions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..dtypes import float32
from ..errors import ShapeError
from ..modes import no_grad
from ..shapes import size
from ..tensor import Tensor
from . import functional, init
from ._module import Module
from ._parameter import Buffer, Parameter, empty_parameter

__all__ = ["BatchNorm1d", "BatchNorm2d", "GroupNorm", "LayerNorm", "RMSNorm"]


class _Affine(Module):
    """What norms share: a ``weight`` that starts at 1 and a ``bias`` that starts at 0, or neither.

    Subclasses say what they are shaped as.
    """

    weight: Parameter | None
    bias: Parameter | None

    def _make(self, shape: Any, weight: bool, bias: bool, dtype: Any) -> None:
        name = type(self).__name__
        self.weight = empty_parameter(name, shape, dtype) if weight else None
        self.bias = empty_parameter(name, shape, dtype) if bias else None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Set ``weight`` to 1 and ``bias`` to 0."""
        if self.weight is not None:
            init.ones_(self.weight)
        if self.bias is not None:
            init.zeros_(self.bias)


class LayerNorm(_Affine):
    """``(x - mean) / sqrt(var + eps) * weight + bias`` over the last dimensions.

    The variance is the biased one. ``weight`` starts at 1 and ``bias`` at 0.

    Args:
        normalized_shape: the shape of those dimensions, or the length of one.
        eps: keeps the root away from 0.
        elementwise_affine: whether there are ``weight`` and ``bias``, of that shape.
        bias: whether there is ``bias``.
        dtype: of the parameters.

    Source: Ba, Kiros and Hinton, 2016, arXiv:1607.06450.
    """

    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        eps: float = 1e-5,
        elementwise_affine: bool = True,
        bias: bool = True,
        *,
        dtype: Any = float32,
    ) -> None:
        self.normalized_shape = size(normalized_shape, what="LayerNorm")
        self.eps = eps
        self.elementwise_affine = elementwise_affine
        affine = elementwise_affine
        self._make(self.normalized_shape, affine, affine and bias, dtype)

    def forward(self, input: Tensor) -> Tensor:
        """Return ``input`` normalised, of its shape."""
        return functional.layer_norm(input, self.normalized_shape, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        """Return the shape, eps and which parameters there are."""
        return (
            f"{self.normalized_shape}, eps={self.eps}, "
            f"elementwise_affine={self.elementwise_affine}, bias={self.bias is not None}"
        )


class RMSNorm(Module):
    """``x / sqrt(mean(x**2) + eps) * weight`` over the last dimensions.

    ``weight`` starts at 1.

    Args:
        normalized_shape: the shape of those dimensions, or the length of one.
        eps: keeps the root away from 0; None for the distance from 1 to the next number of the
            input's dtype.
        elementwise_affine: whether there is ``weight``, of that shape.
        dtype: of the parameter.

    Source: Zhang and Sennrich, 2019, arXiv:1910.07467.
    """

    weight: Parameter | None

    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        eps: float | None = None,
        elementwise_affine: bool = True,
        *,
        dtype: Any = float32,
    ) -> None:
        self.normalized_shape = size(normalized_shape, what="RMSNorm")
        self.eps = eps
        self.elementwise_affine = elementwise_affine
        shape = self.normalized_shape
        self.weight = empty_parameter("RMSNorm", shape, dtype) if elementwise_affine else None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Set ``weight`` to 1."""
        if self.weight is not None:
            init.ones_(self.weight)

    def forward(self, input: Tensor) -> Tensor:
        """Return ``input`` normalised, of its shape."""
        return functional.rms_norm(input, self.normalized_shape, self.weight, self.eps)

    def extra_repr(self) -> str:
        """Return the shape, eps and whether there is a weight."""
        return (
            f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}"
        )


class GroupNorm(_Affine):
    """``(x - mean) / sqrt(var + eps) * weight + bias`` over groups of channels.

    Mean and biased variance are those of one sample's ``C / num_groups``
    channels and all dimensions after them. ``weight`` starts at 1 and ``bias``
    at 0.

    Args:
        num_groups: into how many groups the channels are divided.
        num_channels: C.
        eps: keeps the root away from 0.
        affine: whether there are ``weight`` and ``bias``, of shape (C,).
        bias: whether there is ``bias``.
        dtype: of the parameters.

    Source: Wu and He, 2018, arXiv:1803.08494.

    Raises:
        ShapeError: ``num_groups`` does not divide ``num_channels``.
    """

    def __init__(
        self,
        num_groups: int,
        num_channels: int,
        eps: float = 1e-5,
        affine: bool = True,
        *,
        bias: bool = True,
        dtype: Any = float32,
    ) -> None:
        if num_groups < 1 or num_channels % num_groups:
            raise ShapeError(
                f"GroupNorm: num_channels must be divisible by num_groups, got {num_channels} "
                f"and {num_groups}"
            )
        self.num_groups = num_groups
        self.num_channels = num_channels
        self.eps = eps
        self.affine = affine
        self._make(num_channels, affine, affine and bias, dtype)

    def forward(self, input: Tensor) -> Tensor:
        """Return ``input`` (N, C, ...) normalised, of its shape."""
        return functional.group_norm(input, self.num_groups, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        """Return the numbers of groups and channels, eps and which parameters there are."""
        return (
            f"{self.num_groups}, {self.num_channels}, eps={self.eps}, affine={self.affine}, "
            f"bias={self.bias is not None}"
        )


class _BatchNorm(_Affine):
    """Batch norm of inputs with a number of dimensions that a subclass gives."""

    dims: tuple[int, ...]
    running_mean: Buffer | None
    running_var: Buffer | None
    num_batches_tracked: Buffer | None

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        *,
        bias: bool = True,
        dtype: Any = float32,
    ) -> None:
        self.num_features = num_features
        self.eps = eps
        self.momentum = momentum
        self.affine = affine
        self.track_running_stats = track_running_stats
        self._make(num_features, affine, affine and bias, dtype)
        self.running_mean = self.running_var = self.num_batches_tracked = None
        if track_running_stats:
            (features,) = size(num_features, what=type(self).__name__)
            self.running_mean = Buffer(np.zeros(features, dtype))
            self.running_var = Buffer(np.ones(features, dtype))
            self.num_batches_tracked = Buffer(np.array(0))

    def reset_running_stats(self) -> None:
        """Set the running mean to 0, the running variance to 1 and the count to 0."""
        for buffer, value in (
            (self.running_mean, 0.0),
            (self.running_var, 1.0),
            (self.num_batches_tracked, 0),
        ):
            if buffer is not None:
                init.constant_(buffer, value)

    def forward(self, input: Tensor) -> Tensor:
        """Return ``input`` normalised, of its shape; in training, track its statistics.

        Raises:
            ValueError: another number of dimensions; in training, one value per channel.
        """
        name = type(self).__name__
        if input.ndim not in self.dims:
            wanted = " or ".join(f"{n}D" for n in self.dims)
            raise ValueError(f"{name}: expected {wanted} input (got {input.ndim}D input)")
        count = self.num_batches_tracked if self.training else None
        momentum: Any = self.momentum
        if momentum is None:  # the mean of all batches
            momentum = 0.0 if count is None else 1.0 / (count + 1).to(input.dtype)
        out = functional.batch_norm(
            input,
            self.running_mean,
            self.running_var,
            self.weight,
            self.bias,
            self.training or self.running_mean is None,
            momentum,
            self.eps,
        )
        if count is not None:
            with no_grad():
                count.add_(1)
        return out

    def extra_repr(self) -> str:
        """Return the number of features and the options."""
        return (
            f"{self.num_features}, eps={self.eps}, momentum={self.momentum}, affine={self.affine}, "
            f"bias={self.bias is not None}, track_running_stats={self.track_running_stats}"
        )


class BatchNorm1d(_BatchNorm):
    """``(x - mean) / sqrt(var + eps) * weight + bias`` by channel of (N, C) or (N, C, L).

    In training, mean and biased variance are those of the batch, and the
    buffers ``running_mean`` and ``running_var`` (the unbiased one) move towards
    them: ``(1 - momentum) * running + momentum * new``. In evaluation the
    buffers are used. ``weight`` starts at 1 and ``bias`` at 0.

    Args:
        num_features: C.
        eps: keeps the root away from 0.
        momentum: how far the buffers move; None for the mean of all batches.
        affine: whether there are ``weight`` and ``bias``, of shape (C,).
        track_running_stats: whether there are buffers; without them the batch's statistics are
            used in evaluation as well.
        bias: whether there is ``bias``.
        dtype: of parameters and buffers.

    Source: Ioffe and Szegedy, 2015, arXiv:1502.03167.
    """

    dims = (2, 3)


class BatchNorm2d(_BatchNorm):
    """Batch norm of planes, (N, C, H, W); otherwise as ``BatchNorm1d``."""

    dims = (4,)
