"""Schedules step by step against PyTorch's, what they refuse, and their state."""

from __future__ import annotations

import copy
import json
import math
from collections.abc import Callable
from typing import Any, Final

import numpy as np
import pytest
import torch

from tensor import Tensor, nn, optim
from tensor.optim import lr_scheduler
from tests.tensor.optim.cases import CASES, MODELS, Pair
from tests.tensor.optim.schedules import SCHEDULES, Schedule

STEPS: Final = 20
RATE_RTOL: Final = 1e-13  # PyTorch multiplies from step to step, and so rounds at each

each_schedule = pytest.mark.parametrize("schedule", SCHEDULES.values(), ids=SCHEDULES)


def moving(optimizer: Any) -> list[tuple[float, ...]]:
    """What a schedule sets: each group's rate and momentum."""
    return [
        (group["lr"], *group.get("betas", (group.get("momentum", 0.0),)))
        for group in optimizer.param_groups
    ]


class ScheduledPair(Pair):
    """A pair with a schedule on either side."""

    def __init__(self, schedule: Schedule) -> None:
        self.schedule = schedule
        super().__init__(MODELS["mlp"], schedule.case)
        self.their_scheduler = schedule.make(torch.optim.lr_scheduler, self.their_optimizer)

    def fresh(self) -> None:
        super().fresh()
        self.scheduler = self.schedule.make(lr_scheduler, self.optimizer)

    def assert_equal_rates(self, note: str) -> None:
        np.testing.assert_allclose(
            moving(self.optimizer), moving(self.their_optimizer), RATE_RTOL, 1e-17, err_msg=note
        )
        np.testing.assert_allclose(
            self.scheduler.get_last_lr(), self.their_scheduler.get_last_lr(), RATE_RTOL, 1e-17
        )
        assert self.scheduler.last_epoch == self.their_scheduler.last_epoch

    def step(self) -> tuple[float, float]:
        losses = super().step()
        self.assert_equal_rates(f"epoch {self.scheduler.last_epoch}")
        self.scheduler.step()
        self.their_scheduler.step()
        return losses


@each_schedule
def test_twenty_steps_with_a_schedule_are_pytorchs(schedule: Schedule) -> None:
    pair = ScheduledPair(schedule)
    pair.run(STEPS)
    pair.assert_equal_rates("end")


