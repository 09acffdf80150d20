"""One number that remembers how it was made, and the derivatives that follow from that.

A ``Value`` is a record: the name of the op that made it and the Values that went in, nothing else.
What an op means and what its derivatives are is written in ``micro.ops``; how to walk the records
backwards is written here.
"""

from __future__ import annotations

import copy
import functools
import inspect
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ParamSpec, TypeAlias, overload

from micro import fields
from micro.fields import Number
from micro.sites import WANTED, caller
from micro.vocab import VOCAB, Operators

__all__ = [
    "CONSTANT",
    "OPS",
    "PARTIALS",
    "Value",
    "grad",
    "op",
    "predicate",
    "topological",
]

P = ParamSpec("P")
Partial: TypeAlias = int | Callable[..., Number]

CONSTANT = "const"  # the op of a number that is not an input: a literal, or a finished gradient
OPS: dict[str, Callable[..., Any]] = {}  # by name: the op on Values
PARTIALS: dict[str, tuple[Partial, ...]] = {}  # by name: d out / d input, for each input

_NO_ATTRS: Mapping[str, Any] = MappingProxyType({})
_new = object.__new__


class Value(Operators):
    """A number in a computation, and its gradient.

    Args:
        data: the number: a float (an int becomes one), Fraction, complex, mpmath mpf, or a Value.
        label: the name that a drawing gives it.

    Attributes:
        data: the number.
        grad: d y / d self, after ``y.backward()``; 0 before.
        op: the name of the op that made it; "" for an input, "const" for a literal.
        inputs: the Values that the op took, in order; ``x * x`` has two.
        attrs: the op's parameters that are not Values, such as the bounds of ``clip``.
        label: a name for drawings.
        site: the line of the caller's code that made it, as ``file:line``; there only if an op
            made it within ``record_sites()``.

    Raises:
        TypeError: data is not a number, or label is not a string.

    >>> x = Value(3.0)
    >>> y = x * x + 1
    >>> y.backward()
    >>> x
    Value(data=3.0, grad=6.0)
    """

    __slots__ = ("__weakref__", "attrs", "data", "grad", "inputs", "label", "op", "site")

    # numpy's numbers on the left of an operator leave the operation to Value
    __array_ufunc__ = None

    __hash__ = object.__hash__  # by identity, although == compares data

    data: Number
    grad: Number
    op: str
    inputs: tuple[Value, ...]
    attrs: Mapping[str, Any]
    label: str
    site: str

    def __init__(self, data: Number, label: str = "") -> None:
        if not isinstance(label, str):
            raise TypeError(f"Value: label must be a str, got {type(label).__name__}: {label!r}")
        self.data = data if type(data) is float else fields.number(data, "Value: data")
        self.grad = 0
        self.op = ""
        self.inputs = ()
        self.attrs = _NO_ATTRS
        self.label = label

    @property
    def _prev(self) -> tuple[Value, ...]:
        return self.inputs

    @property
    def _op(self) -> str:
        return VOCAB[self.op].symbol if self.inputs else ""

    def partials(self) -> tuple[Number | None, ...]:
        """The local derivative d self / d input, for each input; None for a constant one."""
        values = [x.data for x in self.inputs]
        return tuple(
            None if x.op == CONSTANT else self._number(_local(partial, values, self.attrs))
            for x, partial in zip(self.inputs, PARTIALS.get(self.op, ()), strict=True)
        )

    def _number(self, d: Number) -> Number:
        """d, where it is an exact int, as a number of the kind that self holds."""
        return fields.like(self.data, d) if type(d) is int else d

    def backward(self) -> None:
        """Add d self / d x to ``x.grad`` for every input x that self was computed from.

        The ``grad`` of everything in between is set to this pass's gradient, for reading: a second
        pass adds to the inputs once more, and to nothing else. Derivatives are taken at the data
        that the Values hold now, so move parameters after this, not before. If a derivative raises,
        no ``grad`` has changed.

        Raises:
            RuntimeError: self depends on no input: it was made of constants.
        """
        gradients = _pull_back(self)
        _refuse_constants(gradients)
        # All the sums first: should one fail, nothing has been written.
        gradients.update({x: x.grad + g for x, g in gradients.items() if not x.inputs})
        for x, g in gradients.items():
            x.grad = g

    def trace_backward(self, observe: Callable[..., object]) -> list[tuple[Value, Number]]:
        """Run a backward pass to be watched, which changes no ``grad``.

        Each time that the pass has added a product to the gradient of an input, ``observe(node,
        argument, operands=, rule=, given=, g=, local=, contribution=, total=)`` is called:

        * node, argument: the Value that passes its gradient on, and to which of its inputs;
        * operands: what its op calls its inputs;
        * rule, given: the derivative as it stands in ``micro.ops``, an int or a function, and by
          name all that the function is given;
        * g, local, contribution: the gradient of node, the derivative, and their product;
        * total: the gradient of the input, as far as it has come.

        Returns:
            Every input that ``backward`` reaches, with what it adds to the input's ``grad``.

        Raises:
            RuntimeError: self depends on no input: it was made of constants.
        """
        related = _related(self)
        edges = ((x, i) for x in reversed(related) for i, a in enumerate(x.inputs) if a in related)

        def send(gradients: dict[Value, Number], x: Value, g: Number, d: Number) -> None:
            node, argument = next(edges)
            assert node.inputs[argument] is x
            alone = {x: None}
            _send(alone, x, g, d)
            _send(gradients, x, g, d)
            names = VOCAB[node.op].inputs
            observe(
                node,
                argument,
                operands=names,
                rule=PARTIALS[node.op][argument],
                given={
                    **dict(zip(names, [a.data for a in node.inputs], strict=True)),
                    **node.attrs,
                },
                g=g,
                local=node._number(d),
                contribution=node._number(alone[x]),
                total=node._number(gradients[x]),
            )

        gradients = _pull_back(self, send=send)
        _refuse_constants(gradients)
        return [(x, g) for x, g in gradients.items() if not x.inputs]

    def __repr__(self) -> str:
        return f"Value(data={self.data}, grad={self.grad})"

    def __format__(self, spec: str) -> str:
        if not spec:
            return repr(self)
        try:
            return format(self.data, spec)
        except TypeError:  # an mpf, or a Fraction before Python 3.12
            return format(float(self.data), spec)

    def __bool__(self) -> bool:
        return bool(self.data)

    def __int__(self) -> int:
        return int(self.data)

    def __float__(self) -> float:
        return float(self.data)

    def __complex__(self) -> complex:
        return complex(self.data)

    def __deepcopy__(self, memo: dict[int, Any]) -> Value:
        """A copy of self and of everything that it was computed from."""
        nodes = topological(self)
        for node in nodes:
            if id(node) not in memo:
                twin = _record(_copy(node.data, memo), node.op, (), node.attrs)
                twin.grad, twin.label = _copy(node.grad, memo), node.label
                memo[id(node)] = twin
        twins: list[Value] = [memo[id(node)] for node in nodes]
        for node, twin in zip(nodes, twins, strict=True):
            twin.inputs = tuple([memo[id(x)] for x in node.inputs])
        return twins[0]

    if TYPE_CHECKING:  # the methods that micro.ops adds, one per op

        def _unary(self) -> Value: ...
        def _binary(self, b: Any) -> Value: ...
        def _round(self, decimals: int = 0) -> Value: ...
        def _softplus(self, beta: Any = 1.0, threshold: Any = 20.0) -> Value: ...
        def _leaky_relu(self, negative_slope: Any = 0.01) -> Value: ...
        def _elu(self, alpha: Any = 1.0) -> Value: ...
        def _gelu(self, approximate: str = "none") -> Value: ...
        def _clip(self, min: Any = None, max: Any = None) -> Value: ...
        def _where(self, a: Any, b: Any) -> Value: ...
        def _compare(self, b: Any) -> bool: ...
        def _test(self) -> bool: ...

        add = sub = mul = div = pow = maximum = minimum = floor_divide = remainder = _binary
        neg = square = abs = sign = reciprocal = sqrt = rsqrt = floor = ceil = _unary
        exp = exp2 = expm1 = log = log1p = log2 = log10 = _unary
        sin = cos = tan = atan = sinh = cosh = tanh = erf = _unary
        sigmoid = logsigmoid = relu = silu = _unary
        round, softplus, leaky_relu, elu = _round, _softplus, _leaky_relu, _elu
        gelu, clip, where = _gelu, _clip, _where
        eq = ne = lt = le = gt = ge = _compare
        isnan = isinf = isfinite = _test


