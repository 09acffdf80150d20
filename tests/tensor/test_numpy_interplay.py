"""Tensors beside numpy: arrays in and out, numpy's functions, and what is refused."""

from __future__ import annotations

import operator
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tensor as st
from tensor import Tensor
from tests.tensor.engine.helpers import cases, leaf

VALUES = np.arange(6.0).reshape(2, 3)


class Labelled(np.ndarray[Any, Any]):
    """A subclass of ndarray, as other libraries have them."""


# Arrays in


@pytest.mark.parametrize(
    "dtype", ["bool", "int8", "uint8", "int32", "int64", "float16", "float32", "float64"]
)
def test_an_array_keeps_its_dtype(dtype: str) -> None:
    t = Tensor(np.array([0, 1], dtype))
    assert t.dtype == dtype and t.data.flags.owndata
    np.testing.assert_array_equal(t, [0, 1])


@pytest.mark.parametrize(
    ("data", "dtype"),
    [
        (1.5, "float32"),
        ([1.0, 2], "float32"),
        ([1, 2], "int64"),
        (True, "bool"),
        ([True, False], "bool"),
        ([], "float32"),
        (np.float64(1.5), "float64"),
        (np.float16(1.5), "float16"),
        (np.int32(1), "int32"),
    ],
    ids=str,
)
def test_python_numbers_become_float32_int64_or_bool(data: Any, dtype: str) -> None:
    assert Tensor(data).dtype == dtype


@pytest.mark.parametrize("dtype", ["float64", np.float64, float, ">f8"], ids=repr)
def test_a_dtype_may_be_given_in_numpys_ways(dtype: Any) -> None:
    t = Tensor([1, 2], dtype=dtype)
    assert t.dtype == np.float64 and t.data.dtype.isnative


def strided() -> dict[str, np.ndarray[Any, Any]]:
    big = np.zeros((4, 9))
    big[::2, ::3] = VALUES
    read_only = VALUES.copy()
    read_only.setflags(write=False)
    return {
        "transposed": VALUES.T.copy().T,
        "reversed": VALUES[::-1, ::-1].copy()[::-1, ::-1],
        "Fortran order": np.asfortranarray(VALUES),
        "strided": big[::2, ::3],
        "read-only": read_only,
        "big-endian": VALUES.astype(">f8"),
        "subclass": VALUES.view(Labelled),
    }


def check_like_its_copy(array: Any) -> None:
    """Bit-equal to the contiguous copy: itself, through ops, and in its gradients."""
    t, copy = Tensor(array, requires_grad=True), Tensor(VALUES, requires_grad=True)
    assert t.data.flags.c_contiguous and t.data.flags.writeable and t.data.dtype.isnative
    assert type(t.data) is np.ndarray
    pairs = [(t, copy)]
    for x in (t, copy):
        (x @ x.T).exp().sum().backward()
    pairs.append((t.grad, copy.grad))
    pairs.append((Tensor(np.ones((2, 3))) * array, Tensor(np.ones((2, 3))) * copy.detach()))
    for actual, expected in pairs:
        assert actual.data.tobytes() == expected.data.tobytes()


@pytest.mark.parametrize("kind", strided())
def test_an_array_of_any_layout_is_like_its_contiguous_copy(kind: str) -> None:
    check_like_its_copy(strided()[kind])


@pytest.mark.parametrize("mode", ["r", "r+", "c"])
def test_a_memory_mapped_array_is_like_its_copy(mode: Any, tmp_path: Path) -> None:
    path = tmp_path / "values"
    VALUES.tofile(path)
    mapped = np.memmap(path, VALUES.dtype, mode, shape=VALUES.shape)
    check_like_its_copy(mapped)
    Tensor(mapped).zero_()
    np.testing.assert_array_equal(mapped, VALUES)


REFUSED: dict[str, Any] = {
    "complex": np.ones(2, complex),
    "complex number": 1j,
    "object": np.array([None, 1]),
    "string": np.array(["a"]),
    "text": "abc",
    "bytes": b"abc",
    "date": np.array(["2020-01-01"], "datetime64[D]"),
    "record": np.zeros(2, [("a", "f4")]),
    "long double": np.ones(2, np.longdouble),
    "masked": np.ma.masked_array([1.0, 2.0], [True, False]),
    "None": None,
    "a set": {1, 2},
    "a large integer": 2**70,
}


@cases("data", REFUSED)
def test_what_a_tensor_cannot_hold_is_refused(data: Any) -> None:
    with pytest.raises(TypeError, match=r"Tensor: .*(dtype|masked)"):
        Tensor(data)


@cases("array", {k: v for k, v in REFUSED.items() if isinstance(v, np.ndarray)})
@pytest.mark.parametrize("op", [operator.add, operator.mul], ids=["+", "*"])
def test_what_a_tensor_cannot_hold_is_refused_as_an_operand(
    array: np.ndarray[Any, Any], op: Callable[[Any, Any], Any]
) -> None:
    with pytest.raises(TypeError, match=r"(add|mul): b: .*(cannot hold dtype|masked)"):
        op(leaf(2), array)
    # A masked array does not ask the Tensor, but reads its memory.
    error = RuntimeError if isinstance(array, np.ma.MaskedArray) else TypeError
    with pytest.raises(error, match=r"(add|mul): a: .*cannot hold dtype|requires grad"):
        op(array, leaf(2))


