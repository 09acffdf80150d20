"""What a player is made from: one backward pass, as the engine ran it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, runtime_checkable

__all__ = ["Contribution", "Playable", "Trace", "trace"]


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
