"""Gradients held against finite differences.

The check is numerical and knows nothing of the rules: it moves one element of
one input at a time by ``eps`` to either side, and compares how far the outputs
move with what the backward pass says.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np

from .differences import (
    Column,
    Function,
    GradcheckError,
    Limits,
    Numeric,
    joined,
    limits,
    outputs_of,
)
from .dispatch import recording
from .dtypes import float64
from .engine import grad
from .graph import Array
from .modes import enable_grad
from .random import Generator, fork_rng
from .tensor import Tensor

__all__ = ["GradcheckError", "gradcheck", "gradgradcheck"]

_SEED: Final = 20_010_911

# How many elements a message lists.
_SHOWN: Final = 5

# A gradient for every output, or for some, by number.
Seeds: TypeAlias = Sequence[Array] | Mapping[int, Array]


def gradcheck(
    func: Callable[..., Any],
    inputs: Tensor | Sequence[Any],
    *,
    eps: float = 1e-6,
    atol: float = 1e-6,
    rtol: float = 1e-6,
    raise_exception: bool = True,
    nondet_tol: float = 0.0,
    check_undefined_grad: bool = True,
    check_grad_dtypes: bool = False,
    check_batched_grad: bool = False,
    check_batched_forward_grad: bool = False,
    check_forward_ad: bool = False,
    check_backward_ad: bool = True,
    fast_mode: bool = False,
    masked: bool | None = None,
) -> bool:
    r"""Check the gradients of ``func`` against central differences.

    For every element y of the outputs and every element x of every input that requires grad,

        numeric = (y(x + eps) - y(x - eps)) / 2 eps

    must agree with the gradient that backward gives, within ``atol`` *and*
    within ``rtol`` of the larger of the two, each widened by what float64
    cannot resolve at that step. In float64 a correct gradient of order 1 comes
    to within about 1e-10, and a difference above 1e-6 is a fault.

    In ``fast_mode`` y is not each element of the outputs but their sum with fixed random
    weights: a gradient that is right only in the sum, or only on average, is found out too.

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
        check_undefined_grad: check that outputs which get no gradient, or one of 0, add nothing
            to the gradients of the inputs.
        check_grad_dtypes: check that every gradient has its input's dtype.
        check_batched_grad: nothing here is vectorised over gradients: False.
        check_batched_forward_grad: the same.
        check_forward_ad: there is no forward mode to check: False. ``jvp`` is made of two
            backward passes, which ``gradgradcheck`` checks.
        check_backward_ad: True, because nothing else is left to check.
        fast_mode: compare one random combination of the outputs, rather than each of their
            elements: one backward pass instead of as many as there are elements. A fault that
            the combination cancels is overlooked.
        masked: there are no sparse Tensors, of whose elements some do not count: None or False.

    Returns:
        Whether the gradients are right.

    Raises:
        GradcheckError: a gradient is wrong; the message names the input and the
            element. Or ``func`` is not deterministic, or nothing was smooth
            enough to be checked.
        ValueError: no input requires grad, no output is a floating Tensor, or a step or tolerance
            is not positive.
        TypeError: an input that requires grad, or an output, is not float64.
        NotImplementedError: a flag asks for what there is not.

    >>> from tensor import Tensor
    >>> x = Tensor([0.5, 2.0], dtype="float64", requires_grad=True)
    >>> gradcheck(lambda x: (x * x).exp(), [x])
    True
    """
    name = "gradcheck"
    _refuse(name, "check_batched_grad", check_batched_grad, _BATCHED)
    _refuse(name, "check_batched_forward_grad", check_batched_forward_grad, _BATCHED)
    _refuse(name, "check_forward_ad", check_forward_ad, _FORWARD)
    _refuse(name, "check_backward_ad", not check_backward_ad, _NOTHING_ELSE)
    _refuse(name, "masked", bool(masked), _MASKED)
    tolerances = limits(name, eps, atol, rtol, nondet_tol)
    flags = _Flags(fast_mode, check_undefined_grad, check_grad_dtypes)
    return _checked(name, func, _listed(inputs), tolerances, flags, raise_exception)


def gradgradcheck(
    func: Callable[..., Any],
    inputs: Tensor | Sequence[Any],
    grad_outputs: Tensor | Sequence[Tensor] | None = None,
    *,
    eps: float = 1e-6,
    atol: float = 1e-6,
    rtol: float = 1e-6,
    gen_non_contig_grad_outputs: bool = False,
    raise_exception: bool = True,
    nondet_tol: float = 0.0,
    check_undefined_grad: bool = True,
    check_grad_dtypes: bool = False,
    check_batched_grad: bool = False,
    check_fwd_over_rev: bool = False,
    check_rev_over_rev: bool = True,
    fast_mode: bool = False,
    masked: bool | None = False,
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
        gen_non_contig_grad_outputs: hand ``grad_outputs`` to the backward pass as views with
            gaps between their elements, which a rule may not take for contiguous.
        raise_exception: raise where the check fails, rather than return False.
        nondet_tol: how far two backward passes over one graph may lie apart.
        check_undefined_grad: as for ``gradcheck``.
        check_grad_dtypes: as for ``gradcheck``.
        check_batched_grad: as for ``gradcheck``: False.
        check_fwd_over_rev: there is no forward mode: False.
        check_rev_over_rev: True, because nothing else is left to check.
        fast_mode: as for ``gradcheck``.
        masked: as for ``gradcheck``.

    Returns:
        Whether the second derivatives are right.

    Raises:
        GradcheckError: as for ``gradcheck``.
        ValueError: no input or no output requires grad, or the number of
            ``grad_outputs`` is not that of the outputs.
        TypeError: as for ``gradcheck``.
        NotImplementedError: as for ``gradcheck``.
    """
    name = "gradgradcheck"
    _refuse(name, "check_batched_grad", check_batched_grad, _BATCHED)
    _refuse(name, "check_fwd_over_rev", check_fwd_over_rev, _FORWARD)
    _refuse(name, "check_rev_over_rev", not check_rev_over_rev, _NOTHING_ELSE)
    _refuse(name, "masked", bool(masked), _MASKED)
    tolerances = limits(name, eps, atol, rtol, nondet_tol)
    given = _listed(inputs)
    function = Function(name, func, given)
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
        if gen_non_contig_grad_outputs:
            weights = tuple(_with_gaps(w) for w in weights)
        results = [out for out in outputs_of(func(*ours)) if out.requires_grad]
        targets = [ours[k] for k in function.active]
        found = grad(results, targets, weights, create_graph=True, allow_unused=True)
        return tuple(value for value in found if value is not None)

    flags = _Flags(fast_mode, check_undefined_grad, check_grad_dtypes)
    return _checked(name, gradients, [*given, *seeds], tolerances, flags, raise_exception)


