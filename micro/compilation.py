"""A recorded computation as a straight-line Python program, to be read and run.

``compile`` writes one statement for every op that was recorded, and then, in the reverse order, one
for every product of the chain rule: the adjoint program. The right-hand sides are the formulas of
``micro.ops``: each is called on symbols, which write down what is done to them. Where a formula
compares, as ReLU's does, it is called once for each answer, and what comes out is a conditional
expression: the program compares anew at every call.

The text holds names that are made here, operators and numbers, nothing else. Python's compiler
makes it into functions; no module is executed and nothing is read from outside.
"""

from __future__ import annotations

import builtins
import itertools
import keyword
import math
import operator
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from types import CodeType, FunctionType, SimpleNamespace
from typing import Any, Final, NamedTuple, TypeAlias

from micro import fields
from micro.fields import Number
from micro.value import CONSTANT, OPS, PARTIALS, Value, _refuse_constants, _related, topological

__all__ = ["Compiled", "compile"]

# Statements in one function: Python takes more memory for a long one than for several short ones.
LENGTH: Final = 4_000

# How tightly an expression binds.
_CHOICE, _COMPARISON, _SUM, _PRODUCT, _SIGN, _ATOM = range(6)


# Formulas: what ``micro.ops`` computes, written down.


class _Paths:
    """The ways through a formula's comparisons, of which each call of the formula takes one."""

    def __init__(self) -> None:
        self.answers: list[bool] = []
        self.asked: list[str] = []

    def decide(self, question: str) -> bool:
        """Answer as this way does."""
        self.asked.append(question)
        place = len(self.asked) - 1
        return self.answers[place] if place < len(self.answers) else True


class _Choice(NamedTuple):
    """What a formula is where a condition holds, and where it does not."""

    condition: str
    yes: Formula
    no: Formula


class _Symbol:
    """A number that is not known: every operation writes itself down."""

    __slots__ = ("level", "paths", "text")

    __hash__ = None  # type: ignore[assignment] # == is an operation
    data = 0.0  # what kind of number it stands for
    imag = 0.0

    def __init__(self, text: str, level: int, paths: _Paths) -> None:
        self.text = text
        self.level = level
        self.paths = paths

    @property
    def real(self) -> _Symbol:
        """Itself, as of a float."""
        return self

    def __bool__(self) -> bool:
        return self.paths.decide(_text(self, _COMPARISON))

    def __neg__(self) -> _Symbol:
        return _Symbol(f"-{_text(self, _SIGN)}", _SIGN, self.paths)


def _infix(sign: str, level: int, swapped: bool = False) -> Callable[[Any, Any], _Symbol]:
    def write(a: Any, b: Any) -> _Symbol:
        paths = a.paths
        if swapped:
            a, b = b, a
        # Of several signs in a row the first one comes first; comparisons would be a chain.
        left = level if level > _COMPARISON else level + 1
        return _Symbol(f"{_text(a, left)} {sign} {_text(b, level + 1)}", level, paths)

    return write


for _name, _sign, _level in (
    ("add", "+", _SUM),
    ("sub", "-", _SUM),
    ("mul", "*", _PRODUCT),
    ("truediv", "/", _PRODUCT),
):
    setattr(_Symbol, f"__{_name}__", _infix(_sign, _level))
    setattr(_Symbol, f"__r{_name}__", _infix(_sign, _level, swapped=True))
