"""Norms, to be compared with PyTorch's."""

from __future__ import annotations

from typing import Final

from tests.tensor.nn.twins import Layer, real

__all__ = ["NORMS"]

NORMS: Final[dict[str, Layer]] = {
    "batch norm of vectors": Layer(lambda nn: nn.BatchNorm1d(4), real(5, 4)),
    "batch norm of rows": Layer(lambda nn: nn.BatchNorm1d(4, eps=1e-2), real(5, 4, 3)),
    "batch norm of planes": Layer(lambda nn: nn.BatchNorm2d(4), real(3, 4, 5, 2)),
    "batch norm, one sample": Layer(lambda nn: nn.BatchNorm2d(4), real(1, 4, 5, 2)),
    "batch norm, other momentum": Layer(lambda nn: nn.BatchNorm1d(4, momentum=0.7), real(5, 4)),
    "batch norm, mean of all batches": Layer(
        lambda nn: nn.BatchNorm1d(4, momentum=None), real(5, 4)
    ),
    "batch norm without weights": Layer(
        lambda nn: nn.BatchNorm2d(4, affine=False), real(3, 4, 5, 2)
    ),
    "batch norm without bias": Layer(lambda nn: nn.BatchNorm1d(4, bias=False), real(5, 4)),
    "batch norm without running averages": Layer(
        lambda nn: nn.BatchNorm1d(4, track_running_stats=False), real(5, 4)
    ),
    "batch norm without them in evaluation": Layer(
        lambda nn: nn.BatchNorm1d(4, track_running_stats=False).eval(), real(5, 4)
    ),
    "batch norm in evaluation": Layer(lambda nn: nn.BatchNorm2d(4).eval(), real(3, 4, 5, 2)),
    "batch norm of one sample in evaluation": Layer(
        lambda nn: nn.BatchNorm1d(4).eval(), real(1, 4)
    ),
    "rms norm": Layer(lambda nn: nn.RMSNorm(6), real(4, 6)),
    "rms norm over two": Layer(lambda nn: nn.RMSNorm((3, 6), eps=1e-3), real(4, 3, 6)),
    "rms norm without weight": Layer(
        lambda nn: nn.RMSNorm([6], elementwise_affine=False), real(2, 4, 6)
    ),
    "group norm": Layer(lambda nn: nn.GroupNorm(2, 6), real(3, 6, 4, 2)),
    "group norm of vectors": Layer(lambda nn: nn.GroupNorm(2, 6, eps=1e-3), real(3, 6)),
    "group norm, one group": Layer(lambda nn: nn.GroupNorm(1, 6), real(3, 6, 4)),
    "group norm, groups of one": Layer(lambda nn: nn.GroupNorm(6, 6), real(3, 6, 4)),
    "group norm without weights": Layer(lambda nn: nn.GroupNorm(3, 6, affine=False), real(3, 6, 4)),
    "group norm without bias": Layer(lambda nn: nn.GroupNorm(3, 6, bias=False), real(3, 6, 4)),
}
