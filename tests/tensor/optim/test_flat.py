"""Parameters in flat buffers: nothing is allocated, nobody else's memory is touched."""

from __future__ import annotations

import copy
import functools
import tracemalloc
from collections.abc import Callable
from typing import Any, Final

import numpy as np
import pytest

import tensor
from tensor import Tensor, nn, optim
from tensor.kernels import optimizers
from tensor.kernels.optimizers import sweep
from tensor.optim import _optimizer
from tests.tensor.optim.cases import CASES

KINDS: Final[dict[str, Callable[..., optim.Optimizer]]] = {
    name: functools.partial(getattr(optim, case.name), **case.options)
    for name, case in CASES.items()
}

each_kind = pytest.mark.parametrize("make", KINDS.values(), ids=KINDS)


def small() -> nn.Sequential:
    return nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))


def give_gradients(model: nn.Module, seed: int = 0) -> None:
    rng = np.random.default_rng(seed)
    for p in model.parameters():
        p.grad = Tensor(rng.normal(size=p.shape).astype(p.dtype))


def buffers(optimizer: optim.Optimizer) -> list[np.ndarray]:
    return [flat.data for flats in optimizer._flats for flat in flats]


def values(model: nn.Module) -> list[np.ndarray]:
    return [p.data.copy() for p in model.parameters()]


def equal(one: list[np.ndarray], other: list[np.ndarray]) -> bool:
    return all(np.array_equal(a, b) for a, b in zip(one, other, strict=True))


# Views


@each_kind
def test_parameters_become_views_of_one_array_with_their_values(
    make: Callable[..., optim.Optimizer],
) -> None:
    model = small()
    before = values(model)
    optimizer = make(model.parameters())
    (flat,) = buffers(optimizer)
    assert equal(values(model), before)
    assert np.array_equal(flat, np.concatenate([array.ravel() for array in before]))
    for p in model.parameters():
        assert p.data.base is flat and p.data.flags.c_contiguous


def test_parameters_of_any_layout_are_taken_in() -> None:
    rows = np.arange(6.0).reshape(2, 3)
    p, q = nn.Parameter(rows), nn.Parameter(rows)
    p.data, q.data = np.asfortranarray(rows), rows[::-1, ::2]
    optim.SGD([p, q])
    assert p.tolist() == rows.tolist() and q.tolist() == rows[::-1, ::2].tolist()


def test_parameters_without_elements_or_dimensions_are_taken_in() -> None:
    params = [nn.Parameter(np.ones(shape)) for shape in ((0, 3), (), (2,))]
    optimizer = optim.AdamW(params, lr=0.5)
    for p in params:
        p.grad = Tensor(np.ones(p.shape))
    optimizer.step()
    assert [p.shape for p in params] == [(0, 3), (), (2,)]
    assert (buffers(optimizer)[0] < 1).all()


@each_kind
def test_loading_a_state_leaves_the_views_in_place(make: Callable[..., optim.Optimizer]) -> None:
    model, other = small(), small()
    optimizer, twin = make(model.parameters()), make(other.parameters())
    for i in range(2):
        give_gradients(model, i)
        optimizer.step()
        views = [p.data for p in other.parameters()]
        other.load_state_dict(model.state_dict())
        twin.load_state_dict(optimizer.state_dict())
        assert all(p.data is view for p, view in zip(other.parameters(), views, strict=True))
        assert np.array_equal(buffers(twin)[0], buffers(optimizer)[0])
    give_gradients(model, 9)
    give_gradients(other, 9)
    optimizer.step()
    twin.step()
    assert equal(values(model), values(other))


def test_data_that_was_replaced_is_taken_in_at_the_next_step() -> None:
    model = small()
    optimizer = optim.SGD(model.parameters(), lr=1.0)
    (flat,) = buffers(optimizer)
    weight = next(model.parameters())
    given = np.full(weight.shape, 5.0, np.float32)
    weight.data = given
    give_gradients(model)
    assert weight.grad is not None
    optimizer.step()
    assert np.array_equal(weight.data, 5.0 - weight.grad.data)
    assert weight.data.base is flat and (given == 5.0).all()


