"""Schedules that multiply the rate by a number which depends on the epoch alone."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping
from types import FunctionType
from typing import Any, TypeAlias

from .._checks import number
from .._optimizer import Optimizer
from ._base import LRScheduler, check_optimizer, check_positive, per_group

__all__ = [
    "ConstantLR",
    "CosineAnnealingLR",
    "ExponentialLR",
    "LambdaLR",
    "LinearLR",
    "MultiStepLR",
    "StepLR",
]

Factor: TypeAlias = Callable[[int], float]


class _Multiplied(LRScheduler):
    """Rates of ``floor + (base_lr - floor) * factor(epoch)``.

    A step multiplies the distance of the present rate from the floor by
    ``factor(epoch) / factor(epoch - 1)``. So several schedules of one optimizer
    multiply with each other, and a rate that was set by hand is gone on from.
    """

    eta_min: float = 0.0

    def _factor(self, epoch: int) -> float:
        """Return the factor of an epoch, from 0."""
        raise NotImplementedError

    def _exact(self) -> list[float]:
        factor = self._factor(self.last_epoch)
        return [self.eta_min + (base - self.eta_min) * factor for base in self.base_lrs]

    def get_lr(self) -> list[float]:
        """Return each group's rate for the epoch ``last_epoch``, from its present one."""
        epoch = self.last_epoch
        factor, before = self._factor(epoch), self._factor(epoch - 1) if epoch > 0 else 1.0
        rates = [group["lr"] for group in self.optimizer.param_groups]
        if factor == before:
            return rates
        if before == 0:  # from the floor the way is lost
            return self._exact()
        return [self.eta_min + (rate - self.eta_min) * (factor / before) for rate in rates]

    def _restart(self) -> None:
        self.last_epoch = 0
        self._set(self._exact())


