"""Running one sample in this library and in PyTorch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np
import pytest
import torch

from micro.vocab import VOCAB
from tensor import Tensor
from tensor.dispatch import recording
from tensor.verify.calls import joined
from tests.tensor.ops.cases import CASES
from tests.tensor.ops.table import Sample

__all__ = [
    "COMPOSITE",
    "DIFFERENTIABLE",
    "FLAT",
    "PRIMITIVE",
    "call",
    "domains",
    "every",
    "leaves",
    "requiring",
    "results",
    "torch_call",
    "torch_leaves",
    "torch_results",
    "weights_for",
]

Array = np.ndarray[Any, Any]

# The ops that have kernels and rules, and those that are made of them.
PRIMITIVE: Final = [name for name, spec in VOCAB.items() if not spec.composite]
COMPOSITE: Final = [name for name, spec in VOCAB.items() if spec.composite]
# The ops that gradients flow through.
DIFFERENTIABLE: Final = [name for name, spec in VOCAB.items() if spec.differentiable]
# Those of them whose gradient is 0 everywhere.
FLAT: Final = [name for name, spec in VOCAB.items() if spec.kinks == "0 everywhere"]

_SINGULAR: Final = {"samples": "sample", "points": "point", "bad": "bad"}


def every(names: Sequence[str], field: str = "samples") -> Any:
    """Parametrise a test by op and by one of its samples, points or refused calls.

    An op that has no case yet fails one test of its own, in test_vocabulary, and stops no other.
    """
    rows = [
        pytest.param(name, row, id=f"{name}-{i}")
        for name in names
        if name in CASES
        for i, row in enumerate(getattr(CASES[name], field))
    ]
    return pytest.mark.parametrize(("name", _SINGULAR[field]), rows)


def domains(name: str, count: int) -> tuple[str, ...]:
    """The domain of each of ``count`` operands."""
    spec = VOCAB[name]
    return spec.domain * count if spec.variadic else spec.domain


def results(name: str, operands: Sequence[Any], attrs: Any) -> Any:
    """Call the public op: what it returns, be it one Tensor or several."""
    function = getattr(recording, name)
    if VOCAB[name].variadic:
        return function(list(operands), **attrs)
    return function(*operands, **attrs)


def call(name: str, operands: Sequence[Any], attrs: Any) -> Tensor:
    """Call the public op. Several results come in one row, so that one test fits all ops."""
    return joined(results(name, operands, attrs))


def _converted(name: str, sample: Sample, dtype: Any) -> list[Any]:
    """The operands as arrays of their own, the real ones in ``dtype``."""
    kinds = domains(name, len(sample.operands))
    return [
        a if a is None else np.array(a, dtype=dtype if kind not in ("bool", "index") else None)
        for a, kind in zip(sample.operands, kinds, strict=True)
    ]


def leaves(
    name: str, sample: Sample, dtype: Any = np.float64, make: Callable[[Array], Tensor] = Tensor
) -> list[Any]:
    """The operands as Tensors, of which the real ones require grad if the op has gradients."""
    operands = [a if a is None else make(a) for a in _converted(name, sample, dtype)]
    for operand in operands:
        if operand is not None and VOCAB[name].differentiable:
            operand.requires_grad_(operand.dtype.kind == "f")
    return operands


def torch_leaves(name: str, sample: Sample, dtype: Any = np.float64) -> list[Any]:
    """The same for PyTorch."""
    operands = [a if a is None else torch.from_numpy(a) for a in _converted(name, sample, dtype)]
    for operand in operands:
        if operand is not None and VOCAB[name].differentiable:
            operand.requires_grad_(operand.is_floating_point())
    return operands


def weights_for(out: Any, seed: int = 0) -> Array:
    """A cotangent: random, none of it near 0, and no two elements alike."""
    rng = np.random.default_rng([seed, *out.shape])
    weights = rng.uniform(0.5, 1.5, out.shape) * rng.choice([-1.0, 1.0], out.shape)
    return np.asarray(weights, dtype=str(out.dtype).removeprefix("torch."))


def requiring(operands: Sequence[Any]) -> list[Any]:
    """The operands that require grad, of either library."""
    return [x for x in operands if x is not None and x.requires_grad]


def torch_results(name: str, operands: Sequence[Any], attrs: Any) -> Any:
    """Call PyTorch's equivalent: what it returns."""
    function = CASES[name].torch
    return (
        function(list(operands), **attrs) if VOCAB[name].variadic else function(*operands, **attrs)
    )


def torch_call(name: str, operands: Sequence[Any], attrs: Any) -> Any:
    """Call PyTorch's equivalent. Several results come in one row, as from ``call``."""
    found = torch_results(name, operands, attrs)
    if isinstance(found, torch.Tensor):
        return found
    return torch.cat([x.reshape(-1).to(found[0].dtype) for x in found])
