"""The table that the rules stand in, and what rules of several families share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

__all__ = ["RULES", "anchored", "filled", "flat", "vjp"]

RULES: Final[dict[str, dict[str, Callable[..., Any]]]] = {}


def vjp(op: str, **rules: Callable[..., Any]) -> None:
    """Set the rules of ``op``, one for each operand that a gradient can flow to."""
    RULES[op] = rules


def filled(xp: Any, x: Any, value: float) -> Any:
    """Return ``value`` in the shape and dtype of ``x``, whatever ``x`` holds."""
    return xp.where(xp.isnan(x) * False, x, value)


def flat(xp: Any, g: Any) -> Any:
    """Return zeros, the gradient of what is constant between its jumps, also where ``g`` is inf."""
    return filled(xp, g, 0.0)


def anchored(xp: Any, g: Any, x: Any) -> Any:
    """Return ``g``, which from now on depends on ``x`` too, with the derivative 0.

    A rule such as ReLU's uses its operand only to compare it. Recorded, the comparison leaves no
    trace, and the second derivative would seem not to exist where it is 0.
    """
    if not getattr(x, "requires_grad", False):
        return g
    nowhere = xp.isnan(x) * False
    zero = xp.sum(xp.where(nowhere, x, 0.0))
    return xp.where(xp.isnan(zero), zero, g)
