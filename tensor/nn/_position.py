"""Positional encodings: what tells attention where a position is."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from .. import ops
from ..dtypes import as_dtype, float32
from ..errors import ShapeError
from ..graph import Array
from ..tensor import Tensor
from ._module import Module

__all__ = ["RotaryEncoding", "SinusoidalEncoding", "rotary", "sinusoidal"]


@functools.lru_cache(maxsize=64)
def _waves(start: int, length: int, dim: int, base: float, dtype: Any) -> tuple[Array, Array]:
    """Return cosine and sine of ``position * base**(-2 i / dim)``, each (length, dim / 2)."""
    rates = base ** (-np.arange(0, dim, 2) / dim)
    angles = np.arange(start, start + length)[:, None] * rates
    waves = np.cos(angles).astype(dtype), np.sin(angles).astype(dtype)
    for wave in waves:
        wave.setflags(write=False)  # it is handed out again
    return waves


def _check_even(name: str, dim: int) -> None:
    if dim < 1 or dim % 2:
        raise ShapeError(f"{name}: the width must be even and above 0, got {dim}")


def sinusoidal(
    length: int, dim: int, *, start: int = 0, base: float = 10_000.0, dtype: Any = float32
) -> Tensor:
    """Return the sinusoidal encoding of ``length`` positions, (length, dim).

    ``out[t, 2i] = sin(t / base**(2i / dim))`` and ``out[t, 2i + 1] = cos(...)``
    of the same, computed in float64.

    Args:
        length: number of positions.
        dim: width, which is even.
        start: the first position.
        base: sets the longest wave, ``2 pi base``.
        dtype: of the result.

    Source: Vaswani et al., 2017, arXiv:1706.03762, section 3.5.

    Raises:
        ShapeError: an odd width.
    """
    _check_even("sinusoidal", dim)
    cosine, sine = _waves(start, length, dim, base, as_dtype(dtype))
    return Tensor(np.stack([sine, cosine], axis=-1).reshape(length, dim))


def rotary(input: Tensor, *, start: int = 0, base: float = 10_000.0) -> Tensor:
    """Return ``input`` (..., L, dim) with each pair of features turned by its position.

    With ``w = t * base**(-2i / dim)`` at position t,
    ``out[2i] = x[2i] cos(w) - x[2i + 1] sin(w)`` and
    ``out[2i + 1] = x[2i] sin(w) + x[2i + 1] cos(w)``. The inner product of a
    query and a key that are turned depends on their distance alone.

    Args:
        input: queries or keys, by head.
        start: the position of the first row.
        base: sets the slowest turn.

    Source: Su et al., 2021, arXiv:2104.09864, equation 34.

    Raises:
        ShapeError: fewer than two dimensions, or an odd width.
    """
    if input.ndim < 2:
        raise ShapeError(f"rotary: the input must be (..., L, dim), got shape {input.shape}")
    length, dim = input.shape[-2:]
    _check_even("rotary", dim)
    cosine, sine = _waves(start, length, dim, base, input.dtype)
    even, odd = input[..., 0::2], input[..., 1::2]
    turned = [even * cosine - odd * sine, even * sine + odd * cosine]
    return ops.stack(turned, -1).reshape(input.shape)


class SinusoidalEncoding(Module):
    """The input plus ``sinusoidal`` of its positions.

    Args:
        dim: width of the input, which is even.
        base: sets the longest wave, ``2 pi base``.

    Shapes: input and output ``(..., L, dim)``. There are no parameters.

    Raises:
        ShapeError: an odd width.
    """

    def __init__(self, dim: int, base: float = 10_000.0) -> None:
        _check_even("SinusoidalEncoding", dim)
        self.dim = dim
        self.base = base

    def forward(self, input: Tensor, start: int = 0) -> Tensor:
        """Return ``input`` with the encoding of the positions from ``start`` on added."""
        _check_width("SinusoidalEncoding", input, self.dim)
        length = input.shape[-2]
        encoding = sinusoidal(length, self.dim, start=start, base=self.base, dtype=input.dtype)
        return input + encoding

    def extra_repr(self) -> str:
        """Return the width and the base."""
        return f"{self.dim}, base={self.base}"


class RotaryEncoding(Module):
    """``rotary`` of queries or keys.

    Args:
        dim: width of a head, which is even.
        base: sets the slowest turn.

    Shapes: input and output ``(..., L, dim)``. There are no parameters.

    Raises:
        ShapeError: an odd width.
    """

    def __init__(self, dim: int, base: float = 10_000.0) -> None:
        _check_even("RotaryEncoding", dim)
        self.dim = dim
        self.base = base

    def forward(self, input: Tensor, start: int = 0) -> Tensor:
        """Return ``input`` turned by its positions, which begin with ``start``."""
        _check_width("RotaryEncoding", input, self.dim)
        return rotary(input, start=start, base=self.base)

    def extra_repr(self) -> str:
        """Return the width and the base."""
        return f"{self.dim}, base={self.base}"


def _check_width(name: str, input: Tensor, dim: int) -> None:
    if input.ndim < 2 or input.shape[-1] != dim:
        raise ShapeError(f"{name}: the input must be (..., L, {dim}), got shape {input.shape}")
