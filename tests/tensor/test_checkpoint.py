"""Checkpoints: the gradients of a plain call, for less memory."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tensor as st
from tensor import Generator, Tensor, checkpoint, default_generator, grad, no_grad
from tensor.random import generators
from tests.tensor.engine.helpers import cases, leaf, weights


def same(a: Any, b: Any) -> None:
    """Equal to the last bit."""
    assert a is not None and b is not None
    assert a.data.dtype == b.data.dtype and a.data.tobytes() == b.data.tobytes()


def block(w: Tensor) -> Callable[[Tensor], Tensor]:
    return lambda x: (x @ w).tanh().exp() * x.softmax(-1)


class Attention(st.nn.Module):
    def __init__(self) -> None:
        self.first = st.nn.Linear(4, 4)
        self.drop = st.nn.Dropout(0.5, generator=Generator(7))

    def forward(self, x: Tensor) -> Tensor:
        return self.drop(self.first(x)).tanh() * x


# What a part may be like. Each takes two leaves and returns a Tensor or several.
PARTS: dict[str, Callable[[Tensor, Tensor], Any]] = {
    "elementwise": lambda x, y: (x * y).exp().sin(),
    "matmul": lambda x, y: (x @ y.T).tanh(),
    "views": lambda x, y: x.reshape(3, 2).T[::-1] * y[:, [2, 0, 0]].T.reshape(2, 3),
    "in place": lambda x, y: (x * 1).mul_(y).add_(x).exp(),
    "in place, of a view": lambda x, y: _with_a_view_changed(x * 1, y).exp() * x,
    "an argument unused": lambda x, y: y.exp(),
    "an argument returned": lambda x, y: x,
    "no gradient": lambda x, y: x > y,
    "without grad mode inside": lambda x, y: x * _frozen(y).exp(),
    "detached inside": lambda x, y: (x * y.detach()).exp(),
    "several": lambda x, y: [x.exp(), {"sum": (x * y).sum(), "mask": x > y}, (x, y.sin(), 3)],
    "random": lambda x, y: st.dropout(x * y, 0.4) * st.rand(2, 3, dtype="float64"),
    "nested": lambda x, y: checkpoint(lambda a: (a * y).exp().sin(), x.tanh()) * y,
    "twice nested": lambda x, y: checkpoint(
        lambda a: checkpoint(lambda b: (b * y).exp().sin(), a.cos()) * a, x.tanh()
    ),
    "random, nested": lambda x, y: checkpoint(
        lambda a: st.dropout(a * y, 0.5), st.dropout(x, 0.5).exp()
    ).sin(),
    "layer": lambda x, y: st.layer_norm(x, y[0], y[1], (3,)),
    "cross entropy": lambda x, y: st.cross_entropy(x * y, np.array([0, 2])),
}


def _with_a_view_changed(x: Tensor, y: Tensor) -> Tensor:
    x[0].mul_(y[1]).add_(1)
    x[:, 1] = y.sum(1)
    return x


def _frozen(y: Tensor) -> Tensor:
    with no_grad():
        return y * 2


def total(outputs: Any) -> Tensor | None:
    """Everything that has a gradient, contracted with weights."""
    flat: list[Tensor] = []

    def collect(value: Any) -> None:
        if isinstance(value, Tensor) and value.requires_grad:
            flat.append((value * weights(*value.shape)).sum())
        elif isinstance(value, (list, tuple)):
            for item in value:
                collect(item)
        elif isinstance(value, dict):
            for item in value.values():
                collect(item)

    collect(outputs)
    result = flat[0] if flat else None
    for term in flat[1:]:
        result = result + term
    return result


@pytest.mark.parametrize("create_graph", [False, True])
@cases("part", PARTS)
def test_values_and_gradients_are_those_of_a_plain_call_to_the_last_bit(
    part: Callable[[Tensor, Tensor], Any], create_graph: bool
) -> None:
    found: list[list[Any]] = []
    for call in (lambda f, *args: f(*args), checkpoint):
        st.manual_seed(3)
        x, y = leaf(2, 3), leaf(2, 3, seed=1)
        loss = total(call(part, x, y))
        after = default_generator.get_state()
        if loss is None:
            found.append([])
            continue
        first = grad(loss, [x, y], create_graph=create_graph, allow_unused=True)
        results: list[Any] = [loss, *first]
        if create_graph:
            pairs = [(g, weights(2, 3, seed=5)) for g in first if g is not None]
            able = [(g, w) for g, w in pairs if g.requires_grad]
            if able:
                outs, seeds = zip(*able, strict=True)
                results += grad(outs, [x, y], seeds, allow_unused=True)
        assert default_generator.get_state() == after
        found.append(results)
    plain, again = found
    assert len(plain) == len(again)
    for a, b in zip(plain, again, strict=True):
        assert (a is None) == (b is None)
        if a is not None:
            same(a, b)


def test_what_a_part_closes_over_gets_its_gradient() -> None:
    found = []
    for call in (lambda f, a: f(a), checkpoint):
        x, w = leaf(2, 3), leaf(3, 3, seed=1)
        h = w.exp()
        call(lambda a, w=w, h=h: (a @ h).tanh() @ w, x).sum().backward()
        found.append((x.grad, w.grad))
    for a, b in zip(*found, strict=True):
        same(a, b)


def test_a_module_with_a_generator_of_its_own() -> None:
    found = []
    for call in (lambda f, a: f(a), checkpoint):
        st.manual_seed(0)
        model, x = Attention(), leaf(5, 4, dtype=np.float32)
        call(model, x).sum().backward()
        found.append([x.grad, *(p.grad for p in model.parameters())])
    for a, b in zip(*found, strict=True):
        same(a, b)


def test_arguments_may_be_nested_named_and_anything() -> None:
    def part(pair: tuple[Tensor, Tensor], *, scale: float, more: dict[str, Tensor]) -> Tensor:
        return (pair[0] * pair[1]).exp() * scale + more["z"].sin()

    x, y, z = leaf(3), leaf(3, seed=1), leaf(3, seed=2)
    checkpoint(part, (x, y), scale=2.0, more={"z": z}).sum().backward()
    np.testing.assert_allclose(x.grad, 2 * y.data * np.exp(x.data * y.data))
    np.testing.assert_allclose(z.grad, np.cos(z.data))
    assert checkpoint(lambda function: function * 2, function=x).shape == (3,)


def test_only_the_gradients_that_are_asked_for() -> None:
    x, y = leaf(3), leaf(3, seed=1)
    out = checkpoint(lambda a, b: (a.exp() * b.sin()).tanh(), x, y).sum()
    (g,) = grad(out, y, retain_graph=True)
    (wanted,) = grad((x.exp() * y.sin()).tanh().sum(), y)
    same(g, wanted)
    out.backward(inputs=[x])
    assert y.grad is None and x.grad is not None


# Passes


def test_a_kept_graph_serves_any_number_of_passes_and_a_freed_one_none() -> None:
    x = leaf(3)
    runs: list[int] = []

    def part(a: Tensor) -> Tensor:
        runs.append(1)
        return a.exp().sin()

    loss = checkpoint(part, x).sum()
    for _ in range(3):
        loss.backward(retain_graph=True)
    (once,) = grad(loss, x)
    np.testing.assert_allclose(x.grad, 3 * once.data, rtol=1e-15)
    assert len(runs) == 5
    with pytest.raises(RuntimeError, match=r"a second time.*retain_graph=True"):
        loss.backward()
    assert len(runs) == 5


def test_each_pass_runs_each_part_once_again() -> None:
    x = leaf(3)
    runs: list[str] = []

    def part(name: str, a: Tensor) -> tuple[Tensor, Tensor]:
        runs.append(name)
        return a.exp().sin(), a.cos()

    a, b = checkpoint(part, "first", x)
    c, d = checkpoint(part, "second", a * b)
    (c + d + a + b).sum().backward()
    assert runs == ["first", "second", "second", "first"]


def test_without_grad_mode_or_a_need_nothing_is_run_again() -> None:
    x = leaf(3)
    with no_grad():
        y = checkpoint(lambda a: a.exp(), x)
    assert not y.requires_grad
    assert checkpoint(lambda a: a.exp(), x.detach()).node is None
    assert checkpoint(lambda: "text") == "text"


def test_a_pass_within_no_grad_runs_the_part_in_grad_mode() -> None:
    x = leaf(3)
    loss = checkpoint(lambda a: a.exp().sin(), x).sum()
    with no_grad():
        loss.backward()
        assert not st.is_grad_enabled()
    np.testing.assert_allclose(x.grad, np.cos(np.exp(x.data)) * np.exp(x.data))


@pytest.mark.parametrize("enabled", [False, True])
def test_the_second_run_has_the_anomaly_mode_of_the_first(enabled: bool) -> None:
    x = leaf(3)
    modes: list[bool] = []

    def part(a: Tensor) -> Tensor:
        modes.append(st.is_anomaly_enabled())
        return a.exp().sin()

    with st.detect_anomaly(enabled):
        loss = checkpoint(part, x).sum()
    with st.detect_anomaly(not enabled):
        loss.backward()
    assert modes == [enabled, enabled]


def test_anomaly_mode_names_the_op_and_its_line() -> None:
    x = Tensor([0.0], dtype="float64", requires_grad=True)

    def part(a: Tensor) -> Tensor:
        return a.sqrt() * 3

    with st.detect_anomaly():
        loss = checkpoint(part, x).sum()
        line = part.__code__.co_firstlineno + 1
        with pytest.raises(RuntimeError, match=rf"sqrt: the backward yielded .* {__file__}:{line}"):
            loss.backward()
    assert x.grad is None


def test_hooks_and_retained_gradients_inside_a_part_work_once() -> None:
    x = leaf(3)
    seen: list[Any] = []
    kept: list[Tensor] = []

    def part(a: Tensor) -> Tensor:
        h = a.exp()
        h.register_hook(seen.append)
        h.retain_grad()
        kept.append(h)
        return h.sin()

    checkpoint(part, x).sum().backward()
    assert len(seen) == 1 and len(kept) == 2
    np.testing.assert_allclose(kept[0].grad, np.cos(np.exp(x.data)))
    assert kept[1].grad is None


def test_an_intermediate_that_got_out_can_be_differentiated() -> None:
    x = leaf(3)
    out: list[Tensor] = []

    def part(a: Tensor) -> Tensor:
        out.append(a.exp())
        return out[-1].sin()

    checkpoint(part, x)
    out[0].sum().backward()
    np.testing.assert_allclose(x.grad, np.exp(x.data))


def test_the_graph_is_that_of_a_plain_call() -> None:
    x = leaf(3)

    def ops(t: Any) -> list[str]:
        return [t.op, *(op for edge in t.inputs for op in ops(edge))]

    assert ops(checkpoint(lambda a: (a * a).exp(), x)) == ops((x * x).exp())


def test_a_pass_that_is_watched_sees_the_rules_of_the_part() -> None:
    x = leaf(1)
    seen: list[str] = []
    out = checkpoint(lambda a: checkpoint(lambda b: b.exp(), a).sin(), x).sum()
    leaves = out.trace_backward(lambda node, i, **said: seen.append(node.op))
    assert seen == ["sum", "sin", "exp"]
    ((found, g),) = leaves
    assert found is x and x.grad is None
    np.testing.assert_allclose(g, np.cos(np.exp(x.data)) * np.exp(x.data))


def test_results_may_be_changed_in_place() -> None:
    found = []
    for call in (lambda f, a: f(a), checkpoint):
        x = leaf(3)
        y = call(lambda a: a.exp() * 2, x)
        y.mul_(3).add_(y)
        y.sin().sum().backward()
        found.append(x.grad)
    same(*found)


def test_derivatives_of_third_order() -> None:
    x = Tensor(0.3, dtype="float64", requires_grad=True)
    y = checkpoint(lambda a: checkpoint(lambda b: (3 * b).exp(), a) * 1.0, x)
    for order in (1, 2, 3):
        (y,) = grad(y, x, create_graph=True)
        assert y.item() == pytest.approx(3**order * np.exp(0.9), rel=1e-14)


def test_gradcheck_and_gradgradcheck_pass() -> None:
    x, y = leaf(2, 3), leaf(2, 3, seed=1)
    for part in (PARTS["twice nested"], PARTS["random, nested"], PARTS["in place"]):
        assert st.gradcheck(lambda a, b, part=part: checkpoint(part, a, b), [x, y])
        assert st.gradgradcheck(lambda a, b, part=part: checkpoint(part, a, b), [x, y])


def test_passes_in_several_threads_over_one_graph() -> None:
    x = leaf(50)
    loss = checkpoint(lambda a: checkpoint(lambda b: b.exp().sin(), a).tanh(), x).sum()
    (wanted,) = grad(loss, x, retain_graph=True)
    found: list[Any] = []

    def work() -> None:
        found.extend(grad(loss, x, retain_graph=True) for _ in range(20))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 80
    for (g,) in found:
        same(g, wanted)


def test_a_traced_checkpoint_is_a_plain_call() -> None:
    x, runs = leaf(3), []

    def step(x: Tensor) -> Tensor:
        def part(a: Tensor) -> Tensor:
            runs.append(1)
            return st.dropout(a.exp(), 0.5).sin()

        (g,) = grad(checkpoint(part, x).sum(), x)
        return g

    program = st.trace(step)(x)
    assert len(runs) == 1
    for _ in range(3):
        state = default_generator.get_state()
        found = program(x)
        default_generator.set_state(state)
        np.testing.assert_allclose(found, step(x), rtol=1e-14)


# Random numbers


def test_generators_are_put_back_and_end_where_they_stood() -> None:
    own = Generator(5)
    drawn: list[Any] = []

    def part(a: Tensor) -> Tensor:
        drawn.append((st.rand(2).tolist(), own.uniform(shape=2).tolist()))
        return a.exp().sin()

    loss = checkpoint(part, leaf(3)).sum()
    st.rand(7)
    own.integers(0, 9, 5)
    before = default_generator.get_state(), own.get_state()
    loss.backward()
    assert drawn[0] == drawn[1]
    assert (default_generator.get_state(), own.get_state()) == before


def test_a_generator_that_was_not_drawn_from_is_left_alone() -> None:
    other, states = Generator(5), []

    def part(a: Tensor) -> Tensor:
        states.append(other.get_state())
        return a.exp().sin()

    loss = checkpoint(part, leaf(3)).sum()
    other.uniform()
    loss.backward()
    assert states[0] != states[1] == other.get_state()


def test_generators_are_put_back_after_a_failure() -> None:
    runs: list[int] = []

    def part(a: Tensor) -> Tensor:
        runs.append(1)
        st.rand(3)
        return a.exp() / (1 if len(runs) == 1 else 1 // 0)

    x = leaf(3)
    loss = checkpoint(part, x).sum()
    st.rand(3)
    before = default_generator.get_state()
    with pytest.raises(ZeroDivisionError):
        loss.backward()
    assert default_generator.get_state() == before and x.grad is None


def test_every_generator_there_is_is_known_as_long_as_it_is() -> None:
    one = Generator(1)
    assert one in generators() and default_generator in generators()
    count, one = len(generators()), Generator(2)
    gc.collect()
    assert len(generators()) <= count


# Failures: every gradient stays as it was


def refused(loss: Tensor, message: str, *leaves: Tensor) -> None:
    before = [None if t.grad is None else t.grad.data.copy() for t in leaves]
    for create_graph in (False, True):
        with pytest.raises(RuntimeError, match=message):
            loss.backward(create_graph=create_graph, retain_graph=True)
    for t, old in zip(leaves, before, strict=True):
        assert (t.grad is None) == (old is None)
        if old is not None:
            np.testing.assert_array_equal(t.grad, old)


def test_an_argument_changed_in_place_since_is_an_error() -> None:
    x, data = leaf(3), weights(3)
    loss = checkpoint(lambda a, b: (a + b + 1).exp(), x, data).sum() + x.sum()
    x.sum().backward()
    data.add_(1)
    message = r"modified by an inplace operation.*args\[1\] of shape \(3,\) .*version 1, expected"
    refused(loss, message, x)


def test_a_leaf_that_a_part_closes_over_changed_in_place_since_is_an_error() -> None:
    x, w = leaf(3), leaf(3, seed=1)
    loss = checkpoint(lambda a: (a + w).exp(), x).sum()
    with no_grad():
        w.sub_(0.1)
    refused(loss, r"modified by an inplace operation.*a leaf of shape \(3,\)", x, w)


def test_an_argument_given_other_data_is_an_error() -> None:
    x = leaf(3)
    loss = checkpoint(lambda a: (a + 1).exp(), x).sum()
    x.data = np.zeros(3)
    refused(loss, "or given other data", x)


def test_such_an_error_is_raised_before_anything_is_freed() -> None:
    x, data = leaf(3), weights(3)
    part = checkpoint(lambda a, b: a * b, x, data)
    side = x.exp()  # which comes first on the way back
    loss = (part + side).sum()
    data.add_(1)
    with pytest.raises(RuntimeError, match="inplace"):
        loss.backward()
    side.sum().backward()
    np.testing.assert_allclose(x.grad, np.exp(x.data))


def test_a_part_that_changes_its_argument_is_refused() -> None:
    with pytest.raises(RuntimeError, match=r"changed its argument args\[0\] in place"):
        checkpoint(lambda a: a.mul_(2).exp(), leaf(3) * 1)


@cases(
    "then, message",
    {
        "another op": (lambda a: a.exp().cos(), r"op 1 was sin .*, now cos"),
        "one op less": (lambda a: a.exp(), r"op 1 was sin .*, now nothing"),
        "one op more": (lambda a: a.exp().sin().sin(), r"op 2 was nothing, now sin"),
        "another shape": (lambda a: a[:2].exp().sin(), r"op 0 was exp .*, now getitem"),
        "no gradient": (lambda a: a.detach().exp().sin(), r"op 0 was exp .*, now nothing"),
    },
)
def test_a_part_that_does_something_else_the_second_time_is_an_error(
    then: Callable[[Tensor], Tensor], message: str
) -> None:
    x = leaf(3)
    runs: list[int] = []

    def part(a: Tensor) -> Tensor:
        runs.append(1)
        return a.exp().sin() if len(runs) == 1 else then(a)

    refused(checkpoint(part, x).sum(), message, x)


def test_an_error_of_the_second_run_reaches_the_caller() -> None:
    x, y = leaf(3), leaf(3, seed=1)
    runs: list[int] = []

    def part(a: Tensor) -> Tensor:
        runs.append(1)
        if len(runs) > 1:
            raise ArithmeticError("stop")
        return a.exp().sin()

    y.sum().backward()
    loss = (checkpoint(part, x) + y * y).sum()
    with pytest.raises(ArithmeticError, match="stop"):
        loss.backward()
    assert x.grad is None and st.is_grad_enabled()
    np.testing.assert_array_equal(y.grad, [1, 1, 1])


def test_what_cannot_be_called_is_refused() -> None:
    with pytest.raises(TypeError, match=r"function must be callable, got Tensor.*checkpoint\(f, x"):
        checkpoint(leaf(3), leaf(3))  # type: ignore[arg-type]


def test_an_error_of_the_first_run_leaves_nothing_behind() -> None:
    x = leaf(3)
    with pytest.raises(RuntimeError, match="matmul"):
        checkpoint(lambda a: a.exp() @ weights(5), x)
    x.exp().sum().backward()
    assert x.grad is not None
