"""Programs made ready to run: memory for every result is fixed, and a run is a list of calls.

The memory of a result is used again once nothing needs the result; an elementwise instruction
writes over an operand that dies there. Views are made once. Arguments and parameters are read where
they are, and gradients are written where an optimizer wants them. Who looks at an array from
outside gets one that no later run changes.
"""

from __future__ import annotations

import threading
from bisect import bisect_left, insort
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from . import chains
from .dispatch import OPS, quietly
from .fuse import RESHAPES, is_view
from .graph import Array, Constant
from .kernels.into import ELEMENTWISE, Call, calls, several
from .kernels.room import Room, aligned
from .optim._flat import Slot
from .optim._optimizer import TakenStep
from .program import Program, leaves, mapped
from .tensor import Tensor
from .tracing import Argument, Captured, Edge, Instruction

__all__ = ["Plan", "StalePlanError"]


class StalePlanError(Exception):
    """What a plan was made for has changed its shape, dtype or layout."""


class _Store:
    """Memory that one result needs, and until when.

    Attributes:
        leaf: the parameter whose gradient this is, if it lies where its optimizer wants it.
        last: the number of the last instruction that reads it.
    """

    __slots__ = ("array", "dtype", "last", "leaf", "memory", "nbytes", "shape")

    def __init__(self, shape: tuple[int, ...], dtype: np.dtype[Any], place: int) -> None:
        self.shape = shape
        self.dtype = dtype
        self.nbytes = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
        self.last = place
        self.leaf: Tensor | None = None
        self.memory: Array | None = None
        self.array: Array | None = None


