"""Grad mode and anomaly mode, as context variables.

Threads and asyncio tasks each have their own modes, because they have their
own context. A generator has not: it runs in its caller's. A mode that was set
inside a generator is therefore tied to the generator's frame, and holds only
while that frame is on the stack, so that a generator suspended inside
``no_grad`` does not switch off its caller's gradients. The generators behind
``contextlib.contextmanager`` are the exception: a mode that one of them sets
is meant for the block that it manages.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import sys
from collections.abc import Callable
from contextvars import ContextVar
from types import CodeType, FrameType, TracebackType
from typing import Any, ClassVar, Literal, ParamSpec, TypeAlias, TypeVar, cast

__all__ = [
    "detect_anomaly",
    "enable_grad",
    "is_anomaly_enabled",
    "is_grad_enabled",
    "is_recording_sites",
    "no_grad",
    "record_sites",
    "set_grad_enabled",
    "tracing",
]

P = ParamSpec("P")
R = TypeVar("R")
Kind: TypeAlias = Literal["grad", "anomaly", "sites", "trace"]

_SUSPENDABLE = inspect.CO_GENERATOR | inspect.CO_ASYNC_GENERATOR


class Entry:
    """One mode in force: its kind, its value, and the generator frame it is tied to, if any.

    What is tied to a generator can end in another thread or task than it began
    in, where the context that holds it is out of reach: it is marked as ended.
    """

    __slots__ = ("enabled", "ended", "frame", "kind")

    def __init__(self, kind: Kind, enabled: bool, frame: int | None) -> None:
        self.kind = kind
        self.enabled = enabled
        self.frame = frame
        self.ended = False


# The modes in force, oldest first. None, the common case, means the defaults.
ACTIVE: ContextVar[tuple[Entry, ...] | None] = ContextVar("smolgrad modes", default=None)


def _lookup(kind: str, default: bool) -> bool:
    for entry in reversed(ACTIVE.get() or ()):
        if entry.kind != kind or entry.ended:
            continue
        if entry.frame is None or _on_stack(entry.frame):
            return entry.enabled
    return default


def _on_stack(wanted: int) -> bool:
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if id(frame) == wanted:
            return True
        frame = frame.f_back
    return False


def _tie(frame: FrameType | None) -> int | None:
    """Return the generator frame that a mode set in ``frame`` is tied to, if there is one."""
    while frame is not None:
        caller = frame.f_back
        suspendable = bool(frame.f_code.co_flags & _SUSPENDABLE)
        manager = suspendable and caller is not None and _in_contextlib(caller.f_code)
        if not manager and not _in_contextlib(frame.f_code):
            return id(frame) if suspendable else None
        frame = caller
    return None


def _in_contextlib(code: CodeType) -> bool:
    return code.co_filename == contextlib.contextmanager.__code__.co_filename


def is_grad_enabled() -> bool:
    """Return whether operations are recorded here and now."""
    return ACTIVE.get() is None or _lookup("grad", True)


def is_anomaly_enabled() -> bool:
    """Return whether every result is being searched for NaN and inf."""
    return ACTIVE.get() is not None and _lookup("anomaly", False)


def is_recording_sites() -> bool:
    """Return whether results note the line of the caller's code that made them."""
    return ACTIVE.get() is not None and _lookup("sites", False)


class _Mode:
    """A context manager, and a decorator, that sets one mode; reentrant."""

    kind: ClassVar[Kind] = "grad"

    def __init__(self, enabled: bool) -> None:
        self._enabled = enabled
        self._entries: list[Entry] = []

    def __enter__(self) -> None:
        entry = Entry(self.kind, self._enabled, _tie(sys._getframe(1)))
        self._entries.append(entry)
        ACTIVE.set((*(ACTIVE.get() or ()), entry))

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        # Modes need not end in the reverse of the order in which they began, nor where they
        # began: look for the last one that this object has begun here.
        active, tie = ACTIVE.get() or (), _tie(sys._getframe(1))
        begun = [entry for entry in self._entries if entry.frame == tie] or self._entries
        ending = next((entry for entry in begun[::-1] if entry in active), begun[-1])
        self._entries.remove(ending)
        ending.ended = ending.frame is not None
        left = (entry for entry in active if entry is not ending and not entry.ended)
        ACTIVE.set(tuple(left) or None)

    def __call__(self, function: Callable[P, R]) -> Callable[P, R]:
        cls, enabled = type(self), self._enabled
        run: Any = function
        if inspect.isgeneratorfunction(function):

            @functools.wraps(function)
            def generator(*args: Any, **kwargs: Any) -> Any:
                with _copy(cls, enabled):
                    return (yield from run(*args, **kwargs))

            return cast(Callable[P, R], generator)

        if inspect.isasyncgenfunction(function):

            @functools.wraps(function)
            async def async_generator(*args: Any, **kwargs: Any) -> Any:
                with _copy(cls, enabled):
                    source = run(*args, **kwargs)
                    step = anext(source)
                    try:
                        while True:
                            value = await step
                            try:
                                sent = yield value
                            except GeneratorExit:
                                raise
                            except BaseException as error:  # noqa: BLE001 - passed on, whatever it is
                                step = source.athrow(error)
                            else:
                                step = source.asend(sent)
                    except StopAsyncIteration:
                        return
                    finally:
                        await source.aclose()

            return cast(Callable[P, R], async_generator)

        if inspect.iscoroutinefunction(function):

            @functools.wraps(function)
            async def coroutine(*args: Any, **kwargs: Any) -> Any:
                with _copy(cls, enabled):
                    return await run(*args, **kwargs)

            return cast(Callable[P, R], coroutine)

        @functools.wraps(function)
        def wrapper(*args: P.args, **kwargs: P.kwargs) -> R:
            with _copy(cls, enabled):
                return function(*args, **kwargs)

        return wrapper


def _copy(cls: type[_Mode], enabled: bool) -> _Mode:
    mode = cls.__new__(cls)
    _Mode.__init__(mode, enabled)
    return mode


class no_grad(_Mode):
    """Record nothing inside: ``with no_grad(): ...`` or ``@no_grad()``."""

    def __init__(self) -> None:
        super().__init__(False)


class enable_grad(_Mode):
    """Record inside, even within ``no_grad``."""

    def __init__(self) -> None:
        super().__init__(True)


class set_grad_enabled(_Mode):
    """Record inside or not, as ``enabled`` says; a context manager or decorator."""


class detect_anomaly(_Mode):
    """Raise at the first operation, forward or backward, that yields NaN or inf.

    The RuntimeError names the op and the line of the caller's code that made
    it. Slow: every result is searched.
    """

    kind = "anomaly"

    def __init__(self, enabled: bool = True) -> None:
        super().__init__(enabled)


class record_sites(_Mode):
    """Have every recorded op note the line of the caller's code: ``with record_sites(): ...``.

    For drawings and players, which then show it: it is the node's ``site``. Makes ops slower.
    """

    kind = "sites"

    def __init__(self, enabled: bool = True) -> None:
        super().__init__(enabled)


class tracing(_Mode):
    """Have ops ask for a tracer: ``with tracing(): ...``."""

    kind = "trace"

    def __init__(self) -> None:
        super().__init__(True)
