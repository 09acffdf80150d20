"""The steps of the optimizers as loops that numba compiles: the twin of ``optimizers.sweep``.

Each loop does in one pass what ``sweep`` and the kernel of the same name do in many, to the same
bits; see ``jit`` for how. A part of the state that is not there is None.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np

from ..graph import Array
from . import jit, optimizers
from .compiled import exact
from .threads import Divided, cut, entry, place, portion, share

__all__ = ["sweep"]


def sweep(
    update: Callable[..., None],
    param: Array,
    grad: Array,
    state: Mapping[str, Array],
    work: Array,
    *,
    lr: float,
    weight_decay: float,
    maximize: bool,
    decoupled: bool = False,
    **options: Any,
) -> Any:
    """Take one step over flat arrays."""
    step = _STEPS.get(update)
    if step is None or not jit._floating(param, grad, *state.values()):
        return NotImplemented
    number = param.dtype.type
    decay = 0.0
    if weight_decay != 0:
        decay = 1 - lr * weight_decay if decoupled else weight_decay
    kind = 0 if weight_decay == 0 else 2 if decoupled else 1
    step(param, grad, maximize, kind, number(decay), number, lr, state, **options)
    return None


_LEAST: Final = 2**14  # elements for each thread


@exact
def _gradient(p: Any, g: Any, maximize: Any, kind: Any, decay: Any) -> Any:
    """Return the parameter after a decay of its own (kind 2), and the gradient with one (1)."""
    if maximize:
        g = -g
    if kind == 2:
        p = p * decay
    elif kind == 1:
        g = g + p * decay
    return p, g


@exact
def _follow(m: Any, g: Any, near: Any, share: Any) -> Any:
    return m + (g - m) * share if near else g - (g - m) * share


def _share(keep: float) -> tuple[bool, float]:
    """Return from which end a mean is moved, and by how much of the distance."""
    return (True, 1 - keep) if 1 - keep < 0.5 else (False, 1 - (1 - keep))


@exact
def _sgd_loop(
    p: Any, g: Any, m: Any, up: Any, kind: Any, decay: Any, rates: Any, first: Any, nesterov: Any
) -> None:
    momentum, fresh, rate = rates
    for i in range(len(p)):
        x, h = _gradient(p[i], g[i], up, kind, decay)
        if m is not None:
            b = h if first else m[i] * momentum + h * fresh
            m[i] = b
            h = h + b * momentum if nesterov else b
        p[i] = x + h * rate


@exact
def _sgd_part(
    part: Any,
    count: Any,
    p: Any,
    g: Any,
    m: Any,
    up: Any,
    kind: Any,
    decay: Any,
    rates: Any,
    first: Any,
    nesterov: Any,
) -> None:
    s = portion(len(p), part, count, 16)
    _sgd_loop(p[s], g[s], cut(m, s), up, kind, decay, rates, first, nesterov)


@exact
def _sgd_parts(memory: Any, count: Any, args: Any) -> None:
    share(memory, count, entry(_sgd_part, args), place(count, args))


_sgd_step: Final = Divided(_sgd_part, _sgd_parts, _LEAST)


def _sgd(
    p: Array,
    g: Array,
    up: bool,
    kind: int,
    decay: Any,
    number: Any,
    lr: float,
    state: Mapping[str, Array],
    *,
    momentum: float,
    dampening: float,
    nesterov: bool,
    step: int,
) -> None:
    rates = number(momentum), number(1 - dampening), number(-lr)
    _sgd_step(p, g, state.get("momentum_buffer"), up, kind, decay, rates, step == 1, nesterov)


@exact
def _adam_loop(
    p: Any, g: Any, m: Any, v: Any, top: Any, up: Any, kind: Any, decay: Any, near: Any, rates: Any
) -> None:
    share, keep, fresh, root, eps, factor = rates
    for i in range(len(p)):
        x, h = _gradient(p[i], g[i], up, kind, decay)
        a = _follow(m[i], h, near, share)
        b = v[i] * keep + h * fresh * h
        m[i] = a
        v[i] = b
        if top is not None:
            largest = top[i]
            b = largest if largest >= b or largest != largest else b
            top[i] = b
        p[i] = x + a * factor / (np.sqrt(b) / root + eps)


@exact
def _adam_part(
    part: Any,
    count: Any,
    p: Any,
    g: Any,
    m: Any,
    v: Any,
    top: Any,
    up: Any,
    kind: Any,
    decay: Any,
    near: Any,
    rates: Any,
) -> None:
    s = portion(len(p), part, count, 16)
    _adam_loop(p[s], g[s], m[s], v[s], cut(top, s), up, kind, decay, near, rates)


@exact
def _adam_parts(memory: Any, count: Any, args: Any) -> None:
    share(memory, count, entry(_adam_part, args), place(count, args))


_adam_step: Final = Divided(_adam_part, _adam_parts, _LEAST)


def _adam(
    p: Array,
    g: Array,
    up: bool,
    kind: int,
    decay: Any,
    number: Any,
    lr: float,
    state: Mapping[str, Array],
    *,
    betas: tuple[float, float],
    eps: float,
    step: int,
) -> None:
    beta1, beta2 = betas
    near, share = _share(beta1)
    rates = (
        number(share),
        number(beta2),
        number(1 - beta2),
        number((1 - beta2**step) ** 0.5),
        number(eps),
        number(-(lr / (1 - beta1**step))),
    )
    m, v, top = state["exp_avg"], state["exp_avg_sq"], state.get("max_exp_avg_sq")
    _adam_step(p, g, m, v, top, up, kind, decay, near, rates)


@exact
def _rmsprop_loop(
    p: Any, g: Any, v: Any, m: Any, b: Any, up: Any, kind: Any, decay: Any, near: Any, rates: Any
) -> None:
    keep, fresh, share, eps, momentum, rate = rates
    for i in range(len(p)):
        x, h = _gradient(p[i], g[i], up, kind, decay)
        square = v[i] * keep + h * fresh * h
        v[i] = square
        if m is not None:
            mean = _follow(m[i], h, near, share)
            m[i] = mean
            square = square - mean * mean
        size = np.sqrt(square) + eps
        if b is not None:
            speed = b[i] * momentum + h / size
            b[i] = speed
            p[i] = x + speed * rate
        else:
            p[i] = x + h * rate / size


@exact
def _rmsprop_part(
    part: Any,
    count: Any,
    p: Any,
    g: Any,
    v: Any,
    m: Any,
    b: Any,
    up: Any,
    kind: Any,
    decay: Any,
    near: Any,
    rates: Any,
) -> None:
    s = portion(len(p), part, count, 16)
    _rmsprop_loop(p[s], g[s], v[s], cut(m, s), cut(b, s), up, kind, decay, near, rates)


@exact
def _rmsprop_parts(memory: Any, count: Any, args: Any) -> None:
    share(memory, count, entry(_rmsprop_part, args), place(count, args))


_rmsprop_step: Final = Divided(_rmsprop_part, _rmsprop_parts, _LEAST)


def _rmsprop(
    p: Array,
    g: Array,
    up: bool,
    kind: int,
    decay: Any,
    number: Any,
    lr: float,
    state: Mapping[str, Array],
    *,
    alpha: float,
    eps: float,
    momentum: float,
) -> None:
    near, share = _share(alpha)
    rates = tuple(map(number, (alpha, 1 - alpha, share, eps, momentum, -lr)))
    v, m, b = state["square_avg"], state.get("grad_avg"), state.get("momentum_buffer")
    _rmsprop_step(p, g, v, m, b, up, kind, decay, near, rates)


@exact
def _adagrad_loop(
    p: Any, g: Any, total: Any, up: Any, kind: Any, decay: Any, eps: Any, rate: Any
) -> None:
    for i in range(len(p)):
        x, h = _gradient(p[i], g[i], up, kind, decay)
        b = total[i] + h * h
        total[i] = b
        p[i] = x + h * rate / (np.sqrt(b) + eps)


@exact
def _adagrad_part(
    part: Any,
    count: Any,
    p: Any,
    g: Any,
    total: Any,
    up: Any,
    kind: Any,
    decay: Any,
    eps: Any,
    rate: Any,
) -> None:
    s = portion(len(p), part, count, 16)
    _adagrad_loop(p[s], g[s], total[s], up, kind, decay, eps, rate)


@exact
def _adagrad_parts(memory: Any, count: Any, args: Any) -> None:
    share(memory, count, entry(_adagrad_part, args), place(count, args))


_adagrad_step: Final = Divided(_adagrad_part, _adagrad_parts, _LEAST)


def _adagrad(
    p: Array,
    g: Array,
    up: bool,
    kind: int,
    decay: Any,
    number: Any,
    lr: float,
    state: Mapping[str, Array],
    *,
    lr_decay: float,
    eps: float,
    step: int,
) -> None:
    rate = number(-(lr / (1 + (step - 1) * lr_decay)))
    _adagrad_step(p, g, state["sum"], up, kind, decay, number(eps), rate)


_STEPS: Final[dict[Callable[..., None], Callable[..., None]]] = {
    optimizers.sgd: _sgd,
    optimizers.adam: _adam,
    optimizers.rmsprop: _rmsprop,
    optimizers.adagrad: _adagrad,
}
