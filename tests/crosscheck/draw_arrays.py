"""Draws of reductions, products and changes of shape."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

import numpy as np

from tests.crosscheck.draw_table import Call, broadcast, draws
from tests.crosscheck.programs import SAME

if TYPE_CHECKING:
    from tests.crosscheck.generate import Draft

__all__: list[str] = []


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
    return (i, d.other(broadcast(d, i))), {}


@draws("bitwise_and", "bitwise_or", "bitwise_xor")
def _bitwise(d: Draft, i: int) -> Call:
    if d.data[i].dtype.kind != "b":
        i = d.bridge("gt", i, d.constant(np.array(0.375)))
    return (i, d.constant(d.rng.random(broadcast(d, i)) < 0.5)), {}


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
