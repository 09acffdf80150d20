"""Texts to train character models on."""

from __future__ import annotations

import logging
import os
from pathlib import Path

from .fetch import FILES, fetch

__all__ = ["pydoc_corpus", "text_corpus", "tiny_shakespeare"]

_notes = logging.getLogger("tensor.data")


def tiny_shakespeare(
    root: str | os.PathLike[str] | None = None, *, cache: Path | None = None
) -> str:
    """Return Tiny Shakespeare: 1,115,394 characters, 65 distinct (Karpathy, char-rnn, 2015).

    ``root``, ``cache`` and the errors are those of ``fetch``.
    """
    return fetch(FILES["tinyshakespeare/input.txt"], root=root, cache=cache).decode("ascii")


def text_corpus(path: str | os.PathLike[str]) -> str:
    """Return the text of a UTF-8 file, its line ends as Python's newlines.

    Raises:
        OSError: the file cannot be read.
        ValueError: it is empty or not UTF-8; the message says at which byte.
    """
    try:
        text = Path(path).read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(
            f"text_corpus: {os.fspath(path)} is not UTF-8 at byte {error.start}; "
            "convert it, for example with iconv"
        ) from error
    if not text:
        raise ValueError(f"text_corpus: {os.fspath(path)} is empty, wanted some text")
    return text


def pydoc_corpus() -> str:
    """Return the help topics that Python ships, for where no other text can be had.

    About 465,000 characters; the exact text differs between Python versions. A warning in the log
    ``tensor.data`` says that it is used, so that no result passes for one on another text.
    """
    from pydoc_data.topics import topics

    text = "\n\n".join(topics[name] for name in sorted(topics))
    _notes.warning(
        "the text is that of pydoc_data.topics, Python's own help (%s characters), "
        "and no other corpus: results cannot be compared with those on another",
        f"{len(text):,}",
    )
    return text
