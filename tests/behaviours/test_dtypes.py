"""dtype: float32 stays float32, seeds follow their losses, and what no Tensor holds is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
import pytest

import tensor as st
from micro import Value
from tensor import Tensor, grad
from tests.tensor.engine.helpers import leaf


@pytest.mark.parametrize(
    "loss",
    [lambda x: (x**2).sum(), lambda x: st.maximum(x, 1).sum()],
    ids=["sum of squares", "sum of maxima"],
)
@pytest.mark.parametrize("create_graph", [False, True])
def test_every_gradient_of_a_float32_loss_is_float32(
    loss: Callable[[Tensor], Tensor], create_graph: bool
) -> None:
    x, seen = Tensor(np.array([0.5, 1.5], np.float32), requires_grad=True), list[Any]()
    out = loss(x)
    assert out.dtype == np.float32 and out.node is not None
    (before,) = [edge for edge in out.node.inputs if edge.op]  # what is summed up
    assert before.dtype == np.float32
    out.register_hook(lambda g: seen.append(g.dtype))
    out.backward(create_graph=create_graph)
    assert x.grad is not None
    assert [*seen, x.grad.dtype] == [np.float32] * 2


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_the_seed_has_the_dtype_of_the_loss(dtype: str) -> None:
    x = leaf(3, dtype=dtype)
    seen: list[Tensor] = []
    loss = x.sum()
    loss.register_hook(seen.append)
    loss.backward()
    assert seen[0].dtype == dtype and seen[0].shape == ()
    assert x.grad is not None and x.grad.dtype == dtype


def test_a_half_stays_half_beside_python_numbers() -> None:
    x = leaf(3, dtype="float16")
    for out in (
        st.maximum(x, 3.1),
        st.maximum(3.1, x),
        st.where(x > 1, x, 3.1),
        st.where(x > 1, 3.1, x),
        x.clip(0.7, 3.1),
    ):
        assert out.dtype == np.float16
        (g,) = grad(out.sum(), x)
        assert g is not None and g.dtype == np.float16


NUMPY: Final[dict[str, tuple[Callable[[Tensor], Any], list[list[float]]]]] = {
    # the expression; the gradient of its sum
    "np.float64(2) * t": (lambda t: np.float64(2) * t, [[2, 2], [2, 2]]),
    "np.ones(2) * t": (lambda t: np.ones(2) * t, [[1, 1], [1, 1]]),
    "np.ones((2, 2)) @ t": (lambda t: np.ones((2, 2)) @ t, [[2, 2], [2, 2]]),
}


@pytest.mark.parametrize("expression", NUMPY)
def test_a_numpy_number_or_array_on_the_left_gives_a_float32_tensor_with_history(
    expression: str,
) -> None:
    function, slopes = NUMPY[expression]
    t = Tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    out = function(t)
    assert type(out) is Tensor and out.dtype == np.float32 and out.node is not None
    (g,) = grad(out.sum(), t)
    assert g is not None and g.dtype == np.float32 and g.tolist() == slopes


def test_a_product_of_float32_and_float64_is_refused_and_a_sum_promotes() -> None:
    a, b = leaf(2, 2, dtype="float32"), leaf(2, 2, seed=1)
    for call in (lambda: a @ b, lambda: b @ a):
        with pytest.raises(RuntimeError, match=r"^matmul: .*one dtype, got float.*and float"):
            call()
    for out in (a + b, b * a, st.maximum(a, b)):
        assert out.dtype == np.float64
        ga, gb = grad(out.sum(), [a, b])
        assert ga is not None and ga.dtype == np.float32
        assert gb is not None and gb.dtype == np.float64


UNFIT: Final[dict[str, Any]] = {
    "object": np.array([object()]),
    "<U1": np.array(["a"]),
    "complex128": np.array([1j]),
    "masked": np.ma.masked_array([1.0], [True]),
}


@pytest.mark.parametrize("what", UNFIT)
def test_what_a_tensor_cannot_hold_is_refused(what: str) -> None:
    array, x = UNFIT[what], leaf(1)
    calls = {
        "Tensor: ": lambda: Tensor(array),
        "add: b: ": lambda: x + array,
        "maximum: b: ": lambda: st.maximum(x, array),
        "sub: a: ": lambda: st.sub(array, x),
    }
    if what != "masked":  # numpy's masked arrays do not ask the Tensor, and are refused its data
        calls["mul: a: "] = lambda: array * x
    for where, call in calls.items():
        with pytest.raises(TypeError, match=rf"^{where}.*{what}"):
            call()
    assert x.grad is None and x.version == 0


@pytest.mark.parametrize("what", UNFIT)
def test_a_value_refuses_arrays(what: str) -> None:
    x = Value(1.0)
    for call in (lambda: Value(UNFIT[what]), lambda: x + UNFIT[what]):
        with pytest.raises(TypeError, match="must be a number"):
            call()


@pytest.mark.parametrize("order", [">", "<"])
def test_an_array_of_any_byte_order_is_converted(order: str) -> None:
    array = np.array([1.5, -2.0]).astype(f"{order}f8")
    t = Tensor(array)
    assert t.data.dtype.isnative and t.tolist() == [1.5, -2]
    x = Tensor(np.array([2.0, 3.0]), requires_grad=True)
    for out in (x * array, array * x):
        assert out.data.dtype.isnative and out.tolist() == [3, -6]
        (g,) = grad(out.sum(), x)
        assert g is not None and g.tolist() == [1.5, -2]
