"""Measure every op's largest error against fifty digits, in units in the last place.

    python -m tests.crosscheck.digits [--points N] [--seed N] [--jobs N] [--out FOLDER]

What is measured is kept by a digest of the sources, so that a run that was interrupted goes on
where it stopped. The figures go to ulp.csv and proof.json; a table of them becomes a section of
proof.md.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import sys
from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Final

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # one process for each core is enough

from tqdm import tqdm

from tests.crosscheck.oracle import DIGITS
from tests.crosscheck.page import with_section
from tests.crosscheck.prove import digest
from tests.crosscheck.ulp import (
    ARRAY_OPS,
    BOUND,
    DTYPES,
    ELEMENTWISE,
    LIMITS,
    Figure,
    Worst,
    array_figure,
    elementwise_figures,
)
from tests.structure import ROOT

__all__ = ["main", "measure", "section"]

TITLE: Final = "Fifty digits"
CASES: Final = {str(case): case for case in ELEMENTWISE}
COLUMNS: Final = (
    *("op", "kind", "engine", "dtype", "points", "value_ulp", "value_at", "gradient_ulp"),
    *("gradient_at", "gradient_ulp_of_1", "worst_over_uB", "within_limits", "reason"),
)


def _work(job: tuple[str, str, int, int, Path | None]) -> list[Figure]:
    """Measure one op in one precision, and keep that; or take what is kept."""
    name, dtype, points, seed, folder = job
    path = folder and folder / f"ulp-{name}-{dtype}-{points}-{seed}.json"
    if path and path.exists():
        return [_read(kept) for kept in json.loads(path.read_text("utf-8"))]
    if name in CASES:
        figures = elementwise_figures(CASES[name], dtype, points, seed)
    else:
        figures = [array_figure(name, dtype)]
    if path:
        part = path.with_suffix(".part")
        part.write_text(json.dumps([asdict(figure) for figure in figures]), "utf-8")
        part.rename(path)
    return figures


def _read(kept: dict[str, Any]) -> Figure:
    worst = {what: Worst(**kept[what]) for what in ("value", "gradient")}
    return Figure(**{**kept, **worst})


def measure(
    names: Sequence[str], points: int, seed: int = 0, jobs: int = 1, folder: Path | None = None
) -> list[Figure]:
    """The figures of these ops, of elementwise ones at so many random points.

    ``folder`` is where what is measured is kept.
    """
    wanted = [(name, dtype, points, seed, folder) for name in names for dtype in DTYPES]
    if jobs <= 1:
        return [figure for job in wanted for figure in _work(job)]
    with ProcessPoolExecutor(jobs, get_context("spawn")) as pool:
        done = tqdm(pool.map(_work, wanted), total=len(wanted), unit="op", disable=None)
        return [figure for figures in done for figure in figures]


def rows(figures: Iterable[Figure]) -> list[dict[str, Any]]:
    """The figures as they stand in the table."""
    found = []
    for f in figures:
        values = (
            *(f.op, "elementwise" if f.bound is None else "array", f.engine, f.dtype, f.points),
            *(f"{f.value.units:.3g}", f.value.at, f"{f.gradient.units:.3g}", f.gradient.at),
            f"{f.gradient.of_one:.3g}",
            "" if f.bound is None else f"{f.bound:.3g}",
            f.right,
            f.reason.why if f.reason else "",
        )
        found.append(dict(zip(COLUMNS, values, strict=True)))
    return found


def section(figures: Sequence[Figure]) -> str:
    """The figures to be read: one line for each op."""
    cells = {(f.op, f.engine, f.dtype): f for f in figures}
    elementwise = dict.fromkeys(f.op for f in figures if f.bound is None)
    arrays = dict.fromkeys(f.op for f in figures if f.bound is not None)
    lines = [
        (
            f"The largest errors against `micro` on {DIGITS} digits of mpmath, in units in the "
            "last place: of `tensor` in float32 and float64, and of `micro` on floats. Every "
            "figure, and the point at which it was found, is in [ulp.csv](ulp.csv)."
        ),
        "",
        (
            f"Elementwise ops, over the whole range of each precision. Limits: "
            f"{LIMITS['float32']:g} in float32 and {LIMITS['float64']:g} in float64; for an op "
            "with a reason, the gradient's error in units of max(1, right answer), or what the "
            "reason says."
        ),
        "",
        (
            "| op | value, 32 | value, 64 | value, micro | gradient, 32 | gradient, 64 "
            "| gradient, micro | of 1: 32, 64 | reason |"
        ),
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for op in elementwise:
        three = [cells[op, "tensor", d] for d in DTYPES] + [cells[op, "micro", "float64"]]
        numbers = [*(f.value.units for f in three), *(f.gradient.units for f in three)]
        reason = three[0].reason
        of_one = ", ".join(f"{f.gradient.of_one:.2g}" for f in three[:2]) if reason else ""
        why = f"{reason.why}; limit {reason.limit:g}" if reason else ""
        lines.append(" | ".join([f"| `{op}`", *(f"{x:.2g}" for x in numbers), of_one, why]) + " |")
    lines += [
        "",
        (
            "Ops of arrays, at the calls of the table of ops. Sums may cancel, so their limit is "
            f"{BOUND:g} u B (tests/crosscheck/bounds.py); the units are those of the right answer."
        ),
        "",
        (
            "| op | value, 32 | value, 64 | gradient, 32 | gradient, 64 | worst / (u B), 32 "
            "| worst / (u B), 64 |"
        ),
        "|---|---|---|---|---|---|---|",
    ]
    for op in arrays:
        two = [cells[op, "tensor", d] for d in DTYPES]
        numbers = [
            *(f.value.units for f in two),
            *(f.gradient.units for f in two),
            *(f.bound or 0.0 for f in two),
        ]
        lines.append(" | ".join([f"| `{op}`", *(f"{x:.2g}" for x in numbers)]) + " |")
    lines += ["", "Truth values and indices are not inexact, and have no gradient."]
    return "\n".join(lines)


def summary(figures: Sequence[Figure]) -> dict[str, Any]:
    """The figures in short."""
    plain = [f for f in figures if f.bound is None and f.reason is None]
    return {
        "ops": len({f.op for f in figures}),
        "values compared": sum(f.points for f in figures),
        "limits": {**LIMITS, "arrays, in u B": BOUND},
        "worst gradient without a reason": {
            f"{engine} {dtype}": max(
                (f.gradient.units for f in plain if (f.engine, f.dtype) == (engine, dtype)),
                default=0.0,
            )
            for engine, dtype in (
                ("tensor", "float32"),
                ("tensor", "float64"),
                ("micro", "float64"),
            )
        },
        "reasons": sorted({f.op for f in figures if f.reason}),
        "worst of arrays, in u B": max((f.bound or 0.0 for f in figures), default=0.0),
        "beyond their limits": [f"{f.op} {f.engine} {f.dtype}" for f in figures if not f.right],
    }


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; the exit status says whether every op keeps to its limits."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--points", type=int, default=100, help="of each elementwise op")
    parser.add_argument("--seed", type=int, default=0, help="where the points are drawn")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes")
    parser.add_argument("--out", type=Path, default=ROOT / "results", help="folder of the figures")
    parser.add_argument(
        "--state", type=Path, default=ROOT / ".prove", help="folder of what is kept"
    )
    parser.add_argument("--ops", nargs="*", default=[*CASES, *ARRAY_OPS], help="these alone")
    options = parser.parse_args(argv)
    unknown = [name for name in options.ops if name not in {*CASES, *ARRAY_OPS}]
    if unknown or options.points < 1:
        parser.error(f"no such op: {unknown}" if unknown else "--points must be positive")
    folder = options.state / digest()
    folder.mkdir(parents=True, exist_ok=True)
    figures = measure(options.ops, options.points, options.seed, options.jobs, folder)
    options.out.mkdir(parents=True, exist_ok=True)
    with (options.out / "ulp.csv").open("w", newline="", encoding="utf-8") as file:
        table = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        table.writeheader()
        table.writerows(rows(figures))
    path = options.out / "proof.json"
    proof = json.loads(path.read_text("utf-8")) if path.exists() else {}
    proof["fifty digits"] = {"seed": options.seed, "points": options.points, **summary(figures)}
    path.write_text(json.dumps(proof, indent=1) + "\n", "utf-8")
    page = options.out / "proof.md"
    text = page.read_text("utf-8") if page.exists() else "# Proof\n"
    page.write_text(with_section(text, TITLE, section(figures)), "utf-8")
    beyond = proof["fifty digits"]["beyond their limits"]
    sys.stdout.write(f"{len(beyond)} of {len(figures)} figures beyond their limits {beyond}\n")
    return int(bool(beyond))


if __name__ == "__main__":
    sys.exit(main())
