"""The catalogue of planted faults fits the sources, and faults are really tried and caught."""

from __future__ import annotations

import ast
import csv
import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.faults import run
from tests.faults.catalogue import FAULTS
from tests.faults.fault import Fault, named
from tests.structure import ROOT

SOURCES: Final = {fault.path: (ROOT / fault.path).read_text("utf-8") for fault in FAULTS}


def fault_of(path: str, breaks: str) -> Fault:
    return next(fault for fault in FAULTS if (fault.path, fault.breaks) == (path, breaks))


# The catalogue


def misfits(faults: list[Fault]) -> list[str]:
    """What is wrong with a catalogue."""
    found = []
    for fault in faults:
        where = f"{fault.path}: {fault.breaks}"
        try:
            changed = fault.applied(SOURCES[fault.path])
        except LookupError as error:
            found.append(str(error))
            continue
        if ast.dump(ast.parse(changed)) == ast.dump(ast.parse(SOURCES[fault.path])):
            found.append(f"{where}: changes nothing")
        files = {test.partition("::")[0] for test in fault.tests if test.startswith("tests/")}
        found += [f"{where}: no file {file}" for file in files if not (ROOT / file).exists()]
        if not files:
            found.append(f"{where}: names no test")
    repeated = [what for what, count in Counter(f[:4] for f in faults).items() if count > 1]
    return [*found, *(f"{path}: {breaks}: comes twice" for path, _, _, breaks in repeated)]


def test_every_fault_fits_the_sources_as_they_are() -> None:
    assert misfits(FAULTS) == []


def test_a_fault_that_does_not_fit_is_found() -> None:
    good = fault_of("tensor/modes.py", "a mode is not restored")
    assert misfits([good]) == []
    for wrong, words in (
        (good._replace(old="no such line"), "found 0"),
        (good._replace(old="return"), "wanted one place"),
        (good._replace(new=good.old + "\n"), "changes nothing"),
        (good._replace(tests=named("no_such_test")), "no file tests/no_such_test.py"),
        (good._replace(tests=("-k", "modes")), "names no test"),
    ):
        (found,) = misfits([wrong])
        assert words in found
    assert "comes twice" in misfits([good, good])[0]


def test_there_are_sixty_faults_and_every_part_has_some() -> None:
    assert len(FAULTS) >= 60
    parts = ("tensor/rules", "tensor/engine", "tensor/passes", "tensor/dispatch", "tensor/inplace")
    parts += ("tensor/modes", "tensor/kernels", "tensor/optim", "tensor/nn", "micro/ops")
    for part in (*parts, "micro/value", "micro/optim"):
        assert sum(fault.path.startswith(part) for fault in FAULTS) >= 2, part
    words = ("sign", "missing term", "un-broadcast", "= for +=", "transpos", "axis", "stale")
    words += ("swapped", "off by one", "> for >=", "aliasing", "promoted dtype", "correction")
    words += ("decay", "ampening", "version bump", "mode is not restored", "< for <=")
    for word in words:
        assert any(word in fault.breaks for fault in FAULTS), word


# The script


@pytest.fixture(scope="module")
def copy() -> Iterator[run.Copy]:
    with run.scratch() as found:
        yield found


TRIED: Final = [
    fault_of("tensor/rules/elementwise.py", "sign of the second operand of a difference"),
    fault_of("tensor/passes.py", "= for +=: the second use of a Tensor replaces the first"),
    fault_of("micro/optim.py", "dampening is forgotten"),
]


@pytest.mark.parametrize("fault", TRIED, ids=lambda fault: fault.path)
def test_a_fault_is_planted_in_a_copy_and_caught(fault: Fault, copy: run.Copy) -> None:
    finding = run.examined(fault, copy, mapped_only=True)
    assert finding.caught_by.startswith("tests/") and finding.suite == "mapped"
    assert (copy.path / fault.path).read_text("utf-8") == SOURCES[fault.path]
    assert (ROOT / fault.path).read_text("utf-8") == SOURCES[fault.path]


HARMLESS: Final = Fault(
    "micro/optim.py",
    '"""Gradient descent on Values',
    '"""Descent on Values',
    "nothing",
    named("micro/test_optim", "defaults"),
)


def test_what_does_no_harm_is_not_caught(copy: run.Copy) -> None:
    finding = run.examined(HARMLESS, copy, mapped_only=True)
    assert finding.caught_by == ""


@pytest.mark.parametrize("tests", [named("micro/test_optim", "no_such_name"), named("no_file")])
def test_tests_that_do_not_exist_catch_nothing(tests: tuple[str, ...], copy: run.Copy) -> None:
    assert run.tried(tests, copy) == ""


def test_a_run_that_is_ended_by_something_else_is_an_error(copy: run.Copy) -> None:
    code = Fault(
        "micro/optim.py",
        "from micro import fields\n",
        "from micro import fields\nimport os\nos._exit(7)\n",
        "the process",
        named("micro/test_optim"),
    )
    with pytest.raises(RuntimeError, match="test_optim"):
        run.examined(code, copy, mapped_only=True)


def test_a_program_without_survivors_is_content_and_remembers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    outcomes = {"caught": "tests/test_a.py::test_b", "missed": ""}
    tried: list[str] = []

    def examined(fault: Fault, copy: run.Copy, mapped_only: bool) -> run.Finding:
        tried.append(fault.breaks)
        return run.Finding(fault.path, fault.breaks, outcomes[fault.breaks], "mapped", 1.0)

    caught, missed = (HARMLESS._replace(breaks=what) for what in outcomes)
    monkeypatch.setattr(run, "examined", examined)
    arguments = ["--jobs", "1", "--out", str(tmp_path), "--state", str(tmp_path / "state")]
    monkeypatch.setattr(run, "FAULTS", [caught])
    assert run.main(arguments) == 0 == run.main(arguments)
    assert tried == ["caught"]
    monkeypatch.setattr(run, "FAULTS", [caught, missed])
    assert run.main(arguments) == 1
    assert tried == ["caught", "missed"]
    assert "1 of 2 faults are caught\nnot caught: micro/optim.py: missed" in capsys.readouterr().out
    with (tmp_path / "faults.csv").open(encoding="utf-8") as file:
        assert [row["caught_by"] for row in csv.DictReader(file)] == [*outcomes.values()]
    summary = json.loads((tmp_path / "faults.json").read_text("utf-8"))
    assert summary["not caught"] == ["micro/optim.py: missed"]
    assert "| micro/optim.py | 2 | 1 |" in (tmp_path / "proof.md").read_text("utf-8")


def test_a_fault_that_no_longer_fits_stops_the_program_before_anything_is_tried(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run, "FAULTS", [HARMLESS._replace(old="no such line")])
    with pytest.raises(LookupError, match="write the fault anew"):
        run.main(["--out", str(tmp_path)])
    assert not [*tmp_path.iterdir()]
