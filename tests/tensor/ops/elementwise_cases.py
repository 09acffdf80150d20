"""Ops that act on each element alone."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

import numpy as np
import torch
from torch.nn import functional

from micro.vocab import VOCAB
from tensor import ShapeError
from tests.tensor.ops.table import SAMPLERS, Bad, Case, Sample, boolean, inf, nan, real

__all__ = ["ELEMENTWISE"]

_UNARY: Final = [((3, 4),), ((),), ((2, 0),), ((2, 1, 3),)]
_BINARY: Final = [
    ((3, 4), (3, 4)),
    ((3, 1), (4,)),
    ((4,), (3, 4)),
    ((3, 4), ()),
    ((), (2, 3)),
    ((1,), (5, 4)),
    ((5, 4), (1, 4)),
    ((2, 1, 3), (4, 1)),
    ((4, 0), (4, 1)),
    ((1,), (0,)),
    ((), ()),
]
_TERNARY: Final = [
    ((3, 4), (3, 4), (3, 4)),
    ((3, 1), (4,), ()),
    ((), (3, 1), (1, 4)),
    ((2, 3), (), (3,)),
    ((0,), (1,), (0,)),
    ((), (), ()),
]
_SHAPES: Final = {1: _UNARY, 2: _BINARY, 3: _TERNARY}

# Each dtype has its own way to be refused.
_UNFIT: Final = (
    ("text", ("str",)),
    (np.array([1 + 2j]), ("complex128",)),
    (np.array([None]), ("object",)),
    (np.ma.masked_array([1.0], [True]), ("masked",)),
    (None, ("None",)),
    ([1.0, 2.0], ("list",)),
)


def _unfit(name: str) -> Iterable[Bad]:
    """An operand of a wrong kind, in each place."""
    spec = VOCAB[name]
    good = [SAMPLERS[domain](2, 2) for domain in spec.domain]
    for place, (operand, words) in itertools.product(range(len(good)), _UNFIT):
        operands = (*good[:place], operand, *good[place + 1 :])
        yield Bad(operands, TypeError, (name, spec.inputs[place], *words))


def elementwise(
    equivalent: Callable[..., Any],
    name: str,
    *,
    attrs: Sequence[Mapping[str, Any]] = ({},),
    points: Sequence[Sample] = (),
    bad: Sequence[Bad] = (),
) -> Case:
    """The case of an elementwise op: sampled by its domain, in shapes that broadcast."""
    spec = VOCAB[name]
    count = len(spec.inputs)
    samples = [
        Sample(tuple(SAMPLERS[d](*s) for d, s in zip(spec.domain, shapes, strict=True)), given)
        for shapes in _SHAPES[count]
        for given in attrs
    ]
    refused = list(_unfit(name))
    if count > 1:
        shapes = [(2, 3), *[(4,)] * (count - 1)]
        operands = tuple(SAMPLERS[d](*s) for d, s in zip(spec.domain, shapes, strict=True))
        refused.append(Bad(operands, ShapeError, (name, "(2, 3)", "(4,)", *spec.inputs)))
    return Case(equivalent, tuple(samples), (*refused, *bad), tuple(points))


def at(*operands: Any, **attrs: Any) -> Sample:
    """A sample of lists of numbers; with several, of every combination of theirs."""
    grids = np.meshgrid(*[np.asarray(o, dtype=np.float64) for o in operands], indexing="ij")
    return Sample(tuple(g.ravel() for g in grids), attrs)


_IEEE: Final = [-inf, -1e4, -2.0, -1.0, -0.0, 0.0, 0.5, 1.0, 1e4, inf, nan]
_IEEE_PAIRS: Final = at(_IEEE, _IEEE)


def _gelu(a: Any, approximate: str = "none") -> Any:
    return functional.gelu(a, approximate=approximate)


def _clip(a: Any, min: Any = None, max: Any = None) -> Any:
    return torch.clamp(a, min, max)


def _bad(name: str, parameter: str, value: Any, *words: str) -> Bad:
    return Bad((real(2),), TypeError, (name, parameter, *words), {parameter: value})


def _whole_by_0(name: str) -> Bad:
    return Bad((np.arange(3), np.arange(3)), RuntimeError, (name, "integer", "by 0"))


def _of_bools(name: str) -> Bad:
    return Bad((boolean(3), boolean(3)), TypeError, (name, "bool"))


def _not_bools(name: str, count: int) -> list[Bad]:
    """Numbers in each place where truth values belong."""
    return [
        Bad(
            tuple(np.arange(3) if i == place else boolean(3) for i in range(count)),
            RuntimeError,
            (name, VOCAB[name].inputs[place], "must be bool", "int64"),
        )
        for place in range(count)
    ]


def _round(a: Any, decimals: int = 0) -> Any:
    return torch.round(a, decimals=decimals) if decimals else torch.round(a)


def _floor_divide(a: Any, b: Any) -> Any:
    return torch.div(a, b, rounding_mode="floor")  # which has the gradient that floor_divide lacks


_HALVES: Final = [-2.5, -1.5, -0.5, 0.5, 1.5, 2.5]
_ENDS: Final = [*_IEEE, -1000.0, -100.0, -20.0, 19.9, 20.1, 100.0, 1000.0]
_NUMBERS: Final = [x for x in _ENDS if x == x]

ELEMENTWISE: Final = {
    "add": elementwise(torch.add, "add", points=[_IEEE_PAIRS]),
    "sub": elementwise(torch.sub, "sub", points=[_IEEE_PAIRS]),
    "mul": elementwise(torch.mul, "mul", points=[_IEEE_PAIRS]),
    "div": elementwise(torch.div, "div", points=[_IEEE_PAIRS]),
    "neg": elementwise(torch.neg, "neg", points=[at(_IEEE)]),
    "pow": elementwise(
        torch.pow,
        "pow",
        points=[
            at([-inf, -2.0, -1.0, -0.0, 0.0, 0.5, 1.0, inf], [-inf, -3.0, -1.0, 0.0, 2.0, 3.0]),
            at([-8.0, -2.0, 0.0, 2.0, nan], [-0.5, 1 / 3, 0.0, 0.5, nan]),
        ],
    ),
    "square": elementwise(torch.square, "square", points=[at(_IEEE)]),
    "abs": elementwise(torch.abs, "abs", points=[at(_IEEE)]),
    "sign": elementwise(torch.sign, "sign", points=[at(_IEEE)]),
    "reciprocal": elementwise(torch.reciprocal, "reciprocal", points=[at(_IEEE)]),
    "floor_divide": elementwise(
        _floor_divide,
        "floor_divide",
        points=[_IEEE_PAIRS, at([-7.5, -7.0, 7.0, 7.5], [-2.0, -0.1, 0.1, 2.0])],
        bad=[_whole_by_0("floor_divide"), _of_bools("floor_divide")],
    ),
    "remainder": elementwise(
        torch.remainder,
        "remainder",
        points=[_IEEE_PAIRS, at([-7.5, -7.0, 7.0, 7.5], [-2.0, -0.1, 0.1, 2.0])],
        bad=[_whole_by_0("remainder"), _of_bools("remainder")],
    ),
    "floor": elementwise(torch.floor, "floor", points=[at(_IEEE), at(_HALVES)]),
    "ceil": elementwise(torch.ceil, "ceil", points=[at(_IEEE), at(_HALVES)]),
    "round": elementwise(
        _round,
        "round",
        attrs=[{}, {"decimals": 1}, {"decimals": -1}],
        points=[
            at(_IEEE),
            at(_HALVES),
            at([-25.0, -15.0, 5.0, 15.0, 25.0, 1e30], decimals=-1),
            at([-0.25, -0.75, 0.125, 0.375, inf, nan], decimals=2),
        ],
        bad=[
            _bad("round", "decimals", 0.5, "integer"),
            _bad("round", "decimals", True, "integer"),
            Bad((np.arange(3),), RuntimeError, ("round", "int64", "decimals"), {"decimals": 1}),
        ],
    ),
    "sqrt": elementwise(torch.sqrt, "sqrt", points=[at(_IEEE)]),
    "rsqrt": elementwise(torch.rsqrt, "rsqrt", points=[at(_IEEE)]),
    "exp2": elementwise(torch.exp2, "exp2", points=[at(_IEEE)]),
    "exp": elementwise(torch.exp, "exp", points=[at(_IEEE)]),
    "log": elementwise(torch.log, "log", points=[at(_IEEE)]),
    "log2": elementwise(torch.log2, "log2", points=[at([*_IEEE, 2.0**-20, 2.0**31])]),
    "log10": elementwise(torch.log10, "log10", points=[at([*_IEEE, 1e-10, 1e10])]),
    "log1p": elementwise(torch.log1p, "log1p", points=[at([*_IEEE, 1e-12])]),
    "expm1": elementwise(torch.expm1, "expm1", points=[at([*_IEEE, 1e-12])]),
    "sin": elementwise(torch.sin, "sin", points=[at([0.0, -0.0, 1e4, inf, -inf, nan])]),
    "cos": elementwise(torch.cos, "cos", points=[at([0.0, -0.0, 1e4, inf, -inf, nan])]),
    "tan": elementwise(torch.tan, "tan", points=[at([0.0, -0.0, 1.5, 1e4, inf, -inf, nan])]),
    "atan": elementwise(torch.atan, "atan", points=[at(_IEEE)]),
    "sinh": elementwise(torch.sinh, "sinh", points=[at(_IEEE)]),
    "cosh": elementwise(torch.cosh, "cosh", points=[at(_IEEE)]),
    "tanh": elementwise(torch.tanh, "tanh", points=[at(_IEEE)]),
    "sigmoid": elementwise(torch.sigmoid, "sigmoid", points=[at(_IEEE)]),
    "logsigmoid": elementwise(functional.logsigmoid, "logsigmoid", points=[at(_ENDS)]),
    "softplus": elementwise(
        functional.softplus,
        "softplus",
        attrs=[{}, {"beta": 1.7, "threshold": 1.1}],
        points=[at(_ENDS), at(_ENDS, beta=2.0, threshold=30.0), at(_ENDS, beta=-1.1)],
        bad=[
            _bad("softplus", "beta", "one", "number"),
            _bad("softplus", "threshold", None, "number"),
        ],
    ),
    "silu": elementwise(functional.silu, "silu", points=[at(_ENDS)]),
    "leaky_relu": elementwise(
        functional.leaky_relu,
        "leaky_relu",
        attrs=[{}, {"negative_slope": -0.7}],
        points=[at(_IEEE), at(_IEEE, negative_slope=0), at(_IEEE, negative_slope=2.0)],
        bad=[_bad("leaky_relu", "negative_slope", real(2), "number", "ndarray")],
    ),
    "elu": elementwise(
        functional.elu,
        "elu",
        attrs=[{}, {"alpha": 0.4}],
        # PyTorch's gradient at NaN is now NaN, now what arrives, by where it lies in memory.
        points=[at([*_NUMBERS, -1e-12]), at(_NUMBERS, alpha=0.0), at(_NUMBERS, alpha=-1.5)],
        bad=[_bad("elu", "alpha", "one", "number", "str")],
    ),
    "relu": elementwise(torch.relu, "relu", points=[at(_IEEE)]),
    "erf": elementwise(torch.erf, "erf", points=[at(_IEEE)]),
    "gelu": elementwise(
        _gelu,
        "gelu",
        attrs=[{}, {"approximate": "tanh"}],
        points=[at([-1e4, -2.0, -0.0, 0.0, 2.0, 1e4])],
        bad=[
            Bad((real(2),), RuntimeError, ("gelu", "approximate", "'sin'"), {"approximate": "sin"})
        ],
    ),
    "maximum": elementwise(torch.maximum, "maximum", points=[_IEEE_PAIRS]),
    "minimum": elementwise(torch.minimum, "minimum", points=[_IEEE_PAIRS]),
    "clip": elementwise(
        _clip,
        "clip",
        attrs=[{"min": -0.41, "max": 0.53}, {"min": 0.2}, {"max": 0.1}],
        points=[
            at(_IEEE, min=-1.0, max=1.0),
            at(_IEEE, min=0),
            at(_IEEE, max=1),
            at(_IEEE, min=1.0, max=-1.0),
        ],
        bad=[
            Bad((real(2),), RuntimeError, ("clip", "min and max", "given")),
            Bad((real(2),), TypeError, ("clip", "min", "str"), {"min": "0"}),
            Bad((real(2),), TypeError, ("clip", "max", "ndarray"), {"max": real(2)}),
        ],
    ),
    "where": elementwise(
        torch.where,
        "where",
        points=[Sample((boolean(11), np.array(_IEEE), np.array(_IEEE[::-1])))],
        bad=[Bad((real(2), real(2), real(2)), RuntimeError, ("where", "cond", "float64"))],
    ),
    "eq": elementwise(torch.eq, "eq", points=[_IEEE_PAIRS]),
    "ne": elementwise(torch.ne, "ne", points=[_IEEE_PAIRS]),
    "lt": elementwise(torch.lt, "lt", points=[_IEEE_PAIRS]),
    "le": elementwise(torch.le, "le", points=[_IEEE_PAIRS]),
    "gt": elementwise(torch.gt, "gt", points=[_IEEE_PAIRS]),
    "ge": elementwise(torch.ge, "ge", points=[_IEEE_PAIRS]),
    "isnan": elementwise(torch.isnan, "isnan", points=[at(_IEEE)]),
    "isinf": elementwise(torch.isinf, "isinf", points=[at(_IEEE)]),
    "isfinite": elementwise(torch.isfinite, "isfinite", points=[at(_IEEE)]),
    "bitwise_and": elementwise(torch.bitwise_and, "bitwise_and", bad=_not_bools("bitwise_and", 2)),
    "bitwise_or": elementwise(torch.bitwise_or, "bitwise_or", bad=_not_bools("bitwise_or", 2)),
    "bitwise_xor": elementwise(torch.bitwise_xor, "bitwise_xor", bad=_not_bools("bitwise_xor", 2)),
    "bitwise_not": elementwise(torch.bitwise_not, "bitwise_not", bad=_not_bools("bitwise_not", 1)),
    "logical_and": elementwise(torch.logical_and, "logical_and", points=[_IEEE_PAIRS]),
    "logical_or": elementwise(torch.logical_or, "logical_or", points=[_IEEE_PAIRS]),
    "logical_xor": elementwise(torch.logical_xor, "logical_xor", points=[_IEEE_PAIRS]),
    "logical_not": elementwise(torch.logical_not, "logical_not", points=[at(_IEEE)]),
}
