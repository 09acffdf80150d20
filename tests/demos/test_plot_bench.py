"""The plots of the benchmark, from figures made up for the purpose."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.demos.programs import load

plot_bench = load("plot_bench")

TIMES = {"smolgrad-eager": 3.0, "torch": 4.0, "torch-fused": 2.0, "jax": 1.0}


def content() -> dict[str, Any]:
    """What bench.py would have written."""
    return {
        "threads": 1,
        "load_average": 0.25,
        "rows": [
            {"model": model, "batch": batch, "impl": impl, "min_ms": ms * batch}
            for model, batch in (("mlp", 1), ("mlp", 32), ("char", 256))
            for impl, ms in TIMES.items()
            if (impl, model) != ("jax", "char")
        ],
        "phases": [
            {"impl": impl, "batch": 128, "phase": phase, "min_ms": ms}
            for impl, ms in TIMES.items()
            for phase in ("forward", "backward", "optimizer")
        ],
        "overhead": [
            {"op": op, "what": what, "impl": impl, "min_us": us}
            for op in ("mul", "exp")
            for what in ("forward", "forward and backward")
            for impl, us in (("smolgrad-eager", 3.0), ("micro", 1.0), ("torch", 120.0))
        ],
        "scaling": [
            {"sweep": sweep, "value": value, "impl": impl, "min_ms": ms * value, "peak_mb": 9.0}
            for sweep in ("batch", "width", "depth")
            for value in (1, 32)
            for impl, ms in TIMES.items()
        ],
    }


def test_the_table_has_ratios_to_the_best_of_pytorch() -> None:
    lines = plot_bench.table(content()).splitlines()
    assert "threads 1" in lines[0]
    assert "load average 0.25" in lines[0]
    assert lines[2] == "| | mlp 1 | mlp 32 | char 256 |"
    assert lines[4] == "| smolgrad-eager | 3 (1.50) | 96 (1.50) | 768 (1.50) |"
    assert lines[5] == "| torch | 4 | 128 | 1.02e+03 |"
    assert lines[7] == "| jax | 1 (0.50) | 32 (0.50) |  |"


def test_without_pytorch_there_are_times_and_no_ratios() -> None:
    made = content()
    made["rows"] = [row for row in made["rows"] if not row["impl"].startswith("torch")]
    assert "| smolgrad-eager | 3 | 96 | 768 |" in plot_bench.table(made)


def test_every_section_is_drawn_beside_the_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "bench_threads1.json"
    path.write_text(json.dumps(content()))
    plot_bench.main(plot_bench.Options(files=(path,)))
    printed = capsys.readouterr().out
    for name in ("steps", "phases", "overhead", "scaling_time", "scaling_memory"):
        for suffix in ("svg", "png"):
            drawn = tmp_path / f"bench_threads1_{name}.{suffix}"
            assert drawn.stat().st_size > 500
            assert str(drawn) in printed
    assert "| smolgrad-eager | 3 (1.50)" in printed


def test_files_are_looked_for_where_the_plots_go(tmp_path: Path) -> None:
    (tmp_path / "bench_threads3.json").write_text(json.dumps({"rows": [], **content()}))
    plot_bench.main(plot_bench.Options(out=tmp_path))
    assert (tmp_path / "bench_threads3_steps.svg").stat().st_size > 500


def test_the_same_figures_give_the_same_bytes(tmp_path: Path) -> None:
    for name in ("a", "b"):
        plot_bench.plot_steps(content(), tmp_path / name)
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()


def test_a_system_that_does_not_tell_memory_gets_no_plot_of_it(tmp_path: Path) -> None:
    made = content()
    for row in made["scaling"]:
        row["peak_mb"] = None
    written = plot_bench.plot_scaling(made, tmp_path / "s")
    assert [path.name for path in written] == ["s_time.svg", "s_time.png"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "cannot be read"),
        ("[]", "was not written by bench.py"),
        ('{"rows": []}', "was not written by bench.py"),
    ],
)
def test_a_file_of_another_kind_is_refused(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "x.json"
    path.write_text(text)
    with pytest.raises(SystemExit, match=words):
        plot_bench.main(plot_bench.Options(files=(path,)))


def test_without_files_it_says_what_to_run_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plot_bench, "RESULTS", tmp_path)
    with pytest.raises(SystemExit, match=r"run demos/bench.py first"):
        plot_bench.main(plot_bench.Options())