@each_schedule
def test_a_run_resumed_half_way_from_its_states_goes_on(schedule: Schedule) -> None:
    pair = ScheduledPair(schedule)
    pair.run(STEPS // 2)
    weights, own = pair.ours.state_dict(), pair.optimizer.state_dict()
    saved = json.dumps([own["param_groups"], pair.scheduler.state_dict()])
    pair.scheduler.step()  # which must not change what was saved
    pair.fresh()
    own["param_groups"], state = json.loads(saved)
    pair.ours.load_state_dict(weights)
    pair.optimizer.load_state_dict(own)
    pair.scheduler.load_state_dict(state)
    pair.run(STEPS // 2)


@pytest.mark.parametrize(
    "schedule",
    [s for s in SCHEDULES.values() if s.again],
    ids=[name for name, s in SCHEDULES.items() if s.again],
)
def test_a_run_resumed_from_the_optimizers_state_and_last_epoch_goes_on(
    schedule: Schedule,
) -> None:
    pair = ScheduledPair(schedule)
    pair.run(STEPS // 2)
    Pair.step(pair)
    last, weights = pair.scheduler.last_epoch, pair.ours.state_dict()
    own = pair.optimizer.state_dict()
    pair.fresh()
    pair.ours.load_state_dict(weights)
    pair.optimizer.load_state_dict(own)
    pair.scheduler = schedule.make(lr_scheduler, pair.optimizer, last_epoch=last)
    pair.their_scheduler.step()
    pair.run(STEPS // 2 - 1)
    assert pair.scheduler.last_epoch == STEPS


@each_schedule
def test_every_group_has_its_own_rate(schedule: Schedule) -> None:
    if "lambdas" in {name for name, s in SCHEDULES.items() if s is schedule}:
        schedule = Schedule(
            lambda lib, opt: lib.LambdaLR(opt, [lambda t: t, lambda t: 1 / (1 + t)])
        )

    def made(lib: Any, scheduler: Any, parameter: Any) -> tuple[Any, Any]:
        groups = [{"params": [parameter()]}, {"params": [parameter()], "lr": 0.004}]
        optimizer = getattr(lib, schedule.case.name)(groups, **schedule.case.options)
        return optimizer, schedule.make(scheduler, optimizer)

    ours, mine = made(optim, lr_scheduler, lambda: nn.Parameter(np.ones(2)))
    theirs, other = made(
        torch.optim, torch.optim.lr_scheduler, lambda: torch.nn.Parameter(torch.ones(2))
    )
    for optimizer in (ours, theirs):
        optimizer.step()
    for epoch in range(STEPS):
        np.testing.assert_allclose(
            moving(ours), moving(theirs), RATE_RTOL, 1e-17, err_msg=f"epoch {epoch}"
        )
        mine.step()
        other.step()


@each_schedule
def test_loading_a_state_brings_the_same_rates_as_stepping_there(schedule: Schedule) -> None:
    def made() -> tuple[optim.Optimizer, lr_scheduler.LRScheduler]:
        optimizer = getattr(optim, schedule.case.name)(
            [nn.Parameter(np.ones(2))], **schedule.case.options
        )
        optimizer.step()
        return optimizer, schedule.make(lr_scheduler, optimizer)

    one, first = made()
    for _ in range(7):
        first.step()
    before = first.state_dict()
    other, second = made()
    second.load_state_dict(before)
    other.load_state_dict(one.state_dict())
    assert second.state_dict() == before and second.get_last_lr() == first.get_last_lr()
    for _ in range(9):
        first.step()
        second.step()
        assert moving(one) == moving(other)
    assert before["last_epoch"] == 7


# Schedules on top of each other, and rates set by hand


def sgd(lr: float = 0.1, **options: Any) -> optim.SGD:
    optimizer = optim.SGD([nn.Parameter(np.ones(2))], lr=lr, **options)
    optimizer.step()
    return optimizer


def their_sgd(lr: float = 0.1) -> Any:
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.ones(2))], lr=lr)
    optimizer.step()
    return optimizer


def test_two_schedules_of_one_optimizer_multiply() -> None:
    rates = []
    for lib, optimizer in ((lr_scheduler, sgd()), (torch.optim.lr_scheduler, their_sgd())):
        schedules = [lib.LinearLR(optimizer, 0.5, total_iters=4), lib.ExponentialLR(optimizer, 0.9)]
        optimizer.step()
        rates.append([])
        for _ in range(8):
            rates[-1].append(optimizer.param_groups[0]["lr"])
            for schedule in schedules:
                schedule.step()
    np.testing.assert_allclose(*rates, rtol=1e-14)


@pytest.mark.parametrize("name", ["step, every", "exponential", "cosine", "milestones"])
def test_a_rate_that_was_set_by_hand_is_gone_on_from(name: str) -> None:
    rates = []
    for lib, optimizer in ((lr_scheduler, sgd()), (torch.optim.lr_scheduler, their_sgd())):
        schedule = SCHEDULES[name].make(lib, optimizer)
        optimizer.step()
        schedule.step()
        optimizer.param_groups[0]["lr"] = 0.7
        for _ in range(6):
            schedule.step()
        rates.append(optimizer.param_groups[0]["lr"])
    assert rates[0] == pytest.approx(rates[1], rel=1e-13)


def test_a_rate_at_the_floor_comes_up_again() -> None:
    optimizer = sgd(0.2)
    schedule = lr_scheduler.ConstantLR(optimizer, 0.0, 3)
    rates = [optimizer.param_groups[0]["lr"]]
    for _ in range(4):
        schedule.step()
        rates.append(optimizer.param_groups[0]["lr"])
    assert rates == [0, 0, 0, 0.2, 0.2]


@pytest.mark.parametrize("inner", ["first", "second"])
def test_a_sequence_may_hold_a_sequence(inner: str) -> None:
    """PyTorch takes one step too many where one is made of another."""

    def rates(nested: bool) -> list[float]:
        optimizer = sgd()
        one, two, three = (
            lr_scheduler.LinearLR(optimizer, 0.5, total_iters=3),
            lr_scheduler.ExponentialLR(optimizer, 0.9),
            lr_scheduler.StepLR(optimizer, 2),
        )
        schedule: Any
        if not nested:
            schedule = lr_scheduler.SequentialLR(optimizer, [one, two, three], [4, 9])
        elif inner == "first":
            schedule = lr_scheduler.SequentialLR(optimizer, [one, two], [4])
            schedule = lr_scheduler.SequentialLR(optimizer, [schedule, three], [9])
        else:
            schedule = lr_scheduler.SequentialLR(optimizer, [two, three], [5])
            schedule = lr_scheduler.SequentialLR(optimizer, [one, schedule], [4])
        found = []
        for _ in range(14):
            found.append(optimizer.param_groups[0]["lr"])
            assert schedule.get_last_lr() == found[-1:]
            schedule.step()
        return found

    assert rates(nested=True) == rates(nested=False)


@pytest.mark.parametrize("epochs", [[0.5, 0.75, 5.0, 7.25, 3, None, 30.0, None, None, 2.5, None]])
@pytest.mark.parametrize("mult", [1, 2, 3])
def test_warm_restarts_go_to_any_epoch(epochs: list[float | None], mult: int) -> None:
    optimizer, other = sgd(), their_sgd()
    ours = lr_scheduler.CosineAnnealingWarmRestarts(optimizer, 3, mult, 0.01)
    theirs = torch.optim.lr_scheduler.CosineAnnealingWarmRestarts(other, 3, mult, 0.01)
    for epoch in epochs:
        ours.step(epoch)
        theirs.step(epoch)
        assert ours.last_epoch == theirs.last_epoch
        assert ours.get_last_lr() == pytest.approx(theirs.get_last_lr(), rel=1e-12)


# Following a metric

METRICS: Final = [5, 4, 4, 4, 3.9999, 3, 3, 3, 3, 3, 2.5, 2.5, math.nan, 9, 9, 9, 9, 9, 9, 9, 1, 1]


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"patience": 1},
        {"patience": 0, "factor": 0.5, "min_lr": 0.01},
        {"patience": 1, "cooldown": 2},
        {"patience": 1, "mode": "max"},
        {"patience": 1, "mode": "max", "threshold_mode": "abs", "threshold": 0.6},
        {"patience": 1, "threshold_mode": "abs", "threshold": 0.6},
        {"patience": 0, "eps": 0.05, "factor": 0.6},
        {"patience": 0, "min_lr": [0.003]},
    ],
    ids=str,
)
def test_a_plateau_lowers_the_rate_where_pytorch_does(options: dict[str, Any]) -> None:
    optimizer, other = sgd(), their_sgd()
    ours = lr_scheduler.ReduceLROnPlateau(optimizer, **options)
    theirs = torch.optim.lr_scheduler.ReduceLROnPlateau(other, **options)
    assert ours.get_last_lr() == [0.1]
    for i, metric in enumerate(METRICS):
        ours.step(Tensor(metric, "float64") if i % 2 else metric)
        theirs.step(metric)
        assert optimizer.param_groups[0]["lr"] == other.param_groups[0]["lr"], i
        assert ours.get_last_lr() == theirs.get_last_lr()
        state = json.loads(json.dumps(ours.state_dict()))
        assert state.items() <= {**theirs.state_dict(), "best": state["best"]}.items()
        ours = lr_scheduler.ReduceLROnPlateau(optimizer)
        ours.load_state_dict(state)