class _Flags(NamedTuple):
    fast: bool
    undefined: bool
    dtypes: bool


# What a flag asks for that there is not, and what there is.
_BATCHED: Final = "gradients are not vectorised over a batch dimension (there is no vmap)"
_FORWARD: Final = (
    "there is no forward-mode differentiation; jvp is made of two backward passes, which "
    "gradcheck and gradgradcheck check"
)
_NOTHING_ELSE: Final = "backward is the only mode of differentiation, so nothing would be checked"
_MASKED: Final = "there are no sparse Tensors, so every element counts"


def _refuse(name: str, flag: str, refused: bool, reason: str) -> None:
    if refused:
        value = flag in ("check_backward_ad", "check_rev_over_rev")
        raise NotImplementedError(f"{name}: {flag}={not value}: {reason}; pass {flag}={value}")


def _listed(inputs: Any) -> list[Any]:
    return [inputs] if isinstance(inputs, Tensor) else list(inputs)


def _with_gaps(x: Tensor) -> Tensor:
    """Return ``x`` as every other element of a Tensor that is twice as large."""
    return Tensor.__getitem__(recording.stack([x, x], -1), (..., 0))


def _weights(outputs: Sequence[Tensor]) -> list[Array]:
    """Return fixed random weights for every element of the outputs, none of them near 0."""
    generator = Generator(_SEED)
    return [
        generator.uniform(0.5, 1.5, out.shape, float64)
        * np.where(generator.bernoulli(0.5, out.shape), 1.0, -1.0)
        for out in outputs
    ]


