"""Schedules that go up and down."""

from __future__ import annotations

import math
from typing import Any, Literal, NamedTuple

from .._checks import number
from .._optimizer import Optimizer
from ._base import LRScheduler, check_optimizer, check_positive, per_group

__all__ = ["CosineAnnealingWarmRestarts", "OneCycleLR"]


def _cosine(start: float, end: float, part: float) -> float:
    """Return where half a cosine from ``start`` to ``end`` is after ``part`` of its way."""
    return end + (start - end) / 2 * (1 + math.cos(math.pi * part))


def _line(start: float, end: float, part: float) -> float:
    return start + (end - start) * part


class CosineAnnealingWarmRestarts(LRScheduler):
    """``eta_min + (base_lr - eta_min) * (1 + cos(pi * T_cur / T_i)) / 2``, over and over.

    ``T_cur`` counts the epochs since the last restart, and ``T_i`` is how many
    there are until the next.

    Args:
        optimizer: whose groups get new rates.
        T_0: the first ``T_i``.
        T_mult: what ``T_i`` is multiplied by at a restart.
        eta_min: the lowest rate.
        last_epoch: the last epoch of the run to be gone on with.

    Source: Loshchilov and Hutter, 2016, arXiv:1608.03983.

    Raises:
        ValueError: ``T_0`` or ``T_mult`` is not a positive integer.
        TypeError, KeyError: as ``LRScheduler``.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        T_0: int,
        T_mult: int = 1,
        eta_min: float = 0.0,
        last_epoch: int = -1,
    ) -> None:
        owner = "CosineAnnealingWarmRestarts"
        self.T_0 = check_positive(owner, "T_0", T_0)
        self.T_mult = check_positive(owner, "T_mult", T_mult)
        number("eta_min")(owner, eta_min)
        self.eta_min = eta_min
        self._go(max(last_epoch, 0))
        super().__init__(optimizer, last_epoch)

    def _go(self, epoch: float) -> None:
        self.T_cur, self.T_i = epoch, self.T_0
        self._carry()

    def _carry(self) -> None:
        if self.T_mult == 1:
            self.T_cur %= self.T_i
        while self.T_cur >= self.T_i:
            self.T_cur -= self.T_i
            self.T_i *= self.T_mult

    def get_lr(self) -> list[float]:
        """Return each group's rate where ``T_cur`` is."""
        return [_cosine(base, self.eta_min, self.T_cur / self.T_i) for base in self.base_lrs]

    def step(self, epoch: float | None = None) -> None:
        """Set the rates of the next epoch, or of ``epoch``, which may lie between two.

        Raises:
            ValueError: ``epoch`` is negative.
            RuntimeError: the optimizer has got more groups since the schedule was made.
        """
        if epoch is not None:
            number("epoch")("CosineAnnealingWarmRestarts", epoch)
            if not 0 <= epoch < math.inf:
                raise ValueError(f"Expected non-negative epoch, but got {epoch}")
        self._count()
        if epoch is not None:
            self._go(epoch)
            self.last_epoch = math.floor(epoch)
        else:
            if self.last_epoch >= 0:
                self.T_cur += 1
                self._carry()
            self.last_epoch += 1
        self._set(self.get_lr())

    def _restart(self) -> None:
        self._go(0)
        super()._restart()


class _Phase(NamedTuple):
    """Until step ``end``, from one to another of a group's rates, and of its momenta."""

    end: float
    rates: tuple[str, str]
    momenta: tuple[str, str]


