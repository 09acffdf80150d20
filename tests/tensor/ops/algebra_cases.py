"""Products of matrices, and sums of products."""

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


def _sums(*rows: tuple[str, *tuple[tuple[int, ...], ...]]) -> tuple[Sample, ...]:
    return tuple(
        Sample(tuple(real(*shape) for shape in shapes), {"equation": equation})
        for equation, *shapes in rows
    )


def _no_sum(equation: Any, *shapes: tuple[int, ...], words: tuple[str, ...]) -> Bad:
    error = ShapeError if isinstance(equation, str) else TypeError
    operands = tuple(real(*shape) for shape in shapes)
    return Bad(operands, error, ("einsum", *words), {"equation": equation})


ALGEBRA: Final = {
    "einsum": Case(
        lambda tensors, equation: torch.einsum(equation, *tensors),
        _sums(
            ("ij,jk->ik", (2, 3), (3, 4)),
            ("ij, jk", (2, 3), (3, 4)),
            ("ij,jk->ki", (2, 3), (3, 4)),
            ("ji,jk->ik", (3, 2), (3, 4)),
            ("bhqd,bhkd->bhqk", (2, 2, 3, 4), (2, 2, 2, 4)),
            ("bij,jk->bik", (2, 3, 4), (4, 2)),
            ("ijk,jkl->il", (2, 3, 2), (3, 2, 4)),
            ("kij,jlk->il", (2, 3, 2), (2, 4, 2)),
            ("bi,bi->b", (3, 4), (3, 4)),
            ("ib,jb->bij", (2, 3), (4, 3)),
            ("i,j->ij", (2,), (3,)),
            ("i,j->ji", (2,), (3,)),
            ("i,i", (3,), (3,)),
            ("i,i->i", (3,), (3,)),
            ("i,i->", (2,), (1,)),
            ("i,i->i", (1,), (3,)),
            ("ij,jk->ik", (2, 1), (3, 4)),
            ("ij,kl->il", (2, 3), (2, 2)),
            ("i,->i", (3,), ()),
            (",->", (), ()),
            ("ij->ji", (2, 3)),
            ("ba", (2, 3)),
            ("ij->", (2, 3)),
            ("ij->j", (2, 3)),
            ("abcd->bd", (2, 3, 2, 4)),
            ("ii->i", (3, 3)),
            ("ii", (3, 3)),
            ("iji->ij", (2, 3, 2)),
            ("iiji->ji", (2, 2, 3, 2)),
            ("iijj->", (2, 2, 3, 3)),
            ("iij,jk->k", (2, 2, 3), (3, 2)),
            ("->", ()),
            ("...", (2, 3)),
            ("...ij->...ji", (2, 2, 3)),
            ("...ij,...jk", (2, 1, 2, 3), (3, 3, 2)),
            ("i...,i...->...", (2, 3), (2, 4, 3)),
            ("...ij->ij", (2, 2, 3)),
            ("...,...", (2, 1), (3,)),
            ("...ii->...i", (2, 3, 3)),
            ("ij,jk,kl->il", (2, 3), (3, 2), (2, 4)),
            ("ij,ik,il->jkl", (2, 3), (2, 2), (2, 2)),
            ("i,ij,j", (2,), (2, 3), (3,)),
            ("a,b,c,abc->", (2,), (3,), (2,), (2, 3, 2)),
            ("ij,jk->ik", (0, 3), (3, 2)),
            ("ij,jk->ik", (2, 0), (0, 3)),
            ("i,i->", (0,), (0,)),
            ("ij->i", (2, 0)),
        ),
        (
            _no_sum("ij,jk", (2, 3), words=("2 terms", "1 operands")),
            _no_sum("ij", (2, 3), (3, 2), words=("1 terms", "2 operands")),
            _no_sum("ijk", (2, 3), words=("3 dimensions", "operand 0", "(2, 3)")),
            _no_sum("i", (2, 3), words=("1 dimensions", "operand 0", "(2, 3)")),
            _no_sum("i...jk", (2, 3), words=("at least 3", "operand 0")),
            _no_sum("ij,jk", (2, 3), (4, 2), words=("'j'", "4", "3", "operand 1")),
            _no_sum("ii", (2, 3), words=("'i'", "2 and 3", "operand 0")),
            _no_sum("...i,...j", (2, 3), (3, 2), words=("'...'", "3", "2")),
            _no_sum("ij->ik", (2, 3), words=("'k'", "no operand")),
            _no_sum("ij->ii", (2, 3), words=("'i'", "twice")),
            _no_sum("i1->i", (2, 3), words=("'1'", "letters")),
            _no_sum("..i->i", (2, 3), words=("'.'", "letters")),
            _no_sum("......i->i", (2, 3), words=("'.'", "letters")),
            _no_sum("i->i->i", (2,), words=("'-'", "letters")),
            _no_sum(3, (2,), words=("equation", "string", "3")),
            Bad(
                (np.ones(2, np.float32), np.ones(2)),
                RuntimeError,
                ("einsum", "float32", "float64", "tensors[1]"),
                {"equation": "i,i"},
            ),
        ),
    ),
    "outer": Case(
        torch.outer,
        tuple(
            Sample((real(m), real(n))) for m, n in [(2, 3), (1, 4), (3, 1), (1, 1), (0, 3), (2, 0)]
        ),
        (
            Bad((real(2, 2), real(2)), ShapeError, ("outer", "a", "1 dimension", "(2, 2)")),
            Bad((real(2), real()), ShapeError, ("outer", "b", "1 dimension", "()")),
            Bad((real(2), "text"), TypeError, ("outer", "b", "str")),
        ),
    ),
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
