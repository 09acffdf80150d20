from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

import micro
import tensor
from micro import Value
from tensor import Tensor, nn
from tensor.nn import functional
from tests.viz.fakes import Fake, square
from viz import Drawing, draw
from viz.graph import Node
from viz.summary import summarize


class Block(nn.Module):
    def __init__(self, width: int) -> None:
        self.norm = nn.LayerNorm(width)
        self.mlp = nn.Sequential(nn.Linear(width, 8), nn.Tanh(), nn.Linear(8, width, bias=False))

    def forward(self, x: Tensor) -> Tensor:
        return x + self.mlp(self.norm(x))


class Model(nn.Module):
    def __init__(self, blocks: int = 2) -> None:
        tensor.manual_seed(0)
        self.embedding = nn.Embedding(5, 4)
        self.blocks = nn.Sequential(*(Block(4) for _ in range(blocks)))
        self.head = nn.Linear(4, 5)

    def forward(self, tokens: Tensor) -> Tensor:
        return self.head(self.blocks(self.embedding(tokens)))


TOKENS = Tensor(np.array([0, 3, 1]), label="tokens")
TARGET = Tensor(np.array([3, 1, 4]), label="target")


def by_op(drawing: Drawing) -> dict[str, Node]:
    return {node.op: node for node in drawing.graph.nodes if node.op}


def test_a_module_and_its_input_show_every_value_and_where_it_was_made() -> None:
    model = Model()
    drawing = draw(model, TOKENS)
    out = model(TOKENS)
    nodes = drawing.graph.nodes
    assert nodes[0].data == summarize(out.data)
    assert all(node.data is not None for node in nodes)
    assert {node.module for node in nodes if node.kind == "op"} == {
        "embedding",
        "blocks.0",
        "blocks.0.norm",
        "blocks.0.mlp.0",
        "blocks.0.mlp.2",
        "blocks.1",
        "blocks.1.norm",
        "blocks.1.mlp.0",
        "blocks.1.mlp.2",
        "head",
    }
    names = {node.label for node in nodes if node.kind == "parameter"}
    assert names == {name for name, _ in model.named_parameters()}
    assert [node.label for node in nodes if node.kind == "input"] == ["tokens"]


def test_a_loss_shows_the_gradient_of_every_node_and_changes_none() -> None:
    model = Model()
    drawing = draw(lambda x, t: functional.cross_entropy(model(x), t), TOKENS, TARGET)
    assert all(p.grad is None for p in model.parameters())
    logits = model(TOKENS)
    logits.retain_grad()
    functional.cross_entropy(logits, TARGET).backward()
    found = {node.label: node for node in drawing.graph.nodes if node.kind == "parameter"}
    assert len(found) == 13
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None
        assert found[name].grad == summarize(parameter.grad.data), name
    assert logits.grad is not None
    assert drawing.graph.nodes[1].grad == summarize(logits.grad.data)
    assert all(n.grad for n in drawing.graph.nodes if n.kind == "op")


def test_gradients_can_be_asked_for_and_declined() -> None:
    model = Model()

    def loss() -> Tensor:
        return functional.cross_entropy(model(TOKENS), TARGET)

    def shown(drawing: Drawing) -> int:
        return sum(node.grad is not None for node in drawing.graph.nodes)

    assert shown(draw(loss(), parameters=model)) == 0
    assert shown(draw(loss, gradients=False)) == 0
    asked = draw(loss(), parameters=model, gradients=True)
    assert shown(asked) == len(asked.graph.nodes) - 2
    assert all(p.grad is None for p in model.parameters())
    with pytest.raises(RuntimeError, match="scalar outputs"):
        draw(model, TOKENS, gradients=True)
    with pytest.raises(TypeError, match="gradients is true, and Fake has no trace_backward"):
        draw(square(), gradients=True)


def test_a_gradient_that_was_collected_is_shown_as_it_is() -> None:
    x = Tensor(3.0, requires_grad=True, label="x")
    for _ in range(2):
        (x * x).backward()
    y = x * x
    texts = {}
    for asked in (False, True):
        grad = {n.label: n for n in draw(y, gradients=asked).graph.nodes}["x"].grad
        assert grad is not None
        texts[asked] = grad.text
    assert texts == {False: "12", True: "6"}


