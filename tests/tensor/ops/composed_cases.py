"""Ops that are made of other ops."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import torch

from tensor import ShapeError
from tests.tensor.ops.selection_cases import ORDERS, reference_setitem, reference_topk_indices
from tests.tensor.ops.table import Bad, Case, Sample, boolean, nan, real, refused, view

__all__ = ["COMPOSED"]


def _tensordot(a: Any, b: Any, dims: Any = 2) -> Any:
    return torch.tensordot(a, b, dims=dims)


def _take_along_dim(a: Any, indices: Any, dim: int | None = None) -> Any:
    """PyTorch's, without ``dim``, views memory in one row that may not be."""
    if dim is None:
        return torch.take_along_dim(a.reshape(-1), indices.reshape(-1), 0)
    return torch.take_along_dim(a, indices, dim)


def _sort(a: Any, dim: int = -1, descending: bool = False, stable: bool = False) -> Any:
    """Equal elements in order, which PyTorch promises of stable sorts alone."""
    return torch.sort(a, dim=dim, descending=descending, stable=True)


def _topk(a: Any, k: int, dim: int = -1, **how: Any) -> Any:
    indices = reference_topk_indices(a, k, dim, **how)
    return torch.gather(a, dim, indices), indices


def _index_put(a: Any, values: Any, indices: Any, accumulate: bool = False) -> Any:
    return reference_setitem(a, values, tuple(indices), accumulate)


def _two(*shapes: tuple[int, ...], **attrs: Any) -> Sample:
    return Sample(tuple(real(*shape) for shape in shapes), attrs)


def _bad_two(
    name: str, a: tuple[int, ...], b: tuple[int, ...], error: Any, *words: str, **attrs: Any
) -> Bad:
    return Bad((real(*a), real(*b)), error, (f"{name}: ", *words), attrs)


def _bad_index(name: str, *more: Any, what: str = "index", **attrs: Any) -> tuple[Bad, ...]:
    """What every composite op refuses that has an index along dimension 1 of (3, 4)."""

    def bad(index: Any, error: type[Exception], *words: str, dim: int = 1) -> Bad:
        return Bad((real(3, 4), index, *more), error, (f"{name}: ", *words), {"dim": dim, **attrs})

    return (
        bad(np.array([[0, 4]]), IndexError, "index 4", "[0, 4)"),
        bad(np.array([[0, -1]]), IndexError, "index -1", "[0, 4)"),
        bad(np.array([[0.0, 0.0]]), IndexError, what, "integers", "float64"),
        bad(np.array([[0, 0]]), IndexError, "dim 2", dim=2),
        bad([[0, 0]], TypeError, what, "list"),
    )


_TWICE: Final = np.array([0, 2, 0, -1])
_PLACES: Final = np.array([[3, 0, 3], [1, 1, 2]])
_TIED: Final = np.array([1.0, nan, 0.0, 1.0, -np.inf, nan, 0.0])

# A view that no row of the table could be of: the dimension that a 0-d tensor lacks.
_UNDIVIDED: Final = ("0-d", "unsqueeze")

