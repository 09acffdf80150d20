"""Schedules one after another."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from .._optimizer import Optimizer
from ._base import LRScheduler, check_optimizer, check_positive
from ._plateau import ReduceLROnPlateau

__all__ = ["SequentialLR"]


class SequentialLR(LRScheduler):
    """One schedule until the first milestone, the next one until the second, and so on.

    Every schedule begins at its own epoch 0 when its turn comes, from the
    groups' "initial_lr".

    Args:
        optimizer: whose groups get new rates.
        schedulers: the schedules, all of this optimizer.
        milestones: the epochs at which the second and later ones begin.
        last_epoch: the last epoch of the run to be gone on with.

    Raises:
        TypeError: something in ``schedulers`` is no schedule, or not an optimizer.
        ValueError: no schedules, ones of another optimizer or that need a metric; milestones
            that do not increase, or are not one fewer than the schedules.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        schedulers: Sequence[LRScheduler],
        milestones: Sequence[int],
        last_epoch: int = -1,
    ) -> None:
        check_optimizer(optimizer)
        if not schedulers:
            raise ValueError("SequentialLR expects at least one scheduler, but got no scheduler")
        for i, scheduler in enumerate(schedulers):
            if not isinstance(scheduler, LRScheduler):
                raise TypeError(
                    f"SequentialLR: schedulers[{i}] is no scheduler but {type(scheduler).__name__}"
                )
            if isinstance(scheduler, ReduceLROnPlateau):
                raise ValueError(
                    f"SequentialLR does not support ReduceLROnPlateau, schedulers[{i}], because "
                    "its step needs a metric"
                )
            if scheduler.optimizer is not optimizer:
                raise ValueError(
                    "SequentialLR expects all schedulers to belong to the same optimizer, but "
                    f"schedulers[{i}], {type(scheduler).__name__}, has another one"
                )
        if len(milestones) != len(schedulers) - 1:
            raise ValueError(
                "SequentialLR expects one scheduler more than milestones, got "
                f"{len(schedulers)} schedulers and {len(milestones)} milestones"
            )
        epochs = [check_positive("SequentialLR", "milestone", m, 0) for m in milestones]
        if any(one >= other for one, other in pairwise(epochs)):
            raise ValueError(f"SequentialLR: milestones must increase, got {epochs}")
        self._schedulers, self._milestones = list(schedulers), epochs
        self.optimizer = optimizer
        self.last_epoch = last_epoch + 1
        self._undo_members()
        self._begin_member()

    def _undo_members(self) -> None:
        for group in self.optimizer.param_groups:
            group["lr"] = group["initial_lr"]
        for scheduler in self._schedulers:
            scheduler._undo()

    def _begin_member(self) -> None:
        member = self._schedulers[bisect_right(self._milestones, self.last_epoch)]
        member._begin()
        self._last_lr = member.get_last_lr()

    def _begin(self) -> None:
        self._begin_member()

    def _undo(self) -> None:
        self._undo_members()

    def _restart(self) -> None:
        self.last_epoch = 0
        self._schedulers[0]._restart()
        self._last_lr = self._schedulers[0].get_last_lr()

    def step(self) -> None:
        """Set the rates of the next epoch.

        Raises:
            ValueError, RuntimeError: what the schedule whose turn it is raises.
        """
        self.last_epoch += 1
        turn = bisect_right(self._milestones, self.last_epoch)
        member = self._schedulers[turn]
        if turn > 0 and self._milestones[turn - 1] == self.last_epoch:
            member._restart()
        else:
            member.step()
        self._last_lr = member.get_last_lr()

    def state_dict(self) -> dict[str, Any]:
        """Return a snapshot of where the sequence is, and of every schedule in it."""
        return {
            "last_epoch": self.last_epoch,
            "_milestones": [*self._milestones],
            "_last_lr": [*self._last_lr],
            "_schedulers": [scheduler.state_dict() for scheduler in self._schedulers],
        }

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Take over what ``state_dict`` of such a sequence returned.

        Raises:
            TypeError, ValueError: as ``LRScheduler.load_state_dict``; also for any schedule
                in it. Nothing has changed then.
        """
        self._check_state(state_dict)
        for scheduler, state in zip(self._schedulers, state_dict["_schedulers"], strict=True):
            scheduler.load_state_dict(state)
        self.last_epoch = state_dict["last_epoch"]
        self._milestones = [*state_dict["_milestones"]]
        self._last_lr = [*state_dict["_last_lr"]]

    def _check_state(self, state_dict: Any) -> None:
        super()._check_state(state_dict)
        states = state_dict["_schedulers"]
        if len(states) != len(self._schedulers):
            raise ValueError(
                f"loaded state dict of SequentialLR has {len(states)} schedulers, "
                f"but there are {len(self._schedulers)}"
            )
        for scheduler, state in zip(self._schedulers, states, strict=True):
            scheduler._check_state(state)
