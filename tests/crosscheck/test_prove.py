"""The proof that is run in full: it resumes, it says what it found, and it can fail."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tensor.dispatch import OPS, Rule
from tests.crosscheck import prove
from tests.crosscheck.bounds import C


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prove, "BLOCK", 4)


def run(folder: Path, programs: int = 10, exact: int = 4) -> tuple[int, dict[str, Any]]:
    arguments = ["--programs", str(programs), "--exact", str(exact), "--jobs", "1"]
    arguments += ["--out", str(folder / "results"), "--state", str(folder / "state")]
    status = prove.main(arguments)
    return status, json.loads((folder / "results/proof.json").read_text("utf-8"))


def test_the_figures_are_written_for_machines_and_for_readers(tmp_path: Path) -> None:
    status, proof = run(tmp_path)
    random, exact = proof["random programs"], proof["exact programs"]
    assert status == 0
    assert random["programs"] == 10 and random["failure count"] == 0 < random["numbers compared"]
    assert random["pairs hit"] >= 10 and len(random["pairs not hit"]) == prove.KEPT
    assert 0 < max(random["worst error in units of u B"].values()) < C == random["allowed"]
    assert exact["drawn"] == 4 and 0 < exact["exact"] <= 4 and exact["failure count"] == 0
    page = (tmp_path / "results/proof.md").read_text("utf-8")
    assert "| programs | 10 |" in page and "| unexplained differences | 0 |" in page


def test_a_run_goes_on_where_another_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    _, short = run(tmp_path, programs=4)
    assert "0 of 2 blocks are done already" in capsys.readouterr().err
    _, longer = run(tmp_path, programs=12)
    assert "2 of 4 blocks are done already" in capsys.readouterr().err
    assert longer["random programs"]["programs"] == 12
    assert longer["exact programs"] == short["exact programs"]
    monkeypatch.setattr(prove, "digest", lambda: "another")
    run(tmp_path, programs=4)
    assert "0 of 2 blocks are done already" in capsys.readouterr().err


def test_a_block_that_was_cut_short_is_done_again(tmp_path: Path) -> None:
    run(tmp_path, programs=4)
    (done,) = (tmp_path / "state").glob("*/random-*.json")
    done.rename(done.with_suffix(".part"))
    assert run(tmp_path, programs=4)[1]["random programs"]["programs"] == 4


def test_figures_of_others_are_kept(tmp_path: Path) -> None:
    (tmp_path / "results").mkdir()
    (tmp_path / "results/proof.json").write_text('{"digits": {"worst": 1}}', "utf-8")
    page = tmp_path / "results/proof.md"
    page.write_text("# Proof\n\n## Other\n\ntext\n", "utf-8")
    for _ in range(2):
        assert run(tmp_path, programs=4)[1]["digits"] == {"worst": 1}
    text = page.read_text("utf-8")
    assert text.startswith("# Proof\n\n## Other\n\ntext\n\n## Random programs")
    assert text.count("\n## ") == 4


def test_a_fault_fails_the_run_and_is_shown_as_a_small_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prove, "PAIRS", [("sub", "mul")])
    names = OPS["sub"].rules["b"].names
    monkeypatch.setitem(OPS["sub"].rules, "b", Rule(lambda xp, g: g, names))
    status, proof = run(tmp_path, programs=8)
    assert status == 1
    assert proof["random programs"]["failure count"] > 0
    page = (tmp_path / "results/proof.md").read_text("utf-8")
    assert "Step(op='sub'" in page and "gradient" in page


def test_a_crash_is_a_failure_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prove, "PAIRS", [("exp", "mul")])

    def crash(xp: Any, g: Any, out: Any) -> Any:
        raise ValueError("no such thing")

    monkeypatch.setitem(OPS["exp"].rules, "a", Rule(crash, ("out",)))
    status, proof = run(tmp_path, programs=8)
    assert status == 1
    assert "no such thing" in proof["random programs"]["failures"][0]["what"]


@pytest.mark.parametrize("argument", ["--programs", "--jobs"])
def test_a_negative_count_is_refused(
    argument: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit, match="2"):
        prove.main([argument, "-1", "--out", str(tmp_path), "--state", str(tmp_path)])
    assert f"{argument} must" in capsys.readouterr().err
