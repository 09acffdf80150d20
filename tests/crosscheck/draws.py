"""How a call of each op is drawn around an operand that is given: one line or function per op.

An elementwise op without attributes that must be given needs no line: its operands follow from
the vocabulary.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Literal

import numpy as np

from micro.vocab import REQUIRED, VOCAB
from tests.crosscheck.programs import SAME, SPECIAL

if TYPE_CHECKING:
    from tests.crosscheck.generate import Draft

__all__ = ["DRAWS", "OPS", "drawable", "gives", "step", "takes"]

Call = tuple[tuple[int | None, ...], dict[str, Any]] | None
Draw = Callable[["Draft", int], Call]

# Between which numbers the operands of each domain are kept, and those of some ops.
RANGES: Final = {
    "real": (-3.0, 3.0),
    "positive": (0.25, 4.0),
    "nonzero": (-4.0, 4.0),
    "unit": (-1.0, 1.0),
}

# Narrower ranges than the domain's, for what grows fast or is cut off.
NARROW: Final[Mapping[tuple[str, int], tuple[float, float]]] = {
    ("exp", 0): (-3.0, 2.5),
    ("sinh", 0): (-2.5, 2.5),
    ("cosh", 0): (-2.5, 2.5),
    ("tan", 0): (-1.25, 1.25),
    ("pow", 0): (0.25, 2.5),
    ("pow", 1): (-2.5, 2.5),
}

# Attributes of elementwise ops, besides their defaults.
ATTRS: Final[Mapping[str, Sequence[Mapping[str, Any]]]] = {
    "clip": ({"min": -1.0, "max": 1.0}, {"min": 0.5}, {"max": 0.25}),
    "gelu": ({}, {"approximate": "tanh"}),
    "round": ({}, {"decimals": 1}),
    "softplus": ({}, {"beta": 0.5}),
    "leaky_relu": ({}, {"negative_slope": 0.25}),
    "elu": ({}, {"alpha": 0.5}),
}

# Operands with which an op that may round does not.
EXACT: Final[Mapping[tuple[str, int], Sequence[float]]] = {
    ("div", 1): (-2.0, -1.0, -0.5, 0.5, 1.0, 2.0),
    ("pow", 1): (1.0, 2.0, 3.0),
}

DRAWS: Final[dict[str, Draw]] = {}


def draws(*names: str) -> Callable[[Draw], Draw]:
    """Enter a function as that which draws calls of the ops ``names``."""

    def enter(function: Draw) -> Draw:
        DRAWS.update(dict.fromkeys(names, function))
        return function

    return enter


def drawable() -> list[str]:
    """The ops that calls can be drawn of."""
    return [
        name
        for name, spec in VOCAB.items()
        if name in DRAWS
        or (spec.scope == "both" and (name in ATTRS or REQUIRED not in spec.attrs.values()))
    ]


def gives(name: str) -> Literal["f", "i", "b"]:
    """Whether an op's result holds real numbers, integers or truth values."""
    if name in SPECIAL or VOCAB[name].differentiable:
        return "f"
    return "i" if name in _INTEGERS else "b"


def takes(name: str) -> set[str]:
    """The kinds of operands that an op takes."""
    kinds = {"bool": "b", "index": "i"}
    return {"f"} if name in SPECIAL else {kinds.get(d, "f") for d in VOCAB[name].domain}


# What takes operands of any kind.
_ANY: Final = {"cast"}

_INTEGERS: Final = {
    *("argmax", "argmin", "one_hot", "max_pool2d_indices", "argsort", "topk_indices", "nonzero"),
}


def step(d: Draft, name: str, i: int) -> int | None:
    """Append a call of the op ``name`` that takes the value i; None if there is no fitting one."""
    if name in SPECIAL:
        return _special(d, name, i)
    call = DRAWS[name](d, i) if name in DRAWS else _elementwise(d, name, i)
    if call is None:
        return None
    operands, attrs = call
    spec = VOCAB[name]
    domains = spec.domain * len(operands) if spec.variadic else spec.domain
    kinds = {"bool": "b", "index": "i"}
    if any(
        j is not None and d.data[j].dtype.kind != kinds.get(domain, "f") and name not in _ANY
        for j, domain in zip(operands, domains, strict=True)
    ):
        return None
    fitted = tuple(
        None if j is None else _fitted(d, name, k, domain, j)
        for k, (j, domain) in enumerate(zip(operands, domains, strict=True))
    )
    return d.add(name, fitted, attrs)