@pytest.mark.parametrize("dtype", [complex, "object", "U3", "longdouble", "datetime64[s]"])
def test_a_dtype_that_a_tensor_cannot_hold_is_refused(dtype: Any) -> None:
    for call in (
        lambda: Tensor([1.0], dtype=dtype),
        lambda: Tensor([1.0]).to(dtype),
        lambda: st.zeros(3, dtype=dtype),
    ):
        with pytest.raises(TypeError, match="a Tensor holds bool, integers or float16/32/64"):
            call()


def test_a_dtype_that_there_is_not_is_named() -> None:
    with pytest.raises(TypeError, match="dtype must be one that numpy knows, got 'float8'"):
        Tensor([1.0]).to("float8")


def test_a_number_too_large_for_the_dtype_becomes_infinite_without_a_warning() -> None:
    assert np.isinf(Tensor([1e9], dtype="float16").item())
    assert np.isinf(Tensor(1e300).item())


# Sharing and copying


def test_from_numpy_shares_memory_both_ways() -> None:
    a = np.ones(3)
    t = st.from_numpy(a)
    a[0] = 5
    t[1] = 7
    np.testing.assert_array_equal(a, [5, 7, 1])
    assert t.data is a and not t.requires_grad


def test_from_numpy_takes_views_and_subclasses_without_copying() -> None:
    a = np.arange(6.0).reshape(2, 3)
    assert np.shares_memory(st.from_numpy(a.T[::-1]).data, a)
    t = st.from_numpy(a.view(Labelled))
    assert type(t.data) is np.ndarray and np.shares_memory(t.data, a)


@pytest.mark.parametrize(
    ("array", "message"),
    [
        ([1.0], "from_numpy: expected an ndarray, got list"),
        (np.ones(2, ">f4"), "from_numpy: dtype >f4 would need a copy"),
        (np.ones(2, complex), "from_numpy: cannot hold dtype complex128"),
        (np.ma.masked_array([1.0]), "from_numpy: a masked array"),
        (Tensor([1.0]), "from_numpy: expected an ndarray, got Tensor"),
    ],
    ids=["list", "big-endian", "complex", "masked", "Tensor"],
)
def test_from_numpy_refuses_what_it_would_have_to_convert(array: Any, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        st.from_numpy(array)


def test_a_tensor_of_a_tensor_is_a_copy_without_history() -> None:
    x = leaf(3)
    t = Tensor(x * 1)
    assert t.is_leaf and not t.requires_grad and not np.shares_memory(t.data, x.data)


def test_numpy_gives_the_array_itself() -> None:
    t = Tensor([1.0, 2.0])
    assert t.numpy() is t.data
    assert np.asarray(t) is t.data
    assert not np.shares_memory(np.array(t), t.data)
    assert np.asarray(t, dtype=np.float64).dtype == np.float64


def test_numpy_without_a_copy_that_would_need_one_is_refused() -> None:
    with pytest.raises(ValueError, match="copy"):
        np.array(Tensor([1.0]), dtype=np.float64, copy=False)


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (np.cumsum, np.cumsum(VALUES)),
        (lambda t: np.concatenate([t, t]), np.concatenate([VALUES, VALUES])),
        (np.median, 2.5),
        (lambda t: np.allclose(t, VALUES), True),
        (np.linalg.norm, np.linalg.norm(VALUES)),
    ],
    ids=["cumsum", "concatenate", "median", "allclose", "norm"],
)
def test_functions_of_numpy_read_a_tensor_without_history(
    function: Callable[[Tensor], Any], expected: Any
) -> None:
    np.testing.assert_allclose(function(Tensor(VALUES)), expected)


# Operators with arrays and numpy's numbers

OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    name: getattr(operator, name)
    for name in ("add", "sub", "mul", "truediv", "pow", "lt", "le", "gt", "ge", "eq", "ne")
}

OTHERS: dict[str, Any] = {
    "array": np.array([0.5, 1.5, 2.5], np.float32),
    "row": np.array([[0.5, 1.5, 2.5]], np.float32),
    "0-d array": np.array(0.5, np.float32),
    "np.float32": np.float32(0.5),
    "np.float64": np.float64(0.5),
    "float": 0.5,
}


@cases("other", OTHERS)
@cases("op", OPERATORS)
def test_an_operator_between_a_tensor_and_numpy_is_a_tensor(
    op: Callable[[Any, Any], Any], other: Any
) -> None:
    x = leaf(2, 3, dtype=np.float32)
    for actual, expected in ((op(x, other), op(x.data, other)), (op(other, x), op(other, x.data))):
        assert type(actual) is Tensor and actual.shape == (2, 3)
        assert actual.requires_grad == (actual.dtype == np.float32)
        np.testing.assert_allclose(actual.data, expected, rtol=1e-6)


