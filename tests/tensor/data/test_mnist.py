"""MNIST as the training programs get it, from small files made here."""

from __future__ import annotations

import gzip
import hashlib
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

from tensor import Tensor
from tensor.data import CorruptDataError, DownloadError, mnist
from tensor.data.fetch import FILES, DataFile
from tests.tensor.data.test_idx import idx

rng = np.random.default_rng(0)
SMALL = {
    "mnist/train-images-idx3-ubyte": idx(rng.integers(0, 256, (12, 28, 28))),
    "mnist/train-labels-idx1-ubyte": idx(np.arange(12) % 10),
    "mnist/t10k-images-idx3-ubyte": idx(np.full((3, 28, 28), 255)),
    "mnist/t10k-labels-idx1-ubyte": idx(np.array([7, 2, 1])),
}


def publish(monkeypatch: pytest.MonkeyPatch, files: dict[str, bytes]) -> None:
    """Let ``files`` be what the table asks for."""
    table = {
        name: DataFile(name, hashlib.sha256(content).hexdigest(), len(content))
        for name, content in files.items()
    }
    # not by its dotted name, which the function of that name takes in the package
    monkeypatch.setattr(import_module("tensor.data.mnist"), "FILES", table)


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "mnist").mkdir()
    for name, content in SMALL.items():
        (tmp_path / f"{name}.gz").write_bytes(gzip.compress(content))
    publish(monkeypatch, SMALL)
    return tmp_path


def test_images_are_rows_of_float32_from_0_to_1_and_labels_int64(root: Path) -> None:
    images, labels = mnist(root=root)
    assert isinstance(images, Tensor) and isinstance(labels, Tensor)
    assert images.shape == (12, 784) and images.dtype == np.float32
    assert labels.shape == (12,) and labels.dtype == np.int64
    written = np.frombuffer(SMALL["mnist/train-images-idx3-ubyte"], np.uint8, offset=16)
    assert np.array_equal(images.data.ravel(), written / np.float32(255))
    assert labels.data.tolist() == [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 0, 1]


def test_the_splits_are_different_files(root: Path) -> None:
    images, labels = mnist("test", root=root)
    assert images.shape == (3, 784)
    assert (images.data == 1).all()
    assert labels.data.tolist() == [7, 2, 1]


def test_the_environment_names_the_folder(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SMOLGRAD_DATA", str(root))
    assert mnist(split="test")[1].data.tolist() == [7, 2, 1]


def test_images_and_labels_can_be_written_to(root: Path) -> None:
    images, labels = mnist(root=root)
    assert images.data.flags.writeable and labels.data.flags.writeable


def test_another_split_is_refused(root: Path) -> None:
    with pytest.raises(ValueError, match="split is 'valid', wanted 'train' or 'test'"):
        mnist("valid", root=root)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("labels-idx1", idx(np.arange(12)), "train-labels-idx1-ubyte: label 10 is 10"),
        ("labels-idx1", idx(np.arange(9)), "has 9 labels, wanted 12"),
        ("labels-idx1", idx(np.arange(12), magic=0x0901), "labels-idx1-ubyte: magic number"),
        ("images-idx3", idx(np.zeros((12, 28, 27))), "images-idx3-ubyte: size of dimension 2"),
        ("images-idx3", idx(np.zeros((9, 28, 28)), sizes=(12, 28, 28)), "data has 7056 bytes"),
    ],
)
def test_a_file_of_another_form_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, content: bytes, message: str
) -> None:
    files = {**SMALL, f"mnist/train-{name}-ubyte": content}
    (tmp_path / "mnist").mkdir()
    for path, data in files.items():
        (tmp_path / path).write_bytes(data)
    publish(monkeypatch, files)
    with pytest.raises(ValueError, match=message):
        mnist(root=tmp_path)


def test_a_file_that_is_not_the_published_one_is_refused(root: Path) -> None:
    (root / "mnist" / "train-labels-idx1-ubyte.gz").write_bytes(gzip.compress(idx(np.zeros(12))))
    with pytest.raises(CorruptDataError, match=r"train-labels-idx1-ubyte\.gz is not"):
        mnist(root=root)


def test_without_folder_cache_and_mirrors_the_error_names_the_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish(monkeypatch, SMALL)
    with pytest.raises(DownloadError, match=r"train-images-idx3-ubyte.*\n.*SMOLGRAD_DATA"):
        mnist(cache=tmp_path)


def test_the_table_has_what_is_asked_for() -> None:
    assert set(SMALL) <= set(FILES)