def _special(d: Draft, name: str, i: int) -> int | None:
    """A step that is no op: what is cut off, hooked or changed in place."""
    if d.data[i].dtype.kind != "f":
        return None
    if name == "detach":
        return d.add(name, (i,), {})
    if name == "hook":
        return d.add(name, (i,), {"factor": 0.5}) if d.grads[i] else None
    attrs: dict[str, Any] = {"copy": not d.can_change(i) or d.chance(0.6)}
    if name == "fill_":
        return d.add(name, (i,), attrs | {"value": 0.5})
    shape = d.data[i].shape
    if name == "put_":
        if not math.prod(shape):
            return None
        attrs["index"] = d.choose([Ellipsis, *([slice(0, 1), 0, -1] if shape else [])])
        other = d.other(np.zeros(shape)[attrs["index"]].shape)
    else:
        other = d.other(tuple(n if d.chance(0.8) else 1 for n in shape))
    if name == "div_":
        if d.exact:
            values = d.rng.choice(EXACT["div", 1], d.data[other].shape)
            other = d.constant(np.asarray(values), grad=True)
        else:
            other = d.into(other, *RANGES["nonzero"], away=0.25)
    return d.add(name, (i, other), attrs)


def _fitted(d: Draft, name: str, place: int, domain: str, i: int) -> int:
    """The value i inside the domain of an operand."""
    if domain not in RANGES or d.data[i].dtype.kind != "f":
        return i
    if d.exact and name == "pow":
        return i
    low, high = NARROW.get((name, place), RANGES[domain])
    if domain == "real" and (name, place) not in NARROW:
        low, high = -12.0, 12.0
    return d.into(i, low, high, away=0.25 if domain == "nonzero" else 0.0)


def _elementwise(d: Draft, name: str, i: int) -> Call:
    """A call on operands that broadcast, the given one in any place."""
    spec = VOCAB[name]
    kind = d.data[i].dtype.kind
    places = [k for k, domain in enumerate(spec.domain) if (domain == "bool") == (kind == "b")]
    if not places or kind == "i":
        return None
    mine = d.choose([k for k in places if not (d.exact and (name, k) in EXACT)])
    operands = []
    for k, domain in enumerate(spec.domain):
        if k == mine:
            operands.append(i)
        elif d.exact and (name, k) in EXACT:
            values = d.rng.choice(EXACT[name, k], _broadcast(d, i))
            operands.append(d.constant(np.asarray(values), grad=name != "pow"))
        elif domain == "bool":
            operands.append(d.constant(d.rng.random(_broadcast(d, i)) < 0.5))
        else:
            same = d.chance(0.1) and kind == "f" and domain != "nonzero"
            operands.append(i if same else d.other(_broadcast(d, i)))
    attrs = ATTRS.get(name, ({},))
    return tuple(operands), dict(attrs[-1] if d.exact else d.choose(attrs))


def _broadcast(d: Draft, i: int) -> tuple[int, ...]:
    """A shape that fits the value i: fewer dimensions, or some of length 1, or one in front."""
    shape = tuple(n if d.chance(0.75) else 1 for n in d.data[i].shape)
    if d.chance(0.15) and math.prod(shape) <= 4:
        return (2, *shape)
    return shape[d.integer(0, len(shape) + 1) :] if d.chance(0.3) else shape


# Reductions.


@draws("sum", "mean", "amax", "amin")
def _reduction(d: Draft, i: int) -> Call:
    return (i,), {"dim": d.dims(d.data[i].ndim), "keepdim": d.chance(0.5)}


@draws("logsumexp")
def _logsumexp(d: Draft, i: int) -> Call:
    return _reduction(d, i)


@draws("any", "all")
def _any(d: Draft, i: int) -> Call:
    return _reduction(d, i)


@draws("var", "std")
def _var(d: Draft, i: int) -> Call:
    i = d.into(i, -4.0, 4.0)
    a = d.data[i]
    dim = d.dims(a.ndim)
    over = range(a.ndim) if dim is None else (dim,) if isinstance(dim, int) else dim
    count = math.prod(a.shape[k] for k in over) if a.ndim else 1
    correction = d.choose([0, 1]) if count > 1 else 0
    return (
        ((i,), {"dim": dim, "correction": correction, "keepdim": d.chance(0.5)}) if count else None
    )


@draws("norm")
def _norm(d: Draft, i: int) -> Call:
    p = d.choose([1, math.inf, -math.inf, 0] if d.exact else [2, 2, 1, 3, math.inf, 0, 1.5])
    return (i,), {"p": p, "dim": d.dims(d.data[i].ndim), "keepdim": d.chance(0.5)}


@draws("max", "min", "argmax", "argmin", "prod")
def _selection(d: Draft, i: int) -> Call:
    a = d.data[i]
    dim = None if d.chance(0.3) else d.dim(a.ndim)
    return (i,), {"dim": dim, "keepdim": d.chance(0.5)}


@draws("softmax", "log_softmax", "cumsum", "cumprod")
def _along(d: Draft, i: int) -> Call:
    return (i,), {"dim": d.dim(d.data[i].ndim)}


# Products.


