"""Layers and losses, PyTorch's way."""

from __future__ import annotations

from . import functional, init, utils
from ._activations import (
    ELU,
    GELU,
    LeakyReLU,
    LogSigmoid,
    LogSoftmax,
    ReLU,
    Sigmoid,
    SiLU,
    Softmax,
    Softplus,
    Tanh,
)
from ._attention import MultiheadAttention, TransformerEncoderLayer
from ._containers import ModuleDict, ModuleList, ParameterList, Sequential
from ._conv import Conv1d, Conv2d, ConvTranspose2d
from ._dropout import Dropout, Dropout2d
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
from ._norm import BatchNorm1d, BatchNorm2d, GroupNorm, LayerNorm, RMSNorm
from ._parameter import Buffer, Parameter
from ._pool import AdaptiveAvgPool2d, AvgPool2d, MaxPool2d
from ._position import RotaryEncoding, SinusoidalEncoding, rotary, sinusoidal
from ._recurrent import GRU, LSTM, RNN, GRUCell, LSTMCell, RNNCell
from ._shape import Flatten, Identity, Unflatten

__all__ = [
    "ELU",
    "GELU",
    "GRU",
    "LSTM",
    "RNN",
    "AdaptiveAvgPool2d",
    "AvgPool2d",
    "BCELoss",
    "BCEWithLogitsLoss",
    "BatchNorm1d",
    "BatchNorm2d",
    "Buffer",
    "Conv1d",
    "Conv2d",
    "ConvTranspose2d",
    "CrossEntropyLoss",
    "Dropout",
    "Dropout2d",
    "Embedding",
    "Flatten",
    "GRUCell",
    "GroupNorm",
    "HuberLoss",
    "Identity",
    "KLDivLoss",
    "L1Loss",
    "LSTMCell",
    "LayerNorm",
    "LeakyReLU",
    "Linear",
    "LogSigmoid",
    "LogSoftmax",
    "MSELoss",
    "MaxPool2d",
    "Module",
    "ModuleDict",
    "ModuleList",
    "MultiheadAttention",
    "NLLLoss",
    "Parameter",
    "ParameterList",
    "RMSNorm",
    "RNNCell",
    "ReLU",
    "RotaryEncoding",
    "Sequential",
    "SiLU",
    "Sigmoid",
    "SinusoidalEncoding",
    "SmoothL1Loss",
    "Softmax",
    "Softplus",
    "Tanh",
    "TransformerEncoderLayer",
    "Unflatten",
    "functional",
    "init",
    "rotary",
    "sinusoidal",
    "utils",
]
