"""Convolution and pooling."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
import torch
from torch.nn import functional

from tensor import ShapeError
from tests.tensor.ops.table import Bad, Case, Sample, inf, nan, real, refused, view

__all__ = ["CONVOLUTION"]


# Of the input, of the weight, and the attributes.
_CONVOLVED: Final[list[tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]]]] = [
    ((2, 2, 5, 4), (3, 2, 3, 2), {}),
    ((4, 4, 5), (2, 2, 2, 3), {"padding": 1, "groups": 2}),
    ((1, 2, 7, 6), (2, 2, 3, 3), {"stride": (2, 3), "padding": (2, 1)}),
    ((2, 1, 6, 7), (2, 1, 2, 3), {"dilation": (3, 2), "padding": [1, 2]}),
    ((2, 3, 4, 4), (6, 1, 3, 3), {"stride": 2, "padding": 1, "groups": 3}),
    ((1, 2, 4, 5), (1, 2, 1, 3), {"padding": "same", "dilation": (1, 2)}),
    ((1, 2, 4, 3), (2, 2, 2, 3), {"padding": "valid", "stride": 4}),
    ((3, 2, 3, 3), (4, 2, 1, 1), {}),
    ((1, 1, 2, 2), (1, 1, 1, 1), {"padding": 2}),
    ((0, 2, 4, 4), (3, 2, 2, 2), {"stride": 2}),
    ((1, 1, 9, 10), (2, 1, 2, 2), {"padding": 1}),
]


def _result_shape(a: tuple[int, ...], weight: tuple[int, ...], attrs: dict[str, Any]) -> Any:
    attrs = {k: tuple(v) if isinstance(v, list) else v for k, v in attrs.items()}
    return tuple(functional.conv2d(torch.zeros(a), torch.zeros(weight), None, **attrs).shape)


def _input_adjoint(a: Any, weight: Any, shape: Any, **attrs: Any) -> Any:
    """The vector-Jacobian product of a convolution, which PyTorch can differentiate again."""
    base = torch.zeros(shape, dtype=a.dtype, requires_grad=True)
    return _product(functional.conv2d(base, weight, None, **attrs), base, a, weight)


def _weight_adjoint(a: Any, input: Any, shape: Any, **attrs: Any) -> Any:
    base = torch.zeros(shape, dtype=a.dtype, requires_grad=True)
    return _product(functional.conv2d(input, base, None, **attrs), base, a, input)


def _product(out: Any, base: Any, a: Any, other: Any) -> Any:
    if out.numel() == 0:  # PyTorch's own gives up the graph where there is no sample
        return 0 * (base + a.sum() + other.sum())
    return torch.autograd.grad(out, base, a, create_graph=True)[0]


def _bad_convolutions(name: str, call: Callable[..., Bad]) -> tuple[Bad, ...]:
    """Calls that the convolution and its adjoints refuse alike."""
    a, weight = (2, 2, 5, 5), (4, 2, 3, 3)
    return (
        call((5, 5), weight, ShapeError, "(N, C, H, W)", "(5, 5)"),
        call((1, 2, 2, 5, 5), weight, ShapeError, "(N, C, H, W)"),
        call(a, (4, 2, 3), ShapeError, "weight", "(4, 2, 3)"),
        call(a, (4, 2, 0, 3), ShapeError, "weight", "(4, 2, 0, 3)"),
        call((2, 3, 5, 5), weight, ShapeError, "2 channels", "got 3"),
        call(a, weight, ShapeError, "groups 2", "4 channels", groups=2),
        call((2, 6, 5, 5), weight, ShapeError, "divisible", "4", groups=3),
        call((2, 2, 5, 2), weight, ShapeError, "spans 3 in width", "only 2"),
        call(a, weight, ShapeError, "spans 9 in height", "only 5", dilation=(4, 1)),
        call(a, weight, ShapeError, "stride", "at least 1", "0", stride=0),
        call(a, weight, ShapeError, "stride", "(1, -1)", stride=(1, -1)),
        call(a, weight, ShapeError, "stride", "pair", "(1, 1, 1)", stride=(1, 1, 1)),
        call(a, weight, TypeError, "stride", "integer", "1.5", stride=1.5),
        call(a, weight, TypeError, "stride", "True", stride=True),
        call(a, weight, ShapeError, "padding", "at least 0", "-1", padding=-1),
        call(a, weight, ValueError, "padding", "'same'", "'full'", padding="full"),
        call(a, weight, ShapeError, "'same'", "stride of 1", padding="same", stride=2),
        call(a, weight, ShapeError, "dilation", "at least 1", "0", dilation=0),
        call(a, weight, ShapeError, "groups", "at least 1", "0", groups=0),
        call(a, weight, TypeError, "groups", "integer", "2.0", groups=2.0),
    )


def _bad_conv2d(a: Any, weight: Any, error: Any, *words: str, **attrs: Any) -> Bad:
    return Bad((real(*a), real(*weight), None), error, ("conv2d", *words), attrs)


def _bad_input_adjoint(a: Any, weight: Any, error: Any, *words: str, **attrs: Any) -> Bad:
    words = ("conv2d_input_adjoint", *words)
    return Bad((real(2, 4, 3, 3), real(*weight)), error, words, {"shape": a, **attrs})


def _bad_weight_adjoint(a: Any, weight: Any, error: Any, *words: str, **attrs: Any) -> Bad:
    words = ("conv2d_weight_adjoint", *words)
    return Bad((real(2, 4, 3, 3), real(*a)), error, words, {"shape": weight, **attrs})


# Pooling.

_WINDOWS: Final[list[tuple[tuple[int, ...], dict[str, Any]]]] = [
    ((2, 2, 4, 6), {"kernel_size": 2}),
    ((2, 5, 4), {"kernel_size": (3, 2), "stride": 1}),
    ((1, 2, 6, 5), {"kernel_size": 3, "stride": (2, 1), "padding": 1}),
    ((1, 1, 6, 5), {"kernel_size": 2, "ceil_mode": True}),
    ((1, 2, 5, 6), {"kernel_size": [3, 2], "stride": [3, 2], "padding": [1, 1], "ceil_mode": True}),
    ((1, 1, 4, 4), {"kernel_size": 1, "stride": 2}),
    ((0, 2, 4, 4), {"kernel_size": 2}),
    ((1, 1, 3, 3), {"kernel_size": 3}),
]
_MAX_WINDOWS: Final = [
    *_WINDOWS,
    ((1, 2, 7, 6), {"kernel_size": 2, "dilation": (3, 2), "stride": 1, "padding": 1}),
]
_AVG_WINDOWS: Final = [
    *_WINDOWS,
    ((1, 1, 6, 5), {"kernel_size": 3, "padding": 1, "stride": 2, "count_include_pad": False}),
    (
        (1, 2, 5, 6),
        {"kernel_size": 3, "padding": 1, "ceil_mode": True, "count_include_pad": False},
    ),
    ((1, 2, 5, 5), {"kernel_size": 2, "padding": 1, "divisor_override": 3}),
]
_TIES: Final = np.array(
    [
        [1.0, 1.0, 3.0, 3.0, nan, 0.0],
        [1.0, 1.0, 3.0, 2.0, 0.0, nan],
        [-inf, -inf, inf, 0.0, nan, inf],
        [-inf, -inf, inf, inf, 0.0, 0.0],
    ]
).reshape(1, 1, 4, 6)


def _indices(a: Any, **attrs: Any) -> Any:
    """PyTorch counts in every plane by itself."""
    found = functional.max_pool2d(a, **attrs, return_indices=True)[1]
    planes = torch.arange(found[..., 0, 0].numel()).reshape(*found.shape[:-2], 1, 1)
    return found + planes * (a.shape[-2] * a.shape[-1])


def _avg_adjoint(a: Any, shape: Any, **attrs: Any) -> Any:
    base = torch.zeros(shape, dtype=a.dtype, requires_grad=True)
    return torch.autograd.grad(functional.avg_pool2d(base, **attrs), base, a, create_graph=True)[0]


def _bad_pool(name: str) -> tuple[Bad, ...]:
    shape = (2, 2, 5, 5)
    return (
        refused(name, (5, 5), ShapeError, "(N, C, H, W)", "(5, 5)", kernel_size=2),
        refused(name, shape, ShapeError, "spans 6 in height", "only 5", kernel_size=(6, 2)),
        refused(name, shape, ShapeError, "kernel_size", "at least 1", "0", kernel_size=0),
        refused(name, shape, ShapeError, "kernel_size", "pair", kernel_size=(2, 2, 2)),
        refused(name, shape, ShapeError, "kernel_size", "pair", "()", kernel_size=()),
        refused(name, shape, TypeError, "kernel_size", "integer", "2.0", kernel_size=2.0),
        refused(name, shape, TypeError, "'kernel_size'", "missing"),
        refused(name, shape, ShapeError, "stride", "at least 1", "0", kernel_size=2, stride=0),
        refused(name, shape, ShapeError, "padding", "half", "3", "2", kernel_size=3, padding=2),
        refused(name, shape, ShapeError, "padding", "at least 0", kernel_size=3, padding=-1),
    )


def _bad_max_pool(name: str) -> tuple[Bad, ...]:
    empty = {"kernel_size": 2, "dilation": 4, "padding": 2}
    return (
        *_bad_pool(name),
        refused(name, (1, 1, 5, 5), ShapeError, "dilation", "0", kernel_size=2, dilation=0),
        refused(name, (1, 1, 1, 8), ShapeError, "nothing but padding in height", **empty),
        Bad(
            (np.ones((1, 1, 4, 4), bool),),
            TypeError,
            (name, "numbers", "bool"),
            {"kernel_size": 2},
        ),
    )


_COLUMNS: Final[list[tuple[tuple[int, ...], dict[str, Any]]]] = [
    ((2, 2, 4, 5), {"kernel_size": 2}),
    ((3, 5, 4), {"kernel_size": (2, 3), "padding": 1}),
    ((1, 1, 6, 7), {"kernel_size": [3, 2], "stride": (2, 1), "dilation": (2, 3)}),
    ((1, 2, 3, 3), {"kernel_size": 3, "padding": (2, 1), "stride": 3}),
    ((0, 2, 3, 4), {"kernel_size": 2}),
    ((2, 3, 2, 2), {"kernel_size": 1}),
    ((1, 2, 3), {"kernel_size": (2, 3)}),
]


def _bad_columns(name: str, shape: tuple[int, ...], **attrs: Any) -> tuple[Bad, ...]:
    def bad(error: type[Exception], *words: str, **changed: Any) -> Bad:
        return refused(name, shape, error, *words, **{**attrs, "kernel_size": 2, **changed})

    return (
        bad(ShapeError, "kernel_size", "at least 1", "0", kernel_size=0),
        bad(ShapeError, "stride", "at least 1", "0", stride=0),
        bad(ShapeError, "dilation", "at least 1", "0", dilation=0),
        bad(ShapeError, "padding", "at least 0", "-1", padding=-1),
        bad(ShapeError, "spans 9", kernel_size=9),
        bad(ShapeError, "a pair", "(1, 1, 1)", stride=(1, 1, 1)),
        bad(TypeError, "kernel_size", "1.5", kernel_size=1.5),
    )


CONVOLUTION: Final = {
    "im2col": Case(
        functional.unfold,
        view(*_COLUMNS),
        (
            refused("im2col", (4, 4), ShapeError, "(N, C, H, W)", "(4, 4)", kernel_size=2),
            *_bad_columns("im2col", (1, 4, 4)),
        ),
    ),
    "col2im": Case(
        functional.fold,
        tuple(
            Sample(
                (real(*functional.unfold(torch.zeros(shape), **attrs).shape),),
                {"output_size": shape[-2:], **attrs},
            )
            for shape, attrs in _COLUMNS
        ),
        (
            refused("col2im", (4,), ShapeError, "C * 4", "(4,)", output_size=3, kernel_size=2),
            refused("col2im", (5, 4), ShapeError, "C * 4", output_size=3, kernel_size=2),
            refused("col2im", (4, 5), ShapeError, "4", "2 x 2", output_size=3, kernel_size=2),
            refused(
                *("col2im", (4, 4), ShapeError, "output_size", "-1"),
                output_size=-1,
                kernel_size=2,
            ),
            *_bad_columns("col2im", (4, 4), output_size=3),
        ),
    ),
    "conv2d": Case(
        functional.conv2d,
        tuple(
            Sample((real(*a), real(*weight), bias), attrs)
            for i, (a, weight, attrs) in enumerate(_CONVOLVED)
            for bias in [None if i % 3 == 2 else real(weight[0])]
        ),
        (
            *_bad_convolutions("conv2d", _bad_conv2d),
            Bad(
                (real(1, 2, 4, 4), real(3, 2, 2, 2), real(2)),
                ShapeError,
                ("conv2d", "bias", "(3,)", "(2,)"),
            ),
            Bad(
                (real(1, 2, 4, 4), real(3, 2, 2, 2).astype(np.float32), None),
                RuntimeError,
                ("conv2d", "float64", "float32", "weight"),
            ),
        ),
    ),
    "conv2d_input_adjoint": Case(
        _input_adjoint,
        tuple(
            Sample((real(*_result_shape(*row)), real(*row[1])), {"shape": row[0], **row[2]})
            for row in _CONVOLVED
        ),
        (
            *_bad_convolutions("conv2d_input_adjoint", _bad_input_adjoint),
            _bad_input_adjoint((2, 2, 5, 6), (4, 2, 3, 3), ShapeError, "a ", "(2, 4, 3, 4)"),
            Bad(
                (real(2, 4, 3, 3), real(4, 2, 3, 3)),
                TypeError,
                ("conv2d_input_adjoint", "'shape'", "missing"),
            ),
        ),
    ),
    "conv2d_weight_adjoint": Case(
        _weight_adjoint,
        tuple(
            Sample((real(*_result_shape(*row)), real(*row[0])), {"shape": row[1], **row[2]})
            for row in _CONVOLVED
        ),
        (
            *_bad_convolutions("conv2d_weight_adjoint", _bad_weight_adjoint),
            _bad_weight_adjoint((2, 2, 5, 6), (4, 2, 3, 3), ShapeError, "a ", "(2, 4, 3, 4)"),
            Bad(
                (real(2, 4, 3, 3), real(2, 2, 5, 5)),
                TypeError,
                ("conv2d_weight_adjoint", "'shape'", "missing"),
            ),
        ),
    ),
    "max_pool2d": Case(
        functional.max_pool2d,
        view(*_MAX_WINDOWS),
        _bad_max_pool("max_pool2d"),
        (
            Sample((_TIES,), {"kernel_size": 2}),
            Sample((_TIES,), {"kernel_size": 3, "stride": 1, "padding": 1}),
            Sample((np.full((1, 2, 3, 3), -inf),), {"kernel_size": 2, "stride": 1, "padding": 1}),
            Sample((np.ones((1, 2, 3, 4)),), {"kernel_size": 2, "stride": 1, "padding": 1}),
        ),
    ),
    "max_pool2d_indices": Case(
        _indices,
        (*view(*_MAX_WINDOWS), Sample((_TIES,), {"kernel_size": 2, "stride": 1, "padding": 1})),
        _bad_max_pool("max_pool2d_indices"),
    ),
    "avg_pool2d": Case(
        functional.avg_pool2d,
        view(*_AVG_WINDOWS),
        (
            *_bad_pool("avg_pool2d"),
            refused(
                "avg_pool2d",
                (1, 1, 4, 4),
                ValueError,
                "divisor_override",
                "0",
                kernel_size=2,
                divisor_override=0,
            ),
            refused(
                "avg_pool2d",
                (1, 1, 4, 4),
                TypeError,
                "divisor_override",
                "2.5",
                kernel_size=2,
                divisor_override=2.5,
            ),
        ),
    ),
    "avg_pool2d_adjoint": Case(
        _avg_adjoint,
        tuple(
            Sample(
                (real(*functional.avg_pool2d(torch.zeros(shape), **attrs).shape),),
                {"shape": shape, **attrs},
            )
            for shape, attrs in _AVG_WINDOWS
        ),
        (
            refused(
                "avg_pool2d_adjoint",
                (1, 1, 2, 3),
                ShapeError,
                "a ",
                "(1, 1, 2, 2)",
                "(1, 1, 2, 3)",
                shape=(1, 1, 4, 4),
                kernel_size=2,
            ),
            refused("avg_pool2d_adjoint", (1, 1, 2, 2), TypeError, "'shape'", kernel_size=2),
            refused(
                "avg_pool2d_adjoint", (1, 2, 2), ShapeError, "(4, 4)", shape=(4, 4), kernel_size=2
            ),
        ),
    ),
}
