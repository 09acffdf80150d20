"""Try mutants, and keep what becomes of them."""

from __future__ import annotations

import csv
import hashlib
import json
import random
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from tqdm import tqdm

from tests.mutation import planting
from tests.mutation.choice import Choice
from tests.mutation.mutants import Mutant, compiled, mutants
from tests.mutation.reasons import reason
from tests.mutation.sessions import Ran, Session, digest_of, forked, traced
from tests.mutation.sessions import main as pytest_main
from tests.structure import ROOT

__all__ = ["SEED", "TESTS", "Finding", "Survey", "digest"]

SEED: Final = 20_261_130
PATIENCE: Final = {"in place": 5.0, "imported": 60.0}  # seconds, beside those of the tests
# Where the tests are that may notice. The others run programs, draw, or look at the project's form.
TESTS: Final = ("tests/tensor", "tests/micro", "tests/behaviours", "tests/crosscheck")


@dataclass(frozen=True)
class Finding:
    """What became of a mutant."""

    key: str
    outcome: str  # killed, timeout, died, survived
    killed_by: str
    by_file: str  # a digest of the file of that test, or of all tests
    ran: bool  # whether the mutated code was run
    way: str  # "in place" or "imported"
    tests: int
    budget: float  # how many seconds of tests were to be run
    seconds: float
    source: str = ""  # a digest of the file that it is a mutant of

    @property
    def is_killed(self) -> bool:
        """Whether a test noticed."""
        return self.outcome != "survived"

    @property
    def is_current(self) -> bool:
        """Whether the test that killed it is as it was then, or more than one was to do so."""
        if self.is_killed:
            return self.by_file in ("", digest_of(self.killed_by))
        return self.budget > 0


def digest(*folders: str) -> str:
    """What the sources in some folders are, in short."""
    total = hashlib.sha256()
    for path in sorted(p for folder in folders for p in (ROOT / folder).rglob("*.py")):
        total.update(path.relative_to(ROOT).as_posix().encode() + b"\0" + path.read_bytes())
    return total.hexdigest()[:16]


def killers(published: Path | None) -> dict[tuple[str, ...], str]:
    """Which test killed which mutant, by a table that was published."""
    if published is None or not published.exists():
        return {}
    with published.open(newline="", encoding="utf-8") as file:
        return {
            (row["file"], row["operator"], row["place"], row["mutant"]): row["killed by"]
            for row in csv.DictReader(file)
            if row["killed by"]
        }


def digest_of_text(text: str) -> str:
    """What a source is, in short."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]


class Kept:
    """Lines of JSON that are added to a file as they are found."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def read(self) -> list[dict[str, Any]]:
        """What is there."""
        if not self.path.exists():
            return []
        return [json.loads(line) for line in self.path.read_text("utf-8").splitlines()]

    def add(self, *records: Any) -> None:
        """Add what was found."""
        with self.path.open("a", encoding="utf-8") as file:
            file.writelines(json.dumps(asdict(record)) + "\n" for record in records)