@draws("matmul")
def _matmul(d: Draft, i: int) -> Call:
    i = d.with_ndim(i, 1, 3)
    i = d.into(i, -4.0, 4.0)
    shape, n = d.data[i].shape, d.integer(1, 4)
    if d.chance(0.5):  # on the left
        k = shape[-1]
        batch = shape[:-2] if d.chance(0.5) else ()
        return (i, d.other((k,) if d.chance(0.3) else (*batch, k, n))), {}
    k = shape[-2] if len(shape) > 1 else shape[0]
    batch = shape[:-2] if d.chance(0.5) else ()
    return (d.other((k,) if d.chance(0.3) else (*batch, n, k)), i), {}


@draws("linear")
def _linear(d: Draft, i: int) -> Call:
    i = d.into(i, -4.0, 4.0)
    out = d.integer(1, 4)
    activation = d.choose([None, "relu"] if d.exact else [None, "relu", "tanh", "sigmoid"])
    if d.chance(0.3):  # as the weight
        i = d.with_ndim(i, 2, 2)
        operands = [d.other((*d.choose([(), (1,), (2,)]), d.data[i].shape[1])), i]
        out = d.data[i].shape[0]
    else:
        i = d.with_ndim(i, 1, 3)
        operands = [i, d.other((out, d.data[i].shape[-1]))]
    bias = d.other((out,)) if d.chance(0.5) else None
    return (*operands, bias), {"activation": activation}


# Shapes.


@draws("reshape")
def _reshape(d: Draft, i: int) -> Call:
    shape = d.data[i].shape
    options = [(math.prod(shape),), shape[::-1], (1, *shape), (*shape, 1)]
    if math.prod(shape):
        options += [(-1,), (-1, *shape[1:])] if shape else [(-1,)]
    return (i,), {"shape": d.choose(options)}


@draws("flatten")
def _flatten(d: Draft, i: int) -> Call:
    ndim = d.data[i].ndim
    start = d.integer(0, max(ndim, 1))
    return (i,), {"start_dim": start, "end_dim": d.integer(start, max(ndim, 1))}


@draws("permute")
def _permute(d: Draft, i: int) -> Call:
    ndim = d.data[i].ndim
    return (i,), {"dims": tuple(int(k) - d.choose([0, ndim]) for k in d.rng.permutation(ndim))}


@draws("transpose")
def _transpose(d: Draft, i: int) -> Call:
    ndim = d.data[i].ndim
    return (i,), {"dim0": d.dim(ndim), "dim1": d.dim(ndim)}


@draws("squeeze")
def _squeeze(d: Draft, i: int) -> Call:
    return (i,), {"dim": None if d.chance(0.5) else d.dim(d.data[i].ndim)}


@draws("unsqueeze")
def _unsqueeze(d: Draft, i: int) -> Call:
    return (i,), {"dim": d.dim(d.data[i].ndim + 1)}


@draws("expand")
def _expand(d: Draft, i: int) -> Call:
    shape = tuple(d.choose([1, 2, 3]) if n == 1 else d.choose([n, -1]) for n in d.data[i].shape)
    return (i,), {"shape": (2, *shape) if d.chance(0.4) else shape}


@draws("cat")
def _cat(d: Draft, i: int) -> Call:
    i = d.with_ndim(i, 1, 9)
    shape = d.data[i].shape
    dim = d.dim(len(shape))
    operands = [i]
    for _ in range(d.integer(0, 3)):
        lengths = list(shape)
        lengths[dim] = d.integer(1, 3)
        operands.append(i if d.chance(0.2) else d.other(tuple(lengths)))
    return d.shuffled(operands), {"dim": dim}


@draws("stack")
def _stack(d: Draft, i: int) -> Call:
    shape = d.data[i].shape
    operands = [i, *(i if d.chance(0.2) else d.other(shape) for _ in range(d.integer(0, 3)))]
    return tuple(operands), {"dim": d.dim(len(shape) + 1)}


@draws("cast")
def _cast(d: Draft, i: int) -> Call:
    return (i,), {"dtype": SAME}


@draws("clone", "isnan", "isinf", "isfinite", "logical_not", "nonzero")
def _alone(d: Draft, i: int) -> Call:
    return (i,), {}


@draws("logical_and", "logical_or", "logical_xor")
def _logical(d: Draft, i: int) -> Call:
    return (i, d.other(_broadcast(d, i))), {}


@draws("bitwise_and", "bitwise_or", "bitwise_xor")
def _bitwise(d: Draft, i: int) -> Call:
    if d.data[i].dtype.kind != "b":
        i = d.bridge("gt", i, d.constant(np.array(0.375)))
    return (i, d.constant(d.rng.random(_broadcast(d, i)) < 0.5)), {}


@draws("bitwise_not")
def _bitwise_not(d: Draft, i: int) -> Call:
    if d.data[i].dtype.kind != "b":
        i = d.bridge("gt", i, d.constant(np.array(0.375)))
    return (i,), {}


@draws("outer")
def _outer(d: Draft, i: int) -> Call:
    i = d.into(d.with_ndim(i, 1, 1), -4.0, 4.0)
    return d.shuffled([i, d.other((d.integer(1, 4),))]), {}


