"""What the mutants show, as a table, as figures and to be read."""

from __future__ import annotations

import csv
import hashlib
import importlib.metadata
import json
import os
import platform
import subprocess
import time
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from tests.crosscheck.page import with_section
from tests.mutation.mutants import Mutant
from tests.mutation.reasons import reason
from tests.mutation.survey import SEED, Finding, Survey, digest
from tests.structure import ROOT

__all__ = ["publish"]

TITLE: Final = "Mutants"
COLUMNS: Final = ["file", "line", "column", "operator", "place", "mutant"]
COLUMNS += ["outcome", "killed by", "way", "ran", "tests", "seconds", "sha256", "reason"]
COLUMNS += ["other sources"]


def figures(survey: Survey, found: Mapping[str, Finding]) -> dict[str, Any]:
    """What is published as mutation.json."""
    ran = [(m, found[m.key]) for m in survey.mutants if m.key in found]
    again = survey.findings()
    by_file = {}
    for path, total in survey.total.items():
        here = [finding for mutant, finding in ran if mutant.path == path]
        if total:
            by_file[path] = {
                "mutants": total,
                "tried": len(here),
                "killed": sum(finding.is_killed for finding in here),
            }
    killed = sum(finding.is_killed for _, finding in ran)
    survivors = Counter(
        (reason(m) or "not explained").partition(":")[0] for m, f in ran if not f.is_killed
    )
    return {
        "mutants": sum(survey.total.values()),
        "tried": len(ran),
        "killed": killed,
        "killed, of those tried": f"{100 * killed / max(len(ran), 1):.2f} %",
        "outcomes": dict(Counter(finding.outcome for _, finding in ran)),
        "survivors": dict(survivors),
        "left out beforehand": dict(survey.left_out),
        "files": by_file,
        "evidence": {
            "whose mutated code was run": sum(finding.ran for _, finding in ran),
            "tried with other sources, of the same file": sum(m.key not in again for m, _ in ran),
            "exchanged in living functions": sum(f.way == "in place" for _, f in ran),
            "imported in the place of the module": sum(f.way == "imported" for _, f in ran),
            "controls": controls(survey),
        },
        "seed": SEED,
        "seconds by the clock, added up": round(sum(finding.seconds for _, finding in ran)),
        "machine": {
            "system": platform.platform(),
            "processor": platform.processor() or platform.machine(),
            "cores": os.cpu_count(),
            "jobs": survey.jobs,
            "python": platform.python_version(),
            **versions(),
            "commit": _commit(),
            "sources": digest("micro", "tensor"),
            "date": time.strftime("%Y-%m-%d", time.gmtime()),
        },
    }


def versions() -> dict[str, str]:
    """The versions of what it was made with."""
    libraries = ("cosmic-ray", "numpy", "torch", "hypothesis", "pytest", "smolgrad")
    return {name: importlib.metadata.version(name) for name in libraries}


def controls(survey: Survey) -> dict[str, str]:
    """What became of the controls, each in few words."""
    done: dict[str, dict[str, bool]] = defaultdict(dict)
    for record in survey.checks.read():
        done[record["control"]][record["path"]] = bool(record["found"]["killed_by"])
    return {
        name: f"killed in {sum(files.values())} of {len(files)} files"
        for name, files in done.items()
    }


def _commit() -> str:
    done = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout.strip() or "unknown"


def section(summary: Mapping[str, Any], survivors: Sequence[Mutant]) -> str:
    """The figures to be read, and every survivor with its reason."""
    evidence = summary["evidence"]
    lines = [
        (
            f"{summary['killed']:,} of {summary['tried']:,} mutants are killed by the tests, "
            f"{summary['killed, of those tried']}; {summary['mutants']:,} can be made by the "
            "operators of cosmic-ray. Each is tried alone in a process of its own, with the tests "
            "that run the mutated statement. Every one of them is in [mutation.csv](mutation.csv), "
            "with the test that killed it; all figures are in [mutation.json](mutation.json)."
        ),
        "",
        "| file | mutants | tried | killed |",
        "|---|---|---|---|",
        *(
            f"| {path} | {row['mutants']:,} | {row['tried']:,} | {row['killed']:,} |"
            for path, row in summary["files"].items()
        ),
        "",
        (
            f"That they really ran: the mutated code was entered in "
            f"{evidence['whose mutated code was run']:,} of {summary['tried']:,}. With other "
            "sources, in which the mutated file was as it is now: "
            f"{evidence['tried with other sources, of the same file']:,}. As controls, for each "
            "file: "
            + "; ".join(f"{name}: {what}" for name, what in evidence["controls"].items())
            + "."
        ),
        "",
        "Left out beforehand: "
        + "; ".join(f"{what}: {count:,}" for what, count in summary["left out beforehand"].items())
        + ".",
        "",
        "The survivors, by reason; each line of source with what it became:",
    ]
    by_reason: dict[str, list[Mutant]] = defaultdict(list)
    for mutant in survivors:
        by_reason[reason(mutant) or "not explained"].append(mutant)
    for why, those in sorted(by_reason.items()):
        lines += ["", f"{why} ({len(those)}):", ""]
        lines += [f"- {m.path}:{m.line}: `{m.text}`" for m in sorted(those, key=lambda m: m.key)]
    return "\n".join(lines)


def _short(mutant: Mutant, source: str) -> str:
    return hashlib.sha256(mutant.within(source).encode()).hexdigest()[:16]


def publish(survey: Survey, out: Path) -> dict[str, Any]:
    """Write the results, and return the figures."""
    found = survey.earlier() | survey.findings()
    tried_ones = sorted(
        (m for m in survey.mutants if m.key in found), key=lambda m: (m.path, m.line, m.column)
    )
    summary, again = figures(survey, found), survey.findings()
    out.mkdir(parents=True, exist_ok=True)
    with (out / "mutation.csv").open("w", newline="", encoding="utf-8") as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow(COLUMNS)
        for m in tried_ones:
            f = found[m.key]
            why = "" if f.is_killed else reason(m)
            what = (m.path, m.line, m.column, m.operator, m.place, m.text)
            became = (f.outcome, f.killed_by, f.way, f.ran, f.tests, f.seconds)
            row = [*what, *became, _short(m, survey.sources[m.path]), why, m.key not in again]
            table.writerow(row)
    (out / "mutation.json").write_text(json.dumps(summary, indent=1) + "\n", "utf-8")
    page = out / "proof.md"
    text = page.read_text("utf-8") if page.exists() else "# Proof\n"
    survivors = [m for m in tried_ones if not found[m.key].is_killed]
    page.write_text(with_section(text, TITLE, section(summary, survivors)), "utf-8")
    return summary
