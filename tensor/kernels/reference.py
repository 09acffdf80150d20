"""Forwards and hand-fused backwards in numpy, with as few passes and temporaries as it allows.

A fused backward is called as ``f(g, needs, ...)`` and returns one gradient for
each operand of its op, None where ``needs`` says that none is wanted. The
plain rules in ``rules/`` say the same in the language of ops; the tests hold
one against the other.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from ..graph import Array
from .choice import accelerated, kernels_in_use
from .half import in_single
from .room import Memory, fresh
from .scatter import check_rows

__all__ = [
    "ACTIVATIONS",
    "activation_backward",
    "binary_cross_entropy",
    "check_shares",
    "cross_entropy",
    "cross_entropy_backward",
    "dropout",
    "finish",
    "finish_turned",
    "is_wide",
    "layer",
    "linear",
    "linear_backward",
    "log_softmax",
    "log_softmax_backward",
    "logsigmoid",
    "logsumexp",
    "masked",
    "matmul",
    "mean",
    "norm",
    "product",
    "relu",
    "sigmoid",
    "softmax",
    "softmax_backward",
    "sum",
    "var",
    "where",
]

# Elementwise.


def relu(a: Array, out: Array | None = None, room: Memory = fresh) -> Any:
    """Return ``max(a, 0)``; NaN stays NaN."""
    zeros = room("zeros", a.shape[-1:], a.dtype)  # for some processors faster than one number
    zeros.fill(0)
    return np.maximum(a, zeros, out=out)


def where(cond: Array, a: Any, b: Any) -> Any:
    """Return ``np.where(cond, a, b)``, without its branches where one of the two is 0."""
    if _is_zero(b):
        return masked(np.asarray(a), cond)
    if _is_zero(a):
        return masked(np.asarray(b), ~cond)
    return np.where(cond, a, b)


def _is_zero(a: Any) -> bool:
    return np.ndim(a) == 0 and a == 0 and not np.signbit(a)


def masked(a: Array, mask: Array, out: Array | None = None) -> Any:
    """Return ``a`` where ``mask`` holds and 0 elsewhere, whatever stands in ``a``.

    The bits of each number are multiplied by 1 or 0: unlike a product this makes no NaN of
    infinity, and it is ten times as fast as a choice by a mask without pattern.
    """
    if a.dtype.kind != "f":
        return np.multiply(a, mask, out=out, dtype=a.dtype)
    if out is None:
        same = a.shape == mask.shape
        out = np.empty(a.shape if same else np.broadcast_shapes(a.shape, mask.shape), a.dtype)
    bits = f"i{a.itemsize}"
    np.multiply(a.view(bits), mask, out=out.view(bits))
    return out


def sigmoid(a: Array, out: Array | None = None, room: Memory = fresh) -> Any:
    """Return ``1 / (1 + exp(-a))``, through ``exp(-|a|)``, which overflows nowhere."""
    small, below = room("small", a.shape, a.dtype), room("below", a.shape, bool)
    np.signbit(a, below)
    np.absolute(a, small)
    np.negative(small, small)
    np.exp(small, small)
    top = np.empty(a.shape, a.dtype) if out is None else out
    top.fill(1)
    np.copyto(top, small, where=below)
    np.add(small, small.dtype.type(1), small)
    return np.divide(top, small, top)


@in_single
def logsigmoid(a: Array) -> Any:
    """Return ``log(sigmoid(a))`` as ``min(a, 0) - log(1 + exp(-|a|))``."""
    return np.minimum(a, 0) - np.log1p(np.exp(-np.absolute(a)))


@accelerated
def dropout(
    a: Array, mask: Array, p: float, into: Array | None = None, room: Memory = fresh
) -> Any:
    """Return ``a * mask / (1 - p)``, as ``a`` times a factor."""
    factors = room("factors", mask.shape, a.dtype)
    np.copyto(factors, mask)
    np.multiply(factors, a.dtype.type(0.0 if p == 1 else 1 / (1 - p)), out=factors)
    return np.multiply(a, factors, out=into)


def _tanh(a: Array, out: Array | None = None, room: Memory = fresh) -> Any:
    return np.tanh(a, out=out)


ACTIVATIONS: Final[dict[str, Callable[..., Any]]] = {
    "relu": relu,
    "sigmoid": sigmoid,
    "tanh": _tanh,
}

# Reductions.


@in_single
@accelerated
def sum(a: Array, over: tuple[int, ...], keepdim: bool) -> Any:
    """Return the sum over the dimensions ``over``; of integers and truth values in int64."""
    return np.sum(a, axis=over, keepdims=keepdim, dtype=None if a.dtype.kind == "f" else np.int64)


@in_single
def mean(a: Array, over: tuple[int, ...], keepdim: bool) -> Any:
    """Return the mean over the dimensions ``over``; NaN if they hold no element."""
    total = sum(a, over, keepdim)
    return total / total.dtype.type(_count(a, over))


@in_single
def var(a: Array, over: tuple[int, ...], correction: float, keepdim: bool) -> Any:
    """Return ``sum((a - mean(a))**2) / (n - correction)`` over the dimensions ``over``."""
    centred = a - mean(a, over, True)
    total = np.sum(centred * centred, axis=over, keepdims=keepdim)
    return total / a.dtype.type(max(_count(a, over) - correction, 0))


@in_single
def logsumexp(a: Array, over: tuple[int, ...], keepdim: bool) -> Any:
    """Return ``log(sum(exp(a)))`` over the dimensions ``over``, shifted by the largest."""
    shift = np.max(a, axis=over, keepdims=True, initial=-np.inf)
    shift = np.where(np.isfinite(shift), shift, a.dtype.type(0))
    out = np.log(np.sum(np.exp(a - shift), axis=over, keepdims=True)) + shift
    return out if keepdim else out.reshape([n for d, n in enumerate(out.shape) if d not in over])


@in_single
def norm(a: Array, p: float, over: tuple[int, ...], keepdim: bool) -> Any:
    """Return ``sum(|a|**p)**(1/p)`` over the dimensions ``over``, or what it tends to."""
    sizes = np.absolute(a)
    if math.isinf(p):
        return (np.max if p > 0 else np.min)(sizes, axis=over, keepdims=keepdim)
    if p == 0:
        return np.sum(sizes != 0, axis=over, keepdims=keepdim, dtype=a.dtype)
    if p == 1:
        return np.sum(sizes, axis=over, keepdims=keepdim)
    if p == 2:
        return np.sqrt(np.sum(np.square(sizes), axis=over, keepdims=keepdim))
    total = np.sum(np.power(sizes, p), axis=over, keepdims=keepdim)
    return np.power(total, a.dtype.type(1 / p))


def _count(a: Array, over: Sequence[int]) -> int:
    return math.prod(a.shape[d] for d in over)


# Products of matrices.


def _rows(a: Array) -> Array:
    """Return ``a`` (..., k) as a matrix (rows, k), also where k is 0."""
    return a.reshape(math.prod(a.shape[:-1]), a.shape[-1])


@accelerated
def product(a: Array, b: Array, out: Array | None = None) -> Any:
    """Return ``a @ b`` of matrices: every such product, eager or planned, is computed here.

    ``out`` must share no memory with the operands.
    """
    if a.shape[1] == 1:  # an outer product, which a GEMM is slow at
        if out is None:
            out = np.empty((len(a), b.shape[1]), a.dtype)
        return np.einsum("i,j->ij", a[:, 0], b[0], out=out)
    return np.matmul(a, b, out)


def matmul(a: Array, b: Array, out: Array | None = None) -> Any:
    """Return ``a @ b``, in one product where batches share ``b``."""
    if a.ndim == 2 and b.ndim == 2:
        return product(a, b, out)
    if a.ndim > 2 and b.ndim == 2:
        result = product(_rows(a), b, None if out is None else _rows(out))
        return result.reshape(*a.shape[:-1], b.shape[1])
    return np.matmul(a, b, out)


@accelerated
def is_wide(rows: Array, weight: Array, out: Array) -> bool:
    """Return whether a layer's result is best computed the other way round, and then turned.

    A GEMM is slow where its second operand is transposed: of few rows by more than it takes to
    transpose its result. numba's loop does that faster than numpy.
    """
    most = 128 if kernels_in_use() == "numba" else 64
    return 2 <= len(out) <= most and out.shape[1] >= 128


def linear(
    a: Array,
    weight: Array,
    bias: Array | None,
    activation: str | None,
    out: Array | None = None,
    room: Memory = fresh,
) -> Any:
    """Return ``activation(a @ weight.T + bias)``, written over the product in place."""
    if out is None:
        out = np.empty((*a.shape[:-1], len(weight)), a.dtype)
    layer(_rows(a), weight, bias, activation, _rows(out), room)
    return out


@accelerated
def layer(
    rows: Array,
    weight: Array,
    bias: Array | None,
    activation: str | None,
    out: Array,
    room: Memory = fresh,
) -> None:
    """Write ``activation(rows @ weight.T + bias)`` of a matrix to ``out``."""
    if bias is not None and is_wide(rows, weight, out):
        turned = product(weight, rows.T, room("turned", out.shape[::-1], out.dtype))
        finish_turned(turned, bias, activation, out, room)
    else:
        product(rows, weight.T, out)
        if bias is not None or activation is not None:
            finish(out, bias, activation, room)


@accelerated
def finish(out: Array, bias: Array | None, activation: str | None, room: Memory = fresh) -> None:
    """Add the bias to a product and apply the activation, in place."""
    if bias is not None:
        np.add(out, bias, out=out)
    if activation is not None:
        ACTIVATIONS[activation](out, out, room)


@accelerated
def finish_turned(
    turned: Array, bias: Array, activation: str | None, out: Array, room: Memory = fresh
) -> None:
    """Write the transpose of a product, with bias and activation, to ``out``."""
    np.add(turned.T, bias, out)
    if activation is not None:
        ACTIVATIONS[activation](out, out, room)


def linear_backward(
    g: Array,
    needs: Sequence[bool],
    a: Array,
    weight: Array,
    out: Array,
    activation: str | None,
) -> tuple[Any, Any, Any]:
    """Return the gradients of ``linear``; the activation's factor is applied once for all three."""
    rows, total = activation_backward(_rows(g), _rows(out), activation, needs[2])
    return (
        product(rows, weight).reshape(a.shape) if needs[0] else None,
        product(rows.T, _rows(a)) if needs[1] else None,
        total,
    )


