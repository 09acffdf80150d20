"""The graph: what a backward pass adds up, what it refuses, and what it leaves behind."""

from __future__ import annotations

import asyncio
import copy
import math
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from typing import Any, Final

import numpy as np
import pytest
import torch

import micro
import tensor as st
from micro import Value
from tensor import Tensor, detect_anomaly, enable_grad, no_grad
from tensor.modes import ACTIVE
from tests.behaviours.engines import Engine, each_engine
from tests.tensor.engine.helpers import collector_off, leaf, records
from viz import draw

# What a pass adds up


@each_engine
def test_a_result_waits_for_the_gradients_of_all_that_use_it(engine: Engine) -> None:
    x = engine.leaf(2.0)
    y = 3 * x
    c = 2 * y + 5 * y
    engine.backward(c)
    assert float(x.grad) == 21


@each_engine
def test_a_second_pass_over_a_kept_graph_exactly_doubles_the_gradients_of_leaves(
    engine: Engine,
) -> None:
    a, b, d = (engine.leaf(value) for value in (3.0, 2.0, 1.0))
    c = a + b
    e = c * d
    engine.backward(e)
    assert [float(x.grad) for x in (a, b, d)] == [1, 1, 5]
    engine.backward(e)
    assert [float(x.grad) for x in (a, b, d)] == [2, 2, 10]


@each_engine
def test_a_derivative_can_be_differentiated_only_if_its_graph_was_made(engine: Engine) -> None:
    x = engine.leaf(2.0)
    y = (3 * x).exp()
    first = engine.derivative(y, x, create_graph=True)
    assert float(first) == pytest.approx(3 * math.exp(6), rel=1e-15)
    assert float(engine.derivative(first, x)) == pytest.approx(9 * math.exp(6), rel=1e-15)
    constant = engine.derivative(y, x)
    assert float(constant) == float(first)
    for out in (constant, 2 * constant):
        with pytest.raises(RuntimeError, match=r"create_graph=True|does not require grad"):
            engine.derivative(out, x)


@each_engine
def test_a_chain_of_a_million_additions_is_used_up_without_recursion_in_linear_time(
    engine: Engine,
) -> None:
    def seconds(length: int) -> float:
        start = time.process_time()
        x = engine.leaf(1.0)
        y = x
        for _ in range(length):
            y = y + x
        engine.backward(y)
        assert float(y.data) == float(x.grad) == length + 1
        assert str(length + 1) in repr(y).replace(".", "").replace("_", "")
        drawing = draw(y).graph
        assert [node.symbol for node in drawing.nodes] == [f"+ x {length:,}", ""]
        assert (drawing.nodes_in_all, drawing.folded) == (length + 1, length)
        twin = copy.deepcopy(x)
        assert float(twin.grad) == length + 1
        last = weakref.ref(y)
        del y
        assert last() is None
        return time.process_time() - start

    assert sys.getrecursionlimit() < 100_000
    with collector_off():  # its rounds over a million living objects are not the engine's
        short = seconds(100_000)
        assert seconds(1_000_000) < 30 * short  # 100 if the time were quadratic


@each_engine
def test_sixty_doublings_take_sixty_steps_and_sixty_nodes_of_a_drawing(engine: Engine) -> None:
    y = x = engine.leaf(1.0)
    for _ in range(60):
        y = y + y
    drawing = draw(y).graph
    assert (drawing.nodes_in_all, len(drawing.nodes), drawing.folded) == (61, 61, 0)
    engine.backward(y)
    assert float(x.grad) == float(y.data) == 2.0**60


@each_engine
def test_a_quotient_whose_denominator_uses_the_numerator(engine: Engine) -> None:
    x, y = engine.leaf(1.0), engine.leaf(3.0)
    z = x + y
    engine.backward(x / z)
    assert (float(x.grad), float(y.grad)) == (3 / 16, -1 / 16)
    assert x.grad is not y.grad
    if engine.name == "tensor":
        assert not np.shares_memory(x.grad.data, y.grad.data)


# What a pass leaves behind


@each_engine
def test_an_intermediate_dies_with_the_loss_at_once(engine: Engine) -> None:
    with collector_off():
        x = engine.leaf(2.0)
        h = x.exp()
        inner = weakref.ref(h if engine.name == "micro" else h.node)  # the record of it
        loss = (h * h).sigmoid()
        engine.backward(loss)
        engine.derivative(engine.derivative(loss, x, create_graph=True), x)
        del h
        assert inner() is not None
        del loss
        assert inner() is None


REFUSED_CHANGES: Final[dict[str, Callable[[Tensor], object]]] = {
    "of a leaf": lambda t: t.requires_grad_().add_(1),
    "by another shape": lambda t: t.add_(np.ones(4)),
    "to a larger shape": lambda t: t.mul_(np.ones((2, 3))),
    "to another dtype": lambda t: t.to("int64").div_(2),
    "by text": lambda t: t.add_("1"),
    "of an element that is not there": lambda t: t.__setitem__(3, 0.0),
    "of several elements by too many": lambda t: t.__setitem__(slice(2), [1.0, 2.0, 3.0]),
    "of memory that several elements share": lambda t: t[:1].expand(3).zero_(),
}


