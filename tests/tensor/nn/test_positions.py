"""Positional encodings against the equations and what these promise."""

from __future__ import annotations

import math

import numpy as np
import pytest

import tensor
from tensor import ShapeError, Tensor, gradcheck, nn
from tests.tensor.tolerances import assert_close

RNG = np.random.default_rng(4)


def test_the_sinusoidal_encoding_is_its_equation() -> None:
    found = nn.sinusoidal(50, 6, start=3, base=100.0, dtype="float64")
    for t in range(50):
        for i in range(3):
            angle = (t + 3) / 100.0 ** (2 * i / 6)
            wanted = math.sin(angle), math.cos(angle)
            assert found.data[t, 2 * i : 2 * i + 2] == pytest.approx(wanted, abs=1e-14)


def test_a_shift_of_the_sinusoidal_encoding_is_linear() -> None:
    encoding = nn.sinusoidal(40, 8, dtype="float64").data
    shift, *_ = np.linalg.lstsq(encoding[:-7], encoding[7:], rcond=None)
    np.testing.assert_allclose(encoding[:-7] @ shift, encoding[7:], atol=1e-12)


def test_the_sinusoidal_layer_adds_to_its_input() -> None:
    x = Tensor(RNG.normal(size=(2, 5, 4)), requires_grad=True)
    y = nn.SinusoidalEncoding(4)(x, start=2)
    assert_close(y.data, x.data + nn.sinusoidal(7, 4, dtype="float64").data[2:])
    y.sum().backward()
    assert x.grad is not None and (x.grad.data == 1).all()
    assert nn.SinusoidalEncoding(4)(Tensor(np.ones((3, 4), np.float32))).dtype == tensor.float32


def test_the_rotary_encoding_multiplies_complex_numbers_of_length_one() -> None:
    x = RNG.normal(size=(2, 3, 9, 6))
    pairs = x[..., 0::2] + 1j * x[..., 1::2]
    angles = np.arange(5, 14)[:, None] * 50.0 ** (-np.arange(3) / 3)
    turned = pairs * np.exp(1j * angles)
    found = nn.rotary(Tensor(x), start=5, base=50.0).data
    assert_close(found[..., 0::2], turned.real)
    assert_close(found[..., 1::2], turned.imag)


@pytest.mark.parametrize("far", [0, 1, 1000])
def test_inner_products_of_turned_vectors_depend_on_the_distance_alone(far: int) -> None:
    width, length = 8, 12
    layer = nn.RotaryEncoding(width)
    query, key = (np.tile(RNG.normal(size=width), (length, 1)) for _ in range(2))
    scores = layer(Tensor(query), far).data @ layer(Tensor(key), far).data.T
    for distance in range(1 - length, length):
        along = np.diagonal(scores, distance)
        np.testing.assert_allclose(along, along[0], rtol=1e-11)
    # The rates are those of the paper: the score is a sum of cosines of the distance.
    q, k = (v[0, 0::2] + 1j * v[0, 1::2] for v in (query, key))
    rates = 10_000.0 ** (-2 * np.arange(width // 2) / width)
    for distance in range(length):
        wanted = (q * np.conj(k) * np.exp(-1j * distance * rates)).real.sum()
        assert scores[0, distance] == pytest.approx(wanted, rel=1e-11)


def test_turning_keeps_lengths_and_has_its_gradient() -> None:
    x = Tensor(RNG.normal(size=(3, 5, 4)), requires_grad=True)
    y = nn.RotaryEncoding(4)(x)
    assert_close(np.linalg.norm(y.data, axis=-1), np.linalg.norm(x.data, axis=-1))
    assert gradcheck(lambda a: nn.rotary(a, start=2), [x])
    assert nn.rotary(Tensor(np.ones((3, 4), np.float32))).dtype == tensor.float32


def test_what_is_given_out_may_be_changed() -> None:
    first = nn.sinusoidal(3, 4)
    first.fill_(0.0)
    assert nn.sinusoidal(3, 4).data.any()
    nn.rotary(Tensor(np.ones((3, 4), np.float32))).fill_(0.0)
    assert nn.rotary(Tensor(np.ones((3, 4), np.float32))).data.any()


def test_encodings_have_no_state_and_say_what_they_are() -> None:
    for layer in (nn.SinusoidalEncoding(4), nn.RotaryEncoding(4, base=5.0)):
        assert layer.state_dict() == {}
    assert repr(nn.SinusoidalEncoding(4)) == "SinusoidalEncoding(4, base=10000.0)"
    assert repr(nn.RotaryEncoding(4, base=5.0)) == "RotaryEncoding(4, base=5.0)"


@pytest.mark.parametrize("width", [0, 3, -2])
def test_a_width_that_is_no_pairs_is_refused(width: int) -> None:
    for make in (nn.SinusoidalEncoding, nn.RotaryEncoding, lambda w: nn.sinusoidal(5, w)):
        with pytest.raises(ShapeError, match=f"the width must be even and above 0, got {width}"):
            make(width)


def test_an_input_that_does_not_fit_is_refused() -> None:
    for layer in (nn.SinusoidalEncoding(4), nn.RotaryEncoding(4)):
        for shape in ((4,), (3, 6)):
            with pytest.raises(ShapeError, match=r"the input must be \(\.\.\., L, 4\), got shape"):
                layer(Tensor(np.ones(shape)))
    for shape in ((4,), (2, 3)):
        with pytest.raises(ShapeError, match="rotary: "):
            nn.rotary(Tensor(np.ones(shape)))
