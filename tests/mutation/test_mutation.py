"""Mutants are made, planted, run and judged as they should be."""

from __future__ import annotations

import csv
import json
import os
import subprocess
import sys
import textwrap
import types
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from tests.mutation import mutants, planting, reasons, report, sessions, survey
from tests.mutation.choice import Choice
from tests.mutation.mutants import Mutant, Offer, compiled
from tests.mutation.sessions import Ran
from tests.structure import ROOT

PATH = "micro/optim.py"
SOURCE = (ROOT / PATH).read_text("utf-8")


# Making


def test_what_has_no_meaning_of_its_own_is_left_out_and_counted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    source = "import math\n\n\ndef f(a: int | None) -> bool:\n    return a == math.pi\n"
    statement = "def f(a: int | None) -> bool:\n    return a == math.pi\n"

    def offered(given: str) -> Iterator[Offer]:
        if given != statement:
            return
        for i, (operator, old, new) in enumerate(
            [
                ("ReplaceBinaryOperator_BitOr_Add", "int | None", "int + None"),
                ("ReplaceComparisonOperator_Eq_Is", "==", "is"),
                ("ReplaceComparisonOperator_Eq_Lt", "==", "<"),
                ("Another", "==", " <"),
                ("NoPython", "return a", "return return"),
            ]
        ):
            yield Offer(operator, i, (2, 13), (2, 15), given.replace(old, new))

    monkeypatch.setattr(mutants, "offered", offered)
    left_out: Counter[str] = Counter()
    (found,) = mutants.mutants("a.py", source, left_out)
    assert (found.operator, found.line, found.place) == ("ReplaceComparisonOperator_Eq_Lt", 5, "==")
    assert found.within(source) == source.replace("==", "<")
    assert found.text == "return a < math.pi"
    assert sorted(left_out.values()) == [1, 1, 1, 1]


def mutant(old: str, new: str, source: str = SOURCE, path: str = PATH) -> Mutant:
    assert source.count(old) == 1
    line = source[: source.index(old)].count("\n") + 1
    return Mutant(path, line, 0, "Test", 0, old, new, 1, source, source.replace(old, new))


