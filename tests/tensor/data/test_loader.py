"""DataLoader: its batches, its order, and taking up an interrupted run."""

from __future__ import annotations

import json
from collections import Counter
from itertools import islice
from typing import Any

import numpy as np
import pytest

from tensor import Tensor
from tensor.data import DataLoader, Subset, TensorDataset
from tensor.random import Generator, default_generator, fork_rng

SEVEN = TensorDataset(np.arange(7))


def values(loader: DataLoader) -> list[list[int]]:
    """The batches of one epoch over a dataset with one field."""
    return [batch.data.tolist() for (batch,) in loader]


# Batches


def test_batches_come_in_order_and_the_last_may_be_short() -> None:
    loader = DataLoader(SEVEN, 3)
    assert values(loader) == [[0, 1, 2], [3, 4, 5], [6]]
    assert len(loader) == 3


def test_drop_last_leaves_the_short_one_out() -> None:
    loader = DataLoader(SEVEN, 3, drop_last=True)
    assert values(loader) == [[0, 1, 2], [3, 4, 5]]
    assert len(loader) == 2


@pytest.mark.parametrize(("size", "count"), [(1, 7), (7, 1), (8, 1), (np.int64(2), 4)])
def test_the_length_is_the_number_of_batches(size: Any, count: int) -> None:
    loader = DataLoader(SEVEN, size)
    assert len(loader) == len(values(loader)) == count


def test_a_batch_is_a_tuple_of_tensors_with_a_leading_batch_dimension() -> None:
    loader = DataLoader(TensorDataset(np.ones((5, 2, 3), np.float32), np.arange(5)), 2)
    images, labels = next(iter(loader))
    assert isinstance(images, Tensor) and isinstance(labels, Tensor)
    assert images.shape == (2, 2, 3) and images.dtype == np.float32
    assert labels.shape == (2,) and labels.dtype == np.int64


def test_writing_to_a_batch_leaves_the_dataset_alone() -> None:
    (batch,) = next(iter(DataLoader(SEVEN, 3)))
    batch.data[:] = -1
    assert values(DataLoader(SEVEN, 7)) == [[0, 1, 2, 3, 4, 5, 6]]


def test_a_tensor_dataset_is_never_asked_for_single_samples() -> None:
    class Counting(TensorDataset):
        asked = 0

        def __getitem__(self, index: Any) -> tuple[Tensor, ...]:
            self.asked += 1
            return super().__getitem__(index)

    dataset = Counting(np.arange(7))
    assert values(DataLoader(Subset(dataset, [6, 5, 4]), 2, shuffle=True)) != []
    assert dataset.asked == 0


def test_any_dataset_with_length_and_items_will_do() -> None:
    class Squares:
        def __len__(self) -> int:
            return 5

        def __getitem__(self, index: int) -> tuple[int, float]:
            return index, index**2 / 2

    batches = [(a.data.tolist(), b.data.tolist()) for a, b in DataLoader(Squares(), 3)]
    assert batches == [([0, 1, 2], [0, 0.5, 2]), ([3, 4], [4.5, 8])]


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: DataLoader(SEVEN, 0), "batch_size is 0, wanted a positive integer"),
        (lambda: DataLoader(SEVEN, -1), "batch_size is -1, wanted"),
        (lambda: DataLoader(SEVEN, 2.5), "batch_size is 2.5, wanted"),
        (lambda: DataLoader(SEVEN, True), "batch_size is True, wanted"),
        (lambda: DataLoader(SEVEN, np.True_), "batch_size is np.True_, wanted"),
        (lambda: DataLoader(SEVEN, "3"), "batch_size is '3', wanted"),
        (lambda: DataLoader(SEVEN, None), "batch_size is None, wanted"),
        (lambda: DataLoader(SEVEN, np.array([1, 2])), r"batch_size is array\(\[1, 2\]\), wanted"),
        (lambda: DataLoader(TensorDataset(np.ones(0))), "the dataset is empty"),
        (lambda: DataLoader([]), "the dataset is empty, wanted at least one sample"),
        (
            lambda: DataLoader(SEVEN, 8, drop_last=True),
            "drop_last leaves no batch of 8 from 7 samples; use a smaller batch_size or",
        ),
    ],
)
def test_a_loader_that_could_yield_nothing_sensible_is_refused(build: Any, message: str) -> None:
    before = default_generator.get_state()
    with pytest.raises(ValueError, match=f"DataLoader: .*{message}"):
        build()
    assert default_generator.get_state() == before


def test_what_has_no_length_is_refused() -> None:
    with pytest.raises(TypeError, match="DataLoader: dataset must have a length and samples"):
        DataLoader(iter([1, 2, 3]))  # type: ignore[arg-type]


