"""First values for parameters, drawn as PyTorch draws them but from our own generators.

Every function fills a Tensor in place, records nothing, and returns it.
"""

from __future__ import annotations

import math
import sys
from statistics import NormalDist
from typing import Any, Final, Literal, TypeVar

import numpy as np

from ..arguments import check_number, generator_of
from ..errors import ShapeError
from ..modes import no_grad
from ..random import Generator
from ..tensor import Tensor

__all__ = [
    "calculate_gain",
    "constant_",
    "dirac_",
    "eye_",
    "kaiming_normal_",
    "kaiming_uniform_",
    "normal_",
    "ones_",
    "orthogonal_",
    "sparse_",
    "trunc_normal_",
    "uniform_",
    "xavier_normal_",
    "xavier_uniform_",
    "zeros_",
]

T = TypeVar("T", bound=Tensor)
FanMode = Literal["fan_in", "fan_out"]

_GAINS: Final = {
    "linear": 1.0,
    **dict.fromkeys((f"conv{n}d" for n in (1, 2, 3)), 1.0),
    **dict.fromkeys((f"conv_transpose{n}d" for n in (1, 2, 3)), 1.0),
    "relu": math.sqrt(2),
    "selu": 3 / 4,
    "sigmoid": 1.0,
    "tanh": 5 / 3,
}


