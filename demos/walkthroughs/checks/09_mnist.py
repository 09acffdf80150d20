"""The cases and the known mistakes of lesson 9."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from classroom import Exercise, Mistake, case

from tensor import Tensor, optim
from tensor.data import DataLoader, TensorDataset

Array = np.ndarray


# minibatches


def engine_batches(n: int, size: int) -> list[list[int]]:
    """What the engine's loader makes of the numbers themselves."""
    return [batch.tolist() for (batch,) in DataLoader(TensorDataset(Tensor(np.arange(n))), size)]


BATCHES = Exercise(
    "minibatches",
    returns="a list of lists of ints",
    truth=engine_batches,
    view=lambda result, *_: [[int(i) for i in batch] for batch in result],
    cases=(case(1, 1), case(2, 1), case(4, 2), case(5, 2), case(2, 5), case(9, 3)),
    mistakes=(
        Mistake(
            "the last, shorter batch lost",
            lambda n, size: engine_batches(n, size)[: n // size],
            "5 examples in batches of 2: which one is never seen?",
        ),
        Mistake(
            "numbers past the end",
            lambda n, size: [list(range(i, i + size)) for i in range(0, n, size)],
            "the last batch is longer than there are examples.",
        ),
        Mistake(
            "an empty batch at the end",
            lambda n, size: [
                list(range(i * size, min(n, i * size + size))) for i in range(n // size + 1)
            ],
            "when n is a multiple of size, how many batches are there?",
        ),
        Mistake(
            "batches that overlap",
            lambda n, size: [list(range(i, min(i + size, n))) for i in range(n)],
            "each example belongs to one batch. By how much does the start move?",
        ),
        Mistake(
            "size batches instead of batches of that size",
            lambda n, size: [list(range(i, n, size)) for i in range(min(size, n))],
            "size is how long a batch is, not how many there are.",
        ),
    ),
)


# accuracy


def counted(logits: Array, labels: Array) -> float:
    right = 0
    for row, label in zip(logits, labels, strict=True):
        right += max(range(len(row)), key=lambda c: row[c]) == label
    return right / len(labels)


ACCURACY = Exercise(
    "accuracy",
    returns="a number",
    truth=counted,
    cases=(
        case(np.array([[0.0, 1.0]]), np.array([1])),
        case(np.array([[0.0, 1.0]]), np.array([0])),
        case(np.array([[2.0, 1.0], [0.0, 3.0], [1.0, 0.0]]), np.array([0, 1, 1])),
        case(np.array([[-2.0, -1.0, -3.0], [0.5, 2.0, 4.0]]), np.array([1, 1])),
    ),
    mistakes=(
        Mistake(
            "per cent",
            lambda logits, labels: 100 * counted(logits, labels),
            "the part lies between 0 and 1.",
        ),
        Mistake(
            "the number of right answers",
            lambda logits, labels: counted(logits, labels) * len(labels),
            "3 right of 4 is better than 3 right of 40.",
        ),
        Mistake(
            "the error rate",
            lambda logits, labels: 1 - counted(logits, labels),
            "is a perfect model at 1 or at 0?",
        ),
        Mistake(
            "the smallest score",
            lambda logits, labels: counted(-logits, labels),
            "which score marks the model's answer?",
        ),
        Mistake(
            "the mean score of the right class",
            lambda logits, labels: float(logits[np.arange(len(labels)), labels].mean()),
            "a score is not an answer. Compare it with those of the other classes.",
        ),
    ),
)


# adamw


def engine_adamw(
    p: Array, g: Array, m: Array, v: Array, t: int, lr: float, weight_decay: float
) -> dict[str, Any]:
    """The engine's step, from the same state."""
    leaf = Tensor(p, requires_grad=True)
    optimizer = optim.AdamW([leaf], lr=lr, weight_decay=weight_decay)
    leaf.grad = Tensor(g)
    optimizer.step()  # makes the state, which is then put in place
    state = optimizer.state_dict()
    (entry,) = state["state"].values()
    entry["exp_avg"], entry["exp_avg_sq"] = Tensor(m), Tensor(v)
    entry["step"] = type(entry["step"])(t - 1)
    optimizer.load_state_dict(state)
    leaf.data[...] = p
    leaf.grad = Tensor(g)
    optimizer.step()
    (entry,) = optimizer.state_dict()["state"].values()
    return {
        "p": np.array(leaf.data),
        "m": np.array(entry["exp_avg"].data),
        "v": np.array(entry["exp_avg_sq"].data),
        "given afterwards": [p, g, m, v],
    }


def parts(result: Any, p: Array, g: Array, m: Array, v: Array, *_: Any) -> dict[str, Any]:
    new_p, new_m, new_v = result
    return {"p": new_p, "m": new_m, "v": new_v, "given afterwards": [p, g, m, v]}


def adamw_with(
    correct: bool = True,
    decay: str = "decoupled",
    eps_inside: bool = False,
    root: bool = True,
    age: int = 0,
    sign: float = -1.0,
    square: bool = True,
    swap: bool = False,
) -> Callable[..., tuple[Array, Array, Array]]:
    def adamw(
        p: Array, g: Array, m: Array, v: Array, t: int, lr: float, weight_decay: float
    ) -> tuple[Array, Array, Array]:
        if decay == "into the gradient":
            g = g + weight_decay * p
        elif decay == "decoupled":
            p = p * (1 - lr * weight_decay)
        elif decay == "without lr":
            p = p * (1 - weight_decay)
        b1, b2 = (0.999, 0.9) if swap else (0.9, 0.999)
        m = m * b1 + g * (1 - b1)
        v = v * b2 + (g * g if square else g) * (1 - b2)
        with np.errstate(all="ignore"):
            mean = m / (1 - b1 ** (t - age)) if correct else m
            var = v / (1 - b2 ** (t - age)) if correct else v
            size = np.sqrt(var + 1e-8) if eps_inside else (np.sqrt(var) if root else var) + 1e-8
            return p + sign * lr * mean / size, m, v

    return adamw


def adamw_in_place(
    p: Array, g: Array, m: Array, v: Array, t: int, lr: float, weight_decay: float
) -> tuple[Array, Array, Array]:
    found = adamw_with()(p, g, m, v, t, lr, weight_decay)
    for old, new in zip((p, m, v), found, strict=True):
        old[...] = new
    return p, m, v


ZERO, P, G = np.zeros(2), np.array([1.0, -0.5]), np.array([0.5, 0.001])
M, V = np.array([0.2, -0.1]), np.array([0.04, 0.01])

ADAMW = Exercise(
    "adamw",
    returns="three arrays: p, m and v",
    truth=engine_adamw,
    view=parts,
    cases=(
        case(P, G, ZERO, ZERO, 1, 0.1, 0.0, text="adamw, the first step, without decay"),
        case(P, G, ZERO, ZERO, 1, 0.1, 0.5, text="adamw, the first step, weight_decay = 0.5"),
        case(P, G, M, V, 7, 0.01, 0.0, text="adamw, the seventh step, without decay"),
        case(P, G, M, V, 7, 0.01, 0.1, text="adamw, the seventh step, weight_decay = 0.1"),
    ),
    mistakes=(
        Mistake(
            "the correction left out",
            adamw_with(correct=False),
            "after the first step the means are a tenth and a thousandth of what they should be. "
            "Which line of the description is about that?",
        ),
        Mistake(
            "the decay added to the gradient",
            adamw_with(decay="into the gradient"),
            "that is the older Adam. Here the decay does not pass through m and v: it has W in "
            "the name because it is decoupled.",
        ),
        Mistake(
            "no decay",
            adamw_with(decay="none"),
            "p also shrinks by itself.",
        ),
        Mistake(
            "a decay without the learning rate",
            adamw_with(decay="without lr"),
            "by how much does p shrink? Two factors stand in the description.",
        ),
        Mistake(
            "eps within the root",
            adamw_with(eps_inside=True),
            "almost the same, except where gradients are small; twins part there. To what is eps "
            "added?",
        ),
        Mistake(
            "no root",
            adamw_with(root=False),
            "v is the mean of a square. What has the size of a gradient?",
        ),
        Mistake(
            "steps counted from 0",
            adamw_with(age=1),
            "in the first step t is 1, and 1 - beta^t is not 0.",
        ),
        Mistake(
            "uphill",
            adamw_with(sign=1.0),
            "against the gradient.",
        ),
        Mistake(
            "v without the square",
            adamw_with(square=False),
            "v is the mean of the squared gradient; a root of negative numbers is nan.",
        ),
        Mistake(
            "the two betas exchanged",
            adamw_with(swap=True),
            "the mean of the gradient forgets fast, the mean of its square slowly.",
        ),
        Mistake(
            "arrays that are changed",
            adamw_in_place,
            "the result is right, but p, m and v belong to the caller (lesson 8).",
        ),
    ),
)

EXERCISES = (BATCHES, ACCURACY, ADAMW)
