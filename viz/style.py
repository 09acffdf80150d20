"""How the kinds of node look: told apart by shape first, and by colour as well.

The colours of the light scheme are written into DOT, so that they hold wherever an SVG is shown;
those of the dark scheme are a style sheet that only a dark screen switches on: paper is light.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from .graph import Kind

__all__ = [
    "CLASS",
    "FAMILY",
    "FAULTY",
    "FONT",
    "FONT_SIZE",
    "INK",
    "LOOKS",
    "MUTED",
    "PAPER",
    "Colour",
    "Look",
    "style_sheet",
]

# The font that is laid out, and fonts as wide as that, one of which every system has: text that is
# wider than it was laid out sticks out of its node.
FONT: Final = "DejaVu Sans"
FAMILY: Final = "Verdana,DejaVu Sans,Bitstream Vera Sans,sans-serif"
FONT_SIZE: Final = 11
CLASS: Final = "smolgrad-graph"


@dataclass(frozen=True, slots=True)
class Colour:
    """One colour, by scheme."""

    light: str
    dark: str


PAPER: Final = Colour("#ffffff", "#16181d")
INK: Final = Colour("#1c1e21", "#e8e8e6")
MUTED: Final = Colour("#5a5f66", "#a9aeb6")
FAULTY: Final = Colour("#b3261e", "#ff8a80")


@dataclass(frozen=True, slots=True)
class Look:
    """The shape, in Graphviz's words, and the colours of one kind of node.

    ``doubles`` is whether the shape can have a second border around it.
    """

    shape: str
    fill: Colour
    line: Colour
    style: str = "filled"
    doubles: bool = True


LOOKS: Final[Mapping[Kind, Look]] = MappingProxyType(
    {
        "op": Look("box", PAPER, INK, "filled,rounded"),
        "input": Look("ellipse", Colour("#d9ecd0", "#24401f"), Colour("#3d6b2e", "#8fc47d")),
        "parameter": Look(
            "cylinder",
            Colour("#d5e5f5", "#1c3a57"),
            Colour("#23578c", "#86b8ea"),
            doubles=False,
        ),
        "constant": Look("note", Colour("#ececec", "#33363b"), MUTED),
        "folded": Look(
            "folder", Colour("#fbefd0", "#463a17"), Colour("#7d5f0f", "#dcb958"), "filled,dashed"
        ),
    }
)


def style_sheet() -> str:
    """CSS for the dark scheme; every rule is confined to drawings."""
    rules = [
        f"text{{fill:{INK.dark}}}",
        f"text.muted{{fill:{MUTED.dark}}}",
        f"text.faulty{{fill:{FAULTY.dark}}}",
        f".paper{{fill:{PAPER.dark}}}",
        f".edge path,.{CLASS} .frame path{{stroke:{MUTED.dark}}}",
        f".edge polygon{{fill:{MUTED.dark};stroke:{MUTED.dark}}}",
    ]
    for kind, look in LOOKS.items():
        rules.append(f".{kind} .outline{{fill:{look.fill.dark}}}")
        rules.append(f".{kind} :is(.outline,.line){{stroke:{look.line.dark}}}")
    rules += [
        f".faulty :is(.outline,.line){{stroke:{FAULTY.dark}}}",
        f".hatch{{stroke:{FAULTY.dark}}}",
    ]
    inside = "".join(f".{CLASS} {rule}" for rule in rules)
    return f"@media screen and (prefers-color-scheme:dark){{{inside}}}"