def test_it_is_so_where_every_gradient_is_in_its_place() -> None:
    model = small()
    optimizer = optim.SGD(model.parameters(), lr=1.0)
    for p in model.parameters():
        p.data = np.full(p.shape, 5.0, np.float32)
    model(Tensor(np.ones((2, 3), np.float32))).sum().backward()
    before = [p.grad.data.copy() for p in model.parameters() if p.grad is not None]
    optimizer.step()
    for p, g in zip(model.parameters(), before, strict=True):
        np.testing.assert_array_equal(p.data, 5.0 - g)


@pytest.mark.parametrize("convert", ["double", "half"])
def test_converting_the_model_afterwards_is_refused_before_anything_changes(convert: str) -> None:
    model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    optimizer = optim.AdamW(model.parameters())
    give_gradients(model)
    getattr(model[1], convert)()
    before = values(model)
    with pytest.raises(RuntimeError, match="make the optimizer after converting the model"):
        optimizer.step()
    assert equal(values(model), before) and optimizer.state == {}


def test_a_parameter_of_another_shape_is_refused() -> None:
    p = nn.Parameter(np.ones(3))
    optimizer = optim.SGD([p])
    p.data = np.ones(4)
    p.grad = Tensor(np.ones(4))
    with pytest.raises(RuntimeError, match=r"shape \(4,\).*had \(3,\)"):
        optimizer.step()


@each_kind
def test_two_optimizers_of_the_same_parameters_take_turns(
    make: Callable[..., optim.Optimizer],
) -> None:
    shared, alone = small(), small()
    alone.load_state_dict(shared.state_dict())
    first, second = make(shared.parameters()), optim.SGD(shared.parameters(), lr=0.3)
    reference = make(alone.parameters())
    for i in range(4):
        for model in (shared, alone):
            give_gradients(model, i)
        first.step()
        reference.step()
        second.step()
        for p in alone.parameters():  # what SGD does, with none of its machinery
            assert p.grad is not None
            p.data = p.data + p.grad.data * np.float32(-0.3)
    assert equal(values(shared), values(alone))


def test_a_deep_copy_with_its_model_goes_on_by_itself() -> None:
    model = small()
    optimizer = optim.AdamW(model.parameters(), lr=0.1)
    give_gradients(model)
    optimizer.step()
    twin_model, twin = copy.deepcopy((model, optimizer))
    assert [id(p) for p in twin.param_groups[0]["params"]] == [
        id(p) for p in twin_model.parameters()
    ]
    before = values(model)
    give_gradients(twin_model, 1)
    twin.step()
    assert equal(values(model), before)
    give_gradients(model, 1)
    optimizer.step()
    assert equal(values(model), values(twin_model))
    assert not np.shares_memory(buffers(twin)[0], buffers(optimizer)[0])


# The state


def test_a_state_that_was_cleared_starts_anew() -> None:
    model = small()
    optimizer = optim.AdamW(model.parameters(), lr=0.1)
    for i in range(3):
        give_gradients(model, i)
        optimizer.step()
    start = model.state_dict()
    optimizer.state.clear()
    give_gradients(model, 7)
    optimizer.step()
    other = small()
    other.load_state_dict(start)
    give_gradients(other, 7)
    optim.AdamW(other.parameters(), lr=0.1).step()
    assert equal(values(model), values(other))


def test_the_arrays_of_the_state_are_views_of_flat_buffers() -> None:
    model = small()
    optimizer = optim.Adam(model.parameters(), amsgrad=True)
    for i in range(2):
        give_gradients(model, i)
        optimizer.step()
        for name in ("exp_avg", "exp_avg_sq", "max_exp_avg_sq"):
            bases = {id(entries[name].base) for entries in optimizer.state.values()}
            assert len(bases) == 1
    assert [p.shape for p in optimizer.state] == [
        entries["exp_avg"].shape for entries in optimizer.state.values()
    ]


