"""The cases and the known mistakes of lesson 6."""

from __future__ import annotations

import numpy as np
from classroom import Exercise, Mistake, case

import tensor
from tensor import Tensor

Pair = tuple[np.ndarray, np.ndarray]


def numbers(*shape: int, seed: int = 0) -> np.ndarray:
    """Numbers of which no two are alike, with few digits."""
    rng = np.random.default_rng(seed + sum(shape))
    return (rng.permutation(np.arange(1.0, 1.0 + np.prod(shape))).reshape(shape) - 2) / 4


def leaf(array: np.ndarray) -> Tensor:
    return Tensor(array, requires_grad=True)


# matmul_backward


def engine_matmul(g: np.ndarray, a: np.ndarray, b: np.ndarray) -> Pair:
    x, y = leaf(a), leaf(b)
    dx, dy = tensor.grad((tensor.matmul(x, y) * Tensor(g)).sum(), (x, y))
    return dx.numpy(), dy.numpy()


MATMUL = Exercise(
    "matmul_backward",
    returns="two ndarrays, the gradients of a and of b",
    truth=engine_matmul,
    view=lambda result, *_: tuple(result),
    cases=(
        case(numbers(1, 1), numbers(1, 1, seed=1), numbers(1, 1, seed=2)),
        case(numbers(1, 2), numbers(1, 1, seed=1), numbers(1, 2, seed=2)),
        case(numbers(2, 2), numbers(2, 2, seed=1), numbers(2, 2, seed=2)),
        case(numbers(2, 4), numbers(2, 3), numbers(3, 4)),
    ),
    mistakes=(
        Mistake(
            "no transposes",
            lambda g, a, b: (g @ b, a @ g),
            "write the shapes of g, a and b beside each other, and see which products exist.",
        ),
        Mistake(
            "one transpose missing, that of b",
            lambda g, a, b: (g @ b, a.T @ g),
            "the gradient of b is right. Write down the shapes for that of a.",
        ),
        Mistake(
            "one transpose missing, that of a",
            lambda g, a, b: (g @ b.T, a @ g),
            "the gradient of a is right. Write down the shapes for that of b.",
        ),
        Mistake(
            "the factors in the wrong order",
            lambda g, a, b: (b.T @ g, g @ a.T),
            "for square matrices the shapes allow both orders, and only one is right. Try a "
            "(2, 3) with a (3, 4).",
        ),
        Mistake(
            "elementwise products",
            lambda g, a, b: (g * b, a * g),
            "in a product of matrices every a[i, k] meets a whole row of b.",
        ),
        Mistake(
            "the two gradients exchanged",
            lambda g, a, b: engine_matmul(g, a, b)[::-1],
            "the first of the pair has the shape of a.",
        ),
    ),
)


# softmax


def engine_softmax(x: np.ndarray) -> np.ndarray:
    return tensor.softmax(Tensor(x), dim=1).numpy()


def softmax_along(x: np.ndarray, axis: int | None) -> np.ndarray:
    e = np.exp(x - x.max(axis=axis, keepdims=True))
    return e / e.sum(axis=axis, keepdims=True)


def naive(x: np.ndarray) -> np.ndarray:
    with np.errstate(all="ignore"):
        return np.exp(x) / np.exp(x).sum(axis=1, keepdims=True)


def clipped(x: np.ndarray) -> np.ndarray:
    return softmax_along(np.clip(x, -500, 500), 1)


SOFTMAX = Exercise(
    "softmax",
    returns="an ndarray",
    truth=engine_softmax,
    cases=(
        case(np.array([[0.0, 0.0]])),
        case(np.array([[0.0, 1.0]])),
        case(np.array([[0.0, 1.0], [0.5, -1.0]])),
        case(np.array([[1000.0, 1001.0]])),
        case(np.array([[-1e6, -1e6 + 1.0]])),
        case(np.array([[0.0, 1.0], [900.0, 901.0]])),
    ),
    mistakes=(
        Mistake(
            "overflow",
            naive,
            "exp(1000) is more than a float can hold, and exp(-1e6) is 0. Softmax only sees "
            "differences; which number may you take away from a whole row?",
        ),
        Mistake(
            "columns instead of rows",
            lambda x: softmax_along(x, 0),
            "which numbers have to sum to 1: those of one example or those of one class?",
        ),
        Mistake(
            "all rows at once",
            lambda x: softmax_along(x, None),
            "every row is a distribution of its own; here all the numbers together sum to 1.",
        ),
        Mistake(
            "scores that are cut off",
            clipped,
            "no overflow, but 1000 and 1001 have become the same score.",
        ),
        Mistake(
            "not normalised",
            lambda x: np.exp(x - x.max(axis=1, keepdims=True)),
            "probabilities sum to 1.",
        ),
        Mistake(
            "the logarithm of it",
            lambda x: np.log(np.maximum(softmax_along(x, 1), 1e-300)),
            "that is log-softmax; a probability is not negative.",
        ),
    ),
)


# cross_entropy


