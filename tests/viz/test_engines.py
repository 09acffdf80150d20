from __future__ import annotations

import gc
import os
import random
import re
import subprocess
import sys
import weakref
from pathlib import Path

import numpy as np
import pytest

import micro
import tensor
from micro import Value
from tensor import Tensor, nn
from tests.structure import ROOT
from viz import Drawing, draw
from viz.graph import Node


def by_label(drawing: Drawing) -> dict[str, Node]:
    return {node.label: node for node in drawing.graph.nodes if node.label}


def gradients_from_edges(drawing: Drawing) -> dict[int, float]:
    """What the numbers at the edges say that each node's gradient is."""
    grads = {0: 1.0}
    for node in drawing.graph.nodes:
        for edge in node.inputs:
            if edge.derivative:
                passed_on = float(edge.derivative) * grads[node.id]
                grads[edge.source] = grads.get(edge.source, 0.0) + passed_on
    return grads


def diamond() -> Value:
    x = Value(2.0, label="x")
    y = 3 * x
    y.label = "y"
    return 2 * y + 5 * y


def test_the_diamond_shows_every_step_of_the_chain_rule() -> None:
    c = diamond()
    c.backward()
    drawing = draw(c)
    assert [node.kind for node in drawing.graph.nodes].count("constant") == 3
    grad = by_label(drawing)["x"].grad
    assert grad is not None
    assert grad.text == "21"
    assert gradients_from_edges(drawing)[by_label(drawing)["x"].id] == 21.0


def test_the_edges_of_a_scalar_graph_explain_its_gradients() -> None:
    model = micro.nn.MLP(2, [3, 1], rng=random.Random(0))
    loss = (model([Value(0.5), Value(-1.5)]) - 1.0) ** 2
    loss.backward()
    drawing = draw(loss, parameters=model)
    explained = gradients_from_edges(drawing)
    shown = {
        node.id: float(node.grad.text) for node in drawing.graph.nodes if node.grad is not None
    }
    assert len(shown) > 20
    for i, grad in shown.items():
        assert grad == pytest.approx(explained.get(i, 0.0), rel=5e-3, abs=1e-9), i


def test_the_order_of_the_table_is_that_of_the_engine() -> None:
    from micro.value import topological

    c = diamond()
    data = [node.data.text for node in draw(c).graph.nodes if node.data is not None]
    assert data == [f"{value.data:g}" for value in topological(c)]


def test_parameters_of_a_scalar_model_are_named() -> None:
    model = micro.nn.MLP(2, [2, 1], rng=random.Random(0))
    drawing = draw(model([1.0, 2.0]), parameters=model)
    labels = [node.label for node in drawing.graph.nodes if node.kind == "parameter"]
    assert len(labels) == 9
    assert "0.w[1][0]" in labels


def test_numbers_of_every_field_are_drawn() -> None:
    from fractions import Fraction

    import mpmath

    for number, text in ((Fraction(3, 4), "9/16"), (mpmath.mpf("1.5"), "2.25"), (2j, "-4+0j")):
        y = Value(number) ** 2
        y.backward()
        data = draw(y).graph.nodes[0].data
        assert data is not None
        assert data.text == text


def test_derivatives_of_derivatives_are_drawn() -> None:
    x = Value(2.0, label="x")
    drawing = draw(micro.grad(x**3, x, create_graph=True))
    data = drawing.graph.nodes[0].data
    assert data is not None
    assert data.text == "12"
    assert "x" in by_label(drawing)


def classifier() -> tuple[nn.Module, Tensor]:
    tensor.manual_seed(0)
    model = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 3))
    x = Tensor(np.array([[1.0, -2.0], [0.5, 0.25]]), dtype="float32", label="x")
    target = Tensor(np.array([0, 2]), label="target")
    loss = nn.functional.cross_entropy(model(x), target)
    loss.label = "loss"
    return model, loss


