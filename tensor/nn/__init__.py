"""Layers and losses, PyTorch's way."""

from __future__ import annotations

from . import functional, init
from ._activations import GELU, LogSoftmax, ReLU, Sigmoid, Softmax, Tanh
from ._containers import ModuleDict, ModuleList, Sequential
from ._dropout import Dropout
from ._embedding import Embedding
from ._linear import Linear
from ._losses import (
    BCELoss,
    BCEWithLogitsLoss,
    CrossEntropyLoss,
    HuberLoss,
    KLDivLoss,
    L1Loss,
    MSELoss,
    NLLLoss,
    SmoothL1Loss,
)
from ._module import Module
from ._norm import LayerNorm
from ._parameter import Buffer, Parameter
from ._shape import Flatten, Identity

__all__ = [
    "GELU",
    "BCELoss",
    "BCEWithLogitsLoss",
    "Buffer",
    "CrossEntropyLoss",
    "Dropout",
    "Embedding",
    "Flatten",
    "HuberLoss",
    "Identity",
    "KLDivLoss",
    "L1Loss",
    "LayerNorm",
    "Linear",
    "LogSoftmax",
    "MSELoss",
    "Module",
    "ModuleDict",
    "ModuleList",
    "NLLLoss",
    "Parameter",
    "ReLU",
    "Sequential",
    "Sigmoid",
    "SmoothL1Loss",
    "Softmax",
    "Tanh",
    "functional",
    "init",
]
