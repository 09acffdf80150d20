"""The scatter-add benchmark: its ways agree, a wrong one is refused, its files are complete."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.demos.programs import load

bench = load("bench_scatter")


def rows_and_places(count: int, table: int) -> tuple[np.ndarray, np.ndarray]:
    generator = bench.Generator(0)
    return generator.normal(shape=(count, 3)), generator.integers(0, table, count)


@pytest.mark.parametrize("name", ["one-hot", "sort", "engine"])
@pytest.mark.parametrize("table", [1, 7, 1_000])
def test_every_way_adds_what_add_at_adds(name: str, table: int) -> None:
    values, indices = rows_and_places(50, table)
    wanted = bench.by_add_at(values, indices, table)
    assert bench.STRATEGIES[name](values, indices, table) == pytest.approx(wanted, abs=1e-5)


def test_a_way_that_overwrites_instead_of_adding_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def overwriting(values: np.ndarray, indices: np.ndarray, table: int) -> np.ndarray:
        out = np.zeros((table, values.shape[1]), values.dtype)
        out[indices] = values
        return out

    bench.check_equal(*rows_and_places(50, 7), 7)
    monkeypatch.setattr(bench, "STRATEGIES", {**bench.STRATEGIES, "sort": overwriting})
    with pytest.raises(SystemExit, match="sort does not add up, at 50 rows and a table of 7"):
        bench.check_equal(*rows_and_places(50, 7), 7)


def test_a_huge_one_hot_matrix_is_not_made() -> None:
    assert "one-hot" in bench.possible(4_096, 65)
    assert "one-hot" not in bench.possible(8_192, 50_257)


def test_it_writes_a_row_for_every_case_and_way(tmp_path: Path) -> None:
    bench.main(
        bench.Options(cases=((64, 5), (128, 9)), repeats=2, threads=1, tag="t", out=tmp_path)
    )
    with (tmp_path / "bench_scatter_t.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [(r["rows"], r["table"]) for r in rows] == [("64", "5")] * 4 + [("128", "9")] * 4
    assert [r["way"] for r in rows[:4]] == ["add.at", "one-hot", "sort", "engine"]
    for row in rows:
        assert 0 < float(row["min_ms"]) <= float(row["median_ms"])
        assert float(row["load_average"]) >= 0
    summary = json.loads((tmp_path / "bench_scatter_t.json").read_text())
    assert {"load_average", "versions", "threads", "command", "one_hot_limit"} <= set(summary)
    for suffix in ("svg", "png"):
        assert (tmp_path / f"bench_scatter_t.{suffix}").stat().st_size > 500


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"width": 0}, "--width must be at least 1, got 0"),
        ({"repeats": 0}, "--repeats must be at least 1, got 0"),
        ({"cases": ((4, 0),)}, "--cases must be at least 1, got 0"),
        ({"cases": ()}, "--cases must name at least one pair"),
    ],
)
def test_a_bad_option_is_named(options: dict[str, Any], words: str) -> None:
    with pytest.raises(SystemExit, match=words):
        bench.main(bench.Options(**options))
