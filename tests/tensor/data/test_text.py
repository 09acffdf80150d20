"""Texts: read as they are, refused with a reason, and named where they stand in for another."""

from __future__ import annotations

import hashlib
import logging
from pathlib import Path

import pytest

from tensor.data import pydoc_corpus, text_corpus, tiny_shakespeare
from tensor.data.fetch import DataFile


def test_tiny_shakespeare_is_the_verified_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "First Citizen:\nBefore we proceed any further, hear me speak.\n"
    name, data = "tinyshakespeare/input.txt", text.encode()
    file = DataFile(name, hashlib.sha256(data).hexdigest(), len(data))
    monkeypatch.setattr("tensor.data.text.FILES", {name: file})
    (tmp_path / "tinyshakespeare").mkdir()
    (tmp_path / name).write_bytes(data)
    assert tiny_shakespeare(tmp_path) == text


def test_a_text_file_is_read_with_plain_line_ends(tmp_path: Path) -> None:
    path = tmp_path / "text"
    path.write_bytes("Wörter\r\nund Zeilen\n".encode())
    assert text_corpus(path) == text_corpus(str(path)) == "Wörter\nund Zeilen\n"


def test_a_file_in_another_encoding_is_refused_with_the_place(tmp_path: Path) -> None:
    path = tmp_path / "latin"
    path.write_bytes("Wörter".encode("latin-1"))
    with pytest.raises(ValueError, match="latin is not UTF-8 at byte 1; convert it"):
        text_corpus(path)


def test_an_empty_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "nothing").touch()
    with pytest.raises(ValueError, match="nothing is empty, wanted some text"):
        text_corpus(tmp_path / "nothing")


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="absent"):
        text_corpus(tmp_path / "absent")


def test_pythons_own_help_is_a_corpus_that_says_what_it_is(
    caplog: pytest.LogCaptureFixture,
) -> None:
    text = pydoc_corpus()
    assert 300_000 < len(text) < 1_000_000
    assert "assert" in text and "\n\n" in text
    assert text == pydoc_corpus()
    for record in caplog.records:
        assert record.levelno == logging.WARNING
        assert "pydoc_data.topics" in record.getMessage()
        assert f"{len(text):,} characters" in record.getMessage()
    assert len(caplog.records) == 2
