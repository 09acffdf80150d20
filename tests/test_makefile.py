"""The Makefile's promises, with a stand-in for Python that installs nothing and keeps a log."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.structure import PYPROJECT, ROOT

# Makes an environment whose python is this same script, and writes down every other call. A file
# named broken makes pip fail; a file named killed makes it die with the shell that runs it.
STAND_IN = """#!/bin/sh
case "$*" in
  "-c"*) ;;
  "-m venv .venv") mkdir -p .venv/bin && cp "$PYTHON" .venv/bin/python ;;
  *) echo "$*" >> log ;;
esac
case "$*" in
  *"pip install"*)
    if [ -e killed ]; then kill -9 $PPID; fi
    if [ -e broken ]; then exit 1; fi ;;
esac
"""
TOO_OLD = "#!/bin/sh\ncase $* in *version_info*) exit 1;; esac\n"
NO_VENV = "#!/bin/sh\ncase $* in *ensurepip*) exit 1;; esac\n"

Make = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def make(tmp_path: Path) -> Make:
    """A function that runs make on a copy of the Makefile, in a folder with a space in its name."""
    project = tmp_path / "a project"
    project.mkdir()
    for name in ("Makefile", "pyproject.toml", "constraints.txt"):
        shutil.copyfile(ROOT / name, project / name)

    def run(*args: str, python: str = STAND_IN) -> subprocess.CompletedProcess[str]:
        (tmp_path / "python").write_text(python)
        (tmp_path / "python").chmod(0o755)
        env = {"PATH": os.environ["PATH"], "PYTHON": str(tmp_path / "python")}
        return subprocess.run(
            ["make", *args], cwd=project, env=env, capture_output=True, text=True, check=False
        )

    return run


def calls(project: Path) -> list[str]:
    """What the stand-in was told to do since the last look."""
    log = project / "log"
    lines = log.read_text().splitlines() if log.exists() else []
    log.unlink(missing_ok=True)
    return [
        line.replace("-m pip install --disable-pip-version-check --constraint constraints.txt", "+")
        for line in lines
    ]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return tmp_path / "a project"


def test_help_is_the_default_and_lists_every_target(make: Make) -> None:
    text = (ROOT / "Makefile").read_text("utf-8")
    phony = re.search(r"^\.PHONY: (.*)$", text, re.MULTILINE)
    assert phony
    assert {"help", "mnist", "test", "test-browser", "check", "draw", "format", "clean"} <= {
        *phony[1].split()
    }
    for arguments in ([], ["help"]):
        done = make(*arguments)
        assert done.returncode == 0
        assert re.findall(r"^  ([a-z-]+) +\S", done.stdout, re.MULTILINE) == phony[1].split()


def test_mnist_installs_what_it_needs_and_trains(make: Make, project: Path) -> None:
    assert make("mnist", "ARGS=--epochs 2").returncode == 0
    assert calls(project) == ["+ --editable .[train]", "demos/train_mnist.py --epochs 2"]


def test_test_installs_torch_first_and_by_its_version(make: Make, project: Path) -> None:
    assert make("test").returncode == 0
    torch, extra, pytest_call = calls(project)
    assert re.fullmatch(r"\+ torch==[\d.]+", torch)
    assert extra == "+ --editable .[test]"
    assert pytest_call.startswith("-m pytest ")


def test_the_browser_tests_are_a_target_of_their_own(make: Make, project: Path) -> None:
    assert make("test-browser").returncode == 0
    assert calls(project)[-1] == "-m pytest -m browser tests/viz"
    assert "make test-browser" in (ROOT / ".ci/run").read_text("utf-8").splitlines()


def test_a_lesson_is_told_its_number_and_the_file(make: Make, project: Path) -> None:
    for variables, options in (
        ([], " "),
        (["N=3"], "3 "),
        (["N=3", "NEW=mine.py"], "3 --new mine.py "),
        (["N=3", "FILE=my file.py"], "3  --file my file.py"),
    ):
        assert make("lesson", *variables).returncode == 0
        assert calls(project)[-1].split() == f"demos/walkthroughs/lesson.py {options}".split()


@pytest.mark.parametrize(("status", "fails"), [(0, False), (1, False), (2, True)])
def test_an_exercise_that_is_not_right_yet_is_no_failure_of_make(
    make: Make, project: Path, status: int, fails: bool
) -> None:
    python = f"{STAND_IN}case $* in *lesson.py*) exit {status};; esac\n"
    done = make("lesson", "N=3", "FILE=mine.py", python=python)
    assert (done.returncode != 0) is fails
    assert ("Error" in done.stderr) is fails


def test_the_notebooks_are_run_by_a_target_of_their_own(make: Make, project: Path) -> None:
    assert make("notebooks", "ARGS=1 3").returncode == 0
    assert calls(project) == ["+ --editable .[lessons]", "demos/walkthroughs/notebooks.py 1 3"]
    assert "make notebooks" in (ROOT / ".ci/run").read_text("utf-8").splitlines()


def test_check_runs_lint_formatting_and_types(make: Make, project: Path) -> None:
    assert make("check").returncode == 0
    assert calls(project) == [
        "+ --editable .[check]",
        "-m ruff check .",
        "-m ruff format --check .",
        "-m mypy micro tensor viz",
    ]


@pytest.mark.parametrize(("first", "second"), [("mnist", "test"), ("test", "mnist")])
def test_targets_complete_each_others_environment(
    make: Make, project: Path, first: str, second: str
) -> None:
    for target in (first, second):
        assert make(target).returncode == 0
        assert any(call.startswith("+") for call in calls(project))
    for target in (first, second):
        assert make(target).returncode == 0
        assert not any(call.startswith("+") for call in calls(project))


@pytest.mark.parametrize("name", ["pyproject.toml", "constraints.txt"])
def test_a_changed_requirement_is_installed(make: Make, project: Path, name: str) -> None:
    make("mnist")
    calls(project)
    later = (project / ".venv/stamps/train").stat().st_mtime + 10
    os.utime(project / name, (later, later))
    make("mnist")
    assert calls(project) == ["+ --editable .[train]", "demos/train_mnist.py"]


def test_an_install_that_fails_is_tried_again_where_it_stopped(make: Make, project: Path) -> None:
    (project / "broken").touch()
    assert make("mnist").returncode != 0
    assert calls(project) == ["+ --editable .[train]"]
    (project / "broken").unlink()
    kept = project / ".venv" / "installed before"
    kept.touch()
    assert make("mnist").returncode == 0
    assert calls(project) == ["+ --editable .[train]", "demos/train_mnist.py"]
    assert kept.exists()


def test_an_install_that_was_killed_is_started_over(make: Make, project: Path) -> None:
    make("check")
    (project / "killed").touch()
    assert make("mnist").returncode != 0
    (project / "killed").unlink()
    half_written = project / ".venv" / "half written"
    half_written.touch()
    calls(project)
    assert "cut short" in make("mnist").stdout
    assert calls(project) == ["+ --editable .[train]", "demos/train_mnist.py"]
    assert not half_written.exists()
    make("check")
    assert "+ --editable .[check]" in calls(project)


def test_an_install_that_is_under_way_is_left_alone(make: Make, project: Path) -> None:
    make("mnist")
    calls(project)
    (project / ".venv/unfinished").write_text(str(os.getpid()))
    done = make("check")
    assert done.returncode != 0
    assert "Another make is installing" in done.stderr
    assert calls(project) == []
    (project / ".venv/unfinished").unlink()
    assert make("mnist").returncode == 0
    assert calls(project) == ["demos/train_mnist.py"]


def test_an_environment_without_its_interpreter_is_made_again(make: Make, project: Path) -> None:
    make("mnist")
    calls(project)
    (project / ".venv/bin/python").unlink()
    assert make("mnist").returncode == 0
    assert calls(project) == ["+ --editable .[train]", "demos/train_mnist.py"]


def test_an_older_python_is_refused_by_name(make: Make, project: Path) -> None:
    done = make("mnist", python=TOO_OLD)
    assert done.returncode != 0
    wanted = PYPROJECT["project"]["requires-python"].removeprefix(">=")
    assert f"needs Python {wanted} or newer" in done.stderr
    assert str(project.parent / "python") in done.stderr
    assert f"({wanted.replace('.', ', ')})" in (ROOT / "Makefile").read_text("utf-8")
    assert not (project / ".venv").exists()


def test_a_python_that_cannot_make_environments_is_explained(make: Make, project: Path) -> None:
    done = make("test", python=NO_VENV)
    assert done.returncode != 0
    assert "python3-venv" in done.stderr
    assert not (project / ".venv").exists()
