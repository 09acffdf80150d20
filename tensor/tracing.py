"""Writing down what runs: the tracer, and the instructions that it writes.

While a function is traced, every op that it calls becomes an instruction, whether the function
calls it itself or a backward pass does, whose rules then run on the recording ops. What else a
step does, such as drawing random numbers or moving parameters, is an instruction with an effect.

``record_details`` has a graph that is to be looked at recorded with more than gradients need.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np

from . import modes
from .graph import SYMBOLS, Array, Constant, user_site
from .kernels import scatter

if TYPE_CHECKING:
    from .tensor import Tensor

__all__ = [
    "DETAILS",
    "TRACER",
    "Argument",
    "Calls",
    "Captured",
    "Edge",
    "Instruction",
    "Pullback",
    "Tracer",
    "called",
    "calling",
    "pausing",
    "record_details",
    "writer",
]


@dataclass(eq=False, slots=True)
class Argument:
    """A Tensor that the traced function was given."""

    label: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    op: str = field(default="", init=False)
    inputs: tuple[()] = field(default=(), init=False)
    attrs: Mapping[str, Any] = field(default_factory=dict, init=False)


@dataclass(eq=False, slots=True)
class Captured:
    """A Tensor that the traced function used without being given it: a parameter, say.

    A replay uses what it holds at that time. If ``leaf`` is given, the Tensor is the gradient that
    this leaf had collected before, and a replay uses what the leaf has collected then.
    """

    label: str
    tensor: Tensor
    leaf: Tensor | None = None
    op: str = field(default="", init=False)
    inputs: tuple[()] = field(default=(), init=False)
    attrs: Mapping[str, Any] = field(default_factory=dict, init=False)

    @property
    def data(self) -> Array | None:
        """What it holds now, for drawings; None of a gradient."""
        return self.tensor._array if self.leaf is None else None

    @property
    def array(self) -> Array:
        """What it holds now, for a replay."""
        if self.leaf is None:
            return self.tensor._array
        if self.leaf._grad is None:
            raise RuntimeError(
                f"{self.label}: the traced function added to a gradient that was there already, "
                "and now there is none; trace it again"
            )
        return self.leaf._grad._array

    @property
    def shape(self) -> tuple[int, ...]:
        """Its lengths."""
        return self.tensor.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        """The dtype of its elements."""
        return self.tensor.dtype

    @property
    def is_parameter(self) -> bool:
        """Whether a gradient is collected for it."""
        return self.tensor.requires_grad


@dataclass(eq=False, slots=True)
class Instruction:
    """One step of a program, and what it yields.

    Attributes:
        op: the name of the op, or of the effect.
        inputs: what it takes, in order; None for an operand that was not given.
        attrs: the parameters that are not operands.
        shape, dtype: of the result.
        module: the name of the module that called it, or "". What a backward pass calls for an op
            of the module "hidden" is in "backward of hidden".
        effect: what a replay calls with the arrays of the inputs, instead of the op's kernel. It
            may overwrite them.
        kernel: what is called instead of the op's kernel, and has no effect. It may return several
            arrays; instructions named "part" take one of them each.
        site: the line of the caller's code that called it.
    """

    op: str
    inputs: tuple[Edge, ...]
    attrs: Mapping[str, Any]
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    module: str = ""
    effect: Callable[..., Any] | None = None
    label: str = ""
    kernel: Callable[..., Any] | None = None
    site: str = ""

    @property
    def symbol(self) -> str:
        """What a drawing writes in the op's place."""
        return SYMBOLS.get(self.op, self.op)

    @property
    def formula(self) -> tuple[str, ...] | None:
        """What a drawing writes, line by line, of what attributes do not say in words.

        Of a loop it is what the loop computes, of the x of its arguments, numbered from 1.
        """
        if self.op == "loop":
            return tuple(self.attrs["body"].formulas(1))
        return (f"y{self.attrs['index'] + 1}",) if self.op == "part" else None

    @property
    def yields_array(self) -> bool:
        """Whether it yields one array: an effect may yield none, and a loop yields several."""
        is_marked = self.shape == () and self.dtype == bool
        return not (is_marked and (self.effect is not None or self.kernel is not None))


Edge: TypeAlias = Instruction | Argument | Captured | Constant

# Comes before the name of a module, where one of its ops is differentiated.
BACKWARD: Final = "backward of "

TRACER: ContextVar[Tracer | None] = ContextVar("smolgrad tracer", default=None)

# Set while records keep more than gradients need.
DETAILS: ContextVar[Calls | None] = ContextVar("smolgrad details", default=None)


@contextmanager
def pausing() -> Iterator[None]:
    """Trace nothing inside."""
    token = TRACER.set(None)
    try:
        yield
    finally:
        TRACER.reset(token)


@contextmanager
def record_details() -> Iterator[Calls]:
    """Keep more of every op that is recorded inside than its gradient needs: for drawings.

    A node then has the numbers of its result (``data``) and of every operand, the name of the
    module that called it (``module``) and the line of code (``site``). Costs time, and the memory
    of all intermediate results.

    Yields:
        The calls, which know the names of the parameters of the modules that have been called.
    """
    calls = Calls()
    token = DETAILS.set(calls)
    try:
        with modes.record_sites():
            yield calls
    finally:
        DETAILS.reset(token)


