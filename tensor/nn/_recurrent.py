"""Recurrent layers: a state that is carried from one position to the next."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from .. import ops
from ..dtypes import float32
from ..errors import ShapeError
from ..functions import zeros
from ..random import Generator
from ..tensor import Tensor
from . import functional, init
from ._module import Module
from ._parameter import empty_parameter

__all__ = ["GRU", "LSTM", "RNN", "GRUCell", "LSTMCell", "RNNCell"]

State = tuple[Tensor, ...]


# One step, from what the input contributes and the state to the next state.


def _elman(activation: Callable[[Tensor], Tensor]) -> Callable[..., State]:
    def step(given: Tensor, state: State, weight: Tensor, bias: Tensor | None) -> State:
        (h,) = state
        return (activation(given + functional.linear(h, weight, bias)),)

    return step


def _gru(given: Tensor, state: State, weight: Tensor, bias: Tensor | None) -> State:
    (h,) = state
    x_reset, x_update, x_new = _parts(given, 3)
    h_reset, h_update, h_new = _parts(functional.linear(h, weight, bias), 3)
    reset = (x_reset + h_reset).sigmoid()
    update = (x_update + h_update).sigmoid()
    new = (x_new + reset * h_new).tanh()
    return (new + update * (h - new),)


def _lstm(given: Tensor, state: State, weight: Tensor, bias: Tensor | None) -> State:
    h, c = state
    i, f, g, o = _parts(given + functional.linear(h, weight, bias), 4)
    c = f.sigmoid() * c + i.sigmoid() * g.tanh()
    return o.sigmoid() * c.tanh(), c


def _parts(a: Tensor, count: int) -> list[Tensor]:
    """Return ``a`` (..., count * width) in parts of equal width."""
    width = a.shape[-1] // count
    return [a[..., k * width : (k + 1) * width] for k in range(count)]


class _Kind(NamedTuple):
    """A recurrence: how many widths its weights hold, how many Tensors its state, and a step."""

    gates: int
    states: int
    step: Callable[..., State]


_KINDS: Final = {
    "tanh": _Kind(1, 1, _elman(functional.tanh)),
    "relu": _Kind(1, 1, _elman(functional.relu)),
    "gru": _Kind(3, 1, _gru),
    "lstm": _Kind(4, 2, _lstm),
}


def _elman_kind(name: str, nonlinearity: str) -> _Kind:
    if nonlinearity not in ("tanh", "relu"):
        raise ValueError(f"{name}: nonlinearity must be 'tanh' or 'relu', got {nonlinearity!r}")
    return _KINDS[nonlinearity]


class _Recurrent(Module):
    """What recurrent layers share: sizes, first values, the state that they start from."""

    _kind: _Kind

    def __init__(self, input_size: int, hidden_size: int, bias: bool) -> None:
        if not hidden_size > 0:
            raise ShapeError(
                f"{type(self).__name__}: hidden_size must be above 0, got {hidden_size}"
            )
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.bias = bias

    def _add_weights(self, suffix: str, inputs: int, dtype: Any) -> None:
        name, rows = type(self).__name__, self._kind.gates * self.hidden_size
        for what, shape in (("ih", (rows, inputs)), ("hh", (rows, self.hidden_size))):
            setattr(self, f"weight_{what}{suffix}", empty_parameter(name, shape, dtype))
        for what in ("ih", "hh"):
            bias = empty_parameter(name, rows, dtype) if self.bias else None
            setattr(self, f"bias_{what}{suffix}", bias)

    def _weights(self, suffix: str) -> tuple[Any, Any, Any, Any]:
        """Return weights and biases, of the input and of the state."""
        members = vars(self)
        return (
            members[f"weight_ih{suffix}"],
            members[f"weight_hh{suffix}"],
            members[f"bias_ih{suffix}"],
            members[f"bias_hh{suffix}"],
        )

    def reset_parameters(self, generator: Generator | None = None) -> None:
        """Draw the parameters anew."""
        bound = 1 / math.sqrt(self.hidden_size)
        for parameter in self.parameters():
            init.uniform_(parameter, -bound, bound, generator=generator)

    def _start(self, hx: Any, shape: tuple[int, ...], dtype: Any) -> State:
        """Return the first state, zeros unless it is given, after checking its shape."""
        name = type(self).__name__
        if hx is None:
            return tuple(zeros(shape, dtype=dtype) for _ in range(self._kind.states))
        state = (hx,) if self._kind.states == 1 else tuple(hx)
        if len(state) != self._kind.states:
            raise ShapeError(f"{name}: the state must be (h, c), got {len(state)} Tensors")
        for part in state:
            if part.shape != shape:
                raise ShapeError(f"{name}: the state must have shape {shape}, got {part.shape}")
        return state

    def _check_width(self, input: Tensor) -> None:
        if input.shape[-1] != self.input_size:
            raise ShapeError(
                f"{type(self).__name__}: the input must be {self.input_size} wide, "
                f"got shape {input.shape}"
            )


class _Cell(_Recurrent):
    """One step of a recurrence."""

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        *,
        dtype: Any = float32,
        generator: Generator | None = None,
    ) -> None:
        super().__init__(input_size, hidden_size, bias)
        self._add_weights("", input_size, dtype)
        self.reset_parameters(generator)

    def forward(self, input: Tensor, hx: Any = None) -> Any:
        """Return the next state after ``input``.

        Args:
            input: (N, input_size) or (input_size,).
            hx: the state so far, (N, hidden_size) or (hidden_size,); zeros by default.

        Raises:
            ShapeError: shapes that do not fit.
        """
        if input.ndim not in (1, 2):
            raise ShapeError(
                f"{type(self).__name__}: the input must be (N, {self.input_size}) or "
                f"({self.input_size},), got shape {input.shape}"
            )
        self._check_width(input)
        state = self._start(hx, (*input.shape[:-1], self.hidden_size), input.dtype)
        weight, weight_h, bias, bias_h = self._weights("")
        following = self._kind.step(functional.linear(input, weight, bias), state, weight_h, bias_h)
        return following if len(following) > 1 else following[0]

    def extra_repr(self) -> str:
        """Return the sizes, and what differs from the defaults."""
        bias = "" if self.bias else ", bias=False"
        return f"{self.input_size}, {self.hidden_size}{bias}"


class RNNCell(_Cell):
    """``h' = tanh(W_ih x + b_ih + W_hh h + b_hh)``.

    All parameters start uniform in ``(-1/sqrt(hidden_size), 1/sqrt(hidden_size))``.

    Args:
        input_size: width of the input.
        hidden_size: width of the state.
        bias: whether there are biases.
        nonlinearity: "tanh" or "relu".
        dtype: of the parameters.
        generator: draws their first values; by default the default one.

    Shapes: input ``(N, input_size)``, state ``(N, hidden_size)``, weights
    ``(hidden_size, input_size)`` and ``(hidden_size, hidden_size)``; all without N too.
    Source: Elman, 1990, Cognitive Science 14.

    Raises:
        ValueError: an unknown nonlinearity.
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        nonlinearity: str = "tanh",
        *,
        dtype: Any = float32,
        generator: Generator | None = None,
    ) -> None:
        self.nonlinearity = nonlinearity
        self._kind = _elman_kind("RNNCell", nonlinearity)
        super().__init__(input_size, hidden_size, bias, dtype=dtype, generator=generator)

    def extra_repr(self) -> str:
        """Return the sizes, and what differs from the defaults."""
        other = "" if self.nonlinearity == "tanh" else f", nonlinearity={self.nonlinearity}"
        return super().extra_repr() + other


