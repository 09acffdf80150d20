"""Grad mode is set by blocks and decorators; a suspended generator keeps its own to itself."""

from __future__ import annotations

import asyncio
import contextlib
import gc
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import numpy as np
import pytest

import tensor as st
from tensor import (
    Tensor,
    detect_anomaly,
    enable_grad,
    is_anomaly_enabled,
    is_grad_enabled,
    no_grad,
    set_grad_enabled,
)
from tensor.modes import ACTIVE
from tests.tensor.engine.helpers import in_thread, leaf, records

# Plain use


def test_gradients_are_recorded_by_default() -> None:
    assert records() and not is_anomaly_enabled()


def test_modes_nest_and_are_restored() -> None:
    found = []
    with no_grad():
        found.append(records())
        with enable_grad():
            found.append(records())
            with set_grad_enabled(False):
                found.append(records())
            with set_grad_enabled(True):
                found.append(records())
        found.append(records())
    found.append(records())
    assert found == [False, True, False, True, False, True]


def test_one_object_may_be_entered_again_and_again() -> None:
    mode = no_grad()
    with mode:
        with mode, enable_grad(), mode:
            assert not records()
        assert not records()
    assert records()
    with mode:
        assert not records()
    assert records() and ACTIVE.get() is None


def test_exits_in_another_order_than_the_entries() -> None:
    first, second = no_grad(), enable_grad()
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert records()
    second.__exit__(None, None, None)
    assert records() and ACTIVE.get() is None
    second.__enter__()
    first.__enter__()
    second.__exit__(None, None, None)
    assert not records()
    first.__exit__(None, None, None)
    assert records()


def test_grad_mode_and_anomaly_mode_are_apart() -> None:
    with detect_anomaly():
        assert records() and is_anomaly_enabled()
        with no_grad():
            assert not records() and is_anomaly_enabled()
        with detect_anomaly(False):
            assert records() and not is_anomaly_enabled()
    assert not is_anomaly_enabled()


# Decorators


@pytest.mark.parametrize("mode", [no_grad, lambda: set_grad_enabled(False)], ids=["no_grad", "set"])
def test_a_decorated_function_runs_in_its_mode(mode: Callable[[], Any]) -> None:
    @mode()
    def function(a: int, *, b: int = 2) -> tuple[int, bool]:
        """Documented."""
        return a + b, records()

    assert function(1, b=5) == (6, False)
    assert (function.__name__, function.__doc__) == ("function", "Documented.")
    assert records()


def test_a_decorated_function_may_raise_and_recurse() -> None:
    @no_grad()
    def function(depth: int) -> bool:
        if depth == 0:
            raise ValueError("bottom")
        return function(depth - 1)

    with pytest.raises(ValueError, match="bottom"):
        function(5)
    assert records()


def test_a_decorated_method_runs_in_its_mode() -> None:
    class Model:
        @no_grad()
        def predict(self, x: Tensor) -> Tensor:
            return x * 2

    assert not Model().predict(leaf(3)).requires_grad


def test_a_decorated_generator_has_its_mode_only_while_it_runs() -> None:
    @no_grad()
    def generator() -> Iterator[bool]:
        received = yield records()
        yield received
        yield records()

    running = generator()
    assert next(running) is False and records()
    assert running.send(True) is True and records()
    assert next(running) is False and records()
    assert next(running, "end") == "end" and records() and ACTIVE.get() is None


def test_a_decorated_generator_passes_on_what_is_thrown_and_returned() -> None:
    @no_grad()
    def generator() -> Iterator[Any]:
        try:
            yield 1
        except KeyError:
            yield records()
        return "result"

    running = generator()
    next(running)
    assert running.throw(KeyError()) is False
    with pytest.raises(StopIteration) as stopped:
        next(running)
    assert stopped.value.value == "result"


def test_a_decorated_coroutine_runs_in_its_mode() -> None:
    @no_grad()
    async def coroutine() -> bool:
        await asyncio.sleep(0)
        return records()

    async def main() -> tuple[bool, bool]:
        return await coroutine(), records()

    assert asyncio.run(main()) == (False, True)


def test_a_decorated_async_generator_has_its_mode_only_while_it_runs() -> None:
    log: list[Any] = []

    @no_grad()
    async def generator() -> AsyncIterator[Any]:
        """Documented."""
        try:
            received = yield records()
            await asyncio.sleep(0)
            try:
                yield received
            except KeyError:
                yield records()
        finally:
            log.append(records())

    async def main() -> None:
        running = generator()
        log.append((await anext(running), records()))
        log.append((await running.asend("sent"), records()))
        log.append((await running.athrow(KeyError()), records()))
        log.append((await anext(running, "end"), records()))
        second = generator()
        await anext(second)
        await second.aclose()
        log.append(records())

    asyncio.run(main())
    assert log == [(False, True), ("sent", True), (False, True), False, ("end", True), False, True]
    assert generator.__doc__ == "Documented."


# Generators


def suspended(mode: Any) -> Iterator[bool]:
    with mode:
        while True:
            yield records()


def test_a_generator_with_its_own_mode_runs_inside_another() -> None:
    running = suspended(enable_grad())
    with no_grad():
        assert next(running) is True
        assert not records()
        assert next(running) is True
    assert next(running) is True
    running.close()
    assert ACTIVE.get() is None


