"""Optimizers, PyTorch's way."""

from __future__ import annotations

from ._adam import Adam, AdamW
from ._optimizer import Optimizer
from ._sgd import SGD

__all__ = ["SGD", "Adam", "AdamW", "Optimizer"]
