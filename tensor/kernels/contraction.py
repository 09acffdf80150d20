"""Sums of products in Einstein's notation, two operands at a time and each pair as one GEMM."""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from ..graph import Array
from ..subscripts import parse
from . import reference
from .half import in_single
from .room import Memory, contiguous, fresh

__all__ = ["einsum"]


def einsum(arrays: Sequence[Array], equation: str, room: Memory = fresh) -> Array:
    """Return the sum of products; of one operand of which nothing is summed, a view."""
    subscripts = parse(equation, tuple(a.shape for a in arrays))
    out, lengths = subscripts.out, subscripts.lengths
    work = [_distinct(a, t, lengths) for a, t in zip(arrays, subscripts.terms, strict=True)]
    for i, j in subscripts.path:
        (b, right), (a, left) = work.pop(j), work.pop(i)
        later = {letter for _, term in work for letter in term}
        # Products of different pairs are there at the same time, so their memory has other names.
        own = partial(_renamed, room, f"{len(work)}")
        work.append(_pair(a, left, b, right, out, later, own))
    ((result, term),) = work
    ordered: Array
    ordered, term = _summed(result, term, out)
    if term == out and len(arrays) > 1:
        return ordered
    return ordered.transpose([term.index(letter) for letter in out])


def _distinct(a: Array, term: str, lengths: Mapping[str, int]) -> tuple[Array, str]:
    """Return a view with every index once, and without those that are only repeated along."""
    letters = "".join(dict.fromkeys(term))
    if letters != term:  # a diagonal
        a = np.einsum(a, [letters.index(c) for c in term], list(range(len(letters))))
    whole = [n == lengths[c] for c, n in zip(letters, a.shape, strict=True)]
    if not all(whole):
        a = a.squeeze(tuple(d for d, full in enumerate(whole) if not full))
        letters = "".join(itertools.compress(letters, whole))
    return a, letters


def _renamed(room: Memory, prefix: str, name: str, shape: tuple[int, ...], dtype: Any) -> Array:
    return room(f"{prefix} {name}", shape, dtype)


@in_single
def _summed(a: Array, term: str, kept: Collection[str]) -> tuple[Array, str]:
    """Return ``a`` summed over the indices that are not kept."""
    over = tuple(d for d, letter in enumerate(term) if letter not in kept)
    if over:
        a = np.asarray(reference.sum(a, over, False))
        term = "".join(letter for letter in term if letter in kept)
    return a, term


@in_single
def _pair(
    a: Array, left: str, b: Array, right: str, out: str, later: Collection[str], room: Memory
) -> tuple[Array, str]:
    """Return the product of two operands, summed over what neither ``out`` nor ``later`` has."""
    kept = {*out, *later}
    a, left = _summed(a, left, {*kept, *right})
    b, right = _summed(b, right, {*kept, *left})
    # What comes first in the result comes from the first factor, so that nothing need be moved.
    single = next((c for c in out if (c in left) != (c in right)), "")
    if single in right and single:
        a, left, b, right = b, right, a, left
    larger, smaller = (left, right) if a.size >= b.size else (right, left)
    shared = [c for c in larger if c in smaller]
    batch = [c for c in shared if c in kept]
    inner = [c for c in shared if c not in kept]
    rows = [c for c in left if c not in right]
    columns = [c for c in right if c not in left]
    sizes = dict(zip(left, a.shape, strict=True)) | dict(zip(right, b.shape, strict=True))
    if not inner:
        order = [c for c in out if c in sizes]
        order += [c for c in sizes if c not in order]
        product = room("product", tuple(sizes[c] for c in order), np.result_type(a, b))
        np.multiply(_aligned(a, left, order), _aligned(b, right, order), product)
        return product, "".join(order)
    order = [*batch, *rows, *columns]
    product = room("product", tuple(sizes[c] for c in order), np.result_type(a, b))
    a = _matrices(room, "left", a, left, batch, rows, inner)
    b = _matrices(room, "right", b, right, batch, inner, columns)
    target = product.reshape(*a.shape[:-1], b.shape[-1])
    if a.shape[-1] == 1:
        np.multiply(a, b, out=target)  # an outer product, which a GEMM is slow at
    elif batch and a.shape[-2] == b.shape[-1] == 1:
        np.vecdot(a[:, 0], b[:, :, 0], out=target[:, 0, 0])
    else:
        np.matmul(a, b, out=target)
    return product, "".join(order)


def _aligned(a: Array, term: str, order: Sequence[str]) -> Array:
    """Return a view with the dimensions in ``order``, of length 1 where ``a`` has none."""
    a = a.transpose([term.index(c) for c in order if c in term])
    return a[tuple(slice(None) if c in term else None for c in order)]


def _matrices(room: Memory, name: str, a: Array, term: str, *groups: Sequence[str]) -> Array:
    """Return ``a`` as a matrix, or as a batch of them: one dimension for each group of indices."""
    a = a.transpose([term.index(c) for group in groups for c in group])
    lengths = iter(a.shape)
    sizes = [math.prod(next(lengths) for _ in group) for group in groups]
    shape = tuple(sizes if groups[0] else sizes[1:])
    try:
        matrices = a.reshape(shape, copy=False)
    except ValueError:
        return contiguous(room, name, a).reshape(shape)
    # BLAS takes a matrix whose rows or columns lie without gaps.
    has_no_gaps = a.itemsize in matrices.strides[-2:]
    return matrices if has_no_gaps else contiguous(room, name, matrices)
