"""Ops from outside: a kernel, its rules, and from its signature an entry in the vocabulary."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final, Literal, TypeAlias, get_args

import numpy as np

from micro.vocab import REQUIRED, Domain, OpSpec

from .dispatch import OPS, Operand, Rule, register, unregister
from .dtypes import as_array
from .graph import Array
from .tensor import Tensor

__all__ = ["custom_op", "remove_op"]

_NONE: Final[Mapping[str, Any]] = MappingProxyType({})
Policy: TypeAlias = Literal["promote", "float", "strict"]


def custom_op(
    *,
    rules: Mapping[str, Callable[..., Any]] = _NONE,
    symbol: str = "",
    domain: Mapping[str, Domain] = _NONE,
    kinks: str = "",
    view: bool = False,
    policy: Policy = "promote",
    fused: Callable[..., Any] | None = None,
) -> Callable[[Callable[..., Any]], Callable[..., Tensor]]:
    """Make a kernel on ndarrays into an op that the engine knows like its own.

    The decorated function is the kernel. Its positional parameters are the operands, one that
    may be left out having the default None; its keyword-only parameters are the attributes. It
    is called with ndarrays in the operands' common dtype, which it cannot write to, and returns an
    ndarray in memory of its own. Under its name the op is found in ``xp``, too, by other rules.

    A rule is called as ``rule(xp, g, ...)``: ``g`` is the gradient of the result, and what else it
    needs it asks for by name: an operand ``a``, its ``a_shape``, an attribute, or ``out``, the
    result. Nothing else is kept for it. It returns the gradient of its operand, of the operand's
    shape or of the one that broadcasting gave it. Written with the operators and with the ops in
    ``xp``, it serves every order: ``gradcheck`` and ``gradgradcheck`` then check it, and ``jvp``
    and ``hessian`` use it. It may return an array that it keeps: the engine does not write to it.

    Args:
        rules: the rule of every operand that a gradient can flow to; with none at all, the op has
            no gradient.
        symbol: what a drawing writes in the op's place; its name by default.
        domain: by operand, where it may be sampled; "real" if not named. One that is "bool" or
            "index" is not brought to the dtype of the others.
        kinks: the gradient at kinks, ties and bounds, in words.
        view: whether the result is a view of the first operand.
        policy: operands of unlike dtype are brought to a common one ("promote"), which is a
            floating one ("float"), or refused ("strict").
        fused: ``fused(g, needs, ...)``, on ndarrays alone: a faster first order, which returns one
            gradient for each operand.

    Returns:
        A decorator, which returns the op.

    Raises:
        TypeError: a kernel whose signature does not say what the operands are; a rule that is no
            function.
        ValueError: a name that another op has; a rule, or a domain, for what is no operand; a rule
            that asks for something that there is not; a domain or policy that there is not.

    >>> from tensor import gradcheck
    >>> @custom_op(
    ...     rules={
    ...         "a": lambda xp, g, a, out: g * a / out,
    ...         "b": lambda xp, g, b, out: g * b / out,
    ...     }
    ... )
    ... def hypot(a, b):
    ...     return np.hypot(a, b)
    >>> x = Tensor([3.0], dtype="float64", requires_grad=True)
    >>> hypot(x, 4.0).item(), gradcheck(lambda x: hypot(x, 4.0), x)
    (5.0, True)
    >>> remove_op("hypot")
    """

    def decorate(function: Callable[..., Any]) -> Callable[..., Tensor]:
        spec = _entry(function, bool(rules), symbol, domain, kinks, view)
        for operand, rule in {**rules, **({} if fused is None else {"fused": fused})}.items():
            if not callable(rule):
                raise TypeError(
                    f"{spec.name}: the rule for {operand} must be a function, got "
                    f"{type(rule).__name__}"
                )
            _check_names(spec, operand, rule)
        if policy not in get_args(Policy):
            raise ValueError(
                f"{spec.name}: policy must be one of {get_args(Policy)}, got {policy!r}"
            )
        return register(spec, _guarded(spec, function), rules, policy, fused)

    return decorate


def remove_op(op: str | Callable[..., Tensor]) -> None:
    """Take an op away that ``custom_op`` or ``dispatch.register`` has added.

    Backward passes through results that it has made fail from then on.

    Args:
        op: the op or its name.

    Raises:
        ValueError: there is no such op, or it is one of the library's own.
    """
    unregister(op if isinstance(op, str) else getattr(op, "__name__", repr(op)))


def _entry(
    function: Callable[..., Any],
    differentiable: bool,
    symbol: str,
    domain: Mapping[str, Domain],
    kinks: str,
    view: bool,
) -> OpSpec:
    """Return the vocabulary entry of a kernel."""
    name = getattr(function, "__name__", "")
    if not name.isidentifier():
        raise TypeError(f"custom_op: the kernel must be a function with a name, got {function!r}")
    if name in OPS:
        raise ValueError(f"{name}: there is an op of this name already; choose another")
    operands, optional, attrs = [], [], {}
    for parameter in inspect.signature(function).parameters.values():
        default, kind = parameter.default, parameter.kind
        if kind is parameter.KEYWORD_ONLY:
            attrs[parameter.name] = REQUIRED if default is parameter.empty else default
        elif kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            raise TypeError(
                f"{name}: {parameter} stands for any number of arguments; name each of them, or "
                "use tensor.dispatch.register with an OpSpec"
            )
        elif default is None:
            optional.append(parameter.name)
            operands.append(parameter.name)
        elif default is not parameter.empty:
            raise TypeError(
                f"{name}: operand {parameter.name} has the default {default!r}; an operand has "
                "none, or None; make an attribute keyword-only, behind a *"
            )
        else:
            operands.append(parameter.name)
    if not operands:
        raise TypeError(f"{name}: the kernel has no positional parameter, so the op has no operand")
    for operand, value in domain.items():
        if operand not in operands or value not in get_args(Domain):
            raise ValueError(
                f"{name}: domain {operand!r}: {value!r}, but the operands are {operands} and the "
                f"domains {get_args(Domain)}"
            )
    return OpSpec(
        name,
        tuple(operands),
        attrs,
        symbol or name,
        tuple(domain.get(operand, "real") for operand in operands),
        kinks,
        "tensor",
        differentiable,
        view,
        tuple(optional),
    )


def _check_names(spec: OpSpec, operand: str, rule: Callable[..., Any]) -> None:
    known = {"out", "attrs", *spec.attrs, *spec.inputs, *(f"{name}_shape" for name in spec.inputs)}
    asked = Rule.of(rule).names
    unknown = [name for name in asked if name not in known]
    if unknown:
        raise ValueError(
            f"{spec.name}: the rule for {operand} asks for {unknown}, but what there is to ask for "
            f"is {sorted(known)}"
        )


def _read_only(array: Array) -> Array:
    view = array.view()
    view.flags.writeable = False
    return view


def _guarded(spec: OpSpec, function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a kernel that cannot write to its operands, nor return the memory of one."""

    @functools.wraps(function)
    def kernel(*arrays: Operand, **attrs: Any) -> Any:
        given = arrays if spec.view else [None if a is None else _read_only(a) for a in arrays]
        out = as_array(function(*given, **attrs), what="the result of the kernel")
        if not spec.view and any(a is not None and np.may_share_memory(out, a) for a in arrays):
            out = out.copy()
        return out

    return kernel