@pytest.mark.parametrize("change", REFUSED_CHANGES)
def test_a_change_in_place_that_is_refused_leaves_the_data_alone(change: str) -> None:
    t = Tensor([1.0, 2.0, 3.0])
    memory = t.data
    with pytest.raises((RuntimeError, TypeError, IndexError)):
        REFUSED_CHANGES[change](t)
    assert t.data is memory and t.tolist() == [1, 2, 3] and t.version == 0


# Grad mode


def test_an_exception_inside_no_grad_restores_the_mode() -> None:
    with pytest.raises(ZeroDivisionError), no_grad(), enable_grad(), no_grad():
        _ = 1 / 0
    assert records() and ACTIVE.get() is None


def test_a_generator_suspended_inside_no_grad_affects_nobody_else() -> None:
    def suspended() -> Iterator[bool]:
        with no_grad():
            while True:
                yield records()

    running = suspended()
    assert next(running) is False
    assert records()
    assert next(running) is False
    with no_grad():
        assert next(running) is False and not records()
    running.close()
    assert records() and ACTIVE.get() is None


def test_threads_that_toggle_the_mode_do_not_see_each_other() -> None:
    at_once, found = threading.Barrier(9), list[bool]()

    def toggle() -> None:
        at_once.wait(10)
        for _ in range(100):
            with no_grad():
                found.append(records())
                with enable_grad():
                    found.append(not records())
            found.append(not records())

    threads = [threading.Thread(target=toggle) for _ in range(8)]
    for thread in threads:
        thread.start()
    at_once.wait(10)
    recorded = [records() for _ in range(500)]
    for thread in threads:
        thread.join()
    assert len(found) == 2_400 and not any(found) and all(recorded) and records()


def test_a_mode_set_in_one_task_is_not_seen_by_another() -> None:
    async def main() -> list[bool]:
        inside, leave = asyncio.Event(), asyncio.Event()

        async def silent() -> bool:
            with no_grad():
                inside.set()
                await leave.wait()
                return records()

        async def loud() -> bool:
            await inside.wait()
            found = records()
            leave.set()
            return found

        return [*await asyncio.gather(silent(), loud()), records()]

    assert asyncio.run(main()) == [False, True, True]


@each_engine
def test_clip_passes_the_gradient_within_its_bounds(engine: Engine) -> None:
    for value in (0.2, 0.5, 0.9):
        assert engine.slopes(lambda x: 3 * engine.ops.clip(x, 0, 1), value) == [3]


def test_clip_of_an_array_passes_the_gradient_within_its_bounds() -> None:
    x = Tensor([0.2, 0.5, 0.9], requires_grad=True)
    (3 * x.clip(0, 1)).sum().backward()
    assert x.grad is not None and x.grad.tolist() == [3, 3, 3]


# Bad calls, in PyTorch's words and with the shapes

BACKWARD: Final[dict[str, tuple[Callable[[Any, Any], Any], list[str], list[str]]]] = {
    # the call of either library; what both say; what ours adds
    "of a non-scalar without a gradient": (
        lambda x, lib: (x * 2).backward(),
        ["grad can be implicitly created only for scalar outputs"],
        ["(3,)"],
    ),
    "of a tensor without a graph": (
        lambda x, lib: x.detach().backward(),
        ["element 0 of tensors", "does not require grad and does not have a gr"],
        ["(3,)"],
    ),
    "a second time": (
        lambda x, lib: [loss.backward() for loss in [(x * x).sum()] * 2],
        ["rying to backward through the graph a second time", "pecify retain_graph=True"],
        ["sum of shape ()"],
    ),
    "with a gradient of the wrong shape": (
        lambda x, lib: (x * 2).backward(lib.ones(2)),
        ["ismatch in shape: "],
        ["(2,)", "(3,)"],
    ),
}


@pytest.mark.parametrize("what", BACKWARD)
def test_a_backward_pass_that_makes_no_sense_is_refused_in_pytorchs_words(what: str) -> None:
    call, words, ours = BACKWARD[what]
    with pytest.raises(RuntimeError) as theirs:
        call(torch.ones(3, requires_grad=True), torch)
    x = st.ones(3, requires_grad=True)
    with pytest.raises(RuntimeError) as caught:
        call(x, st)
    for word in words:
        assert word in str(theirs.value) and word in str(caught.value)
    for word in ours:
        assert word in str(caught.value)
    x.grad = None
    (x * 2).sum().backward()
    assert x.grad is not None and x.grad.tolist() == [2, 2, 2]


def test_a_value_of_constants_alone_has_no_graph_to_go_back_through() -> None:
    with pytest.raises(RuntimeError, match=r"backward: .*made of constants alone"):
        micro.exp(2.0).backward()


