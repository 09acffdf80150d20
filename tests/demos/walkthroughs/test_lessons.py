"""The lessons: each runs, says what it is, and has exercises that teach and do not tell."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.demos.programs import offline
from tests.demos.walkthroughs.kit import (
    EXERCISES,
    LESSONS,
    WALKTHROUGHS,
    functions,
    load,
    statements,
)
from tests.structure import ROOT

judge, student = load("classroom.judge"), load("classroom.student")

MISTAKES = {
    f"{name}-{mistake.name}": (exercise, mistake)
    for name, (_, exercise) in EXERCISES.items()
    for mistake in exercise.mistakes
}
SHORT = 1.0  # seconds for a call that never ends; the others take milliseconds


@pytest.mark.parametrize("lesson", LESSONS.values(), ids=lambda lesson: lesson.stem)
def test_a_lesson_runs_from_top_to_bottom_without_network_and_writes_nothing(
    lesson: Any, tmp_path: Path
) -> None:
    before = {path for path in WALKTHROUGHS.rglob("*") if "__pycache__" not in path.parts}
    done = subprocess.run(
        [sys.executable, "-W", "error", str(lesson.page)],
        cwd=tmp_path,
        env=os.environ
        | offline(tmp_path / "cache")
        | {"PATH": os.environ["PATH"], "SMOLGRAD_KERNELS": "numpy"},  # compiling takes longer
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) > 3
    assert "object at 0x" not in done.stdout
    assert {path for path in WALKTHROUGHS.rglob("*") if "__pycache__" not in path.parts} == before
    assert [path.name for path in tmp_path.iterdir() if path.name != "cache"] == []


@pytest.mark.parametrize("lesson", LESSONS.values(), ids=lambda lesson: lesson.stem)
def test_a_lesson_says_what_it_needs_takes_teaches_and_leads_to(lesson: Any) -> None:
    front = lesson.front()
    assert list(front) == ["Before", "Time", "Goals", "Next"]
    assert re.match(r"\d+ minutes", front["Time"])
    earlier = {int(n) for n in re.findall(r"lessons? (\d+)", front["Before"])}
    assert all(number < lesson.number for number in earlier)
    if lesson.number + 1 in LESSONS:
        assert f"lesson {lesson.number + 1}" in front["Next"]


@pytest.mark.parametrize("lesson", LESSONS.values(), ids=lambda lesson: lesson.stem)
def test_a_lesson_draws_and_names_its_exercises(lesson: Any) -> None:
    text = lesson.page.read_text("utf-8")
    assert re.search(r"\b(draw|chart|player)\(", text)
    assert 2 <= len(lesson.exercises()) <= 4
    for exercise in lesson.exercises():
        assert re.search(rf"^# \d\. `{exercise.name}\(", text, re.MULTILINE), exercise.name
    assert f"make lesson N={lesson.number} NEW=" in text
    assert f"make lesson N={lesson.number} FILE=" in text


def test_lessons_are_numbered_without_a_gap_and_have_all_their_files() -> None:
    assert list(LESSONS) == list(range(1, len(LESSONS) + 1))
    for folder in ("exercises", "solutions", "checks"):
        stems = sorted(path.stem for path in (WALKTHROUGHS / folder).glob("*.py"))
        assert stems == [lesson.stem for lesson in LESSONS.values()]


@pytest.mark.parametrize("lesson", LESSONS.values(), ids=lambda lesson: lesson.stem)
def test_a_stub_asks_for_what_is_checked_and_contains_nothing_else(lesson: Any) -> None:
    asked, solved = functions(lesson.stub), functions(lesson.solution)
    assert list(asked) == [exercise.name for exercise in lesson.exercises()]
    for name, function in asked.items():
        assert ast.get_docstring(function), name
        assert [ast.unparse(line) for line in statements(function)] == ["raise NotImplementedError"]
        assert ast.unparse(function.args) == ast.unparse(solved[name].args)


@pytest.mark.parametrize("lesson", LESSONS.values(), ids=lambda lesson: lesson.stem)
def test_a_stub_fails_with_a_helpful_message(lesson: Any) -> None:
    for verdict in student.examine(lesson.exercises(), lesson.stub):
        assert not verdict.passed
        assert "not written yet" in verdict.lines[0]


@pytest.mark.parametrize("name", EXERCISES)
def test_a_solution_passes(name: str) -> None:
    lesson, exercise = EXERCISES[name]
    solution = load("classroom.lessons").load(lesson.solution)
    verdict = judge.judge(exercise, getattr(solution, exercise.name))
    assert verdict.passed, verdict.lines


@pytest.mark.parametrize("name", MISTAKES)
def test_a_known_mistake_gets_its_own_hint_and_no_other(name: str) -> None:
    exercise, mistake = MISTAKES[name]
    verdict = judge.judge(exercise, mistake.wrong, SHORT)
    assert not verdict.passed
    assert verdict.mistake == mistake.name
    assert f"It looks like this: {mistake.name}." in verdict.lines
    assert [line for line in verdict.lines if line.startswith("Hint")] == [f"Hint: {mistake.hint}"]


@pytest.mark.parametrize("name", EXERCISES)
def test_every_exercise_knows_several_mistakes_each_by_a_name_and_a_hint_of_its_own(
    name: str,
) -> None:
    mistakes = EXERCISES[name][1].mistakes
    assert len(mistakes) >= 3
    assert len({mistake.name for mistake in mistakes}) == len(mistakes)
    assert len({mistake.hint for mistake in mistakes}) == len(mistakes)


def telling(function: ast.FunctionDef) -> list[str]:
    """The lines of a solution that give it away, each without spaces."""
    lines = [line for part in statements(function) for line in ast.unparse(part).splitlines()]
    return [squeezed(line) for line in lines if len(squeezed(line)) >= 24]


def squeezed(text: str) -> str:
    return re.sub(r"\s", "", text).replace('"', "'")


@pytest.mark.parametrize("name", EXERCISES)
def test_neither_a_stub_nor_a_hint_contains_a_line_of_the_solution(name: str) -> None:
    lesson, exercise = EXERCISES[name]
    shown = squeezed(lesson.stub.read_text("utf-8")) + squeezed(
        "".join(mistake.hint for mistake in exercise.mistakes)
    )
    lines = telling(functions(lesson.solution)[exercise.name])
    assert [line for line in lines if line in shown] == []


@pytest.mark.parametrize("name", EXERCISES)
def test_a_lesson_does_not_contain_the_solution_of_its_exercise(name: str) -> None:
    lesson, exercise = EXERCISES[name]
    shown = squeezed(lesson.page.read_text("utf-8"))
    body = [squeezed(ast.unparse(x)) for x in statements(functions(lesson.solution)[exercise.name])]
    assert not all(part in shown for part in body)


def test_a_line_of_a_solution_in_a_stub_would_be_found() -> None:
    function = functions(LESSONS[3].solution)["backward"]
    assert "x.grad+=local*node.grad" not in telling(function)  # too short to tell anything
    assert "forx,localinzip(node.inputs,node.partials(),strict=True):" in telling(function)


def test_every_lesson_is_in_the_instructors_page() -> None:
    text = (WALKTHROUGHS / "INSTRUCTORS.md").read_text("utf-8")
    for lesson in LESSONS.values():
        assert f"[{lesson.number}. {lesson.title}]({lesson.page.name})" in text
    assert all((WALKTHROUGHS / name).exists() for name in re.findall(r"\]\(([^)#:]+)\)", text))
    assert ROOT.name not in re.findall(r"/[a-z]+/[a-z]+", text)
