"""The engine checked on the user's own machine: ``python -m tensor.verify``.

Gradients against finite differences, the array engine against the scalar one and, where they are
installed, against 50 digits and PyTorch; exact arithmetic; derivatives of high order; contracts.
One table says what was checked, how often, the worst that was found, and what is allowed.

Like ``scalarize``, this knows ``micro``'s Values: it holds the engines against each other.
"""

from .checks import CHECKS, Result
from .outside import OUTSIDE

__all__ = ["CHECKS", "OUTSIDE", "Result"]
