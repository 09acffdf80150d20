"""Faults in the rules of tensor: one derivative each."""

from __future__ import annotations

from typing import Final

from tests.faults.fault import Fault, Tests, array_op, elementwise_op, named

__all__ = ["FAULTS"]

FAULTS: Final[list[Fault]] = []


def _rule(family: str, old: str, new: str, breaks: str, tests: Tests) -> None:
    FAULTS.append(Fault(f"tensor/rules/{family}.py", old, new, breaks, tests))


# Elementwise

_rule(
    "elementwise",
    'vjp("sub", a=lambda xp, g: g, b=lambda xp, g: -g)',
    'vjp("sub", a=lambda xp, g: g, b=lambda xp, g: g)',
    "sign of the second operand of a difference",
    elementwise_op("sub"),
)
_rule(
    "elementwise",
    "a=lambda xp, g, b: g * b, b=lambda xp, g, a: g * a)",
    "a=lambda xp, g, a: g * a, b=lambda xp, g, b: g * b)",
    "swapped inputs of a product",
    elementwise_op("mul"),
)
_rule(
    "elementwise",
    "b=lambda xp, g, b, out: -g * out / b)",
    "b=lambda xp, g, b, out: g * out / b)",
    "sign of the denominator's gradient",
    elementwise_op("div"),
)
_rule(
    "elementwise",
    "b=lambda xp, g, b, out: -g * out / b)",
    "b=lambda xp, g, b, out: -g * out)",
    "a division missing in the denominator's gradient",
    elementwise_op("div"),
)
_rule(
    "elementwise",
    "g * (2 * a))",
    "g * a)",
    "the factor 2 of a square's gradient",
    elementwise_op("square"),
)
_rule(
    "elementwise",
    "-g * (out * out))",
    "g * (out * out))",
    "sign of a reciprocal's gradient",
    elementwise_op("reciprocal"),
)
_rule(
    "elementwise",
    "-g * xp.floor_divide(a, b))",
    "g * xp.floor_divide(a, b))",
    "sign of a remainder's gradient by the divisor",
    elementwise_op("remainder"),
)
_rule(
    "elementwise",
    "b * xp.pow(a, xp.where(b == 0, 1.0, b - 1))",
    "b * xp.pow(a, xp.where(b == 0, 1.0, b))",
    "an exponent off by one",
    elementwise_op("pow"),
)
_rule(
    "elementwise",
    "out * xp.log(xp.where(flat, 1.0, a))",
    "out * xp.log(a + xp.where(flat, 1.0, 1.0))",
    "the logarithm of another base",
    elementwise_op("pow"),
)
_rule(
    "elementwise",
    "flat = (a == 0) * (b >= 0)",
    "flat = (a == 0) * (b > 0)",
    "> for >=: the slope of 0 ** 0 by its exponent",
    named("behaviours/test_kinks", "pow"),
)
_rule(
    "elementwise",
    "g / (2 * out))",
    "g / out)",
    "the factor 1/2 of a root's gradient",
    elementwise_op("sqrt"),
)
_rule(
    "elementwise",
    "g / (a + 1))",
    "g / a)",
    "a missing term: log1p as log",
    elementwise_op("log1p"),
)
_rule(
    "elementwise",
    "-g * xp.sin(a))",
    "g * xp.sin(a))",
    "sign of a cosine's gradient",
    elementwise_op("cos"),
)
_rule(
    "elementwise",
    "g * (1 + out * out))",
    "g * (1 - out * out))",
    "sign within a tangent's gradient",
    elementwise_op("tan"),
)
_rule(
    "elementwise",
    "g * (1 - out * out))",
    "g * (1 - out))",
    "a missing square in the gradient of tanh",
    elementwise_op("tanh"),
)
_rule(
    "elementwise",
    "g * (out * (1 - out)))",
    "g * out)",
    "a missing factor in the gradient of sigmoid",
    elementwise_op("sigmoid"),
)
_rule(
    "elementwise",
    "xp.where(out <= 0, 0.0, g))",
    "xp.where(out < 0, 0.0, g))",
    "< for <=: the slope of relu at 0",
    named("behaviours/test_kinks", "relu"),
)
_rule(
    "elementwise",
    "g * xp.sigmoid(a * beta))",
    "g * xp.sigmoid(a))",
    "beta forgotten in the gradient of softplus",
    elementwise_op("softplus-beta=2.0-threshold=5.0"),
)
_rule(
    "elementwise",
    "g * (s * (1 + a * (1 - s)))",
    "g * s",
    "a missing term: silu as if sigmoid(a) were constant",
    elementwise_op("silu"),
)
_rule(
    "elementwise",
    "g * (alpha * xp.exp(xp.where(a < 0, a, 0.0)))",
    "g * xp.exp(xp.where(a < 0, a, 0.0))",
    "alpha forgotten in the gradient of elu",
    elementwise_op("elu-alpha=0.5"),
)
_rule(
    "elementwise",
    "g * (0.5 * (1 + xp.erf(a * math.sqrt(0.5))) + a * density)",
    "g * (0.5 * (1 + xp.erf(a * math.sqrt(0.5))))",
    "a missing term: the density in the gradient of gelu",
    named("tensor/ops/test_rules", "gelu"),
)
_rule(
    "elementwise",
    "b=lambda xp, g, a, b: xp.where(a == b, g / 2, xp.where(b < a, 0.0, g)),",
    "b=lambda xp, g, a, b: xp.where(a == b, g, xp.where(b < a, 0.0, g)),",
    "a tie counted one and a half times",
    named("behaviours/test_numbers", "equal_operands_share"),
)
_rule(
    "elementwise",
    "g = xp.where(a >= min, g, 0.0)",
    "g = xp.where(a > min, g, 0.0)",
    "> for >=: the slope of clip at its lower bound",
    named("tensor/ops/test_gradients", "clip and kinks and not second"),
)
_rule(
    "elementwise",
    "b=lambda xp, g, cond: xp.where(cond, 0.0, g),",
    "b=lambda xp, g, cond: xp.where(cond, g, 0.0),",
    "swapped branches of where",
    elementwise_op("where"),
)
_rule(
    "table",
    'if not getattr(x, "requires_grad", False):',
    "if True:",
    "the second derivative of a piecewise linear op does not exist",
    named("tensor/engine/test_orders", "piecewise"),
)

