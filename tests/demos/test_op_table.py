"""The README's table of ops: that it is the vocabulary's, and that writing it is safe."""

from __future__ import annotations

from pathlib import Path

import pytest

from micro.vocab import VOCAB
from tests.demos.programs import load
from tests.structure import ROOT

op_table = load("op_table")
EMPTY = f"before\n{op_table.BEGIN}{op_table.END}after\n"


def test_the_readme_has_the_table_of_the_vocabulary() -> None:
    text = (ROOT / "README.md").read_text("utf-8")
    assert text == op_table.filled(text), "the table is out of date: python demos/op_table.py"


def test_the_table_has_a_row_for_every_op() -> None:
    rows = op_table.table().splitlines()[2:]
    assert len(rows) == len(VOCAB)
    assert "| `maximum(a, b)` | micro, tensor | 1/2 to each of two equal operands |" in rows
    assert "| `reshape(a, shape)` | tensor |  |" in rows
    assert "| `linear(a, weight, bias=None, activation=None)` | tensor |  |" in rows
    assert "| `eq(a, b)` | micro, tensor | none |" in rows
    assert "| `tile(a, dims)` | tensor, of other ops |  |" in rows


def test_only_what_stands_between_the_marks_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text(EMPTY)
    op_table.main(op_table.Options(out=tmp_path))
    first = (tmp_path / "README.md").read_text()
    assert first.startswith("before\n") and first.endswith("after\n")
    assert op_table.table() in first
    op_table.main(op_table.Options(out=tmp_path))
    assert (tmp_path / "README.md").read_text() == first


@pytest.mark.parametrize("text", ["", op_table.BEGIN, op_table.END + op_table.BEGIN, EMPTY + EMPTY])
def test_a_readme_without_its_marks_is_left_alone(tmp_path: Path, text: str) -> None:
    (tmp_path / "README.md").write_text(text)
    with pytest.raises(SystemExit, match=r"must have the line .*op table: begin"):
        op_table.main(op_table.Options(out=tmp_path))
    assert (tmp_path / "README.md").read_text() == text


def test_a_folder_without_a_readme_is_named(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match=r"there is no README\.md in "):
        op_table.main(op_table.Options(out=tmp_path))
