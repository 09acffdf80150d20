"""Ops that choose, write and order elements by integer operands."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import torch

from tensor import ShapeError
from tests.tensor.ops.table import Bad, Case, Sample, nan, real, refused, view

__all__ = ["ORDERS", "SELECTION", "reference_setitem", "reference_topk_indices"]

Array = np.ndarray[Any, Any]

# Shapes and attributes of what is put in order, or whose order is asked for.
ORDERS: Final[tuple[tuple[tuple[int, ...], dict[str, Any]], ...]] = (
    ((5,), {}),
    ((3, 4), {"dim": 0}),
    ((3, 4), {"descending": True}),
    ((2, 3, 4), {"dim": 1, "descending": True, "stable": True}),
    ((), {}),
    ((0,), {}),
    ((2, 0), {"dim": 0, "descending": True}),
)


# PyTorch's equivalents. Of several values for one place PyTorch keeps any, and gives all of them a
# gradient; here the last remains. The references write the last of each place alone.


def _written(a: Any, places: Array, values: Any) -> Any:
    """Write values at places, counted in C order."""
    last = {place: k for k, place in enumerate(places.reshape(-1).tolist())}
    kept = torch.tensor(sorted(last.values()), dtype=torch.int64)
    where = torch.from_numpy(places.reshape(-1))[kept]
    flat = a.reshape(-1).index_put((where,), values.reshape(-1)[kept].to(a.dtype))
    return flat.reshape(a.shape)


def _counted(shape: Any) -> Array:
    return np.arange(int(np.prod(shape))).reshape(tuple(shape))


def reference_setitem(a: Any, value: Any, index: Any, accumulate: bool = False) -> Any:
    places = np.asarray(_counted(a.shape)[index])
    values = value.expand(places.shape)
    if not accumulate:
        return _written(a, places, values)
    where = torch.from_numpy(places.reshape(-1).copy())
    added = a.reshape(-1).index_put((where,), values.reshape(-1), accumulate=True)
    return added.reshape(a.shape)


def _along(shape: Any, index: Any, dim: int) -> Array:
    places = torch.from_numpy(_counted(shape))
    return np.asarray(torch.gather(places, dim, index).numpy())


def _scatter(a: Any, index: Any, src: Any, dim: int) -> Any:
    values = src[tuple(slice(n) for n in index.shape)] if src.ndim else src.expand(index.shape)
    return _written(a, _along(a.shape, index, dim), values)


def _gather_adjoint(a: Any, index: Any, dim: int, shape: Any) -> Any:
    return torch.zeros(shape, dtype=a.dtype).scatter_add(dim, index, a)


def _index_select_adjoint(a: Any, index: Any, dim: int, length: int) -> Any:
    shape = list(a.shape)
    if shape:
        shape[dim] = length
    return torch.zeros(shape, dtype=a.dtype).index_add(dim, index, a)


def reference_topk_indices(
    a: Any, k: int, dim: int = -1, largest: bool = True, sorted: bool = True
) -> Any:
    """The first of equal elements, which PyTorch's topk does not promise."""
    order = torch.sort(a, dim=dim, descending=largest, stable=True).indices
    chosen = order.narrow(dim, 0, k) if a.ndim else order
    return chosen if sorted or not a.ndim else chosen.sort(dim).values


def _whole(*shape: int, below: int) -> Array:
    return np.random.default_rng([below, *shape]).integers(0, below, shape)


def _bad_along(name: str, *more: Any, **attrs: Any) -> tuple[Bad, ...]:
    """What every op refuses that has an index along a dimension."""

    def bad(index: Any, error: type[Exception], *words: str, dim: int = 1) -> Bad:
        return Bad((real(3, 4), index, *more), error, (name, *words), {"dim": dim, **attrs})

    return (
        bad(np.array([[0, 4]]), IndexError, "index 4", "[0, 4)"),
        bad(np.array([[0, -1]]), IndexError, "index -1", "[0, 4)"),
        bad(np.array([[0.0]]), IndexError, "integers", "float64"),
        bad(np.array([[True]]), IndexError, "integers", "bool"),
        bad(np.array([0, 1]), ShapeError, "(2,)", "(3, 4)"),
        bad(_whole(4, 2, below=4), ShapeError, "(4, 2)", "(3, 4)", "dimension 1"),
        bad(np.array([[0]]), IndexError, "dim 2", dim=2),
        bad([[0]], TypeError, "index", "list"),
    )


