"""One backward pass, as the engine ran it: what players and gradients in drawings are made from."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, runtime_checkable

from .graph import Walk

__all__ = [
    "Contribution",
    "Playable",
    "Replayable",
    "Trace",
    "gradients_of",
    "operands_of",
    "places",
    "replayed",
    "trace",
    "values_of",
]


@dataclass(frozen=True, slots=True)
class Contribution:
    """One step of the chain rule: what a node added to the gradient of one of its inputs.

    Attributes:
        node: the record whose gradient is passed on.
        argument: which of its inputs receives, from 0.
        operands: what the op calls its inputs; empty if it takes any number of them.
        rule: the derivative, or the pullback, that the engine applied: a number or a function.
        given: by name, what a function was given.
        g: the gradient of the node.
        local: the local derivative, where the engine has one.
        contribution: what was added.
        total: the gradient of the input after that.
    """

    node: Any
    argument: int
    operands: Sequence[str]
    rule: Any
    given: Mapping[str, Any]
    g: Any
    local: Any
    contribution: Any
    total: Any


@runtime_checkable
class Playable(Protocol):
    """What an engine's result offers, beside what ``draw`` reads, so that it can be played."""

    def trace_backward(self, observe: Callable[..., object]) -> Sequence[tuple[Any, Any]]:
        """Run a backward pass that changes nothing; tell ``observe`` each contribution.

        The arguments are the fields of ``Contribution``. What is returned is each leaf with the
        gradient that it would get.
        """


@runtime_checkable
class Replayable(Protocol):
    """What a program offers, beside what ``draw`` reads, so that a run of it can be drawn."""

    def trace_replay(
        self, observe: Callable[[Any, Any], object], /, *args: Any
    ) -> Sequence[tuple[Any, Any]]:
        """Run it on arguments; tell ``observe`` each record and the numbers that it then has.

        What is returned is each leaf with the gradient that the run has found for it.
        """


class Trace(NamedTuple):
    """A backward pass: every contribution in order, and the leaves with their gradients."""

    contributions: list[Contribution]
    leaves: Sequence[tuple[Any, Any]]


def trace(obj: Playable) -> Trace:
    """Have the engine run its backward pass, and write down what it does."""
    contributions: list[Contribution] = []

    def observe(*args: Any, **kwargs: Any) -> None:
        contributions.append(Contribution(*args, **kwargs))

    leaves = obj.trace_backward(observe)
    return Trace(contributions, leaves)


def places(walk: Walk) -> dict[int, int]:
    """The position in a walk of every record, by id; the pass knows the result by its ``node``."""
    found = {id(record): i for i, record in enumerate(walk.records)}
    found.setdefault(id(getattr(walk.records[0], "node", None)), 0)
    return found


def operands_of(walk: Walk, i: int, c: Contribution) -> dict[str, int]:
    """What a rule of record ``i`` calls its inputs and the record itself, with their positions."""
    names = [c.operands[k] for k in walk.arguments[i]] if c.operands else []
    return {**dict(zip(names, walk.inputs[i], strict=False)), "out": i}


def values_of(walk: Walk, trace: Trace) -> dict[int, Any]:
    """By position, the value of every record, as far as the engine has kept it."""
    place = places(walk)
    values = {i: _value(record) for i, record in enumerate(walk.records)}
    for c in trace.contributions:
        for name, i in operands_of(walk, place[id(c.node)], c).items():
            if values[i] is None:
                values[i] = c.given.get(name)
    return {i: value for i, value in values.items() if value is not None}


def gradients_of(walk: Walk, trace: Trace) -> dict[int, Any]:
    """By position, the gradient of every record that the pass reached."""
    place, found = places(walk), {}
    for c in trace.contributions:
        i = place[id(c.node)]
        found[i] = c.g
        found[walk.inputs[i][walk.arguments[i].index(c.argument)]] = c.total
    return found


def replayed(
    walk: Walk, program: Replayable, args: Sequence[Any]
) -> tuple[dict[int, Any], dict[int, Any]]:
    """Run a program; return by position the values, and the gradients of leaves."""
    place, values = places(walk), {}

    def observe(record: Any, value: Any) -> None:
        if id(record) in place:
            values[place[id(record)]] = value

    leaves = program.trace_replay(observe, *args)
    return values, {place[id(leaf)]: g for leaf, g in leaves if id(leaf) in place}


def _value(record: Any) -> Any:
    value = getattr(record, "data", record if not hasattr(record, "inputs") else None)
    return getattr(record, "value", None) if value is None else value