def engine_loss(logits: np.ndarray, target: np.ndarray) -> float:
    return tensor.cross_entropy(Tensor(logits), Tensor(target)).item()


def costs(logits: np.ndarray, target: np.ndarray) -> np.ndarray:
    return np.array([engine_loss(logits[i : i + 1], target[i : i + 1]) for i in range(len(target))])


def log_of_softmax(logits: np.ndarray, target: np.ndarray) -> float:
    with np.errstate(all="ignore"):
        return float(-np.log(engine_softmax(logits)[np.arange(len(target)), target]).mean())


def log_of_padded(logits: np.ndarray, target: np.ndarray) -> float:
    return float(-np.log(engine_softmax(logits)[np.arange(len(target)), target] + 1e-12).mean())


def unshifted(logits: np.ndarray, target: np.ndarray) -> float:
    with np.errstate(all="ignore"):
        rows = np.log(np.exp(logits).sum(axis=1)) - logits[np.arange(len(target)), target]
    return float(rows.mean())


TARGET = np.array([1, 0])
LOSSES = (
    case(np.array([[0.0, 0.0]]), np.array([0])),
    case(np.array([[2.0, 0.0]]), np.array([1])),
    case(np.array([[0.0, 1.0], [0.5, -1.0]]), TARGET),
    case(np.array([[1.0, 0.0, -1.0], [0.5, 2.0, 0.0], [0.0, 0.0, 3.0]]), np.array([2, 1, 0])),
    case(np.array([[0.0, 1000.0]]), np.array([0])),
    case(np.array([[1e6, 1e6 + 1.0]]), np.array([0])),
)

LOSS = Exercise(
    "cross_entropy",
    returns="a number",
    truth=engine_loss,
    cases=LOSSES,
    mistakes=(
        Mistake(
            "the logarithm of a probability that is 0",
            log_of_softmax,
            "a probability of e^-1000 is 0 as a float, and its logarithm is -inf. On paper the "
            "logarithm of a quotient is a difference: take it before the exp, not after.",
        ),
        Mistake(
            "a small number added before the logarithm",
            log_of_padded,
            "that avoids inf and is wrong: no cost can be above 27.6, and every other is off by a "
            "little.",
        ),
        Mistake(
            "overflow",
            unshifted,
            "the logarithm is well placed; the exp of a large score is inf all the same. What did "
            "you do about that in exercise 2?",
        ),
        Mistake(
            "the unreduced mean: a sum",
            lambda logits, target: float(costs(logits, target).sum()),
            "with more examples this grows.",
        ),
        Mistake(
            "the mean over classes, too",
            lambda logits, target: float(costs(logits, target).mean() / logits.shape[1]),
            "each example costs -log of one probability. Divided by what?",
        ),
        Mistake(
            "the wrong sign",
            lambda logits, target: -engine_loss(logits, target),
            "the logarithm of a probability is negative; a cost is not.",
        ),
        Mistake(
            "no logarithm",
            lambda logits, target: float(-np.exp(-costs(logits, target)).mean()),
            "this is the mean probability itself. It hardly tells 0.01 from 0.000001.",
        ),
    ),
)


# cross_entropy_backward


def engine_gradient(logits: np.ndarray, target: np.ndarray) -> np.ndarray:
    x = leaf(logits)
    (g,) = tensor.grad(tensor.cross_entropy(x, Tensor(target)), x)
    return g.numpy()


def one_hot(logits: np.ndarray, target: np.ndarray) -> np.ndarray:
    return np.eye(logits.shape[1])[target]


def by_columns(logits: np.ndarray, target: np.ndarray) -> np.ndarray:
    """g[:, target] -= 1, which takes away from every row."""
    g = engine_softmax(logits)
    g[:, target] -= 1.0
    return g / len(target)


GRADIENT = Exercise(
    "cross_entropy_backward",
    returns="an ndarray",
    truth=engine_gradient,
    cases=LOSSES,
    mistakes=(
        Mistake(
            "the unreduced mean",
            lambda logits, target: engine_gradient(logits, target) * len(target),
            "the loss is a mean over the examples: how much of it is one example's?",
        ),
        Mistake(
            "the wrong sign",
            lambda logits, target: -engine_gradient(logits, target),
            "if the right class's score grows, does the loss grow?",
        ),
        Mistake(
            "the right class not taken off",
            lambda logits, target: engine_softmax(logits) / len(target),
            "each row of the gradient sums to 0. The probabilities alone sum to 1.",
        ),
        Mistake(
            "no softmax",
            lambda logits, target: (logits - one_hot(logits, target)) / len(target),
            "what is compared with the right answer: scores or probabilities?",
        ),
        Mistake(
            "divided by the number of classes, too",
            lambda logits, target: engine_gradient(logits, target) / logits.shape[1],
            "the mean is over examples alone.",
        ),
        Mistake(
            "taken off in every row",
            by_columns,
            "g[:, target] names whole columns. You need one place in each row: index both "
            "dimensions.",
        ),
    ),
)

EXERCISES = (MATMUL, SOFTMAX, LOSS, GRADIENT)