def _checked(
    name: str,
    func: Callable[..., Any],
    inputs: list[Any],
    tolerances: Limits,
    flags: _Flags,
    raise_exception: bool,
) -> bool:
    try:
        with fork_rng(), enable_grad():
            skipped = _compare(Function(name, func, inputs), tolerances, flags)
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


def _compare(function: Function, tolerances: Limits, flags: _Flags) -> list[str]:
    """Compare every element; return descriptions of those that could not be checked."""
    name = function.name
    arguments = function.arguments(function.point())
    outputs = function.outputs(arguments)
    if not outputs:
        raise ValueError(f"{name}: func returned no floating Tensor, so there is nothing to check")
    weights = _weights(outputs)
    base = [out.data.ravel().copy() for out in outputs]
    _same(
        f"{name}: func is not deterministic: two calls gave outputs",
        [out.data.ravel() for out in function(function.point())],
        base,
        0.0,
    )
    backward = _Backward(function, arguments, outputs, weights, tolerances.nondet_tol)
    if flags.dtypes:
        backward.check_dtypes()
    if flags.undefined:
        backward.check_undefined()
    numeric = Numeric(function, joined(base), joined(weights) if flags.fast else None)
    analytic = [g.reshape(1, -1) for g in backward.contracted] if flags.fast else backward.rows()
    wrong: list[str] = []
    skipped: list[str] = []
    columns, judged, total = 0, 0, 0
    for k, gradient in enumerate(analytic):
        for i in range(gradient.shape[1]):
            column = Column(numeric, k, i, gradient[:, i], tolerances)
            columns, judged, total = columns + 1, judged + column.judged, total + len(gradient)
            for r in np.flatnonzero(~column.agrees).tolist():
                place = f"inputs[{function.active[k]}] at {_index(i, backward.targets[k])}"
                if not flags.fast:
                    place = f"{backward.place(r)} by {place}"
                value, slope = float(gradient[r, i]), float(column.slopes.values[r])
                reason = column.roughness(r)
                if reason:
                    skipped.append(f"{place} ({reason}, analytic {value:.10g})")
                else:
                    wrong.append(
                        f"{place}: analytic {value:.10g}, numeric {slope:.10g}, "
                        f"difference {abs(value - slope):.3g}"
                    )
    if wrong:
        raise GradcheckError(
            f"{name}: {len(wrong)} of {total} elements of the "
            f"{'gradient' if flags.fast else 'Jacobian'} are wrong "
            f"(atol {tolerances.atol:g} and rtol {tolerances.rtol:g}): {_some(wrong)}"
        )
    if columns and not judged:
        raise GradcheckError(f"{name}: nothing could be checked: {_some(skipped)}")
    return skipped