class GRUCell(_Cell):
    """A gated recurrent unit, from the state h to h'.

        r = sigmoid(W_ir x + b_ir + W_hr h + b_hr)
        z = sigmoid(W_iz x + b_iz + W_hz h + b_hz)
        n = tanh(W_in x + b_in + r (W_hn h + b_hn))
        h' = (1 - z) n + z h

    The weights of r, z and n stand in this order one below the other. Arguments,
    first values and shapes are as for ``RNNCell``, with ``3 * hidden_size`` rows.
    Source: Cho et al., 2014, arXiv:1406.1078.
    """

    _kind = _KINDS["gru"]


class LSTMCell(_Cell):
    """Long short-term memory, from the state (h, c) to (h', c').

        i = sigmoid(W_ii x + b_ii + W_hi h + b_hi), likewise f and o
        g = tanh(W_ig x + b_ig + W_hg h + b_hg)
        c' = f c + i g
        h' = o tanh(c')

    The weights of i, f, g and o stand in this order one below the other.
    Arguments, first values and shapes are as for ``RNNCell``, with
    ``4 * hidden_size`` rows and a pair for the state.
    Source: Hochreiter and Schmidhuber, 1997, Neural Computation 9; with f, Gers et al., 2000,
    Neural Computation 12.
    """

    _kind = _KINDS["lstm"]


def _positions(a: Tensor) -> list[Tensor]:
    """Return ``a[0], a[1], ...`` of (L, ...), cut in halves, in halves of these, and so on.

    The gradient of a slice is as large as what it was cut from. Of one slice
    for each position that would make L times L, so it is L log L.
    """
    parts = [a]
    while len(parts) < len(a):
        halves: list[Tensor] = []
        for part in parts:
            middle = len(part) // 2
            halves += [part[:middle], part[middle:]] if middle else [part]
        parts = halves
    return [part.squeeze(0) for part in parts]


