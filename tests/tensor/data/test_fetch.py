"""Fetching: the order of places, the checks, and every way in which a mirror can fail."""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import sys
import tarfile
import tracemalloc
from dataclasses import replace
from pathlib import Path

import pooch
import pytest

from tensor.data import CorruptDataError, DownloadError
from tensor.data.fetch import FILES, DataFile, NpmMember, Url, fetch, verified
from tests.tensor.data.conftest import MirrorServer

CONTENT = bytes(range(256)) * 40
GZIPPED = gzip.compress(CONTENT, mtime=0)  # the same bytes in every process
HTML = b"\n<!DOCTYPE html><html><body>Please log in</body></html>"
FILE = DataFile("set/values", hashlib.sha256(CONTENT).hexdigest(), len(CONTENT))


def flipped(data: bytes, position: int) -> bytes:
    return data[:position] + bytes([data[position] ^ 1]) + data[position + 1 :]


def stored(folder: Path) -> dict[str, bytes]:
    """Every file below a folder."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "cache"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "root" / "set").mkdir(parents=True)
    return tmp_path / "root"


# What is one's own


@pytest.mark.parametrize(("name", "data"), [("values", CONTENT), ("values.gz", GZIPPED)])
def test_a_folder_of_ones_own_comes_first_gzipped_or_not(
    root: Path, cache: Path, monkeypatch: pytest.MonkeyPatch, name: str, data: bytes
) -> None:
    (root / "set" / name).write_bytes(data)
    assert fetch(FILE, root=root, cache=cache) == CONTENT
    monkeypatch.setenv("SMOLGRAD_DATA", str(root))
    assert fetch(FILE, cache=cache) == CONTENT
    assert not cache.exists()


def test_a_raw_file_with_a_gz_name_is_read_by_its_content(root: Path) -> None:
    (root / "set" / "values.gz").write_bytes(CONTENT)
    assert fetch(FILE, root=root) == CONTENT


def test_a_folder_of_ones_own_needs_neither_pooch_nor_tqdm(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (root / "set" / "values").write_bytes(CONTENT)
    monkeypatch.setitem(sys.modules, "pooch", None)
    monkeypatch.setitem(sys.modules, "tqdm", None)
    assert fetch(FILE, root=root) == CONTENT


def test_a_folder_without_the_file_is_noted_and_the_mirrors_are_asked(
    root: Path, cache: Path, server: MirrorServer, caplog: pytest.LogCaptureFixture
) -> None:
    file = replace(FILE, mirrors=(server.answer("values", CONTENT),))
    assert fetch(file, root=root, cache=cache) == CONTENT
    assert f"{root} has neither set/values nor set/values.gz" in caplog.text


DAMAGED = {
    "truncated gzip": (GZIPPED[:-20], "a truncated gzip file"),
    "gzip without its checksum": (GZIPPED[:-8], "a truncated gzip file"),
    "flipped byte in gzip": (flipped(GZIPPED, len(GZIPPED) // 2), "a damaged gzip file"),
    "gzip with a tail": (GZIPPED + b"tail", "followed by 4 other bytes"),
    "flipped byte": (flipped(CONTENT, 100), "the right size, but altered"),
    "gzip of other content": (gzip.compress(flipped(CONTENT, 0)), "altered"),
    "HTML page": (HTML, "an HTML page"),
    "gzipped HTML page": (gzip.compress(HTML), "an HTML page"),
    "too short": (CONTENT[:-1], "10239 bytes, wanted 10240"),
    "too long": (CONTENT + b"!", "more than the 10240 bytes wanted"),
    "gzip of too much": (gzip.compress(CONTENT * 2), "a gzip file of 10241 bytes or more"),
    "empty": (b"", "0 bytes, wanted 10240"),
}


@pytest.mark.parametrize(("data", "reason"), DAMAGED.values(), ids=DAMAGED.keys())
def test_a_damaged_file_of_ones_own_is_named_with_both_hashes_and_the_remedy(
    root: Path, cache: Path, data: bytes, reason: str
) -> None:
    path = root / "set" / "values"
    path.write_bytes(data)
    with pytest.raises(CorruptDataError) as caught:
        fetch(FILE, root=root, cache=cache)
    message = str(caught.value)
    assert str(path) in message and FILE.name in message and reason in message
    assert f"expected content of SHA-256 {FILE.sha256}, found " in message
    assert message.count(FILE.sha256) == 1
    assert message.endswith("Replace the file, or take it away to have it downloaded.")
    assert path.read_bytes() == data and not cache.exists()


def test_the_hash_that_is_reported_is_that_of_the_content_found() -> None:
    altered = flipped(CONTENT, 3)
    with pytest.raises(CorruptDataError, match=f"found {hashlib.sha256(altered).hexdigest()}"):
        verified(FILE, gzip.compress(altered), "here")


def test_a_decompression_bomb_is_never_decompressed_beyond_the_size_wanted() -> None:
    bomb = gzip.compress(bytes(64 << 20))
    tracemalloc.start()
    try:
        with pytest.raises(CorruptDataError, match="10241 bytes or more, wanted 10240"):
            verified(FILE, bomb, "here")
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 1 << 20


# The cache


def test_a_download_is_kept_and_not_asked_for_twice(cache: Path, server: MirrorServer) -> None:
    file = replace(FILE, mirrors=(server.answer("values.gz", GZIPPED),))
    assert fetch(file, cache=cache) == CONTENT
    assert stored(cache) == {"set/values": CONTENT}
    assert fetch(file, cache=cache) == CONTENT
    assert server.asked == ["values.gz"]


def test_the_cache_is_by_default_the_users_for_this_library(
    cache: Path, server: MirrorServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pooch, "os_cache", lambda name: cache / name)
    fetch(replace(FILE, mirrors=(server.answer("values", CONTENT),)))
    assert stored(cache) == {"smolgrad/set/values": CONTENT}


@pytest.mark.parametrize("data", [CONTENT[:-1], flipped(CONTENT, 9), HTML, b""])
def test_a_damaged_cache_is_noted_and_replaced(
    cache: Path, server: MirrorServer, caplog: pytest.LogCaptureFixture, data: bytes
) -> None:
    (cache / "set").mkdir(parents=True)
    (cache / "set" / "values").write_bytes(data)
    file = replace(FILE, mirrors=(server.answer("values", CONTENT),))
    assert fetch(file, cache=cache) == CONTENT
    assert stored(cache) == {"set/values": CONTENT}
    assert "it is downloaded again" in caplog.text


@pytest.mark.parametrize("data", [data for data, _ in DAMAGED.values()], ids=DAMAGED.keys())
def test_the_cache_never_holds_an_unverified_file(
    cache: Path, server: MirrorServer, data: bytes
) -> None:
    file = replace(FILE, mirrors=(server.answer("values", data),))
    with pytest.raises(DownloadError, match="found"):
        fetch(file, cache=cache)
    assert not cache.exists()


@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_an_interruption_while_writing_leaves_nothing(
    cache: Path, server: MirrorServer, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    def interrupted(*args: object) -> None:
        raise KeyboardInterrupt

    file = replace(FILE, mirrors=(server.answer("values", CONTENT),))
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(os, step, interrupted)
        fetch(file, cache=cache)
    assert stored(cache) == {}
    assert fetch(file, cache=cache) == CONTENT


def test_a_leftover_of_a_killed_download_is_not_used(cache: Path, server: MirrorServer) -> None:
    (cache / "set").mkdir(parents=True)
    (cache / "set" / "values.abc.part").write_bytes(CONTENT[:500])
    file = replace(FILE, mirrors=(server.answer("values", CONTENT),))
    assert fetch(file, cache=cache) == CONTENT
    assert server.asked == ["values"]


def test_a_cache_that_cannot_be_written_is_noted_and_the_data_still_used(
    tmp_path: Path, server: MirrorServer, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").write_text("not a folder")
    file = replace(FILE, mirrors=(server.answer("values", CONTENT),))
    assert fetch(file, cache=tmp_path / "file") == CONTENT
    assert "set/values could not be kept in the cache" in caplog.text


# The mirrors


@pytest.mark.parametrize(
    ("status", "body", "reason"),
    [
        (403, b"Forbidden", "403"),
        (404, b"", "404"),
        (503, HTML, "503"),
        (200, HTML, "an HTML page"),
        (200, GZIPPED[:50], "a truncated gzip file"),
        (200, CONTENT * 2, "sends more than the 14346 bytes"),
    ],
)
def test_a_mirror_that_answers_otherwise_is_passed_over_with_a_note(
    cache: Path,
    server: MirrorServer,
    caplog: pytest.LogCaptureFixture,
    status: int,
    body: bytes,
    reason: str,
) -> None:
    bad, good = server.answer("bad", body, status), server.answer("good", GZIPPED)
    assert fetch(replace(FILE, mirrors=(bad, good)), cache=cache) == CONTENT
    assert server.asked == ["bad", "good"]
    [note] = caplog.messages
    assert "passed over" in note and bad.url in note and reason in note


def test_a_mirror_that_hangs_up_is_passed_over(
    cache: Path, server: MirrorServer, caplog: pytest.LogCaptureFixture
) -> None:
    bad = server.answer("bad", CONTENT[:100])
    server.headers["Content-Length"] = str(len(CONTENT))
    with pytest.raises(DownloadError, match=r"/bad: \w+"):
        fetch(replace(FILE, mirrors=(bad,)), cache=cache)
    assert not cache.exists()


def test_a_mirror_that_compresses_on_the_way_is_understood(
    cache: Path, server: MirrorServer
) -> None:
    good = server.answer("values.gz", GZIPPED)
    server.headers["Content-Encoding"] = "gzip"
    assert fetch(replace(FILE, mirrors=(good,)), cache=cache) == CONTENT


def test_a_mirror_that_does_not_answer_is_passed_over_in_time(
    cache: Path, server: MirrorServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tensor.data.fetch.READ_TIMEOUT", 0.1)
    stalled, good = server.answer("stall", CONTENT), server.answer("good", CONTENT)
    assert fetch(replace(FILE, mirrors=(stalled, good)), cache=cache) == CONTENT
    assert server.asked == ["stall", "good"]


def test_a_mirror_that_is_too_slow_is_passed_over(
    cache: Path, server: MirrorServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tensor.data.fetch.MIRROR_TIMEOUT", -1.0)
    slow = server.answer("slow", CONTENT)
    with pytest.raises(DownloadError, match="slow: TimeoutError: not done after"):
        fetch(replace(FILE, mirrors=(slow,)), cache=cache)


def test_when_all_mirrors_fail_one_error_names_file_mirrors_answers_and_remedy(
    cache: Path, server: MirrorServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    mirrors = (
        server.answer("forbidden", b"", 403),
        server.answer("page", HTML),
        Url("http://127.0.0.1:1/closed"),
        Url("no address"),
        NpmMember("values@1", "package/values"),
    )
    with pytest.raises(DownloadError) as caught:
        fetch(replace(FILE, mirrors=mirrors), cache=cache)
    head, *answers, remedy = str(caught.value).splitlines()
    assert head == "set/values could not be had from any mirror:"
    assert [
        answer.startswith(f"  {mirror}") for answer, mirror in zip(answers, mirrors, strict=True)
    ] == [True] * 5
    assert "403" in answers[0]
    assert "an HTML page" in answers[1] and FILE.sha256 in answers[1]
    assert "refused" in answers[2]
    assert "npm is not installed" in answers[4]
    assert "set/values[.gz]" in remedy and "SMOLGRAD_DATA" in remedy


@pytest.mark.parametrize("module", ["pooch", "tqdm"])
def test_a_missing_library_is_named_with_the_extra_that_has_it(
    cache: Path, server: MirrorServer, monkeypatch: pytest.MonkeyPatch, module: str
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    file = replace(FILE, mirrors=(server.answer("values", CONTENT),))
    with pytest.raises(ImportError, match=rf"{module}.*pip install 'smolgrad\[train\]'"):
        fetch(file, cache=cache)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(("stream", "shown"), [(io.StringIO, False), (Terminal, True)])
def test_the_progress_bar_is_shown_on_a_terminal_only(
    cache: Path,
    server: MirrorServer,
    monkeypatch: pytest.MonkeyPatch,
    stream: type[io.StringIO],
    shown: bool,
) -> None:
    monkeypatch.setattr(sys, "stderr", stream())
    fetch(replace(FILE, mirrors=(server.answer("values", CONTENT),)), cache=cache)
    said = sys.stderr.getvalue()
    assert ("set/values" in said and "100%" in said) if shown else said == ""


# The npm mirror, with a program of that name that brings a package made here


MEMBER = NpmMember("values@1.0.0", "package/data/values")


def npm(folder: Path, monkeypatch: pytest.MonkeyPatch, code: str) -> None:
    """Put a program ``npm`` on the path, and nothing else."""
    folder.mkdir(exist_ok=True)
    program = folder / "npm"
    program.write_text(f"#!{sys.executable}\nimport pathlib, sys, time\n{code}")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(folder))


def package(path: Path, *members: tuple[tarfile.TarInfo, bytes]) -> Path:
    with tarfile.open(path, "w:gz") as archive:
        for info, data in members:
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return path


def entry(name: str, kind: bytes = tarfile.REGTYPE, link: str = "") -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, link
    return info


def delivering(tarball: Path) -> str:
    return (
        "assert sys.argv[1:] == ['pack', 'values@1.0.0', '--ignore-scripts'], sys.argv\n"
        f"pathlib.Path('values-1.0.0.tgz').write_bytes(pathlib.Path({str(tarball)!r}).read_bytes())"
    )


def test_a_member_of_an_npm_package_is_read_and_nothing_unpacked(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()
    tarball = package(
        tmp_path / "made.tgz",
        (entry("../escaped"), b"!"),
        (entry("package/data/other"), b"other"),
        (entry(MEMBER.member), CONTENT),
    )
    npm(tmp_path / "bin", monkeypatch, delivering(tarball))
    assert fetch(replace(FILE, mirrors=(MEMBER,)), cache=cache) == CONTENT
    assert set(stored(tmp_path)) == {"made.tgz", "bin/npm", "cache/set/values"}


@pytest.mark.parametrize(
    ("members", "reason"),
    [
        ([(entry("package/other"), CONTENT)], "the package has no file package/data/values"),
        ([(entry(MEMBER.member, tarfile.SYMTYPE, "/etc/hosts"), b"")], "the package has no file"),
        ([(entry(MEMBER.member), flipped(CONTENT, 5))], "the right size, but altered"),
        ([(entry(MEMBER.member), CONTENT * 9)], "more than the 10240 bytes wanted"),
    ],
    ids=["missing", "symbolic link", "altered", "too long"],
)
def test_a_package_with_another_member_is_a_mirror_that_failed(
    cache: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    members: list[tuple[tarfile.TarInfo, bytes]],
    reason: str,
) -> None:
    npm(tmp_path / "bin", monkeypatch, delivering(package(tmp_path / "made.tgz", *members)))
    with pytest.raises(DownloadError, match=f"npm pack values@1.0.0.*{reason}"):
        fetch(replace(FILE, mirrors=(MEMBER,)), cache=cache)
    assert not cache.exists()


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("sys.exit('npm error code ENOTFOUND')", "npm failed and said: npm error code ENOTFOUND"),
        ("sys.exit(3)", "npm failed and said: nothing"),
        ("", "npm made no package file"),
        ("pathlib.Path('a.tgz').write_bytes(b'no tarball')", "the package cannot be read"),
        ("pathlib.Path('a.tgz').write_bytes(b'\\x1f\\x8b\\x08')", "the package cannot be read"),
        ("time.sleep(60)", "not done after"),
    ],
)
def test_an_npm_that_fails_is_a_mirror_that_failed(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: str, reason: str
) -> None:
    monkeypatch.setattr("tensor.data.fetch.MIRROR_TIMEOUT", 0.5 if "sleep" in code else 60.0)
    npm(tmp_path / "bin", monkeypatch, code)
    with pytest.raises(DownloadError, match=f"npm pack values@1.0.0: .*{reason}"):
        fetch(replace(FILE, mirrors=(MEMBER,)), cache=cache)


# The table


def test_the_table_has_each_file_with_its_hash_its_size_and_public_mirrors() -> None:
    assert {name: file.size for name, file in FILES.items()} == {
        "mnist/train-images-idx3-ubyte": 16 + 60_000 * 784,
        "mnist/train-labels-idx1-ubyte": 8 + 60_000,
        "mnist/t10k-images-idx3-ubyte": 16 + 10_000 * 784,
        "mnist/t10k-labels-idx1-ubyte": 8 + 10_000,
        "tinyshakespeare/input.txt": 1_115_394,
    }
    assert len({file.sha256 for file in FILES.values()}) == len(FILES)
    for name, file in FILES.items():
        assert file.name == name and len(bytes.fromhex(file.sha256)) == 32
        addresses = [mirror.url for mirror in file.mirrors if isinstance(mirror, Url)]
        assert len(addresses) >= 2 and all(url.startswith("https://") for url in addresses)
        packages = [mirror for mirror in file.mirrors if isinstance(mirror, NpmMember)]
        assert [member.member.rpartition("/")[2] for member in packages] == (
            [name.rpartition("/")[2]] if name.startswith("mnist") else []
        )