# Equations with the number of dimensions of the operand that is given, and the lengths of others.
_EQUATIONS: Final[Mapping[int, Sequence[tuple[str, Sequence[str]]]]] = {
    0: (("->", ()), (",i->i", ("i",))),
    1: (("i->", ()), ("i,i->", ("i",)), ("i,j->ij", ("j",)), ("i,ij->j", ("ij",))),
    2: (
        *(("ij->ji", ()), ("ij->i", ()), ("ij,jk->ik", ("jk",)), ("ij,ij->j", ("ij",))),
        *(("...j,j", ("j",)), ("ij,j,i->", ("j", "i"))),
    ),
    3: (("aij,ajk->aik", ("ajk",)), ("aij->ja", ()), ("...j,...j->...", ("aij",))),
}


@draws("einsum")
def _einsum(d: Draft, i: int) -> Call:
    i = d.into(d.with_ndim(i, 0, 3), -4.0, 4.0)
    shape = d.data[i].shape
    if len(shape) == 2 and shape[0] == shape[1] and d.chance(0.5):
        return (i,), {"equation": d.choose(["ii->i", "ii->", "ii"])}
    equation, others = d.choose(_EQUATIONS[len(shape)])
    names = {1: "i", 2: "ij", 3: "aij"}.get(len(shape), "")
    lengths = dict(zip(names, shape, strict=True))
    operands = [
        d.other(tuple(lengths.setdefault(c, d.integer(1, 3)) for c in other)) for other in others
    ]
    return (i, *operands), {"equation": equation}


@draws("flip")
def _flip(d: Draft, i: int) -> Call:
    ndim = d.data[i].ndim
    return (i,), {"dims": (d.dim(ndim),) if ndim else ()}


@draws("roll")
def _roll(d: Draft, i: int) -> Call:
    if d.chance(0.5) or not d.data[i].ndim:
        return (i,), {"shifts": d.integer(-3, 4), "dims": None}
    return (i,), {"shifts": (d.integer(-3, 4),), "dims": (d.dim(d.data[i].ndim),)}


@draws("repeat")
def _repeat(d: Draft, i: int) -> Call:
    counts = tuple(d.choose([1, 1, 2]) for _ in d.data[i].shape)
    return (i,), {"repeats": (d.choose([1, 2]), *counts)}


@draws("pad")
def _pad(d: Draft, i: int) -> Call:
    i = d.with_ndim(i, 1, 4)
    count = 2 * d.integer(1, min(d.data[i].ndim, 2) + 1)
    lengths = tuple(d.choose([0, 1, 1, -1]) for _ in range(count))
    return (i,), {"pad": lengths, "value": d.choose([0.0, 1.5])}


@draws("tril", "triu")
def _triangle(d: Draft, i: int) -> Call:
    return (d.with_ndim(i, 2, 4),), {"diagonal": d.integer(-1, 2)}


@draws("diagonal")
def _diagonal(d: Draft, i: int) -> Call:
    i = d.with_ndim(i, 2, 4)
    first, second = (int(k) for k in d.rng.permutation(d.data[i].ndim)[:2])
    return (i,), {"offset": d.integer(-1, 2), "dim1": first, "dim2": second}


@draws("diagonal_adjoint")
def _diagonal_adjoint(d: Draft, i: int) -> Call:
    i = d.with_ndim(i, 1, 2)
    *rest, length = d.data[i].shape
    return (i,), {"shape": (length, length + 1, *rest), "offset": d.choose([0, 1])}


@draws("unfold")
def _unfold(d: Draft, i: int) -> Call:
    shape = d.data[i].shape
    dim = d.dim(len(shape))
    length = shape[dim] if shape else 1
    size = d.integer(1, length + 1)
    return (i,), {"dim": dim, "size": size, "step": d.choose([1, 1, 2])}


@draws("unfold_adjoint")
def _unfold_adjoint(d: Draft, i: int) -> Call:
    i = d.with_ndim(i, 2, 3)
    count, *rest, size = d.data[i].shape
    if not count or not size:
        return None
    step = d.choose([1, 2])
    return (i,), {"shape": ((count - 1) * step + size, *rest), "dim": 0, "size": size, "step": step}


# Indexing.


def _index(d: Draft, shape: tuple[int, ...]) -> Any:
    """An index: basic, by integers that may repeat, by a mask, or mixed."""
    if not shape:
        return d.choose([(), None, Ellipsis])
    n = shape[0]
    options: list[Any] = [
        slice(None, None, 2),
        slice(1, None),
        slice(None, None, -1),
        None,
        Ellipsis,
        (Ellipsis, slice(0, 1)),
    ]
    if n:
        rows = [d.integer(-n, n) for _ in range(d.integer(1, 5))]
        options += [d.integer(-n, n), rows, rows, [k % n for k in rows] + [0, 0]]
        options += [[bool(d.chance(0.6)) for _ in range(n)]]
    if len(shape) > 1 and n and shape[1]:
        columns = [d.integer(-shape[1], shape[1]) for _ in range(3)]
        rows = [d.integer(-n, n) for _ in range(3)]
        options += [(slice(None), d.integer(0, shape[1])), (slice(None), columns), (rows, columns)]
        options += [(rows, slice(None, 1)), (None, slice(None), columns)]
    return d.choose(options)


