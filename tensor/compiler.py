"""Functions that are traced once and then replayed: what ``tensor.compile`` returns."""

from __future__ import annotations

import functools
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from types import MethodType
from typing import Any, Final

import numpy as np

from . import modes
from .chains import chained, chains
from .fuse import optimized, overwrites
from .kernels.choice import kernels_in_use
from .kernels.loops import source
from .plan import Plan, StalePlanError
from .program import Program, mapped, record, tensors
from .tensor import Tensor
from .tracing import TRACER, Captured, Tracer

__all__ = ["CACHE_SIZE", "Compiled", "compile"]

# How many programs one compiled function keeps.
CACHE_SIZE: Final = 8


class _Entry:
    """One program, when it may be used, and its plan."""

    def __init__(self, key: Any, program: Program, tracer: Tracer, given: Any) -> None:
        self.key = key
        self.fast = kernels_in_use() == "numba"
        self.program = chained(optimized(program, self.fast), self.fast)
        self.given = given  # so that nothing with the id of a static argument takes its place
        self.modules = [(module, module.training) for module in tracer.modules.values()]
        added = {id(captured.leaf) for captured in program.captured}
        used = {id(captured.tensor) for captured in program.captured}
        self.members = [
            (vars(module), name, value)
            for module in tracer.modules.values()
            for name, value in vars(module).items()
            if id(value) in used
        ]
        self.captured = [
            (c.tensor, c.shape, c.dtype, c.tensor._requires_grad)
            for c in program.captured
            if c.leaf is None
        ]
        # Leaves that collect a gradient without dropping the old one, and whether there was one.
        self.collecting = [
            (leaf.tensor, id(leaf.tensor) not in added)
            for leaf, _ in program.gradients
            if isinstance(leaf, Captured) and id(leaf.tensor) not in tracer.cleared
        ]
        args, kwargs = given
        self.kinds: list[Any] | None = None
        if not kwargs and all(type(arg) is Tensor and arg.node is None for arg in args):
            self.kinds = [(arg.shape, arg.dtype, arg._requires_grad) for arg in args]
        self.plan: Plan | None = None
        self.as_written = overwrites(self.program)

    def holds(self) -> bool:
        """Return whether what the program was made for is still so."""
        for module, mode in self.modules:
            if module.training is not mode:
                return False
        for own, name, value in self.members:
            if own.get(name) is not value:
                return False
        for tensor, shape, dtype, needs in self.captured:
            array = tensor._array
            if array.shape != shape or array.dtype != dtype or tensor._requires_grad != needs:
                return False
        for leaf, empty in self.collecting:  # noqa: SIM110 - faster
            if (leaf._grad is None) is not empty:
                return False
        return True

    def suits(self, args: tuple[Any, ...]) -> bool:
        """Return whether the program was made for arguments like these, all of them Tensors."""
        if self.kinds is None or len(args) != len(self.kinds):
            return False
        if self.fast != (kernels_in_use() == "numba"):
            return False
        if not args:
            return True
        arrays = set()
        for argument, (shape, dtype, needs) in zip(args, self.kinds, strict=True):
            if type(argument) is not Tensor or argument.node is not None:
                return False
            array = argument._array
            if array.shape != shape or array.dtype != dtype or argument._requires_grad != needs:
                return False
            arrays.add(id(array))
        return len(arrays) == len(args)

    def run(self, given: Sequence[Tensor]) -> Any:
        """Replay the program."""
        if self.as_written:
            return self.program(*given)
        if self.plan is None:
            self.plan = Plan(self.program, given, self.fast)
        try:
            return self.plan(given)
        except StalePlanError:
            self.plan = Plan(self.program, given, self.fast)
            return self.plan(given)


class Compiled:
    """A function that is traced when it is first called, and replayed when called again.

    Attributes:
        function: the function itself.
    """

    def __init__(self, function: Callable[..., Any], check: bool | int, cache_size: int) -> None:
        self.function = function
        self._checks = (-1 if check else 0) if isinstance(check, bool) else check
        self._size = cache_size
        self._entries: OrderedDict[Any, list[_Entry]] = OrderedDict()
        self._lock = threading.RLock()
        self._last: _Entry | None = None  # used last, if there is nothing to check
        functools.update_wrapper(self, function, updated=())

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        return self if instance is None else MethodType(self, instance)

    def __repr__(self) -> str:
        return f"<compiled {getattr(self, '__name__', repr(self.function))}>"

    @property
    def programs(self) -> list[Program]:
        """The programs that are kept, the one used last at the end."""
        return [entry.program for entries in self._entries.values() for entry in entries]

    @property
    def source(self) -> str:
        """The loops that elementwise ops have become, as Python functions."""
        found = {chain: None for program in self.programs for chain in chains(program)}
        return "\n\n".join(map(source, found))

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Replay the function, or trace it if it has not been called like this before."""
        last = self._last
        if (  # the usual case
            last is not None
            and not kwargs
            and modes.ACTIVE.get() is None
            and last.suits(args)
            and last.holds()
        ):
            return last.run(args)
        if TRACER.get() is not None or modes.is_anomaly_enabled():
            return self.function(*args, **kwargs)
        key = (modes.is_grad_enabled(), kernels_in_use(), *_signature((args, kwargs)))
        with self._lock:
            if last is not None and last.key in self._entries:  # used meanwhile
                self._entries.move_to_end(last.key)
            entry = self._found(key)
            if entry is None:
                return self._traced(key, args, kwargs)
        given = tensors((args, kwargs))
        if self._checks:
            self._checks -= 1
            from .agreement import checked

            return checked(self.function, entry.program, lambda: entry.run(given), args, kwargs)
        if modes.ACTIVE.get() is None:
            self._last = entry
        return entry.run(given)

    def _found(self, key: Any) -> _Entry | None:
        entries = self._entries.get(key)
        if entries is None:
            return None
        self._entries.move_to_end(key)
        for entry in reversed(entries):
            if entry.holds():
                return entry
        return None

    def _traced(self, key: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run the function itself, and keep its program."""
        tracer = Tracer(whole=True)
        program, result = record(self.function, args, kwargs, tracer)
        entries = self._entries.setdefault(key, [])
        entries.append(_Entry(key, program, tracer, (args, kwargs)))
        del entries[: -self._size]
        while sum(map(len, self._entries.values())) > self._size:
            oldest = next(iter(self._entries))
            del self._entries[oldest][0]
            if not self._entries[oldest]:
                del self._entries[oldest]
        return mapped(result, _without_graph)


