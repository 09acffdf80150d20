"""What a lesson draws besides graphs: charts, and the backward player within a page."""

from __future__ import annotations

import html
import io
import re
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import viz

__all__ = ["Picture", "Player", "chart", "player"]

_DEMOS = Path(__file__).resolve().parent.parent.parent


class Picture:
    """A picture, and the words that say the same.

    Args:
        svg: the picture.
        text: what is to be seen in it.
    """

    def __init__(self, svg: str, text: str) -> None:
        self.svg, self.text = svg, text

    def _repr_svg_(self) -> str:
        return self.svg

    def __repr__(self) -> str:
        return self.text


class Player:
    """The backward player of a computation, as a part of a page.

    Args:
        page: the player, as viz.play writes it.
    """

    def __init__(self, page: str) -> None:
        self.page = page

    def _repr_html_(self) -> str:
        # A cell has no file to name.
        page = re.sub(r"\b\d{6,}\.py:(\d+)", r"the cell, line \1", self.page)
        return (
            '<iframe title="the backward player" sandbox="allow-scripts" '
            'style="width: 100%; height: 46rem; border: 1px solid #8888" '
            f'srcdoc="{html.escape(page)}"></iframe>'
        )

    def __repr__(self) -> str:
        return (
            "The backward player stands here in a notebook. To have it as a page of its own:\n"
            "viz.play(result, 'player.html')"
        )


def player(result: Any, **options: Any) -> Player:
    """Return the backward player of ``result``; the options are those of viz.play."""
    with tempfile.TemporaryDirectory() as folder:
        return Player(viz.play(result, Path(folder) / "player.html", **options).read_text("utf-8"))


def chart(
    text: str, *draw: Callable[[Any], object], width: float = 5.2, height: float = 3.6
) -> Picture:
    """Return a chart with one panel for each function, which is given the panel's axes.

    ``text`` says what is to be seen, for those who do not see it. A panel has ``width`` times
    ``height`` inches.
    """
    figure, panels = _house_style()(len(draw), width, height)
    try:
        for panel, axes in zip(draw, _flat(panels), strict=True):
            panel(axes)
        memory = io.StringIO()
        figure.savefig(memory, format="svg", metadata={"Date": None})
    finally:
        from matplotlib import pyplot

        pyplot.close(figure)
    return Picture(memory.getvalue(), text)


def _flat(panels: Any) -> Sequence[Any]:
    return list(panels) if hasattr(panels, "__len__") else [panels]


def _house_style() -> Callable[..., tuple[Any, Any]]:
    """The function that the experiments make their figures with; it is in demos/."""
    if str(_DEMOS) not in sys.path:
        sys.path.append(str(_DEMOS))
    from report import figure

    return figure