@pytest.mark.parametrize("dtype", ["int64", "int32", "uint8", "bool"])
def test_only_floating_tensors_can_require_grad(dtype: str) -> None:
    t = Tensor([1, 0], dtype=dtype)
    for ask in (
        lambda: Tensor([1, 0], dtype=dtype, requires_grad=True),
        t.requires_grad_,
        lambda: setattr(t, "requires_grad", True),
        lambda: st.zeros(3, dtype=dtype, requires_grad=True),
    ):
        with pytest.raises(RuntimeError, match=f"floating point dtype .*got {dtype}"):
            ask()
    assert not t.requires_grad
    assert not t.requires_grad_(False).requires_grad


def test_a_leaf_that_requires_grad_is_not_changed_in_place_while_recording() -> None:
    w = Tensor([1.0, 2.0, 3.0], requires_grad=True)
    with pytest.raises(RuntimeError, match=r"^sub_: a leaf Tensor that requires grad .*no_grad"):
        w -= 1
    assert w.tolist() == [1, 2, 3] and w.version == 0
    with no_grad():
        w -= 1
    assert w.tolist() == [0, 1, 2] and w.is_leaf


def test_a_saved_array_that_was_changed_is_named_with_its_op_shape_and_versions() -> None:
    w = Tensor([1.0, 2.0, 3.0], requires_grad=True)
    y = w * w
    with no_grad():
        w.add_(1)
    with pytest.raises(
        RuntimeError, match=r"^mul: .*a of shape \(3,\) is at version 1, expected version 0"
    ):
        y.sum().backward()
    assert w.grad is None


def test_constructing_copies() -> None:
    a = np.ones(3)
    t = Tensor(a, requires_grad=True)
    y = t * t
    a[0] = 9
    assert t.tolist() == y.tolist() == [1, 1, 1]
    y.sum().backward()
    assert t.grad is not None and t.grad.tolist() == [2, 2, 2]


# What only some Tensors can be converted to


@pytest.mark.parametrize("ask", [lambda t: t.numpy(), np.asarray, np.array, np.linalg.norm])
@pytest.mark.parametrize("make", [lambda x: x, lambda x: x * 2], ids=["leaf", "result"])
def test_numpy_of_what_requires_grad_is_refused(
    make: Callable[[Tensor], Tensor], ask: Callable[[Tensor], Any]
) -> None:
    t = make(leaf(3))
    with pytest.raises(RuntimeError, match=r"requires grad; use tensor\.detach\(\)\.numpy\(\)"):
        ask(t)
    assert ask(t.detach()) is not None


@pytest.mark.parametrize("shape", [(2,), (0,), (1, 2)])
def test_the_truth_of_several_or_no_elements_is_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(RuntimeError, match=r"bool: .*elements \(shape .*ambiguous"):
        bool(Tensor(np.ones(shape)))


def test_a_number_has_no_length() -> None:
    with pytest.raises(TypeError, match=r"len\(\) of a 0-d"):
        len(Tensor(1.0))
    with pytest.raises(TypeError, match=r"len\(\)"):
        len(Value(1.0))  # type: ignore[arg-type]


@pytest.mark.parametrize("shape", [(2,), (0,), (2, 3), (1, 0)])
def test_item_of_several_or_no_elements_is_refused(shape: tuple[int, ...]) -> None:
    t = Tensor(np.ones(shape))
    for ask in (t.item, lambda: float(t), lambda: int(t)):
        with pytest.raises(
            RuntimeError, match=rf"item: .*{t.numel()} elements \(shape \({shape[0]}"
        ):
            ask()


# Anomaly mode


@pytest.mark.parametrize(
    ("ask", "op", "what"),
    [(lambda x: x.log(), "log", "inf"), (lambda x: x / x, "div", "NaN")],
    ids=["inf", "NaN"],
)
def test_anomaly_mode_names_the_op_whose_forward_was_not_finite_and_its_line(
    ask: Callable[[Tensor], Tensor], op: str, what: str
) -> None:
    x = Tensor([0.0], requires_grad=True)
    made = ask.__code__.co_firstlineno
    with detect_anomaly(), pytest.raises(RuntimeError) as caught:
        ask(x)
    assert str(caught.value) == f"{op}: the forward yielded {what} at {__file__}:{made}"


@pytest.mark.parametrize("create_graph", [False, True])
def test_anomaly_mode_names_the_op_whose_backward_was_not_finite_and_where_it_was_made(
    create_graph: bool,
) -> None:
    x = Tensor([0.0], requires_grad=True)
    with detect_anomaly():
        root, made = (x * 1).sqrt(), sys._getframe().f_lineno
        with pytest.raises(RuntimeError) as caught:
            (root * 3).sum().backward(create_graph=create_graph)
    assert x.grad is None
    assert str(caught.value).startswith("sqrt: the backward ")
    assert "inf" in str(caught.value) and "operand a" in str(caught.value)
    assert str(caught.value).endswith(f"made at {__file__}:{made}")