def test_every_place_has_a_mutant_before_any_has_two() -> None:
    found = [Mutant(PATH, n // 3, 0, "Test", n, "", "", 1, "", "") for n in range(12)]
    ordered = survey.in_turns(found)
    assert sorted(m.occurrence for m in ordered) == [*range(12)]
    for turn in range(3):
        assert sorted(m.line for m in ordered[4 * turn : 4 * turn + 4]) == [0, 1, 2, 3]
    assert ordered == survey.in_turns(found)


# Planting

SMALL = """
def outer(n=1):
    def inner(x):
        return x + n
    return inner

class Class:
    number = 3
    def method(self):
        return [k * 2 for k in range(self.number)]
"""


def code(source: str) -> types.CodeType:
    return compiled(source, str(ROOT / "small.py"))


def of_small() -> types.ModuleType:
    module = types.ModuleType("small")
    planting.Instead(ROOT / "small.py", SMALL).exec_module(module)
    return module


@pytest.mark.parametrize(
    ("old", "new", "inside"),
    [
        ("x + n", "x - n", True),
        ("k * 2", "k * 3", True),
        ("number = 3", "number = 4", False),
        ("n=1", "n=2", False),
    ],
)
def test_what_runs_at_import_is_told_from_what_is_in_functions(
    old: str, new: str, inside: bool
) -> None:
    assert planting.within_functions(code(SMALL), code(SMALL.replace(old, new))) is inside


def test_the_code_of_living_functions_is_exchanged_also_of_those_made_by_others() -> None:
    module = of_small()
    made = module.outer()
    functions = planting.living(["small.py"])
    put = planting.planted(code(SMALL), code(SMALL.replace("x + n", "x - n")), functions)
    assert (made(5), module.outer()(5)) == (4, 4)
    assert made.__code__ in put and module.Class.method.__code__ not in put
    assert module.Class().method() == [0, 2, 4]
    put = planting.planted(code(SMALL), code(SMALL.replace("k * 2", "k * 3")), functions)
    assert module.Class().method() == [0, 3, 6]


def test_the_source_itself_gives_every_function_new_code() -> None:
    module = of_small()
    before = module.Class.method.__code__
    put = planting.planted_whole(code(SMALL), code(SMALL), planting.living(["small.py"]))
    assert module.Class.method.__code__ in put
    assert module.Class.method.__code__ is not before
    assert module.Class().method() == [0, 2, 4]


def test_whether_the_mutated_code_was_run_is_noticed() -> None:
    module = of_small()
    entered = planting.Entered({module.Class.method.__code__})
    entered.watch()
    module.outer()(1)
    assert not entered.seen
    module.Class().method()
    assert entered.seen and sys.getprofile() is None
    entered.watch()
    assert sys.getprofile() is None


def test_a_module_that_was_imported_already_is_refused() -> None:
    with pytest.raises(RuntimeError, match="imported already"):
        planting.import_instead("tests/structure.py", "")


# Choosing


def test_tests_are_those_that_run_the_statement_the_quickest_of_each_kind_first() -> None:
    line = SOURCE[: SOURCE.index("t = t + 1")].count("\n") + 1
    known = [
        Ran("a.py::f[1]", "", 0.2, {PATH: [line]}),
        Ran("a.py::f[2]", "", 0.1, {PATH: [line, line + 1]}),
        Ran("b.py::g", "", 0.3, {PATH: [line]}),
        Ran("b.py::elsewhere", "", 0.1, {PATH: [line + 1]}),
        Ran("b.py::fails_when_watched", "", 0.1, None),
    ]
    choice = Choice(known)
    tests = choice.tests(PATH, line, whole=False)
    assert tests == {"a.py::f[1]", "a.py::f[2]", "b.py::g"}
    assert choice.tests(PATH, line, whole=True) == tests | {"b.py::elsewhere"}
    assert choice.chosen(tests, 10) == ["a.py::f[2]", "b.py::g", "a.py::f[1]"]
    assert choice.chosen(tests, 0.45) == ["a.py::f[2]", "b.py::g"]
    assert choice.chosen(tests, 0.01) == ["a.py::f[2]"]
    assert choice.tests(PATH, 1, whole=False) == set()


# Running


def test_a_fork_that_takes_too_long_or_dies_says_so_and_the_others_have_results() -> None:
    def work(job: str) -> dict[str, str]:
        if job == "dies":
            os._exit(7)
        while job == "loops":
            pass
        return {"job": job}

    def patience(job: str) -> float:
        return 0.2 if job == "loops" else 60

    jobs = ["a", "loops", "dies", "b"]
    found = {job: result for job, result, _ in sessions.forked(jobs, work, patience, 2)}
    assert found == {"a": {"job": "a"}, "loops": "timeout", "dies": "died", "b": {"job": "b"}}


# Each in small: what is tried, in place or imported, is what the keys say.
IN_SMALL = """
import sys
from pathlib import Path
from tests.mutation import survey
from tests.mutation.mutants import Mutant
from tests.mutation.run import in_forks

PATH, state, *pairs = sys.argv[1:]

def mutants(path, source, left_out):
    for number, pair in enumerate(pairs):
        old, new = pair.split(" -> ")
        assert source.count(old) == 1, old
        line = source[: source.index(old)].count("\\n") + 1
        mutated = source.replace(old, new)
        yield Mutant(path, line, number, "Test", 0, old, new, 1, source, mutated)

survey.mutants = mutants
found = survey.Survey([PATH], None, 1, Path(state), progress=False)
in_forks(found, ["tests/micro/test_optim.py"], [0.5])
"""


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What is kept of a run over a few mutants of one file."""
    state = tmp_path_factory.mktemp("state")
    pairs = [
        "data - self.lr * g, None -> data - self.lr + g, None",
        "if self.momentum == 0 -> if self.momentum <= 0",
        "momentum: float = 0 -> momentum: float = 1",
        '"""Gradient descent on Values, -> """Descent on Values,',
    ]
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(IN_SMALL), PATH, str(state), *pairs],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    (folder,) = state.glob("mutation-*")
    return folder


def test_mutants_run_and_are_killed_and_what_changes_nothing_survives(kept: Path) -> None:
    found = [json.loads(line) for line in (kept / "mutants.jsonl").read_text("utf-8").splitlines()]
    by_number = {int(f["key"].split(":")[2].split()[0]): f for f in found}
    assert [by_number[i]["outcome"] for i in range(4)] == [
        *("killed", "survived", "killed", "survived")
    ]
    assert [by_number[i]["way"] for i in range(4)] == [*["in place"] * 2, *["imported"] * 2]
    assert all(f["ran"] and f["tests"] > 0 for f in found)
    assert by_number[0]["killed_by"].startswith("tests/micro/test_optim.py::test_")


def test_the_source_itself_survives_and_an_error_at_import_does_not(kept: Path) -> None:
    lines = (kept / "controls.jsonl").read_text("utf-8").splitlines()
    controls = {record["control"]: record["found"] for record in map(json.loads, lines)}
    for name in ("the source itself, in place", "the source itself, imported"):
        assert controls[name]["killed_by"] == "" and controls[name]["ran"]
        assert controls[name]["tests"] > 5
    assert controls["an error at import"]["killed_by"]


# Judging


def survey_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> survey.Survey:
    given = [mutant("t = t + 1", "t = t + 2"), mutant("return number\n", "return value\n")]
    monkeypatch.setattr(survey, "mutants", lambda path, source, left_out: iter(given))
    return survey.Survey([PATH], None, 1, tmp_path, progress=False)


def test_survivors_are_listed_with_their_reasons_and_tried_again_when_tests_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = survey_of(tmp_path, monkeypatch)
    killed, survivor = sorted(found.mutants, key=lambda m: m.place, reverse=True)
    assert {m.key for m in found.left(1.0, "in place")} == {killed.key, survivor.key}
    test = "tests/micro/test_optim.py::test_a"
    found.note(killed, {"killed_by": test, "ran": True, "tests": 3}, 0.1, "in place", 1.0)
    found.note(survivor, {"killed_by": "", "ran": True, "tests": 9}, 0.1, "in place", 1.0)
    assert found.left(1.0, "in place") == []
    assert found.left(2.0, "in place") == [survivor]
    monkeypatch.setattr(report, "reason", lambda mutant: "")
    monkeypatch.setattr(report, "versions", dict)
    summary = report.publish(found, tmp_path / "out")
    assert (summary["tried"], summary["killed"]) == (2, 1)
    assert summary["survivors"] == {"not explained": 1}
    with (tmp_path / "out/mutation.csv").open(encoding="utf-8") as file:
        rows = {row["mutant"]: row for row in csv.DictReader(file)}
    assert rows[killed.text]["killed by"] == test
    assert rows[survivor.text]["outcome"] == "survived"
    assert survivor.text in (tmp_path / "out/proof.md").read_text("utf-8")
    assert survey.killers(tmp_path / "out/mutation.csv") == {killed.what: test}
    found.all_tests = "others"
    assert found.left(1.0, "in place") == [survivor]


def test_what_was_killed_before_meets_the_test_that_did_it_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = survey_of(tmp_path, monkeypatch)
    one, other = found.mutants
    found.killers = {one.what: "a.py::f", other.what: "a.py::that_is_gone"}
    rounds: list[tuple[float, dict[str, list[str]]]] = []

    def noted(way: str, budget: float, choice: Choice, picked: Mapping[Mutant, list[str]]) -> None:
        rounds.append((budget, {m.key: tests for m, tests in picked.items()}))
        if budget == 0:
            killed = {"killed_by": "a.py::f", "ran": True, "tests": 1}
            found.note(one, killed, 0.1, way, budget)
        elif budget == 2:
            found.note(other, {"killed_by": "", "ran": True, "tests": 1}, 0.1, way, budget)

    monkeypatch.setattr(found, "round", lambda *arguments: noted(*arguments[:4]))
    choice = Choice([Ran("a.py::f", "", 0.2, {}), Ran("b.py::g", "", 0.1, {})])
    found.rounds("in place", [2.0, 9.0], choice, lambda m, s: ["b.py::g"], lambda m, tests: {})
    left = {other.key: ["b.py::g"]}
    assert rounds == [(0, {one.key: ["a.py::f"]}), (2.0, left), (9.0, left)]
    rounds.clear()
    monkeypatch.setattr(survey, "reason", lambda mutant: "equivalent")
    found.rounds("in place", [3.0, 9.0], choice, lambda m, s: ["b.py::g"], lambda m, tests: {})
    assert rounds == [(0, {}), (3.0, left), (9.0, {})]
    assert survey.killers(None) == survey.killers(tmp_path / "nothing.csv") == {}


def test_what_other_sources_killed_is_tried_last_and_counts_while_its_file_is_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, found = (survey_of(tmp_path / name, monkeypatch) for name in ("before", "now"))
    one, other = before.mutants
    test = "tests/micro/test_optim.py::test_a"
    before.note(one, {"killed_by": test, "ran": True, "tests": 3}, 0.1, "in place", 1.0)
    before.note(other, {"killed_by": "", "ran": True, "tests": 9}, 0.1, "in place", 1.0)
    found.before = [before.known]
    assert list(found.earlier()) == [one.key] and found.findings() == {}
    assert found.left(1.0, "in place") == [other, one]
    monkeypatch.setattr(report, "versions", dict)
    summary = report.publish(found, tmp_path / "out")
    assert (summary["tried"], summary["killed"]) == (1, 1)
    assert summary["evidence"]["tried with other sources, of the same file"] == 1
    found.sources = {PATH: SOURCE + "\n"}
    assert found.earlier() == {}


def test_a_mutant_that_ends_its_process_is_noticed_by_that(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = survey_of(tmp_path, monkeypatch)
    for one, end in zip(found.mutants, ("timeout", "died"), strict=True):
        found.note(one, end, 0.5, "in place", 1.0)
    assert [f.outcome for f in found.findings().values()] == ["timeout", "died"]
    assert found.left(9.0, "in place") == []


def test_reasons_fit_the_sources_as_they_are() -> None:
    assert reasons.misfits(reasons.REASONS) == []
    wrong = reasons.REASONS[0]._replace(line="no such line")
    assert reasons.misfits([wrong]) == ["micro/optim.py: no such line"]


def test_a_reason_is_for_the_mutants_that_it_describes() -> None:
    line = "if self.momentum == 0:"
    assert "at least 0" in reasons.reason(mutant(line, "if self.momentum <= 0:"))
    assert reasons.reason(mutant(line, "if self.momentum >= 0:")) == ""
