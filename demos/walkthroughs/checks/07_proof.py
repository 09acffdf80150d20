"""The cases and the known mistakes of lesson 7."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from classroom import Exercise, Mistake, case

import tensor
from tensor import Tensor

Array = np.ndarray
Function = Callable[[Array], Array]


# numeric


def square(x: Array) -> Array:
    return x * x


def cube(x: Array) -> Array:
    return x**3


def pairs(x: Array) -> Array:
    """x[0] x[1] and x[1]: two results of two inputs."""
    return np.stack([x[0] * x[1], x[1]])


def rows(x: Array) -> Array:
    """The squares of a matrix, summed by rows."""
    return (x * x).sum(axis=1)


def engine_numeric(f: Function, x: Array, w: Array, eps: float) -> dict[str, Array]:
    """The engine's gradient; and for a cube what its differences are off by."""
    ops = {
        square: lambda t: t * t,
        cube: lambda t: t**3,
        pairs: lambda t: tensor.stack([t[0] * t[1], t[1]]),
        rows: lambda t: (t * t).sum(dim=1),
    }
    leaf = Tensor(x, requires_grad=True)
    (g,) = tensor.grad((ops[f](leaf) * Tensor(w)).sum(), leaf)
    return {"gradient": g.numpy() + (w * eps**2 if f is cube else 0.0), "x afterwards": x}


def numeric_with(
    weighted: bool = True, back: bool = True, copies: bool = True, distance: float = 2.0
) -> Callable[..., Array]:
    def numeric(f: Function, x: Array, w: Array, eps: float) -> Array:
        weights = w if weighted else np.ones_like(w)
        slopes, here = np.empty(x.shape), (weights * f(x)).sum()
        for place in np.ndindex(x.shape):
            moved = x.copy() if copies else x
            moved[place] += eps
            ahead = (weights * f(moved)).sum()
            moved[place] -= 2 * eps
            behind = (weights * f(moved)).sum()
            slopes[place] = (ahead - behind) / (distance * eps) if back else (ahead - here) / eps
        return slopes

    return numeric


def numeric_all_at_once(f: Function, x: Array, w: Array, eps: float) -> Array:
    return np.full(x.shape, ((w * f(x + eps)).sum() - (w * f(x - eps)).sum()) / (2 * eps))


def numeric_elementwise(f: Function, x: Array, w: Array, eps: float) -> Array:
    return np.asarray(w * (f(x + eps) - f(x - eps)) / (2 * eps))


NUMERIC = Exercise(
    "numeric",
    returns="an ndarray with the shape of x",
    truth=engine_numeric,
    view=lambda result, f, x, w, eps: {"gradient": result, "x afterwards": x},
    tolerance=1e-8,  # rounding, divided by eps
    cases=(
        case(square, np.array([1.0, -2.0]), np.array([1.0, 3.0]), 0.25),
        case(cube, np.array([1.0, 0.0]), np.array([2.0, 1.0]), 0.25),
        case(pairs, np.array([2.0, 5.0]), np.array([1.0, 10.0]), 0.25),
        case(rows, np.array([[1.0, 2.0, 3.0], [-1.0, 0.5, 0.0]]), np.array([1.0, -2.0]), 0.25),
    ),
    mistakes=(
        Mistake(
            "the weights left out",
            numeric_with(weighted=False),
            "that is the gradient of a plain sum, in which faults cancel. Where does w come in?",
        ),
        Mistake(
            "an array that is changed",
            numeric_with(copies=False),
            "x is not what it was, and every further element is moved from another place. "
            "y = x is not a copy in numpy.",
        ),
        Mistake(
            "differences to one side",
            numeric_with(back=False),
            "the second point lies as far back as the first lies ahead (lesson 1).",
        ),
        Mistake(
            "divided by the wrong distance",
            numeric_with(distance=1.0),
            "how far apart are the two points?",
        ),
        Mistake(
            "each result compared with its own input alone",
            numeric_elementwise,
            "a result can depend on every input: f(x) need not even have the shape of x. Move one "
            "input, and look at all the results.",
        ),
        Mistake(
            "all elements moved at once",
            numeric_all_at_once,
            "which element has made the sum move?",
        ),
    ),
)


# accepts


def softmax(x: Array) -> Array:
    e = np.exp(x - x.max())
    return e / e.sum()


def softmax_rule(g: Array, x: Array) -> Array:
    p = softmax(x)
    return p * (g - (g * p).sum())


def nothing(g: Array, x: Array) -> Array:
    return np.zeros_like(x)


def square_rule(g: Array, x: Array) -> Array:
    return 2 * g * x


def square_less(g: Array, x: Array) -> Array:
    return 1.98 * g * x


def square_last_wrong(g: Array, x: Array) -> Array:
    return 2 * g * x * np.where(np.arange(x.size) == x.size - 1, 1.01, 1.0)


def square_cancelling(g: Array, x: Array) -> Array:
    """Wrong by as much upwards as downwards."""
    found = 2 * g * x
    found[0] += 0.1
    found[1] -= 0.1
    return found


