"""What every program in demos/ has: a question, options that are explained, defaults."""

from __future__ import annotations

import ast
import dataclasses
from pathlib import Path

import pytest
import tyro

from tests.demos.programs import DEMOS, load, run

SHARED = {"contestants", "report"}  # imported by the programs, not programs themselves
PROGRAMS = sorted(path.stem for path in DEMOS.glob("*.py") if path.stem not in SHARED)
EXPERIMENTS = sorted(set(PROGRAMS) - {"download_data", "draw_graph", "experiments", "op_table"})


def unexplained(source: str) -> list[str]:
    """The fields of Options in a program's source that no docstring follows."""
    (options,) = (
        node
        for node in ast.parse(source).body
        if isinstance(node, ast.ClassDef) and node.name == "Options"
    )
    return [
        field.target.id
        for field, after in zip(options.body, [*options.body[1:], None], strict=True)
        if isinstance(field, ast.AnnAssign)
        and isinstance(field.target, ast.Name)
        and not (isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant))
    ]


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_an_experiment_says_what_question_it_answers(name: str) -> None:
    assert "\nQuestion: " in (load(name).__doc__ or "")


@pytest.mark.parametrize("name", PROGRAMS)
def test_every_option_is_explained_and_has_a_default(name: str) -> None:
    module = load(name)
    assert unexplained((DEMOS / f"{name}.py").read_text("utf-8")) == []
    assert tyro.cli(module.Options, args=[]) == module.Options()
    assert "out" in {field.name for field in dataclasses.fields(module.Options)}


def test_an_option_that_is_not_explained_is_found() -> None:
    source = 'class Options:\n    a: int = 1\n    """what a is"""\n    b: int = 2\n    c: int = 3\n'
    assert unexplained(source) == ["b", "c"]


def test_an_option_of_several_numbers_is_written_with_spaces_between() -> None:
    options = tyro.cli(load("divergence").Options, args=["--seeds", "3", "1"])
    assert options.seeds == (3, 1)
    options = tyro.cli(load("bench_scatter").Options, args=["--cases", "64", "5", "128", "9"])
    assert options.cases == ((64, 5), (128, 9))


def test_help_is_printed_and_an_unknown_option_is_named() -> None:
    done = run("eps_sweep", "--help")
    assert done.returncode == 0
    assert "--per-decade" in done.stdout
    done = run("eps_sweep", "--step", "1")
    assert done.returncode == 2
    assert "--step" in done.stderr


@pytest.mark.parametrize("name", sorted(set(PROGRAMS) - {"plot_bench", "draw_graph"}))
def test_an_out_that_cannot_be_a_folder_is_refused_before_the_work(
    name: str, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("")
    module = load(name)
    with pytest.raises(SystemExit, match=r"--out must be a folder, but .*file is none"):
        module.main(module.Options(out=tmp_path / "file" / "out"))
