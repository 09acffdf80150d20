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
    "sqrt": elementwise(torch.sqrt, "sqrt", points=[at(_IEEE)]),
    "exp": elementwise(torch.exp, "exp", points=[at(_IEEE)]),
    "log": elementwise(torch.log, "log", points=[at(_IEEE)]),
    "log1p": elementwise(torch.log1p, "log1p", points=[at([*_IEEE, 1e-12])]),
    "expm1": elementwise(torch.expm1, "expm1", points=[at([*_IEEE, 1e-12])]),
    "sin": elementwise(torch.sin, "sin", points=[at([0.0, -0.0, 1e4, inf, -inf, nan])]),
    "cos": elementwise(torch.cos, "cos", points=[at([0.0, -0.0, 1e4, inf, -inf, nan])]),
    "tanh": elementwise(torch.tanh, "tanh", points=[at(_IEEE)]),
    "sigmoid": elementwise(torch.sigmoid, "sigmoid", points=[at(_IEEE)]),
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
}