def writer() -> Calls | None:
    """Return the calls of whoever writes down what runs, if anybody does."""
    tracer = TRACER.get()
    return DETAILS.get() if tracer is None else tracer.calls


@contextmanager
def calling(module: Any) -> Iterator[None]:
    """Be inside a call of ``module``, for whoever writes down what runs."""
    calls = writer()
    if calls is None:
        yield
    else:
        with calls.inside(module):
            yield


def called(module: Any, function: Callable[..., Any], *args: Any) -> Any:
    """Return ``function(*args)``, which is done in the place of a call of ``module``."""
    if modes.ACTIVE.get() is None:  # nobody writes down what runs
        return function(*args)
    with calling(module):
        return function(*args)


class Calls:
    """Which module is being called, named as in the first module that was called.

    Attributes:
        names: of modules and parameters, by id.
        modules: those that were called, by id.
        constants: the edges that have been made for Tensors that no gradient flows to.
    """

    def __init__(self) -> None:
        self.names: dict[int, str] = {}
        self.modules: dict[int, Any] = {}
        self.constants: dict[Any, tuple[Constant, Tensor]] = {}
        self._stack: list[str] = []

    @property
    def current(self) -> str:
        """The name of the module that is being called, or ""."""
        return self._stack[-1] if self._stack else ""

    def owner(self, tensor: Tensor) -> str:
        """The name of the module that a parameter belongs to, or ""."""
        return self.names.get(id(tensor), "").rpartition(".")[0]

    @contextmanager
    def inside(self, module: Any) -> Iterator[None]:
        """Be inside a call of ``module``."""
        self.modules[id(module)] = module
        if id(module) not in self.names:
            prefix = self.current
            for name, part in module.named_modules():
                self.names.setdefault(id(part), ".".join(filter(None, (prefix, name))))
            for name, parameter in module.named_parameters():
                self.names.setdefault(id(parameter), name)
        with self._named(self.names[id(module)]):
            yield

    @contextmanager
    def going_back(self, module: str) -> Iterator[None]:
        """Be where the rule of an op runs that was called in the module of this name.

        What the rule calls is in no module but in "backward of ..."; of nothing, if the op was in
        no module.
        """
        with self._named(f"{BACKWARD}{module}" if module else ""):
            yield

    @contextmanager
    def _named(self, name: str) -> Iterator[None]:
        self._stack.append(name)
        try:
            yield
        finally:
            self._stack.pop()


@dataclass(frozen=True)
class Pullback:
    """A hand-fused pullback with all but the arrays it is called with.

    Attributes:
        function: called as ``function(g, needs, ...)``.
        needs: of which operands a gradient is wanted.
        names: what the arrays after ``g`` are called.
        attrs: what else it is given by name.
    """

    function: Callable[..., Any]
    needs: tuple[bool, ...]
    names: tuple[str, ...]
    attrs: Mapping[str, Any]

    def __call__(self, g: Array, *arrays: Array) -> tuple[Array | None, ...]:
        """Return one gradient for each operand, None where none is wanted."""
        named = dict(zip(self.names, arrays, strict=True))
        grads = self.function(g, self.needs, **named, **self.attrs)
        return tuple(
            np.asarray(grad) if need else None for grad, need in zip(grads, self.needs, strict=True)
        )


