"""Gradients held against finite differences.

The check is numerical and knows nothing of the rules: it moves one element of
one input at a time by ``eps`` to either side, and compares how far the outputs
move with what the backward pass says. The outputs are contracted with fixed
random weights, so that a gradient that is right only in the sum, or only on
average, is found out.
"""

from __future__ import annotations

import functools
import math
import warnings
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from .dtypes import float64
from .engine import grad
from .graph import Array
from .modes import enable_grad
from .random import Generator, default_generator, fork_rng
from .tensor import Tensor

__all__ = ["GradcheckError", "gradcheck", "gradgradcheck"]

_SEED: Final = 20_010_911

# A float64 function value is trusted to this many units in the last place.
_ULPS: Final = 32

# Differences below this share of ``atol`` never count: where the gradient itself
# vanishes, what the step leaves of the higher derivatives is all there is.
_NEGLIGIBLE: Final = 1e-4

# How many elements a message lists.
_SHOWN: Final = 5


class GradcheckError(RuntimeError):
    """The backward pass and the finite differences disagree."""


def gradcheck(
    func: Callable[..., Any],
    inputs: Tensor | Sequence[Any],
    *,
    eps: float = 1e-6,
    atol: float = 1e-6,
    rtol: float = 1e-6,
    raise_exception: bool = True,
    nondet_tol: float = 0.0,
) -> bool:
    r"""Check the gradients of ``func`` against central differences.

    With fixed random weights w over all outputs, for every element x of every
    input that requires grad,

        numeric = sum w (f(x + eps) - f(x - eps)) / 2 eps

    must agree with the gradient that backward gives, within ``atol`` *and*
    within ``rtol`` of the larger of the two, each widened by what float64
    cannot resolve at that step. In float64 a correct gradient of order 1 comes
    to within about 1e-10, and a difference above 1e-6 is a fault.

    Where the two disagree, ``func`` is looked at again with half the step. If
    the slopes to the left and to the right do not come together, it has a kink
    there, and any gradient between the two is let pass; if the quotient itself
    is another one, there is a kink or a jump close by. Such elements, and those
    next to which ``func`` is not finite, are not judged, and a warning names them.

    The inputs are copied first, so an expanded or strided one is checked like
    any other, and neither they nor their ``grad`` change. Draws from the
    default generator are the same at every evaluation, and it ends as it began.

    Args:
        func: takes the inputs and returns a Tensor or a sequence of them; what
            it returns besides floating Tensors is left aside.
        inputs: Tensors, of float64 where they require grad, and anything else,
            which is passed on as it is.
        eps: the step.
        atol: the largest absolute difference.
        rtol: the largest difference relative to the gradient.
        raise_exception: raise where the check fails, rather than return False.
        nondet_tol: how far two backward passes over one graph may lie apart.

    Returns:
        Whether the gradients are right.

    Raises:
        GradcheckError: a gradient is wrong; the message names the input and the
            element. Or ``func`` is not deterministic, or nothing was smooth
            enough to be checked.
        ValueError: no input requires grad, or a step or tolerance is not positive.
        TypeError: an input that requires grad, or an output, is not float64.

    >>> from tensor import Tensor
    >>> x = Tensor([0.5, 2.0], dtype="float64", requires_grad=True)
    >>> gradcheck(lambda x: (x * x).exp(), [x])
    True
    """
    limits = _limits("gradcheck", eps, atol, rtol, nondet_tol)
    return _checked("gradcheck", func, _listed(inputs), limits, raise_exception)


