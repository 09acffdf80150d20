"""Recurrent cells and layers, to be compared with PyTorch's."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from tests.tensor.nn.twins import Layer, real

__all__ = ["RECURRENT"]

# Positions, samples, widths of input and state.
L, N, W, H = 5, 3, 4, 2

# The state of an LSTM is a pair.
_PAIRED: Final = {"LSTM", "LSTMCell"}


def _state(kind: str, *shape: int) -> Any:
    return (real(*shape), real(*shape)) if kind in _PAIRED else real(*shape)


def _layer(kind: str, inputs: Any, *arguments: Any, **options: Any) -> Layer:
    return Layer(lambda nn: getattr(nn, kind)(W, H, *arguments, **options), inputs)


def _of_cell(kind: str) -> dict[str, Layer]:
    return {
        kind: _layer(kind, (real(N, W), _state(kind, N, H))),
        f"{kind} from zeros": _layer(kind, real(N, W)),
        f"{kind}, no batch": _layer(kind, (real(W), _state(kind, H))),
        f"{kind} without bias": _layer(kind, (real(N, W), _state(kind, N, H)), bias=False),
    }


def _of_layers(kind: str) -> dict[str, Layer]:
    def given(layers: int, *shape: int) -> tuple[np.ndarray, Any]:
        return real(*shape, W), _state(kind, layers, N, H)

    return {
        kind: _layer(kind, given(1, L, N)),
        f"{kind} from zeros": _layer(kind, real(L, N, W)),
        f"{kind}, no batch": _layer(kind, (real(L, W), _state(kind, 1, H))),
        f"{kind}, one position": _layer(kind, real(1, N, W)),
        f"{kind}, two layers": _layer(kind, given(2, L, N), 2),
        f"{kind}, both directions": _layer(kind, given(2, L, N), bidirectional=True),
        f"{kind}, everything": _layer(
            kind,
            given(4, N, L),
            num_layers=2,
            bias=False,
            batch_first=True,
            bidirectional=True,
        ),
        f"{kind}, dropout in evaluation": Layer(
            lambda nn: getattr(nn, kind)(W, H, 2, dropout=0.9).eval(), real(L, N, W)
        ),
    }


RECURRENT: Final[dict[str, Layer]] = {
    **_of_cell("RNNCell"),
    **_of_cell("GRUCell"),
    **_of_cell("LSTMCell"),
    "RNNCell of relu": _layer("RNNCell", real(N, W), nonlinearity="relu"),
    **_of_layers("RNN"),
    **_of_layers("GRU"),
    **_of_layers("LSTM"),
    "RNN of relu": _layer("RNN", real(L, N, W), nonlinearity="relu"),
}
