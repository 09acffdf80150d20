"""Gradient checkpointing: memory for time, by running a part of the forward pass again.

Nothing here differentiates. The part is recorded like any other, and then the
arrays that its rules will need are let go. A backward pass that comes to it
runs it a second time, and takes them from the twins of its nodes.

Source: Chen et al., 2016, arXiv:1604.06174.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any, NamedTuple, TypeVar

import numpy as np

from .graph import Node, Recipe, Version, next_sequence
from .modes import detect_anomaly, enable_grad, is_anomaly_enabled, is_grad_enabled
from .random import Generator, generators
from .tensor import Tensor
from .tracing import TRACER

__all__ = ["checkpoint"]

R = TypeVar("R")


def checkpoint(function: Callable[..., R], /, *args: Any, **kwargs: Any) -> R:
    """Return ``function(*args, **kwargs)``, whose intermediate results are not kept.

    What the backward pass needs of them is computed again when it gets there, by calling
    ``function`` a second time: the memory for a chain of n parts falls from that of all their
    intermediate results to that of one part's, and n boundaries.

    Gradients are those of a plain call, bit for bit: for the arguments and for whatever
    ``function`` closes over, of every order, from ``backward`` and from ``grad``, in any number
    of passes over a kept graph. Parts may contain further parts. Hooks and anomaly mode work as
    ever, and the graph that is drawn is the same.

    The second run draws the same random numbers: every ``Generator`` that the first has drawn
    from, the default one or another, is put back for it and afterwards stands where it stood.
    numpy's and Python's own generators are not. The second run has the anomaly mode of the first.

    While a program is traced this is a plain call: what a Program keeps is its own affair.

    ``function`` must do the same again. A Tensor among its arguments, or a leaf that it closes
    over, may not be changed in place before the backward pass: that is an error. Nothing else
    that it depends on may change either, but that is not noticed. Whatever else it does, such as
    counting or updating running statistics, it does twice.

    Args:
        function: returns a Tensor, or tuples, lists and dicts of them. The intermediate results
            of what is returned in another form are kept, as without a checkpoint.
        args: its arguments; they are kept.
        kwargs: the same.

    Returns:
        What ``function`` returns.

    Raises:
        TypeError: ``function`` cannot be called.
        RuntimeError: ``function`` changed an argument in place. In the backward pass: an argument
            or a leaf has been changed in place since, or the second run did something else. No
            ``grad`` has changed then.

    >>> x = Tensor([0.5, 1.0], requires_grad=True)
    >>> checkpoint(lambda x: x.sin().exp().tanh(), x).sum().backward()
    """
    if not callable(function):
        raise TypeError(
            f"checkpoint: function must be callable, got {type(function).__name__}; "
            "pass a function and its arguments: checkpoint(f, x)"
        )
    if not is_grad_enabled() or TRACER.get() is not None:
        return function(*args, **kwargs)
    tensors = [_Seen.of(place, tensor) for place, tensor in _arguments(args, kwargs)]
    before = [(generator, generator.get_state()) for generator in generators()]
    start = next_sequence()
    result = function(*args, **kwargs)
    for seen in tensors:
        if seen.changed():
            raise RuntimeError(
                f"checkpoint: function changed its argument {seen.place} in place, so it cannot "
                "be run again; let it change a copy (.clone())"
            )
    nodes = _recorded(result, start)
    if not nodes:
        return result
    leaves = {id(edge): edge for node in nodes for edge in node.inputs if isinstance(edge, Tensor)}
    known = {id(seen.tensor) for seen in tensors}
    tensors += [_Seen.of("a leaf", leaf) for key, leaf in leaves.items() if key not in known]
    drawn = [(generator, state) for generator, state in before if generator.get_state() != state]
    part = _Part(function, args, kwargs, tensors, drawn, [_Signature.of(node) for node in nodes])
    for place, node in enumerate(nodes):
        node.saved = {}
        node.recipe = Recipe(part, place)
    return result


class _Seen(NamedTuple):
    """A Tensor that a part depends on, and what its memory was like when the part ran."""

    place: str
    tensor: Tensor
    version: Version
    expected: int

    @classmethod
    def of(cls, place: str, tensor: Tensor) -> _Seen:
        version = tensor._shared_version()
        return cls(place, tensor, version, version.count)

    def changed(self) -> bool:
        return self.tensor._version is not self.version or self.version.count != self.expected


class _Signature(NamedTuple):
    """What a node and its twin must have in common."""

    op: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    saved: tuple[str, ...]

    @classmethod
    def of(cls, node: Node) -> _Signature:
        return cls(node.op, node.shape, node.dtype, tuple(node.saved or ()))

    def __str__(self) -> str:
        return f"{self.op} of shape {self.shape} and {self.dtype}, which saves {[*self.saved]}"


class _Part:
    """A call that can be made again. It knows nothing of its nodes, or there would be a cycle."""

    def __init__(
        self,
        function: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
        tensors: list[_Seen],
        drawn: list[tuple[Generator, dict[str, Any]]],
        signatures: list[_Signature],
    ) -> None:
        self.function = function
        self.args = args
        self.kwargs = kwargs
        self.tensors = tensors
        self.drawn = drawn
        self.signatures = signatures
        self.anomaly = is_anomaly_enabled()

    def check(self) -> None:
        """Raise if an argument or a leaf is no longer what it was."""
        for seen in self.tensors:
            if seen.changed():
                raise RuntimeError(
                    "checkpoint: one of the variables needed for gradient computation has been "
                    f"modified by an inplace operation, or given other data: {seen.place} of shape "
                    f"{seen.tensor.shape} is at version {seen.tensor.version}, expected version "
                    f"{seen.expected}; change a copy (.clone())"
                )

    def __call__(self) -> list[Node | None]:
        """Make the call again and return the nodes that it has recorded, in order."""
        self.check()
        start = next_sequence()
        with ExitStack() as stack:
            stack.enter_context(enable_grad())
            stack.enter_context(detect_anomaly(self.anomaly))
            for generator, state in self.drawn:
                stack.enter_context(_put_back(generator, state))
            nodes = _recorded(self.function(*self.args, **self.kwargs), start)
        self._compare([_Signature.of(node) for node in nodes])
        return [*nodes]

    def _compare(self, again: list[_Signature]) -> None:
        if again == self.signatures:
            return
        pairs = zip(self.signatures, again, strict=False)
        same = min(len(self.signatures), len(again))
        k = next((k for k, (was, now) in enumerate(pairs) if was != now), same)
        was, now = (str(s[k]) if k < len(s) else "nothing" for s in (self.signatures, again))
        raise RuntimeError(
            f"checkpoint: function did something else when it was run again: op {k} was {was}, "
            f"now {now}; it must depend on nothing but its arguments and this library's generators"
        )


@contextmanager
def _put_back(generator: Generator, state: Mapping[str, Any]) -> Iterator[None]:
    """Have ``generator`` draw from ``state`` for the length of a block."""
    now = generator.get_state()
    generator.set_state(state)
    try:
        yield
    finally:
        generator.set_state(now)


def _tensors(value: Any, place: str) -> Iterator[tuple[str, Tensor]]:
    """Return every Tensor in nested tuples, lists and dicts, and where it stands."""
    if isinstance(value, Tensor):
        yield place, value
    elif isinstance(value, (tuple, list)):
        for i, item in enumerate(value):
            yield from _tensors(item, f"{place}[{i}]")
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from _tensors(item, f"{place}[{key!r}]")


def _arguments(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Iterator[tuple[str, Tensor]]:
    yield from _tensors(args, "args")
    for name, value in kwargs.items():
        yield from _tensors(value, name)


def _recorded(result: Any, start: int) -> list[Node]:
    """Return the nodes that a result depends on and that are newer than ``start``, in order."""
    stack: list[Any] = [tensor.node for _, tensor in _tensors(result, "")]
    seen: set[Node] = set()
    while stack:
        node = stack.pop()
        if type(node) is Node and node.sequence > start and node not in seen:
            seen.add(node)
            stack.extend(node.inputs)
    return sorted(seen, key=lambda node: node.sequence)
