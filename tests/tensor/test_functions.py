"""The ways to make a Tensor: shapes, dtypes and numbers as PyTorch has them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import tensor as st
from tensor import Generator, ShapeError, Tensor, nn
from tests.tensor.engine.helpers import cases

ARANGE: dict[str, tuple[Any, ...]] = {
    "end": (5,),
    "start and end": (2, 5),
    "a step": (1, 10, 3),
    "downwards": (5, 0, -2),
    "floats": (0.0, 1.0, 0.25),
    "one float": (0, 2, 0.5),
    "none": (0,),
    "none of floats": (0.0,),
}


@cases("arguments", {name: (args,) for name, args in ARANGE.items()})
def test_arange_has_the_numbers_and_the_dtype_of_pytorch(arguments: tuple[Any, ...]) -> None:
    (given,) = arguments
    ours, theirs = st.arange(*given), torch.arange(*given)
    assert str(ours.dtype) == str(theirs.dtype).removeprefix("torch.")
    np.testing.assert_array_equal(ours.data, theirs.numpy())
    assert st.arange(*given, dtype="float16").dtype == np.float16


FILLED: dict[str, tuple[Callable[..., Tensor], float]] = {
    "zeros": (st.zeros, 0.0),
    "ones": (st.ones, 1.0),
    "full": (lambda shape, **options: st.full(shape, 2.5, **options), 2.5),
}


@cases("make, value", FILLED)
def test_filled_tensors_have_the_shape_dtype_and_number_asked_for(
    make: Callable[..., Tensor], value: float
) -> None:
    for shape, wanted in (((2, 3), (2, 3)), ([4], (4,)), (3, (3,)), ((), ()), ((0, 2), (0, 2))):
        made = make(shape)
        assert (made.shape, made.dtype, made.requires_grad) == (wanted, np.float32, False)
        assert (made.data == value).all()
    made = make(2, dtype="float64", requires_grad=True)
    assert made.dtype == np.float64 and made.requires_grad and made.is_leaf
    with pytest.raises(TypeError, match="dtype must be named, got None"):
        make(2, dtype=None)


@cases(
    "name, make",
    {
        "zeros": ("zeros", st.zeros),
        "ones": ("ones", st.ones),
        "full": ("full", lambda shape: st.full(shape, 2.5)),
        "rand": ("rand", st.rand),
        "randn": ("randn", st.randn),
        "randint": ("randint", lambda shape: st.randint(0, 3, shape)),
    },
)
def test_a_shape_that_makes_no_sense_is_refused(name: str, make: Callable[..., Tensor]) -> None:
    before = st.default_generator.get_state()
    with pytest.raises(TypeError, match=rf"^{name}: .*integers, got 2\.5"):
        make((2.5, 3))
    with pytest.raises(ShapeError, match=rf"^{name}: .*\(2, -3\)"):
        make((2, -3))
    assert st.default_generator.get_state() == before


def test_an_identity_has_ones_on_its_diagonal() -> None:
    for size in ((3,), (2, 4), (4, 2), (0,), (0, 2)):
        ours, theirs = st.eye(*size), torch.eye(*size)
        np.testing.assert_array_equal(ours.data, theirs.numpy())
        assert ours.dtype == np.float32
    assert st.eye(2, dtype="float64", requires_grad=True).requires_grad
    with pytest.raises(ShapeError, match=r"^eye: .*\(2, -1\)"):
        st.eye(2, -1)
    with pytest.raises(TypeError, match=r"^eye: .*1\.5"):
        st.eye(1.5)  # type: ignore[arg-type]


def test_numbers_at_equal_distances_include_both_ends() -> None:
    for arguments in ((0, 1, 5), (-2.5, 7, 4), (3, 0, 7), (1, 2, 1), (1, 2, 0)):
        ours, theirs = (
            lib.linspace(*arguments, dtype=dtype)
            for lib, dtype in ((st, "float64"), (torch, torch.float64))
        )
        np.testing.assert_allclose(ours.data, theirs.numpy(), rtol=1e-15, atol=1e-15)
        assert st.linspace(*arguments).dtype == np.float32
    assert st.linspace(0, 1, 11)[-1].item() == 1
    with pytest.raises(ShapeError, match=r"^linspace: .*-1"):
        st.linspace(0, 1, -1)
    with pytest.raises(TypeError, match=r"^linspace: .*2\.5"):
        st.linspace(0, 1, 2.5)  # type: ignore[arg-type]


RAGGED: dict[str, tuple[Any, type[Exception], str]] = {
    "rows": ([[1, 2], [3]], ShapeError, r"data\[0\] has length 2, but data\[1\] has 1"),
    "deeper": (
        [[[1], [2]], [[3], [4, 5]]],
        ShapeError,
        r"data\[0\]\[0\] has length 1, but data\[1\]\[1\] has 2",
    ),
    "an empty row": ([[], [1]], ShapeError, r"data\[0\] has length 0, but data\[1\] has 1"),
    "a number": ([[1], 2], TypeError, r"data\[0\] is a sequence, but data\[1\] is a number"),
    "a Tensor": (
        [[1, 2], [3, Tensor([4.0])]],
        TypeError,
        r"data\[0\]\[0\] is a number, but data\[1\]\[1\] is a sequence",
    ),
    "a row": ([1, (2, 3)], TypeError, r"data\[0\] is a number, but data\[1\] is a sequence"),
}


@cases("data, error, words", RAGGED)
def test_rows_of_unlike_length_are_named(data: Any, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=f"^Tensor: {words}"):
        Tensor(data)


def test_full_of_what_the_dtype_cannot_hold_is_infinite() -> None:
    assert st.full(2, 1e300).tolist() == [np.inf, np.inf]
    assert st.full((), -1e6, dtype="float16").item() == -np.inf


def test_a_tensor_made_like_another_has_its_shape_and_dtype() -> None:
    a = Tensor(np.ones((2, 1), np.float16), requires_grad=True)
    makers: list[tuple[Any, float]] = [(st.zeros_like, 0.0), (st.ones_like, 1.0)]
    for make, value in [*makers, (lambda a, **options: st.full_like(a, 2, **options), 2.0)]:
        made = make(a)
        assert (made.shape, made.dtype, made.requires_grad) == ((2, 1), np.float16, False)
        assert (made.data == value).all() and make(a, dtype="int64").dtype == np.int64


def test_random_tensors_come_from_the_generator_that_is_given() -> None:
    def draws(generator: Generator) -> list[Tensor]:
        return [
            st.rand(2, 3, generator=generator),
            st.randn((2, 3), generator=generator, dtype="float64"),
            st.randint(-3, 3, (50,), generator=generator),
            st.randperm(20, generator=generator),
        ]

    before = st.default_generator.get_state()
    a, b = draws(Generator(1)), draws(Generator(1))
    assert st.default_generator.get_state() == before
    for x, y in zip(a, b, strict=True):
        np.testing.assert_array_equal(x.data, y.data)
    assert [(x.shape, str(x.dtype)) for x in a] == [
        ((2, 3), "float32"),
        ((2, 3), "float64"),
        ((50,), "int64"),
        ((20,), "int64"),
    ]
    assert set(a[2].tolist()) == set(range(-3, 3)) and sorted(a[3].tolist()) == list(range(20))


def test_the_largest_and_smallest_along_a_dimension_say_where_they_are() -> None:
    a = Tensor([[1.0, 3.0, 3.0], [5.0, 4.0, 0.0]])
    for found in (a.max(1), st.max(a, 1)):
        assert (found.values.tolist(), found.indices.tolist()) == ([3.0, 5.0], [1, 0])
    for found in (a.min(0, keepdim=True), st.min(a, 0, keepdim=True)):
        assert (found.values.tolist(), found.indices.tolist()) == ([[1.0, 3.0, 0.0]], [[0, 0, 1]])
    assert a.max().item() == st.max(a).item() == 5.0
    assert a.min().item() == st.min(a).item() == 0.0


def test_zeros_and_ones_take_their_shape_in_one_piece_or_in_several() -> None:
    for make, value in ((st.zeros, 0), (st.ones, 1)):
        for made in (make(2, 3), make((2, 3)), make([2, 3], dtype="float64")):
            assert made.shape == (2, 3) and (made.data == value).all()
        assert make(4).shape == (4,) and make(()).shape == ()
        assert make(2, 0, requires_grad=True).requires_grad
        with pytest.raises(ValueError, match="-1"):
            make(2, -1)
        with pytest.raises(TypeError):
            make(2, 1.5)


def test_a_step_of_0_is_refused_as_in_pytorch() -> None:
    for make in (torch.arange, st.arange):
        with pytest.raises(RuntimeError, match=r"step must be nonzero|step must not be 0"):
            make(0, 5, 0)


WRONG_KIND: dict[str, tuple[Callable[[], object], str]] = {
    "dropout": (lambda: st.dropout(st.ones(2), "a"), r"dropout: p must be a number, got str 'a'"),
    "Dropout": (lambda: nn.Dropout("a"), r"Dropout: p must be a number, got str 'a'"),
    "var": (lambda: st.ones(2).var(correction="a"), r"var: correction must be a number, got str"),
    "std": (lambda: st.ones(2).std(correction="a"), r"std: correction must be a number, got str"),
    "arange": (lambda: st.arange("a"), r"arange: end must be a number, got str 'a'"),
    "linspace": (lambda: st.linspace(0, "a", 3), r"linspace: end must be a number, got str 'a'"),
    "full": (lambda: st.full((2,), "a"), r"full: fill_value must be a number, got str 'a'"),
    "rand": (
        lambda: st.rand(2, generator=3),
        r"rand: generator must be a tensor.Generator or None, got int 3; tensor.Generator\(seed\)",
    ),
    "randperm": (lambda: st.randperm(2, generator=3), r"randperm: generator must be"),
    "zeros_": (lambda: nn.init.zeros_(np.ones(2)), r"init: tensor must be a Tensor, .* ndarray"),
    "orthogonal_": (
        lambda: nn.init.orthogonal_(st.ones(2, 2), gain="a"),
        r"orthogonal_: gain must be a number, got str 'a'",
    ),
}


@pytest.mark.parametrize("name", WRONG_KIND)
def test_an_argument_of_the_wrong_kind_is_named(name: str) -> None:
    call, words = WRONG_KIND[name]
    before = st.default_generator.get_state()
    with pytest.raises(TypeError, match=words):
        call()
    assert st.default_generator.get_state() == before
