"""Kernels and windows that move over planes: where they lie, and what of it is an error."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, TypeAlias

from ..errors import ShapeError

__all__ = ["Axis", "Pair", "Plane", "convolved", "is_integer", "moved", "pair", "pooled"]

Pair: TypeAlias = int | Sequence[int]


class Axis(NamedTuple):
    """A kernel that moves along one dimension.

    At step t the tap k lies at ``t * stride + k * dilation - before``.
    """

    size: int
    taps: int
    stride: int
    before: int
    after: int
    dilation: int
    steps: int

    @classmethod
    def of(
        cls,
        name: str,
        size: int,
        taps: int,
        stride: int,
        padding: tuple[int, int],
        dilation: int = 1,
        ceil: bool = False,
    ) -> Axis:
        """Return the axis with its number of steps; with ``ceil`` the last may stick out.

        Raises:
            ShapeError: the kernel does not fit even once.
        """
        before, after = padding
        reach = dilation * (taps - 1) + 1
        room = size + before + after - reach
        steps = (room + (stride - 1 if ceil else 0)) // stride + 1
        if ceil and (steps - 1) * stride >= size + before:
            steps -= 1  # the last step would begin in the padding behind the plane
        if steps < 1:
            raise ShapeError(
                f"the kernel spans {reach} in {name}, but with its padding the input has only "
                f"{size + before + after}; enlarge the padding or use a smaller kernel"
            )
        return cls(size, taps, stride, before, after, dilation, steps)

    @property
    def padded(self) -> int:
        """The size with the padding."""
        return self.before + self.size + self.after

    def places(self, tap: int) -> slice:
        """Return where a tap lies in the course of all steps, counted from the padding's start."""
        first = tap * self.dilation
        return slice(first, first + (self.steps - 1) * self.stride + 1, self.stride)

    def meetings(self) -> Iterator[tuple[slice, slice]]:
        """Yield, for every tap that meets the input, the steps at which it does, and where."""
        for tap in range(self.taps):
            offset = tap * self.dilation - self.before
            first = max(0, -(offset // self.stride))
            last = min(self.steps - 1, (self.size - 1 - offset) // self.stride)
            if first <= last:
                start = first * self.stride + offset
                stop = last * self.stride + offset + 1
                yield slice(first, last + 1), slice(start, stop, self.stride)


class Plane(NamedTuple):
    """A kernel that moves over a plane."""

    rows: Axis
    columns: Axis

    @property
    def size(self) -> tuple[int, int]:
        """The size of the plane."""
        return self.rows.size, self.columns.size

    @property
    def steps(self) -> tuple[int, int]:
        """The size of the result."""
        return self.rows.steps, self.columns.steps

    @property
    def taps(self) -> tuple[int, int]:
        """The size of the kernel."""
        return self.rows.taps, self.columns.taps

    def meetings(self) -> Iterator[tuple[Any, Any]]:
        """Yield, for every tap in the order of rows, the steps at which it meets, and where."""
        for steps, places in self.rows.meetings():
            for more_steps, more_places in self.columns.meetings():
                yield (..., steps, more_steps), (..., places, more_places)


def is_integer(value: Any) -> bool:
    """Return whether ``value`` is an integer, and no bool."""
    return hasattr(value, "__index__") and not isinstance(value, bool)


def pair(name: str, value: Any, least: int) -> tuple[int, int]:
    """Return an integer, or a pair of them, as a pair.

    Raises:
        TypeError: not integers.
        ShapeError: not one or two of them, or one below ``least``.
    """
    entries = tuple(value) if isinstance(value, (tuple, list)) else (value,)
    if not all(map(is_integer, entries)):
        raise TypeError(f"{name} must be an integer or a pair of them, got {value!r}")
    if len(entries) not in (1, 2):
        raise ShapeError(f"{name} must be an integer or a pair of them, got {value!r}")
    if min(entries) < least:
        raise ShapeError(f"{name} must be at least {least}, got {value!r}")
    return int(entries[0]), int(entries[-1])


def convolved(
    a_shape: Sequence[int],
    weight_shape: Sequence[int],
    stride: Pair,
    padding: Pair | str,
    dilation: Pair,
    groups: int,
) -> Plane:
    """Return how the kernel moves, after checking everything that a convolution is given."""
    strides, dilations = pair("stride", stride, 1), pair("dilation", dilation, 1)
    if not is_integer(groups):
        raise TypeError(f"groups must be an integer, got {groups!r}")
    if groups < 1:
        raise ShapeError(f"groups must be at least 1, got {groups}")
    if len(weight_shape) != 4 or min(weight_shape[2:]) < 1:
        raise ShapeError(
            f"weight must be (out_channels, in_channels / groups, height, width), "
            f"got shape {tuple(weight_shape)}"
        )
    if len(a_shape) not in (3, 4):
        raise ShapeError(
            f"the input must be (N, C, H, W) or (C, H, W), got shape {tuple(a_shape)}; "
            "unsqueeze or reshape it"
        )
    if a_shape[-3] != weight_shape[1] * groups or weight_shape[0] % groups:
        raise ShapeError(
            f"with groups {groups} a weight of shape {tuple(weight_shape)} needs an input of "
            f"{weight_shape[1] * groups} channels and out_channels divisible by groups, "
            f"got {a_shape[-3]} and {weight_shape[0]}"
        )
    taps = weight_shape[2:]
    paddings = _padding(padding, taps, strides, dilations)
    rows, columns = (
        Axis.of(name, size, k, s, p, d)
        for name, size, k, s, p, d in zip(
            ("height", "width"), a_shape[-2:], taps, strides, paddings, dilations, strict=True
        )
    )
    return Plane(rows, columns)


def _padding(
    padding: Pair | str, taps: Sequence[int], strides: Pair, dilations: tuple[int, int]
) -> list[tuple[int, int]]:
    """Return the padding before and after in each dimension."""
    if not isinstance(padding, str):
        return [(p, p) for p in pair("padding", padding, 0)]
    if padding == "valid":
        return [(0, 0), (0, 0)]
    if padding != "same":
        raise ValueError(f"padding must be integers, 'same' or 'valid', got {padding!r}")
    if strides != (1, 1):
        raise ShapeError(f"padding 'same' needs a stride of 1, got {strides}")
    totals = [d * (k - 1) for k, d in zip(taps, dilations, strict=True)]
    return [(total // 2, total - total // 2) for total in totals]


def moved(
    size: Sequence[int], kernel_size: Pair, dilation: Pair, padding: Pair, stride: Pair
) -> Plane:
    """Return how a window moves over planes of a size, after checking all that it is given."""
    axes = zip(
        ("height", "width"),
        size,
        pair("kernel_size", kernel_size, 1),
        pair("stride", stride, 1),
        pair("padding", padding, 0),
        pair("dilation", dilation, 1),
        strict=True,
    )
    return Plane(*(Axis.of(name, n, k, s, (p, p), d) for name, n, k, s, p, d in axes))


def pooled(
    a_shape: Sequence[int],
    kernel_size: Pair,
    stride: Pair | None,
    padding: Pair,
    dilation: Pair,
    ceil_mode: bool,
) -> Plane:
    """Return how the window moves, after checking everything that pooling is given."""
    taps = pair("kernel_size", kernel_size, 1)
    strides = taps if stride is None else pair("stride", stride, 1)
    paddings, dilations = pair("padding", padding, 0), pair("dilation", dilation, 1)
    if len(a_shape) not in (3, 4):
        raise ShapeError(
            f"the input must be (N, C, H, W) or (C, H, W), got shape {tuple(a_shape)}; "
            "unsqueeze or reshape it"
        )
    for p, k, d in zip(paddings, taps, dilations, strict=True):
        if p > (d * (k - 1) + 1) // 2:
            raise ShapeError(
                f"padding must be at most half of what the kernel spans, {d * (k - 1) + 1}, got {p}"
            )
    rows, columns = (
        Axis.of(name, size, k, s, (p, p), d, bool(ceil_mode))
        for name, size, k, s, p, d in zip(
            ("height", "width"), a_shape[-2:], taps, strides, paddings, dilations, strict=True
        )
    )
    return Plane(rows, columns)