for _name, _sign in {"lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "==", "ne": "!="}.items():
    setattr(_Symbol, f"__{_name}__", _infix(_sign, _COMPARISON))


Formula: TypeAlias = "_Symbol | _Choice | float"


def _text(x: Any, level: int) -> str:
    """Return an expression, in parentheses if it binds less tightly than ``level``."""
    if isinstance(x, _Symbol):
        return x.text if x.level >= level else f"({x.text})"
    negative = math.copysign(1, x) < 0
    text = repr(float(x))  # of inf and nan these are names, which every program knows
    return f"({text})" if negative and level > _SIGN else text


def _call(name: str) -> Callable[..., _Symbol]:
    def write(*args: Any) -> _Symbol:
        paths = next(x.paths for x in args if isinstance(x, _Symbol))
        return _Symbol(f"{name}({', '.join(_text(x, _CHOICE) for x in args)})", _ATOM, paths)

    return write


# What a program may call; the names of its Values are others.
_FUNCTIONS: Final = {
    name: getattr(fields.Real, name)
    for name, value in vars(fields.Real).items()
    if callable(value) and not name.startswith("_")
}
_CONSTANTS: Final = {"inf": math.inf, "nan": math.nan}

fields.FIELDS[_Symbol] = SimpleNamespace(
    rank=fields.Precise.rank + 2,
    **{**{name: _call(name) for name in _FUNCTIONS}, "pi": lambda _: math.pi},
)


def _explored(paths: _Paths, formula: Callable[[], Any]) -> Formula:
    """Return what a formula is, on all ways through its comparisons."""

    def explored(answers: list[bool]) -> Formula:
        paths.answers, paths.asked = answers, []
        result: Formula = formula()
        if len(paths.asked) <= len(answers):
            return result
        question = paths.asked[len(answers)]
        return _Choice(question, explored([*answers, True]), explored([*answers, False]))

    return explored([])


def _written(formula: Formula, leaf: Callable[[Any], str], inner: bool = False) -> str:
    """Return a formula as text, each of its ends as ``leaf`` writes it."""
    if not isinstance(formula, _Choice):
        return leaf(formula)
    condition, rest = formula.condition, formula.no
    yes = _written(formula.yes, leaf, True)
    while isinstance(rest, _Choice) and _written(rest.yes, leaf, True) == yes:
        condition, rest = f"{condition} or {rest.condition}", rest.no
    no = _written(rest, leaf, True)
    if yes == no:
        return yes
    text = f"{yes} if {condition} else {no}"
    return f"({text})" if inner else text


# Programs


class _Statement(NamedTuple):
    """``target = text``, or ``target += text``, which also reads the target."""

    target: str
    sign: str
    text: str

    def reads(self) -> list[str]:
        """Return every name that stands in it."""
        names = re.findall(r"[A-Za-z_]\w*", self.text)
        return names if self.sign == "=" else [self.target, *names]


class _Part(NamedTuple):
    """One function of a program.

    ``fetch`` takes the function's arguments out of the list of all values so far, to which its
    results are then added.
    """

    function: Callable[..., tuple[Number, ...]]
    fetch: Callable[[list[Number]], tuple[Number, ...]]
    source: str


class Compiled:
    """A program that computes a Value and the derivatives by its inputs; see ``compile``.

    Attributes:
        source: the program's text, which is a module of its own.
        inputs: the Values that it reads, and whose ``grad`` it sets.
    """

    def __init__(self, y: Value) -> None:
        nodes = topological(y)[::-1]
        _refuse_other_numbers(nodes)
        gradients = _related(y)
        _refuse_constants(gradients)
        related = list(gradients)
        self._output = y
        self.inputs = tuple(x for x in related if not x.inputs)
        names = _names(nodes)
        forward = [_forward(x, names) for x in nodes if x.inputs]
        backward = [_Statement(f"d{names[y]}", "=", "1.0")]
        seen = {y}
        for node in reversed(related):
            backward += _backward(node, names, seen, gradients)
        results = [names[y], *(f"d{names[x]}" for x in self.inputs)]
        arguments = [names[x] for x in self.inputs]
        self._parts, places = _parts(arguments, [*forward, *backward], results)
        self._results = _fetching(places)
        text = "\n\n\n".join(part.source for part in self._parts)
        self.source = f"{_header(text)}{text}\n"

    def __call__(self) -> Number:
        """Compute the Value and the gradients anew, from what the inputs hold now.

        ``data`` of the compiled Value and ``grad`` of every input are set, not added to; whatever
        lies in between keeps what it has.

        Returns:
            ``data`` of the compiled Value.

        Raises:
            TypeError: an input holds something else than a float; nothing has changed then.
        """
        values = [x.data for x in self.inputs]
        if {*map(type, values)} != {float}:
            values = [_float(x) for x in self.inputs]
        for function, fetch, _ in self._parts:
            values += function(*fetch(values))
        result, *gradients = self._results(values)
        self._output.data = result
        for x, g in zip(self.inputs, gradients, strict=True):
            x.grad = 0 + g  # as ``backward`` adds it to a grad of 0
        return result


def compile(y: Value) -> Compiled:
    """Make the computation of ``y`` and of its derivatives into a straight-line Python program.

    The program does what recording the computation again and calling ``y.backward()`` would do,
    number for number, without a graph to walk, and so many times as fast. Choices that ops such as
    ``relu`` and ``maximum`` make depend on the data of each call; choices that your own code has
    made, by ``if`` or ``while``, are those of the recording. Literals are part of the program.

    >>> import micro
    >>> x = micro.Value(3.0, label="x")
    >>> y = micro.relu(x * x - 1)
    >>> program = micro.compile(y)
    >>> print(program.source)
    def program(x):
        v1 = x * x
        v2 = v1 - 1.0
        v3 = 0.0 if v2 <= 0.0 else v2
        dv3 = 1.0
        dv2 = 0.0 if v2 <= 0.0 else dv3
        dv1 = dv2
        dx = dv1 * x
        dx += dv1 * x
        return v3, dx
    <BLANKLINE>
    >>> x.data = 5.0
    >>> program(), x.grad
    (24.0, 10.0)

    Raises:
        TypeError: not a Value, or one in whose computation there are numbers other than floats.
        RuntimeError: y depends on no input.
    """
    if not isinstance(y, Value):
        raise TypeError(f"compile: wanted a Value, got {type(y).__name__}: {y!r}")
    return Compiled(y)


def _refuse_other_numbers(nodes: Iterable[Value]) -> None:
    for node in nodes:
        if type(node.data) is not float:
            what = f"the result of {node.op}" if node.inputs else "an input or a literal"
            raise TypeError(
                f"compile: {what} holds {type(node.data).__name__} {node.data!r}; programs are "
                "made of floats alone, and backward() is for other numbers"
            )


def _float(x: Value) -> float:
    found = fields.number(x.data, "Value: data")
    if type(found) is not float:
        raise TypeError(
            f"compile: an input holds {type(found).__name__} {found!r}; the program is made for "
            "floats"
        )
    return found


def _names(nodes: Iterable[Value]) -> dict[Value, str]:
    """Return what stands for each Value: what its label allows, or a number; a literal's digits."""
    names: dict[Value, str] = {}
    taken = {*_FUNCTIONS, *_CONSTANTS, *keyword.kwlist, *keyword.softkwlist}
    inputs, results = itertools.count(1), itertools.count(1)
    for node in nodes:
        if node.op == CONSTANT and not node.inputs:
            names[node] = repr(node.data)
            continue
        kind, number = ("v", results) if node.inputs else ("x", inputs)
        name = re.sub(r"\W+", "_", node.label, flags=re.ASCII).strip("_")
        if not name.isidentifier() and name:  # it begins with a digit
            name = f"{kind}_{name}"
        # The names that are made here have one letter and a number.
        if not name or re.fullmatch(r"d?[vx]\d+", name) or {name, f"d{name}"} & taken:
            name = f"{kind}{next(number)}"
        taken |= {name, f"d{name}"}
        names[node] = name
    return names


def _operands(node: Value, names: Mapping[Value, str], paths: _Paths) -> list[Any]:
    """Return what the formulas of an op are called on: symbols, and the numbers of literals."""
    return [
        x.data if x.op == CONSTANT and not x.inputs else _Symbol(names[x], _ATOM, paths)
        for x in node.inputs
    ]


def _forward(node: Value, names: Mapping[Value, str]) -> _Statement:
    """Return the statement that does what an op did."""
    paths = _Paths()
    operands = _operands(node, names, paths)
    # What ``op`` has made into a function of Values.
    formula: Callable[..., Any] = vars(OPS[node.op])["__wrapped__"]
    result = _explored(paths, lambda: formula(*operands, **node.attrs))
    return _Statement(names[node], "=", _written(result, lambda end: _text(end, _CHOICE)))


def _backward(
    node: Value, names: Mapping[Value, str], seen: set[Value], related: Collection[Value]
) -> list[_Statement]:
    """Return the statements that pass the gradient of a Value on to its inputs."""
    statements = []
    g = f"d{names[node]}"
    paths = _Paths()
    operands = _operands(node, names, paths)

    def product(local: Any) -> str:
        """Write ``g * local``; an int is exact, as it is to ``backward``."""
        if type(local) is int and local in (-1, 0, 1):
            return {-1: f"-{g}", 0: "0.0", 1: g}[local]
        return f"{g} * {_text(local, _PRODUCT + 1)}"

    for x, partial in zip(node.inputs, PARTIALS.get(node.op, ()), strict=True):
        if x not in related:
            continue
        local: Formula = (
            partial
            if isinstance(partial, int)
            else _explored(paths, lambda: partial(*operands, **node.attrs))  # noqa: B023
        )
        statements.append(
            _Statement(f"d{names[x]}", "+=" if x in seen else "=", _written(local, product))
        )
        seen.add(x)
    return statements


def _parts(
    arguments: Sequence[str], statements: Sequence[_Statement], results: Sequence[str]
) -> tuple[list[_Part], list[int]]:
    """Return a program as functions of bounded length, and where its results are found.

    Every function takes what was computed before it and is read in it, and returns what is read
    after it.
    """
    places = {name: i for i, name in enumerate(arguments)}  # in the list of all values so far
    count = len(places)
    blocks = [statements[i : i + LENGTH] for i in range(0, len(statements), LENGTH)]
    # By block, the names that are read in later ones.
    later: list[set[str]] = []
    wanted = set(results)
    for block in reversed(blocks):
        later.append(set(wanted))
        for statement in reversed(block):
            wanted.discard(statement.target)
            wanted.update(statement.reads())
    parts = []
    for i, (block, read_later) in enumerate(zip(blocks, reversed(later), strict=True)):
        made: dict[str, None] = {}
        taken: dict[str, None] = {}
        for statement in block:
            taken.update(
                (name, None) for name in statement.reads() if name in places and name not in made
            )
            made[statement.target] = None
        returned = [name for name in made if name in read_later]
        name = f"part{i + 1}"
        if len(blocks) == 1:
            name, taken, returned = "program", dict.fromkeys(arguments), list(results)
        lines = [f"def {name}({', '.join(taken)}):"]
        lines += [f"    {target} {sign} {text}" for target, sign, text in block]
        last = "," if len(returned) == 1 else ""
        source = "\n".join([*lines, f"    return {', '.join(returned) or '()'}{last}"])
        parts.append(_Part(_function(source, name), _fetching([places[n] for n in taken]), source))
        places.update((name, count + k) for k, name in enumerate(returned))
        count += len(returned)
    return parts, [places[name] for name in results]


def _fetching(places: list[int]) -> Callable[[list[Number]], tuple[Number, ...]]:
    if len(places) > 1:
        return operator.itemgetter(*places)
    return lambda values: tuple(values[place] for place in places)


def _function(source: str, name: str) -> Callable[..., Any]:
    """Return the function whose definition ``source`` is."""
    (code,) = (
        constant
        for constant in builtins.compile(source, f"<{name}>", "exec").co_consts
        if isinstance(constant, CodeType)
    )
    return FunctionType(code, {**_FUNCTIONS, **_CONSTANTS, "__builtins__": {}})


def _header(text: str) -> str:
    """Return the lines that make a program a module of its own: where it has its functions from."""
    used = set(re.findall(r"[A-Za-z_]\w*", text))
    lines = [f"from math import {name}" for name in _CONSTANTS if name in used]
    functions = [name for name in _FUNCTIONS if name in used]
    if functions:
        lines += ["from micro.fields import Real", ""]
        lines += [f"{name} = Real.{name}" for name in functions]
    return "\n".join([*lines, "", "", ""]) if lines else ""