@each_kind
def test_a_state_dict_is_a_snapshot(make: Callable[..., optim.Optimizer]) -> None:
    model = small()
    optimizer = make(model.parameters())
    give_gradients(model)
    optimizer.step()
    state = optimizer.state_dict()
    before = copy.deepcopy(state)
    give_gradients(model, 1)
    optimizer.step()
    optimizer.param_groups[0]["lr"] = 77.0
    for key, entries in before["state"].items():
        for name, value in entries.items():
            assert np.array_equal(state["state"][key][name], value)
    assert state["param_groups"] == before["param_groups"]


def test_what_was_loaded_is_not_the_loaders_array() -> None:
    model = small()
    optimizer = optim.SGD(model.parameters(), momentum=0.9)
    give_gradients(model)
    optimizer.step()
    state = optimizer.state_dict()
    before = state["state"][0]["momentum_buffer"].copy()
    optimizer.load_state_dict(state)
    optimizer.step()
    assert np.array_equal(state["state"][0]["momentum_buffer"], before)


# Gradients


@each_kind
def test_a_gradient_that_was_kept_never_changes(make: Callable[..., optim.Optimizer]) -> None:
    model = small()
    optimizer = make(model.parameters())
    x = Tensor(np.ones((2, 3), np.float32))
    kept: list[tuple[Tensor, np.ndarray]] = []
    for i in range(3):
        optimizer.zero_grad()
        (model(x) * float(i + 1)).sum().backward()
        for p in model.parameters():
            assert p.grad is not None
            kept.append((p.grad, p.grad.data.copy()))
        optimizer.step()
        for gradient, before in kept:
            assert np.array_equal(gradient.data, before)


def test_zero_grad_drops_or_zeroes() -> None:
    p = nn.Parameter(np.ones(2))
    optimizer = optim.SGD([p])
    p.grad = kept = Tensor(np.ones(2))
    optimizer.zero_grad(set_to_none=False)
    assert p.grad is kept and kept.tolist() == [0.0, 0.0]
    optimizer.zero_grad()
    assert p.grad is None


# Versions


@each_kind
def test_a_graph_from_before_a_step_is_stale(make: Callable[..., optim.Optimizer]) -> None:
    model = small()
    optimizer = make(model.parameters())
    loss = model(Tensor(np.ones((1, 3), np.float32))).sum()
    loss.backward(retain_graph=True)
    gradients = [p.grad for p in model.parameters()]
    optimizer.step()
    with pytest.raises(RuntimeError, match=r"linear.*modified by an inplace operation"):
        loss.backward()
    assert [p.grad for p in model.parameters()] == gradients or all(
        p.grad is g for p, g in zip(model.parameters(), gradients, strict=True)
    )


def test_a_step_counts_as_one_change_of_what_it_moves_and_of_nothing_else() -> None:
    p, q, r = (nn.Parameter(np.ones(2)) for _ in range(3))
    optimizer = optim.SGD([p, q, r])
    p.grad = Tensor(np.ones(2))
    optimizer.step()
    q.grad = Tensor(np.ones(2))
    optimizer.step()
    assert (p.version, q.version, r.version) == (2, 1, 0)


