"""Numbers, arrays and attributes in the few characters that a drawing has room for."""

from __future__ import annotations

import math
import numbers
from collections.abc import Mapping
from decimal import Decimal
from fractions import Fraction
from typing import Any, NamedTuple

__all__ = ["Summary", "describe_attrs", "describe_number", "is_faulty", "magnitude", "summarize"]

LONGEST = 48  # characters of one attribute, or of a number of a kind not known here


class Summary(NamedTuple):
    """What is shown of a number or an array.

    Attributes:
        text: the number, or the least, the mean and the greatest of the finite elements, or how
            many are True.
        faults: what is wrong with it in words, such as "3 of 8 are NaN"; "" if nothing is.
    """

    text: str
    faults: str = ""


def summarize(x: Any) -> Summary | None:
    """Summarize a number or array, or whatever holds one as ``data``; None for None.

    >>> summarize(1 / 3)
    Summary(text='0.3333', faults='')
    >>> summarize(float("nan"))
    Summary(text='NaN', faults='NaN')
    """
    while not _is_array(x) and hasattr(x, "data") and not isinstance(x, numbers.Number):
        x = x.data
    if x is None:
        return None
    if not _is_array(x):
        return Summary(describe_number(x), _fault(x))
    if x.size == 1:
        number = x.reshape(()).item()
        return Summary(describe_number(number), _fault(number))
    return _summarize_array(x)


def magnitude(x: Any) -> float | None:
    """The largest finite absolute value in a number or array; None if there is none.

    >>> magnitude(-2), magnitude(float("nan"))
    (2.0, None)
    """
    while not _is_array(x) and hasattr(x, "data") and not isinstance(x, numbers.Number):
        x = x.data
    try:
        if _is_array(x):
            import numpy as np

            finite = x[np.isfinite(x)]
            return float(np.abs(finite).max()) if finite.size else None
        size = float(abs(x))
    except (TypeError, ValueError, ArithmeticError):
        return None
    return size if math.isfinite(size) else None


def is_faulty(x: Any) -> bool:
    """Whether a number is, or an element of an array, NaN or infinite.

    >>> is_faulty(1.0), is_faulty(float("inf")), is_faulty(None)
    (False, True, False)
    """
    while not _is_array(x) and hasattr(x, "data") and not isinstance(x, numbers.Number):
        x = x.data
    if not _is_array(x):
        return x is not None and bool(_fault(x))
    if x.dtype.kind not in "fc":
        return False
    import numpy as np

    return not np.isfinite(x).all()


def _is_array(x: Any) -> bool:
    """Tell an ndarray, whose ``data`` is raw memory, from a tensor, whose ``data`` is an array."""
    return hasattr(x, "__array_interface__")


def _summarize_array(x: Any) -> Summary:
    import numpy as np

    if x.size == 0:
        return Summary("empty")
    if x.dtype.kind not in "biuf":
        return Summary(f"{x.size} elements")
    if x.dtype.kind == "b":
        return Summary(f"{int(x.sum())} of {x.size} True")
    nan, infinite = int(np.isnan(x).sum()), int(np.isinf(x).sum())
    faults = ", ".join(
        f"{count} of {x.size} {'is' if count == 1 else 'are'} {what}"
        for count, what in ((nan, "NaN"), (infinite, "inf"))
        if count
    )
    finite = x[np.isfinite(x)] if faults else x
    if finite.size == 0:
        return Summary("none finite", faults)
    low, high = finite.min().item(), finite.max().item()
    if low == high:
        return Summary(f"all {describe_number(low)}", faults)
    mean = finite.mean(dtype=np.float64).item()  # the sum of many halves would overflow
    parts = (("min", low), ("mean", mean), ("max", high))
    return Summary(", ".join(f"{what} {describe_number(x, 3)}" for what, x in parts), faults)


def _fault(x: Any) -> str:
    """Name NaN and infinity; a number of any kind is NaN if it differs from itself."""
    try:
        if x != x:
            return "NaN"
        return "inf" if abs(x) == float("inf") else ""
    except (TypeError, ArithmeticError):
        return ""


def describe_number(x: Any, digits: int = 4) -> str:
    """Write a number with a few significant digits, an exact one exactly where it is short.

    >>> describe_number(2.0), describe_number(Fraction(1, 3)), describe_number(-0.000123456)
    ('2', '1/3', '-0.0001235')
    """
    if isinstance(x, bool) or type(x).__name__ == "bool_":
        return str(bool(x))
    if isinstance(x, numbers.Integral):
        x = int(x)
        return str(x) if abs(x) < 10**12 else f"{Decimal(x):.{digits}g}"
    if isinstance(x, Fraction):
        if max(abs(x.numerator), x.denominator) < 10**6:
            return str(x)
        return f"{Decimal(x.numerator) / Decimal(x.denominator):.{digits}g}"
    for number in (lambda: x, lambda: float(x), lambda: complex(x)):
        try:
            return f"{number():.{digits}g}".replace("nan", "NaN")
        except (TypeError, ValueError, OverflowError):
            continue
    return _shortened(str(x))


def describe_attrs(attrs: Mapping[str, Any]) -> str:
    """Write an op's attributes in their own order, without those that are None.

    >>> describe_attrs({"dim": (0, 1), "keepdim": False, "dtype": None})
    'dim=(0, 1), keepdim=False'
    """
    return ", ".join(f"{name}={_attr(x)}" for name, x in attrs.items() if x is not None)


def _attr(x: Any) -> str:
    if isinstance(x, tuple):
        return f"({', '.join(map(_attr, x))}{',' if len(x) == 1 else ''})"
    if isinstance(x, slice):
        parts = ["" if part is None else str(part) for part in (x.start, x.stop, x.step)]
        return ":".join(parts if parts[2] else parts[:2])
    if x is Ellipsis:
        return "..."
    if getattr(x, "shape", ()):
        return f"{x.dtype} {tuple(x.shape)}"
    if isinstance(x, numbers.Number) and not isinstance(x, bool):
        return describe_number(x)
    return _shortened(str(x))


def _shortened(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"
