"""Layers and losses, PyTorch's way."""

from __future__ import annotations

from . import functional, init
from ._activations import GELU, LogSoftmax, ReLU, Sigmoid, Softmax, Tanh
from ._containers import ModuleDict, ModuleList, Sequential
from ._dropout import Dropout
from ._embedding import Embedding
from ._linear import Linear
from ._losses import CrossEntropyLoss, L1Loss, MSELoss
from ._module import Module
from ._norm import LayerNorm
from ._parameter import Buffer, Parameter
from ._shape import Flatten, Identity

__all__ = [
    "GELU",
    "Buffer",
    "CrossEntropyLoss",
    "Dropout",
    "Embedding",
    "Flatten",
    "Identity",
    "L1Loss",
    "LayerNorm",
    "Linear",
    "LogSoftmax",
    "MSELoss",
    "Module",
    "ModuleDict",
    "ModuleList",
    "Parameter",
    "ReLU",
    "Sequential",
    "Sigmoid",
    "Softmax",
    "Tanh",
    "functional",
    "init",
]