def test_a_generator_of_another_kind_is_refused() -> None:
    with pytest.raises(TypeError, match=r"generator is a int, wanted a tensor\.random\.Generator"):
        DataLoader(SEVEN, shuffle=True, generator=3)


# Order


def test_shuffling_visits_every_sample_once_in_a_new_order_each_epoch() -> None:
    loader = DataLoader(TensorDataset(np.arange(50)), 8, shuffle=True, generator=Generator(0))
    epochs = [np.concatenate(values(loader)).tolist() for _ in range(3)]
    assert [sorted(epoch) for epoch in epochs] == [list(range(50))] * 3
    assert len({tuple(epoch) for epoch in epochs} | {tuple(range(50))}) == 4


def test_fields_stay_together_when_shuffled() -> None:
    loader = DataLoader(TensorDataset(np.arange(20), np.arange(20) * 2), 6, shuffle=True)
    for a, b in loader:
        assert (a.data * 2 == b.data).all()


def test_every_order_is_as_likely_as_another() -> None:
    loader = DataLoader(TensorDataset(np.arange(3)), 3, shuffle=True, generator=Generator(0))
    counts = Counter(tuple(values(loader)[0]) for _ in range(1200))
    # 200 expected of each of the six, with a standard deviation of 12.9
    assert len(counts) == 6 and all(abs(count - 200) < 65 for count in counts.values())


def test_the_order_follows_the_generator_or_the_default_one() -> None:
    def order(generator: Generator | None = None) -> list[list[int]]:
        return values(DataLoader(SEVEN, 3, shuffle=True, generator=generator))

    assert order(Generator(5)) == order(Generator(5)) != order(Generator(6))
    with fork_rng() as generator:
        generator.manual_seed(5)
        first = order()
        assert order() != first
        generator.manual_seed(5)
        assert order() == first


def test_a_loader_has_a_generator_of_its_own() -> None:
    """Other draws from the default generator, between batches, do not change the order."""
    with fork_rng() as generator:
        generator.manual_seed(5)
        loader = DataLoader(SEVEN, 3, shuffle=True)
        undisturbed = [values(loader), values(loader)]
        generator.manual_seed(5)
        loader = DataLoader(SEVEN, 3, shuffle=True)
        disturbed = []
        for _ in range(2):
            disturbed.append([])
            for (batch,) in loader:
                generator.uniform(shape=3)
                disturbed[-1].append(batch.data.tolist())
    assert disturbed == undisturbed


def test_numpys_global_generator_does_not_matter() -> None:
    state = np.random.get_state()
    try:
        np.random.seed(0)
        first = values(DataLoader(SEVEN, 3, shuffle=True, generator=Generator(5)))
        np.random.seed(1)
        assert values(DataLoader(SEVEN, 3, shuffle=True, generator=Generator(5))) == first
    finally:
        np.random.set_state(state)


def test_an_epoch_that_was_broken_off_is_followed_by_a_fresh_one() -> None:
    loader = DataLoader(SEVEN, 3, shuffle=True, generator=Generator(0))
    broken = next(iter(loader))[0].data.tolist()
    assert len(np.concatenate(values(loader))) == 7
    assert loader.epoch == 1
    other = DataLoader(SEVEN, 3, shuffle=True, generator=Generator(0))
    assert values(other)[0] == broken


def test_two_iterations_at_once_do_not_disturb_each_other() -> None:
    loader = DataLoader(SEVEN, 3, shuffle=True, generator=Generator(0))
    alone = DataLoader(SEVEN, 3, shuffle=True, generator=Generator(0))
    first, second = values(alone), values(alone)
    a, b = iter(loader), iter(loader)
    mixed = [[t.data.tolist() for (t,) in pair] for pair in zip(a, b, strict=True)]
    assert mixed == [list(pair) for pair in zip(first, second, strict=True)]


# The position


SHUFFLED = {"batch_size": 3, "shuffle": True}
SETTINGS: list[dict[str, Any]] = [
    SHUFFLED,
    {"batch_size": 3},
    {"batch_size": 2, "shuffle": True, "drop_last": True},
    {"batch_size": 7, "shuffle": True},
]
EPOCHS = 3


def make(settings: dict[str, Any], seed: int) -> DataLoader:
    if settings.get("shuffle"):
        return DataLoader(SEVEN, **settings, generator=Generator(seed))
    return DataLoader(SEVEN, **settings)


