"""The cases and the known mistakes of lesson 1."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

from classroom import Exercise, Mistake, case

Function = Callable[[Any], Any]


# slope


def line(x: Any) -> Any:
    return 3 * x + 1


def square(x: Any) -> Any:
    return x * x


def cube(x: Any) -> Any:
    return x * x * x


def exact_slope(f: Function, x: float, eps: float) -> float:
    """In fractions, which round nothing."""
    here, step = Fraction(x), Fraction(eps)
    return float((f(here + step) - f(here - step)) / (2 * step))


SLOPE = Exercise(
    "slope",
    returns="a number",
    truth=exact_slope,
    cases=(
        case(line, 0.0, 0.5, text="slope(f, 0.0, 0.5) with f(x) = 3 x + 1"),
        case(square, 1.0, 0.5, text="slope(f, 1.0, 0.5) with f(x) = x * x"),
        case(cube, 0.0, 0.25, text="slope(f, 0.0, 0.25) with f(x) = x * x * x"),
        case(cube, -2.0, 0.125, text="slope(f, -2.0, 0.125) with f(x) = x * x * x"),
    ),
    mistakes=(
        Mistake(
            "the difference to one side",
            lambda f, x, eps: (f(x + eps) - f(x)) / eps,
            "for a straight line that is enough, for a curve it is not: it sees only the bend "
            "ahead. Where else could the second point lie?",
        ),
        Mistake(
            "the difference to the left alone",
            lambda f, x, eps: (f(x) - f(x - eps)) / eps,
            "the point ahead of x is missing.",
        ),
        Mistake(
            "divided by the wrong distance",
            lambda f, x, eps: (f(x + eps) - f(x - eps)) / eps,
            "the result is twice what it should be. How far apart are the two points that you "
            "call f at?",
        ),
        Mistake(
            "the wrong sign",
            lambda f, x, eps: (f(x - eps) - f(x + eps)) / (2 * eps),
            "a rising line has a positive slope. Which of the two values has to come first?",
        ),
        Mistake(
            "a product where a quotient belongs",
            lambda f, x, eps: (f(x + eps) - f(x - eps)) / 2 * eps,
            "Python reads a / 2 * eps from left to right. Which parentheses are missing?",
        ),
        Mistake(
            "not divided by anything",
            lambda f, x, eps: f(x + eps) - f(x - eps),
            "a slope is output per input; this is output alone.",
        ),
    ),
)


# gradient


def total(xs: Any) -> Any:
    return 2 * xs[0]


def product(xs: Any) -> Any:
    return xs[0] * xs[1]


def mixed(xs: Any) -> Any:
    return xs[0] * xs[0] * xs[1] + 3 * xs[2] * xs[2] * xs[2]


def exact_gradient(f: Function, xs: list[float], eps: float) -> tuple[list[float], list[float]]:
    """Each slope in fractions; and xs, which stays as it is."""
    fractions, step = [Fraction(x) for x in xs], Fraction(eps)
    slopes = []
    for i in range(len(xs)):
        f_of = [
            f([x + sign * step if j == i else x for j, x in enumerate(fractions)])
            for sign in (1, -1)
        ]
        slopes.append(float((f_of[0] - f_of[1]) / (2 * step)))
    return slopes, xs


def gradient_all_at_once(f: Function, xs: list[float], eps: float) -> list[float]:
    ahead, back = [x + eps for x in xs], [x - eps for x in xs]
    return [(f(ahead) - f(back)) / (2 * eps)] * len(xs)


def gradient_not_put_back(f: Function, xs: list[float], eps: float) -> list[float]:
    slopes = []
    for i in range(len(xs)):
        xs[i] += eps
        ahead = f(xs)
        xs[i] -= 2 * eps
        slopes.append((ahead - f(xs)) / (2 * eps))
    return slopes


def gradient_to_one_side(f: Function, xs: list[float], eps: float) -> list[float]:
    here, slopes = f(xs), []
    for i in range(len(xs)):
        ahead = [x + eps if j == i else x for j, x in enumerate(xs)]
        slopes.append((f(ahead) - here) / eps)
    return slopes


def gradient_of_the_first(f: Function, xs: list[float], eps: float) -> list[float]:
    return exact_gradient(f, xs, eps)[0][:1]


GRADIENT = Exercise(
    "gradient",
    returns="a list of numbers, one for each of xs",
    truth=exact_gradient,
    view=lambda result, f, xs, eps: ([*map(float, result)], xs),
    cases=(
        case(total, [1.0], 0.5, text="gradient(f, xs, 0.5) with f(xs) = 2 xs[0] at xs = [1]"),
        case(
            product,
            [2.0, 5.0],
            0.5,
            text="gradient(f, xs, 0.5) with f(xs) = xs[0] xs[1] at xs = [2, 5]",
        ),
        case(
            mixed,
            [1.0, -2.0, 0.5],
            0.25,
            text="gradient(f, xs, 0.25) with f(xs) = xs[0]^2 xs[1] + 3 xs[2]^3 "
            "at xs = [1, -2, 0.5]",
        ),
    ),
    mistakes=(
        Mistake(
            "all inputs moved at once",
            gradient_all_at_once,
            "every entry comes out the same: the sum of all the slopes. A slope in one input "
            "needs the others held where they are.",
        ),
        Mistake(
            "an input that is not put back",
            gradient_not_put_back,
            "xs itself is changed (shown as the second of the pair), and the next slope is taken "
            "at another point. Whose list is it?",
        ),
        Mistake(
            "differences to one side",
            gradient_to_one_side,
            "right for straight lines, off for curves. How did exercise 1 choose its two points?",
        ),
        Mistake(
            "the first input alone",
            gradient_of_the_first,
            "does the function return within its loop?",
        ),
    ),
)


# relative_error


def exact_error(got: float, wanted: float) -> float:
    if got == wanted:
        return 0.0
    a, b = Fraction(got), Fraction(wanted)
    return float(abs(a - b) / max(abs(a), abs(b)))


RELATIVE_ERROR = Exercise(
    "relative_error",
    returns="a number",
    truth=exact_error,
    cases=(
        case(2.0, 2.0),
        case(3.0, 2.0),
        case(1.0, 4.0),
        case(-4.0, 2.0),
        case(-2.0, -3.0),
        case(0.0, 5.0),
        case(5.0, 0.0),
        case(0.0, 0.0),
    ),
    mistakes=(
        Mistake(
            "0 / 0",
            lambda got, wanted: abs(got - wanted) / max(abs(got), abs(wanted)),
            "what is the larger size of 0 and 0, and what do you do with it?",
        ),
        Mistake(
            "the absolute error",
            lambda got, wanted: abs(got - wanted),
            "an error of 1 is large for a 2 and nothing for a million. What has to be divided by?",
        ),
        Mistake(
            "no absolute value in the numerator",
            lambda got, wanted: (got - wanted) / (max(abs(got), abs(wanted)) or 1.0),
            "a negative error would pass every check that it be small enough.",
        ),
        Mistake(
            "no absolute values in the denominator",
            lambda got, wanted: abs(got - wanted) / (max(got, wanted) or 1.0),
            "how large is -3: larger or smaller than 1? Size has no sign.",
        ),
        Mistake(
            "compared with the wanted number alone",
            lambda got, wanted: abs(got - wanted) / (abs(wanted) or 1.0),
            "the error of (1, 4) and the error of (4, 1) should be the same number.",
        ),
    ),
)

EXERCISES = (SLOPE, GRADIENT, RELATIVE_ERROR)