# Recording: an op of ``micro.ops`` becomes a function of Values.


def op(**partials: Partial) -> Callable[[Callable[P, Number]], Callable[P, Value]]:
    """Make an op from its forward on numbers and its partial derivatives, one per input.

    The forward's name is the op's; ``da=`` is the derivative by the input ``a``, a function of all
    the inputs, or an int if it is that everywhere; it gives an input that it does not use a name
    with a leading underscore. What comes out takes Values or numbers, records itself, and is
    entered in ``OPS``.
    """

    def define(forward: Callable[P, Number]) -> Callable[P, Value]:
        name = forward.__name__
        spec = VOCAB[name]
        if tuple(partials) != tuple(f"d{x}" for x in spec.inputs):
            raise TypeError(f"{name}: wanted a derivative by each of {spec.inputs}, got {partials}")
        signature = inspect.signature(forward)
        function: Any = forward

        # Values that hold floats take the short way; the rest goes through ``_apply``.

        def unary(a: Any) -> Value:
            if type(a) is not Value:
                a = _literal(a, name)
            x = a.data
            if type(x) is float:
                return _record(function(x), name, (a,))
            return _apply(function, name, (a,))

        def binary(a: Any, b: Any) -> Value:
            if type(a) is not Value:
                a = _literal(a, name, b)
            if type(b) is not Value:
                b = _literal(b, name, a)
            x, y = a.data, b.data
            if type(x) is type(y) is float:
                return _record(function(x, y), name, (a, b))
            return _apply(function, name, (a, b))

        def general(*args: Any, **kwargs: Any) -> Value:
            try:
                bound = signature.bind(*args, **kwargs)
            except TypeError as error:
                raise TypeError(f"{name}: {error}") from None
            bound.apply_defaults()
            operands = [bound.arguments.pop(x) for x in spec.inputs]
            for parameter, x in bound.arguments.items():
                if isinstance(x, Value):
                    raise TypeError(
                        f"{name}: {parameter} must be a plain number, got {x}, because it has no "
                        "derivative; where, maximum and minimum take Values throughout"
                    )
            kin = next((x for x in operands if isinstance(x, Value)), None)
            inputs = tuple(_literal(x, name, kin) for x in operands)
            return _apply(function, name, inputs, bound.arguments)

        record: Any = general if spec.attrs else {1: unary, 2: binary}.get(len(partials), general)
        PARTIALS[name] = tuple(partials.values())
        OPS[name] = functools.wraps(forward)(record)
        return OPS[name]

    return define


