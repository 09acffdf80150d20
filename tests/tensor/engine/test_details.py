"""What is recorded beyond what gradients need, within ``record_details()``."""

from __future__ import annotations

import math

import numpy as np
import pytest

import tensor
from micro import Value
from tensor import Tensor, nn
from tensor.nn import functional


def nodes_of(out: Tensor) -> dict[str, tensor.graph.Node]:
    found, stack = {}, [out.node]
    while stack:
        node = stack.pop()
        if isinstance(node, tensor.graph.Node):
            found[node.op] = node
            stack += node.inputs
    return found


def modules_of(out: Tensor) -> set[str]:
    found, stack = set(), [out.node]
    while stack:
        node = stack.pop()
        if isinstance(node, tensor.graph.Node) and node not in found:
            found.add(node)
            stack += node.inputs
    return {node.module for node in found}


def test_every_node_keeps_its_numbers_and_they_are_its_own() -> None:
    x = Tensor([0.5, 2.0], requires_grad=True)
    with tensor.record_details():
        y = (x + 1) * 3
        out = y.sum()
    nodes = nodes_of(out)
    for op, wanted in (("add", [1.5, 3.0]), ("mul", [4.5, 9.0]), ("sum", 13.5)):
        assert nodes[op].data is not None
        assert nodes[op].data.tolist() == wanted
    with tensor.no_grad():
        y.fill_(0.0)
    assert nodes["mul"].data.tolist() == [4.5, 9.0]
    out.backward()
    assert nodes["add"].data.tolist() == [1.5, 3.0]


def test_outside_a_node_has_what_a_rule_has_kept_while_it_is_unchanged() -> None:
    x = Tensor([0.5, 2.0], requires_grad=True)
    y = x.exp()
    assert y.node.data is y.data
    assert (x + 1).node.data is None
    with tensor.no_grad():
        y.fill_(0.0)
    assert y.node.data is None
    z = x.exp()
    z.sum().backward()
    assert z.node.data is None


def test_a_node_has_the_name_of_the_module_that_called_it_and_the_line() -> None:
    model = nn.Sequential(nn.Linear(2, 3), nn.Tanh(), nn.Sequential(nn.Linear(3, 1), nn.GELU()))
    x = Tensor(np.ones((1, 2), np.float32))
    with tensor.record_details() as calls:
        out = model(x).sum()
    names = {op: node.module for op, node in nodes_of(out).items()}
    assert names == {"linear": "0", "gelu": "2.1", "sum": ""}
    assert out.node.inputs[0].inputs[0].module == "2.0"
    assert {calls.names[id(p)] for p in model.parameters()} == set(model.state_dict())
    assert out.node.site.startswith(f"{__file__}:")
    assert model(x).node.module == ""


def test_what_a_rule_calls_belongs_to_the_backward_of_the_module_of_its_op() -> None:
    model = nn.Sequential(nn.Linear(2, 3), nn.Sequential(nn.Tanh(), nn.Linear(3, 1)))
    x = Tensor(np.ones((1, 2)), dtype="float32", requires_grad=True)
    with tensor.record_details():
        (g,) = tensor.grad((model(x) ** 2).sum(), x, create_graph=True)
        (h,) = tensor.grad((g * g).sum(), x, create_graph=True)
    names = [*("0", "1.0", "1.1"), *("backward of 0", "backward of 1.0", "backward of 1.1")]
    assert modules_of(g) == {"", *names}
    assert g.node.module == "backward of 0"
    assert {"backward of backward of 0", "backward of 1.1"} <= modules_of(h)
    assert tensor.grad(model(x).sum(), x, create_graph=True)[0].node.module == ""


def test_details_end_with_the_block_also_by_an_error() -> None:
    x = Tensor([1.0], requires_grad=True)
    with pytest.raises(KeyError), tensor.record_details():
        raise KeyError
    y = x + 1
    assert (y.node.data, y.node.site) == (None, None)


