"""A student's file: read, run and judged, with a word for everything that can be wrong with it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Final

from .exercise import Exercise
from .judge import LIMIT, TookTooLong, Verdict, explain, judge, remember_own_file, time_limit, where
from .lessons import FOLDER, Lesson, load

__all__ = ["FINISHED", "NOTE", "UnreadableFileError", "begin", "check", "examine", "open_file"]

_PATIENCE: Final = 60.0  # seconds for the whole file, where a call cannot be interrupted


class UnreadableFileError(Exception):
    """A student's file cannot be run; the lines of the message say why."""

    def __init__(self, *lines: str) -> None:
        super().__init__("\n".join(lines))


def begin(lesson: Lesson, path: Path) -> None:
    """Copy a lesson's stub to a new file.

    Raises:
        UnreadableFileError: there is such a file already, or no such folder. Nothing is written.
    """
    text = lesson.stub.read_bytes()
    try:
        with path.open("xb") as file:  # x: fails if it exists, without a moment in between
            file.write(text)
    except FileExistsError:
        raise UnreadableFileError(
            f"{path} exists already and stays as it is; choose another name for NEW."
        ) from None
    except (FileNotFoundError, NotADirectoryError):
        raise UnreadableFileError(
            f"there is no folder {path.parent} to write {path.name} in; make it first."
        ) from None
    except OSError as error:
        raise UnreadableFileError(f"{path} cannot be written: {error.strerror}.") from None


def open_file(path: Path, limit: float = LIMIT) -> ModuleType:
    """Run a student's file.

    Raises:
        UnreadableFileError: it is not there, not Python, raises, or does not come to an end.
    """
    try:
        text = path.read_bytes()
    except FileNotFoundError:
        raise UnreadableFileError(
            f"there is no file {path}. To begin one: make lesson N=... NEW={path}"
        ) from None
    except IsADirectoryError:
        raise UnreadableFileError(
            f"{path} is a folder; FILE is the Python file to check."
        ) from None
    except OSError as error:
        raise UnreadableFileError(f"{path} cannot be read: {error.strerror}.") from None
    try:
        compile(text, str(path), "exec", dont_inherit=True)
    except SyntaxError as error:
        raise UnreadableFileError(*_syntax(path, error)) from None
    except ValueError as error:  # null bytes
        raise UnreadableFileError(f"{path} is not a Python file: {error}.") from None
    remember_own_file(str(path))
    if str(path.parent) not in sys.path:
        sys.path.append(str(path.parent))  # what lies beside it can be imported
    try:
        with time_limit(limit):
            return load(path, "student_file")
    except TookTooLong as error:
        raise UnreadableFileError(
            f"{path} does not come to an end within {limit:g} seconds when it is run.",
            *where(error),
            "Calls that try things out belong under: if __name__ == '__main__':",
        ) from None
    except (Exception, SystemExit) as error:  # noqa: BLE001 - whatever was written
        raise UnreadableFileError(f"{path} cannot be run:", *explain(error)) from None


def _syntax(path: Path, error: SyntaxError) -> list[str]:
    lines = [f"{path} is not valid Python yet. Line {error.lineno}: {error.msg}"]
    if error.text:
        code = error.text.rstrip("\n")
        lines += ["", f"    {code}"]
        if error.offset:
            lines.append(f"    {' ' * (error.offset - 1)}^")
    return lines


def examine(
    exercises: Sequence[Exercise],
    path: Path,
    limit: float = LIMIT,
    note: Callable[[str], object] = lambda text: None,
) -> list[Verdict]:
    """The verdicts on a student's file, one for each exercise, in this process.

    Raises:
        UnreadableFileError: the file cannot be run.
    """
    note("loading it")
    module = open_file(path, limit)
    verdicts = []
    for exercise in exercises:
        if hasattr(module, exercise.name):
            verdicts.append(judge(exercise, getattr(module, exercise.name), limit, note))
        else:
            lines = [f"there is no function {exercise.name} in the file. Is its name spelled so?"]
            verdicts.append(Verdict(exercise.name, lines=lines))
    return verdicts


def check(lesson: Lesson, path: Path, patience: float = _PATIENCE) -> int:
    """Check a student's file in a process of its own, which prints the report; 0 if all is right.

    The process is stopped when its time is over, and whatever ends it is explained.
    """
    command = [sys.executable, str(FOLDER / "lesson.py"), str(lesson.number), "--file", str(path)]
    process = subprocess.Popen(
        [*command, "--here"],
        stdin=subprocess.DEVNULL,  # so that input() raises and does not wait
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        _, notes = process.communicate(timeout=patience)
    except subprocess.TimeoutExpired:
        process.kill()
        _, notes = process.communicate()
        print(f"\n{path} was stopped after {patience:g} seconds. It was busy with:")
        print(f"  {_last_note(notes)}")
        print("What has to happen for that to end, and does it?")
        return 1
    sys.stderr.writelines(line for line in notes.splitlines(True) if not line.startswith(NOTE))
    if _last_note(notes) != FINISHED:
        print(f"\n{path} has ended Python itself. It was busy with:\n  {_last_note(notes)}")
        print("Does it call os._exit or change the recursion limit? Take that out.")
        return 1
    return int(process.returncode != 0)


NOTE: Final = "\x02"  # begins a line that says what the process is about to do
FINISHED: Final = "finished"  # what it says when the report is complete


def _last_note(notes: str) -> str:
    found = [line.removeprefix(NOTE) for line in notes.splitlines() if line.startswith(NOTE)]
    return found[-1] if found else "starting"
