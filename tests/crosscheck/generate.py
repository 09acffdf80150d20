"""Drawing programs from a seed: which op comes next, on what, and at which points.

A program grows one step at a time, and each step is run as it is drawn, so that points can be
chosen: inside an op's domain, and at a kink either exactly or not near. What an op needs for its
own is a line of ``draws``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from micro.vocab import VOCAB
from tensor import Tensor, no_grad
from tests.crosscheck import draws
from tests.crosscheck.engines import tensor_call
from tests.crosscheck.programs import SPECIAL, Array, Leaf, Program, Step
from tests.tensor.ops.harness import COMPOSITE

__all__ = [
    "EXACT",
    "MARGIN",
    "Draft",
    "NoProgramError",
    "distances",
    "draw",
    "grown",
    "pairs",
]

# A point is at a kink or at least this far from it: further than float32 can go astray.
MARGIN: Final = 1 / 64

# The largest number, and the most elements, that a step may give.
LARGEST: Final = 32.0
MOST: Final = 12

_SHAPES: Final[Sequence[tuple[int, ...]]] = (
    *((), (1,), (2,), (3,), (4,), (2, 2), (2, 3), (3, 2), (1, 3), (3, 1), (2, 1, 2), (1, 2, 2)),
    *((2, 3), (2,), (3,), (1, 1, 2, 3), (2, 1, 2, 2)),
)
_EMPTY: Final[Sequence[tuple[int, ...]]] = ((0,), (2, 0), (0, 3), (1, 0, 2))


class NoProgramError(Exception):
    """No step of the wanted kind was found."""


class Draft:
    """A program in the making. Values are known by their order of creation.

    Args:
        rng: makes every choice: a numpy generator, or what has those of its methods that are used.
        exact: choose numbers with which nothing rounds.
    """

    def __init__(self, rng: Any, *, exact: bool = False) -> None:
        self.rng = rng
        self.exact = exact
        self.entries: list[Leaf | Step] = []
        self.data: list[Array] = []
        self.short: list[bool] = []  # whether the numbers are exact in every engine
        self.grads: list[bool] = []

    # Choosing.

    def choose(self, options: Sequence[Any]) -> Any:
        return options[int(self.rng.integers(len(options)))]

    def integer(self, low: int, high: int) -> int:
        """An integer from low up to but not including high."""
        if low >= high:
            raise NoProgramError("there is no such integer")
        return int(self.rng.integers(low, high))

    def chance(self, p: float) -> bool:
        return bool(self.rng.random() < p)

    def shuffled(self, items: Sequence[Any]) -> tuple[Any, ...]:
        return tuple(items[int(k)] for k in self.rng.permutation(len(items)))

    def dim(self, ndim: int) -> int:
        return self.integer(-ndim, ndim) if ndim else self.integer(-1, 1)

    def dims(self, ndim: int) -> Any:
        """None, one dimension or several, for a reduction."""
        if self.chance(0.3):
            return None
        if ndim < 2 or self.chance(0.6):
            return self.dim(ndim)
        order = [int(d) for d in self.rng.permutation(ndim)]
        return tuple(order[: self.integer(1, ndim + 1)])

    def floats(self) -> list[int]:
        return [i for i, a in enumerate(self.data) if a.dtype.kind == "f"]

    def current(self) -> int:
        """A real value: the newest one in most cases."""
        floats = self.floats()
        if not floats or self.chance(0.1):
            return self.leaf(self.shape())
        return floats[-1] if self.chance(0.6) else self.choose(floats)

    def shape(self) -> tuple[int, ...]:
        shape: tuple[int, ...] = self.choose(_EMPTY if self.chance(0.03) else _SHAPES)
        return shape

    # Making.

    def leaf(self, shape: tuple[int, ...], *, grad: bool | None = None) -> int:
        """A leaf of real numbers: apart from each other and from 0, or at times tied."""
        count = math.prod(shape)
        if self.exact:
            values = self.rng.choice([-2.0, -1.5, -1.0, -0.5, 0.5, 1.0, 1.5, 2.0], count)
        else:
            pool = np.concatenate([np.arange(-48, -3), np.arange(4, 49)]) / 16
            values = self.rng.choice(pool, count, replace=False)
        if self.chance(0.12):  # ties, zeros and ones
            values = self.rng.choice([-1.0, 0.0, 1.0, 1.0], count)
        if grad is None:
            grad = not self.chance(0.12)
        return self.constant(values.reshape(shape), grad=grad)

    def constant(self, values: Any, *, grad: bool = False) -> int:
        """A leaf of given numbers, integers or truth values."""
        array = np.asarray(values)
        kind: Any = {"f": "float", "i": "int", "b": "bool"}[array.dtype.kind]
        numbers = tuple(array.reshape(-1).tolist())
        self.entries.append(Leaf(array.shape, numbers, kind, grad))
        self._came(array, True, grad)
        return len(self.data) - 1

    def other(self, shape: tuple[int, ...]) -> int:
        """A real value of that shape: one that is there, or a new leaf."""
        fitting = [i for i in self.floats() if self.data[i].shape == tuple(shape)]
        return self.choose(fitting) if fitting and self.chance(0.5) else self.leaf(tuple(shape))

    def bridge(self, op: str, *operands: int, **attrs: Any) -> int:
        i = self.add(op, operands, attrs, bridge=True)
        if i is None:
            raise NoProgramError(op)
        return i

    def viewed(self, i: int, shape: Sequence[int]) -> int:
        """The value i in another shape."""
        wanted = tuple(int(n) for n in shape)
        return i if self.data[i].shape == wanted else self.bridge("reshape", i, shape=wanted)

    def with_ndim(self, i: int, least: int, most: int) -> int:
        """The value i with so many dimensions."""
        shape = self.data[i].shape
        if len(shape) < least:
            return self.viewed(i, (1,) * (least - len(shape)) + shape)
        if len(shape) > most:
            return self.viewed(
                i, (math.prod(shape[: len(shape) - most + 1]), *shape[len(shape) - most + 1 :])
            )
        return i

    def into(self, i: int, low: float, high: float, away: float = 0.0) -> int:
        """The value i, moved and scaled into [low, high], and kept at least ``away`` from 0."""
        a = self.data[i]
        if a.size == 0:
            return i
        bottom, top = float(a.min()), float(a.max())
        if low <= bottom and top <= high and float(np.abs(a).min()) >= away:
            return i
        if away:
            low = max(low, away)
        if top - bottom > high - low:
            scale = 2.0 ** math.floor(math.log2((high - low) / (top - bottom)))
            i = self.bridge("mul", i, self.constant(np.array(scale)))
            bottom, top = bottom * scale, top * scale
        if bottom < low or top > high:
            wanted = low + (high - low - (top - bottom)) * float(self.rng.random())
            shift = math.floor((wanted - bottom) * 64) / 64
            if bottom + shift < low:
                shift += 1 / 64
            if shift:
                i = self.bridge("add", i, self.constant(np.array(shift)))
        return i

    def add(
        self,
        op: str,
        operands: Sequence[int | None],
        attrs: dict[str, Any],
        *,
        bridge: bool = False,
    ) -> int | None:
        """Append a step, if its result can be used, and return its place."""
        step = Step(op, tuple(operands), attrs, bridge)
        arrays = [None if i is None else self.data[i] for i in operands]
        short = all(i is None or self.short[i] for i in operands)
        if not _clear_of_kinks(op, arrays, attrs, short):
            return None
        changes = not attrs.get("copy", True)
        try:
            with no_grad():
                wrapped = [None if a is None else Tensor._wrap(a) for a in arrays]
                if changes:  # not yet: the result may be of no use
                    wrapped[0] = Tensor(arrays[0])
                # There is no hook where no gradient flows.
                out = arrays[0] * 1.0 if op == "hook" else tensor_call(step, wrapped).data
        except (RuntimeError, IndexError, ValueError, TypeError):
            return None
        if out.size > MOST or not np.isfinite(out).all() or np.abs(out).max(initial=0) > LARGEST:
            return None
        self.entries.append(step)
        if changes:
            assert operands[0] is not None and arrays[0] is not None
            arrays[0][...] = out  # and with it all of its views
            out = arrays[0]
        grad = op != "detach" and (op in SPECIAL or VOCAB[op].differentiable)
        grad = grad and out.dtype.kind == "f"
        grad = grad and any(i is not None and self.grads[i] for i in operands)
        self._came(out, short and op in RATIONAL and _is_short(out), grad)
        return len(self.data) - 1

    def can_change(self, i: int) -> bool:
        """Whether the value i may be changed in place: a result that gradients flow through.

        What was detached from it would change too, which in ``micro`` is a constant.
        """
        array = self.data[i]
        detached = (
            isinstance(e, Step) and e.op == "detach" and np.shares_memory(self.data[k], array)
            for k, e in enumerate(self.entries)
        )
        is_result = isinstance(self.entries[i], Step) and self.grads[i]
        return is_result and array.flags.writeable and not any(detached)

    def _came(self, array: Array, short: bool, grad: bool) -> None:
        self.data.append(array)
        self.short.append(short)
        self.grads.append(grad)

    # Finishing.

    def finished(self, outputs: Sequence[int], seed: int) -> Program:
        """The program, of what its outputs need alone."""
        used = set(outputs)
        if any(isinstance(e, Step) and not e.attrs.get("copy", True) for e in self.entries):
            used.update(range(len(self.entries)))  # what is changed may be seen anywhere
        for i in reversed(range(len(self.entries))):
            entry = self.entries[i]
            if i in used and isinstance(entry, Step):
                used.update(j for j in entry.operands if j is not None)
        leaves = [i for i in sorted(used) if isinstance(self.entries[i], Leaf)]
        steps = [i for i in sorted(used) if isinstance(self.entries[i], Step)]
        place = {i: k for k, i in enumerate([*leaves, *steps])}
        moved = []
        for i in steps:
            step = self.entries[i]
            assert isinstance(step, Step)
            operands = tuple(None if j is None else place[j] for j in step.operands)
            moved.append(Step(step.op, operands, step.attrs, step.bridge))
        kept: Any = tuple(self.entries[i] for i in leaves)
        return Program(kept, tuple(moved), tuple(place[i] for i in outputs), seed)


def _is_short(a: Array) -> bool:
    """Whether the numbers are short binary fractions, which float32 holds with room to spare."""
    return a.dtype.kind != "f" or bool(np.all((a * 256 == np.round(a * 256)) & (np.abs(a) < 64)))


# Kinks: how far the operands are from the next one, negative or positive, element by element.


def _gaps(rows: Array, dims: Any) -> Array:
    """Between the largest and every other element of each row, and the same for the smallest."""
    over = tuple(range(rows.ndim)) if dims is None else dims
    top, bottom = rows.max(over, keepdims=True), rows.min(over, keepdims=True)
    found = []
    for extreme in (top, bottom):
        gaps = np.abs(rows - extreme)
        several = (gaps == 0).sum(over, keepdims=True) > 1
        found.append(np.where((gaps == 0) & ~several, np.inf, gaps))
    return np.minimum(*found)


def _not_0(x: Array) -> Array:
    """The distance from 0, where 0 itself is not wanted."""
    return np.maximum(np.abs(x), MARGIN / 2)


def _jumps(x: Array) -> Array:
    return x - np.round(x)


DISTANCES: Final[dict[str, Callable[..., Any]]] = {
    **dict.fromkeys(("abs", "sign", "relu", "leaky_relu", "elu"), lambda a, **_: a),
    **dict.fromkeys(("maximum", "minimum", "eq", "ne", "lt", "le", "gt", "ge"), lambda a, b: a - b),
    "clip": lambda a, min, max: np.minimum(
        *(np.full(a.shape, np.inf) if bound is None else np.abs(a - bound) for bound in (min, max))
    ),
    **dict.fromkeys(
        ("max", "min", "amax", "amin"), lambda a, dim=None, keepdim=False: _gaps(a, dim)
    ),
    **dict.fromkeys(("argmax", "argmin"), lambda a, dim=None, keepdim=False: _gaps(a, dim)),
    # Where a norm or a deviation is 0, and |a|^1.5 at 0, second derivatives are infinite.
    "norm": lambda a, p, dim, keepdim=False: (
        np.minimum(np.abs(a), _gaps(np.abs(a), dim))
        if math.isinf(p)
        else np.append(
            _not_0(a) if p == 1.5 else np.abs(a), _not_0(np.abs(a).sum(dim, keepdims=True))
        )
    ),
    **dict.fromkeys(("floor", "ceil"), _jumps),
    "round": lambda a, decimals=0: _jumps(a * 10.0**decimals + 0.5),
    **dict.fromkeys(("floor_divide", "remainder"), lambda a, b: _jumps(a / b)),
    **dict.fromkeys(
        ("logical_and", "logical_or", "logical_xor"),
        lambda a, b: np.minimum(*np.broadcast_arrays(abs(a), abs(b))),
    ),
    **dict.fromkeys(("logical_not", "any", "all"), lambda a, **_: a),
    "var": lambda a, **_: np.inf,
    "std": lambda a, dim=None, correction=1, keepdim=False: _not_0(a.std(dim)),
    "linear": lambda a, weight, bias, activation: (
        a @ weight.T + (0 if bias is None else bias) if activation == "relu" else np.inf
    ),
    "nonzero": lambda a: a,
    **dict.fromkeys(("argsort", "topk_indices", "sort", "topk"), lambda a, **_: _all_gaps(a)),
    "max_pool2d": lambda a, **_: _all_gaps(a),
    "max_pool2d_indices": lambda a, **_: _all_gaps(a),
}


def _all_gaps(a: Array) -> Array:
    """Between every two elements that are neighbours in size; 0 between equal ones."""
    return np.diff(np.sort(a, None))


def distances(op: str, operands: Sequence[Any], attrs: dict[str, Any]) -> Array:
    """How far the operands are from the next kink of an op; inf where it has none."""
    if op not in DISTANCES or op in SPECIAL:
        return np.array(np.inf)
    given = dict(VOCAB[op].attrs) | attrs
    if "dim" in given and operands[0].ndim == 0:
        given["dim"] = None
    return np.abs(np.asarray(DISTANCES[op](*operands, **given)))


def _clear_of_kinks(op: str, operands: Sequence[Any], attrs: dict[str, Any], short: bool) -> bool:
    """Whether every element is far from a kink, or is at one in every engine."""
    try:
        found = distances(op, operands, attrs)
    except (ValueError, IndexError):
        return True  # no such call: it will be refused
    return bool(np.all((found >= MARGIN) | ((found == 0) & short)))


# The ops in which nothing rounds where the operands are short.
RATIONAL: Final = {
    *("add", "sub", "mul", "neg", "square", "abs", "sign", "relu", "maximum", "minimum", "clip"),
    *("where", "floor", "ceil", "round", "sum", "mean", "prod", "cumsum", "cumprod", "max", "min"),
    *("amax", "amin", "matmul", "linear", "reshape", "flatten", "permute", "transpose", "squeeze"),
    *("unsqueeze", "expand", "cat", "stack", "getitem", "getitem_adjoint", "embedding"),
    *("embedding_adjoint", "dropout", "conv2d", "conv2d_input_adjoint", "conv2d_weight_adjoint"),
    *("max_pool2d", "avg_pool2d", "avg_pool2d_adjoint", "cast", "clone", "outer", *SPECIAL),
    *("einsum", "flip", "roll", "repeat", "pad", "tril", "triu", "diagonal", "diagonal_adjoint"),
    *("unfold", "unfold_adjoint", "setitem", "gather", "gather_adjoint", "scatter", "im2col"),
    *("index_select", "index_select_adjoint", "col2im", *COMPOSITE),
}


# These and what rounds only at some points are drawn for exact comparisons.
EXACT: Final = RATIONAL | {"div", "pow", "leaky_relu", "norm"}


def draw(
    seed: int, *, ops: Sequence[str], pair: tuple[str, str] | None = None, exact: bool = False
) -> Program:
    """A program of two to six steps over ``ops``, or one around a ``pair``.

    Of a pair, the second op takes the result of the first.

    Raises:
        NoProgramError: none was found in which it does.
    """
    for attempt in range(200):
        draft = Draft(np.random.default_rng([seed, attempt]), exact=exact)
        try:
            program = _around(draft, pair, ops, seed) if pair else grown(draft, ops, seed)
        except NoProgramError:
            continue
        if program is not None and (pair is None or pair in {p[:2] for p in program.pairs()}):
            return program
    raise NoProgramError(f"{pair or 'any'}: no program in 200 attempts, seed {seed}")


def grown(draft: Draft, ops: Sequence[str], seed: int) -> Program | None:
    """The program that a few random steps make; None if no gradient flows through it."""
    for _ in range(draft.integer(2, 7)):
        draws.step(draft, draft.choose(ops), draft.current())
    return _ended(draft, seed)


def _around(draft: Draft, pair: tuple[str, str], ops: Sequence[str], seed: int) -> Program | None:
    if draft.chance(0.5):
        draws.step(draft, draft.choose(ops), draft.current())
    first = draws.step(draft, pair[0], draft.current())
    if first is None or draws.step(draft, pair[1], first) is None:
        return None
    for _ in range(draft.integer(0, 3)):
        draws.step(draft, draft.choose(ops), draft.current())
    return _ended(draft, seed)


def _ended(draft: Draft, seed: int) -> Program | None:
    """The program whose outputs are the last values, and some others."""
    steps = [i for i, e in enumerate(draft.entries) if isinstance(e, Step) and not e.bridge]
    used = {j for e in draft.entries if isinstance(e, Step) for j in e.operands}
    outputs = [i for i in steps if i not in used]  # whatever nothing else takes
    outputs += [i for i in steps if i not in outputs and draft.chance(0.15)]
    if not any(draft.grads[i] for i in outputs):
        return None
    return draft.finished(sorted(outputs), seed)


def pairs(ops: Sequence[str]) -> list[tuple[str, str]]:
    """Every ordered pair of ops of which the second can take a result of the first."""
    return [
        (p, q)
        for p in ops
        for q in ops
        if draws.gives(p) in draws.takes(q) and (p, q) != ("detach", "hook")  # nothing to hook
    ]
