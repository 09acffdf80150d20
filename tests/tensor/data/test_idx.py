"""The IDX parser: what it reads and what it refuses before it allocates anything."""

from __future__ import annotations

import struct
from collections.abc import Callable

import numpy as np
import pytest

from tensor.data.idx import parse_idx, parse_labels


def idx(array: np.ndarray, magic: int | None = None, sizes: tuple[int, ...] | None = None) -> bytes:
    """An IDX file of unsigned bytes; ``magic`` and ``sizes`` may lie."""
    magic = 0x0800 + array.ndim if magic is None else magic
    sizes = array.shape if sizes is None else sizes
    return struct.pack(f">I{len(sizes)}I", magic, *sizes) + array.astype(np.uint8).tobytes()


IMAGES = np.arange(24).reshape(2, 3, 4)


def test_an_array_comes_back_as_it_was_written() -> None:
    read = parse_idx(idx(IMAGES), "images", (None, 3, 4))
    assert read.dtype == np.uint8
    assert np.array_equal(read, IMAGES)


def test_the_array_is_a_view_of_the_bytes() -> None:
    content = idx(IMAGES)
    read = parse_idx(content, "images", (None, None, None))
    assert np.shares_memory(read, np.frombuffer(content, np.uint8))
    assert not read.flags.writeable


def test_no_samples_are_an_empty_array() -> None:
    assert parse_idx(idx(IMAGES[:0]), "images", (None, 3, 4)).shape == (0, 3, 4)
    assert parse_labels(idx(np.array([])), "labels").shape == (0,)


def test_labels_come_back_as_they_were_written() -> None:
    assert parse_labels(idx(np.array([9, 0, 5])), "labels").tolist() == [9, 0, 5]


REFUSED: dict[str, tuple[Callable[[], object], str]] = {
    "magic number": (
        lambda: parse_idx(idx(IMAGES, magic=0x0D03), "images", (None, 3, 4)),
        "images: magic number is 0x00000d03, wanted 0x00000803",
    ),
    "dimensions": (
        lambda: parse_idx(idx(np.arange(30)), "labels", (None, 3, 4)),
        "labels: magic number is 0x00000801, wanted 0x00000803",
    ),
    "gzip": (
        lambda: parse_idx(b"\x1f\x8b\x08\x00" + bytes(30), "images", (None, 3, 4)),
        "images: magic number is 0x1f8b0800",
    ),
    "size of an image": (
        lambda: parse_idx(idx(IMAGES), "images", (None, 28, 4)),
        "images: size of dimension 1 is 3, wanted 28",
    ),
    "number of samples": (
        lambda: parse_idx(idx(IMAGES), "images", (7, 3, 4)),
        "images: size of dimension 0 is 2, wanted 7",
    ),
    "missing data": (
        lambda: parse_idx(idx(IMAGES)[:-1], "images", (None, 3, 4)),
        r"images: data has 23 bytes, wanted 24 for sizes \(2, 3, 4\)",
    ),
    "extra data": (
        lambda: parse_idx(idx(IMAGES) + b"!", "images", (None, 3, 4)),
        "images: data has 25 bytes, wanted 24",
    ),
    "sizes whose product overflows 64 bits": (
        lambda: parse_idx(idx(IMAGES, sizes=(2**32 - 1,) * 3), "images", (None, None, None)),
        f"images: data has 24 bytes, wanted {(2**32 - 1) ** 3}",
    ),
    "no header": (
        lambda: parse_idx(b"", "images", (None,)),
        "images: header has 0 bytes, wanted 8",
    ),
    "half a header": (
        lambda: parse_idx(idx(IMAGES)[:15], "images", (None, 3, 4)),
        "images: header has 15 bytes, wanted 16",
    ),
    "label above 9": (
        lambda: parse_labels(idx(np.array([3, 10])), "labels"),
        "labels: label 1 is 10, wanted one from 0 to 9",
    ),
}


@pytest.mark.parametrize(("parse", "message"), REFUSED.values(), ids=REFUSED.keys())
def test_a_file_that_does_not_fit_is_refused_with_file_field_found_and_wanted(
    parse: Callable[[], object], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        parse()