@draws("getitem")
def _getitem(d: Draft, i: int) -> Call:
    return (i,), {"index": _index(d, d.data[i].shape)}


@draws("getitem_adjoint")
def _getitem_adjoint(d: Draft, i: int) -> Call:
    a = d.data[i]
    if a.ndim == 0:
        return (i,), {"index": d.integer(0, 3), "shape": (3,)}
    if a.shape[0] == 0:
        return None
    rows = [d.integer(0, 3) for _ in range(a.shape[0])]
    return (i,), {"index": rows, "shape": (3, *a.shape[1:])}


@draws("embedding")
def _embedding(d: Draft, i: int) -> Call:
    if d.data[i].dtype.kind == "i":
        return (d.other((max(int(d.data[i].max(initial=0)) + 1, 2), 2)), i), {}
    i = d.with_ndim(i, 2, 2)
    rows = d.data[i].shape[0]
    if not rows:
        return None
    indices = d.rng.integers(0, rows, d.choose([(), (3,), (2, 2)]))
    return (i, d.constant(np.asarray(indices))), {}


@draws("embedding_adjoint")
def _embedding_adjoint(d: Draft, i: int) -> Call:
    if d.data[i].dtype.kind == "i":
        rows = int(d.data[i].max(initial=0)) + 1
        return (d.other((*d.data[i].shape, 2)), i), {"rows": rows}
    i = d.with_ndim(i, 1, 3)
    rows = d.integer(1, 4)
    indices = d.rng.integers(0, rows, d.data[i].shape[:-1])
    return (i, d.constant(np.asarray(indices))), {"rows": rows}


@draws("one_hot")
def _one_hot(d: Draft, i: int) -> Call:
    a = d.data[i]
    if a.dtype.kind == "i":
        return (i,), {"num_classes": int(a.max(initial=0)) + 1}
    i = d.bridge("argmax", i, dim=0 if a.ndim else None)
    return (i,), {"num_classes": max(a.shape[0] if a.ndim else 1, 1)}


@draws("setitem")
def _setitem(d: Draft, i: int) -> Call:
    i = d.with_ndim(i, 1, 3)
    shape = d.data[i].shape
    if not math.prod(shape):
        return None
    index = _index(d, shape)
    target = np.zeros(shape)[index].shape
    value = d.other(target[1:] if d.chance(0.3) else target)
    accumulate = d.chance(0.5)
    if d.chance(0.3) and target == shape:
        return (value, i), {"index": Ellipsis, "accumulate": accumulate}
    return (i, value), {"index": index, "accumulate": accumulate}


def _named(d: Draft, i: int) -> tuple[int, int, int] | None:
    """The value i, a dimension of it, and indices along it in a shape of their own."""
    i = d.with_ndim(i, 1, 3)
    shape = d.data[i].shape
    dim = d.dim(len(shape))
    if not shape[dim]:
        return None
    lengths = [d.integer(1, n + 1) if n else 0 for n in shape]
    lengths[dim] = d.integer(1, 4)
    return i, dim, d.constant(np.asarray(d.rng.integers(0, shape[dim], lengths)))


@draws("gather")
def _gather(d: Draft, i: int) -> Call:
    if d.data[i].dtype.kind == "i":
        return (d.other((int(d.data[i].max(initial=0)) + 1,)), _row(d, i)), {"dim": 0}
    found = _named(d, i)
    return None if found is None else ((found[0], found[2]), {"dim": found[1]})


def _row(d: Draft, i: int) -> int:
    """The integers i in one row."""
    return d.viewed(i, (d.data[i].size,))


@draws("gather_adjoint")
def _gather_adjoint(d: Draft, i: int) -> Call:
    if d.data[i].dtype.kind == "i":
        i = _row(d, i)
        size = int(d.data[i].max(initial=0)) + 1
        return (d.other(d.data[i].shape), i), {"dim": 0, "shape": (size,)}
    i = d.with_ndim(i, 1, 3)
    shape = d.data[i].shape
    dim, length = d.integer(0, len(shape)), d.integer(1, 4)
    index = d.constant(np.asarray(d.rng.integers(0, length, shape)))
    return (i, index), {"dim": dim, "shape": (*shape[:dim], length, *shape[dim + 1 :])}


