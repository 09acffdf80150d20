"""The MNIST images of handwritten digits (LeCun, Cortes and Burges, 1998)."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Literal

import numpy as np

from ..tensor import Tensor, from_numpy
from .fetch import FILES, fetch
from .idx import parse_idx, parse_labels

__all__ = ["mnist"]

_PREFIXES = {"train": "train", "test": "t10k"}


def mnist(
    split: Literal["train", "test"] = "train",
    *,
    root: str | os.PathLike[str] | None = None,
    cache: Path | None = None,
) -> tuple[Tensor, Tensor]:
    """Return the images and labels of MNIST: 60,000 for training or 10,000 for the test.

    ``root`` and ``cache`` are those of ``fetch``, which finds or downloads the files.

    Returns:
        Images (N, 784) float32 from 0 (background) to 1, one flattened 28x28 image per row,
        and labels (N,) int64 from 0 to 9. Where images are wanted as such,
        ``images.reshape(-1, 1, 28, 28)`` is a view.

    Raises:
        ValueError: ``split`` is another one, or a file is not what it must be.
        DownloadError: a file is nowhere to be had.
    """
    if split not in _PREFIXES:
        raise ValueError(f"mnist: split is {split!r}, wanted 'train' or 'test'")
    names = {
        kind: f"mnist/{_PREFIXES[split]}-{kind}-ubyte" for kind in ("images-idx3", "labels-idx1")
    }
    content = {kind: fetch(FILES[name], root=root, cache=cache) for kind, name in names.items()}
    images = parse_idx(content["images-idx3"], names["images-idx3"], (None, 28, 28))
    labels = parse_labels(content["labels-idx1"], names["labels-idx1"])
    if len(images) != len(labels):
        raise ValueError(
            f"mnist: {names['labels-idx1']} has {len(labels)} labels, "
            f"wanted {len(images)}, one for each image of {names['images-idx3']}"
        )
    scaled = images.reshape(len(images), -1).astype(np.float32)
    scaled /= 255
    return from_numpy(scaled), from_numpy(labels.astype(np.int64))
