"""Convolutions, pooling and padding: what is refused, and what their parts share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
import pytest
import torch

import tensor
from tensor import Generator, ShapeError, Tensor, nn
from tensor.nn import functional
from tests.tensor.tolerances import assert_close

PLANES: Final = np.random.default_rng(0).normal(size=(2, 4, 6, 5))

BAD: Final[dict[str, tuple[Callable[[], Any], type[Exception], str]]] = {
    "channels in": (lambda: nn.Conv2d(3, 4, 3, groups=2), ShapeError, "in_channels must be div"),
    "channels out": (lambda: nn.Conv2d(4, 3, 3, groups=2), ShapeError, "out_channels must be div"),
    "no groups": (lambda: nn.Conv1d(4, 3, 3, groups=0), ShapeError, "Conv1d: in_channels"),
    "padding": (lambda: nn.Conv2d(4, 3, 3, padding="full"), ValueError, "'same' or 'valid'"),
    "same and stride": (
        lambda: nn.Conv2d(4, 3, 3, 2, padding="same"),
        ShapeError,
        "padding 'same' needs a stride of 1",
    ),
    "mode": (lambda: nn.Conv2d(4, 3, 3, padding_mode="mirror"), ValueError, "'mirror'"),
    "sizes": (lambda: nn.Conv2d(4, 3, (3, 3, 3)), ShapeError, "Conv2d: .*2 of them"),
    "size": (lambda: nn.Conv1d(4, 3, (3, 3)), ShapeError, "Conv1d: .*1 of them"),
    "fraction": (lambda: nn.Conv2d(4, 3, 2.5), TypeError, "Conv2d: .*2.5"),
    "negative": (lambda: nn.ConvTranspose2d(4, 3, -1), ShapeError, "ConvTranspose2d: "),
    "dtype": (lambda: nn.Conv2d(4, 3, 3, dtype="int64"), TypeError, "Conv2d: dtype must be float"),
}


@pytest.mark.parametrize(("make", "error", "words"), BAD.values(), ids=BAD)
def test_sizes_that_make_no_sense_are_refused(
    make: Callable[[], Any], error: type[Exception], words: str
) -> None:
    before = tensor.default_generator.get_state()
    with pytest.raises(error, match=words):
        make()
    assert tensor.default_generator.get_state() == before


CALLS: Final[dict[str, tuple[Callable[[], Any], type[Exception], str]]] = {
    "channels": (
        lambda: nn.Conv2d(3, 4, 3)(Tensor(PLANES).float()),
        ShapeError,
        "conv2d: .*3 ch",
    ),
    "dtype": (lambda: nn.Conv2d(4, 4, 3)(Tensor(PLANES)), RuntimeError, "conv2d: .*float"),
    "rows": (
        lambda: functional.conv1d(Tensor(PLANES), Tensor(PLANES[0, :3, :3])),
        ShapeError,
        "conv1d: the input must be",
    ),
    "stride of rows": (
        lambda: functional.conv1d(Tensor(PLANES[0]), Tensor(PLANES[0, :, :3]), stride=(1, 2)),
        ShapeError,
        r"conv1d: stride must be .*\(1, 2\)",
    ),
    "transposed": (
        lambda: functional.conv_transpose2d(Tensor(PLANES), Tensor(PLANES[0])),
        ShapeError,
        "conv_transpose2d: the input must be",
    ),
    "output padding": (
        lambda: nn.ConvTranspose2d(4, 3, 2, 2, output_padding=2)(Tensor(PLANES).float()),
        ShapeError,
        r"output_padding must be at least 0 and below stride \(2, 2\), got \(2, 2\)",
    ),
    "adaptive": (
        lambda: functional.adaptive_avg_pool2d(Tensor(PLANES[0, 0]), 2),
        ShapeError,
        "adaptive_avg_pool2d: the input must be",
    ),
    "no window": (
        lambda: functional.adaptive_avg_pool2d(Tensor(PLANES), 0),
        ShapeError,
        "output_size must be at least 1",
    ),
    "planes": (
        lambda: functional.dropout2d(Tensor(PLANES[0])),
        ShapeError,
        r"dropout2d: the input must be \(N, C, H, W\)",
    ),
    "probability": (lambda: functional.dropout2d(Tensor(PLANES), 1.5), ValueError, "dropout2d: p"),
    "padding mode": (
        lambda: functional.pad(Tensor(PLANES), (1, 1), "mirror"),
        ValueError,
        "pad: mode must be .*'mirror'",
    ),
    "padding value": (
        lambda: functional.pad(Tensor(PLANES), (1, 1), "reflect", 1.0),
        ValueError,
        "'reflect' takes no value",
    ),
    "reflected too far": (
        lambda: functional.pad(Tensor(PLANES), (5, 0), "reflect"),
        ShapeError,
        "can pad 5 elements by 0 to 4, got 5 and 0",
    ),
    "wrapped too far": (
        lambda: functional.pad(Tensor(PLANES), (0, 6), "circular"),
        ShapeError,
        "can pad 5 elements by 0 to 5, got 0 and 6",
    ),
    "taken away": (
        lambda: functional.pad(Tensor(PLANES), (-1, 0), "replicate"),
        ShapeError,
        "got -1 and 0",
    ),
    "nothing to repeat": (
        lambda: functional.pad(Tensor(np.ones((2, 0))), (1, 0), "replicate"),
        ShapeError,
        "can pad 0 elements by 0 to 0",
    ),
    "odd number": (
        lambda: functional.pad(Tensor(PLANES), (1, 0, 1), "replicate"),
        ShapeError,
        "two lengths",
    ),
    "more dimensions": (
        lambda: functional.pad(Tensor(PLANES[0, 0, 0]), (1, 0, 1, 0), "circular"),
        ShapeError,
        "at most 1 dim",
    ),
}


@pytest.mark.parametrize(("use", "error", "words"), CALLS.values(), ids=CALLS)
def test_a_call_that_does_not_fit_is_refused(
    use: Callable[[], Any], error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        use()


@pytest.mark.parametrize("mode", ["reflect", "replicate", "circular"])
def test_padding_of_any_dimension_is_numpys(mode: str) -> None:
    names = {"reflect": "reflect", "replicate": "edge", "circular": "wrap"}
    found = functional.pad(Tensor(PLANES), (2, 4, 5, 1, 0, 3), mode)
    wanted = np.pad(PLANES, ((0, 0), (0, 3), (5, 1), (2, 4)), names[mode])  # type: ignore[call-overload]
    assert np.array_equal(found.data, wanted)


def test_pooling_with_equal_windows_keeps_infinity_to_itself() -> None:
    planes = PLANES.copy()
    planes[0, 0, 0, 0] = np.inf
    for size in (3, (4, 3)):
        found = functional.adaptive_avg_pool2d(Tensor(planes), size).data
        expected = torch.nn.functional.adaptive_avg_pool2d(torch.tensor(planes), size).numpy()
        assert_close(found, expected)
        assert np.isinf(found).sum() == 1


def test_planes_are_dropped_as_a_whole_by_the_layers_generator() -> None:
    layer = nn.Dropout2d(0.4, generator=Generator(3))
    before = tensor.default_generator.get_state()
    x = Tensor(np.ones((40, 50, 2, 3)), requires_grad=True)
    y = layer(x)
    assert tensor.default_generator.get_state() == before
    planes = y.data.reshape(2000, 6)
    assert (planes == planes[:, :1]).all()
    kept = planes[:, 0] != 0
    assert abs(kept.mean() - 0.6) < 5 * np.sqrt(0.6 * 0.4 / 2000)
    np.testing.assert_allclose(planes[kept], 1 / 0.6, rtol=1e-15)
    y.sum().backward()
    assert x.grad is not None and np.array_equal(x.grad.data, y.data)
    again = nn.Dropout2d(0.4, generator=Generator(3))(x)
    assert np.array_equal(again.data, y.data)


def test_unflatten_refuses_parts_that_do_not_multiply() -> None:
    for parts in ((2, 2), (4, -1)):
        with pytest.raises(ShapeError, match=r"Unflatten: dimension 1 of \(2, 6\)"):
            nn.Unflatten(1, parts)(Tensor(np.ones((2, 6))))
    with pytest.raises(IndexError):
        nn.Unflatten(2, (2, 3))(Tensor(np.ones((2, 6))))
