"""An exercise as data: its cases, the truth about each, and the mistakes that people make.

What a student's function returns is compared with the truth, case by case, smallest case first.
When it differs, its results are compared with those of wrong implementations: the one that gives
the same wrong results is the mistake that it looks like.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

__all__ = ["Case", "Exercise", "Mistake", "case"]


@dataclass(frozen=True)
class Case:
    """Arguments to call a function with; each call gets a copy of its own.

    Attributes:
        args: the arguments.
        text: what a student reads; the call itself, if empty.
    """

    args: tuple[Any, ...]
    text: str = ""


def case(*args: Any, text: str = "") -> Case:
    """Return the case with these arguments."""
    return Case(args, text)


@dataclass(frozen=True)
class Mistake:
    """A way to get it wrong.

    Attributes:
        name: what the mistake is called.
        wrong: an implementation with this mistake and no other.
        hint: a question or a fact that leads on; not the answer.
    """

    name: str
    wrong: Callable[..., Any]
    hint: str


def _as_it_is(result: Any, *_: Any) -> Any:
    return result


@dataclass(frozen=True)
class Exercise:
    """A function to be written.

    Attributes:
        name: the function's name.
        returns: what it returns, in words: "a float".
        truth: what is right for the arguments of a case, worked out in another way than the
            solution does.
        cases: the cases, smallest first.
        mistakes: what people get wrong.
        view: what of the result is compared, from the result and the arguments of the call. It
            raises, whatever it likes, for a result of another form.
        refusals: the exceptions with which truth says that the function has to raise one like it.
        tolerance: how far a number may be off, relative to the largest one wanted.
    """

    name: str
    returns: str
    truth: Callable[..., Any]
    cases: tuple[Case, ...]
    mistakes: tuple[Mistake, ...]
    view: Callable[..., Any] = _as_it_is
    refusals: tuple[type[Exception], ...] = ()
    tolerance: float = 1e-9
