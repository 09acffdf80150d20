"""Records that belong to no engine, and graphs made of them."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

GOLDEN = Path(__file__).with_name("golden")


@dataclass(eq=False)
class Fake:
    """All that can be drawn about an object."""

    op: str = ""
    inputs: Sequence[Any] = ()
    attrs: Mapping[str, Any] = field(default_factory=dict)
    label: str | None = None
    data: Any = None
    grad: Any = None
    shape: tuple[int, ...] | None = None
    dtype: Any = None
    symbol: str | None = None
    is_constant: bool = False
    is_parameter: bool = False
    is_missing: bool = False
    module: str = ""
    local: Sequence[Any] = ()

    def partials(self) -> Sequence[Any]:
        return self.local


def array(data: Any, label: str | None = None, **others: Any) -> Fake:
    data = np.asarray(data)
    return Fake(label=label, data=data, shape=data.shape, dtype=data.dtype, **others)


def square() -> Fake:
    x = Fake(label="x", data=3.0, grad=6.0)
    return Fake("mul", (x, x), symbol="*", data=9.0, grad=1.0, local=(3.0, 3.0))


def every_kind() -> Fake:
    x = array([[1.0, -2.0]], "x", is_constant=True)
    x.data = None
    w = array([[0.5], [0.25]], "w", grad=np.array([[1.0], [-2.0]]), is_parameter=True)
    product = Fake("matmul", (x, w), symbol="@", shape=(1, 1), dtype=np.dtype("float64"))
    total = Fake("sum", (product,), {"dim": (0, 1), "keepdim": False}, shape=(), dtype="float64")
    two = Fake(data=2, is_constant=True)
    return Fake("mul", (total, two), label="loss", data=0.0, grad=1.0, local=(2.0, None))


def not_finite() -> Fake:
    x = Fake(label="x", data=0.0, grad=math.nan)
    logarithm = Fake("log", (x,), data=-math.inf, grad=0.0, local=(math.inf,))
    values = array([1.0, math.nan, math.inf, math.nan], "values", is_parameter=True)
    return Fake("mul", (logarithm, values), label="y", data=math.nan, grad=1.0)


def chain(length: int, op: str = "add") -> Fake:
    out = Fake(label="x", data=0.0, grad=1.0)
    for i in range(length):
        out = Fake(op, (out, Fake(data=1.0, is_constant=True)), data=i + 1.0, grad=1.0)
    return out


def tangle(nodes: int, reach: int = 20) -> Fake:
    """A graph in which nothing is repeated, so that nothing but a budget folds it."""
    made, rng = [Fake(label="x")], random.Random(7)
    for i in range(1, nodes):
        other = made[max(0, i - 1 - rng.randrange(reach))]
        made.append(Fake(("mul", "add", "sub")[i % 3], (made[-1], other)))
    return made[-1]


def folded_chain() -> Fake:
    return Fake("mul", (chain(40), Fake(label="k", data=2.0)), label="y", data=80.0, grad=1.0)


def network(blocks: int) -> Fake:
    """A stem, some blocks of three ops with weights of their own, and a head, each a module."""
    out = Fake("linear", (array([1.0], "x"), array([1.0], "w", is_parameter=True)), module="stem")
    for i in range(blocks):
        name = f"blocks.{i}"
        gain = Fake(label=f"{name}.gain", is_parameter=True, data=1.0 + i)
        normed = Fake("norm", (out, gain), module=f"{name}.norm", data=0.5)
        out = Fake("add", (out, Fake("relu", (normed,), module=name)), module=name, data=1.0)
    return Fake("sum", (out,), module="head", label="y", data=2.0, grad=1.0)


# By the name of a file in golden/: the graph, and how many nodes are drawn.
GRAPHS: Mapping[str, tuple[Callable[[], Fake], int]] = {
    "square": (square, 150),
    "every_kind": (every_kind, 150),
    "not_finite": (not_finite, 150),
    "folded_chain": (folded_chain, 10),
    "budget": (lambda: tangle(60), 8),
    "modules": (lambda: network(2), 150),
    "folded_modules": (lambda: network(4), 12),
    "repeated_modules": (lambda: network(12), 9),
}

NASTY_LABELS = (
    '{ } | < > " \\',
    "a\\nb \\N \\G \\l",
    "&lt; &amp; &#65; &",
    "<b>bold</b>",
    "100 % %s %d",
    "ends in \\",
    '\\"quoted\\"',
    "$x^2$ _a_ `c`",
    "∂ é 日本語 🙂",
    "two  spaces,   three",
    " leading and trailing ",
    "--",
    "->",
    "graph",
    "]]>",
    "<",
    "tab\there",
)