def _without_graph(leaf: Any) -> Any:
    return leaf.detach() if isinstance(leaf, Tensor) and leaf.node is not None else leaf


def _signature(tree: Any) -> tuple[Any, ...]:
    """Return what a program depends on of its arguments: all but the elements of Tensors."""
    parts: list[Any] = []
    seen: dict[int, int] = {}
    _sign(tree, parts, seen)
    return tuple(parts)


def _sign(tree: Any, parts: list[Any], seen: dict[int, int]) -> None:
    if isinstance(tree, Tensor):
        array = tree._array
        same = seen.setdefault(id(array), len(seen))  # one Tensor twice is another program
        parts.append((array.shape, array.dtype, tree._requires_grad, tree.node is None, same))
    elif isinstance(tree, tuple | list):
        parts.append((type(tree), len(tree)))
        for part in tree:
            _sign(part, parts, seen)
    elif isinstance(tree, Mapping):
        parts.append((type(tree), tuple(tree)))
        for part in tree.values():
            _sign(part, parts, seen)
    elif isinstance(tree, np.ndarray):
        raise TypeError(
            f"a compiled function takes Tensors, got an ndarray of shape {tree.shape}, whose "
            "numbers would be the same in every run; wrap it in tensor.from_numpy(...)"
        )
    elif isinstance(tree, int | float | str | bytes | None):
        parts.append((type(tree), repr(tree)))
    else:
        parts.append(id(tree))


def compile(
    function: Callable[..., Any] | None = None,
    *,
    check: bool | int = False,
    cache_size: int = CACHE_SIZE,
) -> Any:
    """Return a function that does what ``function`` does, traced once and then replayed.

    The first call runs the function and writes down what it does: see ``tensor.trace``. The calls
    after it replay that, in memory that is planned once, without Python between the ops and
    without allocating arrays. It may be a whole training step, with backward pass and optimizer::

        @tensor.compile
        def step(x, y):
            loss = nn.functional.cross_entropy(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            return loss

    It is traced again for other shapes, dtypes or structures of the arguments, other arguments
    that are no Tensors, another grad mode, when a module that it calls has changed between
    training and evaluation, and when a module's parameter has been replaced or converted. Random
    numbers are drawn anew in each call, and hyper-parameters, parameters and buffers are read as
    they are then.

    What a replay does not do is whatever else Python does in the function: branches are those that
    were taken, numbers and attributes those that were seen, and printing or counting happens in
    the first call alone. Asking a Tensor for its value raises, as in ``trace``. Results have no
    graph: a function that is to be trained calls ``backward()`` itself. They are never changed
    by a later call; but what would be a view of an argument is a copy.

    Args:
        function: a function, a Module, or a method; without it, a decorator is returned.
        check: run the function too, in each call or in the first ``check`` ones, and raise if
            results, gradients, parameters or random states differ; for finding what a replay
            does not see. The state is then as the function leaves it.
        cache_size: how many programs are kept; the one that was not used for longest is dropped.

    Raises:
        TypeError: an argument is an ndarray; or ``function`` cannot be called.
        ValueError: ``cache_size`` is below 1, or ``check`` is negative.
        RuntimeError: with ``check``, a replay that differs.

    >>> import tensor
    >>> @tensor.compile
    ... def scaled(x):
    ...     return (2 * x).relu()
    >>> scaled(tensor.Tensor([1.0, -1.0])).tolist()
    [2.0, 0.0]
    >>> scaled(tensor.Tensor([3.0, -3.0])).tolist()
    [6.0, 0.0]
    >>> len(scaled.programs)
    1
    """
    if function is None:
        return functools.partial(compile, check=check, cache_size=cache_size)
    if not callable(function):
        raise TypeError(f"compile: cannot call {type(function).__name__}")
    if cache_size < 1 or check < 0:
        raise ValueError(
            f"compile: cache_size must be at least 1 and check not negative, got {cache_size} "
            f"and {check}"
        )
    return Compiled(function, check, cache_size)
