"""Products of matrices."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import torch
from torch.nn import functional

from tensor import ShapeError
from tests.tensor.ops.table import Bad, Case, Sample, real

__all__ = ["ALGEBRA"]

_PRODUCTS: Final = [
    ((3, 4), (4, 2)),
    ((3, 3), (3, 3)),
    ((4,), (4,)),
    ((4,), (4, 3)),
    ((3, 4), (4,)),
    ((3, 3), (3,)),
    ((2, 3, 4), (4, 5)),
    ((2, 3, 4), (2, 4, 5)),
    ((3, 4), (2, 4, 5)),
    ((4,), (2, 4, 3)),
    ((2, 3, 4), (4,)),
    ((2, 1, 3, 4), (4, 2)),
    ((2, 1, 3, 4), (5, 4, 2)),
    ((3, 1), (1, 4)),
    ((1, 3), (3, 1)),
    ((1, 1), (1,)),
    ((0, 3), (3, 2)),
    ((2, 3), (3, 0)),
    ((2, 0), (0, 3)),
    ((0,), (0,)),
    ((2, 0), (0,)),
    ((0,), (0, 3)),
    ((0, 3, 4), (4, 2)),
    ((2, 3, 0), (0, 4)),
    ((2, 3, 0), (2, 0, 4)),
    ((2, 3, 0), (0,)),
]


def _misfit(name: str, a: Any, b: Any, *words: str) -> Bad:
    return Bad((a, b), ShapeError, (name, str(a.shape), str(b.shape), *words))


def _linear(a: Any, weight: Any, bias: Any = None, activation: str | None = None) -> Any:
    out = functional.linear(a, weight, bias)
    return out if activation is None else getattr(torch, activation)(out)


_LINEAR: Final = [
    Sample((real(5, 4), real(3, 4), real(3))),
    Sample((real(5, 4), real(3, 4), None)),
    *(
        Sample((real(*rows, 4), real(3, 4), bias), {"activation": activation})
        for rows, bias in [((5,), real(3)), ((), real(3)), ((2, 1), None)]
        for activation in ("relu", "tanh", "sigmoid")
    ),
    Sample((real(1, 4), real(1, 4), real(1))),
    Sample((real(2, 3, 4), real(3, 4), real(3))),
    Sample((real(0, 4), real(3, 4), real(3))),
    Sample((real(2, 0, 4), real(3, 4), real(3)), {"activation": "tanh"}),
    Sample((real(5, 0), real(3, 0), real(3)), {"activation": "relu"}),
    Sample((real(2, 5, 0), real(3, 0), real(3))),
    Sample((real(5, 4), real(0, 4), real(0))),
    Sample((real(2, 5, 4), real(0, 4), real(0))),
]

ALGEBRA: Final = {
    "matmul": Case(
        torch.matmul,
        tuple(Sample((real(*a), real(*b))) for a, b in _PRODUCTS),
        (
            _misfit("matmul", real(2, 3), real(2, 3), "3", "2", "inner"),
            _misfit("matmul", real(3), real(4)),
            _misfit("matmul", real(), real(2, 2), "0-d"),
            _misfit("matmul", real(2, 2), real(), "0-d"),
            _misfit("matmul", real(2, 3, 4), real(3, 4, 5)),
            Bad(
                (np.ones((2, 2), np.float32), np.ones((2, 2))),
                RuntimeError,
                ("matmul", "float32", "float64", "b", ".to("),
            ),
            Bad((real(2, 2), "text"), TypeError, ("matmul", "b", "str")),
            Bad((real(2, 2), [1.0, 2.0]), TypeError, ("matmul", "b", "list")),
            Bad((real(2, 2),), TypeError, ("matmul",)),
        ),
    ),
    "linear": Case(
        _linear,
        tuple(_LINEAR),
        (
            Bad((real(5, 4), real(4, 3), real(3)), ShapeError, ("linear", "(5, 4)", "(4, 3)")),
            Bad((real(5, 4), real(3, 4), real(4)), ShapeError, ("linear", "bias", "(3,)", "(4,)")),
            Bad((real(5, 4), real(3, 4), real(1)), ShapeError, ("linear", "bias", "(3,)", "(1,)")),
            Bad((real(5, 4), real(4), None), ShapeError, ("linear", "weight", "(4,)")),
            Bad((real(), real(3, 1), None), ShapeError, ("linear", "a", "()")),
            Bad(
                (real(5, 4), real(3, 4), real(3)),
                ValueError,
                ("linear", "activation", "'sine'", "relu"),
                {"activation": "sine"},
            ),
            Bad(
                (real(5, 4), real(3, 4).astype(np.float32), None),
                RuntimeError,
                ("linear", "weight", "float32", "float64"),
            ),
            Bad((real(5, 4), None, None), TypeError, ("linear", "weight", "None")),
        ),
    ),
}
