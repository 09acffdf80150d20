"""Chains of elementwise ops as one loop: its text, its compiled form, and numpy in blocks.

A ``Chain`` says what is computed for each element, in the scalar meaning of the ops. ``source``
writes that down as a Python function over the elements of matrices, which numba compiles; it lies
as a module in a cache folder, and numba keeps the machine code beside it. Without numba the same
ops run as ufuncs on a block of rows at a time, so that what is between stays in the cache. Both
round every operation, and give the bits that the ops give one by one.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.util
import inspect
import math
import os
import sys
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from ..graph import SYMBOLS, Array
from . import reference
from .into import UFUNCS, Call
from .room import Room

if TYPE_CHECKING:
    from . import threads

__all__ = ["SCALAR", "Chain", "Ref", "blocked", "compiled", "matrices", "source"]

# What each op is on one element.
SCALAR: Final[Mapping[str, str]] = {
    "add": "{0} + {1}",
    "sub": "{0} - {1}",
    "mul": "{0} * {1}",
    "div": "{0} / {1}",
    "neg": "-{0}",
    "square": "{0} * {0}",
    "sqrt": "np.sqrt({0})",
    "abs": "abs({0})",
    "relu": "zero if {0} <= zero else {0}",
    "maximum": "{0} if {0} >= {1} or {0} != {0} else {1}",
    "minimum": "{0} if {0} <= {1} or {0} != {0} else {1}",
    "where": "{1} if {0} else {2}",
    "eq": "{0} == {1}",
    "ne": "{0} != {1}",
    "lt": "{0} < {1}",
    "le": "{0} <= {1}",
    "gt": "{0} > {1}",
    "ge": "{0} >= {1}",
    "isnan": "{0} != {0}",
    "bitwise_and": "{0} & {1}",
    "bitwise_or": "{0} | {1}",
    "bitwise_not": "not {0}",
}

# What results are called, by their form.
_LETTERS: Final = {"full": "y", "total": "t", "across": "s"}

# Elements of a block that numpy works on at a time.
BLOCK: Final = 2**14


class Ref(NamedTuple):
    """What an op of a chain takes: an input "x", a constant "c" or the result "v" of another."""

    kind: str
    number: int

    def __str__(self) -> str:
        return f"{self.kind}{self.number}"


class Chain(NamedTuple):
    """Elementwise ops on matrices of one shape.

    Attributes:
        dtype: of all that is not a truth value.
        inputs: how each input lies: "full", "row" (one row for all), "column" or "one" (number).
        constants: numbers.
        steps: each op, and what it takes.
        outputs: which results are wanted, and in what form: "full", "total", the sum of all rows,
            or "across", the sum of each row.
    """

    dtype: str
    inputs: tuple[str, ...]
    constants: tuple[float, ...]
    steps: tuple[tuple[str, tuple[Ref, ...]], ...]
    outputs: tuple[tuple[int, str], ...]

    def formulas(self, first: int = 0) -> list[str]:
        """Return what the loop computes, for readers: a line for each output.

        Inputs are x, outputs y, numbered from ``first`` on. What is used several times, and is no
        output, is a v with a line of its own.
        """
        names = {k: f"y{first + i}" for i, (k, form) in enumerate(self.outputs) if form == "full"}
        used = Counter(ref.number for _, refs in self.steps for ref in refs if ref.kind == "v")
        used.update(k for k, form in self.outputs if form != "full")
        shared = [k for k in range(len(self.steps)) if used[k] > 1 and k not in names]
        names |= {k: f"v{first + i}" for i, k in enumerate(shared)}
        plain: list[str] = []  # each step
        inner: list[str] = []  # the same, as the operand of an operator

        def text(ref: Ref, texts: Sequence[str]) -> str:
            if ref.kind == "v":
                return names.get(ref.number) or texts[ref.number]
            return (
                f"x{first + ref.number}" if ref.kind == "x" else f"{self.constants[ref.number]:g}"
            )

        for op, refs in self.steps:
            symbol = SYMBOLS[op]
            if symbol.isidentifier():
                plain.append(f"{op}({', '.join(text(ref, plain) for ref in refs)})")
                inner.append(plain[-1])
            else:
                operands = [text(ref, inner) for ref in refs]
                plain.append(f" {symbol} ".join(operands) if operands[1:] else symbol + operands[0])
                inner.append(f"({plain[-1]})")
        lines = [f"{names[k]} = {step}" for k, step in enumerate(plain) if k in names]
        for i, (k, form) in enumerate(self.outputs):
            if form != "full":
                dim = 0 if form == "total" else -1
                lines.append(f"y{first + i} = sum({names.get(k, plain[k])}, {dim})")
        return lines

    def __repr__(self) -> str:
        return "; ".join(self.formulas())


def _number(value: float) -> str:
    return f'float("{value}")' if not math.isfinite(value) else repr(value)


def source(chain: Chain) -> str:
    """Return a Python function that computes a part of a chain, element by element.

    A part is some of the rows or, where columns are added up, some of the columns.
    """
    outs = [f"{_LETTERS[form]}{k}" for k, form in chain.outputs]
    given = [(f"x{k}", form) for k, form in enumerate(chain.inputs)]
    taken = [*given, *zip(outs, (form for _, form in chain.outputs), strict=True)]
    shaped = next(name for name, form in taken if form == "full")
    lines = [f"def loop(part, count, {', '.join(name for name, _ in taken)}):"]
    totals = [name for name, form in taken if form == "total"]
    across = [
        (out, k) for out, (k, form) in zip(outs, chain.outputs, strict=True) if form == "across"
    ]
    if totals or across or any("zero" in SCALAR[op] for op, _ in chain.steps):
        lines.append(f"    zero = np.{chain.dtype}(0)")
    for k, value in enumerate(chain.constants):
        lines.append(f"    c{k} = np.{chain.dtype}({_number(value)})")
    lines.append(f"    rows, width = {shaped}.shape")
    if totals and across:  # neither can be divided
        lines.append(
            "    down, along = bounds(rows, part, count, max(1, rows)), bounds(width, 0, 1, 1)"
        )
    elif totals:
        lines.append("    down, along = bounds(rows, 0, 1, 1), bounds(width, part, count, 16)")
    else:
        lines.append("    down, along = bounds(rows, part, count, 1), bounds(width, 0, 1, 1)")
    for name, form in given:
        if form == "one":
            lines.append(f"    e{name[1:]} = {name}[0]")
    inner = "            "
    for out in totals:
        lines += ["    for j in range(*along):", f"        {out}[j] = zero"]
    for _, k in across:
        lines.append(f"    a{k} = np.empty((1, width), np.{chain.dtype})")
    lines.append("    for i in range(*down):")
    for name, form in given:
        if form == "column":
            lines.append(f"        e{name[1:]} = {name}[i]")
    lines.append("        for j in range(*along):")

    def named(ref: Ref) -> str:
        if ref.kind != "x":
            return str(ref)
        return f"e{ref.number}"

    for name, form in given:
        if form in ("full", "row"):
            lines.append(f"{inner}e{name[1:]} = {name}[{'i, j' if form == 'full' else 'j'}]")
    for k, (op, refs) in enumerate(chain.steps):
        lines.append(f"{inner}v{k} = {SCALAR[op].format(*map(named, refs))}")
    for out, (k, form) in zip(outs, chain.outputs, strict=True):
        if form == "full":
            lines.append(f"{inner}{out}[i, j] = v{k}")
        elif form == "total":
            lines.append(f"{inner}{out}[j] += v{k}")
        else:
            lines.append(f"{inner}a{k}[0, j] = v{k}")
    for out, k in across:
        lines.append(f"        {out}[i] = added(a{k}, 0)")
    return "\n".join(lines) + "\n"


def folder() -> Path:
    """Return where generated modules lie: ``SMOLGRAD_CACHE``, or a folder in the user's cache."""
    given = os.environ.get("SMOLGRAD_CACHE")
    if given:
        return Path(given) / "loops"
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "smolgrad" / "loops"


