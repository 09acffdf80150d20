"""What is checked against other libraries, where these are installed."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from micro.vocab import VOCAB

from ..engine import grad
from .calls import Call, calls, cotangent, leaves, run, wanted
from .checks import ROUNDING, Check, Result, against_numbers, distance

__all__ = ["OUTSIDE"]


def fifty_digits(seed: int, rounds: int) -> Result:
    """Compare values and gradients with the scalar engine's on 50 digits of mpmath."""
    if importlib.util.find_spec("mpmath") is None:
        return Result(ROUNDING, "relative error", missing="mpmath is not installed")
    mpmath: Any = importlib.import_module("mpmath")
    with mpmath.workdps(50):
        return against_numbers(mpmath.mpf, seed, rounds)


# Ops that PyTorch calls by the same name, with the same arguments: in torch, and in its functional.
_TORCH: Final = (
    *("add", "sub", "mul", "div", "neg", "pow", "square", "abs", "sign", "reciprocal"),
    *("remainder", "floor", "ceil", "round", "sqrt", "rsqrt", "exp", "exp2", "log", "log2"),
    *("log10", "log1p", "expm1", "sin", "cos", "tan", "atan", "sinh", "cosh", "tanh", "sigmoid"),
    *("erf", "maximum", "minimum", "clip", "where", "sum", "mean", "var", "std", "amax", "amin"),
    *("logsumexp", "cumsum", "cumprod", "matmul", "outer", "flatten", "permute", "transpose"),
    *("cat", "stack", "flip", "roll", "tril", "triu", "softmax"),
    *("reshape", "squeeze", "unsqueeze", "diagonal", "tensordot", "moveaxis", "tile"),
    *("take_along_dim", "masked_fill", "masked_select"),
)
_FUNCTIONAL: Final = (
    *("logsigmoid", "softplus", "relu", "leaky_relu", "elu", "silu", "gelu", "log_softmax", "pad"),
    *("cross_entropy", "layer_norm", "rms_norm", "scaled_dot_product_attention", "conv2d"),
    *("max_pool2d", "avg_pool2d"),
)


def pytorch(seed: int, rounds: int) -> Result:
    """Compare values and gradients with PyTorch's, of the ops that it calls alike."""
    result = Result(ROUNDING, "relative error")
    if importlib.util.find_spec("torch") is None:
        result.missing = "torch is not installed"
        return result
    torch: Any = importlib.import_module("torch")
    functions: dict[str, Callable[..., Any]] = {
        **{name: getattr(torch, name) for name in _TORCH},
        **{name: getattr(torch.nn.functional, name) for name in _FUNCTIONAL},
    }
    for i in range(rounds):
        for call in calls(seed + i):
            if call.op not in functions:
                continue
            operands = leaves(call)
            theirs = [
                None if x is None else torch.tensor(x.data).requires_grad_(x.requires_grad)
                for x in operands
            ]
            out = run(call, operands)
            expected = _called(functions[call.op], call, theirs)
            result.note(distance(out.data, expected.detach().numpy()), call)
            seed_of_both = cotangent(out)
            mine = grad([out], wanted(operands), [seed_of_both], allow_unused=True)
            asked = [x for x in theirs if x is not None and x.requires_grad]
            found = torch.autograd.grad(
                expected, asked, torch.tensor(seed_of_both.data), allow_unused=True
            )
            for x, g, h in zip(wanted(operands), mine, found, strict=True):
                ours = np.zeros(x.shape) if g is None else g.data
                other = np.zeros(x.shape) if h is None else h.numpy()
                result.note(distance(ours, other), f"gradient of {call}")
    return result


def _called(function: Callable[..., Any], call: Call, operands: list[Any]) -> Any:
    """Call PyTorch's function, which may have operands behind attributes: these go by name."""
    if VOCAB[call.op].variadic:
        return function(operands, **call.attrs)
    if "normalized_shape" in call.attrs:
        rest = zip(VOCAB[call.op].inputs[1:], operands[1:], strict=True)
        return function(operands[0], **dict(rest), **call.attrs)
    return function(*operands, **call.attrs)


OUTSIDE: Final[dict[str, Check]] = {
    "array engine against 50 digits": fifty_digits,
    "values and gradients against PyTorch": pytorch,
}
