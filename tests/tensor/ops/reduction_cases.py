"""Ops that combine the elements along dimensions."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np
import torch

from tensor import ShapeError
from tests.tensor.ops.table import Bad, Case, Sample, inf, nan, real

__all__ = ["REDUCTIONS"]


def _each(arrays: Sequence[Any], attrs: Sequence[Mapping[str, Any]]) -> tuple[Sample, ...]:
    return tuple(Sample((a,), given) for a, given in itertools.product(arrays, attrs))


def _dims(*dims: Any, keepdim: bool = True) -> list[Mapping[str, Any]]:
    flags = (False, True) if keepdim else (False,)
    return [{"dim": dim, "keepdim": keep} for dim in dims for keep in flags]


# Any dimensions of a tensor, none of them, all of them; of a number; of no elements.
_REDUCED: Final = (
    _each([real(3, 4)], [{}, *_dims(None, 0, -1, (0, 1))])
    + _each([real(2, 3, 4)], _dims((0, 2), (-1, 0), 1))
    + _each([real()], _dims(None, 0, -1))
    + _each([real(0, 3), real(3, 0)], _dims(None, 0, (1,)))
)
# One dimension, which may not be empty.
_SELECTED: Final = (
    _each([real(3, 4)], [{}, *_dims(None, 0, -1)])
    + _each([real(2, 3, 4)], _dims(1, -3))
    + _each([real()], _dims(None, 0, -1))
    + _each([real(0, 3)], _dims(1))
)


def _no_such_dim(name: str, **attrs: Any) -> tuple[Bad, ...]:
    return (
        Bad((real(3, 4),), IndexError, (name, "dim 2", "2 dimensions"), {**attrs, "dim": 2}),
        Bad((real(3, 4),), IndexError, (name, "dim -3", "[-2, 1]"), {**attrs, "dim": -3}),
        Bad((real(),), IndexError, (name, "dim 1", "[-1, 0]"), {**attrs, "dim": 1}),
        Bad((real(3),), TypeError, (name, "dim", "0.0"), {**attrs, "dim": 0.0}),
        Bad((real(3),), TypeError, (name, "dim", "True"), {**attrs, "dim": True}),
        Bad((real(3),), TypeError, (name, "'axis'", "dim"), {**attrs, "axis": 0}),
        Bad(("text",), TypeError, (name, "a", "str"), {**attrs, "dim": 0}),
    )


def _repeated_dim(name: str, **attrs: Any) -> tuple[Bad, ...]:
    dims = {**attrs, "dim": (0, -2)}
    return (Bad((real(3, 4),), ShapeError, (name, "(0, -2)", "twice"), dims),)


def _nothing_to_choose(name: str) -> tuple[Bad, ...]:
    return (
        Bad((real(0, 3),), ShapeError, (name, "no elements", "(0, 3)")),
        Bad((real(0, 3),), ShapeError, (name, "no elements", "(0, 3)"), {"dim": 0}),
        Bad((real(3, 4),), TypeError, (name, "dim", "(0, 1)"), {"dim": (0, 1)}),
    )


_TIES: Final = (
    Sample((np.array([[1.0, 3.0, 3.0], [3.0, 0.0, 3.0]]),)),
    Sample((np.array([[1.0, 1.0, 1.0]]),), {"dim": 1}),
    Sample((np.array([[1.0, 3.0, 3.0], [3.0, 0.0, 3.0]]),), {"dim": 0}),
    Sample((np.array([-inf, -inf]),)),
    Sample((np.array([1.0, nan, 3.0, nan]),)),
    Sample((np.array([1.0, nan, 3.0, nan]),), {"dim": 0}),
    Sample((np.array([inf, -inf, 0.0]),)),
)


def _extremum(function: Callable[..., Any]) -> Callable[..., Any]:
    def equivalent(a: Any, dim: Any = None, keepdim: bool = False) -> Any:
        if dim is None:
            out = function(a)
            return out.reshape((1,) * a.ndim) if keepdim else out
        return function(a, dim, keepdim).values

    return equivalent


def _var(a: Any, **attrs: Any) -> Any:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "var.*degrees of freedom", UserWarning)
        return torch.var(a, **attrs)


def _logsumexp(a: Any, dim: Any, keepdim: bool = False) -> Any:
    return torch.logsumexp(a, tuple(range(a.ndim)) if dim is None else dim, keepdim)


REDUCTIONS: Final = {
    "sum": Case(torch.sum, _REDUCED, _no_such_dim("sum") + _repeated_dim("sum")),
    "mean": Case(torch.mean, _REDUCED, _no_such_dim("mean") + _repeated_dim("mean")),
    "var": Case(
        _var,
        _each([real(3, 4)], [{}, *_dims(None, 0, -1, (0, 1))])
        + _each([real(2, 3, 4)], [{"dim": (0, -1), "correction": c} for c in (0, 1, 1.5, 2)])
        + _each([real(4)], [{"correction": 0}, {"dim": 0, "correction": 3}])
        + _each([real()], [{"correction": 0}])
        + _each([real(0, 3)], [{}, {"dim": 0}, {"dim": 1}, {"correction": 0}]),
        _no_such_dim("var") + _repeated_dim("var"),
    ),
    "max": Case(
        _extremum(torch.max),
        _SELECTED,
        _no_such_dim("max") + _nothing_to_choose("max"),
        _TIES,
    ),
    "min": Case(
        _extremum(torch.min),
        _SELECTED,
        _no_such_dim("min") + _nothing_to_choose("min"),
        _TIES,
    ),
    "argmax": Case(
        torch.argmax, _SELECTED, _no_such_dim("argmax") + _nothing_to_choose("argmax"), _TIES
    ),
    "argmin": Case(
        torch.argmin, _SELECTED, _no_such_dim("argmin") + _nothing_to_choose("argmin"), _TIES
    ),
    "logsumexp": Case(
        _logsumexp,
        tuple(s for s in _REDUCED if "dim" in s.attrs),
        _no_such_dim("logsumexp")
        + _repeated_dim("logsumexp")
        + (Bad((real(3),), TypeError, ("logsumexp", "'dim'", "missing")),),
        (
            Sample((np.array([[1e4, 1e4], [-1e4, -inf], [inf, 0.0], [nan, 0.0]]),), {"dim": 1}),
            Sample((np.array([[-inf, 0.5, -inf]]),), {"dim": 1}),
        ),
    ),
}
