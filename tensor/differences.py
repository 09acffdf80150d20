"""Difference quotients of a function, and whether it is smooth enough to have any."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from .dtypes import float64
from .graph import Array
from .random import default_generator
from .tensor import Tensor

__all__ = [
    "Column",
    "Function",
    "GradcheckError",
    "Limits",
    "Numeric",
    "joined",
    "limits",
    "outputs_of",
]

# A float64 function value is trusted to this many units in the last place: of itself, or of this
# share of the largest value, since small values are often what is left of large ones.
_ULPS: Final = 32
_SHARE: Final = 1 / 8

# Differences below this share of ``atol`` never count: where the gradient itself
# vanishes, what the step leaves of the higher derivatives is all there is.
_NEGLIGIBLE: Final = 1e-4


class GradcheckError(RuntimeError):
    """The backward pass and the finite differences disagree."""


class Limits(NamedTuple):
    """The step and the tolerances of a check."""

    eps: float
    atol: float
    rtol: float
    nondet_tol: float


def limits(name: str, eps: float, atol: float, rtol: float, nondet_tol: float) -> Limits:
    """Return the step and the tolerances, checked."""
    for what, value, least in (
        ("eps", eps, math.ulp(0.0)),
        ("atol", atol, 0.0),
        ("rtol", rtol, 0.0),
        ("nondet_tol", nondet_tol, 0.0),
    ):
        if not least <= value < math.inf:
            wanted = "positive" if least else "0 or more"
            raise ValueError(f"{name}: {what} must be a finite number, {wanted}, got {value}")
    return Limits(eps, atol, rtol, nondet_tol)


def outputs_of(returned: Any) -> list[Tensor]:
    """Return the floating Tensors among what a function returned."""
    several = returned if isinstance(returned, (tuple, list)) else (returned,)
    return [out for out in several if isinstance(out, Tensor) and out.dtype.kind == "f"]


class Function:
    """``func`` as a function of the arrays of those inputs that require grad."""

    def __init__(self, name: str, func: Callable[..., Any], inputs: list[Any]) -> None:
        self.name = name
        self.func = func
        self.inputs = inputs
        self.state = default_generator.get_state()
        self.active = [k for k, x in enumerate(inputs) if isinstance(x, Tensor) and x.requires_grad]
        if not self.active:
            raise ValueError(
                f"{name}: no input requires grad, so there is nothing to check; "
                "call requires_grad_() on one"
            )
        for k in self.active:
            if inputs[k].dtype != float64:
                raise TypeError(
                    f"{name}: inputs[{k}] is {inputs[k].dtype}; finite differences need float64: "
                    "convert it with .double()"
                )

    def point(self) -> list[Array]:
        """Return a contiguous copy of every active input."""
        return [self.inputs[k].data.copy(order="C") for k in self.active]

    def arguments(self, arrays: Sequence[Array]) -> list[Any]:
        """Return the arguments of one call: fresh Tensors, whatever ``func`` may do to them."""
        arguments = [Tensor(x) if isinstance(x, Tensor) else x for x in self.inputs]
        for k, array in zip(self.active, arrays, strict=True):
            arguments[k] = Tensor(array, requires_grad=True)
        return arguments

    def __call__(self, arrays: Sequence[Array]) -> list[Tensor]:
        """Return the floating outputs at a point."""
        return self.outputs(self.arguments(arrays))

    def outputs(self, arguments: list[Any]) -> list[Tensor]:
        """Return the floating outputs; the default generator starts from the same state."""
        outputs = outputs_of(self.func(*arguments))
        if default_generator.get_state() != self.state:
            default_generator.set_state(self.state)
        for i, out in enumerate(outputs):
            if out.dtype != float64:
                raise TypeError(
                    f"{self.name}: output {i} of func is {out.dtype}; finite differences need "
                    "float64 all the way"
                )
        return outputs


class _Slopes(NamedTuple):
    """Difference quotients along one input, what float64 cannot resolve of them, their ranges."""

    values: Array
    noise: Array
    low: Array
    high: Array


class Numeric:
    """Difference quotients of the outputs, one element of one input at a time.

    Either of every element of the outputs, or of their sum with ``weights`` alone.
    """

    def __init__(self, function: Function, base: Array, weights: Array | None) -> None:
        self.function = function
        self.arrays = function.point()
        self.base = base
        self.weights = weights
        self.undefined = bool(np.isnan(base).any())
        self.floor = _SHARE * float(np.abs(base[np.isfinite(base)]).max(initial=0.0))

    def _moved(self, k: int, i: int, step: float) -> tuple[float, Array]:
        """Return where element ``i`` of input ``k`` came to lie, and the outputs there."""
        flat = self.arrays[k].reshape(-1)
        before = flat[i]
        flat[i] = before + step
        try:
            return float(flat[i]), joined([out.data for out in self.function(self.arrays)])
        finally:
            flat[i] = before

    def _quotients(
        self, here: tuple[float, Array], there: tuple[float, Array]
    ) -> tuple[Array, Array]:
        """Return the slope of every output between two points, weighted, and its noise."""
        width = there[0] - here[0]
        if width == 0:
            raise GradcheckError(
                f"{self.function.name}: eps is lost beside an element of {here[0]:g}; "
                "choose a larger eps or a smaller input"
            )
        a, b = here[1], there[1]
        moved = (a != b) & ~(np.isnan(a) & np.isnan(b))
        slopes = np.where(moved, (b - a) / width, 0.0)
        size = np.where(moved, np.maximum(np.maximum(np.abs(a), np.abs(b)), self.floor), 0.0)
        noise = size * (_ULPS * float(np.finfo(float64).eps) / width)
        if self.weights is not None:
            slopes, noise = slopes * self.weights, noise * np.abs(self.weights)
        return slopes, noise

    def _summed(self, slopes: Array) -> Array:
        return slopes if self.weights is None else slopes.sum(keepdims=True)

    def central(self, k: int, i: int, step: float) -> _Slopes:
        """Return the central difference quotients."""
        with np.errstate(all="ignore"):
            slopes, noise = self._quotients(self._moved(k, i, -step), self._moved(k, i, step))
            values = self._summed(slopes)
            return _Slopes(values, self._summed(noise), values, values)

    def sides(self, k: int, i: int, step: float) -> _Slopes:
        """Return by how much the slopes on either side differ, and the sums that lie between."""
        here = float(self.arrays[k].reshape(-1)[i]), self.base
        with np.errstate(all="ignore"):
            left, noise_left = self._quotients(self._moved(k, i, -step), here)
            right, noise_right = self._quotients(here, self._moved(k, i, step))
            low, high = self._summed(np.minimum(left, right)), self._summed(np.maximum(left, right))
            return _Slopes(high - low, self._summed(noise_left + noise_right), low, high)


def joined(arrays: Sequence[Array]) -> Array:
    """Return the elements of several arrays, one after the other."""
    return np.concatenate([np.zeros(0), *(array.ravel() for array in arrays)])


class Column:
    """What the backward pass says of one element of one input, beside its difference quotients."""

    def __init__(
        self, numeric: Numeric, k: int, i: int, analytic: Array, tolerances: Limits
    ) -> None:
        self.numeric = numeric
        self.place = k, i
        self.analytic = analytic
        self.limits = tolerances
        self.slopes = numeric.central(k, i, tolerances.eps)
        with np.errstate(all="ignore"):
            difference = np.abs(analytic - self.slopes.values)
            size = np.maximum(np.abs(analytic), np.abs(self.slopes.values))
            allowed = np.minimum(tolerances.atol, tolerances.rtol * size)
            allowed = np.maximum(allowed, _NEGLIGIBLE * tolerances.atol)
            self.agrees = difference <= allowed + self.slopes.noise
        self._closer: tuple[_Slopes, _Slopes, _Slopes] | None = None

    @property
    def judged(self) -> bool:
        """Whether an entry that is not 0 agrees, or nothing else is there to agree."""
        trivial = (self.analytic == 0) & (self.slopes.values == 0)
        return bool(self.agrees.all() or (self.agrees & ~trivial).any())

    def roughness(self, r: int) -> str:
        """Return why an entry on which the two disagree cannot be judged; "" if it can."""
        analytic, slope = float(self.analytic[r]), float(self.slopes.values[r])
        # 0 times infinity is no number: one output that is not finite can spoil a whole column.
        undefined = self.numeric.undefined or not np.isfinite(self.slopes.values).all()
        if not math.isfinite(slope) or (math.isnan(analytic) and undefined):
            return "func is not finite nearby"
        if self._closer is None:
            eps, (k, i), numeric = self.limits.eps, self.place, self.numeric
            self._closer = (
                numeric.central(k, i, eps / 2),
                numeric.sides(k, i, eps),
                numeric.sides(k, i, eps / 2),
            )
        half, wide, narrow = (
            _Slopes(*(part[r : r + 1] for part in slopes)) for slopes in self._closer
        )
        # Of a smooth function the quotient hardly depends on the step. Near a kink, or at a
        # jump, it does, and by as much as it is away from the gradient.
        there = float(half.values[0])
        change, error = abs(slope - there), abs(slope - analytic)
        if change > 0.1 * error + float(self.slopes.noise[r]) + float(half.noise[0]):
            return f"numeric {slope:.3g}, but {there:.3g} at half the step"
        # Of a smooth function the two slopes come together in proportion to the step.
        apart, closer = float(wide.values[0]), float(narrow.values[0])
        low, high = float(wide.low[0]), float(wide.high[0])
        noise = float(wide.noise[0]) + float(narrow.noise[0])
        kink = apart > noise and abs(closer - apart / 2) > 0.1 * apart + noise
        margin = self.limits.atol + noise
        if kink and low - margin <= analytic <= high + margin:
            return f"a kink: slopes from {low:.3g} to {high:.3g}"
        return ""