@pytest.mark.parametrize(
    ("given", "sgd", "adam"),
    [
        ({0, 1, 2, 3, 4, 5}, [21], [3, 3, 15]),
        ({0, 1, 3, 4, 5}, [3, 15], [3, 15]),
        ({0, 2, 3}, [1, 7], [1, 3, 4]),
        ({1, 3}, [2, 4], [2, 4]),
        ({2}, [3], [3]),
        (set(), [], []),
    ],
)
def test_neighbours_that_have_taken_the_same_steps_are_moved_by_one_call(
    given: set[int], sgd: list[int], adam: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    lengths: list[int] = []

    def counted(kernel: Any, data: Any, *rest: Any, **options: Any) -> None:
        lengths.append(len(data))
        sweep(kernel, data, *rest, **options)

    monkeypatch.setattr(_optimizer, "sweep", counted)
    for kind, wanted in ((optim.SGD, sgd), (optim.Adam, adam)):
        params = [nn.Parameter(np.ones(k + 1)) for k in range(6)]
        optimizer = kind(params)
        for numbers in ({0, 1, 3, 4, 5}, given):  # the third one is a step behind
            optimizer.zero_grad()
            for i in numbers:
                params[i].grad = Tensor(np.ones(i + 1))
            lengths.clear()
            optimizer.step()
        assert lengths == wanted


# Closures


def test_a_closure_is_called_with_gradients_on_and_its_loss_returned() -> None:
    p = nn.Parameter(np.array(3.0))
    optimizer = optim.SGD([p], lr=0.5)

    def closure() -> Tensor:
        optimizer.zero_grad()
        loss = p * p
        loss.backward()
        return loss

    with tensor.no_grad():
        loss = optimizer.step(closure)
    assert (loss.item(), p.item()) == (9.0, 0.0)
    assert optimizer.step() is None


def test_a_closure_that_fails_leaves_everything_as_it_was() -> None:
    p = nn.Parameter(np.array(3.0))
    optimizer = optim.AdamW([p])
    p.grad = Tensor(np.array(1.0))

    def closure() -> None:
        raise KeyError("no data")

    with pytest.raises(KeyError):
        optimizer.step(closure)
    assert p.item() == 3.0 and optimizer.state == {} and tensor.is_grad_enabled()


# Memory


def peak_of(function: Callable[[], Any]) -> int:
    """How many bytes more than before were in use at some moment of a call."""
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        tracemalloc.reset_peak()
        function()
        return tracemalloc.get_traced_memory()[1] - before
    finally:
        tracemalloc.stop()


def large() -> nn.Sequential:
    return nn.Sequential(nn.Linear(300, 200), nn.ReLU(), nn.Linear(200, 10))


# Python's own objects (numbers, slices, views without memory) come and go: some kilobytes,
# where one block of float32 has 131,072 bytes.
ALLOWANCE: Final = 16_000


@each_kind
def test_a_step_allocates_no_array_after_the_first(make: Callable[..., optim.Optimizer]) -> None:
    model = large()
    optimizer = make(model.parameters())
    give_gradients(model)
    optimizer.step()
    assert peak_of(optimizer.step) < ALLOWANCE
    next(model.parameters()).grad = None  # nor where the run is broken up
    optimizer.step()
    assert peak_of(optimizer.step) < ALLOWANCE


def test_the_watch_over_memory_rejects_an_optimizer_that_allocates() -> None:
    class Wasteful(optim.SGD):
        @staticmethod
        def _kernel(p: np.ndarray, g: np.ndarray, work: np.ndarray, *, lr: float) -> None:
            p -= lr * g

    model = large()
    optimizer = Wasteful(model.parameters())
    give_gradients(model)
    optimizer.step()
    assert peak_of(optimizer.step) > 4 * optimizers.BLOCK


# Gradients


def backward(model: nn.Module, seed: int = 0) -> None:
    x = np.random.default_rng(seed).normal(size=(5, 3)).astype(np.float32)
    model.zero_grad()
    (model(Tensor(x)) ** 2).sum().backward()


def gradients(model: nn.Module) -> list[np.ndarray]:
    return [p.grad.data for p in model.parameters() if p.grad is not None]


@each_kind
def test_a_backward_pass_puts_gradients_into_one_array(
    make: Callable[..., optim.Optimizer],
) -> None:
    model = small()
    backward(model)
    wanted = [g.copy() for g in gradients(model)]
    optimizer = make(model.parameters())
    ((flat,),) = optimizer._flats
    buffer = id(flat.grad)  # who holds the array itself is taken to look at it
    for _ in range(3):
        backward(model)
        assert all(id(g.base) == buffer for g in gradients(model))
        assert np.array_equal(flat.grad, np.concatenate([g.ravel() for g in gradients(model)]))
    assert equal(gradients(model), wanted)
    optimizer.step()
    assert id(flat.grad) == buffer


def test_a_second_pass_adds_to_the_gradients_where_they_are() -> None:
    model = small()
    optimizer = optim.SGD(model.parameters())
    backward(model)
    once = [g.copy() for g in gradients(model)]
    (model(Tensor(np.random.default_rng(0).normal(size=(5, 3)).astype("f"))) ** 2).sum().backward()
    assert all(g.base is optimizer._flats[0][0].grad for g in gradients(model))
    for found, right in zip(gradients(model), once, strict=True):
        np.testing.assert_allclose(found, 2 * right, rtol=1e-6)


KEEP: Final[dict[str, Callable[[Tensor], Any]]] = {
    "the Tensor": lambda g: g,
    "its array": lambda g: g.numpy(),
    "part of its array": lambda g: g.numpy()[1:],
    "a view": lambda g: g[0],
    "a detached view": lambda g: g.detach().T,
    "a buffer": lambda g: memoryview(g.numpy()),
}


@pytest.mark.parametrize("keep", KEEP.values(), ids=KEEP)
@pytest.mark.parametrize("steps", [True, False])
def test_whatever_was_kept_of_a_gradient_never_changes(
    keep: Callable[[Tensor], Any], steps: bool
) -> None:
    model = small()
    optimizer = optim.SGD(model.parameters(), lr=0.1)
    backward(model)
    grad = next(model.parameters()).grad
    assert grad is not None
    kept = keep(grad)
    del grad
    before = np.array(kept)
    for seed in range(3):
        if steps:
            optimizer.step()
        backward(model, seed + 1)
        assert np.array_equal(np.array(kept), before)
    give_gradients(model)
    optimizer.step()
    assert np.array_equal(np.array(kept), before)
    assert not np.shares_memory(np.array(kept, copy=False), optimizer._flats[0][0].grad)
    del kept
    backward(model)
    backward(model)
    assert all(g.base is optimizer._flats[0][0].grad for g in gradients(model))


def test_gradients_that_were_kept_do_not_change_what_is_learnt() -> None:
    models = [small() for _ in range(2)]
    models[1].load_state_dict(models[0].state_dict())
    optimizers = [optim.AdamW(model.parameters(), lr=0.1) for model in models]
    kept: list[Any] = []
    for seed in range(6):
        for model in models:
            backward(model, seed)
        kept += [p.grad for p in models[0].parameters() if seed % 2]
        for optimizer in optimizers:
            optimizer.step()
    assert equal(values(models[0]), values(models[1]))


def test_gradients_of_two_optimizers_lie_with_the_one_made_last() -> None:
    model = small()
    first = optim.SGD(model.parameters(), lr=0.1)
    second = optim.SGD(model.parameters(), lr=0.1)
    backward(model)
    assert all(g.base is second._flats[0][0].grad for g in gradients(model))
    before = values(model)
    first.step()
    assert not equal(values(model), before)


def test_a_gradient_put_elsewhere_is_taken_to_its_place_by_a_step() -> None:
    model = small()
    optimizer = optim.SGD(model.parameters(), lr=1.0)
    backward(model)
    weight = next(model.parameters())
    given = np.full(weight.shape, 0.5, np.float32)
    weight.grad = Tensor(given)
    before = weight.data.copy()
    optimizer.step()
    assert np.array_equal(weight.data, before - 0.5)


def test_a_copy_of_a_model_has_gradients_of_its_own() -> None:
    model = small()
    optimizer = optim.SGD(model.parameters())
    twin = copy.deepcopy(model)
    backward(model)
    wanted = [g.copy() for g in gradients(model)]
    backward(twin, 5)
    assert equal(gradients(model), wanted)
    assert not any(np.shares_memory(g, optimizer._flats[0][0].grad) for g in gradients(twin))


@each_kind
def test_buffers_begin_where_vectors_do(make: Callable[..., optim.Optimizer]) -> None:
    for _ in range(20):  # memory of the system's own choice would be right now and then
        model = small()
        optimizer = make(model.parameters())
        give_gradients(model)
        optimizer.step()
        for flats in optimizer._flats:
            for flat in flats:
                states = [array for array, _ in flat._states.values()]
                assert all(a.ctypes.data % 64 == 0 for a in (flat.data, flat.grad, *states))
