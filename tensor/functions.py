"""Functions of Tensors that are made of ops, and the ways to make a Tensor."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple, overload

import numpy as np

from . import ops
from .arguments import check_number, check_probability, generator_of
from .dispatch import Operand, quietly
from .dtypes import as_dtype, check_bool, float32, int64
from .random import Generator
from .shapes import size
from .tensor import Tensor

__all__ = [
    "Extremum",
    "arange",
    "dropout",
    "eye",
    "full",
    "full_like",
    "linspace",
    "max",
    "min",
    "ones",
    "ones_like",
    "rand",
    "randint",
    "randn",
    "randperm",
    "scaled_dot_product_attention",
    "zeros",
    "zeros_like",
]


class Extremum(NamedTuple):
    """The largest or smallest elements along a dimension, and where each was found first."""

    values: Tensor
    indices: Tensor


@overload
def max(a: Operand, dim: None = None, keepdim: bool = False) -> Tensor: ...
@overload
def max(a: Operand, dim: int, keepdim: bool = False) -> Extremum: ...
def max(a: Operand, dim: int | None = None, keepdim: bool = False) -> Tensor | Extremum:
    """Return the largest element, or ``(values, indices)`` of the largest along ``dim``.

    Over the whole tensor each of n equal winners gets 1/n of the gradient;
    along a dimension the first one gets it all.
    """
    return _extremum(ops.max, ops.argmax, a, dim, keepdim)


@overload
def min(a: Operand, dim: None = None, keepdim: bool = False) -> Tensor: ...
@overload
def min(a: Operand, dim: int, keepdim: bool = False) -> Extremum: ...
def min(a: Operand, dim: int | None = None, keepdim: bool = False) -> Tensor | Extremum:
    """Return the smallest element, or ``(values, indices)`` of the smallest along ``dim``.

    Ties as for ``max``.
    """
    return _extremum(ops.min, ops.argmin, a, dim, keepdim)


def _extremum(
    values: Callable[..., Tensor],
    indices: Callable[..., Tensor],
    a: Operand,
    dim: int | None,
    keepdim: bool,
) -> Tensor | Extremum:
    if dim is None:
        return values(a, None, keepdim)
    return Extremum(values(a, dim, keepdim), indices(a, dim, keepdim))


def dropout(
    a: Tensor, p: float = 0.5, training: bool = True, generator: Generator | None = None
) -> Tensor:
    """Return ``a`` with each element set to 0 with probability ``p``, the rest scaled by 1/(1-p).

    Outside training, ``a`` itself. The mask is drawn from ``generator``, or
    from the default one.

    Raises:
        ValueError: ``p`` outside [0, 1].
    """
    check_probability("dropout: p", p)
    if not training or p == 0:
        return a
    mask = generator_of("dropout", generator).bernoulli(1 - p, a.shape)
    return ops.dropout(a, Tensor._wrap(mask), p)


def scaled_dot_product_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    *,
    generator: Generator | None = None,
) -> Tensor:
    """Return ``dropout(softmax(scale * query @ key.T + attn_mask)) @ value``.

    Shapes: ``query`` is ``(..., L, E)``, ``key`` ``(..., S, E)``, ``value``
    ``(..., S, V)``; the result is ``(..., L, V)``. Leading dimensions are
    broadcast. ``attn_mask`` is expandable to ``(..., L, S)`` and either bool,
    True where a row may see a key, or added to the scores. With ``is_causal``
    row i sees keys 0 to i alone. ``scale`` is ``1 / sqrt(E)`` by default. A row
    that sees no key gives 0. Dropout is applied whenever ``dropout_p`` is above
    0: pass 0 outside training.
    Source: Vaswani et al., 2017, arXiv:1706.03762.

    Raises:
        ShapeError: shapes that do not fit, or both a mask and ``is_causal``.
        RuntimeError: dtypes that differ or are not floating.
        ValueError: ``dropout_p`` outside [0, 1].
    """
    name = "scaled_dot_product_attention"
    check_probability(f"{name}: dropout_p", dropout_p)
    mask: Any = attn_mask
    if mask is not None and not isinstance(mask, Tensor):
        mask = Tensor(mask)
    if mask is not None and mask.dtype.kind != "f":
        check_bool(f"{name}: attn_mask", mask.data)
        mask = ops.where(mask, 0.0, -math.inf).to(getattr(query, "dtype", float32))
    if dropout_p == 0:
        return ops.scaled_dot_product_attention(query, key, value, mask, is_causal, scale)
    weights = ops.attention_weights(query, key, mask, is_causal, scale)
    return ops.matmul(dropout(weights, dropout_p, generator=generator), value)


def _made(array: Any, requires_grad: bool) -> Tensor:
    return Tensor._wrap(np.asarray(array)).requires_grad_(requires_grad)


def full(
    shape: Any, fill_value: float, *, dtype: Any = float32, requires_grad: bool = False
) -> Tensor:
    """Return a Tensor of ``shape`` filled with ``fill_value``, inf if the dtype cannot hold it."""
    check_number("full: fill_value", fill_value)
    filled = quietly().run(np.full, size(shape, what="full"), fill_value, as_dtype(dtype))
    return _made(filled, requires_grad)


def zeros(*shape: Any, dtype: Any = float32, requires_grad: bool = False) -> Tensor:
    """Return a Tensor of ``shape`` filled with 0."""
    return _made(np.zeros(_given("zeros", shape), as_dtype(dtype)), requires_grad)


def ones(*shape: Any, dtype: Any = float32, requires_grad: bool = False) -> Tensor:
    """Return a Tensor of ``shape`` filled with 1."""
    return _made(np.ones(_given("ones", shape), as_dtype(dtype)), requires_grad)


def zeros_like(a: Tensor, *, dtype: Any = None) -> Tensor:
    """Return zeros of the shape of ``a``, and of its dtype unless another is given."""
    return zeros(a.shape, dtype=a.dtype if dtype is None else dtype)


def ones_like(a: Tensor, *, dtype: Any = None) -> Tensor:
    """Return ones of the shape of ``a``, and of its dtype unless another is given."""
    return ones(a.shape, dtype=a.dtype if dtype is None else dtype)


def full_like(a: Tensor, fill_value: float, *, dtype: Any = None) -> Tensor:
    """Return a Tensor of the shape of ``a``, and of its dtype unless another is given, filled."""
    return full(a.shape, fill_value, dtype=a.dtype if dtype is None else dtype)


def eye(
    n: int, m: int | None = None, *, dtype: Any = float32, requires_grad: bool = False
) -> Tensor:
    """Return a matrix (n, m), square by default, with 1 on the diagonal and 0 elsewhere."""
    rows, columns = size((n, n if m is None else m), what="eye")
    return _made(np.eye(rows, columns, dtype=as_dtype(dtype)), requires_grad)


def linspace(
    start: float, end: float, steps: int, *, dtype: Any = float32, requires_grad: bool = False
) -> Tensor:
    """Return ``steps`` numbers at equal distances, from ``start`` up to and including ``end``."""
    check_number("linspace: start", start)
    check_number("linspace: end", end)
    (count,) = size(steps, what="linspace")
    numbers = np.linspace(start, end, count).astype(as_dtype(dtype))
    return _made(numbers, requires_grad)


def arange(start: float, end: float | None = None, step: float = 1, *, dtype: Any = None) -> Tensor:
    """Return numbers from ``start`` (or 0) up to but not including ``end``, ``step`` apart.

    int64 by default if all three are integers, otherwise float32.

    Raises:
        RuntimeError: ``step`` is 0.
    """
    first, last = (0, start) if end is None else (start, end)
    for what, value in (("start", first), ("end", last), ("step", step)):
        check_number(f"arange: {what}", value)
    if step == 0:
        raise RuntimeError("arange: step must not be 0")
    numbers = np.arange(first, last, step)
    if dtype is None:
        dtype = float32 if numbers.dtype.kind == "f" else int64
    return Tensor(numbers, dtype)


def rand(
    *shape: Any,
    generator: Generator | None = None,
    dtype: Any = float32,
    requires_grad: bool = False,
) -> Tensor:
    """Return numbers drawn evenly from [0, 1)."""
    source = generator_of("rand", generator)
    return _made(source.uniform(0.0, 1.0, _given("rand", shape), as_dtype(dtype)), requires_grad)


def randn(
    *shape: Any,
    generator: Generator | None = None,
    dtype: Any = float32,
    requires_grad: bool = False,
) -> Tensor:
    """Return numbers drawn from the normal distribution of mean 0 and deviation 1."""
    source = generator_of("randn", generator)
    return _made(source.normal(0.0, 1.0, _given("randn", shape), as_dtype(dtype)), requires_grad)


def randint(low: int, high: int, shape: Any, *, generator: Generator | None = None) -> Tensor:
    """Return integers drawn evenly from [low, high)."""
    return _made(
        generator_of("randint", generator).integers(low, high, size(shape, what="randint")), False
    )


def randperm(n: int, *, generator: Generator | None = None) -> Tensor:
    """Return the numbers 0 to n - 1 in random order."""
    return _made(generator_of("randperm", generator).permutation(n), False)


def _given(name: str, shape: tuple[Any, ...]) -> tuple[int, ...]:
    return size(shape[0] if len(shape) == 1 else shape, what=name)
