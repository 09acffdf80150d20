from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import mpmath
import numpy as np
import pytest

from tests.viz.fakes import Fake
from viz.summary import Summary, describe_attrs, summarize

NAN, INF = math.nan, math.inf


@pytest.mark.parametrize(
    ("x", "text"),
    [
        (2.0, "2"),
        (-0.0, "-0"),
        (1 / 3, "0.3333"),
        (123456.0, "1.235e+05"),
        (7, "7"),
        (2**60, "1.153e+18"),
        (10**400, "1.000e+400"),
        (True, "True"),
        (np.bool_(False), "False"),
        (np.float32(0.1), "0.1"),
        (np.int64(-3), "-3"),
        (Fraction(3, 16), "3/16"),
        (Fraction(1, 10**9), "1e-9"),
        (1 + 2j, "1+2j"),
        (mpmath.mpf("0.125"), "0.125"),
        (mpmath.mpc(1, 2), "1+2j"),
        (np.array(1.5), "1.5"),
        (np.array([[4]]), "4"),
        (Fake(data=Fake(data=2.5)), "2.5"),
        (np.zeros((0, 3)), "empty"),
        (np.ones((2, 2), np.float16), "all 1"),
        (np.array([1, 2, 6]), "min 1, mean 3, max 6"),
        (np.array([True, False, True]), "2 of 3 True"),
        (np.arange(6.0).reshape(2, 3).T[::-1], "min 0, mean 2.5, max 5"),
        (np.array([0.0, 65504.0] * 2_000, np.float16), "min 0, mean 3.28e+04, max 6.55e+04"),
        (np.array([1j, 2]), "2 elements"),
        ("word", "word"),
        ("w" * 99, "w" * 47 + "…"),
    ],
)
def test_a_number_or_an_array_is_summed_up(x: Any, text: str) -> None:
    assert summarize(x) == Summary(text, "")


def test_an_int_with_more_digits_than_python_writes_is_summed_up() -> None:
    assert summarize(10**5_000) == Summary("1.000e+5000")


def test_nothing_is_not_summed_up() -> None:
    assert summarize(None) is None
    assert summarize(Fake(data=None)) is None


@pytest.mark.parametrize(
    ("x", "text", "faults"),
    [
        (NAN, "NaN", "NaN"),
        (INF, "inf", "inf"),
        (-INF, "-inf", "inf"),
        (np.float32(NAN), "NaN", "NaN"),
        (mpmath.mpf("nan"), "NaN", "NaN"),
        (mpmath.mpf("-inf"), "-inf", "inf"),
        (complex(NAN, 1), "NaN+1j", "NaN"),
        (np.array([NAN, 2.0]), "all 2", "1 of 2 is NaN"),
        (np.array([1.0, -INF, INF, 2.0]), "min 1, mean 1.5, max 2", "2 of 4 are inf"),
        (np.array([NAN, INF]), "none finite", "1 of 2 is NaN, 1 of 2 is inf"),
    ],
)
def test_what_is_not_finite_is_named_and_left_out_of_the_sums(
    x: Any, text: str, faults: str
) -> None:
    assert summarize(x) == Summary(text, faults)


def test_attributes_are_written_in_their_own_order_and_briefly() -> None:
    attrs = {
        "shape": (2, -1),
        "index": (slice(1, None), slice(None, None, -1), ..., np.arange(3), 0),
        "eps": 1e-5,
        "none": None,
        "flag": False,
        "mode": "mean",
        "one": (1,),
    }
    assert describe_attrs(attrs) == (
        "shape=(2, -1), index=(1:, ::-1, ..., int64 (3,), 0), eps=1e-05, flag=False, mode=mean, "
        "one=(1,)"
    )
