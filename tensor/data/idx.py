"""The IDX format of MNIST: a magic number, the sizes, then the bytes.

Offset 0 holds two zero bytes, the type code (0x08: unsigned byte) and the number of dimensions;
then each size follows as a big-endian 32-bit number, and then the elements in C order.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

__all__ = ["parse_idx", "parse_labels"]


def parse_idx(content: bytes, name: str, shape: Sequence[int | None]) -> NDArray[np.uint8]:
    """Return the array of bytes in an IDX file: a read-only view, nothing is allocated.

    Args:
        content: the file, decompressed.
        name: the file's name, for messages.
        shape: the sizes that it must have; None leaves one open.

    Raises:
        ValueError: the magic number, a size or the length is not what it must be; the message
            names the file, the field, what it holds and what was wanted.

    >>> parse_idx(bytes([0, 0, 8, 1, 0, 0, 0, 2, 7, 9]), "two", [None]).tolist()
    [7, 9]
    """
    start = 4 + 4 * len(shape)
    if len(content) < start:
        raise ValueError(f"{name}: header has {len(content)} bytes, wanted {start}")
    magic = int.from_bytes(content[:4], "big")
    if magic != 0x0800 + len(shape):
        raise ValueError(
            f"{name}: magic number is 0x{magic:08x}, wanted 0x{0x0800 + len(shape):08x} "
            f"(unsigned bytes, {len(shape)} dimensions)"
        )
    sizes = [int.from_bytes(content[i : i + 4], "big") for i in range(4, start, 4)]
    for axis, (size, wanted) in enumerate(zip(sizes, shape, strict=True)):
        if wanted is not None and size != wanted:
            raise ValueError(f"{name}: size of dimension {axis} is {size}, wanted {wanted}")
    if len(content) - start != math.prod(sizes):
        raise ValueError(
            f"{name}: data has {len(content) - start} bytes, "
            f"wanted {math.prod(sizes)} for sizes {tuple(sizes)}"
        )
    return np.frombuffer(content, np.uint8, offset=start).reshape(sizes)


def parse_labels(content: bytes, name: str, classes: int = 10) -> NDArray[np.uint8]:
    """Return the labels in an IDX file of one dimension, each below ``classes``.

    Raises:
        ValueError: as ``parse_idx``, or a label is too large; the message names its position.
    """
    labels = parse_idx(content, name, [None])
    if labels.size and labels.max() >= classes:
        first = int(np.argmax(labels >= classes))
        raise ValueError(
            f"{name}: label {first} is {labels[first]}, wanted one from 0 to {classes - 1}"
        )
    return labels
