"""Compiled functions: the same numbers as without, whatever changes between the calls."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tensor
from tensor import Tensor, nn, optim
from tensor.nn.utils import clip_grad_norm_, clip_grad_value_

CLASSES = 5


class Char(nn.Module):
    def __init__(self) -> None:
        self.table, self.first = nn.Embedding(11, 6), nn.Linear(24, 16)
        self.norm, self.last = nn.LayerNorm(16), nn.Linear(16, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.norm(self.first(self.table(x).flatten(1))).tanh())


class Attending(nn.Module):
    """A transformer block over four tokens, with a projection that is tied to the embedding."""

    def __init__(self, p: float = 0.0) -> None:
        self.table = nn.Embedding(11, 8)
        self.block = nn.TransformerEncoderLayer(8, 2, 16, dropout=p, batch_first=True)
        self.head = nn.Linear(8, 11, bias=False)
        self.head.weight = self.table.weight

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.block(self.table(x)))[:, -1, :CLASSES]


class Recurrent(nn.Module):
    def __init__(self) -> None:
        self.cell, self.last = nn.LSTMCell(6, 7), nn.Linear(7, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        state = None
        for t in range(x.shape[1]):
            state = self.cell(x[:, t], state)
        return self.last(state[0])


MODELS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...] | None]] = {
    "mlp": (
        lambda: nn.Sequential(
            nn.Linear(6, 9), nn.ReLU(), nn.Linear(9, 8), nn.Sigmoid(), nn.Linear(8, CLASSES)
        ),
        (6,),
    ),
    "char": (Char, None),
    "cnn": (
        lambda: nn.Sequential(
            *(nn.Conv2d(2, 3, 3, padding=1), nn.BatchNorm2d(3), nn.ReLU(), nn.MaxPool2d(2)),
            *(nn.Flatten(), nn.Dropout(0.3), nn.Linear(12, CLASSES)),
        ),
        (2, 4, 4),
    ),
    "attention": (Attending, None),
    "dropped attention": (lambda: Attending(0.2), None),
    "lstm": (Recurrent, (4, 6)),
}
OPTIMIZERS: dict[str, Callable[..., Any]] = {
    "sgd": lambda p: optim.SGD(p, lr=0.1, momentum=0.9),
    "adamw": lambda p: optim.AdamW(p, lr=0.01),
    "rmsprop": lambda p: optim.RMSprop(p, lr=0.01),
}


def batch(shape: tuple[int, ...] | None, seed: int, rows: int = 6) -> tuple[Tensor, Tensor]:
    rng = np.random.default_rng(seed)
    x = rng.integers(0, 11, (rows, 4)) if shape is None else rng.normal(size=(rows, *shape))
    x = x if shape is None else x.astype(np.float32)
    return Tensor(x), Tensor(rng.integers(0, CLASSES, rows))


class Training:
    """A model, its optimizer and a whole step; ``step`` is compiled or not."""

    def __init__(self, model: str, optimizer: str = "adamw", compiled: bool = True, **options: Any):
        tensor.manual_seed(5)
        make, self.shape = MODELS[model]
        self.model = make()
        self.optimizer = OPTIMIZERS[optimizer](self.model.parameters())
        self.step: Any = tensor.compile(self.plain, **options) if compiled else self.plain

    def plain(self, x: Tensor, y: Tensor) -> Tensor:
        loss = tensor.cross_entropy(self.model(x), y)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss

    def state(self) -> list[np.ndarray]:
        tensors = [*self.model.parameters(), *self.model.buffers()]
        return [t.data.copy() for t in tensors] + [
            p.grad.data.copy() for p in self.model.parameters() if p.grad is not None
        ]


def assert_equal(found: list[np.ndarray], wanted: list[np.ndarray]) -> None:
    assert len(found) == len(wanted)
    for a, b in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(a, b, strict=True)


def run(training: Training, steps: int = 6, rows: int = 6) -> list[float]:
    tensor.manual_seed(9)
    return [training.step(*batch(training.shape, i, rows)).item() for i in range(steps)]


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("model", MODELS)
def test_training_gives_the_same_bits(model: str, optimizer: str) -> None:
    compiled, plain = (Training(model, optimizer, compiled=c) for c in (True, False))
    assert run(compiled) == run(plain)
    assert_equal(compiled.state(), plain.state())
    assert len(compiled.step.programs) == 1


def test_half_and_double_precision_give_the_same_bits() -> None:
    for dtype in ("float16", "float64"):
        found = []
        for compiled in (True, False):
            training = Training("char")
            training.model.to(dtype)
            training.optimizer = OPTIMIZERS["sgd"](training.model.parameters())
            training.step = tensor.compile(training.plain) if compiled else training.plain
            run(training)
            found.append(training.state())
        assert_equal(*found)


def test_other_shapes_have_programs_of_their_own_and_few_are_kept() -> None:
    compiled, plain = (
        Training("mlp", compiled=c, **o) for c, o in ((True, {"cache_size": 3}), (False, {}))
    )
    for rows in (4, 6, 4, 7, 8, 6, 4, 4):
        assert run(compiled, 2, rows) == run(plain, 2, rows)
    assert len(compiled.step.programs) == 3
    assert compiled.step.programs[-1].arguments[0].shape == (4, 6)


def test_what_was_used_last_is_kept() -> None:
    calls = []

    @tensor.compile(cache_size=2)
    def run(x: Tensor) -> Tensor:
        calls.append(x.shape)
        return x + 1

    for length in (1, 2, 1, 1, 3, 1, 1):  # the third is used when the fifth needs room
        assert run(tensor.zeros(length)).tolist() == [1.0] * length
    assert calls == [(1,), (2,), (3,)]


def test_kernels_that_are_changed_are_noticed() -> None:
    x = Tensor(np.random.default_rng(0).normal(size=(8, 300)).astype("f"))
    run = tensor.compile(lambda x: (x * x + 1).softmax(1))
    for kernels in ("numpy", "numba", "numpy", "numba"):
        with tensor.use_kernels(kernels):
            np.testing.assert_array_equal(run(x).data, (x * x + 1).softmax(1).data)
    assert len(run.programs) == 2


def test_schedules_and_rates_set_by_hand_are_followed() -> None:
    found = []
    for compiled in (True, False):
        training = Training("mlp", compiled=compiled)
        schedule = optim.lr_scheduler.StepLR(training.optimizer, 2, 0.5)
        for i in range(6):
            training.step(*batch((6,), i))
            schedule.step()
            if i == 3:
                training.optimizer.param_groups[0]["weight_decay"] = 0.3
        found.append(training.state())
    assert_equal(*found)


def test_evaluation_is_another_program() -> None:
    model = nn.Sequential(nn.Dropout(0.5), nn.Linear(6, 3))
    forward = tensor.compile(model)
    x, _ = batch((6,), 0, 50)
    forward(x)
    assert not np.array_equal(forward(x).data, forward(x).data)
    model.eval()
    np.testing.assert_array_equal(forward(x).data, model(x).data)
    np.testing.assert_array_equal(forward(x).data, model(x).data)
    assert len(forward.programs) == 2
    model.train()
    assert not np.array_equal(forward(x).data, forward(x).data)
    assert len(forward.programs) == 2


def test_parameters_that_are_loaded_converted_or_replaced_are_noticed() -> None:
    model = nn.Linear(6, 3)
    forward = tensor.compile(model)
    x, _ = batch((6,), 0)
    forward(x)
    model.load_state_dict({"weight": np.ones((3, 6)), "bias": np.ones(3)})
    np.testing.assert_array_equal(forward(x).data, model(x).data)
    model.weight.data = np.full((3, 6), 2, np.float32)
    np.testing.assert_array_equal(forward(x).data, model(x).data)
    model.weight.data = np.asfortranarray(np.full((3, 6), 3, np.float32))
    np.testing.assert_array_equal(forward(x).data, model(x).data)
    model.weight = nn.Parameter(np.full((3, 6), 4, np.float32))
    np.testing.assert_array_equal(forward(x).data, model(x).data)
    np.testing.assert_array_equal(forward(x).data, model(x).data)
    model.double()
    double = x.double()
    np.testing.assert_array_equal(forward(double).data, model(double).data)


def test_an_optimizer_that_is_loaded_goes_on_from_there() -> None:
    found = []
    for compiled in (True, False):
        training = Training("mlp", compiled=compiled)
        run(training, 3)
        saved, weights = training.optimizer.state_dict(), training.model.state_dict()
        run(training, 3)
        training.optimizer.load_state_dict(saved)
        training.model.load_state_dict(weights)
        run(training, 3)
        found.append(training.state())
    assert_equal(*found)


def test_a_gradient_that_was_kept_never_changes() -> None:
    compiled, plain = (Training("mlp", compiled=c) for c in (True, False))
    run(compiled, 3), run(plain, 3)
    kept = [p.grad for p in compiled.model.parameters()]
    views = [g.data[..., :1] for g in kept[:2]]
    copies, parts = [g.data.copy() for g in kept], [v.copy() for v in views]
    del kept[3:]
    run(compiled, 3), run(plain, 3)
    assert_equal([g.data for g in kept], copies[:3])
    assert_equal(views, parts)
    assert_equal(compiled.state(), plain.state())
    del kept, views
    run(compiled, 3), run(plain, 3)
    assert_equal(compiled.state(), plain.state())


def test_results_never_change() -> None:
    training = Training("mlp")
    run(training, 2)
    loss = training.step(*batch((6,), 0))
    kept = loss.item()
    run(training, 2)
    assert loss.item() == kept
    double = tensor.compile(lambda x: (x, (2 * x)[1:], x.reshape(-1)))
    x = Tensor([[1.0], [2.0]])
    double(x)
    same, part, flat = double(x)
    double(Tensor([[5.0], [6.0]]))
    assert same is x
    assert (part.tolist(), flat.tolist()) == ([[4.0]], [1.0, 2.0])


def test_gradients_add_up_where_the_function_does_not_drop_them() -> None:
    found = []
    for compiled in (True, False):
        model = Training("mlp").model

        def collect(x: Tensor, y: Tensor, model: nn.Module = model) -> None:
            tensor.cross_entropy(model(x), y).backward()

        run: Any = tensor.compile(lambda x, y: collect(x, y)) if compiled else collect  # noqa: PLW0108
        for i in range(6):
            if i == 4:
                model.zero_grad()
            run(*batch((6,), i))
        found.append([p.grad.data for p in model.parameters() if p.grad is not None])
    assert_equal(*found)


@pytest.mark.parametrize("clip", ["norm", "value", "zero"])
def test_gradients_are_clipped(clip: str) -> None:
    found = []
    for compiled in (True, False):
        training = Training("mlp", "sgd")

        def step(x: Tensor, y: Tensor, training: Training = training) -> Tensor:
            loss = tensor.cross_entropy(training.model(x), y)
            training.optimizer.zero_grad(set_to_none=clip != "zero")
            loss.backward()
            norm = loss
            if clip == "norm":
                norm = clip_grad_norm_(training.model.parameters(), 0.3)
            else:
                clip_grad_value_(training.model.parameters(), 0.02)
            training.optimizer.step()
            return norm

        run: Any = tensor.compile(step) if compiled else step
        norms = [run(*batch((6,), i)).data for i in range(5)]
        found.append(norms + training.state())
    for a, b in zip(*found, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6)


def test_a_norm_that_is_not_finite_spoils_gradients_as_without_compiling() -> None:
    w = Tensor([1.0, 2.0], requires_grad=True)

    @tensor.compile
    def run(x: Tensor) -> Tensor:
        w.grad = None
        (w * x).sum().backward()
        return clip_grad_norm_([w], 1.0)

    for values in ([1.0, 2.0], [np.nan, 2.0], [3.0, 4.0]):
        norm, clipped = run(Tensor(values)), w.grad
        assert clipped is not None
        np.testing.assert_allclose(norm.item(), np.linalg.norm(values), rtol=1e-6)
        wanted = np.array(values) / (np.linalg.norm(values) + 1e-6)
        np.testing.assert_allclose(clipped.data, wanted, rtol=1e-6)


def test_a_step_that_ends_with_zero_grad_leaves_no_gradient() -> None:
    training = Training("mlp")

    @tensor.compile
    def step(x: Tensor, y: Tensor) -> Tensor:
        loss = tensor.cross_entropy(training.model(x), y)
        loss.backward()
        training.optimizer.step()
        training.optimizer.zero_grad()
        return loss

    losses = [step(*batch((6,), 0)).item() for _ in range(4)]
    assert all(p.grad is None for p in training.model.parameters())
    assert losses == sorted(losses, reverse=True)


def test_what_is_read_after_a_step_is_what_the_step_has_made() -> None:
    found = []
    for compiled in (True, False):
        training = Training("mlp", "sgd")

        def step(x: Tensor, y: Tensor, training: Training = training) -> tuple[Tensor, Tensor]:
            before = training.model(x)
            weight = training.model[0].weight.clone().detach()
            training.plain(x, y)
            return before - training.model(x), weight - training.model[0].weight

        run: Any = tensor.compile(step) if compiled else step
        found.append([r.data for i in range(3) for r in run(*batch((6,), i))])
    assert_equal(*found)


def test_changes_in_place_are_made_in_order() -> None:
    def changed(x: Tensor) -> Tensor:
        y = x * 2
        view = y[1:]
        z = y * 1
        view += 10
        return y * 1 + z + view.sum()

    replay = tensor.compile(changed)
    for values in ([1.0, 2.0], [3.0, 5.0], [0.0, -1.0]):
        assert replay(Tensor(values)).tolist() == changed(Tensor(values)).tolist()


def test_arguments_may_lie_anyhow_in_memory() -> None:
    scaled = tensor.compile(lambda x: (x.T * 2, x.reshape(-1)))
    x = Tensor(np.arange(6.0).reshape(2, 3))
    scaled(x)
    for array in (np.arange(12.0).reshape(2, 6)[:, ::2], np.arange(6.0).reshape(3, 2).T):
        y = tensor.from_numpy(array)
        assert_equal([r.data for r in scaled(y)], [(array * 2).T, array.reshape(-1)])


def test_arguments_of_other_kinds_are_static_and_ndarrays_refused() -> None:
    calls = []

    @tensor.compile
    def power(x: Tensor, n: int, *, flags: dict[str, Any]) -> Tensor:
        calls.append(n)
        return x**n if flags["up"] else x

    x = Tensor([3.0])
    for n in (2, 2, 3, 2):
        assert power(x, n, flags={"up": True}).tolist() == [3.0**n]
    assert power(x, 2, flags={"up": False}) is x
    assert calls == [2, 3, 2]
    with pytest.raises(TypeError, match=r"an ndarray of shape \(1,\).*from_numpy"):
        power(np.ones(1), 2, flags={"up": True})


def test_one_tensor_twice_is_not_two_tensors() -> None:
    product = tensor.compile(lambda a, b: a * b)
    a, b = Tensor([2.0]), Tensor([3.0])
    assert [product(a, a).item(), product(a, b).item(), product(b, b).item()] == [4.0, 6.0, 9.0]


def test_grad_mode_is_part_of_what_is_traced() -> None:
    w = Tensor([2.0], requires_grad=True)

    @tensor.compile
    def run(x: Tensor) -> Tensor:
        y = w * x
        return y * 2 if y.requires_grad else y

    x = Tensor([1.0])
    assert [run(x).item(), run(x).item()] == [4.0, 4.0]
    with tensor.no_grad():
        assert [run(x).item(), run(x).item()] == [2.0, 2.0]
    assert not run(x).requires_grad


def test_gradients_of_arguments_are_set() -> None:
    @tensor.compile
    def run(x: Tensor) -> None:
        (x * x).sum().backward()

    for values in ([1.0, 2.0], [3.0, 4.0]):
        x = Tensor(values, requires_grad=True)
        run(x)
        assert x.grad is not None
        assert x.grad.tolist() == [2 * v for v in values]


def test_methods_and_decorators_with_options() -> None:
    class Scale:
        def __init__(self, factor: float) -> None:
            self.factor = Tensor([factor])

        @tensor.compile(cache_size=2)
        def __call__(self, x: Tensor) -> Tensor:
            return self.factor * x

    x = Tensor([1.0])
    two, three = Scale(2.0), Scale(3.0)
    assert [two(x).item(), three(x).item(), two(x).item(), three(x).item()] == [2, 3, 2, 3]
    assert len(Scale.__call__.programs) == 2
    assert repr(Scale.__call__) == "<compiled __call__>"


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"function": 3}, TypeError),
        ({"function": len, "cache_size": 0}, ValueError),
        ({"function": len, "check": -1}, ValueError),
    ],
)
def test_options_that_make_no_sense_are_refused(
    options: dict[str, Any], error: type[Exception]
) -> None:
    with pytest.raises(error):
        tensor.compile(**options)


def test_a_step_that_fails_leaves_gradients_and_parameters_as_they_were() -> None:
    training = Training("mlp")
    run(training, 3)
    before = training.state()
    x, _ = batch((6,), 0)
    with pytest.raises(IndexError, match="target 99 is outside"):
        training.step(x, Tensor(np.full(6, 99)))
    assert_equal(training.state(), before)
    run(training, 1)


def test_threads_do_not_disturb_each_other() -> None:
    model = MODELS["char"][0]()
    forward = tensor.compile(model)
    inputs = [batch(None, i)[0] for i in range(4)]
    wanted = [model(x).data for x in inputs]
    wrong: list[int] = []

    def work(i: int) -> None:
        for _ in range(50):
            wrong.extend([i] * (not np.array_equal(forward(inputs[i]).data, wanted[i])))

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert len(forward.programs) == 1


# Checks


def test_a_check_passes_where_replay_and_function_agree() -> None:
    checked, plain = Training("cnn", check=True), Training("cnn", compiled=False)
    assert run(checked) == run(plain)
    assert_equal(checked.state(), plain.state())


def test_a_check_finds_a_branch() -> None:
    flag = [True]
    run = tensor.compile(lambda x: x * 2 if flag[0] else x * 3, check=True)
    run(Tensor([1.0])), run(Tensor([1.0]))
    flag[0] = False
    with pytest.raises(RuntimeError, match="differ in result 0"):
        run(Tensor([1.0]))


def test_a_check_finds_other_parameters_and_gradients() -> None:
    training = Training("mlp", check=3)
    factor = [1.0]

    def step(x: Tensor, y: Tensor) -> Tensor:
        loss = tensor.cross_entropy(training.model(x), y)
        training.optimizer.zero_grad()
        (loss * factor[0]).backward()
        training.optimizer.step()
        return loss

    compiled = tensor.compile(step, check=2)
    compiled(*batch((6,), 0)), compiled(*batch((6,), 0))
    factor[0] = 3.0
    with pytest.raises(RuntimeError, match=r"0\.weight afterwards.*gradient of 0\.weight"):
        compiled(*batch((6,), 0))
    compiled(*batch((6,), 0))  # no longer checked


def test_a_check_finds_random_numbers_that_were_drawn_otherwise() -> None:
    more = [False]

    def run(x: Tensor) -> Tensor:
        if more[0]:
            tensor.randn(2)
        return x + tensor.rand(3) * 0

    compiled = tensor.compile(run, check=True)
    compiled(Tensor([1.0])), compiled(Tensor([1.0]))
    more[0] = True
    with pytest.raises(RuntimeError, match="how many random numbers"):
        compiled(Tensor([1.0]))


def test_the_loops_of_a_step_can_be_read() -> None:
    training = Training("mlp")
    run(training, 2)
    assert "if e0 <= c0 else" in training.step.source or "if v0 else" in training.step.source
    assert training.step.source.count("def loop(") == 2  # behind ReLU and behind the sigmoid
