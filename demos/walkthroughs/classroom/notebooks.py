"""Make notebooks and pages of the lessons: run each by a Jupyter kernel, keep what it shows.

Written to build/lessons/ in the project's folder: NN_name.ipynb and NN_name.html.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Final

from .lessons import FOLDER, Lesson, lessons
from .page import page

__all__ = ["BUILD", "LessonFailedError", "execute", "main"]

BUILD: Final = FOLDER.parent.parent / "build" / "lessons"


class LessonFailedError(Exception):
    """A cell of a lesson raised; the message is the cell and its traceback."""


def execute(path: Path, timeout: int = 120) -> Any:
    """Return the notebook of a percent file, run from top to bottom.

    Raises:
        LessonFailedError: a cell raised, or took more than ``timeout`` seconds.
    """
    import jupytext
    from nbclient import NotebookClient
    from nbclient.exceptions import CellControlSignal, CellExecutionError, CellTimeoutError
    from traitlets.config import Config

    notebook = jupytext.read(path, fmt="py:percent")
    notebook.metadata["kernelspec"] = {
        "display_name": "Python 3",
        "language": "python",
        "name": "python3",
    }
    with tempfile.TemporaryDirectory() as folder:
        # over sockets in a folder of one's own, which other users cannot listen to
        private = Config(KernelManager={"transport": "ipc", "ip": str(Path(folder) / "kernel")})
        client = NotebookClient(
            notebook,
            config=private,
            kernel_name="python3",
            timeout=timeout,
            resources={"metadata": {"path": FOLDER}},
        )
        try:
            client.execute()
        except (CellControlSignal, CellExecutionError, CellTimeoutError) as error:
            raise LessonFailedError(f"{path.name}: {error}") from error
    return notebook


def write(lesson: Lesson, folder: Path) -> list[Path]:
    """Run a lesson and write its notebook and its page; return their paths."""
    import nbformat

    notebook = execute(lesson.page)
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / f"{lesson.stem}{suffix}" for suffix in (".ipynb", ".html")]
    paths[0].write_text(nbformat.writes(notebook) + "\n", "utf-8")
    paths[1].write_text(page(notebook, f"{lesson.number}. {lesson.title}"), "utf-8")
    return paths


def main(numbers: list[str]) -> int:
    """Make the lessons with these numbers, or all; 1 if one of them fails."""
    known, failed = lessons(), 0
    for number in [int(n) for n in numbers] or list(known):
        start = time.perf_counter()
        try:
            paths = write(known[number], BUILD)
        except LessonFailedError as error:
            failed = 1
            print(f"FAILED: {error}", file=sys.stderr)
            continue
        names = " and ".join(path.name for path in paths)
        print(f"{BUILD}: {names} ({time.perf_counter() - start:.1f} s)", flush=True)
    return failed


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