def calculate_gain(nonlinearity: str, param: float | None = None) -> float:
    """Return the factor by which the deviation is scaled ahead of a nonlinearity.

    1 for "linear", "sigmoid" and the convolutions ("conv2d" and so on), 5/3
    for "tanh", sqrt(2) for "relu", 3/4 for "selu", and ``sqrt(2 / (1 +
    param**2))`` for "leaky_relu", whose slope ``param`` is 0.01 by default.

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
    source = generator_of("uniform_", generator)
    return _filled(tensor, source.uniform(a, b, tensor.shape, tensor.dtype))


def normal_(
    tensor: T, mean: float = 0.0, std: float = 1.0, generator: Generator | None = None
) -> T:
    """Fill with numbers of the normal distribution."""
    source = generator_of("normal_", generator)
    return _filled(tensor, source.normal(mean, std, tensor.shape, tensor.dtype))


def trunc_normal_(
    tensor: T,
    mean: float = 0.0,
    std: float = 1.0,
    a: float = -2.0,
    b: float = 2.0,
    generator: Generator | None = None,
) -> T:
    """Fill with numbers of the normal distribution that lie in [a, b].

    ``mean`` and ``std`` are those of the whole distribution. Drawn as the
    inverse of its distribution function at numbers that are uniform between
    its values at ``a`` and ``b``, which is as exact far out in a tail.

    Raises:
        ValueError: ``a`` is not below ``b``, or ``std`` is not positive.
    """
    if not (a < b and 0 < std < math.inf and math.isfinite(mean)):
        raise ValueError(
            f"trunc_normal_: wanted a < b and a positive std, got mean {mean}, std {std}, a {a} "
            f"and b {b}"
        )
    low, high = (a - mean) / std, (b - mean) / std
    # Small probabilities are the exact ones, so the side that has more is reflected.
    sign = -1.0 if low + high > 0 else 1.0
    low, high = sorted((sign * low, sign * high))
    first, last = (math.erfc(-x / math.sqrt(2)) / 2 for x in (low, high))
    if last < sys.float_info.min:
        raise ValueError(f"trunc_normal_: [{a}, {b}] is too far from mean {mean} for std {std}")
    u = generator_of("trunc_normal_", generator).uniform(first, last, tensor.shape, np.float64)
    u = np.clip(u, sys.float_info.min, 1 - sys.float_info.epsilon)
    inverse = NormalDist().inv_cdf
    drawn = np.array([inverse(p) for p in u.ravel().tolist()]).reshape(tensor.shape)
    # Within the bounds also after rounding.
    drawn = np.clip((mean + sign * std * drawn).astype(tensor.dtype), a, b)
    return _filled(tensor, drawn)


def constant_(tensor: T, val: float) -> T:
    """Fill with ``val``."""
    _check_tensor(tensor)
    with no_grad():
        return tensor.fill_(val)


def ones_(tensor: T) -> T:
    """Fill with 1."""
    return constant_(tensor, 1.0)


def zeros_(tensor: T) -> T:
    """Fill with 0."""
    return constant_(tensor, 0.0)


def _check_tensor(tensor: Any) -> None:
    if not isinstance(tensor, Tensor):
        kind = type(tensor).__name__
        raise TypeError(f"init: tensor must be a Tensor, which is filled in place, got {kind}")


def _filled(tensor: T, array: np.ndarray) -> T:
    with no_grad():
        return tensor.copy_(array)


def _check_dimensions(name: str, tensor: Tensor, least: int, most: int | None = None) -> None:
    if tensor.ndim < least or (most is not None and tensor.ndim > most):
        wanted = f"{least} to {most}" if most not in (None, least) else f"{least}"
        more = " or more" if most is None else ""
        raise ShapeError(
            f"{name}: the tensor must have {wanted}{more} dimensions, got shape {tensor.shape}"
        )


def eye_(tensor: T) -> T:
    """Fill a matrix with 1 on its diagonal and 0 elsewhere.

    Raises:
        ShapeError: not two dimensions.
    """
    _check_dimensions("eye_", tensor, 2, 2)
    return _filled(tensor, np.eye(tensor.shape[0], tensor.shape[1]))


def dirac_(tensor: T, groups: int = 1) -> T:
    """Fill the weight of a convolution so that it hands on as many channels as it can.

    Weight (out, in, ...) becomes 1 at the centre of ``weight[k, k]`` in every
    one of the ``groups`` of outputs, and 0 elsewhere.

    Raises:
        ShapeError: not three to five dimensions.
        ValueError: the outputs are not a multiple of ``groups``.
    """
    _check_dimensions("dirac_", tensor, 3, 5)
    outputs, inputs, *window = tensor.shape
    if groups < 1 or outputs % groups:
        raise ValueError(f"dirac_: {outputs} output channels are not a multiple of groups {groups}")
    weight = np.zeros((groups, outputs // groups, *tensor.shape[1:]))
    k = np.arange(min(outputs // groups, inputs))
    centre: tuple[Any, ...] = tuple(n // 2 for n in window)
    weight[(slice(None), k, k, *centre)] = 1
    return _filled(tensor, weight.reshape(tensor.shape))


def orthogonal_(tensor: T, gain: float = 1, generator: Generator | None = None) -> T:
    """Fill with ``gain`` times a matrix whose rows, or columns if fewer, are orthonormal.

    Dimensions after the first count as one. The matrix is uniform among all of
    its kind.
    Source: Saxe, McClelland and Ganguli, 2013, arXiv:1312.6120.

    Raises:
        ShapeError: fewer than two dimensions.
    """
    check_number("orthogonal_: gain", gain)
    _check_dimensions("orthogonal_", tensor, 2)
    rows, columns = tensor.shape[0], math.prod(tensor.shape[1:])
    source = generator_of("orthogonal_", generator)
    drawn = source.normal(0.0, 1.0, (max(rows, columns), min(rows, columns)), np.float64)
    q, r = np.linalg.qr(drawn)
    q *= np.where(np.diagonal(r) < 0, -1.0, 1.0)  # or it would not be uniform
    return _filled(tensor, (gain * (q.T if rows < columns else q)).reshape(tensor.shape))


def sparse_(tensor: T, sparsity: float, std: float = 0.01, generator: Generator | None = None) -> T:
    """Fill a matrix normally, and a share ``sparsity`` of every column, rounded up, with 0.

    Source: Martens, 2010, ICML.

    Raises:
        ShapeError: not two dimensions.
        ValueError: ``sparsity`` outside [0, 1].
    """
    _check_dimensions("sparse_", tensor, 2, 2)
    if not 0 <= sparsity <= 1:
        raise ValueError(f"sparse_: sparsity must lie in [0, 1], got {sparsity}")
    source = generator_of("sparse_", generator)
    drawn = source.normal(0.0, std, tensor.shape, np.float64)
    order = np.argsort(source.uniform(0.0, 1.0, tensor.shape, np.float64), axis=0)
    np.put_along_axis(drawn, order[: math.ceil(sparsity * len(drawn))], 0.0, axis=0)
    return _filled(tensor, drawn)


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