def gradgradcheck(
    func: Callable[..., Any],
    inputs: Tensor | Sequence[Any],
    grad_outputs: Tensor | Sequence[Tensor] | None = None,
    *,
    eps: float = 1e-6,
    atol: float = 1e-6,
    rtol: float = 1e-6,
    raise_exception: bool = True,
    nondet_tol: float = 0.0,
) -> bool:
    """Check the second derivatives of ``func`` as ``gradcheck`` checks the first.

    The function that is checked takes the inputs and ``grad_outputs`` to the
    gradients of the inputs. A wrong first derivative whose own derivative is
    right passes: run ``gradcheck`` too.

    Args:
        func: as for ``gradcheck``.
        inputs: as for ``gradcheck``.
        grad_outputs: a gradient for every output that requires grad, of its
            shape; random by default.
        eps: the step.
        atol: the largest absolute difference.
        rtol: the largest difference relative to the gradient.
        raise_exception: raise where the check fails, rather than return False.
        nondet_tol: how far two backward passes over one graph may lie apart.

    Returns:
        Whether the second derivatives are right.

    Raises:
        GradcheckError: as for ``gradcheck``.
        ValueError: no input or no output requires grad, or the number of
            ``grad_outputs`` is not that of the outputs.
        TypeError: as for ``gradcheck``.
    """
    name = "gradgradcheck"
    limits = _limits(name, eps, atol, rtol, nondet_tol)
    given = _listed(inputs)
    function = _Function(name, func, given)
    with fork_rng(), enable_grad():
        outputs = [out for out in function(function.point()) if out.requires_grad]
    if not outputs:
        raise ValueError(f"{name}: no output of func requires grad: there is nothing to check")
    if grad_outputs is None:
        seeds = [Tensor(weights) for weights in _weights(outputs)]
    else:
        seeds = [Tensor(seed) for seed in _listed(grad_outputs)]
        if len(seeds) != len(outputs):
            raise ValueError(f"{name}: got {len(seeds)} grad_outputs for {len(outputs)} outputs")
    for seed in seeds:
        seed.requires_grad_()

    def gradients(*arguments: Any) -> tuple[Tensor, ...]:
        ours, weights = arguments[: len(given)], arguments[len(given) :]
        results = [out for out in _outputs(func(*ours)) if out.requires_grad]
        targets = [ours[k] for k in function.active]
        found = grad(results, targets, weights, create_graph=True, allow_unused=True)
        return tuple(value for value in found if value is not None)

    return _checked(name, gradients, [*given, *seeds], limits, raise_exception)


class _Limits(NamedTuple):
    eps: float
    atol: float
    rtol: float
    nondet_tol: float


def _limits(name: str, eps: float, atol: float, rtol: float, nondet_tol: float) -> _Limits:
    for what, value, least in (
        ("eps", eps, math.ulp(0.0)),
        ("atol", atol, 0.0),
        ("rtol", rtol, 0.0),
        ("nondet_tol", nondet_tol, 0.0),
    ):
        if not least <= value < math.inf:
            wanted = "positive" if least else "0 or more"
            raise ValueError(f"{name}: {what} must be a finite number, {wanted}, got {value}")
    return _Limits(eps, atol, rtol, nondet_tol)


def _listed(inputs: Any) -> list[Any]:
    return [inputs] if isinstance(inputs, Tensor) else list(inputs)


def _outputs(returned: Any) -> list[Tensor]:
    """Return the floating Tensors among what a function returned."""
    several = returned if isinstance(returned, (tuple, list)) else (returned,)
    return [out for out in several if isinstance(out, Tensor) and out.dtype.kind == "f"]


def _weights(outputs: Sequence[Tensor]) -> list[Array]:
    """Return fixed random weights for every element of the outputs, none of them near 0."""
    generator = Generator(_SEED)
    return [
        generator.uniform(0.5, 1.5, out.shape, float64)
        * np.where(generator.bernoulli(0.5, out.shape), 1.0, -1.0)
        for out in outputs
    ]


class _Function:
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
        return self.outputs(self.arguments(arrays))

    def outputs(self, arguments: list[Any]) -> list[Tensor]:
        """Return the floating outputs; the default generator starts from the same state."""
        outputs = _outputs(self.func(*arguments))
        if default_generator.get_state() != self.state:
            default_generator.set_state(self.state)
        for i, out in enumerate(outputs):
            if out.dtype != float64:
                raise TypeError(
                    f"{self.name}: output {i} of func is {out.dtype}; finite differences need "
                    "float64 all the way"
                )
        return outputs


class _Slope(NamedTuple):
    """A difference quotient, what float64 cannot resolve of it, and its range at a kink."""

    value: float
    noise: float
    low: float = 0.0
    high: float = 0.0