class OneCycleLR(LRScheduler):
    """A rate that rises once to ``max_lr`` and then falls far below where it began.

    It begins at ``initial_lr = max_lr / div_factor`` and ends at ``initial_lr
    / final_div_factor``. The momentum does the reverse: from ``max_momentum``
    down to ``base_momentum`` and back. Meant to be stepped after every batch.

    Args:
        optimizer: whose groups get new rates.
        max_lr: the highest rate; one, or a list with one for each group.
        total_steps: length of the cycle, in steps; or
        epochs: its length in epochs, and
        steps_per_epoch: how many steps they have.
        pct_start: the share of the cycle in which the rate rises.
        anneal_strategy: "cos" or "linear", the shape of the way.
        cycle_momentum: whether momentum, or the first of ``betas``, is set too.
        base_momentum: the lowest momentum; one or a list.
        max_momentum: the highest momentum; one or a list.
        div_factor: how far below ``max_lr`` it begins.
        final_div_factor: how far below its beginning it ends.
        three_phase: fall to ``initial_lr`` first, as steeply as it rose, and then to the end.
        last_epoch: the last step of the run to be gone on with.

    Source: Smith and Topin, 2017, arXiv:1708.07120.

    Raises:
        ValueError: no length, ``pct_start`` outside [0, 1], an unknown strategy, lists that do
            not fit, or ``cycle_momentum`` for an optimizer that has no momentum.
        TypeError, KeyError: as ``LRScheduler``.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        max_lr: float | list[float],
        total_steps: int | None = None,
        epochs: int | None = None,
        steps_per_epoch: int | None = None,
        pct_start: float = 0.3,
        anneal_strategy: Literal["cos", "linear"] = "cos",
        cycle_momentum: bool = True,
        base_momentum: float | list[float] = 0.85,
        max_momentum: float | list[float] = 0.95,
        div_factor: float = 25.0,
        final_div_factor: float = 1e4,
        three_phase: bool = False,
        last_epoch: int = -1,
    ) -> None:
        check_optimizer(optimizer)
        self.total_steps = _length(total_steps, epochs, steps_per_epoch)
        for name, value in (
            ("pct_start", pct_start),
            ("div_factor", div_factor),
            ("final_div_factor", final_div_factor),
        ):
            number(name)("OneCycleLR", value)
        if not 0 <= pct_start <= 1:
            raise ValueError(f"Expected float between 0 and 1 pct_start, but got {pct_start}")
        if anneal_strategy not in ("cos", "linear"):
            raise ValueError(
                f"anneal_strategy must be one of 'cos' or 'linear', instead got {anneal_strategy!r}"
            )
        self.pct_start, self.anneal_strategy = pct_start, anneal_strategy
        self.three_phase, self.cycle_momentum = three_phase, cycle_momentum
        highest = per_group("max_lr", optimizer, max_lr)
        options = [
            {
                "initial_lr": top / div_factor,
                "max_lr": top,
                "min_lr": top / div_factor / final_div_factor,
            }
            for top in highest
        ]
        if cycle_momentum:
            if not optimizer.defaults.keys() & {"momentum", "betas"}:
                raise ValueError(
                    "optimizer must support momentum or beta1 with `cycle_momentum` option "
                    f"enabled, but {type(optimizer).__name__} does not"
                )
            momenta = zip(
                per_group("max_momentum", optimizer, max_momentum),
                per_group("base_momentum", optimizer, base_momentum),
                strict=True,
            )
            for own, (top, base) in zip(options, momenta, strict=True):
                own.update({"max_momentum": top, "base_momentum": base})
        if last_epoch == -1:
            for group, own in zip(optimizer.param_groups, options, strict=True):
                group.update(own)
        super().__init__(optimizer, last_epoch)

    def _phases(self) -> list[_Phase]:
        up, down = ("base_momentum", "max_momentum"), ("max_momentum", "base_momentum")
        summit, end = self.pct_start * self.total_steps - 1, self.total_steps - 1
        rise = _Phase(summit, ("initial_lr", "max_lr"), down)
        if not self.three_phase:
            return [rise, _Phase(end, ("max_lr", "min_lr"), up)]
        return [
            rise,
            _Phase(2 * summit, ("max_lr", "initial_lr"), up),
            _Phase(end, ("initial_lr", "min_lr"), ("max_momentum", "max_momentum")),
        ]

    def step(self) -> None:
        """Set the rates, and the momenta, of the next step.

        Raises:
            ValueError: the cycle is over. Nothing has changed then.
            RuntimeError: the optimizer has got more groups since the schedule was made.
        """
        if self.last_epoch >= self.total_steps:
            raise ValueError(
                f"Tried to step {self.last_epoch + 1} times. The specified number of total steps "
                f"is {self.total_steps}; make the cycle longer"
            )
        super().step()

    def get_lr(self) -> list[float]:
        """Return each group's rate for the step ``last_epoch``; set the momenta."""
        start, phases = 0.0, self._phases()
        for phase in phases:
            if self.last_epoch <= phase.end or phase is phases[-1]:
                break
            start = phase.end
        length = phase.end - start
        part = (self.last_epoch - start) / length if length else 1.0
        anneal = _cosine if self.anneal_strategy == "cos" else _line

        def between(group: dict[str, Any], ends: tuple[str, str]) -> float:
            return anneal(group[ends[0]], group[ends[1]], part)

        if self.cycle_momentum:
            for group in self.optimizer.param_groups:
                momentum = between(group, phase.momenta)
                if "betas" in group:
                    group["betas"] = (momentum, *group["betas"][1:])
                else:
                    group["momentum"] = momentum
        return [between(group, phase.rates) for group in self.optimizer.param_groups]


def _length(total_steps: int | None, epochs: int | None, steps_per_epoch: int | None) -> int:
    if total_steps is not None:
        return check_positive("OneCycleLR", "total_steps", total_steps)
    if epochs is None or steps_per_epoch is None:
        raise ValueError(
            "OneCycleLR: You must define either total_steps OR (epochs AND steps_per_epoch)"
        )
    return check_positive("OneCycleLR", "epochs", epochs) * check_positive(
        "OneCycleLR", "steps_per_epoch", steps_per_epoch
    )
