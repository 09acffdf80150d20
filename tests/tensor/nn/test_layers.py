"""Every module against its PyTorch namesake: values, gradients, names, text."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Any, Final

import numpy as np
import pytest
import torch

import tensor
from tensor import Generator, ShapeError, Tensor, nn
from tests.tensor.nn.attention_layers import ATTENTION
from tests.tensor.nn.conv_layers import CONVOLUTIONS
from tests.tensor.nn.norm_layers import NORMS
from tests.tensor.nn.recurrent_layers import RECURRENT
from tests.tensor.nn.twins import Layer, assert_same_run, classes, load, names_and_shapes, real
from tests.tensor.tolerances import assert_close

LAYERS: Final[dict[str, Layer]] = {
    **CONVOLUTIONS,
    **NORMS,
    **ATTENTION,
    **RECURRENT,
    "linear": Layer(lambda nn: nn.Linear(5, 3), real(4, 5)),
    "linear, one row": Layer(lambda nn: nn.Linear(5, 3), real(1, 5)),
    "linear, vector": Layer(lambda nn: nn.Linear(5, 3), real(5)),
    "linear, batches": Layer(lambda nn: nn.Linear(5, 3), real(2, 3, 5)),
    "linear, no rows": Layer(lambda nn: nn.Linear(5, 3), real(0, 5)),
    "linear, one to one": Layer(lambda nn: nn.Linear(1, 1), real(4, 1)),
    "linear without bias": Layer(lambda nn: nn.Linear(5, 3, bias=False), real(4, 5)),
    "embedding": Layer(lambda nn: nn.Embedding(7, 3), classes(7, 4, 6)),
    "embedding, one number": Layer(lambda nn: nn.Embedding(7, 3), classes(7)),
    "embedding, no numbers": Layer(lambda nn: nn.Embedding(7, 3), classes(7, 0)),
    "embedding with padding": Layer(lambda nn: nn.Embedding(3, 4, padding_idx=1), classes(3, 9)),
    "embedding, padding from the end": Layer(lambda nn: nn.Embedding(3, 4, -1), classes(3, 9)),
    "layer norm": Layer(lambda nn: nn.LayerNorm(6), real(4, 6)),
    "layer norm over two": Layer(lambda nn: nn.LayerNorm((3, 6), eps=1e-3), real(4, 3, 6)),
    "layer norm without bias": Layer(lambda nn: nn.LayerNorm(6, bias=False), real(4, 6)),
    "layer norm without weights": Layer(
        lambda nn: nn.LayerNorm([6], elementwise_affine=False), real(2, 4, 6)
    ),
    "relu": Layer(lambda nn: nn.ReLU(), real(4, 6)),
    "leaky relu": Layer(lambda nn: nn.LeakyReLU(), real(4, 6)),
    "leaky relu, slope": Layer(lambda nn: nn.LeakyReLU(0.3), real(4, 6)),
    "elu": Layer(lambda nn: nn.ELU(), real(4, 6)),
    "elu, alpha": Layer(lambda nn: nn.ELU(alpha=0.4), real(4, 6)),
    "silu": Layer(lambda nn: nn.SiLU(), real(4, 6)),
    "softplus": Layer(lambda nn: nn.Softplus(), real(4, 6)),
    "softplus, sharp": Layer(lambda nn: nn.Softplus(beta=3.0, threshold=2.0), real(4, 6)),
    "log sigmoid": Layer(lambda nn: nn.LogSigmoid(), real(4, 6)),
    "tanh": Layer(lambda nn: nn.Tanh(), real(4, 6)),
    "sigmoid": Layer(lambda nn: nn.Sigmoid(), real(4, 6)),
    "gelu": Layer(lambda nn: nn.GELU(), real(4, 6)),
    "gelu through tanh": Layer(lambda nn: nn.GELU(approximate="tanh"), real(4, 6)),
    "softmax": Layer(lambda nn: nn.Softmax(dim=1), real(4, 6, 2)),
    "log softmax": Layer(lambda nn: nn.LogSoftmax(dim=-1), real(4, 6)),
    "flatten": Layer(lambda nn: nn.Flatten(), real(4, 3, 2)),
    "flatten some": Layer(lambda nn: nn.Flatten(0, 1), real(4, 3, 2)),
    "unflatten": Layer(lambda nn: nn.Unflatten(1, (2, 3)), real(4, 6, 2)),
    "unflatten the last": Layer(lambda nn: nn.Unflatten(-1, (-1, 2)), real(0, 6)),
    "identity": Layer(lambda nn: nn.Identity(54, unused=True), real(4, 3)),
    "dropout of nothing": Layer(lambda nn: nn.Dropout(0.0), real(4, 3)),
    "dropout of everything": Layer(lambda nn: nn.Dropout(1.0), real(4, 3)),
    "dropout in evaluation": Layer(lambda nn: nn.Dropout(0.9).eval(), real(4, 3)),
    "dropout of planes in evaluation": Layer(lambda nn: nn.Dropout2d(0.9).eval(), real(2, 3, 4, 4)),
    "dropout of all planes": Layer(lambda nn: nn.Dropout2d(1.0), real(2, 3, 4, 4)),
    "sequential of nothing": Layer(lambda nn: nn.Sequential(), real(4, 3)),
    "sequential": Layer(
        lambda nn: nn.Sequential(
            nn.Linear(5, 8), nn.ReLU(), nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 3), nn.Sigmoid()
        ),
        real(4, 5),
    ),
    "sequential with names": Layer(
        lambda nn: nn.Sequential(
            OrderedDict(
                first=nn.Linear(5, 8),
                act=nn.GELU(),
                inner=nn.Sequential(nn.LayerNorm(8), nn.Dropout(0.0), nn.Linear(8, 2, bias=False)),
            )
        ),
        real(4, 5),
    ),
    "sequential of embedding and more": Layer(
        lambda nn: nn.Sequential(
            nn.Embedding(9, 4), nn.Flatten(), nn.Linear(12, 6), nn.LayerNorm(6), nn.Tanh()
        ),
        classes(9, 5, 3),
    ),
}

each_layer = pytest.mark.parametrize("layer", LAYERS.values(), ids=LAYERS)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@each_layer
def test_values_and_gradients_are_pytorchs(layer: Layer, dtype: str) -> None:
    assert_same_run(layer.make(nn), layer.make(torch.nn), layer, dtype)


@each_layer
def test_the_text_is_pytorchs(layer: Layer) -> None:
    # PyTorch's name for the Linear of its attention is about a feature of its own.
    theirs = repr(layer.make(torch.nn)).replace("NonDynamicallyQuantizableLinear", "Linear")
    assert repr(layer.make(nn)) == theirs


@each_layer
def test_the_state_has_pytorchs_names_shapes_and_dtype(layer: Layer) -> None:
    ours, theirs = layer.make(nn).state_dict(), layer.make(torch.nn).state_dict()
    assert names_and_shapes(ours) == names_and_shapes(theirs)
    assert {k: str(v.dtype) for k, v in ours.items()} == {
        k: str(v.dtype).removeprefix("torch.") for k, v in theirs.items()
    }


def test_every_module_is_compared() -> None:
    losses = {name for name in nn.__all__ if name.endswith("Loss")}  # in test_losses.py
    compared = {
        type(module).__name__ for layer in LAYERS.values() for module in layer.make(nn).modules()
    }
    modules = {
        name
        for name in nn.__all__
        if isinstance(getattr(nn, name), type) and issubclass(getattr(nn, name), nn.Module)
    }
    # The containers without a forward are in test_containers.py, what PyTorch has not in
    # test_positions.py.
    elsewhere = {"Module", "ModuleDict", "ModuleList", "ParameterList"}
    elsewhere |= {"RotaryEncoding", "SinusoidalEncoding"}
    assert modules - losses - elsewhere == compared


def test_the_comparison_rejects_a_wrong_gradient() -> None:
    class Doubled(nn.Linear):
        def forward(self, input: Tensor) -> Tensor:
            y = super().forward(input)
            return y * 2.0 - y.detach()  # the same values

    layer = Layer(lambda nn: nn.Linear(5, 3), real(4, 5))
    with pytest.raises(AssertionError, match="gradient"):
        assert_same_run(Doubled(5, 3), layer.make(torch.nn), layer, "float64")


# Sequential runs Linear and its activation as one op


ACTIVATIONS = {"relu": nn.ReLU, "tanh": nn.Tanh, "sigmoid": nn.Sigmoid}


def run(model: Callable[[Tensor], Tensor], layer: nn.Linear) -> list[np.ndarray]:
    x = Tensor(real_input(), requires_grad=True)
    layer.zero_grad()
    out = model(x)
    (out * np.linspace(0.5, 2.0, out.numel(), dtype=np.float32).reshape(out.shape)).sum().backward()
    grads = [x.grad, layer.weight.grad, None if layer.bias is None else layer.bias.grad]
    return [out.data, *(grad.data for grad in grads if grad is not None)]


def real_input() -> np.ndarray:
    return np.random.default_rng(5).normal(size=(6, 5)).astype(np.float32)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("name", ACTIVATIONS)
def test_a_chain_gives_the_bits_of_its_modules_one_by_one(name: str, bias: bool) -> None:
    layer, activation = nn.Linear(5, 4, bias=bias), ACTIVATIONS[name]()
    chain = nn.Sequential(layer, activation)
    fused = chain(Tensor(real_input()))
    assert fused.op == "linear" and fused.attrs["activation"] == name
    for one, other in zip(
        run(chain, layer), run(lambda x: activation(layer(x)), layer), strict=True
    ):
        assert np.array_equal(one, other)


class Loud(nn.Linear):
    def forward(self, input: Tensor) -> Tensor:
        return super().forward(input) * 2.0


class Leaky(nn.ReLU):
    def forward(self, input: Tensor) -> Tensor:
        return tensor.maximum(input, input * 0.1)


@pytest.mark.parametrize(
    ("layer", "activation"),
    [(Loud(5, 4), nn.ReLU()), (nn.Linear(5, 4), Leaky()), (nn.Linear(5, 4), nn.GELU())],
)
def test_modules_that_are_not_the_plain_ones_are_called(
    layer: nn.Linear, activation: nn.Module
) -> None:
    x = Tensor(real_input())
    expected = activation(layer(x)).data
    assert np.array_equal(nn.Sequential(layer, activation)(x).data, expected)


def test_a_forward_replaced_on_the_object_is_called() -> None:
    layer, activation = nn.Linear(5, 4), nn.ReLU()
    activation.forward = lambda input: input * 3.0  # type: ignore[method-assign]
    x = Tensor(real_input())
    assert np.array_equal(nn.Sequential(layer, activation)(x).data, (layer(x) * 3.0).data)
    layer.forward = lambda input: input * 2.0  # type: ignore[method-assign]
    assert np.array_equal(nn.Sequential(layer, activation)(x).data, (x * 2.0 * 3.0).data)


# Embedding


def test_the_padding_row_starts_at_zero_and_gets_no_gradient() -> None:
    layer = nn.Embedding(5, 3, padding_idx=-2)
    assert layer.padding_idx == 3
    assert not layer.weight.data[3].any() and layer.weight.data[[0, 1, 2, 4]].all()
    layer(np.array([3, 1, 3, 1])).sum().backward()
    assert layer.weight.grad is not None
    assert layer.weight.grad.tolist() == [[0.0] * 3, [2.0] * 3, [0.0] * 3, [0.0] * 3, [0.0] * 3]


def test_a_padding_row_that_was_filled_is_still_what_comes_out() -> None:
    layer, theirs = nn.Embedding(3, 2, padding_idx=0), torch.nn.Embedding(3, 2, padding_idx=0)
    with torch.no_grad():
        theirs.weight.fill_(7.0)
    load(layer, theirs, "float32")
    assert (
        layer(Tensor([0, 1])).tolist() == theirs(torch.tensor([0, 1])).tolist() == [[7.0, 7.0]] * 2
    )


@pytest.mark.parametrize("index", [3, -4])
def test_a_padding_row_that_is_not_there_is_refused(index: int) -> None:
    with pytest.raises(
        IndexError, match=rf"Embedding: padding_idx must lie in \[-3, 3\), got {index}"
    ):
        nn.Embedding(3, 2, padding_idx=index)


@pytest.mark.parametrize("bad", [3, -1, 0.5])
def test_an_index_outside_the_table_is_refused(bad: float) -> None:
    with pytest.raises(IndexError, match="embedding"):
        nn.Embedding(3, 2)(Tensor([0, bad]))


# Dropout


def test_dropout_keeps_about_its_share_and_scales_it() -> None:
    x = Tensor(np.ones(20_000, np.float64), requires_grad=True)
    y = nn.Dropout(0.3)(x)
    kept = y.data != 0
    assert abs(kept.mean() - 0.7) < 5 * np.sqrt(0.3 * 0.7 / 20_000)
    np.testing.assert_allclose(y.data[kept], 1 / 0.7, rtol=1e-15)
    y.sum().backward()
    assert x.grad is not None and np.array_equal(x.grad.data, y.data)


def test_dropout_draws_from_its_own_generator_if_it_has_one() -> None:
    layer = nn.Dropout(0.5, generator=Generator(4))
    before = tensor.default_generator.get_state()
    first = layer(Tensor(np.ones(64))).data
    assert tensor.default_generator.get_state() == before
    again = nn.Dropout(0.5, generator=Generator(4))(Tensor(np.ones(64))).data
    assert np.array_equal(first, again)
    assert not np.array_equal(first, layer(Tensor(np.ones(64))).data)


@pytest.mark.parametrize("p", [-0.1, 1.1, float("nan")])
def test_a_dropout_probability_outside_0_and_1_is_refused(p: float) -> None:
    with pytest.raises(ValueError, match="between 0 and 1"):
        nn.Dropout(p)


# Sizes and dtypes


@pytest.mark.parametrize(
    ("kind", "arguments", "error"),
    [
        (nn.Linear, (2.5, 3), TypeError),
        (nn.Linear, (2, -3), ValueError),
        (nn.Embedding, (-1, 3), ValueError),
        (nn.Embedding, (3, "4"), TypeError),
        (nn.LayerNorm, ((2, -1),), ValueError),
        (nn.LayerNorm, (2.0,), TypeError),
    ],
)
def test_sizes_that_make_no_sense_are_refused(
    kind: type[nn.Module], arguments: tuple[Any, ...], error: type[Exception]
) -> None:
    before = tensor.default_generator.get_state()
    with pytest.raises(error, match=f"^{kind.__name__}: "):
        kind(*arguments)
    assert tensor.default_generator.get_state() == before


@pytest.mark.parametrize("dtype", ["int64", "bool", "complex64", "U1"])
def test_parameters_that_could_not_be_trained_are_refused(dtype: str) -> None:
    for kind, arguments in ((nn.Linear, (2, 3)), (nn.Embedding, (2, 3)), (nn.LayerNorm, (3,))):
        with pytest.raises(TypeError, match="float"):
            kind(*arguments, dtype=dtype)


def test_layers_can_be_made_in_float64() -> None:
    for layer in (
        nn.Linear(2, 3, dtype=tensor.float64),
        nn.Embedding(2, 3, dtype="float64"),
        nn.LayerNorm(3, dtype=np.float64),
    ):
        assert {p.dtype for p in layer.parameters()} == {tensor.float64}


def test_an_input_that_does_not_fit_is_refused_with_both_shapes() -> None:
    with pytest.raises(ShapeError, match=r"linear: .*\(4, 6\).*\(3, 5\)"):
        nn.Linear(5, 3)(Tensor(np.ones((4, 6), np.float32)))
    with pytest.raises(ShapeError, match=r"layer_norm: .*\(5,\).*\(4, 6\)"):
        nn.LayerNorm(5)(Tensor(np.ones((4, 6), np.float32)))


def test_a_layer_of_no_inputs_gives_its_bias() -> None:
    layer = nn.Linear(0, 3)
    assert layer.bias is not None
    assert_close(layer(Tensor(np.ones((2, 0), np.float32))).data, np.tile(layer.bias.data, (2, 1)))
