"""Exercises of lesson 3: the backward pass.

A Value v has v.inputs, a tuple of Values; v.partials(), a tuple of its local derivatives by each
of them, with None for one that is a constant; and v.grad, which can be set. Values can be members
of sets and keys of dicts; each is a key of its own. == compares their numbers.
"""

from micro import Value


def order(y: Value) -> list[Value]:
    """Return y and everything that it was made of, each Value once and before its inputs.

    y comes first. Graphs can be thousands of Values deep, and have more ways through them than
    can be counted one by one.
    """
    raise NotImplementedError


def backward(y: Value) -> None:
    """Set v.grad to d y / d v for y and for every Value that it was made of.

    What v.grad was before does not matter. Nothing happens to constants.
    """
    raise NotImplementedError


def ways(y: Value, x: Value) -> int:
    """Return how many ways lead from y to x, along the inputs.

    Two arrows from the same x, as in x * x, are two ways. From x to x itself there is one, and
    none to a Value that y was not made of.
    """
    raise NotImplementedError
