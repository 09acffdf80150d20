"""Layers and losses as functions, with PyTorch's names and order of arguments."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .. import ops
from ..functions import dropout, scaled_dot_product_attention
from ..ops import (
    avg_pool2d,
    conv2d,
    elu,
    gelu,
    leaky_relu,
    linear,
    log_softmax,
    logsigmoid,
    one_hot,
    relu,
    sigmoid,
    silu,
    softmax,
    softplus,
    tanh,
)
from ..ops import col2im as fold
from ..ops import im2col as unfold
from ..tensor import Tensor
from ._layer_functions import (
    adaptive_avg_pool2d,
    batch_norm,
    conv1d,
    conv_transpose2d,
    dropout2d,
    group_norm,
    max_pool2d,
    pad,
    rms_norm,
)
from ._loss_functions import (
    binary_cross_entropy,
    binary_cross_entropy_with_logits,
    cross_entropy,
    huber_loss,
    kl_div,
    l1_loss,
    mse_loss,
    nll_loss,
    smooth_l1_loss,
)

__all__ = [
    "adaptive_avg_pool2d",
    "avg_pool2d",
    "batch_norm",
    "binary_cross_entropy",
    "binary_cross_entropy_with_logits",
    "conv1d",
    "conv2d",
    "conv_transpose2d",
    "cross_entropy",
    "dropout",
    "dropout2d",
    "elu",
    "embedding",
    "fold",
    "gelu",
    "group_norm",
    "huber_loss",
    "kl_div",
    "l1_loss",
    "layer_norm",
    "leaky_relu",
    "linear",
    "log_softmax",
    "logsigmoid",
    "max_pool2d",
    "mse_loss",
    "nll_loss",
    "one_hot",
    "pad",
    "relu",
    "rms_norm",
    "scaled_dot_product_attention",
    "sigmoid",
    "silu",
    "smooth_l1_loss",
    "softmax",
    "softplus",
    "tanh",
    "unfold",
]


def embedding(input: Any, weight: Tensor, padding_idx: int | None = None) -> Tensor:
    """Return the rows of ``weight`` (rows, width) named by ``input`` (...): (..., width).

    Args:
        input: integers in [0, rows).
        weight: the table.
        padding_idx: a row that no gradient flows to; negative counts from the end.

    Raises:
        IndexError: an index or ``padding_idx`` out of range, or not an integer.
    """
    chosen = ops.embedding(weight, input)
    if padding_idx is None:
        return chosen
    padding = row_number("embedding", padding_idx, len(weight))
    # The same values, but where the padding is they come from a constant.
    return ops.where(ops.eq(input, padding).unsqueeze(-1), weight.detach()[padding], chosen)


def row_number(name: str, padding_idx: int, rows: int) -> int:
    """Return ``padding_idx`` counted from the front.

    Raises:
        IndexError: out of range.
    """
    if not -rows <= padding_idx < rows:
        raise IndexError(f"{name}: padding_idx must lie in [{-rows}, {rows}), got {padding_idx}")
    return padding_idx % rows


def layer_norm(
    input: Tensor,
    normalized_shape: Sequence[int] | int,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Tensor:
    """Return ``(input - mean) / sqrt(var + eps) * weight + bias`` over the last dimensions.

    ``normalized_shape`` is the shape of those dimensions, of ``weight`` and of
    ``bias``. The variance is the biased one.

    Raises:
        ShapeError: shapes that do not fit.
    """
    return ops.layer_norm(input, weight, bias, normalized_shape, eps)
