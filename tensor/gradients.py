"""What is done to the gradients that the leaves have collected."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .dispatch import quietly
from .graph import Array
from .tensor import Tensor
from .tracing import TRACER

__all__ = ["clear_grad", "replace_grad"]


def clear_grad(tensor: Tensor, set_to_none: bool) -> None:
    """Drop the gradient of ``tensor``, or set it to 0."""
    tracer = TRACER.get()
    if tracer is not None and not set_to_none and tensor.grad is not None:
        zero = Tensor._wrap(np.zeros(tensor.shape, tensor.dtype))
        tracer.constant(zero)
        tensor.grad = zero
    elif set_to_none:
        tensor.grad = None
    elif tensor.grad is not None:
        replace_grad(tensor.grad, tensor, lambda array, out: np.copyto(out, 0))


def replace_grad(gradient: Tensor, tensor: Tensor, function: Callable[[Array, Array], Any]) -> None:
    """Put what ``function(array, out)`` writes in the place of the gradient of ``tensor``.

    In place where the memory may be overwritten; a gradient that was recorded,
    or is a view that cannot be written to, is left alone and replaced.
    """
    array = gradient.data
    if gradient.node is not None or not array.flags.writeable:
        out = np.empty(array.shape, array.dtype)
        quietly().run(function, array, out)
        tensor.grad = Tensor._wrap(out)
    else:
        quietly().run(function, array, array)
        gradient._shared_version().count += 1
