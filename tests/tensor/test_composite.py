"""Other forms and names of ops, by one table: values, both orders of gradients and refusals.

What is an op of its own is in the table of ops (``tests/tensor/ops``); of these, views and forms of
calls are looked at here.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final, NamedTuple

import numpy as np
import pytest
import torch

import tensor as st
from tensor import ShapeError, Tensor, composite, grad, gradcheck, gradgradcheck, no_grad
from tests.tensor.ops.harness import weights_for
from tests.tensor.tolerances import assert_close

Shapes = tuple[tuple[int, ...], ...]


class Row(NamedTuple):
    """The shapes of the operands of a call, and the arguments that follow them."""

    shapes: Shapes
    args: tuple[Any, ...] = ()


class Bad(NamedTuple):
    """A call that is refused: the error, and what its message must contain."""

    shapes: Shapes
    args: tuple[Any, ...]
    error: type[Exception]
    words: tuple[str, ...]


TABLE: Final[dict[str, tuple[list[Row], list[Bad]]]] = {
    "einsum": (
        [
            Row(((2,), (1,)), ("i,i->",)),
            Row(((2, 3, 2, 2),), ("abcd->bd",)),
            Row(((2, 3), (3, 2), (2, 4)), ("ij,jk,kl",)),
        ],
        [
            Bad(((2, 3),), ("ij,jk",), ShapeError, ("einsum", "2 terms", "1 operands")),
            Bad(((2, 3),), (3,), TypeError, ("einsum", "equation", "string", "3")),
        ],
    ),
    "mm": (
        [Row(((2, 3), (3, 4))), Row(((0, 3), (3, 2)))],
        [
            Bad(((2, 3), (3,)), (), ShapeError, ("mm", "2 and 2", "(3,)")),
            Bad(((2, 3), (2, 3)), (), ShapeError, ("(2, 3)", "inner")),
        ],
    ),
    "bmm": (
        [Row(((2, 3, 4), (2, 4, 2))), Row(((0, 3, 4), (0, 4, 2)))],
        [
            Bad(((1, 3, 4), (2, 4, 2)), (), ShapeError, ("bmm", "(1, 3, 4)", "(2, 4, 2)")),
            Bad(((3, 4), (2, 4, 2)), (), ShapeError, ("bmm", "3 and 3", "(3, 4)")),
        ],
    ),
    "mv": (
        [Row(((2, 3), (3,)))],
        [Bad(((3,), (3,)), (), ShapeError, ("mv", "2 and 1", "(3,)"))],
    ),
    "dot": (
        [Row(((3,), (3,))), Row(((0,), (0,)))],
        [Bad(((2, 3), (3,)), (), ShapeError, ("dot", "1 and 1", "(2, 3)"))],
    ),
    "broadcast_to": (
        [Row(((3, 1),), ((2, 3, 4),)), Row(((),), ((2,),)), Row(((0, 1),), ((0, 2),))],
        [Bad(((3,),), ((4,),), ShapeError, ("(3,)", "(4,)"))],
    ),
    "diag": (
        [
            Row(((3,),)),
            Row(((2,),), (-1,)),
            Row(((3, 4),)),
            Row(((3, 4),), (2,)),
            Row(((0,),), (1,)),
        ],
        [
            Bad(((),), (), ShapeError, ("diag", "1 or 2", "()")),
            Bad(((2, 2, 2),), (), ShapeError, ("diag", "(2, 2, 2)")),
            Bad(((2,),), (0.5,), TypeError, ("diag", "diagonal", "0.5")),
        ],
    ),
    "repeat_interleave": (
        [
            Row(((2, 3),), (2,)),
            Row(((2, 3),), (3, 1)),
            Row(((2, 3),), (0, -2)),
            Row(((),), (3,)),
            Row(((0, 2),), (2, 1)),
        ],
        [
            Bad(((3,),), (-1,), ShapeError, ("repeat_interleave", "negative", "-1")),
            Bad(((3,),), ((1, 2), 0), ShapeError, ("repeat_interleave", "3", "(1, 2)")),
            Bad(((3,),), (2, 1), IndexError, ("repeat_interleave", "dim 1")),
            Bad(((3,),), (1.5,), TypeError, ("repeat_interleave", "repeats", "1.5")),
        ],
    ),
}

# A form of a call alone: the op of the same name is in the table of ops.
FORMS: Final = {"tile"}


def test_every_function_has_a_row_and_a_refusal() -> None:
    assert set(TABLE) == set(composite.__all__) - FORMS
    assert all(rows and refused for rows, refused in TABLE.values())


def every(part: int) -> Any:
    rows = [
        pytest.param(name, row, id=f"{name}-{i}")
        for name, parts in TABLE.items()
        for i, row in enumerate(parts[part])
    ]
    return pytest.mark.parametrize(("name", "row"), rows)


def arrays(shapes: Shapes, dtype: str = "float64") -> list[Any]:
    rng = np.random.default_rng([len(shapes), *map(math.prod, shapes)])
    return [np.asarray(rng.normal(size=shape), dtype) for shape in shapes]


def outputs(function: Callable[..., Any], name: str, operands: Any, args: Any) -> list[Any]:
    result = function(*args, *operands) if name == "einsum" else function(*operands, *args)
    return list(result) if isinstance(result, tuple) else [result]


@every(0)
def test_values_and_gradients_equal_torch(name: str, row: Row) -> None:
    for dtype in ("float32", "float64"):
        ours = [Tensor(a, requires_grad=True) for a in arrays(row.shapes, dtype)]
        theirs = [torch.from_numpy(a).requires_grad_() for a in arrays(row.shapes, dtype)]
        out = outputs(getattr(st, name), name, ours, row.args)
        expected = outputs(getattr(torch, name), name, theirs, row.args)
        assert len(out) == len(expected)
        weights = [weights_for(x, seed=i) for i, x in enumerate(out)]
        for x, y in zip(out, expected, strict=True):
            assert_close(x.data, y.detach().numpy(), name)
        found = grad(out, ours, [Tensor(w) for w in weights])
        seeds = [torch.from_numpy(w) for w in weights]
        for g, w in zip(found, torch.autograd.grad(expected, theirs, seeds), strict=True):
            assert_close(g.data, w.numpy(), name)


@every(0)
def test_both_orders_of_derivatives_agree_with_finite_differences(name: str, row: Row) -> None:
    def function(*operands: Tensor) -> Any:
        out = outputs(getattr(st, name), name, operands, row.args)
        return out[0] if len(out) == 1 else st.cat([x.reshape(-1) for x in out])

    for check in (gradcheck, gradgradcheck):
        assert check(function, [Tensor(a, requires_grad=True) for a in arrays(row.shapes)])


@every(1)
def test_a_bad_call_is_refused_with_a_reason_and_changes_nothing(name: str, row: Bad) -> None:
    operands = [Tensor(a, requires_grad=True) for a in arrays(row.shapes)]
    with pytest.raises(row.error) as caught:
        outputs(getattr(st, name), name, operands, row.args)
    missing = [word for word in row.words if word not in str(caught.value)]
    assert not missing, f"{missing} not in {caught.value}"
    for x, a in zip(operands, arrays(row.shapes), strict=True):
        np.testing.assert_array_equal(x.data, a)
        assert x.version == 0 and x.grad is None


@pytest.mark.parametrize("name", sorted({*TABLE, *FORMS} - {"einsum"}))
def test_a_method_is_the_function(name: str) -> None:
    assert getattr(Tensor, name) is getattr(st, name)


def test_a_row_that_reads_the_wrong_elements_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(st, "repeat_interleave", lambda a, repeats, dim: a.tile(repeats, 1))
    with pytest.raises(AssertionError):
        test_values_and_gradients_equal_torch("repeat_interleave", Row(((3, 3),), (2, 0)))


def test_an_op_with_two_names_is_one_function() -> None:
    for name, other in (("moveaxis", "movedim"), ("take_along_dim", "take_along_axis")):
        assert getattr(st, other) is getattr(st.ops, other) is getattr(st, name)
        assert getattr(Tensor, other) is getattr(Tensor, name) is getattr(st, name)


# Views


# Of either library.
VIEWS: dict[str, Callable[[Any, Any], Any]] = {
    "split": lambda lib, x: x.split(1)[1],
    "chunk": lambda lib, x: x.chunk(2)[0],
    "unbind": lambda lib, x: x.unbind()[1],
    "swapaxes": lambda lib, x: x.swapaxes(0, 1),
    "movedim": lambda lib, x: x.movedim(0, 1),
    "diagonal": lambda lib, x: x.diagonal(),
    "unfold": lambda lib, x: x.unfold(0, 1, 1),
    "einsum": lambda lib, x: lib.einsum("ij->ji", x),
    "diagonal by einsum": lambda lib, x: lib.einsum("ii->i", x),
}
# PyTorch refuses to change what a function of several outputs gives; it is this.
SLICES = {"split": slice(1, 2), "chunk": slice(2), "unbind": 1}
COPIES: dict[str, Callable[[Tensor], Tensor]] = {
    "flip": lambda x: x.flip(0),
    "flip of nothing": lambda x: x.flip(()),
    "roll": lambda x: x.roll(0, 0),
    "repeat": lambda x: x.repeat(1, 1),
    "tile": lambda x: x.tile(1),
    "tril": lambda x: x.tril(9),
    "diag": lambda x: x.diag(),
    "pad": lambda x: st.pad(x, (0, 0)),
    "einsum that sums": lambda x: st.einsum("ij->i", x[:, :1]),
}


@pytest.mark.parametrize("view", VIEWS)
def test_a_change_of_a_view_is_one_of_what_it_shows(view: str) -> None:
    x = Tensor(np.arange(9.0).reshape(3, 3))
    part = VIEWS[view](st, x)
    assert np.shares_memory(part.data, x.data)
    part.fill_(-1)
    assert (x.data == -1).sum() == part.numel() and x.version == part.version == 1


@pytest.mark.parametrize("view", VIEWS)
def test_a_change_of_a_view_of_a_result_is_recorded_as_in_torch(view: str) -> None:
    values, weights = (array for array in arrays(((3, 3), (3, 3))))
    found = []
    for lib, tensor in ((st, Tensor(values)), (torch, torch.from_numpy(values.copy()))):
        leaf: Any = tensor.requires_grad_()
        y = leaf * 2
        part = y[SLICES[view]] if lib is torch and view in SLICES else VIEWS[view](lib, y)
        part.mul_(3)
        (y.exp() * (Tensor(weights) if lib is st else torch.from_numpy(weights))).sum().backward()
        found += [y.detach().numpy(), leaf.grad.numpy()]
    assert_close(found[0], found[2])
    assert_close(found[1], found[3])


@pytest.mark.parametrize("view", VIEWS)
def test_a_view_is_watched_with_what_it_shows(view: str) -> None:
    leaf = Tensor(np.arange(9.0).reshape(3, 3), requires_grad=True)
    with pytest.raises(RuntimeError, match="in-place"):
        VIEWS[view](st, leaf).fill_(0)
    y = leaf * 2
    z = (y * y).sum()
    with no_grad():
        VIEWS[view](st, y).fill_(0)
    with pytest.raises(RuntimeError, match=r"mul.*modified by an inplace operation"):
        z.backward()


@pytest.mark.parametrize("copy", COPIES)
def test_a_copy_is_never_a_view(copy: str) -> None:
    x = Tensor(np.arange(9.0).reshape(3, 3))
    made = COPIES[copy](x)
    assert not np.shares_memory(made.data, x.data)
    made.fill_(-1)
    assert x.version == 0 and (x.data >= 0).all()


def test_windows_that_overlap_are_read_only() -> None:
    x = Tensor(np.arange(6.0))
    for windows in (x.unfold(0, 3, 1), x.unfold(0, 2, 1), x.broadcast_to((2, 6))):
        with pytest.raises(RuntimeError, match="read-only"):
            windows.fill_(0)
    x.unfold(0, 2, 3).fill_(0)
    assert x.tolist() == [0, 0, 2, 0, 0, 5]
    frozen = Tensor(np.arange(9.0)).expand(2, 9)
    assert not frozen.unfold(1, 2, 2).data.flags.writeable
    assert not frozen.diagonal().data.flags.writeable


def test_contiguous_copies_only_what_is_not() -> None:
    x = Tensor(np.arange(6.0).reshape(2, 3), requires_grad=True)
    assert x.contiguous() is x
    y = x.T.contiguous()
    assert y.data.flags.c_contiguous and y.tolist() == x.T.tolist()
    weights = weights_for(y)
    (g,) = grad(y, x, Tensor(weights))
    np.testing.assert_array_equal(g.data, weights.T)


# Calls that the table has no place for


def test_several_forms_of_a_call_mean_the_same() -> None:
    x = Tensor(np.arange(6.0).reshape(2, 3))
    same = [
        (x.tile(2, 1), x.tile((2, 1)), st.tile(x, (2, 1)), x.repeat(2, 1), x.repeat([2, 1])),
        (x.flip(0, 1), x.flip((0, 1)), st.flip(x, [0, 1]), x.flip(-1, -2)),
        (st.einsum("ij,kj", x, x), st.einsum("ij,kj", [x, x]), x @ x.T),
        (
            x.repeat_interleave(Tensor([2, 0, 1]), 1),
            x.repeat_interleave([2, 0, 1], 1),
            x.repeat_interleave(np.array([2, 0, 1]), -1),
            x[:, [0, 0, 2]],
        ),
    ]
    for first, *others in same:
        for other in others:
            np.testing.assert_array_equal(other.data, first.data)


def test_a_product_refuses_tensors_of_unlike_dtype() -> None:
    x, y = Tensor([[1.0]]), Tensor([[1.0]], dtype="float64")
    for call in (st.mm, lambda a, b: st.einsum("ij,jk", a, b)):
        with pytest.raises(RuntimeError, match="one dtype"):
            call(x, y)
    with pytest.raises(TypeError, match=r"^mm: expected a Tensor, got list"):
        st.mm([[1.0]], y)


@pytest.mark.parametrize("name", sorted(set(TABLE) - {"einsum"}))
@pytest.mark.parametrize("stranger", [None, "text", [[1.0]]], ids=["None", "str", "list"])
def test_an_operand_of_another_kind_is_refused(name: str, stranger: Any) -> None:
    (shapes, args), *_ = TABLE[name][0]
    operands = [stranger, *arrays(shapes)[1:]]
    with pytest.raises(TypeError, match="Tensor") as caught:
        outputs(getattr(st, name), name, operands, args)
    called = {"broadcast_to": "expand"}.get(name, name)
    assert str(caught.value).startswith(f"{called}: ")


def test_functions_take_arrays_too() -> None:
    array = np.arange(6.0).reshape(2, 3)
    np.testing.assert_array_equal(st.movedim(array, 0, 1).data, array.T)
    np.testing.assert_array_equal(st.split(array, 1, 1)[2].data, array[:, 2:])
    np.testing.assert_array_equal(st.tensordot(array, array.T, 1).data, array @ array.T)
    np.testing.assert_array_equal(st.einsum("ij->j", array).data, array.sum(0))


def test_the_length_of_a_dimension_is_found_or_its_number_refused() -> None:
    x = Tensor(np.ones((2, 3)))
    assert (x.size(), x.size(0), x.size(-1)) == ((2, 3), 2, 3)
    with pytest.raises(IndexError, match=r"^size: dim 2 is out of range for 2 dimensions"):
        x.size(2)
    with pytest.raises(IndexError, match=r"^size: dim 0 of a 0-d Tensor"):
        Tensor(1.0).size(0)
    with pytest.raises(TypeError, match=r"^size: dim must be an integer, got 0\.5"):
        x.size(0.5)  # type: ignore[arg-type]


def test_padding_that_a_dtype_cannot_hold_is_refused() -> None:
    for value in (-1, 256, np.nan):
        with pytest.raises(RuntimeError, match=r"^pad: value .* does not fit into uint8"):
            st.pad(Tensor(np.ones(2, np.uint8)), (1, 0), value)