class StepLR(_Multiplied):
    """``base_lr * gamma ** (epoch // step_size)``.

    Args:
        optimizer: whose groups get new rates.
        step_size: how many epochs a rate lasts.
        gamma: what it is multiplied by then.
        last_epoch: the last epoch of the run to be gone on with.

    Raises:
        ValueError: ``step_size`` is not a positive integer.
        TypeError, KeyError: as ``LRScheduler``.
    """

    def __init__(
        self, optimizer: Optimizer, step_size: int, gamma: float = 0.1, last_epoch: int = -1
    ) -> None:
        self.step_size = check_positive("StepLR", "step_size", step_size)
        number("gamma")("StepLR", gamma)
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def _factor(self, epoch: int) -> float:
        return float(self.gamma ** (epoch // self.step_size))


class MultiStepLR(_Multiplied):
    """``base_lr * gamma ** (number of milestones <= epoch)``.

    Args:
        optimizer: whose groups get new rates.
        milestones: the epochs at which the rate is multiplied; one that comes twice counts twice.
        gamma: what it is multiplied by.
        last_epoch: the last epoch of the run to be gone on with.

    Raises:
        ValueError: a milestone is not an integer from 0.
        TypeError, KeyError: as ``LRScheduler``.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        milestones: Iterable[int],
        gamma: float = 0.1,
        last_epoch: int = -1,
    ) -> None:
        self.milestones = sorted(
            check_positive("MultiStepLR", "milestone", m, 0) for m in milestones
        )
        number("gamma")("MultiStepLR", gamma)
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def _factor(self, epoch: int) -> float:
        return float(self.gamma ** bisect_right(self.milestones, epoch))


class ExponentialLR(_Multiplied):
    """``base_lr * gamma ** epoch``.

    Args:
        optimizer: whose groups get new rates.
        gamma: what the rate is multiplied by at every epoch.
        last_epoch: the last epoch of the run to be gone on with.

    Raises:
        TypeError, KeyError: as ``LRScheduler``.
    """

    def __init__(self, optimizer: Optimizer, gamma: float, last_epoch: int = -1) -> None:
        number("gamma")("ExponentialLR", gamma)
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def _factor(self, epoch: int) -> float:
        return float(self.gamma**epoch)


class LinearLR(_Multiplied):
    """``base_lr`` times a factor that goes evenly from one value to another, and stays there.

    ``factor = start_factor + (end_factor - start_factor) * min(epoch / total_iters, 1)``

    Args:
        optimizer: whose groups get new rates.
        start_factor: the factor of epoch 0, in (0, 1].
        end_factor: the factor from epoch ``total_iters`` on, in [0, 1].
        total_iters: how many epochs the way takes.
        last_epoch: the last epoch of the run to be gone on with.

    Raises:
        ValueError: a factor out of range, or ``total_iters`` is not a positive integer.
        TypeError, KeyError: as ``LRScheduler``.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        start_factor: float = 1.0 / 3,
        end_factor: float = 1.0,
        total_iters: int = 5,
        last_epoch: int = -1,
    ) -> None:
        number("start_factor")("LinearLR", start_factor)
        number("end_factor")("LinearLR", end_factor)
        if not 0 < start_factor <= 1:
            raise ValueError(
                "LinearLR: Starting multiplicative factor expected to be greater than 0 and less "
                f"or equal to 1, got {start_factor}"
            )
        if not 0 <= end_factor <= 1:
            raise ValueError(
                "LinearLR: Ending multiplicative factor expected to be between 0 and 1, "
                f"got {end_factor}"
            )
        self.start_factor, self.end_factor = start_factor, end_factor
        self.total_iters = check_positive("LinearLR", "total_iters", total_iters)
        super().__init__(optimizer, last_epoch)

    def _factor(self, epoch: int) -> float:
        way = self.end_factor - self.start_factor
        return self.start_factor + way * (min(epoch, self.total_iters) / self.total_iters)


class ConstantLR(_Multiplied):
    """``base_lr * factor`` until epoch ``total_iters``, and ``base_lr`` from then on.

    Args:
        optimizer: whose groups get new rates.
        factor: in [0, 1].
        total_iters: how many epochs it lasts.
        last_epoch: the last epoch of the run to be gone on with.

    Raises:
        ValueError: ``factor`` is out of range, or ``total_iters`` is not a positive integer.
        TypeError, KeyError: as ``LRScheduler``.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        factor: float = 1.0 / 3,
        total_iters: int = 5,
        last_epoch: int = -1,
    ) -> None:
        number("factor")("ConstantLR", factor)
        if not 0 <= factor <= 1:
            raise ValueError(
                "ConstantLR: Constant multiplicative factor expected to be between 0 and 1, "
                f"got {factor}"
            )
        self.factor = factor
        self.total_iters = check_positive("ConstantLR", "total_iters", total_iters)
        super().__init__(optimizer, last_epoch)

    def _factor(self, epoch: int) -> float:
        return self.factor if epoch < self.total_iters else 1.0


class CosineAnnealingLR(_Multiplied):
    """``eta_min + (base_lr - eta_min) * (1 + cos(pi * epoch / T_max)) / 2``.

    Args:
        optimizer: whose groups get new rates.
        T_max: how many epochs the way down takes; after as many more it is up again.
        eta_min: the lowest rate.
        last_epoch: the last epoch of the run to be gone on with.

    Source: Loshchilov and Hutter, 2016, arXiv:1608.03983 (here without restarts).

    Raises:
        ValueError: ``T_max`` is not a positive integer.
        TypeError, KeyError: as ``LRScheduler``.
    """

    def __init__(
        self, optimizer: Optimizer, T_max: int, eta_min: float = 0.0, last_epoch: int = -1
    ) -> None:
        number("eta_min")("CosineAnnealingLR", eta_min)
        self.T_max, self.eta_min = check_positive("CosineAnnealingLR", "T_max", T_max), eta_min
        super().__init__(optimizer, last_epoch)

    def _factor(self, epoch: int) -> float:
        return (1 + math.cos(math.pi * epoch / self.T_max)) / 2


class LambdaLR(LRScheduler):
    """``base_lr * lr_lambda(epoch)``.

    Args:
        optimizer: whose groups get new rates.
        lr_lambda: a function of the epoch, or a list with one for each group.
        last_epoch: the last epoch of the run to be gone on with.

    ``state_dict`` leaves functions out; of an object that can be called it has the attributes.

    Raises:
        ValueError: a list of another length than there are groups.
        TypeError: something that cannot be called, or as ``LRScheduler``.
        KeyError: as ``LRScheduler``.
    """

    def __init__(
        self, optimizer: Optimizer, lr_lambda: Factor | list[Factor], last_epoch: int = -1
    ) -> None:
        check_optimizer(optimizer)
        self.lr_lambdas: list[Factor] = per_group("lr_lambda", optimizer, lr_lambda)
        for function in self.lr_lambdas:
            if not callable(function):
                raise TypeError(
                    f"LambdaLR: lr_lambda must be a function, got {type(function).__name__}"
                )
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        """Return each group's rate for the epoch ``last_epoch``."""
        return [
            base * function(self.last_epoch)
            for base, function in zip(self.base_lrs, self.lr_lambdas, strict=True)
        ]

    def state_dict(self) -> dict[str, Any]:
        """Return a snapshot of where the schedule is, and of the attributes of its objects."""
        functions = self.lr_lambdas
        own = {name: value for name, value in vars(self).items() if name not in _NOT_SAVED}
        kept = [None if isinstance(f, FunctionType) else dict(vars(f)) for f in functions]
        return {**own, "base_lrs": [*self.base_lrs], "lr_lambdas": kept}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Take over what ``state_dict`` returned; the functions stay.

        Raises:
            TypeError, ValueError: as ``LRScheduler.load_state_dict``.
        """
        self._check_state(state_dict)
        saved = per_group("lr_lambdas", self.optimizer, state_dict["lr_lambdas"])
        vars(self).update({k: v for k, v in state_dict.items() if k not in _NOT_SAVED})
        for function, attributes in zip(self.lr_lambdas, saved, strict=True):
            if attributes is not None:
                vars(function).update(attributes)


_NOT_SAVED = frozenset({"optimizer", "lr_lambdas"})
