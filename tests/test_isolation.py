"""The check for leaked state finds what it watches for, and repairs it."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pytest
import torch

import tensor
import tensor.modes
import tensor.random
from tests.isolation import WATCHED, LeakedStateError, isolated


def planted(a: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return a * 1


OTHER = {"numpy": "numba", "numba": "numpy"}

LEAKS: dict[str, Callable[[], object]] = {
    "grad mode or anomaly mode": lambda: tensor.modes.no_grad().__enter__(),
    "the ops": lambda: tensor.custom_op()(planted),
    "the kernels in use": lambda: tensor.use_kernels(OTHER[tensor.kernels_in_use()]),
    "numpy's global random generator": np.random.rand,
    "numpy's handling of floating-point errors": lambda: np.seterr(divide="ignore"),
    "the open matplotlib figures": plt.figure,
    "torch's grad mode": lambda: torch.no_grad().__enter__(),
    "torch's default dtype": lambda: torch.set_default_dtype(torch.float64),
}


def test_every_watched_state_has_a_planted_leak() -> None:
    assert set(LEAKS) == {watched.what for watched in WATCHED}


@pytest.mark.parametrize("what", LEAKS)
def test_a_leak_is_named_and_repaired(what: str) -> None:
    before = [watched.now() for watched in WATCHED]
    with pytest.raises(LeakedStateError, match=f"did not put back: {what}$"), isolated():
        LEAKS[what]()
    assert [watched.now() for watched in WATCHED] == before


def test_every_leak_is_reported_when_there_are_several() -> None:
    with pytest.raises(LeakedStateError) as raised, isolated():
        for leak in LEAKS.values():
            leak()
    assert all(what in str(raised.value) for what in LEAKS)


def test_a_test_that_cleans_up_leaks_nothing() -> None:
    with isolated():
        with tensor.modes.no_grad(), np.errstate(all="ignore"):
            assert not tensor.modes.is_grad_enabled()
        plt.close(plt.figure())


def test_every_generator_starts_at_the_same_place_in_every_test() -> None:
    draws = []
    for _ in range(2):
        with isolated():
            ours = tensor.random.default_generator.uniform(0, 1)
            draws.append((random.random(), float(ours), torch.rand(()).item()))
    assert draws[0] == draws[1]
