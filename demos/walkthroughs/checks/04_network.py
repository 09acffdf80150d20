"""The cases and the known mistakes of lesson 4."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from classroom import Exercise, Mistake, case

import micro
from micro import Value


def values(*numbers: float, label: str = "w") -> list[Value]:
    return [Value(number, label=f"{label}{i}") for i, number in enumerate(numbers)]


def with_gradients(result: Any, leaves: list[Value]) -> dict[str, Any]:
    """What a Value is, and its derivatives by the leaves."""
    if not isinstance(result, Value):
        raise TypeError("not a Value")
    found = micro.grad(result, leaves, allow_unused=True) if result.inputs else [None] * len(leaves)
    slopes = [0.0 if g is None else float(g.data) for g in found]
    return {"data": float(result.data), "gradients": slopes}


# neuron


def exact_neuron(w: list[Value], b: Value, x: list[float]) -> dict[str, Any]:
    """From the formula and its derivative."""
    out = math.tanh(sum(wi.data * xi for wi, xi in zip(w, x, strict=True)) + b.data)
    rise = 1 - out * out
    return {"data": out, "gradients": [rise * xi for xi in x] + [rise]}


def weighted(w: list[Value], x: list[float]) -> Any:
    return sum(wi * xi for wi, xi in zip(w, x, strict=True))


NEURON = Exercise(
    "neuron",
    returns="a Value",
    truth=exact_neuron,
    view=lambda result, w, b, x: with_gradients(result, [*w, b]),
    cases=(
        case([], Value(0.5, label="b"), [], text="neuron([], b, []) with b = 0.5"),
        case(
            values(0.5),
            Value(0.25, label="b"),
            [2.0],
            text="neuron(w, b, x) with w = [0.5], b = 0.25, x = [2]",
        ),
        case(
            values(-1.0, 0.5, 0.25),
            Value(0.5, label="b"),
            [0.5, 1.0, -1.0],
            text="neuron(w, b, x) with w = [-1, 0.5, 0.25], b = 0.5, x = [0.5, 1, -1]",
        ),
    ),
    mistakes=(
        Mistake(
            "the bias left out",
            lambda w, b, x: micro.tanh(weighted(w, x) if w else Value(0.0)),
            "without inputs there is still something to add, and it has a gradient.",
        ),
        Mistake(
            "the bias added after the tanh",
            lambda w, b, x: micro.tanh(weighted(w, x) if w else Value(0.0)) + b,
            "the bias moves the point at which the neuron bends; is it bent, too?",
        ),
        Mistake(
            "the bias added once for every input",
            lambda w, b, x: micro.tanh(
                sum((wi * xi + b for wi, xi in zip(w, x, strict=True)), b - b)
            ),
            "how many biases has a neuron with three inputs?",
        ),
        Mistake(
            "no tanh",
            lambda w, b, x: weighted(w, x) + b + 0,
            "this is the sum alone, a straight line.",
        ),
        Mistake(
            "a number instead of a Value",
            lambda w, b, x: exact_neuron(w, b, x)["data"],
            "the number may be right, but it has forgotten how it was made. Work with the Values, "
            "not with their data.",
        ),
        Mistake(
            "a new Value without a past",
            lambda w, b, x: Value(exact_neuron(w, b, x)["data"]),
            "a Value that is made of a number is an input: nothing flows back from it to w and b.",
        ),
    ),
)


# hinge_loss


def exact_hinge(scores: list[Value], targets: list[float]) -> dict[str, Any]:
    n = len(scores)
    margins = [1 - t * s.data for s, t in zip(scores, targets, strict=True)]
    return {
        "data": sum(max(0.0, m) for m in margins) / n,
        "gradients": [-t / n if m > 0 else 0.0 for m, t in zip(margins, targets, strict=True)],
    }


def costs(scores: list[Value], targets: list[float]) -> list[Value]:
    return [micro.relu(1 - t * s) for s, t in zip(scores, targets, strict=True)]


def mean(terms: list[Value]) -> Value:
    return sum(terms, Value(0.0)) / len(terms)


HINGE = Exercise(
    "hinge_loss",
    returns="a Value",
    truth=exact_hinge,
    view=lambda result, scores, targets: with_gradients(result, scores),
    cases=(
        case(values(0.25, label="s"), [1.0], text="hinge_loss([0.25], [1])"),
        case(values(0.25, label="s"), [-1.0], text="hinge_loss([0.25], [-1])"),
        case(values(3.0, label="s"), [1.0], text="hinge_loss([3], [1])"),
        case(
            values(0.5, -0.5, 2.0, -3.0, label="s"),
            [1.0, 1.0, -1.0, -1.0],
            text="hinge_loss([0.5, -0.5, 2, -3], [1, 1, -1, -1])",
        ),
    ),
    mistakes=(
        Mistake(
            "the sum instead of the mean",
            lambda s, t: sum(costs(s, t), Value(0.0)),
            "with twice as many examples the loss, and every gradient, would be twice as large.",
        ),
        Mistake(
            "the wrong sign",
            lambda s, t: mean([micro.relu(1 + y * x) for x, y in zip(s, t, strict=True)]),
            "a score with the sign of its target should cost less, not more.",
        ),
        Mistake(
            "no maximum",
            lambda s, t: mean([1 - y * x for x, y in zip(s, t, strict=True)]),
            "a very good score must not pay for a bad one: the cost of an example is never "
            "negative.",
        ),
        Mistake(
            "no margin",
            lambda s, t: mean([micro.relu(-y * x) for x, y in zip(s, t, strict=True)]),
            "a score of 0.25 has the right sign, but is it right enough to cost nothing?",
        ),
        Mistake(
            "the difference instead of the product",
            lambda s, t: mean([micro.relu(1 - (y - x)) for x, y in zip(s, t, strict=True)]),
            "how target and score go together is in the docstring: look at the sign between them.",
        ),
        Mistake(
            "the maximum taken of the mean",
            lambda s, t: micro.relu(mean([1 - y * x for x, y in zip(s, t, strict=True)])),
            "each example has a cost of its own that is not negative; what comes first, mean or "
            "maximum?",
        ),
    ),
)


# step


def with_grads(*pairs: tuple[float, float]) -> list[Value]:
    made = values(*(data for data, _ in pairs), label="p")
    for value, (_, g) in zip(made, pairs, strict=True):
        value.grad = g
    return made


def state(result: Any, parameters: list[Value], lr: float) -> list[dict[str, Any]]:
    return [{"data": p.data, "grad": p.grad} for p in parameters]


def exact_step(parameters: list[Value], lr: float) -> list[dict[str, Any]]:
    return [{"data": p.data + lr * -p.grad, "grad": p.grad} for p in parameters]


def step_with(move: Callable[[Value, float], object]) -> Callable[[list[Value], float], None]:
    def step(parameters: list[Value], lr: float) -> None:
        for p in parameters:
            move(p, lr)

    return step


def put(p: Value, **attributes: float) -> None:
    for name, number in attributes.items():
        setattr(p, name, number)


def step_of_the_first(parameters: list[Value], lr: float) -> None:
    put(parameters[0], data=parameters[0].data - lr * parameters[0].grad)


STEP = Exercise(
    "step",
    returns="nothing; it sets data",
    truth=exact_step,
    view=state,
    cases=(
        case(with_grads((1.0, 2.0)), 0.25, text="step([p], 0.25) with p.data = 1, p.grad = 2"),
        case(
            with_grads((0.5, -1.0), (-2.0, 0.0), (3.0, 8.0)),
            0.5,
            text="step(ps, 0.5) with data 0.5, -2, 3 and gradients -1, 0, 8",
        ),
    ),
    mistakes=(
        Mistake(
            "uphill",
            step_with(lambda p, lr: put(p, data=p.data + lr * p.grad)),
            "the gradient says where the loss grows.",
        ),
        Mistake(
            "the learning rate left out",
            step_with(lambda p, lr: put(p, data=p.data - p.grad)),
            "how long is the step, and who says so?",
        ),
        Mistake(
            "the variable changed instead of the parameter",
            step_with(lambda p, lr: p - lr * p.grad),
            "nothing has moved. p = p - ... gives the name p to a new Value; what does the model "
            "hold?",
        ),
        Mistake(
            "the gradient cleared",
            step_with(lambda p, lr: put(p, data=p.data - lr * p.grad, grad=0.0)),
            "the step is right, but the gradients are to stay: clearing is another function's "
            "task.",
        ),
        Mistake(
            "the gradient changed instead of the data",
            step_with(lambda p, lr: put(p, grad=p.grad - lr * p.data)),
            "which of the two attributes is the parameter, and which says where to go?",
        ),
        Mistake(
            "the first parameter alone",
            step_of_the_first,
            "does the function return within its loop?",
        ),
    ),
)


# descend


def parabola(w: Value) -> Value:
    return (w - 3) ** 2


def quartic(w: Value) -> Value:
    return w**4 - w


def exact_descent(loss: Any, w: Value, lr: float, steps: int) -> float:
    """With the derivatives from school."""
    slope = {parabola: lambda x: 2 * (x - 3), quartic: lambda x: 4 * x**3 - 1}[loss]
    x = w.data
    for _ in range(steps):
        x -= lr * slope(x)
    return x


def stale() -> Value:
    w = Value(1.0, label="w")
    w.grad = 5.0
    return w


def descend_with(
    zero: str = "each", sign: float = -1.0, more: int = 0, graph: str = "each"
) -> Callable[..., float]:
    def descend(loss: Any, w: Value, lr: float, steps: int) -> float:
        cost = loss(w)
        if zero == "first":
            w.grad = 0.0
        for _ in range(steps + more):
            if graph == "each":
                cost = loss(w)
            if zero == "each":
                w.grad = 0.0
            cost.backward()
            w.data += sign * lr * w.grad
        return w.data

    return descend


def descend_once(loss: Any, w: Value, lr: float, steps: int) -> float:
    return descend_with()(loss, w, lr * steps, 1)


DESCEND = Exercise(
    "descend",
    returns="a number",
    truth=exact_descent,
    cases=(
        case(
            parabola,
            Value(1.0, label="w"),
            0.25,
            0,
            text="descend(loss, w, 0.25, 0) with loss(w) = (w - 3)^2 at w = 1",
        ),
        case(
            parabola,
            Value(1.0, label="w"),
            0.25,
            1,
            text="descend(loss, w, 0.25, 1) with loss(w) = (w - 3)^2 at w = 1",
        ),
        case(
            parabola,
            Value(1.0, label="w"),
            0.125,
            3,
            text="descend(loss, w, 0.125, 3) with loss(w) = (w - 3)^2 at w = 1",
        ),
        case(
            quartic,
            stale(),
            0.0625,
            4,
            text="descend(loss, w, 0.0625, 4) with loss(w) = w^4 - w at w = 1, w.grad = 5",
        ),
    ),
    mistakes=(
        Mistake(
            "gradients that are never cleared",
            descend_with(zero="never"),
            "the first step is right, the second is pushed by the first's gradient, too. What "
            "does backward() do to a leaf that has a gradient already?",
        ),
        Mistake(
            "gradients cleared once",
            descend_with(zero="first"),
            "they are clean at the start of the first step. And of the second?",
        ),
        Mistake(
            "uphill",
            descend_with(sign=1.0),
            "the loss grows from step to step.",
        ),
        Mistake(
            "one step too many",
            descend_with(more=1),
            "with steps = 0, nothing should move.",
        ),
        Mistake(
            "one step too few",
            descend_with(more=-1),
            "where does the counting start, and is the last one taken?",
        ),
        Mistake(
            "one large step",
            descend_once,
            "ten steps are not one step of ten times the length: the slope changes on the way.",
        ),
        Mistake(
            "the loss built once",
            descend_with(graph="once"),
            "its nodes still hold the numbers of the old w. Where in the loop does the new w "
            "enter?",
        ),
    ),
)

EXERCISES = (NEURON, HINGE, STEP, DESCEND)
