"""First values for parameters, drawn as PyTorch draws them but from our own generators.

Every function fills a Tensor in place, records nothing, and returns it.
"""

from __future__ import annotations

import math
from typing import Literal, TypeVar

from ..errors import ShapeError
from ..modes import no_grad
from ..random import Generator, default_generator
from ..tensor import Tensor

__all__ = [
    "calculate_gain",
    "constant_",
    "kaiming_normal_",
    "kaiming_uniform_",
    "normal_",
    "ones_",
    "uniform_",
    "xavier_normal_",
    "xavier_uniform_",
    "zeros_",
]

T = TypeVar("T", bound=Tensor)
FanMode = Literal["fan_in", "fan_out"]

_GAINS = {
    "linear": 1.0,
    "relu": math.sqrt(2),
    "selu": 3 / 4,
    "sigmoid": 1.0,
    "tanh": 5 / 3,
}


def calculate_gain(nonlinearity: str, param: float | None = None) -> float:
    """Return the factor by which the deviation is scaled ahead of a nonlinearity.

    1 for "linear" and "sigmoid", 5/3 for "tanh", sqrt(2) for "relu", 3/4 for
    "selu", and ``sqrt(2 / (1 + param**2))`` for "leaky_relu", whose slope
    ``param`` is 0.01 by default.

    Raises:
        ValueError: an unknown nonlinearity.
    """
    if nonlinearity == "leaky_relu":
        slope = 0.01 if param is None else param
        return math.sqrt(2 / (1 + slope**2))
    if nonlinearity not in _GAINS:
        raise ValueError(
            f"Unsupported nonlinearity {nonlinearity!r}; "
            f"known are {sorted([*_GAINS, 'leaky_relu'])}"
        )
    return _GAINS[nonlinearity]


def uniform_(tensor: T, a: float = 0.0, b: float = 1.0, generator: Generator | None = None) -> T:
    """Fill with numbers uniform in [a, b)."""
    source = generator or default_generator
    with no_grad():
        return tensor.copy_(source.uniform(a, b, tensor.shape, tensor.dtype))


def normal_(
    tensor: T, mean: float = 0.0, std: float = 1.0, generator: Generator | None = None
) -> T:
    """Fill with numbers of the normal distribution."""
    source = generator or default_generator
    with no_grad():
        return tensor.copy_(source.normal(mean, std, tensor.shape, tensor.dtype))


def constant_(tensor: T, val: float) -> T:
    """Fill with ``val``."""
    with no_grad():
        return tensor.fill_(val)


def ones_(tensor: T) -> T:
    """Fill with 1."""
    return constant_(tensor, 1.0)


def zeros_(tensor: T) -> T:
    """Fill with 0."""
    return constant_(tensor, 0.0)


def _fans(name: str, tensor: Tensor) -> tuple[int, int]:
    """Return how many inputs each output has, and how many outputs each input."""
    if tensor.ndim < 2:
        raise ShapeError(
            f"{name}: fan in and fan out can not be computed for a tensor of fewer than 2 "
            f"dimensions, got shape {tensor.shape}"
        )
    field = math.prod(tensor.shape[2:])
    return tensor.shape[1] * field, tensor.shape[0] * field


def _xavier_std(name: str, tensor: Tensor, gain: float) -> float:
    fan_in, fan_out = _fans(name, tensor)
    return gain * math.sqrt(2 / max(fan_in + fan_out, 1))


def _kaiming_std(name: str, tensor: Tensor, a: float, mode: str, nonlinearity: str) -> float:
    if mode not in ("fan_in", "fan_out"):
        raise ValueError(f"{name}: mode must be 'fan_in' or 'fan_out', got {mode!r}")
    fan_in, fan_out = _fans(name, tensor)
    fan = fan_in if mode == "fan_in" else fan_out
    return calculate_gain(nonlinearity, a) / math.sqrt(max(fan, 1))  # no inputs, no elements


def xavier_uniform_(tensor: T, gain: float = 1.0, generator: Generator | None = None) -> T:
    """Fill uniformly within ``+-gain * sqrt(6 / (fan_in + fan_out))``.

    Source: Glorot and Bengio, 2010, AISTATS.

    Raises:
        ShapeError: fewer than two dimensions.
    """
    bound = math.sqrt(3) * _xavier_std("xavier_uniform_", tensor, gain)
    return uniform_(tensor, -bound, bound, generator)


def xavier_normal_(tensor: T, gain: float = 1.0, generator: Generator | None = None) -> T:
    """Fill normally with deviation ``gain * sqrt(2 / (fan_in + fan_out))``.

    Source: Glorot and Bengio, 2010, AISTATS.

    Raises:
        ShapeError: fewer than two dimensions.
    """
    return normal_(tensor, 0.0, _xavier_std("xavier_normal_", tensor, gain), generator)


def kaiming_uniform_(
    tensor: T,
    a: float = 0,
    mode: FanMode = "fan_in",
    nonlinearity: str = "leaky_relu",
    generator: Generator | None = None,
) -> T:
    """Fill uniformly within ``+-gain * sqrt(3 / fan)``.

    ``a`` is the negative slope of a leaky ReLU; ``gain`` is ``calculate_gain``'s.
    Source: He et al., 2015, arXiv:1502.01852.

    Raises:
        ShapeError: fewer than two dimensions.
        ValueError: an unknown mode or nonlinearity.
    """
    bound = math.sqrt(3) * _kaiming_std("kaiming_uniform_", tensor, a, mode, nonlinearity)
    return uniform_(tensor, -bound, bound, generator)


def kaiming_normal_(
    tensor: T,
    a: float = 0,
    mode: FanMode = "fan_in",
    nonlinearity: str = "leaky_relu",
    generator: Generator | None = None,
) -> T:
    """Fill normally with deviation ``gain / sqrt(fan)``; arguments as ``kaiming_uniform_``.

    Source: He et al., 2015, arXiv:1502.01852.

    Raises:
        ShapeError: fewer than two dimensions.
        ValueError: an unknown mode or nonlinearity.
    """
    std = _kaiming_std("kaiming_normal_", tensor, a, mode, nonlinearity)
    return normal_(tensor, 0.0, std, generator)
