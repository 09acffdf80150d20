"""Shapes and indices at random: the forward as numpy, the gradient as a naive sum."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import tensor
from tensor import Tensor, grad
from tensor.kernels import scatter
from tensor.tensor import from_numpy
from tests.tensor.ops.harness import weights_for

Array = np.ndarray[Any, Any]


# Indices


@st.composite
def mixed(draw: st.DrawFn, shape: tuple[int, ...]) -> Any:
    """Slices, integers, integer arrays of shapes that broadcast, and masks, side by side."""
    common = draw(st.sampled_from([(), (1,), (2,), (3,), (2, 1), (2, 3)]))
    parts: list[Any] = []
    for length in shape[: draw(st.integers(0, len(shape)))]:
        whole = st.integers(-length, length - 1)
        choices = [st.slices(length), hnp.arrays(bool, length)]
        if length:
            arrays = [
                hnp.arrays(np.int64, shape, elements=whole)
                for shape in (common, (1,) * len(common))
            ]
            choices += [whole, *arrays, *arrays]
        parts.append(draw(st.one_of(choices)))
    for extra in draw(st.sampled_from([[], [None], [...], [None, ...], [None, None]])):
        parts.insert(draw(st.integers(0, len(parts))), extra)
    return tuple(parts)


def indices(shape: tuple[int, ...]) -> st.SearchStrategy[Any]:
    """Any index of an array of a shape, valid but for masks that do not fit each other."""
    masks = [hnp.arrays(bool, shape[:k]) for k in range(len(shape) + 1)]
    return st.one_of(hnp.basic_indices(shape, allow_newaxis=True), mixed(shape), *masks)


def as_tensors(index: Any) -> Any:
    """The same index with Tensors in place of arrays."""
    if isinstance(index, tuple):
        return tuple(as_tensors(part) for part in index)
    return Tensor(index) if isinstance(index, np.ndarray) else index


@given(st.data())
def test_an_index_reads_as_numpy_and_adds_up_every_time_an_element_was_read(
    data: st.DataObject,
) -> None:
    shape = data.draw(hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=4))
    index = data.draw(indices(shape))
    values = np.arange(1.0, 1.0 + np.prod(shape)).reshape(shape)
    try:
        expected = values[index]
    except IndexError:  # a mask of other length than the arrays beside it
        with pytest.raises(IndexError):
            Tensor(values)[index]
        return
    for form in (index, as_tensors(index)):
        x = Tensor(values, requires_grad=True)
        y = x[form]
        np.testing.assert_array_equal(y.data, expected)
        assert y.shape == np.shape(expected)
        w = weights_for(y)
        (g,) = grad(y, x, Tensor(w))
        wanted = np.zeros(shape)
        np.add.at(wanted, index, w)
        assert g is not None
        np.testing.assert_allclose(g.data, wanted, rtol=1e-14, atol=1e-14)


@given(st.data())
def test_the_adjoint_of_an_index_can_be_differentiated(data: st.DataObject) -> None:
    shape = data.draw(hnp.array_shapes(min_dims=1, max_dims=3, min_side=1, max_side=4))
    index = data.draw(indices(shape))
    values = np.linspace(-1, 1, int(np.prod(shape))).reshape(shape)
    try:
        size = np.shape(values[index])
    except IndexError:
        return
    x, seed = Tensor(values, requires_grad=True), Tensor(np.ones(size), requires_grad=True)
    (g,) = grad(x[index], x, seed, create_graph=True)
    assert g is not None
    w = weights_for(g)
    (back,) = grad(g, seed, Tensor(w))
    assert back is not None
    np.testing.assert_array_equal(back.data, w[index])


@pytest.mark.parametrize("limit", [0, 2**20], ids=["sorted", "one-hot"])
@given(data=st.data())
def test_rows_are_added_up_however_many_there_are(data: st.DataObject, limit: int) -> None:
    rows, width = data.draw(st.integers(1, 6)), data.draw(st.integers(0, 3))
    chosen = data.draw(hnp.arrays(np.int64, st.integers(0, 12), elements=st.integers(0, rows - 1)))
    values = np.random.default_rng(1).normal(size=(len(chosen), width))
    before = scatter.ONE_HOT_LIMIT
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(scatter, "ONE_HOT_LIMIT", limit)
        found = scatter.add_rows(values, chosen, rows)
    assert before == scatter.ONE_HOT_LIMIT
    wanted = np.zeros((rows, width))
    np.add.at(wanted, chosen, values)
    np.testing.assert_allclose(found, wanted, rtol=1e-13, atol=1e-14)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_a_row_that_is_not_finite_stays_in_its_place(dtype: str) -> None:
    values = np.array([[1, np.inf], [np.nan, 2], [3, 4]], dtype)
    found = scatter.add_rows(values, np.array([2, 0, 2]), 4)
    np.testing.assert_array_equal(found, np.array([[np.nan, 2], [0, 0], [4, np.inf], [0, 0]]))
    assert found.dtype == dtype


def test_a_table_too_large_for_one_hot_equals_torch() -> None:
    rng = np.random.default_rng(2)
    weight, chosen = rng.normal(size=(3000, 2)), rng.integers(0, 3000, (600,))
    assert len(chosen) * len(weight) > scatter.ONE_HOT_LIMIT
    ours = Tensor(weight, requires_grad=True)
    theirs = torch.from_numpy(weight.copy()).requires_grad_()
    w = rng.normal(size=(600, 2))
    (found,) = grad(tensor.embedding(ours, chosen), ours, Tensor(w))
    (wanted,) = torch.autograd.grad(theirs[chosen], theirs, torch.from_numpy(w))
    assert found is not None
    np.testing.assert_allclose(found.data, wanted.numpy(), rtol=1e-13, atol=1e-14)


# Broadcasting


@given(hnp.mutually_broadcastable_shapes(num_shapes=3, max_dims=3, max_side=3, min_side=0))
def test_operands_broadcast_as_numpy_and_their_gradients_are_summed(shapes: Any) -> None:
    rng = np.random.default_rng(3)
    a, b, c = (rng.uniform(0.5, 2, s) for s in shapes.input_shapes)
    mask = rng.random(shapes.result_shape) < 0.5
    ours = [Tensor(x, requires_grad=True) for x in (a, b, c)]
    theirs = [torch.from_numpy(np.array(x)).requires_grad_() for x in (a, b, c)]
    out = tensor.where(mask, ours[0] * ours[1], ours[1] / ours[2]) + ours[0]
    expected = (
        torch.where(torch.from_numpy(np.array(mask)), theirs[0] * theirs[1], theirs[1] / theirs[2])
        + theirs[0]
    )
    assert out.shape == shapes.result_shape
    w = weights_for(out)
    found = grad(out, ours, Tensor(w))
    wanted = torch.autograd.grad(expected, theirs, torch.from_numpy(w))
    np.testing.assert_allclose(out.data, expected.detach().numpy(), rtol=1e-14)
    for g, t, x in zip(found, wanted, ours, strict=True):
        assert g is not None and g.shape == x.shape
        np.testing.assert_allclose(g.data, t.numpy(), rtol=1e-13, atol=1e-13)


@given(hnp.mutually_broadcastable_shapes(signature="(m?,k),(k,n?)->(m?,n?)", max_side=3))
def test_matrices_multiply_as_numpy_and_their_gradients_as_torch(shapes: Any) -> None:
    rng = np.random.default_rng(4)
    a, b = (rng.normal(size=s) for s in shapes.input_shapes)
    ours = [Tensor(x, requires_grad=True) for x in (a, b)]
    theirs = [torch.from_numpy(x.copy()).requires_grad_() for x in (a, b)]
    out, expected = ours[0] @ ours[1], theirs[0] @ theirs[1]
    np.testing.assert_allclose(out.data, a @ b, rtol=1e-13, atol=1e-13)
    assert out.shape == np.shape(a @ b)
    w = weights_for(out)
    found = grad(out, ours, Tensor(w))
    wanted = torch.autograd.grad(expected, theirs, torch.from_numpy(w))
    for g, t in zip(found, wanted, strict=True):
        assert g is not None
        np.testing.assert_allclose(g.data, t.numpy(), rtol=1e-12, atol=1e-13)


# Reductions over every set of dimensions


@given(st.data())
def test_a_reduction_over_any_dimensions_equals_torch(data: st.DataObject) -> None:
    shape = data.draw(hnp.array_shapes(min_dims=1, max_dims=3, min_side=1, max_side=3))
    dims = data.draw(st.sets(st.integers(0, len(shape) - 1)).map(sorted))
    signed = tuple(d - len(shape) if data.draw(st.booleans()) else d for d in dims)
    name = data.draw(st.sampled_from(["sum", "mean", "logsumexp"]))
    keepdim = data.draw(st.booleans())
    values = np.random.default_rng(6).normal(size=shape)
    ours, theirs = Tensor(values, requires_grad=True), torch.from_numpy(values).requires_grad_()
    if name == "logsumexp" and not signed:
        signed = (0,)
    out = getattr(tensor, name)(ours, signed, keepdim)
    expected = getattr(torch, name)(theirs, signed, keepdim)
    np.testing.assert_allclose(out.data, expected.detach().numpy(), rtol=1e-13, atol=1e-13)
    assert out.shape == tuple(expected.shape)
    w = weights_for(out)
    (found,) = grad(out, ours, Tensor(w))
    (wanted,) = torch.autograd.grad(expected, theirs, torch.from_numpy(w))
    assert found is not None
    np.testing.assert_allclose(found.data, wanted.numpy(), rtol=1e-13, atol=1e-13)


# Views and single elements


def test_views_are_views_and_a_single_element_is_one_too() -> None:
    array = np.arange(6.0).reshape(2, 3)
    x = from_numpy(array)
    for view in (x[0], x[:, 1], x[None], x[...], x[1, 2], x[::-1, 0], x.T, x.reshape(3, 2)):
        assert np.shares_memory(view.data, array)
    for copy in (x[[0]], x[np.array([True, False])], x[x > 2], x.clone()):
        assert not np.shares_memory(copy.data, array)
    x[1, 2].fill_(7.0)
    assert array[1, 2] == 7
    assert x[1].version == x.version == 1


def test_an_integer_beside_an_array_counts_as_an_array_as_in_numpy() -> None:
    values = np.arange(24.0).reshape(2, 3, 4)
    index = (1, slice(None), np.array([0, 3, 0, 1, 2]))
    x = Tensor(values, requires_grad=True)
    y = x[index]
    assert y.shape == (5, 3)  # numpy puts what was chosen first; PyTorch gives (3, 5)
    np.testing.assert_array_equal(y.data, values[index])
    w = np.arange(15.0).reshape(5, 3)
    (g,) = grad(y, x, Tensor(w))
    wanted = np.zeros((2, 3, 4))
    np.add.at(wanted, index, w)
    assert g is not None
    np.testing.assert_array_equal(g.data, wanted)
