"""Ops give IEEE values without a warning, whatever numpy is told, and wherever they are called."""

from __future__ import annotations

import weakref
from typing import Any

import numpy as np
import pytest

import tensor as st
from micro.vocab import OpSpec
from tensor import Tensor
from tests.tensor.engine.helpers import planted

SPEC = OpSpec("planted", ("a",), domain=("real",), scope="tensor")


def test_numpys_error_handling_is_nobodys_concern() -> None:
    """No warning and no exception from inside, and the caller's own settings stay in force."""
    x = Tensor([0.0, -1.0, 1e38], requires_grad=True)
    with np.errstate(all="raise"):
        y = x.log() + x.sqrt() + 1 / x + x * x * x
        y.sum().backward()
        with pytest.raises(FloatingPointError):
            np.array([1.0]) / 0
    assert np.isnan(y.data[1]) and np.isinf(y.data[2])


def test_a_kernel_a_rule_or_a_finaliser_may_call_ops_in_the_middle_of_one() -> None:
    class Watched:
        pass

    seen: list[float] = []

    def kernel(a: Any) -> Any:
        watched = Watched()
        weakref.finalize(watched, lambda: seen.append((1 / Tensor(0.0)).item()))
        del watched  # and the finaliser is called, here
        return st.log(a).data

    with planted(SPEC, kernel, {"a": lambda xp, g, a: (st.log(Tensor(a * 0)) + g).data}) as op:
        x = Tensor([0.0, 1.0], requires_grad=True)
        with np.errstate(all="raise"):
            y = op(x)
            y.sum().backward()
    assert y.tolist() == [-np.inf, 0.0] and x.grad is not None
    assert x.grad.tolist() == [-np.inf, -np.inf] and seen == [np.inf]


def test_what_a_kernel_does_to_numpys_error_handling_ends_with_it() -> None:
    def kernel(a: Any) -> Any:
        np.seterr(all="raise")
        return a + 1

    with planted(SPEC, kernel, {"a": lambda xp, g: g}) as op:
        before = np.geterr()
        op(Tensor([1.0]))
        assert np.geterr() == before
        assert Tensor([0.0]).log().item() == -np.inf
