"""Attention, a few rows of scores at a time, so that they never all exist at once."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from ..graph import Array
from .half import in_single
from .norms import Places, wanted
from .room import Memory, fresh

__all__ = ["attention", "attention_backward", "attention_weights", "attention_weights_backward"]

# The scores of one tile take about this many bytes, and stay in the second-level cache.
TILE: Final = 2**19

# A tile has no fewer rows: products of matrices that are thinner are slow.
FEW_ROWS: Final = 32


class _Tile(NamedTuple):
    """Some samples of the first batch dimension, some rows, and the keys that these may see."""

    samples: slice
    rows: slice
    keys: slice

    def of_rows(self, a: Array) -> Array:
        """Return the part of a (..., L, n) array that belongs to the tile's rows."""
        return a[self.samples][..., self.rows, :]

    def of_keys(self, a: Array) -> Array:
        """Return the part of a (..., S, n) array that belongs to the tile's keys."""
        return a[self.samples][..., self.keys, :]

    def of_scores(self, a: Array) -> Array:
        """Return the part of a (..., L, S) array that belongs to the tile."""
        return a[self.samples][..., self.rows, self.keys]


def _tiles(shape: Sequence[int], itemsize: int, causal: bool) -> Iterator[_Tile]:
    """Yield tiles of scores of ``shape`` (N, ..., L, S) that together hold all that is needed."""
    samples, length, keys = shape[0], shape[-2], shape[-1]
    width = max(1, math.prod(shape[1:-2]) * keys * itemsize)
    height = max(FEW_ROWS, TILE // width)
    if causal:  # half of the scores are not needed, and narrow tiles leave most of them out
        height = min(height, max(FEW_ROWS, length // 4))
    together = max(1, TILE // (width * max(1, min(height, length))))
    for first in range(0, samples, together):
        for top in range(0, length, height):
            bottom = min(top + height, length)
            seen = min(bottom, keys) if causal else keys
            part = slice(first, min(first + together, samples))
            yield _Tile(part, slice(top, bottom), slice(0, seen))


def _bias(query: Array, key: Array, mask: Array | None, causal: bool, room: Memory) -> Array | None:
    """Return what is added to the scores (L, S)."""
    if not causal:
        return mask
    shape = query.shape[-2], key.shape[-2]
    seen, bias = room("seen", shape, bool), room("bias", shape, query.dtype)
    np.greater_equal(np.arange(shape[0])[:, None], np.arange(shape[1]), out=seen)
    bias.fill(-np.inf)
    np.copyto(bias, 0, where=seen)
    return bias


def _exponentials(
    query: Array, key: Array, bias: Array | None, room: Memory, into: Array | None = None
) -> tuple[Array, Array]:
    """Return the exponentials of the scores, shifted by their maximum, and the sum of each row.

    Of a row that is -inf throughout, they are 0, and the sum is given as 1.
    """
    batch = np.broadcast_shapes(query.shape[:-2], key.shape[:-2])
    shape, dtype = (*batch, query.shape[-2], key.shape[-2]), query.dtype
    scores = room("exponentials", shape, dtype) if into is None else into
    np.matmul(query, key.swapaxes(-1, -2), out=scores)
    if bias is not None:
        np.add(scores, bias, out=scores)
    # With an initial value numpy takes the maximum of short rows in less than half of the time.
    top, none = room("top", (*shape[:-1], 1), dtype), room("none", (*shape[:-1], 1), bool)
    np.max(scores, axis=-1, keepdims=True, initial=-np.inf, out=top)
    np.copyto(top, 0, where=np.equal(top, -np.inf, out=none))
    np.subtract(scores, top, out=scores)
    np.exp(scores, out=scores)
    # A product with ones is the fastest sum of short rows.
    ones = room("ones", (shape[-1], 1), dtype)
    ones.fill(1)
    total = np.matmul(scores, ones, out=top)
    np.copyto(total, 1, where=np.equal(total, 0, out=none))
    return scores, total


def _scaled(query: Array, scale: float, room: Memory) -> Array:
    scaled = room("scaled", query.shape, query.dtype)
    np.multiply(query, query.dtype.type(scale), out=scaled)
    return scaled


@in_single
def attention_weights(
    query: Array,
    key: Array,
    mask: Array | None,
    causal: bool,
    scale: float,
    into: Array | None = None,
    room: Memory = fresh,
) -> Any:
    """Return ``softmax(scale query key^T + mask)``, all of it."""
    bias = _bias(query, key, mask, causal, room)
    exponentials, total = _exponentials(_scaled(query, scale, room), key, bias, room, into)
    return np.divide(exponentials, total, out=exponentials)


@in_single
def attention_weights_backward(
    g: Array,
    needs: Sequence[bool],
    query: Array,
    key: Array,
    out: Array,
    scale: float,
    into: Places | None = None,
    room: Memory = fresh,
) -> tuple[Any, Any, Any]:
    """Return the gradients of query, key and mask from that of the weights, ``out``."""
    batch = out.shape[:-2]
    shapes = (*batch, *query.shape[-2:]), (*batch, *key.shape[-2:]), out.shape
    for_query, for_key, for_mask = wanted(needs, shapes, g.dtype, into)
    along = room("along", (*out.shape[:-1], 1), g.dtype)
    np.einsum("...ij,...ij->...i", g, out, out=along[..., 0])
    scores = room("scores", out.shape, g.dtype) if for_mask is None else for_mask
    np.subtract(g, along, out=scores)
    np.multiply(scores, out, out=scores)
    factor = scores.dtype.type(scale)
    if for_query is not None:
        np.multiply(np.matmul(scores, key, out=for_query), factor, out=for_query)
    if for_key is not None:
        np.matmul(scores.swapaxes(-1, -2), query, out=for_key)
        np.multiply(for_key, factor, out=for_key)
    return for_query, for_key, for_mask


class _Batch(NamedTuple):
    """The operands with the same batch dimensions, one at least, and the query scaled."""

    query: Array
    key: Array
    value: Array
    bias: Array | None
    tiles: list[_Tile]
    room: Memory

    @classmethod
    def of(
        cls,
        query: Array,
        key: Array,
        value: Array,
        mask: Array | None,
        causal: bool,
        scale: float,
        room: Memory,
    ) -> _Batch:
        batch = np.broadcast_shapes(query.shape[:-2], key.shape[:-2], value.shape[:-2]) or (1,)
        bias = _bias(query, key, mask, causal, room)
        shape = (*batch, query.shape[-2], key.shape[-2])
        return cls(
            np.broadcast_to(_scaled(query, scale, room), (*batch, *query.shape[-2:])),
            np.broadcast_to(key, (*batch, *key.shape[-2:])),
            np.broadcast_to(value, (*batch, *value.shape[-2:])),
            None if bias is None else np.broadcast_to(bias, shape),
            list(_tiles(shape, query.itemsize, causal)),
            room,
        )

    def exponentials(self, tile: _Tile) -> tuple[Array, Array]:
        """Return those of one tile, and their sums."""
        bias = None if self.bias is None else tile.of_scores(self.bias)
        return _exponentials(tile.of_rows(self.query), tile.of_keys(self.key), bias, self.room)


@in_single
def attention(
    query: Array,
    key: Array,
    value: Array,
    mask: Array | None,
    causal: bool,
    scale: float,
    into: Array | None = None,
    room: Memory = fresh,
) -> Any:
    """Return ``softmax(scale query key^T + mask) value``."""
    batch = _Batch.of(query, key, value, mask, causal, scale, room)
    shape = (*batch.query.shape[:-1], value.shape[-1])
    out = np.empty(shape, query.dtype) if into is None else into.reshape(shape)
    for tile in batch.tiles:
        exponentials, total = batch.exponentials(tile)
        target = tile.of_rows(out)
        np.matmul(exponentials, tile.of_keys(batch.value), out=target)
        np.divide(target, total, out=target)  # not each weight: there are more of them
    return out[0] if query.ndim == key.ndim == value.ndim == 2 else out


@in_single
def attention_backward(
    g: Array,
    needs: Sequence[bool],
    query: Array,
    key: Array,
    value: Array,
    mask: Array | None,
    causal: bool,
    scale: float,
    into: Places | None = None,
    room: Memory = fresh,
) -> tuple[Any, ...]:
    """Return the gradients of query, key, value and mask; the weights are made a second time.

    With exponentials E, their sums t by row, and ``d = (g / t) value^T``, that
    of the scores is ``E * (d - sum(d * E) / t)``.
    """
    batch = _Batch.of(query, key, value, mask, causal, scale, room)
    lead = batch.query.shape[:-2]
    g = g.reshape(*lead, *g.shape[-2:])
    shape = (*lead, query.shape[-2], key.shape[-2])
    sources = (batch.query.shape, batch.key.shape, batch.value.shape, shape)
    given = None
    if into is not None:
        given = [
            None if place is None else place.reshape(source)
            for place, source in zip(into[:3], sources, strict=False)
        ]
        given.append(None if into[3] is None else room("mask", shape, g.dtype))
    grads = list(wanted(needs, sources, g.dtype, given))
    for gradient in grads:
        if gradient is not None:
            gradient.fill(0)
    for_query, for_key, for_value, for_mask = grads
    for tile in batch.tiles:
        exponentials, total = batch.exponentials(tile)
        h = tile.of_rows(g)
        h = np.divide(h, total, out=room("h", h.shape, g.dtype))
        if for_value is not None:
            target = tile.of_keys(for_value)
            product = room("product", target.shape, g.dtype)
            np.add(target, np.matmul(exponentials.swapaxes(-1, -2), h, out=product), out=target)
        if for_query is None and for_key is None and for_mask is None:
            continue
        scores = room("scores", exponentials.shape, g.dtype)
        np.matmul(h, tile.of_keys(batch.value).swapaxes(-1, -2), out=scores)
        along = room("along", total.shape, g.dtype)
        np.einsum("...ij,...ij->...i", scores, exponentials, out=along[..., 0])
        np.divide(along, total, out=along)
        np.subtract(scores, along, out=scores)
        np.multiply(scores, exponentials, out=scores)
        if for_query is not None:
            np.matmul(scores, tile.of_keys(batch.key), out=tile.of_rows(for_query))
        if for_key is not None:
            target, rows = tile.of_keys(for_key), tile.of_rows(batch.query)
            product = room("product", target.shape, g.dtype)
            np.add(target, np.matmul(scores.swapaxes(-1, -2), rows, out=product), out=target)
        if for_mask is not None:
            tile.of_scores(for_mask)[...] = scores
    if for_query is not None:
        np.multiply(for_query, g.dtype.type(scale), out=for_query)
    if for_mask is not None and mask is not None:
        grads[3] = _summed(for_mask, mask.shape, None if into is None else into[3])
    if query.ndim == key.ndim == value.ndim == 2:
        grads[:3] = [None if gradient is None else gradient[0] for gradient in grads[:3]]
    return tuple(grads)


def _summed(scores: Array, shape: tuple[int, ...], into: Array | None) -> Array:
    """Return what ``shape`` was expanded from, summed over what was repeated."""
    ahead = scores.ndim - len(shape)
    repeated = tuple(d for d, n in enumerate(scores.shape) if d < ahead or shape[d - ahead] != n)
    if into is None:
        return scores.sum(axis=repeated).reshape(shape) if repeated else scores
    kept = tuple(1 if d in repeated else n for d, n in enumerate(scores.shape))
    np.add.reduce(scores, repeated, keepdims=True, out=into.reshape(kept))
    return into
