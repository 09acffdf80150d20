"""Neurons, layers and perceptrons: micrograd's signatures and behaviour, and labels."""

from __future__ import annotations

import math
import random
from typing import Any

import pytest

from micro import Value
from micro.nn import MLP, Layer, Module, Neuron


def test_a_neuron_is_a_weighted_sum_and_a_relu() -> None:
    neuron = Neuron(2, rng=random.Random(0))
    neuron.w[0].data, neuron.w[1].data, neuron.b.data = 2.0, -3.0, 0.5
    assert neuron([4.0, 1.0]).data == 5.5
    assert neuron([Value(1.0), 2]).data == 0.0
    linear = Neuron(2, nonlin=False, rng=random.Random(0))
    linear.w[0].data, linear.w[1].data, linear.b.data = 2.0, -3.0, 0.5
    assert linear([1.0, 2.0]).data == -3.5


def test_weights_are_drawn_from_pythons_random_in_order_and_biases_are_0() -> None:
    state = random.getstate()
    try:
        random.seed(1337)
        model = MLP(3, [4, 4, 1])
    finally:
        random.setstate(state)
    rng = random.Random(1337)
    expected: list[float] = []
    for inputs, neurons in ((3, 4), (4, 4), (4, 1)):
        for _ in range(neurons):
            expected += [*(rng.uniform(-1, 1) for _ in range(inputs)), 0.0]
    assert [p.data for p in model.parameters()] == expected
    own = MLP(3, [4, 4, 1], rng=random.Random(1337))
    assert [p.data for p in own.parameters()] == expected


def test_a_generator_of_ones_own_leaves_pythons_random_alone() -> None:
    before = random.getstate()
    MLP(2, [3, 1], rng=random.Random(0))
    assert random.getstate() == before


def test_the_last_layer_alone_is_linear() -> None:
    model = MLP(2, [3, 2])
    assert repr(model) == (
        "MLP of [Layer of [ReLUNeuron(2), ReLUNeuron(2), ReLUNeuron(2)], "
        "Layer of [LinearNeuron(3), LinearNeuron(3)]]"
    )
    assert repr(Layer(2, 1)) == "Layer of [ReLUNeuron(2)]"
    assert repr(Neuron(5, nonlin=False)) == "LinearNeuron(5)"


def test_a_layer_gives_a_list_and_a_single_neuron_a_value() -> None:
    assert isinstance(Layer(2, 1)([1.0, 2.0]), Value)
    assert [type(v) for v in Layer(2, 3)([1.0, 2.0])] == [Value] * 3
    assert isinstance(MLP(2, [3, 1])([1.0, 2.0]), Value)


def test_a_layer_of_one_neuron_can_be_followed_by_another_layer() -> None:
    assert len(MLP(2, [1, 3])([1.0, 2.0])) == 3


def test_weights_biases_and_activations_have_labels() -> None:
    neuron = Neuron(2)
    assert [p.label for p in neuron.parameters()] == ["w[0]", "w[1]", "b"]
    assert neuron([1.0, 2.0]).label == "a"
    layer = Layer(2, 2)
    assert [p.label for p in layer.parameters()] == (
        ["w[0][0]", "w[0][1]", "b[0]", "w[1][0]", "w[1][1]", "b[1]"]
    )
    assert [a.label for a in layer([1.0, 2.0])] == ["a[0]", "a[1]"]
    model = MLP(1, [1, 1])
    assert [p.label for p in model.parameters()] == ["0.w[0][0]", "0.b[0]", "1.w[0][0]", "1.b[0]"]
    assert model([1.0]).label == "1.a[0]"


def test_parameters_have_paths_by_attribute() -> None:
    names = [name for name, _ in MLP(1, [2, 1]).named_parameters()]
    assert names == [
        *("layers.0.neurons.0.w.0", "layers.0.neurons.0.b"),
        *("layers.0.neurons.1.w.0", "layers.0.neurons.1.b"),
        *("layers.1.neurons.0.w.0", "layers.1.neurons.0.w.1", "layers.1.neurons.0.b"),
    ]


def test_a_module_of_ones_own_finds_its_values_and_a_tied_one_once() -> None:
    class Tied(Module):
        def __init__(self) -> None:
            self.scale = Value(2.0)
            self.parts = {"first": Neuron(1), "again": (self.scale, [Value(3.0)])}
            self.name = "tied"

    assert [name for name, _ in Tied().named_parameters()] == (
        ["scale", "parts.first.w.0", "parts.first.b", "parts.again.1.0"]
    )
    assert Module().parameters() == []


def test_zero_grad_clears_every_parameter_and_nothing_else() -> None:
    model = MLP(2, [2, 1], rng=random.Random(3))
    x = Value(1.0)
    model([x, 2.0]).backward()
    assert any(p.grad != 0 for p in model.parameters())
    gradient = x.grad
    model.zero_grad()
    assert [p.grad for p in model.parameters()] == [0] * len(model.parameters())
    assert x.grad == gradient


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: Neuron(0), ValueError, "Neuron: nin must be positive, got 0"),
        (lambda: Neuron("2"), TypeError, "Neuron: nin must be an int, got str: '2'"),
        (lambda: Neuron(True), TypeError, "Neuron: nin must be an int, got bool"),
        (lambda: Layer(2, -1), ValueError, "Layer: nout must be positive, got -1"),
        (lambda: Layer(2.5, 1), TypeError, "Neuron: nin must be an int, got float"),
        (lambda: MLP(2, []), ValueError, "MLP: nouts must name at least one layer"),
        (lambda: MLP(2, [3, 0]), ValueError, r"MLP: nouts\[1\] must be positive, got 0"),
        (lambda: MLP(2, [3, None]), TypeError, r"MLP: nouts\[1\] must be an int, got NoneType"),
        (lambda: MLP(2, 3), TypeError, "MLP: nouts must be a sequence of ints, got int: 3"),
    ],
)
def test_a_size_that_makes_no_sense_is_refused_before_a_weight_is_drawn(
    make: Any, error: type[Exception], message: str
) -> None:
    before = random.getstate()
    with pytest.raises(error, match=message):
        make()
    assert random.getstate() == before


def test_inputs_of_the_wrong_number_are_refused() -> None:
    model = MLP(2, [3, 1])
    with pytest.raises(ValueError, match="Neuron: x must have 2 elements, got 3"):
        model([1.0, 2.0, 3.0])
    assert math.isfinite(model([1.0, 2.0]).data)
