"""Generated digits in the form of MNIST, for where MNIST cannot be had and for tests.

The ten digits in the twelve styles of the DejaVu fonts, which matplotlib brings along, are
rendered once as fields of the signed distance to the outline. An image samples one field under a
random affine map and a slow wave, as if the paper were bent. Since the field is a distance, any
stroke width can be drawn from it. Then comes noise.
"""

from __future__ import annotations

import math
from functools import cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ..random import Generator
from ..tensor import Tensor, from_numpy
from ._extras import import_extra

__all__ = ["generated_digits"]

SIZE: Final = 28  # pixels of a side of an image
GLYPH: Final = 20  # pixels of the longer side of an undistorted digit, as in MNIST
FINE: Final = 2  # samples of a field per pixel, in each direction
_SIDE: Final = SIZE * FINE
_CHUNK: Final = 1000  # images made at a time

_FONTS: Final = tuple(
    f"DejaVu{family}"
    for family in (
        *("Sans", "Sans-Bold", "Sans-Oblique", "Sans-BoldOblique"),
        *("SansMono", "SansMono-Bold", "SansMono-Oblique", "SansMono-BoldOblique"),
        *("Serif", "Serif-Bold", "Serif-Italic", "Serif-BoldItalic"),
    )
)


def generated_digits(
    count: int,
    generator: Generator,
    *,
    noise: float = 0.02,
) -> tuple[Tensor, Tensor]:
    """Return ``count`` random images of digits and their labels.

    The same generator state gives the same images. Made with matplotlib, which is imported here.

    Args:
        count: how many.
        generator: where the random numbers come from.
        noise: the standard deviation of the noise of each pixel, before clipping to [0, 1].

    Returns:
        Images (count, 784) float32 from 0 (background) to 1, and labels (count,) int64 from
        0 to 9, as ``mnist`` returns them.

    Raises:
        ValueError: ``count`` is below 1, or ``noise`` is negative or not finite.
        ImportError: matplotlib is not installed.
    """
    if count < 1:
        raise ValueError(f"generated_digits: count is {count}, wanted at least 1")
    if not 0 <= noise < math.inf:
        raise ValueError(f"generated_digits: noise is {noise}, wanted a finite one of at least 0")
    fields, widths = _glyphs()
    labels = generator.integers(0, 10, count)
    glyphs = labels * len(_FONTS) + generator.integers(0, len(_FONTS), count)
    images = np.empty((count, SIZE * SIZE), np.float32)
    for start in range(0, count, _CHUNK):
        chosen = glyphs[start : start + _CHUNK]
        ink = _draw(fields, widths, chosen, generator)
        ink += generator.normal(0, noise, ink.shape)
        np.clip(ink, 0, 1, out=images[start : start + _CHUNK])
    return from_numpy(images), from_numpy(labels)


def _draw(
    fields: NDArray[np.float32],
    widths: NDArray[np.float32],
    glyphs: NDArray[np.int64],
    generator: Generator,
) -> NDArray[np.float32]:
    """Return images (n, SIZE * SIZE) of the chosen glyphs, each under its own distortion."""
    n = len(glyphs)

    def draw(low: float, high: float) -> NDArray[np.float32]:
        return generator.uniform(low, high, (n, 1))

    # Where in its glyph each pixel looks: x, y in pixels from the centre, (n, SIZE * SIZE).
    y, x = (axis.reshape(1, -1) - (SIZE - 1) / 2 for axis in np.indices((SIZE, SIZE), np.float32))
    angle, slant, stretch = draw(-0.22, 0.22), draw(-0.3, 0.3), draw(-0.1, 0.1)
    scale = draw(0.88, 1.02)
    x, y = x - draw(-1.2, 1.2), y - draw(-1.2, 1.2)
    x, y = np.cos(angle) * x + np.sin(angle) * y, np.cos(angle) * y - np.sin(angle) * x
    x, y = (x + slant * y) / (scale * np.exp(stretch)), y / (scale * np.exp(-stretch))
    # A wave along each axis, of at most one period across the digit.
    turn = 2 * np.pi / GLYPH
    x, y = (
        x + draw(0, 1.5) * np.sin(draw(0.4, 1.0) * turn * y + draw(0, 2 * np.pi)),
        y + draw(0, 1.5) * np.sin(draw(0.4, 1.0) * turn * x + draw(0, 2 * np.pi)),
    )
    distance = _sample(fields, glyphs, x, y)
    # Move the outline out or in to the width wanted. Hairlines would break if moved in too far.
    width = widths[glyphs][:, None]
    wanted = np.maximum(draw(1.8, 3.2), 0.6 * width)
    ink: NDArray[np.float32] = (distance + (wanted - width) / 2) / draw(1.0, 1.5) + 0.5
    return ink.clip(0, 1)


