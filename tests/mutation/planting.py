"""Put a mutant in the place of a module: into functions that live already, or when it is imported.

Where a mutation lies within functions, their code is exchanged in a process that has imported
everything. Where it lies in what runs at import (a default, a decorator, a constant), the module
must be imported anew, in a process that has not done so yet.
"""

from __future__ import annotations

import gc
import importlib.abc
import importlib.machinery
import importlib.util
import inspect
import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import CodeType, FrameType, FunctionType, ModuleType
from typing import Any

from tests.mutation.mutants import compiled
from tests.structure import ROOT

__all__ = [
    "Entered",
    "Instead",
    "import_instead",
    "living",
    "parts",
    "planted",
    "planted_whole",
    "within_functions",
]

Living = dict[object, list[FunctionType]]


def _inner(code: CodeType) -> list[CodeType]:
    return [constant for constant in code.co_consts if isinstance(constant, CodeType)]


def _own(code: CodeType) -> object:
    """What a code object says itself, without those in it and without its place."""
    constants = [repr(c) for c in code.co_consts if not isinstance(c, CodeType)]
    names = (code.co_name, code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars)
    counts = (code.co_argcount, code.co_kwonlyargcount, code.co_posonlyargcount, code.co_flags)
    return code.co_code, constants, names, counts, code.co_exceptiontable


def _place(code: CodeType) -> object:
    return code.co_filename, code.co_qualname, code.co_firstlineno, tuple(code.co_positions())


def parts(before: CodeType, after: CodeType) -> Iterator[tuple[CodeType, CodeType]] | None:
    """The pairs of code objects that differ, or have any within that do; None if unlike in form."""
    mine, theirs = _inner(before), _inner(after)
    if len(mine) != len(theirs):
        return None
    found: list[tuple[CodeType, CodeType]] = []
    for a, b in zip(mine, theirs, strict=True):
        deeper = parts(a, b)
        if deeper is None:
            return None
        found += deeper
    if found or _own(before) != _own(after):
        found.append((before, after))
    return iter(found)


def within_functions(before: CodeType, after: CodeType) -> bool:
    """Whether all that differs lies in functions, and not in what runs at import."""
    differing = parts(before, after)
    return differing is not None and all(
        a.co_flags & inspect.CO_OPTIMIZED or _own(a) == _own(b) for a, b in differing
    )


def living(paths: Sequence[str]) -> Living:
    """The functions of some files that exist in this process, by the place of their code."""
    files = {str(ROOT / path) for path in paths}
    found: Living = defaultdict(list)
    gc.unfreeze()  # what is frozen is not listed
    for function in gc.get_objects():
        if type(function) is FunctionType and function.__code__.co_filename in files:
            found[_place(function.__code__)].append(function)
    return found


def planted(before: CodeType, after: CodeType, functions: Living) -> set[CodeType]:
    """Exchange the code of living functions where it differs; what was put there."""
    return _exchanged(list(parts(before, after) or ()), functions)


def planted_whole(code: CodeType, again: CodeType, functions: Living) -> set[CodeType]:
    """Exchange the code of every living function of a module for the same, compiled again."""
    return _exchanged(list(_all(code, again)), functions)


def _exchanged(pairs: list[tuple[CodeType, CodeType]], functions: Living) -> set[CodeType]:
    put = set()
    for old, new in pairs:
        for function in functions.get(_place(old), ()):
            function.__code__ = new
            put |= {new, *(b for _, b in pairs if b in _inner(new))}
    return put


def _all(before: CodeType, after: CodeType) -> Iterator[tuple[CodeType, CodeType]]:
    for a, b in zip(_inner(before), _inner(after), strict=True):
        yield a, b
        yield from _all(a, b)


class Entered:
    """Notices when one of some code objects is run for the first time, and costs nothing then."""

    def __init__(self, codes: set[CodeType]) -> None:
        self.codes = codes
        self.seen = False

    def watch(self) -> None:
        """Begin, unless it was seen already."""
        if not self.seen:
            sys.setprofile(self._called)

    def _called(self, frame: FrameType, event: str, argument: Any) -> None:
        if frame.f_code in self.codes:
            self.seen = True
            sys.setprofile(None)


class Instead(importlib.abc.SourceLoader):
    """Loads a module from another source, and from no bytecode."""

    def __init__(self, path: Path, source: str) -> None:
        self.path, self.source, self.loaded = path, source, False

    def get_filename(self, fullname: str) -> str:
        return str(self.path)

    def get_data(self, path: str | bytes) -> bytes:
        return self.source.encode()

    def source_to_code(self, data: Any, path: Any, *, _optimize: int = -1) -> CodeType:
        self.loaded = True
        return compiled(bytes(data).decode(), str(path))


class _Finder(importlib.abc.MetaPathFinder):
    def __init__(self, name: str, loader: Instead) -> None:
        self.name, self.loader = name, loader

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname != self.name:
            return None
        return importlib.util.spec_from_file_location(
            fullname, self.loader.path, loader=self.loader
        )


def import_instead(path: str, source: str) -> Instead:
    """Have the module of a file loaded from another source; its loader says whether it was.

    Raises:
        RuntimeError: it has been imported already.
    """
    name = path.removesuffix(".py").replace("/", ".").removesuffix(".__init__")
    if name in sys.modules:
        raise RuntimeError(f"{name} has been imported already: plant in a process without it")
    loader = Instead(ROOT / path, source)
    sys.meta_path.insert(0, _Finder(name, loader))
    return loader
