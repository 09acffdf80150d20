"""The picture of a player: one layout, in which texts and highlights change from step to step."""

from __future__ import annotations

import copy
import textwrap
import xml.etree.ElementTree as ET
from dataclasses import replace
from typing import Final

from ..dot import Direction, edge_text, to_dot
from ..graph import Node
from ..raster import to_png
from ..render import to_svg
from ..style import FAMILY, FAULTY, FONT_SIZE, INK, Colour
from ..text import printable
from .steps import Show, Story

__all__ = ["BACKWARD", "FORWARD", "Picture"]

FORWARD: Final = Colour("#1257a8", "#8ab8f2")
BACKWARD: Final = Colour("#a34700", "#ffb366")

_SVG: Final = "http://www.w3.org/2000/svg"
_LINE: Final = 1.4 * FONT_SIZE  # from one line of a caption to the next
_WIDTH: Final = 0.62 * FONT_SIZE  # of a character of a caption


class Picture:
    """The drawing of a story. Nodes have ``data-node``, edges ``data-edge``, texts ``data-row``.

    Args:
        story: what is drawn.
        title: the drawing's name.
        direction: "LR" or "TB".

    Raises:
        DrawingError: there is nothing to lay the graph out with.
    """

    def __init__(self, story: Story, title: str, direction: Direction) -> None:
        self.story = story
        self.edges = [edge for node in story.graph.nodes for edge in node.inputs]
        self.root = ET.fromstring(to_svg(story.graph, to_dot(story.graph, direction), title))
        for element in self.root.iter():
            element.tag = element.tag.removeprefix(f"{{{_SVG}}}")
        self.root.set("xmlns", _SVG)
        groups = {g.get("id", "").rpartition("-")[2]: g for g in self.root.iter("g")}
        for node in story.graph.nodes:
            _mark(groups[node.name], node)
        for i in range(len(self.edges)):
            group = groups[f"e{i}"]
            group.set("data-edge", str(i))
            for text in group.findall("text"):
                text.set("data-row", "edge")

    def svg(self, n: int = -1) -> str:
        """The picture as it is after step ``n``; after the last one, if not given."""
        return ET.tostring(self._at(range(len(self.story.steps))[n]), encoding="unicode")

    def png(self, n: int, scale: float) -> bytes:
        """Step ``n`` as PNG: the picture, what moves in it, and below it what the step says.

        Raises:
            DrawingError: matplotlib is not installed.
        """
        step, root = self.story.steps[n], self._at(n)
        colour = (FORWARD if step.phase == "forward" else BACKWARD).light
        for group in root.iter("g"):
            node, edge = group.get("data-node"), group.get("data-edge")
            if node is not None and int(node) in (step.node, step.target):
                _highlight(group, colour, "3.5" if int(node) == step.node else "2.5")
            elif edge is not None and int(edge) in step.edges:
                _highlight(group, colour, "2.5")
        _caption(root, f"{n}/{len(self.story.steps) - 1}  {step.says}")
        return to_png(ET.tostring(root, encoding="unicode"), scale)

    def label(self, show: Show) -> str:
        """The text that stands in the picture for a change of it."""
        if show.row != "edge":
            return printable(f"{show.row} {show.text}")
        text = edge_text(replace(self.edges[show.place], derivative=show.text))
        return f" {text} " if text else ""

    def _at(self, n: int) -> ET.Element:
        root = copy.deepcopy(self.root)
        texts = {
            (text.get("data-row"), group.get("data-node") or group.get("data-edge")): text
            for group in root.iter("g")
            for text in group.findall("text")
        }
        for show in self.story.shown(n):
            text = texts.get((show.row, str(show.place)))
            if text is not None:
                text.text = self.label(show)
                if show.faulty:
                    text.set("class", "faulty")
                    text.set("fill", FAULTY.light)
        return root


def _mark(group: ET.Element, node: Node) -> None:
    """Say which node it is, and which of its texts are its data and its gradient: the last ones."""
    group.set("data-node", str(node.id))
    texts = group.findall("text")
    shown = [row for row, x in (("data", node.data), ("grad", node.grad)) if x is not None]
    for row, text in zip(reversed(shown), reversed(texts), strict=False):
        text.set("data-row", row)


def _highlight(group: ET.Element, colour: str, width: str) -> None:
    for tag in ("path", "polygon", "polyline", "ellipse"):
        for shape in group.findall(tag):
            shape.set("stroke", colour)
            shape.set("stroke-width", width)
            if group.get("data-edge") and tag == "polygon":
                shape.set("fill", colour)


def _caption(root: ET.Element, says: str) -> None:
    """Make room below the picture, and write there."""
    page = root.find("g")
    assert page is not None
    left, top, width, height = map(float, root.attrib["viewBox"].split())
    wide = max(width, 420.0)
    lines = textwrap.wrap(printable(says), int((wide - 16) / _WIDTH))
    tall = height + (len(lines) + 1) * _LINE
    root.set("viewBox", f"{left} {top} {wide} {tall}")
    # The page's own coordinates begin at its lower left corner.
    for i, line in enumerate(lines):
        attributes = {"x": "8", "y": f"{4 + (i + 1) * _LINE}", "text-anchor": "start"}
        attributes |= {"font-family": FAMILY, "font-size": str(FONT_SIZE), "fill": INK.light}
        ET.SubElement(page, "text", attributes).text = line
