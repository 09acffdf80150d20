"""A scalar engine for automatic differentiation: one number at a time, every step in sight.

``Value`` is a number that remembers how it was made; ``Value.backward`` and ``grad`` differentiate
it. Every op of the vocabulary is a function here and a method of ``Value``. ``micro.nn`` and
``micro.optim`` train small networks.

>>> import micro
>>> a, b = micro.Value(2.0), micro.Value(-3.0)
>>> y = micro.relu(a * b + 10) ** 2
>>> y.backward()
>>> y.data, a.grad, b.grad
(16.0, -24.0, 16.0)
"""

from micro import nn, optim
from micro.ops import (
    abs,
    add,
    clip,
    cos,
    div,
    eq,
    erf,
    exp,
    expm1,
    ge,
    gelu,
    gt,
    isinf,
    isnan,
    le,
    log,
    log1p,
    lt,
    maximum,
    minimum,
    mul,
    ne,
    neg,
    pow,
    relu,
    sigmoid,
    sign,
    sin,
    sqrt,
    square,
    sub,
    tanh,
    where,
)
from micro.sites import record_sites
from micro.value import Value, grad

__all__ = [
    "Value",
    "abs",
    "add",
    "clip",
    "cos",
    "div",
    "eq",
    "erf",
    "exp",
    "expm1",
    "ge",
    "gelu",
    "grad",
    "gt",
    "isinf",
    "isnan",
    "le",
    "log",
    "log1p",
    "lt",
    "maximum",
    "minimum",
    "mul",
    "ne",
    "neg",
    "nn",
    "optim",
    "pow",
    "record_sites",
    "relu",
    "sigmoid",
    "sign",
    "sin",
    "sqrt",
    "square",
    "sub",
    "tanh",
    "where",
]
