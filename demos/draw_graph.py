"""Draw computation graphs of both engines after a backward pass, as SVG and PNG.

Question: what does the engine record, and what does the backward pass make of it?

Every node shows its value and its gradient, and in the scalar graphs every edge shows the
local derivative: a node's gradient is the sum over its outgoing edges of that derivative
times the gradient at the other end.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import tyro
from report import RESULTS

import micro
import tensor
from micro import Value
from tensor import Tensor, nn
from viz import Drawing, draw


@dataclass
class Options:
    """Options of the drawing."""

    out: Path = RESULTS / "graphs"
    """the folder that the drawings go to"""


def expression() -> Drawing:
    """A few ops on scalars, one result used twice."""
    a, b, c = Value(2.0, label="a"), Value(-3.0, label="b"), Value(10.0, label="c")
    d = a * b + c
    d.label = "d"
    y = (d * d).log()
    y.label = "y"
    y.backward()
    return draw(y, title="y = log(d * d), d = a * b + c")


def neuron() -> Drawing:
    """One neuron with two inputs."""
    x = [Value(2.0, label="x1"), Value(0.0, label="x2")]
    w = [Value(-3.0, label="w1"), Value(1.0, label="w2")]
    b = Value(6.5, label="b")
    out = (x[0] * w[0] + x[1] * w[1] + b).tanh()
    out.label = "out"
    out.backward()
    return draw(out, parameters=[*w, b], title="A neuron: out = tanh(w . x + b)")


def diamond() -> Drawing:
    """The graph on which only a backward pass in topological order is right."""
    x = Value(2.0, label="x")
    y = 3 * x
    y.label = "y"
    c = 2 * y + 5 * y
    c.label = "c"
    c.backward()
    return draw(c, title="The diamond: y = 3 x, c = 2 y + 5 y")


def micro_mlp() -> Drawing:
    """The squared error of a 2-2-1 MLP at two points, number by number."""
    model = micro.nn.MLP(2, [2, 1], rng=random.Random(7))
    errors = []
    for i, (point, target) in enumerate((((1.0, -2.0), 1.0), ((-1.5, 0.5), -1.0))):
        x = [Value(coordinate, label=f"x{i}[{j}]") for j, coordinate in enumerate(point)]
        errors.append((model(x) - target) ** 2)
    loss = (errors[0] + errors[1]) / 2
    loss.label = "loss"
    loss.backward()
    return draw(
        loss,
        parameters=model,
        direction="TB",
        title="A 2-2-1 MLP at two points (micro)",
    )


def tensor_mlp() -> Drawing:
    """The cross-entropy of a 2-8-3 MLP on a batch of four, array by array."""
    tensor.manual_seed(0)
    model = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 3))
    points = np.array([[1.0, -2.0], [-1.5, 0.5], [0.3, 0.8], [2.0, 1.0]], dtype=np.float32)
    x, target = Tensor(points, label="x"), Tensor(np.array([0, 1, 2, 0]), label="target")
    loss = nn.functional.cross_entropy(model(x), target)
    loss.label = "loss"
    loss.backward(retain_graph=True)
    return draw(loss, parameters=model, title="A 2-8-3 MLP on four points (tensor)")


DRAWINGS: tuple[Callable[[], Drawing], ...] = (expression, neuron, diamond, micro_mlp, tensor_mlp)


def main(options: Options) -> None:
    """Draw everything, and say where it is."""
    options.out.mkdir(parents=True, exist_ok=True)
    for make in DRAWINGS:
        drawing = make()
        for suffix in (".svg", ".png"):
            print(f"written: {drawing.save(options.out / f'{make.__name__}{suffix}')}")


if __name__ == "__main__":
    main(tyro.cli(Options, description=__doc__))
