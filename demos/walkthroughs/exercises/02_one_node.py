"""Exercises of lesson 2: local derivatives, and chains of them."""

from micro import Value


def partials(op: str, a: float, b: float) -> tuple[float, float]:
    """Return the local derivatives of an op by a and by b.

    op is "add", "sub", "mul" or "div". partials("add", 2.0, 5.0) is (1.0, 1.0).
    """
    raise NotImplementedError


def tanh_partial(out: float) -> float:
    """Return the local derivative of tanh where its result is out.

    An op that has been computed has its result at hand: nothing need be computed twice. Where
    out is 0.0, tanh rises like its input: the answer is 1.0.
    """
    raise NotImplementedError


def along_chain(y: Value) -> float:
    """Return d y / d x for the x that a chain begins with.

    Every Value in the chain has one input or none: v.inputs is (u,) or (). v.partials() is then
    (d,), the local derivative of v by u. The x is the Value without inputs; if that is y itself,
    the answer is 1.0. A chain can be thousands of Values long.
    """
    raise NotImplementedError
