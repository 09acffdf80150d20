"""The gradient at kinks, ties and bounds: of every op, the value that the vocabulary states.

The README publishes these texts; here each stands beside calls that hold it, so that no text is
changed, and no op with a choice added, without its case.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import pytest
import torch

import micro
from micro import Value
from micro.value import PARTIALS
from micro.vocab import VOCAB
from tensor import Tensor, grad
from tensor.dispatch import OPS
from tests.behaviours.engines import ENGINES, Engine
from tests.tensor.ops.harness import (
    call,
    leaves,
    requiring,
    torch_call,
    torch_leaves,
    weights_for,
)
from tests.tensor.ops.table import Sample

inf, nan = math.inf, math.nan

Slopes = Sequence[float | None]


class Kink(NamedTuple):
    """A call at a kink.

    Attributes:
        operands: numbers, or arrays.
        gradient: of ops of numbers the derivative by each operand, None where there is none;
            else what the incoming gradient becomes for each operand that has a gradient.
        attrs: the attributes.
        differs: why PyTorch has another gradient, where it has.
    """

    operands: tuple[Any, ...]
    gradient: Slopes | Callable[[Any], Sequence[Any]]
    attrs: Mapping[str, Any] = {}
    differs: str = ""


FLAT: Final = "0 everywhere"
SHARED: Final = "1/2 to each of two equal operands"
ONE_OR_ALL: Final = "1/n to each of n ties over the whole tensor; the first tie along one dimension"
OVERWRITTEN: Final = "0 to what was overwritten, also by a later value"
UNSEEN: Final = "0 in a row that sees no key"

_ROWS: Final = np.array([[3.0, 3.0, 3.0], [1.0, 3.0, 3.0]])
_LOWS: Final = -_ROWS
# Of two queries the second sees no key.
_QUERY: Final = np.array([[0.5, -1.0], [2.0, 1.0]])
_KEY: Final = np.array([[1.0, 0.5], [-0.5, 2.0]])
_MASK: Final = np.array([[0.0, 0.0], [-inf, -inf]])


def first_row_alone(query: Any, key: Any, value: Any = None) -> Callable[[Any], list[Any]]:
    """The gradients of attention, by query, key, value and mask, if the first query alone counts.

    They are those of p = softmax(s) for the scores s = q @ k.T / sqrt(2), and of p @ v.
    """

    def gradients(w: Any) -> list[Any]:
        scores = query[:1] @ key.T / math.sqrt(2)
        p = np.exp(scores) / np.exp(scores).sum()
        by_p = w[:1] if value is None else w[:1] @ value.T
        by_scores = p * (by_p - (p * by_p).sum())
        by_query, by_key = by_scores @ key / math.sqrt(2), by_scores.T @ query[:1] / math.sqrt(2)
        nothing = np.zeros((1, 2))
        by_value = [] if value is None else [p.T @ w[:1]]
        return [np.vstack([by_query, nothing]), by_key, *by_value, np.vstack([by_scores, nothing])]

    return gradients


KINKS: Final[dict[str, tuple[str, list[Kink]]]] = {
    "pow": (
        "d/da is 0 where b = 0; d/db is 0 where a = 0 and b >= 0",
        [
            Kink((0.0, 0.0), (0, 0)),
            Kink((2.0, 0.0), (0, math.log(2))),
            Kink((-3.0, 0.0), (0, nan)),
            Kink((inf, 0.0), (0, inf)),
            Kink((0.0, 1.0), (1, 0)),
            Kink((0.0, 2.0), (0, 0)),
            Kink((0.0, 0.5), (inf, 0)),
        ],
    ),
    "abs": ("0 at 0", [Kink((0.0,), (0,)), Kink((-0.0,), (0,))]),
    "sign": (FLAT, [Kink((0.0,), (0,)), Kink((-2.0,), (0,))]),
    "floor_divide": (FLAT, [Kink((6.0, 3.0), (0, 0)), Kink((7.0, -3.0), (0, 0))]),
    "remainder": (
        "d/da is 1 and d/db is -(a // b) at jumps",
        [Kink((6.0, 3.0), (1, -2)), Kink((-6.0, 3.0), (1, 2)), Kink((0.0, 3.0), (1, 0))],
    ),
    "floor": (FLAT, [Kink((2.0,), (0,)), Kink((2.5,), (0,))]),
    "ceil": (FLAT, [Kink((2.0,), (0,)), Kink((2.5,), (0,))]),
    "round": (
        FLAT,
        [Kink((2.5,), (0,)), Kink((2.0,), (0,)), Kink((0.25,), (0,), {"decimals": 1})],
    ),
    "sqrt": ("inf at 0", [Kink((0.0,), (inf,))]),
    "rsqrt": ("-inf at 0", [Kink((0.0,), (-inf,))]),
    "softplus": (
        "1 where beta a > threshold",
        [
            Kink((20.0,), (1 / (1 + math.exp(-20)),)),
            Kink((20.5,), (1,)),
            Kink((2.5,), (1 / (1 + math.exp(-5)),), {"beta": 2.0, "threshold": 5.0}),
            Kink((2.75,), (1,), {"beta": 2.0, "threshold": 5.0}),
        ],
    ),
    "relu": ("0 at 0", [Kink((0.0,), (0,)), Kink((-0.0,), (0,))]),
    "leaky_relu": (
        "negative_slope at 0",
        [Kink((0.0,), (0.01,)), Kink((0.0,), (0.3,), {"negative_slope": 0.3})],
    ),
    "elu": ("alpha at 0", [Kink((0.0,), (1,)), Kink((0.0,), (0.5,), {"alpha": 0.5})]),
    "maximum": (SHARED, [Kink((2.0, 2.0), (0.5, 0.5)), Kink((0.0, -0.0), (0.5, 0.5))]),
    "minimum": (SHARED, [Kink((2.0, 2.0), (0.5, 0.5)), Kink((0.0, -0.0), (0.5, 0.5))]),
    "clip": (
        "1 at both bounds",
        [
            Kink((0.0,), (1,), {"min": 0.0, "max": 1.0}),
            Kink((1.0,), (1,), {"min": 0.0, "max": 1.0}),
            Kink((-0.5,), (1,), {"min": -0.5}),
            Kink((2.0,), (1,), {"max": 2.0}),
            Kink((2.0,), (1,), {"min": 2.0, "max": 2.0}),
        ],
    ),
    "where": (
        "0 to the operand not chosen",
        [Kink((True, 2.0, 3.0), (None, 1, 0)), Kink((False, 2.0, 3.0), (None, 0, 1))],
    ),
    "std": (
        "0 where the standard deviation is 0",
        [
            Kink((np.full(3, 3.0),), lambda w: [np.zeros(3)]),
            Kink((np.full((2, 2), 3.0),), lambda w: [np.zeros((2, 2))], {"dim": 1}),
        ],
    ),
    "norm": (
        "0 where the norm is 0, and at 0 if p < 2; 1/n to each of n ties for p = +-inf",
        [
            *(
                Kink((np.zeros(2),), lambda w: [np.zeros(2)], {"p": p})
                for p in (2, 1, 3, 1.5, inf, -inf)
            ),
            Kink((np.array([0.0, 3.0]),), lambda w: [w * [0, 1]], {"p": 1}),
            Kink((np.array([0.0, -3.0]),), lambda w: [w * [0, -1]], {"p": 1.5}),
            Kink((np.array([3.0, -3.0, 1.0]),), lambda w: [w * [0.5, -0.5, 0]], {"p": inf}),
            Kink((np.array([1.0, -1.0, 3.0]),), lambda w: [w * [0.5, -0.5, 0]], {"p": -inf}),
        ],
    ),
    "max": (
        ONE_OR_ALL,
        [
            Kink((_ROWS,), lambda w: [w * (_ROWS == 3) / 5]),
            Kink((_ROWS,), lambda w: [w[:, None] * [[1, 0, 0], [0, 1, 0]]], {"dim": 1}),
        ],
    ),
    "min": (
        ONE_OR_ALL,
        [
            Kink((_LOWS,), lambda w: [w * (_LOWS == -3) / 5]),
            Kink((_LOWS,), lambda w: [w[:, None] * [[1, 0, 0], [0, 1, 0]]], {"dim": 1}),
        ],
    ),
    "amax": (
        "1/n to each of n ties",
        [
            Kink((_ROWS,), lambda w: [w * (_ROWS == 3) / 5]),
            Kink((_ROWS,), lambda w: [w[:, None] * (_ROWS == 3) / [[3], [2]]], {"dim": 1}),
        ],
    ),
    "amin": (
        "1/n to each of n ties",
        [
            Kink((_LOWS,), lambda w: [w * (_LOWS == -3) / 5]),
            Kink((_LOWS,), lambda w: [w[:, None] * (_LOWS == -3) / [[3], [2]]], {"dim": 1}),
        ],
    ),
    "logsumexp": (
        "0 for an operand of -inf",
        [
            Kink((np.array([-inf, 0.5, 0.5]),), lambda w: [w * [0, 0.5, 0.5]], {"dim": 0}),
            Kink(
                (np.array([-inf, -inf]),),
                lambda w: [np.zeros(2)],
                {"dim": 0},
                "PyTorch takes the infinity from itself: nan",
            ),
        ],
    ),
    "setitem": (
        OVERWRITTEN,
        [
            Kink((np.ones(3), np.array(5.0)), lambda w: [w * [1, 0, 1], w[1]], {"index": 1}),
            Kink(
                (np.ones(3), np.array([5.0, 6.0])),
                lambda w: [w * [0, 1, 1], [0, w[0]]],
                {"index": [0, 0]},
            ),
        ],
    ),
    "index_put": (
        OVERWRITTEN,
        [
            Kink(
                (np.ones(3), np.array([5.0, 6.0])),
                lambda w: [w * [0, 1, 1], [0, w[0]]],
                {"indices": (np.array([0, 0]),)},
            ),
        ],
    ),
    "masked_fill": (
        "0 to what is filled",
        [
            Kink(
                (np.array([1.0, nan]), np.array([False, True]), np.array(3.0)),
                lambda w: [w * [1, 0], w[1]],
            ),
        ],
    ),
    # Of each, the values come first in w, and then the indices.
    "sort": (
        "equal elements keep their order",
        [
            Kink((np.array([2.0, 1.0, 1.0]),), lambda w: [[w[2], w[0], w[1]]]),
            Kink(
                (np.array([1.0, 2.0, 2.0]),),
                lambda w: [[w[2], w[0], w[1]]],
                {"descending": True},
            ),
        ],
    ),
    "topk": (
        "of equal elements the first are taken",
        [
            Kink((np.array([1.0, 3.0, 3.0, 3.0]),), lambda w: [[0, w[0], w[1], 0]], {"k": 2}),
            Kink(
                (np.array([1.0, 1.0, 3.0]),), lambda w: [[w[0], 0, 0]], {"k": 1, "largest": False}
            ),
        ],
    ),
    "scatter": (
        OVERWRITTEN,
        [
            Kink(
                (np.ones(3), np.array([1]), np.array([5.0])),
                lambda w: [w * [1, 0, 1], [w[1]]],
                {"dim": 0},
            ),
            Kink(
                (np.ones(3), np.array([0, 0]), np.array([5.0, 6.0])),
                lambda w: [w * [0, 1, 1], [0, w[0]]],
                {"dim": 0},
            ),
        ],
    ),
    "cross_entropy": (
        "0 where every target is ignored, also where the loss, a mean, is nan",
        [
            Kink((np.ones((2, 3)), np.full(2, -100)), lambda w: [np.zeros((2, 3))]),
            Kink(
                (np.ones((2, 3)), np.full(2, -100)),
                lambda w: [np.zeros((2, 3))],
                {"reduction": "sum"},
            ),
        ],
    ),
    "attention_weights": (
        UNSEEN,
        [Kink((_QUERY, _KEY, _MASK), first_row_alone(_QUERY, _KEY))],
    ),
    "scaled_dot_product_attention": (
        UNSEEN,
        [Kink((_QUERY, _KEY, -_KEY, _MASK), first_row_alone(_QUERY, _KEY, -_KEY))],
    ),
    "max_pool2d": (
        "the first of equal elements, the last NaN",
        [
            Kink(
                (np.ones((1, 1, 2, 2)),),
                lambda w: [w * [[[[1, 0], [0, 0]]]]],
                {"kernel_size": 2},
            ),
            Kink(
                (np.array([[[[nan, 1.0], [nan, 2.0]]]]),),
                lambda w: [w * [[[[0, 0], [1, 0]]]]],
                {"kernel_size": 2},
            ),
        ],
    ),
}

ROWS: Final = [
    pytest.param(name, kink, id=f"{name}-{i}")
    for name, (_, kinks) in KINKS.items()
    for i, kink in enumerate(kinks)
]
OF_BOTH: Final = [row for row in ROWS if VOCAB[str(row.values[0])].scope == "both"]


def wanted(kink: Kink, w: Any) -> list[Any]:
    """The gradients by the operands that have one, when ``w`` is the incoming gradient."""
    if callable(kink.gradient):
        return [np.asarray(g, w.dtype) for g in kink.gradient(w)]
    return [np.asarray(w * slope, w.dtype) for slope in kink.gradient if slope is not None]


def assert_gradients(found: Sequence[Any], expected: Sequence[Any]) -> None:
    assert len(found) == len(expected)
    for g, e in zip(found, expected, strict=True):
        rounding = 16 * float(np.finfo(e.dtype).eps)  # that of a softmax of numbers of order 1
        np.testing.assert_array_equal(np.equal(g, 0), np.equal(e, 0))  # a chosen 0 is exact
        np.testing.assert_allclose(g, e, rtol=rounding, atol=rounding)


def check_value(name: str, kink: Kink) -> None:
    """Of the scalar engine."""
    w = random.Random(name).uniform(0.5, 2)
    xs = [x if x is True or x is False else Value(x) for x in kink.operands]
    (getattr(micro, name)(*xs, **kink.attrs) * w).backward()
    assert_gradients([x.grad for x in xs if isinstance(x, Value)], wanted(kink, np.float64(w)))


def check_tensor(name: str, kink: Kink, dtype: str, create_graph: bool = False) -> None:
    """Of the array engine."""
    xs = leaves(name, Sample(kink.operands, kink.attrs), dtype)
    out = call(name, xs, kink.attrs)
    w = weights_for(out)
    found = grad(out, requiring(xs), Tensor(w), create_graph=create_graph)
    assert_gradients([g.data for g in found if g is not None], wanted(kink, w))


def test_every_op_with_a_kink_has_its_text_here_and_a_case() -> None:
    stated = {name: spec.kinks for name, spec in VOCAB.items() if spec.kinks}
    assert {name: text for name, (text, _) in KINKS.items()} == stated
    assert all(kinks for _, kinks in KINKS.values())


@pytest.mark.parametrize(("name", "kink"), OF_BOTH)
def test_the_gradient_of_a_value_at_a_kink_is_the_one_stated(name: str, kink: Kink) -> None:
    check_value(name, kink)


@pytest.mark.parametrize("create_graph", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("name", "kink"), ROWS)
def test_the_gradient_of_a_tensor_at_a_kink_is_the_one_stated(
    name: str, kink: Kink, dtype: str, create_graph: bool
) -> None:
    check_tensor(name, kink, dtype, create_graph)


@pytest.mark.parametrize(("name", "kink"), ROWS)
def test_the_gradient_at_a_kink_is_torchs_unless_it_is_said_why_not(name: str, kink: Kink) -> None:
    xs = torch_leaves(name, Sample(kink.operands, kink.attrs))
    out = torch_call(name, xs, kink.attrs)
    w = weights_for(out)
    found = torch.autograd.grad(out, requiring(xs), torch.from_numpy(w))
    if kink.differs:
        with pytest.raises(AssertionError):
            assert_gradients([g.numpy() for g in found], wanted(kink, w))
    else:
        assert_gradients([g.numpy() for g in found], wanted(kink, w))


def second_derivatives(engine: Engine, name: str, kink: Kink) -> list[float]:
    """Those of the op at the kink, by each two of its operands."""
    xs = [x if x is True or x is False else engine.leaf(x) for x in kink.operands]
    active = [x for x in xs if not isinstance(x, bool)]
    out, found = getattr(engine.ops, name)(*xs, **kink.attrs), []
    for x in active:
        slope = engine.derivative(out, x, create_graph=True) + sum(0 * y for y in active)
        found += [float(engine.derivative(slope, y)) for y in active]
    return found


# Where the first derivative is infinite, the second is an infinity or nan.
FINITE: Final = [
    row for row in OF_BOTH if all(s is None or math.isfinite(s) for s in row.values[1].gradient)
]


@pytest.mark.parametrize(("name", "kink"), FINITE)
def test_the_engines_have_one_second_derivative_at_a_kink(name: str, kink: Kink) -> None:
    assert_gradients(*([np.array(second_derivatives(e, name, kink))] for e in ENGINES))


def test_another_gradient_at_a_kink_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    tie = KINKS["maximum"][1][0]
    check_value("maximum", tie)
    check_tensor("maximum", tie, "float64")
    monkeypatch.setitem(PARTIALS, "maximum", PARTIALS["add"])
    monkeypatch.setitem(OPS["maximum"].rules, "a", OPS["add"].rules["a"])
    with pytest.raises(AssertionError):
        check_value("maximum", tie)
    with pytest.raises(AssertionError):
        check_tensor("maximum", tie, "float64")
