"""Datasets: what can be counted and indexed, and, where it is fast, taken in batches."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import Any, Protocol, SupportsIndex, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..random import Generator, default_generator
from ..tensor import Tensor, from_numpy

__all__ = [
    "Batch",
    "Batched",
    "Dataset",
    "Indices",
    "Subset",
    "TensorDataset",
    "random_split",
    "take_batch",
]

Indices = NDArray[np.int64]
Batch = tuple[Tensor, ...]


class Dataset(Protocol):
    """A map-style dataset: a length, and a sample for each index below it."""

    def __len__(self) -> int: ...

    def __getitem__(self, index: int, /) -> Any: ...


@runtime_checkable
class Batched(Protocol):
    """A dataset that can take many samples at once, without a loop over them."""

    def __len__(self) -> int: ...

    def __getitem__(self, index: int, /) -> Any: ...

    def batch(self, indices: Indices, /) -> Batch:
        """Return copies of the samples at ``indices``, stacked: one Tensor per field."""


class TensorDataset:
    """Samples that are rows of Tensors: sample ``i`` is ``tuple(t[i] for t in tensors)``.

    Args:
        arrays: Tensors, ndarrays or nested sequences of one length. Tensors and ndarrays are not
            copied. Their history, if any, is not followed.

    Attributes:
        tensors: the Tensors.

    Raises:
        ValueError: none is given, one has no dimension, or the lengths differ.

    >>> dataset = TensorDataset([[1.0, 2.0], [3.0, 4.0]], [0, 1])
    >>> len(dataset)
    2
    >>> [tensor.data.tolist() for tensor in dataset[1]]
    [[3.0, 4.0], 1]
    """

    def __init__(self, *arrays: Tensor | ArrayLike) -> None:
        if not arrays:
            raise ValueError("TensorDataset: no tensor is given, wanted at least one")
        self.tensors: Batch = tuple(_tensor(array) for array in arrays)
        shapes = [tensor.data.shape for tensor in self.tensors]
        if not all(shapes) or len({shape[0] for shape in shapes}) > 1:
            raise ValueError(
                f"TensorDataset: the shapes are {shapes}, "
                "wanted at least one dimension and the same first size in each"
            )

    def __len__(self) -> int:
        return len(self.tensors[0].data)

    def __getitem__(self, index: Any) -> Batch:
        """Return ``tuple(t[index] for t in tensors)``; slices share memory with the dataset."""
        return tuple(from_numpy(np.asarray(tensor.data[index])) for tensor in self.tensors)

    def batch(self, indices: Indices) -> Batch:
        """Return copies of the samples at ``indices``, stacked."""
        return tuple(from_numpy(tensor.data.take(indices, axis=0)) for tensor in self.tensors)


class Subset:
    """The samples of another dataset at ``indices``, in their order.

    Raises:
        TypeError: an index is not an integer.
        IndexError: an index is not in the dataset.
    """

    def __init__(self, dataset: Dataset, indices: ArrayLike) -> None:
        chosen = np.asarray(indices)
        if not chosen.size:
            chosen = chosen.astype(np.int64)
        if chosen.ndim != 1 or chosen.dtype.kind not in "iu":
            raise TypeError(
                f"Subset: indices are {chosen.ndim}-dimensional of {chosen.dtype}, "
                "wanted one dimension of integers"
            )
        n = len(dataset)
        outside = (chosen < -n) | (chosen >= n)
        if outside.any():
            raise IndexError(
                f"Subset: index {chosen[outside][0]} is not in a dataset of {n} samples"
            )
        self.dataset = dataset
        self.indices: Indices = np.where(chosen < 0, chosen + n, chosen).astype(np.int64)

    def __len__(self) -> int:
        return len(self.indices)

    def __getitem__(self, index: int) -> Any:
        return self.dataset[int(self.indices[index])]

    def batch(self, indices: Indices) -> Batch:
        """Return copies of the samples at ``indices``, stacked."""
        return take_batch(self.dataset, self.indices[indices])


def random_split(
    dataset: Dataset, lengths: Sequence[SupportsIndex], generator: Generator | None = None
) -> list[Subset]:
    """Return disjoint random Subsets of the given lengths, which add up to that of the dataset.

    The permutation comes from ``generator``, by default the default one.

    Raises:
        TypeError: a length is not an integer.
        ValueError: a length is negative, or the sum is another one.
    """
    for length in lengths:
        if not isinstance(length, SupportsIndex):
            raise TypeError(f"random_split: lengths must hold integers, got {length!r}")
    sizes = [operator.index(length) for length in lengths]
    if min(sizes, default=0) < 0 or sum(sizes) != len(dataset):
        raise ValueError(
            f"random_split: lengths are {sizes} with the sum {sum(sizes)}, "
            f"wanted none below 0 and the sum {len(dataset)}"
        )
    order = (default_generator if generator is None else generator).permutation(len(dataset))
    ends = accumulate(sizes, initial=0)
    return [Subset(dataset, order[start:end]) for start, end in pairwise(ends)]


def take_batch(dataset: Dataset, indices: Indices) -> Batch:
    """Return the samples at ``indices``, stacked: at once if the dataset can, else one by one.

    A sample that is not a tuple or list is a sample of one field.

    Raises:
        ValueError: samples differ in their number of fields, or in the shape of one.
    """
    if isinstance(dataset, Batched):
        return dataset.batch(indices)
    samples = [dataset[index] for index in indices.tolist()]
    rows = [sample if isinstance(sample, (tuple, list)) else (sample,) for sample in samples]
    counts = {len(row) for row in rows}
    if len(counts) > 1:
        raise ValueError(f"DataLoader: samples have {sorted(counts)} fields, wanted one number")
    return tuple(_stack(i, column) for i, column in enumerate(zip(*rows, strict=True)))


def _stack(field: int, values: tuple[Any, ...]) -> Tensor:
    """Return one field of some samples as one Tensor with a leading dimension for the samples."""
    arrays = [_tensor(value).data for value in values]
    shapes = {array.shape for array in arrays}
    if len(shapes) > 1:
        raise ValueError(
            f"DataLoader: field {field} has the shapes {sorted(shapes)} in one batch, wanted one"
        )
    return from_numpy(np.stack(arrays))


def _tensor(value: Tensor | ArrayLike) -> Tensor:
    """Return ``value`` as a Tensor without history that shares its memory where it has any."""
    if isinstance(value, Tensor):
        return value.detach()
    if isinstance(value, np.ndarray) and value.dtype.isnative:
        return from_numpy(value)
    return Tensor(value)
