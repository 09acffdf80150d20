"""Which dtypes there are, and how operands of unlike dtype come together."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from .errors import NotOperandError, ShapeError
from .graph import Array

if TYPE_CHECKING:
    from micro.vocab import OpSpec

__all__ = [
    "as_array",
    "as_dtype",
    "check_bool",
    "check_floating",
    "check_operand",
    "convert",
    "epsilon",
    "float16",
    "float32",
    "float64",
    "int32",
    "int64",
    "is_operand",
]

float16: Final = np.dtype(np.float16)
float32: Final = np.dtype(np.float32)
float64: Final = np.dtype(np.float64)
int32: Final = np.dtype(np.int32)
int64: Final = np.dtype(np.int64)
boolean: Final = np.dtype(np.bool_)

# Kinds from the narrowest category to the widest: a wider one wins, and within
# one category the larger dtype does.
_CATEGORY: Final = {"b": 0, "u": 1, "i": 1, "f": 2}
_DEFAULT: Final = (boolean, int64, float32)


def as_dtype(dtype: Any) -> np.dtype[Any]:
    """Return ``dtype`` as a numpy dtype that a Tensor can hold.

    Raises:
        TypeError: it is not bool, an integer or float16, float32, float64.
    """
    if dtype is None:  # which numpy takes for float64
        raise TypeError("dtype must be named, got None; 'float32', for example")
    try:
        wanted: np.dtype[Any] = np.dtype(dtype).newbyteorder("=")
    except TypeError as error:
        raise TypeError(f"dtype must be one that numpy knows, got {dtype!r}") from error
    if wanted.kind not in _CATEGORY or wanted.itemsize > 8:
        raise TypeError(
            f"a Tensor holds bool, integers or float16/32/64, not {wanted}; convert it first"
        )
    return wanted


def as_array(value: Any, *, what: str = "Tensor") -> Array:
    """Return ``value`` as a plain ndarray in native byte order, without copying if it can.

    Raises:
        TypeError: a masked array, or a dtype that a Tensor cannot hold.
        ShapeError: nested sequences of unlike length.
    """
    if isinstance(value, np.ma.MaskedArray):
        raise TypeError(f"{what}: a masked array has no gradient; fill it with .filled(value)")
    try:
        array = np.asarray(value)
    except ValueError as error:
        raise _ragged(what, value) or error from error
    if type(array) is not np.ndarray:
        array = array.view(np.ndarray)
    kind = array.dtype.kind
    if kind not in _CATEGORY or array.dtype.itemsize > 8:
        raise TypeError(
            f"{what}: cannot hold dtype {array.dtype} (from {type(value).__name__}); "
            "it must be bool, an integer or float16, float32, float64"
        )
    if not array.dtype.isnative:
        array = array.astype(array.dtype.newbyteorder("="))
    return array


def _ragged(what: str, value: Any) -> Exception | None:
    """Return an error that says where nested sequences are not of one length, if they are not."""
    level = [("data", value)]
    while level:
        name, first = level[0]
        for other, entry in level[1:]:
            if _is_nested(entry) != _is_nested(first):
                kinds = ("a number", "a sequence")
                return TypeError(
                    f"{what}: {name} is {kinds[_is_nested(first)]}, but {other} is "
                    f"{kinds[_is_nested(entry)]}; all rows must be of one depth"
                )
            if _is_nested(first) and len(entry) != len(first):
                return ShapeError(
                    f"{what}: {name} has length {len(first)}, but {other} has {len(entry)}; "
                    "all rows must be of one length: cut them, or fill them up"
                )
        if not _is_nested(first):
            return None
        level = [(f"{at}[{i}]", x) for at, row in level for i, x in enumerate(row)]
    return None


def _is_nested(value: Any) -> bool:
    return isinstance(value, (list, tuple)) or getattr(value, "ndim", 0) > 0


def check_bool(name: str, array: Array) -> None:
    """Raise unless ``array`` holds truth values.

    Raises:
        RuntimeError: it does not.
    """
    if array.dtype != boolean:
        raise RuntimeError(f"{name} must be bool, got {array.dtype}; compare it with something")


def check_floating(name: str, array: Array) -> None:
    """Raise unless ``array`` is of a floating dtype.

    Raises:
        RuntimeError: it is not.
    """
    if array.dtype.kind != "f":
        raise RuntimeError(f"{name} must be floating, got {array.dtype}; convert it with .float()")


def convert(spec: OpSpec, policy: str, inputs: tuple[Any, ...]) -> list[Any]:
    """Return the operands of one op as ndarrays of the dtypes that the op computes in.

    Tensors promote one another as PyTorch's do: float over integer over bool,
    then the larger dtype. Of the Tensors, one without dimensions counts only
    where it brings a wider category; so does an ndarray beside Tensors, and a
    number, numpy's included, beside either. An ndarray is copied, as by
    ``Tensor(array)``: what its owner writes later changes nothing.

    Raises:
        TypeError: an operand that is neither Tensor, ndarray nor number.
        RuntimeError: under the ``strict`` policy, Tensors of unlike dtype.
    """
    name = spec.name
    if spec.variadic:
        names = [f"{spec.inputs[0][1:]}[{i}]" for i in range(len(inputs))]
        domains: tuple[str, ...] = (spec.domain[0],) * len(inputs)
    else:
        names, domains = list(spec.inputs), spec.domain
    converted: list[Any] = []
    # What the operands ask for, from those that have the most to say to those with the least:
    # Tensors with dimensions, Tensors without, ndarrays, numbers.
    asked: list[np.dtype[Any] | None] = [None] * 4
    strict: np.dtype[Any] | None = None
    for operand, label, domain in zip(inputs, names, domains, strict=True):
        if operand is None and label in spec.optional:
            converted.append(None)
            continue
        tensor = hasattr(operand, "node")
        array = operand.data if tensor else _foreign(name, label, operand)
        converted.append(array)
        if domain in ("bool", "index"):
            continue
        dtype = array.dtype
        if tensor:
            rank = 0 if array.ndim else 1
            if policy == "strict" and strict is not None and strict != dtype:
                raise RuntimeError(
                    f"{name}: operands must have one dtype, got {strict} and {dtype} "
                    f"for {label}; convert one with .to(dtype)"
                )
            strict = dtype
        elif isinstance(operand, np.ndarray):
            rank = 2
        else:
            rank, dtype = 3, _DEFAULT[_CATEGORY[dtype.kind]]
        before = asked[rank]
        asked[rank] = dtype if before is None else _wider(before, dtype)
    result: np.dtype[Any] | None = None
    for wish in asked:
        if wish is not None and (result is None or _CATEGORY[wish.kind] > _CATEGORY[result.kind]):
            result = wish
    if policy == "first":
        result = converted[0].dtype
    if result is None:
        return converted
    if policy == "float" and result.kind != "f":
        result = float32
    for i, (array, domain) in enumerate(zip(converted, domains, strict=True)):
        if array is not None and domain not in ("bool", "index") and array.dtype != result:
            converted[i] = array.astype(result)
    return converted


def epsilon(dtype: np.dtype[Any]) -> float:
    """Return the distance from 1 to the next number of the dtype that ``dtype`` is worked on in."""
    return float(np.finfo(np.promote_types(dtype, float32)).eps)


def is_operand(value: Any) -> bool:
    """Return whether an op takes ``value`` for an operand: a Tensor, an ndarray or a number."""
    return hasattr(value, "node") or isinstance(value, (bool, int, float, np.generic, np.ndarray))


def _foreign(name: str, label: str, operand: Any) -> Array:
    if isinstance(operand, np.ndarray):
        return as_array(operand, what=f"{name}: {label}").copy()
    check_operand(name, label, operand)
    return as_array(operand, what=f"{name}: {label}")


def check_operand(name: str, label: str, operand: Any) -> None:
    """Raise unless the op ``name`` can take ``operand`` for the one called ``label``.

    Raises:
        TypeError: it is neither Tensor nor ndarray nor number, or an integer that is too large.
    """
    if type(operand) is int and not -(2**63) <= operand < 2**63:
        raise TypeError(f"{name}: {label} {operand} does not fit into int64; write it as a float")
    if is_operand(operand):
        return
    if operand is None:
        raise NotOperandError(
            f"{name}: {label} is None; it must be a Tensor, an ndarray or a number"
        )
    raise NotOperandError(
        f"{name}: {label} must be a Tensor, an ndarray or a number, got "
        f"{type(operand).__name__}; wrap it in Tensor(...)"
    )


def _wider(a: np.dtype[Any], b: np.dtype[Any]) -> np.dtype[Any]:
    difference = _CATEGORY[a.kind] - _CATEGORY[b.kind]
    if difference:
        return a if difference > 0 else b
    return np.promote_types(a, b)
