"""Loops of special functions that numba compiles: the twins of ``special``.

They do what numpy does, operation by operation, so that results are equal bit for bit; but without
a pass over memory for each. Exponentials and hyperbolic tangents are numpy's, of a block at a time.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..graph import Array
from . import jit, special
from .compiled import exact
from .norms import Places, wanted
from .room import Memory, contiguous, fresh

__all__ = ["erf", "gelu", "gelu_backward"]


@functools.cache
def _fit(dtype: np.dtype[Any]) -> Any:
    """Return the coefficients of the two polynomials, and 1, 2 and the end, in a dtype."""
    number, fit = dtype.type, special.FITS[dtype]
    near, far = (tuple(map(number, coefficients)) for coefficients in fit)
    return near, far, number(1), number(2), number(special.TOP)


@exact
def _polynomial(coefficients: Any, t: Any) -> Any:
    total = coefficients[-1]
    for k in range(len(coefficients) - 2, -1, -1):
        total = total * t + coefficients[k]
    return total


@exact
def _exponents_loop(a: Any, factor: Any, top: Any, out: Any) -> None:
    """Write the exponents to ``out`` that ``erf(a * factor)`` needs if it is far from 0."""
    for i in range(len(a)):
        y = abs(a[i] * factor)
        y = y if y < top or y != y else top
        out[i] = -y * y


@exact
def _erf(x: Any, e: Any, fit: Any) -> Any:
    """Return the error function of ``x``, given the exponential that it needs far from 0."""
    near, far, one, two, top = fit
    y = abs(x)
    z = y if y < top or y != y else top
    tail = one - _polynomial(far, (z - two) / (z + two)) * e
    tail = -tail if x < 0 else tail
    return tail if y >= one else _polynomial(near, x * x) * x + x


@exact
def _erf_loop(a: Any, fit: Any, out: Any) -> None:
    for i in range(len(a)):
        out[i] = _erf(a[i], out[i], fit)


@exact
def _gelu_loop(a: Any, factor: Any, half: Any, fit: Any, out: Any) -> None:
    one = fit[2]
    for i in range(len(a)):
        out[i] = a[i] * half * (_erf(a[i] * factor, out[i], fit) + one)


@exact
def _squares_loop(a: Any, factor: Any, out: Any) -> None:
    for i in range(len(a)):
        out[i] = a[i] * a[i] * factor


@exact
def _gelu_backward_loop(
    g: Any, a: Any, density: Any, e: Any, factors: Any, fit: Any, out: Any
) -> None:
    root, half, factor = factors
    one = fit[2]
    for i in range(len(a)):
        phi = (_erf(a[i] * root, e[i], fit) + one) * half
        out[i] = g[i] * (phi + a[i] * (density[i] * factor))


def _takes(a: Array, *others: Array) -> bool:
    alike = all(b.dtype == a.dtype for b in others)
    return alike and a.dtype in (jit.SINGLE, jit.DOUBLE)


def _blocks(room: Memory, arrays: Sequence[Array]) -> Any:
    """Return the arrays in parts that stay in the cache."""
    flat = [contiguous(room, f"flat{i}", a).reshape(-1) for i, a in enumerate(arrays)]
    ends = range(0, flat[0].size, special.BLOCK)
    return ([a[start : start + special.BLOCK] for a in flat] for start in ends)


def erf(a: Array, into: Array | None = None, room: Memory = fresh) -> Any:
    """Return the error function of every element."""
    if not _takes(a):
        return NotImplemented
    out = np.empty(a.shape, a.dtype) if into is None else into
    fit, one = _fit(a.dtype), a.dtype.type(1)
    for x, result in _blocks(room, (a, out)):
        _exponents_loop(x, one, fit[-1], result)
        np.exp(result, out=result)
        _erf_loop(x, fit, result)
    return out


def gelu(a: Array, approximate: str, into: Array | None = None, room: Memory = fresh) -> Any:
    """Return ``a * Phi(a)``."""
    if approximate != "none" or not _takes(a):
        return NotImplemented
    out = np.empty(a.shape, a.dtype) if into is None else into
    number, fit = a.dtype.type, _fit(a.dtype)
    root, half = number(special.ROOT), number(0.5)
    for x, result in _blocks(room, (a, out)):
        _exponents_loop(x, root, fit[-1], result)
        np.exp(result, out=result)
        _gelu_loop(x, root, half, fit, result)
    return out


def gelu_backward(
    g: Array,
    needs: Sequence[bool],
    a: Array,
    approximate: str,
    into: Places | None = None,
    room: Memory = fresh,
) -> Any:
    """Return ``g (Phi(a) + a phi(a))``."""
    if approximate != "none" or not _takes(a, g):
        return NotImplemented
    (gradient,) = wanted((True,), (a.shape,), a.dtype, into)
    assert gradient is not None
    number, fit = a.dtype.type, _fit(a.dtype)
    factors = number(special.ROOT), number(0.5), number(special.DENSITY)
    density, e = (room(name, (special.BLOCK,), a.dtype) for name in ("density", "e"))
    for above, x, result in _blocks(room, (g, a, gradient)):
        d, f = density[: len(x)], e[: len(x)]
        _squares_loop(x, number(-0.5), d)
        np.exp(d, out=d)
        _exponents_loop(x, factors[0], fit[-1], f)
        np.exp(f, out=f)
        _gelu_backward_loop(above, x, d, f, factors, fit, result)
    return (gradient,)
