"""Checks of an optimizer's options: each takes the owner's name and the value, and may raise."""

from __future__ import annotations

import numbers
from collections.abc import Callable
from typing import Any, TypeAlias

__all__ = ["Check", "at_least_zero", "beta_pair", "flag", "number"]

Check: TypeAlias = Callable[[str, Any], None]


def number(what: str) -> Check:
    """Return a check that the option, ``what`` in messages, is a number."""

    def check(owner: str, value: Any) -> None:
        if isinstance(value, bool) or not isinstance(value, numbers.Real):
            raise TypeError(
                f"{owner}: {what} must be a number, got {type(value).__name__} {value!r}"
            )

    return check


def at_least_zero(what: str) -> Check:
    """Return a check that the option is a number and not negative (nor NaN)."""
    is_number = number(what)

    def check(owner: str, value: Any) -> None:
        is_number(owner, value)
        if not value >= 0:
            raise ValueError(f"Invalid {what}: {value}; {owner} needs a number >= 0")

    return check


def flag(what: str) -> Check:
    """Return a check that the option is a bool."""

    def check(owner: str, value: Any) -> None:
        if not isinstance(value, bool):
            raise TypeError(f"{owner}: {what} must be a bool, got {type(value).__name__} {value!r}")

    return check


def beta_pair(owner: str, betas: Any) -> None:
    """Raise unless ``betas`` is a pair of numbers in [0, 1)."""
    if not isinstance(betas, tuple | list) or len(betas) != 2:
        raise TypeError(f"{owner}: betas must be a pair of numbers, got {betas!r}")
    for i, beta in enumerate(betas):
        number(f"betas[{i}]")(owner, beta)
        if not 0 <= beta < 1:
            raise ValueError(
                f"Invalid beta parameter at index {i}: {beta}; {owner} needs 0 <= beta < 1"
            )
