"""Ops that are one for speed and for accuracy."""

from __future__ import annotations

import itertools
from typing import Any, Final

import numpy as np
import torch
from torch.nn import functional

from tensor import ShapeError
from tests.tensor.ops.table import Bad, Case, Sample, boolean, inf, nan, real, refused, view

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


def _layer_norm(a: Any, weight: Any, bias: Any, normalized_shape: Any, eps: float = 1e-5) -> Any:
    shape = (normalized_shape,) if isinstance(normalized_shape, int) else normalized_shape
    # PyTorch's second derivative fails where there is a bias but no weight.
    weight = torch.ones(*shape, dtype=a.dtype) if weight is None else weight
    return functional.layer_norm(a, shape, weight, bias, eps)


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