@accelerated
def activation_backward(
    g: Array, out: Array, activation: str | None, summed: bool
) -> tuple[Array, Array | None]:
    """Return the gradient before the activation, and its sum over the rows if that is wanted.

    ``g`` and the result of the activation, ``out``, are matrices.
    """
    if activation == "relu":
        g = masked(g, ~(out <= 0))
    elif activation == "tanh":
        slope = np.multiply(out, out)
        np.subtract(1, slope, out=slope)
        g = np.multiply(g, slope, out=slope)
    elif activation == "sigmoid":
        slope = np.subtract(1, out)
        np.multiply(slope, out, out=slope)
        g = np.multiply(g, slope, out=slope)
    return g, sum(g, (0,), False) if summed else None


# Softmax and its kin.


def _shifted(a: Array, dim: int) -> Array:
    """Return a fresh ``a - max(a)`` along ``dim``."""
    top = np.max(a, axis=dim, keepdims=True, initial=-np.inf)
    shifted: Array = np.subtract(a, top)
    return shifted


@in_single
@accelerated
def softmax(a: Array, dim: int) -> Any:
    """Return ``exp(a) / sum(exp(a))`` along ``dim``."""
    if a.ndim == 0:
        return softmax(a.reshape(1), 0).reshape(())
    out = _shifted(a, dim)
    np.exp(out, out=out)
    return np.divide(out, np.sum(out, axis=dim, keepdims=True), out=out)


