"""Notebooks and pages of the lessons. All of them are run by make notebooks; here, the form."""

from __future__ import annotations

import html
import json
import re
from pathlib import Path

import pytest

import micro
from tests.demos.walkthroughs.kit import LESSONS, load

notebooks, pictures = load("classroom.notebooks"), load("classroom.pictures")


def test_a_notebook_is_run_and_becomes_a_page_that_needs_no_network(tmp_path: Path) -> None:
    notebook, page = notebooks.write(LESSONS[2], tmp_path)
    assert [notebook.name, page.name] == ["02_one_node.ipynb", "02_one_node.html"]
    cells = json.loads(notebook.read_text("utf-8"))["cells"]
    code = [cell for cell in cells if cell["cell_type"] == "code"]
    assert [cell["execution_count"] for cell in code] == list(range(1, len(code) + 1))
    kinds = {kind for cell in code for out in cell["outputs"] for kind in out.get("data", ())}
    assert "image/svg+xml" in kinds
    text = page.read_text("utf-8")
    assert text.startswith("<!DOCTYPE html>")
    assert '<html lang="en">' in text
    assert "2. What a node" not in text
    assert text.count("<img ") == text.count(' alt="') > 0
    assert not re.search(r"(src|href)=\"(?!data:)", text)
    assert "<script" not in text


def test_a_cell_that_raises_fails_the_lesson_and_is_named(tmp_path: Path) -> None:
    path = tmp_path / "99_wrong.py"
    path.write_text("# %%\nx = 1\n\n# %%\nassert x == 2, 'planted'\n")
    with pytest.raises(notebooks.LessonFailedError, match=r"99_wrong.py(.|\n)*planted"):
        notebooks.execute(path)


def test_a_cell_that_does_not_end_fails_the_lesson(tmp_path: Path) -> None:
    path = tmp_path / "99_endless.py"
    path.write_text("# %%\nwhile True:\n    pass\n")
    with pytest.raises(notebooks.LessonFailedError, match=r"99_endless.py"):
        notebooks.execute(path, timeout=1)


def test_a_chart_is_a_picture_with_words_and_has_stable_bytes() -> None:
    def draw(axes: object) -> None:
        axes.plot([1, 2], [3, 4])

    one, two = (pictures.chart("A rising line.", draw) for _ in range(2))
    assert repr(one) == "A rising line."
    assert "<svg" in one._repr_svg_()
    assert one.svg == two.svg


def test_a_player_within_a_page_is_framed_alone() -> None:
    with micro.record_sites():
        y = 2 * micro.Value(3.0, label="x")
    shown = pictures.Player(pictures.player(y).page.replace("test_notebooks", "1234567"))
    frame = shown._repr_html_()
    assert 'sandbox="allow-scripts"' in frame
    page = html.unescape(frame)
    assert "the cell, line " in page
    assert "1234567.py" not in page
    assert "player.html" in repr(shown)
