"""Loops whose work is shared among threads.

A loop that can be shared takes the number of its part, and how many parts there are, before its
other arguments. Each element is computed in one part, as it would be by one thread alone, so that
the number of threads changes no bit. There are as many as numpy's BLAS has: what limits the one (an
environment variable, ``threadpoolctl``) limits the other.

Parts are not dealt out but taken: the caller works through them, and helpers that are awake take
some of them. So nobody waits for a thread that does not run, whatever else the machine does. A
helper looks out for work for about a millisecond before it goes to sleep, without the interpreter;
who calls wakes it.

numba's own ``prange`` was tried: on a busy machine its OpenMP threads, which are dealt equal parts
and waited for, took ten times as long as one thread; idle, they kept a core from BLAS's threads.
"""

from __future__ import annotations

import ctypes
import functools
import importlib
import os
import threading
from collections.abc import Callable
from typing import Any, Final

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.registry import cpu_target

from .compiled import exact, instruction

__all__ = [
    "Divided",
    "bounds",
    "cut",
    "entry",
    "parts",
    "place",
    "portion",
    "share",
    "shared",
    "threads",
]


def _threads_of_blas() -> Callable[[], int]:
    """Return the function of numpy's BLAS that says how many threads it uses."""
    try:
        library = ctypes.CDLL(importlib.import_module("numpy._core._multiarray_umath").__file__)
    except (ImportError, OSError):
        return lambda: 0
    for name in ("scipy_openblas_get_num_threads64_", "openblas_get_num_threads"):
        if hasattr(library, name):
            return getattr(library, name)  # type: ignore[no-any-return]
    return lambda: 0  # another library, which is left alone


threads: Final = _threads_of_blas()