def test_generators_that_take_turns() -> None:
    mode = no_grad()  # the same object in both
    off, on, same = suspended(mode), suspended(enable_grad()), suspended(mode)
    with no_grad():
        for _ in range(3):
            assert [next(off), next(on), next(same), records()] == [False, True, False, False]
    off.close()
    assert next(same) is False and next(on) is True and records()
    on.close()
    same.close()
    assert records() and ACTIVE.get() is None


def test_a_generator_that_is_dropped_takes_its_mode_along() -> None:
    running = suspended(no_grad())
    next(running)
    del running
    gc.collect()
    assert records() and ACTIVE.get() is None


def test_a_generator_within_a_generator() -> None:
    def outer() -> Iterator[bool]:
        yield records()
        yield from suspended(no_grad())

    def beside() -> Iterator[bool]:
        with no_grad():
            for value in outer():
                yield value
                break
        yield records()

    running = outer()
    assert [next(running), next(running), records()] == [True, False, True]
    running.close()
    assert list(beside()) == [False, True]


def test_a_function_called_by_a_generator_inside_no_grad_is_inside_too() -> None:
    def deep(levels: int) -> bool:
        return records() if levels == 0 else deep(levels - 1)

    def generator() -> Iterator[bool]:
        with no_grad():
            yield deep(20)
        yield deep(20)

    assert list(generator()) == [False, True]


def test_a_batch_generator_between_training_steps() -> None:
    def batches() -> Iterator[Tensor]:
        with no_grad():
            for k in range(3):
                yield leaf(3, seed=k) * 2

    w = leaf(3)
    for batch in batches():
        assert not batch.requires_grad
        (w * batch).sum().backward()
    assert np.isfinite(w.grad.data).all()


@pytest.mark.parametrize("closer", ["the same thread", "another thread"])
def test_a_generator_closed_elsewhere_leaves_no_mode_behind(closer: str) -> None:
    running = suspended(no_grad())
    next(running)
    if closer == "another thread":
        in_thread(running.close)
    else:
        running.close()
    # A frame at the address of the old one must not be taken for it.
    others = [suspended(contextlib.nullcontext()) for _ in range(200)]
    assert all(next(other) for other in others)
    with set_grad_enabled(True):
        pass
    assert ACTIVE.get() is None


# Context managers made of generators


@contextlib.contextmanager
def evaluation() -> Iterator[None]:
    with no_grad():
        yield


def test_a_contextmanager_that_sets_a_mode_sets_it_for_its_block() -> None:
    with evaluation():
        assert not records()
        with enable_grad():
            assert records()
        assert not records()
    assert records() and ACTIVE.get() is None


def test_a_contextmanager_that_raises_restores_the_mode() -> None:
    with pytest.raises(ZeroDivisionError), evaluation():
        _ = 1 / 0
    assert records() and ACTIVE.get() is None


def test_a_contextmanager_as_decorator_and_within_another() -> None:
    @contextlib.contextmanager
    def outer() -> Iterator[None]:
        with evaluation(), enable_grad(), evaluation():
            yield

    @outer()
    def function() -> bool:
        return records()

    assert function() is False and records()


def test_a_contextmanager_in_a_suspended_generator_affects_nobody_else() -> None:
    def generator() -> Iterator[bool]:
        with evaluation():
            yield records()
            yield records()
        yield records()

    running = generator()
    assert [next(running), records(), next(running), records()] == [False, True, False, True]
    assert next(running) is True
    assert ACTIVE.get() is None


def test_an_exit_stack_in_a_suspended_generator_affects_nobody_else() -> None:
    def generator() -> Iterator[bool]:
        with contextlib.ExitStack() as stack:
            stack.enter_context(no_grad())
            stack.enter_context(evaluation())
            yield records()
        yield records()

    running = generator()
    assert [next(running), records(), next(running)] == [False, True, True]
    assert ACTIVE.get() is None


def test_an_exit_stack_sets_a_mode_for_its_block() -> None:
    with contextlib.ExitStack() as stack:
        stack.enter_context(no_grad())
        assert not records()
    assert records()


def test_an_asynccontextmanager_sets_a_mode_for_its_block() -> None:
    @contextlib.asynccontextmanager
    async def manager() -> AsyncIterator[None]:
        with no_grad():
            await asyncio.sleep(0)
            yield

    async def main() -> list[bool]:
        async with manager():
            inside = records()
            await asyncio.sleep(0)
            return [inside, records()]

    assert asyncio.run(main()) == [False, False]
    assert records()


# The engine's own use


@pytest.mark.parametrize("outside", [True, False])
@pytest.mark.parametrize("create_graph", [True, False])
def test_a_backward_pass_restores_the_mode(outside: bool, create_graph: bool) -> None:
    x = leaf(3)
    loss = (x * x).sum()
    with set_grad_enabled(outside):
        before = ACTIVE.get()
        (g,) = st.grad(loss, x, create_graph=create_graph)
        assert ACTIVE.get() == before and is_grad_enabled() is outside
    assert g.requires_grad is create_graph


@pytest.mark.parametrize("create_graph", [True, False])
def test_a_failing_backward_pass_restores_the_mode(create_graph: bool) -> None:
    x = leaf(3)
    x.register_hook(lambda g: 1 / 0)  # type: ignore[arg-type, return-value]
    with enable_grad():
        before = ACTIVE.get()
        with pytest.raises(ZeroDivisionError):
            x.sum().backward(create_graph=create_graph)
        assert ACTIVE.get() == before
    assert records()
