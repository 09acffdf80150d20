"""Special functions that numpy does not have."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

__all__ = ["erf"]

_erf = np.frompyfunc(math.erf, 1, 1)


def erf(a: Any) -> Any:
    """Return the error function of every element."""
    a = np.asarray(a)
    return _erf(a).astype(a.dtype) if a.ndim else a.dtype.type(math.erf(float(a)))
