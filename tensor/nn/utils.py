"""What is done to the parameters of a model as a whole: clipping gradients, and one vector."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from .. import ops
from ..dispatch import quietly
from ..errors import ShapeError
from ..gradients import replace_grad
from ..graph import Array
from ..modes import no_grad
from ..tensor import Tensor
from ..tracing import TRACER, Tracer

__all__ = [
    "clip_grad_norm_",
    "clip_grad_value_",
    "get_total_norm",
    "parameters_to_vector",
    "vector_to_parameters",
]

# What a norm is enlarged by before it divides, so that a clipped one does not exceed the limit.
_MARGIN = 1e-6


def clip_grad_norm_(
    parameters: Tensor | Iterable[Tensor],
    max_norm: float,
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
) -> Tensor:
    """Scale the gradients of ``parameters``, in place, so that their total norm is at most a limit.

    All gradients are multiplied by ``min(1, max_norm / (norm + 1e-6))``, where
    the norm is that of all of them in one vector.

    Args:
        parameters: Tensors, or one; a parameter without a gradient is left out, one that comes
            twice counts once.
        max_norm: the limit.
        norm_type: the order p of the norm, positive; may be inf.
        error_if_nonfinite: raise if the norm is infinite or NaN, rather than scale by it.

    Returns:
        The total norm before the change; 0 where there is no gradient.

    Source: Pascanu, Mikolov and Bengio, 2012, arXiv:1211.5063.

    Raises:
        TypeError: something is not a Tensor.
        ValueError: a limit or an order that makes no sense.
        RuntimeError: the norm is not finite. Nothing has changed then.
    """
    name = "clip_grad_norm_"
    if not max_norm >= 0:
        raise ValueError(f"{name}: max_norm must be 0 or more, got {max_norm}")
    listed = _with_gradients(name, parameters)
    tracer = TRACER.get()
    if tracer is not None:

        def clip(*arrays: Array) -> tuple[Array, ...]:
            total = _total_norm(name, _wrapped(arrays), norm_type, error_if_nonfinite)
            factor = min(max_norm / (total.item() + _MARGIN), 1.0)  # NaN where the norm is
            return total.data, *(array * array.dtype.type(factor) for array in arrays)

        norm: Tensor = _traced(tracer, name, listed, clip)
        return norm
    total = _total_norm(name, [gradient for _, gradient in listed], norm_type, error_if_nonfinite)
    factor = max_norm / (total.item() + _MARGIN)
    if not factor >= 1:  # NaN too
        for parameter, gradient in listed:
            replace_grad(gradient, parameter, lambda g, out: np.multiply(g, factor, out=out))
    return total


def clip_grad_value_(parameters: Tensor | Iterable[Tensor], clip_value: float) -> None:
    """Limit every element of the gradients of ``parameters``, in place, to ``+-clip_value``.

    Raises:
        TypeError: something is not a Tensor.
        ValueError: ``clip_value`` is negative or NaN.
    """
    if not clip_value >= 0:
        raise ValueError(f"clip_grad_value_: clip_value must be 0 or more, got {clip_value}")
    listed, tracer = _with_gradients("clip_grad_value_", parameters), TRACER.get()
    if tracer is not None:

        def clip(*arrays: Array) -> tuple[Array | None, ...]:
            return None, *(np.clip(array, -clip_value, clip_value) for array in arrays)

        _traced(tracer, "clip_grad_value_", listed, clip)
        return
    for parameter, gradient in listed:
        replace_grad(
            gradient, parameter, lambda g, out: np.clip(g, -clip_value, clip_value, out=out)
        )


def get_total_norm(
    tensors: Tensor | Iterable[Tensor], norm_type: float = 2.0, error_if_nonfinite: bool = False
) -> Tensor:
    """Return the norm of all elements of ``tensors`` in one vector, 0-d; 0 of no tensors.

    Arguments and errors as for ``clip_grad_norm_``.
    """
    listed, tracer = _listed("get_total_norm", tensors), TRACER.get()
    if tracer is not None:

        def norm(*arrays: Array) -> tuple[Array]:
            wrapped = _wrapped(arrays)
            return (_total_norm("get_total_norm", wrapped, norm_type, error_if_nonfinite).data,)

        (total,) = quietly().run(norm, *(tensor.data for tensor in listed))
        tracer.several("get_total_norm", norm, listed, (total,), {})
        return Tensor._wrap(total)
    return _total_norm("get_total_norm", listed, norm_type, error_if_nonfinite)


def parameters_to_vector(parameters: Iterable[Tensor]) -> Tensor:
    """Return all elements of ``parameters``, in order, in one vector; differentiable.

    Raises:
        TypeError: something is not a Tensor.
        ValueError: there are none.
    """
    listed = _listed("parameters_to_vector", parameters)
    if not listed:
        raise ValueError("parameters_to_vector: there are no parameters")
    return ops.cat([parameter.reshape(-1) for parameter in listed])


def vector_to_parameters(vec: Tensor, parameters: Iterable[Tensor]) -> None:
    """Copy the elements of a vector, in order, into ``parameters``.

    Raises:
        TypeError: something is not a Tensor.
        ShapeError: another number of elements. Nothing has changed then.
    """
    (vector,) = _listed("vector_to_parameters: vec", vec)
    listed = _listed("vector_to_parameters", parameters)
    count = sum(parameter.numel() for parameter in listed)
    if vector.shape != (count,):
        raise ShapeError(
            f"vector_to_parameters: the parameters have {count} elements, "
            f"but vec has shape {vector.shape}"
        )
    start = 0
    with no_grad():
        for parameter in listed:
            stop = start + parameter.numel()
            parameter.copy_(vector.data[start:stop].reshape(parameter.shape))
            start = stop


def _listed(name: str, tensors: Tensor | Iterable[Tensor]) -> list[Tensor]:
    listed = [tensors] if isinstance(tensors, Tensor) else list(tensors)
    for i, tensor in enumerate(listed):
        if not isinstance(tensor, Tensor):
            raise TypeError(f"{name}: number {i} is not a Tensor but {type(tensor).__name__}")
    return listed


def _with_gradients(
    name: str, parameters: Tensor | Iterable[Tensor]
) -> list[tuple[Tensor, Tensor]]:
    """Return every parameter that has a gradient, once, and its gradient."""
    once = {id(parameter): parameter for parameter in _listed(name, parameters)}
    return [(p, p.grad) for p in once.values() if p.grad is not None]


def _wrapped(arrays: Iterable[Array]) -> list[Tensor]:
    return [Tensor._wrap(array) for array in arrays]


def _traced(
    tracer: Tracer,
    name: str,
    listed: Sequence[tuple[Tensor, Tensor]],
    kernel: Callable[..., Sequence[Array | None]],
) -> Any:
    """Write down a change of gradients: ``kernel`` makes of them a result and the new ones.

    Where a function is traced they are new arrays, for a replay cannot see what is done to old
    ones.
    """
    sources = [gradient for _, gradient in listed]
    result, *changed = arrays = quietly().run(kernel, *(source.data for source in sources))
    tracer.several(name, kernel, sources, arrays, {})
    for (parameter, _), array in zip(listed, changed, strict=True):
        parameter._grad = None if array is None else Tensor._wrap(array)
    return None if result is None else Tensor._wrap(result)


def _total_norm(
    name: str, tensors: Sequence[Tensor], order: float, error_if_nonfinite: bool
) -> Tensor:
    if not order > 0:
        raise ValueError(f"{name}: norm_type must be positive, got {order}")
    arrays = [tensor.data for tensor in tensors]
    total = quietly().run(_norm, arrays, float(order))
    if error_if_nonfinite and not math.isfinite(total):
        raise RuntimeError(
            f"{name}: the total norm of order {order} is {total}, so it cannot be clipped; "
            "detect_anomaly() finds where that comes from, and error_if_nonfinite=False scales "
            "by it nevertheless"
        )
    dtype = np.result_type(*arrays) if arrays else None
    return Tensor(total, dtype)


def _norm(arrays: Sequence[Array], order: float) -> float:
    if order == math.inf:
        return float(np.max([np.max(np.abs(a), initial=0) for a in arrays], initial=0))
    total = sum(_power_sum(a, order) for a in arrays)
    if not math.isfinite(total):  # perhaps only the powers are too large
        peak = _norm(arrays, math.inf)
        if math.isfinite(peak):
            scaled = (a.astype(np.float64) / peak for a in arrays)
            return peak * math.pow(sum(_power_sum(a, order) for a in scaled), 1 / order)
    return math.pow(total, 1 / order)


def _power_sum(array: Array, order: float) -> float:
    flat = array.reshape(-1)
    if flat.dtype == np.float16:
        flat = flat.astype(np.float32)
    if order == 2:
        return float(np.dot(flat, flat))
    return float(np.sum(np.abs(flat) ** order))
