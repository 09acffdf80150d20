"""Choosing and writing elements in PyTorch's forms, as methods and functions, and order.

Values, derivatives and refusals of the ops are those of the table of ops (``tests/tensor/ops``).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import tensor as st
from tensor import ShapeError, Tensor, grad, gradcheck, gradgradcheck, no_grad
from tests.tensor.ops.harness import weights_for
from tests.tensor.tolerances import assert_close

RNG = np.random.default_rng(11)
A, ROW, NUMBER = RNG.normal(size=(3, 4)), RNG.normal(size=4), RNG.normal(size=())
INDEX = np.array([[3, 0, 3], [1, 1, 2]])
MASK = RNG.random((3, 4)) < 0.5

# A call in either library: ``m`` is the library, ``t`` makes its tensor of an array.
CALLS: dict[str, Callable[..., Any]] = {
    "gather": lambda m, t, a, b: m.gather(a, 1, t(INDEX)),
    "gather, method": lambda m, t, a, b: a.gather(-2, t(INDEX % 3)),
    "scatter": lambda m, t, a, b: m.scatter(a, 1, t(INDEX[:, 1:]), b[:2, :2]),
    "scatter, method": lambda m, t, a, b: a.scatter(-1, t(INDEX[:1, :2]), b[:1, :2]),
    "scatter, a number": lambda m, t, a, b: a.scatter(0, t(INDEX[1:, 1:] % 3), 2.5),
    "scatter_add": lambda m, t, a, b: m.scatter_add(a, 1, t(INDEX), b[:2, :3]),
    "scatter_add, method": lambda m, t, a, b: a.scatter_add(0, t(INDEX % 3), b[:2, :3]),
    "index_select": lambda m, t, a, b: m.index_select(a, 1, t(INDEX[0])),
    "index_select, method": lambda m, t, a, b: a.index_select(-2, t(INDEX[1])),
    "index_add": lambda m, t, a, b: m.index_add(a, 0, t(INDEX[1]), b),
    "index_add, alpha": lambda m, t, a, b: a.index_add(1, t(np.array([1, 1, 0, 1])), b, alpha=-2),
    "index_put": lambda m, t, a, b: m.index_put(a, (t(np.array([2, 0])),), b[:2]),
    "index_put, a mask": lambda m, t, a, b: a.index_put((t(MASK),), b[0, 0]),
    "index_put, added": lambda m, t, a, b: a.index_put(
        (t(INDEX[1]), t(INDEX[0])), b[0, :3], accumulate=True
    ),
}


def _leaf(array: Any, dtype: str = "float64") -> Tensor:
    return Tensor(array, dtype=dtype, requires_grad=True)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", CALLS)
def test_values_and_gradients_equal_torch(name: str, dtype: str) -> None:
    call, other = CALLS[name], A[::-1] * 2
    ours = [_leaf(A, dtype), _leaf(other, dtype)]
    theirs = [torch.tensor(x.copy(), dtype=getattr(torch, dtype)) for x in (A, other)]
    for x in theirs:
        x.requires_grad_()
    out = call(st, Tensor, *ours)
    expected = call(torch, lambda x: torch.from_numpy(x.copy()), *theirs)
    assert_close(out.data, expected.detach().numpy(), note=name)
    w = weights_for(out)
    found = grad(out, ours, Tensor(w), allow_unused=True)
    wanted = torch.autograd.grad(expected, theirs, torch.from_numpy(w), allow_unused=True)
    for g, h in zip(found, wanted, strict=True):
        assert (g is None) == (h is None)
        if g is not None:
            assert_close(g.data, h.numpy(), note=name)


@pytest.mark.parametrize("name", CALLS)
def test_gradients_of_two_orders_agree_with_differences(name: str) -> None:
    def of_squares(a: Tensor, b: Tensor) -> Any:
        return CALLS[name](st, Tensor, a * a, b * b)

    ordered = np.arange(12.0).reshape(3, 4)[:, ::-1] / 4 + 1  # no two squares are close
    operands = [_leaf(ordered), _leaf(ordered[::-1] + 0.1)]
    assert gradcheck(of_squares, operands)
    assert gradgradcheck(of_squares, operands)


@pytest.mark.parametrize("name", [n for n in st.selection.__all__ if n != "Ranking"])
def test_a_function_is_the_method_of_its_name(name: str) -> None:
    assert getattr(st, name) is getattr(Tensor, name)


# Order


VALUES = np.array([2.0, np.nan, -np.inf, 2.0, 0.0, np.inf, -0.0, np.nan, 2.0])


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int64", "uint8", "bool"])
@pytest.mark.parametrize("descending", [False, True])
def test_sort_is_stable_and_has_nan_as_the_largest(dtype: str, descending: bool) -> None:
    values = (
        VALUES if dtype.startswith("float") else np.nan_to_num(VALUES, posinf=3, neginf=1)
    ).astype(dtype)
    found = Tensor(values).sort(descending=descending)
    wanted = torch.from_numpy(values).sort(descending=descending, stable=True)
    np.testing.assert_array_equal(found.values.data, wanted.values.numpy())
    np.testing.assert_array_equal(found.indices.data, wanted.indices.numpy())
    assert found.values.dtype == dtype and found.indices.dtype == np.int64
    assert found._fields == ("values", "indices")
    np.testing.assert_array_equal(found.indices.data, st.argsort(values, -1, descending).data)


@pytest.mark.parametrize("dtype", ["float32", "int64", "bool"])
@pytest.mark.parametrize("largest", [True, False])
@pytest.mark.parametrize("k", [0, 1, 3, 8, 9])
def test_topk_takes_the_first_of_equal_elements(dtype: str, largest: bool, k: int) -> None:
    values = (
        np.where(np.isfinite(VALUES), VALUES, 2).astype(dtype) if dtype != "float32" else VALUES
    )
    values = values.astype(dtype)
    order = torch.from_numpy(values).sort(descending=largest, stable=True).indices.numpy()
    for ordered in (True, False):
        found = Tensor(values).topk(k, largest=largest, sorted=ordered)
        wanted = order[:k] if ordered else np.sort(order[:k])
        np.testing.assert_array_equal(found.indices.data, wanted)
        np.testing.assert_array_equal(found.values.data, values[wanted])


def test_every_row_has_an_order_of_its_own() -> None:
    values = RNG.integers(0, 5, (20, 30, 3)).astype(float)
    for dim in (0, 1, -1):
        found, wanted = Tensor(values).topk(3, dim), torch.from_numpy(values).topk(3, dim)
        np.testing.assert_array_equal(found.values.data, wanted.values.numpy())
        taken = np.take_along_axis(values, found.indices.data, dim)
        np.testing.assert_array_equal(taken, found.values.data)


def test_the_gradient_of_a_sorted_tensor_goes_back_to_where_its_elements_were() -> None:
    x = _leaf(A)
    values, indices = x.sort(1)
    (g,) = grad(values, x, Tensor(np.tile(np.arange(4.0), (3, 1))))
    assert g is not None and indices.node is None
    np.testing.assert_array_equal(g.data, A.argsort(1).argsort(1))


def test_nonzero_has_a_row_for_each_element_or_one_for_each_dimension() -> None:
    values = np.array([[0.0, 1.0, np.nan], [2.0, 0.0, -0.0]])
    ours, theirs = Tensor(values), torch.from_numpy(values)
    np.testing.assert_array_equal(ours.nonzero().data, theirs.nonzero().numpy())
    for found, wanted in zip(
        ours.nonzero(as_tuple=True), theirs.nonzero(as_tuple=True), strict=True
    ):
        np.testing.assert_array_equal(found.data, wanted.numpy())
    chosen = ours[ours.nonzero(as_tuple=True)]
    np.testing.assert_array_equal(chosen.data, [1, np.nan, 2])
    assert _leaf(A).nonzero().requires_grad is False


# Of several values for a place the last remains


def test_of_several_values_for_a_place_the_last_remains_and_has_the_gradient() -> None:
    index, src = np.array([[0, 2, 0, 0]]), _leaf([[1.0, 2.0, 3.0, 4.0]])
    a, w = _leaf(np.zeros((1, 3))), Tensor([[5.0, 6.0, 7.0]], dtype="float64")
    for out in (a.scatter(1, index, src), a.index_put((np.zeros(4, int), index[0]), src[0])):
        np.testing.assert_array_equal(out.data, [[4, 0, 2]])
        ga, gs = grad(out, [a, src], w)
        assert ga is not None and gs is not None
        np.testing.assert_array_equal(ga.data, [[0, 6, 0]])
        np.testing.assert_array_equal(gs.data, [[0, 7, 0, 5]])


def test_of_a_source_that_is_longer_than_its_index_the_corner_is_used() -> None:
    """PyTorch has the values, but not the gradient."""
    a, src, index = _leaf(A), _leaf(A * 2), np.array([[3, 0]])
    for out, wanted in (
        (a.scatter(1, index, src), a.scatter(1, index, src[:1, :2])),
        (a.scatter_add(1, index, src), a.scatter_add(1, index, src[:1, :2])),
    ):
        np.testing.assert_array_equal(out.data, wanted.data)
        w = Tensor(weights_for(out))
        for g, h in zip(grad(out, [a, src], w), grad(wanted, [a, src], w), strict=True):
            assert g is not None and h is not None
            np.testing.assert_array_equal(g.data, h.data)


def test_nothing_here_changes_its_operands() -> None:
    a, b = Tensor(A), Tensor(A[::-1] * 2)
    for call in CALLS.values():
        call(st, Tensor, a, b)
    np.testing.assert_array_equal(a.data, A)
    np.testing.assert_array_equal(b.data, A[::-1] * 2)


def test_a_value_never_promotes() -> None:
    half, whole = Tensor([1.0, 2.0], dtype="float16"), Tensor([1, 2])
    assert half.masked_fill(np.array([True, False]), 1e-3).dtype == np.float16
    assert half.index_put((np.array([0]),), Tensor([2.0], dtype="float64")).dtype == np.float16
    assert half.scatter(0, np.array([0]), 2.5).dtype == np.float16
    assert whole.masked_fill(np.array([True, False]), 7).dtype == np.int64


def test_a_mask_of_minus_infinity_lets_no_gradient_through() -> None:
    x = _leaf(A)
    weights = x.masked_fill(MASK | (MASK.sum(1, keepdims=True) == 4), -np.inf)[0].softmax(0)
    (g,) = grad((weights * Tensor(ROW)).sum(), x)
    assert g is not None and np.isfinite(g.data).all() and not g.data[0][MASK[0]].any()


BAD: dict[str, tuple[Callable[[Tensor], object], type[Exception], str]] = {
    "gather above": (lambda a: a.gather(1, np.array([[4]])), IndexError, "gather: index 4"),
    "gather below": (lambda a: a.gather(1, np.array([[-1]])), IndexError, "gather: index -1"),
    "gather float": (lambda a: a.gather(1, np.array([[0.0]])), IndexError, "gather: .*integers"),
    "gather dim": (lambda a: a.gather(2, np.array([[0]])), IndexError, "gather: dim 2"),
    "gather shape": (lambda a: a.gather(1, np.array([0])), ShapeError, r"gather: .*\(1,\)"),
    "scatter src": (
        lambda a: a.scatter(1, np.array([[0, 1]]), np.ones((1, 1))),
        ShapeError,
        r"scatter: src of shape \(1, 1\)",
    ),
    "scatter_add src": (
        lambda a: a.scatter_add(1, np.array([[0, 1]]), np.ones((1, 1))),
        ShapeError,
        r"scatter_add: src of shape \(1, 1\)",
    ),
    "index_select": (lambda a: a.index_select(0, np.array([3])), IndexError, "index_select: .*3"),
    "index_add shape": (
        lambda a: a.index_add(0, np.array([0]), np.ones((1, 3))),
        ShapeError,
        r"index_add: source of shape \(1, 3\)",
    ),
    "index_put": (lambda a: a.index_put((np.array([3]),), 1.0), IndexError, "index_put: .*bounds"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_call_is_refused_and_changes_nothing(name: str) -> None:
    call, error, message = BAD[name]
    a = _leaf(A)
    with pytest.raises(error, match=message):
        call(a)
    with no_grad(), pytest.raises(error, match=message):
        call(a)
    np.testing.assert_array_equal(a.data, A)
    assert a.version == 0 and a.grad is None
