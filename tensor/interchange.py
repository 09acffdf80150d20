"""What other array libraries do with a Tensor: numpy's functions, and memory by DLPack.

Source: the Python array API standard, 2023.12, data interchange.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from micro.vocab import VOCAB

from .dtypes import as_array

if TYPE_CHECKING:
    from .tensor import Tensor

__all__ = ["CPU", "capsule", "from_dlpack", "op_of"]

# The device of every Tensor: its type and its number.
CPU: Final = (1, 0)

# Types of memory that this processor can read: its own, and what CUDA and ROCm have pinned.
_READABLE: Final = {1, 3, 11}


# numpy's functions that are ops here. Where the names differ, both are given.
_UFUNCS: Final[Mapping[str, str]] = {
    **{name: name for name in VOCAB},
    "subtract": "sub",
    "multiply": "mul",
    "divide": "div",
    "negative": "neg",
    "power": "pow",
    "absolute": "abs",
    "arctan": "atan",
    "rint": "round",
    "invert": "bitwise_not",
    "equal": "eq",
    "not_equal": "ne",
    "less": "lt",
    "less_equal": "le",
    "greater": "gt",
    "greater_equal": "ge",
}


def op_of(ufunc: np.ufunc, method: str, kwargs: Mapping[str, Any]) -> str:
    """Return the name of the op that numpy's ``ufunc``, called with a Tensor, stands for.

    Raises:
        TypeError: there is none, or it is called in another way.
    """
    name = _UFUNCS.get(ufunc.__name__)
    if name is None or method != "__call__" or kwargs:
        raise TypeError(
            f"numpy's {ufunc.__name__}{'' if method == '__call__' else '.' + method} "
            f"{'with ' + ', '.join(kwargs) + ' ' if kwargs else ''}has no counterpart for a "
            "Tensor; use an op of this library, or tensor.detach().numpy()"
        )
    return name


def capsule(
    tensor: Tensor, stream: Any, max_version: Any, dl_device: Any, copy: bool | None
) -> Any:
    """Return the memory of ``tensor`` for another library, as ``Tensor.__dlpack__`` documents."""
    if tensor.requires_grad:
        raise BufferError(
            "__dlpack__: cannot export a Tensor that requires grad, because no gradient would flow "
            "back; use tensor.detach()"
        )
    if stream is not None:
        raise BufferError(f"__dlpack__: stream must be None, as on every CPU, got {stream!r}")
    if dl_device is not None and tuple(dl_device) != CPU:
        raise BufferError(
            f"__dlpack__: dl_device must be {CPU}, the CPU, or None, got {dl_device!r}; export to "
            "the CPU, and copy it from there"
        )
    array = tensor.data.copy() if copy else tensor.data
    if not array.flags.writeable:
        raise BufferError(
            "__dlpack__: the Tensor's memory is read-only, and other libraries would write to it; "
            "clone() it first, or ask for copy=True"
        )
    if any(step < 0 for step in array.strides):
        raise BufferError(
            f"__dlpack__: strides {array.strides}: other libraries have no negative strides, and "
            "some end the process; clone() it first, or ask for copy=True"
        )
    return array.__dlpack__(max_version=max_version)


def from_dlpack(x: Any, *, device: str | None = None, copy: bool | None = None) -> Tensor:
    """Return a Tensor that shares memory with ``x``: a torch Tensor, an ndarray, a Tensor.

    Whoever writes to one writes to the other, and the version check cannot see what other
    libraries write: do not, between a forward pass and its backward. Memory that is read-only
    stays so; so does that of a library which exports DLPack before version 1.0, where nothing
    says whether it may be written to. The Tensor is a leaf that does not require grad.

    Args:
        x: an object with ``__dlpack__`` and ``__dlpack_device__``.
        device: "cpu", if given.
        copy: True for memory of its own; False to refuse where the exporter would copy; None to
            leave that to the exporter.

    Raises:
        BufferError: ``x`` is on another device, requires grad, or cannot be exported.
        TypeError: ``x`` has no ``__dlpack__``, or a dtype that a Tensor cannot hold.
        ValueError: another device is asked for.

    >>> a = np.ones(2)
    >>> from_dlpack(a)[0] = 5
    >>> a.tolist()
    [5.0, 1.0]
    """
    from .tensor import Tensor

    if device not in (None, "cpu"):
        raise ValueError(f"from_dlpack: device must be 'cpu' or None, got {device!r}")
    if isinstance(x, Tensor):
        if x.requires_grad:
            raise BufferError(
                "from_dlpack: x is a Tensor that requires grad; use x.detach(), or x itself"
            )
        return Tensor._wrap(x.data.copy()) if copy else x.detach()
    if not (hasattr(x, "__dlpack__") and hasattr(x, "__dlpack_device__")):
        raise TypeError(
            f"from_dlpack: x must have the methods __dlpack__ and __dlpack_device__, got "
            f"{type(x).__name__}; for numbers and lists there is Tensor(...)"
        )
    kind, number = x.__dlpack_device__()
    if int(kind) not in _READABLE:
        raise BufferError(
            f"from_dlpack: x is on device {(int(kind), int(number))}, wanted the CPU, {CPU}; "
            "move it there first"
        )
    try:
        array = np.from_dlpack(x, copy=copy)
    except RuntimeError as error:  # numpy's, for a dtype that it does not know
        raise TypeError(f"from_dlpack: {error}; convert x to a dtype that numpy has") from error
    return Tensor._wrap(as_array(array, what="from_dlpack"))
