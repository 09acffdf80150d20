"""The graph as a table: for terminals, for screen readers and for searching."""

from __future__ import annotations

import html
import unicodedata
from typing import Final

from .graph import Graph, Node

__all__ = ["caption", "describe", "printable", "to_table_html", "to_text"]

COLUMNS: Final = ("id", "op", "label", "module", "inputs", "shape", "data", "grad")

# Characters that XML cannot hold, as their pictures or escapes; a tab it can.
_CONTROLS: Final = {
    **{c: chr(0x2400 + c) for c in range(0x20) if c != 0x09},
    0x7F: "\u2421",
    **{c: f"\\x{c:02x}" for c in range(0x80, 0xA0)},
    **dict.fromkeys((*range(0xD800, 0xE000), 0xFFFE, 0xFFFF), "\ufffd"),
}


def to_text(graph: Graph, title: str) -> str:
    """A table in backward order, with a line above that says what it is."""
    table, used = _table(graph)
    widths = {i: max(_width(row[i]) for row in table) for i in used}
    lines = ["  ".join(row[i] + " " * (widths[i] - _width(row[i])) for i in used) for row in table]
    return "\n".join(
        [f"{_in_one_line(title)}: {describe(graph)}", "", *(line.rstrip() for line in lines), ""]
    )


def to_table_html(graph: Graph) -> str:
    """The same table as an HTML table."""
    table, used = _table(graph)
    head = "".join(f'<th scope="col">{COLUMNS[i]}</th>' for i in used)
    body = "\n".join(
        f'<tr><th scope="row">{cells[0]}</th>'
        + "".join(f"<td>{html.escape(printable(cells[i]))}</td>" for i in used[1:])
        + "</tr>"
        for cells in table[1:]
    )
    return f"<table>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody>\n</table>"


def caption(graph: Graph) -> str:
    """How much of the graph is folded, or ""."""
    if not graph.folded:
        return ""
    return f"{graph.folded:,} of {graph.nodes_in_all:,} nodes are folded"


def describe(graph: Graph) -> str:
    """The graph in a sentence or two.

    >>> from .graph import Graph
    >>> describe(Graph((), 0, 0))
    '0 nodes, 0 edges, in backward order.'
    """
    folded = caption(graph)
    kinds = ("op", "input", "parameter", "constant")
    counts = {kind: sum(node.kind == kind for node in graph.nodes) for kind in kinds}
    parts = ", ".join(_count(n, kind) for kind, n in counts.items() if n)
    nodes = _count(graph.nodes_in_all, "node") + (f" ({parts})" if parts and not folded else "")
    sentences = [f"{nodes}, {_count(graph.edges_in_all, 'edge')}, in backward order."]
    if folded:
        sentences.append(f"{folded}.")
    if faulty := [f"{node.name} ({', '.join(node.faults)})" for node in graph.nodes if node.faults]:
        sentences.append(f"Not finite: {', '.join(faulty)}.")
    sentences += [f"{node.name}: {note}." for node in graph.nodes for note in node.notes]
    return " ".join(sentences)


def printable(text: str) -> str:
    """Replace the characters that XML cannot hold: control characters by their pictures."""
    return text.translate(_CONTROLS)


def _table(graph: Graph) -> tuple[list[tuple[str, ...]], list[int]]:
    """The rows of the table, the head first, and which columns have something in them."""
    table = [COLUMNS, *map(_cells, graph.nodes)]
    return table, [i for i, _ in enumerate(COLUMNS) if any(row[i] for row in table[1:])]


def _cells(node: Node) -> tuple[str, ...]:
    attrs = node.attrs.replace("\n", "; ")
    op = " ".join(part for part in (node.op or node.symbol or node.kind, attrs) if part)
    if node.kind == "folded":
        contents = f": {node.contents}" if node.contents else ""
        op = f"{node.symbol} ({node.members:,} nodes folded{contents})"
    inputs = ", ".join(
        f"n{edge.source}" + (f" x {edge.count:,}" if edge.count > 1 else "") for edge in node.inputs
    )
    shown = (node.name, op, node.label, node.module, inputs, node.shape, *_numbers(node))
    return tuple(_in_one_line(cell) for cell in shown)


def _numbers(node: Node) -> list[str]:
    return [
        "" if x is None else f"{x.text} ({x.faults})" if x.faults not in x.text else x.text
        for x in (node.data, node.grad)
    ]


def _count(n: int, noun: str) -> str:
    return f"{n:,} {noun}{'' if n == 1 else 's'}"


def _in_one_line(text: str) -> str:
    """Control characters as Python escapes, so that a cell is one line of what it says."""
    return "".join(
        c.encode("unicode_escape").decode() if unicodedata.category(c) in ("Cc", "Cs") else c
        for c in text
    )


def _width(text: str) -> int:
    """How many columns of a terminal the text takes."""
    wide = sum(unicodedata.east_asian_width(c) in "WF" for c in text)
    return len(text) + wide - sum(unicodedata.combining(c) > 0 for c in text)
