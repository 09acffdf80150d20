"""How an op is called: from a kernel on ndarrays to a recorded function of Tensors.

``@kernel`` turns a function of ndarrays into the public op of the same name.
A call checks and converts the operands, runs the kernel, and asks ``_record``,
the one function that grows the graph, to keep what the op's rules will need.

Every op is reachable in two namespaces with the same names: ``raw``, the
kernels on ndarrays, and ``recording``, the public ops. A rule takes either.

``@composite`` makes a function of Tensors, which calls other ops, into the
public op of its name. It is in ``recording`` alone: no rule needs it.
"""

from __future__ import annotations

import contextvars
import functools
import inspect
import re
from collections.abc import Callable, Mapping
from types import MappingProxyType, SimpleNamespace
from typing import Any, NamedTuple, ParamSpec, TypeAlias, TypeVar, cast

import numpy as np

from micro.vocab import REQUIRED, VOCAB, OpSpec

from . import modes
from .dtypes import as_array, check_operand, convert
from .errors import NotOperandError, ShapeError
from .graph import SYMBOLS, Array, Constant, Node, Saved, Version, user_site
from .rules import RULES
from .tensor import Tensor
from .tracing import DETAILS, TRACER, writer

__all__ = [
    "COMPOSITES",
    "OPS",
    "Op",
    "Operand",
    "Rule",
    "composite",
    "kernel",
    "node_of",
    "operator_of",
    "quietly",
    "raw",
    "recording",
    "register",
    "unregister",
]

P = ParamSpec("P")
R = TypeVar("R")

# What an op accepts for an operand: a Tensor, an ndarray or a number. Inside a
# kernel it is an ndarray.
Operand: TypeAlias = Any

raw = SimpleNamespace()
recording = SimpleNamespace()

_new = object.__new__

# Numbers that become the dtype of the Tensors beside them: ints that a float64 holds exactly, so
# that they are rounded once, and floats of such size.
_NUMBERS = (float, int)
_EXACT = 2**53

# What a rule of any number of operands asks for and the backward pass finds out.
_OF_THE_PASS = {"needs", "others", "shapes"}

# Stands for an optional operand that was not given.
_ABSENT = Constant((), np.dtype(bool))

_NO_ATTRS: Mapping[str, Any] = MappingProxyType({})

# Where numpy neither warns nor raises: IEEE values are the answer. ``quietly().run(f, ...)`` calls
# ``f`` in a copy of this context, which costs a fraction of entering ``np.errstate`` and leaves the
# caller's own error state alone. A new copy each time, because a context that is entered cannot be
# entered again: by another thread, or by a kernel, a finaliser or a signal handler that calls an op
# in the middle of another.
_quiet = contextvars.Context()
_quiet.run(np.seterr, all="ignore")
quietly = _quiet.copy


