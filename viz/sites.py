"""The line of the user's code that made a node."""

from __future__ import annotations

import linecache
from pathlib import PurePath
from typing import Any

__all__ = ["of_record", "site_of"]


def of_record(record: Any, name: str) -> Any:
    """An attribute of a record, or of the ``node`` that recorded it; None if there is none."""
    found = getattr(record, name, None)
    return getattr(getattr(record, "node", None), name, None) if found is None else found


def site_of(record: Any) -> tuple[str, str]:
    """Return ``file:line``, without folders, and the text of the line; "" for what is not known."""
    site = of_record(record, "site")
    if not site:
        return "", ""
    filename, _, line = site.rpartition(":")
    return f"{PurePath(filename).name}:{line}", linecache.getline(filename, int(line)).strip()
