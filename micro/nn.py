"""Neurons, layers and multilayer perceptrons on Values.

Weights are drawn, as in micrograd, from Python's global ``random`` unless a generator of your own
is given: ``MLP(2, [16, 16, 1], rng=random.Random(1337))``. Every weight, bias and activation has a
label, such as ``1.w[0][3]``: in layer 1, neuron 0, the weight of input 3.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any, Protocol

from micro.value import Value

__all__ = ["MLP", "Generator", "Layer", "Module", "Neuron"]


class Generator(Protocol):
    """Where weights are drawn from: a ``random.Random``, or the module ``random`` itself."""

    def uniform(self, a: float, b: float, /) -> float:
        """A number between a and b."""


class Module:
    """Anything with parameters: the Values among its attributes, in lists, and in other Modules."""

    def named_parameters(self) -> Iterator[tuple[str, Value]]:
        """Every parameter once, in the order of the attributes, with its path.

        >>> [name for name, _ in Neuron(2).named_parameters()]
        ['w.0', 'w.1', 'b']
        """
        seen: set[Value] = set()
        for name, parameter in _walk(vars(self), ""):
            if parameter not in seen:
                seen.add(parameter)
                yield name, parameter

    def parameters(self) -> list[Value]:
        """Every parameter once, in the order of the attributes."""
        return [parameter for _, parameter in self.named_parameters()]

    def zero_grad(self) -> None:
        """Set the gradient of every parameter to 0."""
        for parameter in self.parameters():
            parameter.grad = 0


def _walk(thing: Any, path: str) -> Iterator[tuple[str, Value]]:
    if isinstance(thing, Value):
        yield path, thing
        return
    if isinstance(thing, Module):
        thing = vars(thing)
    if isinstance(thing, (list, tuple)):
        thing = dict(enumerate(thing))
    if isinstance(thing, dict):
        for name, part in thing.items():
            yield from _walk(part, f"{path}.{name}" if path else str(name))


class Neuron(Module):
    """relu(w . x + b), or without the relu.

    Args:
        nin: the number of inputs.
        nonlin: whether the relu is applied.
        rng: where the weights are drawn from, uniformly between -1 and 1; the bias is 0.
        label: a pattern for the labels, in which {} stands for w, b or a (the activation).

    Raises:
        TypeError: nin is not an int.
        ValueError: nin is not positive.
    """

    def __init__(
        self, nin: int, nonlin: bool = True, rng: Generator = random, label: str = "{}"
    ) -> None:
        _check_size("Neuron", "nin", nin)
        weight = label.format("w")
        self.w = [Value(rng.uniform(-1, 1), f"{weight}[{i}]") for i in range(nin)]
        self.b = Value(0.0, label.format("b"))
        self.nonlin = nonlin
        self.label = label

    def __call__(self, x: Sequence[Any]) -> Value:
        """The activation for the inputs x, which are Values or numbers; ValueError if not nin."""
        if len(x) != len(self.w):
            raise ValueError(f"Neuron: x must have {len(self.w)} elements, got {len(x)}")
        total = sum((wi * xi for wi, xi in zip(self.w, x, strict=True)), self.b)
        out = total.relu() if self.nonlin else total
        out.label = self.label.format("a")
        return out

    def __repr__(self) -> str:
        return f"{'ReLU' if self.nonlin else 'Linear'}Neuron({len(self.w)})"


class Layer(Module):
    """nout neurons that look at the same inputs.

    Args:
        nin: the number of inputs.
        nout: the number of neurons.
        nonlin: whether they apply the relu.
        rng: where the weights are drawn from.
        label: a pattern for the labels, in which {} stands for w, b or a.

    Raises:
        TypeError: a size is not an int.
        ValueError: a size is not positive.
    """

    def __init__(
        self,
        nin: int,
        nout: int,
        nonlin: bool = True,
        rng: Generator = random,
        label: str = "{}",
    ) -> None:
        _check_size("Layer", "nout", nout)
        self.neurons = [Neuron(nin, nonlin, rng, f"{label}[{j}]") for j in range(nout)]

    def __call__(self, x: Sequence[Any]) -> Any:
        """The activations as a list; a single one as the Value itself."""
        out = [neuron(x) for neuron in self.neurons]
        return out[0] if len(out) == 1 else out

    def __repr__(self) -> str:
        return f"Layer of [{', '.join(map(repr, self.neurons))}]"


class MLP(Module):
    """A multilayer perceptron: layers of relu neurons, and a linear one at the end.

    Args:
        nin: the number of inputs.
        nouts: the number of neurons of each layer.
        rng: where the weights are drawn from.

    Raises:
        TypeError: a size is not an int.
        ValueError: a size is not positive, or there is no layer.

    >>> MLP(2, [2, 1])
    MLP of [Layer of [ReLUNeuron(2), ReLUNeuron(2)], Layer of [LinearNeuron(2)]]
    """

    def __init__(self, nin: int, nouts: Sequence[int], rng: Generator = random) -> None:
        if not isinstance(nouts, Sequence):
            kind = type(nouts).__name__
            raise TypeError(f"MLP: nouts must be a sequence of ints, got {kind}: {nouts!r}")
        sizes = [nin, *nouts]
        last = len(sizes) - 2
        for i, size in enumerate(sizes):  # all of them before the first weight is drawn
            _check_size("MLP", f"nouts[{i - 1}]" if i else "nin", size)
        if last < 0:
            raise ValueError(f"MLP: nouts must name at least one layer, got {nouts!r}")
        self.layers = [
            Layer(m, n, nonlin=i != last, rng=rng, label=f"{i}.{{}}")
            for i, (m, n) in enumerate(pairwise(sizes))
        ]

    def __call__(self, x: Sequence[Any]) -> Any:
        """The activations of the last layer: a list, or a Value if there is one."""
        for layer in self.layers:
            x = layer([x] if isinstance(x, Value) else x)
        return x

    def __repr__(self) -> str:
        return f"MLP of [{', '.join(map(repr, self.layers))}]"


def _check_size(owner: str, name: str, size: int) -> None:
    if isinstance(size, bool) or not isinstance(size, int):
        raise TypeError(f"{owner}: {name} must be an int, got {type(size).__name__}: {size!r}")
    if size < 1:
        raise ValueError(f"{owner}: {name} must be positive, got {size}")