@draws("scatter")
def _scatter(d: Draft, i: int) -> Call:
    if d.data[i].dtype.kind == "i":
        i = _row(d, i)
        size = int(d.data[i].max(initial=0)) + 1
        return (d.other((size,)), i, d.other(d.data[i].shape)), {"dim": 0}
    found = _named(d, i)
    if found is None:
        return None
    a, dim, index = found
    # PyTorch leaves open which of several values for one place remains, and gives all a gradient.
    places = np.moveaxis(d.data[index], dim, -1)
    if any(len({*row}) < len(row) for row in places.reshape(-1, places.shape[-1]).tolist()):
        return None
    return (a, index, d.other(d.data[index].shape)), {"dim": dim}


@draws("index_select")
def _index_select(d: Draft, i: int) -> Call:
    if d.data[i].dtype.kind == "i":
        return (d.other((int(d.data[i].max(initial=0)) + 1, 2)), _row(d, i)), {"dim": 0}
    i = d.with_ndim(i, 1, 3)
    shape = d.data[i].shape
    dim = d.dim(len(shape))
    if not shape[dim]:
        return None
    return (i, d.constant(np.asarray(d.rng.integers(0, shape[dim], 3)))), {"dim": dim}


@draws("index_select_adjoint")
def _index_select_adjoint(d: Draft, i: int) -> Call:
    if d.data[i].dtype.kind == "i":
        i = _row(d, i)
        length = int(d.data[i].max(initial=0)) + 1
        return (d.other((d.data[i].size, 2)), i), {"dim": 0, "length": length}
    i = d.with_ndim(i, 1, 3)
    dim, length = d.dim(d.data[i].ndim), d.integer(1, 4)
    index = np.asarray(d.rng.integers(0, length, d.data[i].shape[dim]))
    return (i, d.constant(index)), {"dim": dim, "length": length}


@draws("argsort")
def _argsort(d: Draft, i: int) -> Call:
    return (i,), {"dim": d.dim(d.data[i].ndim), "descending": d.chance(0.5), "stable": True}


@draws("topk_indices")
def _topk_indices(d: Draft, i: int) -> Call:
    i = d.with_ndim(i, 1, 3)
    length = d.data[i].shape[-1]
    return (i,), {"k": d.integer(0, length + 1), "dim": -1, "largest": d.chance(0.5)}


# Losses and layers.


@draws("cross_entropy")
def _cross_entropy(d: Draft, i: int) -> Call:
    if d.data[i].dtype.kind == "i":
        target = _row(d, i)
        classes = int(d.data[i].max(initial=0)) + 1
        i = d.other((d.data[target].size, classes))
    else:
        i = d.with_ndim(i, 1, 2)
        *rows, classes = d.data[i].shape
        if not classes:
            return None
        classed = np.asarray(d.rng.integers(0, classes, rows))
        if d.chance(0.3) and classed.size > 1:
            classed.reshape(-1)[0] = -100
        target = d.constant(classed)
    attrs = {
        "reduction": d.choose(["mean", "sum", "none"]),
        "label_smoothing": d.choose([0.0, 0.0, 0.25]),
    }
    return (i, target), attrs


def _weighing(d: Draft, i: int, shape: Callable[[int], tuple[int, ...]]) -> tuple[int, Any]:
    """An operand of a norm, and its weight; the value i is one or, at times, the other."""
    count = d.data[i].size
    if 1 < count <= 3 and d.chance(0.25):
        return d.leaf(shape(count)), d.viewed(i, (count,))
    return i, None


@draws("layer_norm")
def _layer_norm(d: Draft, i: int) -> Call:
    i, weight = _weighing(d, i, lambda n: (2, n))
    i = d.with_ndim(i, 1, 4)
    shape = d.data[i].shape
    last = shape[-1 if weight is not None else -d.integer(1, len(shape) + 1) :]
    if math.prod(last) < 2:
        return None
    i = d.into(i, -4.0, 4.0)
    count = len(last)
    variances = d.data[i].var(tuple(range(-count, 0)))
    if variances.size and variances.min() < 0.05:
        return None
    operands = [d.other(last) if d.chance(0.7) else None for _ in range(2)]
    operands[0] = operands[0] if weight is None else weight
    return (i, *operands), {"normalized_shape": last, "eps": d.choose([1e-5, 0.125])}


@draws("rms_norm")
def _rms_norm(d: Draft, i: int) -> Call:
    i, given = _weighing(d, i, lambda n: (2, n))
    i = d.into(d.with_ndim(i, 1, 4), -4.0, 4.0)
    shape = d.data[i].shape
    last = shape[-1 if given is not None else -d.integer(1, len(shape) + 1) :]
    squares = np.square(d.data[i]).mean(tuple(range(-len(last), 0))) if math.prod(last) else 0
    if np.size(squares) and np.min(squares) < 0.05:
        return None
    weight = given if given is not None else d.other(last) if d.chance(0.7) else None
    return (i, weight), {"normalized_shape": last, "eps": d.choose([1e-5, 0.125])}


