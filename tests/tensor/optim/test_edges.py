"""Options and states just outside and just inside of what is allowed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from tensor import Tensor, optim


def parameter(*shape: int) -> Tensor:
    return Tensor(np.ones(shape), requires_grad=True)


@pytest.mark.parametrize("kind", ["SGD", "Adam", "AdamW", "RMSprop", "Adagrad"])
def test_no_option_may_be_a_little_below_0(kind: str) -> None:
    defaults = getattr(optim, kind)([parameter(2)]).defaults
    numbers = [k for k, v in defaults.items() if type(v) in (int, float) and k != "dampening"]
    assert {"lr", "weight_decay"} <= set(numbers)
    for name in numbers:
        with pytest.raises(ValueError, match="needs a number >= 0"):
            getattr(optim, kind)([parameter(2)], **{name: -1e-3})


@pytest.mark.parametrize("betas", [(0.9, 1.5), (1.5, 0.9), (-0.1, 0.9), (1, 0.9)])
def test_a_beta_is_at_least_0_and_less_than_1(betas: Any) -> None:
    with pytest.raises(ValueError, match="needs 0 <= beta < 1"):
        optim.Adam([parameter(2)], betas=betas)


@pytest.mark.parametrize("betas", [(), (0.9,), (0.9, 0.99, 0.999)])
def test_there_are_two_betas(betas: Any) -> None:
    with pytest.raises(TypeError, match="a pair of numbers"):
        optim.Adam([parameter(2)], betas=betas)


def test_a_gradient_of_another_shape_is_refused_also_where_the_parameter_is_in_its_place() -> None:
    for shape in ((1,), (3,)):
        p = parameter(2)
        descent = optim.SGD([p])
        p._grad = Tensor(np.ones(shape))
        with pytest.raises(RuntimeError, match="a gradient of the optimizer has shape"):
            descent.step()
        assert p.tolist() == [1.0, 1.0]


def test_a_state_of_step_0_may_be_loaded() -> None:
    p = parameter(2)
    descent = optim.Adam([p])
    (p * p).sum().backward()
    descent.step()
    saved = descent.state_dict()
    saved["state"][0]["step"] = 0
    descent.load_state_dict(saved)
    assert descent.state_dict()["state"][0]["step"] == 0


@pytest.mark.parametrize("shape", [(), (1,), (3,), (1, 2)])
def test_a_state_of_any_other_shape_is_refused(shape: tuple[int, ...]) -> None:
    p = parameter(2)
    descent = optim.SGD([p], momentum=0.5)
    (p * p).sum().backward()
    descent.step()
    saved = descent.state_dict()
    saved["state"][0]["momentum_buffer"] = np.ones(shape)
    with pytest.raises(ValueError, match="momentum_buffer of shape"):
        descent.load_state_dict(saved)


def test_a_state_may_have_parts_that_no_optimizer_asks_for() -> None:
    p = parameter(2)
    descent = optim.SGD([p], lr=0.1)
    saved = descent.state_dict()
    descent.param_groups[0]["lr"] = 0.5
    descent.load_state_dict({**saved, "epoch": 7})
    assert descent.param_groups[0]["lr"] == 0.1


def test_a_state_may_remember_what_its_options_do_not_need() -> None:
    p = parameter(2)
    descent = optim.Adam([p], amsgrad=True)
    (p * p).sum().backward()
    descent.step()
    saved = descent.state_dict()
    saved["param_groups"][0]["amsgrad"] = False
    descent.load_state_dict(saved)
    assert "max_exp_avg_sq" in descent.state_dict()["state"][0]


@pytest.mark.parametrize(("saved", "own"), [(1, 2), (2, 1)])
def test_more_and_fewer_parameters_than_there_are_cannot_be_loaded(saved: int, own: int) -> None:
    state = optim.SGD([parameter(2) for _ in range(saved)]).state_dict()
    with pytest.raises(ValueError, match=f"{saved} parameters instead of {own}"):
        optim.SGD([parameter(2) for _ in range(own)]).load_state_dict(state)


def test_more_and_fewer_groups_than_there_are_cannot_be_loaded() -> None:
    def optimizer(groups: int) -> optim.SGD:
        return optim.SGD([{"params": [parameter(2)]} for _ in range(groups)])

    for saved, own in ((1, 2), (2, 1)):
        with pytest.raises(ValueError, match="different number of parameter groups"):
            optimizer(own).load_state_dict(optimizer(saved).state_dict())


@pytest.mark.parametrize("beta", [0.0, 0.25, 0.5])
def test_a_mean_is_rounded_from_the_end_that_pytorch_rounds_it_from(beta: float) -> None:
    ours, theirs = parameter(1), torch.ones(1, dtype=torch.float64, requires_grad=True)
    one = optim.Adam([ours], betas=(beta, 0.5))
    other = torch.optim.Adam([theirs], betas=(beta, 0.5), foreach=False)
    for g in (1e16, 1.0):
        ours.grad, theirs.grad = Tensor(np.array([g])), torch.tensor([g], dtype=torch.float64)
        one.step()
        other.step()
    assert one.state[ours]["exp_avg"].tolist() == other.state[theirs]["exp_avg"].tolist()


@pytest.mark.parametrize("kind", ["SGD", "AdamW"])
def test_a_decay_of_1_is_one(kind: str) -> None:
    ours, theirs = parameter(2), torch.ones(2, dtype=torch.float64, requires_grad=True)
    for module, p, g in (
        (optim, ours, Tensor(np.zeros(2))),
        (torch.optim, theirs, torch.zeros(2, dtype=torch.float64)),
    ):
        p.grad = g
        getattr(module, kind)([p], lr=0.25, weight_decay=1).step()
    assert ours.tolist() == theirs.tolist() == [0.75, 0.75]
