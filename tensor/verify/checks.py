"""What is checked with numpy alone."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Final, TypeAlias

import numpy as np

import micro
from micro.value import Value
from micro.vocab import VOCAB

from .. import functions, ops
from ..engine import backward, grad
from ..gradcheck import gradcheck, gradgradcheck
from ..graph import Array
from ..modes import no_grad
from ..scalarize import scalarize
from ..tensor import Tensor
from .calls import Call, calls, cotangent, leaves, run, wanted

__all__ = ["CHECKS", "ROUNDING", "Check", "Result", "by_numbers", "distance"]

# Two ways to compute the same in float64, relative to the largest number: a few hundred roundings.
ROUNDING: Final = 1e-13


@dataclass
class Result:
    """What came out of a check.

    Attributes:
        cases: how many things were compared.
        worst: the largest figure.
        bound: how large it may be.
        unit: what the figure is.
        failures: what failed, in words.
        missing: why nothing was checked.
    """

    bound: float
    unit: str
    cases: int = 0
    worst: float = 0.0
    failures: list[str] = field(default_factory=list)
    missing: str = ""

    def note(self, figure: float, what: object) -> None:
        """Count one case and its figure."""
        self.cases += 1
        if not figure <= self.worst:
            self.worst = figure
        if not figure <= self.bound:
            self.failures.append(f"{what}: {figure:.3g}, and {self.bound:.3g} is allowed")


# A check takes the seed and how many rounds of random numbers to draw.
Check: TypeAlias = Callable[[int, int], Result]


def _rounds(seed: int, rounds: int) -> Iterator[Call]:
    for i in range(rounds):
        yield from calls(seed + i)


def _differentiable(seed: int, rounds: int) -> Iterator[Call]:
    return (call for call in _rounds(seed, rounds) if VOCAB[call.op].differentiable)


def distance(actual: Any, expected: Any) -> float:
    """Return the largest difference, relative to the largest number (or 1, if that is larger)."""
    a, e = np.asarray(actual, np.float64), np.asarray(expected, np.float64)
    if a.shape != e.shape:
        return math.inf
    both = np.isfinite(a) & np.isfinite(e)
    if not np.array_equal(a[~both], e[~both], equal_nan=True):
        return math.inf
    size = max(1.0, float(np.abs(e[both]).max(initial=0.0)))
    return float(np.abs(a[both] - e[both]).max(initial=0.0)) / size


# Finite differences


def finite_differences(seed: int, rounds: int) -> Result:
    """Compare the whole Jacobian of every op with central differences."""
    return _checked_by(gradcheck, seed, rounds)


def second_differences(seed: int, rounds: int) -> Result:
    """The same for the derivatives of gradients."""
    return _checked_by(gradgradcheck, seed, rounds)


def _checked_by(checker: Callable[..., bool], seed: int, rounds: int) -> Result:
    result = Result(0, "wrong")
    wrong = 0
    for call in _differentiable(seed, rounds):
        operands = leaves(call)
        real = wanted(operands)

        def function(*given: Tensor, call: Call = call, operands: Any = operands) -> Tensor:
            replaced = iter(given)
            return run(
                call, [next(replaced) if x is not None and x.requires_grad else x for x in operands]
            )

        result.cases += 1
        if not checker(function, real, raise_exception=False):
            wrong += 1
            result.failures.append(f"{call}: {checker.__name__} says no")
    result.worst = wrong
    return result


# The scalar engine


def by_numbers(
    call: Call, number: Callable[[float], Any], operands: Sequence[Tensor | None]
) -> tuple[Array, list[Array]]:
    """Return what ``micro`` makes of a call: its value, and its gradients by the real operands."""
    scalar = scalarize(lambda: run(call, operands), number=number)()
    out = np.asarray(scalar.output, object)
    weights = cotangent(run(call, operands)).data
    total: Any = None
    for y, w in zip(out.flat, weights.flat, strict=True):
        term = micro.mul(y, number(float(w)))
        total = term if total is None else total + term
    gradients = []
    for x in wanted(operands):
        column = scalar.leaves.get(x)
        found = np.zeros(x.shape, object)
        if column is not None and total is not None:
            values = list(column.flat)
            grads = micro.grad(total, values, allow_unused=True) if values else ()
            found = np.array([0 if g is None else g.data for g in grads], object)
        gradients.append(found.reshape(x.shape))
    numbers = np.array([y.data for y in out.flat], object).reshape(out.shape)
    return numbers, gradients


def scalar_engine(seed: int, rounds: int) -> Result:
    """Compare values and gradients with those of the scalar engine, whose rules are its own."""
    return against_numbers(float, seed, rounds)


def against_numbers(number: Callable[[float], Any], seed: int, rounds: int) -> Result:
    """Compare values and gradients with the scalar engine's on numbers of some kind."""
    result = Result(ROUNDING, "relative error")
    for call in _differentiable(seed, rounds):
        operands = leaves(call)
        value, gradients = by_numbers(call, number, operands)
        out = run(call, operands)
        result.note(distance(out.data, value.astype(float)), call)
        mine = grad([out], wanted(operands), [cotangent(out)], allow_unused=True)
        for x, g, expected in zip(wanted(operands), mine, gradients, strict=True):
            found = np.zeros(x.shape) if g is None else g.data
            result.note(distance(found, expected.astype(float)), f"gradient of {call}")
    return result


