"""Every gradient rule, one per operand: a table of calculus.

A rule is called as ``rule(xp, g, ...)``. ``xp`` holds every op of the
vocabulary, either the raw kernels on ndarrays or the recording ops on Tensors,
so the same text serves the first order and every order above it. ``g`` is the
gradient of the result. The remaining parameters are asked for by name, and
what is not asked for is not kept alive:

    a, b, ...        an operand of the op          out         its result
    a_shape, ...     an operand's shape            dim, ...    an attribute
    attrs            all attributes                i, shapes    (variadic ops) which operand
                                                                this is, and all their shapes

A rule never writes into anything it is given. It may return a gradient of the
broadcast shape: summing it down to the operand's, and casting it to the
operand's dtype, is done once, in the engine.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

from .shapes import reduced, size

__all__ = ["RULES"]

RULES: Final[dict[str, dict[str, Callable[..., Any]]]] = {}


def vjp(op: str, **rules: Callable[..., Any]) -> None:
    """Set the rules of ``op``, one for each operand that a gradient can flow to."""
    RULES[op] = rules


def anchored(xp: Any, g: Any, x: Any) -> Any:
    """Return ``g``, which from now on depends on ``x`` too, with the derivative 0.

    A rule such as ReLU's uses its operand only to compare it. Recorded, the comparison leaves no
    trace, and the second derivative would seem not to exist where it is 0.
    """
    nowhere = xp.isnan(x) * False
    zero = xp.sum(xp.where(nowhere, x, 0.0))
    return xp.where(xp.isnan(zero), zero, g)


# Arithmetic.

vjp("add", a=lambda xp, g: g, b=lambda xp, g: g)
vjp("sub", a=lambda xp, g: g, b=lambda xp, g: -g)
vjp("mul", a=lambda xp, g, b: g * b, b=lambda xp, g, a: g * a)
vjp("div", a=lambda xp, g, b: g / b, b=lambda xp, g, b, out: -g * out / b)
vjp("neg", a=lambda xp, g: -g)
vjp("square", a=lambda xp, g, a: g * (2 * a))
vjp("abs", a=lambda xp, g, a: g * xp.sign(a))


def _pow_base(xp: Any, g: Any, a: Any, b: Any) -> Any:
    # Where b = 0 the power is constant, though a ** (b - 1) may be infinite.
    return g * xp.where(b == 0, 0.0, b * xp.pow(a, xp.where(b == 0, 1.0, b - 1)))


def _pow_exponent(xp: Any, g: Any, a: Any, b: Any, out: Any) -> Any:
    # 0 ** b is 0 for every b > 0, though log(0) is not finite.
    flat = (a == 0) * (b >= 0)
    return g * xp.where(flat, 0.0, out * xp.log(xp.where(flat, 1.0, a)))


vjp("pow", a=_pow_base, b=_pow_exponent)

# Powers, exponentials and logarithms.

vjp("sqrt", a=lambda xp, g, out: g / (2 * out))
vjp("exp", a=lambda xp, g, out: g * out)
vjp("expm1", a=lambda xp, g, out: g * (out + 1))
vjp("log", a=lambda xp, g, a: g / a)
vjp("log1p", a=lambda xp, g, a: g / (a + 1))

# Trigonometry.

vjp("sin", a=lambda xp, g, a: g * xp.cos(a))
vjp("cos", a=lambda xp, g, a: -g * xp.sin(a))

# Activations.

vjp("tanh", a=lambda xp, g, out: g * (1 - out * out))
vjp("sigmoid", a=lambda xp, g, out: g * (out * (1 - out)))
vjp("relu", a=lambda xp, g, out: xp.where(out <= 0, 0.0, g))
vjp("erf", a=lambda xp, g, a: g * ((2 / math.sqrt(math.pi)) * xp.exp(-a * a)))


def _gelu(xp: Any, g: Any, a: Any, approximate: str) -> Any:
    if approximate == "tanh":
        scale, cubic = math.sqrt(2 / math.pi), 0.044715
        t = xp.tanh(scale * (a + cubic * (a * a * a)))
        return g * (0.5 * (1 + t) + 0.5 * scale * a * (1 - t * t) * (1 + 3 * cubic * (a * a)))
    density = xp.exp(-0.5 * (a * a)) * (1 / math.sqrt(2 * math.pi))
    return g * (0.5 * (1 + xp.erf(a * math.sqrt(0.5))) + a * density)


vjp("gelu", a=_gelu)

# Choices. Equal operands share the gradient of their maximum.

vjp(
    "maximum",
    a=lambda xp, g, a, b: xp.where(a == b, g / 2, xp.where(a < b, 0.0, g)),
    b=lambda xp, g, a, b: xp.where(a == b, g / 2, xp.where(b < a, 0.0, g)),
)
vjp(
    "minimum",
    a=lambda xp, g, a, b: xp.where(a == b, g / 2, xp.where(a > b, 0.0, g)),
    b=lambda xp, g, a, b: xp.where(a == b, g / 2, xp.where(b > a, 0.0, g)),
)
vjp(
    "where",
    a=lambda xp, g, cond: xp.where(cond, g, 0.0),
    b=lambda xp, g, cond: xp.where(cond, 0.0, g),
)


def _clip(xp: Any, g: Any, a: Any, min: float | None, max: float | None) -> Any:
    if min is not None:
        g = xp.where(a >= min, g, 0.0)
    if max is not None:
        g = xp.where(a <= max, g, 0.0)
    return g


vjp("clip", a=_clip)

# Reductions.


def spread(
    xp: Any, g: Any, a_shape: tuple[int, ...], dim: int | tuple[int, ...] | None, keepdim: bool
) -> Any:
    """Return ``g``, the gradient of a reduction over ``dim``, expanded to the operand's shape."""
    return xp.expand(kept(xp, g, a_shape, dim, keepdim), a_shape)


