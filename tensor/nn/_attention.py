"""Attention over several heads, and the transformer layer around it."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from .. import ops
from ..dtypes import float32
from ..errors import ShapeError
from ..functions import scaled_dot_product_attention
from ..random import Generator
from ..tensor import Tensor
from . import functional, init
from ._dropout import Dropout
from ._linear import Linear
from ._module import Module
from ._norm import LayerNorm
from ._parameter import Parameter, empty_parameter

__all__ = ["MultiheadAttention", "TransformerEncoderLayer"]


def _additive(mask: Any, dtype: Any) -> Tensor:
    """Return what is added to scores: of a bool mask, -inf where it is True and 0 elsewhere."""
    given: Tensor = mask if isinstance(mask, Tensor) else Tensor(mask)
    if given.dtype.kind == "b":
        given = ops.where(given, -math.inf, 0.0)
    if given.dtype.kind != "f":
        raise TypeError(f"MultiheadAttention: a mask must be bool or floating, got {given.dtype}")
    return given.to(dtype)


class MultiheadAttention(Module):
    """Attention by ``num_heads`` heads, each over its own part of the projections.

    ``concat(head_1, ..., head_h) W_o^T + b_o``, where
    ``head_i = softmax(q_i k_i^T / sqrt(d)) v_i`` with ``d = embed_dim / num_heads``
    and q, k, v are the projections of query, key and value. The projections
    start as Xavier and Glorot's uniform, the biases at 0.

    Args:
        embed_dim: width of the query, of the projections and of the output.
        num_heads: how many heads share it.
        dropout: the probability with which a weight is dropped in training.
        bias: whether projections have biases.
        kdim: width of the key; by default ``embed_dim``.
        vdim: width of the value; by default ``embed_dim``.
        batch_first: whether the batch comes before the positions.
        dtype: of the parameters.
        generator: draws their first values; by default the default one.

    Source: Vaswani et al., 2017, arXiv:1706.03762.

    Raises:
        ShapeError: ``num_heads`` does not divide ``embed_dim``.
        ValueError: ``dropout`` is outside [0, 1].
    """

    in_proj_weight: Parameter | None
    in_proj_bias: Parameter | None

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        dropout: float = 0.0,
        bias: bool = True,
        *,
        kdim: int | None = None,
        vdim: int | None = None,
        batch_first: bool = False,
        dtype: Any = float32,
        generator: Generator | None = None,
    ) -> None:
        name = "MultiheadAttention"
        if num_heads < 1 or embed_dim < 1 or embed_dim % num_heads:
            raise ShapeError(
                f"{name}: embed_dim must be divisible by num_heads, got {embed_dim} and {num_heads}"
            )
        if not 0 <= dropout <= 1:
            raise ValueError(f"{name}: dropout must lie in [0, 1], got {dropout}")
        self.embed_dim = embed_dim
        self.num_heads = num_heads
        self.dropout = dropout
        self.kdim = embed_dim if kdim is None else kdim
        self.vdim = embed_dim if vdim is None else vdim
        self.batch_first = batch_first
        if self.kdim == self.vdim == embed_dim:
            self.in_proj_weight = empty_parameter(name, (3 * embed_dim, embed_dim), dtype)
        else:
            self.in_proj_weight = None
            self.q_proj_weight = empty_parameter(name, (embed_dim, embed_dim), dtype)
            self.k_proj_weight = empty_parameter(name, (embed_dim, self.kdim), dtype)
            self.v_proj_weight = empty_parameter(name, (embed_dim, self.vdim), dtype)
        self.in_proj_bias = empty_parameter(name, 3 * embed_dim, dtype) if bias else None
        self.out_proj = Linear(embed_dim, embed_dim, bias, dtype=dtype, generator=generator)
        self._reset_projections(generator)

    def reset_parameters(self, generator: Generator | None = None) -> None:
        """Draw the parameters anew."""
        self.out_proj.reset_parameters(generator)
        self._reset_projections(generator)

    def _reset_projections(self, generator: Generator | None) -> None:
        for weight in self._joint_weights():
            init.xavier_uniform_(weight, generator=generator)
        for bias in (self.in_proj_bias, self.out_proj.bias):
            if bias is not None:
                init.zeros_(bias)

    def _joint_weights(self) -> tuple[Parameter, ...]:
        if self.in_proj_weight is not None:
            return (self.in_proj_weight,)
        return self.q_proj_weight, self.k_proj_weight, self.v_proj_weight

    def _thirds(self, joint: Tensor) -> list[Tensor]:
        """Return the parts for query, key and value."""
        width = self.embed_dim
        return [joint[i * width : (i + 1) * width] for i in range(3)]

    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        key_padding_mask: Any = None,
        need_weights: bool = True,
        attn_mask: Any = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        """Return what the query's positions gather, and the weights if they are needed.

        A bool mask is True where a key is hidden, as in PyTorch's module, and
        unlike that of ``scaled_dot_product_attention``; a floating one is added
        to the scores. A position that sees no key gathers 0.

        Args:
            query: (L, N, embed_dim), or (N, L, embed_dim) with ``batch_first``, or (L, embed_dim).
            key: the same with S positions, of width ``kdim``.
            value: the same with S positions, of width ``vdim``.
            key_padding_mask: (N, S), or (S,): which keys of a sample are hidden.
            need_weights: whether to return the weights; without them the scores never all exist.
            attn_mask: (L, S), or (N * num_heads, L, S).
            average_attn_weights: whether to return the mean of all heads' weights, (N, L, S), or
                each of them, (N, num_heads, L, S).
            is_causal: whether position i sees keys 0 to i alone. Where ``attn_mask`` is given too,
                it is taken to say so.

        Raises:
            ShapeError: shapes that do not fit.
            TypeError: a mask that is neither bool nor floating.
        """
        batched = query.ndim == 3
        if query.ndim not in (2, 3) or not query.ndim == key.ndim == value.ndim:
            raise ShapeError(
                "MultiheadAttention: query, key and value must all be of 3 dimensions, or of 2 "
                f"without a batch, got shapes {query.shape}, {key.shape} and {value.shape}"
            )
        inputs = [query, key, value]
        if not batched:
            inputs = [x.unsqueeze(0) for x in inputs]
            if key_padding_mask is not None:
                key_padding_mask = _additive(key_padding_mask, query.dtype).unsqueeze(0)
        elif not self.batch_first:
            inputs = [x.transpose(0, 1) for x in inputs]
        widths = (self.embed_dim, self.kdim, self.vdim)
        if tuple(x.shape[-1] for x in inputs) != widths or (
            key.shape[:-1] != value.shape[:-1] or inputs[0].shape[0] != inputs[1].shape[0]
        ):
            raise ShapeError(
                f"MultiheadAttention: query, key and value must have widths {widths}, one batch, "
                f"and key and value as many positions, "
                f"got shapes {query.shape}, {key.shape} and {value.shape}"
            )
        (samples, length), keys = inputs[0].shape[:2], inputs[1].shape[1]
        mask = self._mask(
            (samples, length, keys), query.dtype, attn_mask, key_padding_mask, is_causal
        )
        q, k, v = self._projected(inputs)  # (N, heads, positions, width of a head)
        causal = is_causal and mask is None
        dropout = self.dropout if self.training else 0.0
        weights = None
        if need_weights:
            weights = ops.attention_weights(q, k, mask, causal)
            weights = functional.dropout(weights, dropout)
            gathered = ops.matmul(weights, v)
            weights = weights.mean(1) if average_attn_weights else weights
        else:
            gathered = scaled_dot_product_attention(q, k, v, mask, dropout, causal)
        joined = gathered.transpose(1, 2).reshape(samples, length, self.embed_dim)
        out = self.out_proj(joined)
        if not batched:
            return out.squeeze(0), None if weights is None else weights.squeeze(0)
        return out if self.batch_first else out.transpose(0, 1), weights

    def _projected(self, inputs: list[Tensor]) -> list[Tensor]:
        joint = self._joint_weights()
        weights = self._thirds(joint[0]) if len(joint) == 1 else joint
        bias = self.in_proj_bias
        biases = [None] * 3 if bias is None else self._thirds(bias)
        heads, width = self.num_heads, self.embed_dim // self.num_heads
        projected = []
        for x, weight, b in zip(inputs, weights, biases, strict=True):
            y = functional.linear(x, weight, b)  # (N, positions, embed_dim)
            projected.append(y.reshape(*y.shape[:2], heads, width).transpose(1, 2))
        return projected

    def _mask(
        self,
        shape: tuple[int, int, int],
        dtype: Any,
        attn_mask: Any,
        key_padding_mask: Any,
        is_causal: bool,
    ) -> Tensor | None:
        """Return what is added to the scores (N, heads, L, S) of all masks, if there are any."""
        samples, length, keys = shape
        mask = None
        if attn_mask is not None:
            mask = _additive(attn_mask, dtype)
            if mask.shape == (samples * self.num_heads, length, keys):
                mask = mask.reshape(samples, self.num_heads, length, keys)
            elif mask.shape != (length, keys):
                raise ShapeError(
                    f"MultiheadAttention: attn_mask must have shape {(length, keys)} or "
                    f"{(samples * self.num_heads, length, keys)}, got {mask.shape}"
                )
        if key_padding_mask is None:
            return mask
        if is_causal and mask is None:
            mask = _additive(~np.tri(length, keys, dtype=bool), dtype)
        padding = _additive(key_padding_mask, dtype)
        if padding.shape != (samples, keys):
            raise ShapeError(
                f"MultiheadAttention: key_padding_mask must have shape {(samples, keys)}, "
                f"got {padding.shape}"
            )
        padding = padding.reshape(samples, 1, 1, keys)
        return padding if mask is None else mask + padding


_ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": functional.relu,
    "gelu": functional.gelu,
}


class TransformerEncoderLayer(Module):
    """Self-attention and two linear layers, each with dropout, a skip and a layer norm.

    ``x = norm1(x + attention(x)); x = norm2(x + linear2(activation(linear1(x))))``, or with
    ``norm_first`` ``x = x + attention(norm1(x)); x = x + linear2(activation(linear1(norm2(x))))``.

    Args:
        d_model: width of input and output.
        nhead: how many heads the attention has.
        dim_feedforward: width between the two linear layers.
        dropout: the probability of every dropout.
        activation: "relu", "gelu" or a function.
        layer_norm_eps: ``eps`` of the layer norms.
        batch_first: whether the batch comes before the positions.
        norm_first: whether norms come before what they belong to.
        bias: whether linear layers and norms have biases.
        dtype: of the parameters.
        generator: draws their first values; by default the default one.

    Source: Vaswani et al., 2017, arXiv:1706.03762; with ``norm_first``, Xiong et al., 2020,
    arXiv:2002.04745.

    Raises:
        ValueError: an unknown activation.
    """

    def __init__(
        self,
        d_model: int,
        nhead: int,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: str | Callable[[Tensor], Tensor] = "relu",
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        *,
        dtype: Any = float32,
        generator: Generator | None = None,
    ) -> None:
        if isinstance(activation, str):
            if activation not in _ACTIVATIONS:
                raise ValueError(
                    "TransformerEncoderLayer: activation must be 'relu', 'gelu' or a function, "
                    f"got {activation!r}"
                )
            activation = _ACTIVATIONS[activation]
        made: dict[str, Any] = {"dtype": dtype, "generator": generator}
        self.self_attn = MultiheadAttention(
            d_model, nhead, dropout, bias, batch_first=batch_first, **made
        )
        self.linear1 = Linear(d_model, dim_feedforward, bias, **made)
        self.dropout = Dropout(dropout)
        self.linear2 = Linear(dim_feedforward, d_model, bias, **made)
        self.norm_first = norm_first
        self.norm1 = LayerNorm(d_model, layer_norm_eps, bias=bias, dtype=dtype)
        self.norm2 = LayerNorm(d_model, layer_norm_eps, bias=bias, dtype=dtype)
        self.dropout1 = Dropout(dropout)
        self.dropout2 = Dropout(dropout)
        self.activation = activation

    def forward(
        self,
        src: Tensor,
        src_mask: Any = None,
        src_key_padding_mask: Any = None,
        is_causal: bool = False,
    ) -> Tensor:
        """Return the output, of the shape of ``src``; the masks are ``MultiheadAttention``'s."""
        masks = (src_mask, src_key_padding_mask, is_causal)
        if self.norm_first:
            x = src + self._attended(self.norm1(src), *masks)
            return x + self._fed_forward(self.norm2(x))
        x = self.norm1(src + self._attended(src, *masks))
        out: Tensor = self.norm2(x + self._fed_forward(x))
        return out

    def _attended(self, x: Tensor, mask: Any, padding: Any, is_causal: bool) -> Tensor:
        y, _ = self.self_attn(
            x,
            x,
            x,
            key_padding_mask=padding,
            need_weights=False,
            attn_mask=mask,
            is_causal=is_causal,
        )
        dropped: Tensor = self.dropout1(y)
        return dropped

    def _fed_forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.linear2(self.dropout(self.activation(self.linear1(x))))
        dropped: Tensor = self.dropout2(y)
        return dropped
