"""The cases and the known mistakes of lesson 12."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from classroom import Exercise, Mistake, case

import micro
import tensor
from micro import Value, grad
from tensor import Tensor

Function = Callable[[Any], Any]


# derivative


def cube(x: Any) -> Any:
    return x**3


def twice_exp(x: Value) -> Value:
    return micro.exp(2 * x)


def product(x: Value) -> Value:
    return x * micro.sin(x)


def from_school(f: Function, x: float, n: int) -> float:
    """From the formulas."""
    if f is cube:
        return [x**3, 3 * x**2, 6 * x, 6.0][n]
    if f is twice_exp:
        return 2.0**n * math.exp(2 * x)
    s, c = math.sin(x), math.cos(x)
    return [x * s, s + x * c, 2 * c - x * s, -3 * s - x * c][n]


def without_graph(f: Function, x: float, n: int) -> float:
    at = Value(x)
    y = f(at)
    for _ in range(n):
        y = grad(y, at)
    return y.data


def first_again(f: Function, x: float, n: int) -> float:
    return from_school(f, x, min(n, 1))


def power_of_first(f: Function, x: float, n: int) -> float:
    return from_school(f, x, 1) ** n if n else from_school(f, x, 0)


DERIVATIVE = Exercise(
    "derivative",
    returns="a number",
    truth=from_school,
    cases=(
        case(cube, 2.0, 0, text="derivative(f, 2, 0) with f(x) = x^3"),
        case(cube, 2.0, 1, text="derivative(f, 2, 1) with f(x) = x^3"),
        case(cube, 2.0, 2, text="derivative(f, 2, 2) with f(x) = x^3"),
        case(cube, 2.0, 3, text="derivative(f, 2, 3) with f(x) = x^3"),
        case(twice_exp, 0.5, 4, text="derivative(f, 0.5, 4) with f(x) = exp(2 x)"),
        case(product, 1.0, 3, text="derivative(f, 1, 3) with f(x) = x sin(x)"),
    ),
    mistakes=(
        Mistake(
            "derivatives that are not recorded",
            without_graph,
            "the first derivative is a finished number unless grad is told that it will be "
            "differentiated again.",
        ),
        Mistake(
            "the first derivative again and again",
            first_again,
            "what do you differentiate in the second round: f, or what the first round gave?",
        ),
        Mistake(
            "a power of the first derivative",
            power_of_first,
            "differentiating twice is not squaring: the second derivative of a line is 0.",
        ),
        Mistake(
            "one round too many",
            lambda f, x, n: from_school(f, x, n + 1) if n < 3 else math.nan,
            "for n = 0 the value of f was asked for.",
        ),
    ),
)


# newton


def parabola(x: Value) -> Value:
    return 3 * (x - 2) ** 2 + 1


def valley(x: Value) -> Value:
    return micro.exp(x) - 2 * x


def slopes_of(f: Function, x: float) -> tuple[float, float, float]:
    if f is parabola:
        return 3 * (x - 2) ** 2 + 1, 6 * (x - 2), 6.0
    return math.exp(x) - 2 * x, math.exp(x) - 2, math.exp(x)


def newton_with(move: Callable[[float, float, float], float]) -> Callable[..., float]:
    def newton(f: Function, x: float, steps: int) -> float:
        for _ in range(steps):
            x = x - move(*slopes_of(f, x))
        return x

    return newton


def newton_from_the_start(f: Function, x: float, steps: int) -> float:
    """Derivatives taken once."""
    _, first, second = slopes_of(f, x)
    return x - steps * first / second


def newton_one(f: Function, x: float, steps: int) -> float:
    return newton_with(lambda y, d, dd: d / dd)(f, x, min(steps, 1))


NEWTON = Exercise(
    "newton",
    returns="a number",
    truth=newton_with(lambda y, d, dd: d / dd),
    cases=(
        case(parabola, 0.0, 0, text="newton(f, 0, 0) with f(x) = 3 (x - 2)^2 + 1"),
        case(parabola, 0.0, 1, text="newton(f, 0, 1) with f(x) = 3 (x - 2)^2 + 1"),
        case(valley, 0.0, 1, text="newton(f, 0, 1) with f(x) = exp(x) - 2 x"),
        case(valley, 0.0, 4, text="newton(f, 0, 4) with f(x) = exp(x) - 2 x"),
    ),
    mistakes=(
        Mistake(
            "the way to a zero instead of a minimum",
            newton_with(lambda y, d, dd: y / d),
            "f / f' leads to where f is 0. Of which function is a minimum of f a zero?",
        ),
        Mistake(
            "the wrong sign",
            newton_with(lambda y, d, dd: -d / dd),
            "on a parabola one step should lead to the bottom; this goes as far to the other side.",
        ),
        Mistake(
            "gradient descent",
            newton_with(lambda y, d, dd: d),
            "the first derivative knows the direction. What tells how far?",
        ),
        Mistake(
            "multiplied instead of divided",
            newton_with(lambda y, d, dd: d * dd),
            "where the curve bends strongly, the bottom is near: the step is short.",
        ),
        Mistake(
            "derivatives of the first point alone",
            newton_from_the_start,
            "every step stands at another x. Where are its derivatives taken?",
        ),
        Mistake(
            "one step alone",
            newton_one,
            "does the function return within its loop?",
        ),
    ),
)


# hessian_times


def mixed(xs: Any) -> Any:
    return xs[0] * xs[0] * xs[1]


def bowl(xs: Any) -> Any:
    return 3 * xs[0] * xs[0] + xs[1] * xs[1]


def alone(xs: Any) -> Any:
    return xs[0] ** 3


def three(xs: Any) -> Any:
    return xs[0] * xs[1] * xs[2] + xs[2] ** 3


def engine_hessian(f: Function, xs: list[float]) -> list[list[float]]:
    """From the other engine, in full."""
    found = tensor.hessian(f, Tensor(xs, dtype="float64")).tolist()
    return list(found)


def engine_product(f: Function, xs: list[float], v: list[float]) -> list[float]:
    return [sum(h * vi for h, vi in zip(row, v, strict=True)) for row in engine_hessian(f, xs)]


def diagonal(f: Function, xs: list[float], v: list[float]) -> list[float]:
    rows = engine_hessian(f, xs)
    return [rows[i][i] * vi for i, vi in enumerate(v)]


def row_sums(f: Function, xs: list[float], v: list[float]) -> list[float]:
    return [sum(row) for row in engine_hessian(f, xs)]


def scaled_rows(f: Function, xs: list[float], v: list[float]) -> list[float]:
    return [sum(row) * vi for row, vi in zip(engine_hessian(f, xs), v, strict=True)]


def gradient_times(f: Function, xs: list[float], v: list[float]) -> list[float]:
    at = [Value(x) for x in xs]
    return [g.data * vi for g, vi in zip(grad(f(at), at), v, strict=True)]


def unrecorded(f: Function, xs: list[float], v: list[float]) -> list[float]:
    at = [Value(x) for x in xs]
    along = sum((g * vi for g, vi in zip(grad(f(at), at), v, strict=True)), Value(0.0))
    return [h.data for h in grad(along, at)]


HESSIAN = Exercise(
    "hessian_times",
    returns="a list of numbers",
    truth=engine_product,
    view=lambda result, *_: [float(x) for x in result],
    cases=(
        case(alone, [2.0], [1.0], text="hessian_times(f, [2], [1]) with f(xs) = xs[0]^3"),
        case(alone, [2.0], [5.0], text="hessian_times(f, [2], [5]) with f(xs) = xs[0]^3"),
        case(
            bowl,
            [1.0, 2.0],
            [1.0, 10.0],
            text="hessian_times(f, [1, 2], [1, 10]) with f(xs) = 3 xs[0]^2 + xs[1]^2",
        ),
        case(
            mixed,
            [1.0, 3.0],
            [1.0, 10.0],
            text="hessian_times(f, [1, 3], [1, 10]) with f(xs) = xs[0]^2 xs[1]",
        ),
        case(
            three,
            [1.0, 2.0, -1.0],
            [0.5, -1.0, 2.0],
            text="hessian_times(f, [1, 2, -1], [0.5, -1, 2]) with f(xs) = xs[0] xs[1] xs[2] "
            "+ xs[2]^3",
        ),
    ),
    mistakes=(
        Mistake(
            "the diagonal alone",
            diagonal,
            "the first derivative by xs[0] can also depend on xs[1]; that is what the entries off "
            "the diagonal are.",
        ),
        Mistake(
            "v left out",
            row_sums,
            "this is H times a vector of ones.",
        ),
        Mistake(
            "v multiplied in at the end",
            scaled_rows,
            "v has to be in the number that is differentiated the second time, before it is "
            "differentiated.",
        ),
        Mistake(
            "the gradient instead of the Hessian",
            gradient_times,
            "that was differentiated once.",
        ),
        Mistake(
            "a gradient that is not recorded",
            unrecorded,
            "the gradient has forgotten the xs. Which option makes grad keep them?",
        ),
    ),
)

EXERCISES = (DERIVATIVE, NEWTON, HESSIAN)
