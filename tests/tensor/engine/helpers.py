"""What the tests of the engine share: leaves with random values, planted ops, other threads."""

from __future__ import annotations

import gc
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import numpy as np
import pytest

from micro.vocab import OpSpec
from tensor import Tensor, is_grad_enabled
from tensor.dispatch import register, unregister

R = TypeVar("R")

Rules = dict[str, Callable[..., Any]]


def leaf(*shape: int, seed: int = 0, dtype: Any = np.float64) -> Tensor:
    """A leaf that requires grad, with values in [0.5, 1.5), which suit every op."""
    values = np.random.default_rng(seed).uniform(0.5, 1.5, shape)
    return Tensor(values.astype(dtype), requires_grad=True)


def weights(*shape: int, seed: int = 99, dtype: Any = np.float64) -> Tensor:
    """Random and non-uniform, to contract an output with."""
    return Tensor(np.random.default_rng(seed).normal(size=shape).astype(dtype))


def records() -> bool:
    """Whether an op is recorded here: what the mode is about."""
    recorded = (leaf(1) * 2).requires_grad
    assert recorded == is_grad_enabled()
    return recorded


def cases(names: str, rows: dict[str, Any]) -> pytest.MarkDecorator:
    """Run a test on every row, under the row's name."""
    return pytest.mark.parametrize(names, list(rows.values()), ids=list(rows))


@contextmanager
def planted(
    spec: OpSpec,
    kernel: Callable[..., Any],
    rules: Rules,
    fused: Callable[..., Any] | None = None,
) -> Iterator[Callable[..., Tensor]]:
    """An op that the engine has for the length of a block."""
    op = register(spec, kernel, rules, fused=fused)
    try:
        yield op
    finally:
        unregister(spec.name)


def in_thread(work: Callable[[], R]) -> R:
    """What ``work`` returns in a thread of its own; what it raises is raised here."""
    results: list[R] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            results.append(work())
        except BaseException as error:  # noqa: BLE001 - handed to the caller, whatever it is
            errors.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    if errors:
        raise errors[0]
    return results[0]


@contextmanager
def collector_off() -> Iterator[None]:
    """No garbage collection: what is freed in the block is freed by reference counts alone."""
    was_on = gc.isenabled()
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def blocks_left_behind(step: Callable[[], object], count: int) -> int:
    """How many blocks of memory ``count`` steps leave allocated.

    Python keeps up to 2,000 freed tuples of each length for later use: as many steps before the
    count begins see to that.
    """
    with collector_off():
        for _ in range(max(count, 2_000)):
            step()
        before = sys.getallocatedblocks()
        for _ in range(count):
            step()
        return sys.getallocatedblocks() - before
