"""Methods and functions that are made of ops and have PyTorch's names.

What they return is made by the ops they call: views where those give views, recorded and refused
as those are.
"""

from __future__ import annotations

import string
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from .dtypes import is_operand
from .errors import ShapeError
from .graph import Array
from .methods import Methods, recorded
from .shapes import axes, axis, integers

if TYPE_CHECKING:
    from .tensor import Tensor

__all__ = [
    "bmm",
    "broadcast_to",
    "chunk",
    "diag",
    "dot",
    "einsum",
    "mm",
    "moveaxis",
    "movedim",
    "mv",
    "repeat_interleave",
    "split",
    "swapaxes",
    "tensordot",
    "tile",
    "unbind",
]


class Composite(Methods):
    """The part of Tensor that arranges elements, and multiplies matrices by their kind."""

    if TYPE_CHECKING:  # what Tensor adds, documented there
        data: Array

        @property
        def shape(self) -> tuple[int, ...]: ...
        @property
        def ndim(self) -> int: ...

    @property
    def T(self) -> Tensor:
        """The Tensor with its dimensions in reverse order."""
        return recorded("permute")(self, tuple(range(self.ndim))[::-1])

    @property
    def mT(self) -> Tensor:
        """The Tensor with its last two dimensions exchanged."""
        return recorded("transpose")(self, -2, -1)

    def dim(self) -> int:
        """Return the number of dimensions."""
        return self.data.ndim

    def numel(self) -> int:
        """Return the number of elements."""
        return self.data.size

    def size(self, dim: int | None = None) -> Any:
        """Return the shape, or the length of one dimension.

        Raises:
            IndexError: ``dim`` out of range.
        """
        if dim is None:
            return self.shape
        if not self.ndim:
            raise IndexError(f"size: dim {dim} of a 0-d Tensor, which has no dimensions")
        return self.shape[axis(dim, self.ndim, what="size")]

    # Ops whose lengths or dimensions may come one by one or in a sequence.

    def reshape(self, *shape: Any) -> Tensor:
        """Return the same elements in another shape; one length may be -1."""
        return recorded("reshape")(self, _sequence(shape))

    view = reshape

    def permute(self, *dims: Any) -> Tensor:
        """Return the Tensor with its dimensions in the given order."""
        return recorded("permute")(self, _sequence(dims))

    def expand(self, *shape: Any) -> Tensor:
        """Return a view in which dimensions of length 1 are repeated; -1 keeps a length."""
        return recorded("expand")(self, _sequence(shape))

    def repeat(self, *repeats: Any) -> Tensor:
        """Return copies side by side, so many along each dimension; new ones stand in front."""
        return recorded("repeat")(self, _sequence(repeats))

    def flip(self, *dims: Any) -> Tensor:
        """Return a copy with the elements in reverse order along the given dimensions."""
        return recorded("flip")(self, _sequence(dims))

    def mm(self, b: Any) -> Tensor:
        """Return the product of matrices (m, k) and (k, n), of which nothing is broadcast."""
        return _product("mm", self, b, 2, 2)

    def bmm(self, b: Any) -> Tensor:
        """Return the products of batches of matrices (n, m, k) and (n, k, p), nothing broadcast."""
        return _product("bmm", self, b, 3, 3)

    def mv(self, b: Any) -> Tensor:
        """Return the product of a matrix (m, k) and a vector (k,)."""
        return _product("mv", self, b, 2, 1)

    def dot(self, b: Any) -> Tensor:
        """Return the product of two vectors (k,), a number."""
        return _product("dot", self, b, 1, 1)

    def swapaxes(self, dim0: int, dim1: int) -> Tensor:
        """Return a view with two dimensions exchanged: ``transpose`` by numpy's name."""
        return recorded("transpose")(self, dim0, dim1)

    def movedim(self, source: int | Sequence[int], destination: int | Sequence[int]) -> Tensor:
        """Return a view with the dimensions ``source`` at ``destination``, the others in order.

        Raises:
            ShapeError: not as many of one as of the other, or one named twice.
            IndexError: a dimension out of range.
        """
        ndim = len(_shape("movedim", self))
        moved, places = (
            axes(integers(f"movedim: {name}", dims), ndim, what="movedim")
            for name, dims in (("source", source), ("destination", destination))
        )
        if len(moved) != len(places):
            raise ShapeError(
                f"movedim: source {source} and destination {destination} must be equally many"
            )
        others = (d for d in range(ndim) if d not in moved)
        chosen = dict(zip(places, moved, strict=True))
        return recorded("permute")(
            self, tuple(chosen[d] if d in chosen else next(others) for d in range(ndim))
        )

    moveaxis = movedim

    def broadcast_to(self, shape: Sequence[int] | int) -> Tensor:
        """Return a read-only view of ``shape``: ``expand`` by numpy's name."""
        return recorded("expand")(self, shape)

    def contiguous(self) -> Tensor:
        """Return the Tensor itself if its elements lie in memory row by row, otherwise a copy."""
        if self.data.flags.c_contiguous:
            return cast("Tensor", self)
        return recorded("clone")(self)

    def split(self, split_size: int | Sequence[int], dim: int = 0) -> tuple[Tensor, ...]:
        """Return views of consecutive parts along ``dim``.

        ``split_size`` is the length of each part, of which the last may be
        shorter, or a sequence of lengths that add up to that of ``dim``.

        Raises:
            ShapeError: lengths that are negative, 0 for all, or do not add up.
            IndexError: ``dim`` out of range.
        """
        return _split("split", self, split_size, dim)

    def chunk(self, chunks: int, dim: int = 0) -> tuple[Tensor, ...]:
        """Return views of at most ``chunks`` parts along ``dim``, of equal length but for the last.

        Raises:
            ShapeError: fewer than one.
            IndexError: ``dim`` out of range.
        """
        (count,) = integers("chunk: chunks", (chunks,))
        if count < 1:
            raise ShapeError(f"chunk: chunks must be at least 1, got {count}")
        length, _ = _length("chunk", self, dim)
        sizes = -(-length // count) if length else (0,) * count
        return _split("chunk", self, sizes, dim)

    def unbind(self, dim: int = 0) -> tuple[Tensor, ...]:
        """Return a view of each of the elements along ``dim``, which they no longer have.

        Raises:
            ShapeError: a 0-d Tensor.
            IndexError: ``dim`` out of range.
        """
        length, place = _length("unbind", self, dim)
        ahead = (slice(None),) * place
        return tuple(recorded("getitem")(self, (*ahead, i)) for i in range(length))

    def diag(self, diagonal: int = 0) -> Tensor:
        """Return a matrix with a vector on its diagonal, or a copy of the diagonal of a matrix.

        ``diagonal`` is how many places to the right of the main diagonal it lies.

        Raises:
            ShapeError: neither one nor two dimensions.
        """
        (offset,) = integers("diag: diagonal", (diagonal,))
        shape = _shape("diag", self)
        if len(shape) == 1:
            side = shape[0] + abs(offset)
            return recorded("diagonal_adjoint")(self, (side, side), offset)
        if len(shape) != 2:
            raise ShapeError(f"diag: expected 1 or 2 dimensions, got shape {shape}; see diagonal")
        return recorded("clone")(recorded("diagonal")(self, offset))

    def tile(self, *dims: Any) -> Tensor:
        """Return copies side by side, ``dims[d]`` of them along dimension d.

        Where there are fewer counts than dimensions they are those of the last ones; ``repeat``
        needs them all.

        Raises:
            ShapeError: a negative count.
        """
        counts = integers("tile: dims", dims[0] if len(dims) == 1 else dims)
        return recorded("repeat")(self, (1,) * (len(_shape("tile", self)) - len(counts)) + counts)

    def repeat_interleave(self, repeats: Any, dim: int | None = None) -> Tensor:
        """Return each element along ``dim`` so many times, one copy after the other.

        ``repeats`` is a number, or one for each element, as a sequence or integer
        Tensor. Without ``dim``, of the elements in one row.

        Raises:
            ShapeError: a negative number, or not one for each element.
            IndexError: ``dim`` out of range.
        """
        name = "repeat_interleave"
        shape = _shape(name, self)
        flat: Any = self if dim is not None and shape else recorded("reshape")(self, (-1,))
        place = 0 if dim is None else axis(dim, len(shape), what=name)
        length = flat.shape[place]
        given = repeats.tolist() if hasattr(repeats, "tolist") else repeats
        counts = integers(f"{name}: repeats", given)
        if min(counts, default=0) < 0 or len(counts) not in (1, length):
            raise ShapeError(
                f"{name}: repeats must be one number or {length}, one for each element, and not "
                f"negative, got {given}"
            )
        index = np.repeat(np.arange(length), counts)
        return recorded("getitem")(flat, (slice(None),) * place + (index,))


def einsum(equation: str, *operands: Any) -> Tensor:
    """Return a sum of products of ``operands``, as ``equation`` writes it in Einstein's notation.

    Operands are multiplied where they have a letter in common and summed over
    the letters that the result lacks::

        einsum("ij,jk->ik", a, b)         # a @ b
        einsum("bhqd,bhkd->bhqk", q, k)   # scores of attention
        einsum("...ii->...i", a)          # diagonals

    See ``ops.einsum``, the op, which takes the operands first. They may also be
    given as one sequence.

    Raises:
        ShapeError: the equation is malformed, or does not fit the operands.
        RuntimeError: the dtypes differ.
        TypeError: the equation is not a string.
    """
    if len(operands) == 1 and isinstance(operands[0], (tuple, list)):
        operands = tuple(operands[0])
    return recorded("einsum")(operands, equation)


def tensordot(a: Any, b: Any, dims: Any = 2) -> Tensor:
    """Return the sum of products over pairs of dimensions; the others stay in order, a's first.

    ``dims`` is a pair of sequences, of dimensions of ``a`` and as many of
    ``b``; or an integer n, the last n of ``a`` with the first n of ``b``.

    Raises:
        ShapeError: lengths that differ, not as many dimensions of one as of
            the other, one named twice, or n out of range.
        IndexError: a dimension out of range.
        RuntimeError: the dtypes differ.
    """
    a_shape, b_shape = _shape("tensordot", a), _shape("tensordot", b)
    if isinstance(dims, (tuple, list)) and len(dims) == 2:
        left, right = (integers("tensordot: dims", d) for d in dims)
        left = tuple(axis(d, len(a_shape), what="tensordot") for d in left)
        right = tuple(axis(d, len(b_shape), what="tensordot") for d in right)
    else:
        (count,) = integers("tensordot: dims", (dims,))
        if not 0 <= count <= min(len(a_shape), len(b_shape)):
            raise ShapeError(
                f"tensordot: dims must lie in [0, {min(len(a_shape), len(b_shape))}], the number "
                f"of dimensions of shapes {a_shape} and {b_shape}, got {count}"
            )
        left, right = tuple(range(len(a_shape) - count, len(a_shape))), tuple(range(count))
    if len(left) != len(right) or len({*left}) < len(left) or len({*right}) < len(right):
        raise ShapeError(
            f"tensordot: dims must pair dimensions, each of them once, got {left} and {right}"
        )
    for i, j in zip(left, right, strict=True):
        if a_shape[i] != b_shape[j]:
            raise ShapeError(
                f"tensordot: dim {i} of shape {a_shape} and dim {j} of shape {b_shape} must be of "
                "equal length"
            )
    letters = iter(string.ascii_letters)
    names = [next(letters) for _ in a_shape]
    pairs = dict(zip(right, left, strict=True))
    others = [names[pairs[j]] if j in pairs else next(letters) for j in range(len(b_shape))]
    kept = [c for c in names if c not in others] + [c for c in others if c not in names]
    return recorded("einsum")((a, b), f"{''.join(names)},{''.join(others)}->{''.join(kept)}")


def _product(name: str, a: Any, b: Any, a_ndim: int, b_ndim: int) -> Tensor:
    shapes = _shape(name, a), _shape(name, b)
    if (len(shapes[0]), len(shapes[1])) != (a_ndim, b_ndim):
        raise ShapeError(
            f"{name}: expected shapes of {a_ndim} and {b_ndim} dimensions, got {shapes[0]} and "
            f"{shapes[1]}; matmul takes any"
        )
    if a_ndim == 3 and len(a) != len(b):
        raise ShapeError(f"{name}: the batches {shapes[0]} and {shapes[1]} must be as many")
    return recorded("matmul")(a, b)


def _split(name: str, a: Any, split_size: int | Sequence[int], dim: int) -> tuple[Tensor, ...]:
    length, place = _length(name, a, dim)
    sizes = integers(f"{name}: split_size", split_size)
    if not isinstance(split_size, (tuple, list)):
        size = sizes[0]
        if size < 0 or (size == 0 < length):
            raise ShapeError(f"{name}: split_size must be at least 1, got {size}")
        count = max(1, -(-length // size)) if size else 1
        sizes = (size,) * (count - 1) + (length - size * (count - 1),)
    if min(sizes, default=0) < 0 or sum(sizes) != length:
        raise ShapeError(
            f"{name}: the lengths {sizes} must not be negative and add up to {length}, the length "
            f"of dim {dim} of shape {np.shape(a)}"
        )
    ahead = (slice(None),) * place
    ends = np.cumsum(sizes).tolist()
    return tuple(
        recorded("getitem")(a, (*ahead, slice(end - size, end)))
        for size, end in zip(sizes, ends, strict=True)
    )


def _length(name: str, a: Any, dim: int) -> tuple[int, int]:
    """Return the length of ``dim``, of which there must be one, and its number from the front."""
    shape = _shape(name, a)
    place = axis(dim, len(shape), what=name)
    if not shape:
        raise ShapeError(f"{name}: a 0-d Tensor has no dimension to divide; unsqueeze it")
    return shape[place], place


def _shape(name: str, a: Any) -> tuple[int, ...]:
    """Return the shape of an operand, which must be one."""
    if not is_operand(a):
        raise TypeError(
            f"{name}: expected a Tensor, got {type(a).__name__}; wrap it in Tensor(...)"
        )
    return np.shape(a)


def _sequence(given: tuple[Any, ...]) -> Any:
    """Return ``f(2, 3)`` and ``f((2, 3))`` as the same tuple."""
    return given[0] if len(given) == 1 and isinstance(given[0], (tuple, list)) else given


bmm = Composite.bmm
broadcast_to = Composite.broadcast_to
chunk = Composite.chunk
diag = Composite.diag
dot = Composite.dot
mm = Composite.mm
moveaxis = Composite.moveaxis
movedim = Composite.movedim
mv = Composite.mv
repeat_interleave = Composite.repeat_interleave
split = Composite.split
swapaxes = Composite.swapaxes
tile = Composite.tile
unbind = Composite.unbind