def kept(
    xp: Any, x: Any, shape: tuple[int, ...], dim: int | tuple[int, ...] | None, keepdim: bool
) -> Any:
    """Return ``x``, the result of a reduction over ``dim``, with every reduced length kept as 1."""
    if keepdim:
        return x
    over = reduced(dim, len(shape))
    return xp.reshape(x, tuple(1 if i in over else n for i, n in enumerate(shape)))


def count(shape: tuple[int, ...], dim: int | tuple[int, ...] | None) -> int:
    """Return how many elements go into one element of a reduction over ``dim``."""
    return math.prod(shape[d] for d in reduced(dim, len(shape)))


def _mean(xp: Any, g: Any, a_shape: Any, dim: Any, keepdim: bool) -> Any:
    # Of no elements there is no gradient to scale.
    return spread(xp, g / max(count(a_shape, dim), 1), a_shape, dim, keepdim)


def _var(xp: Any, g: Any, a: Any, a_shape: Any, dim: Any, correction: float, keepdim: bool) -> Any:
    freedom = count(a_shape, dim) - correction
    scale = 2 / freedom if freedom > 0 else math.inf
    centred = a - xp.mean(a, dim, True)
    return spread(xp, g, a_shape, dim, keepdim) * (scale * centred)


def _max(xp: Any, g: Any, a: Any, out: Any, a_shape: Any, dim: Any, keepdim: bool) -> Any:
    return _extremum(xp, g, a, out, a_shape, dim, keepdim, xp.argmax)


def _min(xp: Any, g: Any, a: Any, out: Any, a_shape: Any, dim: Any, keepdim: bool) -> Any:
    return _extremum(xp, g, a, out, a_shape, dim, keepdim, xp.argmin)


def _extremum(
    xp: Any, g: Any, a: Any, out: Any, a_shape: Any, dim: Any, keepdim: bool, arg: Any
) -> Any:
    if dim is None:
        ties = xp.where(xp.isnan(out), xp.isnan(a), a == out)
        g = g / xp.cast(xp.sum(ties), g.dtype)
        return xp.where(ties, spread(xp, g, a_shape, dim, keepdim), 0.0)
    if not a_shape:
        return g
    wins = xp.one_hot(arg(a, dim), a_shape[dim]) == 1  # the classes are the last dimension
    order = list(range(len(a_shape) - 1))
    order.insert(dim % len(a_shape), len(a_shape) - 1)
    return xp.where(xp.permute(wins, tuple(order)), spread(xp, g, a_shape, dim, keepdim), 0.0)