def test_the_gradient_of_an_array_times_a_tensor() -> None:
    x = Tensor([1.0, 2.0], requires_grad=True)
    y = np.array([3.0, 4.0]) * x + np.float64(2) / x
    assert y.dtype == np.float32
    y.sum().backward()
    np.testing.assert_array_equal(x.grad, [1, 3.5])


def test_an_array_matrix_times_a_tensor() -> None:
    m, x = np.array([[1.0, 2.0], [3.0, 4.0]]), Tensor([1.0, 1.0], requires_grad=True)
    for y in (m @ x, np.matmul(m, x), x @ m):
        assert type(y) is Tensor and y.dtype == np.float32 and y.op == "matmul"
    (m @ x).sum().backward()
    np.testing.assert_array_equal(x.grad, [4, 6])


@pytest.mark.parametrize("op", [operator.iadd, operator.imul, operator.imatmul])
def test_an_array_is_not_changed_in_place_by_a_tensor(op: Callable[[Any, Any], Any]) -> None:
    a = np.eye(3)
    with pytest.raises(TypeError, match="out"):
        op(a, Tensor(np.ones((3, 3))))
    np.testing.assert_array_equal(a, np.eye(3))


# Universal functions

UFUNCS = [
    np.add, np.subtract, np.multiply, np.divide, np.power, np.negative, np.absolute, np.square,
    np.sqrt, np.exp, np.expm1, np.log, np.log1p, np.sin, np.cos, np.tanh, np.maximum, np.minimum,
    np.sign, np.equal, np.not_equal, np.less, np.less_equal, np.greater, np.greater_equal,
    np.isnan, np.isinf, np.isfinite, np.floor, np.ceil, np.rint, np.floor_divide, np.remainder,
    np.reciprocal, np.exp2, np.log2, np.log10, np.tan, np.arctan, np.sinh, np.cosh,
    np.logical_and, np.logical_or, np.logical_xor, np.logical_not,
]  # fmt: skip


@pytest.mark.parametrize("ufunc", UFUNCS, ids=lambda u: u.__name__)
def test_a_ufunc_of_tensors_is_the_op(ufunc: np.ufunc) -> None:
    x, y = leaf(3), leaf(3, seed=1)
    operands = (x, y)[: ufunc.nin]
    out = ufunc(*operands)
    assert type(out) is Tensor
    np.testing.assert_allclose(out.data, ufunc(*(t.data for t in operands)), rtol=1e-15)
    assert out.requires_grad == (out.dtype.kind == "f")
    if ufunc.nin == 2:
        np.testing.assert_array_equal(ufunc(x.data, y).data, out.data)
        np.testing.assert_array_equal(ufunc(x, y.data).data, out.data)


def test_the_gradient_of_a_ufunc() -> None:
    x = leaf(3)
    np.multiply(np.exp(x), x.data).sum().backward()
    np.testing.assert_allclose(x.grad, np.exp(x.data) * x.data)


BAD_UFUNCS: dict[str, tuple[Callable[[Tensor], Any], str]] = {
    "no op": (lambda t: np.arctan2(t, t), "arctan2 has no counterpart"),
    "truncation": (np.trunc, "trunc has no counterpart"),
    "modulus": (lambda t: np.fmod(np.ones(3), t), "fmod has no counterpart"),
    "shift": (lambda t: np.ones(3, int) << t, "left_shift has no counterpart"),
    "two results": (np.modf, "modf has no counterpart"),
    "out": (lambda t: np.add(t, 1, out=np.zeros(3)), "add with out has no counterpart"),
    "out is a tensor": (lambda t: np.add(np.ones(3), 1, out=t), "add with out has no counterpart"),
    "where": (lambda t: np.add(t, 1, where=np.ones(3, bool)), "add with where has no counterpart"),
    "dtype": (lambda t: np.add(t, 1, dtype=np.float64), "add with dtype has no counterpart"),
    "reduce": (np.add.reduce, r"add\.reduce .*has no counterpart"),
    "accumulate": (np.add.accumulate, r"add\.accumulate .*has no counterpart"),
    "outer": (lambda t: np.multiply.outer(t, t), r"multiply\.outer .*has no counterpart"),
    "at": (lambda t: np.add.at(t, [0], 1), r"add\.at .*has no counterpart"),
}


@cases("call, message", BAD_UFUNCS)
def test_a_ufunc_without_a_counterpart_is_refused(
    call: Callable[[Tensor], Any], message: str
) -> None:
    x = leaf(3)
    with pytest.raises(TypeError, match=rf"numpy's {message}.*detach\(\)\.numpy\(\)"):
        call(x)
    np.testing.assert_array_equal(x.data, leaf(3).data)
    assert x.version == 0


@pytest.mark.parametrize("name", ["sum", "mean", "max", "min", "var"])
def test_a_reduction_by_numpy_says_what_it_does_not_know(name: str) -> None:
    with pytest.raises(TypeError, match="axis"):
        getattr(np, name)(leaf(3))
