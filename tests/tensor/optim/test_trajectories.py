"""Optimizers step by step against PyTorch's."""

from __future__ import annotations

import json
from typing import Any, Final

import numpy as np
import pytest
import torch

import tensor
from tensor import Tensor, nn, optim
from tensor.kernels import optimizers
from tests.tensor.optim.cases import CASES, MODELS, Case, Pair, assert_equal_weights, moved

NAMES: Final = sorted({case.name for case in CASES.values()})

each_case = pytest.mark.parametrize("case", CASES.values(), ids=CASES)


@each_case
def test_twenty_steps_of_an_mlp_are_pytorchs(case: Case) -> None:
    Pair(MODELS["mlp"], case).run(20)


@each_case
def test_twenty_steps_of_embedding_and_layer_norm_are_pytorchs(case: Case) -> None:
    Pair(MODELS["embedding and layer norm"], case).run(20)


def through_json(state: dict[str, Any]) -> dict[str, Any]:
    """A state as it comes back from a file: JSON for the numbers, the arrays beside it."""
    arrays = {
        (key, name): value
        for key, entries in state["state"].items()
        for name, value in entries.items()
        if isinstance(value, np.ndarray)
    }
    numbers = {
        "state": {
            key: {name: v for name, v in entries.items() if (key, name) not in arrays}
            for key, entries in state["state"].items()
        },
        "param_groups": state["param_groups"],
    }
    restored: dict[str, Any] = json.loads(json.dumps(numbers))
    for (key, name), array in arrays.items():
        restored["state"][str(key)][name] = array.copy()
    return restored


@each_case
def test_a_run_resumed_half_way_goes_on_as_if_it_had_not_been_cut(case: Case) -> None:
    pair = Pair(MODELS["embedding and layer norm"], case)
    pair.run(10)
    weights, state = pair.ours.state_dict(), through_json(pair.optimizer.state_dict())
    position = pair.rng.bit_generator.state
    pair.gradients()
    pair.optimizer.step()  # which must not change what was saved
    pair.rng.bit_generator.state = position
    pair.fresh()
    pair.ours.load_state_dict(weights)
    pair.optimizer.load_state_dict(state)
    pair.run(10)


@each_case
def test_a_state_of_pytorchs_can_be_loaded(case: Case) -> None:
    pair = Pair(MODELS["mlp"], case)
    pair.run(5)
    pair.fresh()
    pair.ours.load_state_dict({k: v.numpy() for k, v in pair.theirs.state_dict().items()})
    pair.optimizer.load_state_dict(pair.their_optimizer.state_dict())
    pair.run(5)


@each_case
def test_parameters_without_a_gradient_are_left_out_with_their_state(case: Case) -> None:
    pair = Pair(MODELS["mlp"], case)
    rng = np.random.default_rng(2)
    for _ in range(15):
        pair.gradients()
        ours, theirs = list(pair.ours.parameters()), list(pair.theirs.parameters())
        for i in np.flatnonzero(rng.random(len(ours)) < 0.4):
            ours[i].grad = theirs[i].grad = None
        before = [p.data.copy() for p in ours]
        pair.optimizer.step()
        pair.their_optimizer.step()
        for p, old in zip(ours, before, strict=True):
            assert p.grad is not None or np.array_equal(p.data, old)
    assert_equal_weights(pair.ours, pair.theirs)
    ours, theirs = (o.state_dict()["state"] for o in (pair.optimizer, pair.their_optimizer))
    steps = {key: int(entries["step"]) for key, entries in theirs.items() if "step" in entries}
    assert {key: s["step"] for key, s in ours.items() if "step" in s} == steps
    assert case.name == "SGD" or len(set(steps.values())) > 1


@each_case
def test_the_state_has_pytorchs_names_and_values(case: Case) -> None:
    pair = Pair(MODELS["mlp"], case)
    assert pair.optimizer.state_dict()["state"] == {}
    pair.run(4)
    ours, theirs = pair.optimizer.state_dict(), pair.their_optimizer.state_dict()
    assert list(ours["state"]) == list(theirs["state"])
    for key, entries in theirs["state"].items():
        wanted = {name: value for name, value in entries.items() if value is not None}
        assert set(ours["state"][key]) == set(wanted)
        for name, value in wanted.items():
            np.testing.assert_allclose(
                ours["state"][key][name], value.numpy(), rtol=1e-9, atol=1e-18
            )
    for own, group in zip(ours["param_groups"], theirs["param_groups"], strict=True):
        assert own.items() <= group.items()


@each_case
def test_float32_stays_float32(case: Case) -> None:
    pair = Pair(MODELS["embedding and layer norm"], case, "float32")
    for _ in range(3):
        pair.step()
    for p, q in zip(pair.ours.parameters(), pair.theirs.parameters(), strict=True):
        assert p.dtype == tensor.float32
        np.testing.assert_allclose(p.data, q.detach().numpy(), rtol=1e-4, atol=1e-5)
    for entries in pair.optimizer.state.values():
        arrays = [value for value in entries.values() if isinstance(value, np.ndarray)]
        assert {array.dtype for array in arrays} <= {tensor.float32}