def _logsumexp(xp: Any, g: Any, a: Any, out: Any, a_shape: Any, dim: Any, keepdim: bool) -> Any:
    total = kept(xp, out, a_shape, dim, keepdim)
    # Of a row that is -inf throughout, every probability is 0.
    share = xp.exp(a - xp.where(total == -math.inf, 0.0, total))
    return kept(xp, g, a_shape, dim, keepdim) * share


vjp("sum", a=spread)
vjp("mean", a=_mean)
vjp("var", a=_var)
vjp("max", a=_max)
vjp("min", a=_min)
vjp("logsumexp", a=_logsumexp)

# Linear algebra.


def _rows(xp: Any, x: Any) -> Any:
    """Return ``x`` (..., k) as a matrix (rows, k)."""
    shape = x.shape
    return x if len(shape) == 2 else xp.reshape(x, (math.prod(shape[:-1]), shape[-1]))


def _matmul_a(xp: Any, g: Any, b: Any, a_shape: Any, b_shape: Any) -> Any:
    if len(b_shape) == 1:  # (..., m, k) @ (k) or (k) @ (k)
        return g * b if len(a_shape) == 1 else xp.unsqueeze(g, -1) * b
    if len(a_shape) == 1:  # (k) @ (..., k, n)
        return xp.squeeze(xp.matmul(b, xp.unsqueeze(g, -1)), -1)
    return xp.matmul(g, xp.transpose(b, -2, -1))


def _matmul_b(xp: Any, g: Any, a: Any, a_shape: Any, b_shape: Any) -> Any:
    if len(a_shape) == 1:  # (k) @ (..., k, n) or (k) @ (k)
        return g * a if len(b_shape) == 1 else xp.unsqueeze(a, -1) * xp.unsqueeze(g, -2)
    if len(b_shape) == 1:  # (..., m, k) @ (k)
        return xp.matmul(xp.transpose(_rows(xp, a), 0, 1), xp.reshape(g, (-1,)))
    if len(b_shape) == 2:  # one product for all batches, not one for each
        return xp.matmul(xp.transpose(_rows(xp, a), 0, 1), _rows(xp, g))
    return xp.matmul(xp.transpose(a, -2, -1), g)


vjp("matmul", a=_matmul_a, b=_matmul_b)


def _before(xp: Any, g: Any, out: Any, activation: str | None) -> Any:
    """Return the gradient before the activation that ``linear`` ends with."""
    if activation is None:
        return g
    g = RULES[activation]["a"](xp, g, out=out)
    return anchored(xp, g, out) if activation == "relu" else g


def _linear_a(xp: Any, g: Any, weight: Any, out: Any, activation: str | None) -> Any:
    return xp.matmul(_before(xp, g, out, activation), weight)


def _linear_weight(xp: Any, g: Any, a: Any, out: Any, activation: str | None) -> Any:
    g = _before(xp, g, out, activation)
    return xp.matmul(xp.transpose(_rows(xp, g), 0, 1), _rows(xp, a))


def _linear_bias(xp: Any, g: Any, out: Any, activation: str | None) -> Any:
    return _before(xp, g, out, activation)


vjp("linear", a=_linear_a, weight=_linear_weight, bias=_linear_bias)

# Shape.

vjp("reshape", a=lambda xp, g, a_shape: xp.reshape(g, a_shape))
vjp("flatten", a=lambda xp, g, a_shape: xp.reshape(g, a_shape))
vjp("squeeze", a=lambda xp, g, a_shape: xp.reshape(g, a_shape))
vjp("unsqueeze", a=lambda xp, g, a_shape: xp.reshape(g, a_shape))
vjp("transpose", a=lambda xp, g, dim0, dim1: xp.transpose(g, dim0, dim1))
vjp("expand", a=lambda xp, g: g)


def _permute(xp: Any, g: Any, dims: tuple[int, ...]) -> Any:
    inverse = [0] * len(dims)
    for position, dim in enumerate(dims):
        inverse[dim % len(dims)] = position
    return xp.permute(g, tuple(inverse))


def _cat(xp: Any, g: Any, i: int, shapes: list[tuple[int, ...]], dim: int) -> Any:
    axis = dim % len(shapes[0])
    start = sum(shape[axis] for shape in shapes[:i])
    part = slice(start, start + shapes[i][axis])
    return xp.getitem(g, (slice(None),) * axis + (part,))


