"""Optimizers, PyTorch's way, and schedules of their step size."""

from __future__ import annotations

from . import lr_scheduler
from ._adagrad import Adagrad
from ._adam import Adam, AdamW
from ._optimizer import Optimizer
from ._rmsprop import RMSprop
from ._sgd import SGD

__all__ = ["SGD", "Adagrad", "Adam", "AdamW", "Optimizer", "RMSprop", "lr_scheduler"]
