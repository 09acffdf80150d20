"""The judgement: run a function on the cases, find the first that fails, name the mistake."""

from __future__ import annotations

import copy
import inspect
import linecache
import signal
import textwrap
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

from .compare import DIFFERENT, difference, short
from .exercise import Case, Exercise, Mistake

__all__ = [
    "LIMIT",
    "TookTooLong",
    "Verdict",
    "explain",
    "judge",
    "remember_own_file",
    "time_limit",
    "where",
]

LIMIT: Final = 3.0  # seconds that a call may take; what is asked for takes milliseconds

_HELP: Final[Mapping[type[BaseException], str]] = {
    RecursionError: "A function calls itself again and again. Python stops after about 1,000 "
    "calls within calls, and graphs are deeper than that: keep a list of what is still to do.",
    NameError: "Is the name spelled as where it was made, and imported at the top of the file?",
    ZeroDivisionError: "Which value is 0 here, and may it be?",
    AttributeError: "Look at what kind of thing stands before the dot; print(type(...)) shows it.",
    MemoryError: "Something grows without end.",
}


class TookTooLong(BaseException):
    """A call has used up its time; no Exception, so that `except Exception` lets it through."""


@contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Raise TookTooLong in the block when the time is over, and again each second after that."""

    def ring(*_: Any) -> None:
        raise TookTooLong

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds, 1.0)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@dataclass(frozen=True)
class Outcome:
    """What became of a call: what is compared of its result, or what it raised."""

    value: Any = None
    error: BaseException | None = None

    def same_as(self, other: Outcome, tolerance: float) -> bool:
        """Whether both calls went wrong, or right, in the same way."""
        if self.error is not None or other.error is not None:
            a, b = self.error, other.error
            alike = isinstance(a, (RecursionError, TookTooLong)) or str(a) == str(b)
            return type(a) is type(b) and alike
        return not difference(self.value, other.value, tolerance)

    def right(self, truth: Outcome, tolerance: float) -> bool:
        """Whether this is what was wanted: the value, or an error of the kind."""
        if truth.error is not None:
            return isinstance(self.error, type(truth.error))
        return self.error is None and not difference(self.value, truth.value, tolerance)

    def __str__(self) -> str:
        if self.error is None:
            return textwrap.indent(short(self.value), " " * 10).lstrip()
        return f"that it raises a {type(self.error).__name__}"


class OtherFormError(Exception):
    """A result is of another form than the exercise asks for."""


@dataclass
class Verdict:
    """What is said about one exercise.

    Attributes:
        name: the function's name.
        passed: whether it is right in every case.
        lines: what the student reads, without indentation.
        mistake: the name of the mistake that it looks like.
    """

    name: str
    passed: bool = False
    lines: list[str] = field(default_factory=list)
    mistake: str = ""


def judge(
    exercise: Exercise,
    implementation: Any,
    limit: float = LIMIT,
    note: Callable[[str], object] = lambda text: None,
) -> Verdict:
    """Return the verdict on a student's function.

    Args:
        exercise: what is asked for.
        implementation: what the student's file has under the exercise's name.
        limit: the seconds that a call may take.
        note: is told of each call before it is made.
    """
    verdict = Verdict(exercise.name)
    if not callable(implementation):
        text = f"{exercise.name} is {short(implementation)}, not a function: does something in "
        verdict.lines = [text + "the file give this name to another thing?"]
        return verdict
    outcomes: list[Outcome] = []
    for case in exercise.cases:
        text = told(exercise, case)
        note(text)
        if misfit := _misfit(implementation, case):
            verdict.lines = [misfit]
            return verdict
        outcomes.append(_run(exercise, implementation, case, limit))
        error = outcomes[-1].error
        if isinstance(error, NotImplementedError):
            verdict.lines = ["not written yet: replace its last line, raise NotImplementedError."]
            return verdict
        if isinstance(error, TookTooLong):
            break  # the other cases might take as long
    truths = [_truth(exercise, case) for case in exercise.cases]
    right = [a.right(b, exercise.tolerance) for a, b in zip(outcomes, truths, strict=False)]
    if all(right):
        verdict.passed = True
        verdict.lines = [f"right in all {len(right)} cases."]
        return verdict
    first = right.index(False)
    verdict.lines = _account(exercise, first, outcomes[first], truths[first], limit)
    found, everywhere = _diagnose(exercise, outcomes, right, limit)
    if found:
        verdict.mistake = found.name
        looks = "It looks like this:" if everywhere else "In this case it does the same as this:"
        verdict.lines += ["", f"{looks} {found.name}.", f"Hint: {found.hint}"]
    elif (error := outcomes[first].error) is not None:
        verdict.lines += [
            f"Hint: {text}" for kind, text in _HELP.items() if isinstance(error, kind)
        ]
    return verdict


def told(exercise: Exercise, case: Case) -> str:
    """The call, as a student reads it."""
    shown = ", ".join(" ".join(short(x).split()) for x in case.args)
    return case.text or f"{exercise.name}({shown})"


def _misfit(implementation: Callable[..., Any], case: Case) -> str:
    """Why the function cannot be called with the arguments of the case; "" if it can."""
    try:
        signature = inspect.signature(implementation)
    except (TypeError, ValueError):  # a builtin need not have one
        return ""
    try:
        signature.bind(*case.args)
    except TypeError as error:
        return (
            f"it takes {signature}, but is called with {len(case.args)} arguments ({error}). "
            "Leave the first line of the function as it was."
        )
    return ""


def _run(
    exercise: Exercise, implementation: Callable[..., Any], case: Case, limit: float
) -> Outcome:
    args = copy.deepcopy(case.args)
    try:
        with time_limit(limit):
            result = implementation(*args)
    except (Exception, SystemExit, TookTooLong) as error:  # noqa: BLE001 - whatever was written
        return Outcome(error=error)
    try:
        with time_limit(limit):  # a generator need not end
            return Outcome(exercise.view(result, *args))
    except (Exception, TookTooLong):  # noqa: BLE001 - whatever was returned
        return Outcome(error=OtherFormError(short(result), type(result).__name__))


def _truth(exercise: Exercise, case: Case) -> Outcome:
    try:
        return Outcome(exercise.truth(*copy.deepcopy(case.args)))
    except exercise.refusals as error:
        return Outcome(error=error)


def _account(
    exercise: Exercise, number: int, outcome: Outcome, truth: Outcome, limit: float
) -> list[str]:
    """What happened in the smallest case that fails."""
    lines = [
        "not right yet. The smallest case that fails:",
        "",
        told(exercise, exercise.cases[number]),
    ]
    match outcome.error:
        case None if truth.error is None:
            lines += [
                f"  got     {outcome}",
                f"  wanted  {truth}",
            ]
            found = difference(outcome.value, truth.value, exercise.tolerance)
            lines += [] if found == DIFFERENT else [f"  ({found})"]
        case None:
            lines += [f"  got     {outcome}", f"  wanted  {truth}"]
        case OtherFormError(args=(text, kind)):
            lines += [f"  got     {text}, a {kind}", f"  wanted  {exercise.returns}"]
        case TookTooLong():
            lines += [f"  did not come to an end within {limit:g} seconds", *where(outcome.error)]
            lines += ["", "What has to happen for that to end, and does it?"]
        case error:
            lines += [*explain(error), f"  wanted  {truth}"]
    return lines


def explain(error: BaseException) -> list[str]:
    """An exception, and where in the student's file it comes from."""
    if isinstance(error, SystemExit):
        return ["  left Python by exit(): take that out", *where(error)]
    text = str(error).strip().partition("\n")[0]
    return [f"  raised  {type(error).__name__}{': ' if text else ''}{text}", *where(error)]