def _stack(xp: Any, g: Any, i: int, shapes: list[tuple[int, ...]], dim: int) -> Any:
    return xp.getitem(g, (slice(None),) * (dim % (len(shapes[0]) + 1)) + (i,))


vjp("permute", a=_permute)
vjp("cat", tensors=_cat)
vjp("stack", tensors=_stack)

# Indexing: reading adjoins to adding, once for every time an element was read.

vjp("getitem", a=lambda xp, g, index, a_shape: xp.getitem_adjoint(g, index, a_shape))
vjp("getitem_adjoint", a=lambda xp, g, index: xp.getitem(g, index))
vjp(
    "embedding",
    weight=lambda xp, g, indices, weight_shape: xp.embedding_adjoint(g, indices, weight_shape[0]),
)
vjp("embedding_adjoint", a=lambda xp, g, indices: xp.embedding(g, indices))

# Fused.

vjp("softmax", a=lambda xp, g, out, dim: out * (g - xp.sum(g * out, dim, True)))
vjp("log_softmax", a=lambda xp, g, out, dim: g - xp.exp(out) * xp.sum(g, dim, True))


def _cross_entropy(
    xp: Any,
    g: Any,
    a: Any,
    target: Any,
    a_shape: Any,
    ignore_index: int,
    reduction: str,
    label_smoothing: float,
) -> Any:
    classes = a_shape[-1]
    target = xp.cast(target, "int64")  # which can hold ignore_index
    counted = xp.ne(target, ignore_index)
    wanted = xp.cast(xp.one_hot(xp.where(counted, target, 0), classes), g.dtype)
    if label_smoothing:
        wanted = wanted * (1 - label_smoothing) + label_smoothing / classes
    if reduction == "mean":
        g = g / xp.cast(xp.sum(counted), g.dtype)
    g = xp.where(counted, g, 0.0)
    return xp.unsqueeze(g, -1) * (xp.softmax(a, -1) - wanted)


def _layer_norm_a(
    xp: Any, g: Any, a: Any, weight: Any, normalized_shape: tuple[int, ...], eps: float
) -> Any:
    axes = tuple(range(-len(size(normalized_shape)), 0))
    scale = 1 / xp.sqrt(xp.var(a, axes, 0, True) + eps)
    normal = (a - xp.mean(a, axes, True)) * scale
    g = g if weight is None else g * weight
    return scale * (g - xp.mean(g, axes, True) - normal * xp.mean(g * normal, axes, True))


def _layer_norm_weight(
    xp: Any, g: Any, a: Any, normalized_shape: tuple[int, ...], eps: float
) -> Any:
    return g * xp.layer_norm(a, None, None, normalized_shape, eps)


vjp("cross_entropy", a=_cross_entropy)
vjp("layer_norm", a=_layer_norm_a, weight=_layer_norm_weight, bias=lambda xp, g: g)
vjp("dropout", a=lambda xp, g, mask, p: xp.dropout(g, mask, p))

# Attention. The gradient of the scores is that of a softmax along the keys.


def _scores(xp: Any, g: Any, out: Any) -> Any:
    return out * (g - xp.sum(g * out, -1, True))


def _scale(operand: Any, scale: float | None) -> float:
    return 1 / math.sqrt(max(operand.shape[-1], 1)) if scale is None else scale


def _by_query(xp: Any, scores: Any, key: Any, scale: float | None) -> Any:
    return xp.matmul(scores, key) * _scale(key, scale)


def _by_key(xp: Any, scores: Any, query: Any, scale: float | None) -> Any:
    return xp.matmul(xp.transpose(scores, -2, -1), query) * _scale(query, scale)


vjp(
    "attention_weights",
    query=lambda xp, g, key, out, scale: _by_query(xp, _scores(xp, g, out), key, scale),
    key=lambda xp, g, query, out, scale: _by_key(xp, _scores(xp, g, out), query, scale),
    attn_mask=_scores,
)


def _attention_scores(
    xp: Any, g: Any, query: Any, key: Any, value: Any, attn_mask: Any, attrs: Any
) -> Any:
    weights = xp.attention_weights(query, key, attn_mask, **attrs)
    return _scores(xp, xp.matmul(g, xp.transpose(value, -2, -1)), weights)


