"""Einstein's notation: what an equation such as ``'ij,jk->ik'`` says about its operands."""

from __future__ import annotations

import functools
import itertools
import math
import string
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from .errors import ShapeError

__all__ = ["Subscripts", "parse"]


class Subscripts(NamedTuple):
    """An equation with a letter for every dimension, those of ``...`` too.

    ``terms`` and ``out`` name the dimensions of the operands and of the result, ``lengths`` is
    that of each letter. ``path`` is the order of the products: each step multiplies the operands
    at two places of a list, takes them away and adds the product at the end.
    """

    terms: tuple[str, ...]
    out: str
    lengths: Mapping[str, int]
    path: tuple[tuple[int, int], ...]


@functools.lru_cache(maxsize=256)
def parse(equation: str, shapes: tuple[tuple[int, ...], ...]) -> Subscripts:
    """Return what ``equation`` means for operands of ``shapes``.

    Raises:
        ShapeError: it is malformed, or does not fit the shapes.
    """
    text = "".join(equation.split())
    left, arrow, right = text.partition("->")
    given = left.split(",")
    if len(given) != len(shapes):
        raise ShapeError(
            f"equation {equation!r} has {len(given)} terms, but {len(shapes)} operands were given"
        )
    widths = [
        _width(equation, term, i, shape)
        for i, (term, shape) in enumerate(zip(given, shapes, strict=True))
    ]
    widest = max(widths)
    hidden = "".join(c for c in string.ascii_letters if c not in text)[:widest]
    if len(hidden) < widest:
        raise ShapeError(f"equation {equation!r} has more dimensions than there are letters")
    terms = tuple(
        term.replace("...", hidden[widest - width :])
        for term, width in zip(given, widths, strict=True)
    )
    lengths = _lengths(equation, terms, shapes, hidden)
    if arrow:
        _letters(equation, right)
        out = right.replace("...", hidden)
        for letter in out:
            if out.count(letter) > 1 or letter not in lengths:
                problem = "twice" if letter in lengths else "but in no operand"
                raise ShapeError(
                    f"equation {equation!r} has the index {letter!r} in its result {problem}"
                )
    else:
        names = "".join(_letters(equation, term) for term in given)
        out = hidden + "".join(sorted(c for c in names if names.count(c) == 1))
    return Subscripts(terms, out, lengths, _path(terms, out, lengths))


def _letters(equation: str, term: str) -> str:
    """Return the letters of a term, without its ``...``."""
    named = term.replace("...", "", 1)
    strange = [c for c in named if c not in string.ascii_letters]
    if strange:
        raise ShapeError(
            f"equation {equation!r}: {strange[0]!r} is out of place; it consists of letters, "
            "commas, at most one '...' in each term and one '->'"
        )
    return named


def _width(equation: str, term: str, i: int, shape: tuple[int, ...]) -> int:
    """Return how many dimensions ``...`` stands for in a term."""
    named = len(_letters(equation, term))
    exact = "..." not in term
    if named > len(shape) or (exact and named < len(shape)):
        raise ShapeError(
            f"equation {equation!r} names {'' if exact else 'at least '}{named} dimensions of "
            f"operand {i}, which has {len(shape)}: shape {shape}"
        )
    return len(shape) - named


def _lengths(
    equation: str, terms: Sequence[str], shapes: Sequence[tuple[int, ...]], hidden: str
) -> Mapping[str, int]:
    """Return the length of every index: 1 gives way to another one."""
    lengths: dict[str, int] = {}
    for i, (term, shape) in enumerate(zip(terms, shapes, strict=True)):
        own: dict[str, int] = {}
        for letter, length in zip(term, shape, strict=True):
            name = "a dimension of '...'" if letter in hidden else f"the index {letter!r}"
            before = own.setdefault(letter, length)
            if before != length:
                raise ShapeError(
                    f"equation {equation!r}: {name} has the lengths {before} and {length} in "
                    f"operand {i}"
                )
            known = lengths.get(letter, 1)
            if length != known and 1 not in (length, known):
                raise ShapeError(
                    f"equation {equation!r}: {name} has length {length} in operand {i}, but "
                    f"{known} before; they must be equal, or one of them 1"
                )
            lengths[letter] = length if known == 1 else known
    return lengths


def _path(
    terms: Sequence[str], out: str, lengths: Mapping[str, int]
) -> tuple[tuple[int, int], ...]:
    """Return pairs to multiply, each time the one after which the fewest elements remain.

    Of several such the one that takes the fewest multiplications.
    """
    work = [frozenset(term) for term in terms]
    path: list[tuple[int, int]] = []

    def product(i: int, j: int) -> frozenset[str]:
        rest = [other for k, other in enumerate(work) if k not in (i, j)]
        return (work[i] | work[j]) & frozenset(out).union(*rest)

    def elements(indices: frozenset[str]) -> int:
        return math.prod(lengths[letter] for letter in indices)

    def cost(pair: tuple[int, int]) -> tuple[int, int]:
        i, j = pair
        growth = elements(product(i, j)) - elements(work[i]) - elements(work[j])
        return growth, elements(work[i] | work[j])

    while len(work) > 1:
        i, j = min(itertools.combinations(range(len(work)), 2), key=cost)
        made = product(i, j)
        path.append((i, j))
        del work[j], work[i]
        work.append(made)
    return tuple(path)
