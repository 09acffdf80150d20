"""How closely results must agree, in one table, with the reason for every exception."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np

__all__ = ["EXCEPTIONS", "PARITY", "Tolerance", "assert_close", "tolerance"]


class Tolerance(NamedTuple):
    """|actual - expected| may be at most ``atol * max(1, largest) + rtol * |expected|``.

    ``largest`` is the largest finite magnitude among the expected numbers.
    """

    rtol: float
    atol: float


# Against PyTorch, which orders its sums otherwise and has its own elementary functions: a few
# units in the last place of numbers of order 1.
PARITY: Final = {
    "float16": Tolerance(4e-3, 4e-3),
    "float32": Tolerance(4e-6, 4e-6),
    "float64": Tolerance(1e-13, 1e-13),
}

_NO_VARIANCE: Final = "a row without variance is divided by sqrt(eps): rounding grows 316-fold"

EXCEPTIONS: Final[dict[tuple[str, str], tuple[Tolerance, str]]] = {
    ("layer_norm", "float32"): (Tolerance(4e-6, 1e-4), _NO_VARIANCE),
    ("layer_norm", "float64"): (Tolerance(1e-13, 3e-12), _NO_VARIANCE),
    ("binary_cross_entropy", "float64"): (
        Tolerance(1e-10, 1e-10),
        "PyTorch adds 1e-12 to denominators of the second derivative",
    ),
}


def tolerance(dtype: Any, what: str = "") -> Tolerance:
    """The tolerance for results of ``dtype``, or the exception made for ``what``."""
    name = np.dtype(dtype).name
    if (what, name) in EXCEPTIONS:
        return EXCEPTIONS[what, name][0]
    return PARITY.get(name, Tolerance(0.0, 0.0))


def assert_close(actual: Any, expected: Any, what: str = "", note: str = "") -> None:
    """Fail unless the arrays have one shape and dtype and agree; NaN equals NaN."""
    actual, expected = np.asarray(actual), np.asarray(expected)
    assert actual.dtype == expected.dtype, f"{note}: dtype {actual.dtype}, not {expected.dtype}"
    assert actual.shape == expected.shape, f"{note}: shape {actual.shape}, not {expected.shape}"
    rtol, atol = tolerance(expected.dtype, what)
    if expected.dtype.kind == "f":
        sizes = np.abs(expected[np.isfinite(expected)])
        atol *= max(1.0, float(sizes.max(initial=0.0)))
    np.testing.assert_allclose(actual, expected, rtol=rtol, atol=atol, err_msg=note)