# Exact arithmetic

# Rational ops: of one Tensor, and of two of one shape.
_ONE: Final[Sequence[Callable[[Tensor], Tensor]]] = (
    ops.neg,
    ops.square,
    ops.relu,
    ops.abs,
    lambda x: ops.clip(x, -2.0, 3.0),
    lambda x: ops.sum(x, 0, True) + x,
    lambda x: ops.flip(x, (1,)),
    lambda x: ops.getitem(x, [1, 0, 1]),
    lambda x: ops.cumsum(x, 1),
    lambda x: ops.prod(x, 1, True) - x,
    lambda x: ops.amax(x, 1, True) * x,
)
_TWO: Final[Sequence[Callable[[Tensor, Tensor], Tensor]]] = (
    ops.add,
    ops.sub,
    ops.mul,
    ops.maximum,
    ops.minimum,
    ops.matmul,
    lambda x, y: ops.where(x > y, x, y * x),
    lambda x, y: ops.einsum([x, y], "ij,kj->ik"),
)


def _program(seed: int) -> tuple[Callable[[Tensor, Tensor], Tensor], Array, Array]:
    """Return a random function of two Tensors, made of rational ops, and two arguments."""
    rng = np.random.default_rng([seed, 3])
    plan = [(int(rng.integers(len(_ONE) + len(_TWO))), rng.integers(0, 99, 2)) for _ in range(3)]

    def function(x: Tensor, y: Tensor) -> Tensor:
        values = [x, y]
        for kind, (i, j) in plan:
            a, b = values[-1 - i % 2], values[j % len(values)]
            made = _ONE[kind](a) if kind < len(_ONE) else _TWO[kind - len(_ONE)](a, b)
            values.append(made)
        return values[-1]

    return function, *(rng.integers(-2, 3, (3, 3)).astype(float) for _ in range(2))  # type: ignore[return-value]


# Numbers up to 2^12 have products, and sums of 2^12 of these, that fit into 24 bits.
_SHORT: Final = 2**12


def exact_arithmetic(seed: int, rounds: int) -> Result:
    """Compare random rational programs with Fractions: two orders, two precisions, no tolerance."""
    result = Result(0, "bits differ")
    for number in range(40 * rounds):
        function, *arrays = _program(seed + number)
        exact = _exactly(function, arrays)
        if exact is None:
            continue  # a number that single precision would round
        for dtype in (np.float64, np.float32):
            x, y = (Tensor(a.astype(dtype), requires_grad=True) for a in arrays)
            out = function(x, y)
            found = [out.data, *_orders(out, [x, y])]
            wrong = sum(
                Fraction(float(p)) != q
                for a, e in zip(found, exact, strict=True)
                for p, q in zip(a.flat, e.flat, strict=True)
            )
            result.note(wrong, f"program {seed + number} in {np.dtype(dtype)}")
    return result