class Plan:
    """A program with memory of its own, which runs it as often as wanted.

    One thread at a time runs it; others wait.

    Args:
        program: what to run.
        given: arguments for it; others of their shapes and dtypes may come later.
        fast: whether to use the loops that numba compiles.
    """

    def __init__(self, program: Program, given: Sequence[Tensor], fast: bool = False) -> None:
        self.program = program
        self._fast = fast
        self._lock = threading.RLock()
        self._arrays: dict[int, Any] = {}  # by the id of the edge
        self._stores: dict[int, _Store] = {}
        self._rooms = [Room() for _ in program.instructions]
        self._outside: list[Argument | Captured] = [*program.arguments, *program.captured]
        self._argument_keys = [id(argument) for argument in program.arguments]
        # A Tensor, or the gradient of a leaf, which may be another Tensor each time.
        self._captured: list[tuple[int, Any]] = [
            (id(c), c.tensor if c.leaf is None else c) for c in program.captured
        ]
        for edge in self._outside:
            array = edge.array if isinstance(edge, Captured) else None
            self._arrays[id(edge)] = array
        for argument, tensor in zip(program.arguments, given, strict=True):
            self._arrays[id(argument)] = _contiguous(tensor._array)
        self._layout = {
            id(edge): (
                self._arrays[id(edge)].dtype,
                self._arrays[id(edge)].shape,
                self._arrays[id(edge)].strides,
            )
            for edge in self._outside
        }
        self._parts = _parts(program)
        self._find_stores()
        self._find_ends()
        self._place_gradients()
        # Who gets a gradient, a leaf or an argument by number, and whether it lies in its place.
        self._handed: list[tuple[Tensor | int, Edge, bool]] = []
        for target, gradient in program.gradients:
            if isinstance(target, Captured):
                store = self._leaves.get(target.tensor)
                placed = store is not None and store is self._stores.get(id(gradient))
                self._handed.append((target.tensor, gradient, placed))
            else:
                self._handed.append((program.arguments.index(target), gradient, False))
        self._allocate()
        self._bound: dict[int, Array | None] = {}
        for tensor, place in self._leaves.items():
            self._bound[id(tensor)] = place.array = np.empty(place.shape, place.dtype)
        self._spans: list[slice] = []
        self._calls: list[Call] = []
        for i in range(len(program.instructions)):
            bound = self._bind(i)
            self._spans.append(slice(len(self._calls), len(self._calls) + len(bound)))
            self._calls += bound
        self._dependents = self._find_dependents()

    # Planning.

    def _find_stores(self) -> None:
        """Give every result a store: its own, or that of what it is a view of."""
        self._views: set[int] = set()
        phantoms: dict[int, Any] = dict(self._arrays)
        for i, ins in enumerate(self.program.instructions):
            if id(ins) in self._parts:
                for part in self._parts[id(ins)].values():
                    self._stores[id(part)] = store = _Store(part.shape, part.dtype, i)
                    phantoms[id(part)] = _phantom(store)
                continue
            if ins.op == "part" and ins.kernel is not None:
                continue
            source = ins.inputs[0] if ins.inputs else None
            if source is not None and is_view(ins):
                held: Any = source.array if isinstance(source, Constant) else phantoms[id(source)]
                view = _view(ins, held)
                if view is not None:
                    self._views.add(id(ins))
                    phantoms[id(ins)] = view
                    if id(source) in self._stores:
                        self._stores[id(ins)] = self._stores[id(source)]
                    continue
            self._stores[id(ins)] = store = _Store(ins.shape, ins.dtype, i)
            phantoms[id(ins)] = _phantom(store)

    def _find_ends(self) -> None:
        for i, ins in enumerate(self.program.instructions):
            for edge in ins.inputs:
                store = self._stores.get(id(edge))
                if store is not None:
                    store.last = max(store.last, i)
        end = len(self.program.instructions)
        for edge in [*leaves(self.program.outputs), *(edge for _, edge in self.program.gradients)]:
            store = self._stores.get(id(edge))
            if store is not None:
                store.last = end

    def _place_gradients(self) -> None:
        """Find the gradients that can be written where an optimizer wants them."""
        self._leaves: dict[Tensor, _Store] = {}
        wanted = [
            (leaf.tensor, edge)
            for leaf, edge in self.program.gradients
            if isinstance(leaf, Captured)
        ]
        self._passing: list[Tensor] = []  # those whose gradient is gone at the end
        lasting = {id(tensor) for tensor, _ in wanted}
        for ins in self.program.instructions:
            if isinstance(ins.effect, TakenStep):
                for param, edge in zip(ins.effect.params, ins.inputs, strict=True):
                    if isinstance(edge, Instruction) and id(param) not in lasting:
                        self._passing.append(param)
                        wanted.append((param, edge))
        for tensor, edge in wanted:
            store = self._stores.get(id(edge))
            if (
                store is None
                or store.leaf is not None
                or tensor._slot is None
                or tensor in self._leaves
                or not self._is_whole(edge)
                or tensor.dtype != store.dtype
            ):
                continue
            store.leaf = tensor
            self._leaves[tensor] = store

    def _is_whole(self, edge: Edge) -> bool:
        """Return whether ``edge`` is all of its store, in the same order."""
        while id(edge) in self._views:
            if edge.op not in RESHAPES:
                return False
            edge = edge.inputs[0]  # type: ignore[assignment]
        return True

    def _allocate(self) -> None:
        """Give every store memory, used again where its last reader is done."""
        pool: list[tuple[int, int]] = []
        blocks: list[Array] = []
        ends: dict[int, list[_Store]] = {}
        seen: set[int] = set()
        for i, ins in enumerate(self.program.instructions):
            made = [self._stores[id(part)] for part in self._parts.get(id(ins), {}).values()]
            if not made and id(ins) in self._stores and id(ins) not in self._views:
                made = [self._stores[id(ins)]]
            for store in made:
                if id(store) in seen or store.leaf is not None:
                    continue
                seen.add(id(store))
                below = self._overwritten(ins, i, store)
                if below is not None:
                    store.memory, below.memory = below.memory, None
                else:
                    store.memory = _take(pool, blocks, store.nbytes)
                assert store.memory is not None
                part = store.memory[: store.nbytes]
                store.array = part.view(store.dtype).reshape(store.shape)
                ends.setdefault(store.last, []).append(store)
            for store in ends.pop(i, ()):
                if store.memory is not None:
                    number = next(k for k, b in enumerate(blocks) if b is store.memory)
                    insort(pool, (len(store.memory), number))

    def _overwritten(self, ins: Instruction, place: int, store: _Store) -> _Store | None:
        """Return the store of an operand that the result may be written over, if there is one."""
        if ins.effect is not None or ins.op not in ELEMENTWISE:
            return None
        stores = [self._stores.get(id(edge)) for edge in ins.inputs]
        for edge, below in zip(ins.inputs, stores, strict=True):
            if (
                below is not None
                and below.last == place
                and below.leaf is None
                and below.memory is not None
                and stores.count(below) == 1
                and below.nbytes == store.nbytes
                and edge.dtype == store.dtype
                and edge.shape == store.shape
                and self._is_whole(edge)
            ):
                return below
        return None

    def _find_dependents(self) -> dict[int, list[int]]:
        """Return, for what may come to lie elsewhere, the instructions to be bound anew."""
        found: dict[int, list[int]] = {id(edge): [] for edge in self._outside}
        found |= {id(leaf): [] for leaf in self._leaves}
        sources: dict[int, set[int]] = {id(edge): {id(edge)} for edge in self._outside}
        for i, ins in enumerate(self.program.instructions):
            taken = {key for edge in ins.inputs for key in sources.get(id(edge), ())}
            own: set[int] = set()
            for part in [ins, *self._parts.get(id(ins), {}).values()]:
                store = self._stores.get(id(part))
                if store is not None and store.leaf is not None:
                    own.add(id(store.leaf))
                    sources[id(part)] = {id(store.leaf)}
            if id(ins) in self._views:
                sources[id(ins)] = taken
            for key in taken | own:
                found[key].append(i)
        return found

    # Binding.

    def _bind(self, i: int) -> list[Call]:
        """Return the calls of an instruction, with the arrays as they are."""
        ins = self.program.instructions[i]
        if id(ins) in self._parts:
            outs = self._outs(ins)
            if ins.op == "loop":
                chain = ins.attrs["body"]
                return chains.calls(chain, self._rooms[i], outs, self._inputs(ins), self._fast)
            return several(ins.op, self._rooms[i], outs, ins.kernel, self._inputs(ins))
        if ins.op == "part" and ins.kernel is not None:
            return []
        if id(ins) in self._views and ins.effect is None:
            self._arrays[id(ins)] = _view(ins, self._value(ins.inputs[0]))
            return []
        arrays = self._inputs(ins)
        if isinstance(ins.effect, TakenStep):
            return [(self._take_step, (ins.effect, ins.inputs))]
        if ins.effect is not None:
            if id(ins) in self._views:
                self._arrays[id(ins)] = arrays[0]
                return [(ins.effect, tuple(arrays))]
            out = self._out(ins)
            into = getattr(ins.effect, "into", None)
            if into is not None:
                return [(partial(into, into=out, room=self._rooms[i]), ())]
            return [(_effected, (out, ins.effect, arrays))]
        out = self._out(ins)
        found = calls(ins.op, ins.attrs, self._rooms[i], out, arrays, self._fast)
        if found is not None:
            return found
        if ins.kernel is not None:
            return [(_computed, (out, ins.kernel, arrays, {}))]
        op = OPS[ins.op]
        operands = [arrays] if op.variadic else arrays
        return [(_computed, (out, op.kernel, operands, dict(ins.attrs)))]

    def _inputs(self, ins: Instruction) -> list[Any]:
        return [self._value(edge) for edge in ins.inputs]

    def _value(self, edge: Edge) -> Any:
        return edge.array if isinstance(edge, Constant) else self._arrays[id(edge)]

    def _out(self, ins: Instruction) -> Array:
        store = self._stores[id(ins)]
        assert store.array is not None
        array = store.array if store.leaf is None else store.array.reshape(store.shape)
        self._arrays[id(ins)] = array
        return array

    def _outs(self, ins: Instruction) -> list[Array | None]:
        parts = self._parts[id(ins)]
        return [
            self._out(parts[k]) if k in parts else None for k in range(max(parts, default=-1) + 1)
        ]

    # Running.

    def __call__(self, given: Sequence[Tensor]) -> Any:
        """Run the program on Tensors of the shapes and dtypes that it was made for.

        Raises:
            StalePlanError: a parameter has another shape, dtype or layout than when the plan was
                made. Nothing has changed then.
        """
        with self._lock:
            stale = self._look_outside(given)
            kept = [self._let_go(leaf) for leaf in self._leaves] if self._leaves else []
            try:
                if kept:
                    self._look_at_gradients(stale)
                if stale:
                    for i in sorted(stale):
                        self._calls[self._spans[i]] = self._bind(i)
                quietly().run(_run, self._calls)
            except BaseException:
                for leaf, grad in zip(self._leaves, kept, strict=True):
                    leaf._grad = Tensor._wrap(grad.view) if isinstance(grad, Slot) else grad
                raise
            self._hand_over(given)
            outputs = self.program.outputs
            if outputs is None:
                return None
            if type(outputs) is Instruction:
                return self._result(outputs, given)
            return mapped(outputs, lambda leaf: self._result(leaf, given))

    def _look_outside(self, given: Sequence[Tensor]) -> set[int]:
        """Take up the arrays of arguments and parameters; return what must be bound anew."""
        arrays, stale = self._arrays, set()
        moved: list[tuple[int, Array]] = []
        if given:
            for key, tensor in zip(self._argument_keys, given, strict=True):
                array = tensor._array
                if array is not arrays[key]:
                    moved.append((key, _contiguous(array)))
        for key, captured in self._captured:
            array = captured._array if type(captured) is not Captured else captured.array
            if array is not arrays[key]:
                moved.append((key, array))
        for key, array in moved:
            if (array.dtype, array.shape, array.strides) != self._layout[key]:
                raise StalePlanError
        for key, array in moved:
            arrays[key] = array
            stale.update(self._dependents[key])
        return stale

    def _let_go(self, leaf: Tensor) -> Any:
        """Drop the gradient of a leaf; return it, or its slot if it lies in that.

        To hold it would be to look at it.
        """
        grad, slot = leaf._grad, leaf._slot
        leaf._grad = None
        return slot if slot and grad is not None and grad._array is slot.view else grad

    def _look_at_gradients(self, stale: set[int]) -> None:
        """Find room for the gradients: where the optimizer wants them, or memory of their own."""
        for leaf, store in self._leaves.items():
            slot, bound = leaf._slot, self._bound[id(leaf)]
            if slot is not None and slot.is_idle():
                room = slot.mirror
                if room is bound:
                    continue
                if room.shape != leaf._array.shape or room.dtype != store.dtype:
                    raise StalePlanError
            else:
                room = np.empty(leaf._array.shape, store.dtype)
            self._bound[id(leaf)] = store.array = room
            stale.update(self._dependents[id(leaf)])

    def _gradient(self, leaf: Tensor) -> Tensor:
        """Return the gradient of a leaf whose memory is its own, as it is to be seen."""
        bound, slot = self._bound[id(leaf)], leaf._slot
        assert bound is not None
        return Tensor._wrap(slot.view if slot is not None and bound is slot.mirror else bound)

    def _take_step(self, step: TakenStep, edges: Sequence[Edge]) -> None:
        for param, edge in zip(step.params, edges, strict=True):
            store = self._stores.get(id(edge))
            if store is not None and store.leaf is param:
                param._grad = self._gradient(param)
            elif isinstance(edge, Captured):
                continue
            else:
                _copy_gradient(param, self._value(edge))
        step.optimizer._step()

    def _hand_over(self, given: Sequence[Tensor]) -> None:
        """Set the gradients of the leaves."""
        for target, edge, placed in self._handed:
            tensor = target if isinstance(target, Tensor) else given[target]
            if not placed:
                _copy_gradient(tensor, self._value(edge))
            elif tensor._grad is None:
                tensor._grad = self._gradient(tensor)
        for param in self._passing:
            param._grad = None

    def _result(self, leaf: Any, given: Sequence[Tensor]) -> Any:
        if isinstance(leaf, Instruction | Constant):
            return Tensor._wrap(self._value(leaf).copy())
        if isinstance(leaf, Argument):
            return given[self.program.arguments.index(leaf)]
        return leaf.tensor if isinstance(leaf, Captured) else leaf

    def nbytes(self) -> int:
        """Return how much memory the plan has for results."""
        blocks = {
            id(s.memory): len(s.memory) for s in self._stores.values() if s.memory is not None
        }
        return sum(blocks.values())


