"""Datasets: what they hold, how they are indexed, split and stacked."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tensor import Tensor
from tensor.data import Subset, TensorDataset, random_split
from tensor.data.dataset import take_batch
from tensor.random import Generator, default_generator, fork_rng

X = np.arange(12, dtype=np.float32).reshape(6, 2)
Y = np.arange(6) * 10


def values(batch: tuple[Tensor, ...]) -> list[Any]:
    return [tensor.data.tolist() for tensor in batch]


def test_a_sample_is_a_row_of_each_tensor() -> None:
    dataset = TensorDataset(Tensor(X), Y)
    assert len(dataset) == 6
    assert values(dataset[2]) == [[4, 5], 20]
    assert values(dataset[-1]) == [[10, 11], 50]
    assert values(dataset[1:3]) == [[[2, 3], [4, 5]], [10, 20]]
    assert all(isinstance(tensor, Tensor) for tensor in dataset[0])


def test_arrays_are_shared_and_keep_their_dtype() -> None:
    dataset = TensorDataset(X, Y)
    assert [np.shares_memory(t.data, a) for t, a in zip(dataset.tensors, (X, Y), strict=True)] == [
        True,
        True,
    ]
    assert [t.dtype for t in dataset.batch(np.array([0]))] == [np.float32, np.int64]


def test_lists_become_tensors_and_big_endian_arrays_native_ones() -> None:
    dataset = TensorDataset([1.0, 2.0], np.array([3, 4], ">i4"))
    assert values(dataset.tensors) == [[1, 2], [3, 4]]
    assert [t.dtype for t in dataset.tensors] == [np.float32, np.int32]


def test_a_batch_is_a_copy_in_the_order_asked_for_with_repeats() -> None:
    dataset = TensorDataset(X, Y)
    batch = dataset.batch(np.array([4, 0, 4]))
    assert values(batch) == [[[8, 9], [0, 1], [8, 9]], [40, 0, 40]]
    assert not np.shares_memory(batch[0].data, X)


def test_the_history_of_a_tensor_stays_outside() -> None:
    tensor = Tensor([[1.0], [2.0]], requires_grad=True) * 2
    dataset = TensorDataset(tensor)
    assert not dataset[0][0].requires_grad
    assert not dataset.batch(np.array([0]))[0].requires_grad


def test_a_change_of_a_tensor_in_a_dataset_is_noticed_by_the_graph_that_made_it() -> None:
    x = Tensor([1.0, 2.0], requires_grad=True)
    y = x.exp()
    TensorDataset(y).tensors[0].zero_()
    with pytest.raises(RuntimeError, match=r"exp: .*modified by an inplace operation"):
        y.sum().backward()


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ((), "no tensor is given"),
        ((X, Y[:5]), r"\[\(6, 2\), \(5,\)\], wanted"),
        ((X, np.float32(1)), r"\(\)\], wanted at least one dimension"),
    ],
)
def test_tensors_without_one_common_length_are_refused(arrays: Any, message: str) -> None:
    with pytest.raises(ValueError, match=f"TensorDataset: .*{message}"):
        TensorDataset(*arrays)


# Subset and random_split


def test_a_subset_has_the_samples_at_its_indices_in_their_order() -> None:
    subset = Subset(TensorDataset(X, Y), [5, -6, 5])
    assert len(subset) == 3
    assert values(subset[1]) == [[0, 1], 0]
    assert values(subset.batch(np.array([2, 1]))) == [[[10, 11], [0, 1]], [50, 0]]


def test_a_subset_of_a_subset_and_of_a_plain_list() -> None:
    inner = Subset(TensorDataset(Y), [5, 4, 3])
    assert values(Subset(inner, [2, 0]).batch(np.array([0, 1]))) == [[30, 50]]
    assert values(Subset([7, 8, 9], [2, 0]).batch(np.array([0, 1]))) == [[9, 7]]


def test_a_subset_without_indices_is_empty() -> None:
    assert len(Subset(TensorDataset(Y), [])) == 0


@pytest.mark.parametrize(
    ("indices", "error", "message"),
    [
        ([0, 6], IndexError, "index 6 is not in a dataset of 6 samples"),
        ([-7], IndexError, "index -7"),
        ([0.0, 1.0], TypeError, "1-dimensional of float64, wanted one dimension of integers"),
        ([True, False], TypeError, "of bool"),
        ([[0, 1]], TypeError, "2-dimensional"),
    ],
)
def test_indices_that_name_no_sample_are_refused(
    indices: Any, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=f"Subset: .*{message}"):
        Subset(TensorDataset(X), indices)


def test_a_random_split_holds_every_sample_once_and_follows_its_generator() -> None:
    dataset = TensorDataset(np.arange(20))
    parts = random_split(dataset, [15, 0, 5], Generator(0))
    assert [len(part) for part in parts] == [15, 0, 5]
    indices = np.concatenate([part.indices for part in parts])
    assert sorted(indices) == list(range(20)) != indices.tolist()
    again = random_split(dataset, [15, 0, 5], Generator(0))
    assert [part.indices.tolist() for part in parts] == [part.indices.tolist() for part in again]


def test_a_random_split_uses_the_default_generator_where_none_is_given() -> None:
    dataset = TensorDataset(Y)
    with fork_rng() as generator:
        generator.manual_seed(7)
        [part] = random_split(dataset, [6])
    assert part.indices.tolist() == Generator(7).permutation(6).tolist()


@pytest.mark.parametrize(
    ("lengths", "error", "message"),
    [
        ([3, 2], ValueError, r"lengths are \[3, 2\] with the sum 5, wanted .* the sum 6"),
        ([7, -1], ValueError, "none below 0"),
        ([], ValueError, "the sum 6"),
        ([5.0, 1.0], TypeError, r"^random_split: lengths must hold integers, got 5\.0"),
    ],
)
def test_lengths_that_do_not_add_up_are_refused_and_nothing_is_drawn(
    lengths: Any, error: type[Exception], message: str
) -> None:
    before = default_generator.get_state()
    with pytest.raises(error, match=message):
        random_split(TensorDataset(X), lengths)
    assert default_generator.get_state() == before


# Samples one by one


@pytest.mark.parametrize(
    ("samples", "stacked", "dtypes"),
    [
        ([(1, 2.0), (3, 4.0)], [[1, 3], [2, 4]], [np.int64, np.float32]),
        ([[True, 1], [False, 2]], [[True, False], [1, 2]], [np.bool_, np.int64]),
        ([5, 6], [[5, 6]], [np.int64]),
        ([np.float64(5), np.float64(6)], [[5, 6]], [np.float64]),
        ([np.ones(2), np.zeros(2)], [[[1, 1], [0, 0]]], [np.float64]),
        ([(Tensor([1.0]), 3), (Tensor([2.0]), 4)], [[[1], [2]], [3, 4]], [np.float32, np.int64]),
    ],
)
def test_samples_of_any_indexable_dataset_are_stacked(
    samples: Any, stacked: Any, dtypes: Any
) -> None:
    batch = take_batch(samples, np.array([0, 1]))
    assert values(batch) == stacked
    assert [tensor.dtype for tensor in batch] == dtypes


def test_an_array_is_a_dataset_of_its_rows() -> None:
    assert values(take_batch(X, np.array([3, 1]))) == [[[6, 7], [2, 3]]]


@pytest.mark.parametrize(
    ("samples", "error", "message"),
    [
        ([(1, 2), (3,)], ValueError, r"samples have \[1, 2\] fields, wanted one number"),
        ([np.ones(2), np.ones(3)], ValueError, r"field 0 has the shapes \[\(2,\), \(3,\)\]"),
        ([(1, np.ones(2)), (1, 1.0)], ValueError, "field 1 has the shapes"),
        (["a", "b"], TypeError, "dtype"),
    ],
)
def test_samples_that_do_not_stack_are_refused(
    samples: Any, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        take_batch(samples, np.array([0, 1]))
