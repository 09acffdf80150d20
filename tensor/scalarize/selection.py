"""Expansions of the ops that choose and write elements by indices."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..graph import Array
from .expansions import Shape, expansion
from .scalars import Scalars, array_of, numbers_of

__all__: list[str] = []


def _along(shape: Shape, index: Array, dim: int) -> Array:
    """Return which element, counted in C order, each index along ``dim`` names."""
    numbers = numbers_of(index).astype(np.int64)
    at = np.indices(numbers.shape or (1,))
    at[dim] = numbers
    return np.arange(math.prod(shape)).reshape(shape or (1,))[tuple(at)].reshape(index.shape)


def _chosen(a: Array, places: Array) -> Array:
    elements = list(a.flat)
    return array_of((elements[place] for place in places.flat), places.shape)


def _written(a: Array, places: Array, values: Array) -> Array:
    elements = list(a.flat)
    for place, x in zip(places.flat, values.flat, strict=True):
        elements[place] = x
    return array_of(elements, a.shape)


@expansion
def setitem(m: Scalars, a: Array, value: Array, index: Any, accumulate: bool) -> Array:
    places = np.asarray(np.arange(a.size).reshape(a.shape)[index])
    values = np.broadcast_to(value, places.shape)
    if not accumulate:
        return _written(a, places, values)
    return m.add(a, m.scattered(values, places, a.size).reshape(a.shape))


@expansion
def gather(m: Scalars, a: Array, index: Array, dim: int) -> Array:
    return _chosen(a, _along(a.shape, index, dim))


@expansion
def gather_adjoint(m: Scalars, a: Array, index: Array, dim: int, shape: Shape) -> Array:
    return m.scattered(a, _along(shape, index, dim), math.prod(shape)).reshape(shape)


@expansion
def scatter(m: Scalars, a: Array, index: Array, src: Array, dim: int) -> Array:
    corner = tuple(slice(n) for n in index.shape)
    used = np.broadcast_to(src, index.shape) if src.ndim == 0 else src[corner]
    return _written(a, _along(a.shape, index, dim), used)


def _slices(shape: Shape, index: Array, dim: int) -> Array:
    """Return which elements, counted in C order, are in the slices that ``index`` names."""
    numbers = numbers_of(index).astype(np.int64).reshape(-1)
    return np.arange(math.prod(shape)).reshape(shape or (1,)).take(numbers, dim)


@expansion
def index_select(m: Scalars, a: Array, index: Array, dim: int, out_shape: Shape) -> Array:
    return _chosen(a, _slices(a.shape, index, dim).reshape(out_shape))


@expansion
def index_select_adjoint(
    m: Scalars, a: Array, index: Array, dim: int, length: int, out_shape: Shape
) -> Array:
    places = _slices(out_shape, index, dim)
    return m.scattered(a, places, math.prod(out_shape)).reshape(out_shape)
