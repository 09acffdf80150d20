"""Parameters side by side in one buffer, so that one pass over it serves them all."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterable, Sequence

import numpy as np

from ..graph import Array
from ..kernels import optimizers
from ..kernels.room import aligned
from ..tensor import Tensor

__all__ = ["Flat", "flatten"]


class Slot:
    """The place of one parameter's gradient in a flat array.

    A backward pass puts the gradient there, if nobody still looks at the last one: a Tensor that
    was ``grad``, kept by the user, never changes. Who looks is read off the reference counts, since
    every view of the flat array holds it.

    Attributes:
        view: the place.
        mirror: the same memory, for one who writes there too; who holds it does not look.
    """

    def __init__(self, view: Array, mirror: Array) -> None:
        self.view = view
        self.mirror = mirror
        self._idle = 0, 0

    def rest(self) -> None:
        """Take the references of this moment for those of nobody."""
        self._idle = self._references()

    def is_idle(self) -> bool:
        """Return whether nobody looks at the gradient."""
        return self._references() == self._idle

    def put(self, gradient: Array) -> Array:
        """Return ``gradient`` in its place, or itself if that is taken."""
        if not self.is_idle():
            return gradient
        np.copyto(self.view, gradient)
        return self.view

    def _references(self) -> tuple[int, int]:
        return sys.getrefcount(self.view), sys.getrefcount(self.view.base)


class Flat:
    """Parameters of one dtype whose ``data`` are views into one flat array.

    Attributes:
        params: the parameters, in order.
        data: their values, end to end.
        grad: their gradients, likewise.
        work: scratch memory of the kernels.
    """

    def __init__(self, params: Sequence[Tensor]) -> None:
        self.params = list(params)
        self._starts = [0, *itertools.accumulate(p.numel() for p in params)]
        self._shapes = [p.shape for p in params]
        dtype = params[0].dtype
        self.data = aligned(self._starts[-1], dtype)
        self.work = optimizers.workspace(dtype)
        self._values = self.views(self.data)
        self._renew()
        self._states: dict[str, tuple[Array, list[Array]]] = {}
        for i in range(len(params)):
            self.adopt(i)

    def views(self, flat: Array) -> list[Array]:
        """Return every parameter's part of a flat array, in its shape."""
        return [
            flat[start:stop].reshape(shape)
            for (start, stop), shape in zip(
                itertools.pairwise(self._starts), self._shapes, strict=True
            )
        ]

    def span(self, first: int, last: int) -> slice:
        """Return where parameters ``first`` to ``last`` lie in a flat array."""
        return slice(self._starts[first], self._starts[last + 1])

    def state(self, name: str) -> tuple[Array, list[Array]]:
        """Return the flat array of one kind of state, and its views; made when first asked for."""
        if name not in self._states:
            flat = aligned(self.data.size, self.data.dtype)
            flat.fill(0)
            self._states[name] = flat, self.views(flat)
        return self._states[name]

    def is_settled(self) -> bool:
        """Return whether every parameter and its gradient lie in their places."""
        return all(
            param._array is place and param._grad is not None and param._grad._array is slot.view
            for param, place, slot in zip(self.params, self._values, self._slots, strict=True)
        )

    def check(self, i: int) -> None:
        """Raise if parameter ``i`` has become one that does not fit its place.

        Raises:
            RuntimeError: its shape or dtype is not what it was, or its gradient's differs.
        """
        param, place = self.params[i], self._values[i]
        for what, tensor in (("parameter", param), ("gradient", param.grad)):
            if tensor is None or tensor.data is place:
                continue
            array = tensor.data
            if array.shape != place.shape or array.dtype != place.dtype:
                raise RuntimeError(
                    f"a {what} of the optimizer has shape {array.shape} and dtype {array.dtype}, "
                    f"but the parameter had {place.shape} and {place.dtype} when the optimizer "
                    "was made; make the optimizer after converting the model"
                )

    def adopt(self, i: int) -> None:
        """Bring parameter ``i`` into its place, if its ``data`` was put elsewhere."""
        param, place = self.params[i], self._values[i]
        if param.data is not place:
            np.copyto(place, param.data)
            param.data = place

    def gather(self, members: Iterable[int]) -> None:
        """Copy the gradients of some parameters into their places, where they are not there."""
        strays = [i for i in members if self._gradient(i) is not self._slots[i].view]
        if not all(self._slots[i].is_idle() for i in strays):
            self._renew()
            strays = list(members)
        for i in strays:
            np.copyto(self._slots[i].view, self._gradient(i))

    def _gradient(self, i: int) -> Array:
        gradient = self.params[i].grad
        assert gradient is not None
        return gradient.data

    def _renew(self) -> None:
        """Make room for gradients, and tell the parameters where."""
        self.grad = aligned(self.data.size, self.data.dtype)
        mirror = np.asarray(self.grad.data)  # a memoryview, whose views do not hold ``grad`` itself
        self._slots = list(map(Slot, self.views(self.grad), self.views(mirror)))
        for param, slot in zip(self.params, self._slots, strict=True):
            param._slot = slot
        for slot in self._slots:
            slot.rest()


def flatten(params: Sequence[Tensor]) -> list[Flat]:
    """Return ``params`` in one Flat for each dtype among them."""
    by_dtype: dict[np.dtype, list[Tensor]] = {}
    for param in params:
        by_dtype.setdefault(param.dtype, []).append(param)
    return [Flat(alike) for alike in by_dtype.values()]