def square_nan(g: Array, x: Array) -> Array:
    return np.full_like(x, np.nan)


def square_row(g: Array, x: Array) -> Array:
    return (2 * g * x)[None, :]


def square_without_g(g: Array, x: Array) -> Array:
    return 2 * x


def exp_rule(g: Array, x: Array) -> Array:
    return g * np.exp(x)


def exp_less(g: Array, x: Array) -> Array:
    return 0.99 * g * np.exp(x)


def exp(x: Array) -> Array:
    return np.exp(x)


RIGHT: dict[tuple[Function, Any], str] = {
    (square, square_rule): "f(x) = x * x and its right rule, 2 g x",
    (square, square_less): "f(x) = x * x and the rule 1.98 g x",
    (square, square_last_wrong): "f(x) = x * x and a rule that is 1 % off in the last element",
    (square, square_cancelling): "f(x) = x * x and a rule with two faults of opposite sign",
    (square, square_without_g): "f(x) = x * x and the rule 2 x, without g",
    (square, square_nan): "f(x) = x * x and a rule that gives nan",
    (square, square_row): "f(x) = x * x and the right numbers in another shape, (1, 3)",
    (softmax, softmax_rule): "f(x) = softmax(x) and its right rule",
    (softmax, nothing): "f(x) = softmax(x) and a rule that gives 0",
    (exp, exp_rule): "f(x) = exp(x) and its right rule, at x = 1, 3, 6",
    (exp, exp_less): "f(x) = exp(x) and the rule 0.99 g exp(x), at x = 1, 3, 6",
}


def verdict(f: Function, rule: Any, x: Array) -> bool:
    return rule in (square_rule, softmax_rule, exp_rule)


def accepts_with(
    tolerance: float = 1e-6,
    ones: bool = False,
    back: bool = True,
    compare: Callable[[Array, Array, float], Any] | None = None,
    shaped: bool = True,
) -> Callable[..., bool]:
    def accepts(f: Function, rule: Any, x: Array) -> bool:
        g = np.random.default_rng(1).uniform(0.5, 1.5, f(x).shape)
        if ones:
            g = np.ones_like(g)
        found, wanted = rule(g, x), numeric_with(back=back)(f, x, g, 1e-6)
        if shaped and found.shape != x.shape:
            return False
        limit = tolerance * max(1.0, float(np.abs(wanted).max()))
        if compare is not None:
            return bool(compare(found, wanted, limit))
        return bool((np.abs(found - wanted) <= limit).all())

    return accepts


POINT = np.array([0.5, -1.0, 2.0])

ACCEPTS = Exercise(
    "accepts",
    returns="True or False",
    truth=verdict,
    cases=tuple(
        case(f, rule, np.array([1.0, 3.0, 6.0]) if f is exp else POINT, text=f"accepts: {text}")
        for (f, rule), text in RIGHT.items()
    ),
    mistakes=(
        Mistake(
            "a tolerance that is too wide",
            accepts_with(tolerance=0.1),
            "how close does a right rule come with central differences in float64? A fault of 1 % "
            "is far outside that.",
        ),
        Mistake(
            "right rules refused",
            accepts_with(tolerance=1e-14),
            "does it ever say True? The differences themselves have an error: how large was it in "
            "lesson 1, and is the tolerance above that?",
        ),
        Mistake(
            "g full of ones",
            accepts_with(ones=True),
            "where every weight is the same, a rule may ignore g, and the results of softmax "
            "always sum to 1. Which g lets nothing cancel?",
        ),
        Mistake(
            "sums compared",
            accepts_with(compare=lambda a, b, t: abs(a.sum() - b.sum()) <= t),
            "two faults of opposite sign have the sum 0. Compare element by element.",
        ),
        Mistake(
            "the first element alone",
            accepts_with(compare=lambda a, b, t: abs(a.ravel()[0] - b.ravel()[0]) <= t),
            "a rule can be right in one element and wrong in another.",
        ),
        Mistake(
            "any element instead of all",
            accepts_with(compare=lambda a, b, t: (np.abs(a - b) <= t).any()),
            "one element that agrees is not enough.",
        ),
        Mistake(
            "nan lets it pass",
            accepts_with(compare=lambda a, b, t: not (np.abs(a - b) > t).any()),
            "nan > t is False. Ask whether the error is small, not whether it is large.",
        ),
        Mistake(
            "the shape not looked at",
            accepts_with(shaped=False),
            "numpy broadcasts before it compares: (1, 3) less (3,) is no error.",
        ),
        Mistake(
            "no absolute value",
            accepts_with(compare=lambda a, b, t: (a - b <= t).all()),
            "a rule that gives too little has a negative error, and every negative number is "
            "small.",
        ),
        Mistake(
            "everything accepted",
            lambda f, rule, x: True,
            "a checker that cannot say no proves nothing.",
        ),
    ),
)

EXERCISES = (NUMERIC, ACCEPTS)
