"""Recurrent layers: dropout between layers, long inputs, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
import pytest

import tensor
from tensor import ShapeError, Tensor, nn
from tensor.nn import _recurrent
from tests.tensor.tolerances import assert_close

X: Final = np.random.default_rng(2).normal(size=(6, 3, 4))


@pytest.mark.parametrize("kind", [nn.RNN, nn.GRU, nn.LSTM])
def test_layers_are_cells_one_after_another(kind: Any) -> None:
    layers = kind(4, 5, num_layers=2, dtype="float64")
    state = layers.state_dict()
    cells = []
    for k, width in enumerate((4, 5)):
        cell = getattr(nn, f"{kind.__name__}Cell")(width, 5, dtype="float64")
        cell.load_state_dict({n: state[f"{n}_l{k}"] for n in cell.state_dict()})
        cells.append(cell)
    states: list[Any] = [None, None]
    outputs = []
    for x in X:
        h: Any = Tensor(x)
        for k, cell in enumerate(cells):
            states[k] = cell(h, states[k])
            h = states[k][0] if kind is nn.LSTM else states[k]
        outputs.append(h.data)
    found, last = layers(Tensor(X))
    assert_close(found.data, np.stack(outputs))
    final = last[0] if kind is nn.LSTM else last
    assert_close(final.data[1], outputs[-1])


def test_dropout_falls_between_layers_in_training() -> None:
    layers = nn.GRU(4, 5, num_layers=2, dropout=1.0, dtype="float64")
    silent = nn.GRU(5, 5, dtype="float64")
    state = layers.state_dict()
    silent.load_state_dict({n: state[n.replace("l0", "l1")] for n in silent.state_dict()})
    expected, _ = silent(Tensor(np.zeros((6, 3, 5))))
    found, last = layers(Tensor(X))
    assert_close(found.data, expected.data)
    assert last.data[0].any()  # the first layer itself is not dropped
    one = nn.GRU(4, 5, num_layers=1, dropout=1.0, dtype="float64")
    assert np.array_equal(one(Tensor(X))[0].data, one.eval()(Tensor(X))[0].data)


@pytest.mark.parametrize("length", [1, 2, 3, 7, 8, 13])
def test_positions_are_taken_apart_and_their_gradients_put_together(length: int) -> None:
    rng = np.random.default_rng(length)
    a, weights = Tensor(rng.normal(size=(length, 2)), requires_grad=True), rng.normal(size=length)
    parts = _recurrent._positions(a)
    assert [part.tolist() for part in parts] == a.tolist()
    sum((p * w).sum() for p, w in zip(parts, weights, strict=True)).backward()  # type: ignore[union-attr]
    assert a.grad is not None
    assert_close(a.grad.data, np.repeat(weights[:, None], 2, axis=1))


def test_cells_can_be_taught_to_remember() -> None:
    rng, layer = np.random.default_rng(0), nn.LSTM(1, 8, generator=tensor.Generator(0))
    head = nn.Linear(8, 1, generator=tensor.Generator(1))
    optimizer = tensor.optim.Adam([*layer.parameters(), *head.parameters()], lr=0.03)
    losses = []
    for _ in range(60):
        x = rng.choice([-1.0, 1.0], (8, 32, 1)).astype(np.float32)
        states, _ = layer(Tensor(x))
        loss = nn.functional.mse_loss(head(states[-1]), Tensor(x[0]))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.1 < 0.8 < losses[0]


BAD: Final[dict[str, tuple[Callable[[], Any], type[Exception], str]]] = {
    "no state": (lambda: nn.LSTM(4, 0), ShapeError, "LSTM: hidden_size must be above 0, got 0"),
    "no layers": (lambda: nn.GRU(4, 5, 0), ShapeError, "GRU: num_layers must be at least 1"),
    "dropout": (lambda: nn.GRU(4, 5, dropout=1.5), ValueError, r"GRU: dropout must lie in \[0, 1"),
    "nonlinearity": (
        lambda: nn.RNNCell(4, 5, nonlinearity="gelu"),
        ValueError,
        "RNNCell: nonlinearity must be 'tanh' or 'relu', got 'gelu'",
    ),
    "width": (
        lambda: nn.RNN(5, 2, dtype="float64")(Tensor(X)),
        ShapeError,
        r"RNN: the input must be 5 wide, got shape \(6, 3, 4\)",
    ),
    "width of a cell": (
        lambda: nn.GRUCell(5, 2, dtype="float64")(Tensor(X[0])),
        ShapeError,
        r"GRUCell: the input must be 5 wide, got shape \(3, 4\)",
    ),
    "dimensions": (
        lambda: nn.LSTM(4, 2, dtype="float64")(Tensor(X[0, 0])),
        ShapeError,
        r"LSTM: the input must be of 3 dimensions.*got shape \(4,\)",
    ),
    "dimensions of a cell": (
        lambda: nn.LSTMCell(4, 2, dtype="float64")(Tensor(X)),
        ShapeError,
        r"LSTMCell: the input must be \(N, 4\) or \(4,\), got shape \(6, 3, 4\)",
    ),
    "no positions": (
        lambda: nn.GRU(4, 2, dtype="float64")(Tensor(X[:0])),
        ShapeError,
        r"GRU: the input \(0, 3, 4\) has no positions",
    ),
    "state": (
        lambda: nn.GRU(4, 2, dtype="float64")(Tensor(X), Tensor(np.ones((3, 2)))),
        ShapeError,
        r"GRU: the state must have shape \(1, 3, 2\), got \(3, 2\)",
    ),
    "state of a cell": (
        lambda: nn.RNNCell(4, 2, dtype="float64")(Tensor(X[0]), Tensor(np.ones((3, 4)))),
        ShapeError,
        r"RNNCell: the state must have shape \(3, 2\), got \(3, 4\)",
    ),
    "half a state": (
        lambda: nn.LSTM(4, 2, dtype="float64")(Tensor(X), (Tensor(np.ones((1, 3, 2))),)),
        ShapeError,
        r"LSTM: the state must be \(h, c\), got 1 Tensors",
    ),
}


@pytest.mark.parametrize(("use", "error", "words"), BAD.values(), ids=BAD)
def test_what_does_not_fit_is_refused(
    use: Callable[[], Any], error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        use()
