"""Schedules of an optimizer's step size, PyTorch's way.

A schedule is made after its optimizer, sets the first step size at once, and
every further one at ``step()``, which comes after ``optimizer.step()``.
"""

from __future__ import annotations

from ._base import LRScheduler
from ._cycles import CosineAnnealingWarmRestarts, OneCycleLR
from ._factors import (
    ConstantLR,
    CosineAnnealingLR,
    ExponentialLR,
    LambdaLR,
    LinearLR,
    MultiStepLR,
    StepLR,
)
from ._plateau import ReduceLROnPlateau
from ._sequential import SequentialLR

__all__ = [
    "ConstantLR",
    "CosineAnnealingLR",
    "CosineAnnealingWarmRestarts",
    "ExponentialLR",
    "LRScheduler",
    "LambdaLR",
    "LinearLR",
    "MultiStepLR",
    "OneCycleLR",
    "ReduceLROnPlateau",
    "SequentialLR",
    "StepLR",
]
