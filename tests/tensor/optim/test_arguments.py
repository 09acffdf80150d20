"""What an optimizer refuses, and that nothing has changed then."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any, Final

import numpy as np
import pytest
import torch

from tensor import Tensor, nn, optim
from tests.tensor.optim.cases import CASES

KINDS: Final = sorted({case.name for case in CASES.values()})


def having(option: str) -> list[str]:
    """The optimizers that have an option."""
    return [kind for kind in KINDS if option in getattr(optim, kind)([good()]).defaults]


def good() -> nn.Parameter:
    return nn.Parameter(np.ones(2))


nan = float("nan")

# name of the optimizer, options, error, part of the message
BAD_OPTIONS: Final[list[tuple[str, dict[str, Any], type[Exception], str]]] = [
    *((kind, {"lr": -1.0}, ValueError, "Invalid learning rate: -1.0") for kind in KINDS),
    *((kind, {"lr": nan}, ValueError, "Invalid learning rate: nan") for kind in KINDS),
    *(
        (kind, {"lr": "0.1"}, TypeError, "learning rate must be a number, got str")
        for kind in KINDS
    ),
    *((kind, {"lr": None}, TypeError, "learning rate must be a number") for kind in KINDS),
    *((kind, {"lr": True}, TypeError, "learning rate must be a number") for kind in KINDS),
    *((kind, {"weight_decay": -0.1}, ValueError, "Invalid weight_decay value") for kind in KINDS),
    *((kind, {"weight_decay": [0]}, TypeError, "weight_decay value must be") for kind in KINDS),
    *((kind, {"maximize": 1}, TypeError, "maximize must be a bool, got int") for kind in KINDS),
    ("SGD", {"momentum": -0.9}, ValueError, "Invalid momentum value: -0.9"),
    ("SGD", {"momentum": "0.9"}, TypeError, "momentum value must be a number"),
    ("SGD", {"dampening": None}, TypeError, "dampening value must be a number"),
    ("SGD", {"nesterov": True}, ValueError, "Nesterov momentum requires a momentum"),
    ("SGD", {"nesterov": 1, "momentum": 0.9}, TypeError, "nesterov must be a bool"),
    (
        "SGD",
        {"nesterov": True, "momentum": 0.9, "dampening": 0.1},
        ValueError,
        "zero dampening, got momentum 0.9 and dampening 0.1",
    ),
    (
        "SGD",
        {"nesterov": True, "momentum": 0.9, "dampening": -0.1},
        ValueError,
        "zero dampening, got momentum 0.9 and dampening -0.1",
    ),
    *((kind, {"eps": -1e-8}, ValueError, "Invalid epsilon value") for kind in having("eps")),
    *((kind, {"eps": "small"}, TypeError, "epsilon value must be") for kind in having("eps")),
    ("RMSprop", {"alpha": -0.1}, ValueError, "Invalid alpha value: -0.1"),
    ("RMSprop", {"momentum": nan}, ValueError, "Invalid momentum value: nan"),
    ("RMSprop", {"centered": 0}, TypeError, "centered must be a bool, got int"),
    ("Adagrad", {"lr_decay": -1}, ValueError, "Invalid lr_decay value: -1"),
    (
        "Adagrad",
        {"initial_accumulator_value": -0.5},
        ValueError,
        "Invalid initial_accumulator_value value: -0.5",
    ),
    *(
        (kind, {"betas": (1.0, 0.999)}, ValueError, "Invalid beta parameter at index 0: 1.0")
        for kind in having("betas")
    ),
    *(
        (kind, {"betas": (0.9, -0.1)}, ValueError, "Invalid beta parameter at index 1: -0.1")
        for kind in having("betas")
    ),
    *((kind, {"betas": (0.9, nan)}, ValueError, "at index 1: nan") for kind in having("betas")),
    *((kind, {"betas": 0.9}, TypeError, "betas must be a pair") for kind in having("betas")),
    *((kind, {"betas": (0.9,)}, TypeError, "betas must be a pair") for kind in having("betas")),
    *(
        (kind, {"betas": ("a", 0.9)}, TypeError, "betas[0] must be a number")
        for kind in having("betas")
    ),
    *((kind, {"amsgrad": None}, TypeError, "amsgrad must be a bool") for kind in having("amsgrad")),
]

each_bad_option = pytest.mark.parametrize(
    ("kind", "options", "error", "words"), BAD_OPTIONS, ids=[f"{b[0]} {b[1]}" for b in BAD_OPTIONS]
)


@each_bad_option
def test_an_option_that_makes_no_sense_is_refused(
    kind: str, options: dict[str, Any], error: type[Exception], words: str
) -> None:
    p = nn.Parameter(np.ones(2))
    data = p.data
    with pytest.raises(error) as caught:
        getattr(optim, kind)([p], **options)
    assert words in str(caught.value)
    assert p.data is data


@each_bad_option
def test_it_is_refused_in_a_group_and_in_a_state_too(
    kind: str, options: dict[str, Any], error: type[Exception], words: str
) -> None:
    p, q = nn.Parameter(np.ones(2)), nn.Parameter(np.ones(2))
    optimizer = getattr(optim, kind)([p])
    data, before = q.data, copy.deepcopy(optimizer.param_groups[0] | {"params": None})
    with pytest.raises(error):
        getattr(optim, kind)([{"params": [q]}, {"params": [p], **options}])
    with pytest.raises(error):
        optimizer.add_param_group({"params": [q], **options})
    assert q.data is data and len(optimizer.param_groups) == 1
    state = optimizer.state_dict()
    state["param_groups"][0].update(options)
    with pytest.raises(error):
        optimizer.load_state_dict(state)
    assert optimizer.param_groups[0] | {"params": None} == before


def leaf_of_integers() -> Tensor:
    return Tensor([1, 2])


twice: Final = good()

# what the constructor is given, the error, part of the message
BAD_PARAMS: Final[dict[str, tuple[Callable[[], Any], type[Exception], str]]] = {
    "nothing": (list, ValueError, "optimizer got an empty parameter list"),
    "a generator of nothing": (lambda: iter(()), ValueError, "empty parameter list"),
    "an empty group": (lambda: [{"params": []}], ValueError, "without parameters"),
    "one tensor": (good, TypeError, "put it into a list"),
    "a set": (lambda: {good()}, TypeError, "use a list instead"),
    "a group with a set": (lambda: [{"params": {good()}}], TypeError, "use a list instead"),
    "a number": (lambda: 3, TypeError, "got int"),
    "None": (lambda: None, TypeError, "got NoneType"),
    "a dict": (lambda: {"params": [good()]}, TypeError, "got dict"),
    "text": (lambda: "weights", TypeError, "got str"),
    "numbers": (lambda: [1.0], TypeError, "one of the params is float"),
    "arrays": (lambda: [np.ones(2)], TypeError, "one of the params is ndarray"),
    "groups and tensors": (lambda: [{"params": [good()]}, good()], TypeError, "must be a dict"),
    "tensors and groups": (lambda: [good(), {"params": [good()]}], TypeError, "params is dict"),
    "a group without params": (lambda: [{"lr": 1.0}], ValueError, "no 'params'"),
    "the same twice": (lambda: [twice, good(), twice], ValueError, "appear more than once"),
    "the same in two groups": (
        lambda: [{"params": [twice]}, {"params": [good(), twice]}],
        ValueError,
        "appear more than once",
    ),
    "not a leaf": (lambda: [good() * 2.0], ValueError, "non-leaf Tensor (made by mul)"),
    "integers": (lambda: [leaf_of_integers()], ValueError, "dtype int64"),
    "truth values": (lambda: [Tensor([True, False])], ValueError, "dtype bool"),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("make", "error", "words"), BAD_PARAMS.values(), ids=BAD_PARAMS)
def test_parameters_that_make_no_sense_are_refused(
    make: Callable[[], Any], error: type[Exception], words: str, kind: str
) -> None:
    given, data = make(), twice.data
    with pytest.raises(error) as caught:
        getattr(optim, kind)(given)
    assert words in str(caught.value)
    assert twice.data is data


def test_a_parameter_that_comes_twice_is_named_with_both_places_and_the_remedy() -> None:
    model = nn.Sequential(nn.Linear(2, 3), nn.Linear(2, 3))
    weights = [p for _, p in model.named_parameters()]
    with pytest.raises(ValueError) as caught:
        optim.SGD([{"params": weights}, {"params": [good(), weights[2]]}])
    assert str(caught.value) == (
        "some parameters appear more than once: parameter 1 of group 1, '1.weight', of shape "
        "(3, 2) is also parameter 2 of group 0; give each one once, as model.parameters() lists "
        "them, and leave it out of every other group"
    )
    optimizer = optim.SGD([{"params": [good()]}, {"params": weights}])
    with pytest.raises(ValueError, match=r"parameter 0 of group 2.* is also parameter 3 of group"):
        optimizer.add_param_group({"params": weights[3:]})
    unnamed = good()
    with pytest.raises(ValueError, match=r"parameter 1 of group 0 of shape \(2,\) is also"):
        optim.SGD([unnamed, unnamed])


@pytest.mark.parametrize(
    ("group", "error", "words"),
    [
        ([good()], TypeError, "param_group must be a dict, but got list"),
        ({"lr": 1.0}, ValueError, "no 'params'"),
        ({"params": twice}, ValueError, "appear more than once"),
        ({"params": [good() * 1.0]}, ValueError, "non-leaf"),
        ({"params": []}, ValueError, "without parameters"),
    ],
    ids=["list", "no params", "known", "non-leaf", "empty"],
)
def test_a_group_that_makes_no_sense_is_refused(
    group: Any, error: type[Exception], words: str
) -> None:
    optimizer = optim.AdamW([twice])
    with pytest.raises(error) as caught:
        optimizer.add_param_group(group)
    assert words in str(caught.value)
    assert len(optimizer.param_groups) == 1
    twice.grad = Tensor(np.ones(2))
    optimizer.step()  # and goes on
    twice.grad = None


def test_a_group_that_is_handed_over_is_not_changed() -> None:
    group = {"params": [good()], "lr": 0.5}
    optimizer = optim.SGD([group], momentum=0.9)
    assert set(group) == {"params", "lr"}
    assert optimizer.param_groups[0]["momentum"] == 0.9 and optimizer.param_groups[0]["lr"] == 0.5


def test_options_of_ones_own_are_kept_and_saved() -> None:
    optimizer = optim.SGD([{"params": [good()], "name": "head", "initial_lr": 3.0}])
    (group,) = optimizer.state_dict()["param_groups"]
    assert (group["name"], group["initial_lr"], group["params"]) == ("head", 3.0, [0])


@pytest.mark.parametrize("kind", KINDS)
def test_the_defaults_are_pytorchs(kind: str) -> None:
    ours = getattr(optim, kind)([good()]).defaults
    theirs = getattr(torch.optim, kind)([torch.nn.Parameter(torch.ones(2))]).defaults
    assert ours.items() <= theirs.items()
    ours_only_for_devices = {"foreach", "capturable", "differentiable", "fused"}
    assert set(theirs) - set(ours) <= ours_only_for_devices | {"decoupled_weight_decay"}


@pytest.mark.parametrize("kind", KINDS)
def test_the_text_lists_the_options_as_pytorchs_does(kind: str) -> None:
    def lines(optimizer: Any) -> list[str]:
        return repr(optimizer).splitlines()

    ours = lines(getattr(optim, kind)([{"params": [good()]}, {"params": [good()], "lr": 0.5}]))
    theirs = lines(
        getattr(torch.optim, kind)(
            [
                {"params": [torch.nn.Parameter(torch.ones(2))]},
                {"params": [torch.nn.Parameter(torch.ones(2))], "lr": 0.5},
            ]
        )
    )
    kept = [line for line in theirs if line in ours]
    assert kept == ours
    options = getattr(optim, kind)([good()]).defaults
    shown = [line.strip().partition(":")[0] for line in ours if line.startswith(" ")]
    assert shown == sorted(options) * 2


# Loading


def trained(kind: str = "AdamW", groups: int = 1) -> optim.Optimizer:
    params = [[good(), good()] for _ in range(groups)]
    options = {"momentum": 0.9} if kind == "SGD" else {}
    optimizer: optim.Optimizer = getattr(optim, kind)([{"params": p} for p in params], **options)
    for p in (p for group in params for p in group):
        p.grad = Tensor(np.ones(2))
    optimizer.step()
    return optimizer


def without(state: dict[str, Any], name: str) -> dict[str, Any]:
    del state["state"][1][name]
    return state


def with_entry(state: dict[str, Any], **entries: Any) -> dict[str, Any]:
    state["state"][1].update(entries)
    return state


BAD_STATES: Final[dict[str, tuple[Callable[[], Any], type[Exception], str]]] = {
    "None": (lambda: None, TypeError, "got NoneType"),
    "a list": (list, TypeError, "got list"),
    "half a dict": (lambda: {"state": {}}, TypeError, "'state' and 'param_groups'"),
    "more groups": (
        lambda: trained(groups=2).state_dict(),
        ValueError,
        "number of parameter groups: 2",
    ),
    "fewer parameters": (
        lambda: optim.AdamW([good()]).state_dict(),
        ValueError,
        "1 parameters instead of 2",
    ),
    "another optimizer": (lambda: trained("SGD").state_dict(), ValueError, "not one of AdamW"),
    "another shape": (
        lambda: with_entry(trained().state_dict(), exp_avg=np.ones(3)),
        ValueError,
        "exp_avg of shape (3,) for a parameter of shape (2,)",
    ),
    "text": (lambda: with_entry(trained().state_dict(), exp_avg="abc"), TypeError, "exp_avg"),
    "a missing array": (
        lambda: without(trained().state_dict(), "exp_avg_sq"),
        ValueError,
        "lacks ['exp_avg_sq']",
    ),
    "a missing step": (
        lambda: without(trained().state_dict(), "step"),
        ValueError,
        "lacks ['step']",
    ),
    "half a step": (lambda: with_entry(trained().state_dict(), step=1.5), ValueError, "step 1.5"),
    "a negative step": (lambda: with_entry(trained().state_dict(), step=-1), ValueError, "step -1"),
    "an unknown name": (
        lambda: with_entry(trained().state_dict(), extra=np.ones(2)),
        ValueError,
        "unknown ['extra']",
    ),
    "an unknown parameter": (
        lambda: {**trained().state_dict(), "state": {7: {}}},
        ValueError,
        "unknown parameter 7",
    ),
}


@pytest.mark.parametrize(("make", "error", "words"), BAD_STATES.values(), ids=BAD_STATES)
def test_a_state_that_does_not_fit_is_refused_whole(
    make: Callable[[], Any], error: type[Exception], words: str
) -> None:
    optimizer = trained()
    optimizer.param_groups[0]["lr"] = 0.25
    before = optimizer.state_dict()
    state = make()
    if isinstance(state, dict) and len(state.get("param_groups", ())) == 1:
        state["param_groups"][0]["lr"] = 0.125
    with pytest.raises(error) as caught:
        optimizer.load_state_dict(state)
    assert words in str(caught.value)
    after = optimizer.state_dict()
    assert after["param_groups"] == before["param_groups"]
    for key, entries in before["state"].items():
        assert set(after["state"][key]) == set(entries)
        for name, value in entries.items():
            assert np.array_equal(after["state"][key][name], value)
    optimizer.step()


def test_the_base_has_no_rule_of_its_own() -> None:
    optimizer = optim.Optimizer([trained().param_groups[0]["params"][0]], {})
    with pytest.raises(NotImplementedError):
        optimizer.step()