class Survey:
    """All mutants of some files, what is known of them, and what is yet to be tried."""

    def __init__(
        self,
        files: Sequence[str],
        each: int | None,
        jobs: int,
        state: Path,
        progress: bool = True,
        published: Path | None = None,
    ) -> None:
        self.jobs, self.progress = jobs, progress
        self.killers = killers(published)
        folder = state / f"mutation-{digest('micro', 'tensor')}"
        self.before = [
            Kept(p) for p in state.glob("mutation-*/mutants.jsonl") if p.parent != folder
        ]
        folder.mkdir(parents=True, exist_ok=True)
        self.known = Kept(folder / "mutants.jsonl")
        self.checks = Kept(folder / "controls.jsonl")
        self.all_tests = digest(*TESTS)
        self.sources = {path: (ROOT / path).read_text("utf-8") for path in files}
        watched = hashlib.sha256(json.dumps(self.sources).encode()).hexdigest()[:16]
        self.known_tests = Kept(state / f"tests-{watched}.jsonl")  # which lines of these they run
        self.codes = {p: compiled(text, str(ROOT / p)) for p, text in self.sources.items()}
        self.left_out: Counter[str] = Counter()
        self.total: Counter[str] = Counter()
        self.mutants: list[Mutant] = []
        for path in files:
            found = in_turns([*mutants(path, self.sources[path], self.left_out)])
            self.total[path] = len(found)
            self.mutants += found[:each]
        self.mutants = in_turns(self.mutants)  # so that every file has its share early on
        self.ways = {mutant.key: self.way(mutant) for mutant in self.mutants}

    def findings(self) -> dict[str, Finding]:
        """What is known, by the mutant's key; the last word counts.

        A mutant that was killed by a test whose file has changed since is as one never tried.
        """
        return {f.key: f for f in self.read(self.known) if f.is_current}

    def earlier(self) -> dict[str, Finding]:
        """What was found with other sources, where the mutated file was as it is now."""
        ours = {path: digest_of_text(text) for path, text in self.sources.items()}
        return {
            f.key: f
            for kept in self.before
            for f in self.read(kept)
            if f.is_current and f.is_killed and f.source == ours.get(f.key.partition(":")[0])
        }

    @staticmethod
    def read(kept: Kept) -> list[Finding]:
        """The last word on every mutant of a file of findings."""
        return [*{r["key"]: Finding(**r) for r in kept.read()}.values()]

    def left(self, budget: float, way: str) -> list[Mutant]:
        """The mutants that may yet be killed by so many seconds of tests."""
        known, earlier = self.findings(), self.earlier()

        def may_be_killed(finding: Finding) -> bool:
            tests_are_new = finding.by_file != self.all_tests
            return not finding.is_killed and (finding.budget < budget or tests_are_new)

        left = [
            mutant
            for mutant in self.mutants
            if self.ways[mutant.key] == way
            and (mutant.key not in known or may_be_killed(known[mutant.key]))
        ]
        return sorted(left, key=lambda mutant: mutant.key in earlier)

    def way(self, mutant: Mutant) -> str:
        """How a mutant is planted."""
        # The statement will do: what surrounds it is the same.
        before, after = (compiled(text, mutant.path) for text in (mutant.statement, mutant.mutated))
        return "in place" if planting.within_functions(before, after) else "imported"

    def note(
        self,
        mutant: Mutant,
        found: dict[str, Any] | str,
        took: float,
        way: str,
        budget: float,
    ) -> None:
        """Keep what was found of a mutant, or how its process ended before anything was."""
        by_file = ""
        if isinstance(found, str):
            outcome, found = found, {"killed_by": "", "ran": True, "tests": 0}
        elif found["killed_by"]:
            outcome, by_file = "killed", digest_of(found["killed_by"])
        else:
            outcome, by_file = "survived", self.all_tests
        finding = Finding(
            key=mutant.key,
            outcome=outcome,
            by_file=by_file,
            way=way,
            budget=budget,
            seconds=round(took, 3),
            source=digest_of_text(self.sources[mutant.path]),
            **found,
        )
        self.known.add(finding)

    # In a process that has collected all tests.

    def in_place(self, session: Session, budgets: Sequence[float]) -> None:
        """Watch the tests, then try the mutants of what lies in functions."""
        self.watch(session)
        choice = self.choice()
        living = planting.living([*self.sources])
        self.controls_in_place(session, choice, living, budgets[0])

        def pick(mutant: Mutant, budget: float) -> list[str]:
            return choice.chosen(choice.tests(mutant.path, mutant.line, whole=False), budget)

        def work(mutant: Mutant, tests: list[str]) -> dict[str, Any]:
            after = compiled(mutant.within(self.sources[mutant.path]), str(ROOT / mutant.path))
            return tried(session, tests, planting.planted(self.codes[mutant.path], after, living))

        self.rounds("in place", budgets, choice, pick, work)

    def rounds(
        self,
        way: str,
        budgets: Sequence[float],
        choice: Choice,
        pick: Callable[[Mutant, float], list[str]],
        work: Callable[[Mutant, list[str]], dict[str, Any]],
    ) -> None:
        """Try what is left of the mutants that are planted in one way, with ever more tests.

        Those that were killed before meet the test that did it first, alone. Of those that survive
        the first of the budgets, only what no reason is known for is tried further.
        """
        again = {
            mutant: [killer]
            for mutant in self.left(0, way)
            if (killer := self.killers.get(mutant.what, "")) in choice.seconds
        }
        self.round(way, 0, choice, again, work)
        for number, budget in enumerate(budgets):
            left = [m for m in self.left(budget, way) if number == 0 or not reason(m)]
            picked = {mutant: pick(mutant, budget) for mutant in left}
            self.round(way, budget, choice, picked, work)

    def round(
        self,
        way: str,
        budget: float,
        choice: Choice,
        picked: Mapping[Mutant, list[str]],
        work: Callable[[Mutant, list[str]], dict[str, Any]],
    ) -> None:
        """Try mutants, each with the tests that are picked for it."""

        def patience(mutant: Mutant) -> float:
            time = sum(choice.seconds[test] for test in picked[mutant])
            return PATIENCE[way] + 4 * time

        done = forked([*picked], lambda m: work(m, picked[m]), patience, self.jobs)
        name = f"{way}, {budget:g} s of tests" if budget else f"{way}, what killed them before"
        for mutant, found, took in self.shown(done, len(picked), name):
            self.note(mutant, found, took, way, budget)

    def shown(self, what: Iterable[Any], total: int, name: str) -> Iterable[Any]:
        """A bar of progress."""
        disable = None if self.progress else True
        return tqdm(what, total=total, desc=name, unit="mutant", disable=disable, mininterval=5)

    def choice(self) -> Choice:
        """What is known of the tests as they are."""
        known = (Ran(**record) for record in self.known_tests.read())
        return Choice(ran for ran in known if ran.file == digest_of(ran.test))

    def watch(self, session: Session) -> None:
        """Find out which lines every test runs, where that is not known yet."""
        known = {(r["test"], r["file"]) for r in self.known_tests.read()}
        by_file: dict[str, list[str]] = defaultdict(list)
        for test in session.items:
            if (test, digest_of(test)) not in known:
                by_file[test.partition("::")[0]].append(test)

        def work(tests: list[str]) -> dict[str, Any]:
            self.known_tests.add(*traced(session, tests, [*self.sources]))
            return {}

        parts = [
            tests[i : i + 400] for tests in by_file.values() for i in range(0, len(tests), 400)
        ]
        # Those of a part that ends its process are run alone; one that does so then is not used.
        for name in ("which lines the tests run", "which lines they run alone"):
            done = forked(parts, work, lambda tests: 1800, self.jobs)
            ended = [tests for tests, found, _ in self.shown(done, len(parts), name) if found]
            parts = [[test] for tests in ended for test in tests]
        self.known_tests.add(*(Ran(test, digest_of(test), 0.0, None) for (test,) in parts))

    def controls_in_place(
        self, session: Session, choice: Choice, living: planting.Living, budget: float
    ) -> None:
        """The source itself, compiled anew and put in every function, must survive all tests."""

        def work(path: str) -> dict[str, Any]:
            again = compiled(self.sources[path], str(ROOT / path))
            put = planting.planted_whole(self.codes[path], again, living)
            tests: dict[str, None] = {}
            for mutant in self.mutants:
                if mutant.path == path:
                    able = choice.tests(path, mutant.line, whole=False)
                    tests |= dict.fromkeys(choice.chosen(able, budget))
            return tried(session, tests, put) | {"functions": len(put)}

        self.control("the source itself, in place", work, wanted=False)

    def control(self, name: str, work: Any, wanted: bool) -> None:
        """Do it for every file that has mutants; raise unless all are killed, or none is."""
        known = {
            (r["control"], r["path"])
            for r in self.checks.read()
            if r["tests_are"] == self.all_tests
        }
        paths = [p for p in self.sources if self.total[p] and (name, p) not in known]
        for path, found, took in self.shown(
            forked(paths, work, lambda path: 1800, self.jobs), len(paths), name
        ):
            if isinstance(found, str) or bool(found["killed_by"]) != wanted or not found["ran"]:
                raise RuntimeError(f"control: {name}: {path}: {found}")
            self.checks.add(Control(name, path, self.all_tests, found, round(took, 2)))

    # In processes that have imported nothing of the project.

    def imported(self, budgets: Sequence[float]) -> None:
        """Try the mutants of what runs at import."""
        choice = self.choice()

        def picked(path: str, line: int, budget: float) -> list[str]:
            able = choice.tests(path, line, whole=True)
            return choice.chosen(choice.few_files(able), budget)

        def alone(path: str, source: str, tests: Sequence[str]) -> dict[str, Any]:
            loader = planting.import_instead(path, source)
            result = {"killed_by": "at import", "tests": 0}

            def loop(session: Session) -> None:
                count = 0 if session.failed else session.run(tests)
                failed = session.failed or [""]
                result.update(killed_by=failed[0], tests=count)

            files = sorted({test.partition("::")[0] for test in tests})
            pytest_main(files, Session(loop, chosen=set(tests)))
            return result | {"ran": loader.loaded}

        def control(path: str, ending: str) -> dict[str, Any]:
            return alone(path, self.sources[path] + ending, picked(path, 0, budgets[0]))

        self.control("the source itself, imported", lambda path: control(path, ""), wanted=False)
        self.control(
            "an error at import",
            lambda path: control(path, '\nraise RuntimeError("planted")\n'),
            wanted=True,
        )

        def pick(mutant: Mutant, budget: float) -> list[str]:
            return picked(mutant.path, mutant.line, budget)

        def work(mutant: Mutant, tests: list[str]) -> dict[str, Any]:
            return alone(mutant.path, mutant.within(self.sources[mutant.path]), tests)

        self.rounds("imported", budgets, choice, pick, work)


@dataclass(frozen=True)
class Control:
    """What became of something whose fate is known beforehand."""

    control: str
    path: str
    tests_are: str
    found: dict[str, Any]
    seconds: float


def tried(session: Session, tests: Iterable[str], put: set[Any]) -> dict[str, Any]:
    """Run tests of a process with a mutant in it."""
    entered = planting.Entered(put)
    count = session.run(tests, before=entered.watch)
    sys.setprofile(None)
    return {"killed_by": (session.failed or [""])[0], "ran": entered.seen, "tests": count}


def in_turns(found: Sequence[Mutant]) -> list[Mutant]:
    """Mutants in a random order in which every place has its first before any has its second."""
    shuffled = list(found)
    random.Random(SEED).shuffle(shuffled)
    turns: Counter[tuple[str, int, int]] = Counter()
    ranked = []
    for mutant in shuffled:
        ranked.append((turns[mutant.path, mutant.line, mutant.column], mutant))
        turns[mutant.path, mutant.line, mutant.column] += 1
    return [mutant for _, mutant in sorted(ranked, key=lambda pair: pair[0])]
