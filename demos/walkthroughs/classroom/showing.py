"""``show``: one way to show something, in a notebook and in a terminal."""

from __future__ import annotations

import builtins
from typing import Any

__all__ = ["show"]


def show(*things: Any) -> None:
    """Show things: in a notebook as pictures, in a terminal as text."""
    display = getattr(builtins, "display", None)  # IPython puts it there while a cell runs
    for thing in things:
        if display is None or isinstance(thing, str):
            print(thing)
        else:
            display(thing)