def where(error: BaseException) -> list[str]:
    """The last line of the student's own file that an exception has passed."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if frame.filename in _OWN_FILES]
    if not own:
        return []
    line = linecache.getline(own[-1].filename, own[-1].lineno or 0).strip()
    return [f"  in line {own[-1].lineno}: {line}"]


_OWN_FILES: set[str] = set()


def remember_own_file(filename: str) -> None:
    """Have messages point at lines of this file."""
    _OWN_FILES.add(filename)


def _diagnose(
    exercise: Exercise, outcomes: Sequence[Outcome], right: Sequence[bool], limit: float
) -> tuple[Mistake | None, bool]:
    """The mistake with the same wrong results, and whether they are the same in every case.

    A mistake that explains every failure goes before one that explains the first alone, and among
    those the one that agrees in the most cases.
    """
    failures = [i for i, ok in enumerate(right) if not ok]
    best: tuple[tuple[bool, int], Mistake] | None = None
    for mistake in exercise.mistakes:
        agrees: dict[int, bool] = {}
        for i in [*failures, *(i for i, ok in enumerate(right) if ok)]:
            theirs = _run(exercise, mistake.wrong, exercise.cases[i], limit)
            agrees[i] = outcomes[i].same_as(theirs, exercise.tolerance)
            if i == failures[0] and not agrees[i]:
                break
        if agrees[failures[0]]:
            score = (all(agrees[i] for i in failures), sum(agrees.values()))
            if best is None or score > best[0]:
                best = score, mistake
    return (None, False) if best is None else (best[1], best[0][0])
