"""Adam and AdamW."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from ..kernels import optimizers
from ._checks import Check, at_least_zero, beta_pair, flag
from ._optimizer import Group, Optimizer, Params

__all__ = ["Adam", "AdamW"]


class _Adaptive(Optimizer):
    """What Adam and AdamW have in common: their options, their state and their steps."""

    _checks: ClassVar[Mapping[str, Check]] = {
        "lr": at_least_zero("learning rate"),
        "betas": beta_pair,
        "eps": at_least_zero("epsilon value"),
        "weight_decay": at_least_zero("weight_decay value"),
        "amsgrad": flag("amsgrad"),
        "maximize": flag("maximize"),
    }
    _remembers = frozenset({"step", "exp_avg", "exp_avg_sq", "max_exp_avg_sq"})
    _kernel = staticmethod(optimizers.adam)

    def __init__(
        self,
        params: Params,
        lr: float,
        betas: tuple[float, float],
        eps: float,
        weight_decay: float,
        amsgrad: bool,
        maximize: bool,
    ) -> None:
        super().__init__(
            params,
            {
                "lr": lr,
                "betas": betas,
                "eps": eps,
                "weight_decay": weight_decay,
                "amsgrad": amsgrad,
                "maximize": maximize,
            },
        )

    def _state_names(self, group: Group) -> tuple[str, ...]:
        names = ("exp_avg", "exp_avg_sq")
        return (*names, "max_exp_avg_sq") if group["amsgrad"] else names


class Adam(_Adaptive):
    r"""Adam: steps scaled by running means of the gradient and of its square.

    With gradient ``g`` (negated by ``maximize``), at a parameter's step t::

        g <- g + weight_decay * p
        m <- beta1 * m + (1 - beta1) * g
        v <- beta2 * v + (1 - beta2) * g**2
        p <- p - lr * (m / (1 - beta1**t)) / (sqrt(v / (1 - beta2**t)) + eps)

    ``amsgrad`` puts the largest ``v`` so far in the place of ``v``.

    Args:
        params: Tensors, or dicts with "params" and options of their own.
        lr: step size.
        betas: how much of each mean is kept.
        eps: keeps the denominator away from 0.
        weight_decay: pull towards 0, added to the gradient.
        amsgrad: never let a denominator shrink.
        maximize: climb instead.

    Sources: Kingma and Ba, 2014, arXiv:1412.6980; Reddi, Kale and Kumar, 2018,
    ICLR (amsgrad).

    Raises:
        TypeError: an argument of the wrong type.
        ValueError: no parameters, one twice, or not a leaf; a negative option; a
            beta outside [0, 1).
    """

    def __init__(
        self,
        params: Params,
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        amsgrad: bool = False,
        *,
        maximize: bool = False,
    ) -> None:
        super().__init__(params, lr, betas, eps, weight_decay, amsgrad, maximize)


class AdamW(_Adaptive):
    r"""AdamW: Adam's steps, and a decay of the parameters that does not pass through them.

    With gradient ``g`` (negated by ``maximize``), at a parameter's step t::

        p <- p * (1 - lr * weight_decay)
        m <- beta1 * m + (1 - beta1) * g
        v <- beta2 * v + (1 - beta2) * g**2
        p <- p - lr * (m / (1 - beta1**t)) / (sqrt(v / (1 - beta2**t)) + eps)

    ``amsgrad`` puts the largest ``v`` so far in the place of ``v``.

    Args:
        params: Tensors, or dicts with "params" and options of their own.
        lr: step size.
        betas: how much of each mean is kept.
        eps: keeps the denominator away from 0.
        weight_decay: how fast parameters decay, relative to ``lr``.
        amsgrad: never let a denominator shrink.
        maximize: climb instead.

    Sources: Loshchilov and Hutter, 2017, arXiv:1711.05101; Reddi, Kale and
    Kumar, 2018, ICLR (amsgrad).

    Raises:
        TypeError: an argument of the wrong type.
        ValueError: no parameters, one twice, or not a leaf; a negative option; a
            beta outside [0, 1).
    """

    _decoupled = True

    def __init__(
        self,
        params: Params,
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 1e-2,
        amsgrad: bool = False,
        *,
        maximize: bool = False,
    ) -> None:
        super().__init__(params, lr, betas, eps, weight_decay, amsgrad, maximize)
