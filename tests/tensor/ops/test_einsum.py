"""Einstein's notation at random, and the order in which several operands are multiplied."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import tensor
from tensor import Tensor, grad
from tensor.subscripts import parse
from tests.tensor.ops.harness import weights_for
from tests.tensor.tolerances import assert_close


@st.composite
def equations(draw: st.DrawFn) -> tuple[str, list[tuple[int, ...]]]:
    """An equation, and shapes that fit it."""
    lengths = {c: draw(st.integers(0, 3)) for c in "abcd"}
    terms = draw(st.lists(st.text("abcd", max_size=3), min_size=1, max_size=3))
    shapes = [tuple(lengths[c] for c in term) for term in terms]
    used = sorted({*"".join(terms)})
    out = draw(st.permutations(used))[: draw(st.integers(0, len(used)))]
    return f"{','.join(terms)}->{''.join(out)}", shapes


@given(equations(), st.integers(0, 2**32 - 1))
def test_any_equation_means_what_it_does_in_numpy_and_torch(
    call: tuple[str, list[tuple[int, ...]]], seed: int
) -> None:
    equation, shapes = call
    rng = np.random.default_rng(seed)
    arrays = [np.asarray(rng.normal(size=shape)) for shape in shapes]
    ours = [Tensor(a, requires_grad=True) for a in arrays]
    out = tensor.einsum(equation, *ours)
    assert_close(out.data, np.einsum(equation, *arrays))
    theirs = [torch.from_numpy(a).requires_grad_() for a in arrays]
    weights = weights_for(out)
    wanted = torch.autograd.grad(torch.einsum(equation, *theirs), theirs, torch.from_numpy(weights))
    for g, w in zip(grad(out, ours, Tensor(weights)), wanted, strict=True):
        assert g is not None
        assert_close(g.data, w.numpy(), note=equation)


@pytest.mark.parametrize("length", [0, 1, 3])
@pytest.mark.parametrize("equation", ["ij,ij->j", "ij,ij->i", "...j,...j->...j", "ij,ij->"])
def test_an_operand_of_length_1_stands_for_any_length(equation: str, length: int) -> None:
    rng = np.random.default_rng(length)
    arrays = [rng.normal(size=shape) for shape in ((1, 2), (length, 2))]
    ours = [Tensor(a, requires_grad=True) for a in arrays]
    theirs = [torch.from_numpy(a).requires_grad_() for a in arrays]
    out = tensor.einsum(equation, *ours)
    weights = weights_for(out)
    wanted = torch.autograd.grad(torch.einsum(equation, *theirs), theirs, torch.from_numpy(weights))
    for g, w in zip(grad(out, ours, Tensor(weights)), wanted, strict=True):
        assert g is not None
        assert_close(g.data, w.numpy())


@pytest.mark.parametrize("equation", ["aba->ab", "bab->ab", "bab->", "bba->a", "cbaab->bc"])
def test_an_operand_may_be_read_along_its_diagonals(equation: str) -> None:
    lengths = {"a": 2, "b": 3, "c": 4}
    array = np.random.default_rng(5).normal(size=[lengths[c] for c in equation.split("->")[0]])
    ours, theirs = Tensor(array, requires_grad=True), torch.from_numpy(array).requires_grad_()
    out = tensor.einsum(equation, ours)
    weights = weights_for(out)
    wanted = torch.autograd.grad(torch.einsum(equation, theirs), theirs, torch.from_numpy(weights))
    (g,) = grad(out, [ours], Tensor(weights))
    assert g is not None
    assert_close(g.data, wanted[0].numpy())


@pytest.mark.parametrize(
    ("equation", "shapes", "path"),
    [
        ("ij,jk,k->i", ((9, 9), (9, 9), (9,)), ((1, 2), (0, 1))),
        ("i,ij,jk->k", ((9,), (9, 9), (9, 9)), ((0, 1), (0, 1))),
        ("ij,jk,kl->il", ((2, 9), (9, 9), (9, 9)), ((0, 1), (0, 1))),
        ("ij,jk,kl->il", ((9, 9), (9, 9), (9, 2)), ((1, 2), (0, 1))),
    ],
)
def test_what_makes_the_operands_smaller_is_multiplied_first(
    equation: str, shapes: tuple[tuple[int, ...], ...], path: tuple[tuple[int, int], ...]
) -> None:
    assert parse(equation, shapes).path == path


def test_only_the_factors_of_a_gradient_are_kept() -> None:
    x, w = (Tensor(np.ones((2, 2)), requires_grad=True) for _ in "xw")
    y = tensor.einsum("ij,jk", x, w.detach())
    assert y.node is not None and y.node.saved is not None
    assert list(y.node.saved) == ["tensors[1]"]
    summed = tensor.einsum("ij->j", x)
    assert summed.node is not None and summed.node.saved == {}


def test_a_product_larger_than_the_result_is_never_made() -> None:
    # As one sum over all five letters, or as a product of all pairs, this would not end.
    n = 120
    a = Tensor(np.full((n, n), 1 / n), requires_grad=True)
    out = tensor.einsum("ab,bc,cd,de->ae", a, a, a, a)
    np.testing.assert_allclose(out.data, np.full((n, n), 1 / n))
    out.sum().backward()
    assert a.grad is not None
    np.testing.assert_allclose(a.grad.data, np.full((n, n), 4.0))
