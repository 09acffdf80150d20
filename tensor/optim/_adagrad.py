"""Adagrad."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from ..kernels import optimizers
from ._checks import Check, at_least_zero, flag
from ._optimizer import Group, Optimizer, Params

__all__ = ["Adagrad"]


class Adagrad(Optimizer):
    r"""Adagrad: steps scaled by all the gradients so far, so that they become smaller.

    With gradient ``g`` (negated by ``maximize``), at a parameter's step t::

        g <- g + weight_decay * p
        v <- v + g**2                   from initial_accumulator_value
        p <- p - lr / (1 + (t - 1) * lr_decay) * g / (sqrt(v) + eps)

    Args:
        params: Tensors, or dicts with "params" and options of their own.
        lr: step size.
        lr_decay: how fast the step size falls by itself.
        weight_decay: pull towards 0, added to the gradient.
        initial_accumulator_value: where ``v`` starts at a parameter's first step.
        eps: keeps the denominator away from 0.
        maximize: climb instead.

    Source: Duchi, Hazan and Singer, 2011, JMLR 12.

    Raises:
        TypeError: an argument of the wrong type.
        ValueError: no parameters, one twice, or not a leaf; a negative option.
    """

    _checks: ClassVar[Mapping[str, Check]] = {
        "lr": at_least_zero("learning rate"),
        "lr_decay": at_least_zero("lr_decay value"),
        "weight_decay": at_least_zero("weight_decay value"),
        "initial_accumulator_value": at_least_zero("initial_accumulator_value value"),
        "eps": at_least_zero("epsilon value"),
        "maximize": flag("maximize"),
    }
    _remembers = frozenset({"step", "sum"})
    _kernel = staticmethod(optimizers.adagrad)

    def __init__(
        self,
        params: Params,
        lr: float = 1e-2,
        lr_decay: float = 0,
        weight_decay: float = 0,
        initial_accumulator_value: float = 0,
        eps: float = 1e-10,
        *,
        maximize: bool = False,
    ) -> None:
        super().__init__(
            params,
            {
                "lr": lr,
                "lr_decay": lr_decay,
                "weight_decay": weight_decay,
                "initial_accumulator_value": initial_accumulator_value,
                "eps": eps,
                "maximize": maximize,
            },
        )

    def _state_names(self, group: Group) -> tuple[str, ...]:
        return ("sum",)

    def _start(self, group: Group) -> float:
        return float(group["initial_accumulator_value"])
