"""The products that numba's kernels compute themselves: right, and the same whatever the layout."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import threadpoolctl

import tensor
from tensor.kernels import gemm, reference

Array = np.ndarray[Any, Any]

DTYPES = ("float32", "float64")

# Whole tiles and edges of every kind, one block of the inner dimension and several.
SIZES = [
    (1, 1, 1),
    (8, 48, 16),
    (7, 47, 15),
    (9, 49, 17),
    (16, 64, 192),
    (33, 17, 193),
    (5, 130, 385),
    (130, 5, 400),
    (40, 50, 1000),
    (24, 100, 1600),
    (12, 20, 3400),
]


def in_order(rng: np.random.Generator, rows: int, cols: int, dtype: str) -> Array:
    return rng.standard_normal((rows, cols)).astype(dtype)


def turned(rng: np.random.Generator, rows: int, cols: int, dtype: str) -> Array:
    return in_order(rng, cols, rows, dtype).T


def part(rng: np.random.Generator, rows: int, cols: int, dtype: str) -> Array:
    return in_order(rng, rows + 1, cols + 3, dtype)[1:, 2:-1]


def turned_part(rng: np.random.Generator, rows: int, cols: int, dtype: str) -> Array:
    return part(rng, cols, rows, dtype).T


LAYOUTS: list[Callable[..., Array]] = [in_order, turned, part, turned_part]


@pytest.fixture(autouse=True)
def numba_on_one_thread() -> Iterator[None]:
    with threadpoolctl.threadpool_limits(1, user_api="blas"), tensor.use_kernels("numba"):
        yield


def multiplied(a: Array, b: Array) -> Array:
    """The product, written to the middle of other memory, which must not change."""
    rows, cols = len(a), b.shape[1]
    whole = np.full((rows + 2, cols + 3), 7, a.dtype)
    gemm._multiply(a, b, whole[1:-1, 1:-2])
    outside = whole.copy()
    outside[1:-1, 1:-2] = 7
    np.testing.assert_array_equal(outside, 7)
    return whole[1:-1, 1:-2]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("size", SIZES)
def test_a_product_is_right_in_every_layout(size: tuple[int, int, int], dtype: str) -> None:
    rows, cols, inner = size
    rng = np.random.default_rng(inner)
    for left in LAYOUTS:
        for right in LAYOUTS:
            a, b = left(rng, rows, inner, dtype), right(rng, inner, cols, dtype)
            exact = a.astype(np.longdouble) @ b.astype(np.longdouble)
            # Of n products that are added in any order, the error is below n u / (1 - n u) of the
            # sum of their sizes (Higham, Accuracy and Stability, section 3.1).
            unit = inner * np.finfo(dtype).eps / 2
            bound = unit / (1 - unit) * (np.abs(a).astype(float) @ np.abs(b).astype(float))
            assert (np.abs(multiplied(a, b) - exact) <= bound).all()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("size", SIZES)
def test_the_layout_changes_no_bit(size: tuple[int, int, int], dtype: str) -> None:
    rows, cols, inner = size
    rng = np.random.default_rng(cols)
    a, b = in_order(rng, rows, inner, dtype), in_order(rng, inner, cols, dtype)
    expected = multiplied(a, b).tobytes()
    for x in (a, np.asfortranarray(a)):
        for y in (b, np.asfortranarray(b)):
            assert multiplied(x, y).tobytes() == expected
    # nor does what else is in the product
    half = rows // 2
    assert multiplied(a[half:], b).tobytes() == multiplied(a, b)[half:].tobytes()
    assert multiplied(a, b[:, 1:]).tobytes() == multiplied(a, b)[:, 1:].tobytes()


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_long_sum_is_cut_into_blocks(dtype: str) -> None:
    block = gemm._DEEP // np.dtype(dtype).itemsize
    inner = 3 * block + block // 2
    rng = np.random.default_rng(3)
    a, b = in_order(rng, 10, inner, dtype), in_order(rng, inner, 50, dtype)
    cuts = [0, block, 2 * block, 2 * block + (inner - 2 * block) // 2, inner]
    total = np.zeros((10, 50), dtype)
    for start, end in itertools.pairwise(cuts):
        total = total + multiplied(a[:, start:end], b[start:end])
    assert total.tobytes() == multiplied(a, b).tobytes()


@pytest.mark.parametrize("dtype", DTYPES)
def test_nan_and_infinity_go_where_they_belong(dtype: str) -> None:
    rng = np.random.default_rng(0)
    for rows, cols, inner in SIZES[1:5]:
        a, b = in_order(rng, rows, inner, dtype), in_order(rng, inner, cols, dtype)
        a[rows // 2, inner // 2] = np.nan
        b[inner // 3, cols // 3] = np.inf
        a[rows - 1] = 0  # 0 * inf is NaN
        with np.errstate(invalid="ignore"):
            expected = a @ b
        found = multiplied(a, b)
        np.testing.assert_array_equal(np.isnan(found), np.isnan(expected))
        np.testing.assert_array_equal(np.isinf(found), np.isinf(expected))


def test_products_in_several_threads_do_not_meet() -> None:
    rng = np.random.default_rng(1)
    pairs = [(in_order(rng, 64, 700, "float32"), turned(rng, 700, 96, "float32")) for _ in range(4)]
    alone = [multiplied(a, b).tobytes() for a, b in pairs]
    wrong: list[int] = []

    def work(i: int) -> None:
        a, b = pairs[i]
        if any(multiplied(a, b).tobytes() != alone[i] for _ in range(50)):
            wrong.append(i)

    workers = [threading.Thread(target=work, args=(i,)) for i in range(len(pairs))]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert not wrong


def unaligned(a: Array) -> Array:
    raw = np.zeros(a.nbytes + 1, np.uint8)[1:]
    view: Array = raw.view(a.dtype).reshape(a.shape)
    view[...] = a
    return view


OTHERS: dict[str, Callable[[Array, Array], tuple[Array, Array]]] = {
    "rows that run backwards": lambda a, b: (a[::-1], b),
    "every second column": lambda a, b: (a, np.repeat(b, 2, 1)[:, ::2]),
    "a row that repeats": lambda a, b: (np.broadcast_to(a[0], a.shape), b),
    "unaligned": lambda a, b: (unaligned(a), b),
    "half precision": lambda a, b: (a.astype("float16"), b.astype("float16")),
    "integers": lambda a, b: (a.astype("int64"), b.astype("int64")),
    "two dtypes": lambda a, b: (a, b.astype("float64")),
    "few rows": lambda a, b: (a[:2], b),
    "nothing": lambda a, b: (a[:, :0], b[:0]),
}


@pytest.mark.parametrize("name", OTHERS)
def test_other_products_are_left_to_blas(name: str) -> None:
    rng = np.random.default_rng(2)
    a, b = OTHERS[name](*(in_order(rng, 128, 128, "float32") for _ in range(2)))
    assert not gemm._takes(a, b)
    np.testing.assert_array_equal(reference.product(a, b), np.matmul(a, b))


@pytest.mark.parametrize("dtype", DTYPES)
def test_the_number_of_threads_changes_no_bit(dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gemm, "_LEAST", 1)
    rng = np.random.default_rng(4)
    for rows, cols, inner in SIZES:
        for left in LAYOUTS:
            for right in LAYOUTS:
                a, b = left(rng, rows, inner, dtype), right(rng, inner, cols, dtype)
                alone = multiplied(a, b).tobytes()
                for count in (2, 3):
                    with threadpoolctl.threadpool_limits(count, user_api="blas"):
                        assert multiplied(a, b).tobytes() == alone


def test_many_threads_are_left_to_blas(monkeypatch: pytest.MonkeyPatch) -> None:
    a = in_order(np.random.default_rng(0), 128, 128, "float32")
    monkeypatch.setattr(gemm, "threads", lambda: 4)
    assert gemm._takes(a, a)
    monkeypatch.setattr(gemm, "threads", lambda: 5)
    assert not gemm._takes(a, a)
    np.testing.assert_array_equal(reference.product(a, a), np.matmul(a, a))


def test_a_product_goes_where_it_is_wanted() -> None:
    rng = np.random.default_rng(5)
    a, b = in_order(rng, 128, 100, "float32"), turned(rng, 100, 64, "float32")
    expected = reference.product(a, b)
    assert expected.tobytes() == multiplied(a, b).tobytes()
    out = np.empty((128, 64), "float32")
    assert reference.product(a, b, out) is out and out.tobytes() == expected.tobytes()
    columns = np.empty((64, 128), "float32").T  # which the loops do not write
    np.testing.assert_allclose(reference.product(a, b, columns), expected, rtol=1e-5, atol=1e-4)


def test_read_only_operands_need_no_loop_of_their_own() -> None:
    a = in_order(np.random.default_rng(6), 80, 80, "float32")
    expected = multiplied(a, a)
    a.flags.writeable = False
    np.testing.assert_array_equal(reference.product(a, a), expected)
    assert len(gemm._compiled(a.dtype).signatures) == 1


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("activation", [None, "relu"])
def test_a_layer_has_the_bits_of_a_product_that_is_finished_afterwards(
    activation: str | None, dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gemm, "_LEAST", 1)
    monkeypatch.setattr(gemm, "_takes", lambda a, b: True)
    rng = np.random.default_rng(7)
    for rows, cols, inner in SIZES:
        for layout in LAYOUTS:
            a, weight = layout(rng, rows, inner, dtype), in_order(rng, cols, inner, dtype)
            bias = rng.standard_normal(cols).astype(dtype)
            a[rows // 2] = np.nan
            expected = multiplied(a, weight.T) + bias
            if activation is not None:
                expected = np.where(expected <= 0, np.zeros((), dtype), expected)
            for count in (1, 2):
                out = np.empty((rows, cols), dtype)
                with threadpoolctl.threadpool_limits(count, user_api="blas"):
                    assert gemm.layer(a, weight, bias, activation, out) is None
                np.testing.assert_array_equal(np.isnan(out), np.isnan(expected))
                assert_equal_bits(np.nan_to_num(out), np.nan_to_num(expected))


def assert_equal_bits(a: Array, b: Array) -> None:
    assert a.tobytes() == b.tobytes()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("inner", "cols"), [(784, 512), (64, 9), (16, 8), (256, 10), (48, 31)])
def test_a_row_by_a_turned_matrix_is_right_whatever_the_threads(
    inner: int, cols: int, dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gemm._dots, "_least", 1)
    rng = np.random.default_rng(inner)
    row, weight = in_order(rng, 1, inner, dtype), in_order(rng, cols, inner, dtype)
    outside = np.full(cols + 4, 7, dtype)
    found = []
    for count in (1, 2, 3):
        with threadpoolctl.threadpool_limits(count, user_api="blas"):
            gemm._dots(weight, row[0], outside[2:-2])
        found.append(outside.tobytes())
    assert len(set(found)) == 1
    assert (outside[[0, 1, -2, -1]] == 7).all()
    exact = row.astype(np.longdouble) @ weight.T.astype(np.longdouble)
    unit = inner * np.finfo(dtype).eps / 2
    bound = unit / (1 - unit) * (np.abs(row).astype(float) @ np.abs(weight.T).astype(float))
    assert (np.abs(outside[2:-2] - exact) <= bound).all()
    assert reference.product(row, weight.T).tobytes() == outside[2:-2].tobytes()
    for other in (row[:, ::-1], np.repeat(row, 2, 1)[:, ::2]):  # does not lie in order
        assert not gemm._is_vector(other, weight.T)
    assert not gemm._is_vector(row[:, 1:], weight.T[1:])  # is not whole vectors