COMPOSED: Final = {
    "tensordot": Case(
        _tensordot,
        (
            _two((2, 3, 4), (3, 4, 2)),
            _two((2, 3), (3, 4), dims=1),
            _two((2, 3), (4,), dims=0),
            _two((2, 3, 4), (4, 5, 2), dims=([0, 2], [2, 0])),
            _two((2, 3), (3, 2), dims=([-1], [0])),
            _two((2, 2), (2, 2), dims=([], [])),
            _two((2, 0), (0, 3), dims=1),
            _two((), (), dims=0),
        ),
        (
            _bad_two("tensordot", (2, 3), (2, 3), ShapeError, "dim 1", "equal", dims=1),
            _bad_two("tensordot", (2, 3), (3,), ShapeError, "dims", "[0, 1]", "2", dims=2),
            _bad_two("tensordot", (2, 3), (3,), ShapeError, "dims", "-1", dims=-1),
            _bad_two("tensordot", (2, 2), (2, 2), ShapeError, "once", dims=([0, 0], [0, 1])),
            _bad_two("tensordot", (2, 2), (2, 2), ShapeError, "pair", dims=([0], [0, 1])),
            _bad_two("tensordot", (2, 2), (2, 2), IndexError, "dim 2", dims=([2], [0])),
            _bad_two("tensordot", (2, 2), (2, 2), TypeError, "dims", "1.5", dims=1.5),
            Bad(
                (real(2, 2).astype(np.float32), real(2, 2)),
                RuntimeError,
                ("tensordot: a and b must have one dtype", "float32", "float64"),
            ),
            Bad(([[1.0]], real(2, 2)), TypeError, ("tensordot: a must", "list")),
            Bad((real(2, 2), None), TypeError, ("tensordot: b is None",)),
        ),
    ),
    "swapaxes": Case(
        lambda a, dim0, dim1: a.swapaxes(dim0, dim1),
        view(
            ((2, 3, 4), {"dim0": 0, "dim1": -1}),
            ((2, 3), {"dim0": 1, "dim1": 1}),
            ((), {"dim0": 0, "dim1": 0}),
            ((0, 2), {"dim0": 0, "dim1": 1}),
        ),
        (
            refused("swapaxes: ", (2, 3), IndexError, "dim 2", dim0=0, dim1=2),
            refused("swapaxes: ", (2, 3), TypeError, "dim", "0.5", dim0=0.5, dim1=0),
            Bad(("text",), TypeError, ("swapaxes: a must", "str"), {"dim0": 0, "dim1": 0}),
        ),
    ),
    "moveaxis": Case(
        torch.moveaxis,
        view(
            ((2, 3, 4), {"source": 0, "destination": 2}),
            ((2, 3, 4), {"source": -1, "destination": 0}),
            ((2, 3, 4, 2), {"source": (0, 3), "destination": (1, 0)}),
            ((2, 3), {"source": (), "destination": ()}),
            ((), {"source": 0, "destination": 0}),
            ((0, 3), {"source": 0, "destination": 1}),
        ),
        (
            refused("moveaxis: ", (2, 3), IndexError, "dim 2", source=0, destination=2),
            refused("moveaxis: ", (2, 3), ShapeError, "equally", source=(0, 1), destination=(0,)),
            refused("moveaxis: ", (2, 3), ShapeError, "twice", source=(0, -2), destination=(0, 1)),
            refused("moveaxis: ", (2, 3), TypeError, "source", "0.5", source=0.5, destination=0),
            refused("moveaxis: ", (2, 3), TypeError, "destination", source=0, destination="0"),
        ),
    ),
    "split": Case(
        lambda a, split_size, dim=0: torch.split(a, split_size, dim),
        view(
            ((5, 2), {"split_size": 2}),
            ((2, 5), {"split_size": (1, 0, 4), "dim": 1}),
            ((2, 5), {"split_size": 3, "dim": -1}),
            ((4,), {"split_size": 9}),
            ((0, 2), {"split_size": 3}),
            ((0, 2), {"split_size": 0}),
        ),
        (
            refused("split: ", (5,), ShapeError, "(2, 2)", "5", "add up", split_size=(2, 2)),
            refused("split: ", (5,), ShapeError, "(6, -1)", "negative", split_size=(6, -1)),
            refused("split: ", (5,), ShapeError, "split_size", "at least 1", "0", split_size=0),
            refused("split: ", (5,), ShapeError, "split_size", "at least 1", "-2", split_size=-2),
            refused("split: ", (5,), IndexError, "dim 1", split_size=2, dim=1),
            refused("split: ", (5,), TypeError, "split_size", "1.5", split_size=1.5),
            refused("split: ", (), ShapeError, *_UNDIVIDED, split_size=1),
            refused("split: ", (5,), TypeError, "'split_size'", "missing"),
        ),
    ),
    "chunk": Case(
        torch.chunk,
        view(
            ((5, 2), {"chunks": 2}),
            ((6,), {"chunks": 4}),
            ((2, 5), {"chunks": 7, "dim": -1}),
            ((0, 2), {"chunks": 3}),
        ),
        (
            refused("chunk: ", (5,), ShapeError, "chunks", "at least 1", "0", chunks=0),
            refused("chunk: ", (5,), IndexError, "dim 1", chunks=2, dim=1),
            refused("chunk: ", (5,), TypeError, "chunks", "'2'", chunks="2"),
            refused("chunk: ", (), ShapeError, *_UNDIVIDED, chunks=1),
        ),
    ),
    "unbind": Case(
        torch.unbind,
        view(((3, 2), {}), ((2, 3, 2), {"dim": -1}), ((3,), {}), ((2, 0), {})),
        (
            refused("unbind: ", (3,), IndexError, "dim 1", dim=1),
            refused("unbind: ", (), ShapeError, *_UNDIVIDED),
        ),
    ),
    "tile": Case(
        torch.tile,
        view(
            ((2, 3), {"dims": (2,)}),
            ((2, 3), {"dims": (2, 1, 2)}),
            ((), {"dims": (2,)}),
            ((0, 2), {"dims": (3, 2)}),
        ),
        (
            refused("tile: ", (2, 3), ShapeError, "dims", "(2, -1)", "below 0", dims=(2, -1)),
            refused("tile: ", (2, 3), TypeError, "dims", "2.0", dims=(2.0,)),
        ),
    ),
    "take_along_dim": Case(
        _take_along_dim,
        (
            Sample((real(3, 4), np.array([[2, 0, 1, 1]])), {"dim": 0}),
            Sample((real(3, 4), _PLACES[:1]), {"dim": -1}),
            Sample((real(1, 4), _PLACES), {"dim": 1}),
            Sample((real(3, 4), _PLACES)),
            Sample((real(), np.array(0))),
            Sample((real(3, 4), np.zeros((3, 0), np.int64)), {"dim": 1}),
        ),
        (
            *_bad_index("take_along_dim", what="indices"),
            Bad(
                (real(3, 4), np.zeros((2, 1), np.int64)),
                ShapeError,
                ("take_along_dim: ", "indices", "(3,)", "(2,)"),
                {"dim": 1},
            ),
            Bad(
                (real(3, 4), np.array([0])),
                ShapeError,
                ("take_along_dim: indices has shape (1,)", "(3, 4)"),
                {"dim": 1},
            ),
        ),
    ),
    "scatter_add": Case(
        lambda a, index, src, dim: torch.scatter_add(a, dim, index, src),
        (
            Sample((real(3, 4), _PLACES, real(2, 3)), {"dim": 1}),
            Sample((real(3, 4), _PLACES % 3, real(2, 3)), {"dim": -2}),
            Sample((real(4), np.array([0, 2, 0, 0]), real(4)), {"dim": 0}),
            Sample((real(), np.array(0), real()), {"dim": 0}),
            Sample((real(3, 4), np.zeros((3, 0), np.int64), real(3, 0)), {"dim": 1}),
        ),
        (
            *_bad_index("scatter_add", real(1, 2)),
            Bad(
                (real(3, 4), np.array([[0, 1]]), real(1, 1)),
                ShapeError,
                ("scatter_add: src of shape (1, 1)", "cover index", "(1, 2)"),
                {"dim": 1},
            ),
            Bad(
                (real(3, 4), np.array([0, 1]), real(2)),
                ShapeError,
                ("scatter_add: index has shape (2,)", "(3, 4)"),
                {"dim": 1},
            ),
        ),
    ),
    "index_add": Case(
        lambda a, index, source, dim, alpha=1: a.index_add(dim, index, source, alpha=alpha),
        (
            Sample((real(3, 4), np.array([1, 1, 2]), real(3, 4)), {"dim": 0}),
            Sample((real(3, 4), np.array([1, 1, 0]), real(3, 3)), {"dim": -1, "alpha": -2}),
            Sample((real(), np.array(0), real()), {"dim": 0}),
            Sample((real(3, 4), np.zeros(0, np.int64), real(0, 4)), {"dim": 0}),
        ),
        (
            Bad((real(3, 4), np.array([0]), real(1, 3)), ShapeError,
                ("index_add: source of shape (1, 3)", "(3, 4)"), {"dim": 0}),
            Bad((real(3, 4), np.array([0, 1]), real(1, 4)), ShapeError,
                ("index_add: source has 1 slices", "index has shape (2,)"), {"dim": 0}),
            Bad((real(3, 4), np.array([[0]]), real(1, 4)), ShapeError,
                ("index_add: ", "index has shape (1, 1)"), {"dim": 0}),
            Bad((real(3, 4), np.array([3]), real(1, 4)), IndexError,
                ("index_add: index 3", "[0, 3)"), {"dim": 0}),
            Bad((real(3, 4), np.array([0]), real(1, 4)), IndexError,
                ("index_add: dim 2",), {"dim": 2}),
            Bad((np.ones((3, 4), int), np.array([0]), np.ones((1, 4), int)), RuntimeError,
                ("index_add: alpha", "integer", "0.5"), {"dim": 0, "alpha": 0.5}),
        ),
    ),
    "index_put": Case(
        _index_put,
        (
            Sample((real(3, 4), real(2, 4)), {"indices": (np.array([2, 0]),)}),
            Sample((real(3, 4), real()), {"indices": (np.eye(3, 4) == 1,)}),
            Sample((real(3, 4), real(2)), {"indices": (np.array([0, 2]), np.array([3, 3]))}),
            Sample((real(4), real(4)), {"indices": (_TWICE,), "accumulate": True}),
            Sample((real(3, 4), real(4, 1)), {"indices": (_TWICE,), "accumulate": True}),
            Sample((real(3, 4), real(0, 4)), {"indices": (np.zeros(0, np.int64),)}),
            Sample((real(), real()), {"indices": ()}),
        ),
        (
            _bad_two(
                *("index_put", (3,), (), IndexError, "out of bounds", "(3,)"),
                indices=(np.array([3]),),
            ),
            _bad_two("index_put", (3,), (), IndexError, "float64", indices=(np.array([0.5]),)),
            _bad_two(
                *("index_put", (3,), (2,), ShapeError, "values of shape (2,)", "(1,)"),
                indices=(np.array([0]),),
            ),
            _bad_two("index_put", (3,), (), TypeError, "indices", "ndarray", indices=np.array([0])),
            Bad((real(3), [1.0]), TypeError, ("index_put: values", "list"), {"indices": (0,)}),
            Bad((real(3), real()), TypeError, ("index_put: ", "'indices'", "missing")),
        ),
        (
            Sample((real(4), real(4)), {"indices": (_TWICE,)}),
            Sample((real(4, 3), real(4, 1)), {"indices": (_TWICE,)}),
            Sample((np.array([nan, 1.0]), np.array([2.0, nan])), {"indices": (np.zeros(2, int),)}),
        ),
    ),
    "masked_fill": Case(
        torch.masked_fill,
        (
            Sample((real(3, 4), boolean(3, 4), real())),
            Sample((real(3, 4), boolean(4), real())),
            Sample((real(1, 4), boolean(3, 1), real())),
            Sample((real(), np.array(True), real())),
            Sample((real(0, 2), boolean(2), real())),
        ),
        (
            Bad((real(3), np.ones(3), real()), RuntimeError,
                ("masked_fill: mask must be bool", "float64")),
            Bad((real(3), boolean(3), real(2)), ShapeError,
                ("masked_fill: value must be one number", "(2,)")),
            Bad((real(3), boolean(2), real()), ShapeError, ("masked_fill: a of", "mask", "(2,)")),
            Bad((real(3), boolean(3), [1.0]), TypeError, ("masked_fill: value must", "list")),
        ),
        (Sample((np.array([1.0, nan, 2.0]), np.array([True, True, False]), np.array(np.inf))),),
    ),
    "masked_select": Case(
        torch.masked_select,
        (
            Sample((real(3, 4), boolean(3, 4))),
            Sample((real(3, 4), boolean(3, 1))),
            Sample((real(1, 4), boolean(3, 1))),
            Sample((real(), np.array(True))),
            Sample((real(3), np.zeros(3, bool))),
            Sample((real(0, 2), boolean(2))),
        ),
        (
            Bad((real(3), real(3)), RuntimeError, ("masked_select: mask must be bool", "float64")),
            Bad((real(3, 4), boolean(2, 4)), ShapeError, ("masked_select: ", "(3, 4)", "(2, 4)")),
            Bad((real(3), [True]), TypeError, ("masked_select: mask must", "list")),
        ),
    ),
    "sort": Case(
        _sort,
        view(*ORDERS),
        (
            refused("sort: ", (3, 4), IndexError, "dim 2", "(3, 4)", dim=2),
            refused("sort: ", (3,), TypeError, "dim", "None", dim=None),
            Bad(([1.0],), TypeError, ("sort: a must", "list")),
        ),
        (Sample((_TIED,)), Sample((_TIED,), {"descending": True})),
    ),
    "topk": Case(
        _topk,
        view(
            ((5,), {"k": 2}),
            ((3, 4), {"k": 3, "dim": 0}),
            ((3, 4), {"k": 2, "largest": False}),
            ((2, 5, 3), {"k": 3, "dim": -2, "sorted": False}),
            ((3, 4), {"k": 4}),
            ((3, 4), {"k": 0}),
            ((), {"k": 1}),
            ((2, 0), {"k": 0}),
            ((0, 3), {"k": 2}),
        ),
        (
            refused("topk: ", (3, 4), RuntimeError, "k must", "[0, 4]", "5", k=5),
            refused("topk: ", (3, 4), RuntimeError, "k must", "[0, 4]", "-1", k=-1),
            refused("topk: ", (3, 4), TypeError, "k must", "1.5", k=1.5),
            refused("topk: ", (3, 4), IndexError, "dim 2", k=1, dim=2),
            refused("topk: ", (3,), TypeError, "'k'", "missing"),
        ),
        (
            Sample((_TIED,), {"k": 4}),
            Sample((np.array([1.0, 3.0, 1.0, 3.0]),), {"k": 1, "largest": False}),
            Sample((np.array([1.0, 3.0, 1.0, 3.0, 1.0]),), {"k": 4, "sorted": False}),
        ),
    ),
}  # fmt: skip
