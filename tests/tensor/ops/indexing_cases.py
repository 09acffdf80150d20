"""Reading elements by index, and adding them back."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import torch
from torch.nn import functional

from tensor import ShapeError, Tensor
from tests.tensor.ops.table import Bad, Case, Sample, boolean, real, view

__all__ = ["INDEXING"]

_INDEXED: Final = real(3, 4, 3)
_REPEATED: Final = np.array([0, 2, 0, -1])
_MASK: Final = boolean(3, 4)

_INDICES: Final = [
    1,
    -1,
    np.int64(2),
    slice(None),
    slice(1, None, 2),
    slice(5, 9),
    None,
    ...,
    True,
    (),
    (0, 1, 2),
    (1, ..., None, slice(0, 4, 3)),
    (slice(None), -2),
    [0, 2, 0],
    [True, False, True],
    _REPEATED,
    np.array(1),
    np.array([[0, 1], [1, 1]], dtype=np.int32),
    np.zeros(0, np.int64),
    _MASK,
    _MASK[:, 0],
    np.zeros(3, bool),
    (_MASK, 2),
    (_MASK, _REPEATED[:1]),
    (slice(None), _MASK[0]),
    (slice(None), _REPEATED),
    (..., _REPEATED),
    (_REPEATED, _REPEATED),
    (_REPEATED[:, None], _REPEATED),
    (_REPEATED, slice(1, 3), _REPEATED),
    (_REPEATED, None, 1),
    (slice(None), [0, 0], [1, 1]),
]


def _torch_index(index: Any) -> Any:
    if isinstance(index, tuple):
        return tuple(_torch_index(i) for i in index)
    if isinstance(index, list):
        return torch.tensor(index)
    if isinstance(index, Tensor):
        return torch.from_numpy(index.data)
    return torch.from_numpy(index) if isinstance(index, np.ndarray) else index


def _getitem(a: Any, index: Any) -> Any:
    return a[_torch_index(index)]


def _getitem_adjoint(a: Any, index: Any, shape: tuple[int, ...]) -> Any:
    """The vector-Jacobian product of reading, which PyTorch can differentiate again."""
    base = torch.zeros(shape, dtype=a.dtype, requires_grad=True)
    return torch.autograd.grad(_getitem(base, index), base, a, create_graph=True)[0]


def _embedding_adjoint(a: Any, indices: Any, rows: int) -> Any:
    base = torch.zeros((rows, a.shape[-1]), dtype=a.dtype, requires_grad=True)
    return torch.autograd.grad(base[indices], base, a, create_graph=True)[0]


def _bad_index(shape: tuple[int, ...], error: type[Exception], index: Any, *words: str) -> Bad:
    return Bad((real(*shape),), error, ("getitem", str(shape), *words), {"index": index})


INDEXING: Final = {
    "getitem": Case(
        _getitem,
        tuple(Sample((_INDEXED,), {"index": index}) for index in _INDICES)
        + view(
            ((), {"index": ...}),
            ((), {"index": ()}),
            ((), {"index": None}),
            ((), {"index": True}),
            ((4,), {"index": 2}),
            ((4,), {"index": _REPEATED}),
            ((0, 3), {"index": slice(None)}),
            ((0, 3), {"index": np.zeros(0, np.int64)}),
            ((2, 0), {"index": np.array([1, 1, 0])}),
        ),
        (
            _bad_index((3, 4), IndexError, 3, "3", "axis 0"),
            _bad_index((3, 4), IndexError, (0, -5), "-5", "axis 1"),
            _bad_index((3, 4), IndexError, (0, 0, 0), "too many"),
            _bad_index((), IndexError, 0, "too many"),
            _bad_index((3, 4), IndexError, [0, 3], "3", "axis 0"),
            _bad_index((3, 4), IndexError, np.array([0, -4]), "-4"),
            _bad_index((3, 4), IndexError, 1.0),
            _bad_index((3, 4), IndexError, np.array([0.0, 1.0])),
            _bad_index((3, 4), IndexError, "text"),
            _bad_index((3, 4), IndexError, np.array([True, False]), "boolean"),
            _bad_index((3, 4), IndexError, ([0, 1], [0, 1, 2]), "broadcast"),
            _bad_index((3, 4), IndexError, (..., ...), "ellipsis"),
        ),
    ),
    "getitem_adjoint": Case(
        _getitem_adjoint,
        (
            *(
                Sample((real(*_INDEXED[index].shape),), {"index": index, "shape": (3, 4, 3)})
                for index in _INDICES
            ),
            Sample((real(),), {"index": (), "shape": ()}),
            Sample((real(4),), {"index": _REPEATED, "shape": (4,)}),
            Sample((real(3, 0),), {"index": np.array([1, 1, 0]), "shape": (2, 0)}),
        ),
        (
            Bad((real(2),), IndexError, ("getitem_adjoint", "3"), {"index": 3, "shape": (3, 2)}),
            Bad(
                (real(2),),
                ShapeError,
                ("getitem_adjoint", "(2,)", "(3,)"),
                {"index": 0, "shape": (3, 3)},
            ),
            Bad((real(2),), TypeError, ("getitem_adjoint", "'shape'"), {"index": 0}),
        ),
    ),
    "embedding": Case(
        lambda weight, indices: weight[indices],
        (
            Sample((real(5, 3), np.array([4, 0, 4, 4]))),
            Sample((real(5, 3), np.array([[1, 2, 1], [1, 0, 3]]))),
            Sample((real(5, 3), np.array(2))),
            Sample((real(5, 3), np.zeros((2, 0), np.int64))),
            Sample((real(5, 0), np.array([1, 1]))),
            Sample((real(1, 1), np.array([0, 0, 0]))),
        ),
        (
            Bad((real(5, 3), np.array([0, 5])), IndexError, ("embedding", "index 5", "[0, 5)")),
            Bad((real(5, 3), np.array([0, -1])), IndexError, ("embedding", "index -1", "[0, 5)")),
            Bad((real(5, 3), np.array([0.0])), IndexError, ("embedding", "integers", "float64")),
            Bad((real(5, 3), np.array([True])), IndexError, ("embedding", "integers", "bool")),
            Bad((real(5, 3), [0, 1]), TypeError, ("embedding", "indices", "list")),
            Bad((real(5), np.array([0])), ShapeError, ("embedding", "weight", "(5,)")),
            Bad((real(), np.array([0])), ShapeError, ("embedding", "weight", "()")),
        ),
    ),
    "embedding_adjoint": Case(
        _embedding_adjoint,
        (
            Sample((real(4, 3), np.array([4, 0, 4, 4])), {"rows": 5}),
            Sample((real(2, 3, 2), np.array([[1, 2, 1], [1, 0, 3]])), {"rows": 4}),
            Sample((real(3), np.array(2)), {"rows": 5}),
            Sample((real(2, 0, 3), np.zeros((2, 0), np.int64)), {"rows": 5}),
            Sample((real(2, 0), np.array([1, 1])), {"rows": 5}),
        ),
        (
            Bad(
                (real(2, 3), np.array([0, 5])),
                IndexError,
                ("embedding_adjoint", "index 5", "[0, 5)"),
                {"rows": 5},
            ),
            Bad(
                (real(2, 3), np.array([0, 1, 2])),
                ShapeError,
                ("embedding_adjoint", "(2, 3)", "(3,)"),
                {"rows": 5},
            ),
            Bad((real(2, 3), np.array([0, 1])), TypeError, ("embedding_adjoint", "'rows'")),
        ),
    ),
    "one_hot": Case(
        functional.one_hot,
        (
            Sample((np.array([0, 2, 2]),), {"num_classes": 3}),
            Sample((np.array([[1, 0], [3, 1]]),), {"num_classes": 5}),
            Sample((np.array(1),), {"num_classes": 2}),
            Sample((np.zeros((2, 0), np.int64),), {"num_classes": 3}),
        ),
        (
            Bad((np.array([0, 3]),), IndexError, ("one_hot", "3", "[0, 3)"), {"num_classes": 3}),
            Bad((np.array([-1]),), IndexError, ("one_hot", "-1", "[0, 3)"), {"num_classes": 3}),
            Bad((np.array([0.0]),), IndexError, ("one_hot", "float64"), {"num_classes": 3}),
            Bad(
                (np.array([0]),), TypeError, ("one_hot", "num_classes", "2.5"), {"num_classes": 2.5}
            ),
            Bad((np.array([0]),), TypeError, ("one_hot", "'num_classes'", "missing")),
        ),
    ),
}
