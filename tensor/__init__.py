"""The array engine: reverse-mode automatic differentiation on numpy, PyTorch's way."""

from __future__ import annotations

from .ops import *  # noqa: F403 - every op is public; functions of the same name come after

# isort: split

from . import composite, functions, nn, ops, optim, random, selection
from .checkpoint import checkpoint
from .compiler import compile
from .composite import *  # noqa: F403
from .custom import custom_op, remove_op
from .dtypes import float16, float32, float64, int32, int64
from .engine import backward, grad
from .errors import ShapeError
from .functions import *  # noqa: F403
from .gradcheck import GradcheckError, gradcheck, gradgradcheck
from .interchange import from_dlpack
from .kernels.choice import kernels_in_use, use_default, use_kernels
from .modes import (
    detect_anomaly,
    enable_grad,
    is_anomaly_enabled,
    is_grad_enabled,
    is_recording_sites,
    no_grad,
    record_sites,
    set_grad_enabled,
)
from .program import Program, trace
from .random import Generator, default_generator, manual_seed
from .scalarize import Scalarized, scalarize
from .selection import *  # noqa: F403
from .tensor import Tensor, from_numpy
from .tracing import record_details
from .transforms import hessian, hvp, jacobian, jvp, vhp, vjp

__all__ = [
    "Generator",
    "GradcheckError",
    "Program",
    "Scalarized",
    "ShapeError",
    "Tensor",
    "backward",
    "checkpoint",
    "compile",
    "custom_op",
    "default_generator",
    "detect_anomaly",
    "enable_grad",
    "float16",
    "float32",
    "float64",
    "from_dlpack",
    "from_numpy",
    "grad",
    "gradcheck",
    "gradgradcheck",
    "hessian",
    "hvp",
    "int32",
    "int64",
    "is_anomaly_enabled",
    "is_grad_enabled",
    "is_recording_sites",
    "jacobian",
    "jvp",
    "kernels_in_use",
    "manual_seed",
    "nn",
    "no_grad",
    "ops",
    "optim",
    "random",
    "record_details",
    "record_sites",
    "remove_op",
    "scalarize",
    "set_grad_enabled",
    "trace",
    "use_kernels",
    "vhp",
    "vjp",
]
__all__ += ops.__all__
__all__ += composite.__all__
__all__ += functions.__all__
__all__ += selection.__all__
__all__[:] = sorted(set(__all__))  # a function may stand before an op of its name

use_default()
