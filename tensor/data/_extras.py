"""Importing what only the training programs need."""

from __future__ import annotations

import importlib
from typing import Any

__all__ = ["import_extra"]


def import_extra(module: str, purpose: str) -> Any:
    """Return a module that belongs to the ``train`` extra, imported only now.

    Raises:
        ImportError: it is not installed; the message says what needs it and what to install.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise ImportError(
            f"{purpose} needs {module}, which cannot be imported ({error}); "
            "pip install 'smolgrad[train]'"
        ) from error
