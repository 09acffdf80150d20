"""``draw`` and what it returns."""

from __future__ import annotations

import html
import os
from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any, Final

from .dot import Direction, to_dot
from .errors import DrawingError
from .fold import fold
from .graph import Graph, Record, read, walk
from .raster import to_png
from .render import to_svg
from .text import describe, printable, to_table_html, to_text

__all__ = ["MAX_NODES", "Drawing", "checked_options", "draw", "names_of", "title_of"]

MAX_NODES: Final = 150

_PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{title}</title>
<style>
body {{ font-family: Helvetica, Arial, sans-serif; margin: 1.5rem; }}
figure {{ margin: 0; overflow: auto; }}
table {{ border-collapse: collapse; font-size: 0.9rem; }}
th, td {{ border-bottom: 1px solid #8888; padding: 0.2rem 0.6rem; text-align: left; }}
td {{ white-space: pre-wrap; }}
</style>
</head>
<body>
<h1>{title}</h1>
<figure>
{svg}</figure>
<p>{description}</p>
{table}
</body>
</html>
"""


class Drawing:
    """A graph, read at one moment, in every form that it can be shown in.

    In a notebook it is a picture; printed, it is a table.

    Attributes:
        graph: what is drawn.
        title: what it is called.
        direction: "LR" where data flows from left to right, "TB" where it flows down.
    """

    def __init__(self, graph: Graph, title: str, direction: Direction) -> None:
        self.graph = graph
        self.title = title
        self.direction = direction

    @cached_property
    def _dot(self) -> str:
        return to_dot(self.graph, self.direction)

    @cached_property
    def _svg(self) -> str:
        return to_svg(self.graph, self._dot, self.title)

    def dot(self) -> str:
        """Graphviz's source of the drawing.

        Raises:
            DrawingError: the graphviz package is not installed.
        """
        return self._dot

    def svg(self) -> str:
        """The drawing as SVG, with a title, a description and a dark scheme.

        Raises:
            DrawingError: there is no Graphviz to lay it out; the message says what to install.
        """
        return self._svg

    def png(self, scale: float = 2.0) -> bytes:
        """The drawing as PNG, with ``scale`` pixels to a point.

        Raises:
            DrawingError: Graphviz or matplotlib is missing; the message says what to install.
            ValueError: scale is not above 0.
        """
        return to_png(self._svg, scale)

    def text(self) -> str:
        """The graph as a table in backward order, for terminals and screen readers."""
        return to_text(self.graph, self.title)

    def html(self) -> str:
        """A page of its own, without links: the drawing and its table.

        Raises:
            DrawingError: there is no Graphviz to lay it out; the message says what to install.
        """
        return _PAGE.format(
            title=html.escape(printable(self.title)),
            svg=self._svg,
            description=html.escape(describe(self.graph)),
            table=to_table_html(self.graph),
        )

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the drawing in the form that the path's suffix names; return the path.

        Raises:
            ValueError: the suffix is not one of .dot, .gv, .html, .png, .svg, .txt.
            DrawingError: the form cannot be made here; nothing is written.
        """
        forms: dict[str, Callable[[], str | bytes]] = {
            ".dot": self.dot,
            ".gv": self.dot,
            ".html": self.html,
            ".png": self.png,
            ".svg": self.svg,
            ".txt": self.text,
        }
        path = Path(path)
        if path.suffix.lower() not in forms:
            raise ValueError(
                f"save: {str(path)!r} ends in {path.suffix!r}; wanted one of {', '.join(forms)}"
            )
        content = forms[path.suffix.lower()]()
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    def _repr_svg_(self) -> str | None:
        try:
            return self.svg()
        except DrawingError:
            return None

    def _repr_html_(self) -> str | None:
        """What a notebook shows where there is no picture: why, and the table."""
        try:
            self.svg()
        except DrawingError as error:
            return f"<p>{html.escape(str(error))}</p>\n{to_table_html(self.graph)}"
        return None

    def __repr__(self) -> str:
        return self.text()


def draw(
    obj: Record,
    *,
    parameters: Any = None,
    max_nodes: int | None = MAX_NODES,
    direction: Direction = "LR",
    title: str | None = None,
) -> Drawing:
    """Draw the graph that ``obj`` was computed by, as it is now.

    Args:
        obj: a micro.Value, a tensor.Tensor, or any other object that has ``op``, ``inputs``,
            ``attrs`` and ``label``.
        parameters: what is drawn as a parameter, and called what: a module, a mapping from names,
            objects, or pairs of a name and an object. A label that an object has goes first. An
            object whose class is called Parameter is drawn as one in any case.
        max_nodes: at most so many nodes are drawn, and the rest is folded, which the drawing says;
            None for all of them. A few hundred can be laid out in seconds.
        direction: "LR" for data that flows from left to right, "TB" for data that flows down.
        title: what the drawing is called; after the output, if not given.

    Returns:
        The drawing: ``svg()``, ``png()``, ``dot()``, ``text()``, ``html()``, ``save(path)``.

    Raises:
        TypeError: obj is no such object, or max_nodes is not an int.
        ValueError: max_nodes is below 2, or direction is another word.
    """
    checked_options("draw", max_nodes, direction)
    found = walk(obj)
    graph = read(found, fold(found, max_nodes), names_of(parameters, "draw"))
    return Drawing(graph, title_of(graph) if title is None else title, direction)


def checked_options(caller: str, max_nodes: int | None, direction: str) -> None:
    """Refuse options that make no sense.

    Raises:
        TypeError: max_nodes is not an int.
        ValueError: max_nodes is below 2, or direction is another word.
    """
    if max_nodes is not None and (not isinstance(max_nodes, int) or isinstance(max_nodes, bool)):
        raise TypeError(
            f"{caller}: max_nodes is {max_nodes!r}; wanted an int, or None for all nodes"
        )
    if max_nodes is not None and max_nodes < 2:
        raise ValueError(f"{caller}: max_nodes is {max_nodes}; wanted at least 2")
    if direction not in ("LR", "TB"):
        raise ValueError(f"{caller}: direction is {direction!r}; wanted 'LR' or 'TB'")


def title_of(graph: Graph) -> str:
    """What a graph is called if nobody has said."""
    output = graph.nodes[0]
    return f"Graph of {output.label or output.op or output.symbol or output.kind}"


def names_of(parameters: Any, caller: str) -> dict[int, str]:
    """By id, the objects that are parameters and their names."""
    if parameters is None:
        return {}
    for method in ("named_parameters", "parameters"):
        if hasattr(parameters, method):
            parameters = getattr(parameters, method)()
            break
    if isinstance(parameters, Mapping):
        parameters = parameters.items()
    if not isinstance(parameters, Iterable):
        raise TypeError(
            f"{caller}: parameters is a {type(parameters).__name__}; wanted a module, a mapping "
            "from names, or an iterable of objects"
        )
    pairs = (x if _is_pair(x) else ("", x) for x in parameters)
    return {id(obj): name for name, obj in pairs}


def _is_pair(x: Any) -> bool:
    return type(x) is tuple and len(x) == 2 and isinstance(x[0], str)