@pytest.mark.parametrize("lr", [np.float64(0.1), np.float32(0.1), 1])
def test_a_numpy_number_for_an_option_does_not_promote(lr: Any) -> None:
    start, g = (np.random.default_rng(k).normal(size=50).astype(np.float32) for k in (0, 1))
    for kind in (getattr(optim, name) for name in NAMES):
        p, plain = nn.Parameter(start), nn.Parameter(start)
        p.grad, plain.grad = Tensor(g), Tensor(g)
        optimizer, other = kind([p], lr=lr), kind([plain], lr=float(lr))
        for one in (optimizer, other):
            one.step()
        optimizer.param_groups[0]["lr"], other.param_groups[0]["lr"] = np.float64(0.2), 0.2
        for one in (optimizer, other):
            one.step()
        assert p.dtype == tensor.float32
        np.testing.assert_array_equal(p.data, plain.data)


def test_float16_parameters_are_moved_in_float16() -> None:
    p = nn.Parameter(np.ones(3, np.float16))
    p.grad = Tensor(np.ones(3, np.float16))
    optim.SGD([p], lr=0.5, momentum=0.9, weight_decay=0.5).step()
    assert p.dtype == tensor.float16 and p.tolist() == [0.25] * 3


@each_case
def test_the_size_of_a_block_changes_no_bit(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    def weights() -> list[np.ndarray]:
        pair = Pair(MODELS["mlp"], case)
        for _ in range(4):
            pair.step()
        return [p.data for p in pair.ours.parameters()]

    whole = weights()
    monkeypatch.setattr(optimizers, "BLOCK", 7)
    for one, other in zip(whole, weights(), strict=True):
        assert np.array_equal(one, other)


# Groups


def groups(model: Any) -> list[dict[str, Any]]:
    return [
        {"params": model[0].parameters(), "lr": 0.05, "weight_decay": 0.3},
        {"params": [model[2].weight]},
        {"params": model[4].parameters(), "maximize": True},
    ]


@pytest.mark.parametrize("name", NAMES)
def test_every_group_has_its_own_options(name: str) -> None:
    pair = Pair(MODELS["mlp"], Case(name, {}))
    pair.optimizer = getattr(optim, name)(groups(pair.ours), lr=0.01)
    pair.their_optimizer = getattr(torch.optim, name)(groups(pair.theirs), lr=0.01)
    pair.run(5)
    pair.optimizer.param_groups[1]["lr"] = pair.their_optimizer.param_groups[1]["lr"] = 0.2
    pair.run(5)
    for optimizer, model in ((pair.optimizer, pair.ours), (pair.their_optimizer, pair.theirs)):
        optimizer.add_param_group({"params": model[2].bias, "lr": 0.5})
    pair.run(5)
    ours, theirs = pair.optimizer.state_dict(), pair.their_optimizer.state_dict()
    listed = [group["params"] for group in theirs["param_groups"]]
    assert [group["params"] for group in ours["param_groups"]] == listed


@pytest.mark.parametrize("name", NAMES)
def test_a_group_of_two_dtypes_is_moved_in_each(name: str) -> None:
    rng = np.random.default_rng(0)
    arrays = [rng.normal(size=3), rng.normal(size=(2, 2)).astype("f"), rng.normal(size=())]
    ours = [nn.Parameter(np.asarray(a)) for a in arrays]
    theirs = [torch.nn.Parameter(torch.tensor(a)) for a in arrays]
    mine, other = (
        getattr(lib, name)(params, lr=0.1) for lib, params in ((optim, ours), (torch.optim, theirs))
    )
    for _ in range(3):
        for p, q in zip(ours, theirs, strict=True):
            g = np.asarray(rng.normal(size=p.shape)).astype(p.dtype)
            p.grad, q.grad = Tensor(g), torch.tensor(g)
        mine.step()
        other.step()
    for p, q in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(p.data, q.detach().numpy(), rtol=1e-6, atol=1e-7)
        assert p.data.dtype == q.detach().numpy().dtype


@pytest.mark.parametrize("momentum", [0.0, 0.5])
def test_momentum_can_be_switched_on_and_off(momentum: float) -> None:
    pair = Pair(MODELS["mlp"], Case("SGD", {"lr": 0.1, "momentum": momentum}))
    for value in (0.5, 0.0, 0.9):
        pair.run(3)
        for optimizer in (pair.optimizer, pair.their_optimizer):
            optimizer.param_groups[0]["momentum"] = value
    pair.run(3)


# Values that can be said in advance


def test_adam_passes_the_decay_through_its_moments() -> None:
    assert moved(optim.Adam, 1.0, 0.0, lr=0.1, weight_decay=0.1) == pytest.approx(0.9, abs=1e-6)


@pytest.mark.parametrize("g", [np.inf, -np.inf, np.nan, 1e308, 1e-320])
@pytest.mark.parametrize("name", NAMES)
def test_an_extreme_gradient_does_what_it_does_in_pytorch_and_warns_of_nothing(
    name: str, g: float
) -> None:
    q = torch.nn.Parameter(torch.tensor(1.0, dtype=torch.float64))
    q.grad = torch.tensor(g, dtype=torch.float64)
    getattr(torch.optim, name)([q], weight_decay=0.1).step()
    ours = moved(getattr(optim, name), 1.0, g, weight_decay=0.1)
    assert ours == pytest.approx(q.item(), rel=1e-15, nan_ok=True)


# The comparison itself


def test_the_comparison_rejects_an_optimizer_that_is_slightly_off() -> None:
    slightly_off: Final = {"sgd": ("lr", 0.1 * (1 + 1e-7)), "adamw, rate": ("eps", 1.001e-8)}
    for case, (option, value) in slightly_off.items():
        pair = Pair(MODELS["mlp"], CASES[case])
        pair.optimizer.param_groups[0][option] = value
        with pytest.raises(AssertionError):
            pair.run(20)
