"""Numbers and arrays as a player writes them: briefly, and with every digit."""

from __future__ import annotations

from typing import Any, Final

from ..summary import describe_number, summarize

__all__ = ["exact", "is_finite", "short", "show"]

LARGEST: Final = 12  # elements of an array that is written out
LONGEST: Final = 60  # characters of anything else


def show(x: Any, in_node: bool = False) -> str:
    """Write a number, or an array: out if it is small, else as shape and summary.

    Args:
        x: the number or array.
        in_node: whether it stands in a node, where only numbers are written out.

    >>> show(1 / 3), show((2, 3))
    ('0.3333', '(2, 3)')
    """
    x = _innermost(x)
    if not _is_array(x):
        return short(str(x), LONGEST) if isinstance(x, str | tuple | list) else describe_number(x)
    if not in_node and 1 < x.size <= LARGEST:
        return _written(x.tolist())
    summary = summarize(x)
    assert summary is not None
    text = (
        f"{summary.text} ({summary.faults})" if summary.faults not in summary.text else summary.text
    )
    return text if in_node or x.size <= 1 else f"{tuple(x.shape)}: {text}"


def exact(x: Any) -> str:
    """Write every digit, or nothing if that would be many."""
    x = _innermost(x)
    if not _is_array(x):
        return str(x)
    return str(x.tolist()) if x.size <= LARGEST else ""


def is_finite(x: Any) -> bool:
    """Whether no part of a number or array is NaN or infinite."""
    summary = summarize(x)
    return summary is None or not summary.faults


def short(text: str, longest: int) -> str:
    """The text, cut if it has more than ``longest`` characters."""
    return text if len(text) <= longest else f"{text[: longest - 1]}…"


def _innermost(x: Any) -> Any:
    while not _is_array(x) and hasattr(x, "data") and hasattr(x, "inputs"):
        x = x.data
    return x


def _is_array(x: Any) -> bool:
    return hasattr(x, "__array_interface__")


def _written(x: Any) -> str:
    return f"[{', '.join(map(_written, x))}]" if isinstance(x, list) else describe_number(x)
