"""Entries like those of ``into``, of layers: most of them the ops' own kernels, given memory."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np

from ..dtypes import epsilon
from ..graph import Array
from ..shapes import axis, size
from . import attention, norms, reference, scatter, special
from .into import Call, entry, pullback
from .room import Room

__all__: list[str] = []  # entered in the tables of ``into``


# Elementwise.


@entry
def erf(attrs: Any, room: Room, out: Array, a: Array) -> list[Call]:
    return [(partial(special.erf, into=out, room=room), (a,))]


@entry
def gelu(attrs: Any, room: Room, out: Array, a: Array) -> list[Call]:
    return [(partial(special.gelu, into=out, room=room), (a, attrs["approximate"]))]


@pullback
def gelu_backward(room: Room, outs: Any, g: Array, a: Array, approximate: str) -> list[Call]:
    run = partial(special.gelu_backward, into=outs, room=room)
    return [(run, (g, _needs(outs), a, approximate))]


@entry
def dropout(attrs: Any, room: Room, out: Array, a: Array, mask: Array) -> list[Call]:
    return [(partial(reference.dropout, into=out, room=room), (a, mask, attrs["p"]))]


# Softmax and cross-entropy.


def _shifted(room: Room, out: Array, a: Array, dim: int) -> list[Call]:
    top = room("top", tuple(1 if d == dim else n for d, n in enumerate(a.shape)), a.dtype)
    return [
        (np.maximum.reduce, (a, dim, None, top, True, -np.inf)),
        (np.subtract, (a, top, out)),
    ]


@entry
def softmax(attrs: Any, room: Room, out: Array, a: Array) -> list[Call] | None:
    if not a.ndim:
        return None
    dim = axis(attrs["dim"], a.ndim)
    calls = _shifted(room, out, a, dim)
    total: Array = calls[0][1][3]  # the largest are not needed any more
    return [
        *calls,
        (np.exp, (out, out)),
        (np.add.reduce, (out, dim, None, total, True)),
        (np.divide, (out, total, out)),
    ]


@entry
def log_softmax(attrs: Any, room: Room, out: Array, a: Array) -> list[Call] | None:
    if not a.ndim:
        return None
    dim = axis(attrs["dim"], a.ndim)
    if a.dtype == np.float64 and dim == a.ndim - 1:
        return None  # summed in an order of its own
    calls = _shifted(room, out, a, dim)
    total, e = calls[0][1][3], room("e", a.shape, a.dtype)
    return [
        *calls,
        (np.exp, (out, e)),
        (np.add.reduce, (e, dim, None, total, True)),
        (np.log, (total, total)),
        (np.subtract, (out, total, out)),
    ]


@pullback
def softmax_backward(room: Room, outs: Any, g: Array, out: Array, dim: int) -> list[Call]:
    run = partial(reference.softmax_backward, into=outs, room=room)
    return [(run, (g, _needs(outs), out, dim))]


@pullback
def log_softmax_backward(room: Room, outs: Any, g: Array, out: Array, dim: int) -> list[Call]:
    run = partial(reference.log_softmax_backward, into=outs, room=room)
    return [(run, (g, _needs(outs), out, dim))]


@entry
def nll(attrs: Any, room: Room, out: Array, log_p: Array, target: Array) -> list[Call]:
    """The losses of classes ``target`` (N,), of which ``log_p`` (N, C) has the logarithms."""
    return [(_nll, (attrs, room, out, log_p, target))]


def _nll(attrs: Any, room: Room, out: Array, log_p: Array, target: Array) -> None:
    count, ignored, places = _classified(attrs, room, log_p, target)
    losses = out if attrs["reduction"] == "none" else room("losses", target.shape, log_p.dtype)
    np.take(log_p.reshape(-1), places, 0, losses, "clip")
    np.negative(losses, losses)
    if smoothing := attrs["label_smoothing"]:
        total = room("total", target.shape, log_p.dtype)
        np.add.reduce(log_p, 1, out=total)
        np.multiply(losses, 1 - smoothing, losses)
        np.multiply(total, smoothing / log_p.shape[1], total)
        np.subtract(losses, total, losses)
    if ignored is not None:
        losses[ignored] = 0
    if losses is not out:
        np.add.reduce(losses, 0, out=out)
    if attrs["reduction"] == "mean":
        np.divide(out, out.dtype.type(count), out)


@entry
def nll_backward(
    attrs: Any, room: Room, out: Array, g: Array, log_p: Array, target: Array
) -> list[Call]:
    """The gradient by logits ``a`` of the losses of which ``log_p`` is the log-softmax."""
    return [(np.exp, (log_p, out)), (_nll_backward, (attrs, room, out, g, target))]


def _nll_backward(attrs: Any, room: Room, out: Array, g: Array, target: Array) -> None:
    count, ignored, places = _classified(attrs, room, out, target)
    scale = g / g.dtype.type(count) if attrs["reduction"] == "mean" else g
    if ignored is not None or g.ndim:
        scale = np.broadcast_to(scale.reshape(-1), target.shape)
        scale = scale if ignored is None else np.where(ignored, g.dtype.type(0), scale)
    by_row = scale[:, None] if np.ndim(scale) else scale
    np.multiply(out, by_row, out)
    if smoothing := attrs["label_smoothing"]:
        np.subtract(out, by_row * (smoothing / out.shape[1]), out)
    out.reshape(-1)[places] -= scale * (1 - smoothing)


def _classified(
    attrs: Any, room: Room, rows: Array, target: Array
) -> tuple[int, Array | None, Array]:
    """Return how many rows count, which do not, and the place of each row's class in ``rows``."""
    count, classes = rows.shape
    places = np.multiply(room.counted(count), classes, room("places", (count,), np.int64))
    skip, ignored, safe = attrs["ignore_index"], None, target
    if 0 <= skip < classes or (count and not 0 <= target.min() <= target.max() < classes):
        ignored = target == skip
        safe = np.where(ignored, 0, target)
        scatter.check_rows(safe, classes, what="target")
        count -= int(np.count_nonzero(ignored))
    np.add(places, safe, places)
    return count, ignored, places