@in_single
@accelerated
def log_softmax(a: Array, dim: int) -> Any:
    """Return ``a - log(sum(exp(a)))`` along ``dim``."""
    if a.ndim == 0:
        return log_softmax(a.reshape(1), 0).reshape(())
    out = _shifted(a, dim)
    e = np.exp(out)
    if e.dtype == np.float64 and dim % e.ndim == e.ndim - 1:
        total = _sum_in_lanes(e)[..., None]
    else:
        total = np.sum(e, axis=dim, keepdims=True)
    return np.subtract(out, np.log(total), out=out)


@in_single
@accelerated
def softmax_backward(
    g: Array,
    needs: Sequence[bool],
    out: Array,
    dim: int,
    into: Sequence[Array | None] | None = None,
    room: Memory = fresh,
) -> tuple[Any]:
    """Return ``out (g - sum(g out))``."""
    gradient = np.multiply(g, out, out=np.empty(out.shape, g.dtype) if into is None else into[0])
    np.subtract(g, _row_totals(gradient, dim, room), out=gradient)
    return (np.multiply(gradient, out, out=gradient),)


@in_single
@accelerated
def log_softmax_backward(
    g: Array,
    needs: Sequence[bool],
    out: Array,
    dim: int,
    into: Sequence[Array | None] | None = None,
    room: Memory = fresh,
) -> tuple[Any]:
    """Return ``g - exp(out) sum(g)``."""
    gradient = np.exp(out, out=np.empty(out.shape, g.dtype) if into is None else into[0])
    np.multiply(gradient, _row_totals(g, dim, room), out=gradient)
    return (np.subtract(g, gradient, out=gradient),)


def _row_totals(a: Array, dim: int, room: Memory) -> Array:
    """Return the sums along ``dim``, which stays."""
    along = dim % a.ndim if a.ndim else None
    shape = tuple(1 if d == along else n for d, n in enumerate(a.shape))
    total = room("total", shape, a.dtype)
    np.sum(a, axis=along if a.ndim else (), keepdims=True, out=total)
    return total


