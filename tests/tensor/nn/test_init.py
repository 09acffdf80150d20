"""First values: the distributions are PyTorch's, the generator our own."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

import numpy as np
import pytest
import torch

import tensor
from tensor import Generator, ShapeError, Tensor, nn
from tensor.nn import init

SHAPE: Final = (60, 400)  # fan in 400, fan out 60
COUNT: Final = math.prod(SHAPE)


def uniform(bound: float) -> tuple[float, float, float]:
    """Mean, deviation and largest absolute value of the uniform distribution in +-bound."""
    return 0.0, bound / math.sqrt(3), bound


def normal(std: float, mean: float = 0.0) -> tuple[float, float, float]:
    return mean, std, math.inf


def truncated(mean: float, std: float, a: float, b: float) -> tuple[float, float, float]:
    """The same of a normal distribution cut off at a and b, by quadrature."""
    x, step = np.linspace(a, b, 200_001, retstep=True)
    weight = np.exp(-(((x - mean) / std) ** 2) / 2)
    weight /= weight.sum() * step
    centre = float((x * weight).sum() * step)
    return centre, math.sqrt(((x - centre) ** 2 * weight).sum() * step), max(abs(a), abs(b))


FILLS: Final[
    dict[str, tuple[Callable[[Tensor, Generator], Tensor], tuple[float, float, float]]]
] = {
    "uniform_": (lambda t, g: init.uniform_(t, -2.0, 2.0, g), uniform(2.0)),
    "normal_": (lambda t, g: init.normal_(t, 3.0, 0.5, g), normal(0.5, 3.0)),
    "xavier_uniform_": (
        lambda t, g: init.xavier_uniform_(t, generator=g),
        uniform(math.sqrt(6 / 460)),
    ),
    "xavier_uniform_, gain": (
        lambda t, g: init.xavier_uniform_(t, 2.0, g),
        uniform(2 * math.sqrt(6 / 460)),
    ),
    "xavier_normal_": (
        lambda t, g: init.xavier_normal_(t, generator=g),
        normal(math.sqrt(2 / 460)),
    ),
    "kaiming_uniform_": (
        lambda t, g: init.kaiming_uniform_(t, generator=g),
        uniform(math.sqrt(6 / 400)),
    ),
    "kaiming_uniform_, slope": (
        lambda t, g: init.kaiming_uniform_(t, math.sqrt(5), generator=g),
        uniform(1 / math.sqrt(400)),
    ),
    "kaiming_uniform_, fan out": (
        lambda t, g: init.kaiming_uniform_(t, 0, "fan_out", "relu", g),
        uniform(math.sqrt(6 / 60)),
    ),
    "kaiming_normal_": (
        lambda t, g: init.kaiming_normal_(t, generator=g),
        normal(math.sqrt(2 / 400)),
    ),
    "trunc_normal_": (lambda t, g: init.trunc_normal_(t, generator=g), truncated(0, 1, -2, 2)),
    "trunc_normal_, one side": (
        lambda t, g: init.trunc_normal_(t, 1.0, 0.5, 0.0, 1.2, g),
        truncated(1.0, 0.5, 0.0, 1.2),
    ),
    "trunc_normal_, far out": (
        lambda t, g: init.trunc_normal_(t, 0.0, 0.1, 0.9, 0.95, g),
        truncated(0.0, 0.1, 0.9, 0.95),
    ),
    "trunc_normal_, far out below": (
        lambda t, g: init.trunc_normal_(t, 0.0, 0.1, -0.95, -0.9, g),
        truncated(0.0, 0.1, -0.95, -0.9),
    ),
    "orthogonal_": (
        lambda t, g: init.orthogonal_(t, 3.0, g),
        normal(3 / math.sqrt(400)),  # nearly, where rows have so many elements
    ),
    "kaiming_normal_, tanh": (
        lambda t, g: init.kaiming_normal_(t, 0, "fan_out", "tanh", g),
        normal(5 / 3 / math.sqrt(60)),
    ),
}


def assert_distributed(sample: np.ndarray, expected: tuple[float, float, float]) -> None:
    """Fail unless mean, deviation and bound are as expected, within five standard errors."""
    mean, std, bound = expected
    error = 5 * std / math.sqrt(sample.size)
    assert abs(sample.mean() - mean) < error
    assert abs(sample.std() - std) < error
    if math.isfinite(bound):
        assert 0.999 * bound < np.abs(sample).max() <= bound
    else:  # as far out as so many normal numbers reach
        assert 3.2 * std < np.abs(sample - mean).max() < 6 * std


@pytest.mark.parametrize(("fill", "expected"), FILLS.values(), ids=FILLS)
def test_the_distribution_has_its_mean_deviation_and_bound(
    fill: Callable[[Tensor, Generator], Tensor], expected: tuple[float, float, float]
) -> None:
    weight = nn.Parameter(np.empty(SHAPE, np.float32))
    before = tensor.default_generator.get_state()
    assert fill(weight, Generator(1)) is weight
    assert tensor.default_generator.get_state() == before
    assert weight.is_leaf and weight.requires_grad and weight.version == 1
    assert_distributed(weight.data.astype(np.float64), expected)
    again = fill(Tensor(np.empty(SHAPE, np.float32)), Generator(1))
    assert np.array_equal(again.data, weight.data)


def test_the_check_of_a_distribution_rejects_another() -> None:
    sample = np.random.default_rng(0).uniform(-1, 1, COUNT)
    assert_distributed(sample, uniform(1.0))
    for wrong in (uniform(1.03), normal(1 / math.sqrt(3)), (0.03, 1 / math.sqrt(3), 1.0)):
        with pytest.raises(AssertionError):
            assert_distributed(sample, wrong)


LAYERS: Final[dict[str, Callable[[Any], Any]]] = {
    "weight of Linear": lambda lib: lib.Linear(400, 60).weight,
    "bias of Linear": lambda lib: lib.Linear(16, 20_000).bias,
    "Embedding": lambda lib: lib.Embedding(200, 100).weight,
    "weight of LayerNorm": lambda lib: lib.LayerNorm(100).weight,
    "bias of LayerNorm": lambda lib: lib.LayerNorm(100).bias,
    "weight of Conv2d": lambda lib: lib.Conv2d(8, 60, (3, 5), groups=2).weight,
    "bias of Conv2d": lambda lib: lib.Conv2d(2, 20_000, 3).bias,
    "weight of Conv1d": lambda lib: lib.Conv1d(20, 60, 9).weight,
    "weight of ConvTranspose2d": lambda lib: lib.ConvTranspose2d(60, 8, 3, groups=2).weight,
    "bias of ConvTranspose2d": lambda lib: lib.ConvTranspose2d(2, 20_000, 1).bias,
    "weight of BatchNorm2d": lambda lib: lib.BatchNorm2d(100).weight,
    "bias of BatchNorm2d": lambda lib: lib.BatchNorm2d(100).bias,
    "running mean of BatchNorm1d": lambda lib: lib.BatchNorm1d(100).running_mean,
    "running variance of BatchNorm1d": lambda lib: lib.BatchNorm1d(100).running_var,
    "batches of BatchNorm1d": lambda lib: lib.BatchNorm1d(100).num_batches_tracked,
    "weight of GroupNorm": lambda lib: lib.GroupNorm(2, 100).weight,
    "weight of RMSNorm": lambda lib: lib.RMSNorm(100).weight,
    "projection of attention": lambda lib: lib.MultiheadAttention(60, 4).in_proj_weight,
    "projection of a key": lambda lib: lib.MultiheadAttention(60, 4, kdim=300).k_proj_weight,
    "bias of attention": lambda lib: lib.MultiheadAttention(60, 4).in_proj_bias,
    "last weight of attention": lambda lib: lib.MultiheadAttention(60, 4).out_proj.weight,
    "last bias of attention": lambda lib: lib.MultiheadAttention(60, 4).out_proj.bias,
    "weight of LSTM": lambda lib: lib.LSTM(30, 40).weight_ih_l0,
    "bias of GRU": lambda lib: lib.GRU(3, 2_000, 1).bias_hh_l0,
    "weight of RNN": lambda lib: lib.RNN(30, 40, 2).weight_hh_l1,
    "weight of GRUCell": lambda lib: lib.GRUCell(30, 40).weight_hh,
}


@pytest.mark.parametrize("layer", LAYERS.values(), ids=LAYERS)
def test_a_layer_starts_from_pytorchs_distribution(layer: Callable[[Any], Any]) -> None:
    ours = layer(nn).data.astype(np.float64).ravel()
    theirs = layer(torch.nn).detach().double().numpy().ravel()
    # Kolmogorov and Smirnov's distance of two samples, at the level 1e-5.
    points = np.concatenate([ours, theirs])
    distance = np.abs(
        np.searchsorted(np.sort(ours), points, "right") / ours.size
        - np.searchsorted(np.sort(theirs), points, "right") / theirs.size
    ).max()
    assert distance < math.sqrt(-math.log(1e-5 / 2) / ours.size)
    assert abs(np.abs(ours).max() - np.abs(theirs).max()) <= 0.35 * np.abs(theirs).max()


DRAWN: Final[dict[str, Callable[..., nn.Module]]] = {
    "Linear": lambda **g: nn.Linear(3, 4, **g),
    "Embedding": lambda **g: nn.Embedding(3, 4, **g),
    "Conv1d": lambda **g: nn.Conv1d(3, 4, 2, **g),
    "Conv2d": lambda **g: nn.Conv2d(3, 4, 2, **g),
    "ConvTranspose2d": lambda **g: nn.ConvTranspose2d(3, 4, 2, **g),
    "MultiheadAttention": lambda **g: nn.MultiheadAttention(4, 2, **g),
    "RNNCell": lambda **g: nn.RNNCell(3, 4, **g),
    "GRUCell": lambda **g: nn.GRUCell(3, 4, **g),
    "LSTMCell": lambda **g: nn.LSTMCell(3, 4, **g),
    "RNN": lambda **g: nn.RNN(3, 4, 2, **g),
    "GRU": lambda **g: nn.GRU(3, 4, 2, **g),
    "LSTM": lambda **g: nn.LSTM(3, 4, 2, bidirectional=True, **g),
}


def drawn(layer: nn.Module) -> np.ndarray:
    """All parameters in one row."""
    return np.concatenate([p.data.ravel() for p in layer.parameters()])


@pytest.mark.parametrize("make", DRAWN.values(), ids=DRAWN)
def test_a_layer_draws_from_the_generator_that_it_is_given(make: Callable[..., Any]) -> None:
    before = tensor.default_generator.get_state()
    one, other = make(generator=Generator(7)), make(generator=Generator(7))
    assert tensor.default_generator.get_state() == before
    assert np.array_equal(drawn(one), drawn(other))
    tensor.manual_seed(7)
    assert np.array_equal(drawn(make()), drawn(one))
    one.reset_parameters(Generator(8))
    assert not np.array_equal(drawn(one), drawn(other))
    one.reset_parameters(Generator(7))
    assert np.array_equal(drawn(one), drawn(other))


def test_a_transformer_layer_draws_from_the_generator_that_it_is_given() -> None:
    before = tensor.default_generator.get_state()
    one, other = (nn.TransformerEncoderLayer(4, 2, 8, generator=Generator(7)) for _ in range(2))
    assert tensor.default_generator.get_state() == before
    assert np.array_equal(drawn(one), drawn(other))


def test_float32_and_float64_layers_of_one_seed_start_alike() -> None:
    one = nn.Linear(30, 40, generator=Generator(7))
    other = nn.Linear(30, 40, generator=Generator(7), dtype="float64")
    assert np.array_equal(one.weight.data, other.weight.data.astype(np.float32))


def test_constants_fill() -> None:
    weight = nn.Parameter(np.empty((2, 3)))
    assert init.ones_(weight).tolist() == [[1.0] * 3] * 2
    assert init.zeros_(weight).tolist() == [[0.0] * 3] * 2
    assert init.constant_(weight, -2.5).tolist() == [[-2.5] * 3] * 2


@pytest.mark.parametrize("shape", [(3, 3), (2, 5), (5, 2), (0, 2), (2, 0)])
def test_an_identity_is_pytorchs(shape: tuple[int, int]) -> None:
    weight = nn.Parameter(np.full(shape, 7.0, np.float32))
    assert init.eye_(weight) is weight and weight.requires_grad and weight.is_leaf
    assert np.array_equal(weight.data, torch.nn.init.eye_(torch.empty(shape)).numpy())


@pytest.mark.parametrize("groups", [1, 2, 3])
@pytest.mark.parametrize("shape", [(6, 4, 3), (6, 2, 3, 3), (6, 8, 4, 2), (6, 1, 2, 3, 5)])
def test_a_convolution_that_hands_on_its_channels_is_pytorchs(
    shape: tuple[int, ...], groups: int
) -> None:
    weight = Tensor(np.full(shape, 7.0, np.float32))
    assert init.dirac_(weight, groups) is weight
    assert np.array_equal(weight.data, torch.nn.init.dirac_(torch.empty(shape), groups).numpy())


@pytest.mark.parametrize("shape", [(4, 4), (3, 7), (7, 3), (4, 3, 2), (2, 1, 3, 3), (1, 5), (5, 1)])
@pytest.mark.parametrize("gain", [1, 2.5])
def test_an_orthogonal_matrix_is_orthogonal(shape: tuple[int, ...], gain: float) -> None:
    weight = init.orthogonal_(Tensor(np.empty(shape)), gain, Generator(4))
    rows = weight.data.reshape(shape[0], -1)
    short = rows if rows.shape[0] <= rows.shape[1] else rows.T
    np.testing.assert_allclose(short @ short.T, gain**2 * np.eye(len(short)), atol=1e-13)


def test_an_orthogonal_matrix_is_drawn_evenly() -> None:
    """Without the signs of R a QR decomposition favours one side."""
    firsts = [init.orthogonal_(Tensor(np.empty((2, 2))), 1, Generator(s)).data for s in range(400)]
    mean = np.mean(firsts, 0)
    assert np.abs(mean).max() < 5 * math.sqrt(0.5 / 400)


@pytest.mark.parametrize("sparsity", [0.0, 0.25, 0.3, 1.0])
def test_a_sparse_matrix_has_its_share_of_zeros_in_every_column(sparsity: float) -> None:
    weight = init.sparse_(nn.Parameter(np.empty((40, 300))), sparsity, 0.5, Generator(2))
    zeros = (weight.data == 0).sum(0)
    assert (zeros == math.ceil(sparsity * 40)).all()
    theirs = (torch.nn.init.sparse_(torch.empty(40, 300), sparsity) == 0).sum(0).numpy()
    assert np.array_equal(zeros, theirs)
    if sparsity < 1:
        assert_distributed(weight.data[weight.data != 0], normal(0.5))
        places = (weight.data == 0).mean(1)  # no row is preferred
        assert np.abs(places - zeros[0] / 40).max() <= 5 * math.sqrt(0.25 / 300)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_a_truncated_draw_stays_within_its_bounds(dtype: str) -> None:
    t = init.trunc_normal_(Tensor(np.empty(20_000, dtype)), 0.0, 5.0, -0.1, 0.3, Generator(1))
    assert t.dtype == dtype
    assert t.data.min() >= np.array(-0.1, dtype) and t.data.max() <= np.array(0.3, dtype)
    wide = init.trunc_normal_(Tensor(np.empty(100)), a=-math.inf, b=math.inf)
    assert np.isfinite(wide.data).all()


@pytest.mark.parametrize("shape", [(6, 4), (6, 4, 3), (6, 4, 3, 2)])
def test_fans_of_more_dimensions_are_pytorchs(shape: tuple[int, ...]) -> None:
    for name, of in (("kaiming_uniform_", {"mode": "fan_out"}), ("xavier_uniform_", {})):
        ours = getattr(init, name)(Tensor(np.empty((200, *shape[1:]))), **of)
        theirs = getattr(torch.nn.init, name)(torch.empty(200, *shape[1:]), **of)
        assert abs(np.abs(ours.data).max() / theirs.abs().max().item() - 1) < 0.05


@pytest.mark.parametrize(
    ("name", "param"),
    [
        ("linear", None),
        ("sigmoid", None),
        ("tanh", None),
        ("relu", None),
        ("selu", None),
        ("leaky_relu", None),
        ("leaky_relu", 0.3),
        ("leaky_relu", 0),
        *((f"conv{n}d", None) for n in (1, 2, 3)),
        *((f"conv_transpose{n}d", None) for n in (1, 2, 3)),
    ],
)
def test_gains_are_pytorchs(name: str, param: float | None) -> None:
    assert init.calculate_gain(name, param) == torch.nn.init.calculate_gain(name, param)


BAD: Final[dict[str, tuple[Callable[[Tensor], Any], type[Exception], str]]] = {
    "nonlinearity": (
        lambda t: init.kaiming_uniform_(t, nonlinearity="step"),
        ValueError,
        "nonlinearity 'step'",
    ),
    "mode": (
        lambda t: init.kaiming_normal_(t, mode="fan"),  # type: ignore[arg-type]
        ValueError,
        "kaiming_normal_: mode must be .* got 'fan'",
    ),
    "vector": (lambda t: init.xavier_normal_(t[0]), ShapeError, "xavier_normal_: .*2 dimensions"),
    "range": (lambda t: init.uniform_(t, 1.0, -1.0), ValueError, "low"),
    "truncated, bounds": (
        lambda t: init.trunc_normal_(t, a=1.0, b=1.0),
        ValueError,
        "trunc_normal_: wanted a < b",
    ),
    "truncated, std": (lambda t: init.trunc_normal_(t, std=0.0), ValueError, "a positive std"),
    "truncated, nothing there": (
        lambda t: init.trunc_normal_(t, a=50.0, b=51.0),
        ValueError,
        "too far from mean",
    ),
    "eye": (lambda t: init.eye_(t[0]), ShapeError, r"eye_: .* 2 dimensions, got shape \(3,\)"),
    "dirac": (init.dirac_, ShapeError, "dirac_: .* 3 to 5 dimensions"),
    "dirac, groups": (
        lambda t: init.dirac_(t.unsqueeze(-1), 3),
        ValueError,
        "2 output channels are not a multiple of groups 3",
    ),
    "orthogonal": (lambda t: init.orthogonal_(t[0]), ShapeError, "2 or more dimensions"),
    "sparse": (lambda t: init.sparse_(t[0], 0.5), ShapeError, "sparse_: .* 2 dimensions"),
    "sparsity": (lambda t: init.sparse_(t, 1.5), ValueError, r"sparsity must lie in \[0, 1\]"),
    "sparse, std": (lambda t: init.sparse_(t, 0.5, -1.0), ValueError, "std"),
    "deviation": (lambda t: init.normal_(t, 0.0, -1.0), ValueError, "std"),
}


@pytest.mark.parametrize(("fill", "error", "words"), BAD.values(), ids=BAD)
def test_arguments_that_make_no_sense_are_refused(
    fill: Callable[[Tensor], Any], error: type[Exception], words: str
) -> None:
    weight = Tensor(np.ones((2, 3)))
    before = tensor.default_generator.get_state()
    with pytest.raises(error, match=words):
        fill(weight)
    assert (weight.data == 1).all() and weight.version == 0
    assert tensor.default_generator.get_state() == before


def test_what_has_no_elements_can_be_filled() -> None:
    for name in ("kaiming_uniform_", "kaiming_normal_", "xavier_uniform_", "xavier_normal_"):
        for shape in ((0, 3), (3, 0), (0, 0)):
            assert getattr(init, name)(Tensor(np.empty(shape))).shape == shape
    for shape in ((0, 3), (3, 0), (0, 0)):
        for fill in (init.orthogonal_, init.trunc_normal_, lambda t: init.sparse_(t, 0.5)):
            assert fill(Tensor(np.empty(shape))).shape == shape


def test_the_set_is_pytorchs() -> None:
    theirs = {
        name
        for name in dir(torch.nn.init)
        if (name.endswith("_") and not name.startswith("_")) or name == "calculate_gain"
    }
    assert set(init.__all__) == theirs
