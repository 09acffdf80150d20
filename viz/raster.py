"""From SVG to PNG with matplotlib, for the part of SVG that drawings are made of.

Graphviz in Python writes no PNG, and one that the dot program writes would lack the hatching. The
font that is laid out is one that matplotlib brings, so no PNG depends on the fonts of a machine.
"""

from __future__ import annotations

import io
import re
import warnings
import xml.etree.ElementTree as ET
from typing import TYPE_CHECKING, Any, Final

from .errors import import_extra
from .style import FAULTY, FONT

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["to_png"]

LARGEST: Final = 8_000  # pixels of the longer side

# Fonts that have what DejaVu Sans lacks, in the order in which they are looked for.
OTHER_SCRIPTS: Final = (
    "Noto Sans CJK JP",
    "Noto Sans CJK SC",
    "Noto Sans JP",
    "Noto Sans SC",
    "Noto Sans KR",
    "Source Han Sans",
    "WenQuanYi Zen Hei",
    "WenQuanYi Micro Hei",
    "Droid Sans Fallback",
    "IPAGothic",
    "TakaoGothic",
    "NanumGothic",
    "Unifont",
    "Hiragino Sans",
    "PingFang SC",
    "Apple SD Gothic Neo",
    "Yu Gothic",
    "Microsoft YaHei",
    "Malgun Gothic",
    "Arial Unicode MS",
    "Noto Sans Devanagari",
    "Noto Sans Thai",
    "Noto Emoji",
    "Segoe UI Symbol",
)

_SVG: Final = "{http://www.w3.org/2000/svg}"


def to_png(svg: str, scale: float) -> bytes:
    """Paint the SVG of a drawing, light, on white.

    Args:
        svg: what ``to_svg`` returns.
        scale: pixels per point; less where the picture would be larger than 8,000 pixels.

    Raises:
        DrawingError: matplotlib is not installed.
        ValueError: scale is not above 0.
    """
    if not scale > 0:
        raise ValueError(f"png: scale is {scale}; wanted a number above 0, pixels per point")
    import_extra("matplotlib")
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    root = ET.fromstring(svg)
    left, top, width, height = map(float, root.attrib["viewBox"].split())
    # 72 points are an inch, so a unit of the SVG is a point, and line widths are in points.
    figure = Figure((width / 72, height / 72), dpi=72 * min(scale, LARGEST / max(width, height)))
    canvas = FigureCanvasAgg(figure)
    page = root.find(f"{_SVG}g")
    assert page is not None
    x0, y0 = _translation(page.get("transform", ""))
    axes = figure.add_axes((0, 0, 1, 1), frameon=False)
    axes.set_axis_off()
    axes.set_xlim(left - x0, left - x0 + width)
    axes.set_ylim(top - y0 + height, top - y0)
    families = _families()
    for element in page.iter():
        for artist in _paint(element, axes, families):
            artist.set_clip_on(False)
    buffer = io.BytesIO()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        canvas.print_figure(buffer, format="png", metadata={"Software": None})
    _warn_of_boxes([str(warning.message) for warning in caught])
    return buffer.getvalue()


def _families() -> list[str]:
    """The font that is laid out, and behind it those of other scripts that are there."""
    from matplotlib.font_manager import fontManager

    there = set(fontManager.get_font_names())
    return [FONT, *(name for name in OTHER_SCRIPTS if name in there)]


def _warn_of_boxes(messages: list[str]) -> None:
    """Say once what could not be written, instead of once for every character and size."""
    numbers = [int(found[1]) for m in messages if (found := re.match(r"Glyph (\d+)", m))]
    missing = "".join(map(chr, sorted(set(numbers))))
    if missing:
        warnings.warn(
            f"png: no font that matplotlib knows has {missing!r}, drawn as boxes; install one, "
            "such as Noto Sans CJK, or use svg(), which the viewer's fonts are used for",
            stacklevel=4,
        )


def _paint(element: ET.Element, axes: Any, families: list[str]) -> Iterator[Any]:
    """Add to the axes what the element looks like."""
    from matplotlib.patches import Ellipse, PathPatch, Polygon

    tag, get = element.tag.removeprefix(_SVG), element.get
    style = _patch_style(element)
    if tag in ("polygon", "polyline"):
        points = [tuple(map(float, p.split(","))) for p in get("points", "").split()]
        yield axes.add_patch(Polygon(points, closed=tag == "polygon", **style))
    elif tag == "path":
        yield axes.add_patch(PathPatch(_path(get("d", "")), **style))
    elif tag == "ellipse":
        x, y, rx, ry = (float(get(name, "0")) for name in ("cx", "cy", "rx", "ry"))
        yield axes.add_patch(Ellipse((x, y), 2 * rx, 2 * ry, **style))
    elif tag == "text":
        yield axes.text(
            float(get("x", "0")),
            float(get("y", "0")),
            (element.text or "").replace("\t", " "),
            ha={"start": "left", "end": "right"}.get(get("text-anchor", ""), "center"),
            va="baseline",
            family=families,
            size=float(get("font-size", "12")),
            weight=get("font-weight", "normal"),
            color=get("fill", "black"),
            parse_math=False,
            usetex=False,
        )


def _patch_style(element: ET.Element) -> dict[str, Any]:
    fill = element.get("fill", "none")
    if fill.startswith("url("):
        return {"fill": False, "hatch": "///", "edgecolor": (*_rgb(FAULTY.light), 0.3), "lw": 0}
    dashes = [float(x) for x in element.get("stroke-dasharray", "").split(",") if x]
    return {
        "facecolor": fill.replace("transparent", "none"),
        "edgecolor": element.get("stroke", "none").replace("transparent", "none"),
        "linewidth": float(element.get("stroke-width", "1")),
        "linestyle": (0, dashes) if dashes else "-",
    }


def _rgb(colour: str) -> tuple[float, float, float]:
    red, green, blue = bytes.fromhex(colour.removeprefix("#"))
    return red / 255, green / 255, blue / 255


def _path(d: str) -> Any:
    """The path of an SVG ``d`` that has absolute M, L, C and Z."""
    from matplotlib.path import Path

    codes = {"M": Path.MOVETO, "L": Path.LINETO, "C": Path.CURVE4}
    vertices: list[tuple[float, float]] = []
    kinds: list[Any] = []
    for command, numbers in re.findall(r"([A-Za-z])([^A-Za-z]*)", d):
        values = [float(x) for x in re.findall(r"-?[\d.]+(?:e-?\d+)?", numbers)]
        points = list(zip(values[::2], values[1::2], strict=True))
        if command in "Zz":
            points, kind = [vertices[0]], Path.CLOSEPOLY
        else:
            kind = codes[command]
        vertices += points
        kinds += [kind] * len(points)
    return Path(vertices, kinds)


def _translation(transform: str) -> tuple[float, float]:
    found = re.search(r"translate\(([-\d.]+)[ ,]+([-\d.]+)\)", transform)
    return (float(found[1]), float(found[2])) if found else (0.0, 0.0)
