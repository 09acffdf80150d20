"""A schedule that follows a metric."""

from __future__ import annotations

import math
from typing import Literal, SupportsFloat

from .._checks import number
from .._optimizer import Optimizer
from ._base import LRScheduler, check_optimizer, check_positive, per_group

__all__ = ["ReduceLROnPlateau"]


class ReduceLROnPlateau(LRScheduler):
    """Multiply the rate by ``factor`` when a metric has not become better for a while.

    Args:
        optimizer: whose groups get new rates.
        mode: "min" if less is better, "max" if more is.
        factor: what the rate is multiplied by, below 1.
        patience: how many epochs without an improvement are borne.
        threshold: by how much a metric must be better to count as better.
        threshold_mode: "rel", a share of the best so far, or "abs".
        cooldown: for how many epochs after a change nothing is counted.
        min_lr: no rate goes below; one, or a list with one for each group.
        eps: changes that are not larger than this are left out.

    Raises:
        ValueError: an unknown mode, a factor from 1, or a list that does not fit.
        TypeError: not an optimizer, or an argument of the wrong type.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        mode: Literal["min", "max"] = "min",
        factor: float = 0.1,
        patience: int = 10,
        threshold: float = 1e-4,
        threshold_mode: Literal["rel", "abs"] = "rel",
        cooldown: int = 0,
        min_lr: list[float] | float = 0,
        eps: float = 1e-8,
    ) -> None:
        owner = "ReduceLROnPlateau"
        check_optimizer(optimizer)
        for name, value in (("factor", factor), ("threshold", threshold), ("eps", eps)):
            number(name)(owner, value)
        if factor >= 1:
            raise ValueError(f"{owner}: Factor should be < 1.0, got {factor}")
        if mode not in ("min", "max"):
            raise ValueError(f"{owner}: mode {mode!r} is unknown; it is 'min' or 'max'")
        if threshold_mode not in ("rel", "abs"):
            raise ValueError(
                f"{owner}: threshold mode {threshold_mode!r} is unknown; it is 'rel' or 'abs'"
            )
        self.mode, self.factor = mode, factor
        self.patience = check_positive(owner, "patience", patience, 0)
        self.threshold, self.threshold_mode = threshold, threshold_mode
        self.cooldown = check_positive(owner, "cooldown", cooldown, 0)
        self.min_lrs = per_group("min_lr", optimizer, min_lr)
        self.eps = eps
        self.optimizer = optimizer
        self.best = math.inf if mode == "min" else -math.inf
        self.num_bad_epochs = self.cooldown_counter = self.last_epoch = 0
        self._last_lr = [float(group["lr"]) for group in optimizer.param_groups]

    def step(self, metrics: SupportsFloat) -> None:  # type: ignore[override]
        """Note the metric of an epoch, and lower the rates if it is time to.

        Raises:
            TypeError: ``metrics`` is not a number.
            RuntimeError: the optimizer has got more groups since the schedule was made.
        """
        current = float(metrics)
        self.last_epoch += 1
        if self._is_better(current):
            self.best, self.num_bad_epochs = current, 0
        else:
            self.num_bad_epochs += 1
        if self.in_cooldown:
            self.cooldown_counter -= 1
            self.num_bad_epochs = 0
        rates = [float(group["lr"]) for group in self.optimizer.param_groups]
        if self.num_bad_epochs > self.patience:
            self.cooldown_counter, self.num_bad_epochs = self.cooldown, 0
            lowered = [
                max(r * self.factor, low) for r, low in zip(rates, self.min_lrs, strict=True)
            ]
            rates = [
                low if rate - low > self.eps else rate
                for rate, low in zip(rates, lowered, strict=True)
            ]
        self._set(rates)

    @property
    def in_cooldown(self) -> bool:
        """Whether a change is so recent that nothing is counted."""
        return self.cooldown_counter > 0

    def _is_better(self, metric: float) -> bool:
        sign = 1 if self.mode == "min" else -1
        if self.threshold_mode == "rel":
            return sign * metric < sign * self.best * (1 - sign * self.threshold)
        return sign * metric < sign * self.best - self.threshold
