"""Loops that are shared among threads: every part is done once, whoever does it."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import threadpoolctl

from tensor.kernels import optimizers, steps, threads
from tensor.kernels.compiled import exact
from tensor.kernels.threads import Divided, cut, entry, place, portion, share

Array = np.ndarray[Any, Any]


@exact
def _count_part(part: Any, count: Any, out: Any, by: Any) -> None:
    where = portion(len(out), part, count, 1)
    for i in range(where.start, where.stop):
        out[i] += by[0] * by[1]


@exact
def _count_parts(memory: Any, count: Any, args: Any) -> None:
    share(memory, count, entry(_count_part, args), place(count, args))


counted = Divided(_count_part, _count_parts, 1)


@pytest.fixture(autouse=True)
def two_threads() -> Any:
    with threadpoolctl.threadpool_limits(2, user_api="blas"):
        yield


def test_each_part_is_done_once() -> None:
    for length in (0, 1, 2, 3, 7, 100, 4_001):
        for wanted in (1, 2, 3, 5):
            out = np.zeros(length, np.int64)
            with threadpoolctl.threadpool_limits(wanted, user_api="blas"):
                for turn in range(1, 30):
                    counted(out, (3, 7))
                    assert (out == 21 * turn).all()


@pytest.mark.parametrize("unit", [1, 8, 16])
def test_parts_cover_a_length(unit: int) -> None:
    for length in (0, 1, 15, 16, 17, 1_000):
        for count in (1, 2, 3, 4):
            slices = [portion.py_func(length, part, count, unit) for part in range(count)]
            covered = [i for s in slices for i in range(s.start, s.stop)]
            assert covered == list(range(length))
            assert all(s.start % unit == 0 for s in slices if s.start < length)


def test_how_many_parts_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "threads", lambda: 3)
    assert [threads.parts(work, 10) for work in (0, 9, 10, 19, 20, 29, 30, 1_000)] == [
        *(1, 1, 1, 1),
        *(2, 2, 3, 3),
    ]
    monkeypatch.setattr(threads, "threads", lambda: 0)  # of a BLAS that is not known
    assert threads.parts(1_000, 10) == 1


def test_the_threads_are_those_of_blas() -> None:
    for count in (1, 2):
        with threadpoolctl.threadpool_limits(count, user_api="blas"):
            assert threads.threads() == count


def test_only_one_job_is_shared_at_a_time() -> None:
    out = np.zeros(10, np.int64)
    inside: list[bool] = []

    def busy(memory: int, count: int, arguments: tuple[Any, ...]) -> None:
        inside.append(threads.shared(_count_parts, 2, (out, (1, 1))))
        counted(out, (2, 2))  # is done here instead

    assert threads.shared(busy, 2, ())
    assert inside == [False]
    assert (out == 4).all()


def test_several_threads_call_at_once() -> None:
    outs = [np.zeros(1_000, np.int64) for _ in range(8)]

    def work(out: Array) -> None:
        for _ in range(300):
            counted(out, (1, 2))

    callers = [threading.Thread(target=work, args=(out,)) for out in outs]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert all((out == 600).all() for out in outs)


def test_helpers_that_sleep_are_woken(monkeypatch: pytest.MonkeyPatch) -> None:
    out = np.zeros(10, np.int64)
    counted(out, (1, 1))
    helpers = threads._helpers
    woken: list[int] = []

    class Watched:
        def __init__(self, number: int) -> None:
            self._number = number
            self._lock = helpers._wake[number]

        def release(self) -> None:
            woken.append(self._number)
            self._lock.release()

    monkeypatch.setattr(helpers, "_wake", [Watched(i) for i in range(len(helpers._wake))])
    deadline = time.monotonic() + 30
    while not helpers._asleep[0]:
        assert time.monotonic() < deadline, "the helper does not go to sleep"
        time.sleep(0.01)
    counted(out, (1, 1))
    assert woken == [0]
    assert (out == 2).all()


def test_an_error_in_sharing_leaves_the_helpers_free() -> None:
    def broken(memory: int, count: int, arguments: tuple[Any, ...]) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        threads.shared(broken, 2, ())
    out = np.zeros(10, np.int64)
    assert threads.shared(_count_parts, 2, (out, (1, 1)))
    assert (out == 1).all()


def test_a_child_process_has_helpers_of_its_own() -> None:
    out = np.zeros(1_000, np.int64)
    counted(out, (1, 1))
    child = os.fork()
    if child == 0:
        status = 1
        try:
            for _ in range(100):
                counted(out, (1, 1))
            status = 0 if (out == 101).all() and len(threads._helpers._wake) == 1 else 2
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert (out == 1).all()


def _adam(options: dict[str, Any]) -> dict[str, Any]:
    return {"betas": (0.9, 0.99), "eps": 1e-8, "step": 3, "lr": 0.1, **options}


UPDATES: list[tuple[Callable[..., None], tuple[str, ...], dict[str, Any]]] = [
    (
        optimizers.sgd,
        ("momentum_buffer",),
        {"momentum": 0.9, "dampening": 0.1, "nesterov": True, "step": 2, "lr": 0.1},
    ),
    (
        optimizers.sgd,
        (),
        {"momentum": 0.0, "dampening": 0.0, "nesterov": False, "step": 1, "lr": 0.1},
    ),
    (optimizers.adam, ("exp_avg", "exp_avg_sq"), _adam({})),
    (optimizers.adam, ("exp_avg", "exp_avg_sq", "max_exp_avg_sq"), _adam({})),
    (
        optimizers.rmsprop,
        ("square_avg", "grad_avg", "momentum_buffer"),
        {"alpha": 0.9, "eps": 1e-8, "momentum": 0.5, "lr": 0.1},
    ),
    (optimizers.adagrad, ("sum",), {"lr_decay": 0.1, "eps": 1e-8, "step": 2, "lr": 0.1}),
]


@pytest.mark.parametrize("update", UPDATES, ids=lambda u: f"{u[0].__name__}-{len(u[1])}")
def test_the_number_of_threads_changes_no_bit_of_a_step(
    update: tuple[Callable[..., None], tuple[str, ...], dict[str, Any]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    kernel, names, options = update
    rng = np.random.default_rng(0)
    length = 2 * steps._LEAST + 37
    start = {name: rng.random(length, np.float32) for name in ("p", "g", *names)}
    results = []
    for count in (1, 2):
        arrays = {name: array.copy() for name, array in start.items()}
        state = {name: arrays[name] for name in names}
        with threadpoolctl.threadpool_limits(count, user_api="blas"):
            steps.sweep(
                kernel,
                arrays["p"],
                arrays["g"],
                state,
                np.empty((3, 4), np.float32),
                weight_decay=0.01,
                maximize=False,
                **options,
            )
        results.append({name: array.tobytes() for name, array in arrays.items()})
    assert results[0] == results[1]
    assert results[0]["p"] != start["p"].tobytes()


def test_a_part_of_nothing_is_nothing() -> None:
    @exact
    def parted(array: Any) -> Any:
        return cut(array, slice(1, 3))

    assert parted(None) is None
    np.testing.assert_array_equal(parted(np.arange(5)), [1, 2])
