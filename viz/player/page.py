"""The page: one file with the picture, the steps, their table, the style and the script in it."""

from __future__ import annotations

import base64
import hashlib
import html
import json
import re
from collections.abc import Mapping
from importlib import resources
from typing import Any, Final

from ..style import FAULTY, INK, MUTED, PAPER
from ..text import printable
from .picture import BACKWARD, FORWARD, Picture
from .steps import Show, Step

__all__ = ["page"]

PHASES: Final = {"start": "Start", "forward": "Forward", "backward": "Backward", "end": "End"}


def page(picture: Picture, title: str) -> str:
    """Write the page. All that it needs is in it, and it may load nothing."""
    script = _asset("player.js")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    data = {
        "blank": [_show(picture, show) for show in picture.story.blank],
        "steps": [_step(picture, step) for step in picture.story.steps],
    }
    return _filled(
        _asset("page.html"),
        {
            "title": html.escape(printable(title)),
            "digest": digest,
            "style": _palette() + _asset("player.css"),
            "script": script,
            "last": str(len(picture.story.steps) - 1),
            "width": f"{_width(picture)}",
            "svg": picture.svg(),
            "rows": "\n".join(_row(n, step) for n, step in enumerate(picture.story.steps)),
            "data": _json(data),
        },
    )


def _asset(name: str) -> str:
    return resources.files(__package__).joinpath(name).read_text("utf-8")


def _filled(template: str, parts: Mapping[str, str]) -> str:
    """The template with every ``{{name}}`` replaced, at once: no part is searched for names."""
    return re.sub(r"\{\{(\w+)\}\}", lambda found: parts[found[1]], template)


def _palette() -> str:
    """The colours as CSS variables, by scheme; paper is always light."""
    colours = {
        "paper": PAPER,
        "ink": INK,
        "muted": MUTED,
        "faulty": FAULTY,
        "forward": FORWARD,
        "backward": BACKWARD,
    }
    light = "".join(f"--{name}:{colour.light};" for name, colour in colours.items())
    dark = "".join(f"--{name}:{colour.dark};" for name, colour in colours.items())
    return f":root{{{light}}}\n@media screen and (prefers-color-scheme:dark){{:root{{{dark}}}}}\n"


def _width(picture: Picture) -> float:
    """The picture's own width, in points."""
    return float(picture.root.attrib["viewBox"].split()[2])


def _row(n: int, step: Step) -> str:
    cells = (
        f'<th scope="row"><a href="#step-{n}">{n}</a></th>',
        f"<td>{PHASES[step.phase]}</td>",
        f"<td>{html.escape(printable(step.says))}</td>",
        f"<td><code>{html.escape(printable(': '.join(filter(None, step.site))))}</code></td>",
    )
    return f'<tr id="row-{n}">{"".join(cells)}</tr>'


def _step(picture: Picture, step: Step) -> dict[str, Any]:
    return {
        "phase": step.phase,
        "name": PHASES[step.phase],
        "says": printable(step.says),
        "details": [[printable(name), printable_lines(text)] for name, text in step.details],
        "site": [printable(text) for text in step.site],
        "node": step.node,
        "target": step.target,
        "edges": step.edges,
        "shows": [_show(picture, show) for show in step.shows],
        "exact": step.exact,
    }


def printable_lines(text: str) -> str:
    """As ``printable``, but line ends stay."""
    return "\n".join(map(printable, text.split("\n")))


def _show(picture: Picture, show: Show) -> list[Any]:
    return [show.row, show.place, picture.label(show), show.faulty]


def _json(data: Any) -> str:
    """JSON that cannot end the script element that holds it: ASCII, and no markup."""
    text = json.dumps(data, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
