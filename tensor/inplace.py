"""Changes in place: what may be overwritten, what is recorded, and what is refused.

A change bumps the version that all Tensors of the same memory share, so that a
backward pass notices when an array it needs is no longer what was saved.
"""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any, Self, cast

import numpy as np

from . import modes
from .dtypes import as_array
from .errors import ShapeError
from .graph import Array, Node, Saved, Version
from .methods import Methods

if TYPE_CHECKING:
    import builtins

    from .tensor import Tensor

__all__ = ["InPlace", "plain_index"]


class InPlace(Methods):
    """The part of Tensor that overwrites elements.

    ``add_``, ``sub_``, ``mul_`` and ``div_`` are recorded like the ops they are
    named after. The others are not, and refuse what would have to be.

    Raises (all of them):
        RuntimeError: a leaf that requires grad, while gradients are recorded;
            memory that is read-only or, where the change is recorded, shared
            with other Tensors; a dtype that cannot be stored.
        ShapeError: a shape that does not fit.
    """

    if TYPE_CHECKING:  # what Tensor adds, documented there
        data: Array
        node: Node | None

        @property
        def shape(self) -> tuple[int, ...]: ...  # noqa: D102
        @property
        def dtype(self) -> np.dtype[Any]: ...  # noqa: D102
        @property
        def op(self) -> str: ...  # noqa: D102
        @property
        def requires_grad(self) -> builtins.bool: ...  # noqa: D102
        def _shared_version(self) -> Version: ...

    def add_(self, other: Any) -> Self:
        """Add ``other`` in place."""
        return self._update("add", other)

    def sub_(self, other: Any) -> Self:
        """Subtract ``other`` in place."""
        return self._update("sub", other)

    def mul_(self, other: Any) -> Self:
        """Multiply by ``other`` in place."""
        return self._update("mul", other)

    def div_(self, other: Any) -> Self:
        """Divide by ``other`` in place."""
        return self._update("div", other)

    __iadd__ = add_
    __isub__ = sub_
    __imul__ = mul_
    __itruediv__ = div_

    def copy_(self, source: Any) -> Self:
        """Copy the elements of ``source``, broadcast and converted, into this Tensor."""
        self._writable("copy_")
        return self._overwrite("copy_", ..., _elements("copy_", source))

    def fill_(self, value: Any) -> Self:
        """Set every element to ``value``."""
        self._writable("fill_")
        array = _elements("fill_", value)
        if array.ndim:
            raise ShapeError(f"fill_: value must be one number, got shape {array.shape}")
        return self._overwrite("fill_", ..., array)

    def zero_(self) -> Self:
        """Set every element to 0."""
        self._writable("zero_")
        return self._overwrite("zero_", ..., np.zeros((), self.dtype))

    def __setitem__(self, index: Any, value: Any) -> None:
        self._writable("setitem")
        self._overwrite("setitem", plain_index(index), _elements("setitem", value))

    def _writable(self, name: str, recorded: builtins.bool = False) -> None:
        """Raise if the elements cannot be overwritten."""
        if not recorded and self.requires_grad and modes.is_grad_enabled():
            what = "leaf Tensor that requires grad" if self.node is None else f"result of {self.op}"
            raise RuntimeError(
                f"{name}: a {what} is being used in an in-place operation while gradients are "
                "recorded; do it under no_grad(), or use the op that returns a new Tensor"
            )
        if not self.data.flags.writeable:
            raise RuntimeError(f"{name}: the Tensor's memory is read-only; clone() it first")

    def _overwrite(self, name: str, index: Any, value: Array) -> Self:
        """Set the elements at ``index``, after everything that could be refused was checked."""
        try:
            shape = self.data[index].shape
        except IndexError as error:
            raise IndexError(f"{name}: {error} (shape {self.shape})") from error
        lengths = zip(value.shape[::-1], shape[::-1], strict=False)
        if value.ndim > len(shape) or any(n not in (1, wanted) for n, wanted in lengths):
            raise ShapeError(f"{name}: shape {value.shape} does not fit into shape {shape}")
        with np.errstate(all="ignore"):  # what does not fit a dtype becomes inf, as in a cast
            self.data[index] = value
        self._shared_version().count += 1
        return self

    def _update(self, name: str, other: Any) -> Self:
        """Apply an op in place; its record, if there is one, takes the place of the old one."""
        from .tensor import recorded

        self._writable(name + "_", recorded=self.node is not None)
        result = recorded(name)(self, other)
        node, version = result.node, self._shared_version()
        if node is not None and (version.shared or result.dtype != self.dtype):
            reason = (
                "other Tensors share its memory"
                if version.shared
                else f"the result would be {result.dtype}"
            )
            raise RuntimeError(
                f"{name}_: cannot record a change in place of this Tensor, because {reason}; "
                f"use {name}, which returns a new one"
            )
        if not np.can_cast(result.dtype, self.dtype, "same_kind"):
            raise RuntimeError(f"{name}_: the result, {result.dtype}, does not fit in {self.dtype}")
        if result.shape != self.shape:
            raise ShapeError(
                f"{name}_: the result has shape {result.shape}, but the Tensor has {self.shape}"
            )
        if node is not None:
            self._continue(node)
        return self._overwrite(name + "_", ..., result.data)

    def _continue(self, node: Node) -> None:
        """Make ``node`` the record of this Tensor, whose elements are about to be overwritten."""
        for name, saved in (node.saved or {}).items():
            if saved.array is self.data and node.saved:
                node.saved[name] = Saved(saved.array.copy(), Version(), 0)
        if self.node is not None and self.node.retains is not None:
            self.node.retains, node.retains = None, weakref.ref(cast("Tensor", self))
        self.node = node


def _elements(name: str, value: Any) -> Array:
    """Return what is to be written as an ndarray.

    Raises:
        RuntimeError: it requires grad, and gradients are recorded: they would be lost.
    """
    if not isinstance(value, InPlace):
        return as_array(value, what=name)
    if value.requires_grad and modes.is_grad_enabled():
        raise RuntimeError(
            f"{name}: a value that requires grad cannot be written into a Tensor, because no "
            "gradient would flow back to it; write value.detach(), or build the Tensor with "
            "where, cat or stack"
        )
    return value.data


def plain_index(index: Any) -> Any:
    """Return an index with every Tensor in it replaced by a copy of its array."""
    if isinstance(index, InPlace):
        return index.data.copy()
    if isinstance(index, np.ndarray):
        return index.copy()
    if isinstance(index, tuple):
        return tuple(plain_index(i) for i in index)
    if isinstance(index, list):
        return [plain_index(i) for i in index]
    return index
