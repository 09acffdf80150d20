"""Computations to be played, what the engines say of them, and what a page has of them."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable, Mapping
from html.parser import HTMLParser
from pathlib import Path
from typing import Any, Final

import numpy as np

import micro
import tensor
from micro import Value
from tensor import Tensor, nn

Output = Any  # a Value or a Tensor


def expression() -> Output:
    a, b, c = Value(2.0, label="a"), Value(-3.0, label="b"), Value(10.0, label="c")
    d = a * b + c
    d.label = "d"
    y = (d * d).log()
    y.label = "y"
    return y


def diamond() -> Output:
    x = Value(2.0, label="x")
    y = 3 * x
    y.label = "y"
    return 2 * y + 5 * y


def scalar_mlp() -> Output:
    model = micro.nn.MLP(2, [3, 1], rng=random.Random(3))
    return ((model([Value(0.5, label="p"), Value(-1.5, label="q")]) - 1.0) ** 2).tanh()


def powers() -> Output:
    """Every number twice, and rules that are ints, lambdas and functions."""
    x = Value(0.7, label="x")
    y = x**3 + x.sin() * x.exp() - x.gelu() / (x + 2).sqrt()
    return y.maximum(x).clip(min=-5.0) * x.relu()


def array_mlp() -> Output:
    tensor.manual_seed(0)
    model = nn.Sequential(nn.Linear(2, 4), nn.Tanh(), nn.Linear(4, 3))
    x = Tensor(np.array([[1.0, -2.0], [0.5, 0.25]]), dtype="float32", label="x")
    return nn.functional.cross_entropy(model(x), Tensor(np.array([0, 2]), label="target"))


def broadcast() -> Output:
    """One leaf used three times, repeated once by broadcasting; every sum has several parts."""
    t = Tensor([[0.5], [-1.25]], requires_grad=True, dtype="float64", label="t")
    w = Tensor([[1.0, -2.0, 0.25]], requires_grad=True, dtype="float64", label="w")
    weights = np.array([[0.3, -0.7, 1.1], [0.9, 0.2, -0.4]])
    return ((t * w + t.exp() - t / 3) * Tensor(weights)).sum()


def pieces() -> Output:
    """Ops of any number of operands, and a leaf that is used five times."""
    t = Tensor(np.arange(6.0).reshape(2, 3) - 2.5, requires_grad=True, label="t")
    rows = tensor.cat([t, t * 2], 0)[[0, 0, 3]]
    return (rows * tensor.stack([t[0], t[1], t[0]])).sum()


GRAPHS: Final[Mapping[str, Callable[[], Output]]] = {
    make.__name__: make
    for make in (expression, diamond, scalar_mlp, powers, array_mlp, broadcast, pieces)
}


def numbers(x: Any) -> Any:
    """A number or array as plain Python: all digits, and nothing that changes later."""
    x = getattr(x, "data", x) if isinstance(x, Value | Tensor) else x
    return x.tolist() if isinstance(x, np.ndarray) else x


def observed(output: Output) -> list[dict[str, Any]]:
    """What the engine reports of a backward pass, written down apart from viz."""
    seen: list[dict[str, Any]] = []

    def observe(node: Any, argument: int, **said: Any) -> None:
        receiver = node.inputs[argument]
        kept = {name: numbers(said[name]) for name in ("g", "contribution", "total")}
        seen.append({"node": node, "argument": argument, "receiver": receiver, **kept})

    output.trace_backward(observe)
    return seen


class Page(HTMLParser):
    """A page, taken apart: its elements, links and texts, and what is wrong with them."""

    VOID: Final = {"input", "link", "meta"}
    EMPTY_IN_SVG: Final = {"ellipse", "line", "path", "polygon", "polyline"}

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.ids: list[str] = []
        self.links: list[str] = []
        self.texts: dict[str, list[str]] = {}
        self.faults: list[str] = []
        self.text = text
        self.feed(text)
        self.close()
        self.faults += [f"<{tag}> is not closed" for tag in self.open]
        twice = {i for i in self.ids if self.ids.count(i) > 1}
        self.faults += [f"id {i} is there twice" for i in sorted(twice)]
        inside = re.sub(r'xmlns(:xlink)?="http://www\.w3\.org/[\w/]+"', "", text)
        self.faults += [f"names {url}" for url in re.findall(r"\w+://\S+|url\([^#]\S*", inside)]
        self.faults += [
            f"links to {link}" for link in self.links if not link.startswith(("#", "data:,"))
        ]

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.tags.append(tag)
        for name, value in attrs:
            if name == "id":
                self.ids.append(value)
            if name in ("src", "href", "xlink:href", "action", "data", "poster", "srcset"):
                self.links.append(value)
            if name.startswith("on"):
                self.faults.append(f"<{tag}> has {name}")
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: Any) -> None:
        self.handle_starttag(tag, attrs)
        if self.open and self.open[-1] == tag:
            self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        if not self.open or self.open[-1] != tag:
            self.faults.append(f"</{tag}> closes nothing")
        else:
            self.open.pop()

    def handle_data(self, data: str) -> None:
        if self.open:
            self.texts.setdefault(self.open[-1], []).append(data)


def embedded(path: Path) -> dict[str, Any]:
    """The data that a page has in it."""
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', path.read_text())
    assert found
    data: dict[str, Any] = json.loads(found[1])
    return data


def contributions(data: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The steps of a page at which something is added to a gradient."""
    return [s for s in data["steps"] if s["phase"] == "backward" and s["node"] is not None]
