"""PyTorch's names and forms of calls that are another op here, and what a Tensor says of its shape.

What they return is made by the ops they call: views where those give views, recorded and refused
as those are. Ops that are made of others, and are more than such a form, stand in
``ops/composed.py``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from .dtypes import is_operand
from .errors import ShapeError
from .graph import Array
from .methods import Methods, recorded
from .shapes import axis, integers

if TYPE_CHECKING:
    from .tensor import Tensor

__all__ = [
    "bmm",
    "broadcast_to",
    "diag",
    "dot",
    "einsum",
    "mm",
    "mv",
    "repeat_interleave",
    "tile",
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

    def tile(self, *dims: Any) -> Tensor:
        """Return copies side by side; of fewer counts than dimensions, along the last ones."""
        return recorded("tile")(self, _sequence(dims))

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

    def broadcast_to(self, shape: Sequence[int] | int) -> Tensor:
        """Return a read-only view of ``shape``: ``expand`` by numpy's name."""
        return recorded("expand")(self, shape)

    def contiguous(self) -> Tensor:
        """Return the Tensor itself if its elements lie in memory row by row, otherwise a copy."""
        if self.data.flags.c_contiguous:
            return cast("Tensor", self)
        return recorded("clone")(self)

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
diag = Composite.diag
dot = Composite.dot
mm = Composite.mm
mv = Composite.mv
repeat_interleave = Composite.repeat_interleave
tile = Composite.tile
