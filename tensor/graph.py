"""The record: what is kept of an operation so that it can be differentiated.

A computation is data. A ``Node`` names its op and points at where its operands
came from: at another ``Node``, at a leaf Tensor that requires grad, or at a
``Constant``. It keeps just the arrays that the op's rules mention, each with
the version it had when it was saved.
"""

from __future__ import annotations

import itertools
import os
import sys
import threading
import weakref
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from micro import vocab

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from .tensor import Tensor

__all__ = [
    "SYMBOLS",
    "Array",
    "Constant",
    "Edge",
    "Node",
    "Recipe",
    "Recomputation",
    "Saved",
    "Version",
    "next_sequence",
    "user_site",
]

Array: TypeAlias = npt.NDArray[Any]

# What a drawing writes for each op that is registered.
SYMBOLS: Final[dict[str, str]] = {}

next_sequence = itertools.count().__next__

_weakly = weakref.ref
_dropping = threading.Lock()

# The files whose frames are not the user's: this package, and the operators' definition.
_OURS = (os.path.dirname(os.path.abspath(__file__)) + os.sep, os.path.abspath(vocab.__file__))


class Version:
    """How often the memory that one or more Tensors share was written to in place.

    ``views`` holds, weakly and oldest first, those of them that ops have made as views of another.
    """

    __slots__ = ("_room", "count", "views")

    def __init__(self) -> None:
        self.count = 0
        self.views: list[weakref.ref[Tensor]] | None = None

    def add_view(self, view: Tensor) -> None:
        """Add a view; the dead are dropped whenever the list has doubled."""
        views = self.views
        if views is None:
            self.views, self._room = [_weakly(view)], 32
            return
        views.append(_weakly(view))
        if len(views) > self._room and _dropping.acquire(blocking=False):
            try:  # other threads may add meanwhile, at the end
                count = len(views)
                views[:count] = [ref for ref in views[:count] if ref() is not None]
                self._room = 2 * len(views) + 32
            finally:
                _dropping.release()


class Constant(NamedTuple):
    """An operand that no gradient flows to.

    Its value is kept if it is one number; of others, a copy within ``record_details()``. It is
    fixed if it belongs to a program, where it is the same whatever the arguments are.
    """

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    value: float | int | bool | None = None
    label: str | None = None
    array: Array | None = None
    is_fixed: bool = False

    @classmethod
    def fixed(cls, array: Array) -> Constant:
        """Return what is the same in every replay of a program."""
        value = array.item() if array.ndim == 0 else None
        return cls(array.shape, array.dtype, value, None, array, True)

    @property
    def op(self) -> str:
        """No op made it."""
        return ""

    @property
    def inputs(self) -> tuple[Edge, ...]:
        """It came from nowhere."""
        return ()

    @property
    def is_constant(self) -> bool:
        """What tells it from a leaf that gradients flow to."""
        return True

    @property
    def data(self) -> Any:
        """Its value, as far as it was kept."""
        return self.array if self.value is None else self.value

    @property
    def is_missing(self) -> bool:
        """Whether it stands for an operand that was not given."""
        return self.value is None and self.array is None and not self.shape and self.dtype == bool


# An array that a rule will need, the version of its memory, and the count when it was saved. A
# plain tuple: every op makes some, and a named one takes six times as long to make.
Saved: TypeAlias = tuple[Array, Version, int]


class Recomputation(Protocol):
    """A part of a computation that can be run again, to have what its nodes would have saved."""

    def check(self) -> None:
        """Raise if it would not be the same again."""

    def __call__(self) -> list[Node | None]:
        """Run it, and return the nodes that this has recorded, in order."""


class Recipe(NamedTuple):
    """Where the twin of a node, with what it saved, is to be had: which run, and its place."""

    run: Recomputation
    place: int


class Node:
    """One recorded operation.

    Attributes:
        op: the op's name in the vocabulary.
        inputs: one edge per operand, in order, repeats kept.
        attrs: the op's attributes.
        saved: the arrays that the rules mention, by operand name (and ``out``);
            None once a backward pass has freed them.
        needs: to which of the operands gradients flow.
        shape: the result's shape.
        dtype: the result's dtype.
        label: the name that a drawing shows.
        sequence: rises in order of creation, which is a topological order.
        hooks: functions that see, and may replace, the gradient that arrives here.
        retains: the Tensor whose ``grad`` a backward pass sets, if that was asked for.
        site: the line of the caller's code that made it, if it was made within ``record_sites()``
            or in anomaly mode.
        recipe: how to make what was saved again, if it was not kept.
    """

    __slots__ = (
        "__weakref__",
        "_details",
        "attrs",
        "dtype",
        "hooks",
        "inputs",
        "label",
        "needs",
        "op",
        "recipe",
        "retains",
        "saved",
        "sequence",
        "shape",
        "site",
    )

    def __init__(
        self,
        op: str,
        inputs: tuple[Edge, ...],
        attrs: Mapping[str, Any],
        saved: dict[str, Saved],
        needs: tuple[bool, ...],
        out: Array,
    ) -> None:
        self.op = op
        self.inputs = inputs
        self.attrs = attrs
        self.saved: dict[str, Saved] | None = saved
        self.needs = needs
        self.shape = out.shape
        self.dtype = out.dtype
        self.label: str | None = None
        self.sequence = next_sequence()
        self.hooks: dict[object, Callable[[Tensor], Tensor | None]] | None = None
        self.retains: weakref.ref[Tensor] | None = None
        self.site: str | None = None
        self.recipe: Recipe | None = None

    @property
    def symbol(self) -> str:
        """What a drawing writes in the op's place."""
        return SYMBOLS.get(self.op, self.op)

    def keep(self, value: Array | None, module: str) -> None:
        """Keep the numbers of the result, if given, and the name of the module that called it."""
        self._details = (value, module)

    @property
    def data(self) -> Array | None:
        """The numbers of the result, if they were kept: in ``record_details()``, or for a rule."""
        if hasattr(self, "_details") and self._details[0] is not None:
            return self._details[0]
        return self.intact("out")

    def intact(self, name: str) -> Array | None:
        """Return what was saved under a name, if it was and nothing was written to it since."""
        array, version, expected = (self.saved or {}).get(name) or (None, None, 0)
        return None if version is None or version.count != expected else array

    @property
    def module(self) -> str:
        """The name of the module that called the op, if that was written down.

        It is in ``record_details()``, and while a Program is traced.
        """
        return self._details[1] if hasattr(self, "_details") else ""

    def scalars(self, g: Any = None, limit: int | None = None) -> Any:
        """Return the result as an ndarray of micro's Values, made from the operands' numbers.

        See ``tensor.expansions.opening``.
        """
        from .expansions.opening import opened

        return opened(self, g, limit)

    def partials(self) -> tuple[Any, ...]:
        """Return the derivative by each operand, where all are single numbers: for drawings."""
        from .watch import local_derivatives

        return local_derivatives(self)

    def __repr__(self) -> str:
        made = f", made at {self.site}" if self.site else ""
        return f"<{self.op} node: shape {self.shape}, {self.dtype}{made}>"


Edge: TypeAlias = "Node | Tensor | Constant"


def user_site() -> str:
    """Return ``file:line`` of the innermost caller outside this package."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_OURS):
        frame = frame.f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"
