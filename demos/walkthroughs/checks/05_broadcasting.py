"""The cases and the known mistakes of lesson 5."""

from __future__ import annotations

from typing import Any

import numpy as np
from classroom import Exercise, Mistake, case

import tensor
from tensor import Tensor


def numbers(*shape: int, seed: int = 0) -> np.ndarray:
    """Numbers of which no two are alike, with few digits."""
    rng = np.random.default_rng(seed + sum(shape))
    return rng.permutation(np.arange(1.0, 1.0 + max(1, int(np.prod(shape))))).reshape(shape) / 4


def leaf(array: np.ndarray) -> Tensor:
    return Tensor(array, requires_grad=True)


# unbroadcast


def engine_unbroadcast(g: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    x = leaf(np.zeros(shape))
    (found,) = tensor.grad((x.expand(*g.shape) * Tensor(g)).sum(), x)
    return found.numpy()


def leading_alone(g: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    return np.asarray(g.sum(axis=tuple(range(g.ndim - len(shape)))))


def ones_alone(g: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    lead = g.ndim - len(shape)
    ones = tuple(i + lead for i, n in enumerate(shape) if n == 1)
    return g.sum(axis=ones, keepdims=True) if ones else g


def without_keepdims(g: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    lead = g.ndim - len(shape)
    ones = tuple(i + lead for i, n in enumerate(shape) if n == 1)
    return np.asarray(g.sum(axis=(*range(lead), *ones)))


def mean_for_sum(g: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    found = engine_unbroadcast(g, shape)
    return found * (found.size / g.size)


def first_for_sum(g: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    while g.ndim > len(shape):
        g = g[0]
    return np.asarray(g[tuple(slice(0, n) for n in shape)])


def trailing_dropped(g: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """Lines shapes up at the left."""
    g = g.sum(axis=tuple(range(len(shape), g.ndim)))
    ones = tuple(i for i, n in enumerate(shape) if n == 1 and g.shape[i] != 1)
    return np.asarray(g.sum(axis=ones, keepdims=True) if ones else g)


UNBROADCAST = Exercise(
    "unbroadcast",
    returns="an ndarray",
    truth=engine_unbroadcast,
    cases=(
        case(numbers(2), (2,)),
        case(numbers(2), ()),
        case(numbers(2), (1,)),
        case(numbers(2, 2), (2,)),
        case(numbers(2, 2), (2, 1)),
        case(numbers(2, 3), (1, 3)),
        case(numbers(1, 3), (1, 3)),
        case(numbers(2, 2, 3), (2, 1)),
        case(numbers(2, 3, 2), (1, 3, 1)),
    ),
    mistakes=(
        Mistake(
            "no un-broadcast at all",
            lambda g, shape: g,
            "a gradient has the shape of its tensor. What happened to the operand on the way "
            "forward, and what undoes it?",
        ),
        Mistake(
            "only the dimensions that the operand lacks",
            leading_alone,
            "a dimension of size 1 was repeated, too.",
        ),
        Mistake(
            "only the dimensions of size 1",
            ones_alone,
            "the operand may have fewer dimensions than the result: those in front were repeated.",
        ),
        Mistake(
            "dimensions of size 1 lost",
            without_keepdims,
            "the numbers are right, the shape is not: numpy's sum drops what it sums over, unless "
            "it is told to keep it.",
        ),
        Mistake(
            "the mean instead of the sum",
            mean_for_sum,
            "a Value that is used four times gets four parts. Are they averaged in lesson 3?",
        ),
        Mistake(
            "one of the parts instead of their sum",
            first_for_sum,
            "every use has sent a part; this keeps the first. It is = for +=, in arrays.",
        ),
        Mistake(
            "shapes lined up at the left",
            trailing_dropped,
            "numpy compares shapes from the right: (2,) goes with the last dimension of (2, 2).",
        ),
    ),
)


# mul_backward


def engine_mul(g: np.ndarray, a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, ...]:
    x, y = leaf(a), leaf(b)
    return tuple(d.numpy() for d in tensor.grad((x * y * Tensor(g)).sum(), (x, y)))


def summed_too_early(g: np.ndarray, a: np.ndarray, b: np.ndarray) -> tuple[Any, ...]:
    return tuple(
        np.asarray(
            engine_unbroadcast(g, mine.shape)
            * engine_unbroadcast(np.broadcast_to(other, g.shape), mine.shape)
        )
        for mine, other in ((a, b), (b, a))
    )


MUL = Exercise(
    "mul_backward",
    returns="two ndarrays, the gradients of a and of b",
    truth=engine_mul,
    view=lambda result, *_: tuple(result),
    cases=(
        case(numbers(2), numbers(2, seed=1), numbers(2, seed=5)),
        case(numbers(2), numbers(2, seed=1), numbers(1)),
        case(numbers(2), np.array(3.0), numbers(2, seed=1)),
        case(numbers(2, 3), numbers(2, 1), numbers(3)),
        case(numbers(2, 3), numbers(1, 3), numbers(2, 3, seed=1)),
    ),
    mistakes=(
        Mistake(
            "no un-broadcast",
            lambda g, a, b: (g * b, g * a),
            "right where the shapes are equal. Which shape has the gradient of a, and which has "
            "g * b?",
        ),
        Mistake(
            "the two factors exchanged",
            lambda g, a, b: (
                engine_unbroadcast(g * np.broadcast_to(a, g.shape), a.shape),
                engine_unbroadcast(g * np.broadcast_to(b, g.shape), b.shape),
            ),
            "the derivative of a * b by a is not a (lesson 2).",
        ),
        Mistake(
            "the two gradients exchanged",
            lambda g, a, b: engine_mul(g, a, b)[::-1],
            "the first of the pair belongs to a.",
        ),
        Mistake(
            "summed before it was multiplied",
            summed_too_early,
            "the sum of products is not the product of the sums. At which size do g and the other "
            "factor meet?",
        ),
        Mistake(
            "the incoming gradient left out",
            lambda g, a, b: engine_mul(np.ones_like(g), a, b),
            "this is right for g = 1 alone.",
        ),
    ),
)


# mean_backward


def engine_mean(g: np.ndarray, shape: tuple[int, ...], dim: int) -> np.ndarray:
    x = leaf(np.zeros(shape))
    (found,) = tensor.grad((x.mean(dim=dim) * Tensor(g)).sum(), x)
    return found.numpy()


def mean_without_dim(g: np.ndarray, shape: tuple[int, ...], dim: int) -> np.ndarray:
    return np.broadcast_to(g, shape) / shape[dim]


MEAN = Exercise(
    "mean_backward",
    returns="an ndarray",
    truth=engine_mean,
    cases=(
        case(np.array(3.0), (2,), 0),
        case(numbers(2), (3, 2), 0),
        case(numbers(2), (2, 3), 1),
        case(numbers(3), (3, 3), 1),
        case(numbers(2, 2), (2, 3, 2), 1),
    ),
    mistakes=(
        Mistake(
            "the gradient of the sum",
            lambda g, shape, dim: engine_mean(g, shape, dim) * shape[dim],
            "each number has only a part in a mean.",
        ),
        Mistake(
            "divided by the number of all elements",
            lambda g, shape, dim: engine_mean(g, shape, dim) * shape[dim] / np.prod(shape),
            "how many numbers went into one mean?",
        ),
        Mistake(
            "the dimension not put back",
            mean_without_dim,
            "numpy lines g up at the right. For a square that even runs, along the wrong "
            "dimension: give g the dimension that the mean took away.",
        ),
        Mistake(
            "not repeated",
            lambda g, shape, dim: np.asarray(g / shape[dim]),
            "the gradient of x has the shape of x.",
        ),
        Mistake(
            "multiplied instead of divided",
            lambda g, shape, dim: engine_mean(g, shape, dim) * shape[dim] ** 2,
            "if one of n numbers moves by 1, by how much does their mean move?",
        ),
    ),
)

EXERCISES = (UNBROADCAST, MUL, MEAN)
