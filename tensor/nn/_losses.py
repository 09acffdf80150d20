"""Losses: modules that compare an output with what was wanted.

Each is a function of ``functional`` with its arguments, but for the two that
are compared, fixed beforehand; there is the equation.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from ..tensor import Tensor
from . import _loss_functions as functions
from ._module import Module
from ._parameter import Buffer

__all__ = [
    "BCELoss",
    "BCEWithLogitsLoss",
    "CrossEntropyLoss",
    "HuberLoss",
    "KLDivLoss",
    "L1Loss",
    "MSELoss",
    "NLLLoss",
    "SmoothL1Loss",
]


class _Loss(Module):
    """What the losses share: a reduction, checked at once."""

    _reductions: ClassVar[Sequence[str]] = functions.REDUCTIONS

    def __init__(self, reduction: str) -> None:
        functions.check_reduction(type(self).__name__, reduction, self._reductions)
        self.reduction = reduction


def _buffer(weight: Any) -> Buffer | None:
    """Return a weight as part of a module's state, so that it is converted and saved with it."""
    return None if weight is None else Buffer(weight)


class CrossEntropyLoss(_Loss):
    """Cross-entropy of logits against class numbers or probabilities.

    See ``functional.cross_entropy``.

    Args:
        weight: of each class, (C,).
        ignore_index: targets of this class do not count.
        reduction: "mean" over the targets that count, "sum" or "none".
        label_smoothing: the share of every target that is spread over all classes.
    """

    def __init__(
        self,
        weight: Any = None,
        *,
        ignore_index: int = -100,
        reduction: str = "mean",
        label_smoothing: float = 0.0,
    ) -> None:
        super().__init__(reduction)
        self.weight = _buffer(weight)
        self.ignore_index = ignore_index
        self.label_smoothing = label_smoothing

    def forward(self, input: Tensor, target: Any) -> Tensor:
        """Return the loss of ``input`` (N, C, ...) against the classes ``target`` (N, ...)."""
        return functions.cross_entropy(
            input,
            target,
            self.weight,
            ignore_index=self.ignore_index,
            reduction=self.reduction,
            label_smoothing=self.label_smoothing,
        )


class NLLLoss(_Loss):
    """Negative log-likelihood of class numbers; see ``functional.nll_loss``.

    Args:
        weight: of each class, (C,).
        ignore_index: targets of this class do not count.
        reduction: "mean" over the targets that count, "sum" or "none".
    """

    def __init__(
        self, weight: Any = None, *, ignore_index: int = -100, reduction: str = "mean"
    ) -> None:
        super().__init__(reduction)
        self.weight = _buffer(weight)
        self.ignore_index = ignore_index

    def forward(self, input: Tensor, target: Any) -> Tensor:
        """Return the loss of log-probabilities (N, C, ...) against the classes (N, ...)."""
        return functions.nll_loss(
            input,
            target,
            self.weight,
            ignore_index=self.ignore_index,
            reduction=self.reduction,
        )


class MSELoss(_Loss):
    """``(input - target)**2``: its mean, its sum or, for "none", every element."""

    def __init__(self, *, reduction: str = "mean") -> None:
        super().__init__(reduction)

    def forward(self, input: Tensor, target: Any) -> Tensor:
        """Return the loss of ``input`` against ``target`` of the same shape."""
        return functions.mse_loss(input, target, reduction=self.reduction)


class L1Loss(_Loss):
    """``|input - target|``: its mean, its sum or, for "none", every element."""

    def __init__(self, *, reduction: str = "mean") -> None:
        super().__init__(reduction)

    def forward(self, input: Tensor, target: Any) -> Tensor:
        """Return the loss of ``input`` against ``target`` of the same shape."""
        return functions.l1_loss(input, target, reduction=self.reduction)


class SmoothL1Loss(_Loss):
    """``|input - target|``, rounded off below ``beta``; see ``functional.smooth_l1_loss``.

    Args:
        reduction: "mean", "sum" or "none".
        beta: where the parabola ends, 0 or more.

    Raises:
        ValueError: an unknown reduction.
        RuntimeError: ``beta`` is negative; when called.
    """

    def __init__(self, *, reduction: str = "mean", beta: float = 1.0) -> None:
        super().__init__(reduction)
        self.beta = beta

    def forward(self, input: Tensor, target: Any) -> Tensor:
        """Return the loss of ``input`` against ``target`` of the same shape."""
        return functions.smooth_l1_loss(input, target, reduction=self.reduction, beta=self.beta)


class HuberLoss(_Loss):
    """``(input - target)**2 / 2``, a straight line beyond ``delta``; see ``functional.huber_loss``.

    Args:
        reduction: "mean", "sum" or "none".
        delta: where the parabola ends, positive.

    Raises:
        ValueError: an unknown reduction.
        RuntimeError: ``delta`` is not positive; when called.
    """

    def __init__(self, reduction: str = "mean", delta: float = 1.0) -> None:
        super().__init__(reduction)
        self.delta = delta

    def forward(self, input: Tensor, target: Any) -> Tensor:
        """Return the loss of ``input`` against ``target`` of the same shape."""
        return functions.huber_loss(input, target, self.reduction, self.delta)


class BCELoss(_Loss):
    """Cross-entropy of probabilities of two outcomes; see ``functional.binary_cross_entropy``.

    Args:
        weight: of each element, broadcast to the input's shape.
        reduction: "mean", "sum" or "none".
    """

    def __init__(self, weight: Any = None, *, reduction: str = "mean") -> None:
        super().__init__(reduction)
        self.weight = _buffer(weight)

    def forward(self, input: Tensor, target: Any) -> Tensor:
        """Return the loss of probabilities against ``target`` of the same shape."""
        return functions.binary_cross_entropy(input, target, self.weight, reduction=self.reduction)


class BCEWithLogitsLoss(_Loss):
    """Cross-entropy of logits of two outcomes, finite and exact at any logit.

    See ``functional.binary_cross_entropy_with_logits``.

    Args:
        weight: of each element, broadcast to the input's shape.
        reduction: "mean", "sum" or "none".
        pos_weight: of the positive targets, broadcast to the input's shape.
    """

    def __init__(
        self, weight: Any = None, *, reduction: str = "mean", pos_weight: Any = None
    ) -> None:
        super().__init__(reduction)
        self.weight = _buffer(weight)
        self.pos_weight = _buffer(pos_weight)

    def forward(self, input: Tensor, target: Any) -> Tensor:
        """Return the loss of logits against ``target`` of the same shape."""
        return functions.binary_cross_entropy_with_logits(
            input, target, self.weight, reduction=self.reduction, pos_weight=self.pos_weight
        )


class KLDivLoss(_Loss):
    """Kullback-Leibler divergence from log-probabilities; see ``functional.kl_div``.

    Args:
        reduction: "batchmean", which is the divergence by definition, "mean", "sum" or "none".
        log_target: the target holds logarithms too.
    """

    _reductions = functions.KL_REDUCTIONS

    def __init__(self, *, reduction: str = "mean", log_target: bool = False) -> None:
        super().__init__(reduction)
        self.log_target = log_target

    def forward(self, input: Tensor, target: Any) -> Tensor:
        """Return the divergence of ``target`` from log-probabilities of the same shape."""
        return functions.kl_div(input, target, reduction=self.reduction, log_target=self.log_target)