def test_a_plateau_names_what_is_no_metric_and_changes_nothing() -> None:
    schedule = lr_scheduler.ReduceLROnPlateau(sgd())
    before = schedule.state_dict()
    with pytest.raises((TypeError, ValueError)):
        schedule.step("good")  # type: ignore[arg-type]
    assert schedule.state_dict() == before


# What is refused

lr: Final = lr_scheduler

BAD: Final[dict[str, tuple[Callable[[Any], Any], type[Exception], str]]] = {
    "not an optimizer": (lambda o: lr.StepLR(3, 1), TypeError, "int is not an Optimizer"),  # type: ignore[arg-type]
    "not an optimizer, plateau": (lambda o: lr.ReduceLROnPlateau(None), TypeError, "NoneType is"),  # type: ignore[arg-type]
    "not an optimizer, sequence": (lambda o: lr.SequentialLR(o.state, [], []), TypeError, "dict"),
    "resuming nothing": (lambda o: lr.StepLR(o, 1, last_epoch=3), KeyError, "'initial_lr'"),
    "step_size 0": (lambda o: lr.StepLR(o, 0), ValueError, "positive integer step_size"),
    "step_size 1.5": (lambda o: lr.StepLR(o, 1.5), ValueError, "but got 1.5"),  # type: ignore[arg-type]
    "gamma": (lambda o: lr.ExponentialLR(o, "0.9"), TypeError, "gamma must be a number, got str"),  # type: ignore[arg-type]
    "milestones": (lambda o: lr.MultiStepLR(o, [1, -2]), ValueError, "milestone, but got -2"),
    "start 0": (lambda o: lr.LinearLR(o, 0.0), ValueError, "greater than 0"),
    "start 2": (lambda o: lr.LinearLR(o, 2.0), ValueError, "Starting multiplicative factor"),
    "end": (lambda o: lr.LinearLR(o, 0.5, 1.5), ValueError, "Ending multiplicative factor"),
    "no iterations": (lambda o: lr.LinearLR(o, total_iters=0), ValueError, "total_iters"),
    "factor": (lambda o: lr.ConstantLR(o, 1.5), ValueError, "between 0 and 1, got 1.5"),
    "T_max": (lambda o: lr.CosineAnnealingLR(o, 0), ValueError, "T_max"),
    "T_0": (lambda o: lr.CosineAnnealingWarmRestarts(o, 0), ValueError, "positive integer T_0"),
    "T_mult": (lambda o: lr.CosineAnnealingWarmRestarts(o, 2, 0), ValueError, "T_mult"),
    "epoch": (
        lambda o: lr.CosineAnnealingWarmRestarts(o, 2).step(-1),
        ValueError,
        "non-negative epoch, but got -1",
    ),
    "no length": (lambda o: lr.OneCycleLR(o, 1.0), ValueError, "total_steps OR"),
    "half a length": (lambda o: lr.OneCycleLR(o, 1.0, epochs=3), ValueError, "total_steps OR"),
    "length 0": (lambda o: lr.OneCycleLR(o, 1.0, 0), ValueError, "positive integer total_steps"),
    "epochs": (
        lambda o: lr.OneCycleLR(o, 1.0, epochs=-1, steps_per_epoch=2),
        ValueError,
        "positive integer epochs, but got -1",
    ),
    "share": (lambda o: lr.OneCycleLR(o, 1.0, 9, pct_start=1.5), ValueError, "got 1.5"),
    "strategy": (
        lambda o: lr.OneCycleLR(o, 1.0, 9, anneal_strategy="sine"),  # type: ignore[arg-type]
        ValueError,
        "'cos' or 'linear', instead got 'sine'",
    ),
    "rates": (
        lambda o: lr.OneCycleLR(o, [1.0, 2.0], 9),
        ValueError,
        "expected 1 values for max_lr",
    ),
    "momenta": (lambda o: lr.OneCycleLR(o, 1.0, 9, max_momentum=[]), ValueError, "max_momentum"),
    "no momentum": (
        lambda o: lr.OneCycleLR(optim.Adagrad([nn.Parameter(np.ones(1))]), 1.0, 9),
        ValueError,
        "Adagrad does not",
    ),
    "lambdas": (
        lambda o: lr.LambdaLR(o, [abs, abs]),
        ValueError,
        "expected 1 values for lr_lambda",
    ),
    "no lambda": (lambda o: lr.LambdaLR(o, 0.5), TypeError, "must be a function, got float"),  # type: ignore[arg-type]
    "no schedules": (lambda o: lr.SequentialLR(o, [], []), ValueError, "at least one scheduler"),
    "no schedule": (
        lambda o: lr.SequentialLR(o, [o], []),
        TypeError,
        "[0] is no scheduler but SGD",
    ),
    "a plateau": (
        lambda o: lr.SequentialLR(o, [lr.ReduceLROnPlateau(o)], []),
        ValueError,
        "does not support ReduceLROnPlateau",
    ),
    "another's": (
        lambda o: lr.SequentialLR(o, [lr.StepLR(sgd(), 1)], []),
        ValueError,
        "belong to the same optimizer",
    ),
    "too many milestones": (
        lambda o: lr.SequentialLR(o, [lr.StepLR(o, 1)], [1]),
        ValueError,
        "1 schedulers and 1 milestones",
    ),
    "milestones that fall": (
        lambda o: lr.SequentialLR(o, [lr.StepLR(o, 1) for _ in range(3)], [4, 2]),
        ValueError,
        "must increase, got [4, 2]",
    ),
    "plateau's factor": (lambda o: lr.ReduceLROnPlateau(o, factor=1.0), ValueError, "< 1.0"),
    "plateau's mode": (lambda o: lr.ReduceLROnPlateau(o, "least"), ValueError, "mode 'least'"),  # type: ignore[arg-type]
    "plateau's threshold mode": (
        lambda o: lr.ReduceLROnPlateau(o, threshold_mode="log"),  # type: ignore[arg-type]
        ValueError,
        "threshold mode 'log'",
    ),
    "plateau's floors": (lambda o: lr.ReduceLROnPlateau(o, min_lr=[0, 0]), ValueError, "min_lr"),
    "patience": (lambda o: lr.ReduceLROnPlateau(o, patience=-1), ValueError, "patience"),
}


