"""Every op: one decorated kernel on ndarrays each, by family, or in ``composed`` made of others.

A kernel takes and returns ndarrays, in the operands' common dtype. What it
raises is passed on with the op's name and the operands' shapes in front.
"""

from __future__ import annotations

from micro.vocab import OPERATORS, install_operators

from ..dispatch import COMPOSITES, OPS, operator_of, recording
from ..tensor import Tensor
from . import (
    attention,
    composed,
    convolution,
    elementwise,
    fused,
    indexing,
    linalg,
    logic,
    reduction,
    shape,
)
from .attention import *  # noqa: F403 - the families together are the ops
from .composed import *  # noqa: F403
from .convolution import *  # noqa: F403
from .elementwise import *  # noqa: F403
from .fused import *  # noqa: F403
from .indexing import *  # noqa: F403
from .linalg import *  # noqa: F403
from .logic import *  # noqa: F403
from .reduction import *  # noqa: F403
from .shape import *  # noqa: F403

__all__: list[str] = []
__all__ += attention.__all__
__all__ += composed.__all__
__all__ += convolution.__all__
__all__ += elementwise.__all__
__all__ += fused.__all__
__all__ += indexing.__all__
__all__ += linalg.__all__
__all__ += logic.__all__
__all__ += reduction.__all__
__all__ += shape.__all__
__all__.sort()

install_operators(Tensor, {name: operator_of(name) for name, _ in OPERATORS.values()})

# Functions alone: the operand that comes first is not the one that they are about, or they are
# adjoints, of use to rules.
_FUNCTIONS = {
    *("where", "cat", "stack", "linear", "layer_norm", "cross_entropy", "dropout"),
    "binary_cross_entropy",
    *("getitem", "getitem_adjoint", "embedding", "embedding_adjoint", "one_hot", "cast"),
    *("setitem", "gather_adjoint", "index_select_adjoint", "topk_indices"),
    *("rms_norm", "group_norm", "batch_moments", "batch_norm"),
    *("attention_weights", "scaled_dot_product_attention"),
    *("conv2d", "conv2d_input_adjoint", "conv2d_weight_adjoint"),
    *("max_pool2d", "max_pool2d_indices", "avg_pool2d", "avg_pool2d_adjoint"),
    *("einsum", "tensordot", "pad", "diagonal_adjoint", "unfold_adjoint", "im2col", "col2im"),
}

# Every other op is also a method, unless Tensor defines it in a form of its own.
for _name in (OPS.keys() | COMPOSITES.keys()) - _FUNCTIONS:
    if not hasattr(Tensor, _name):
        setattr(Tensor, _name, vars(recording)[_name])
Tensor.clamp = recording.clip
Tensor.movedim = recording.moveaxis
Tensor.take_along_axis = recording.take_along_dim
