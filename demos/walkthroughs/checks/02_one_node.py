"""The cases and the known mistakes of lesson 2."""

from __future__ import annotations

from typing import Any

from classroom import Exercise, Mistake, case

import micro
from micro import Value

# partials


def all_four(op: str, a: float, b: float) -> tuple[float, float]:
    table = {
        "add": (1.0, 1.0),
        "sub": (1.0, -1.0),
        "mul": (b, a),
        "div": (1 / b, -a / b**2),
    }
    return table[op]


def engine_partials(op: str, a: float, b: float) -> tuple[float, float]:
    """What a backward pass through the one op gives."""
    x, y = Value(a), Value(b)
    dx, dy = micro.grad(getattr(micro, op)(x, y), (x, y))
    return dx.data, dy.data


def changed(**entries: Any) -> Any:
    """The engine's partials, but others for some ops."""

    def partials(op: str, a: float, b: float) -> tuple[float, float]:
        return entries[op](a, b) if op in entries else engine_partials(op, a, b)

    return partials


PARTIALS = Exercise(
    "partials",
    returns="two numbers, the derivatives by a and by b",
    truth=engine_partials,
    view=lambda result, *_: tuple(map(float, result)),
    cases=(
        case("add", 2.0, 5.0),
        case("sub", 2.0, 5.0),
        case("mul", 2.0, 5.0),
        case("div", 1.0, 2.0),
        case("div", 3.0, -2.0),
        case("mul", -1.5, 0.0),
    ),
    mistakes=(
        Mistake(
            "every op worked out, whichever is asked for",
            all_four,
            "b may be 0 in a product. What is computed before the op is looked at?",
        ),
        Mistake(
            "the wrong sign in a difference",
            changed(sub=lambda a, b: (1.0, 1.0)),
            "a - b falls when b grows.",
        ),
        Mistake(
            "the two derivatives of a product exchanged",
            changed(mul=lambda a, b: (a, b)),
            "let b be 0: does a * b then move when a moves? What, then, is the derivative by a?",
        ),
        Mistake(
            "the product's derivatives are taken for those of a sum",
            changed(mul=lambda a, b: (1.0, 1.0)),
            "2 * 5 moves by 5 when the 2 becomes a 3, not by 1.",
        ),
        Mistake(
            "the wrong sign in a quotient",
            changed(div=lambda a, b: (1 / b, a / b**2)),
            "does a / b rise or fall when b grows?",
        ),
        Mistake(
            "the square in a quotient",
            changed(div=lambda a, b: (1 / b, -a / b)),
            "1 / b is b to the power -1; the rule for powers lowers that by one more.",
        ),
        Mistake(
            "a quotient that depends on its numerator twice",
            changed(div=lambda a, b: (a / b, -a / b**2)),
            "a / b is a times a number that does not depend on a. What is the slope of that line?",
        ),
    ),
)


# tanh_partial


def engine_tanh(out: float) -> float:
    """The engine's rule asks for the input, so go back to it."""
    import math

    x = Value(math.atanh(out))
    return float(micro.grad(micro.tanh(x), x).data)


TANH = Exercise(
    "tanh_partial",
    returns="a number",
    truth=engine_tanh,
    cases=(case(0.0), case(0.5), case(-0.5), case(0.96)),
    mistakes=(
        Mistake(
            "without the square",
            lambda out: 1 - out,
            "tanh is as steep at -1 as it is at 1, and so is its derivative the same for out and "
            "-out.",
        ),
        Mistake(
            "tanh taken a second time",
            lambda out: 1 - micro.tanh(Value(out)).data ** 2,
            "out is the result already, not the input.",
        ),
        Mistake(
            "the wrong sign",
            lambda out: out * out - 1,
            "tanh rises everywhere: can its derivative be negative?",
        ),
        Mistake(
            "the derivative of the sigmoid",
            lambda out: out * (1 - out),
            "that belongs to another function in the shape of an S. At out = 0 it would be flat.",
        ),
        Mistake(
            "the sum of 1 and the square",
            lambda out: 1 + out * out,
            "tanh flattens out towards 1 and -1. Does your derivative become small there?",
        ),
    ),
)


# along_chain


def chain(length: int, start: float = 0.5) -> Value:
    """A chain of ops in turn."""
    x = Value(start, label="x")
    for i in range(length):
        x = (micro.sin, micro.neg, micro.exp, micro.atan)[i % 4](x)
    return x


def down_to(y: Value) -> Value:
    while y.inputs:
        y = y.inputs[0]
    return y


def engine_chain(y: Value) -> float:
    x = down_to(y)
    return float(micro.grad(y, x).data) if y.inputs else 1.0


def chain_summed(y: Value) -> float:
    total = 0.0
    while y.inputs:
        total += y.partials()[0]
        y = y.inputs[0]
    return total


def chain_summed_from_1(y: Value) -> float:
    return 1.0 + chain_summed(y)


def chain_by_recursion(y: Value) -> float:
    return y.partials()[0] * chain_by_recursion(y.inputs[0]) if y.inputs else 1.0


def chain_of_one(y: Value) -> float:
    return y.partials()[0] if y.inputs else 1.0


def chain_without_the_last(y: Value) -> float:
    product = 1.0
    while y.inputs and y.inputs[0].inputs:
        product *= y.partials()[0]
        y = y.inputs[0]
    return product


def chain_from_0(y: Value) -> float:
    product = 0.0
    while y.inputs:
        product *= y.partials()[0]
        y = y.inputs[0]
    return product


CHAIN = Exercise(
    "along_chain",
    returns="a number",
    truth=engine_chain,
    cases=(
        case(chain(0), text="along_chain(x), x itself"),
        case(chain(1), text="along_chain(y) with y = sin(x), x = 0.5"),
        case(chain(2), text="along_chain(y) with y = -sin(x), x = 0.5"),
        case(chain(4, 1.2), text="along_chain(y) with y = atan(exp(-sin(x))), x = 1.2"),
        case(chain(4000), text="along_chain(y) with y a chain of 4,000 ops"),
    ),
    mistakes=(
        Mistake(
            "local derivatives added",
            chain_summed,
            "think of the gears: two in a row, each twice as fast as the one before it. How fast "
            "is the last?",
        ),
        Mistake(
            "local derivatives added to a 1",
            chain_summed_from_1,
            "starting from 1 is right; but along a chain, the next number is not added to it.",
        ),
        Mistake(
            "recursion",
            chain_by_recursion,
            "a function that calls itself for every Value ends at Python's limit of about 1,000 "
            "calls. The same walk can be a loop that moves y.",
        ),
        Mistake(
            "one link alone",
            chain_of_one,
            "that is how y moves with the Value next to it, which need not be x.",
        ),
        Mistake(
            "the link to x left out",
            chain_without_the_last,
            "where does your loop stop, and has it then used the derivative by x?",
        ),
        Mistake(
            "a product that starts at 0",
            chain_from_0,
            "0 times anything stays 0. Which number changes nothing in a product?",
        ),
    ),
)

EXERCISES = (PARTIALS, TANH, CHAIN)