class _Numeric:
    """Difference quotients of the contracted outputs, one element of one input at a time."""

    def __init__(self, function: _Function, weights: list[Array], base: list[Array]) -> None:
        self.function = function
        self.arrays = function.point()
        self.weights = [w.ravel() for w in weights]
        self.base = base
        self.undefined = any(np.isnan(out).any() for out in base)

    def _moved(self, k: int, i: int, step: float) -> tuple[float, list[Array]]:
        """Return where element ``i`` of input ``k`` came to lie, and the outputs there."""
        flat = self.arrays[k].reshape(-1)
        before = flat[i]
        flat[i] = before + step
        try:
            outputs = [out.data.ravel() for out in self.function(self.arrays)]
            return float(flat[i]), outputs
        finally:
            flat[i] = before

    def _quotient(
        self, here: tuple[float, list[Array]], there: tuple[float, list[Array]]
    ) -> tuple[list[Array], float]:
        """Return the slope of every output between two points, weighted, and the noise of all."""
        width = there[0] - here[0]
        if width == 0:
            raise GradcheckError(
                f"{self.function.name}: eps is lost beside an element of {here[0]:g}; "
                "choose a larger eps or a smaller input"
            )
        slopes, noise = [], 0.0
        with np.errstate(all="ignore"):
            for w, a, b in zip(self.weights, here[1], there[1], strict=True):
                moved = (a != b) & ~(np.isnan(a) & np.isnan(b))
                slopes.append(np.where(moved, w * ((b - a) / width), 0.0))
                size = np.maximum(np.abs(a), np.abs(b))[moved]
                noise += float(np.abs(w[moved]) @ size)
        return slopes, noise * _ULPS * float(np.finfo(float64).eps) / width

    def central(self, k: int, i: int, step: float) -> _Slope:
        """Return the central difference quotient."""
        slopes, noise = self._quotient(self._moved(k, i, -step), self._moved(k, i, step))
        return _Slope(_total(slopes), noise)

    def sides(self, k: int, i: int, step: float) -> _Slope:
        """Return by how much the slopes on either side differ, and the sums that lie between."""
        here = float(self.arrays[k].reshape(-1)[i]), self.base
        left, noise_left = self._quotient(self._moved(k, i, -step), here)
        right, noise_right = self._quotient(here, self._moved(k, i, step))
        low = _total([np.minimum(a, b) for a, b in zip(left, right, strict=True)])
        high = _total([np.maximum(a, b) for a, b in zip(left, right, strict=True)])
        return _Slope(high - low, noise_left + noise_right, low, high)


def _total(slopes: list[Array]) -> float:
    with np.errstate(all="ignore"):
        return float(sum(float(s.sum()) for s in slopes))


def _checked(
    name: str,
    func: Callable[..., Any],
    inputs: list[Any],
    limits: _Limits,
    raise_exception: bool,
) -> bool:
    try:
        with fork_rng(), enable_grad():
            skipped = _compare(_Function(name, func, inputs), limits)
    except GradcheckError:
        if raise_exception:
            raise
        return False
    if skipped:
        warnings.warn(
            f"{name}: not checked, because func is not smooth there: {_some(skipped)}",
            stacklevel=3,
        )
    return True


def _compare(function: _Function, limits: _Limits) -> list[str]:
    """Compare every element; return descriptions of those that could not be checked."""
    name = function.name
    arguments = function.arguments(function.point())
    outputs = function.outputs(arguments)
    weights = _weights(outputs)
    base = [out.data.ravel().copy() for out in outputs]
    _same(
        f"{name}: func is not deterministic: two calls gave outputs",
        [out.data.ravel() for out in function(function.point())],
        base,
        0.0,
    )
    analytic = _analytic(function, outputs, weights, arguments, limits)
    numeric = _Numeric(function, weights, base)
    wrong: list[str] = []
    skipped: list[str] = []
    total = 0
    for k, gradient in enumerate(analytic):
        for i, value in enumerate(gradient.reshape(-1).tolist()):
            total += 1
            slope = numeric.central(k, i, limits.eps)
            if _agree(value, slope, limits):
                continue
            index = [int(j) for j in np.unravel_index(i, gradient.shape)]
            place = f"inputs[{function.active[k]}] at {index}"
            reason = _roughness(numeric, k, i, value, slope, limits)
            if reason:
                skipped.append(f"{place} ({reason}, analytic {value:.10g})")
            else:
                wrong.append(
                    f"{place}: analytic {value:.10g}, numeric {slope.value:.10g}, "
                    f"difference {abs(value - slope.value):.3g}"
                )
    if wrong:
        raise GradcheckError(
            f"{name}: {len(wrong)} of {total} elements of the gradient are wrong "
            f"(atol {limits.atol:g} and rtol {limits.rtol:g}): {_some(wrong)}"
        )
    if total and len(skipped) == total:
        raise GradcheckError(f"{name}: nothing could be checked: {_some(skipped)}")
    return skipped