# Reductions

_rule(
    "reduction",
    "spread(xp, g / max(count(a_shape, dim), 1), a_shape, dim, keepdim)",
    "spread(xp, g, a_shape, dim, keepdim)",
    "a mean's gradient is not divided by the count",
    array_op("mean"),
)
_rule(
    "reduction",
    "freedom = count(a_shape, dim) - correction",
    "freedom = count(a_shape, dim) - 1",
    "the correction of a variance's gradient",
    named("tensor/ops/test_gradients", "torch and var and not second"),
)
_rule(
    "reduction",
    "g = xp.where(still, 0.0, g / (2 * xp.where(still, 1.0, out)))",
    "g = g / (2 * out)",
    "a constant's deviation has the slope nan instead of 0",
    named("tensor/ops/test_reduction", "deviation_0"),
)
_rule(
    "reduction",
    "both = xp.stack([g * right, g * left], along + 1)",
    "both = xp.stack([g * left, g * right], along + 1)",
    "swapped inputs in the tree of a product",
    array_op("prod"),
)
_rule(
    "reduction",
    "return _reversed(xp, xp.cumsum(_reversed(xp, g, dim), dim), dim)",
    "return xp.cumsum(g, dim)",
    "a running sum's gradient from the wrong end",
    named("tensor/ops/test_gradients", "cumsum and torch"),
)
_rule(
    "reduction",
    "_shifted(xp, xp.cumprod(a, dim), dim, 1, 1.0)",
    "xp.cumprod(a, dim)",
    "off by one: the products up to each element, itself included",
    array_op("cumprod"),
)
_rule(
    "reduction",
    "    if p == 1:\n        return g * xp.sign(a)\n",
    "    if p == 1:\n        return g * xp.abs(a)\n",
    "the sign in the gradient of a norm of order 1",
    named("tensor/ops/test_gradients", "norm- and torch"),
)
_rule(
    "reduction",
    "    g = g / xp.cast(xp.sum(ties, reduced(dim, len(a_shape)), True), g.dtype)\n",
    "",
    "ties get the whole gradient each",
    named("tensor/ops/test_reduction", "ties_share"),
)
_rule(
    "reduction",
    "share = xp.exp(a - xp.where(total == -math.inf, 0.0, total))",
    "share = xp.exp(a - total)",
    "a row of -inf has the gradient nan",
    named("behaviours/test_numbers", "logsumexp"),
)

# Products

_rule(
    "linalg",
    "return xp.matmul(g, xp.transpose(b, -2, -1))",
    "return xp.matmul(g, xp.reshape(b, (*b.shape[:-2], b.shape[-1], b.shape[-2])))",
    "a factor reshaped instead of transposed",
    array_op("matmul"),
)
_rule(
    "linalg",
    "return xp.matmul(xp.transpose(a, -2, -1), g)",
    "return xp.transpose(xp.matmul(xp.transpose(g, -2, -1), a), -2, -1) * -1",
    "sign of a batched product's second gradient",
    named("tensor/ops/test_gradients", "matmul and equal_torch"),
)
_rule(
    "linalg",
    "b=lambda xp, g, a: xp.matmul(a, g))",
    "b=lambda xp, g, a: xp.matmul(g, a))",
    "a transposed factor of an outer product",
    array_op("outer"),
)
_rule(
    "linalg",
    "factors, names = [g, *others[:i], *others[i + 1 :]], [out, *terms[:i], *terms[i + 1 :]]",
    "factors, names = [g, *others[i + 1 :], *others[:i]], [out, *terms[:i], *terms[i + 1 :]]",
    "swapped inputs of einsum",
    named("tensor/ops/test_einsum"),
)
_rule(
    "linalg",
    'return anchored(xp, g, out) if activation == "relu" else g',
    "return g",
    "the second derivative of linear with relu does not exist",
    named("tensor/engine/test_orders", "piecewise or relu"),
)

