"""The download program, with small files in the place of the real ones and no network."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import pytest

from tests.demos.programs import load, offline, run

download_data = load("download_data")
TEXT, DIGITS = b"to be or not to be", b"0123456789"


def data_file(name: str, content: bytes) -> Any:
    return download_data.DataFile(name, hashlib.sha256(content).hexdigest(), len(content))


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that SMOLGRAD_DATA names, with both of the files that there are."""
    folder = tmp_path / "source"
    files = {"tinyshakespeare/input.txt": TEXT, "mnist/digits": DIGITS}
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True)
        (folder / name).write_bytes(content)
    table = {name: data_file(name, content) for name, content in files.items()}
    monkeypatch.setattr(download_data, "FILES", table)
    for name, value in offline(tmp_path).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("SMOLGRAD_DATA", str(folder))
    return folder


def test_the_data_sets_are_those_of_the_experiments() -> None:
    names = [file.name for file in download_data.wanted(("mnist", "shakespeare"))]
    assert len(names) == 5
    assert [f.name for f in download_data.wanted(("shakespeare",))] == ["tinyshakespeare/input.txt"]
    assert all(name.startswith("mnist/") for name in names[:4])


def test_every_file_is_named_with_its_hash(
    source: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    download_data.main(download_data.Options())
    lines = capsys.readouterr().out.splitlines()
    assert [line.split() for line in lines] == [
        [hashlib.sha256(TEXT).hexdigest(), "18", "bytes", "tinyshakespeare/input.txt"],
        [hashlib.sha256(DIGITS).hexdigest(), "10", "bytes", "mnist/digits"],
    ]


def test_the_folder_that_is_written_is_one_that_smolgrad_data_can_name(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    download_data.main(download_data.Options(out=out))
    assert (out / "mnist/digits").read_bytes() == DIGITS
    assert (out / "tinyshakespeare/input.txt").read_bytes() == TEXT
    monkeypatch.setenv("SMOLGRAD_DATA", str(out))
    download_data.main(download_data.Options())


def test_a_damaged_file_in_the_folder_is_replaced(source: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    (out / "mnist").mkdir(parents=True)
    (out / "mnist/digits").write_bytes(b"0123456780")
    download_data.main(download_data.Options(out=out))
    assert (out / "mnist/digits").read_bytes() == DIGITS
    assert [path.name for path in (out / "mnist").iterdir()] == ["digits"]


def test_a_file_that_is_not_what_it_should_be_fails_and_the_others_are_got(
    source: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (source / "mnist/digits").write_bytes(b"0123456780")
    out = tmp_path / "out"
    with pytest.raises(SystemExit, match="1 of 2 files could not be had"):
        download_data.main(download_data.Options(out=out))
    said = capsys.readouterr()
    assert hashlib.sha256(DIGITS).hexdigest() in said.err
    assert "tinyshakespeare/input.txt" in said.out
    assert not (out / "mnist/digits").exists()
    assert (out / "tinyshakespeare/input.txt").read_bytes() == TEXT


def test_without_a_mirror_it_says_where_to_put_the_file(tmp_path: Path) -> None:
    done = run("download_data", "--sets", "shakespeare", **offline(tmp_path))
    assert done.returncode == 1
    assert "could not be had from any mirror" in done.stderr
    assert "SMOLGRAD_DATA" in done.stderr
    assert "Traceback" not in done.stderr


def test_no_set_is_refused() -> None:
    with pytest.raises(SystemExit, match="--sets must name at least one"):
        download_data.main(download_data.Options(sets=()))