def _channels(d: Draft, i: int, least: float) -> int | None:
    """The value i as (N, C, ...), if every channel's variance is large enough."""
    i = d.into(d.with_ndim(i, 2, 4), -4.0, 4.0)
    a = d.data[i]
    if a.size > 1 and a.size == a.shape[1]:  # one element in every channel
        i = d.viewed(i, (a.size, 1))
        a = d.data[i]
    count = a.size // max(a.shape[1], 1)
    over = (0, *range(2, a.ndim))
    return i if count > 1 and a.size and a.var(over).min() >= least else None


@draws("group_norm")
def _group_norm(d: Draft, i: int) -> Call:
    i, weight = _weighing(d, i, lambda n: (1, n, 3))
    i = d.into(d.with_ndim(i, 2, 4), -4.0, 4.0)
    channels = d.data[i].shape[1]
    groups = channels if channels and d.chance(0.4) else 1
    a = d.data[i]
    if not a.size or a.reshape(len(a), groups, -1).var(-1).min() < 0.05:
        return None
    operands = [d.other((channels,)) if d.chance(0.6) else None for _ in range(2)]
    operands[0] = operands[0] if weight is None else weight
    return (i, *operands), {"num_groups": groups, "eps": d.choose([1e-5, 0.125])}


@draws("batch_moments")
def _batch_moments(d: Draft, i: int) -> Call:
    place = _channels(d, i, 0.0)
    return None if place is None else ((place,), {})


@draws("batch_norm")
def _batch_norm(d: Draft, i: int) -> Call:
    i, weight = _weighing(d, i, lambda n: (3, n))
    place = _channels(d, i, 0.05)
    if place is None:
        return None
    channels = d.data[place].shape[1]
    if d.chance(0.6):
        statistics = d.bridge("batch_moments", place)
    else:
        statistics = d.into(d.other((2, channels)), 0.25, 4.0)
    operands = [d.other((channels,)) if d.chance(0.6) else None for _ in range(2)]
    operands[0] = operands[0] if weight is None else weight
    return (place, statistics, *operands), {"eps": d.choose([1e-5, 0.125])}


@draws("binary_cross_entropy")
def _binary_cross_entropy(d: Draft, i: int) -> Call:
    other = d.into(d.other(d.data[i].shape), 0.125, 0.875)
    i = d.into(i, 0.125, 0.875)
    return ((i, other) if d.chance(0.7) else (other, i)), {}


@draws("dropout")
def _dropout(d: Draft, i: int) -> Call:
    p = 0.5 if d.exact else d.choose([0.5, 0.25, 0.2, 0.0])
    if d.data[i].dtype.kind == "b":
        return (d.other(d.data[i].shape), i), {"p": p}
    return (i, d.constant(d.rng.random(d.data[i].shape) < 0.7)), {"p": p}


def _attention(d: Draft, i: int, valued: bool) -> Call:
    i = d.into(d.with_ndim(i, 2, 3), -3.0, 3.0)
    *lead, length, width = d.data[i].shape
    if 0 in (length, width) or length * width > 6 or math.prod(lead) > 2:
        return None
    keys = d.integer(1, 3)
    role = d.choose(["query", "key", "value"] if valued else ["query", "key"])
    shapes = {
        "query": (*lead, keys, width),
        "key": (*lead, keys, width),
        "value": (*lead, keys, d.integer(1, 3)),
    }
    if role == "key":
        shapes["value"] = (*lead, length, 2)
    if role == "value":
        shapes["key"] = (*lead, length, 2)
        shapes["query"] = (*lead, keys, 2)
    names = ["query", "key", "value"] if valued else ["query", "key"]
    operands = [i if name == role else d.other(shapes[name]) for name in names]
    operands = [d.into(j, -3.0, 3.0) for j in operands]
    causal = d.chance(0.3)
    rows, seen = d.data[operands[0]].shape[-2], d.data[operands[1]].shape[-2]
    mask = d.other((rows, seen)) if not causal and d.chance(0.4) else None
    return (*operands, mask), {"is_causal": causal, "scale": d.choose([None, 0.5])}


@draws("attention_weights")
def _attention_weights(d: Draft, i: int) -> Call:
    return _attention(d, i, valued=False)


@draws("scaled_dot_product_attention")
def _scaled_dot_product_attention(d: Draft, i: int) -> Call:
    return _attention(d, i, valued=True)


# Convolution and pooling.