def _attention_query(
    xp: Any, g: Any, query: Any, key: Any, value: Any, attn_mask: Any, attrs: Any
) -> Any:
    scores = _attention_scores(xp, g, query, key, value, attn_mask, attrs)
    return _by_query(xp, scores, key, attrs["scale"])


def _attention_key(
    xp: Any, g: Any, query: Any, key: Any, value: Any, attn_mask: Any, attrs: Any
) -> Any:
    scores = _attention_scores(xp, g, query, key, value, attn_mask, attrs)
    return _by_key(xp, scores, query, attrs["scale"])


def _attention_value(xp: Any, g: Any, query: Any, key: Any, attn_mask: Any, attrs: Any) -> Any:
    weights = xp.attention_weights(query, key, attn_mask, **attrs)
    return xp.matmul(xp.transpose(weights, -2, -1), g)


def _attention_mask(
    xp: Any, g: Any, query: Any, key: Any, value: Any, attn_mask: Any, attrs: Any
) -> Any:
    scores = _attention_scores(xp, g, query, key, value, attn_mask, attrs)
    # The engine sums over what is repeated in the result, but the scores are not of its shape.
    shape, ahead = attn_mask.shape, len(scores.shape) - len(attn_mask.shape)
    repeated = tuple(
        d for d in range(len(scores.shape)) if d < ahead or shape[d - ahead] != scores.shape[d]
    )
    return xp.reshape(xp.sum(scores, repeated, True), shape) if repeated else scores


vjp(
    "scaled_dot_product_attention",
    query=_attention_query,
    key=_attention_key,
    value=_attention_value,
    attn_mask=_attention_mask,
)

# Convolution is linear in its input and in its weight. Its result times a third array is linear
# in all three: to each of them belongs a product of the other two, which is the convolution
# itself or one of its adjoints.


def _moves(attrs: Any) -> dict[str, Any]:
    """Return how a kernel moves: the attributes of an adjoint without its shape."""
    return {name: value for name, value in attrs.items() if name != "shape"}


def _conv2d(xp: Any, a: Any, weight: Any, attrs: Any) -> Any:
    return xp.conv2d(a, weight, None, **_moves(attrs))


def _conv2d_a(xp: Any, g: Any, weight: Any, a_shape: Any, attrs: Any) -> Any:
    return xp.conv2d_input_adjoint(g, weight, a_shape, **_moves(attrs))


def _conv2d_weight(xp: Any, g: Any, a: Any, weight_shape: Any, attrs: Any) -> Any:
    return xp.conv2d_weight_adjoint(g, a, weight_shape, **_moves(attrs))


vjp(
    "conv2d",
    a=_conv2d_a,
    weight=_conv2d_weight,
    bias=lambda xp, g: xp.sum(g, (0, -2, -1) if len(g.shape) == 4 else (-2, -1)),
)
vjp(
    "conv2d_input_adjoint",
    a=_conv2d,
    weight=lambda xp, g, a, weight_shape, attrs: _conv2d_weight(xp, a, g, weight_shape, attrs),
)
vjp(
    "conv2d_weight_adjoint",
    a=lambda xp, g, input, attrs: _conv2d(xp, input, g, attrs),
    input=lambda xp, g, a, input_shape, attrs: _conv2d_a(xp, a, g, input_shape, attrs),
)

# Pooling: reading the largest element adjoins to adding to it, and averaging is linear.


def _max_pool2d(xp: Any, g: Any, a: Any, a_shape: Any, attrs: Any) -> Any:
    winners = xp.reshape(xp.max_pool2d_indices(a, **attrs), (-1,))
    flat = xp.getitem_adjoint(xp.reshape(g, (-1,)), winners, (math.prod(a_shape),))
    return xp.reshape(flat, a_shape)


vjp("max_pool2d", a=_max_pool2d)
vjp("avg_pool2d", a=lambda xp, g, a_shape, attrs: xp.avg_pool2d_adjoint(g, a_shape, **attrs))
vjp("avg_pool2d_adjoint", a=lambda xp, g, attrs: xp.avg_pool2d(g, **_moves(attrs)))

# Conversion.

vjp("cast", a=lambda xp, g: g)
vjp("clone", a=lambda xp, g: g)