@pytest.mark.parametrize(("make", "error", "words"), BAD.values(), ids=BAD)
def test_a_schedule_that_makes_no_sense_is_refused(
    make: Callable[[Any], Any], error: type[Exception], words: str
) -> None:
    optimizer = sgd()
    with pytest.raises(error) as caught:
        make(optimizer)
    assert words in str(caught.value)
    assert optimizer.param_groups[0]["lr"] == 0.1


def test_the_end_of_a_cycle_is_an_error_that_changes_nothing() -> None:
    optimizer = sgd()
    schedule = lr_scheduler.OneCycleLR(optimizer, 1.0, total_steps=3)
    for _ in range(3):
        schedule.step()
    before = moving(optimizer), schedule.state_dict()
    with pytest.raises(ValueError, match=r"Tried to step 4 times.*total steps is 3"):
        schedule.step()
    assert (moving(optimizer), schedule.state_dict()) == before


def test_a_group_that_came_later_is_an_error_that_names_the_remedy() -> None:
    optimizer = sgd()
    schedule, other = lr_scheduler.LambdaLR(optimizer, float), lr_scheduler.StepLR(optimizer, 1)
    optimizer.param_groups[0]["lr"] = 0.25
    optimizer.add_param_group({"params": [nn.Parameter(np.ones(1))], "lr": 0.5})
    with pytest.raises(RuntimeError, match=r"2 parameter groups.*made for 1.*add_param_group"):
        schedule.step()
    assert [group["lr"] for group in optimizer.param_groups] == [0.25, 0.5]
    other.step()  # what multiplies the present rate needs no other
    assert [group["lr"] for group in optimizer.param_groups] == [0.025, 0.05]