def _orders(out: Tensor, xs: Sequence[Tensor]) -> list[Array]:
    """Return the gradients of a sum of squares, and those of the sum of these."""
    first = grad(ops.sum(out), xs, create_graph=True, allow_unused=True)
    arrays = [_array(g, x) for g, x in zip(first, xs, strict=True)]
    able = [ops.sum(g) for g in first if g is not None and g.requires_grad]
    second: Sequence[Tensor | None] = [None] * len(xs)
    if able:
        second = grad(able, xs, allow_unused=True)
    return [*arrays, *(_array(g, x) for g, x in zip(second, xs, strict=True))]


def _array(g: Tensor | None, x: Tensor) -> Array:
    return np.zeros(x.shape) if g is None else g.data


def _exactly(
    function: Callable[[Tensor, Tensor], Tensor], arrays: Sequence[Array]
) -> list[Array] | None:
    """Return the same as Fractions; None if they are too long for single precision."""
    xs = [Tensor(a, requires_grad=True) for a in arrays]
    scalar = scalarize(lambda: function(*xs), number=Fraction)()
    columns = [scalar.leaves[x] if x in scalar else None for x in xs]
    values = [v for column in columns if column is not None for v in column.flat]
    out = np.asarray(scalar.output, object)
    first = _slopes(list(out.flat), values)
    second = _slopes([g for g in first if g is not None], values)
    seen: set[int] = set()
    stack = [v for v in (*out.flat, *first, *second) if v is not None]
    while stack:
        v = stack.pop()
        if id(v) in seen:
            continue
        seen.add(id(v))
        if abs(v.data) > _SHORT or v.data.denominator > 1:
            return None
        stack.extend(v.inputs)
    results = [_data(list(out.flat), out.shape)]
    for order in (first, second):
        given = iter(order)
        for x, column in zip(xs, columns, strict=True):
            numbers = [None] * x.numel() if column is None else [next(given) for _ in column.flat]
            results.append(_data(numbers, x.shape))
    return results


def _slopes(ys: Sequence[Value], xs: Sequence[Value]) -> Sequence[Value | None]:
    total: Any = None
    for y in ys:
        total = y if total is None else total + y
    if total is None or not xs:
        return [None] * len(xs)
    return micro.grad(total, xs, create_graph=True, allow_unused=True)


def _data(values: Sequence[Value | None], shape: Sequence[int]) -> Array:
    out = np.empty(len(values), object)
    out[:] = [Fraction(0) if v is None else Fraction(v.data) for v in values]
    return out.reshape(tuple(shape))


# Orders

_FUNCTIONS: Final[dict[str, tuple[Callable[[Tensor], Tensor], Callable[[int, Array], Array]]]] = {
    "exp": (ops.exp, lambda n, x: np.exp(x)),
    "sin": (ops.sin, lambda n, x: np.sin(x + n * math.pi / 2)),
    "cosh": (ops.cosh, lambda n, x: np.sinh(x) if n % 2 else np.cosh(x)),
    "reciprocal": (
        ops.reciprocal,
        lambda n, x: (-1) ** n * math.factorial(n) / x ** (n + 1),
    ),
    "log": (ops.log, lambda n, x: (-1) ** (n - 1) * math.factorial(n - 1) / x**n),
    "the power 4.5": (
        lambda x: x**4.5,
        lambda n, x: math.prod(4.5 - k for k in range(n)) * x ** (4.5 - n),
    ),
}


def orders(seed: int, rounds: int) -> Result:
    """Compare derivatives up to the sixth with those that are known in closed form."""
    result = Result(1e-12, "relative error")
    rng = np.random.default_rng(seed)
    for _ in range(rounds):
        start = rng.uniform(0.5, 2.0, 8)
        for name, (function, derivative) in _FUNCTIONS.items():
            x = Tensor(start, requires_grad=True)
            y: Any = function(x)
            for n in range(1, 7):
                (y,) = grad(ops.sum(y), x, create_graph=True)
                exact = derivative(n, start)
                error = float(np.abs((y.data - exact) / exact).max())
                result.note(error, f"derivative {n} of {name}")
    return result


# Contracts