def test_the_loss_of_a_tensor_model_is_drawn() -> None:
    model, loss = classifier()
    loss.backward(retain_graph=True)
    drawing = draw(loss, parameters=model)
    nodes = by_label(drawing)
    kinds = {label: node.kind for label, node in nodes.items()}
    assert kinds == {
        "loss": "op",
        "x": "input",
        "target": "input",
        "0.weight": "parameter",
        "0.bias": "parameter",
        "2.weight": "parameter",
        "2.bias": "parameter",
    }
    assert nodes["0.weight"].shape == "(8, 2) float32"
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None
        for summary, array in (
            (nodes[name].data, parameter.data),
            (nodes[name].grad, parameter.grad.data),
        ):
            assert summary is not None
            numbers = [float(x) for x in re.findall(r"-?[\d.]+(?:e-?\d+)?", summary.text)]
            wanted = [array.min(), array.mean(), array.max()]
            assert numbers == pytest.approx(wanted, rel=5e-3, abs=1e-7)
    data = nodes["loss"].data
    assert data is not None
    assert data.text == f"{loss.item():.4g}"


def test_a_node_of_the_tensor_graph_can_be_drawn_itself() -> None:
    _, loss = classifier()
    assert loss.node is not None
    of_tensor, of_node = draw(loss).graph.nodes, draw(loss.node).graph.nodes
    assert [node.op for node in of_node] == [node.op for node in of_tensor]


def test_a_product_of_a_tensor_with_itself_has_two_edges() -> None:
    x = Tensor([1.0, 2.0], requires_grad=True, label="x")
    assert draw((x * x).sum()).dot().count("n2 -> n1") == 2


def test_literals_beside_tensors_are_constants() -> None:
    x = Tensor([1.0, 2.0], requires_grad=True)
    kinds = [node.kind for node in draw((x * 2.5).sum()).graph.nodes]
    assert kinds == ["op", "op", "input", "constant"]


def test_both_engines_draw_the_same_graph() -> None:
    shapes = []
    for leaf in (
        lambda x, label: Value(x, label=label),
        lambda x, label: Tensor(x, requires_grad=True, label=label),
    ):
        a, b = leaf(0.5, "a"), leaf(-1.5, "b")
        y = (a * b + a).tanh() / (b * b)
        drawing = draw(y)
        shapes.append(
            [
                (
                    node.kind,
                    node.op,
                    node.label,
                    [(e.source, e.argument, e.derivative) for e in node.inputs],
                )
                for node in drawing.graph.nodes
            ]
        )
    assert shapes[0] == shapes[1]


def test_edges_of_arrays_and_of_freed_graphs_have_no_derivative() -> None:
    x = Tensor([1.0, 2.0], requires_grad=True)
    y = (x * x).sum() * 3
    derivatives = [[e.derivative for e in node.inputs] for node in draw(y).graph.nodes]
    assert derivatives[:3] == [["3", ""], [""], ["", ""]]
    y.backward()
    assert "∂" not in draw(y).dot()


def test_a_derivative_at_a_number_that_was_changed_since_is_left_out() -> None:
    x = Tensor(2.0, requires_grad=True)
    y = x * x
    with tensor.no_grad():
        x.fill_(5.0)
    assert "∂" not in draw(y).dot()


def test_the_node_where_a_nan_is_born_is_named() -> None:
    x = Value(-1.0, label="x")
    y = x.log() * 2
    y.backward()
    nodes = draw(y).graph.nodes
    assert [node.op for node in nodes if node.faults] == ["mul", "log"]
    t = Tensor([1.0, -1.0], requires_grad=True, label="t")
    (t.log() * 0.5).sum().backward()
    assert draw(t).graph.nodes[0].faults == ()
    t.data[0] = np.inf
    assert draw(t).graph.nodes[0].faults == ("data: 1 of 2 is inf",)


