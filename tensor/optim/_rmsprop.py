"""RMSprop."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from ..kernels import optimizers
from ._checks import Check, at_least_zero, flag
from ._optimizer import Group, Optimizer, Params

__all__ = ["RMSprop"]


class RMSprop(Optimizer):
    r"""RMSprop: steps scaled by a running mean of the gradient's square.

    With gradient ``g`` (negated by ``maximize``)::

        g <- g + weight_decay * p
        v <- alpha * v + (1 - alpha) * g**2
        m <- alpha * m + (1 - alpha) * g            if centered, otherwise 0
        b <- momentum * b + g / (sqrt(v - m**2) + eps)
        p <- p - lr * b

    Args:
        params: Tensors, or dicts with "params" and options of their own.
        lr: step size.
        alpha: how much of each mean is kept.
        eps: keeps the denominator away from 0.
        weight_decay: pull towards 0, added to the gradient.
        momentum: how much of the last direction is kept.
        centered: divide by the deviation of the gradient rather than by its size.
        maximize: climb instead.

    Sources: Tieleman and Hinton, 2012, Neural Networks for Machine Learning,
    lecture 6.5; Graves, 2013, arXiv:1308.0850 (centered).

    Raises:
        TypeError: an argument of the wrong type.
        ValueError: no parameters, one twice, or not a leaf; a negative option.
    """

    _checks: ClassVar[Mapping[str, Check]] = {
        "lr": at_least_zero("learning rate"),
        "alpha": at_least_zero("alpha value"),
        "eps": at_least_zero("epsilon value"),
        "weight_decay": at_least_zero("weight_decay value"),
        "momentum": at_least_zero("momentum value"),
        "centered": flag("centered"),
        "maximize": flag("maximize"),
    }
    _remembers = frozenset({"step", "square_avg", "grad_avg", "momentum_buffer"})
    _kernel = staticmethod(optimizers.rmsprop)

    def __init__(
        self,
        params: Params,
        lr: float = 1e-2,
        alpha: float = 0.99,
        eps: float = 1e-8,
        weight_decay: float = 0,
        momentum: float = 0,
        centered: bool = False,
        *,
        maximize: bool = False,
    ) -> None:
        super().__init__(
            params,
            {
                "lr": lr,
                "alpha": alpha,
                "eps": eps,
                "weight_decay": weight_decay,
                "momentum": momentum,
                "centered": centered,
                "maximize": maximize,
            },
        )

    def _state_names(self, group: Group) -> tuple[str, ...]:
        optional = {"grad_avg": group["centered"], "momentum_buffer": group["momentum"] > 0}
        return ("square_avg", *(name for name, needed in optional.items() if needed))