class Rule(NamedTuple):
    """The pullback of one operand, and the names its parameters ask for."""

    function: Callable[..., Any]
    names: tuple[str, ...]
    by_keyword: bool = True

    @classmethod
    def of(cls, function: Callable[..., Any]) -> Rule:
        """Return a function ``rule(xp, g, ...)`` as a Rule; what has a default is not asked for."""
        parameters = inspect.signature(function).parameters.values()
        by_keyword = any(p.kind is p.KEYWORD_ONLY for p in parameters)
        asked = tuple(p.name for p in parameters if p.default is p.empty)
        return cls(function, asked[2:], by_keyword)

    def given(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return those of the values that the rule asks for."""
        return {name: values[name] for name in self.names}


class Op:
    """An op of the vocabulary with its kernel and rules."""

    def __init__(
        self,
        spec: OpSpec,
        function: Callable[..., Any],
        rules: Mapping[str, Callable[..., Any]],
        policy: str,
        fused: Callable[..., Any] | None,
        prepare: Mapping[str, Callable[[Any], Any]],
        trusted: bool,
    ) -> None:
        self.spec = spec
        self.name = spec.name
        self.kernel = function
        self.policy = policy
        self.prepare = prepare
        self.trusted = trusted
        self.differentiable = spec.differentiable
        self.variadic = spec.variadic
        self.view = spec.view
        self.operands = tuple(name.lstrip("*") for name in spec.inputs)
        self.rules = {name: Rule.of(rule) for name, rule in rules.items()}
        self.fused = None if fused is None else Rule.of(fused)
        # Where an operand's gradient is 0 in most places: ``adds(total, g, **attrs)`` adds the rest
        # of it to a total in place, and returns whether it has.
        self.adds: Callable[..., bool] | None = None
        # All attributes, where none was given; None as long as that did not occur.
        self.defaults: dict[str, Any] | None = None
        # Whether every gradient has a rule of its own.
        self.is_plain = not self.variadic and fused is None
        # What the rules ask for: arrays, which are None if they are not saved; and besides, the
        # shape of the operand at a place, or else an attribute.
        asked = [*self.rules.values(), *([] if self.fused is None else [self.fused])]
        given = _OF_THE_PASS if self.variadic else set()
        names = sorted({name for rule in asked for name in rule.names} - given)
        arrays = {"out", *self.operands}
        self.blank = dict.fromkeys(name for name in names if name in arrays)
        self.asked = [(name, self._place(name)) for name in names if name not in arrays]
        # Places of operands that may be absent, and of those that may be of any dtype.
        self.optional = {i for i, name in enumerate(spec.inputs) if name in spec.optional}
        self.free = {i for i, domain in enumerate(spec.domain) if domain in ("bool", "index")}
        # What ``plan`` has worked out; nothing of variadic ops, as there is no end of patterns.
        self.plans: dict[tuple[bool, ...], tuple[tuple[int, ...], bool]] = {}

    def _place(self, name: str) -> int | None:
        """Return of which operand a rule asks the shape under a name; None if that is an attr."""
        operand = name.removesuffix("_shape")
        is_shape = operand != name and operand in self.operands
        return self.operands.index(operand) if is_shape else None

    def plan(self, needs: tuple[bool, ...]) -> tuple[tuple[int, ...], bool]:
        """Return which operands the rules mention, and whether they mention ``out``."""
        if self.variadic:
            names = self._mentioned((True,))
            wanted = sum(needs)
            others = (i for i, need in enumerate(needs) if wanted > need)
            return tuple(others) if "others" in names else (), "out" in names
        names = self._mentioned(needs)
        kept = tuple(i for i, name in enumerate(self.operands) if name in names)
        self.plans[needs] = kept, "out" in names
        return self.plans[needs]

    def _mentioned(self, needs: tuple[bool, ...]) -> set[str]:
        """Return all names that the rules of the operands that need a gradient ask for."""
        wanted = [operand for operand, need in zip(self.operands, needs, strict=True) if need]
        without = [operand for operand in wanted if operand not in self.rules]
        if without:
            raise RuntimeError(f"{self.name}: there is no rule for the gradient of {without}")
        names = {name for operand in wanted for name in self.rules[operand].names}
        return names if self.fused is None else names | set(self.fused.names)


OPS: dict[str, Op] = {}

# Those that are made of others, which are never a node.
COMPOSITES: dict[str, Op] = {}


def kernel(
    policy: str = "promote",
    fused: Callable[..., Any] | None = None,
    prepare: Mapping[str, Callable[[Any], Any]] = _NO_ATTRS,
) -> Callable[[Callable[P, Any]], Callable[P, Tensor]]:
    """Make a kernel on ndarrays into the public op of the same name.

    ``policy`` says how operands of unlike dtype are treated: ``promote`` finds
    a common dtype, ``float`` does so too and makes integers float32, ``strict``
    refuses Tensors of unlike dtype, ``first`` takes that of the first operand.
    ``fused(g, needs, ...)`` is a hand-fused first-order pullback, one gradient
    for each operand, beside the plain rules.
    ``prepare`` holds, by attribute, what is done to its value before it is recorded.
    """

    def decorate(function: Callable[P, Any]) -> Callable[P, Tensor]:
        spec = VOCAB[function.__name__]
        rules = RULES.get(spec.name, {})
        return register(spec, function, rules, policy, fused, prepare, trusted=True)

    return decorate


def register(
    spec: OpSpec,
    function: Callable[P, Any],
    rules: Mapping[str, Callable[..., Any]],
    policy: str = "promote",
    fused: Callable[..., Any] | None = None,
    prepare: Mapping[str, Callable[[Any], Any]] = _NO_ATTRS,
    *,
    trusted: bool = False,
) -> Callable[P, Tensor]:
    """Add an op to the engine: its vocabulary entry, kernel and one rule per operand.

    The kernel returns memory of its own, or an operand's if the entry says that it is a view. A
    rule may return any array: the engine adds to none that it has not made itself. A ``trusted``
    rule promises that what it returns is an array that it made, or one that it was given or a
    view of one; the engine may then add to what is neither. ``custom_op`` does the same from a
    function and its signature, and checks more. An op of any number of operands has one rule, which
    returns a gradient for each of them, None where none is needed.

    Returns:
        The public op.

    Raises:
        ValueError: there is an op of that name, or a rule is for an operand that the entry does
            not have.
    """
    if hasattr(recording, spec.name):
        raise ValueError(f"{spec.name}: there is an op of this name already; choose another")
    op = Op(spec, function, rules, policy, fused, prepare, trusted)
    strangers = [name for name in rules if name not in op.operands]
    if strangers:
        raise ValueError(f"{spec.name}: rules for {strangers}, but the operands are {op.operands}")
    public = _public(op, apply)
    SYMBOLS[spec.name] = spec.symbol or spec.name
    OPS[spec.name] = op
    setattr(raw, spec.name, function)
    setattr(recording, spec.name, public)
    return public


def composite(function: Callable[P, R]) -> Callable[P, R]:
    """Make a function that calls other ops into the public op of the same name.

    It gets operands of any accepted kind, and its attributes. What it raises, and what the ops
    raise that it calls, is passed on in the name of this op, with the shapes of its operands; where
    another op calls an argument by another name, the function has to check it first.
    """
    spec = VOCAB[function.__name__]
    op = Op(spec, function, {}, "promote", None, _NO_ATTRS, trusted=True)
    public = _public(op, _composed)
    COMPOSITES[spec.name] = op
    setattr(recording, spec.name, public)
    return cast("Callable[P, R]", public)


def _composed(op: Op, inputs: tuple[Any, ...], attrs: Mapping[str, Any]) -> Any:
    """Run an op that is made of others."""
    for label, operand in zip(op.operands, inputs, strict=True):
        check_operand(op.name, label, operand)
    try:
        return op.kernel(*inputs, **attrs)
    except (IndexError, TypeError, ValueError, RuntimeError) as error:
        raise _explained(op, list(inputs), error, _reason(error)) from error


# What ``_explained`` has made of an error.
_EXPLAINED = re.compile(r"(\w+): (.*?)(?: \(operands: .*\))?", re.DOTALL)


def _reason(error: Exception) -> str:
    """Return what an error says, without the name and operands of the op that has raised it."""
    found = _EXPLAINED.fullmatch(str(error))
    return found[2] if found and hasattr(recording, found[1]) else str(error)


def unregister(name: str) -> None:
    """Take an op away that ``register`` has added.

    Raises:
        ValueError: there is no such op, or it is one of the vocabulary.
    """
    if name not in OPS or name in VOCAB:
        what = "is one of the vocabulary" if name in VOCAB else "is not registered"
        raise ValueError(f"unregister: {name!r} {what}; only an op that was added can be removed")
    del OPS[name], SYMBOLS[name]
    delattr(raw, name)
    delattr(recording, name)


def _public(op: Op, run: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function that users call, which runs the op; common arities without a detour."""
    count, defaults = len(op.operands), dict(op.spec.attrs)
    public: Callable[..., Any]
    if op.variadic:

        def public(tensors: Any, *args: Any, **kwargs: Any) -> Any:
            if isinstance(tensors, (Tensor, np.ndarray)) or not hasattr(tensors, "__iter__"):
                raise TypeError(
                    f"{op.name}: {op.operands[0]} must be a sequence of Tensors, "
                    f"got {type(tensors).__name__}"
                )
            return run(op, tuple(tensors), _bind(op, args, kwargs))

    elif not defaults and op.operands == ("a",):

        def public(a: Any) -> Any:
            return run(op, (a,), _NO_ATTRS)

    elif not defaults and op.operands == ("a", "b"):

        def public(a: Any, b: Any) -> Any:
            return run(op, (a, b), _NO_ATTRS)

    else:
        parameters = inspect.signature(op.kernel).parameters
        absent = {n: parameters[n].default for n in op.operands}

        def public(*args: Any, **kwargs: Any) -> Any:
            operands = args[:count]
            for name in op.operands[len(operands) :]:
                operand = kwargs.pop(name, absent[name])
                if operand is inspect.Parameter.empty:
                    raise TypeError(f"{op.name}: argument {name!r} is missing")
                operands += (operand,)
            return run(op, operands, _bind(op, args[count:], kwargs))

    return functools.wraps(op.kernel)(public)


def operator_of(name: str) -> Callable[..., Any]:
    """Return an op as one of Python's operators: what is no operand gets its own turn."""
    op = OPS[name]
    if len(op.operands) != 2:
        return cast("Callable[..., Any]", getattr(recording, name))
    # They would take a Tensor for how often to repeat themselves.
    never = (str, bytes, bytearray, list, tuple) if name == "mul" else ()

    def operator(a: Any, b: Any) -> Any:
        try:
            return apply(op, (a, b), _NO_ATTRS)
        except NotOperandError:
            if isinstance(a, never) or isinstance(b, never):
                raise
            return NotImplemented

    return functools.update_wrapper(operator, op.kernel)


def _bind(op: Op, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """Return every attribute's value; nobody changes what is returned."""
    if not args and not kwargs and op.defaults is not None:
        return op.defaults
    attrs = dict(op.spec.attrs)
    if len(args) > len(attrs):
        raise TypeError(
            f"{op.name}: takes {len(op.operands) + len(attrs)} arguments, "
            f"got {len(op.operands) + len(args)}"
        )
    given = dict(zip(attrs, args, strict=False))
    for name, value in kwargs.items():
        if name not in attrs or name in given:
            problem = "given twice" if name in given else "unknown"
            raise TypeError(f"{op.name}: argument {name!r} {problem}; it has {list(attrs)}")
        given[name] = value
    attrs.update(given)
    for name, value in attrs.items():
        if value is REQUIRED:
            raise TypeError(f"{op.name}: argument {name!r} is missing")
        if name in op.prepare:
            attrs[name] = op.prepare[name](value)
        elif type(value) is list:
            attrs[name] = tuple(value)  # what the caller does to the list later changes nothing
    if not args and not kwargs:
        op.defaults = attrs
    return attrs


def apply(op: Op, inputs: tuple[Any, ...], attrs: Mapping[str, Any]) -> Tensor:
    """Run an op on operands of any accepted kind and record it if that is called for."""
    arrays: list[Any] = []
    sources: list[Node | Tensor | None] = []  # where gradients flow to
    needs: list[bool] = []  # which these are
    numbers: list[int] | None = None  # the places of Python's, which take that dtype
    common = None  # the one floating dtype of all operands, as long as there is one
    for operand in inputs:
        if isinstance(operand, Tensor):
            array = operand._array
            dtype = array.dtype
            if common is not dtype and len(arrays) not in op.free:
                if common is not None or dtype.kind != "f":
                    common = None
                    break
                common = dtype
            source: Node | Tensor | None = operand.node
            if source is None and operand._requires_grad:
                source = operand
            sources.append(source)
            needs.append(source is not None)
            arrays.append(array)
            continue
        if operand is None and len(arrays) in op.optional:
            arrays.append(None)
        elif type(operand) in _NUMBERS and -_EXACT <= operand <= _EXACT:
            if len(arrays) in op.free:
                common = None
                break
            numbers = [*(numbers or ()), len(arrays)]
            arrays.append(operand)
        else:
            common = None
            break
        sources.append(None)
        needs.append(False)
    if common is None:
        arrays = quietly().run(convert, op.spec, op.policy, inputs)
        sources = [_source(operand) for operand in inputs]
        needs = [source is not None for source in sources]
    elif numbers is not None:
        for i in numbers:
            arrays[i] = quietly().run(np.array, arrays[i], common)
    try:
        if op.variadic:
            out = quietly().run(op.kernel, arrays, **attrs)
        elif attrs:
            out = quietly().run(op.kernel, *arrays, **attrs)
        else:
            out = quietly().run(op.kernel, *arrays)
    except (IndexError, TypeError, ValueError, RuntimeError) as error:
        raise _explained(op, arrays, error) from error
    if type(out) is not np.ndarray:
        out = as_array(out)
    result = _new(Tensor)
    result._array = out
    if op.view and _is_view(out, arrays[0]) and isinstance(inputs[0], Tensor):
        inputs[0]._share(result, op.name, attrs)
    needed = op.differentiable and True in needs
    if modes.ACTIVE.get() is None:
        if needed:
            _record(op, inputs, arrays, sources, needs, attrs, result)
    else:
        if needed and modes.is_grad_enabled():
            _record(op, inputs, arrays, sources, needs, attrs, result)
        tracer = TRACER.get()
        if tracer is not None:
            tracer.note(op.name, inputs, arrays, attrs, out)
        if modes.is_anomaly_enabled():
            _examine(op, result)
        elif result.node is not None and modes.is_recording_sites():
            result.node.site = user_site()
        if result.node is not None:
            _keep_details(result.node, out)
    return result


def _keep_details(node: Node, out: Array) -> None:
    """Note which module called the op; within ``record_details()`` what it yielded, too."""
    calls = writer()
    if calls is not None:
        node.keep(None if DETAILS.get() is None else out.copy(), calls.current)


def _is_view(out: Array, a: Array) -> bool:
    """Return whether the result of an op that may give a view is one."""
    base = out.base
    if base is None:
        return out is a
    return base is a or base is a.base or np.may_share_memory(out, a)


def node_of(name: str, inputs: tuple[Any, ...], attrs: Mapping[str, Any], out: Array) -> Node:
    """Return the record of an op whose result was, or will be, written into ``out``."""
    result = Tensor._wrap(out)
    arrays = [x.data if isinstance(x, Tensor) else np.asarray(x) for x in inputs]
    sources = [_source(x) for x in inputs]
    needs = [source is not None for source in sources]
    _record(OPS[name], inputs, arrays, sources, needs, attrs, result)
    assert result.node is not None
    if modes.is_anomaly_enabled() or modes.is_recording_sites():
        result.node.site = user_site()
    _keep_details(result.node, out)
    return result.node


def _examine(op: Op, result: Tensor) -> None:
    """In anomaly mode, note where the op was called and raise if its result is not finite."""
    site = user_site()
    if result.node is not None:
        result.node.site = site
    if result.data.dtype.kind == "f" and not quietly().run(np.isfinite, result.data).all():
        bad = "NaN" if np.isnan(result.data).any() else "inf"
        raise RuntimeError(f"{op.name}: the forward yielded {bad} at {site}")


def _explained(op: Op, arrays: list[Any], error: Exception, reason: object = None) -> Exception:
    """Return an error with the op's name and its operands' shapes; ``reason`` is what it says."""
    shapes = ", ".join(
        f"{name} {np.shape(array)}"
        for name, array in zip(_names(op, arrays), arrays, strict=True)
        if array is not None
    )
    message = f"{op.name}: {reason or error} (operands: {shapes})"
    if isinstance(error, IndexError):
        return IndexError(message)
    if isinstance(error, TypeError):
        return TypeError(message)
    if isinstance(error, RuntimeError) and not isinstance(error, ShapeError):
        return RuntimeError(message)
    return ShapeError(message)  # numpy's ValueErrors are about shapes


def _names(op: Op, arrays: list[Any]) -> list[str]:
    if op.variadic:
        return [f"{op.operands[0]}[{i}]" for i in range(len(arrays))]
    return list(op.operands)


def _source(operand: Any) -> Node | Tensor | None:
    """Return where the gradient of an operand flows to: its node, itself if a leaf, or nowhere."""
    if not isinstance(operand, Tensor):
        return None
    return operand if operand.node is None and operand._requires_grad else operand.node


def _record(
    op: Op,
    inputs: tuple[Any, ...],
    arrays: list[Any],
    sources: list[Node | Tensor | None],
    needs: list[bool],
    attrs: Mapping[str, Any],
    result: Tensor,
) -> None:
    """Give ``result`` its node. Nothing else makes one."""
    out = result._array
    if out.dtype.kind != "f":
        return  # no gradient flows through integers
    edges: list[Any] = sources
    if False in needs:
        edges = [
            _constant(inputs[i], arrays[i]) if source is None else source
            for i, source in enumerate(sources)
        ]
    key = tuple(needs)
    positions, keep_out = op.plans.get(key) or op.plan(key)
    names = _names(op, arrays) if op.variadic else op.operands
    saved: dict[str, Saved] = {}
    for i in positions:
        array, operand = arrays[i], inputs[i]
        if array is None:
            continue
        if isinstance(operand, Tensor) and operand._array is array:
            version = operand._version or operand._shared_version()
        else:
            version = Version()  # a converted operand's memory is nobody else's
        saved[names[i]] = array, version, version.count
    if keep_out:
        version = result._version or result._shared_version()
        saved["out"] = out, version, version.count
    result.node = Node(op.name, tuple(edges), attrs, saved, key, out)


def _constant(operand: Any, array: Any) -> Constant:
    if array is None:
        return _ABSENT
    value = array.item() if array.size == 1 and array.ndim == 0 else None
    label, details = getattr(operand, "label", None), DETAILS.get()
    if details is None or not isinstance(operand, Tensor):
        kept = array.copy() if value is None and details is not None else None
        return Constant(array.shape, array.dtype, value, label, kept)
    # One Tensor, used several times, is one node of a drawing.
    key = (id(operand), operand.version, array.dtype)
    if key not in details.constants:
        kept = array.copy() if value is None else None
        edge = Constant(array.shape, array.dtype, value, label, kept)
        details.constants[key] = (edge, operand)  # which keeps its id
    return details.constants[key][0]
