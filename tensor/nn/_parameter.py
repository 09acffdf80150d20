"""The two kinds of Tensor that belong to a module."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..dtypes import as_dtype
from ..shapes import size
from ..tensor import Tensor

__all__ = ["Buffer", "Parameter", "empty_parameter"]


class Parameter(Tensor):
    """A Tensor that is trained: as a module's attribute it is among ``parameters()``.

    ``label`` becomes the parameter's name in the model when the model first
    lists its parameters, unless it was chosen before.

    Args:
        data: what a Tensor is made of; copied.
        requires_grad: whether it collects gradients.
    """

    def __init__(self, data: Any, requires_grad: bool = True) -> None:
        super().__init__(data, requires_grad=requires_grad)


class Buffer(Tensor):
    """A Tensor that belongs to a module's state but is not trained: it is among ``buffers()``.

    Args:
        data: what a Tensor is made of; copied.
        persistent: whether it is part of ``state_dict()``.
    """

    persistent: bool = True

    def __init__(self, data: Any, *, persistent: bool = True) -> None:
        super().__init__(data)
        self.persistent = persistent

    def __deepcopy__(self, memo: dict[int, Any]) -> Tensor:
        buffer = super().__deepcopy__(memo)
        assert isinstance(buffer, Buffer)
        buffer.persistent = self.persistent
        return buffer

    def _succeeded_by(self, value: Tensor) -> Buffer:
        """Return ``value``, memory and history included, as the buffer that replaces this one."""
        buffer = Buffer._wrap(value.data, value.node)
        buffer.persistent = self.persistent
        buffer._version = value._shared_version()
        return buffer


def empty_parameter(owner: str, shape: Any, dtype: Any) -> Parameter:
    """Return a parameter whose values are still to be set.

    Raises:
        TypeError: a length in ``shape`` is not an integer, or ``dtype`` is not floating.
        ShapeError: a length is negative.
    """
    lengths, wanted = size(shape, what=owner), as_dtype(dtype)
    if wanted.kind != "f":
        raise TypeError(f"{owner}: dtype must be floating, got {wanted}")
    return Parameter(np.empty(lengths, wanted))
