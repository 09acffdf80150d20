"""The one vocabulary of operations that both engines speak.

An entry says what an op is called, what it takes, how it is drawn, where its
inputs may be sampled, what its gradient is where mathematics leaves a choice,
and which engines have it. There is no mathematics here: each engine writes
the forward and the derivative for itself, so that their agreement is evidence.

To add an op, add one line to ``VOCAB``; then a forward and a rule in every
engine that its scope names. A composite op needs no rule: its forward is
written in other ops, and these are what is recorded. The tests fail until all
of them are there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Literal, Self

__all__ = ["OPERATORS", "REQUIRED", "VOCAB", "OpSpec", "Operators", "install_operators"]


class _Required:
    """The default of an attribute that has none."""

    def __repr__(self) -> str:
        return "REQUIRED"


REQUIRED: Final = _Required()

Domain = Literal["real", "positive", "nonzero", "unit", "bool", "index"]
Scope = Literal["both", "tensor"]


@dataclass(frozen=True, slots=True)
class OpSpec:
    """One operation of the vocabulary.

    Attributes:
        name: the op's name in both engines.
        inputs: names of the operands, in order; one name with a leading ``*`` means any number.
        attrs: names of the parameters that are not operands, with their defaults.
        symbol: what a drawing writes in the op's node.
        domain: where each operand may be sampled so that the op is defined and smooth; ``unit``
            is from -1 to 1.
        kinks: the value chosen for the gradient at kinks, ties and bounds, in words.
        scope: ``both`` engines, or ``tensor`` alone where one number makes no sense.
        differentiable: False where the result is a truth value or an index.
        view: whether the result may share its operand's memory.
        optional: operands that may be None.
        composite: whether the op is made of other ops. It then has no rule, and is never a node:
            what it calls is recorded, and differentiated in every order.
    """

    name: str
    inputs: tuple[str, ...]
    attrs: Mapping[str, Any] = field(default_factory=dict)
    symbol: str = ""
    domain: tuple[Domain, ...] = ()
    kinks: str = ""
    scope: Scope = "both"
    differentiable: bool = True
    view: bool = False
    optional: tuple[str, ...] = ()
    composite: bool = False

    @property
    def variadic(self) -> bool:
        """Whether the op takes any number of operands."""
        return self.inputs[0].startswith("*")


def _vocabulary(*entries: OpSpec) -> Mapping[str, OpSpec]:
    return MappingProxyType({entry.name: entry for entry in entries})


def _op(
    name: str,
    inputs: str,
    symbol: str = "",
    domain: str = "",
    *,
    kinks: str = "",
    differentiable: bool = True,
    **attrs: Any,
) -> OpSpec:
    names = tuple(inputs.split())
    domains: Any = tuple(domain.split()) or ("real",) * len(names)
    return OpSpec(name, names, attrs, symbol or name, domains, kinks, "both", differentiable)


def _array_op(
    name: str,
    inputs: str,
    domain: str = "",
    *,
    symbol: str = "",
    kinks: str = "",
    differentiable: bool = True,
    view: bool = False,
    optional: tuple[str, ...] = (),
    **attrs: Any,
) -> OpSpec:
    names = tuple(inputs.split())
    domains: Any = tuple(domain.split()) or ("real",) * len(names)
    return OpSpec(
        name, names, attrs, symbol or name, domains, kinks, "tensor", differentiable, view, optional
    )


def _composite(
    name: str, inputs: str, domain: str = "", *, kinks: str = "", view: bool = False, **attrs: Any
) -> OpSpec:
    entry = _array_op(name, inputs, domain, kinks=kinks, view=view, **attrs)
    return replace(entry, composite=True)


# What an op shares with its adjoints and companions.
_CONVOLUTION: Final[dict[str, Any]] = {"stride": 1, "padding": 0, "dilation": 1, "groups": 1}
_WINDOWS: Final[dict[str, Any]] = {
    "kernel_size": REQUIRED,
    "dilation": 1,
    "padding": 0,
    "stride": 1,
}
_POOL: Final[dict[str, Any]] = {"kernel_size": REQUIRED, "stride": None, "padding": 0}
_MAX_POOL: Final[dict[str, Any]] = {**_POOL, "dilation": 1, "ceil_mode": False}
_AVG_POOL: Final[dict[str, Any]] = {
    **_POOL,
    "ceil_mode": False,
    "count_include_pad": True,
    "divisor_override": None,
}

# The gradient of what is constant between its jumps, and of what is written over.
_FLAT: Final = "0 everywhere"
_OVERWRITTEN: Final = "0 to what was overwritten, also by a later value"


VOCAB: Final[Mapping[str, OpSpec]] = _vocabulary(
    # arithmetic
    _op("add", "a b", "+"),
    _op("sub", "a b", "-"),
    _op("mul", "a b", "*"),
    _op("div", "a b", "/", "real nonzero"),
    _op("neg", "a", "neg"),
    _op(
        "pow",
        "a b",
        "**",
        "positive real",
        kinks="d/da is 0 where b = 0; d/db is 0 where a = 0 and b >= 0",
    ),
    _op("square", "a"),
    _op("abs", "a", kinks="0 at 0"),
    _op("sign", "a", domain="nonzero", kinks=_FLAT),
    _op("reciprocal", "a", domain="nonzero"),
    _op("floor_divide", "a b", "//", "real nonzero", kinks=_FLAT),
    _op("remainder", "a b", "%", "real nonzero", kinks="d/da is 1 and d/db is -(a // b) at jumps"),
    # rounding
    _op("floor", "a", kinks=_FLAT),
    _op("ceil", "a", kinks=_FLAT),
    _op("round", "a", kinks=_FLAT, decimals=0),
    # powers, exponentials and logarithms
    _op("sqrt", "a", domain="positive", kinks="inf at 0"),
    _op("rsqrt", "a", domain="positive", kinks="-inf at 0"),
    _op("exp", "a"),
    _op("exp2", "a"),
    _op("log", "a", domain="positive"),
    _op("log2", "a", domain="positive"),
    _op("log10", "a", domain="positive"),
    _op("log1p", "a", domain="positive"),
    _op("expm1", "a"),
    # trigonometry
    _op("sin", "a"),
    _op("cos", "a"),
    _op("tan", "a", domain="unit"),
    _op("atan", "a"),
    _op("sinh", "a"),
    _op("cosh", "a"),
    # activations
    _op("tanh", "a"),
    _op("sigmoid", "a"),
    _op("logsigmoid", "a"),
    _op("softplus", "a", kinks="1 where beta a > threshold", beta=1.0, threshold=20.0),
    _op("relu", "a", "ReLU", domain="nonzero", kinks="0 at 0"),
    _op("leaky_relu", "a", domain="nonzero", kinks="negative_slope at 0", negative_slope=0.01),
    _op("elu", "a", "ELU", domain="nonzero", kinks="alpha at 0", alpha=1.0),
    _op("silu", "a", "SiLU"),
    _op("erf", "a"),
    _op("gelu", "a", "GELU", approximate="none"),
    # choices
    _op("maximum", "a b", "max", kinks="1/2 to each of two equal operands"),
    _op("minimum", "a b", "min", kinks="1/2 to each of two equal operands"),
    _op("clip", "a", kinks="1 at both bounds", min=None, max=None),
    _op("where", "cond a b", "where", "bool real real", kinks="0 to the operand not chosen"),
    # comparisons and tests: bool results, no gradient
    _op("eq", "a b", "==", differentiable=False),
    _op("ne", "a b", "!=", differentiable=False),
    _op("lt", "a b", "<", differentiable=False),
    _op("le", "a b", "<=", differentiable=False),
    _op("gt", "a b", ">", differentiable=False),
    _op("ge", "a b", ">=", differentiable=False),
    _op("isnan", "a", differentiable=False),
    _op("isinf", "a", differentiable=False),
    _op("isfinite", "a", differentiable=False),
    # logic: of truth values, and of any numbers, of which all but 0 are true
    _array_op("bitwise_and", "a b", "bool bool", symbol="&", differentiable=False),
    _array_op("bitwise_or", "a b", "bool bool", symbol="|", differentiable=False),
    _array_op("bitwise_xor", "a b", "bool bool", symbol="^", differentiable=False),
    _array_op("bitwise_not", "a", "bool", symbol="~", differentiable=False),
    _array_op("logical_and", "a b", symbol="and", differentiable=False),
    _array_op("logical_or", "a b", symbol="or", differentiable=False),
    _array_op("logical_xor", "a b", symbol="xor", differentiable=False),
    _array_op("logical_not", "a", symbol="not", differentiable=False),
    # reductions
    _array_op("sum", "a", dim=None, keepdim=False),
    _array_op("mean", "a", dim=None, keepdim=False),
    _array_op("var", "a", dim=None, correction=1, keepdim=False),
    _array_op(
        "std",
        "a",
        kinks="0 where the standard deviation is 0",
        dim=None,
        correction=1,
        keepdim=False,
    ),
    _array_op("prod", "a", dim=None, keepdim=False),
    _array_op(
        "norm",
        "a",
        "nonzero",
        kinks="0 where the norm is 0, and at 0 if p < 2; 1/n to each of n ties for p = +-inf",
        p=2,
        dim=None,
        keepdim=False,
    ),
    _array_op(
        "max",
        "a",
        kinks="1/n to each of n ties over the whole tensor; the first tie along one dimension",
        dim=None,
        keepdim=False,
    ),
    _array_op(
        "min",
        "a",
        kinks="1/n to each of n ties over the whole tensor; the first tie along one dimension",
        dim=None,
        keepdim=False,
    ),
    _array_op("amax", "a", kinks="1/n to each of n ties", dim=None, keepdim=False),
    _array_op("amin", "a", kinks="1/n to each of n ties", dim=None, keepdim=False),
    _array_op("argmax", "a", differentiable=False, dim=None, keepdim=False),
    _array_op("argmin", "a", differentiable=False, dim=None, keepdim=False),
    _array_op("any", "a", differentiable=False, dim=None, keepdim=False),
    _array_op("all", "a", differentiable=False, dim=None, keepdim=False),
    _array_op("logsumexp", "a", kinks="0 for an operand of -inf", dim=REQUIRED, keepdim=False),
    _array_op("cumsum", "a", dim=REQUIRED),
    _array_op("cumprod", "a", dim=REQUIRED),
    # linear algebra
    _array_op("matmul", "a b", symbol="@"),
    _array_op("linear", "a weight bias", optional=("bias",), activation=None),
    _array_op("outer", "a b"),
    _array_op("einsum", "*tensors", view=True, equation=REQUIRED),
    # shape
    _array_op("reshape", "a", view=True, shape=REQUIRED),
    _array_op("flatten", "a", view=True, start_dim=0, end_dim=-1),
    _array_op("permute", "a", view=True, dims=REQUIRED),
    _array_op("transpose", "a", view=True, dim0=REQUIRED, dim1=REQUIRED),
    _array_op("squeeze", "a", view=True, dim=None),
    _array_op("unsqueeze", "a", view=True, dim=REQUIRED),
    _array_op("expand", "a", view=True, shape=REQUIRED),
    _array_op("cat", "*tensors", dim=0),
    _array_op("stack", "*tensors", dim=0),
    _array_op("flip", "a", dims=REQUIRED),
    _array_op("roll", "a", shifts=REQUIRED, dims=None),
    _array_op("repeat", "a", repeats=REQUIRED),
    _array_op("pad", "a", pad=REQUIRED, value=0.0),
    _array_op("tril", "a", diagonal=0),
    _array_op("triu", "a", diagonal=0),
    _array_op("diagonal", "a", view=True, offset=0, dim1=0, dim2=1),
    _array_op("diagonal_adjoint", "a", shape=REQUIRED, offset=0, dim1=0, dim2=1),
    _array_op("unfold", "a", view=True, dim=REQUIRED, size=REQUIRED, step=REQUIRED),
    _array_op("unfold_adjoint", "a", shape=REQUIRED, dim=REQUIRED, size=REQUIRED, step=REQUIRED),
    # indexing
    _array_op("getitem", "a", symbol="[ ]", view=True, index=REQUIRED),
    _array_op("getitem_adjoint", "a", symbol="[ ]+=", index=REQUIRED, shape=REQUIRED),
    _array_op(
        "setitem",
        "a value",
        symbol="[ ]=",
        kinks=_OVERWRITTEN,
        index=REQUIRED,
        accumulate=False,
    ),
    _array_op("gather", "a index", "real index", dim=REQUIRED),
    _array_op("gather_adjoint", "a index", "real index", dim=REQUIRED, shape=REQUIRED),
    _array_op(
        "scatter",
        "a index src",
        "real index real",
        kinks=_OVERWRITTEN,
        dim=REQUIRED,
    ),
    _array_op("index_select", "a index", "real index", dim=REQUIRED),
    _array_op("index_select_adjoint", "a index", "real index", dim=REQUIRED, length=REQUIRED),
    _array_op("argsort", "a", differentiable=False, dim=-1, descending=False, stable=False),
    _array_op(
        "topk_indices", "a", differentiable=False, k=REQUIRED, dim=-1, largest=True, sorted=True
    ),
    _array_op("nonzero", "a", differentiable=False),
    _array_op("embedding", "weight indices", "real index"),
    _array_op("embedding_adjoint", "a indices", "real index", rows=REQUIRED),
    _array_op("one_hot", "indices", "index", differentiable=False, num_classes=REQUIRED),
    # fused
    _array_op("softmax", "a", dim=REQUIRED),
    _array_op("log_softmax", "a", dim=REQUIRED),
    _array_op(
        "cross_entropy",
        "a target",
        "real index",
        kinks="0 where every target is ignored, also where the loss, a mean, is nan",
        ignore_index=-100,
        reduction="mean",
        label_smoothing=0.0,
    ),
    _array_op("binary_cross_entropy", "a target", "positive positive"),
    _array_op(
        "layer_norm",
        "a weight bias",
        optional=("weight", "bias"),
        normalized_shape=REQUIRED,
        eps=1e-5,
    ),
    _array_op("rms_norm", "a weight", optional=("weight",), normalized_shape=REQUIRED, eps=None),
    _array_op(
        "group_norm", "a weight bias", optional=("weight", "bias"), num_groups=REQUIRED, eps=1e-5
    ),
    _array_op("batch_moments", "a"),
    _array_op("batch_norm", "a statistics weight bias", optional=("weight", "bias"), eps=1e-5),
    _array_op("dropout", "a mask", "real bool", p=0.5),
    _array_op(
        "attention_weights",
        "query key attn_mask",
        optional=("attn_mask",),
        kinks="0 in a row that sees no key",
        is_causal=False,
        scale=None,
    ),
    _array_op(
        "scaled_dot_product_attention",
        "query key value attn_mask",
        symbol="attention",
        optional=("attn_mask",),
        kinks="0 in a row that sees no key",
        is_causal=False,
        scale=None,
    ),
    # convolution and pooling
    _array_op("conv2d", "a weight bias", optional=("bias",), **_CONVOLUTION),
    _array_op("conv2d_input_adjoint", "a weight", shape=REQUIRED, **_CONVOLUTION),
    _array_op("conv2d_weight_adjoint", "a input", shape=REQUIRED, **_CONVOLUTION),
    _array_op("max_pool2d", "a", kinks="the first of equal elements, the last NaN", **_MAX_POOL),
    _array_op("max_pool2d_indices", "a", differentiable=False, **_MAX_POOL),
    _array_op("avg_pool2d", "a", **_AVG_POOL),
    _array_op("avg_pool2d_adjoint", "a", shape=REQUIRED, **_AVG_POOL),
    _array_op("im2col", "a", **_WINDOWS),
    _array_op("col2im", "a", output_size=REQUIRED, **_WINDOWS),
    # conversion
    _array_op("cast", "a", dtype=REQUIRED),
    _array_op("clone", "a"),
    # made of the ops above; split, chunk and unbind give several results, sort and topk two
    _composite("tensordot", "a b", dims=2),
    _composite("swapaxes", "a", view=True, dim0=REQUIRED, dim1=REQUIRED),
    _composite("moveaxis", "a", view=True, source=REQUIRED, destination=REQUIRED),
    _composite("split", "a", view=True, split_size=REQUIRED, dim=0),
    _composite("chunk", "a", view=True, chunks=REQUIRED, dim=0),
    _composite("unbind", "a", view=True, dim=0),
    _composite("tile", "a", dims=REQUIRED),
    _composite("take_along_dim", "a indices", "real index", dim=None),
    _composite("scatter_add", "a index src", "real index real", dim=REQUIRED),
    _composite("index_add", "a index source", "real index real", dim=REQUIRED, alpha=1),
    _composite("index_put", "a values", kinks=_OVERWRITTEN, indices=REQUIRED, accumulate=False),
    _composite("masked_fill", "a mask value", "real bool real", kinks="0 to what is filled"),
    _composite("masked_select", "a mask", "real bool"),
    _composite(
        "sort",
        "a",
        kinks="equal elements keep their order",
        dim=-1,
        descending=False,
        stable=False,
    ),
    _composite(
        "topk",
        "a",
        kinks="of equal elements the first are taken",
        k=REQUIRED,
        dim=-1,
        largest=True,
        sorted=True,
    ),
)


# Python's operators, by the op that each one means. "r" marks the reflected
# form, in which the operands arrive the other way round.
OPERATORS: Final[Mapping[str, tuple[str, Literal["", "r"]]]] = MappingProxyType(
    {
        "__add__": ("add", ""),
        "__radd__": ("add", "r"),
        "__sub__": ("sub", ""),
        "__rsub__": ("sub", "r"),
        "__mul__": ("mul", ""),
        "__rmul__": ("mul", "r"),
        "__truediv__": ("div", ""),
        "__rtruediv__": ("div", "r"),
        "__floordiv__": ("floor_divide", ""),
        "__rfloordiv__": ("floor_divide", "r"),
        "__mod__": ("remainder", ""),
        "__rmod__": ("remainder", "r"),
        "__pow__": ("pow", ""),
        "__rpow__": ("pow", "r"),
        "__matmul__": ("matmul", ""),
        "__rmatmul__": ("matmul", "r"),
        "__neg__": ("neg", ""),
        "__abs__": ("abs", ""),
        "__and__": ("bitwise_and", ""),
        "__rand__": ("bitwise_and", "r"),
        "__or__": ("bitwise_or", ""),
        "__ror__": ("bitwise_or", "r"),
        "__xor__": ("bitwise_xor", ""),
        "__rxor__": ("bitwise_xor", "r"),
        "__invert__": ("bitwise_not", ""),
        "__eq__": ("eq", ""),
        "__ne__": ("ne", ""),
        "__lt__": ("lt", ""),
        "__le__": ("le", ""),
        "__gt__": ("gt", ""),
        "__ge__": ("ge", ""),
    }
)


class Operators:
    """Mixin that gives a class Python's operators; ``install_operators`` fills them in."""

    __slots__ = ()

    if TYPE_CHECKING:

        def __add__(self, other: Any) -> Self: ...
        def __radd__(self, other: Any) -> Self: ...
        def __sub__(self, other: Any) -> Self: ...
        def __rsub__(self, other: Any) -> Self: ...
        def __mul__(self, other: Any) -> Self: ...
        def __rmul__(self, other: Any) -> Self: ...
        def __truediv__(self, other: Any) -> Self: ...
        def __rtruediv__(self, other: Any) -> Self: ...
        def __floordiv__(self, other: Any) -> Self: ...
        def __rfloordiv__(self, other: Any) -> Self: ...
        def __mod__(self, other: Any) -> Self: ...
        def __rmod__(self, other: Any) -> Self: ...
        def __pow__(self, other: Any) -> Self: ...
        def __rpow__(self, other: Any) -> Self: ...
        def __neg__(self) -> Self: ...
        def __abs__(self) -> Self: ...
        def __lt__(self, other: Any) -> Any: ...
        def __le__(self, other: Any) -> Any: ...
        def __gt__(self, other: Any) -> Any: ...
        def __ge__(self, other: Any) -> Any: ...


def install_operators(cls: type, functions: Mapping[str, Callable[..., Any]]) -> None:
    """Give ``cls`` every operator of ``OPERATORS`` whose op is among ``functions``."""
    for dunder, (name, form) in OPERATORS.items():
        if name in functions:
            function = functions[name]
            setattr(cls, dunder, _reflected(function) if form == "r" else function)


def _reflected(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda self, other: function(other, self)