def _sample(
    fields: NDArray[np.float32],
    glyphs: NDArray[np.int64],
    x: NDArray[np.float32],
    y: NDArray[np.float32],
) -> NDArray[np.float32]:
    """Return the fields at points given in pixels from their centres, interpolated linearly."""
    centre = (_SIDE - 1) / 2
    column = np.clip(x * FINE + centre, 0, _SIDE - 1.001)
    row = np.clip(y * FINE + centre, 0, _SIDE - 1.001)
    left, top = column.astype(np.int32), row.astype(np.int32)
    column -= left
    row -= top
    corner = glyphs[:, None] * _SIDE**2 + top * _SIDE + left
    flat = fields.reshape(-1)
    upper = flat[corner] * (1 - column) + flat[corner + 1] * column
    lower = flat[corner + _SIDE] * (1 - column) + flat[corner + _SIDE + 1] * column
    sampled: NDArray[np.float32] = upper * (1 - row) + lower * row
    return sampled


@cache
def _glyphs() -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Return the field of each digit in each font, (10 * fonts, side, side), and stroke widths.

    A field holds the distance to the outline in pixels of an image, positive inside.
    """
    fields = np.stack([_field(*_outline(digit, font)) for digit in range(10) for font in _FONTS])
    # The mean distance to the outline inside a long bar is a quarter of its width.
    widths = np.array([4 * field[field > 0].mean() for field in fields], np.float32)
    return fields, widths


def _outline(digit: int, font: str) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Return the edges of a glyph, from (m, 2) to (m, 2): x to the right, y down, in pixels.

    The longer side of the glyph is GLYPH pixels; its centre of mass is the origin.
    """
    matplotlib = import_extra("matplotlib", "generated_digits")
    fonts = import_extra("matplotlib.font_manager", "generated_digits")
    text = import_extra("matplotlib.textpath", "generated_digits")
    face = fonts.FontProperties(fname=f"{matplotlib.get_data_path()}/fonts/ttf/{font}.ttf")
    path = text.TextPath((0, 0), str(digit), size=100, prop=face)
    closed = [np.asarray(polygon) * (1, -1) for polygon in path.to_polygons()]
    start = np.concatenate([polygon[:-1] for polygon in closed])
    end = np.concatenate([polygon[1:] for polygon in closed])
    # Twice the area that each edge spans with the origin; holes run the other way round.
    area = start[:, :1] * end[:, 1:] - end[:, :1] * start[:, 1:]
    centre = (area * (start + end)).sum(0) / (3 * area.sum())
    pixels = GLYPH / np.ptp(start, axis=0).max()
    start, end = (start - centre) * pixels, (end - centre) * pixels
    return start.astype(np.float32), end.astype(np.float32)


def _field(start: NDArray[np.float32], end: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the signed distance to the closed outline with these edges, (_SIDE, _SIDE)."""
    axis = (np.arange(_SIDE, dtype=np.float32) - (_SIDE - 1) / 2) / FINE
    y, x = (grid.reshape(-1, 1) for grid in np.meshgrid(axis, axis, indexing="ij"))
    (from_x, from_y), (dx, dy) = start.T, (end - start).T  # (m,) each, against (_SIDE**2, 1)
    length = np.maximum(dx**2 + dy**2, 1e-6)
    along = np.clip(((x - from_x) * dx + (y - from_y) * dy) / length, 0, 1)
    off_x, off_y = x - from_x - along * dx, y - from_y - along * dy
    distance = np.sqrt((off_x * off_x + off_y * off_y).min(1))
    # A point is inside when a ray to the right crosses an odd number of edges.
    spans = (from_y > y) != (end[:, 1] > y)
    crossing = from_x + (y - from_y) * dx / np.where(dy == 0, 1, dy)
    inside = (spans & (x < crossing)).sum(1) % 2 == 1
    signed: NDArray[np.float32] = np.where(inside, distance, -distance)
    return signed.reshape(_SIDE, _SIDE)
