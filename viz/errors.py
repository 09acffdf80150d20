"""What a drawing raises, and how an optional library is imported."""

from __future__ import annotations

from importlib import import_module
from typing import Any

__all__ = ["DrawingError", "import_extra"]


class DrawingError(RuntimeError):
    """A drawing cannot be made here; the message is one line that says what to do."""


def import_extra(name: str) -> Any:
    """Import a library that the ``viz`` extra brings.

    Raises:
        DrawingError: it is not installed.
    """
    try:
        return import_module(name)
    except ImportError as error:
        raise DrawingError(
            f'drawing needs the package {name}, which is not there: pip install "smolgrad[viz]"'
        ) from error
