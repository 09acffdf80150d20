from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np
import pytest

import tensor
from micro import Value
from tensor import Tensor
from tensor.nn import functional
from tests.viz.fakes import network
from tests.viz.players import Page
from viz import Drawing, draw
from viz.graph import Node

RNG = np.random.default_rng(5)


def leaf(label: str, *shape: int) -> Tensor:
    return Tensor(RNG.normal(size=shape), requires_grad=True, dtype="float64", label=label)


def weighted(out: Tensor) -> Tensor:
    """A sum with weights of its own, so that no two gradients are alike."""
    return (out * Tensor(RNG.normal(size=out.shape))).sum()


def product() -> Drawing:
    return draw(lambda a, b: weighted(a @ b), leaf("a", 2, 3), leaf("b", 3, 2), zoom=True)


def softmax() -> Drawing:
    return draw(lambda a: weighted(a.softmax(-1)), leaf("a", 2, 3), zoom=True)


def layer_norm() -> Drawing:
    args = leaf("a", 2, 4), leaf("w", 4), leaf("b", 4)
    return draw(lambda a, w, b: weighted(functional.layer_norm(a, (4,), w, b)), *args, zoom=True)


def linear() -> Drawing:
    args = leaf("a", 2, 3), leaf("w", 2, 3)
    return draw(lambda a, w: weighted(functional.linear(a, w, None, "tanh")), *args, zoom=True)


def cross_entropy() -> Drawing:
    target = Tensor(np.array([1, 0]))
    return draw(lambda a: functional.cross_entropy(a, target), leaf("a", 2, 3), zoom=True)


OPS: dict[str, Callable[[], Drawing]] = {
    "matmul": product,
    "softmax": softmax,
    "layer_norm": layer_norm,
    "linear": linear,
    "cross_entropy": cross_entropy,
}


def number(text: str) -> float:
    return float(text.removeprefix("all "))


def summary(numbers: list[float]) -> list[float]:
    return [min(numbers), sum(numbers) / len(numbers), max(numbers)]


def shown(node: Node, what: str) -> list[float]:
    """The least, mean and greatest number that a node of arrays shows."""
    found = getattr(node, what)
    assert found is not None
    if found.text.startswith("min"):
        return [float(x) for x in re.findall(r"-?[\d.]+(?:e[-+]\d+)?", found.text)]
    return [number(found.text)] * 3


@pytest.mark.parametrize("op", OPS)
def test_the_numbers_on_both_levels_are_equal(op: str) -> None:
    drawing = OPS[op]()
    outer = next(node for node in drawing.graph.nodes if node.op == op)
    inner = drawing.zoom(op)
    of_label: dict[str, list[Node]] = {}
    for node in inner.graph.nodes:
        of_label.setdefault(node.label.partition("[")[0], []).append(node)
    operands = {drawing.graph.nodes[e.source].label: e.source for e in outer.inputs}
    compared = 0
    for label, there in [("out", outer)] + [
        (label, drawing.graph.nodes[i]) for label, i in operands.items() if label
    ]:
        for what in ("data", "grad"):
            texts = [getattr(node, what) for node in of_label[label]]
            numbers = [number(text.text) for text in texts if text is not None]
            wanted = shown(there, what)
            size = max(abs(x) for x in numbers)
            assert summary(numbers) == pytest.approx(wanted, rel=1e-2, abs=2e-3 * size), label
            compared += 1
    assert compared == 2 * (1 + sum(bool(label) for label in operands))


@pytest.mark.parametrize("op", OPS)
def test_every_digit_on_both_levels_is_equal(op: str) -> None:
    """The same, of the records that are drawn: to the last bits of float64."""
    a, b = leaf("a", 2, 3), leaf("b", 3, 2)
    w, bias = leaf("w", 3), leaf("bias", 3)
    made: dict[str, Callable[[], Tensor]] = {
        "matmul": lambda: a @ b,
        "softmax": lambda: a.softmax(-1),
        "layer_norm": lambda: functional.layer_norm(a, (3,), w, bias),
        "linear": lambda: functional.linear(a, b.T, None, "tanh"),
        "cross_entropy": lambda: functional.cross_entropy(a, Tensor(np.array([1, 0]))),
    }
    with tensor.record_details():
        out = made[op]()
    g = RNG.normal(size=out.shape)
    assert out.node is not None
    values = out.node.scalars(g)
    numbers = np.array([v.data for v in values.flat]).reshape(out.shape)
    np.testing.assert_allclose(numbers, out.data, rtol=1e-14, atol=1e-15)
    (grad,) = tensor.grad(out, [a], Tensor(g))
    leaves = {v.label: v for v in _leaves_of(list(values.flat))}
    of_a = np.array([[leaves[f"a[{i},{j}]"].grad for j in range(3)] for i in range(2)])
    np.testing.assert_allclose(of_a, grad.data, rtol=1e-11, atol=1e-13)


def _leaves_of(values: list[Value]) -> list[Value]:
    found: dict[int, Value] = {}
    stack = list(values)
    while stack:
        v = stack.pop()
        if id(v) not in found:
            found[id(v)] = v
            stack += v.inputs
    return [v for v in found.values() if not v.inputs]


