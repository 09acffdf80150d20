"""Small inputs with their right answers that no test about one part of the engine holds."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pytest

import tensor as st
from micro.vocab import VOCAB
from tensor import Tensor, nn
from tests.tensor.ops.cases import CASES
from viz import draw

# Drawing


def test_a_hundred_thousand_tensor_additions_are_drawn() -> None:
    y = x = Tensor(1.0, requires_grad=True, label="x")
    for _ in range(100_000):
        y = y + 1.0
    y.backward(retain_graph=True)
    drawing = draw(y)
    assert [node.symbol for node in drawing.graph.nodes] == ["+ x 100,000", ""]
    assert drawing.graph.folded == 200_000
    assert x.grad is not None and x.grad.item() == 1


def test_sixty_doublings_of_a_tensor_are_drawn_with_both_edges() -> None:
    y = x = Tensor(1.0, "float64", requires_grad=True, label="x")
    for _ in range(60):
        y = y + y
    drawing = draw(y)
    assert drawing.graph.nodes_in_all == 61 and drawing.graph.folded == 0
    y.backward()
    assert x.grad is not None and x.grad.item() == 2.0**60


# Saving


SAVED = {
    "transposed": np.arange(6.0).reshape(2, 3),
    "0-d": np.array(2.5),
    "size 0": np.zeros((0, 3)),
}


@pytest.mark.parametrize("values", SAVED.values(), ids=SAVED)
def test_a_transposed_a_0_d_and_an_empty_tensor_are_saved_and_loaded(
    values: np.ndarray[Any, Any],
) -> None:
    saved = Tensor(values).T
    file = io.BytesIO()
    np.save(file, saved.numpy(), allow_pickle=False)
    file.seek(0)
    assert np.array_equal(np.load(file, allow_pickle=False), values.T)

    source, target = nn.Module(), nn.Module()
    source.weight = nn.Parameter(saved)
    target.weight = nn.Parameter(Tensor(np.full(values.T.shape, 7.0)))
    target.load_state_dict(source.state_dict())
    assert np.array_equal(target.weight.data, values.T)


# Every op


def test_every_op_of_several_elementwise_operands_has_samples_that_broadcast() -> None:
    def unequal(name: str) -> bool:
        return any(len({np.shape(a) for a in s.operands}) > 1 for s in CASES[name].samples)

    elementwise = [
        name for name, spec in VOCAB.items() if spec.scope == "both" and len(spec.inputs) > 1
    ]
    assert {"add", "pow", "where", "maximum", "lt"} <= set(elementwise)
    assert [name for name in elementwise if not unequal(name)] == []


# Calls as PyTorch's users write them


def test_zeros_and_ones_take_their_shape_in_one_piece_or_in_several() -> None:
    for make, value in ((st.zeros, 0), (st.ones, 1)):
        for made in (make(2, 3), make((2, 3)), make([2, 3], dtype="float64")):
            assert made.shape == (2, 3) and (made.data == value).all()
        assert make(4).shape == (4,) and make(()).shape == ()
        assert make(2, 0, requires_grad=True).requires_grad
        with pytest.raises(ValueError, match="-1"):
            make(2, -1)
        with pytest.raises(TypeError):
            make(2, 1.5)


def test_data_can_be_replaced_by_the_result_of_a_computation() -> None:
    w = Tensor([1.0, 2.0], requires_grad=True)
    (w * w).sum().backward()
    assert w.grad is not None
    w.data = w.data - 0.25 * w.grad
    assert type(w.data) is np.ndarray
    assert w.tolist() == [0.5, 1.0]
    assert w.is_leaf
    assert w.requires_grad


def test_data_set_to_a_tensor_shares_its_memory_and_the_count_of_its_changes() -> None:
    w, source = Tensor([1.0], requires_grad=True), Tensor([3.0])
    w.data = source
    y = w * w
    source.fill_(5.0)
    assert w.item() == 5.0
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.backward()


@pytest.mark.parametrize("value", [2.0, [1.0, 2.0], None, "text"])
def test_data_refuses_what_is_no_array_and_stays(value: object) -> None:
    w = Tensor([1.0, 2.0], requires_grad=True)
    with pytest.raises(TypeError, match="data must be set to an ndarray or a Tensor"):
        w.data = value  # type: ignore[assignment]
    assert w.tolist() == [1.0, 2.0]


def test_data_of_a_tensor_that_requires_grad_stays_floating() -> None:
    w = Tensor([1.0, 2.0], requires_grad=True)
    with pytest.raises(RuntimeError, match="must be floating, got int64"):
        w.data = np.array([1, 2])
    assert w.tolist() == [1.0, 2.0]