_HEAD: Final = '''"""A loop that tensor.compile has written; it is compiled by numba."""

import numpy as np

from tensor.kernels.compiled import exact
from tensor.kernels.jit import added
from tensor.kernels.threads import bounds, entry, place, share


@exact
'''

_TAIL: Final = """

@exact
def parts(memory, count, args):
    share(memory, count, entry(loop, args), place(count, args))
"""

_LEAST: Final = 1 << 14  # elements that are worth a thread


@functools.cache
def compiled(chain: Chain, dtypes: tuple[str, ...]) -> threads.Divided:
    """Return the loop of a chain, compiled by numba: from the disk, if it was compiled before.

    ``dtypes`` are those of its inputs and outputs, for which it is compiled at once.
    """
    from . import compiled as numbas
    from . import jit, threads

    text = _HEAD + source(chain) + _TAIL
    # what is called is kept with the loop's machine code
    for module in (numbas, threads, jit)[: 3 if "added(" in text else 2]:
        called = inspect.getsource(module)
        text += f"# {module.__name__}: {hashlib.sha256(called.encode()).hexdigest()[:16]}\n"
    name = f"loop_{hashlib.sha256(text.encode()).hexdigest()[:16]}"
    module = _loaded(name, text)
    forms = [*chain.inputs, *(form for _, form in chain.outputs)]
    shapes = ((1, 1) if form == "full" else (1,) for form in forms)
    given = [np.ones(shape, dtype) for shape, dtype in zip(shapes, dtypes, strict=True)]
    module.loop(0, 1, *given)
    return threads.Divided(module.loop, module.parts, _LEAST, forms.index("full"))


