"""Ops that combine the elements along dimensions."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np
import torch

from tensor import ShapeError
from tests.tensor.ops.table import Bad, Case, Sample, inf, nan, nonzero, real

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


def _several_dims(name: str) -> Bad:
    return Bad((real(3, 4),), TypeError, (name, "dim", "(0, 1)"), {"dim": (0, 1)})


def _nothing_there(name: str) -> tuple[Bad, ...]:
    return (
        Bad((real(0, 3),), ShapeError, (name, "no elements", "(0, 3)")),
        Bad((real(0, 3),), ShapeError, (name, "no elements", "(0, 3)"), {"dim": 0}),
    )


def _nothing_to_choose(name: str) -> tuple[Bad, ...]:
    return (*_nothing_there(name), _several_dims(name))


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


def _prod(a: Any, dim: Any = None, keepdim: bool = False) -> Any:
    if dim is not None:
        return torch.prod(a, dim, keepdim)
    out = torch.prod(a)
    return out.reshape((1,) * a.ndim) if keepdim else out


def _norm(a: Any, p: float = 2, dim: Any = None, keepdim: bool = False) -> Any:
    out = torch.linalg.vector_norm(a, p, dim, keepdim)
    # PyTorch has no gradient where this one is 0.
    return out + 0 * a.sum(dim, keepdim) if p == 0 else out


def _std(a: Any, **attrs: Any) -> Any:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "std.*degrees of freedom", UserWarning)
        return torch.std(a, **attrs)


def _truth(function: Callable[..., Any]) -> Callable[..., Any]:
    def equivalent(a: Any, dim: Any = None, keepdim: bool = False) -> Any:
        return function(a, tuple(range(a.ndim)) if dim is None and keepdim else dim, keepdim)

    return equivalent


# Zeros: none, one, several in a row, all.
_ZEROS: Final = (
    Sample((np.array([0.0, 1.0]),), {"dim": 0}),
    Sample((np.array([[1.5, -2.0, 3.0, 0.5, 2.0]]),), {"dim": 1}),
    Sample((np.array([[0.0, 0.0, 3.0], [0.0, 2.0, -1.5], [0.0, 0.0, 0.0]]),), {"dim": 1}),
    Sample((np.array([[0.0, 0.0, 3.0], [0.0, 2.0, -1.5], [4.0, 2.0, 0.0]]),), {"dim": 0}),
    Sample((np.array([[0.0, 0.0, 3.0], [0.0, 2.0, -1.5]]).T,), {"dim": -1}),
)
# At zeros, ties, and NaN.
_SIZES: Final = (
    [3.0, -4.0, 0.0, 0.5],
    [0.0, 0.0, 0.0, 0.0],
    [-2.0, 2.0, 1.0, -1.0],
)
_ORDERS: Final = (2, 1, 0, inf, -inf, 3, 1.5, 0.5, -1, -2)
# Any dimensions, none of them empty.
_CHOSEN: Final = (
    _each([real(3, 4)], [{}, *_dims(None, 0, -1, (0, 1))])
    + _each([real(2, 3, 4)], _dims((0, 2), (-1, 0), 1))
    + _each([real()], _dims(None, 0, -1))
    + _each([real(0, 3)], _dims(1))
)
_TIES_OVER_DIMS: Final = (
    *_each([np.array([[1.0, 3.0, 3.0], [3.0, 0.0, 3.0]])], [{}, *_dims(0, 1, (0, 1))]),
    Sample((np.array([-inf, -inf]),)),
    Sample((np.array([inf, -inf, 0.0]),)),
)
_SPARSE: Final = np.array([[0.0, 1.0, 2.0], [0.0, 0.0, 3.0]])
_CUMULATED: Final = (
    _each([real(3, 4)], [{"dim": 0}, {"dim": -1}])
    + _each([real(2, 3, 4)], [{"dim": 1}, {"dim": -3}])
    + _each([real(), real(1), real(9)], [{"dim": 0}, {"dim": -1}])
    + _each([real(0, 3), real(3, 0)], [{"dim": 0}, {"dim": 1}])
)


def _no_such_dim_to_go_along(name: str) -> tuple[Bad, ...]:
    missing = Bad((real(3),), TypeError, (name, "'dim'", "missing"))
    return (*_no_such_dim(name), missing, _several_dims(name))


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
    "std": Case(
        _std,
        _each([real(3, 4)], [{}, *_dims(None, 0, -1, (0, 1))])
        + _each([real(2, 3, 4)], [{"dim": (0, -1), "correction": c} for c in (0, 1, 1.5, 2)])
        + _each([real(4)], [{"correction": 0}, {"dim": 0, "correction": 3}])
        + _each([real(0, 3)], [{"dim": 1}]),
        _no_such_dim("std") + _repeated_dim("std"),
        (
            Sample((np.array([[2.0, 2.0, 2.0], [1.0, 2.0, 4.0]]),), {"dim": 1}),
            Sample((np.array([3.0, 3.0]),)),
            Sample((np.array([3.0]),)),
            Sample((np.array(3.0),), {"correction": 0}),
            Sample((real(0, 3),)),
            Sample((real(0, 3),), {"dim": 0}),
        ),
    ),
    "prod": Case(
        _prod,
        _each([real(3, 4)], [{}, *_dims(None, 0, -1)])
        + _each([real(2, 3, 4)], _dims(1, -3))
        + _each([real()], _dims(None, 0, -1))
        + _each([real(0, 3), real(3, 0)], _dims(None, 0, 1)),
        (*_no_such_dim("prod"), _several_dims("prod")),
        (*_ZEROS, *(Sample(zeros.operands) for zeros in _ZEROS)),
    ),
    "norm": Case(
        _norm,
        _each([nonzero(3, 4)], [{"p": p, "dim": d} for p in _ORDERS for d in (None, 0)])
        + _each([nonzero(2, 3, 4)], [{"p": p, "dim": (0, -1), "keepdim": True} for p in _ORDERS])
        + _each([nonzero()], [{}, {"p": 3, "dim": 0}, {"p": inf, "dim": -1}])
        + _each([nonzero(0, 3)], [{}, {"dim": 0}, {"p": inf, "dim": 1}, {"p": 3}]),
        (
            *_no_such_dim("norm"),
            *_repeated_dim("norm"),
            Bad((real(3),), TypeError, ("norm", "p", "'fro'"), {"p": "fro"}),
            Bad((real(3),), TypeError, ("norm", "p", "True"), {"p": True}),
            Bad((real(0, 3),), ShapeError, ("norm", "no elements"), {"p": inf}),
            Bad((real(0, 3),), ShapeError, ("norm", "no elements"), {"p": -1, "dim": 0}),
        ),
        _each([np.array(sizes) for sizes in _SIZES], [{"p": p} for p in _ORDERS])
        + _each([np.array(_SIZES)], [{"p": p, "dim": 1} for p in _ORDERS]),
    ),
    "amax": Case(
        torch.amax,
        _CHOSEN,
        _no_such_dim("amax") + _repeated_dim("amax") + _nothing_there("amax"),
        _TIES_OVER_DIMS,
    ),
    "amin": Case(
        torch.amin,
        _CHOSEN,
        _no_such_dim("amin") + _repeated_dim("amin") + _nothing_there("amin"),
        _TIES_OVER_DIMS,
    ),
    "any": Case(
        _truth(torch.any),
        _REDUCED + _each([_SPARSE], _dims(None, 0, (0, 1))),
        _no_such_dim("any") + _repeated_dim("any"),
        _each([np.array([nan, 0.0]), np.array([-0.0, 0.0])], [{}]),
    ),
    "all": Case(
        _truth(torch.all),
        _REDUCED + _each([_SPARSE], _dims(None, 0, (0, 1))),
        _no_such_dim("all") + _repeated_dim("all"),
        _each([np.array([nan, 1.0]), np.array([-0.0, 1.0])], [{}]),
    ),
    "cumsum": Case(torch.cumsum, _CUMULATED, _no_such_dim_to_go_along("cumsum")),
    "cumprod": Case(torch.cumprod, _CUMULATED, _no_such_dim_to_go_along("cumprod"), _ZEROS),
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
