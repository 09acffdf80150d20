"""Every op in half precision, on integers and on truth values, and numbers that do not fit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import tensor as st
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
    **dict.fromkeys(("einsum", "tensordot"), ""),
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
                if name in ("einsum", "tensordot") and ours.dtype == "int64":
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


def test_a_number_that_no_integer_can_hold_is_refused() -> None:
    for x in (Tensor([1.0]), Tensor([1, 2])):
        for number in (2**63, -(2**63) - 1, 10**400):
            with pytest.raises(TypeError, match="does not fit into int64; write it as a float"):
                x + number
    assert (Tensor([1.0], "float64") * 1e30).item() == 1e30
    assert (Tensor([0]) + -(2**63)).item() == -(2**63)
    assert (Tensor([0]) + (2**63 - 1)).item() == 2**63 - 1


@pytest.mark.parametrize("dtype", ["uint8", "int8", "int32", "int64"])
def test_targets_may_be_integers_of_any_size(dtype: str) -> None:
    logits = np.random.default_rng(2).normal(size=(3, 200))
    target = np.array([100, 3, 99])
    for classes in (target, target + (56 if dtype != "int8" else 0)):  # 156 is -100 in uint8
        x, y = Tensor(logits, requires_grad=True), Tensor(logits, requires_grad=True)
        loss = st.cross_entropy(x, Tensor(classes, dtype))
        wanted = st.cross_entropy(y, classes)
        assert loss.item() == wanted.item()
        for create_graph in (False, True):
            gx = grad(loss, x, create_graph=create_graph, retain_graph=True)[0]
            gy = grad(wanted, y, create_graph=create_graph, retain_graph=True)[0]
            assert gx is not None and gy is not None
            np.testing.assert_array_equal(gx.data, gy.data)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_large_numbers_do_not_overflow_on_the_way(dtype: str) -> None:
    top = float(np.finfo(dtype).max) * 0.9
    x = Tensor(np.array([top, top, -top], dtype), requires_grad=True)
    for y in (x.softmax(0), x.log_softmax(0)[:2], x.logsumexp(0), x.sigmoid(), x.tanh()):
        assert np.isfinite(y.data).all()
        (g,) = grad(y.sum(), x)
        assert g is not None and np.isfinite(g.data).all()


MANY = 5000


HALVES: dict[str, tuple[Callable[..., Tensor], tuple[tuple[int, ...], ...]]] = {
    "sum": (lambda a: a.sum(0), ((MANY, 2),)),
    "mean": (lambda a: a.mean(0), ((MANY, 2),)),
    "std": (lambda a: a.std(0) * 10, ((MANY, 2),)),
    "norm": (lambda a: a.norm(2, 0), ((MANY, 2),)),
    "cumsum": (lambda a: a.cumsum(0)[::1000], ((MANY, 2),)),
    "softmax": (lambda a: a.softmax(0) * 1000, ((MANY, 2),)),
    "log_softmax": (lambda a: a.log_softmax(0), ((MANY, 2),)),
    "logsumexp": (lambda a: a.logsumexp(0), ((MANY, 2),)),
    "matmul": (lambda a, b: a @ b, ((2, MANY), (MANY, 2))),
    "linear": (st.linear, ((MANY, 2), (2, 2), (2,))),
    "layer_norm": (lambda a, w, b: st.layer_norm(a, w, b, 2), ((MANY, 2), (2,), (2,))),
    "embedding": (lambda w: st.embedding(w, np.zeros(MANY, int)), ((3, 2),)),
    "index": (lambda a: a[np.zeros(MANY, int), np.zeros(MANY, int)], ((3, 2),)),
    "broadcast": (lambda a: a * np.ones((MANY, 1)), ((1, 2),)),
}


@pytest.mark.parametrize("name", HALVES)
def test_sums_of_halves_are_made_in_single_precision(name: str) -> None:
    function, shapes = HALVES[name]
    rng = np.random.default_rng(3)
    arrays = [rng.uniform(0.9, 1.1, shape).astype(np.float16) for shape in shapes]
    weights = rng.uniform(0.5, 1.5, function(*map(Tensor, arrays)).shape).astype(np.float16)

    def results(dtype: str) -> list[Any]:
        operands = [Tensor(a, dtype, requires_grad=True) for a in arrays]
        out = function(*operands)
        found = grad(out, operands, Tensor(weights))
        return [out.data, *(g.data for g in found if g is not None)]

    for half, exact in zip(results("float16"), results("float64"), strict=True):
        assert half.dtype == np.float16
        np.testing.assert_allclose(half, exact, rtol=5e-3, atol=5e-3)


def test_squares_of_halves_do_not_overflow_on_the_way() -> None:
    values = np.zeros(100, np.float16)
    values[0] = 300
    assert Tensor(values).var().item() == 900
    normal = st.layer_norm(Tensor(np.array([300, -300], np.float16)), None, None, 2)
    assert normal.tolist() == [1, -1]