def dtypes(seed: int, rounds: int) -> Result:
    """Check that in every op float32 stays float32, and so does the gradient, in its own shape."""
    result = Result(0, "promoted")
    for call in _rounds(seed, rounds):
        operands = leaves(call, np.float32)
        out = run(call, operands)
        if out.dtype.kind == "f":
            result.note(float(out.dtype != np.float32), f"{call} gives {out.dtype}")
        if out.requires_grad:
            found = grad([out], wanted(operands), [cotangent(out)], allow_unused=True)
            for x, g in zip(wanted(operands), found, strict=True):
                wrong = g is not None and (g.dtype != np.float32 or g.shape != x.shape)
                result.note(float(wrong), f"gradient of {call}")
    return result


def contracts(seed: int, rounds: int) -> Result:
    """Check what the engine promises: see the functions below."""
    result = Result(0, "broken")
    for i in range(rounds):
        rng = np.random.default_rng([seed, i])
        for promise in _PROMISES:
            x = Tensor(rng.normal(size=(2, 3)), requires_grad=True)
            result.note(float(not _kept(promise, x)), (promise.__doc__ or "").rstrip("."))
    return result


def _kept(promise: Callable[[Tensor], bool], x: Tensor) -> bool:
    try:
        return promise(x)
    except Exception:  # noqa: BLE001 - a promise that cannot even be tried is not kept
        return False


def _raises(function: Callable[[], object], words: str) -> bool:
    try:
        function()
    except RuntimeError as error:
        return words in str(error)
    return False


def _versions(x: Tensor) -> bool:
    """A saved array that was changed in place is noticed."""
    h = x * 2
    y = ops.sum(h * h)
    with no_grad():
        h.add_(1)
    return _raises(y.backward, "modified by an inplace operation") and x.grad is None


def _second_pass(x: Tensor) -> bool:
    """A second pass over a graph that was freed is refused."""
    y = ops.sum(x * x)
    y.backward()
    return _raises(y.backward, "second time")


def _failing(x: Tensor) -> bool:
    """A backward pass that fails changes no gradient."""
    z = Tensor(x.data, requires_grad=True)
    ops.sum(x * 3 + z).backward()
    y = ops.sum(x * x) + ops.sum(z)
    before = [t.grad.data.copy() for t in (x, z) if t.grad is not None]
    with no_grad():
        x.add_(1)
    failed = _raises(y.backward, "modified by an inplace operation")
    after = [t.grad.data for t in (x, z) if t.grad is not None]
    return failed and all(np.array_equal(a, b) for a, b in zip(before, after, strict=True))


def _adds_up(x: Tensor) -> bool:
    """Leaves add up the gradients of passes."""
    for _ in range(2):
        ops.sum(x * 3).backward()
    return x.grad is not None and bool((x.grad.data == 6).all())


def _apart(x: Tensor) -> bool:
    """The gradients of two leaves share no memory."""
    y = Tensor(x.data, requires_grad=True)
    backward(x + y, functions.ones(*x.shape, dtype="float64"))
    if x.grad is None or y.grad is None:
        return False
    x.grad.data[...] = 7
    return bool((y.grad.data == 1).all())


def _unrecorded(x: Tensor) -> bool:
    """Under no_grad nothing is recorded."""
    with no_grad():
        y = x * 2
    return not y.requires_grad and (x * 2).requires_grad


def _no_recursion(x: Tensor) -> bool:
    """A graph of 20,000 nodes in a row is differentiated."""
    y = x
    for _ in range(20_000):
        y = y + 1
    (g,) = grad(ops.sum(y), x)
    return g is not None and bool((g.data == 1).all())


def _views(x: Tensor) -> bool:
    """A change of a view is one of its base, and its gradient arrives."""
    y = x * 1
    ops.split(y, 1)[0].mul_(5)
    (g,) = grad(ops.sum(y), x)
    return g is not None and g.data.tolist() == [[5.0] * 3, [1.0] * 3]


_PROMISES: Final = (
    *(_versions, _second_pass, _failing, _adds_up),
    *(_apart, _unrecorded, _no_recursion, _views),
)

CHECKS: Final[dict[str, Check]] = {
    "gradients of every op against finite differences": finite_differences,
    "second derivatives against finite differences": second_differences,
    "array engine against scalar engine": scalar_engine,
    "exact arithmetic: Fractions, two orders": exact_arithmetic,
    "derivatives up to order 6 in closed form": orders,
    "float32 stays float32": dtypes,
    "contracts: versions, failures, views, modes": contracts,
}
