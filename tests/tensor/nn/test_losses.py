"""Losses as modules and as functions, against PyTorch's."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, Final, NamedTuple

import numpy as np
import pytest
import torch

import tensor
from tensor import ShapeError, Tensor, grad, gradcheck, gradgradcheck, nn
from tensor.nn import functional
from tests.tensor.tolerances import assert_close

RNG: Final = np.random.default_rng(8)
DTYPES: Final = ["float64", "float32"]
REDUCTIONS: Final = ["mean", "sum", "none"]


def assert_same_loss(
    ours: Any, theirs: Any, input: np.ndarray, target: np.ndarray, dtype: str
) -> None:
    """Fail unless both losses agree, and their gradients by the input and a real target."""
    input = input.astype(dtype)
    x, t = Tensor(input, requires_grad=True), torch.tensor(input, requires_grad=True)
    y: Any = target
    u: Any = torch.tensor(target)
    if target.dtype.kind == "f":
        target = target.astype(dtype)
        y, u = Tensor(target, requires_grad=True), torch.tensor(target, requires_grad=True)
    loss, expected = ours(x, y), theirs(t, u)
    assert_close(loss.data, expected.detach().numpy(), note="loss")
    weights = np.random.default_rng(2).uniform(0.5, 2, loss.shape).astype(dtype)
    (loss * weights).sum().backward()
    (expected * torch.tensor(weights)).sum().backward()
    assert_close(x.grad.data, t.grad.numpy(), note="gradient of the input")  # type: ignore[union-attr]
    if target.dtype.kind == "f":
        assert_close(y.grad.data, u.grad.numpy(), note="gradient of the target")


# Cross-entropy

SHAPES: Final = [(5,), (4, 5), (1, 5), (3, 5, 2), (3, 5, 2, 4), (2, 5, 0), (2, 3, 1, 2, 3)]
OPTIONS: Final[list[dict[str, Any]]] = [
    {},
    {"label_smoothing": 0.1},
    {"label_smoothing": 1.0},
    {"ignore_index": 2},
    {"ignore_index": 2, "label_smoothing": 0.3},
    {"weight": True},
    {"weight": True, "label_smoothing": 0.3},
    {"weight": True, "ignore_index": 2},
    {"weight": True, "ignore_index": 2, "label_smoothing": 0.3},
]


def both(name: str, classes: int, dtype: str, options: dict[str, Any]) -> tuple[Any, Any]:
    """A loss here and in PyTorch; ``weight`` True becomes weights of the classes."""
    array = np.random.default_rng(9).uniform(0.2, 2, classes).astype(dtype)
    ours = {**options, "weight": array} if "weight" in options else options
    theirs = {**options, "weight": torch.tensor(array)} if "weight" in options else options
    return getattr(nn, name)(**ours), getattr(torch.nn, name)(**theirs)


def logits(shape: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
    """Logits of a shape and targets for them."""
    rng = np.random.default_rng(list(shape))
    classes = shape[0] if len(shape) == 1 else shape[1]
    return rng.normal(size=shape), np.asarray(
        rng.integers(0, classes, shape[:1] * (len(shape) > 1) + shape[2:])
    )


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_cross_entropy_is_pytorchs(
    shape: tuple[int, ...], options: dict[str, Any], reduction: str, dtype: str
) -> None:
    input, target = logits(shape)
    if options.get("ignore_index") is not None and target.ndim == 0:
        target = np.asarray(1)
    classes = shape[0] if len(shape) == 1 else shape[1]
    ours, theirs = both("CrossEntropyLoss", classes, dtype, {**options, "reduction": reduction})
    assert_same_loss(ours, theirs, input, target, dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize(
    "options",
    [{}, {"ignore_index": 2}, {"weight": True}, {"weight": True, "ignore_index": 2}],
    ids=str,
)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_nll_loss_is_pytorchs(
    shape: tuple[int, ...], options: dict[str, Any], reduction: str, dtype: str
) -> None:
    input, target = logits(shape)
    if options.get("ignore_index") is not None and target.ndim == 0:
        target = np.asarray(1)
    classes = shape[0] if len(shape) == 1 else shape[1]
    ours, theirs = both("NLLLoss", classes, dtype, {**options, "reduction": reduction})
    assert_same_loss(ours, theirs, input, target, dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("options", [o for o in OPTIONS if "ignore_index" not in o], ids=str)
@pytest.mark.parametrize("shape", [s for s in SHAPES if 0 not in s], ids=str)
def test_cross_entropy_against_probabilities_is_pytorchs(
    shape: tuple[int, ...], options: dict[str, Any], reduction: str, dtype: str
) -> None:
    input, _ = logits(shape)
    target = np.random.default_rng(4).dirichlet(np.ones(3), shape)[..., 0]
    classes = shape[0] if len(shape) == 1 else shape[1]
    ours, theirs = both("CrossEntropyLoss", classes, dtype, {**options, "reduction": reduction})
    assert_same_loss(ours, theirs, input, target, dtype)


def test_onehot_probabilities_are_the_class_numbers() -> None:
    input, target = logits((6, 5))
    x = Tensor(input)
    for options in ({}, {"label_smoothing": 0.2, "weight": RNG.uniform(0.1, 1, 5)}):
        for reduction in ("sum", "none"):
            loss = nn.CrossEntropyLoss(reduction=reduction, **options)
            assert_close(loss(x, np.eye(5)[target]).data, loss(x, target).data, note=f"{options}")


def test_nll_loss_of_log_softmax_is_cross_entropy() -> None:
    input, target = logits((3, 5, 2, 4))
    weight = RNG.uniform(0.1, 1, 5)
    for reduction in REDUCTIONS:
        options: Any = {"ignore_index": 1, "reduction": reduction}
        assert_close(
            nn.NLLLoss(weight, **options)(functional.log_softmax(Tensor(input), 1), target).data,
            nn.CrossEntropyLoss(weight, **options)(Tensor(input), target).data,
        )


def test_the_gradient_is_softmax_minus_onehot_over_the_number_of_rows() -> None:
    array, target = RNG.normal(size=(7, 5)), RNG.integers(0, 5, 7)
    x = Tensor(array, requires_grad=True)
    nn.CrossEntropyLoss()(x, target).backward()
    p = np.exp(array) / np.exp(array).sum(1, keepdims=True)
    p[np.arange(7), target] -= 1
    assert x.grad is not None
    assert_close(x.grad.data, p / 7)


@pytest.mark.parametrize(
    ("shape", "target", "error", "words"),
    [
        ((2, 3), np.array([0, 3]), IndexError, "3"),
        ((2, 3), np.array([0, -1]), IndexError, "-1"),
        ((2, 3, 2), np.array([[0, 1], [2, 3]]), IndexError, "3"),
        ((2, 3), np.array([0.0, 1.0]), RuntimeError, "float"),
        ((2, 3), Tensor([0.0, 1.0]), RuntimeError, "float"),
        ((2, 3), np.array([0, 1, 2]), ValueError, "(3,)"),
        ((2, 3), np.array([[0], [1]]), ValueError, "(2, 1)"),
        ((2, 3, 4), np.array([0, 1]), ValueError, "(2, 4)"),
        ((2, 3, 4), np.zeros((4, 2), int), ValueError, "(4, 2)"),
    ],
    ids=str,
)
@pytest.mark.parametrize("weight", [None, np.ones(3)], ids=["plain", "weighted"])
@pytest.mark.parametrize(
    ("kind", "name"), [(nn.CrossEntropyLoss, "cross_entropy"), (nn.NLLLoss, "nll_loss")]
)
def test_targets_that_make_no_sense_are_refused(
    kind: Any, name: str, weight: Any, shape: Any, target: Any, error: type[Exception], words: str
) -> None:
    x = Tensor(np.ones(shape), requires_grad=True)
    with pytest.raises(error, match=name) as caught:
        kind(weight)(x, target)
    assert words in str(caught.value)
    assert x.grad is None


@pytest.mark.parametrize("name", ["cross_entropy", "nll_loss"])
@pytest.mark.parametrize(
    ("weight", "error", "words"),
    [
        (np.ones(2), ShapeError, "each of 3 classes, got shape (2,)"),
        (np.ones((3, 1)), ShapeError, "got shape (3, 1)"),
        (1.0, ShapeError, "got shape ()"),
        ("abc", TypeError, "weight must be a Tensor or an ndarray, got str"),
    ],
    ids=str,
)
def test_weights_that_do_not_fit_the_classes_are_refused(
    name: str, weight: Any, error: type[Exception], words: str
) -> None:
    with pytest.raises(error) as caught:
        getattr(functional, name)(Tensor(np.ones((2, 3))), np.array([0, 1]), weight)
    assert words in str(caught.value) and name in str(caught.value)


def test_an_index_to_ignore_makes_no_sense_for_probabilities() -> None:
    with pytest.raises(RuntimeError, match="ignore_index 1 is for class numbers"):
        functional.cross_entropy(Tensor(np.ones((2, 3))), np.ones((2, 3)), ignore_index=1)


@pytest.mark.parametrize("smoothing", [-0.1, 1.1])
def test_smoothing_outside_0_and_1_is_refused(smoothing: float) -> None:
    with pytest.raises(ValueError, match="label_smoothing"):
        functional.cross_entropy(
            Tensor(np.ones((2, 3))), np.array([0, 1]), label_smoothing=smoothing
        )


# Losses by element: the function, options, and what the input and the target are


def real(*shape: int) -> Any:
    return np.asarray(RNG.normal(size=shape) * 2)


def chance(*shape: int) -> Any:
    return np.asarray(RNG.uniform(0.05, 0.95, shape))


def log_chance(*shape: int) -> Any:
    return np.log(chance(*shape))


class ByElement(NamedTuple):
    function: str
    options: list[dict[str, Any]]
    input: Callable[..., Any]
    target: Callable[..., Any]


BY_ELEMENT: Final = {
    "MSELoss": ByElement("mse_loss", [{}], real, real),
    "L1Loss": ByElement("l1_loss", [{}], real, real),
    "SmoothL1Loss": ByElement(
        "smooth_l1_loss", [{}, {"beta": 0.3}, {"beta": 2.5}, {"beta": 0.0}], real, real
    ),
    "HuberLoss": ByElement("huber_loss", [{}, {"delta": 0.3}, {"delta": 2.5}], real, real),
    "BCELoss": ByElement("binary_cross_entropy", [{}, {"weight": True}], chance, chance),
    "BCEWithLogitsLoss": ByElement(
        "binary_cross_entropy_with_logits",
        [{}, {"weight": True}, {"pos_weight": True}, {"weight": True, "pos_weight": True}],
        real,
        chance,
    ),
    "KLDivLoss": ByElement("kl_div", [{}], log_chance, chance),
    "KLDivLoss of logarithms": ByElement("kl_div", [{"log_target": True}], log_chance, log_chance),
}
CASES: Final = [
    (name, options, reduction)
    for name, case in BY_ELEMENT.items()
    for options in case.options
    for reduction in (*REDUCTIONS, *["batchmean"] * (case.function == "kl_div"))
]
FUNCTIONS: Final = {
    "CrossEntropyLoss": "cross_entropy",
    "NLLLoss": "nll_loss",
    **{name.partition(" ")[0]: case.function for name, case in BY_ELEMENT.items()},
}


def made(name: str, options: dict[str, Any], shape: tuple[int, ...], dtype: str) -> tuple[Any, Any]:
    """A loss here and in PyTorch; a weight of True becomes one of the last dimension."""
    options, name = dict(options), name.partition(" ")[0]
    theirs = dict(options)
    for key in options.keys() & {"weight", "pos_weight"}:
        options[key] = chance(*shape[-1:]).astype(dtype) * 2
        theirs[key] = torch.tensor(options[key])
    return getattr(nn, name)(**options), getattr(torch.nn, name)(**theirs)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(), (1,), (4,), (4, 3), (2, 3, 2), (0, 3)], ids=str)
@pytest.mark.parametrize(("name", "options", "reduction"), CASES, ids=str)
@pytest.mark.filterwarnings("ignore:reduction. 'mean' divides:UserWarning")
def test_losses_by_element_are_pytorchs(
    name: str, options: dict[str, Any], reduction: str, shape: tuple[int, ...], dtype: str
) -> None:
    ours, theirs = made(name, {**options, "reduction": reduction}, shape, dtype)
    case = BY_ELEMENT[name]
    if shape == (0, 3) and reduction in ("mean", "batchmean"):
        assert np.isnan(ours(Tensor(case.input(*shape)), case.target(*shape)).item())
        return
    assert_same_loss(ours, theirs, case.input(*shape), case.target(*shape), dtype)


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("name", ["mse_loss", "l1_loss", "huber_loss"])
def test_a_weight_of_elements_counts_as_in_pytorch(name: str, reduction: str) -> None:
    weight = RNG.uniform(0.1, 2, (4, 3))
    assert_same_loss(
        lambda x, y: getattr(functional, name)(x, y, reduction=reduction, weight=weight),
        lambda x, y: getattr(torch.nn.functional, name)(
            x, y, reduction=reduction, weight=torch.tensor(weight)
        ),
        real(4, 3),
        real(4, 3),
        "float64",
    )
    with pytest.raises(ShapeError, match=rf"{name}: weight must have the input's shape \(4, 3\)"):
        getattr(functional, name)(Tensor(real(4, 3)), real(4, 3), weight=np.ones(3))


@pytest.mark.parametrize(("name", "options", "reduction"), CASES, ids=str)
def test_gradients_of_both_orders_are_right(
    name: str, options: dict[str, Any], reduction: str
) -> None:
    loss, _ = made(name, {**options, "reduction": reduction}, (3, 2), "float64")
    case = BY_ELEMENT[name]
    inputs = [Tensor(make(3, 2), requires_grad=True) for make in (case.input, case.target)]
    assert gradcheck(loss, inputs)
    # the edges of a parabola, a corner: where the second derivative jumps nothing was sampled
    assert name == "L1Loss" or options.get("beta") == 0 or gradgradcheck(loss, inputs)


@pytest.mark.parametrize("kind", [nn.CrossEntropyLoss, nn.NLLLoss])
@pytest.mark.parametrize("options", [{}, {"weight": np.array([0.5, 1.0, 2.0])}], ids=["", "weight"])
def test_gradients_of_both_orders_against_classes_are_right(
    kind: Any, options: dict[str, Any]
) -> None:
    x, target = Tensor(real(4, 3, 2), requires_grad=True), RNG.integers(0, 3, (4, 2))
    target[1, 1] = -100
    loss = kind(**options)
    assert gradcheck(lambda a: loss(a, target), x)
    if kind is nn.CrossEntropyLoss:
        wanted = Tensor(chance(4, 3, 2), requires_grad=True)
        smooth = kind(**options, label_smoothing=0.3)
        assert gradgradcheck(lambda a: loss(a, target), x)
        assert gradgradcheck(lambda a: smooth(a, target), x)
        assert gradcheck(smooth, [x, wanted]) and gradgradcheck(smooth, [x, wanted])


@pytest.mark.parametrize("name", BY_ELEMENT)
def test_shapes_that_would_broadcast_are_refused(name: str) -> None:
    kind, function = getattr(nn, name.partition(" ")[0]), BY_ELEMENT[name].function
    column, row = Tensor(np.full((4, 1), 0.5), requires_grad=True), np.full(4, 0.5)
    for error in (ValueError, RuntimeError, ShapeError):
        with pytest.raises(error, match=rf"{function}: .*\(4, 1\).*\(4,\).*reshape"):
            kind()(column, row)
    with pytest.raises(ShapeError, match=function):
        getattr(functional, function)(column, 1.0)
    assert kind()(column, row.reshape(4, 1)).ndim == 0


@pytest.mark.parametrize("name", BY_ELEMENT)
def test_a_target_that_is_no_array_is_refused(name: str) -> None:
    function = BY_ELEMENT[name].function
    with pytest.raises(TypeError, match=f"{function}: target must be .* got list"):
        getattr(functional, function)(Tensor([0.5, 0.5]), [0.5, 0.5])


def test_the_gradient_of_an_absolute_value_is_0_at_0() -> None:
    x = Tensor([1.0, 2.0, 3.0], requires_grad=True)
    functional.l1_loss(x, Tensor([1.0, 3.0, 1.0]), reduction="sum").backward()
    assert x.grad is not None and x.grad.tolist() == [0, -1, 1]


@pytest.mark.parametrize("difference", [0.0, 1.0, -1.0, np.inf, -np.inf, 1e30, np.nan])
@pytest.mark.parametrize("name", ["huber_loss", "smooth_l1_loss"])
def test_a_rounded_loss_is_pytorchs_at_its_joints_and_far_away(
    name: str, difference: float
) -> None:
    values = []
    for lib, make in (
        (functional, lambda a: Tensor(a, requires_grad=True)),
        (torch.nn.functional, lambda a: torch.tensor(a, requires_grad=True)),
    ):
        x = make(np.array([difference]))
        loss = getattr(lib, name)(x, make(np.zeros(1)))
        loss.backward()
        values.append([loss.item(), x.grad.item()])  # type: ignore[union-attr]
    np.testing.assert_array_equal(*values)


def test_the_second_derivative_of_a_rounded_loss_is_1_at_0() -> None:
    x = Tensor(np.zeros(1), requires_grad=True)
    (g,) = grad(functional.huber_loss(x, np.zeros(1)), x, create_graph=True)
    (second,) = grad(g, x)
    assert second is not None and second.tolist() == [1.0]


@pytest.mark.parametrize("value", [0.0, -1.0, float("nan")])
def test_a_width_that_makes_no_sense_is_refused(value: float) -> None:
    x = Tensor([1.0])
    with pytest.raises(RuntimeError, match="huber_loss: delta must be positive"):
        nn.HuberLoss(delta=value)(x, x)
    if value != 0:
        with pytest.raises(RuntimeError, match="smooth_l1_loss: beta must be 0 or more"):
            nn.SmoothL1Loss(beta=value)(x, x)


# Two outcomes


@pytest.mark.parametrize("dtype", DTYPES)
def test_bce_of_certain_probabilities_is_pytorchs(dtype: str) -> None:
    values: list[Any] = []
    for lib, make in (
        (nn, lambda a: Tensor(a, requires_grad=True)),
        (torch.nn, lambda a: torch.tensor(a, requires_grad=True)),
    ):
        x = make(np.array([0, 0, 1, 1, 1e-30, 1e-14, 0.3], dtype))
        loss = lib.BCELoss(reduction="none")(x, make(np.array([0, 1, 0, 1, 1, 1, 1], dtype)))
        loss.sum().backward()
        values.append((loss.detach(), x.grad))
    for (ours, theirs), rtol in zip(zip(*values, strict=True), (1e-6, 1e-8), strict=True):
        assert np.isfinite(ours.data).all()
        # PyTorch's 1e-12 is a number of float32
        np.testing.assert_allclose(ours.data, theirs.numpy(), rtol)


@pytest.mark.parametrize("value", [-1e-9, 1.0000001, np.nan, np.inf])
def test_what_is_no_probability_is_refused(value: float) -> None:
    for pair in ([value], [0.5]), ([0.5], [value]):
        with pytest.raises(RuntimeError, match=r"binary_cross_entropy: .*between 0 and 1"):
            nn.BCELoss()(*(Tensor(x, "float64") for x in pair))


def test_a_weight_that_is_no_broadcast_of_the_input_is_refused() -> None:
    x = Tensor(np.full((2, 3), 0.5))
    for weight in (np.ones(2), np.ones((1, 2, 3)), np.ones((2, 2))):
        for kind in (nn.BCELoss, nn.BCEWithLogitsLoss):
            with pytest.raises(ShapeError, match=r"weight of shape .* cannot be broadcast"):
                kind(weight)(x, x)
        with pytest.raises(ShapeError, match=r"pos_weight of shape .* cannot be broadcast"):
            nn.BCEWithLogitsLoss(pos_weight=weight)(x, x)


# Divergence


@pytest.mark.filterwarnings("ignore:reduction. 'mean' divides:UserWarning")
def test_a_divergence_from_probabilities_of_0_is_finite() -> None:
    x = Tensor(log_chance(2, 3), requires_grad=True)
    target = Tensor(np.array([[0.0, 0.5, 0.5], [1.0, 0.0, 0.0]]), requires_grad=True)
    loss = functional.kl_div(x, target, reduction="batchmean")
    loss.backward()
    expected = torch.nn.functional.kl_div(
        torch.tensor(x.data), torch.tensor(target.data), reduction="batchmean"
    )
    assert loss.item() == pytest.approx(expected.item(), rel=1e-14)
    assert x.grad is not None and target.grad is not None
    assert_close(x.grad.data, -target.data / 2)
    assert np.isfinite(target.grad.data).all()


def test_a_divergence_from_itself_is_0() -> None:
    p = np.random.default_rng(0).dirichlet(np.ones(4), 5)
    for options, target in (({}, p), ({"log_target": True}, np.log(p))):
        loss = nn.KLDivLoss(reduction="none", **options)  # type: ignore[arg-type]
        np.testing.assert_allclose(loss(Tensor(np.log(p)), target).data, 0, atol=1e-15)


# All of them


_CLASSES: Final = (np.ones((4, 3)), np.array([0, 1, 2, 1]))
LOSSES: Final[dict[str, tuple[Any, Any]]] = {
    "CrossEntropyLoss": _CLASSES,
    "NLLLoss": _CLASSES,
    **{
        name.partition(" ")[0]: (case.input(4), case.target(4)) for name, case in BY_ELEMENT.items()
    },
}


@pytest.mark.parametrize("name", LOSSES)
def test_a_loss_has_pytorchs_text_and_no_state(name: str) -> None:
    ours, theirs = getattr(nn, name)(), getattr(torch.nn, name)()
    assert repr(ours) == repr(theirs)
    assert ours.state_dict() == {}


@pytest.mark.parametrize("name", LOSSES)
def test_an_unknown_reduction_is_refused_at_once_and_by_the_function(name: str) -> None:
    with pytest.raises(ValueError, match=f"{name}: reduction must be .* got 'average'"):
        getattr(nn, name)(reduction="average")
    function = FUNCTIONS[name]
    with pytest.raises(ValueError, match=f"{function}.*reduction"):
        getattr(functional, function)(*map(Tensor, LOSSES[name]), reduction="average")
    if name != "KLDivLoss":
        with pytest.raises(ValueError, match=f"{name}: reduction"):
            getattr(nn, name)(reduction="batchmean")


@pytest.mark.parametrize("name", LOSSES)
def test_a_float32_loss_stays_float32(name: str) -> None:
    input, target = LOSSES[name]
    x = Tensor(input.astype(np.float32), requires_grad=True)
    loss = getattr(nn, name)()(x, target)
    loss.backward()
    assert x.grad is not None
    assert (loss.dtype, x.grad.dtype) == (tensor.float32, tensor.float32)


@pytest.mark.parametrize("name", LOSSES)
def test_micro_batches_add_up_to_the_gradient_of_the_batch(name: str) -> None:
    input, target = LOSSES[name]
    input = RNG.uniform(0.1, 0.9, input.shape)
    loss = getattr(nn, name)(reduction="sum")
    whole, parts = Tensor(input, requires_grad=True), Tensor(input, requires_grad=True)
    (loss(whole, target) / 4).backward()
    for part in (slice(0, 3), slice(3, 4)):
        (loss(parts[part], target[part]) / 4).backward()
    assert whole.grad is not None and parts.grad is not None
    assert_close(parts.grad.data, whole.grad.data)


def test_losses_warn_of_nothing() -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        nn.CrossEntropyLoss()(Tensor([[1e30, -1e30]]), np.array([1]))
        nn.MSELoss()(Tensor([1e30]), np.zeros(1))
        nn.MSELoss()(Tensor([]), np.ones(0))
        nn.BCELoss()(Tensor([0.0, 1.0]), np.array([1.0, 0.0]))
        nn.BCEWithLogitsLoss()(Tensor([1e30, -1e30]), np.zeros(2))
        nn.KLDivLoss()(Tensor([-np.inf, 0.0]), np.array([0.5, 0.0]))
    assert caught == []


@pytest.mark.parametrize("kind", [nn.CrossEntropyLoss, nn.NLLLoss, nn.BCELoss])
def test_a_weight_is_part_of_the_state_and_converted_with_it(kind: Any) -> None:
    weight = np.array([0.5, 1.0, 2.0])
    loss = kind(weight)
    theirs = getattr(torch.nn, kind.__name__)(torch.tensor(weight))
    assert list(loss.state_dict()) == list(theirs.state_dict()) == ["weight"]
    assert list(loss.parameters()) == []
    assert loss.float().weight.dtype == tensor.float32
    other = kind(np.ones(3))
    other.load_state_dict(loss.state_dict())
    assert other.weight.tolist() == [0.5, 1.0, 2.0]


def test_the_comparison_of_losses_rejects_a_slope_that_is_slightly_off() -> None:
    with pytest.raises(AssertionError):
        assert_same_loss(
            nn.HuberLoss(delta=1 + 1e-9), torch.nn.HuberLoss(), real(40), real(40), "float64"
        )
