"""Fetch the data sets that the experiments train on, and check what was fetched.

MNIST and Tiny Shakespeare come from the first mirror that has them. A file is what its
SHA-256 says, wherever it came from: the hash of the decompressed content is compared
before anything is kept. Files that are there already are checked and not fetched again.

The environment variable SMOLGRAD_DATA names a folder that is looked in first. Without
--out, what is fetched goes into the cache folder of the user, where the experiments find
it; with --out, into a folder that SMOLGRAD_DATA can name on a machine without network.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import tyro
from report import check_out, write_bytes

from tensor.data import CorruptDataError, DownloadError
from tensor.data.fetch import FILES, DataFile, fetch

FOLDERS = {"mnist": "mnist", "shakespeare": "tinyshakespeare"}


@dataclass
class Options:
    """Options of the download."""

    sets: tuple[Literal["mnist", "shakespeare"], ...] = ("mnist", "shakespeare")
    """what to fetch"""
    out: Path | None = None
    """a folder to keep the files in, instead of the user's cache"""


def wanted(sets: Sequence[str]) -> list[DataFile]:
    """Return the files of some data sets."""
    return [
        file for name, file in FILES.items() if name.split("/")[0] in {FOLDERS[s] for s in sets}
    ]


def get(file: DataFile, out: Path | None) -> bytes:
    """Return the verified content of a file; with ``out``, see that it lies there."""
    content = fetch(file, cache=out)
    if out is not None:
        path = out / file.name
        if not path.exists() or path.read_bytes() != content:  # it came from SMOLGRAD_DATA
            write_bytes(path, content)
    return content


def main(options: Options) -> None:
    """Fetch every file, say what its hash is, and fail if one could not be had."""
    if not options.sets:
        raise SystemExit("--sets must name at least one of mnist and shakespeare")
    if options.out is not None:
        check_out(options.out)
    failed = 0
    for file in wanted(options.sets):
        try:
            content = get(file, options.out)
        except (CorruptDataError, DownloadError, ImportError, OSError) as error:
            failed += 1
            print(f"{file.name}: {error}", file=sys.stderr)
            continue
        print(f"{hashlib.sha256(content).hexdigest()}  {len(content):>10,} bytes  {file.name}")
    if failed:
        raise SystemExit(f"{failed} of {len(wanted(options.sets))} files could not be had")
    if options.out is not None:
        print(
            f"the files are in {options.out}: set SMOLGRAD_DATA={options.out.resolve()} to use them"
        )


if __name__ == "__main__":
    main(tyro.cli(Options, description=__doc__))
