"""Traced programs: what they show, and that a replay does what the function would do."""

from __future__ import annotations

import threading
from typing import Any, NamedTuple

import numpy as np
import pytest

import tensor
import viz
from tensor import Program, ShapeError, Tensor, nn, optim, trace


def mlp(dtype: str = "float64") -> nn.Sequential:
    tensor.manual_seed(3)
    model = nn.Sequential(nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 3))
    return model.to(np.dtype(dtype))


def batch(seed: int = 0, rows: int = 4) -> tuple[Tensor, Tensor]:
    rng = np.random.default_rng(seed)
    return Tensor(rng.normal(size=(rows, 6))), Tensor(rng.integers(0, 3, rows))


# What a program shows


def test_a_program_is_printed_one_instruction_to_a_line() -> None:
    def scaled(x: Tensor, w: Tensor) -> dict[str, Tensor]:
        return {"y": (x @ w).sum(0) * 3}

    x, w = Tensor(np.ones((2, 3)), label="x"), Tensor(np.ones((3, 4)))
    assert str(trace(scaled)(x, w=w)).splitlines() == [
        "scaled(x: float64[2, 3], x1: float64[3, 4]):",
        "  %0: float64[2, 4] = matmul(x, x1)",
        "  %1: float64[4] = sum(%0, dim=0, keepdim=False)",
        "  %2: float64[4] = mul(%1, 3.0)",
        "  return {'y': %2}",
    ]


def test_a_whole_step_is_one_program_with_the_names_of_modules_and_parameters() -> None:
    model = mlp()
    optimizer = optim.SGD(model.parameters(), lr=0.1)

    def step(x: Tensor, y: Tensor) -> Tensor:
        loss = tensor.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    program = trace(step)(*batch())
    assert isinstance(program, Program)
    ops = [instruction.op for instruction in program.instructions]
    assert ops[:3] == ["linear", "linear", "cross_entropy"]
    assert ops[-1] == "SGD"
    assert {"matmul", "softmax", "where"} <= set(ops)
    assert [leaf.label for leaf in program.captured] == [
        *("0.weight", "0.bias", "2.weight", "2.bias")
    ]
    assert [leaf.label for leaf, _ in program.gradients] == [c.label for c in program.captured]
    assert program.instructions[1].module == "2"
    backward = [i.module for i in program.instructions[3:] if i.module]
    assert list(dict.fromkeys(backward)) == ["backward of 2", "backward of 0"]
    site = program.instructions[1].site
    assert site.startswith(f"{__file__}:")
    assert "isnan" not in ops  # what keeps higher orders alive has no place here
    assert len(program) == len(ops)


def test_a_conversion_is_an_instruction() -> None:
    program = trace(lambda a, b: a * b)(Tensor([1.0]), Tensor([2.0], dtype="float64"))
    assert [(i.op, str(i.dtype)) for i in program.instructions] == [
        ("cast", "float64"),
        ("mul", "float64"),
    ]


def test_a_program_can_be_drawn_with_all_that_it_yields() -> None:
    model = mlp()
    optimizer = optim.SGD(model.parameters(), lr=0.1)

    def step(x: Tensor, y: Tensor) -> Tensor:
        loss = tensor.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    program = trace(step)(*batch())
    text = viz.draw(program, max_nodes=None).text()
    assert text.startswith("Graph of step")
    for word in ("return", "SGD", "cross_entropy", "matmul", "x0", "2.weight", "parameter"):
        assert word in text


# Replays


