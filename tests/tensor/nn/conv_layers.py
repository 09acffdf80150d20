"""Convolutions and pooling, to be compared with PyTorch's."""

from __future__ import annotations

from typing import Any, Final

from tests.tensor.nn.twins import Layer, real

__all__ = ["CONVOLUTIONS"]


def _conv2d(*sizes: Any, shape: tuple[int, ...] = (2, 4, 7, 6), **options: Any) -> Layer:
    return Layer(lambda nn: nn.Conv2d(*sizes, **options), real(*shape))


def _transposed(*sizes: Any, shape: tuple[int, ...] = (2, 4, 3, 5), **options: Any) -> Layer:
    return Layer(lambda nn: nn.ConvTranspose2d(*sizes, **options), real(*shape))


def _adaptive(size: Any, *shape: int) -> Layer:
    return Layer(lambda nn: nn.AdaptiveAvgPool2d(size), real(*shape))


CONVOLUTIONS: Final[dict[str, Layer]] = {
    "conv2d": _conv2d(4, 3, 3),
    "conv2d, no batch": _conv2d(4, 3, 3, shape=(4, 7, 6)),
    "conv2d, no samples": _conv2d(4, 3, 3, shape=(0, 4, 7, 6)),
    "conv2d of one tap": _conv2d(4, 3, 1),
    "conv2d without bias": _conv2d(4, 3, (2, 3), bias=False),
    "conv2d, stride": _conv2d(4, 3, 3, 2),
    "conv2d, everything": _conv2d(4, 6, (3, 2), (2, 1), (2, 1), (1, 3), 2),
    "conv2d by channel": _conv2d(4, 8, 3, padding=1, groups=4),
    "conv2d, same": _conv2d(4, 3, (3, 5), padding="same", dilation=(2, 1)),
    "conv2d, valid": _conv2d(4, 3, 3, padding="valid"),
    **{
        f"conv2d, {mode}": _conv2d(4, 3, 3, 2, (2, 1), padding_mode=mode)
        for mode in ("reflect", "replicate", "circular")
    },
    "conv2d, same and reflect": _conv2d(4, 3, (4, 3), padding="same", padding_mode="reflect"),
    "conv2d, valid and circular": _conv2d(4, 3, 3, padding="valid", padding_mode="circular"),
    "conv1d": Layer(lambda nn: nn.Conv1d(4, 3, 3), real(2, 4, 7)),
    "conv1d, no batch": Layer(lambda nn: nn.Conv1d(4, 3, 3), real(4, 7)),
    "conv1d, everything": Layer(lambda nn: nn.Conv1d(4, 6, 3, 2, 3, 2, 2, False), real(2, 4, 9)),
    "conv1d, same": Layer(lambda nn: nn.Conv1d(4, 3, 5, padding="same"), real(2, 4, 7)),
    "conv1d, reflect": Layer(
        lambda nn: nn.Conv1d(4, 3, 3, padding=(2,), padding_mode="reflect"), real(2, 4, 7)
    ),
    "transposed conv2d": _transposed(4, 3, 3),
    "transposed conv2d, no batch": _transposed(4, 3, 3, shape=(4, 3, 5)),
    "transposed conv2d, stride": _transposed(4, 3, 2, 2, bias=False),
    "transposed conv2d, everything": _transposed(4, 6, (3, 2), (3, 2), (1, 0), (2, 1), 2, True, 2),
    "max pool": Layer(lambda nn: nn.MaxPool2d(2), real(2, 3, 6, 5)),
    "max pool, no batch": Layer(lambda nn: nn.MaxPool2d(2), real(3, 6, 5)),
    "max pool, everything": Layer(
        lambda nn: nn.MaxPool2d((3, 2), (2, 1), (1, 0), (1, 2), ceil_mode=True), real(2, 3, 6, 7)
    ),
    "max pool with indices": Layer(
        lambda nn: nn.MaxPool2d(3, 1, 1, return_indices=True), real(2, 3, 5, 4)
    ),
    "max pool with indices, no batch": Layer(
        lambda nn: nn.MaxPool2d(2, return_indices=True), real(3, 5, 4)
    ),
    "average pool": Layer(lambda nn: nn.AvgPool2d(2), real(2, 3, 6, 5)),
    "average pool, everything": Layer(
        lambda nn: nn.AvgPool2d((3, 2), 2, (1, 0), True, False, 5), real(2, 3, 6, 7)
    ),
    "adaptive pool": _adaptive(3, 2, 3, 6, 9),
    "adaptive pool, no batch": _adaptive((2, 3), 3, 6, 9),
    "adaptive pool into one": _adaptive(1, 2, 3, 6, 7),
    "adaptive pool, unequal windows": _adaptive((3, 4), 2, 3, 5, 7),
    "adaptive pool, more than there are": _adaptive((4, None), 2, 3, 3, 5),
}