def train(loader: DataLoader) -> Any:
    """What a training program does: yields every batch seen, with its epoch."""
    for epoch in range(loader.epoch, EPOCHS):
        for (batch,) in loader:
            yield epoch, batch.data.tolist()
        yield epoch, "evaluation"


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_a_resumed_run_sees_exactly_what_the_uninterrupted_one_would_have(
    settings: dict[str, Any],
) -> None:
    whole = list(train(make(settings, seed=1)))
    assert len(whole) == EPOCHS * (len(make(settings, seed=1)) + 1)
    for stop in range(len(whole) + 1):
        interrupted = make(settings, seed=1)
        running = train(interrupted)
        before = list(islice(running, stop))
        state = json.loads(json.dumps(interrupted.state_dict()))
        resumed = make(settings, seed=2)
        list(islice(train(resumed), 2))  # whatever it did before is forgotten
        resumed.load_state_dict(state)
        assert resumed.state_dict() == state
        after = list(train(resumed))
        assert before + after == whole
        assert list(running) == whole[stop:]


def test_a_state_loaded_into_the_loader_that_made_it_takes_it_back() -> None:
    loader = make(SHUFFLED, seed=1)
    running = iter(loader)
    next(running)
    state = loader.state_dict()
    rest = [batch.data.tolist() for (batch,) in running]
    following = values(loader)
    loader.load_state_dict(state)
    assert [values(loader), values(loader)] == [rest, following]


def test_only_the_first_iteration_after_a_resume_goes_on() -> None:
    loader = make(SHUFFLED, seed=1)
    running = iter(loader)
    next(running)
    loader.load_state_dict(loader.state_dict())
    next(iter(loader))  # the second batch, and the epoch is broken off
    assert len(np.concatenate(values(loader))) == 7


def test_an_iteration_left_behind_by_a_resume_counts_for_nothing() -> None:
    loader = make(SHUFFLED, seed=1)
    state = loader.state_dict()
    left = iter(loader)
    loader.load_state_dict(state)
    assert len(list(left)) == 3
    assert loader.state_dict() == state


def test_epoch_counts_the_epochs_that_came_to_their_end() -> None:
    loader = make(SHUFFLED, seed=1)
    assert loader.epoch == 0
    values(loader)
    next(iter(loader))
    values(loader)
    assert loader.epoch == 2


def state_with(**fields: Any) -> dict[str, Any]:
    loader = make(SHUFFLED, seed=1)
    next(iter(loader))
    return {**loader.state_dict(), **fields}


def generator_state(**fields: Any) -> dict[str, Any]:
    return {**Generator(1).get_state(), **fields}


def without(name: str) -> dict[str, Any]:
    state = state_with()
    del state[name]
    return state


@pytest.mark.parametrize(
    ("state", "error", "message"),
    [
        ([1], TypeError, "state is a list"),
        ({}, ValueError, r"fields \[\], wanted"),
        (without("seed"), ValueError, "wanted .*'seed'"),
        (state_with(more=1), ValueError, "'more'"),
        (state_with(samples=8), ValueError, "samples is 8 in the state, but 7"),
        (state_with(batch_size=4), ValueError, "batch_size is 4 in the state, but 3"),
        (state_with(shuffle=False), ValueError, "shuffle is False in the state, but True"),
        (state_with(drop_last=True), ValueError, "drop_last is True in the state, but False"),
        (state_with(epoch=-1), ValueError, "epoch is -1"),
        (state_with(epoch=1.0), TypeError, "epoch is 1.0"),
        (state_with(position=4), ValueError, "position is 4, wanted 0 <= position < 4"),
        (state_with(position=True), TypeError, "position is True"),
        (state_with(seed="1"), TypeError, "seed is '1'"),
        (state_with(seed=-1), ValueError, "seed is -1"),
        (state_with(seed=None), ValueError, "seed is None at position 1"),
        (state_with(generator=None), TypeError, "state is a NoneType"),
        (state_with(generator=generator_state(inc=2)), ValueError, "inc is 2, wanted an odd"),
    ],
)
def test_a_state_that_does_not_fit_is_refused_and_nothing_changed(
    state: Any, error: type[Exception], message: str
) -> None:
    loader = make(SHUFFLED, seed=3)
    running = iter(loader)
    next(running)
    before = loader.state_dict()
    with pytest.raises(error, match=message):
        loader.load_state_dict(state)
    assert loader.state_dict() == before
    assert len(list(running)) == 2


def test_a_seed_in_the_state_of_an_unshuffled_loader_is_refused() -> None:
    loader = DataLoader(SEVEN, 3)
    with pytest.raises(ValueError, match=r"seed is 5 at position 0, .* shuffle=False"):
        loader.load_state_dict({**loader.state_dict(), "seed": 5})
