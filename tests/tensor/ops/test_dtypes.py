"""Every op in half precision, on integers and on truth values, as PyTorch has it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from micro.vocab import VOCAB
from tensor import Tensor, grad
from tests.tensor.ops.cases import CASES
from tests.tensor.ops.harness import (
    DIFFERENTIABLE,
    call,
    domains,
    leaves,
    requiring,
    torch_call,
    torch_leaves,
    weights_for,
)
from tests.tensor.ops.table import Sample
from tests.tensor.tolerances import assert_close

WHOLE = ("int64", "int32", "int8", "uint8", "bool")

# What PyTorch refuses and is plain enough to give: the dtype of the result, "" for that of the
# operands.
BEYOND = {
    **dict.fromkeys(("mean", "var", "gelu", "softmax", "log_softmax", "cross_entropy"), "float32"),
    **dict.fromkeys(
        ("std", "norm", "softplus", "elu", "leaky_relu", "silu", "logsigmoid"), "float32"
    ),
    **dict.fromkeys(("any", "all"), "bool"),  # also of uint8
    **dict.fromkeys(("avg_pool2d", "avg_pool2d_adjoint"), "float32"),
    **dict.fromkeys(("argmax", "argmin"), "int64"),
    **dict.fromkeys(("abs", "relu", "matmul", "linear"), ""),
    **dict.fromkeys(("getitem_adjoint", "embedding_adjoint", "im2col", "col2im"), ""),
    "einsum": "",
    **dict.fromkeys(("conv2d", "conv2d_input_adjoint", "conv2d_weight_adjoint"), ""),
}


def whole(name: str, sample: Sample, dtype: str) -> list[Any]:
    """The operands with small integers in place of real numbers."""
    kinds = domains(name, len(sample.operands))
    rng = np.random.default_rng(5)
    low = 0 if dtype in ("uint8", "bool") else -3
    return [
        a if a is None or kind in ("bool", "index") else rng.integers(low, 4, np.shape(a))
        for a, kind in zip(sample.operands, kinds, strict=True)
    ]


def outcome(function: Any, operands: list[Any]) -> Any:
    try:
        return function(operands)
    except (RuntimeError, TypeError, ValueError, IndexError) as error:
        return error


@pytest.mark.parametrize("name", [name for name in VOCAB if name != "cast"])
def test_integers_and_truth_values_as_torch(name: str) -> None:
    kinds = VOCAB[name].domain
    for dtype in WHOLE:
        for sample in CASES[name].samples:
            kinds = domains(name, len(sample.operands))
            arrays = [
                a if a is None or kind in ("bool", "index") else np.array(a, dtype)
                for a, kind in zip(whole(name, sample, dtype), kinds, strict=True)
            ]
            ours = outcome(
                lambda xs, s=sample: call(name, xs, s.attrs),
                [a if a is None else Tensor(a) for a in arrays],
            )
            theirs = outcome(
                lambda xs, s=sample: torch_call(name, xs, s.attrs),
                [a if a is None else torch.from_numpy(np.array(a)) for a in arrays],
            )
            note = f"{dtype} {sample}: {ours}"
            if name == "pow" and isinstance(ours, Exception):
                assert "negative integer powers" in str(ours) or "bool" in str(ours), note
            elif "attention" in name or (name == "linear" and sample.attrs.get("activation")):
                assert "must be floating" in str(ours), note
            elif isinstance(theirs, Exception) or BEYOND.get(name):
                if name == "einsum" and ours.dtype == "int64":
                    pass  # a sum of integers times others, which PyTorch does not multiply it with
                elif name in BEYOND:
                    assert ours.dtype == (BEYOND[name] or dtype), note
                else:
                    assert isinstance(ours, Exception), note
            else:
                assert not isinstance(ours, Exception), note
                assert_close(ours.data, theirs.numpy(), name, note)


@pytest.mark.parametrize("name", VOCAB)
def test_half_precision_stays_half_and_equals_torch(name: str) -> None:
    for sample in CASES[name].samples:
        if name == "cast":
            continue
        ours, theirs = leaves(name, sample, "float16"), torch_leaves(name, sample, "float16")
        out, expected = call(name, ours, sample.attrs), torch_call(name, theirs, sample.attrs)
        if name in DIFFERENTIABLE:
            assert out.dtype == np.float16
        assert_close(out.data, expected.detach().numpy(), name, f"{sample}: value")
        if out.requires_grad:
            weights = weights_for(out)
            found = grad(out, requiring(ours), Tensor(weights))
            wanted = torch.autograd.grad(expected, requiring(theirs), torch.from_numpy(weights))
            for g, w in zip(found, wanted, strict=True):
                assert g is not None
                assert_close(g.data, w.numpy(), name, f"{sample}: gradient")


@pytest.mark.parametrize("number", [2, 2.5, True, np.float64(2.5), np.int64(2)], ids=repr)
@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_a_number_beside_a_tensor_promotes_it_in_no_op(number: Any, dtype: str) -> None:
    binary = [n for n in DIFFERENTIABLE if VOCAB[n].domain == ("real", "real")]
    for name in [n for n in binary if VOCAB[n].scope == "both"]:
        x = Tensor(np.ones((2, 3)), dtype=dtype, requires_grad=True)
        for operands in ([x, number], [number, x]):
            out = call(name, operands, {})
            assert out.dtype == dtype, name
            (g,) = grad(out, x, Tensor(np.ones((2, 3), dtype)))
            assert g is not None and g.dtype == dtype, name


@pytest.mark.parametrize("small", ["float16", "float32", "float64", "int64", "int32", "bool"])
@pytest.mark.parametrize("large", ["float16", "float32", "float64", "int64", "int32", "bool"])
def test_a_tensor_without_dimensions_promotes_as_in_torch(small: str, large: str) -> None:
    for shapes in (((), (2,)), ((2,), ()), ((), ()), ((2,), (2,))):
        arrays = [np.ones(s, d) for s, d in zip(shapes, (small, large), strict=True)]
        ours = call("mul", [Tensor(a) for a in arrays], {})
        theirs = torch_call("mul", [torch.from_numpy(np.array(a)) for a in arrays], {})
        assert_close(ours.data, theirs.numpy(), note=f"{small}{shapes[0]} {large}{shapes[1]}")


@pytest.mark.parametrize("wanted", ["float16", "float32", "float64", "int64", "int8", "bool"])
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int64", "bool"])
def test_a_conversion_carries_its_gradient_back_in_the_dtype_it_came_from(
    dtype: str, wanted: str
) -> None:
    values = np.array([-1.5, 0.0, 2.7]).astype(dtype)
    x = Tensor(values, requires_grad=values.dtype.kind == "f")
    there = torch.from_numpy(values.copy()).requires_grad_(x.requires_grad)
    out, expected = call("cast", [x], {"dtype": wanted}), there.to(getattr(torch, wanted))
    assert_close(out.data, expected.detach().numpy())
    assert out.requires_grad == expected.requires_grad
    if out.requires_grad:
        weights = weights_for(out)
        (g,) = grad(out, x, Tensor(weights))
        (w,) = torch.autograd.grad(expected, there, torch.from_numpy(weights))
        assert g is not None
        assert_close(g.data, w.numpy())
