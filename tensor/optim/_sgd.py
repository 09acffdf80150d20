"""Stochastic gradient descent."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..graph import Array
from ..kernels import optimizers
from ._optimizer import Optimizer, Params, at_least_zero, flag, number

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

    _remembers = frozenset({"momentum_buffer"})

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
        at_least_zero("SGD", "learning rate", options["lr"])
        at_least_zero("SGD", "momentum value", options["momentum"])
        number("SGD", "dampening value", options["dampening"])
        at_least_zero("SGD", "weight_decay value", options["weight_decay"])
        flag("SGD", "nesterov", options["nesterov"])
        flag("SGD", "maximize", options["maximize"])
        if options["nesterov"] and (options["momentum"] <= 0 or options["dampening"] != 0):
            raise ValueError(
                "Nesterov momentum requires a momentum and zero dampening, got momentum "
                f"{options['momentum']} and dampening {options['dampening']}"
            )

    def _state_names(self, group: dict[str, Any]) -> tuple[str, ...]:
        return ("momentum_buffer",) if group["momentum"] != 0 else ()

    def _age(self, state: Mapping[str, Any]) -> int:
        return int("momentum_buffer" in state)

    def _update(
        self,
        group: dict[str, Any],
        param: Array,
        grad: Array,
        state: Mapping[str, Array],
        work: Array,
        age: int,
    ) -> None:
        optimizers.sgd(
            param,
            grad,
            state.get("momentum_buffer"),
            work,
            lr=float(group["lr"]),
            momentum=float(group["momentum"]),
            dampening=float(group["dampening"]),
            weight_decay=float(group["weight_decay"]),
            nesterov=group["nesterov"],
            maximize=group["maximize"],
            first=age == 0,
        )