@pytest.mark.parametrize("name", ["SGD", "Adam", "AdamW", "RMSprop", "Adagrad"])
def test_training_by_replay_is_training(name: str) -> None:
    def trained(compiled: bool) -> tuple[list[float], list[np.ndarray]]:
        model = mlp()
        optimizer = getattr(optim, name)(model.parameters(), lr=0.05)

        def step(x: Tensor, y: Tensor) -> Tensor:
            loss = tensor.cross_entropy(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            return loss

        run: Any = step
        losses = [step(*batch()).item()]
        if compiled:
            run = trace(step)(*batch(1))
        else:
            step(*batch(1))
        for i in range(2, 8):
            if i == 5:
                optimizer.param_groups[0]["lr"] = 0.01
            losses.append(run(*batch(i)).item())
        return losses, [p.data for p in model.parameters()]

    (losses, weights), (wanted, wanted_weights) = trained(True), trained(False)
    np.testing.assert_allclose(losses, wanted, rtol=1e-12)
    for found, right in zip(weights, wanted_weights, strict=True):
        np.testing.assert_allclose(found, right, rtol=1e-11, atol=1e-14)


def test_a_replay_reads_parameters_as_they_are_then() -> None:
    w = Tensor([1.0, 2.0])
    program = trace(lambda x: x * w)(Tensor([1.0, 1.0]))
    w.copy_([5.0, 7.0])
    assert program(Tensor([1.0, 2.0])).tolist() == [5.0, 14.0]


def test_a_replay_draws_random_numbers_anew() -> None:
    x = tensor.ones(1000)
    tensor.manual_seed(1)
    program = trace(lambda x: tensor.dropout(x, 0.5) + tensor.randn(1000))(x)
    after = tensor.default_generator.get_state()
    found = [program(x).data for _ in range(2)]
    assert not np.array_equal(*found)
    tensor.default_generator.set_state(after)
    for out in found:
        np.testing.assert_array_equal((tensor.dropout(x, 0.5) + tensor.randn(1000)).data, out)


def test_a_replay_sets_the_gradients_of_leaves() -> None:
    w = Tensor([3.0], requires_grad=True)

    def run(x: Tensor) -> None:
        (w * x * x).sum().backward()

    program = trace(run)(Tensor([2.0], requires_grad=True))
    w.grad = None
    x = Tensor([5.0], requires_grad=True)
    assert program(x) is None
    assert w.grad is not None and w.grad.tolist() == [25.0]
    assert x.grad is not None and x.grad.tolist() == [30.0]


def test_gradients_of_gradients_belong_to_the_program() -> None:
    def curvature(x: Tensor) -> Tensor:
        (first,) = tensor.grad((x**3).sum(), x, create_graph=True)
        (second,) = tensor.grad(first.sum(), x)
        return second

    program = trace(curvature)(Tensor([1.0], requires_grad=True))
    np.testing.assert_allclose(program(Tensor([5.0])).data, [30.0], rtol=1e-6)


class Pair(NamedTuple):
    first: Tensor
    rest: list[Tensor]


def test_arguments_and_results_keep_their_structure() -> None:
    def swapped(pair: Pair, scale: float) -> Pair:
        return Pair(pair.rest[0] * scale, [pair.first, pair.rest[1]])

    a, b, c = (Tensor([float(i)]) for i in range(3))
    program = trace(swapped)(Pair(a, [b, c]), scale=10.0)
    found = program(Pair(b, [c, a]), scale=10.0)
    assert isinstance(found, Pair)
    assert (found.first.tolist(), found.rest[0].tolist(), found.rest[1].tolist()) == (
        [20.0],
        [1.0],
        [0.0],
    )


def test_a_replay_changes_in_place_what_the_function_changes() -> None:
    count = Tensor([0.0, 0.0])

    def run(x: Tensor) -> Tensor:
        y = x * 2
        view = y[1:]
        view += 10
        y[0] = x[1]
        count.add_(x)
        return y + view

    x = Tensor([1.0, 2.0])
    program = trace(run)(x)
    assert run(x).tolist() == [16.0, 28.0]
    assert count.tolist() == [2.0, 4.0]
    assert program(x).tolist() == [16.0, 28.0]
    assert program(Tensor([0.0, 1.0])).tolist() == [13.0, 24.0]
    assert count.tolist() == [3.0, 7.0]
    assert x.tolist() == [1.0, 2.0]


def test_gradients_flow_through_changes_in_place() -> None:
    w = Tensor([1.0, 2.0, 3.0], requires_grad=True)

    def run(x: Tensor) -> Tensor:
        y = w * x
        y[0] = x[2] * w[1]
        y *= y
        (g,) = tensor.grad(y.sum(), w)
        return g

    program = trace(run)(Tensor([1.0, 1.0, 1.0]))
    x = Tensor([0.5, -1.0, 2.0])
    np.testing.assert_allclose(program(x).data, run(x).data, rtol=1e-6)


def test_running_statistics_move_at_every_replay() -> None:
    layers = [nn.BatchNorm1d(3) for _ in range(2)]
    rng = np.random.default_rng(0)
    batches = [Tensor(rng.normal(size=(5, 3)).astype("f")) for _ in range(3)]
    program = trace(layers[0])(batches[0])
    layers[1](batches[0])
    for x in batches[1:]:
        np.testing.assert_allclose(program(x).data, layers[1](x).data, rtol=1e-6)
    for name, value in layers[1].state_dict().items():
        np.testing.assert_allclose(layers[0].state_dict()[name], value, rtol=1e-6)


def test_a_replayed_result_has_no_graph() -> None:
    w = Tensor([1.0], requires_grad=True)
    assert trace(lambda x: x * w)(Tensor([1.0]))(Tensor([1.0])).node is None


# What cannot be


@pytest.mark.parametrize(
    "ask",
    [
        lambda x: x.sum().item(),
        lambda x: x.tolist(),
        lambda x: bool(x.sum() > 0),
        lambda x: float(x.sum()),
        np.asarray,
    ],
    ids=["item", "tolist", "bool", "float", "array"],
)
def test_asking_for_a_value_that_depends_on_the_arguments_is_refused(ask: Any) -> None:
    with pytest.raises(RuntimeError, match="a replay would not ask again"):
        trace(ask)(Tensor([1.0, 2.0]))
    ask(Tensor([1.0, 2.0]))  # and allowed again outside


def test_a_constant_may_be_asked_for() -> None:
    n = Tensor([3])
    program = trace(lambda x: x * n.item())(Tensor([1.0]))
    assert program(Tensor([2.0])).tolist() == [6.0]


@pytest.mark.parametrize(
    ("args", "error", "words"),
    [
        ((), TypeError, "the program takes 1 Tensors, got 0"),
        ((Tensor([1.0]), Tensor([1.0])), TypeError, "takes 1 Tensors, got 2"),
        ((Tensor([1.0, 2.0]),), ShapeError, r"argument x0 was traced with shape \(1,\)"),
        ((Tensor([1]),), ShapeError, "dtype float32, got .* int64; trace the function again"),
    ],
)
def test_arguments_of_another_kind_are_refused(
    args: tuple[Tensor, ...], error: type[Exception], words: str
) -> None:
    w = Tensor([1.0], requires_grad=True)
    program = trace(lambda x: (x * w).sum().backward())(Tensor([1.0]))
    w.grad = None
    with pytest.raises(error, match=words):
        program(*args)
    assert w.grad is None


def test_tracing_inside_tracing_is_refused() -> None:
    def outer(x: Tensor) -> Tensor:
        return trace(lambda y: y + 1)(x)(x)

    with pytest.raises(RuntimeError, match="is being traced already"):
        trace(outer)(Tensor([1.0]))


def test_an_exception_ends_the_tracing() -> None:
    def fails(x: Tensor) -> None:
        raise LookupError("stop")

    with pytest.raises(LookupError):
        trace(fails)(Tensor([1.0]))
    x = Tensor([1.0])
    assert trace(lambda x: x + 1)(x)(x).tolist() == [2.0]


def test_what_another_thread_does_is_not_traced() -> None:
    def run(x: Tensor) -> Tensor:
        other = threading.Thread(target=lambda: x * x)
        other.start()
        other.join()
        return x + 1

    assert [i.op for i in trace(run)(Tensor([1.0])).instructions] == ["add"]
