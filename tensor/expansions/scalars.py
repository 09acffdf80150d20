"""What expansions are written in: micro's ops on arrays of numbers, and ways to move elements.

The arrays hold Values or plain numbers; a plain number is a constant, through which no gradient
flows. The integer 0 is special: it says that there is nothing, as outside a padded plane, and
neither products with it nor its sums are recorded.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from micro.value import CONSTANT, OPS, Value
from micro.vocab import VOCAB

from ..dispatch import quietly, raw
from ..graph import Array

__all__ = ["Scalars", "TooManyValuesError", "array_of", "constant", "numbers_of", "per_row"]


class TooManyValuesError(ValueError):
    """The graph of numbers would be larger than the limit."""


def array_of(elements: Iterable[Any], shape: Sequence[int]) -> Array:
    """Return an ndarray of objects, whatever the objects are."""
    items = list(elements)
    out = np.empty(len(items), object)
    out[:] = items
    return out.reshape(shape)


def constant(x: Any) -> Value:
    """Return a number as a Value that no gradient flows to."""
    value = Value(x)
    value.op = CONSTANT
    return value


def _number(x: Any) -> Any:
    return x.data if isinstance(x, Value) else x


def numbers_of(a: Array) -> Array:
    """Return the numbers in an array, its Values' data, as float64, integers or truth values."""
    plain = [_number(x) for x in a.flat]
    for kind, dtype in ((bool, bool), (int, np.int64)):
        if plain and all(type(x) is kind for x in plain):
            return np.array(plain, dtype).reshape(a.shape)
    return np.array([float(x) for x in plain], np.float64).reshape(a.shape)


def per_row(
    function: Callable[[Array], Any], a: Array, over: Sequence[int], keepdim: bool
) -> Array:
    """Return what ``function`` makes of each row of elements along the dimensions ``over``."""
    over = tuple(d % a.ndim for d in over) if a.ndim else ()
    rest = [d for d in range(a.ndim) if d not in over]
    rows = a.transpose(*rest, *over).reshape(
        math.prod(a.shape[d] for d in rest), math.prod(a.shape[d] for d in over)
    )
    shape = [1 if d in over else n for d, n in enumerate(a.shape) if keepdim or d not in over]
    return array_of(map(function, rows), shape)


class Scalars:
    """The ops of ``micro`` by name, on arrays, with a limit to how many Values they may make.

    Args:
        number: makes the numbers that Values hold from floats: ``float``, ``Fraction``, ``mpf``.
        limit: how many Values may be made in all.
    """

    def __init__(self, number: Callable[[float], Any], limit: int) -> None:
        self.number = number
        self.limit = limit
        self.count = 0

    def __getattr__(self, name: str) -> Callable[..., Array]:
        if name not in OPS:
            raise AttributeError(f"micro has no op {name!r}")
        return lambda *operands, **attrs: self.each(name, *operands, **attrs)

    def reserve(self, count: int, what: str) -> None:
        """Count ``count`` Values that are about to be made.

        Raises:
            TooManyValuesError: they would be too many.
        """
        self.count += count
        if self.count > self.limit:
            raise TooManyValuesError(
                f"scalarize: up to {what} this graph needs {self.count:,} Values, and the limit is "
                f"{self.limit:,}; use smaller shapes, or pass a larger limit="
            )

    def each(self, name: str, *operands: Any, **attrs: Any) -> Array:
        """Return the op ``name`` of every element, with broadcasting.

        Where no element is a Value the op is not recorded: its result is a number too.
        """
        op = OPS[name]
        attrs = {k: self.number(v) if isinstance(v, float) else v for k, v in attrs.items()}
        arrays = np.broadcast_arrays(*(np.asarray(x, object) for x in operands))
        self.reserve(arrays[0].size, name)
        results = []
        for elements in zip(*(a.flat for a in arrays), strict=True):
            if name == "mul" and any(type(x) is int and x == 0 for x in elements):
                results.append(0)
                continue
            result = op(*elements, **attrs)
            recorded = any(isinstance(x, Value) for x in elements)
            results.append(result if recorded else _number(result))
        return array_of(results, arrays[0].shape)

    def sum(self, a: Array, over: Sequence[int], keepdim: bool = False) -> Array:
        """Return the sum over the dimensions ``over``, from the first element to the last."""
        self.reserve(a.size, "sum")
        return per_row(self.total, a, over, keepdim)

    def total(self, terms: Iterable[Any]) -> Any:
        """Return the sum of some elements; a float 0 if there are none."""
        result: Any = None
        for x in terms:
            if type(x) is int and x == 0:
                continue
            result = x if result is None else OPS["add"](result, x)
        return self.number(0.0) if result is None else result

    def scattered(self, a: Array, places: Array, size: int) -> Array:
        """Return ``size`` sums in a row: at i, that of the elements of ``a`` whose place is i.

        Elements whose place is negative are left out.
        """
        self.reserve(a.size, "a sum of elements with equal indices")
        terms: list[list[Any]] = [[] for _ in range(size)]
        for x, place in zip(a.flat, places.flat, strict=True):
            if place >= 0:
                terms[place].append(x)
        return array_of(map(self.total, terms), (size,))

    def moved(
        self, name: str, operands: Sequence[Array], fill: Any = 0.0, /, **attrs: Any
    ) -> Array:
        """Return the result of an op that only moves elements, or puts ``fill`` between them.

        The op's own kernel is run on the elements' places, counted from 1, and tells where each of
        them goes. Operands that are indices it gets as they are.
        """
        spec = VOCAB[name]
        domains = spec.domain * len(operands) if spec.variadic else spec.domain
        pool, given = [self.number(fill)], []
        for a, domain in zip(operands, domains, strict=True):
            if domain == "index":
                given.append(numbers_of(a).astype(np.int64))
            else:
                given.append(np.arange(len(pool), len(pool) + a.size).reshape(a.shape))
                pool.extend(a.flat)
        places = _run(name, given, attrs)
        moved: Array = array_of(pool, (len(pool),))[places.reshape(-1)]
        return moved.reshape(places.shape)

    def returned(
        self, name: str, a: Array, indices: Sequence[Array], shape: Sequence[int], /, **attrs: Any
    ) -> Array:
        """Return the adjoint of an op that only moves elements, for operands of ``shape``.

        Every element of ``a`` is added to the place that the op ``name`` takes it from.
        """
        size = math.prod(shape)
        start = np.arange(1, size + 1).reshape(shape)
        given = [start, *(numbers_of(index).astype(np.int64) for index in indices)]
        places = np.broadcast_to(_run(name, given, attrs), a.shape)
        return self.scattered(a, places - 1, size).reshape(shape)

    def computed(self, name: str, *operands: Array, **attrs: Any) -> Array:
        """Return the result of an op that no gradient flows through, from the numbers alone."""
        out = _run(name, [*map(numbers_of, operands)], attrs)
        return array_of(out.reshape(-1).tolist(), out.shape)


def _run(name: str, operands: list[Array], attrs: dict[str, Any]) -> Array:
    """Return what the kernel of an op makes of arrays of plain numbers."""
    given = [operands] if VOCAB[name].variadic else operands
    return np.asarray(quietly().run(getattr(raw, name), *given, **attrs))
