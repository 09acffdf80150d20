"""Shapes and indexing: broadcasting, products, negative dimensions, repeated indices, nothing."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest
import torch

import tensor as st
from micro.vocab import VOCAB
from tensor import ShapeError, Tensor, grad
from tensor.nn import MSELoss, functional
from tests.tensor.ops.cases import CASES
from tests.tensor.ops.harness import (
    call,
    leaves,
    requiring,
    torch_call,
    torch_leaves,
    weights_for,
)
from tests.tensor.ops.table import Sample
from tests.tensor.ops.test_vocabulary import WITHOUT_0D
from tests.tensor.tolerances import assert_close

inf = math.inf


def leaf(*values: Any, dtype: str = "float64") -> Tensor:
    return Tensor(np.array(values, dtype), requires_grad=True)


def test_the_gradient_of_one_number_that_was_broadcast_has_one_element() -> None:
    x, y = leaf(3.0), Tensor(np.arange(20.0).reshape(5, 4))
    (g,) = grad((x * y).sum(), x)
    assert g is not None and g.shape == (1,) and g.item() == 190


def test_a_sum_over_nothing_gives_the_broadcast_operand_zeros() -> None:
    x, y = Tensor(np.ones((4, 0)), requires_grad=True), Tensor(np.ones((4, 1)), requires_grad=True)
    total = (x + y).sum()
    assert total.item() == 0
    gx, gy = grad(total, [x, y])
    assert gx is not None and gx.shape == (4, 0)
    assert gy is not None
    np.testing.assert_array_equal(gy.data, np.zeros((4, 1)))


def test_an_inner_product_with_one_number_broadcasts_it() -> None:
    x, y = leaf(2.0, 2.0), leaf(2.0)
    st.einsum("i,i->", x, y).backward()
    assert x.grad is not None and x.grad.tolist() == [2, 2]
    assert y.grad is not None and y.grad.tolist() == [4]


def test_a_sum_by_einsum_over_what_stays_between_has_a_gradient() -> None:
    x = Tensor(np.arange(36.0).reshape(2, 3, 2, 3), requires_grad=True)
    out = st.einsum("abcd->bd", x)
    np.testing.assert_array_equal(out.data, x.data.sum((0, 2)))
    w = np.arange(1.0, 10.0).reshape(3, 3)
    (out * w).sum().backward()
    np.testing.assert_array_equal(x.grad, np.broadcast_to(w[:, None, :], (2, 3, 2, 3)))


@pytest.mark.parametrize(
    "shapes",
    [((4, 4), (4,)), ((3,), (3,)), ((3,), (3, 5)), ((2, 1, 4, 3), (3, 5))],
    ids=["A @ b of a square A", "(k) @ (k)", "(k) @ (k, n)", "(2, 1, m, k) @ (k, n)"],
)
def test_a_product_and_its_gradients_are_torchs(shapes: tuple[tuple[int, ...], ...]) -> None:
    rng = np.random.default_rng(0)
    arrays = [rng.normal(size=shape) for shape in shapes]
    ours = [Tensor(a, requires_grad=True) for a in arrays]
    theirs = [torch.from_numpy(a).requires_grad_() for a in arrays]
    out, wanted = ours[0] @ ours[1], theirs[0] @ theirs[1]
    assert_close(out.data, wanted.detach().numpy())
    w = weights_for(out)
    expected = torch.autograd.grad(wanted, theirs, torch.from_numpy(w))
    for g, e in zip(grad(out, ours, Tensor(w)), expected, strict=True):
        assert g is not None
        assert_close(g.data, e.numpy())


def test_matrix_times_vector_gives_each_row_the_vector() -> None:
    a, x = Tensor(np.arange(6.0).reshape(3, 2), requires_grad=True), leaf(5.0, -7.0)
    (a @ x).sum().backward()
    assert a.grad is not None and a.grad.tolist() == [[5, -7]] * 3


NEGATIVE: Final[dict[str, Callable[[Tensor, int], Tensor]]] = {
    "sum": lambda x, d: x.sum(d),
    "mean": lambda x, d: x.mean(d),
    "var": lambda x, d: x.var(d),
    "max": lambda x, d: x.max(d).values,
    "min": lambda x, d: x.min(d).values,
    "argmax": lambda x, d: x.argmax(d),
    "logsumexp": lambda x, d: x.logsumexp(d),
    "softmax": lambda x, d: x.softmax(d),
    "log_softmax": lambda x, d: x.log_softmax(d),
    "cat": lambda x, d: st.cat([x, 2 * x], d),
    "transpose": lambda x, d: x.transpose(d, 0),
    "permute": lambda x, d: x.permute(d, *(k for k in range(3) if k != d % 3)),
    "flatten": lambda x, d: x.flatten(0, d),
    "squeeze": lambda x, d: x[:1, :1, :1].squeeze(d),
    # these make a dimension: one more than there were
    "stack": lambda x, d: st.stack([x, 2 * x], d),
    "unsqueeze": lambda x, d: x.unsqueeze(d),
}


@pytest.mark.parametrize("name", NEGATIVE)
def test_a_negative_dimension_equals_its_positive_twin(name: str) -> None:
    values = np.random.default_rng(7).normal(size=(2, 3, 4))
    dims = 4 if name in ("stack", "unsqueeze") else 3
    for dim in range(dims):
        results = []
        for d in (dim, dim - dims):
            x = Tensor(values, requires_grad=True)
            y = NEGATIVE[name](x, d)
            results.append([y.data])
            if y.requires_grad:
                (g,) = grad(y, x, Tensor(weights_for(y)))
                assert g is not None
                results[-1].append(g.data)
        for positive, negative in zip(*results, strict=True):
            np.testing.assert_array_equal(positive, negative)


def test_an_element_read_twice_counts_twice() -> None:
    y = leaf(1.0)
    z = y[[0, 0]]
    z[0].backward()
    assert y.grad is not None and y.grad.tolist() == [1]
    y.grad = None
    y[[0, 0]].sum().backward()
    assert y.grad.tolist() == [2]


def test_a_negative_index_and_its_positive_twin_are_one_element() -> None:
    x = leaf(1.0, 2.0, 3.0)
    (g,) = grad(x[[-1, 2]], x, Tensor(np.array([10.0, 1.0])))
    assert g is not None and g.tolist() == [0, 0, 11]


@pytest.mark.parametrize("kind", ["transposed", "reversed", "Fortran", "read-only", "mapped"])
def test_an_array_of_any_layout_makes_the_same_tensor(kind: str, tmp_path: Path) -> None:
    base = np.arange(6.0).reshape(2, 3)
    mapped = np.memmap(tmp_path / "array", dtype=np.float64, mode="w+", shape=(2, 3))
    mapped[...] = base
    frozen = base.copy()
    frozen.setflags(write=False)
    array: Any = {
        "transposed": base.T,
        "reversed": base[::-1],
        "Fortran": np.asfortranarray(base),
        "read-only": frozen,
        "mapped": mapped,
    }[kind]
    x = Tensor(array, requires_grad=True)
    assert type(x.data) is np.ndarray and x.data.flags.c_contiguous and x.data.flags.writeable
    assert x.data.tobytes() == array.tobytes()
    (g,) = grad((x * x).sum(), x)
    assert g is not None
    np.testing.assert_array_equal(g.data, 2 * array)
    (sum_of_array,) = grad((x * array).sum(), x)
    assert sum_of_array is not None
    np.testing.assert_array_equal(sum_of_array.data, array)


def test_mse_of_a_column_against_a_row_is_refused() -> None:
    column, row = Tensor(np.ones((4, 1)), requires_grad=True), np.zeros(4)
    for loss in (MSELoss(), functional.mse_loss):
        with pytest.raises(ValueError, match=r"mse_loss: .*\(4, 1\).*\(4,\).*reshape"):
            loss(column, row)
    assert MSELoss()(column, row.reshape(4, 1)).item() == 1


# 0-d and size 0


def without(count: str, name: str) -> list[Sample]:
    """The samples of an op in which an operand has no dimensions, or no elements."""
    measure = {"dimensions": np.ndim, "elements": np.size}[count]
    return [
        sample
        for sample in CASES[name].samples
        if any(a is not None and measure(a) == 0 for a in sample.operands)
    ]


def assert_shapes_are_torchs(name: str, sample: Sample) -> None:
    ours, theirs = leaves(name, sample), torch_leaves(name, sample)
    out, expected = call(name, ours, sample.attrs), torch_call(name, theirs, sample.attrs)
    assert out.shape == tuple(expected.shape)
    assert out.requires_grad == expected.requires_grad
    if out.requires_grad:
        found = grad(out, requiring(ours), Tensor(weights_for(out)))
        assert [g.shape for g in found if g is not None] == [x.shape for x in requiring(ours)]


@pytest.mark.parametrize("name", VOCAB)
def test_an_op_of_no_elements_has_torchs_shapes(name: str) -> None:
    samples = without("elements", name)
    assert samples
    for sample in samples:
        assert_shapes_are_torchs(name, sample)


@pytest.mark.parametrize("name", [name for name in VOCAB if name not in WITHOUT_0D])
def test_an_op_of_no_dimensions_has_torchs_shapes(name: str) -> None:
    samples = without("dimensions", name)
    assert samples
    for sample in samples:
        assert_shapes_are_torchs(name, sample)


@pytest.mark.parametrize("name", sorted(WITHOUT_0D - {"std"}))
def test_an_op_that_needs_dimensions_says_so(name: str) -> None:
    sample = CASES[name].samples[0]
    numbers = [None if a is None else Tensor(1.0, requires_grad=True) for a in sample.operands]
    with pytest.raises((RuntimeError, IndexError), match=rf"^{name}: "):
        call(name, numbers, sample.attrs)


def test_the_deviation_of_one_number_is_nan_as_in_torch() -> None:
    with pytest.warns(UserWarning, match="degrees of freedom"):
        assert math.isnan(torch.tensor(2.0).std().item())
    x = Tensor(2.0, requires_grad=True)
    out = x.std()
    assert out.shape == () and math.isnan(out.item())
    out.backward()
    assert x.grad is not None and x.grad.shape == ()


def test_reductions_of_nothing() -> None:
    x = Tensor(np.zeros((0, 3)))
    assert x.sum().item() == 0
    assert x.prod().item() == 1
    assert math.isnan(x.mean().item()) and math.isnan(x.var().item())
    assert x.logsumexp((0, 1)).item() == -inf
    for choose in (st.max, st.min, st.argmax, st.argmin):
        with pytest.raises(ShapeError, match="no elements"):
            choose(x)


# What does not fit: the error, and what its message must say

UNFIT: Final[dict[str, tuple[Any, list[str], Callable[[Tensor], Any]]]] = {
    "a sum that does not broadcast": (
        RuntimeError, ["add: ", "(2, 3)", "(2,)"], lambda x: x + Tensor([1.0, 2.0])),
    "a product of unlike lengths": (
        RuntimeError, ["matmul: ", "inner lengths", "3 and 2"], lambda x: x @ x),
    "a shape of other size": (
        RuntimeError, ["reshape: ", "6 elements", "(5,)"], lambda x: x.reshape(5)),
    "a dimension too many": (
        IndexError, ["sum: dim 2", "out of range", "[-2, 1]"], lambda x: x.sum(2)),
    "a dimension twice": (
        RuntimeError, ["sum: dim (0, 0)", "twice"], lambda x: x.sum((0, 0))),
    "a dimension twice, once negative": (
        RuntimeError, ["mean: dim (1, -1)", "twice"], lambda x: x.mean((1, -1))),
    "an index too large": (
        IndexError, ["getitem: index 2", "size 2"], lambda x: x[2]),
    "an index too low": (
        IndexError, ["getitem: index -4", "size 3"], lambda x: x[:, -4]),
    "an index that is no integer": (
        (IndexError, TypeError), ["getitem: ", "only integers"], lambda x: x[1.0]),
    "a tensor of such indices": (
        (IndexError, TypeError), ["getitem: ", "integer"], lambda x: x[Tensor([0.0])]),
}  # fmt: skip


@pytest.mark.parametrize("what", UNFIT)
def test_shapes_dimensions_and_indices_that_do_not_fit(what: str) -> None:
    error, words, call = UNFIT[what]
    x = Tensor(np.ones((2, 3)), requires_grad=True)
    with pytest.raises(error) as caught:
        call(x)
    assert [word for word in words if word not in str(caught.value)] == []
    if error is RuntimeError:
        assert isinstance(caught.value, ValueError)  # numpy's users catch that
    assert x.grad is None and x.version == 0
    (x * 2).sum().backward()
    assert x.grad is not None