def _record(
    data: Number, name: str, inputs: tuple[Value, ...], attrs: Mapping[str, Any] = _NO_ATTRS
) -> Value:
    """A new node: the only place where a graph grows."""
    out: Value = _new(Value)
    out.data = data
    out.grad = 0
    out.op = name
    out.inputs = inputs
    out.attrs = attrs
    out.label = ""
    if WANTED:
        out.site = caller()
    return out


def _literal(x: Any, name: str, kin: Any = None) -> Value:
    """x, if it is a Value; else x as a constant, an int becoming the kind of number in ``kin``."""
    if isinstance(x, Value):
        return x
    data = kin.data if isinstance(kin, Value) else 0.0
    return _record(fields.number(x, f"{name}: an operand", data), CONSTANT, ())


def _apply(
    forward: Callable[..., Number],
    name: str,
    inputs: tuple[Value, ...],
    attrs: Mapping[str, Any] = _NO_ATTRS,
) -> Value:
    """Record an op on numbers of any kind."""
    level = max(map(_level, inputs))
    if level:
        # On the Values inside, the op is this same op, one level down. An operand of a lower level
        # is one of the numbers down there: on this level, a constant.
        inputs = tuple(_lift(x, level - _level(x)) for x in inputs)
        forward = OPS[name]
    values = [x.data for x in inputs]
    kin = next((v for v in values if type(v) is not int), 0.0)
    values = [fields.number(v, f"{name}: data", kin) for v in values]  # someone may have set it
    return _record(_compute(forward, name, values, attrs), name, inputs, attrs)


