"""Ops that rearrange elements, or change how they are stored."""

from __future__ import annotations

from typing import Final

import numpy as np
import torch

from tensor import ShapeError
from tests.tensor.ops.table import Bad, Case, Sample, real, refused, view

__all__ = ["SHAPE"]

SHAPE: Final = {
    "reshape": Case(
        lambda a, shape: a.reshape(shape),
        view(
            ((3, 4), {"shape": (2, 6)}),
            ((3, 4), {"shape": (-1,)}),
            ((3, 4), {"shape": [2, -1, 2]}),
            ((3, 4), {"shape": 12}),
            ((), {"shape": (1, 1)}),
            ((1,), {"shape": ()}),
            ((0, 3), {"shape": (3, 0)}),
            ((0, 3), {"shape": (-1, 3)}),
        ),
        (
            refused("reshape", (2, 3), ShapeError, "(2, 3)", "(4,)", shape=(4,)),
            refused("reshape", (2, 3), ShapeError, "(2, 3)", "-1", shape=(-1, 4)),
            refused("reshape", (2, 3), ShapeError, "-1", "one", shape=(-1, -1)),
            refused("reshape", (2, 3), ShapeError, "-2", shape=(-2, 3)),
            refused("reshape", (0, 3), ShapeError, "(0, 3)", shape=(-1, 0)),
            refused("reshape", (2, 3), TypeError, "integers", "2.0", shape=(2.0, 3)),
            refused("reshape", (2, 3), TypeError, "integers", "'6'", shape="6"),
            refused("reshape", (2, 3), TypeError, "'shape'", "missing"),
        ),
    ),
    "flatten": Case(
        torch.flatten,
        view(
            ((2, 3, 4), {}),
            ((2, 3, 4), {"start_dim": 1}),
            ((2, 3, 4), {"start_dim": -3, "end_dim": -2}),
            ((2, 3, 4), {"start_dim": 1, "end_dim": 1}),
            ((), {}),
            ((0, 3), {}),
            ((2, 0, 3), {"start_dim": 1}),
        ),
        (
            refused("flatten", (2, 3, 4), ShapeError, "end_dim 0", start_dim=1, end_dim=0),
            refused("flatten", (2, 3), IndexError, "dim 2", "2 dimensions", end_dim=2),
            refused("flatten", (2, 3), TypeError, "dim", "0.5", start_dim=0.5),
        ),
    ),
    "permute": Case(
        torch.permute,
        view(
            ((2, 3, 4), {"dims": (2, 0, 1)}),
            ((2, 3, 4), {"dims": [-1, 0, -2]}),
            ((2, 3), {"dims": (0, 1)}),
            ((), {"dims": ()}),
            ((0, 3), {"dims": (1, 0)}),
        ),
        (
            refused("permute", (2, 3, 4), ShapeError, "(0, 1)", "3 dimensions", dims=(0, 1)),
            refused("permute", (2, 3), ShapeError, "(0, 0)", "twice", dims=(0, 0)),
            refused("permute", (2, 3), ShapeError, "(0, -2)", "twice", dims=(0, -2)),
            refused("permute", (2, 3), IndexError, "dim 2", dims=(0, 2)),
            refused("permute", (2, 3), TypeError, "dims", "1", dims=1),
        ),
    ),
    "transpose": Case(
        torch.transpose,
        view(
            ((2, 3), {"dim0": 0, "dim1": 1}),
            ((2, 3, 4), {"dim0": -1, "dim1": 0}),
            ((2, 3), {"dim0": 1, "dim1": 1}),
            ((), {"dim0": 0, "dim1": -1}),
            ((0, 3), {"dim0": 0, "dim1": 1}),
        ),
        (
            refused("transpose", (2, 3), IndexError, "dim 2", dim0=0, dim1=2),
            refused("transpose", (2, 3), TypeError, "'dim1'", "missing", dim0=0),
            refused("transpose", (2, 3), TypeError, "dim", "None", dim0=0, dim1=None),
        ),
    ),
    "squeeze": Case(
        lambda a, dim=None: a.squeeze() if dim is None else a.squeeze(dim),
        view(
            ((2, 1, 3, 1), {}),
            ((2, 1, 3, 1), {"dim": 1}),
            ((2, 1, 3, 1), {"dim": -1}),
            ((2, 1, 3, 1), {"dim": (1, 3)}),
            ((2, 1, 3, 1), {"dim": 0}),
            ((), {}),
            ((), {"dim": 0}),
            ((1, 0), {}),
        ),
        (
            refused("squeeze", (2, 1), IndexError, "dim 2", "2 dimensions", dim=2),
            refused("squeeze", (2, 1), ShapeError, "(1, -1)", "twice", dim=(1, -1)),
            refused("squeeze", (2, 1), TypeError, "dim", "1.0", dim=1.0),
        ),
    ),
    "unsqueeze": Case(
        torch.unsqueeze,
        view(
            ((2, 3), {"dim": 0}),
            ((2, 3), {"dim": -1}),
            ((2, 3), {"dim": 2}),
            ((2, 3), {"dim": -3}),
            ((), {"dim": 0}),
            ((0, 3), {"dim": 1}),
        ),
        (
            refused("unsqueeze", (2, 3), IndexError, "dim 3", "[-3, 2]", dim=3),
            refused("unsqueeze", (2, 3), TypeError, "dim", "'0'", dim="0"),
        ),
    ),
    "expand": Case(
        lambda a, shape: a.expand(shape),
        view(
            ((3, 1), {"shape": (3, 4)}),
            ((3, 1), {"shape": (2, -1, 4)}),
            ((1,), {"shape": (5, 4)}),
            ((), {"shape": (2, 3)}),
            ((), {"shape": ()}),
            ((2, 3), {"shape": [-1, -1]}),
            ((1, 3), {"shape": (0, 3)}),
            ((0, 1), {"shape": (0, 2)}),
        ),
        (
            refused("expand", (2, 3), ShapeError, "(2, 3)", "(4, 3)", shape=(4, 3)),
            refused("expand", (2, 3), ShapeError, "(2, 3)", "(3,)", "fewer", shape=(3,)),
            refused("expand", (3,), ShapeError, "-1", "not there", shape=(-1, 3)),
            refused("expand", (1,), ShapeError, "-2", shape=(-2,)),
            refused("expand", (1,), TypeError, "integers", "2.5", shape=(2.5,)),
        ),
    ),
    "cat": Case(
        torch.cat,
        (
            Sample((real(2, 3), real(1, 3), real(4, 3))),
            Sample((real(2, 3), real(2, 1)), {"dim": 1}),
            Sample((real(2, 3), real(2, 1)), {"dim": -1}),
            Sample((real(3),)),
            Sample((real(0, 3), real(2, 3))),
            Sample((real(0, 3), real(0, 3)), {"dim": 1}),
        ),
        (
            Bad((), ShapeError, ("cat", "at least one")),
            Bad((real(2, 3), real(2, 4)), ShapeError, ("cat", "(2, 3)", "(2, 4)", "tensors[1]")),
            Bad((real(2, 3), real(3)), ShapeError, ("cat", "(2, 3)", "(3,)")),
            Bad((real(), real()), ShapeError, ("cat", "0-d", "stack")),
            Bad((real(2), real(2)), IndexError, ("cat", "dim 1"), {"dim": 1}),
            Bad((real(2), None), TypeError, ("cat", "tensors[1]", "None")),
            Bad((real(2), "text"), TypeError, ("cat", "tensors[1]", "str")),
        ),
    ),
    "stack": Case(
        torch.stack,
        (
            Sample((real(2, 3), real(2, 3))),
            Sample((real(2, 3), real(2, 3), real(2, 3)), {"dim": 1}),
            Sample((real(2, 3), real(2, 3)), {"dim": -1}),
            Sample((real(), real(), real())),
            Sample((real(2, 3),)),
            Sample((real(0, 3), real(0, 3)), {"dim": 2}),
        ),
        (
            Bad((), ShapeError, ("stack", "at least one")),
            Bad((real(2, 3), real(3)), ShapeError, ("stack", "(2, 3)", "(3,)")),
            Bad((real(2), real(2)), IndexError, ("stack", "dim 2", "[-2, 1]"), {"dim": 2}),
            Bad((real(2), 1.0j), TypeError, ("stack", "tensors[1]", "complex")),
        ),
    ),
    "cast": Case(
        lambda a, dtype: a.to(getattr(torch, np.dtype(dtype).name)),
        view(
            ((3, 4), {"dtype": np.float64}),
            ((), {"dtype": "float64"}),
            ((0, 3), {"dtype": np.dtype(np.float64)}),
        ),
        (
            refused("cast", (3,), TypeError, "complex128", dtype=complex),
            refused("cast", (3,), TypeError, "object", dtype=object),
            refused("cast", (3,), TypeError, "'dtype'", "missing"),
        ),
    ),
    "clone": Case(
        torch.clone,
        view(((3, 4), {}), ((), {}), ((0, 3), {})),
        (
            Bad(("text",), TypeError, ("clone", "a", "str")),
            Bad((real(2),), TypeError, ("clone",), {"dtype": "float32"}),
        ),
    ),
}
