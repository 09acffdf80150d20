"""Exactly one function grows the graph; without need of a gradient nothing is recorded."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tensor as st
from tensor import Tensor, enable_grad, grad, no_grad
from tensor.graph import Constant, Node
from tests.structure import sources
from tests.tensor.engine.helpers import leaf, weights


def node_makers(files: dict[str, str]) -> list[str]:
    """The functions that construct a Node, as ``path:function``."""
    found = []
    for path, text in files.items():
        for function in ast.walk(ast.parse(text)):
            if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
                calls = [call.func for call in ast.walk(function) if isinstance(call, ast.Call)]
                names = [getattr(f, "id", getattr(f, "attr", "")) for f in calls]
                found += [f"{path}:{function.name}"] * names.count("Node")
    return found


def test_one_function_constructs_nodes() -> None:
    assert node_makers(sources("tensor")) == ["tensor/dispatch.py:_record"]


@pytest.mark.parametrize(
    "text",
    ["def f():\n    return Node('add')", "class C:\n    def f(self):\n        x = graph.Node()"],
)
def test_another_function_that_constructs_nodes_is_found(text: str) -> None:
    assert node_makers({"tensor/engine.py": text}) == ["tensor/engine.py:f"]


def test_a_record_holds_its_op_its_operands_in_order_and_its_attributes() -> None:
    x, y = leaf(2, 3), leaf(3, seed=1)
    product = x * y
    total = product.sum(1, keepdim=True)
    assert product.node is not None and total.node is not None
    assert (product.op, product.inputs) == ("mul", (x, y))
    assert (total.op, total.inputs) == ("sum", (product.node,))
    assert dict(total.attrs) == {"dim": 1, "keepdim": True}
    assert (total.node.shape, total.node.dtype) == ((2, 1), np.float64)
    assert total.node.sequence > product.node.sequence


def test_an_operand_used_twice_is_recorded_twice() -> None:
    x = leaf(3)
    assert (x * x).inputs == (x, x)


def test_an_operand_without_gradient_is_a_constant_and_only_a_number_is_kept() -> None:
    x = leaf(3)
    number, array = (x * 2.5).inputs[1], (x * Tensor(np.ones(3), label="ones")).inputs[1]
    assert number == Constant((), np.dtype(np.float64), 2.5)
    assert array == Constant((3,), np.dtype(np.float64), None, "ones")


def test_a_leaf_has_no_record() -> None:
    x = leaf(3)
    assert x.is_leaf and x.node is None
    assert (x.op, x.inputs, dict(x.attrs)) == ("", (), {})


def test_only_what_the_rules_mention_is_kept_alive() -> None:
    x, y = leaf(3), leaf(3, seed=1)
    names: Callable[[Tensor], set[str]] = lambda t: set(t.node.saved)  # type: ignore[union-attr]  # noqa: E731
    assert names(x + y) == set()
    assert names(x * y) == {"a", "b"}
    assert names(x * 2.0) == {"b"}
    assert names(x.exp()) == {"out"}
    assert names(x.sum()) == set()


def everything(x: Tensor) -> list[Tensor]:
    """One result of each kind of op, in-place changes included."""
    changed = x * 1
    changed += x
    return [
        x + 1, x * x, 2 / x, x**2, -x, x.exp(), x.sum(), x.mean(0), x.reshape(3, 2), x.T, x[0],
        x[:, [0, 0]], x @ x.T, st.cat([x, x]), st.where(x > 0, x, 0), x.softmax(1), x.clone(),
        x.to("float32"), np.exp(x), changed,
    ]  # fmt: skip


def test_without_grad_mode_nothing_is_recorded() -> None:
    x = leaf(2, 3)
    with no_grad():
        results = everything(x)
    assert [t.op for t in results if t.node is not None or t.requires_grad] == []
    assert all(t.requires_grad and t.node is not None for t in everything(x))


def test_without_an_operand_that_requires_grad_nothing_is_recorded() -> None:
    x = Tensor(leaf(2, 3).data)
    assert [t.op for t in everything(x) if t.node is not None or t.requires_grad] == []


def test_enable_grad_records_within_no_grad() -> None:
    x = leaf(2)
    with no_grad(), enable_grad():
        y = x * 2
    assert y.requires_grad and not y.is_leaf


def test_an_op_without_gradient_is_not_recorded() -> None:
    x = leaf(3)
    results = [x > 1, x == x, x.argsort(), x.argmax(), x.isnan(), st.one_hot(x.argmax(), 3)]
    assert [t.requires_grad for t in results] == [False] * len(results)


def test_a_first_order_pass_records_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    x, w = leaf(2, 3), weights(2, 3)
    loss = ((x * x).exp() * w).sum() + st.cat([x, x]).mean()
    made: list[str] = []
    original = Node.__init__

    def counted(self: Node, op: str, *args: Any) -> None:
        made.append(op)
        original(self, op, *args)

    monkeypatch.setattr(Node, "__init__", counted)
    (g,) = grad(loss, x, retain_graph=True)
    assert made == [] and g.is_leaf and not g.requires_grad
    grad(loss, x, create_graph=True)
    assert "exp" not in made and "mul" in made  # the rule of exp reuses its result


def test_detach_leaves_the_history_behind_and_shares_the_memory() -> None:
    x = leaf(3)
    y = (x * 2).detach()
    assert y.is_leaf and not y.requires_grad
    assert not (y * 3).requires_grad
    assert np.shares_memory(x.detach().data, x.data)


def test_a_tensor_without_history_stops_the_gradient() -> None:
    x = leaf(3)
    (x * x.detach()).sum().backward()
    np.testing.assert_array_equal(x.grad, x.detach())


def test_nodes_leaves_and_constants_can_all_be_read_as_a_graph() -> None:
    """Drawings and traces read op, inputs, attrs and label, whatever the edge is."""
    x = leaf(3)
    x.label = "x"
    y = (x * 2).exp()
    mul = y.inputs[0]
    assert [edge.op for edge in (mul, *mul.inputs)] == ["mul", "", ""]
    assert [edge.label for edge in (mul, *mul.inputs)] == [None, "x", None]
    assert [edge.inputs for edge in mul.inputs] == [(), ()]
    assert "mul" in repr(mul) and "(3,)" in repr(mul)
