"""Draw computation graphs of both engines, as SVG, PNG and pages.

Question: what does the engine record, and what does the backward pass make of it?

Every node shows its value and its gradient, and where all are single numbers every edge shows the
local derivative: a node's gradient is the sum over its outgoing edges of that derivative times the
gradient at the other end. A player is a page on which one steps through the two passes.
"""

from __future__ import annotations

import math
import random
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import tyro
from report import RESULTS

import micro
import tensor
from micro import Value
from tensor import Tensor, nn, optim
from tensor.data import generated_digits
from viz import Drawing, draw, play
from viz.dot import Direction


@dataclass
class Options:
    """Options of the drawing."""

    out: Path = RESULTS / "graphs"
    """the folder that the drawings go to"""
    frames: bool = False
    """write the players' steps too, as PNG for slides, each in a folder of its own"""


@dataclass
class Example:
    """A graph, how it is drawn, and whether it is played.

    Attributes:
        output: what is drawn.
        args: what a program is replayed on.
        title: what the drawing is called.
        parameters: as for ``draw``.
        direction: as for ``draw``.
        forms: by what is added to the name of the file, further options of ``draw``.
        zoom: a node that is opened, in a drawing of its own.
        is_played: whether there is a player.
    """

    output: Any
    title: str
    parameters: Any = None
    direction: Direction = "LR"
    forms: Mapping[str, Mapping[str, Any]] = field(default_factory=lambda: {"": {}})
    zoom: str = ""
    is_played: bool = True
    args: Sequence[Tensor] = ()

    @property
    def look(self) -> dict[str, Any]:
        """Options of drawing and playing."""
        return {
            "parameters": self.parameters,
            "title": self.title,
            "direction": self.direction,
        }


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


def moons_mlp() -> Example:
    """The cross-entropy of a 2-8-2 MLP on two moons, array by array."""
    tensor.manual_seed(0)
    model = nn.Sequential(
        OrderedDict(hidden=nn.Linear(2, 8), tanh=nn.Tanh(), output=nn.Linear(8, 2))
    )
    points, moon = moons(40)
    x, target = Tensor(points, label="points"), Tensor(moon, label="moon")
    loss = nn.functional.cross_entropy(model(x), target)
    loss.label = "loss"
    return Example(loss, "A 2-8-2 MLP on two moons", model, forms={"": {"gradients": True}})


def moons(count: int) -> tuple[Any, Any]:
    """Points on two half circles that reach into each other, and which of them each is on."""
    rng = np.random.default_rng(0)
    moon = np.arange(count) % 2
    angle = math.pi * rng.random(count)
    points = np.stack([np.cos(angle), np.sin(angle)], 1)
    points = np.where(moon[:, None] == 1, [1.0, 0.5] - points, points)
    return (points + rng.normal(0.0, 0.1, points.shape)).astype(np.float32), moon


def mnist_loss() -> Example:
    """The loss of the 784-512-256-10 network on a batch of 128 digits: in boxes, and open."""
    tensor.manual_seed(0)
    model = nn.Sequential(
        OrderedDict(
            hidden1=nn.Linear(784, 512),
            relu1=nn.ReLU(),
            hidden2=nn.Linear(512, 256),
            relu2=nn.ReLU(),
            output=nn.Linear(256, 10),
        )
    )
    images, digits = generated_digits(128, tensor.Generator(0))
    images.label, digits.label = "images", "digits"
    loss = nn.functional.cross_entropy(model(images), digits)
    loss.label = "loss"
    forms = {"_folded": {"gradients": True, "depth": 1, "zoom": True}, "_open": {"gradients": True}}
    return Example(loss, "The loss of the MNIST network", model, forms=forms, is_played=False)


def softmax_cross_entropy() -> Example:
    """The cross-entropy of a row of three scores of class 1, and what is in its softmax."""
    scores = Tensor([[1.0, -0.5, 2.0]], requires_grad=True, dtype="float64", label="scores")
    p = scores.softmax(-1)
    p.label = "p"
    loss = -p[0, 1].log()
    loss.label = "loss"
    forms = {"": {"gradients": True, "zoom": True}}
    return Example(loss, "Softmax and cross-entropy", forms=forms, zoom="softmax")


