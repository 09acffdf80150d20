"""Ops that are one for speed and for accuracy."""

from __future__ import annotations

import itertools
from typing import Any, Final

import numpy as np
import torch
from torch.nn import functional

from tensor import ShapeError
from tests.tensor.ops.table import (
    Bad,
    Case,
    Sample,
    boolean,
    inf,
    nan,
    positive,
    real,
    refused,
    view,
)

__all__ = ["FUSED"]

_SOFTMAXED: Final = view(
    ((3, 4), {"dim": 0}),
    ((3, 4), {"dim": -1}),
    ((2, 3, 4), {"dim": 1}),
    ((), {"dim": 0}),
    ((1, 1), {"dim": 1}),
    ((0, 3), {"dim": 1}),
    ((0, 3), {"dim": 0}),
)
_LOGITS: Final = (
    Sample((np.array([[1e4, -1e4, 0.0], [-inf, 0.0, 1.0], [700.0, 700.0, 700.0]]),), {"dim": 1}),
    Sample((np.array([[-inf, -inf], [nan, 0.0], [inf, 0.0]]),), {"dim": 1}),
)


def _bad_softmax(name: str) -> tuple[Bad, ...]:
    return (
        refused(name, (3, 4), IndexError, "dim 2", "2 dimensions", dim=2),
        refused(name, (3, 4), TypeError, "dim", "None", dim=None),
        refused(name, (3, 4), TypeError, "dim", "1.0", dim=1.0),
        refused(name, (3, 4), TypeError, "'dim'", "missing"),
    )


_TARGET: Final = np.array([1, 0, 2, 1])
_IGNORED: Final = np.array([1, -100, 2, -100])


def _bad_target(target: Any, error: type[Exception], *words: str, **attrs: Any) -> Bad:
    return Bad((real(4, 3), target), error, ("cross_entropy", *words), attrs)


def chance(*shape: int) -> Any:
    return np.exp(-positive(*shape))


def _binary_cross_entropy(a: Any, target: Any) -> Any:
    return functional.binary_cross_entropy(a, target, reduction="none")


def _bad_chance(a: Any, target: Any, error: type[Exception], *words: str) -> Bad:
    return Bad((a, target), error, ("binary_cross_entropy", *words))


def _layer_norm(a: Any, weight: Any, bias: Any, normalized_shape: Any, eps: float = 1e-5) -> Any:
    shape = (normalized_shape,) if isinstance(normalized_shape, int) else normalized_shape
    # PyTorch's second derivative fails where there is a bias but no weight.
    weight = torch.ones(*shape, dtype=a.dtype) if weight is None else weight
    return functional.layer_norm(a, shape, weight, bias, eps)


def _rms_norm(a: Any, weight: Any, normalized_shape: Any, eps: Any = None) -> Any:
    shape = (normalized_shape,) if isinstance(normalized_shape, int) else normalized_shape
    return functional.rms_norm(a, shape, weight, eps)


def _group_norm(a: Any, weight: Any, bias: Any, num_groups: int, eps: float = 1e-5) -> Any:
    # PyTorch's second derivative fails, or reads what was never written, where there is a bias
    # but no weight.
    if weight is None and bias is not None:
        plain = functional.group_norm(a, num_groups, eps=eps)
        return plain + bias.reshape(-1, *(1,) * (a.ndim - 2))
    return functional.group_norm(a, num_groups, weight, bias, eps)


# PyTorch's batch norm gives no gradient to statistics that it is given.


def _batch_moments(a: Any) -> Any:
    dims = (0, *range(2, a.ndim))
    variance = (a - a.mean(dims, keepdim=True)).square().mean(dims)
    return torch.stack([a.mean(dims), variance])


def _batch_norm(a: Any, statistics: Any, weight: Any, bias: Any, eps: float = 1e-5) -> Any:
    if not a.is_floating_point():
        raise RuntimeError("batch_norm is of floating numbers")
    mean, scale, weight, bias = (
        None if x is None else x.reshape(-1, *[1] * (a.ndim - 2))
        for x in (statistics[0], (statistics[1] + eps).rsqrt(), weight, bias)
    )
    out = (a - mean) * scale
    out = out if weight is None else out * weight
    return out if bias is None else out + bias


