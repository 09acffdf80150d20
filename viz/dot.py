"""DOT for a graph: plain labels, one attribute list per node and edge, ids in backward order."""

from __future__ import annotations

import math
import re
import textwrap
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, TypeAlias

from .errors import import_extra
from .graph import Edge, Graph, Node
from .style import FAULTY, FONT, FONT_SIZE, INK, LOOKS, MUTED, PAPER
from .text import caption, printable

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["Direction", "Row", "edge_text", "rows", "to_dot"]

Direction: TypeAlias = Literal["LR", "TB"]

# Laying out takes time in proportion to the ranks that the edges cross. Above this many the
# layout is told to try less hard, and labels no longer take part in it.
HEAVY: Final = 1_500

# Points: the line from a node without gradient, and from the one with the largest.
WIDTHS: Final = (0.6, 2.6)

# Around the nodes of a module.
_FRAME: Final = (
    f'style="rounded,dashed" color="{MUTED.light}" fontcolor="{MUTED.light}" '
    "labeljust=l labelloc=t margin=10"
)

# Characters in a line of attributes.
NARROW: Final = 40


class Row(NamedTuple):
    """One line of text in a node, and what it says: the name of its style."""

    text: str
    role: Literal["symbol", "label", "muted", "plain", "faulty"] = "plain"


def rows(node: Node) -> list[Row]:
    """The lines of text in a node, from above."""
    found = [Row(node.symbol, "symbol")] if node.symbol else [Row(node.kind, "muted")]
    if node.kind == "folded":
        found.append(Row(f"{node.members:,} nodes folded"))
        found += [Row(line, "muted") for line in textwrap.wrap(node.contents, NARROW)]
    found += [Row(line, "label") for line in _lines(node.label)] if node.label else []
    for attrs in node.attrs.split("\n"):
        indented = textwrap.wrap(attrs, NARROW, subsequent_indent="    ")
        found += [Row(line, "muted") for line in indented]
    found += [Row(node.shape, "muted")] if node.shape else []
    for what, summary in (("data", node.data), ("grad", node.grad)):
        if summary is not None:
            found.append(Row(f"{what} {summary.text}", "faulty" if summary.faults else "plain"))
            if summary.faults not in summary.text:
                found.append(Row(summary.faults, "faulty"))
    found += [Row(line, "faulty") for note in node.notes for line in textwrap.wrap(note, NARROW)]
    return [Row(printable(row.text), row.role) for row in found]


def edge_text(edge: Edge) -> str:
    """What is written at an edge: the argument's number and the local derivative."""
    if edge.count > 1:
        return f"{edge.count:,} edges"
    parts = [str(edge.argument)] if edge.argument else []
    return ": ".join([*parts, f"∂={edge.derivative}"] if edge.derivative else parts)


def to_dot(graph: Graph, direction: Direction = "LR") -> str:
    """Write the graph as DOT.

    Raises:
        DrawingError: the graphviz package is not installed.
    """
    graphviz = import_extra("graphviz")
    dot = graphviz.Digraph("graph", graph_attr=_graph_attrs(graph, direction))
    dot.attr("node", fontname=FONT, fontsize=str(FONT_SIZE), fontcolor=INK.light)
    dot.attr("node", margin="0.15,0.06")
    dot.attr("edge", fontname=FONT, fontsize=str(FONT_SIZE - 1), fontcolor=INK.light)
    dot.attr("edge", color=MUTED.light, arrowsize="0.7")
    if graph.span <= HEAVY:
        _write_frames(graphviz, dot, graph)
    for node in graph.nodes:
        dot.node(node.name, **_node_attrs(graphviz, node))
    # Where a label takes part in the layout it gets a rank of its own.
    where = "label" if graph.span <= HEAVY else "headlabel"
    widths = _widths(graph)
    for i, (node, edge) in enumerate(_edges(graph)):
        attrs = {"id": f"e{i}"}
        if width := widths.get(edge.source):
            attrs["penwidth"] = width
        if text := edge_text(edge):
            attrs[where] = f" {text} "
        dot.edge(f"n{edge.source}", node.name, **attrs)
    return str(dot.source)


