"""The lessons, and what belongs to each: found by its number."""

from __future__ import annotations

import importlib.util
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Final

from .exercise import Exercise

__all__ = ["FOLDER", "Lesson", "lessons", "load"]

FOLDER: Final = Path(__file__).resolve().parent.parent


@dataclass(frozen=True)
class Lesson:
    """One lesson and its files.

    Attributes:
        number: from 1.
        stem: the name of its files, without .py.
    """

    number: int
    stem: str

    @property
    def page(self) -> Path:
        """The lesson itself."""
        return FOLDER / f"{self.stem}.py"

    @property
    def stub(self) -> Path:
        """What a student's file begins as."""
        return FOLDER / "exercises" / f"{self.stem}.py"

    @property
    def solution(self) -> Path:
        """Every exercise, written out."""
        return FOLDER / "solutions" / f"{self.stem}.py"

    @property
    def title(self) -> str:
        """Its title, from its first heading."""
        found = re.search(r"^# # \d+\. (.+)$", self.page.read_text("utf-8"), re.MULTILINE)
        return found[1] if found else self.stem

    def front(self) -> dict[str, str]:
        """What stands at its top: "Before", "Time", "Goals" and "Next"."""
        text = self.page.read_text("utf-8")
        found = re.findall(r"^# - \*\*(\w+):\*\* (.+(?:\n#   .+)*)$", text, re.MULTILINE)
        return {name: re.sub(r"\n#\s+", " ", words) for name, words in found}

    def exercises(self) -> tuple[Exercise, ...]:
        """Its exercises, from its file in checks/."""
        found: tuple[Exercise, ...] = load(FOLDER / "checks" / f"{self.stem}.py").EXERCISES
        return found


def lessons() -> dict[int, Lesson]:
    """Every lesson by its number."""
    stems = sorted(path.stem for path in FOLDER.glob("[0-9][0-9]_*.py"))
    return {int(stem[:2]): Lesson(int(stem[:2]), stem) for stem in stems}


def load(path: Path, name: str = "") -> ModuleType:
    """Run a Python file and return it as a module."""
    name = name or f"{path.parent.name}_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None, path
    assert spec.loader is not None, path
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look there
    spec.loader.exec_module(module)
    return module