def test_values_and_gradients_are_those_of_a_run_without_details() -> None:
    tensor.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Dropout(0.5), nn.Linear(4, 2))
    x = Tensor(np.random.default_rng(0).normal(size=(5, 3)), dtype="float32")
    runs = []
    for details in (False, True):
        tensor.manual_seed(1)
        if details:
            with tensor.record_details():
                out = model(x)
        else:
            out = model(x)
        weights = Tensor(np.linspace(-1, 2, out.numel()).reshape(out.shape), dtype="float32")
        runs.append(
            (out.data, [g.data for g in tensor.grad((out * weights).sum(), [*model.parameters()])])
        )
    np.testing.assert_array_equal(runs[0][0], runs[1][0])
    for a, b in zip(runs[0][1], runs[1][1], strict=True):
        np.testing.assert_array_equal(a, b)


def test_the_label_of_a_result_names_its_node() -> None:
    x = Tensor([1.0], requires_grad=True, label="x")
    y = x.exp()
    y.label = "y"
    assert (y.label, y.node.label) == ("y", "y")
    assert (x.label, y.node.inputs[0].label) == ("x", "x")
    assert (y * 2).label is None


def test_one_tensor_that_is_used_twice_is_one_constant_until_it_changes() -> None:
    w = Tensor([1.0, 2.0], requires_grad=True)
    x = Tensor([3.0, 4.0], label="x")
    with tensor.record_details():
        y = (w * x) * x
        x.add_(1.0)
        z = y * x
    outer, inner = z.node.inputs[0], z.node.inputs[0].inputs[0]
    assert inner.inputs[1] is outer.inputs[1]
    assert z.node.inputs[1] is not outer.inputs[1]
    assert [c.data.tolist() for c in (inner.inputs[1], z.node.inputs[1])] == [[3, 4], [4, 5]]
    assert (w * x).node.inputs[1] is not z.node.inputs[1]


# One node as a graph of numbers


def opened(out: Tensor, g: float | None = None) -> list[Value]:
    return list(out.node.scalars(None if g is None else np.full(out.shape, g)).flat)


def test_a_node_opens_into_the_scalars_of_its_operands() -> None:
    a = Tensor([[1.0, -2.0]], requires_grad=True, label="a")
    b = Tensor([[3.0], [0.5]], requires_grad=True)
    (value,) = opened(a @ b, g=2.0)
    assert (value.data, value.grad, value.label) == (2.0, 2.0, "out[0,0]")
    leaves, stack = {}, [value]
    while stack:
        v = stack.pop()
        stack += v.inputs
        if not v.inputs:
            leaves[v.label] = (v.data, v.grad)
    assert leaves == {
        "a[0,0]": (1.0, 6.0),
        "a[0,1]": (-2.0, 1.0),
        "b[0,0]": (3.0, 2.0),
        "b[1,0]": (0.5, -4.0),
    }


def test_an_operand_that_is_used_twice_is_there_once() -> None:
    x = Tensor([3.0], requires_grad=True, label="x")
    (value,) = opened(x * x, g=1.0)
    assert value.inputs[0] is value.inputs[1]
    assert value.inputs[0].grad == 6.0


def test_without_a_gradient_none_is_computed() -> None:
    x = Tensor([3.0], requires_grad=True)
    assert opened(x * x)[0].inputs[0].grad == 0


def test_a_node_whose_operands_were_not_kept_says_so() -> None:
    x = Tensor([1.0, 2.0], requires_grad=True)
    with pytest.raises(RuntimeError, match="does not keep the numbers of a of exp, of shape"):
        (x + 1).exp().node.scalars()
    with tensor.record_details():
        y = (x + 1).exp()
    assert [v.data for v in opened(y)] == [math.exp(2.0), math.exp(3.0)]
    with pytest.raises(RuntimeError, match="scalars: the Tensor is a leaf"):
        x.scalars()


def test_a_node_is_opened_within_the_limit_alone() -> None:
    x = Tensor(np.ones((9, 9), np.float32), requires_grad=True)
    with pytest.raises(ValueError, match="the limit is 100"):
        (x @ x).node.scalars(limit=100)


def test_indices_and_operands_that_were_not_given_are_no_values() -> None:
    target = Tensor(np.array([1, 0]))
    x = Tensor(np.array([[1.0, 2.0], [3.0, 5.0]]), requires_grad=True, label="x")
    with tensor.record_details():
        loss = functional.cross_entropy(functional.layer_norm(x, (2,)), target)
    (value,) = opened(loss, g=1.0)
    assert value.data == pytest.approx(loss.item(), rel=1e-14)
    norm = loss.node.inputs[0].scalars()
    assert norm.shape == (2, 2)