def _planes(d: Draft, i: int) -> int:
    """The value i as planes of at most 3 by 3."""
    i = d.into(d.with_ndim(i, 3, 4), -4.0, 4.0)
    shape = d.data[i].shape
    if len(shape) == 3 and not shape[0]:
        i = d.viewed(i, (1, *shape))
        shape = (1, *shape)
    if d.chance(0.5) and math.prod(shape) <= 9 and math.prod(shape) > 1:
        size = math.prod(shape)
        sides = [k for k in (1, 2, 3) if size % k == 0]
        k = d.choose(sides)
        i = d.viewed(i, (1, 1, k, size // k))
    return i


def _convolution(d: Draft, i: int) -> tuple[int, int, dict[str, Any]] | None:
    """The input, a weight, and how it moves; the given value is the one or the other."""
    i = _planes(d, i)
    shape = d.data[i].shape
    attrs: dict[str, Any] = {
        "stride": d.choose([1, 1, 2, (2, 1)]),
        "padding": d.choose([0, 0, 1, (0, 1)]),
        "dilation": d.choose([1, 1, 1, 2]),
    }
    if d.chance(0.3) and len(shape) == 4 and max(shape[2:]) <= 3:  # as the weight
        planes = d.other((1, shape[1], min(shape[2] + 1, 3), min(shape[3] + 1, 3)))
        return planes, i, attrs | {"dilation": 1}
    groups = shape[-3] if d.chance(0.3) and shape[-3] else 1
    taps = [d.integer(1, min(n, 2) + 1) for n in shape[-2:]]
    weight = d.other((groups * d.integer(1, 3), shape[-3] // groups, *taps))
    return i, weight, attrs | {"groups": groups}


@draws("conv2d")
def _conv2d(d: Draft, i: int) -> Call:
    found = _convolution(d, i)
    if found is None:
        return None
    planes, weight, attrs = found
    bias = d.other(d.data[weight].shape[:1]) if d.chance(0.5) else None
    return (planes, weight, bias), attrs


def _convolved(d: Draft, planes: tuple[int, ...], weight: tuple[int, ...], attrs: Any) -> Any:
    """The shape of a convolution's result."""
    steps = []
    for k, (size, taps) in enumerate(zip(planes[-2:], weight[-2:], strict=True)):
        stride, padding, dilation = (
            v if isinstance(v, int) else v[k]
            for v in (attrs["stride"], attrs["padding"], attrs["dilation"])
        )
        steps.append((size + 2 * padding - dilation * (taps - 1) - 1) // stride + 1)
    return (*planes[:-3], weight[0], *steps)


@draws("conv2d_input_adjoint")
def _conv2d_input_adjoint(d: Draft, i: int) -> Call:
    i = _planes(d, i)
    *lead, outputs, height, width = d.data[i].shape
    if not outputs or not height or not width:
        return None
    taps = (d.integer(1, 3), d.integer(1, 3))
    each = d.integer(1, 3)
    weight = d.other((outputs, each, *taps))
    shape = (*lead, each, height + taps[0] - 1, width + taps[1] - 1)
    return (i, weight), {"shape": shape}


@draws("conv2d_weight_adjoint")
def _conv2d_weight_adjoint(d: Draft, i: int) -> Call:
    i = _planes(d, i)
    *lead, outputs, height, width = d.data[i].shape
    if not outputs or not height or not width:
        return None
    taps = (d.integer(1, 3), d.integer(1, 3))
    planes = d.other((*lead, 1, height + taps[0] - 1, width + taps[1] - 1))
    return (i, planes), {"shape": (outputs, 1, *taps)}


@draws("max_pool2d", "max_pool2d_indices")
def _max_pool2d(d: Draft, i: int) -> Call:
    i = _planes(d, i)
    taps = [d.integer(1, min(n, 2) + 1) for n in d.data[i].shape[-2:] if n]
    if len(taps) < 2:
        return None
    return (i,), {"kernel_size": tuple(taps), "stride": d.choose([None, 1])}


@draws("avg_pool2d")
def _avg_pool2d(d: Draft, i: int) -> Call:
    call = _max_pool2d(d, i)
    if call is None:
        return None
    operands, attrs = call
    attrs["padding"] = d.choose([0, 1]) if min(attrs["kernel_size"]) > 1 else 0
    attrs["count_include_pad"] = d.chance(0.5)
    attrs["divisor_override"] = 2 if d.chance(0.2) else None
    return operands, attrs


@draws("im2col")
def _im2col(d: Draft, i: int) -> Call:
    i = _planes(d, i)
    taps = tuple(d.integer(1, min(n, 2) + 1) for n in d.data[i].shape[-2:])
    return (i,), {"kernel_size": taps, "padding": d.choose([0, 0, 1]), "stride": d.choose([1, 2])}


@draws("col2im")
def _col2im(d: Draft, i: int) -> Call:
    i = d.with_ndim(i, 2, 3)
    taps, steps = d.data[i].shape[-2:]
    if not taps or not steps:
        return None
    return (i,), {"output_size": (1, taps + steps - 1), "kernel_size": (1, taps)}


@draws("avg_pool2d_adjoint")
def _avg_pool2d_adjoint(d: Draft, i: int) -> Call:
    i = _planes(d, i)
    shape = d.data[i].shape
    if not math.prod(shape[-2:]):
        return None
    taps = (d.integer(1, 3), d.integer(1, 3))
    planes = (*shape[:-2], shape[-2] + taps[0] - 1, shape[-1] + taps[1] - 1)
    return (i,), {"shape": planes, "kernel_size": taps, "stride": 1}


OPS: Final = [*drawable(), *SPECIAL]