class _Backward:
    """What the backward pass says: the gradients of the active inputs, from one graph."""

    def __init__(
        self,
        function: Function,
        arguments: list[Any],
        outputs: list[Tensor],
        weights: list[Array],
        nondet_tol: float,
    ) -> None:
        self.name = function.name
        self.active = function.active
        self.nondet_tol = nondet_tol
        self.outputs = outputs
        self.weights = weights
        self.targets: list[Tensor] = [arguments[k] for k in function.active]
        self.able = [o for o, out in enumerate(outputs) if out.requires_grad]
        self.contracted, again = (self.gradients(self.able, weights) for _ in range(2))
        _same(
            f"{self.name}: backward is not repeatable: two passes over one graph gave gradients",
            self.contracted,
            again,
            nondet_tol,
        )

    def found(self, which: list[int], seeds: Seeds) -> Sequence[Tensor | None]:
        """Return what ``grad`` gives for some of the outputs."""
        if not which:
            return [None] * len(self.targets)
        return grad(
            [self.outputs[o] for o in which],
            self.targets,
            [Tensor(seeds[o]) for o in which],
            retain_graph=True,
            allow_unused=True,
        )

    def gradients(self, which: list[int], seeds: Seeds) -> list[Array]:
        """Return the gradients of the active inputs; 0 where an output has no graph to them."""
        return [
            np.zeros(x.shape) if g is None else g.data
            for x, g in zip(self.targets, self.found(which, seeds), strict=True)
        ]

    def rows(self) -> list[Array]:
        """Return the Jacobian by every active input: a row for each element of the outputs."""
        jacobians = [
            np.zeros((sum(o.numel() for o in self.outputs), x.numel())) for x in self.targets
        ]
        r = 0
        for o, out in enumerate(self.outputs):
            for j in range(out.numel()):
                if out.requires_grad:
                    unit = np.zeros(out.shape)
                    unit.reshape(-1)[j] = 1
                    found = self.gradients([o], {o: unit})
                    for jacobian, g in zip(jacobians, found, strict=True):
                        jacobian[r] = g.ravel()
                r += 1
        return jacobians

    def place(self, r: int) -> str:
        """Return which element of which output row ``r`` belongs to."""
        for o, out in enumerate(self.outputs):
            if r < out.numel():
                return f"outputs[{o}] at {_index(r, out)}"
            r -= out.numel()
        raise IndexError(r)

    def check_dtypes(self) -> None:
        """Raise if a gradient is not of its input's dtype."""
        found = self.found(self.able, self.weights)
        for k, x, g in zip(self.active, self.targets, found, strict=True):
            if g is not None and g.dtype != x.dtype:
                raise GradcheckError(
                    f"{self.name}: the gradient of inputs[{k}] is {g.dtype}, but the input is "
                    f"{x.dtype}"
                )

    def check_undefined(self) -> None:
        """Raise if outputs that get no gradient, or one of 0, add something to the gradients."""
        zeros = [np.zeros(out.shape) for out in self.outputs]
        self._equal(
            "a gradient of 0 for every output gives",
            self.gradients(self.able, zeros),
            [np.zeros(x.shape) for x in self.targets],
        )
        if len(self.able) > 1:
            for o in self.able:
                self._equal(
                    f"a gradient for outputs[{o}] alone, none for the others, gives",
                    self.gradients([o], self.weights),
                    self.gradients(self.able, [*zeros[:o], self.weights[o], *zeros[o + 1 :]]),
                )

    def _equal(self, problem: str, found: list[Array], wanted: list[Array]) -> None:
        for k, a, b, g in zip(self.active, found, wanted, self.contracted, strict=True):
            # 0 times infinity is not 0: where the gradient is infinite, nothing can be said.
            finite = np.isfinite(g)
            a, b = a[finite], b[finite]
            if not np.allclose(a, b, rtol=0, atol=self.nondet_tol, equal_nan=True):
                apart = float(np.abs(a - b).max())
                raise GradcheckError(
                    f"{self.name}: {problem} inputs[{k}] a gradient that is off by {apart:.3g}"
                )


def _same(problem: str, first: list[Array], second: list[Array], tolerance: float) -> None:
    if [a.shape for a in first] != [b.shape for b in second]:
        raise GradcheckError(f"{problem} of different shapes")
    for i, (a, b) in enumerate(zip(first, second, strict=True)):
        if not np.allclose(a, b, rtol=0, atol=tolerance, equal_nan=True):
            apart = float(np.nanmax(np.abs(a - b)))
            raise GradcheckError(f"{problem} that differ by {apart:.3g} in number {i}")


def _index(i: int, tensor: Tensor) -> list[int]:
    return [int(j) for j in np.unravel_index(i, tensor.shape)]


def _some(descriptions: list[str]) -> str:
    more = len(descriptions) - _SHOWN
    return "; ".join(descriptions[:_SHOWN]) + (f"; and {more} more" if more > 0 else "")