def _statistics(channels: int) -> Any:
    return np.stack([real(channels), positive(channels)])


FUSED: Final = {
    "softmax": Case(torch.softmax, _SOFTMAXED, _bad_softmax("softmax"), _LOGITS),
    "log_softmax": Case(torch.log_softmax, _SOFTMAXED, _bad_softmax("log_softmax"), _LOGITS),
    "cross_entropy": Case(
        functional.cross_entropy,
        (
            *(
                Sample((real(4, 3), target), {"reduction": reduction, "label_smoothing": smoothing})
                for target in (_TARGET, _IGNORED)
                for reduction in ("mean", "sum", "none")
                for smoothing in (0.0, 0.3)
            ),
            Sample((real(4, 3), _TARGET)),
            Sample((real(4, 3), _TARGET), {"ignore_index": 1, "label_smoothing": 1.0}),
            Sample((real(3), np.array(2))),
            Sample((real(3), np.array(2)), {"reduction": "none"}),
            Sample((real(4, 1), np.zeros(4, np.int64))),
            Sample((real(4, 1), np.array([0, -100, 0, -100]))),
            Sample((real(0, 3), np.zeros(0, np.int64)), {"reduction": "sum"}),
            Sample((real(0, 3), np.zeros(0, np.int64)), {"reduction": "none"}),
        ),
        (
            _bad_target(np.array([0, 1, 2, 3]), IndexError, "target 3", "[0, 3)"),
            _bad_target(np.array([0, 1, 2, -1]), IndexError, "target -1", "[0, 3)"),
            _bad_target(np.array([0.0, 1.0, 2.0, 0.0]), RuntimeError, "target", "float64"),
            _bad_target(np.array([0, 1, 2]), ValueError, "target", "(4,)", "(3,)"),
            _bad_target(_TARGET[:, None], ValueError, "target", "(4, 1)"),
            _bad_target(_TARGET, ValueError, "reduction", "'average'", reduction="average"),
            _bad_target(_TARGET, ValueError, "label_smoothing", "1.5", label_smoothing=1.5),
            _bad_target([1, 0, 2, 1], TypeError, "target", "list"),
            Bad(
                (real(2, 3, 4), np.zeros((2, 4), np.int64)),
                ValueError,
                ("cross_entropy", "(2, 3, 4)"),
            ),
            Bad((real(), np.array(0)), ValueError, ("cross_entropy", "()")),
        ),
        (
            Sample((np.array([[-431.0, 279.0, 427.0]]), np.array([0]))),
            Sample((real(4, 3), np.full(4, -100)), {"reduction": "sum"}),
            Sample((real(4, 3), np.full(4, -100))),
            Sample((real(4, 3), np.full(4, -100)), {"reduction": "none"}),
            Sample((real(0, 3), np.zeros(0, np.int64))),
            Sample((np.array([[0.0, -inf], [1e4, -1e4]]), np.array([0, 1]))),
            Sample((np.array([[0.0, nan], [0.0, 1.0]]), np.array([0, 1]))),
        ),
    ),
    "binary_cross_entropy": Case(
        _binary_cross_entropy,
        tuple(
            Sample((chance(*shape), chance(*shape))) for shape in ((), (4,), (3, 2), (1, 1), (0, 3))
        ),
        (
            _bad_chance(np.array([0.5, 1.1]), chance(2), RuntimeError, "a", "between 0 and 1"),
            _bad_chance(np.array([0.5, nan]), chance(2), RuntimeError, "between 0 and 1"),
            _bad_chance(chance(2), np.array([-0.1, 0.5]), RuntimeError, "target", "between 0"),
            _bad_chance(np.array([0, 1]), np.array([0, 1]), RuntimeError, "a", "int64"),
            _bad_chance(chance(4, 1), chance(4), ShapeError, "(4, 1)", "(4,)"),
            _bad_chance(chance(2), [0.0, 1.0], TypeError, "target", "list"),
        ),
    ),
    "layer_norm": Case(
        _layer_norm,
        (
            *(
                Sample((real(5, 4), weight, bias), {"normalized_shape": (4,)})
                for weight, bias in itertools.product((real(4), None), (real(4), None))
            ),
            Sample((real(5, 4), real(4), real(4)), {"normalized_shape": 4, "eps": 0.1}),
            Sample((real(5, 4), None, None), {"normalized_shape": [5, 4]}),
            Sample((real(2, 3, 4), real(3, 4), real(3, 4)), {"normalized_shape": (3, 4)}),
            Sample((real(4), real(4), real(4)), {"normalized_shape": (4,)}),
            Sample((real(0, 4), real(4), real(4)), {"normalized_shape": (4,)}),
            Sample((real(3, 1), real(1), real(1)), {"normalized_shape": (1,)}),
        ),
        (
            Bad(
                (real(5, 4), None, None),
                ShapeError,
                ("layer_norm", "(5,)", "(5, 4)"),
                {"normalized_shape": (5,)},
            ),
            Bad(
                (real(5, 4), None, None),
                ShapeError,
                ("layer_norm", "()", "(5, 4)"),
                {"normalized_shape": ()},
            ),
            Bad(
                (real(5, 4), real(5), None),
                ShapeError,
                ("layer_norm", "weight", "(4,)", "(5,)"),
                {"normalized_shape": (4,)},
            ),
            Bad(
                (real(5, 4), None, real(1)),
                ShapeError,
                ("layer_norm", "bias", "(4,)", "(1,)"),
                {"normalized_shape": (4,)},
            ),
            Bad(
                (real(5, 4), real(4).astype(np.float32), None),
                RuntimeError,
                ("layer_norm", "weight", "float32", "float64"),
                {"normalized_shape": (4,)},
            ),
            Bad(
                (real(5, 4), None, None),
                TypeError,
                ("layer_norm", "integers", "4.0"),
                {"normalized_shape": (4.0,)},
            ),
            Bad((real(5, 4), None, None), TypeError, ("layer_norm", "'normalized_shape'")),
        ),
        (Sample((np.ones((2, 3)), None, None), {"normalized_shape": (3,)}),),
    ),
    "rms_norm": Case(
        _rms_norm,
        (
            Sample((real(5, 4), real(4)), {"normalized_shape": (4,)}),
            Sample((real(5, 4), None), {"normalized_shape": 4, "eps": 0.1}),
            Sample((real(2, 3, 4), real(3, 4)), {"normalized_shape": [3, 4]}),
            Sample((real(4), real(4)), {"normalized_shape": (4,)}),
            Sample((real(0, 4), real(4)), {"normalized_shape": (4,)}),
            Sample((real(3, 1), real(1)), {"normalized_shape": (1,), "eps": 0.1}),
        ),
        (
            Bad(
                (real(5, 4), None),
                ShapeError,
                ("rms_norm", "(5,)", "(5, 4)"),
                {"normalized_shape": (5,)},
            ),
            Bad(
                (real(5, 4), real(5)),
                ShapeError,
                ("rms_norm", "weight", "(4,)", "(5,)"),
                {"normalized_shape": (4,)},
            ),
            Bad(
                (real(5, 4), real(4).astype(np.float32)),
                RuntimeError,
                ("rms_norm", "weight", "float32", "float64"),
                {"normalized_shape": (4,)},
            ),
            Bad(
                (np.ones((5, 4), np.int64), None),
                RuntimeError,
                ("rms_norm", "a must be floating", "int64"),
                {"normalized_shape": (4,)},
            ),
            Bad((real(5, 4), None), TypeError, ("rms_norm", "'normalized_shape'")),
        ),
        (Sample((np.zeros((2, 3)), real(3)), {"normalized_shape": (3,), "eps": 0.1}),),
    ),
    "group_norm": Case(
        _group_norm,
        (
            *(
                Sample((real(3, 4, 2), weight, bias), {"num_groups": 2})
                for weight, bias in itertools.product((real(4), None), (real(4), None))
            ),
            Sample((real(2, 6, 2, 3), real(6), real(6)), {"num_groups": 3, "eps": 0.1}),
            Sample((real(2, 3, 2, 2), real(3), real(3)), {"num_groups": 1}),
            Sample((real(2, 3, 5), real(3), real(3)), {"num_groups": 3}),
            # Two values alone are always 1 and -1, and their derivatives little but rounding.
            Sample((real(3, 6), real(6), real(6)), {"num_groups": 2, "eps": 0.1}),
            Sample((real(0, 4, 3), real(4), real(4)), {"num_groups": 2}),
        ),
        (
            Bad((real(2, 4), None, None), ShapeError, ("group_norm", "3", "4"), {"num_groups": 3}),
            Bad((real(2, 4), None, None), ShapeError, ("group_norm", "0"), {"num_groups": 0}),
            Bad((real(2, 4), None, None), TypeError, ("group_norm", "2.0"), {"num_groups": 2.0}),
            Bad((real(4), None, None), ShapeError, ("group_norm", "(4,)"), {"num_groups": 2}),
            Bad(
                (real(2, 4), real(2), None),
                ShapeError,
                ("group_norm", "weight", "(4,)", "(2,)"),
                {"num_groups": 2},
            ),
            Bad(
                (real(2, 4), None, real(4, 1)),
                ShapeError,
                ("group_norm", "bias", "(4,)", "(4, 1)"),
                {"num_groups": 2},
            ),
            Bad((real(2, 4), None, None), TypeError, ("group_norm", "'num_groups'", "missing")),
        ),
    ),
    "batch_moments": Case(
        _batch_moments,
        view(((4, 3), {}), ((3, 2, 4), {}), ((2, 3, 2, 4), {}), ((1, 3, 4), {}), ((2, 0), {})),
        (
            refused("batch_moments", (3,), ShapeError, "(N, C, ...)", "(3,)"),
            refused("batch_moments", (), ShapeError, "(N, C, ...)", "()"),
            Bad((np.ones((3, 2), bool),), RuntimeError, ("batch_moments", "floating", "bool")),
        ),
        (Sample((np.ones((3, 2)),)),),
    ),
    "batch_norm": Case(
        _batch_norm,
        (
            *(
                Sample((real(5, 4), _statistics(4), weight, bias))
                for weight, bias in itertools.product((real(4), None), (real(4), None))
            ),
            Sample((real(3, 2, 4), _statistics(2), real(2), real(2)), {"eps": 0.1}),
            Sample((real(2, 3, 2, 4), _statistics(3), real(3), real(3))),
            Sample((real(2, 0), _statistics(0), real(0), real(0))),
            Sample((real(0, 2, 4), _statistics(2), real(2), real(2))),
        ),
        (
            Bad((real(3), _statistics(3), None, None), ShapeError, ("batch_norm", "(N, C, ...)")),
            Bad(
                (real(2, 3), _statistics(2), None, None),
                ShapeError,
                ("batch_norm", "statistics", "(2, 3)", "(2, 2)"),
            ),
            Bad(
                (real(2, 3), _statistics(3), real(1, 3), None),
                ShapeError,
                ("batch_norm", "weight", "(3,)", "(1, 3)"),
            ),
            Bad(
                (real(2, 3), _statistics(3), None, real(2)),
                ShapeError,
                ("batch_norm", "bias", "(3,)", "(2,)"),
            ),
            Bad(
                (real(2, 3), _statistics(3).astype(np.float32), None, None),
                RuntimeError,
                ("batch_norm", "statistics", "float32", "float64"),
            ),
        ),
    ),
    "dropout": Case(
        lambda a, mask, p=0.5: a * mask * (0.0 if p == 1 else 1 / (1 - p)),
        (
            Sample((real(3, 4), boolean(3, 4))),
            Sample((real(3, 4), boolean(3, 4)), {"p": 0.2}),
            Sample((real(3, 4), boolean(3, 4)), {"p": 0}),
            Sample((real(3, 4), np.zeros((3, 4), bool)), {"p": 1}),
            Sample((real(), np.array(True))),
            Sample((real(0, 3), boolean(0, 3))),
        ),
        (
            Bad((real(3), boolean(4)), ShapeError, ("dropout", "mask", "(3,)", "(4,)")),
            Bad((real(3), boolean(3)), ValueError, ("dropout", "p", "1.5"), {"p": 1.5}),
            Bad((real(3), boolean(3)), ValueError, ("dropout", "p", "-0.1"), {"p": -0.1}),
            Bad((real(3), real(3)), RuntimeError, ("dropout", "mask", "float64")),
        ),
    ),
}
