"""float32 stays float32: numbers never promote a Tensor, in values or in gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tensor as st
from tensor import Tensor, grad
from tests.tensor.engine.helpers import cases, leaf

FLOATS = ("float16", "float32", "float64")

# Every kind of number that must not promote a Tensor.
NUMBERS: dict[str, Any] = {
    "int": 3,
    "float": 2.5,
    "bool": True,
    "np.float64": np.float64(2.5),
    "np.float32": np.float32(2.5),
    "np.float16": np.float16(2.5),
    "np.int64": np.int64(3),
    "np.uint8": np.uint8(3),
    "np.bool": np.bool_(True),
}

BINARY: dict[str, Callable[[Any, Any], Tensor]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "/": lambda a, b: a / b,
    "**": lambda a, b: a**b,
    "maximum": lambda a, b: st.maximum(a, b),  # noqa: PLW0108
    "minimum": lambda a, b: st.minimum(a, b),  # noqa: PLW0108
    "where": lambda a, b: st.where(Tensor([True, False, True]), a, b),
}


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", BINARY)
@pytest.mark.parametrize("kind", NUMBERS)
def test_a_number_on_either_side_leaves_the_dtype_alone(kind: str, name: str, dtype: str) -> None:
    x, number, function = leaf(3, dtype=dtype), NUMBERS[kind], BINARY[name]
    for out in (function(x, number), function(number, x)):
        assert isinstance(out, Tensor) and out.dtype == dtype and out.requires_grad
        (g,) = grad(out.sum(), x)
        assert g.dtype == dtype


@pytest.mark.parametrize("name", BINARY)
@pytest.mark.parametrize("other", ["float16", "float32", "float64", "int64", "bool"])
def test_an_array_of_any_floating_dtype_leaves_the_dtype_alone(other: str, name: str) -> None:
    x, array = leaf(3, dtype="float32"), np.ones(3, other)
    for out in (BINARY[name](x, array), BINARY[name](array, x)):
        assert isinstance(out, Tensor) and out.dtype == np.float32 and out.requires_grad
        (g,) = grad(out.sum(), x)
        assert g.dtype == np.float32


@pytest.mark.parametrize("operand", [2.5, np.float64(2.5), np.ones(3)], ids=["py", "np", "array"])
def test_an_integer_tensor_becomes_floating_where_the_other_operand_is(operand: Any) -> None:
    t = Tensor([1, 2, 3])
    wanted = np.float64 if isinstance(operand, np.ndarray) else np.float32
    assert (t * operand).dtype == wanted and (operand * t).dtype == wanted
    assert (t * 2).dtype == np.int64 and (t / 2).dtype == np.float32


LOSSES: dict[str, Callable[[Tensor], Tensor]] = {
    "sum of squares": lambda x: (x**2).sum(),
    "maximum": lambda x: st.maximum(x, 1).sum(),
    "where and clip": lambda x: st.where(x > 1, x, 0.5).clip(0.1, 2).sum(),
    "mean": lambda x: (2 * x).mean(),
    "var": lambda x: x.var() + x.var(0).sum(),
    "softmax": lambda x: (x.softmax(1) * x.log_softmax(1)).sum(),
    "logsumexp": lambda x: x.logsumexp(1).mean(),
    "cross_entropy": lambda x: st.cross_entropy(x, np.array([0, 2]), label_smoothing=0.1),
    "layer_norm": lambda x: (st.layer_norm(x, None, None, (3,)) * x).sum(),
    "linear": lambda x: st.linear(x, x, None, "tanh").sum(),
    "matmul": lambda x: (x @ x.T).exp().mean(),
    "gelu": lambda x: x.gelu().sum() + x.gelu("tanh").sum(),
    "erf": lambda x: x.erf().sum() + x.sigmoid().sum(),
    "index": lambda x: x[:, [0, 0, 1]].sum() + x[x > 1].sum(),
    "max": lambda x: x.max() + x.max(1).values.sum() + x.min(),
    "embedding": lambda x: (st.embedding(x, np.array([0, 0, 1])) ** 2).sum(),
    "cat": lambda x: st.cat([x, 2 * x]).sqrt().sum() + st.stack([x, x]).log1p().sum(),
    "numbers": lambda x: (np.float64(2) * x / 3 - np.float64(0.5)).expm1().abs().sum(),
    "arrays": lambda x: (np.ones((2, 3)) * x + np.ones(3)).sum(),
    "in place": lambda x: (x * 1).mul_(2.0).add_(np.float64(1)).sum(),
}


@pytest.mark.parametrize("dtype", FLOATS)
@cases("loss", LOSSES)
def test_a_whole_loss_stays_in_its_dtype(loss: Callable[[Tensor], Tensor], dtype: str) -> None:
    x, seen = leaf(2, 3, dtype=dtype), list[str]()
    out = loss(x)
    assert out.dtype == dtype
    stack: list[Any] = [out.node]
    while stack:
        node = stack.pop()
        if node.inputs:
            seen.append(str(node.dtype))
            stack += [edge for edge in node.inputs if edge.op]
    assert set(seen) == {dtype}
    (g,) = grad(out, x, retain_graph=True)
    assert g.dtype == dtype and np.isfinite(g.data).all()
    (g,) = grad(out, x, create_graph=True)
    assert g.dtype == dtype


@pytest.mark.parametrize(("dtype", "other"), [("float32", "float64"), ("float64", "float32")])
def test_a_seed_is_converted_to_the_dtype_of_its_output(dtype: str, other: str) -> None:
    for make in (lambda x: x, lambda x: x.exp()):
        x = Tensor(np.zeros(2, dtype), requires_grad=True)
        make(x).backward(Tensor(np.array([2.0, -3.0], other)))
        assert x.grad is not None and x.grad.dtype == dtype
        assert x.grad.tolist() == [2.0, -3.0]


@pytest.mark.parametrize("dtype", FLOATS)
def test_the_second_order_stays_in_its_dtype(dtype: str) -> None:
    x = leaf(2, 3, dtype=dtype)
    (g,) = grad((x.softmax(1) ** 2).sum(), x, create_graph=True)
    (gg,) = grad((g * x).sum(), x)
    assert g.dtype == dtype and gg.dtype == dtype


def test_a_half_stays_half_beside_numbers_it_cannot_hold() -> None:
    x = leaf(3, dtype="float16")
    assert st.where(x > 0, x, 1e9).dtype == np.float16
    assert x.clip(-1e9, 1e9).dtype == np.float16
    assert np.isinf((x * 1e9).data).all()


@pytest.mark.parametrize(
    ("a", "b", "wanted"),
    [
        ("float32", "float64", "float64"),
        ("float16", "float32", "float32"),
        ("int64", "float16", "float16"),
        ("int32", "int64", "int64"),
        ("uint8", "int32", "int32"),
        ("bool", "uint8", "uint8"),
        ("bool", "float32", "float32"),
    ],
)
def test_tensors_promote_one_another(a: str, b: str, wanted: str) -> None:
    x, y = Tensor([1, 0], dtype=a), Tensor([1, 1], dtype=b)
    assert (x + y).dtype == wanted and (y * x).dtype == wanted


@pytest.mark.parametrize(
    "product",
    [
        lambda a, b: a @ b,
        lambda a, b: b @ a,
        st.linear,
        lambda a, b: st.layer_norm(a, b[0], None, (2,)),
    ],
    ids=["@", "@ the other way", "linear", "layer_norm"],
)
def test_a_product_of_unlike_tensors_is_refused(
    product: Callable[[Tensor, Tensor], Tensor],
) -> None:
    a, b = leaf(2, 2, dtype="float32"), leaf(2, 2)
    with pytest.raises(RuntimeError, match=r"float32.*float64|float64.*float32"):
        product(a, b)


def test_an_array_in_a_product_is_converted() -> None:
    t = leaf(2, 2, dtype="float32")
    for out in (np.ones((2, 2)) @ t, t @ np.ones((2, 2)), np.ones(2, np.float16) @ t):
        assert out.dtype == np.float32 and out.requires_grad


@pytest.mark.parametrize("dtype", ["int64", "bool"])
def test_no_gradient_flows_through_an_integer(dtype: str) -> None:
    x = leaf(3)
    assert not x.to(dtype).requires_grad
    assert not (x.to(dtype) * 2.0).requires_grad