def _analytic(
    function: _Function,
    outputs: list[Tensor],
    weights: list[Array],
    arguments: list[Any],
    limits: _Limits,
) -> list[Array]:
    """Return the gradients of the active inputs; 0 where an output has no graph to them."""
    targets = [arguments[k] for k in function.active]
    pairs = [(out, w) for out, w in zip(outputs, weights, strict=True) if out.requires_grad]
    if not pairs:
        return [np.zeros(x.shape) for x in targets]
    backward = functools.partial(
        grad,
        [out for out, _ in pairs],
        targets,
        [Tensor(w) for _, w in pairs],
        retain_graph=True,
        allow_unused=True,
    )
    first, second = (
        [np.zeros(x.shape) if g is None else g.data for x, g in zip(targets, found, strict=True)]
        for found in (backward(), backward())
    )
    _same(
        f"{function.name}: backward is not repeatable: two passes over one graph gave gradients",
        first,
        second,
        limits.nondet_tol,
    )
    return first


def _same(problem: str, first: list[Array], second: list[Array], tolerance: float) -> None:
    if [a.shape for a in first] != [b.shape for b in second]:
        raise GradcheckError(f"{problem} of different shapes")
    for i, (a, b) in enumerate(zip(first, second, strict=True)):
        if not np.allclose(a, b, rtol=0, atol=tolerance, equal_nan=True):
            apart = float(np.nanmax(np.abs(a - b)))
            raise GradcheckError(f"{problem} that differ by {apart:.3g} in number {i}")


def _agree(analytic: float, slope: _Slope, limits: _Limits) -> bool:
    difference = abs(analytic - slope.value)
    size = max(abs(analytic), abs(slope.value))
    allowed = max(min(limits.atol, limits.rtol * size), _NEGLIGIBLE * limits.atol)
    return difference <= allowed + slope.noise


def _roughness(
    numeric: _Numeric, k: int, i: int, analytic: float, slope: _Slope, limits: _Limits
) -> str:
    """Return why an element on which the two disagree cannot be judged; "" if it can."""
    if not math.isfinite(slope.value) or (math.isnan(analytic) and numeric.undefined):
        return "func is not finite nearby"
    half = numeric.central(k, i, limits.eps / 2)
    # Of a smooth function the quotient hardly depends on the step. Near a kink, or at a
    # jump, it does, and by as much as it is away from the gradient.
    change, error = abs(slope.value - half.value), abs(slope.value - analytic)
    if change > 0.1 * error + slope.noise + half.noise:
        return f"numeric {slope.value:.3g}, but {half.value:.3g} at half the step"
    wide, narrow = numeric.sides(k, i, limits.eps), numeric.sides(k, i, limits.eps / 2)
    # Of a smooth function the two slopes come together in proportion to the step.
    noise = wide.noise + narrow.noise
    kink = wide.value > noise and abs(narrow.value - wide.value / 2) > 0.1 * wide.value + noise
    margin = limits.atol + noise
    if kink and wide.low - margin <= analytic <= wide.high + margin:
        return f"a kink: slopes from {wide.low:.3g} to {wide.high:.3g}"
    return ""


def _some(descriptions: list[str]) -> str:
    more = len(descriptions) - _SHOWN
    return "; ".join(descriptions[:_SHOWN]) + (f"; and {more} more" if more > 0 else "")