def parts(work: int, least: int) -> int:
    """Return into how many parts to divide so much work: none is less than ``least``."""
    return 1 if work < 2 * least else max(1, min(work // least, threads()))


@exact
def portion(length: Any, part: Any, count: Any, unit: Any) -> Any:
    """Return where one of so many parts of a length lies; all but the last are whole units."""
    units = (length + unit - 1) // unit
    start, stop = units * part // count * unit, units * (part + 1) // count * unit
    return slice(min(start, length), min(stop, length))


@exact
def bounds(length: Any, part: Any, count: Any, unit: Any) -> Any:
    """Return the bounds of ``portion``, unsigned: an index that may be negative is slower."""
    where = portion(length, part, count, unit)
    return np.uint64(where.start), np.uint64(where.stop)


@exact
def cut(array: Any, where: Any) -> Any:
    """Return a part of an array, or None if there is none."""
    if array is None:
        return None
    return array[where]


# Instructions. Memory that threads share is given by its address.

_INT: Final = ir.IntType(64)
_ORDER: Final = "seq_cst"
_IS_X86: Final = cpu_target.target_context.codegen().magic_tuple()[0].startswith(("x86", "i686"))


def _word(b: Any, address: Any) -> Any:
    return b.inttoptr(address, _INT.as_pointer())


@instruction
def _load(typing: Any, address: Any) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.load_atomic(_word(builder, arguments[0]), _ORDER, 8)

    return types.int64(types.int64), codegen


@instruction
def _store(typing: Any, address: Any, value: Any) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        builder.store_atomic(arguments[1], _word(builder, arguments[0]), _ORDER, 8)
        return context.get_dummy_value()

    return types.void(types.int64, types.int64), codegen


@instruction
def _add(typing: Any, address: Any, value: Any) -> Any:
    """Add to a number in one go, and return what it was before."""

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.atomic_rmw("add", _word(builder, arguments[0]), arguments[1], _ORDER)

    return types.int64(types.int64, types.int64), codegen


@instruction
def _pause(typing: Any) -> Any:
    """Tell the processor that this is a loop that waits."""

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        if _IS_X86:
            kind = ir.FunctionType(ir.VoidType(), [])
            pause: Any = cgutils.get_or_insert_function(  # type: ignore[no-untyped-call]
                builder.module, kind, "llvm.x86.sse2.pause"
            )
            builder.call(pause, [])
        return context.get_dummy_value()

    return types.void(), codegen


# Jobs. One is a function of an address, where its arguments lie, and the number of a part.


def _kind(context: Any) -> Any:
    """Return the type of such a function, which is that of any that numba compiles."""
    return context.call_conv.get_function_type(types.none, (types.int64, types.int64))


def _held(arguments: Any) -> Any:
    """Return the type of what lies at the address: the number of parts, and the arguments."""
    return types.Tuple((types.int64, arguments))  # type: ignore[no-untyped-call]


@instruction
def entry(typing: Any, loop: Any, arguments: Any) -> Any:
    """Return the address of a job: it calls a loop for a part."""
    taken = types.int64, types.int64, *arguments.types
    call = loop.get_call_type(typing, taken, {})

    def codegen(context: Any, builder: Any, signature: Any, _: Any) -> Any:
        name = builder.module.get_unique_name(f"part.{builder.function.name}")
        job = ir.Function(builder.module, _kind(context), name)
        job.linkage = "internal"
        inner = ir.IRBuilder(job.append_basic_block())
        address, part = job.args[2:]
        held = context.get_value_type(_held(signature.args[1])).as_pointer()
        count, packed = cgutils.unpack_tuple(  # type: ignore[no-untyped-call]
            inner, inner.load(inner.inttoptr(address, held))
        )
        body = context.get_function(loop, call)
        context.add_linking_libs(getattr(body, "libs", ()))
        given = cgutils.unpack_tuple(inner, packed)  # type: ignore[no-untyped-call]
        body(inner, [part, count, *given])
        inner.ret(ir.Constant(ir.IntType(32), 0))
        return builder.ptrtoint(job, _INT)

    return types.int64(loop, arguments), codegen


@instruction
def place(typing: Any, count: Any, arguments: Any) -> Any:
    """Return the address where the arguments of a job lie, until the caller returns."""

    def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        held = context.make_tuple(builder, _held(signature.args[1]), values)
        where = cgutils.alloca_once(builder, held.type)  # type: ignore[no-untyped-call]
        builder.store(held, where)
        return builder.ptrtoint(where, _INT)

    return types.int64(types.int64, arguments), codegen


@instruction
def _call(typing: Any, job: Any, address: Any, part: Any) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        kind = _kind(context)
        function = builder.inttoptr(arguments[0], kind.as_pointer())
        unused = [
            cgutils.alloca_once(builder, given.pointee)  # type: ignore[no-untyped-call]
            for given in kind.args[:2]  # for what is returned or raised, which is nothing
        ]
        builder.call(function, [*unused, *arguments[1:]])
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, types.int64), codegen


# What lies in the memory that callers and helpers share, in bytes from its beginning. The number of
# parts and of the next one to be taken are one word, so that they are read and changed together: a
# helper that comes late finds that all are taken, or takes one of the next job. Until the last part
# is done there is no next job.
_NEXT: Final = 0
_DONE: Final = 64
_JOB: Final = 128
_ADDRESS: Final = 136
_BITS: Final = 16  # of the word, for the next part

_LOOKS: Final = 20_000  # for work, before a helper goes to sleep


@exact
def _work(shared: Any) -> None:
    """Take parts and do them until all are taken."""
    while True:
        word = _add(shared + _NEXT, 1)
        part = word & ((1 << _BITS) - 1)
        if part >= word >> _BITS:
            return
        _call(_load(shared + _JOB), _load(shared + _ADDRESS), part)
        _add(shared + _DONE, 1)


@exact
def _serve(shared: Any, looks: Any) -> None:
    """Help with whatever comes, until nothing has come for so many looks."""
    left = looks
    while left > 0:
        word = _load(shared + _NEXT)
        if word & ((1 << _BITS) - 1) < word >> _BITS:
            _work(shared)
            left = looks
        else:
            _pause()
            left -= 1


@exact
def share(shared: Any, count: Any, job: Any, address: Any) -> None:
    """Do all parts of a job, with those who help."""
    _store(shared + _DONE, 0)
    _store(shared + _JOB, job)
    _store(shared + _ADDRESS, address)
    _store(shared + _NEXT, count << _BITS)
    _work(shared)
    while _load(shared + _DONE) < count:
        _pause()


class _Helpers:
    """The threads that help: started when they are first wanted, and asleep while they are not."""

    def __init__(self) -> None:
        self.begin()

    def begin(self) -> None:
        """Begin with no helper, as in a child process, which has only the thread that forked."""
        self._memory = np.zeros(32, np.int64)
        self._shared = self._memory.ctypes.data + -self._memory.ctypes.data % 64
        self._asleep: list[bool] = []
        self._wake: list[threading.Lock] = []
        self._lock = threading.Lock()  # of whoever has a job done

    def run(self, function: Callable[..., Any], count: int, arguments: tuple[Any, ...]) -> bool:
        """Call what shares a job; return False, and do nothing, if the helpers help another."""
        if not self._lock.acquire(blocking=False):
            return False
        try:
            while len(self._wake) < count - 1:
                self._start()
            for i in range(count - 1):
                if self._asleep[i]:
                    self._asleep[i] = False
                    self._wake[i].release()
            function(self._shared, count, arguments)
        finally:
            self._lock.release()
        return True

    def _start(self) -> None:
        _serve(self._shared, 0)  # to compile it here, where an error is seen
        wake = threading.Lock()
        wake.acquire()
        self._asleep.append(False)
        self._wake.append(wake)
        number = len(self._wake) - 1
        threading.Thread(
            target=self._live, args=(number, wake), name=f"smolgrad-{number}", daemon=True
        ).start()

    def _live(self, number: int, wake: threading.Lock) -> None:
        while True:
            _serve(self._shared, _LOOKS)
            self._asleep[number] = True
            wake.acquire()


_helpers: Final = _Helpers()

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_helpers.begin)


def shared(function: Callable[..., Any], count: int, arguments: tuple[Any, ...]) -> bool:
    """Call ``function(memory, count, arguments)``, which is to ``share`` a job; see ``Divided``.

    Returns:
        False if that is not possible now, because another thread shares one; nothing was done.
    """
    return _helpers.run(function, count, arguments)


class Divided:
    """A loop that is shared among threads where there is enough to do.

    It is called with what the loop takes after its part and their number.

    Args:
        loop: the compiled loop.
        both: what shares it: ``share(memory, count, entry(loop, args), place(count, args))``. It
            is written out for each loop, because numba keeps on disk what names a loop, and not
            what is given one.
        least: elements that are worth a thread.
        sized: the number of the argument, an array, whose size says how much there is to do.
    """

    def __init__(
        self, loop: Callable[..., Any], both: Callable[..., Any], least: int, sized: int = 0
    ) -> None:
        functools.update_wrapper(self, loop)
        self._loop = loop
        self._both = both
        self._least = least
        self._sized = sized

    def __call__(self, *arguments: Any) -> None:
        """Run the loop."""
        count = parts(arguments[self._sized].size, self._least)
        if count == 1 or not shared(self._both, count, arguments):
            self._loop(0, 1, *arguments)

    def bound(self, *arguments: Any) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        """Return what to call, and with what, to run the loop on these arrays again and again."""
        if arguments[self._sized].size < 2 * self._least:
            return self._loop, (0, 1, *arguments)
        return self, arguments
