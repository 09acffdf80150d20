"""Whether a result is the one that was wanted, and in which words it is shown."""

from __future__ import annotations

import numbers
from collections.abc import Mapping
from typing import Any

import numpy as np

__all__ = ["DIFFERENT", "difference", "short"]

DIFFERENT = "different"  # where got and wanted say it all

_LONGEST = 300  # characters of a value that are shown
_LEAST = 1e-3  # where less than this is wanted, rounding counts by this


def difference(got: Any, wanted: Any, tolerance: float) -> str:
    """What is different between two results, in a few words; "" if nothing is."""
    if wanted is None:
        return "" if got is None else _kind(got, "None")
    if isinstance(wanted, (bool, np.bool_)):
        if not isinstance(got, (bool, np.bool_)):
            return _kind(got, "True or False")
        return "" if got == wanted else DIFFERENT
    if isinstance(wanted, numbers.Real):
        if isinstance(got, (bool, np.bool_)) or not isinstance(got, numbers.Real):
            return _kind(got, "a number")
        return "" if _close(got, wanted, tolerance) else DIFFERENT
    if isinstance(wanted, np.ndarray):
        got = np.asarray(got) if isinstance(got, np.generic) else got  # as good as a 0-d array
        if not isinstance(got, np.ndarray):
            return _kind(got, "an ndarray")
        if got.shape != wanted.shape:
            return f"the shape is {got.shape}, wanted {wanted.shape}"
        if got.dtype != wanted.dtype:
            return f"the dtype is {got.dtype}, wanted {wanted.dtype}"
        return "" if _close(got, wanted, tolerance) else "the shape is right, the numbers are not"
    if isinstance(wanted, Mapping):
        return _mapping_difference(got, wanted, tolerance)
    if isinstance(wanted, (list, tuple)):
        return _sequence_difference(got, wanted, tolerance)
    if not isinstance(got, type(wanted)):
        return _kind(got, f"a {type(wanted).__name__}")
    return "" if got == wanted else DIFFERENT


def _mapping_difference(got: Any, wanted: Mapping[Any, Any], tolerance: float) -> str:
    if not isinstance(got, Mapping):
        return _kind(got, "a dict")
    if got.keys() != wanted.keys():
        return f"its keys are {short(list(got))}, wanted {short(list(wanted))}"
    for key, value in wanted.items():
        if found := difference(got[key], value, tolerance):
            return f"{key} differs" if found == DIFFERENT else f"at {key}, {found}"
    return ""


def _sequence_difference(got: Any, wanted: Any, tolerance: float) -> str:
    if not isinstance(got, (list, tuple)):
        return _kind(got, f"a {type(wanted).__name__}")
    if len(got) != len(wanted):
        return f"its length is {len(got)}, wanted {len(wanted)}"
    for i, value in enumerate(wanted):
        if found := difference(got[i], value, tolerance):
            return f"place {i} differs" if found == DIFFERENT else f"at place {i}, {found}"
    return ""


def _kind(got: Any, wanted: str) -> str:
    if got is None and wanted != "None":
        return f"it is None, wanted {wanted}: is there a return?"
    return f"it is a {type(got).__name__}, wanted {wanted}"


def _close(got: Any, wanted: Any, tolerance: float) -> bool:
    """Whether no number is off by more than ``tolerance`` times the largest one wanted."""
    a, b = np.asarray(got), np.asarray(wanted)
    if a.dtype.kind not in "fiub" or b.dtype.kind not in "fiub":  # a Fraction, for example
        return bool(np.all(a == b)) if b.dtype.kind not in "fiub" else False
    a, b = a.astype(np.float64), b.astype(np.float64)
    finite = b[np.isfinite(b)]
    scale = max(_LEAST, float(np.abs(finite).max(initial=0.0)))
    return bool(np.allclose(a, b, rtol=0.0, atol=tolerance * scale, equal_nan=True))


def short(value: Any) -> str:
    """A value as a student reads it: few digits, not too long; a dict of arrays in lines."""
    try:
        return _shown(value)
    except Exception:  # noqa: BLE001 - a repr of the student's own, a list that contains itself
        return f"a {type(value).__name__} that cannot be shown"


def _shown(value: Any) -> str:
    if isinstance(value, dict) and any(isinstance(x, (np.ndarray, list)) for x in value.values()):
        return "\n".join(f"{key}: {_cut(_text(entry))}" for key, entry in value.items())
    return _cut(_text(value))


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]} ..."


def _text(value: Any) -> str:
    match value:
        case bool() | np.bool_():
            return str(bool(value))
        case float() | np.floating():
            return f"{float(value):.10g}"
        case np.ndarray():
            digits: Any = {"float_kind": lambda x: f"{x:.6g}"}
            return np.array2string(value, formatter=digits, separator=", ", threshold=40)
        case dict():
            return ", ".join(f"{k}: {_text(v)}" for k, v in value.items())
        case list():
            return "[" + ", ".join(map(_text, value)) + "]"
        case tuple():
            return "(" + ", ".join(map(_text, value)) + ("," if len(value) == 1 else "") + ")"
    if callable(value):
        return str(getattr(value, "__name__", value))
    return repr(value)
