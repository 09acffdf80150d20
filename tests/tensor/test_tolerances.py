from __future__ import annotations

import numpy as np
import pytest

from micro.vocab import VOCAB
from tests.tensor.tolerances import EXCEPTIONS, PARITY, assert_close, tolerance

ONES = np.ones(3)


def test_results_within_the_tolerance_pass() -> None:
    assert_close(ONES, ONES)
    assert_close(np.array([1.0, np.nan, np.inf]), np.array([1.0 + 1e-14, np.nan, np.inf]))
    assert_close(np.array([1e-6, 1e6], np.float32), np.array([2e-6, 1e6], np.float32))
    assert_close(np.array([True]), np.array([True]))


@pytest.mark.parametrize(
    ("actual", "expected"),
    [
        (ONES, ONES + 1e-12),
        (ONES.astype(np.float32), ONES),
        (ONES, np.ones((3, 1))),
        (ONES, np.array([1.0, np.nan, 1.0])),
        (np.array([np.inf]), np.array([-np.inf])),
        (np.array([1e5]), np.array([np.inf])),
        (np.array([1]), np.array([2])),
        (np.array([True]), np.array([False])),
    ],
    ids=["value", "dtype", "shape", "nan", "sign", "inf", "integer", "bool"],
)
def test_results_that_differ_are_found(actual: object, expected: object) -> None:
    with pytest.raises(AssertionError):
        assert_close(actual, expected, note="planted")


def test_every_exception_is_of_an_op_and_has_a_reason() -> None:
    for (name, dtype), (limits, reason) in EXCEPTIONS.items():
        assert name in VOCAB and len(reason) > 20
        assert tolerance(dtype, name) == limits != PARITY[dtype]
    assert tolerance("float64", "no op") == PARITY["float64"]
    assert tolerance("int64") == (0, 0)
