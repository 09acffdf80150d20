"""Ops that turn, repeat, pad and take parts of a tensor."""

from __future__ import annotations

from typing import Any, Final

import torch
from torch.nn import functional

from tensor import ShapeError
from tests.tensor.ops.table import Bad, Case, refused, view

__all__ = ["REARRANGEMENT"]


def _diagonal_adjoint(a: Any, shape: Any, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Any:
    return torch.zeros(shape, dtype=a.dtype).diagonal_scatter(a, offset, dim1, dim2)


def _unfold_adjoint(a: Any, shape: Any, dim: int, size: int, step: int) -> Any:
    return torch.ops.aten.unfold_backward(a, shape, dim, size, step)


_TRIANGLES: Final = view(
    ((3, 3), {}),
    ((2, 4, 3), {}),
    ((3, 4), {"diagonal": 1}),
    ((4, 3), {"diagonal": -2}),
    ((2, 2), {"diagonal": 7}),
    ((2, 2), {"diagonal": -7}),
    ((0, 3), {}),
    ((2, 0, 0), {"diagonal": 1}),
)


def _bad_triangles(name: str) -> tuple[Bad, ...]:
    return (
        refused(name, (3,), ShapeError, "2 dimensions", "(3,)"),
        refused(name, (), ShapeError, "2 dimensions", "()"),
        refused(name, (3, 3), TypeError, "diagonal", "0.5", diagonal=0.5),
    )


REARRANGEMENT: Final = {
    "flip": Case(
        torch.flip,
        view(
            ((2, 3, 4), {"dims": (0,)}),
            ((2, 3, 4), {"dims": [0, -1]}),
            ((2, 3), {"dims": (1, 0)}),
            ((2, 3), {"dims": ()}),
            ((), {"dims": ()}),
            ((), {"dims": (0,)}),
            ((0, 3), {"dims": (0, 1)}),
        ),
        (
            refused("flip", (2, 3), IndexError, "dim 2", "2 dimensions", dims=(0, 2)),
            refused("flip", (2, 3), ShapeError, "(1, -1)", "twice", dims=(1, -1)),
            refused("flip", (2, 3), TypeError, "dims", "None", dims=None),
            refused("flip", (2, 3), TypeError, "dims", "'0'", dims="0"),
        ),
    ),
    "roll": Case(
        torch.roll,
        view(
            ((5,), {"shifts": 2}),
            ((2, 3), {"shifts": -1}),
            ((2, 3), {"shifts": 1, "dims": 1}),
            ((2, 3, 4), {"shifts": (1, -6), "dims": [0, -1]}),
            ((4,), {"shifts": (1, 1), "dims": (0, 0)}),
            ((), {"shifts": 3}),
            ((0, 3), {"shifts": 1, "dims": 0}),
        ),
        (
            refused("roll", (2, 3), IndexError, "dim 2", shifts=1, dims=2),
            refused("roll", (2, 3), ShapeError, "(1, 2)", "equally", shifts=(1, 2), dims=0),
            refused("roll", (2, 3), ShapeError, "one shift", "2", shifts=(1, 2)),
            refused("roll", (2, 3), TypeError, "shifts", "1.5", shifts=1.5),
            refused("roll", (2, 3), TypeError, "dims", "1.5", shifts=1, dims=1.5),
        ),
    ),
    "repeat": Case(
        lambda a, repeats: a.repeat(repeats),
        view(
            ((2, 3), {"repeats": (2, 1)}),
            ((2, 3), {"repeats": [3, 1, 2]}),
            ((3,), {"repeats": 2}),
            ((3,), {"repeats": (0,)}),
            ((), {"repeats": ()}),
            ((), {"repeats": (2, 3)}),
            ((0, 3), {"repeats": (2, 2)}),
        ),
        (
            refused("repeat", (2, 3), ShapeError, "(2,)", "2 numbers", repeats=(2,)),
            refused("repeat", (2, 3), ShapeError, "(1, -1)", "below 0", repeats=(1, -1)),
            refused("repeat", (3,), TypeError, "repeats", "2.0", repeats=(2.0,)),
        ),
    ),
    "pad": Case(
        lambda a, pad, value=0.0: functional.pad(a, pad, value=value),
        view(
            ((2, 3), {"pad": (1, 2)}),
            ((2, 3), {"pad": [0, 1, 2, 0], "value": 2.5}),
            ((2, 3, 4), {"pad": (-1, 1, -1, 2), "value": -1}),
            ((4,), {"pad": (-2, -1)}),
            ((3,), {"pad": (-3, 2)}),
            ((2, 3), {"pad": ()}),
            ((), {"pad": ()}),
            ((0, 2), {"pad": (0, 0, 1, 1)}),
        ),
        (
            refused("pad", (2, 3), ShapeError, "(1,)", "two lengths", pad=(1,)),
            refused("pad", (3,), ShapeError, "at most 2", pad=(1, 1, 1, 1)),
            refused("pad", (3,), ShapeError, "(-2, -2)", "the 3 of dim 0", pad=(-2, -2)),
            refused("pad", (3,), TypeError, "pad", "1.5", pad=(1.5, 0)),
            refused("pad", (3,), TypeError, "value", "'0'", pad=(1, 0), value="0"),
        ),
    ),
    "tril": Case(torch.tril, _TRIANGLES, _bad_triangles("tril")),
    "triu": Case(torch.triu, _TRIANGLES, _bad_triangles("triu")),
    "diagonal": Case(
        torch.diagonal,
        view(
            ((3, 3), {}),
            ((3, 4), {"offset": 1}),
            ((4, 3), {"offset": -2}),
            ((2, 3, 4), {"dim1": 2, "dim2": 0}),
            ((2, 3, 3), {"offset": 1, "dim1": -2, "dim2": -1}),
            ((2, 2), {"offset": 5}),
            ((0, 3), {}),
        ),
        (
            refused("diagonal", (3,), IndexError, "dim 1", "1 dimension"),
            refused("diagonal", (), IndexError, "dim 1"),
            refused("diagonal", (2, 3), ShapeError, "dim1", "1", "-1", dim1=1, dim2=-1),
            refused("diagonal", (2, 3), TypeError, "offset", "0.5", offset=0.5),
        ),
    ),
    "diagonal_adjoint": Case(
        _diagonal_adjoint,
        view(
            ((3,), {"shape": (3, 3)}),
            ((2,), {"shape": (4, 3), "offset": -2}),
            ((3, 2), {"shape": (2, 3, 4), "dim1": 2, "dim2": 0}),
            ((0,), {"shape": (0, 3)}),
        ),
        (
            refused("diagonal_adjoint", (2,), ShapeError, "(3, 3)", "(3,)", "(2,)", shape=(3, 3)),
            refused("diagonal_adjoint", (2,), IndexError, "dim 1", shape=(2,)),
        ),
    ),
    "unfold": Case(
        lambda a, dim, size, step: a.unfold(dim, size, step),
        view(
            ((7,), {"dim": 0, "size": 3, "step": 1}),
            ((2, 7), {"dim": -1, "size": 2, "step": 2}),
            ((7, 2), {"dim": 0, "size": 2, "step": 3}),
            ((5, 2), {"dim": 0, "size": 4, "step": 1}),
            ((3,), {"dim": 0, "size": 0, "step": 1}),
            ((), {"dim": 0, "size": 1, "step": 1}),
            ((0, 3), {"dim": 1, "size": 2, "step": 1}),
        ),
        (
            refused("unfold", (3,), ShapeError, "[0, 3]", "4", dim=0, size=4, step=1),
            refused("unfold", (3,), ShapeError, "-1", dim=0, size=-1, step=1),
            refused("unfold", (3,), ShapeError, "at least 1", "0", dim=0, size=2, step=0),
            refused("unfold", (3,), IndexError, "dim 1", dim=1, size=2, step=1),
            refused("unfold", (3,), TypeError, "size", "1.5", dim=0, size=1.5, step=1),
        ),
    ),
    "unfold_adjoint": Case(
        _unfold_adjoint,
        view(
            ((5, 3), {"shape": (7,), "dim": 0, "size": 3, "step": 1}),
            ((2, 3, 2), {"shape": (2, 7), "dim": 1, "size": 2, "step": 2}),
            ((2, 2, 4), {"shape": (5, 2), "dim": 0, "size": 4, "step": 1}),
            ((0, 2, 2), {"shape": (0, 3), "dim": 1, "size": 2, "step": 1}),
        ),
        (
            refused(
                *("unfold_adjoint", (4, 3), ShapeError, "(5, 3)", "(4, 3)"),
                shape=(7,),
                dim=0,
                size=3,
                step=1,
            ),
            refused(
                *("unfold_adjoint", (5, 3), ShapeError, "[0, 7]", "8"),
                shape=(7,),
                dim=0,
                size=8,
                step=1,
            ),
        ),
    ),
}