def test_the_first_bad_value_and_gradient_are_pointed_at_with_the_line_of_code() -> None:
    with micro.record_sites():
        x, w = Value(0.0, label="x"), Value(2.0, label="w")
        p = x * w
        q = p.log()
        y = q * 0.5 + w
    y.backward()
    notes = {node.op: node.notes for node in draw(y).graph.nodes if node.notes}
    lines = Path(__file__).read_text("utf-8").splitlines()
    line = lines.index("        q = p.log()") + 1
    assert notes == {
        "log": (f"first value that is not finite, made at test_engines.py:{line}: q = p.log()",),
        "mul": (
            f"first gradient that is not finite, from log at test_engines.py:{line}: q = p.log()",
        ),
    }
    assert notes["log"][0] in draw(y).text()
    flat = draw(y).dot().replace("\\n", " ")
    assert all(note in flat for (note,) in notes.values())


def test_of_several_uses_the_one_that_passed_on_a_bad_gradient_is_named() -> None:
    x = Value(0.0, label="x")
    for y in (x * 3 + x.log(), x.log() + x * 3):
        y.backward()
        assert by_label(draw(y))["x"].notes == ("first gradient that is not finite, from log",)
        x.grad = 0.0
    z = Value(1e308, label="z")
    y = z * 1e308 + z * 1e308
    y.backward()
    assert by_label(draw(y))["z"].notes == ("first gradient that is not finite",)


def test_where_no_line_is_known_the_first_bad_numbers_are_pointed_at_all_the_same() -> None:
    x = Value(-1.0, label="x")
    y = x.log() * 2
    y.backward()
    notes = [node.notes for node in draw(y).graph.nodes]
    assert notes[0] == ()
    assert notes[1] == ("first value that is not finite",)
    assert draw(Value(1.0) + 1).graph.nodes[0].notes == ()
    x.grad = float("nan")
    assert draw(y).graph.nodes[-2].notes == ("first gradient that is not finite, from log",)


def test_drawing_changes_nothing_and_keeps_nothing_alive() -> None:
    model, loss = classifier()
    loss.backward(retain_graph=True)
    before = [p.grad.data.copy() for p in model.parameters() if p.grad is not None]
    drawing = draw(loss, parameters=model)
    drawing.svg()
    after = [p.grad.data for p in model.parameters() if p.grad is not None]
    assert len(before) == 4
    assert all(map(np.array_equal, before, after))
    assert loss.version == 0
    gc.disable()
    try:
        node = weakref.ref(loss.node)
        del loss
        assert node() is None
    finally:
        gc.enable()
    assert "cross_entropy" in drawing.text()


def test_the_demo_writes_every_drawing(tmp_path: Path) -> None:
    subprocess.run(
        [sys.executable, ROOT / "demos" / "draw_graph.py", "--out", tmp_path / "new"],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        check=True,
        capture_output=True,
    )
    played = {"diamond", "expression", "micro_mlp", "moons_mlp", "neuron", "not_finite"}
    played |= {"softmax_cross_entropy"}
    drawn = played | {"attention_head", "mnist_loss_folded", "mnist_loss_open"}
    drawn |= {"program", "program_folded", "program_compiled", "softmax_cross_entropy_opened"}
    files = {f"{name}{suffix}" for name in drawn for suffix in (".svg", ".png")}
    files |= {f"{name}.html" for name in played} | {
        "mnist_loss_folded_page.html",
        "softmax_cross_entropy_page.html",
    }
    assert {path.name for path in (tmp_path / "new").iterdir()} == files
    assert all(path.stat().st_size > 1_000 for path in (tmp_path / "new").iterdir())


def test_the_gallery_shows_every_drawing_that_is_there() -> None:
    gallery = ROOT / "results" / "graphs"
    page = (gallery / "README.md").read_text("utf-8")
    links = set(re.findall(r"\]\(([^)/#]+)\)", page))
    there = {path.name for path in gallery.iterdir() if path.suffix in (".svg", ".html")}
    assert links == there
