"""DataLoader: the batches of a dataset, in an order that can be saved and taken up again."""

from __future__ import annotations

import operator
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, SupportsIndex

import numpy as np

from ..random import Generator, default_generator
from .dataset import Batch, Dataset, Indices, take_batch

__all__ = ["DataLoader"]


@dataclass(slots=True)
class _Epoch:
    """One pass over the dataset: the seed of its order, if shuffled, and the batches handed out."""

    seed: int | None
    position: int = 0


class DataLoader:
    """Iterates over a dataset in batches, each a tuple of Tensors with a leading batch dimension.

    Each ``for`` begins a new epoch; with ``shuffle``, in a new random order. The exception is the
    first one after ``load_state_dict``, which goes on where the saved loader was: inside an epoch
    with the batches that were left of it (none, if it was saved after the last), between epochs
    with the next. So this loop, after a resume as before it, sees the same batches::

        for epoch in range(loader.epoch, epochs):
            for batch in loader:
                ...

    Args:
        dataset: has ``__len__`` and ``__getitem__``; where it has ``batch`` too (as TensorDataset
            and Subset do), whole batches are taken at once. Its length is read here, once.
        batch_size: samples in a batch; the last one may have fewer.
        shuffle: whether to visit the samples in random order.
        drop_last: whether to leave out a last batch that has fewer.
        generator: gives one seed to each shuffled epoch, and is part of the saved position. By
            default one of the loader's own, seeded from the default generator.

    Attributes:
        epoch: how many epochs came to their end.

    Raises:
        ValueError: ``batch_size`` is not a positive integer, the dataset is empty, or
            ``drop_last`` leaves no batch.
        TypeError: ``dataset`` has no length, or ``generator`` is not a Generator.

    >>> from tensor.data import TensorDataset
    >>> [x.data.tolist() for x, in DataLoader(TensorDataset([1, 2, 3]), batch_size=2)]
    [[1, 2], [3]]
    """

    def __init__(
        self,
        dataset: Dataset,
        batch_size: SupportsIndex = 1,
        shuffle: bool = False,
        *,
        drop_last: bool = False,
        generator: Generator | None = None,
    ) -> None:
        if not hasattr(dataset, "__len__"):
            raise TypeError(
                f"DataLoader: dataset must have a length and samples by index, got {dataset!r}"
            )
        size, length = _positive(batch_size), len(dataset)
        if length == 0:
            raise ValueError("DataLoader: the dataset is empty, wanted at least one sample")
        if drop_last and length < size:
            raise ValueError(
                f"DataLoader: drop_last leaves no batch of {size} from {length} samples; "
                "use a smaller batch_size or drop_last=False"
            )
        if generator is not None and not isinstance(generator, Generator):
            raise TypeError(
                f"DataLoader: generator is a {type(generator).__name__}, "
                "wanted a tensor.random.Generator"
            )
        if not shuffle:
            generator = None
        elif generator is None:
            generator = Generator(_fresh_seed(default_generator))
        self.dataset = dataset
        self.batch_size = size
        self.shuffle = bool(shuffle)
        self.drop_last = bool(drop_last)
        self.generator = generator
        self.epoch = 0
        self._length = length
        self._current: _Epoch | None = None  # the latest epoch begun, unless it came to its end
        self._resumed = False  # whether the next iteration goes on with it

    def __len__(self) -> int:
        """Return the number of batches in an epoch."""
        full, rest = divmod(self._length, self.batch_size)
        return full if self.drop_last or not rest else full + 1

    def __iter__(self) -> Iterator[Batch]:
        if self._current is None or not self._resumed:
            self._current = _Epoch(None if self.generator is None else _fresh_seed(self.generator))
        self._resumed = False
        return self._batches(self._current)

    def _batches(self, epoch: _Epoch) -> Iterator[Batch]:
        order: Indices
        if epoch.seed is None:
            order = np.arange(self._length, dtype=np.int64)
        else:
            order = Generator(epoch.seed).permutation(self._length)
        while epoch.position < len(self):
            start = epoch.position * self.batch_size
            batch = take_batch(self.dataset, order[start : start + self.batch_size])
            epoch.position += 1  # before the hand-over: a state saved in the loop counts this batch
            yield batch
        if self._current is epoch:  # and not one that a later loop or a resume has left behind
            self.epoch += 1
            self._current = None

    # the position

    def state_dict(self) -> dict[str, Any]:
        """Return the position as a dict that JSON can hold.

        Taken inside the loop it counts the batch in hand as done. It is that of the iteration
        begun last.
        """
        current = self._current or _Epoch(None)
        return {
            **self._fixed(),
            "epoch": self.epoch,
            "position": current.position,
            "seed": current.seed,
            "generator": None if self.generator is None else self.generator.get_state(),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go to a position that ``state_dict`` of a loader made alike returned.

        Raises:
            TypeError: a field has the wrong type.
            ValueError: a field is missing, unknown or out of range, or the loader was made
                otherwise. Nothing is changed.
        """
        wanted = self.state_dict()
        if not isinstance(state, Mapping):
            raise TypeError(
                f"load_state_dict: state is a {type(state).__name__}, wanted what state_dict() "
                "of a DataLoader returned"
            )
        if set(state) != set(wanted):
            raise ValueError(
                f"load_state_dict: state has the fields {sorted(map(str, state))}, "
                f"wanted {sorted(wanted)}"
            )
        for name, value in self._fixed().items():
            if state[name] != value:
                raise ValueError(
                    f"load_state_dict: {name} is {state[name]!r} in the state, but {value!r} in "
                    "this DataLoader; the batches would be others"
                )
        epoch = _count("epoch", state["epoch"], 2**63)
        position = _count("position", state["position"], len(self) + 1)
        seed = state["seed"]
        if seed is not None:
            seed = _count("seed", seed, 2**64)
        if (seed is not None) != self.shuffle and (seed is not None or position > 0):
            raise ValueError(
                f"load_state_dict: seed is {seed} at position {position}, "
                f"which does not go with shuffle={self.shuffle}"
            )
        if self.generator is not None:
            self.generator.set_state(state["generator"])
        self.epoch = epoch
        self._current = _Epoch(seed, position)
        self._resumed = seed is not None or not self.shuffle

    def _fixed(self) -> dict[str, Any]:
        """Return what must agree between the loader that saves and the one that loads."""
        return {
            "samples": self._length,
            "batch_size": self.batch_size,
            "shuffle": self.shuffle,
            "drop_last": self.drop_last,
        }


def _fresh_seed(generator: Generator) -> int:
    return int(generator.integers(0, 2**63))


def _positive(value: object) -> int:
    number = 0
    if isinstance(value, SupportsIndex) and not isinstance(value, bool | np.bool_):
        with suppress(TypeError):  # an array has __index__, which works where it holds one integer
            number = operator.index(value)
    if number < 1:
        raise ValueError(f"DataLoader: batch_size is {value!r}, wanted a positive integer")
    return number


def _count(name: str, value: object, bound: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"load_state_dict: {name} is {value!r}, wanted an integer")
    if not 0 <= value < bound:
        raise ValueError(f"load_state_dict: {name} is {value}, wanted 0 <= {name} < {bound}")
    return value