class Tracer:
    """Writes down the instructions of one run.

    Args:
        whole: write a hand-fused pullback down as one instruction, not as what its rule calls.

    Attributes:
        modules: the modules that were called, each once.
        cleared: the ids of the leaves whose gradients were dropped.
    """

    def __init__(self, whole: bool = False) -> None:
        self.whole = whole
        self.instructions: list[Instruction] = []
        self.captured: list[Captured] = []
        self.cleared: set[int] = set()
        # By the id of the array that holds the elements, which is forgotten when the array is gone.
        self._edges: dict[int, Edge] = {}
        self._present: dict[int, weakref.ref[Array]] = {}
        self.calls = Calls()
        self.modules = self.calls.modules

    def argument(self, tensor: Tensor, label: str) -> Argument:
        """Take note of an argument."""
        edge = Argument(label, tensor.shape, tensor.dtype)
        self._enter(tensor._array, edge)
        return edge

    def constant(self, tensor: Tensor) -> None:
        """Take note of elements that are the same in every run."""
        self._enter(tensor._array, Constant.fixed(tensor._array))

    def knows(self, tensor: Tensor) -> bool:
        """Return whether the elements of ``tensor`` are what an instruction or argument yields."""
        return isinstance(self._edges.get(id(tensor._array)), Instruction | Argument)

    def edge(self, tensor: Tensor) -> Edge:
        """Return what yields the elements of ``tensor``."""
        edge = self._edges.get(id(tensor._array))
        if edge is None:
            label = self.calls.names.get(id(tensor)) or tensor.label or f"t{len(self.captured)}"
            edge = Captured(label, tensor)
            self.captured.append(edge)
            self._enter(tensor._array, edge)
        return edge

    def gathered(self, leaf: Tensor) -> None:
        """Take note that ``grad`` of a leaf is about to be added to."""
        grad = leaf._grad
        if grad is not None and id(grad._array) not in self._edges:
            label = self.calls.names.get(id(leaf)) or leaf.label or f"t{len(self.captured)}"
            edge = Captured(f"{label}.grad", grad, leaf)
            self.captured.append(edge)
            self._enter(grad._array, edge)

    def moved(self, tensor: Tensor, array: Array) -> Tensor:
        """Return a Tensor whose elements, those of ``tensor``, are held by ``array`` now."""
        if array is tensor._array:
            return tensor
        self._enter(array, self.edge(tensor))
        return type(tensor)._wrap(array)

    def several(
        self,
        name: str,
        kernel: Callable[..., Sequence[Array | None]],
        operands: Sequence[Tensor],
        results: Sequence[Array | None],
        attrs: Mapping[str, Any],
    ) -> None:
        """Write down what yields several arrays, or None for some, and has no effect.

        Args:
            name: what it is called.
            kernel: what a replay calls with the arrays of the operands.
            operands: what it takes.
            results: what it yielded.
            attrs: what else a reader should know.
        """
        inputs = tuple(self.edge(tensor) for tensor in operands)
        boolean, module = np.dtype(bool), self.calls.current
        whole = Instruction(name, inputs, attrs, (), boolean, module, kernel=kernel)
        self._write(whole, None)
        for i, array in enumerate(results):
            if array is not None:
                place, kind = {"index": i}, (array.shape, array.dtype, module)
                self._write(
                    Instruction("part", (whole,), place, *kind, kernel=itemgetter(i)), array
                )

    def note(
        self,
        name: str,
        operands: Sequence[Any],
        arrays: Sequence[Any],
        attrs: Mapping[str, Any],
        out: Array,
    ) -> None:
        """Write down an op: its operands, the arrays that they were converted to, its result."""
        inputs = tuple(map(self._operand, operands, arrays))
        self._write(Instruction(name, inputs, attrs, out.shape, out.dtype, self.calls.current), out)

    def effect(
        self,
        name: str,
        run: Callable[..., Any],
        operands: Sequence[Tensor] = (),
        out: Array | None = None,
        attrs: Mapping[str, Any] | None = None,
    ) -> None:
        """Write down something that has been done and that a replay does again.

        Args:
            name: what it is called.
            run: what a replay calls with the arrays of the operands.
            operands: what it takes.
            out: what ``run`` returned, if that is an array.
            attrs: what else a reader should know.
        """
        shape, dtype = ((), np.dtype(bool)) if out is None else (out.shape, out.dtype)
        inputs = tuple(self.edge(tensor) for tensor in operands)
        self._write(
            Instruction(name, inputs, attrs or {}, shape, dtype, self.calls.current, run), out
        )

    def write(self, tensor: Tensor, index: Any, value: Array, accumulate: bool) -> None:
        """Write down that elements of ``tensor`` have been overwritten.

        A replay overwrites the same elements of what stands in the place of ``tensor``, and so of
        all that are views of it.
        """
        target, source = self.edge(tensor), self._edges.get(id(value))
        if source is None:
            source = Constant.fixed(value.copy())

        def again(array: Array, values: Array) -> Array:
            with np.errstate(all="ignore"):
                scatter.put(array, index, values, accumulate)
            if isinstance(target, Captured):
                target.tensor._shared_version().count += 1
            return array

        attrs = {"index": index, "accumulate": accumulate}
        self._write(
            Instruction(
                "setitem",
                (target, source),
                attrs,
                target.shape,
                target.dtype,
                self.calls.current,
                again,
            ),
            None if isinstance(target, Captured) else tensor._array,
        )

    def _operand(self, operand: Any, array: Any) -> Edge:
        if array is None:
            return Constant((), np.dtype(bool))
        held = getattr(operand, "_array", None)
        if held is None:
            edge = self._edges.get(id(operand))  # an array that was drawn at random
            if edge is None:
                return Constant.fixed(array.copy())
        else:
            edge = self.edge(operand)
        if edge.dtype != array.dtype:
            cast = Instruction(
                "cast",
                (edge,),
                {"dtype": array.dtype},
                array.shape,
                array.dtype,
                self.calls.current,
            )
            self._write(cast, array)
            return cast
        return edge

    def _write(self, instruction: Instruction, out: Array | None) -> None:
        instruction.site = user_site()
        self.instructions.append(instruction)
        if out is not None:
            self._enter(out, instruction)

    def _enter(self, array: Array, edge: Edge) -> None:
        key = id(array)

        def forget(_: object) -> None:
            self._edges.pop(key, None)
            self._present.pop(key, None)

        self._edges[key] = edge
        self._present[key] = weakref.ref(array, forget)
