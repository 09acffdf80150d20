"""Time the ways to add rows into a table at places that repeat.

Question: what is the fastest scatter-add that numpy has, and where does that change?

The gradient of an embedding adds row i of (rows, width) to row indices[i] of a table. Three
ways to do it, timed in turn over numbers of rows and sizes of the table:

  add.at    np.add.at, numpy's own
  one-hot   a (table, rows) matrix of zeros and ones times the rows
  sort      rows sorted by index, and np.add.reduceat over each run of equals

and beside them the engine: a loop that numba compiles where that is installed, otherwise
the second way up to a limit and the third above.
All are first checked to give the same sums.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import tyro
from report import (
    RESULTS,
    STYLES,
    check_out,
    check_range,
    command,
    environment,
    figure,
    limit_threads,
    log_ticks,
    progress,
    rounded,
    save_figure,
    tagged,
    wait_for_quiet,
    write_csv,
    write_json,
)

from tensor import Generator
from tensor.kernels.scatter import ONE_HOT_LIMIT, add_rows

# A one-hot matrix of more entries than this is not made: it would take hundreds of megabytes.
LARGEST_ONE_HOT = 2**25

Strategy = Callable[[np.ndarray, np.ndarray, int], np.ndarray]

# (rows, table): the character model's embedding, a language model's, and sizes between.
CASES = (
    (256, 65),
    (4_096, 65),
    (4_096, 128),
    (4_096, 256),
    (4_096, 1_024),
    (8_192, 2_048),
    (8_192, 8_192),
    (8_192, 50_257),
)


@dataclass
class Options:
    """Options of the measurement."""

    width: int = 32
    """numbers in a row"""
    cases: tuple[tuple[int, int], ...] = CASES
    """pairs of a number of rows and a size of the table"""
    repeats: int = 15
    """how often each way is timed, in turn with the others"""
    seed: int = 0
    """of the rows and their places"""
    threads: int | None = None
    """threads of the matrix products; by default one for each core"""
    wait_load: float | None = None
    """wait until the load average of the last minute is below this"""
    tag: str = ""
    """added to the names of the results"""
    out: Path = RESULTS
    """the folder that the results go to"""


def by_add_at(values: np.ndarray, indices: np.ndarray, table: int) -> np.ndarray:
    """Add with np.add.at."""
    out = np.zeros((table, values.shape[1]), values.dtype)
    np.add.at(out, indices, values)
    return out


def by_one_hot(values: np.ndarray, indices: np.ndarray, table: int) -> np.ndarray:
    """Add with a matrix product."""
    one_hot = np.equal(np.arange(table)[:, None], indices).astype(values.dtype)
    return np.matmul(one_hot, values)


def by_sort(values: np.ndarray, indices: np.ndarray, table: int) -> np.ndarray:
    """Add runs of rows with equal indices."""
    out = np.zeros((table, values.shape[1]), values.dtype)
    order = np.argsort(indices, kind="stable")
    places = indices[order]
    starts = np.flatnonzero(np.r_[True, places[1:] != places[:-1]])
    out[places[starts]] = np.add.reduceat(values[order], starts, axis=0)
    return out


STRATEGIES: Mapping[str, Strategy] = {
    "add.at": by_add_at,
    "one-hot": by_one_hot,
    "sort": by_sort,
    "engine": add_rows,
}


def possible(rows: int, table: int) -> dict[str, Strategy]:
    """Return the ways that are worth trying at a size."""
    return {
        name: strategy
        for name, strategy in STRATEGIES.items()
        if name != "one-hot" or rows * table <= LARGEST_ONE_HOT
    }


def check_equal(values: np.ndarray, indices: np.ndarray, table: int) -> None:
    """Leave with a message unless all ways give the same sums, to rounding."""
    wanted = by_add_at(values.astype(np.float64), indices, table)
    bound = 1e-5 * by_add_at(np.abs(values).astype(np.float64), indices, table)
    for name, strategy in possible(len(indices), table).items():
        if (np.abs(strategy(values, indices, table) - wanted) > bound).any():
            raise SystemExit(
                f"{name} does not add up, at {len(indices)} rows and a table of {table}"
            )


def measure(options: Options) -> list[dict[str, Any]]:
    """Return a row of times for every case and way."""
    rows: list[dict[str, Any]] = []
    generator = Generator(options.seed)
    for count, table in progress(options.cases, unit="case"):
        values = generator.normal(shape=(count, options.width))
        indices = generator.integers(0, table, count)
        check_equal(values, indices, table)
        ways = possible(count, table)
        times: dict[str, list[float]] = {name: [] for name in ways}
        for _ in range(options.repeats):
            for i in generator.permutation(len(ways)):
                name, strategy = list(ways.items())[i]
                strategy(values, indices, table)  # what the last way left in the caches is gone
                start = time.perf_counter()
                strategy(values, indices, table)
                times[name].append(1e3 * (time.perf_counter() - start))
        slowest = min(times["add.at"])
        rows += [
            {
                "rows": count,
                "table": table,
                "width": options.width,
                "way": name,
                "min_ms": rounded(min(taken), 4),
                "median_ms": rounded(np.median(taken), 4),
                "times_as_fast_as_add_at": rounded(slowest / min(taken), 3),
                "load_average": round(os.getloadavg()[0], 2),
            }
            for name, taken in times.items()
        ]
    return rows


def plot(rows: list[dict[str, Any]], stem: Path) -> list[Path]:
    """Draw how many times as fast as np.add.at each way is, by rows x table."""
    drawing, ax = figure(1, width=6.6, height=4.2)
    for name, style in zip([n for n in STRATEGIES if n != "add.at"], STYLES, strict=False):
        mine = sorted(
            (r["rows"] * r["table"], r["times_as_fast_as_add_at"]) for r in rows if r["way"] == name
        )
        ax.plot(*zip(*mine, strict=True), label=name, **style)
    ax.axhline(1, color="#555555", linewidth=1)
    ax.annotate(
        "np.add.at",
        (0, 1),
        xycoords=("axes fraction", "data"),
        xytext=(4, 3),
        textcoords="offset points",
        color="#333333",
    )
    ax.axvline(ONE_HOT_LIMIT, color="#555555", linewidth=1, linestyle=(0, (1, 2)))
    ax.annotate(
        "the engine changes over",
        (ONE_HOT_LIMIT, 0.98),
        xycoords=("data", "axes fraction"),
        xytext=(4, 0),
        textcoords="offset points",
        va="top",
        color="#333333",
    )
    ax.set(
        title=f"Adding rows of {rows[0]['width']} numbers into a table",
        xlabel="rows x size of the table",
        ylabel="times as fast as np.add.at",
        xscale="log",
        yscale="log",
    )
    log_ticks(ax)
    ax.legend()
    return save_figure(drawing, stem)


def main(options: Options) -> None:
    """Measure, report, and write the results."""
    check_out(options.out)
    check_range("width", options.width, 1)
    check_range("repeats", options.repeats, 1)
    check_range("seed", options.seed, 0)
    if not options.cases:
        raise SystemExit("--cases must name at least one pair of rows and table")
    for case in options.cases:
        for size in case:
            check_range("cases", size, 1)
    threads = limit_threads(options.threads)
    wait_for_quiet(options.wait_load)
    place = environment(threads, ("numpy", "smolgrad"))
    rows = measure(options)
    print(f"{'rows':>6} {'table':>7}  " + "  ".join(f"{name:>9}" for name in STRATEGIES) + "  ms")
    for count, table in options.cases:
        taken = {r["way"]: r["min_ms"] for r in rows if (r["rows"], r["table"]) == (count, table)}
        shown = (f"{taken[name]:9.3f}" if name in taken else f"{'-':>9}" for name in STRATEGIES)
        print(f"{count:6} {table:7}  " + "  ".join(shown))
    stem = options.out / tagged("bench_scatter", options.tag)
    written = [
        write_csv(stem.with_name(stem.name + ".csv"), rows),
        write_json(
            stem.with_name(stem.name + ".json"),
            {"command": command(), "one_hot_limit": ONE_HOT_LIMIT, "rows": rows, **place},
        ),
        *plot(rows, stem),
    ]
    print("written: " + ", ".join(str(path) for path in written))


if __name__ == "__main__":
    main(tyro.cli(Options, description=__doc__))
