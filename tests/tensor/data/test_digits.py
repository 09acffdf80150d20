"""Generated digits: reproducible, in MNIST's form, and the digits that their labels say."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from tensor.data import digits, generated_digits
from tensor.random import Generator


@pytest.fixture(scope="module")
def drawn() -> tuple[np.ndarray, np.ndarray]:
    images, labels = generated_digits(2500, Generator(0))
    return images.data, labels.data


def test_they_have_the_form_of_mnist(drawn: tuple[np.ndarray, np.ndarray]) -> None:
    images, labels = drawn
    assert images.shape == (2500, 784) and images.dtype == np.float32
    assert labels.shape == (2500,) and labels.dtype == np.int64
    assert images.min() == 0 and images.max() == 1
    assert set(labels.tolist()) == set(range(10))
    # MNIST's training images have a mean of 0.1307 and a standard deviation of 0.3081
    assert abs(images.mean() - 0.1307) < 0.03
    assert abs(images.std() - 0.3081) < 0.03


def test_one_seed_gives_the_same_bits_and_another_seed_others(
    drawn: tuple[np.ndarray, np.ndarray],
) -> None:
    images, labels = generated_digits(2500, Generator(0))
    assert np.array_equal(images.data, drawn[0]) and np.array_equal(labels.data, drawn[1])
    other = generated_digits(2500, Generator(1))[0]
    assert not np.array_equal(other.data, drawn[0])


def test_a_generator_goes_on_so_that_the_next_digits_are_others() -> None:
    generator = Generator(0)
    first, second = (generated_digits(20, generator)[0].data for _ in range(2))
    assert not np.array_equal(first, second)


def test_they_are_white_on_black_and_centred(drawn: tuple[np.ndarray, np.ndarray]) -> None:
    images = drawn[0].reshape(-1, 28, 28)
    border = np.ones((28, 28), bool)
    border[2:-2, 2:-2] = False
    assert images[:, border].mean() < 0.02 < images[:, ~border].mean()
    ink = images.sum((1, 2))
    for axis in (1, 2):
        centre = (images.sum(3 - axis) * np.arange(28)).sum(1) / ink
        assert abs(centre - 13.5).max() < 4
        assert abs(centre.mean() - 13.5) < 0.5


def test_each_label_names_the_digit_that_is_seen(drawn: tuple[np.ndarray, np.ndarray]) -> None:
    images, labels = drawn
    for digit in range(10):
        seen = _as_matplotlib_draws(digit)
        assert labels[_distances(images, seen).argmin()] == digit


@pytest.mark.parametrize("digit", [2, 4, 5, 6, 7, 9])  # the others look the same turned
def test_the_digits_stand_upright_and_are_not_mirrored(
    drawn: tuple[np.ndarray, np.ndarray], digit: int
) -> None:
    images = drawn[0][drawn[1] == digit]
    seen = _as_matplotlib_draws(digit)
    nearest = _distances(images, seen).min()
    for turned in (seen[:, ::-1], seen[::-1]):
        assert nearest < 0.7 * _distances(images, turned).min()


def _distances(images: np.ndarray, seen: np.ndarray) -> np.ndarray:
    return ((images - seen.ravel()) ** 2).sum(1)


def _as_matplotlib_draws(digit: int) -> np.ndarray:
    """A digit as matplotlib renders its text, moved so that its centre of mass is in the middle."""
    figure = Figure(figsize=(0.28, 0.28), dpi=100)
    canvas = FigureCanvasAgg(figure)
    figure.text(0.5, 0.5, str(digit), size=19, ha="center", va="center")
    canvas.draw()
    seen = 1 - np.asarray(canvas.buffer_rgba())[..., 0] / 255
    for axis in (0, 1):
        centre = (seen.sum(1 - axis) * np.arange(28)).sum() / seen.sum()
        seen = np.roll(seen, round(13.5 - centre), axis)
    return seen


def test_noise_is_what_was_asked_for() -> None:
    clean = generated_digits(200, Generator(0), noise=0.0)[0].data
    assert (clean == 0).mean() > 0.7  # a black background
    noisy = generated_digits(200, Generator(0), noise=0.1)[0].data
    grey = (clean > 0.4) & (clean < 0.6)  # clipping does not reach these
    assert abs((noisy - clean)[grey].std() - 0.1) < 0.01


@pytest.mark.parametrize(
    ("count", "noise", "message"),
    [
        (0, 0.02, "count is 0, wanted at least 1"),
        (-3, 0.02, "count is -3"),
        (2, -0.1, "noise is -0.1, wanted"),
        (2, np.nan, "noise is nan"),
        (2, np.inf, "noise is inf"),
    ],
)
def test_a_refused_call_leaves_the_generator_alone(count: int, noise: float, message: str) -> None:
    generator = Generator(0)
    with pytest.raises(ValueError, match=message):
        generated_digits(count, generator, noise=noise)
    assert generator.get_state() == Generator(0).get_state()


def test_without_matplotlib_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    generator = Generator(0)
    digits._glyphs.cache_clear()
    with pytest.raises(ImportError, match=r"matplotlib.*pip install 'smolgrad\[train\]'"):
        generated_digits(2, generator)
    assert generator.get_state() == Generator(0).get_state()
