"""Programs written for micrograd, and what they print, after changing the import alone."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from contextlib import contextmanager

import torch

from micro import Value
from micro.nn import MLP


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Python's global generator, seeded, and afterwards as it was."""
    state = random.getstate()
    random.seed(seed)
    try:
        yield
    finally:
        random.setstate(state)


def test_the_expression_of_its_readme() -> None:
    a, b = Value(-4.0), Value(2.0)
    c = a + b
    d = a * b + b**3
    c += c + 1
    c += 1 + c + (-a)
    d += d * 2 + (b + a).relu()
    d += 3 * d + (b - a).relu()
    e = c - d
    f = e**2
    g = f / 2.0
    g += 10.0 / f
    assert f"{g.data:.4f}" == "24.7041"
    g.backward()
    assert f"{a.grad:.4f}" == "138.8338"
    assert f"{b.grad:.4f}" == "645.5773"


def test_a_node_can_be_drawn_by_what_micrograd_calls_it() -> None:
    """Its drawing program collects nodes and edges through _prev, and writes _op."""
    x, w = Value(2.0, label="x"), Value(-3.0, label="w")
    y = (x * w + 1.0).relu()
    nodes, edges, stack = set(), set(), [y]
    while stack:
        v = stack.pop()
        nodes.add(v)
        for child in v._prev:
            edges.add((child, v))
            stack.append(child)
    assert len(nodes) == 6
    assert len(edges) == 5
    assert sorted(v._op for v in nodes) == ["", "", "", "*", "+", "ReLU"]


def test_a_neuron_as_in_its_lecture() -> None:
    x1, x2 = Value(2.0, label="x1"), Value(0.0, label="x2")
    w1, w2 = Value(-3.0, label="w1"), Value(1.0, label="w2")
    b = Value(6.8813735870195432, label="b")
    n = x1 * w1 + x2 * w2 + b
    n.label = "n"
    o = n.tanh()
    e = (2 * n).exp()
    broken_up = (e - 1) / (e + 1)
    o.backward()
    gradients = [v.grad for v in (x1, w1, x2, w2)]
    assert [round(g, 6) for g in gradients] == [-1.5, 1.0, 0.5, 0.0]
    for v in (x1, w1, x2, w2):
        v.grad = 0
    broken_up.backward()
    for v, g in zip((x1, w1, x2, w2), gradients, strict=True):
        assert math.isclose(v.grad, g, rel_tol=1e-12, abs_tol=1e-15)


def moons(n: int, noise: float) -> tuple[list[list[float]], list[int]]:
    """Two half circles that reach into each other, and on which of them each point lies."""
    points, labels = [], []
    for i in range(n):
        angle = math.pi * (i // 2) / (n // 2 - 1)
        upper = i % 2 == 0
        x, y = math.cos(angle), math.sin(angle)
        if not upper:
            x, y = 1 - x, 0.5 - y
        points.append([x + random.gauss(0, noise), y + random.gauss(0, noise)])
        labels.append(-1 if upper else 1)
    return points, labels


def test_the_moons_of_its_demo_are_told_apart() -> None:
    with seeded(1337):
        points, labels = moons(24, noise=0.1)
        model = MLP(2, [16, 16, 1])

    def loss() -> tuple[Value, float]:
        inputs = [list(map(Value, row)) for row in points]
        scores = list(map(model, inputs))
        losses = [(1 + -yi * si).relu() for yi, si in zip(labels, scores, strict=True)]
        data_loss = sum(losses) * (1.0 / len(losses))
        reg_loss = 1e-4 * sum(p * p for p in model.parameters())
        right = [(yi > 0) == (si.data > 0) for yi, si in zip(labels, scores, strict=True)]
        return data_loss + reg_loss, sum(right) / len(right)

    assert len(model.parameters()) == 337
    first, accuracy = loss()
    assert accuracy < 0.5
    steps = 30
    for k in range(steps):
        total, accuracy = loss()
        model.zero_grad()
        total.backward()
        for p in model.parameters():
            p.data -= (1.0 - 0.9 * k / steps) * p.grad
    assert accuracy > 0.9
    assert total.data < 0.2 * first.data


def test_its_step_is_the_step_of_the_same_network_in_torch() -> None:
    with seeded(1337):
        points, labels = moons(10, noise=0.1)
        model = MLP(2, [8, 1])
    x = torch.tensor(points, dtype=torch.float64)
    y = torch.tensor(labels, dtype=torch.float64)
    weights = []
    for layer in model.layers:
        w = torch.tensor([[v.data for v in n.w] for n in layer.neurons], dtype=torch.float64)
        weights.append((w.requires_grad_(), torch.zeros(len(w), dtype=torch.float64)))
    for _, b in weights:
        b.requires_grad_()
    (w0, b0), (w1, b1) = weights
    scores = torch.relu(x @ w0.T + b0) @ w1.T + b1
    torch.relu(1 - y * scores[:, 0]).mean().backward()
    total = sum((1 - yi * model(p)).relu() for p, yi in zip(points, labels, strict=True))
    (total / len(points)).backward()
    for layer, (w, b) in zip(model.layers, weights, strict=True):
        for j, neuron in enumerate(layer.neurons):
            expected = [*w.grad[j].tolist(), b.grad[j].item()]
            actual = [v.grad for v in (*neuron.w, neuron.b)]
            assert all(
                math.isclose(a, e, rel_tol=1e-12, abs_tol=1e-15)
                for a, e in zip(actual, expected, strict=True)
            )
