"""Draw computation graphs of both engines after a backward pass, as SVG, PNG and players.

Question: what does the engine record, and what does the backward pass make of it?

Every node shows its value and its gradient, and in the scalar graphs every edge shows the
local derivative: a node's gradient is the sum over its outgoing edges of that derivative
times the gradient at the other end. A player is a page on which one steps through the two
passes.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import tyro
from report import RESULTS

import micro
import tensor
from micro import Value
from tensor import Tensor, nn
from viz import draw, play
from viz.dot import Direction


@dataclass
class Options:
    """Options of the drawing."""

    out: Path = RESULTS / "graphs"
    """the folder that the drawings go to"""
    frames: bool = False
    """write the players' steps too, as PNG for slides, each in a folder of its own"""


class Example(NamedTuple):
    """A graph, and how it is drawn and played."""

    output: Value | Tensor
    title: str
    parameters: Any = None
    direction: Direction = "LR"


def expression() -> Example:
    """A few ops on scalars, one result used twice."""
    a, b, c = Value(2.0, label="a"), Value(-3.0, label="b"), Value(10.0, label="c")
    d = a * b + c
    d.label = "d"
    y = (d * d).log()
    y.label = "y"
    y.backward()
    return Example(y, "y = log(d * d), d = a * b + c")


def neuron() -> Example:
    """One neuron with two inputs."""
    x = [Value(2.0, label="x1"), Value(0.0, label="x2")]
    w = [Value(-3.0, label="w1"), Value(1.0, label="w2")]
    b = Value(6.5, label="b")
    out = (x[0] * w[0] + x[1] * w[1] + b).tanh()
    out.label = "out"
    out.backward()
    return Example(out, "A neuron: out = tanh(w . x + b)", [*w, b])


def diamond() -> Example:
    """The graph on which only a backward pass in topological order is right."""
    x = Value(2.0, label="x")
    y = 3 * x
    y.label = "y"
    c = 2 * y + 5 * y
    c.label = "c"
    c.backward()
    return Example(c, "The diamond: y = 3 x, c = 2 y + 5 y")


def micro_mlp() -> Example:
    """The squared error of a 2-2-1 MLP at two points, number by number."""
    model = micro.nn.MLP(2, [2, 1], rng=random.Random(7))
    errors = []
    for i, (point, target) in enumerate((((1.0, -2.0), 1.0), ((-1.5, 0.5), -1.0))):
        x = [Value(coordinate, label=f"x{i}[{j}]") for j, coordinate in enumerate(point)]
        errors.append((model(x) - target) ** 2)
    loss = (errors[0] + errors[1]) / 2
    loss.label = "loss"
    loss.backward()
    return Example(loss, "A 2-2-1 MLP at two points (micro)", model, "TB")


def tensor_mlp() -> Example:
    """The cross-entropy of a 2-8-3 MLP on a batch of four, array by array."""
    tensor.manual_seed(0)
    model = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 3))
    points = np.array([[1.0, -2.0], [-1.5, 0.5], [0.3, 0.8], [2.0, 1.0]], dtype=np.float32)
    x, target = Tensor(points, label="x"), Tensor(np.array([0, 1, 2, 0]), label="target")
    loss = nn.functional.cross_entropy(model(x), target)
    loss.label = "loss"
    loss.backward(retain_graph=True)
    return Example(loss, "A 2-8-3 MLP on four points (tensor)", model)


def not_finite() -> Example:
    """A log of 0, and what becomes of it: every node that is not finite, and the first ones."""
    x, w = Value(0.0, label="x"), Value(2.0, label="w")
    p = x * w
    p.label = "p"
    cost = -p.log()
    out = cost + w * w
    out.label = "out"
    out.backward()
    return Example(out, "A log of 0: out = -log(x * w) + w * w")


EXAMPLES: tuple[Callable[[], Example], ...] = (
    expression,
    neuron,
    diamond,
    micro_mlp,
    tensor_mlp,
    not_finite,
)


def main(options: Options) -> None:
    """Draw everything, and say where it is."""
    options.out.mkdir(parents=True, exist_ok=True)
    for make in EXAMPLES:
        with micro.record_sites(), tensor.record_sites():  # for the players to show
            output, title, parameters, direction = make()
        stem, look = options.out / make.__name__, {"parameters": parameters, "title": title}
        drawing = draw(output, direction=direction, **look)
        for suffix in (".svg", ".png"):
            print(f"written: {drawing.save(stem.with_suffix(suffix))}")
        frames = stem.with_name(f"{make.__name__}_frames") if options.frames else None
        page = play(output, stem.with_suffix(".html"), direction=direction, frames=frames, **look)
        print(f"written: {page}")


if __name__ == "__main__":
    main(tyro.cli(Options, description=__doc__))
