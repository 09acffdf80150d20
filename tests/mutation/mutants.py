"""Mutants: copies of a source that differ in one place, by the operators of cosmic-ray."""

from __future__ import annotations
import __future__

import ast
import itertools
import re
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from types import CodeType
from typing import Final, NamedTuple

__all__ = ["Mutant", "Offer", "compiled", "mutants"]

# Whether equal numbers and equal strings are one object is Python's affair, not the project's.
SAME_OBJECT: Final = {"Eq_Is", "NotEq_IsNot", "Is_Eq", "IsNot_NotEq"}


@dataclass(frozen=True)
class Mutant:
    """One of the places of a file at which an operator of cosmic-ray changes something."""

    path: str
    line: int
    column: int
    operator: str
    occurrence: int
    place: str  # what stands there
    text: str  # the line as it is in the mutant
    first: int  # the line at which the outermost statement around it begins
    statement: str  # that statement
    mutated: str  # and as it is in the mutant

    @property
    def key(self) -> str:
        """What tells it from all others."""
        return f"{self.path}:{self.line}:{self.column} {self.operator} {self.occurrence}"

    @property
    def what(self) -> tuple[str, ...]:
        """What it is, wherever in the file it stands."""
        return self.path, self.operator, self.place, self.text

    def within(self, source: str) -> str:
        """The whole of the mutant, from that of the original."""
        lines = source.splitlines(keepends=True)
        ahead = "".join(lines[: self.first - 1])
        return ahead + self.mutated + source[len(ahead) + len(self.statement) :]


class Offer(NamedTuple):
    """A statement as an operator changes it, in a place of it."""

    operator: str
    occurrence: int
    where: tuple[int, int]
    until: tuple[int, int]
    text: str


def compiled(text: str, path: str) -> CodeType:
    """The code of a module, without the warnings that a mutant gives rise to."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        flag = __future__.annotations.compiler_flag  # also for one statement of a module
        return compile(text, path, "exec", flag, dont_inherit=True)


class _WithoutTypes(ast.NodeTransformer):
    """Takes out annotations and aliases of types, which nothing evaluates."""

    def visit_arg(self, node: ast.arg) -> ast.AST:
        node.annotation = None
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        node.returns = None
        return self.generic_visit(node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        is_alias = isinstance(node.annotation, ast.Name) and node.annotation.id == "TypeAlias"
        node.annotation = ast.Constant(None)
        if is_alias:
            node.value = None
        return self.generic_visit(node)


def meaning(source: str) -> str:
    """What a module says, types aside."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return ast.dump(_WithoutTypes().visit(ast.parse(source)))


def mutants(path: str, source: str, left_out: Counter[str]) -> Iterator[Mutant]:
    """Every mutant of a source; those without a meaning of their own are only counted, by reason.

    These are: what changes types alone, what says the same as the original or as another mutant,
    and ``==`` for ``is`` or the reverse.
    """
    lines = source.splitlines(keepends=True)
    starts = [_first_line(node) for node in ast.parse(source).body]
    # One statement at a time: each mutant is parsed again, and a whole file would take too long.
    for start, stop in itertools.pairwise([*starts, len(lines) + 1]):
        text = "".join(lines[start - 1 : stop - 1])
        own = text.splitlines()
        for offer in _distinct(text, offered(text), left_out):
            (line, column), (end_line, end) = offer.where, offer.until
            yield Mutant(
                path=path,
                line=start - 1 + line,
                column=column,
                operator=offer.operator,
                occurrence=offer.occurrence,
                place=own[line - 1][column : end if end_line == line else None],
                text=_changed(own, offer.text.splitlines(), line),
                first=start,
                statement=text,
                mutated=offer.text,
            )


def _first_line(node: ast.stmt) -> int:
    return min([node.lineno, *(d.lineno for d in getattr(node, "decorator_list", ()))])


def offered(statement: str) -> Iterator[Offer]:
    """What cosmic-ray makes of a statement."""
    from cosmic_ray.ast import ast_nodes, get_ast
    from cosmic_ray.mutating import mutate_code
    from cosmic_ray.plugins import get_operator, operator_names

    nodes = list(ast_nodes(get_ast(statement)))
    for name in operator_names():
        make = get_operator(name)
        if make.arguments():  # Variable...: what to put for which variable would be our choice
            continue
        operator, kind = make(), name.partition("/")[2]
        places = [place for node in nodes for place in operator.mutation_positions(node)]
        for occurrence, (where, until) in enumerate(places):
            text = mutate_code(statement, operator, occurrence)
            yield Offer(kind, occurrence, where, until, text)


def _distinct(statement: str, offers: Iterable[Offer], left_out: Counter[str]) -> Iterator[Offer]:
    """Those that have a meaning of their own."""
    seen = {meaning(statement): "changes types alone, or nothing"}
    for offer in offers:
        if offer.operator.removeprefix("ReplaceComparisonOperator_") in SAME_OBJECT:
            left_out["== for is, or is for =="] += 1
            continue
        try:
            what = meaning(offer.text)
        except SyntaxError:
            left_out["is no Python"] += 1
            continue
        if what in seen:
            left_out[seen[what]] += 1
            continue
        seen[what] = "says the same as another mutant"
        yield offer


def _changed(before: list[str], after: list[str], line: int) -> str:
    """The first line of a mutant that is not as before."""
    for old, new in zip(before, after, strict=False):
        if old != new:
            return re.sub(r"\s+", " ", new).strip()
    return re.sub(r"\s+", " ", before[line - 1]).strip()