def test_what_a_rule_has_kept_is_shown_of_a_result_that_was_computed_before() -> None:
    x = Tensor([0.5, -1.0], requires_grad=True)
    y = (x.exp() * x).sum()
    nodes = by_op(draw(y))
    assert nodes["exp"].data == summarize(np.exp(x.data))
    assert nodes["mul"].data is None
    y.backward()
    assert by_op(draw(y))["exp"].data is None


def test_scalars_are_called_too() -> None:
    model = micro.nn.MLP(2, [2, 1], rng=random.Random(0))
    x = [Value(1.0, label="p"), Value(-2.0, label="q")]
    drawing = draw(model, x)
    labels = [node.label for node in drawing.graph.nodes if node.kind == "parameter"]
    assert len(labels) == 9
    assert all(node.grad for node in drawing.graph.nodes if node.kind == "op")
    assert all(v.grad == 0 for v in x)


def test_a_function_without_arguments_is_called() -> None:
    x = Tensor(2.0, requires_grad=True, label="x")
    assert [n.op for n in draw(lambda: x.exp() * 3).graph.nodes][:2] == ["mul", "exp"]


def test_details_are_recorded_if_the_function_an_argument_or_the_parameters_can() -> None:
    model = Model()

    def known(drawing: Drawing) -> bool:
        return all(node.data is not None for node in drawing.graph.nodes)

    assert known(draw(model, np.array([0, 3])))
    assert known(draw(lambda pair: model(pair[0]), [TOKENS, 1]))
    assert known(draw(lambda: model(TOKENS), parameters=model))
    assert not known(draw(lambda: model(TOKENS)))  # viz knows no engine to ask


def test_details_are_recorded_for_the_call_alone() -> None:
    x = Tensor([1.0, 2.0], requires_grad=True)
    draw(lambda x: x * 2, x)
    y = x * 2
    assert y.node is not None
    assert y.node.data is None
    assert y.node.site is None


def test_where_a_call_was_made_is_pointed_at() -> None:
    x = Tensor([-1.0, 2.0], requires_grad=True)

    def bad(x: Tensor) -> Tensor:
        return (x.log() * 2).sum()

    note = by_op(draw(bad, x))["log"].notes[0]
    assert note.endswith("return (x.log() * 2).sum()")
    assert f"test_calls.py:{bad.__code__.co_firstlineno + 1}" in note


@pytest.mark.parametrize(
    ("obj", "args", "match"),
    [
        (lambda: 3, (), "the call returned a int; wanted one result"),
        (lambda x: (x, x), (square(),), "the call returned a tuple"),
        (square(), (1,), "obj is a Fake, which is not called, but there are 1 arguments"),
        (3, (1,), "obj is a int, which is not called"),
    ],
)
def test_what_cannot_be_called_or_drawn_is_refused(obj: Any, args: Any, match: str) -> None:
    with pytest.raises(TypeError, match=f"draw: {match}"):
        draw(obj, *args)


def test_an_error_in_the_call_is_passed_on_and_nothing_more_is_recorded() -> None:
    def fails(x: Tensor) -> Tensor:
        raise ZeroDivisionError

    x = Tensor([1.0], requires_grad=True)
    with pytest.raises(ZeroDivisionError):
        draw(fails, x)
    node = x.exp().node
    assert node is not None and node.site is None


def test_the_layers_of_a_model_are_folded_and_counted() -> None:
    model = Model(blocks=12)
    drawing = draw(model, TOKENS, max_nodes=12)
    box = next(n for n in drawing.graph.nodes if n.kind == "folded")
    assert box.symbol == "blocks.0 … blocks.11 x 12"
    assert box.contents == "linear x 2, layer_norm, +"
    # where the modules are not known the blocks are found by their structure
    out = model(TOKENS)
    plain = draw(out, parameters=model, max_nodes=12)
    box = next(n for n in plain.graph.nodes if n.kind == "folded")
    assert box.symbol == "4 ops x 12"
    assert box.data is None


def test_an_operand_that_was_not_given_is_not_drawn() -> None:
    layer = nn.Linear(2, 3, bias=False)
    x = Tensor(np.ones((1, 2), np.float32), label="x")
    for drawing in (draw(layer, x), draw(tensor.trace(layer)(x))):
        assert sorted(n.label for n in drawing.graph.nodes if n.kind != "op") == ["weight", "x"]


def test_a_record_that_can_be_called_is_drawn_without_being_called() -> None:
    class Callable_(Fake):
        def __call__(self) -> Any:
            raise AssertionError

    assert draw(Callable_("f", (Fake(),))).graph.nodes[0].op == "f"