# Shapes

_rule(
    "shape",
    "return xp.permute(g, tuple(inverse))",
    "return xp.permute(g, dims)",
    "a permutation instead of its inverse",
    array_op("permute"),
)
_rule(
    "shape",
    'tuple(-n for n in integers("shifts", shifts))',
    'tuple(n for n in integers("shifts", shifts))',
    "rolled on instead of back",
    array_op("roll"),
)
_rule(
    "shape",
    "pairs = tuple(n for pair in zip(counts, full, strict=True) for n in pair)",
    "pairs = tuple(n for pair in zip(full, counts, strict=True) for n in pair)",
    "wrong axes: sums over elements instead of copies",
    array_op("repeat"),
)
_rule(
    "shape",
    "xp.pad(g, tuple(-n for n in pad))",
    "xp.pad(g, tuple(-n for n in (*pad[1::-1], *pad[2:])))",
    "wrong side of a padding cut off",
    named("tensor/ops/test_gradients", "pad- and equal_torch"),
)
_rule(
    "shape",
    "xp.triu(g, diagonal))",
    "xp.triu(g, diagonal + 1))",
    "off by one: the diagonal of triu",
    array_op("triu"),
)
_rule(
    "shape",
    "[xp.getitem(g, (*ahead, i)) if need else None for i, need in enumerate(needs)]",
    "[xp.getitem(g, (*ahead, -1 - i)) if need else None for i, need in enumerate(needs)]",
    "stacked operands get each other's gradients",
    named("tensor/ops/test_gradients", "stack and equal_torch"),
)

# Indexing

_rule(
    "indexing",
    "g if accumulate else xp.setitem(g, 0.0, index),",
    "g,",
    "what was overwritten keeps its gradient",
    named("tensor/engine/test_inplace", "gradient_of_its_place"),
)
_rule(
    "indexing",
    "if not accumulate and scatter.may_repeat(index):",
    "if False:",
    "every value written to a place gets its gradient, not the last alone",
    named("tensor/engine/test_inplace", "last_is_stored"),
)
_rule(
    "indexing",
    "    return _summed(xp, g, value_shape)",
    "    return xp.reshape(xp.getitem(xp.reshape(g, (-1,)), 0), value_shape) "
    "if not value_shape else _summed(xp, g, value_shape)",
    "missing un-broadcast of one value that was written to many places",
    named("tensor/engine/test_inplace"),
)

# Fused

_rule(
    "fused",
    "out * (g - xp.sum(g * out, dim, True)))",
    "out * g)",
    "a missing term: softmax as if its sum were constant",
    named("tensor/ops/test_rules", "softmax"),
)
_rule(
    "fused",
    "g - xp.exp(out) * xp.sum(g, dim, True))",
    "g - out * xp.sum(g, dim, True))",
    "log probabilities for probabilities",
    named("tensor/ops/test_rules", "log_softmax"),
)
_rule(
    "fused",
    "    g = xp.where(counted, g, 0.0)\n",
    "",
    "ignored rows have a gradient",
    named("tensor/ops/test_rules", "cross_entropy"),
)
_rule(
    "fused",
    "scale * (g - xp.mean(g, axes, True) - normal * xp.mean(g * normal, axes, True))",
    "scale * (g - xp.mean(g, axes, True))",
    "a missing term: the deviation in layer norm's gradient",
    named("tensor/ops/test_rules", "layer_norm"),
)
_rule(
    "fused",
    "for_variance = along * scale / (variance + eps) * -0.5",
    "for_variance = along * scale / (variance + eps) * 0.5",
    "sign of the gradient of batch norm's variance",
    named("tensor/ops/test_rules", "batch_norm"),
)
_rule(
    "fused",
    "lambda xp, g, mask, p: xp.dropout(g, mask, p))",
    "lambda xp, g, mask, p: xp.where(mask, g, 0.0))",
    "dropout's scale is missing in its gradient",
    array_op("dropout"),
)

# Attention and convolution

_rule(
    "attention",
    "return xp.matmul(xp.transpose(scores, -2, -1), query) * _scale(query, scale)",
    "return xp.matmul(xp.transpose(scores, -2, -1), query)",
    "the scale is missing in the key's gradient",
    named("tensor/ops/test_rules", "attention_weights"),
)
_rule(
    "convolution",
    "attrs: _conv2d_weight(xp, a, g, weight_shape, attrs),",
    "attrs: _conv2d_weight(xp, g, a, weight_shape, attrs),",
    "swapped inputs of a convolution's adjoint",
    array_op("conv2d_input_adjoint"),
)
_rule(
    "convolution",
    "xp.sum(g, (0, -2, -1) if len(g.shape) == 4 else (-2, -1)),",
    "xp.mean(g, (0, -2, -1) if len(g.shape) == 4 else (-2, -1)),",
    "a mean for a sum: the bias of a convolution",
    array_op("conv2d"),
)
