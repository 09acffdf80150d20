"""Calling what is to be drawn, so that the engine keeps what a drawing shows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from typing import Any, NamedTuple

from .graph import is_record

__all__ = ["Called", "call"]


class Called(NamedTuple):
    """What a call returned, and by id the names of the parameters that it met."""

    result: Any
    names: Mapping[int, str]


def call(function: Any, args: Sequence[Any], parameters: Any = None) -> Called:
    """Call a function, a module say, with as many details recorded as the engine offers.

    An engine offers them by ``record_details``, an attribute of its modules and its tensors, one of
    which must be the function, an argument or the owner of the parameters. It is a function that
    returns a context manager, within which every record keeps its value, the name of its module,
    and the line of code. What that context manager yields may have ``names``, by id.

    Raises:
        TypeError: it cannot be called, or does not return a record.
    """
    if is_record(function) or not callable(function):
        raise TypeError(
            f"draw: obj is a {type(function).__name__}, which is not called, but there are "
            f"{len(args)} arguments after it; options are given by name, as in max_nodes=50"
        )
    hosts = (x for x in (function, *_leaves(args), parameters) if hasattr(x, "record_details"))
    host = next(hosts, None)
    with nullcontext() if host is None else host.record_details() as details:
        result = function(*args)
    if not is_record(result):
        raise TypeError(
            f"draw: the call returned a {type(result).__name__}; wanted one result that records "
            "how it was made, such as a micro.Value or a tensor.Tensor; for another, draw a "
            "function that returns the part to be drawn"
        )
    return Called(result, dict(getattr(details, "names", {})))


def _leaves(args: Any) -> Iterator[Any]:
    for x in args:
        if type(x) in (list, tuple):
            yield from _leaves(x)
        else:
            yield x
