"""The cases and the known mistakes of lesson 8."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from classroom import Exercise, Mistake, case

Array = np.ndarray


@dataclass
class Box:
    """As in the students' file."""

    data: Array
    version: int = 0


# total


def fate(result: Any, gradients: list[Array]) -> dict[str, Any]:
    if not isinstance(result, Array):
        raise TypeError("not an array")
    return {
        "sum": result,
        "arrays afterwards": gradients,
        "shares memory": any(np.shares_memory(result, g) for g in gradients),
    }


def exact_total(gradients: list[Array]) -> dict[str, Any]:
    found = np.stack(gradients).sum(axis=0, dtype=gradients[0].dtype)
    return {"sum": found, "arrays afterwards": gradients, "shares memory": False}


def into_the_first(gradients: list[Array]) -> Array:
    result = gradients[0]
    for g in gradients[1:]:
        result += g
    return result


def from_the_first(gradients: list[Array]) -> Array:
    result = gradients[0]
    for g in gradients[1:]:
        result = result + g
    return result


def from_zeros(gradients: list[Array]) -> Array:
    result = np.zeros(gradients[0].shape)
    for g in gradients:
        result += g
    return result


ONES, TWOS = np.ones(2), np.full(2, 2.0)
SAME = np.array([1.0, 5.0])

TOTAL = Exercise(
    "total",
    returns="an ndarray",
    truth=exact_total,
    view=fate,
    cases=(
        case([np.array([3.0])]),
        case([ONES, TWOS]),
        case([SAME, SAME], text="total([a, a]), twice the same array a = [1, 5]"),
        case([ONES.astype(np.float32), TWOS.astype(np.float32)]),
        case([np.array([1.0, 2.0]), np.array([10.0, 20.0]), np.array([100.0, 200.0])]),
    ),
    mistakes=(
        Mistake(
            "added into the first array",
            into_the_first,
            "the first gradient belongs to somebody else, and += writes into it. result = "
            "gradients[0] is a second name, not a second array, and a slice is no copy either.",
        ),
        Mistake(
            "a single array given back as it is",
            from_the_first,
            "right for two and more. If there is one alone, the result is that very array, and "
            "whoever adds to it later changes the original.",
        ),
        Mistake(
            "float64 from float32",
            from_zeros,
            "which dtype does np.zeros have if it is not told?",
        ),
        Mistake(
            "= for +=",
            lambda gradients: gradients[-1].copy(),
            "only the last one is left.",
        ),
        Mistake(
            "the mean",
            lambda gradients: np.mean(gradients, axis=0, dtype=gradients[0].dtype),
            "parts of a gradient are added, not averaged.",
        ),
    ),
)


# scaled


def scaled_fate(result: Any, x: Array, factor: Any) -> dict[str, Any]:
    if not isinstance(result, Array):
        raise TypeError("not an array")
    return {"result": result, "x afterwards": x, "shares memory": np.shares_memory(result, x)}


def exact_scaled(x: Array, factor: Any) -> dict[str, Any]:
    found = np.array([float(factor) * float(v) for v in x], dtype=x.dtype)
    return {"result": found, "x afterwards": x, "shares memory": False}


def scaled_in_place(x: Array, factor: Any) -> Array:
    x *= factor
    return x


WIDE, NARROW = np.array([1.0, -2.0]), np.array([1.0, -2.0], dtype=np.float32)

SCALED = Exercise(
    "scaled",
    returns="an ndarray",
    truth=exact_scaled,
    view=scaled_fate,
    cases=(
        case(WIDE, 0.5),
        case(NARROW, 0.5),
        case(NARROW, np.float64(0.5), text="scaled(float32 array [1, -2], np.float64(0.5))"),
        case(
            NARROW.astype(np.float16),
            np.float64(0.5),
            text="scaled(float16 array, np.float64(0.5))",
        ),
        case(WIDE, np.float32(0.5), text="scaled(float64 array [1, -2], np.float32(0.5))"),
    ),
    mistakes=(
        Mistake(
            "a number that promotes the array",
            lambda x, factor: factor * x,
            "a Python float takes the array's dtype; one of numpy's has a dtype of its own, and "
            "the wider one wins.",
        ),
        Mistake(
            "float32 whatever comes",
            lambda x, factor: (factor * x).astype(np.float32),
            "what about an array that is float64 or float16 on purpose?",
        ),
        Mistake(
            "changed in place",
            scaled_in_place,
            "the dtype is kept, but x is the caller's. A new array was asked for.",
        ),
        Mistake(
            "divided",
            lambda x, factor: (x / factor).astype(x.dtype),
            "half of 1 is not 2.",
        ),
    ),
)


# square_backward


def exact_square(g: Array, box: Box, version: int) -> Array:
    if box.version != version:
        raise RuntimeError("another version")
    return np.array([2 * a * b for a, b in zip(g, box.data, strict=True)])


def only_older(g: Array, box: Box, version: int) -> Array:
    return exact_square(g, box, version) if box.version != version + 1 else 2 * g * box.data


def returned(g: Array, box: Box, version: int) -> Any:
    return None if box.version != version else 2 * g * box.data


def asserted(g: Array, box: Box, version: int) -> Array:
    if box.version != version:
        raise AssertionError("changed")
    return 2 * g * box.data


def must_be_new(g: Array, box: Box, version: int) -> Array:
    if box.version != 0:
        raise RuntimeError("another version")
    return 2 * g * box.data


def square_without_g(g: Array, box: Box, version: int) -> Array:
    return exact_square(np.ones_like(g), box, version)


DATA, G = np.array([3.0, -1.0]), np.array([1.0, 10.0])

SQUARE = Exercise(
    "square_backward",
    returns="an ndarray",
    truth=exact_square,
    refusals=(RuntimeError,),
    cases=(
        case(G, Box(DATA, 0), 0),
        case(G, Box(DATA, 4), 4),
        case(G, Box(DATA, 1), 0),
        case(G, Box(DATA, 6), 4),
    ),
    mistakes=(
        Mistake(
            "versions not compared",
            lambda g, box, version: 2 * g * box.data,
            "these data were changed after they had been squared. The number looks like a "
            "gradient and is none.",
        ),
        Mistake(
            "any change ever is refused",
            must_be_new,
            "a box that was changed before it was squared is as good as a new one. Which two "
            "versions have to be equal?",
        ),
        Mistake(
            "None instead of an error",
            returned,
            "whoever called goes on with None and fails somewhere else, much later. Raise where "
            "it is found out.",
        ),
        Mistake(
            "another kind of error",
            asserted,
            "callers catch a RuntimeError; and assertions vanish when Python runs with -O.",
        ),
        Mistake(
            "the incoming gradient left out",
            square_without_g,
            "2 x is the local derivative; by what is it multiplied?",
        ),
        Mistake(
            "one change let through",
            only_older,
            "a single change is a change.",
        ),
    ),
)

EXERCISES = (TOTAL, SCALED, SQUARE)