_TWICE: Final = np.array([0, 2, 0, -1])

SELECTION: Final = {
    "setitem": Case(
        reference_setitem,
        (
            Sample((real(3, 4), real(4)), {"index": 1}),
            Sample((real(3, 4), real()), {"index": (slice(None), 2)}),
            Sample((real(3, 4), real(3, 1)), {"index": (..., slice(1, None, 2))}),
            Sample((real(), real()), {"index": ()}),
            Sample((real(), real(1)), {"index": None}),
            Sample((real(3, 4), real(3, 4)), {"index": ...}),
            Sample((real(0, 4), real(4)), {"index": slice(None)}),
            Sample((real(3, 4), real(0, 4)), {"index": slice(5, 9)}),
            Sample((real(3, 4), real(2, 4)), {"index": np.array([2, 0])}),
            Sample((real(3, 4), real(4)), {"index": [2, -2]}),
            Sample((real(3, 4), real()), {"index": np.eye(3, 4) == 1}),
            Sample((real(3, 4), real(2, 4)), {"index": [True, False, True]}),
            Sample((real(3, 4), real(3)), {"index": (np.arange(3), [3, 1, 1])}),
            Sample((real(3, 4), real(4)), {"index": 1, "accumulate": True}),
            Sample((real(4), real(4)), {"index": _TWICE, "accumulate": True}),
            Sample((real(3, 4), real(4, 1)), {"index": _TWICE, "accumulate": True}),
            Sample((real(3, 4), real(4)), {"index": (_TWICE, _TWICE), "accumulate": True}),
            Sample((real(3, 4), real()), {"index": np.eye(3, 4) == 1, "accumulate": True}),
        ),
        (
            Bad((real(3), real()), IndexError, ("setitem", "out of bounds", "(3,)"), {"index": 3}),
            Bad((real(3), real()), IndexError, ("setitem", "too many"), {"index": (0, 0)}),
            Bad((real(3), real()), IndexError, ("setitem",), {"index": 0.5}),
            Bad((real(3), real(2)), ShapeError, ("setitem", "(2,)", "()"), {"index": 0}),
            Bad((real(3), real(1, 3)), ShapeError, ("setitem", "(1, 3)", "(3,)"), {"index": ...}),
            Bad((real(3), None), TypeError, ("setitem", "value is None"), {"index": 0}),
            Bad((real(3), real()), TypeError, ("setitem", "'index'", "missing")),
        ),
        (
            Sample((real(4), real(4)), {"index": _TWICE}),
            Sample((real(4), real()), {"index": _TWICE}),
            Sample((real(4, 3), real(4, 1)), {"index": _TWICE}),
            Sample((real(4, 3), real(4, 3).T.copy().T), {"index": _TWICE}),
            Sample((real(3, 3), real(3, 2)), {"index": (np.array([[0], [2], [0]]), [1, 1])}),
            Sample((real(3, 3), real(2)), {"index": (slice(1, None), np.array([0, 0]))}),
            Sample((np.array([nan, 1.0]), np.array([2.0, nan])), {"index": [0, 0]}),
        ),
    ),
    "gather": Case(
        lambda a, index, dim: torch.gather(a, dim, index),
        (
            Sample((real(3, 4), _whole(3, 4, below=3)), {"dim": 0}),
            Sample((real(3, 4), _whole(2, 7, below=4)), {"dim": -1}),
            Sample((real(2, 3, 4), _whole(1, 5, 4, below=3)), {"dim": 1}),
            Sample((real(5), np.array([1, 1, 4, 1])), {"dim": 0}),
            Sample((real(5), np.array(3)), {"dim": 0}),
            Sample((real(), np.array(0)), {"dim": -1}),
            Sample((real(), np.array([0, 0])), {"dim": 0}),
            Sample((real(3, 4), _whole(3, 0, below=4)), {"dim": 1}),
            Sample((real(0, 4), _whole(0, 2, below=4)), {"dim": 1}),
        ),
        _bad_along("gather"),
    ),
    "gather_adjoint": Case(
        _gather_adjoint,
        (
            Sample((real(3, 4), _whole(3, 4, below=3)), {"dim": 0, "shape": (3, 4)}),
            Sample((real(2, 7), _whole(2, 7, below=4)), {"dim": -1, "shape": (3, 4)}),
            Sample((real(1, 5, 4), _whole(1, 5, 4, below=3)), {"dim": 1, "shape": (2, 3, 4)}),
            Sample((real(), np.array(0)), {"dim": 0, "shape": ()}),
            Sample((real(2), np.array([0, 0])), {"dim": 0, "shape": ()}),
            Sample((real(), np.array(3)), {"dim": 0, "shape": (5,)}),
            Sample((real(3, 0), _whole(3, 0, below=4)), {"dim": 1, "shape": (3, 4)}),
        ),
        (
            *(b for b in _bad_along("gather_adjoint", shape=(3, 4)) if b.error is not ShapeError),
            Bad(
                (real(2, 2), np.array([[0, 1]])),
                ShapeError,
                ("gather_adjoint", "(2, 2)", "(1, 2)"),
                {"dim": 1, "shape": (3, 4)},
            ),
        ),
    ),
    "scatter": Case(
        _scatter,
        (
            Sample((real(3, 4), np.array([[2, 0, 1, 0]]), real(3, 4)), {"dim": 0}),
            Sample((real(3, 4), np.array([[3, 0], [1, 2]]), real(2, 2)), {"dim": -1}),
            Sample((real(5), np.array([4, 1]), real()), {"dim": 0}),
            Sample((real(5), np.array(3), real()), {"dim": 0}),
            Sample((real(), np.array(0), real()), {"dim": 0}),
            Sample((real(2, 1, 2), np.zeros((2, 1, 1), np.int64), real(2, 1, 1)), {"dim": 1}),
            Sample((real(3, 4), _whole(3, 0, below=4), real(3, 2)), {"dim": 1}),
            Sample((real(0, 4), _whole(0, 2, below=4), real(0, 2)), {"dim": 1}),
        ),
        (
            *_bad_along("scatter", real()),
            Bad(
                (real(3, 4), np.array([[0, 1]]), real(1, 1)),
                ShapeError,
                ("scatter", "src", "(1, 1)", "(1, 2)"),
                {"dim": 1},
            ),
            Bad(
                (real(3, 4), np.array([[0, 1]]), real(2)),
                ShapeError,
                ("scatter", "src", "(2,)", "(1, 2)"),
                {"dim": 1},
            ),
        ),
        (
            Sample((real(3), np.array([0, 2, 0, 0]), real(5)), {"dim": 0}),
            Sample((real(3), np.array([1, 1]), real()), {"dim": 0}),
            Sample((real(3, 2), np.array([[1, 0], [1, 0], [1, 2]]), real(3, 2)), {"dim": 0}),
            Sample((real(), np.array([0, 0]), real(2)), {"dim": 0}),
        ),
    ),
    "index_select": Case(
        lambda a, index, dim: torch.index_select(a, dim, index),
        (
            Sample((real(3, 4), np.array([2, 0, 2, 2])), {"dim": 0}),
            Sample((real(3, 4, 2), np.array([3, 3])), {"dim": -2}),
            Sample((real(3, 4), np.array(1)), {"dim": 1}),
            Sample((real(), np.array(0)), {"dim": 0}),
            Sample((real(3, 4), np.zeros(0, np.int64)), {"dim": 1}),
            Sample((real(3, 0), np.array([1, 1])), {"dim": 0}),
        ),
        (
            Bad((real(3), np.array([3])), IndexError, ("index_select", "3", "[0, 3)"), {"dim": 0}),
            Bad((real(3), np.array([-1])), IndexError, ("index_select", "-1"), {"dim": 0}),
            Bad((real(3), np.array([0.0])), IndexError, ("index_select", "float64"), {"dim": 0}),
            Bad((real(3), np.array([[0]])), ShapeError, ("index_select", "(1, 1)"), {"dim": 0}),
            Bad((real(3), np.array([0])), IndexError, ("index_select", "dim 1"), {"dim": 1}),
        ),
    ),
    "index_select_adjoint": Case(
        _index_select_adjoint,
        (
            Sample((real(4, 2), np.array([2, 0, 2, 2])), {"dim": 0, "length": 3}),
            Sample((real(3, 2, 2), np.array([3, 3])), {"dim": -2, "length": 4}),
            Sample((real(3, 1), np.array(1)), {"dim": 1, "length": 4}),
            Sample((real(), np.array(0)), {"dim": 0, "length": 1}),
            Sample((real(3, 0), np.zeros(0, np.int64)), {"dim": 1, "length": 4}),
        ),
        (
            Bad(
                (real(2, 3), np.array([0, 5])),
                IndexError,
                ("index_select_adjoint", "index 5", "[0, 5)"),
                {"dim": 0, "length": 5},
            ),
            Bad(
                (real(2, 3), np.array([0])),
                ShapeError,
                ("index_select_adjoint", "2 slices", "(1,)"),
                {"dim": 0, "length": 5},
            ),
        ),
    ),
    "argsort": Case(
        lambda a, dim=-1, descending=False, stable=False: torch.argsort(
            a, dim=dim, descending=descending, stable=True
        ),
        view(*ORDERS),
        (
            refused("argsort", (3, 4), IndexError, "dim 2", "(3, 4)", dim=2),
            refused("argsort", (3,), TypeError, "dim", "None", dim=None),
        ),
        (
            Sample((np.array([1.0, nan, 0.0, 1.0, -np.inf, nan, -0.0]),)),
            Sample((np.array([1.0, nan, 0.0, 1.0, -np.inf, nan, -0.0]),), {"descending": True}),
        ),
    ),
    "topk_indices": Case(
        reference_topk_indices,
        view(
            ((5,), {"k": 2}),
            ((3, 4), {"k": 3, "dim": 0}),
            ((3, 40), {"k": 5, "largest": False}),
            ((2, 30, 4), {"k": 7, "dim": -2, "sorted": False}),
            ((2, 30, 2), {"k": 7, "dim": 1, "sorted": False, "largest": False}),
            ((3, 4), {"k": 4}),
            ((3, 4), {"k": 0}),
            ((), {"k": 1}),
            ((2, 0), {"k": 0}),
            ((0, 3), {"k": 2}),
        ),
        (
            refused("topk_indices", (3, 4), RuntimeError, "k", "[0, 4]", "5", k=5),
            refused("topk_indices", (3, 4), RuntimeError, "k", "[0, 4]", "-1", k=-1),
            refused("topk_indices", (3, 4), TypeError, "k", "1.5", k=1.5),
            refused("topk_indices", (3, 4), IndexError, "dim 2", k=1, dim=2),
            refused("topk_indices", (), RuntimeError, "k", "2", k=2),
            refused("topk_indices", (3,), TypeError, "'k'", "missing"),
        ),
        (
            Sample((np.array([1.0, nan, 1.0, 2.0, 1.0, nan]),), {"k": 4}),
            Sample((np.array([1.0, nan, 1.0, 2.0, 1.0]),), {"k": 2, "largest": False}),
            Sample((np.array([1.0, 3.0, 1.0, 3.0, 1.0, 3.0]),), {"k": 4}),
            Sample((np.array([1.0, 3.0, 1.0, 3.0]),), {"k": 1, "largest": False, "sorted": False}),
        ),
    ),
    "nonzero": Case(
        torch.nonzero,
        (
            Sample((np.array([0.0, -0.0, 2.0, nan]),)),
            Sample((np.eye(3, 4),)),
            Sample((np.array(3.0),)),
            Sample((np.array(0.0),)),
            Sample((np.zeros((2, 0)),)),
        ),
        (Bad((None,), TypeError, ("nonzero", "a is None")),),
    ),
}
