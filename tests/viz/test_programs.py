"""Drawings of programs: their modules, forward and backward, and the numbers of a replay."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tensor
from tensor import Program, ShapeError, Tensor, nn, optim
from tensor.nn import functional
from tests.viz.test_calls import TARGET, TOKENS, Model
from viz import draw
from viz.graph import Node
from viz.summary import summarize


def step(model: nn.Module) -> Callable[[Tensor, Tensor], Tensor]:
    def training_step(x: Tensor, target: Tensor) -> Tensor:
        for p in model.parameters():
            p.grad = None
        loss = functional.cross_entropy(model(x), target)
        loss.backward()
        return loss

    return training_step


def test_every_instruction_of_a_program_is_drawn_with_the_module_that_called_it() -> None:
    model = Model()
    program = tensor.trace(model)(TOKENS)
    nodes = draw(program).graph.nodes
    ops = [node for node in nodes if node.kind == "op"]
    assert ops[0].op == "return"
    assert sorted(n.op for n in ops[1:]) == sorted(i.op for i in program.instructions)
    assert [n.module for n in ops[1:]] == [i.module for i in reversed(program.instructions)]
    assert "blocks.1.mlp.0" in {n.module for n in ops}
    kinds = {n.label: n.kind for n in nodes if n.label}
    assert kinds["tokens"] == "input"
    assert kinds["head.weight"] == "parameter"
    weight = next(n for n in nodes if n.label == "head.weight")
    assert weight.data == summarize(model.head.weight.data)


def test_a_program_draws_the_backward_pass_that_it_contains() -> None:
    program = tensor.trace(step(Model()))(TOKENS, TARGET)
    drawing = draw(program, max_nodes=None)
    nodes = drawing.graph.nodes
    assert len([n for n in nodes if n.kind == "op"]) > 60
    assert len(nodes[0].inputs) == 1 + 13  # the loss, and a gradient for each parameter


def boxes(nodes: tuple[Node, ...]) -> list[str]:
    return [node.symbol for node in nodes if node.kind == "folded"]


def test_both_halves_of_a_training_step_are_folded_by_module() -> None:
    program = tensor.trace(step(Model()))(TOKENS, TARGET)
    nodes = draw(program, depth=1).graph.nodes
    assert boxes(nodes) == [
        "backward of blocks",  # copies of gradients that are handed to leaves
        "backward of blocks",
        "backward of head",
        "head",
        "blocks",
        "embedding",
    ]
    # a parameter lies in the box of its module, though the backward pass reads it too
    assert not [node for node in nodes if node.kind == "parameter"]
    backward = {node.module for node in draw(program, max_nodes=None).graph.nodes}
    assert {"backward of blocks.1.mlp.2", "backward of blocks.0.norm"} <= backward


def test_repeated_layers_are_folded_in_both_halves() -> None:
    program = tensor.trace(step(Model(blocks=12)))(TOKENS, TARGET)
    drawing = draw(program, depth=2, max_nodes=40)
    assert boxes(drawing.graph.nodes)[-2:] == [
        "backward of blocks.11 … backward of blocks.0 x 12",
        "blocks.0 … blocks.11 x 12",
    ]


# Replays


def watched(program: Program, *args: Any) -> tuple[dict[int, Any], dict[int, Any]]:
    values: dict[int, Any] = {}
    leaves = program.trace_replay(lambda edge, array: values.setdefault(id(edge), array), *args)
    return values, {id(leaf): g for leaf, g in leaves}


@pytest.mark.parametrize("compiled", [False, True])
def test_a_program_with_arguments_shows_the_numbers_of_a_replay(compiled: bool) -> None:
    model = Model()
    if compiled:
        run = tensor.compile(step(model))
        run(TOKENS, TARGET)
        (program,) = run.programs
    else:
        program = tensor.trace(step(model))(TOKENS, TARGET)
    other = Tensor(np.array([1, 1, 4]), label="tokens")
    nodes = draw(program, other, TARGET, max_nodes=None).graph.nodes
    replayed = {name: p.grad for name, p in model.named_parameters()}
    # the engine, without a program
    logits = model(other)
    for p in model.parameters():
        p.grad = None
    loss = functional.cross_entropy(logits, TARGET)
    loss.backward()
    by_label = {node.label: node for node in nodes if node.label}
    assert by_label["tokens"].data == summarize(other.data)
    (head,) = (node for node in nodes if node.module == "head" and node.op == "linear")
    assert head.data == summarize(logits.data)
    assert {n.data for n in nodes if n.op in ("cross_entropy", "losses", "nll")} == {
        summarize(loss.data)
    }
    for name, p in model.named_parameters():
        grad = replayed[name]
        assert by_label[name].data == summarize(p.data), name
        assert by_label[name].grad == by_label[f"{name}.grad"].data == summarize(grad), name
        # a trace spells out what the eager pass does in one fused pullback: other roundings
        np.testing.assert_allclose(grad.data, p.grad.data, rtol=0, atol=0 if compiled else 1e-7)
    without = {node.op for node in nodes[1:] if node.kind == "op" and node.data is None}
    assert without == ({"loop", "layer_norm_backward"} if compiled else set())  # yield several


def test_the_numbers_are_those_at_the_time_and_the_replay_is_a_real_one() -> None:
    layer = nn.Linear(2, 1, bias=False)
    optimizer = optim.SGD(layer.parameters(), lr=0.5)

    def train(x: Tensor) -> Tensor:
        optimizer.zero_grad()
        loss = layer(x).sum()
        loss.backward()
        optimizer.step()
        return loss

    x = Tensor([[1.0, 3.0]], label="x")
    program = tensor.trace(train)(x)
    before = layer.weight.data.copy()
    nodes = draw(program, x).graph.nodes
    (weight,) = (node for node in nodes if node.kind == "parameter")
    assert weight.data == summarize(before)
    assert weight.grad == summarize(x.data)
    np.testing.assert_array_equal(layer.weight.data, before - np.float32(0.5) * x.data)
    with pytest.raises(ShapeError, match="argument x was traced with shape"):
        draw(program, Tensor([1.0]))
    with pytest.raises(TypeError, match="gradients is true, and Program has no trace_backward"):
        draw(program, x, gradients=True)
    np.testing.assert_array_equal(layer.weight.data, before - np.float32(0.5) * x.data)


def test_a_watched_replay_tells_every_edge_and_gives_copies() -> None:
    w = Tensor([2.0, 3.0], requires_grad=True, label="w")

    def run(x: Tensor) -> Tensor:
        w.grad = None
        y = (w * x).sum()
        y.backward()
        return y

    x = Tensor([5.0, 7.0])
    program = tensor.trace(run)(x)
    values, gradients = watched(program, x)
    assert [values[id(edge)].tolist() for edge in program.captured] == [[2.0, 3.0]]
    assert [values[id(edge)].tolist() for edge in program.arguments] == [[5.0, 7.0]]
    assert set(values) == {
        id(edge) for edge in (*program.captured, *program.arguments, *program.instructions)
    }
    assert {tuple(g.tolist()) for g in gradients.values()} == {(5.0, 7.0)}
    for array in (*values.values(), *gradients.values()):
        array.fill(0.0)
    assert (w.tolist(), x.tolist()) == ([2.0, 3.0], [5.0, 7.0])
    assert w.grad is not None and w.grad.tolist() == [5.0, 7.0]


def test_a_value_that_is_not_finite_is_pointed_at_with_the_line_that_was_traced() -> None:
    def risky(x: Tensor) -> Tensor:
        return x.log() * 2

    program = tensor.trace(risky)(Tensor([1.0]))
    (log,) = (n for n in draw(program, Tensor([-1.0])).graph.nodes if n.notes)
    assert log.op == "log"
    assert "made at test_programs.py:" in log.notes[0]
    assert log.notes[0].endswith(": return x.log() * 2")


def test_a_loop_is_drawn_as_its_formula() -> None:
    w = Tensor([1.0, -2.0], label="w")
    run = tensor.compile(lambda x, y: (((x - y) * w).relu(), (x - y) * 3))
    x = Tensor([[1.0, 2.0]], label="x")
    run(x, Tensor([[3.0, 4.0]], label="y"))
    (program,) = run.programs
    drawing = draw(program, x, Tensor([[0.5, 4.0]]))
    (loop,) = (node for node in drawing.graph.nodes if node.op == "loop")
    assert loop.attrs.split("\n") == [
        "v1 = x1 - x2",
        "y1 = relu(v1 * x3)",
        "y2 = v1 * 3",
    ]
    assert loop.shape == ""
    # x1, x2, x3 are the arguments as the edges count them
    by_argument = {e.argument: drawing.graph.nodes[e.source].label for e in loop.inputs}
    assert by_argument == {1: "x", 2: "y", 3: "w"}
    parts = {node.attrs: node.data for node in drawing.graph.nodes if node.op == "part"}
    assert parts == {
        "y1": summarize(np.array([[0.5, 4.0]])),
        "y2": summarize(np.array([[1.5, -6.0]])),
    }
    assert "relu(v1 * x3)\\n" in drawing.dot()
    assert "loop v1 = x1 - x2; y1 = relu(v1 * x3); y2 = v1 * 3" in drawing.text()


def test_what_a_program_has_fixed_is_a_constant_and_no_input() -> None:
    table = np.array([[1.0, 2.0], [3.0, 4.0]], np.float32)
    program = tensor.trace(lambda x: x @ table)(Tensor([[1.0, 1.0]], label="x"))
    kinds = {node.kind: node for node in draw(program).graph.nodes if node.kind != "op"}
    assert set(kinds) == {"input", "constant"}
    assert kinds["input"].label == "x"
    assert kinds["constant"].data == summarize(table)