def _run(calls: list[Call]) -> None:
    for function, arguments in calls:
        function(*arguments)


def _computed(out: Array, kernel: Callable[..., Any], arrays: Any, attrs: Any) -> None:
    np.copyto(out, kernel(*arrays, **attrs))


def _copy_gradient(leaf: Tensor, gradient: Array) -> None:
    """Give a leaf a copy of its gradient, where its optimizer wants it if nobody looks there."""
    leaf._grad = None
    slot = leaf._slot
    fits = slot is not None and (slot.view.shape, slot.view.dtype) == (
        gradient.shape,
        gradient.dtype,
    )
    if slot is not None and fits and slot.is_idle():
        np.copyto(slot.view, gradient)
        leaf._grad = Tensor._wrap(slot.view)
    else:
        leaf._grad = Tensor._wrap(gradient.copy())


def _effected(out: Array, effect: Callable[..., Any], arrays: Sequence[Any]) -> None:
    result = effect(*arrays)
    if result is not None:
        np.copyto(out, result)


def _contiguous(array: Array) -> Array:
    return array if array.flags.c_contiguous else np.ascontiguousarray(array)


def _parts(program: Program) -> dict[int, dict[int, Instruction]]:
    """Return, for what yields several arrays, the instructions that take them, by their number."""
    parts: dict[int, dict[int, Instruction]] = {}
    for ins in program.instructions:
        if ins.kernel is not None and ins.op == "part":
            parts.setdefault(id(ins.inputs[0]), {})[ins.attrs["index"]] = ins
    return parts


def _phantom(store: _Store) -> Array:
    """Return an array of a shape without its memory, to try views on. It must not be read."""
    strides: list[int] = []
    step = store.dtype.itemsize
    for n in reversed(store.shape):
        strides.insert(0, step)
        step *= max(n, 1)
    return as_strided(np.empty(1, store.dtype), store.shape, strides)


def _view(ins: Instruction, array: Array) -> Array | None:
    """Return the result of a view op as a view of ``array``, or None if it would be a copy."""
    if ins.effect is not None:
        return array
    if ins.op in RESHAPES:
        try:
            return np.reshape(array, ins.shape, copy=False)
        except ValueError:
            return None
    view: Array = OPS[ins.op].kernel(array, **ins.attrs)
    return view


def _take(pool: list[tuple[int, int]], blocks: list[Array], nbytes: int) -> Array:
    """Return free memory, the smallest block that is large enough but not wasteful."""
    at = bisect_left(pool, (nbytes, -1))
    if at < len(pool) and pool[at][0] <= 2 * nbytes + 4096:
        return blocks[pool.pop(at)[1]]
    blocks.append(aligned(max(nbytes, 1), np.uint8))
    return blocks[-1]