def _sum_in_lanes(a: Array) -> Array:
    """Return the sum along the last dimension, as eight running sums that are then joined in order.

    That is the order of PyTorch's log-softmax on 512-bit vectors. Where one class is nearly
    certain its ``p - 1``, the gradient, keeps few digits, and this order decides which: a float64
    run follows its PyTorch twin six times as closely as with numpy's order (see DEVLOG). numpy's
    is several times as fast, which single precision, where twins part anyway, is left.
    """
    lanes = 8
    turns, rest = divmod(a.shape[-1], lanes)
    sums = a[..., : turns * lanes].reshape(*a.shape[:-1], turns, lanes).sum(-2)
    sums[..., :rest] += a[..., turns * lanes :]
    total: Array = np.add.accumulate(sums, axis=-1)[..., -1]
    return total


def _classified(a: Array, target: Array, ignore_index: int) -> tuple[Array, Array, Array]:
    """Return logits (N, C), classes (N,) with 0 for ignored rows, and which rows count (N,)."""
    if target.dtype.kind not in "iu":
        raise RuntimeError(f"target must hold integers, got {target.dtype}")
    if a.ndim not in (1, 2):
        raise ValueError(f"logits must be (N, C) or (C,), got shape {a.shape}")
    if target.shape != a.shape[:-1]:
        raise ValueError(
            f"{a.shape[:-1]} rows of logits need target of that shape, got {target.shape}"
        )
    classes = target.reshape(-1)
    counted = classes != ignore_index
    safe = classes if counted.all() else np.where(counted, classes, 0)
    check_rows(safe, a.shape[-1], what="target")
    return _rows(a), safe, counted


def check_shares(a: Array, target: Array) -> None:
    """Raise unless all elements of both lie in [0, 1].

    Raises:
        RuntimeError: one does not, or is NaN.
    """
    for name, operand in (("a", a), ("target", target)):
        if operand.size and not (operand.min() >= 0 and operand.max() <= 1):
            raise RuntimeError(f"all elements of {name} should be between 0 and 1")


@in_single
def binary_cross_entropy(a: Array, target: Array) -> Any:
    """Return the cross-entropy of probabilities ``a`` of two outcomes, each logarithm >= -100."""
    log_p, log_q = (np.maximum(np.log(p), p.dtype.type(-100)) for p in (a, 1 - a))
    return (target - 1) * log_q - target * log_p


@in_single
@accelerated
def cross_entropy(
    a: Array, target: Array, ignore_index: int, reduction: str, label_smoothing: float
) -> Any:
    """Return the cross-entropy of logits ``a`` against classes ``target``."""
    if reduction not in ("mean", "sum", "none"):
        raise ValueError(f"reduction must be 'mean', 'sum' or 'none', got {reduction!r}")
    if not 0 <= label_smoothing <= 1:
        raise ValueError(f"label_smoothing must lie in [0, 1], got {label_smoothing}")
    logits, classes, counted = _classified(a, target, ignore_index)
    log_p = log_softmax(logits, 1)
    losses = -log_p[np.arange(len(classes)), classes]
    if label_smoothing:
        losses *= 1 - label_smoothing
        losses -= log_p.sum(1) * (label_smoothing / logits.shape[1])
    if not counted.all():
        losses = np.where(counted, losses, losses.dtype.type(0))
    if reduction == "none":
        return losses.reshape(target.shape)
    total = losses.sum()
    return total if reduction == "sum" else total / total.dtype.type(np.count_nonzero(counted))


@in_single
@accelerated
def cross_entropy_backward(
    g: Array,
    needs: Sequence[bool],
    a: Array,
    target: Array,
    ignore_index: int,
    reduction: str,
    label_smoothing: float,
) -> tuple[Any, None]:
    """Return ``softmax(a) * s - wanted * s`` with ``s = g / rows``, in one array.

    The probabilities are ``exp(log_softmax(a))``, as in PyTorch: near 1, ``p - 1`` keeps few
    digits, and other ways to compute ``p`` round them differently.
    """
    logits, classes, counted = _classified(a, target, ignore_index)
    out = log_softmax(logits, 1)
    np.exp(out, out=out)
    if reduction == "mean":
        g = g / g.dtype.type(np.count_nonzero(counted))
    # Not by its method reshape: on a scalar, numpy keeps some memory at every call.
    scale = np.broadcast_to(np.ravel(g), (len(classes),))
    if not counted.all():
        scale = np.where(counted, scale, scale.dtype.type(0))
    np.multiply(out, scale[:, None], out=out)
    if label_smoothing:
        np.subtract(out, scale[:, None] * (label_smoothing / logits.shape[1]), out=out)
    out[np.arange(len(classes)), classes] -= scale * (1 - label_smoothing)
    return out.reshape(a.shape), None