# Normalisation.


@entry
def layer_norm(
    attrs: Any, room: Room, out: Array, a: Array, weight: Array | None, bias: Array | None
) -> list[Call]:
    run = partial(norms.layer_norm, into=out, room=room)
    return [(run, (a, weight, bias, size(attrs["normalized_shape"]), attrs["eps"]))]


@pullback
def layer_norm_backward(
    room: Room, outs: Any, g: Array, a: Array, weight: Array | None, **attrs: Any
) -> list[Call]:
    run = partial(norms.layer_norm_backward, into=outs, room=room)
    return [(run, (g, _needs(outs), a, weight, attrs["normalized_shape"], attrs["eps"]))]


def _needs(outs: Any) -> tuple[bool, ...]:
    return tuple(out is not None for out in outs)


@entry
def rms_norm(attrs: Any, room: Room, out: Array, a: Array, weight: Array | None) -> list[Call]:
    run = partial(norms.rms_norm, into=out, room=room)
    eps = epsilon(a.dtype) if attrs["eps"] is None else attrs["eps"]
    return [(run, (a, weight, size(attrs["normalized_shape"]), eps))]


@pullback
def rms_norm_backward(
    room: Room, outs: Any, g: Array, a: Array, weight: Array | None, **attrs: Any
) -> list[Call]:
    run = partial(norms.rms_norm_backward, into=outs, room=room)
    eps = epsilon(a.dtype) if attrs["eps"] is None else attrs["eps"]
    return [(run, (g, _needs(outs), a, weight, size(attrs["normalized_shape"]), eps))]


@entry
def group_norm(
    attrs: Any, room: Room, out: Array, a: Array, weight: Array | None, bias: Array | None
) -> list[Call]:
    run = partial(norms.group_norm, into=out, room=room)
    return [(run, (a, weight, bias, *size(attrs["num_groups"], 1), attrs["eps"]))]


@pullback
def group_norm_backward(
    room: Room, outs: Any, g: Array, a: Array, weight: Array | None, **attrs: Any
) -> list[Call]:
    run = partial(norms.group_norm_backward, into=outs, room=room)
    return [(run, (g, _needs(outs), a, weight, attrs["num_groups"], attrs["eps"]))]


@entry
def batch_moments(attrs: Any, room: Room, out: Array, a: Array) -> list[Call]:
    return [(partial(norms.batch_moments, into=out, room=room), (a,))]


@pullback
def batch_moments_backward(room: Room, outs: Any, g: Array, a: Array, out: Array) -> list[Call]:
    run = partial(norms.batch_moments_backward, into=outs, room=room)
    return [(run, (g, _needs(outs), a, out))]


@entry
def batch_norm(
    attrs: Any,
    room: Room,
    out: Array,
    a: Array,
    statistics: Array,
    weight: Array | None,
    bias: Array | None,
) -> list[Call]:
    run = partial(norms.batch_norm, into=out, room=room)
    return [(run, (a, statistics, weight, bias, attrs["eps"]))]


@pullback
def batch_norm_backward(
    room: Room,
    outs: Any,
    g: Array,
    a: Array,
    statistics: Array,
    weight: Array | None,
    eps: float,
) -> list[Call]:
    run = partial(norms.batch_norm_backward, into=outs, room=room)
    return [(run, (g, _needs(outs), a, statistics, weight, eps))]


# Attention.


def _scale(query: Array, attrs: Any) -> float:
    scale = attrs["scale"]
    return 1 / math.sqrt(max(query.shape[-1], 1)) if scale is None else float(scale)


@entry
def attention_weights(
    attrs: Any, room: Room, out: Array, query: Array, key: Array, attn_mask: Array | None
) -> list[Call]:
    run = partial(attention.attention_weights, into=out, room=room)
    return [(run, (query, key, attn_mask, bool(attrs["is_causal"]), _scale(query, attrs)))]


@pullback
def attention_weights_backward(
    room: Room, outs: Any, g: Array, query: Array, key: Array, out: Array, **attrs: Any
) -> list[Call]:
    run = partial(attention.attention_weights_backward, into=outs, room=room)
    return [(run, (g, _needs(outs), query, key, out, _scale(query, attrs)))]


@entry
def scaled_dot_product_attention(
    attrs: Any,
    room: Room,
    out: Array,
    query: Array,
    key: Array,
    value: Array,
    attn_mask: Array | None,
) -> list[Call]:
    run = partial(attention.attention, into=out, room=room)
    causal = bool(attrs["is_causal"])
    return [(run, (query, key, value, attn_mask, causal, _scale(query, attrs)))]


@pullback
def scaled_dot_product_attention_backward(
    room: Room,
    outs: Any,
    g: Array,
    query: Array,
    key: Array,
    value: Array,
    attn_mask: Array | None,
    **attrs: Any,
) -> list[Call]:
    run = partial(attention.attention_backward, into=outs, room=room)
    causal = bool(attrs["is_causal"])
    return [(run, (g, _needs(outs), query, key, value, attn_mask, causal, _scale(query, attrs)))]