def test_a_schedule_that_is_stepped_before_its_optimizer_warns() -> None:
    optimizer = optim.SGD([nn.Parameter(np.ones(1))])
    schedule = lr_scheduler.ExponentialLR(optimizer, 0.5)
    with pytest.warns(UserWarning, match="before optimizer.step"):
        schedule.step()
    schedule.step()
    optimizer.step()
    lr_scheduler.ExponentialLR(optimizer, 0.5).step()


# The state


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        (lambda state: None, TypeError, "got NoneType"),
        (lambda state: {}, ValueError, "lacks ['_last_lr', '_step_count', 'base_lrs', 'gamma'"),
        (lambda state: {**state, "T_max": 3}, ValueError, "unknown ['T_max']"),
        (lambda state: {**state, "base_lrs": [0.1, 0.2]}, ValueError, "of 2 parameter groups"),
    ],
    ids=["None", "nothing", "another's", "more groups"],
)
def test_a_state_that_does_not_fit_is_refused(
    change: Callable[[Any], Any], error: type[Exception], words: str
) -> None:
    schedule = lr_scheduler.StepLR(sgd(), 3)
    before = schedule.state_dict()
    with pytest.raises(error) as caught:
        schedule.load_state_dict(change({**before, "gamma": 0.25}))
    assert words in str(caught.value)
    assert schedule.state_dict() == before