def _compute(
    forward: Callable[..., Number],
    name: str,
    values: Sequence[Number],
    attrs: Mapping[str, Any] = _NO_ATTRS,
) -> Number:
    try:
        return forward(*values, **attrs)
    except TypeError as error:
        kinds = ", ".join(type(v).__name__ for v in values)
        raise TypeError(f"{name} of ({kinds}): {error}") from error


def _copy(x: Number, memo: dict[int, Any]) -> Number:
    return copy.deepcopy(x, memo) if isinstance(x, Value) else x  # other numbers never change


def _level(x: Value) -> int:
    """How many Values deep the number in x lies."""
    level = 0
    while isinstance(x.data, Value):
        x, level = x.data, level + 1
    return level


def _innermost(x: Number) -> Number:
    while isinstance(x, Value):
        x = x.data
    return x


def _lift(x: Value, levels: int) -> Value:
    for _ in range(levels):
        x = _record(x, CONSTANT, ())
    return x


def predicate(otherwise: bool | None = None) -> Callable[[Callable[P, bool]], Callable[P, bool]]:
    """Make an op that answers with a plain bool, and so records nothing and has no gradient.

    ``otherwise`` is the answer about what is not a number; without one that is a TypeError.
    """

    def define(forward: Callable[P, bool]) -> Callable[P, bool]:
        name = VOCAB[forward.__name__].name
        signature = inspect.signature(forward)

        @functools.wraps(forward)
        def ask(*args: P.args, **kwargs: P.kwargs) -> bool:
            values = []
            for x in signature.bind(*args, **kwargs).args if kwargs else args:
                try:
                    values.append(_innermost(fields.number(x, f"{name}: an operand")))
                except TypeError:
                    if otherwise is None:
                        raise
                    return otherwise
            return bool(_compute(forward, name, values))

        OPS[name] = ask
        return ask

    return define


# Differentiating: how the records are walked.


def topological(y: Value) -> list[Value]:
    """y and all that it was computed from, every node before its inputs.

    A node's gradient is the sum over all the nodes that use it. In this order all of them come
    first, so the sum is complete when it is passed on. Nothing here recurses: a chain of a million
    ops is as good as one of ten.
    """
    order: list[Value] = []
    seen: set[Value] = set()
    stack: list[Any] = [y]
    while stack:
        node = stack.pop()
        if type(node) is tuple:  # put there below: by now its inputs are all in place
            order.append(node[0])
        elif node not in seen:
            seen.add(node)
            stack.append((node,))
            stack.extend(node.inputs)
    order.reverse()
    return order


def _related(y: Value, xs: Collection[Value] | None = None) -> dict[Value, Number]:
    """Whatever y was computed from that depends on one of the xs, or on any input; inputs first.

    Each is a key; the values are None, the places of gradients that are still to come.
    """
    related: dict[Value, Number] = {}
    unrelated = related.keys().isdisjoint
    for node in reversed(topological(y)):
        wanted = not (node.inputs or node.op == CONSTANT) if xs is None else node in xs
        if wanted or not unrelated(node.inputs):
            related[node] = None
    return related


def _pull_back(
    y: Value,
    xs: Collection[Value] | None = None,
    create_graph: bool = False,
    send: Callable[[dict[Value, Number], Value, Number, Number], None] | None = None,
) -> dict[Value, Number]:
    """d y / d x for every x on a way from y down to one of the xs, or to any input.

    The chain rule, once per edge: an input receives g, the gradient of the node that used it, times
    the local derivative. With ``create_graph``, the derivatives are computed on the Values instead
    of their data, and so are recorded. ``send``, if given, takes the place of ``_send``.
    """
    send = send or _send
    gradients = _related(y, xs)
    if gradients:
        gradients[y] = fields.like(y.data, 1)
    for node in reversed(gradients):
        inputs = node.inputs
        if not inputs:
            continue
        g, partials = gradients[node], PARTIALS[node.op]
        if len(inputs) == 2 and node.attrs is _NO_ATTRS and not create_graph:
            # the common case, in few steps
            (a, b), (da, db) = inputs, partials
            if a in gradients:
                send(gradients, a, g, da if isinstance(da, int) else da(a.data, b.data))
            if b in gradients:
                send(gradients, b, g, db if isinstance(db, int) else db(a.data, b.data))
            continue
        values = [
            x if create_graph and (x in gradients or x.op != CONSTANT) else x.data for x in inputs
        ]
        for x, partial in zip(inputs, partials, strict=True):
            if x in gradients:
                d = _local(partial, values, node.attrs)
                if create_graph and not (isinstance(partial, int) or isinstance(d, Value)):
                    d = _anchored(d, values, partial)
                send(gradients, x, g, d)
    return gradients


