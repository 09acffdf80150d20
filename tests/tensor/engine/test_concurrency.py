"""Threads and asyncio tasks do not see each other's modes, and lose no gradient."""

from __future__ import annotations

import asyncio
import contextvars
import gc
import threading
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor

import numpy as np

import tensor as st
from tensor import detect_anomaly, is_anomaly_enabled, is_grad_enabled, no_grad
from tensor.modes import ACTIVE
from tests.tensor.engine.helpers import in_thread, leaf, records

# Threads


def test_a_mode_is_not_seen_by_another_thread() -> None:
    with no_grad(), detect_anomaly():
        assert in_thread(lambda: (records(), is_anomaly_enabled())) == (True, False)
        assert not records()


def test_one_object_in_two_threads_at_once() -> None:
    mode, turns = no_grad(), threading.Barrier(2, timeout=10)

    def work(first_out: bool) -> tuple[bool, bool]:
        with mode:
            turns.wait()
            inside = records()
            if not first_out:
                turns.wait()
        after = records()
        if first_out:
            turns.wait()
        return inside, after

    with ThreadPoolExecutor(2) as pool:
        assert list(pool.map(work, [True, False])) == [(False, True), (False, True)]
    assert records() and ACTIVE.get() is None


def test_separate_graphs_are_differentiated_in_threads_at_once() -> None:
    shared = leaf(20)  # read by all, collected by none

    def work(seed: int) -> bool:
        x = leaf(20, seed=seed)
        for _ in range(30):
            h = x * shared.detach()
            (g,) = st.grad((h.exp() * h).sum(), x)
            c = shared.data
            expected = c * np.exp(c * x.data) * (1 + c * x.data)
            if not np.allclose(g.data, expected, rtol=1e-12):
                return False
        return True

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(work, range(8))) == [True] * 8
    assert shared.grad is None


def test_gradients_from_several_threads_add_up_at_a_shared_leaf() -> None:
    x, start = leaf(300_000), threading.Barrier(3, timeout=10)

    def work(k: int) -> None:
        losses = [(x * k).sum() for _ in range(8)]
        start.wait()
        for loss in losses:
            loss.backward()

    with ThreadPoolExecutor(3) as pool:
        list(pool.map(work, range(1, 4)))
    np.testing.assert_array_equal(x.grad, np.full(300_000, 48.0))


# Tasks and contexts


def test_a_task_starts_in_the_mode_in_which_it_was_made() -> None:
    async def main() -> list[bool]:
        async def child() -> bool:
            await asyncio.sleep(0)
            return records()

        with no_grad():
            task = asyncio.create_task(child())
        return [await task, await asyncio.create_task(child())]

    assert asyncio.run(main()) == [False, True]


def test_an_async_generator_suspended_inside_no_grad_affects_nobody_else() -> None:
    async def generator() -> AsyncIterator[bool]:
        with no_grad():
            yield records()
            await asyncio.sleep(0)
            yield records()
        yield records()

    async def main() -> list[bool]:
        found = []
        async for value in generator():
            found += [value, records()]
        return found

    assert asyncio.run(main()) == [False, True, False, True, True, True]


def test_an_async_generator_left_behind_leaves_no_mode_behind() -> None:
    async def generator() -> AsyncIterator[int]:
        with no_grad():
            yield 1
            yield 2

    async def main() -> bool:
        async for _ in generator():
            break  # the event loop closes the generator, in a task of its own
        gc.collect()
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        return records()

    assert asyncio.run(main()) is True


def test_a_copied_context_keeps_the_mode_of_its_time() -> None:
    with no_grad():
        context = contextvars.copy_context()
    assert records()
    assert context.run(is_grad_enabled) is False
    with no_grad():
        assert context.run(is_grad_enabled) is False