def test_a_sequence_refuses_a_state_of_other_members_whole() -> None:
    def sequence(*names: str) -> lr_scheduler.SequentialLR:
        optimizer = sgd()
        members = [SCHEDULES[name].make(lr_scheduler, optimizer) for name in names]
        return lr_scheduler.SequentialLR(optimizer, members, [*range(1, len(names))])

    one = sequence("step", "exponential")
    before = one.state_dict()
    for other, words in (
        (sequence("step", "exponential", "cosine"), "3 schedulers, but there are 2"),
        (sequence("step", "cosine"), "not one of ExponentialLR"),
    ):
        other.step()
        with pytest.raises(ValueError, match=words):
            one.load_state_dict(other.state_dict())
        assert one.state_dict() == before


def test_the_attributes_of_an_object_that_is_called_are_saved() -> None:
    class Decay:
        def __init__(self) -> None:
            self.calls = 0

        def __call__(self, epoch: int) -> float:
            self.calls += 1
            return 0.5**self.calls

    optimizer = sgd()
    schedule = lr_scheduler.LambdaLR(optimizer, Decay())
    schedule.step()
    state = schedule.state_dict()
    assert state["lr_lambdas"] == [{"calls": 2}]
    other = sgd()
    resumed = lr_scheduler.LambdaLR(other, Decay())
    resumed.load_state_dict(state)
    resumed.step()
    assert other.param_groups[0]["lr"] == 0.1 * 0.5**3 and state["lr_lambdas"] == [{"calls": 2}]


def test_a_state_and_the_last_rates_are_snapshots() -> None:
    schedule = lr_scheduler.MultiStepLR(sgd(), [2, 4])
    state, rates = schedule.state_dict(), schedule.get_last_lr()
    before = copy.deepcopy(state)
    schedule.step()
    schedule.step()
    assert state == before and rates == [0.1]
    state["milestones"].append(7)
    schedule.get_last_lr().clear()
    assert schedule.milestones == [2, 4] and len(schedule.get_last_lr()) == 1


@pytest.mark.parametrize("name", sorted({case.name for case in CASES.values()}))
def test_every_optimizer_can_be_scheduled(name: str) -> None:
    parameter = nn.Parameter(np.ones(1))
    parameter.grad = Tensor(np.ones(1))
    optimizer = getattr(optim, name)([parameter], lr=0.5)
    schedule = lr_scheduler.LambdaLR(optimizer, lambda epoch: float(epoch == 0))
    optimizer.step()
    moved = parameter.item()
    schedule.step()
    optimizer.step()
    assert moved != 1.0 and parameter.item() == moved


def test_a_schedule_of_ones_own_gives_its_rates() -> None:
    class Sawtooth(lr_scheduler.LRScheduler):
        def get_lr(self) -> list[float]:
            return [base * (1 + self.last_epoch % 3) for base in self.base_lrs]

    optimizer = sgd(1.0)
    schedule, rates = Sawtooth(optimizer), []
    for _ in range(5):
        rates.append(optimizer.param_groups[0]["lr"])
        schedule.step()
    assert rates == [1, 2, 3, 1, 2]
    with pytest.raises(NotImplementedError):
        lr_scheduler.LRScheduler(optimizer)


def test_the_comparison_rejects_a_schedule_that_is_slightly_off() -> None:
    schedule = Schedule(
        lambda lib, opt: lib.ExponentialLR(opt, 0.9 if lib is lr_scheduler else 0.9 + 1e-9)
    )
    with pytest.raises(AssertionError):
        ScheduledPair(schedule).run(STEPS)