def test_a_node_is_found_by_its_name_its_op_or_its_label() -> None:
    drawing = softmax()
    name = next(node.name for node in drawing.graph.nodes if node.op == "softmax")
    assert drawing.zoom("softmax") is drawing.zoom(name) is drawing.zooms[name]
    assert drawing.zoom("softmax").title == f"{name}: softmax, number by number"


@pytest.mark.parametrize(
    ("node", "match"),
    [
        ("conv2d", r"there is no node 'conv2d'; there are n0 relu, n1 sum, n2 mul, n3 softmax"),
        ("relu", r"n0 cannot be opened: it is an op on single numbers already"),
        ("a", r"n4 cannot be opened: it is no op, or the drawing was made without zoom=True"),
    ],
)
def test_a_node_that_cannot_be_opened_is_refused(node: str, match: str) -> None:
    drawing = draw(lambda a: (a.softmax(-1) * a).sum().relu(), leaf("a", 1, 2), zoom=True)
    assert drawing.zoom("softmax").graph.nodes_in_all > 5
    with pytest.raises(KeyError, match=match):
        drawing.zoom(node)


def test_what_is_too_large_is_not_opened_and_says_so() -> None:
    drawing = draw(lambda a: a.softmax(-1).sum(), leaf("a", 10, 30), zoom=True)
    assert drawing.zooms == {}
    with pytest.raises(KeyError, match=r"cannot be opened: scalarize: up to .* the limit is"):
        drawing.zoom("softmax")


def test_without_its_operands_numbers_a_node_says_how_to_get_them() -> None:
    y = leaf("a", 2, 2).softmax(-1).exp().sum()
    drawing = draw(y, zoom=True)
    assert "sum" in {drawing.graph.nodes[int(name[1:])].op for name in drawing.zooms}
    assert draw(y).zooms == {}
    with pytest.raises(KeyError, match="made without zoom=True"):
        draw(y).zoom("exp")
    z = (leaf("a", 2, 2) + leaf("b", 2, 2)).softmax(-1).sum()
    with pytest.raises(KeyError, match=r"does not keep the numbers of a of softmax.*draw\(fn"):
        draw(z, zoom=True).zoom("softmax")


def test_the_page_opens_a_node_at_a_click(renderer: str) -> None:
    drawing = softmax()
    page = Page(drawing.html())
    assert page.tags.count("details") == len(drawing.zooms) > 0
    targets = {link.removeprefix("#") for link in page.links if link.startswith("#zoom")}
    assert targets == {f"zoom-{name}" for name in drawing.zooms}
    assert targets <= set(page.ids)
    assert drawing.zoom("softmax").title in page.text
    assert page.faults == []
    assert "zoom" not in drawing.svg()


def test_nothing_within_a_node_is_drawn_that_the_node_does_not_do() -> None:
    inner = product().zoom("matmul")
    assert [n.op for n in inner.graph.nodes if n.kind == "op"].count("mul") == 12
    assert [n.op for n in inner.graph.nodes if n.kind == "op"].count("add") == 8
    assert sum(n.kind == "input" for n in inner.graph.nodes) == 12


# Folded nodes


def test_a_folded_node_opens_into_its_ops_and_what_it_takes_from_outside() -> None:
    drawing = draw(network(3), depth=2, zoom=True)
    inner = drawing.zoom("blocks.1")
    nodes = inner.graph.nodes
    assert [n.op for n in nodes if n.kind == "op"] == ["add", "relu", "norm"]
    assert [n.label for n in nodes if n.kind == "parameter"] == ["blocks.1.gain"]
    (outside,) = [n for n in nodes if n.kind == "input"]
    box = next(n for n in drawing.graph.nodes if n.symbol == "blocks.0")
    assert outside.label == f"from blocks.0 ({box.name})"
    assert outside.data == box.data
    assert sum(len(n.inputs) for n in nodes) == 5
    assert [e.argument for e in nodes[0].inputs] == [1, 2]
    assert nodes[0].module == "blocks.1"
    assert inner.title.endswith("inside blocks.1")


def test_inside_a_folded_node_values_and_gradients_are_those_of_the_whole_graph() -> None:
    a, w = leaf("a", 2, 3), leaf("w", 2, 3)

    def loss(a: Tensor, w: Tensor) -> Tensor:
        for _ in range(40):
            a = (a * w).tanh()
        return a.sum()

    whole = draw(loss, a, w, max_nodes=None)
    folded = draw(loss, a, w, max_nodes=10, zoom=True)
    (name,) = [n.name for n in folded.graph.nodes if n.kind == "folded"]
    assert folded.graph.nodes[int(name[1:])].symbol == "(*, tanh) x 40"
    inner = [n for n in folded.zoom(name).graph.nodes if n.kind == "op"]
    outer = [n for n in whole.graph.nodes if n.kind == "op"][1:3]  # the last copy
    assert folded.zoom(name).title.endswith("the last of 40")
    assert [(n.op, n.data, n.grad) for n in inner] == [(n.op, n.data, n.grad) for n in outer]
    assert all(n.grad is not None for n in inner)


def test_what_is_cut_off_for_the_budget_is_not_opened() -> None:
    drawing = draw(network(3), max_nodes=2, zoom=True)
    rest = drawing.graph.nodes[-1]
    assert rest.symbol == "…"
    with pytest.raises(KeyError, match="cannot be opened"):
        drawing.zoom(rest.name)
