"""SGD and Adam move as PyTorch's do, and refuse what makes no sense."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any, Final

import mpmath
import pytest
import torch

import micro
from micro import Value
from micro.optim import SGD, Adam, Optimizer
from tests.micro.cases import close

STEPS: Final = 20
START: Final = (0.7, -1.3, 2.1)
CONFIGURATIONS: Final[list[tuple[str, Mapping[str, Any]]]] = [
    ("SGD", {}),
    ("SGD", {"lr": 0.05}),
    ("SGD", {"lr": 0.05, "momentum": 0.9}),
    ("SGD", {"lr": 0.05, "momentum": 0.9, "dampening": 0.3}),
    ("SGD", {"lr": 0.05, "momentum": 0.9, "dampening": 0.3, "weight_decay": 0.1}),
    ("SGD", {"lr": 0.05, "momentum": 0.8, "nesterov": True}),
    ("SGD", {"lr": 0.05, "momentum": 0.8, "nesterov": True, "weight_decay": 0.1}),
    ("SGD", {"lr": 0.05, "weight_decay": 0.1}),
    ("Adam", {}),
    ("Adam", {"lr": 0.05}),
    ("Adam", {"lr": 0.05, "betas": (0.8, 0.95), "eps": 1e-4}),
    ("Adam", {"lr": 0.05, "weight_decay": 0.1}),
    ("Adam", {"lr": 0.05, "betas": (0.0, 0.0)}),
]


def loss(xp: Any, w: Any, batch: tuple[float, float]) -> Any:
    """The squared error of a small network on one point; xp is micro or torch."""
    x, y = batch
    out = w[2] * xp.tanh(w[0] * x + w[1]) + w[0] * w[1]
    return (out - y) ** 2


def batches() -> list[tuple[float, float]]:
    rng = random.Random(7)
    return [(rng.uniform(-2, 2), rng.uniform(-1, 1)) for _ in range(STEPS)]


def trajectory(optimizer: Any, xp: Any, w: Any) -> list[list[float]]:
    """The weights after every step."""
    path = []
    for batch in batches():
        optimizer.zero_grad()
        loss(xp, w, batch).backward()
        optimizer.step()
        path.append([float(p.data) for p in w])
    return path


def departures(name: str, options: Mapping[str, Any]) -> list[str]:
    """The steps after which a weight is not PyTorch's."""
    ours = [Value(p) for p in START]
    theirs = [torch.tensor(p, dtype=torch.float64, requires_grad=True) for p in START]
    actual = trajectory(getattr(micro.optim, name)(ours, **options), micro, ours)
    expected = trajectory(getattr(torch.optim, name)(theirs, **options), torch, theirs)
    return [
        f"step {step}: {a}, torch {e}"
        for step, pair in enumerate(zip(actual, expected, strict=True))
        for a, e in zip(*pair, strict=True)
        if not close(a, e, "trajectory")
    ]


@pytest.mark.parametrize(("name", "options"), CONFIGURATIONS, ids=str)
def test_twenty_steps_are_pytorchs(name: str, options: Mapping[str, Any]) -> None:
    assert departures(name, options) == []


def test_a_step_that_departs_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    move = SGD._move

    def planted(self: SGD, data: Any, g: Any, state: Any) -> Any:
        return move(self, data, g * (1 + 1e-7), state)

    monkeypatch.setattr(SGD, "_move", planted)
    assert departures("SGD", {"lr": 0.05, "momentum": 0.9}) != []


def test_the_defaults_are_pytorchs() -> None:
    for name in ("SGD", "Adam"):
        ours = getattr(micro.optim, name)([Value(1.0)])
        theirs = getattr(torch.optim, name)([torch.ones(1, requires_grad=True)]).defaults
        for option in ("lr", "momentum", "dampening", "weight_decay", "nesterov", "betas", "eps"):
            assert getattr(ours, option, None) == theirs.get(option), (name, option)


def test_a_learning_rate_can_be_changed_between_steps() -> None:
    w = Value(1.0)
    descent = SGD([w], lr=0.5)
    w.grad = 1.0
    descent.step()
    descent.lr = 0.25
    descent.step()
    assert w.data == 0.25


def test_zero_grad_clears_the_gradients() -> None:
    w = Value(1.0)
    descent = SGD([w])
    (w * w).backward()
    descent.zero_grad()
    assert w.grad == 0


def test_parameters_may_come_from_a_generator() -> None:
    descent = SGD(Value(float(i)) for i in range(3))
    assert [p.data for p in descent.params] == [0.0, 1.0, 2.0]


def test_descent_is_exact_on_fractions_and_precise_on_mpf() -> None:
    w = Value(Fraction(1, 3))
    (w * w).backward()
    SGD([w], lr=Fraction(1, 7), momentum=Fraction(1, 2)).step()
    assert w.data == Fraction(5, 21)
    with mpmath.workdps(50):
        v = Value(mpmath.mpf(1) / 3)
        (v * v).backward()
        Adam([v], lr=0.5, eps=0).step()
        assert abs(v.data - (mpmath.mpf(1) / 3 - 0.5)) < 1e-15
        assert type(v.data) is mpmath.mpf


