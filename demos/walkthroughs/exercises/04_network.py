"""Exercises of lesson 4: a neuron, a loss, a step, a loop."""

from collections.abc import Callable

from micro import Value, maximum, relu, tanh  # functions of Values and numbers


def neuron(w: list[Value], b: Value, x: list[float]) -> Value:
    """Return tanh(w[0] x[0] + w[1] x[1] + ... + b) as a Value that can be differentiated.

    w and x are equally long, and can be empty: then only b is left.
    """
    raise NotImplementedError


def hinge_loss(scores: list[Value], targets: list[float]) -> Value:
    """Return the mean of max(0, 1 - target * score) over all the examples.

    Every target is 1.0 or -1.0. A score of 3.0 for the target 1.0 costs nothing, a score of 0.0
    costs 1.0.
    """
    raise NotImplementedError


def step(parameters: list[Value], lr: float) -> None:
    """Move the data of every parameter against its gradient, by lr times the gradient.

    The Values stay the same objects: a model that holds them sees the change. Their gradients
    stay as they are.
    """
    raise NotImplementedError


def descend(loss: Callable[[Value], Value], w: Value, lr: float, steps: int) -> float:
    """Take steps of gradient descent on loss(w), and return what w.data is then.

    Each step works out the loss at the w of that moment, and uses the gradient of that loss
    alone. w.grad can hold something from before.
    """
    raise NotImplementedError