def _refuse_constants(gradients: Mapping[Value, Number]) -> None:
    if not gradients:
        raise RuntimeError(
            "backward: this Value is made of constants alone, so there is nothing to "
            "differentiate; a gradient can be differentiated again only if it was computed "
            "with create_graph=True"
        )


def _local(partial: Partial, values: list[Number], attrs: Mapping[str, Any]) -> Number:
    return partial if isinstance(partial, int) else partial(*values, **attrs)


def _anchored(d: Number, values: list[Number], partial: Callable[..., Number]) -> Number:
    """d, a derivative at the values, as a Value that depends on what it was computed from.

    A derivative such as ReLU's only compares its input. Recorded, a comparison leaves no trace, and
    the second derivative would seem not to exist where it is 0.
    """
    for x, parameter in zip(values, inspect.signature(partial).parameters, strict=False):
        if isinstance(x, Value) and not parameter.startswith("_"):
            d = OPS["where"](False, x, d)
    return d


def _send(gradients: dict[Value, Number], x: Value, g: Number, d: Number) -> None:
    """Add g times d to the gradient of x.

    An int is exact: a 1 passes g on as it is, and a 0 stops even inf and nan, as a mask does.
    """
    if type(d) is not int:
        d = g * d
    elif d != 0:
        d = g if d == 1 else g * d
    old = gradients[x]
    gradients[x] = d if old is None else old + d


@overload
def grad(y: Value, xs: Value, create_graph: bool = False, allow_unused: bool = False) -> Value: ...
@overload
def grad(
    y: Value, xs: Sequence[Value], create_graph: bool = False, allow_unused: bool = False
) -> tuple[Value, ...]: ...
def grad(
    y: Value, xs: Value | Sequence[Value], create_graph: bool = False, allow_unused: bool = False
) -> Any:
    """d y / d x for each x of xs, as Values; no ``grad`` attribute changes.

    Args:
        y: what is differentiated.
        xs: one Value, or a sequence of them.
        create_graph: record the computation of the derivatives, so that they can be
            differentiated again, to any order. Without it they are constants.
        allow_unused: give None for an x that y does not depend on, instead of raising.

    Returns:
        One Value for one x, a tuple for a sequence.

    Raises:
        TypeError: y or an x is not a Value.
        RuntimeError: y does not depend on an x, or xs is empty.

    >>> x = Value(2.0)
    >>> first = grad(x**3, x, create_graph=True)
    >>> grad(first, x)
    Value(data=12.0, grad=0)
    """
    if not isinstance(xs, (Value, Iterable)):
        kind = type(xs).__name__
        raise TypeError(f"grad: xs must be a Value or a sequence of Values, got {kind}: {xs!r}")
    wanted = (xs,) if isinstance(xs, Value) else tuple(xs)
    for what, value in (("y", y), *((f"xs[{i}]", x) for i, x in enumerate(wanted))):
        if not isinstance(value, Value):
            raise TypeError(f"grad: {what} must be a Value, got {type(value).__name__}: {value!r}")
    if not wanted:
        raise RuntimeError("grad: xs is empty; name at least one Value to differentiate by")
    gradients = _pull_back(y, set(wanted), create_graph)
    for i, x in enumerate(wanted):
        if not (x in gradients or allow_unused):
            raise RuntimeError(
                f"grad: y does not depend on xs[{i}], {x}; allow_unused=True would give None. If "
                "y was made from gradients, compute those with create_graph=True: without it "
                "they are constants"
            )
    results = tuple(_as_value(gradients[x], y) if x in gradients else None for x in wanted)
    return results[0] if isinstance(xs, Value) else results


def _as_value(g: Number, y: Value) -> Value:
    """The gradient g as a Value as deep as y: itself if it was recorded, else a constant."""
    if not isinstance(g, Value):
        g = _record(y._number(g), CONSTANT, ())
    return _lift(g, _level(y) - _level(g))