def test_a_step_that_fails_moves_nothing_and_remembers_nothing() -> None:
    for make in (lambda ps: SGD(ps, momentum=0.9), Adam):
        w, v = Value(1.0), Value(2.0)
        w.grad, v.grad = 0.5, "half"
        optimizer = make([w, v])
        with pytest.raises(TypeError):
            optimizer.step()
        assert (w.data, v.data) == (1.0, 2.0)
        v.grad = 0.5
        optimizer.step()
        fresh = Value(1.0)
        fresh.grad = 0.5
        make([fresh]).step()
        assert w.data == fresh.data


RESULT: Final = Value(2.0) * 2
REFUSED: Final[list[tuple[Callable[[list[Value]], Optimizer], type[Exception], str]]] = [
    (lambda ps: SGD([]), ValueError, "SGD: params is empty"),
    (lambda ps: Adam(iter(())), ValueError, "Adam: params is empty"),
    (lambda ps: SGD(ps + ps), ValueError, "SGD: a parameter comes twice"),
    (lambda ps: SGD([RESULT]), ValueError, r"SGD: params\[0\] is a result, not an input"),
    (lambda ps: SGD([RESULT.inputs[1]]), ValueError, "is a result, not an input"),
    (lambda ps: SGD(ps[0]), TypeError, "SGD: params must be an iterable of Values, got a Value"),
    (lambda ps: SGD(3), TypeError, "SGD: params must be an iterable of Values, got a int"),
    (lambda ps: Adam([*ps, 3.0]), TypeError, r"Adam: params\[1\] must be a Value, got float: 3"),
    (lambda ps: SGD(ps, lr=-1), ValueError, "SGD: lr must be at least 0, got -1"),
    (lambda ps: SGD(ps, lr=float("nan")), ValueError, "SGD: lr must be at least 0, got nan"),
    (lambda ps: SGD(ps, lr="fast"), TypeError, "SGD: lr must be a real number, got str: 'fast'"),
    (lambda ps: SGD(ps, lr=True), TypeError, "SGD: lr must be a real number, got bool"),
    (lambda ps: SGD(ps, momentum=-0.1), ValueError, "SGD: momentum must be at least 0"),
    (lambda ps: SGD(ps, weight_decay=-0.1), ValueError, "SGD: weight_decay must be at least 0"),
    (lambda ps: SGD(ps, dampening=None), TypeError, "SGD: dampening must be a real number"),
    (lambda ps: SGD(ps, nesterov=True), ValueError, "SGD: nesterov needs a momentum above 0"),
    (
        lambda ps: SGD(ps, momentum=0.9, dampening=0.1, nesterov=True),
        ValueError,
        "SGD: nesterov needs .* dampening of 0, got momentum=0.9, dampening=0.1",
    ),
    (
        lambda ps: SGD(ps, momentum=0.9, dampening=-0.1, nesterov=True),
        ValueError,
        "SGD: nesterov needs .* dampening of 0, got momentum=0.9, dampening=-0.1",
    ),
    (lambda ps: Adam(ps, lr=-1), ValueError, "Adam: lr must be at least 0, got -1"),
    (
        lambda ps: Adam(ps, betas=(0.9, 1.0)),
        ValueError,
        r"Adam: betas\[1\] must be at least 0 and less than 1, got 1.0",
    ),
    (lambda ps: Adam(ps, betas=(1.5, 0.9)), ValueError, r"betas\[0\] must be .* less than 1, got"),
    (lambda ps: Adam(ps, betas=(-0.1, 0.9)), ValueError, r"Adam: betas\[0\] must be at least 0"),
    (lambda ps: Adam(ps, betas=0.9), TypeError, "Adam: betas must be a pair of numbers, got 0.9"),
    (lambda ps: Adam(ps, betas=(0.9,)), TypeError, r"betas must be a pair .*, got \(0.9,\)"),
    (lambda ps: Adam(ps, betas=(0.9, 0.9, 0.9)), TypeError, r"pair .*, got \(0.9, 0.9, 0.9\)"),
    (lambda ps: Adam(ps, betas=("a", 0.9)), TypeError, r"Adam: betas\[0\] must be a real number"),
    (lambda ps: Adam(ps, eps=-1e-8), ValueError, "Adam: eps must be at least 0"),
    (lambda ps: Adam(ps, weight_decay=-1), ValueError, "Adam: weight_decay must be at least 0"),
]


@pytest.mark.parametrize(("make", "error", "message"), REFUSED, ids=[m for *_, m in REFUSED])
def test_what_makes_no_sense_is_refused(
    make: Callable[[list[Value]], Optimizer], error: type[Exception], message: str
) -> None:
    parameter = Value(1.0)
    with pytest.raises(error, match=message):
        make([parameter])
    assert (parameter.data, parameter.grad) == (1.0, 0)


def test_the_base_class_moves_nothing() -> None:
    with pytest.raises(NotImplementedError):
        Optimizer([Value(1.0)], lr=0.1, weight_decay=0).step()
