"""Changes in place: what may be overwritten, what is recorded, and what is refused.

A change bumps the version that all Tensors of the same memory share, so that a
backward pass notices when an array it needs is no longer what was saved.

Where gradients flow, the change is an op like any other, and its record takes
the place of the Tensor's old one. If the Tensor is a view, the one that it is a
view of has changed too: its record says that new elements were put where the
view looks. Every living view is then recorded anew, as one of the changed Tensor.
"""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any, Self, cast

import numpy as np

from . import modes
from .dtypes import as_array, check_bool, is_operand
from .errors import ShapeError
from .graph import Array, Node, Version
from .kernels import scatter
from .methods import recorded
from .selection import Selection
from .tracing import TRACER

if TYPE_CHECKING:
    import builtins
    from collections.abc import Mapping

    from .tensor import Tensor

__all__ = ["InPlace", "plain_index"]


class InPlace(Selection):
    """The part of Tensor that overwrites elements.

    While gradients are recorded, so are changes of a Tensor that gradients flow
    to, and of one that a value with gradients is put into. The elements that
    were overwritten get the gradient 0, and the values that of their places.

    Raises (all of them):
        RuntimeError: a leaf that requires grad or a view of it, while gradients
            are recorded; memory that is read-only; a dtype that cannot be stored.
        ShapeError: a shape that does not fit.
    """

    if TYPE_CHECKING:  # what Tensor adds, documented there
        data: Array
        node: Node | None
        _requires_grad: builtins.bool
        _version: Version | None
        _source: tuple[Tensor, str, Mapping[str, Any]] | None

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

    # What is no operand may know how to be added to a Tensor.

    def __iadd__(self, other: Any) -> Self:
        return self.add_(other) if is_operand(other) else NotImplemented

    def __isub__(self, other: Any) -> Self:
        return self.sub_(other) if is_operand(other) else NotImplemented

    def __imul__(self, other: Any) -> Self:
        return self.mul_(other) if is_operand(other) else NotImplemented

    def __itruediv__(self, other: Any) -> Self:
        return self.div_(other) if is_operand(other) else NotImplemented

    def copy_(self, source: Any) -> Self:
        """Copy the elements of ``source``, broadcast and converted, into this Tensor."""
        return self._put("copy_", ..., source)

    def fill_(self, value: Any) -> Self:
        """Set every element to ``value``, one number."""
        return self._put("fill_", ..., value, single=True)

    def zero_(self) -> Self:
        """Set every element to 0."""
        return self._put("zero_", ..., 0)

    def masked_fill_(self, mask: Any, value: Any) -> Self:
        """Set the elements where ``mask``, bool and broadcast, is True to ``value``, one number."""
        where = plain_index(mask)
        check_bool("masked_fill_: mask", as_array(where, what="masked_fill_: mask"))
        try:
            where = np.broadcast_to(where, self.shape)
        except ValueError as error:
            raise ShapeError(
                f"masked_fill_: mask of shape {np.shape(where)} does not broadcast to {self.shape}"
            ) from error
        return self._put("masked_fill_", where, value, single=True)

    def index_put_(self, indices: Any, values: Any, accumulate: builtins.bool = False) -> Self:
        """Set the elements at ``indices``, a tuple of Tensors, to ``values``; or add them there.

        Without ``accumulate`` the last value for a place remains, and alone gets a gradient.
        """
        return self._put("index_put_", tuple(indices), values, accumulate=accumulate)

    def __setitem__(self, index: Any, value: Any) -> None:
        self._put("setitem", index, value)

    def _put(
        self,
        name: str,
        index: Any,
        value: Any,
        *,
        accumulate: builtins.bool = False,
        single: builtins.bool = False,
    ) -> Self:
        """Write ``value`` at ``index``, or add it there, and record that where gradients flow."""
        from .dispatch import node_of, raw

        root = self._check_writable(name)
        index = plain_index(index)
        array = value.data if isinstance(value, InPlace) else as_array(value, what=name)
        tracer = TRACER.get()
        if tracer is not None and isinstance(value, InPlace):
            tracer.edge(cast("Tensor", value))
        if single and array.ndim:
            raise ShapeError(f"{name}: value must be one number, got shape {array.shape}")
        try:
            target = raw.getitem(self.data, index)
        except IndexError as error:
            raise IndexError(f"{name}: {error} (shape {self.shape})") from error
        if not scatter.fits(array.shape, target.shape):
            raise ShapeError(f"{name}: shape {array.shape} does not fit into shape {target.shape}")
        gives = isinstance(value, InPlace) and value.requires_grad
        if not modes.is_grad_enabled() or not (gives or root.requires_grad):
            self._write(index, array, accumulate)
            return self
        if self.dtype.kind != "f":
            raise RuntimeError(
                f"{name}: a value that requires grad cannot be written into a Tensor of "
                f"{self.dtype}, because no gradient would flow back to it; write value.detach()"
            )
        if name == "setitem" and gives and value._root() is root and _same(target, array):
            return self  # as in x[0] += 1, which has changed the view that it writes back
        attrs = {"index": index, "accumulate": accumulate}
        operand = value if isinstance(value, InPlace) else array
        node = node_of("setitem", (self, operand), attrs, self.data)
        self._write(index, array, accumulate)
        self._record_anew(root, node)
        return self

    def _update(self, name: str, other: Any) -> Self:
        """Apply an op in place; its record, if there is one, takes the place of the old one."""
        root = self._check_writable(name + "_")
        result = recorded(name)(self, other)
        node, tracer = result.node, TRACER.get()
        if node is not None and result.dtype != self.dtype:
            raise RuntimeError(
                f"{name}_: cannot record a change in place of this Tensor, because the result "
                f"would be {result.dtype}; use {name}, which returns a new one"
            )
        if not np.can_cast(result.dtype, self.dtype, "same_kind"):
            raise RuntimeError(f"{name}_: the result, {result.dtype}, does not fit in {self.dtype}")
        if result.shape != self.shape:
            raise ShapeError(
                f"{name}_: the result has shape {result.shape}, but the Tensor has {self.shape}"
            )
        if node is not None:
            for operand, (array, _, _) in (node.saved or {}).items():
                if array is self.data and node.saved:
                    kept = array.copy()
                    node.saved[operand] = kept, Version(), 0
                    if tracer is not None:
                        tracer.note("clone", (self,), (self.data,), {}, kept)
        self._write(..., result.data)
        if node is not None:
            self._record_anew(root, node)
        return self

    def _root(self) -> InPlace:
        """Return what this is a view of, or itself."""
        root: InPlace = self
        while root._source is not None:
            root = root._source[0]
        return root

    def _check_writable(self, name: str) -> InPlace:
        """Raise if the elements cannot be overwritten; return the root."""
        root = self._root()
        if modes.is_grad_enabled():
            if root._requires_grad and root.node is None:
                view = "" if root is self else "view of a "
                raise RuntimeError(
                    f"{name}: a {view}leaf Tensor that requires grad is being used in an in-place "
                    "operation while gradients are recorded; do it under no_grad(), or use the op "
                    "that returns a new Tensor"
                )
            if root.node is not None and self.node is None:
                raise RuntimeError(
                    f"{name}: a view made under no_grad() of a result of {root.op} is being used "
                    "in an in-place operation while gradients are recorded; make the view where "
                    "gradients are recorded, or detach() it"
                )
            if root._version is not self._version and root is not self:
                raise RuntimeError(
                    f"{name}: what this Tensor is a view of has been given other data; "
                    "detach() it, or make the view again"
                )
        if not self.data.flags.writeable:
            raise RuntimeError(f"{name}: the Tensor's memory is read-only; clone() it first")
        return root

    def _write(self, index: Any, value: Array, accumulate: builtins.bool = False) -> None:
        """Overwrite elements, after everything that could be refused was checked."""
        with np.errstate(all="ignore"):  # what does not fit a dtype becomes inf, as in a cast
            scatter.put(self.data, index, value, accumulate)
        self._shared_version().count += 1
        tracer = TRACER.get()
        if tracer is not None:
            tracer.write(cast("Tensor", self), index, value, accumulate)

    def _record_anew(self, root: InPlace, node: Node) -> None:
        """Make ``node`` the record of this Tensor, which has been overwritten, and of its views."""
        from .dispatch import node_of
        from .tensor import Tensor

        flowed = root.requires_grad
        if root is not self:
            new = Tensor._wrap(self.data, node)
            if root.shape or new.data.size:
                index = self._place_in(root)
            else:  # what picks nothing from a single number has one dimension
                new, index = recorded("reshape")(new, (0,)), False
            attrs = {"index": index, "accumulate": False}
            node = node_of("setitem", (root, new), attrs, root.data)
        root._continue(node)
        version = root._shared_version()
        changed = {id(root)}
        for ref in version.views or ():
            view = ref()
            if view is None or view._source is None or id(view._source[0]) not in changed:
                continue
            if flowed and view.node is None:
                continue  # made under no_grad()
            base, op, attrs = cast("tuple[Tensor, str, dict[str, Any]]", view._source)
            view._continue(node_of(op, (base,), attrs, view.data))
            changed.add(id(view))

    def _place_in(self, root: InPlace) -> Any:
        """Return the index at which this view stands in ``root``."""
        from .dispatch import OPS, quietly

        steps: list[tuple[str, Mapping[str, Any]]] = []
        view: InPlace = self
        while view._source is not None:
            view, op, attrs = view._source
            steps.append((op, attrs))
        if len(steps) == 1 and steps[0][0] == "getitem":
            return steps[0][1]["index"]
        if not root.shape:
            return (None,) * self.data.ndim
        places = np.arange(root.data.size).reshape(root.shape)
        for op, attrs in reversed(steps):
            operand = [places] if OPS[op].variadic else places
            places = quietly().run(OPS[op].kernel, operand, **attrs)
        return np.unravel_index(places, root.shape)

    def _continue(self, node: Node) -> None:
        """Make ``node`` the record of this Tensor."""
        if self.node is not None and self.node.retains is not None:
            self.node.retains, node.retains = None, weakref.ref(cast("Tensor", self))
        self.node = node


def _same(a: Array, b: Array) -> bool:
    """Return whether two arrays are views of the very same elements."""
    return (
        a.shape == b.shape
        and a.dtype == b.dtype
        and a.strides == b.strides
        and a.ctypes.data == b.ctypes.data
    )


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