class _Layers(_Recurrent):
    """Layers of a recurrence, each over all positions."""

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        *,
        dtype: Any = float32,
        generator: Generator | None = None,
    ) -> None:
        name = type(self).__name__
        if num_layers < 1:
            raise ShapeError(f"{name}: num_layers must be at least 1, got {num_layers}")
        if not 0 <= dropout <= 1:
            raise ValueError(f"{name}: dropout must lie in [0, 1], got {dropout}")
        super().__init__(input_size, hidden_size, bias)
        self.num_layers = num_layers
        self.batch_first = batch_first
        self.dropout = dropout
        self.bidirectional = bidirectional
        self._directions = ("", "_reverse") if bidirectional else ("",)
        for layer in range(num_layers):
            inputs = hidden_size * len(self._directions) if layer else input_size
            for direction in self._directions:
                self._add_weights(f"_l{layer}{direction}", inputs, dtype)
        self.reset_parameters(generator)

    def forward(self, input: Tensor, hx: Any = None) -> tuple[Tensor, Any]:
        """Return the last layer's states at all positions, and every layer's last state.

        Args:
            input: (L, N, input_size), or (N, L, input_size) with ``batch_first``, or
                (L, input_size).
            hx: the state to start from, (layers * directions, N, hidden_size), without N if the
                input has none; for an LSTM a pair. Zeros by default.

        Returns:
            The states (L, N, directions * hidden_size), laid out as the input is, and the last
            ones, laid out as ``hx`` is.

        Raises:
            ShapeError: shapes that do not fit, or no positions.
        """
        if input.ndim not in (2, 3):
            raise ShapeError(
                f"{type(self).__name__}: the input must be of 3 dimensions, or of 2 without a "
                f"batch, got shape {input.shape}"
            )
        self._check_width(input)
        swapped = input.ndim == 3 and self.batch_first
        x = input.transpose(0, 1) if swapped else input
        if not len(x):
            raise ShapeError(f"{type(self).__name__}: the input {input.shape} has no positions")
        count = self.num_layers * len(self._directions)
        start = self._start(hx, (count, *x.shape[1:-1], self.hidden_size), x.dtype)
        starts = list(zip(*(_positions(part) for part in start), strict=True))
        last: list[State] = []
        for layer in range(self.num_layers):
            if layer and self.dropout:
                x = functional.dropout(x, self.dropout, self.training)
            outputs = []
            for direction in self._directions:
                h, state = self._run(x, f"_l{layer}{direction}", starts[len(last)], bool(direction))
                outputs.append(h)
                last.append(state)
            x = outputs[0] if len(outputs) == 1 else ops.cat(outputs, -1)
        final = tuple(ops.stack(list(parts)) for parts in zip(*last, strict=True))
        return x.transpose(0, 1) if swapped else x, final if len(final) > 1 else final[0]

    def _run(self, x: Tensor, suffix: str, state: State, backwards: bool) -> tuple[Tensor, State]:
        """Return the states of one layer in one direction, and the last one."""
        weight, weight_h, bias, bias_h = self._weights(suffix)
        order = slice(None, None, -1 if backwards else 1)
        outputs = []
        for given in _positions(functional.linear(x, weight, bias))[order]:
            state = self._kind.step(given, state, weight_h, bias_h)
            outputs.append(state[0])
        return ops.stack(outputs[order]), state

    def extra_repr(self) -> str:
        """Return the sizes, and what differs from the defaults."""
        parts = [f"{self.input_size}, {self.hidden_size}"]
        for name, default in (
            ("num_layers", 1),
            ("bias", True),
            ("batch_first", False),
            ("dropout", 0.0),
            ("bidirectional", False),
        ):
            if getattr(self, name) != default:
                parts.append(f"{name}={getattr(self, name)}")
        return ", ".join(parts)


class RNN(_Layers):
    """Layers of ``RNNCell`` over all positions.

    Args:
        input_size: width of the input.
        hidden_size: width of a state.
        num_layers: how many layers there are, each on the states of the one before.
        nonlinearity: "tanh" or "relu".
        bias: whether there are biases.
        batch_first: whether the batch comes before the positions.
        dropout: the probability with which an element between two layers is dropped in training.
        bidirectional: whether each layer also runs backwards; its states follow the others.
        dtype: of the parameters.
        generator: draws their first values; by default the default one.

    The parameters of layer k are ``weight_ih_lk``, ``weight_hh_lk``, ``bias_ih_lk`` and
    ``bias_hh_lk``; those of its backward direction end in ``_reverse``.

    Raises:
        ValueError: an unknown nonlinearity, or ``dropout`` outside [0, 1].
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        nonlinearity: str = "tanh",
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        *,
        dtype: Any = float32,
        generator: Generator | None = None,
    ) -> None:
        self.nonlinearity = nonlinearity
        self._kind = _elman_kind("RNN", nonlinearity)
        super().__init__(
            input_size,
            hidden_size,
            num_layers,
            bias,
            batch_first,
            dropout,
            bidirectional,
            dtype=dtype,
            generator=generator,
        )


class GRU(_Layers):
    """Layers of ``GRUCell`` over all positions; arguments as for ``RNN``."""

    _kind = _KINDS["gru"]


class LSTM(_Layers):
    """Layers of ``LSTMCell`` over all positions; arguments as for ``RNN``, the state is (h, c)."""

    _kind = _KINDS["lstm"]
