"""Gradient descent on Values, with PyTorch's formulas and defaults."""

from __future__ import annotations

import numbers
from collections.abc import Iterable
from typing import Any

from micro import fields
from micro.fields import Number
from micro.value import CONSTANT, Value

__all__ = ["SGD", "Adam", "Optimizer"]


class Optimizer:
    """What the optimizers share; each of them says how one parameter moves.

    Args:
        params: the Values to optimize, such as ``model.parameters()``.
        lr: the learning rate.
        weight_decay: the coefficient of the L2 penalty: times the parameter, added to its gradient.

    Raises:
        TypeError: params is no iterable of Values, or a coefficient no real number.
        ValueError: params is empty, or one comes twice or is a result instead of an input; or a
            coefficient is negative.
    """

    lr: float
    weight_decay: float

    def __init__(self, params: Iterable[Value], lr: float, weight_decay: float) -> None:
        name = type(self).__name__
        if isinstance(params, Value) or not isinstance(params, Iterable):
            kind = type(params).__name__
            raise TypeError(f"{name}: params must be an iterable of Values, got a {kind}")
        self.params = list(params)
        if not self.params:
            raise ValueError(f"{name}: params is empty; give at least one Value")
        for i, p in enumerate(self.params):
            if not isinstance(p, Value):
                kind = type(p).__name__
                raise TypeError(f"{name}: params[{i}] must be a Value, got {kind}: {p!r}")
            if p.inputs or p.op == CONSTANT:
                raise ValueError(
                    f"{name}: params[{i}] is a result, not an input: {p}; optimize the Values "
                    "that it was made of"
                )
        if len(set(self.params)) < len(self.params):
            raise ValueError(f"{name}: a parameter comes twice in params; give each once")
        self.lr = self._real("lr", lr)
        self.weight_decay = self._real("weight_decay", weight_decay)
        self._state: dict[Value, Any] = {}

    def zero_grad(self) -> None:
        """Set the gradient of every parameter to 0."""
        for p in self.params:
            p.grad = 0

    def step(self) -> None:
        """Move every parameter once, by its gradient; none, should one of them fail."""
        moves = []
        for p in self.params:
            g = p.grad
            if self.weight_decay != 0:
                g = g + self.weight_decay * p.data
            moves.append((p, *self._move(p.data, g, self._state.get(p))))
        for p, data, state in moves:
            p.data, self._state[p] = data, state

    def _move(self, data: Number, g: Number, state: Any) -> tuple[Number, Any]:
        """Where the parameter goes, and what is to be remembered; state is None at first."""
        raise NotImplementedError

    def _real(self, name: str, value: Any, least: float = 0, below: float | None = None) -> Any:
        owner = type(self).__name__
        if isinstance(value, bool) or not isinstance(value, numbers.Real):
            kind = type(value).__name__
            raise TypeError(f"{owner}: {name} must be a real number, got {kind}: {value!r}")
        number: Any = value
        if not (number >= least and (below is None or number < below)):
            wanted = f"at least {least}" + ("" if below is None else f" and less than {below}")
            raise ValueError(f"{owner}: {name} must be {wanted}, got {value}")
        return number


class SGD(Optimizer):
    """Stochastic gradient descent, with momentum (Sutskever et al., ICML 2013).

    With g the gradient, weight decay included::

        v <- momentum v + (1 - dampening) g        (the first time, v <- g)
        p <- p - lr v                              (nesterov: p - lr (g + momentum v))

    Args:
        params: the Values to optimize.
        lr: the learning rate.
        momentum: how much of the velocity v is kept.
        dampening: how much of the gradient is kept out of it.
        weight_decay: the coefficient of the L2 penalty.
        nesterov: whether to step from where the velocity leads.

    Raises:
        TypeError: an argument is not of the type it should be.
        ValueError: a coefficient is negative; nesterov without momentum, or with dampening; or
            params are not fit, see ``Optimizer``.

    >>> w = Value(1.0)
    >>> descent = SGD([w], lr=0.25)
    >>> (w * w).backward()
    >>> descent.step()
    >>> w.data
    0.5
    """

    def __init__(
        self,
        params: Iterable[Value],
        lr: float = 1e-3,
        momentum: float = 0,
        dampening: float = 0,
        weight_decay: float = 0,
        nesterov: bool = False,
    ) -> None:
        super().__init__(params, lr, weight_decay)
        self.momentum: float = self._real("momentum", momentum)
        self.dampening: float = self._real("dampening", dampening, least=-fields.inf)
        if nesterov and (momentum == 0 or dampening != 0):
            raise ValueError(
                "SGD: nesterov needs a momentum above 0 and a dampening of 0, got "
                f"momentum={momentum}, dampening={dampening}"
            )
        self.nesterov = nesterov

    def _move(self, data: Number, g: Number, state: Any) -> tuple[Number, Any]:
        if self.momentum == 0:
            return data - self.lr * g, None
        v = g if state is None else self.momentum * state + (1 - self.dampening) * g
        return data - self.lr * (g + self.momentum * v if self.nesterov else v), v


class Adam(Optimizer):
    """Adam (Kingma and Ba, arXiv:1412.6980).

    With g the gradient, weight decay included, at step t = 1, 2, ...::

        m <- beta1 m + (1 - beta1) g
        v <- beta2 v + (1 - beta2) g^2
        p <- p - lr m / (1 - beta1^t) / (sqrt(v / (1 - beta2^t)) + eps)

    Args:
        params: the Values to optimize.
        lr: the learning rate.
        betas: beta1 and beta2, how much of the two running means is kept.
        eps: what keeps the denominator away from 0.
        weight_decay: the coefficient of the L2 penalty.

    Raises:
        TypeError: an argument is not of the type it should be.
        ValueError: a coefficient is negative, a beta is 1 or more, or params are not fit, see
            ``Optimizer``.
    """

    def __init__(
        self,
        params: Iterable[Value],
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
    ) -> None:
        super().__init__(params, lr, weight_decay)
        if not isinstance(betas, (tuple, list)) or len(betas) != 2:
            raise TypeError(f"Adam: betas must be a pair of numbers, got {betas!r}")
        self.betas = tuple(self._real(f"betas[{i}]", b, below=1) for i, b in enumerate(betas))
        self.eps: float = self._real("eps", eps)

    def _move(self, data: Number, g: Number, state: Any) -> tuple[Number, Any]:
        t, m, v = state or (0, 0, 0)
        beta1, beta2 = self.betas
        t = t + 1
        m = beta1 * m + (1 - beta1) * g
        v = beta2 * v + (1 - beta2) * g * g
        denominator = fields.sqrt(fields.div(v, 1 - beta2**t)) + self.eps
        return data - fields.div(self.lr * fields.div(m, 1 - beta1**t), denominator), (t, m, v)