class Head(nn.Module):
    """A head of causal self-attention."""

    def __init__(self, width: int, size: int) -> None:
        self.query = nn.Linear(width, size, bias=False)
        self.key = nn.Linear(width, size, bias=False)
        self.value = nn.Linear(width, size, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """Look from each of the positions (T, width) at those before it: (T, size)."""
        q, k, v = self.query(x), self.key(x), self.value(x)
        scores = q @ k.transpose(0, 1) / math.sqrt(k.shape[1])
        future = Tensor(np.triu(np.ones(scores.shape, bool), 1), label="future")
        weights = tensor.where(future, -1e9, scores).softmax(-1)
        return weights @ v


def attention_head() -> Example:
    """A head of causal self-attention on four positions."""
    tensor.manual_seed(0)
    head = Head(6, 3)
    x = Tensor(np.random.default_rng(0).normal(size=(4, 6)), dtype="float32", label="x")
    out = head(x)
    out.label = "out"
    return Example(out, "A head of causal attention", head, is_played=False)


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


def program() -> Example:
    """A training step of a 2-4-1 MLP, written down by the ops that it called."""
    step, x, y = training_step()
    traced = tensor.trace(step)(x, y)
    title = "A training step, as it was traced"
    return Example(traced, title, direction="TB", is_played=False, args=(x, y))


def program_folded() -> Example:
    """The same, each module in a box, forward and backward."""
    example = program()
    return replace(example, forms={"": {"depth": 1}})


def program_compiled() -> Example:
    """The same, when the compiler has taken out what is constant, done twice, or not used."""
    step, x, y = training_step()
    compiled = tensor.compile(step)
    compiled(x, y)
    (shorter,) = compiled.programs
    title = "A training step, compiled"
    return Example(shorter, title, direction="TB", is_played=False, args=(x, y))


def training_step() -> tuple[Callable[[Tensor, Tensor], Tensor], Tensor, Tensor]:
    """A step, and a batch to call it with."""
    tensor.manual_seed(0)
    model = nn.Sequential(
        OrderedDict(hidden=nn.Linear(2, 4), tanh=nn.Tanh(), output=nn.Linear(4, 1))
    )
    optimizer = optim.SGD(model.parameters(), lr=0.1)

    def step(x: Tensor, y: Tensor) -> Tensor:
        optimizer.zero_grad()
        difference = model(x) - y
        loss = (difference * difference).mean()
        loss.backward()
        optimizer.step()
        return loss

    points, moon = moons(8)
    targets = 2.0 * moon[:, None] - 1.0
    return step, Tensor(points, label="x"), Tensor(targets, dtype="float32", label="y")


EXAMPLES: tuple[Callable[[], Example], ...] = (
    expression,
    neuron,
    diamond,
    micro_mlp,
    moons_mlp,
    mnist_loss,
    softmax_cross_entropy,
    attention_head,
    not_finite,
    program,
    program_folded,
    program_compiled,
)


def main(options: Options) -> None:
    """Draw everything, and say where it is."""
    options.out.mkdir(parents=True, exist_ok=True)
    for make in EXAMPLES:
        with micro.record_sites(), tensor.record_details():  # for drawings and players to show
            example = make()
        for stem, drawing in drawings(make.__name__, example):
            page = ["_page.html"] if drawing.zooms else []  # where a click opens a node
            for suffix in (".svg", ".png", *page):
                print(f"written: {drawing.save(options.out / f'{stem}{suffix}')}")
        if example.is_played:
            stem = options.out / make.__name__
            frames = stem.with_name(f"{stem.name}_frames") if options.frames else None
            page = play(example.output, stem.with_suffix(".html"), frames=frames, **example.look)
            print(f"written: {page}")


def drawings(name: str, example: Example) -> list[tuple[str, Drawing]]:
    """The drawings of an example, each with the name of its files."""
    found = []
    for form, options in example.forms.items():
        drawing = draw(example.output, *example.args, **example.look, **options)
        found.append((f"{name}{form}", drawing))
        if example.zoom:
            found.append((f"{name}{form}_opened", drawing.zoom(example.zoom)))
    return found


if __name__ == "__main__":
    main(tyro.cli(Options, description=__doc__))
