"""Memory shared with other libraries by DLPack; Tensors in numpy, matplotlib and pandas."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
import torch

from tensor import Tensor, from_dlpack, from_numpy
from tests.tensor.engine.helpers import cases, leaf

VALUES = np.arange(6.0).reshape(2, 3)
DTYPES = ("bool", "uint8", "int8", "int16", "int32", "int64", "float16", "float32", "float64")


def address(array: Any) -> int:
    return int(np.asarray(array).ctypes.data)


# To others


@pytest.mark.parametrize("dtype", DTYPES)
def test_torch_takes_a_tensors_memory(dtype: str) -> None:
    t = Tensor(VALUES.astype(dtype))
    theirs = torch.from_dlpack(t)
    assert theirs.data_ptr() == address(t.data) and tuple(theirs.shape) == t.shape
    assert str(theirs.dtype) == f"torch.{dtype}"
    theirs[0, 1] = 0
    t[1, 1] = 1
    np.testing.assert_array_equal(theirs.numpy(), t.data)


SHAPES: dict[str, Callable[[], Tensor]] = {
    "0-d": lambda: Tensor(1.5),
    "size 0": lambda: Tensor(np.zeros((0, 3))),
    "transposed": lambda: Tensor(VALUES).T,
    "strided": lambda: Tensor(VALUES)[:, ::2],
    "row": lambda: Tensor(VALUES)[1],
    "Fortran order": lambda: from_numpy(np.asfortranarray(VALUES)),
}


@cases("make", SHAPES)
def test_every_layout_is_taken_as_it_is(make: Callable[[], Tensor]) -> None:
    t = make()
    for theirs in (torch.from_dlpack(t).numpy(), np.from_dlpack(t)):
        np.testing.assert_array_equal(theirs, t.data)
        assert theirs.shape == t.shape
        if t.numel() > 1:
            assert address(theirs) == address(t.data) and theirs.strides == t.data.strides


def test_numpy_takes_a_tensors_memory() -> None:
    t = Tensor(VALUES)
    array = np.from_dlpack(t)
    assert array.flags.writeable and address(array) == address(t.data)
    assert address(np.from_dlpack(t, copy=True)) != address(t.data)
    assert t.__dlpack_device__() == (1, 0) == t.data.__dlpack_device__()


def test_the_memory_outlives_the_tensor() -> None:
    t = Tensor(VALUES)
    theirs, array = torch.from_dlpack(t), np.from_dlpack(t)
    del t
    np.testing.assert_array_equal(theirs.numpy(), VALUES)
    np.testing.assert_array_equal(array, VALUES)


@pytest.mark.parametrize(
    ("max_version", "name"),
    [(None, "dltensor"), ((0, 8), "dltensor"), ((1, 0), "dltensor_versioned"),
     ((9, 9), "dltensor_versioned")],
)  # fmt: skip
def test_the_capsule_has_the_version_that_is_asked_for(max_version: Any, name: str) -> None:
    assert f'"{name}"' in repr(Tensor(VALUES).__dlpack__(max_version=max_version))
    assert f'"{name}"' in repr(Tensor(VALUES).__dlpack__(max_version=max_version, dl_device=(1, 0)))


def read_only() -> Tensor:
    array = VALUES.copy()
    array.setflags(write=False)
    return from_numpy(array)


NOT_EXPORTED: dict[str, tuple[Callable[[], Tensor], str]] = {
    "leaf": (lambda: leaf(3), r"requires grad.*tensor\.detach\(\)"),
    "result": (lambda: leaf(3) * 2, r"requires grad.*tensor\.detach\(\)"),
    "read-only": (read_only, r"read-only.*clone\(\)"),
    "expanded": (lambda: Tensor([[1.0], [2.0]]).expand(2, 3), r"read-only.*clone\(\)"),
    "reversed": (lambda: Tensor(VALUES)[::-1], r"strides \(-24, 8\).*clone\(\)"),
}


@cases("make, message", NOT_EXPORTED)
@pytest.mark.parametrize("take", [torch.from_dlpack, np.from_dlpack], ids=["torch", "numpy"])
def test_what_others_must_not_have_is_refused(
    take: Callable[[Any], Any], make: Callable[[], Tensor], message: str
) -> None:
    t = make()
    with pytest.raises(BufferError, match=rf"__dlpack__: .*{message}"):
        take(t)
    fit = t.detach().clone()
    np.testing.assert_array_equal(np.asarray(take(fit)), fit.data)


@cases("make, message", {k: v for k, v in NOT_EXPORTED.items() if "grad" not in v[1]})
def test_a_copy_of_it_can_be_had(make: Callable[[], Tensor], message: str) -> None:
    t = make()
    for theirs in (torch.from_dlpack(t, copy=True), np.from_dlpack(t, copy=True)):
        np.testing.assert_array_equal(np.asarray(theirs), t.data)
        assert address(theirs) != address(t.data)


def test_another_device_or_a_stream_is_refused() -> None:
    t = Tensor(VALUES)
    for device in ((2, 0), (1, 1)):
        with pytest.raises(BufferError, match=r"__dlpack__: dl_device must be \(1, 0\), the CPU"):
            t.__dlpack__(dl_device=device)
    with pytest.raises(BufferError, match=r"__dlpack__: stream must be None, .* got 1"):
        t.__dlpack__(stream=1)  # type: ignore[arg-type]


# From others


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_torch_tensors_memory_is_taken(dtype: str) -> None:
    theirs = torch.tensor(VALUES.astype(dtype))
    t = from_dlpack(theirs)
    assert type(t) is Tensor and t.dtype == dtype and t.is_leaf and not t.requires_grad
    assert address(t.data) == theirs.data_ptr()
    theirs[0, 1] = 0
    t[1, 1] = 1
    np.testing.assert_array_equal(theirs.numpy(), t.data)


@pytest.mark.parametrize(
    "theirs",
    [torch.tensor(1.5), torch.zeros(0, 3), torch.tensor(VALUES).T, torch.tensor(VALUES)[:, ::2]],
    ids=["0-d", "size 0", "transposed", "strided"],
)
def test_a_torch_tensor_of_every_layout_is_taken(theirs: torch.Tensor) -> None:
    t = from_dlpack(theirs)
    assert t.shape == tuple(theirs.shape)
    np.testing.assert_array_equal(t, theirs.numpy())


def test_gradients_flow_in_both_libraries_over_the_same_memory() -> None:
    theirs = torch.tensor(VALUES)
    t = from_dlpack(theirs).requires_grad_()
    theirs.requires_grad_()
    (t * t).exp().sum().backward()
    (theirs * theirs).exp().sum().backward()
    np.testing.assert_allclose(t.grad, theirs.grad.numpy(), rtol=1e-14)


def test_an_array_and_a_tensor_are_taken() -> None:
    array, t = VALUES.copy(), Tensor(VALUES)
    assert address(from_dlpack(array).data) == address(array)
    taken = from_dlpack(t)
    assert taken.data is t.data
    taken.add_(1)
    assert t.version == 1  # of our own memory the changes are counted


@pytest.mark.parametrize("make", [np.array, torch.tensor, Tensor], ids=["numpy", "torch", "ours"])
def test_a_copy_shares_nothing(make: Callable[[Any], Any]) -> None:
    original = make(VALUES)
    for copy, shares in ((True, False), (False, True), (None, True)):
        t = from_dlpack(original, copy=copy, device="cpu")
        assert np.shares_memory(t.data, np.asarray(original)) == shares
        np.testing.assert_array_equal(t, VALUES)


def test_memory_that_is_read_only_stays_so() -> None:
    array = VALUES.copy()
    array.setflags(write=False)

    class Unversioned:
        def __dlpack__(self, stream: Any = None) -> Any:
            return VALUES.__dlpack__()

        def __dlpack_device__(self) -> tuple[int, int]:
            return (1, 0)

    for x in (array, Unversioned()):
        t = from_dlpack(x)
        with pytest.raises(RuntimeError, match=r"read-only; clone\(\)"):
            t.add_(1)
        np.testing.assert_array_equal(t + 1, VALUES + 1)


class Elsewhere:
    """Memory of a graphics processor."""

    def __dlpack__(self, **settings: Any) -> Any:
        raise AssertionError("not asked before the device is known")

    def __dlpack_device__(self) -> tuple[int, int]:
        return (2, 3)


NOT_TAKEN: dict[str, tuple[Any, type[Exception], str]] = {
    "list": ([1.0], TypeError, "must have the methods __dlpack__ .* got list"),
    "number": (1.0, TypeError, "got float"),
    "torch, requires grad": (torch.ones(2, requires_grad=True), BufferError, "require gradient"),
    "ours, requires grad": (leaf(2), BufferError, r"from_dlpack: .* use x\.detach\(\)"),
    "complex": (torch.ones(2, dtype=torch.complex64), TypeError, "from_dlpack: .*complex64"),
    "bfloat16": (torch.ones(2, dtype=torch.bfloat16), TypeError, "from_dlpack: .*convert x"),
    "device": (Elsewhere(), BufferError, r"from_dlpack: x is on device \(2, 3\), wanted the CPU"),
}


@cases("x, error, message", NOT_TAKEN)
def test_what_cannot_be_taken_is_refused(x: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        from_dlpack(x)


def test_another_device_cannot_be_asked_for() -> None:
    with pytest.raises(ValueError, match="from_dlpack: device must be 'cpu' or None, got 'cuda'"):
        from_dlpack(VALUES, device="cuda")


# numpy


def test_asarray_and_array_copy_as_they_are_told() -> None:
    t = Tensor(VALUES)
    for function in (np.asarray, np.array):
        assert function(t, copy=False) is t.data
        assert function(t, copy=None) is t.data
        copied = function(t, copy=True)
        assert not np.shares_memory(copied, t.data) and copied.flags.writeable
        np.testing.assert_array_equal(copied, VALUES)
    assert np.asarray(t) is t.data
    assert not np.shares_memory(np.array(t), t.data)


def test_a_conversion_copies_and_is_refused_where_nothing_may_be_copied() -> None:
    t = Tensor(VALUES)
    for function in (np.asarray, np.array):
        for copy in (True, None):
            assert function(t, dtype="float32", copy=copy).dtype == np.float32
        with pytest.raises(ValueError, match="copy"):
            function(t, dtype="float32", copy=False)
        assert function(t, dtype="float64", copy=False) is t.data


def test_lists_of_tensors_become_arrays() -> None:
    t = Tensor(VALUES)
    np.testing.assert_array_equal(np.array([t, t]), np.array([VALUES, VALUES]))
    np.testing.assert_array_equal(np.array([Tensor(1.0), Tensor(2.0)]), [1, 2])


ASSERTIONS: dict[str, tuple[Callable[..., Any], Any]] = {
    "allclose": (np.testing.assert_allclose, VALUES + 1),
    "array_equal": (np.testing.assert_array_equal, VALUES + 1),
    "equal": (np.testing.assert_equal, VALUES + 1),
    "array_almost_equal": (np.testing.assert_array_almost_equal, VALUES + 1),
    "almost_equal": (np.testing.assert_almost_equal, VALUES + 1),
    "array_max_ulp": (np.testing.assert_array_max_ulp, VALUES + 1),
}


@cases("check, other", ASSERTIONS)
def test_numpys_assertions_take_a_tensor_on_either_side(
    check: Callable[..., Any], other: Any
) -> None:
    t = Tensor(VALUES)
    check(t, VALUES)
    check(VALUES, t)
    for pair in ((t, other), (other, t)):
        with pytest.raises(AssertionError):
            check(*pair)


def test_numpys_assertions_take_two_tensors() -> None:
    t = Tensor(VALUES)
    for name in ("allclose", "array_equal", "array_almost_equal"):
        check, _ = ASSERTIONS[name]
        check(t, t)
        with pytest.raises(AssertionError):
            check(t, t + 1)
    np.testing.assert_array_less(t, t + 1)
    with pytest.raises(AssertionError):
        np.testing.assert_array_less(t, t)


# matplotlib

X, Y = Tensor([1.0, 2.0, 3.0]), Tensor([4.0, 6.0, 5.0])


@pytest.fixture
def axes() -> Any:
    figure, axes = plt.subplots()
    yield axes
    figure.canvas.draw()
    plt.close(figure)


def test_plot(axes: Any) -> None:
    (line,) = axes.plot(X, Y)
    np.testing.assert_array_equal(line.get_xydata(), np.stack([X.data, Y.data], 1))
    lines = axes.plot(Tensor(VALUES))
    assert [list(line.get_ydata()) for line in lines] == VALUES.T.tolist()
    (line,) = axes.plot([Tensor(1.0), Tensor(2.0)])  # losses, as they come
    assert list(line.get_ydata()) == [1, 2]


def test_imshow(axes: Any) -> None:
    np.testing.assert_array_equal(axes.imshow(Tensor(VALUES)).get_array(), VALUES)
    axes.imshow(Tensor(np.zeros((2, 2, 3), np.uint8)))


def test_hist(axes: Any) -> None:
    counts, edges, _ = axes.hist(Y, bins=2)
    wanted = np.histogram(Y.data, 2)
    np.testing.assert_array_equal(counts, wanted[0])
    np.testing.assert_allclose(edges, wanted[1])
    counts, _, _ = axes.hist(Tensor(VALUES), bins=2)
    np.testing.assert_array_equal(counts, axes.hist(VALUES, bins=2)[0])
    axes.hist([X, Y], weights=[X, Y])


def test_other_plots(axes: Any) -> None:
    np.testing.assert_array_equal(
        axes.scatter(X, Y, c=X, s=Y).get_offsets(), np.stack([X.data, Y.data], 1)
    )
    assert [bar.get_height() for bar in axes.bar(X, Y)] == [4, 6, 5]
    axes.errorbar(X, Y, yerr=X)
    axes.fill_between(X, X, Y)
    axes.boxplot(Tensor(VALUES))
    axes.contour(Tensor(VALUES))
    axes.pcolormesh(Tensor(VALUES))
    axes.axhline(Tensor(1.0))


def test_a_tensor_that_requires_grad_is_not_plotted(axes: Any) -> None:
    for plot in (axes.plot, axes.imshow, axes.hist):
        with pytest.raises(RuntimeError, match=r"detach\(\)"):
            plot(leaf(2, 2))


# pandas


def test_a_series_of_a_tensor() -> None:
    series = pd.Series(X)
    assert series.dtype == np.float32 and series.tolist() == [1, 2, 3]
    assert pd.Series(Tensor([True, False])).dtype == bool
    assert pd.Index(Tensor([3, 1])).tolist() == [3, 1]
    assert (series + Y).tolist() == [5, 8, 8]


def test_a_frame_of_tensors() -> None:
    np.testing.assert_array_equal(pd.DataFrame(Tensor(VALUES)).to_numpy(), VALUES)
    frame = pd.DataFrame({"x": X, "n": Tensor([1, 2, 3])}, index=Tensor([7, 8, 9]))
    assert [str(dtype) for dtype in frame.dtypes] == ["float32", "int64"]
    frame["y"] = Y
    assert frame.loc[8].tolist() == [2, 2, 6]
    assert frame["x"].mean() == 2


def test_a_tensor_of_a_series_or_a_frame() -> None:
    assert Tensor(pd.Series([1.0, 2.0])).tolist() == [1, 2]
    np.testing.assert_array_equal(Tensor(pd.DataFrame(VALUES)), VALUES)


def test_a_tensor_that_requires_grad_is_refused() -> None:
    for make in (pd.Series, pd.DataFrame, lambda t: pd.DataFrame({"a": t})):
        with pytest.raises(RuntimeError, match=r"requires grad; use tensor\.detach\(\)\.numpy\(\)"):
            make(leaf(3))
