"""The line of the user's code that made a node."""

from __future__ import annotations

import linecache
from pathlib import PurePath
from typing import Any

__all__ = ["site_of"]


def site_of(record: Any) -> tuple[str, str]:
    """Return ``file:line``, without folders, and the text of the line; "" for what is not known."""
    site = getattr(record, "site", None) or getattr(getattr(record, "node", None), "site", None)
    if not site:
        return "", ""
    filename, _, line = site.rpartition(":")
    return f"{PurePath(filename).name}:{line}", linecache.getline(filename, int(line)).strip()
