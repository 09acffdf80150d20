"""Reading elements by index, and adding them back."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..dispatch import Operand, kernel
from ..errors import ShapeError
from ..inplace import plain_index
from ..kernels import scatter

__all__ = ["embedding", "embedding_adjoint", "getitem", "getitem_adjoint", "one_hot"]


@kernel(prepare={"index": plain_index})
def getitem(a: Operand, index: Any) -> Any:
    """Return ``a[index]``: integers, slices, None, ``...``, integer and boolean arrays, mixed.

    Basic indices give a view; arrays give a copy, in which an element may
    stand several times. As in numpy, and unlike in PyTorch, an integer beside
    an array counts as an array: ``a[0, :, [1, 2]]`` has the chosen ones first.

    Raises:
        IndexError: out of range, too many indices, or not integer or boolean.
    """
    out = a[index]
    if isinstance(out, np.generic):  # the one element, as a view and not a copy
        out = a[(*index, ...) if isinstance(index, tuple) else (index, ...)]
    return out


@kernel(prepare={"index": plain_index})
def getitem_adjoint(a: Operand, index: Any, shape: tuple[int, ...]) -> Any:
    """Return zeros of ``shape`` to which ``a`` is added at ``index``, repeats included."""
    return scatter.add_at(a, index, shape)


@kernel()
def embedding(weight: Operand, indices: Operand) -> Any:
    """Return the rows of ``weight`` (rows, width) named by ``indices`` (...): (..., width).

    Raises:
        IndexError: an index below 0 or not below the number of rows, or not an integer.
        ShapeError: ``weight`` has not two dimensions.
    """
    if weight.ndim != 2:
        raise ShapeError(f"weight must be (rows, width), got shape {weight.shape}")
    scatter.check_rows(indices, len(weight))
    return weight[indices]


@kernel()
def embedding_adjoint(a: Operand, indices: Operand, rows: int) -> Any:
    """Return (rows, width) zeros to which row i of ``a`` is added at row ``indices[i]``."""
    if a.shape[:-1] != indices.shape:
        raise ShapeError(f"a must be {(*indices.shape, 'width')}, one row for each index")
    scatter.check_rows(indices, rows)
    return scatter.add_rows(a.reshape(indices.size, a.shape[-1]), indices.reshape(-1), rows)


@kernel()
def one_hot(indices: Operand, num_classes: int) -> Any:
    """Return integers of shape ``(*indices.shape, num_classes)``, 1 at each index and 0 elsewhere.

    Raises:
        IndexError: an index outside ``[0, num_classes)``.
        TypeError: ``num_classes`` is not an integer.
    """
    if isinstance(num_classes, bool) or not hasattr(num_classes, "__index__"):
        raise TypeError(f"num_classes must be an integer, got {num_classes!r}")
    scatter.check_rows(indices, num_classes)
    return (np.arange(num_classes) == np.asarray(indices)[..., None]).astype(np.int64)
