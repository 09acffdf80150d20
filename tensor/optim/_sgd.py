"""Stochastic gradient descent."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from ..kernels import optimizers
from ._checks import Check, at_least_zero, flag, number
from ._optimizer import Group, Optimizer, Params

__all__ = ["SGD"]


class SGD(Optimizer):
    r"""Stochastic gradient descent with momentum.

    With gradient :math:`g` (negated by ``maximize``), momentum :math:`\mu`,
    dampening :math:`\tau` and weight decay :math:`\lambda`::

        g <- g + lambda * p
        b <- g                          at a parameter's first step
        b <- mu * b + (1 - tau) * g     afterwards
        g <- g + mu * b   (nesterov)    or    g <- b
        p <- p - lr * g

    Without momentum there is no ``b``, and ``g`` is used as it is.

    Args:
        params: Tensors, or dicts with "params" and options of their own.
        lr: step size.
        momentum: how much of the last direction is kept.
        dampening: how much of the gradient is left out of the direction.
        weight_decay: pull towards 0, added to the gradient.
        nesterov: look ahead along the direction.
        maximize: climb instead.

    Sources: Polyak, 1964; Sutskever et al., 2013, ICML (Nesterov's momentum as
    it is used here).

    Raises:
        TypeError: an argument of the wrong type.
        ValueError: no parameters, one twice, or not a leaf; a negative option;
            ``nesterov`` without momentum or with dampening.
    """

    _checks: ClassVar[Mapping[str, Check]] = {
        "lr": at_least_zero("learning rate"),
        "momentum": at_least_zero("momentum value"),
        "dampening": number("dampening value"),
        "weight_decay": at_least_zero("weight_decay value"),
        "nesterov": flag("nesterov"),
        "maximize": flag("maximize"),
    }
    _remembers = frozenset({"momentum_buffer"})
    _kernel = staticmethod(optimizers.sgd)

    def __init__(
        self,
        params: Params,
        lr: float = 1e-3,
        momentum: float = 0,
        dampening: float = 0,
        weight_decay: float = 0,
        nesterov: bool = False,
        *,
        maximize: bool = False,
    ) -> None:
        super().__init__(
            params,
            {
                "lr": lr,
                "momentum": momentum,
                "dampening": dampening,
                "weight_decay": weight_decay,
                "nesterov": nesterov,
                "maximize": maximize,
            },
        )

    def _check_options(self, options: Mapping[str, Any]) -> None:
        super()._check_options(options)
        if options["nesterov"] and (options["momentum"] <= 0 or options["dampening"] != 0):
            raise ValueError(
                "Nesterov momentum requires a momentum and zero dampening, got momentum "
                f"{options['momentum']} and dampening {options['dampening']}"
            )

    def _state_names(self, group: Group) -> tuple[str, ...]:
        return ("momentum_buffer",) if group["momentum"] != 0 else ()

    def _age(self, state: Mapping[str, Any]) -> int:
        return int("momentum_buffer" in state)