def _loaded(name: str, text: str) -> Any:
    """Return a module with this text, written to the cache folder if it is not there."""
    try:
        place = folder()
        place.mkdir(parents=True, exist_ok=True, mode=0o700)
        path = place / f"{name}.py"
        _write(path, text)
    except OSError:  # no folder that can be written to
        path = Path(tempfile.mkdtemp(prefix="smolgrad-")) / f"{name}.py"
        _write(path, text)
    spec = importlib.util.spec_from_file_location(f"smolgrad_{name}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[module.__name__] = module  # where numba looks for it when it loads what it has kept
    spec.loader.exec_module(module)
    return module


def _write(path: Path, text: str) -> None:
    """Write a file, unless it has this text already: then numba's cache beside it holds."""
    if path.is_file() and path.read_text("utf-8") == text:
        return
    handle, temporary = tempfile.mkstemp(dir=path.parent, suffix=".tmp")
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.write(text)
    os.replace(temporary, path)


def matrices(chain: Chain, outs: Sequence[Array], arrays: Sequence[Array]) -> list[Array]:
    """Return inputs and outputs in the shapes that a loop takes them in."""
    forms = [*chain.inputs, *(form for _, form in chain.outputs)]
    shaped: list[Array] = []
    for array, form in zip([*arrays, *outs], forms, strict=True):
        if form == "full":
            width = array.shape[-1] if array.ndim else 1
            shaped.append(array.reshape(-1 if array.size else 0, width))
        else:
            shaped.append(array.reshape(-1))
    return shaped


def blocked(chain: Chain, room: Room, outs: Sequence[Array], arrays: Sequence[Array]) -> list[Call]:
    """Return the calls that compute a chain with ufuncs, a block of rows at a time."""
    shaped = matrices(chain, outs, arrays)
    given, results = shaped[: len(arrays)], shaped[len(arrays) :]
    full = next(
        array
        for array, form in zip(shaped, [*chain.inputs, *(f for _, f in chain.outputs)], strict=True)
        if form == "full"
    )
    rows, width = full.shape
    step = max(1, BLOCK // max(1, width))
    calls: list[Call] = []
    ends = list(zip(chain.outputs, results, strict=True))
    wanted = {k: out for (k, form), out in ends if form == "full"}
    for (k, form), out in ends:
        if form != "full" and k not in wanted:
            wanted[k] = room(f"w{k}", full.shape, out.dtype)
    dtype = np.dtype(chain.dtype)
    constants = [np.asarray(value, dtype) for value in chain.constants]
    for start in range(0, rows, step):
        part = slice(start, min(rows, start + step))
        height = part.stop - part.start
        values: list[Array] = []

        def value(ref: Ref, part: slice = part, values: list[Array] = values) -> Array:
            if ref.kind == "c":
                return constants[ref.number]
            if ref.kind == "v":
                return values[ref.number]
            array, form = given[ref.number], chain.inputs[ref.number]
            if form == "full":
                return array[part]
            return array[part, None] if form == "column" else array

        for k, (op, refs) in enumerate(chain.steps):
            taken = [value(ref) for ref in refs]
            kind = bool if op in _TRUTHS else dtype
            out = wanted[k][part] if k in wanted else room(f"v{k}", (step, width), kind)[:height]
            values.append(out)
            calls += _calls(op, room, out, taken)
    calls += [
        (np.add.reduce, (wanted[k], 0 if form == "total" else 1, None, out))
        for (k, form), out in ends
        if form != "full"
    ]
    return calls


_TRUTHS: Final = frozenset(
    {*("eq", "ne", "lt", "le", "gt", "ge", "isnan"), "bitwise_and", "bitwise_or", "bitwise_not"}
)


def _calls(op: str, room: Room, out: Array, taken: Sequence[Array]) -> list[Call]:
    if op == "square":
        return [(np.square, (taken[0], out))]
    if op == "relu":
        zeros = room.filled("zeros", out.shape[-1:], out.dtype, 0)
        return [(functools.partial(np.maximum, out=out), (taken[0], zeros))]
    if op in ("maximum", "minimum"):
        return [(functools.partial(getattr(np, op), out=out), tuple(taken))]
    if op == "where":
        cond, a, b = taken
        cond = np.broadcast_to(cond, out.shape)
        for kept, other, inverted in ((a, b, False), (b, a, True)):
            if _is_zero(other) and kept.shape == out.shape:
                if not inverted:
                    return [(reference.masked, (kept, cond, out))]
                mask = room("mask", out.shape, bool)
                return [(np.logical_not, (cond, mask)), (reference.masked, (kept, mask, out))]
        return [(np.copyto, (out, b)), (np.copyto, (out, a, "same_kind", cond))]
    return [(UFUNCS[op], (*taken, out))]


def _is_zero(a: Array) -> bool:
    return a.ndim == 0 and a.dtype.kind != "b" and bool(a == 0) and not np.signbit(a)
