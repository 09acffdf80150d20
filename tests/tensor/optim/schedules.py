"""One table of schedules: how each is made for an optimizer of either library."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

from tests.tensor.optim.cases import Case

__all__ = ["SCHEDULES", "Schedule"]

_SGD: Final = Case("SGD", {"lr": 0.1, "momentum": 0.9})


class Schedule(NamedTuple):
    """What makes a schedule of a library's ``lr_scheduler`` module, and the optimizer it is for.

    ``again`` says whether it can be gone on with by ``last_epoch`` alone.
    """

    make: Callable[..., Any]
    case: Case = _SGD
    again: bool = True


def _named(name: str, *args: Any, case: Case = _SGD, **options: Any) -> Schedule:
    return Schedule(lambda lib, opt, **kw: getattr(lib, name)(opt, *args, **options, **kw), case)


def _sequence(*members: Schedule, milestones: list[int]) -> Schedule:
    def make(lib: Any, opt: Any) -> Any:
        return lib.SequentialLR(opt, [member.make(lib, opt) for member in members], milestones)

    return Schedule(make, again=False)


def _half(epoch: int) -> float:
    return 0.5 ** (epoch / 3)


SCHEDULES: Final[dict[str, Schedule]] = {
    "step": _named("StepLR", 3),
    "step, gamma": _named("StepLR", step_size=4, gamma=0.7),
    "step, every": _named("StepLR", 1, 0.9),
    "milestones": _named("MultiStepLR", [4, 9, 15]),
    "milestones, at 0, twice and unsorted": _named("MultiStepLR", [9, 4, 0, 9], gamma=0.6),
    "exponential": _named("ExponentialLR", 0.9),
    "linear": _named("LinearLR"),
    "linear, down": _named("LinearLR", start_factor=0.9, end_factor=0.1, total_iters=12),
    "linear, to 0": _named("LinearLR", 1.0, 0.0, 8),
    "constant": _named("ConstantLR"),
    "constant, factor": _named("ConstantLR", factor=0.8, total_iters=11),
    "cosine": _named("CosineAnnealingLR", 20),
    "cosine, up again": _named("CosineAnnealingLR", T_max=6, eta_min=0.01),
    "warm restarts": _named("CosineAnnealingWarmRestarts", 5),
    "warm restarts, longer": _named("CosineAnnealingWarmRestarts", 3, T_mult=2, eta_min=0.01),
    "one cycle": _named("OneCycleLR", 0.3, total_steps=20),
    "one cycle, linear": _named(
        "OneCycleLR",
        max_lr=0.2,
        epochs=6,
        steps_per_epoch=4,
        pct_start=0.4,
        anneal_strategy="linear",
        div_factor=10.0,
        final_div_factor=100.0,
    ),
    "one cycle, three phases": _named("OneCycleLR", 0.3, 22, three_phase=True),
    "one cycle, only down": _named("OneCycleLR", 0.3, 25, pct_start=0.0),
    "one cycle of betas": _named(
        "OneCycleLR", 0.02, 21, case=Case("AdamW", {}), base_momentum=0.8, max_momentum=0.9
    ),
    "one cycle, momentum left alone": _named(
        "OneCycleLR", 0.02, 30, case=Case("Adagrad", {}), cycle_momentum=False
    ),
    "lambda": _named("LambdaLR", _half),
    "lambdas": _named("LambdaLR", [_half]),
    "sequence": _sequence(
        _named("LinearLR", 0.1, total_iters=5), _named("ExponentialLR", 0.8), milestones=[5]
    ),
    "sequence of three": _sequence(
        _named("ConstantLR", 0.2, 3),
        _named("CosineAnnealingLR", 6),
        _named("StepLR", 2, 0.5),
        milestones=[4, 11],
    ),
    "sequence that starts with its second": _sequence(
        _named("ConstantLR", 0.2, 3), _named("StepLR", 2, 0.5), milestones=[0]
    ),
    "sequence with restarts": _sequence(
        _named("CosineAnnealingWarmRestarts", 4), _named("LambdaLR", _half), milestones=[9]
    ),
    "sequence that restarts late": _sequence(
        _named("ExponentialLR", 0.9),
        _named("CosineAnnealingWarmRestarts", 2, 2),
        milestones=[6],
    ),
}
