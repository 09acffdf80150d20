"""``draw`` and what it returns."""

from __future__ import annotations

import html
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Final

from .calls import call
from .dot import Direction, to_dot
from .errors import DrawingError
from .fold import REST, fold
from .graph import Graph, Group, Node, Record, Walk, is_record, read, walk
from .raster import to_png
from .render import linked, to_svg
from .text import describe, printable, to_table_html, to_text
from .trace import Playable, Replayable, gradients_of, replayed, trace, values_of
from .zoom import MOST_SCALARS, inside_of, scalars_of

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
details {{ margin: 0.75rem 0; }}
summary {{ cursor: pointer; }}
th, td {{ border-bottom: 1px solid #8888; padding: 0.2rem 0.6rem; text-align: left; }}
td {{ white-space: pre-wrap; }}
</style>
</head>
<body>
<h1>{title}</h1>
<figure>
{svg}</figure>
<p>{description}</p>
{zooms}{table}
</body>
</html>
"""

_ZOOM = """<details>
<summary>{title}</summary>
<figure id="zoom-{name}">
{svg}</figure>
</details>
"""


class Drawing:
    """A graph, read at one moment, in every form that it can be shown in.

    In a notebook it is a picture; printed, it is a table.

    Attributes:
        graph: what is drawn.
        title: what it is called.
        direction: "LR" where data flows from left to right, "TB" where it flows down.
        zooms: the drawings of the nodes that were opened, by the nodes' names.
    """

    def __init__(
        self,
        graph: Graph,
        title: str,
        direction: Direction,
        zooms: Mapping[str, Drawing | str] | None = None,
    ) -> None:
        self.graph = graph
        self.title = title
        self.direction = direction
        self.zooms = {n: x for n, x in (zooms or {}).items() if isinstance(x, Drawing)}
        self._closed = {n: x for n, x in (zooms or {}).items() if isinstance(x, str)}

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

    def zoom(self, node: str) -> Drawing:
        """What is inside a node; for drawings made with ``zoom=True``.

        Of a folded node, its ops, and of a repeated block those of its last copy. Of an op on
        arrays, its graph of numbers, if that is small: it is made by the scalar engine from the
        same operands and the same gradient, so the numbers on both levels are the same, but for
        rounding. An operand's gradient in it is what comes through this node, which is a part of
        the whole where it is used elsewhere too.

        Args:
            node: the name, the label or the op of a node, or the title of a folded one, such as
                "n2", "softmax" or "layers.0"; of several the first in backward order.

        Raises:
            KeyError: there is no such node, or it could not be opened; the message says why.
        """
        found = [n.name for n in self.graph.nodes if node in (n.name, n.label, n.op or n.symbol)]
        for name in found:
            if name in self.zooms:
                return self.zooms[name]
        if not found:
            names = ", ".join(f"{n.name} {n.op}" for n in self.graph.nodes if n.op)
            raise KeyError(f"zoom: there is no node {node!r}; there are {names}")
        why = self._closed.get(found[0], "it is no op, or the drawing was made without zoom=True")
        raise KeyError(f"zoom: {found[0]} cannot be opened: {why}")

    def html(self) -> str:
        """A page of its own, which loads nothing: the drawing, its table, and what was opened.

        A click on a node that was opened leads to its graph of numbers.

        Raises:
            DrawingError: there is no Graphviz to lay it out; the message says what to install.
        """
        return _PAGE.format(
            title=html.escape(printable(self.title)),
            svg=linked(self._svg, {name: f"#zoom-{name}" for name in self.zooms}),
            zooms="".join(
                _ZOOM.format(name=name, title=html.escape(printable(x.title)), svg=x.svg())
                for name, x in self.zooms.items()
            ),
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
    obj: Record | Callable[..., Any],
    *args: Any,
    parameters: Any = None,
    gradients: bool | None = None,
    max_nodes: int | None = MAX_NODES,
    depth: int | None = None,
    zoom: bool = False,
    direction: Direction = "LR",
    title: str | None = None,
) -> Drawing:
    """Draw the graph that ``obj`` was computed by, as it is now, or that of ``obj(*args)``.

    A call is made with every detail recorded that the engine of ``obj``, ``args`` or
    ``parameters`` offers: the value of each node, its module, the line of code. To call a module
    or a function is therefore the way to see everything; a result that was computed before shows
    what its engine has kept.

    A Program has no numbers but those of its parameters. With ``args`` it is replayed on them, and
    the drawing shows what each instruction yielded; what else a replay does, it does: an
    optimizer's step in it moves the parameters.

    Args:
        obj: a micro.Value, a tensor.Tensor, a tensor.Program, or any other object that has ``op``,
            ``inputs``, ``attrs`` and ``label``. With ``args``, or if it is no such object: a
            Program, a module, or another function that returns such an object.
        args: what it is called with.
        parameters: what is drawn as a parameter, and called what: a module, a mapping from names,
            objects, or pairs of a name and an object. A label that an object has goes first. An
            object whose class is called Parameter is drawn as one in any case. Of a module that
            is called, its own, if not given.
        gradients: whether a backward pass is run, which changes nothing, so that every node shows
            its gradient; else a node shows the one that it has. If not given: where a call yields
            one number.
        max_nodes: at most so many nodes are drawn, and the rest is folded, which the drawing says;
            None for all of them. A few hundred can be laid out in seconds.
        depth: modules deeper than this in the tree of modules are folded into boxes, those of depth
            1 being the parts of the outermost one. If not given: as few as max_nodes allows.
        zoom: whether nodes are opened too: folded ones into their ops, and ops on arrays into
            graphs of numbers, where these are small. See ``Drawing.zoom``.
        direction: "LR" for data that flows from left to right, "TB" for data that flows down.
        title: what the drawing is called; after the output, if not given.

    Returns:
        The drawing: ``svg()``, ``png()``, ``dot()``, ``text()``, ``html()``, ``save(path)``.

    Raises:
        TypeError: obj is no such object, the call returns none, or max_nodes or depth is not an
            int.
        ValueError: max_nodes is below 2, depth below 1, or direction is another word.
        RuntimeError: the engine cannot differentiate obj, and gradients is true.
    """
    checked_options("draw", max_nodes, direction)
    _check_depth(depth)
    names = names_of(parameters, "draw")
    program = obj if args and isinstance(obj, Replayable) and is_record(obj) else None
    is_call = bool(args) or (callable(obj) and not is_record(obj) and not isinstance(obj, type))
    if is_call and program is None:
        if parameters is None and not is_record(obj) and hasattr(obj, "parameters"):
            names = names_of(obj, "draw")
        obj, met = call(obj, args, parameters)
        names = {**met, **names}
    found = walk(obj)
    values: dict[int, Any] = {}
    grads: dict[int, Any] | None = None
    if gradients and not isinstance(obj, Playable):
        raise TypeError(
            f"draw: gradients is true, and {type(obj).__name__} has no trace_backward to run a "
            "backward pass that changes nothing"
        )
    if program is not None:
        values, grads = replayed(found, program, args)
    elif gradients or (gradients is None and is_call and isinstance(obj, Playable)):
        try:
            passed = trace(obj)
            grads, values = gradients_of(found, passed), values_of(found, passed)
        except RuntimeError:
            if gradients:
                raise
    groups = fold(found, max_nodes, depth, names)
    graph = read(found, groups, names, grads, values)
    inside = _Inside(found, names, grads, values, direction)
    zooms = inside.of(graph, groups) if zoom else {}
    return Drawing(graph, title_of(graph) if title is None else title, direction, zooms)


class _Inside:
    """Makes the drawings of what is in the nodes of a drawing."""

    def __init__(
        self,
        walk: Walk,
        names: Mapping[int, str],
        grads: Mapping[int, Any] | None,
        values: Mapping[int, Any],
        direction: Direction,
    ) -> None:
        self.walk = walk
        self.names = names
        self.grads = grads
        self.values = values
        self.direction = direction

    def of(self, graph: Graph, groups: Sequence[Group]) -> dict[str, Drawing | str]:
        """By name of the node, the drawing of what is in it, or why there is none."""
        pairs = list(zip(graph.nodes, groups, strict=True))
        called = {i: _called(node) for node, group in pairs for i in group.members}
        found: dict[str, Drawing | str] = {}
        for node, group in pairs:
            if node.kind == "op":
                found[node.name] = self._numbers(node, group.members[0])
            elif node.kind == "folded" and group.title != REST:
                found[node.name] = self._ops(node, group, called)
        return found

    def _ops(self, node: Node, group: Group, called: Mapping[int, str]) -> Drawing:
        inner, origins = inside_of(self.walk, group, called)
        values = {at: self.values.get(i) for at, i in enumerate(origins)}
        grads = self.grads
        if grads is not None:
            grads = {at: grads.get(i) for at, i in enumerate(origins)}
        groups = fold(inner, MAX_NODES, None, self.names)
        last = f", the last of {group.copies:,}" if group.copies > 1 else ""
        title = f"{node.name}: inside {node.symbol}{last}"
        return Drawing(read(inner, groups, self.names, grads, values), title, self.direction)

    def _numbers(self, node: Node, i: int) -> Drawing | str:
        numbers = scalars_of(self.walk.records[i], node, (self.grads or {}).get(i))
        if isinstance(numbers, str):
            return numbers
        found = walk(numbers)
        count = len(found.records)
        if count > MOST_SCALARS:
            return f"it has {count:,} numbers inside, and at most {MOST_SCALARS} are drawn"
        title = f"{node.name}: {' '.join(filter(None, (node.op, node.label)))}, number by number"
        return Drawing(read(found, fold(found, None), {}), title, self.direction)


def _called(node: Node) -> str:
    """What a node is called in another drawing."""
    return " ".join(filter(None, (node.label or node.symbol or node.kind, f"({node.name})")))


def _check_depth(depth: int | None) -> None:
    if depth is not None and (not isinstance(depth, int) or isinstance(depth, bool)):
        raise TypeError(f"draw: depth is {depth!r}; wanted an int, or None for as deep as fits")
    if depth is not None and depth < 1:
        raise ValueError(f"draw: depth is {depth}; wanted at least 1, the outermost modules")


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
