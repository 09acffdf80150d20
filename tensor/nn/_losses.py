"""Losses: modules that compare an output with what was wanted."""

from __future__ import annotations

from typing import Any

from ..tensor import Tensor
from . import functional
from ._module import Module

__all__ = ["CrossEntropyLoss", "L1Loss", "MSELoss"]


class CrossEntropyLoss(Module):
    """Cross-entropy of logits against class numbers; see ``functional.cross_entropy``.

    Args:
        ignore_index: targets of this class do not count.
        reduction: "mean" over the targets that count, "sum" or "none".
        label_smoothing: the share of every target that is spread over all classes.
    """

    def __init__(
        self, *, ignore_index: int = -100, reduction: str = "mean", label_smoothing: float = 0.0
    ) -> None:
        functional.check_reduction("CrossEntropyLoss", reduction)
        self.ignore_index = ignore_index
        self.reduction = reduction
        self.label_smoothing = label_smoothing

    def forward(self, input: Tensor, target: Any) -> Tensor:
        """Return the loss of ``input`` (N, C, ...) against the classes ``target`` (N, ...)."""
        return functional.cross_entropy(
            input,
            target,
            ignore_index=self.ignore_index,
            reduction=self.reduction,
            label_smoothing=self.label_smoothing,
        )


class MSELoss(Module):
    """``(input - target)**2``: its mean, its sum or, for "none", every element."""

    def __init__(self, *, reduction: str = "mean") -> None:
        functional.check_reduction("MSELoss", reduction)
        self.reduction = reduction

    def forward(self, input: Tensor, target: Any) -> Tensor:
        """Return the loss of ``input`` against ``target`` of the same shape."""
        return functional.mse_loss(input, target, reduction=self.reduction)


class L1Loss(Module):
    """``|input - target|``: its mean, its sum or, for "none", every element."""

    def __init__(self, *, reduction: str = "mean") -> None:
        functional.check_reduction("L1Loss", reduction)
        self.reduction = reduction

    def forward(self, input: Tensor, target: Any) -> Tensor:
        """Return the loss of ``input`` against ``target`` of the same shape."""
        return functional.l1_loss(input, target, reduction=self.reduction)
