"""What all schedules share: the count of epochs, setting the rates, and the state."""

from __future__ import annotations

import copy
import operator
import warnings
from collections.abc import Mapping, Sequence
from typing import Any, SupportsIndex

from .._optimizer import Optimizer

__all__ = ["LRScheduler", "check_optimizer", "check_positive", "per_group"]


class LRScheduler:
    """Base of the schedules; a schedule of your own gives ``get_lr``.

    The rates that a schedule starts from are remembered as the groups'
    "initial_lr". The first ones are set when the schedule is made.

    Args:
        optimizer: whose groups get new rates.
        last_epoch: the last epoch of an earlier run that is to be gone on with; the groups
            must hold "initial_lr" then, as they do after the optimizer's
            ``load_state_dict``. -1 starts anew.

    Attributes:
        base_lrs: each group's "initial_lr".
        last_epoch: how often ``step`` was called, on top of where the schedule started.

    Raises:
        TypeError: not an optimizer, or an argument of the wrong type.
        KeyError: a group without "initial_lr" where there is a ``last_epoch``.
    """

    optimizer: Optimizer
    base_lrs: list[float]
    last_epoch: int
    _last_lr: list[float]
    _step_count: int

    def __init__(self, optimizer: Optimizer, last_epoch: int = -1) -> None:
        check_optimizer(optimizer)
        for i, group in enumerate(optimizer.param_groups):
            if last_epoch == -1:
                group.setdefault("initial_lr", group["lr"])
            elif "initial_lr" not in group:
                raise KeyError(
                    f"param 'initial_lr' is not specified in param_groups[{i}] when resuming with "
                    f"last_epoch {last_epoch}; load the optimizer's state first"
                )
        self.optimizer = optimizer
        self.base_lrs = [group["initial_lr"] for group in optimizer.param_groups]
        self.last_epoch = last_epoch
        self._begin()

    def _begin(self) -> None:
        """Set the first rates."""
        self._step_count = 0
        self.step()

    def get_lr(self) -> list[float]:
        """Return each group's rate for the epoch ``last_epoch``; called by ``step``.

        To know what the rates are, ask ``get_last_lr``.
        """
        raise NotImplementedError

    def get_last_lr(self) -> list[float]:
        """Return the rates that were last set, one for each group."""
        return list(self._last_lr)

    def step(self) -> None:
        """Set the rates of the next epoch.

        Raises:
            RuntimeError: the optimizer has got more groups since the schedule was made.
        """
        self._count()
        self.last_epoch += 1
        self._set(self.get_lr())

    def _count(self) -> None:
        if self._step_count == 1 and not self.optimizer._has_stepped:
            warnings.warn(
                "lr_scheduler.step() was called before optimizer.step(): the first rate of the "
                "schedule is skipped; call optimizer.step() first",
                UserWarning,
                stacklevel=3,
            )
        self._step_count += 1

    def _restart(self) -> None:
        """Set the rates of epoch 0, whatever the present ones are."""
        self.last_epoch = 0
        self._set(self.get_lr())

    def _undo(self) -> None:
        """Forget the step that was made with the schedule."""
        self.last_epoch -= 1

    def _set(self, rates: Sequence[float]) -> None:
        groups = self.optimizer.param_groups
        if len(groups) != len(rates):
            raise RuntimeError(
                f"the optimizer has {len(groups)} parameter groups, but {type(self).__name__} "
                f"was made for {len(rates)}; make it after add_param_group"
            )
        for group, rate in zip(groups, rates, strict=True):
            group["lr"] = rate
        self._last_lr = [float(rate) for rate in rates]

    # State.

    def state_dict(self) -> dict[str, Any]:
        """Return a snapshot of the settings and of where the schedule is; JSON can hold it.

        The rates themselves are in the optimizer's state.
        """
        return {
            name: copy.deepcopy(value) for name, value in vars(self).items() if name != "optimizer"
        }

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Take over what ``state_dict`` of such a schedule returned.

        Raises:
            TypeError: not a mapping.
            ValueError: a state of another kind of schedule, or of another number of groups.
                Nothing has changed then.
        """
        self._check_state(state_dict)
        own = self.state_dict()
        vars(self).update({name: copy.deepcopy(state_dict[name]) for name in own})

    def _check_state(self, state_dict: Any) -> None:
        if not isinstance(state_dict, Mapping):
            raise TypeError(f"state_dict must be a mapping, but got {type(state_dict).__name__}")
        own, name = self.state_dict(), type(self).__name__
        missing = sorted(own.keys() - state_dict.keys())
        unexpected = sorted(
            key for key in state_dict.keys() - own.keys() if not str(key).startswith("_")
        )
        if missing or unexpected:
            raise ValueError(
                f"loaded state dict is not one of {name}: it lacks {missing} and has unknown "
                f"{unexpected}"
            )
        for key in ("base_lrs", "_last_lr"):
            if key in own and len(state_dict[key]) != len(own[key]):
                raise ValueError(
                    f"loaded state dict of {name} has rates of {len(state_dict[key])} parameter "
                    f"groups, but the optimizer has {len(own[key])}"
                )


# Checks of arguments.


def check_optimizer(optimizer: Any) -> None:
    """Raise TypeError unless ``optimizer`` is one."""
    if not isinstance(optimizer, Optimizer):
        raise TypeError(f"{type(optimizer).__name__} is not an Optimizer")


def check_positive(owner: str, name: str, value: Any, least: int = 1) -> int:
    """Return ``value`` as an int.

    Raises:
        ValueError: it is no integer, or below ``least``; also where it is of another type,
            as in PyTorch.
    """
    is_integer = isinstance(value, SupportsIndex) and not isinstance(value, bool)
    if not is_integer or operator.index(value) < least:
        wanted = "positive integer" if least == 1 else f"integer >= {least}"
        raise ValueError(f"{owner}: Expected {wanted} {name}, but got {value!r}")
    return operator.index(value)


def per_group(name: str, optimizer: Optimizer, value: Any) -> list[Any]:
    """Return ``value`` for each group: a list of as many, or one for all.

    Raises:
        ValueError: a list of another length.
    """
    count = len(optimizer.param_groups)
    if not isinstance(value, list | tuple):
        return [value] * count
    if len(value) != count:
        raise ValueError(f"expected {count} values for {name}, got {len(value)}")
    return list(value)
