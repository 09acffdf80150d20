"""Adam and AdamW."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from ..graph import Array
from ..kernels import optimizers
from ._optimizer import Optimizer, Params, at_least_zero, beta_pair, flag

__all__ = ["Adam", "AdamW"]


class _Adaptive(Optimizer):
    """What Adam and AdamW have in common: their options and their state."""

    _remembers = frozenset({"step", "exp_avg", "exp_avg_sq", "max_exp_avg_sq"})
    _kernel: ClassVar[Callable[..., None]]

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

    def _check_options(self, options: Mapping[str, Any]) -> None:
        owner = type(self).__name__
        at_least_zero(owner, "learning rate", options["lr"])
        at_least_zero(owner, "epsilon value", options["eps"])
        beta_pair(owner, options["betas"])
        at_least_zero(owner, "weight_decay value", options["weight_decay"])
        flag(owner, "amsgrad", options["amsgrad"])
        flag(owner, "maximize", options["maximize"])

    def _state_names(self, group: dict[str, Any]) -> tuple[str, ...]:
        names = ("exp_avg", "exp_avg_sq")
        return (*names, "max_exp_avg_sq") if group["amsgrad"] else names

    def _update(
        self,
        group: dict[str, Any],
        param: Array,
        grad: Array,
        state: Mapping[str, Array],
        work: Array,
        age: int,
    ) -> None:
        beta1, beta2 = group["betas"]
        type(self)._kernel(
            param,
            grad,
            state["exp_avg"],
            state["exp_avg_sq"],
            state.get("max_exp_avg_sq"),
            work,
            lr=float(group["lr"]),
            beta1=float(beta1),
            beta2=float(beta2),
            eps=float(group["eps"]),
            weight_decay=float(group["weight_decay"]),
            maximize=group["maximize"],
            step=age + 1,
        )


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

    _kernel = staticmethod(optimizers.adam)

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

    _kernel = staticmethod(optimizers.adamw)

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
