"""How the tests reach the classroom: as the lessons do, from their folder."""

from __future__ import annotations

import ast
import importlib
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from tests.structure import ROOT

WALKTHROUGHS: Final = ROOT / "demos" / "walkthroughs"


def load(module: str) -> ModuleType:
    """Import a module of the walkthroughs' folder, such as classroom.judge."""
    sys.path.insert(0, str(WALKTHROUGHS))
    try:
        return importlib.import_module(module)
    finally:
        sys.path.remove(str(WALKTHROUGHS))


LESSONS: Final[dict[int, Any]] = load("classroom.lessons").lessons()
EXERCISES: Final[dict[str, tuple[Any, Any]]] = {
    f"{number}-{exercise.name}": (lesson, exercise)
    for number, lesson in LESSONS.items()
    for exercise in lesson.exercises()
}


def lesson_program(*options: str) -> subprocess.CompletedProcess[str]:
    """Run lesson.py as make does."""
    return subprocess.run(
        [sys.executable, str(WALKTHROUGHS / "lesson.py"), *options],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )


def functions(path: Path) -> dict[str, ast.FunctionDef]:
    """The functions in a file, by name."""
    body = ast.parse(path.read_text("utf-8")).body
    return {node.name: node for node in body if isinstance(node, ast.FunctionDef)}


def statements(function: ast.FunctionDef) -> list[ast.stmt]:
    """The statements of a function, without its docstring."""
    documented = ast.get_docstring(function) is not None
    return function.body[1:] if documented else function.body
