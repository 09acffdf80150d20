"""Solutions of lesson 4."""

from collections.abc import Callable

from micro import Value, relu, tanh


def neuron(w: list[Value], b: Value, x: list[float]) -> Value:
    """Start the sum at the bias."""
    return tanh(sum((wi * xi for wi, xi in zip(w, x, strict=True)), b))


def hinge_loss(scores: list[Value], targets: list[float]) -> Value:
    """The relu is the maximum with 0."""
    costs = [relu(1 - t * s) for s, t in zip(scores, targets, strict=True)]
    return sum(costs, Value(0.0)) / len(costs)


def step(parameters: list[Value], lr: float) -> None:
    """Change data, not the variable."""
    for parameter in parameters:
        parameter.data -= lr * parameter.grad


def descend(loss: Callable[[Value], Value], w: Value, lr: float, steps: int) -> float:
    """A new graph for each step, and a gradient that starts at 0."""
    for _ in range(steps):
        w.grad = 0.0
        loss(w).backward()
        w.data -= lr * w.grad
    return w.data
