"""Every gradient rule, one per operand: a table of calculus.

A rule is called as ``rule(xp, g, ...)``. ``xp`` holds every op of the
vocabulary, either the raw kernels on ndarrays or the recording ops on Tensors,
so the same text serves the first order and every order above it. ``g`` is the
gradient of the result. The remaining parameters are asked for by name, and
what is not asked for is not kept alive:

    a, b, ...        an operand of the op          out         its result
    a_shape, ...     an operand's shape            dim, ...    an attribute
    attrs            all attributes

An op of any number of operands has one rule, which returns a list of gradients. It asks for

    needs            of which operands one is needed; the others get None
    shapes           the operands' shapes
    others           the operands, but None for one that no other operand's gradient needs

A rule never writes into anything it is given. It may return a gradient of the
broadcast shape: summing it down to the operand's, and casting it to the
operand's dtype, is done once, in the engine.
"""

from __future__ import annotations

from . import (  # noqa: F401 - each sets the rules of its family
    attention,
    convolution,
    elementwise,
    fused,
    indexing,
    linalg,
    reduction,
    shape,
)
from .table import RULES, anchored

__all__ = ["RULES", "anchored"]
