"""The cases and the known mistakes of lesson 10."""

from __future__ import annotations

from typing import Any

import numpy as np
from classroom import Exercise, Mistake, case

import tensor
from tensor import Tensor

Array = np.ndarray


# embedding_backward


def engine_embedding(g: Array, indices: Array, rows: int) -> Array:
    table = Tensor(np.zeros((rows, g.shape[1]), dtype=g.dtype), requires_grad=True)
    out = tensor.embedding(table, Tensor(indices))
    (found,) = tensor.grad((out * Tensor(g)).sum(), table)
    return found.numpy()


def last_stays(g: Array, indices: Array, rows: int) -> Array:
    out = np.zeros((rows, g.shape[1]), dtype=g.dtype)
    out[indices] += g
    return out


def looked_up(g: Array, indices: Array, rows: int) -> Array:
    return g[indices]


def averaged(g: Array, indices: Array, rows: int) -> Array:
    count = np.maximum(np.bincount(indices, minlength=rows), 1)[:, None]
    return (engine_embedding(g, indices, rows) / count).astype(g.dtype)


def only_used(g: Array, indices: Array, rows: int) -> Array:
    return engine_embedding(g, indices, int(indices.max()) + 1)


def always_wide(g: Array, indices: Array, rows: int) -> Array:
    out = np.zeros((rows, g.shape[1]))
    np.add.at(out, indices, g)
    return out


G = np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])

EMBEDDING = Exercise(
    "embedding_backward",
    returns="an ndarray (rows, D)",
    truth=engine_embedding,
    cases=(
        case(G[:1], np.array([0]), 1),
        case(G[:1], np.array([1]), 3),
        case(G[:2], np.array([1, 0]), 2),
        case(G[:2], np.array([1, 1]), 2),
        case(G.astype(np.float32), np.array([2, 0, 2]), 4),
    ),
    mistakes=(
        Mistake(
            "+= with repeated indices",
            last_stays,
            "gradient[indices] += g adds once for each row that is named, and the last value "
            "stays. Two uses have to give two parts. Does numpy know another way to add at "
            "indices?",
        ),
        Mistake(
            "the lookup once more",
            looked_up,
            "forward takes rows out of the table. Backward puts them back in.",
        ),
        Mistake(
            "the mean of repeated rows",
            averaged,
            "the parts of a gradient are added.",
        ),
        Mistake(
            "a table that ends at the largest index",
            only_used,
            "the gradient has as many rows as the table, also where none was looked up.",
        ),
        Mistake(
            "float64 from float32",
            always_wide,
            "which dtype does np.zeros make unless it is told?",
        ),
    ),
)


# examples


def exact_examples(codes: list[int], context: int) -> tuple[list[list[int]], list[int]]:
    windows, followers = [], []
    for end, code in enumerate(codes):
        if end >= context:
            windows.append(codes[end - context : end])
            followers.append(code)
    return windows, followers


def lists(result: Any, *_: Any) -> tuple[list[list[int]], list[int]]:
    windows, followers = result
    return [[int(c) for c in window] for window in windows], [int(c) for c in followers]


def all_windows(codes: list[int], context: int) -> tuple[list[list[int]], list[int]]:
    starts = range(max(0, len(codes) - context + 1))
    return [codes[i : i + context] for i in starts], codes[context:]


def last_of_window(codes: list[int], context: int) -> tuple[list[list[int]], list[int]]:
    windows, _ = exact_examples(codes, context)
    return windows, [window[-1] for window in windows]


def last_lost(codes: list[int], context: int) -> tuple[list[list[int]], list[int]]:
    windows, followers = exact_examples(codes, context)
    return windows[:-1], followers[:-1]


def side_by_side(codes: list[int], context: int) -> tuple[list[list[int]], list[int]]:
    windows, followers = exact_examples(codes, context)
    return windows[:: context + 1], followers[:: context + 1]


def growing(codes: list[int], context: int) -> tuple[list[list[int]], list[int]]:
    ends = range(1, len(codes))
    return [codes[max(0, end - context) : end] for end in ends], [codes[end] for end in ends]


def one_further(codes: list[int], context: int) -> tuple[list[list[int]], list[int]]:
    windows, followers = exact_examples(codes, context)
    return windows[:-1], followers[1:]


EXAMPLES = Exercise(
    "examples",
    returns="a pair: a list of lists of ints, and a list of ints",
    truth=exact_examples,
    view=lists,
    cases=(
        case([7, 8], 1),
        case([7], 1),
        case([], 2),
        case([7, 8, 9, 5], 2),
        case([1, 2, 3, 4, 5, 6, 7, 8], 3),
    ),
    mistakes=(
        Mistake(
            "a window that nothing follows",
            all_windows,
            "the last window must leave one code to be predicted.",
        ),
        Mistake(
            "the last code of the window predicted",
            last_of_window,
            "the model would see the answer: it is in the window. It has to come after it.",
        ),
        Mistake(
            "the last example lost",
            last_lost,
            "one example is missing at the end. How many starts are there for 4 codes and a "
            "context of 2?",
        ),
        Mistake(
            "windows that do not overlap",
            side_by_side,
            "every place in the text is an example: windows start one code apart.",
        ),
        Mistake(
            "windows that are too short",
            growing,
            "a window has as many codes as the context says, also at the beginning.",
        ),
        Mistake(
            "a code left out between window and follower",
            one_further,
            "what follows [7, 8] in [7, 8, 9, 5]?",
        ),
    ),
)


# odds


def engine_odds(scores: Array, temperature: float) -> Array:
    return tensor.softmax(Tensor(scores) / temperature, dim=0).numpy()


def overflowing(scores: Array, temperature: float) -> Array:
    with np.errstate(all="ignore"):
        e = np.exp(scores / temperature)
        return e / e.sum()


def softened(scores: Array, temperature: float) -> Array:
    return engine_odds(scores, 1.0) / temperature


ODDS = Exercise(
    "odds",
    returns="an ndarray (C,)",
    truth=engine_odds,
    cases=(
        case(np.array([0.0, 1.0]), 1.0),
        case(np.array([0.0, 1.0]), 0.5),
        case(np.array([0.0, 1.0, -1.0]), 2.0),
        case(np.array([1.0, 3.0]), 0.001),
    ),
    mistakes=(
        Mistake(
            "the temperature multiplied",
            lambda scores, temperature: engine_odds(scores, 1 / temperature),
            "a temperature near 0 should make the model careful: the largest score gets all.",
        ),
        Mistake(
            "overflow",
            overflowing,
            "3 / 0.001 is 3000, and exp(3000) is inf. What may be subtracted from all scores "
            "(lesson 6)?",
        ),
        Mistake(
            "the temperature left out",
            lambda scores, temperature: engine_odds(scores, 1.0),
            "at temperature 1 it makes no difference, elsewhere it does.",
        ),
        Mistake(
            "probabilities divided by the temperature",
            softened,
            "these do not sum to 1. What is divided: the scores or the probabilities?",
        ),
    ),
)

EXERCISES = (EMBEDDING, EXAMPLES, ODDS)
