"""Checks of arguments that several functions take."""

from __future__ import annotations

import numbers
from typing import Any

from .random import Generator, default_generator

__all__ = ["check_number", "check_probability", "generator_of"]


def check_number(what: str, value: Any) -> None:
    """Raise unless ``value`` is one real number.

    Raises:
        TypeError: it is something else.
    """
    if not isinstance(value, numbers.Real):
        raise TypeError(f"{what} must be a number, got {type(value).__name__} {value!r}")


def check_probability(what: str, value: Any) -> None:
    """Raise unless ``value`` is a number in [0, 1].

    Raises:
        TypeError: it is no number.
        ValueError: it is outside.
    """
    check_number(what, value)
    if not 0 <= value <= 1:
        raise ValueError(f"{what} must lie in [0, 1], got {value}")


def generator_of(what: str, generator: Any) -> Generator:
    """Return ``generator``, or the default one in the place of None.

    Raises:
        TypeError: it is no Generator.
    """
    if generator is None:
        return default_generator
    if not isinstance(generator, Generator):
        raise TypeError(
            f"{what}: generator must be a tensor.Generator or None, got "
            f"{type(generator).__name__} {generator!r}; tensor.Generator(seed) makes one"
        )
    return generator