def _write_frames(graphviz: Any, dot: Any, graph: Graph) -> None:
    """Put the nodes of each module into a frame, and that into the frame of the module around."""
    paths = {node.module for node in graph.nodes if node.module}
    paths |= {".".join(p.split(".")[:k]) for p in paths for k in range(1, p.count(".") + 1)}
    # Graphviz takes frames in the order in which they are opened.
    opened: list[str] = []
    body: list[str] = []

    def close() -> None:
        opened.pop()
        body.append("\t" * (len(opened) + 1) + "}\n")

    for number, path in enumerate(sorted(paths, key=_natural)):
        while opened and not path.startswith(f"{opened[-1]}."):
            close()
        indent = "\t" * (len(opened) + 1)
        body.append(f"{indent}subgraph cluster_{number} {{\n")
        opened.append(path)
        # The name is drawn bold, which is wider than what is laid out.
        label = graphviz.quoting.quote(_escaped(graphviz, [f"  {printable(path)}  "]))
        body.append(f"{indent}\tgraph [id=m{number} label={label} {_FRAME}]\n")
        members = [node.name for node in graph.nodes if node.module == path]
        body += [f"{indent}\t{name}\n" for name in members]
    while opened:
        close()
    dot.body += body


def _natural(path: str) -> list[tuple[int, str]]:
    """Sorts layers.2 before layers.10, and what lies in a module right after it."""
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in path.split(".")]


def _edges(graph: Graph) -> Iterator[tuple[Node, Edge]]:
    return ((node, edge) for node in graph.nodes for edge in node.inputs)


def _widths(graph: Graph) -> dict[int, str]:
    """By node, how wide the lines from it are: the larger its gradient, the wider.

    A tenth of the largest gradient is one step thinner, and what is below a ten-thousandth as thin
    as zero. Nothing for a gradient that is not known.
    """
    sizes = {node.id: node.size for node in graph.nodes if node.size is not None}
    largest = max(sizes.values(), default=0.0)
    widths = {}
    for i, size in sizes.items():
        steps = 4.0 + math.log10(size) - math.log10(largest) if size > 0 else 0.0
        widths[i] = f"{WIDTHS[0] + (WIDTHS[1] - WIDTHS[0]) * max(steps, 0.0) / 4:.2g}"
    return widths


def _graph_attrs(graph: Graph, direction: Direction) -> dict[str, str]:
    attrs = {
        "rankdir": direction,
        "bgcolor": PAPER.light,
        "fontname": FONT,
        "fontsize": str(FONT_SIZE),
        "fontcolor": MUTED.light,
        "nodesep": "0.25",
        "ranksep": "0.35",
        "pad": "0.15",
    }
    if graph.span > HEAVY:
        attrs |= {"splines": "line", "nslimit": "0.1", "nslimit1": "2", "mclimit": "0.2"}
    if text := caption(graph):
        attrs |= {"label": text, "labelloc": "b"}
    return attrs


def _node_attrs(graphviz: Any, node: Node) -> dict[str, str]:
    look = LOOKS[node.kind]
    attrs = {
        "id": node.name,
        "label": _escaped(graphviz, [row.text for row in rows(node)]),
        "shape": look.shape,
        "style": look.style,
        "fillcolor": look.fill.light,
        "color": FAULTY.light if node.faults else look.line.light,
    }
    if node.id == 0:
        attrs["penwidth"] = "2.5"
    if node.faults and look.doubles:
        attrs["peripheries"] = "2"
    return attrs


def _escaped(graphviz: Any, lines: list[str]) -> Any:
    """The lines as one label, in which nothing is markup, an entity or an escape."""
    literal = (graphviz.escape(line.replace("&", "&amp;")) for line in lines)
    return graphviz.nohtml("\\n".join(literal))


def _lines(text: str) -> list[str]:
    """The lines of a label; one that is empty keeps its place."""
    return [line or " " for line in re.split(r"\r\n|\r|\n", text)]
