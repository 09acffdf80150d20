"""The kernels that numba compiles, against numpy's, and how one or the other is chosen."""

from __future__ import annotations

import inspect
import itertools
import os
import subprocess
import sys
import textwrap
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest

import tensor
from tensor import Tensor, optim
from tensor.dispatch import OPS, quietly
from tensor.kernels import (
    choice,
    compiled,
    gemm,
    jit,
    norms,
    optimizers,
    reference,
    rows,
    scatter,
    special_loops,
    steps,
)
from tensor.kernels import special as functions
from tests.tensor.ops.harness import every, weights_for
from tests.tensor.ops.table import Sample
from tests.tensor.ops.test_rules import arguments
from tests.tensor.optim.cases import CASES
from tests.tensor.tolerances import assert_close

Array = np.ndarray[Any, Any]

# The ops that run on kernels with twins.
OPS_WITH_TWINS: Final = (
    "linear", "sum", "softmax", "log_softmax", "cross_entropy", "layer_norm", "rms_norm",
    "group_norm", "batch_moments", "batch_norm", "erf", "gelu",
)  # fmt: skip

# What IEEE arithmetic has beside ordinary numbers: the last are denormal in both dtypes.
SPECIAL: Final = (0.0, -0.0, np.nan, np.inf, -np.inf, 1e-30, -1e30, 1e-40, 5e-324)

both_dtypes = pytest.mark.parametrize("dtype", ["float32", "float64"])


def under(kernels: str, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    with tensor.use_kernels(kernels):
        return quietly().run(function, *args, **kwargs)


def numbers(seed: int, shape: tuple[int, ...], dtype: str, special: bool = False) -> Array:
    rng = np.random.default_rng(seed)
    values = rng.normal(size=shape)
    if special:
        where = rng.integers(0, 4, shape) == 0
        values = np.where(where, rng.choice(SPECIAL, shape), values)
    with np.errstate(over="ignore", under="ignore"):
        return values.astype(dtype)


def assert_same_bits(one: Array, other: Array) -> None:
    """Fail unless the arrays are equal bit for bit; every NaN counts as the same."""
    assert one.dtype == other.dtype and one.shape == other.shape
    bits = f"u{one.itemsize}"
    here, there = (
        np.where(np.isnan(a), np.nan, a).astype(a.dtype).view(bits) for a in (one, other)
    )
    np.testing.assert_array_equal(here, there)


def test_bits_that_differ_are_found() -> None:
    one = np.array([0.0, np.nan])
    assert_same_bits(one, np.array([0.0, -np.nan]))
    for other in ([-0.0, np.nan], [5e-324, np.nan], [0.0, 0.0]):
        with pytest.raises(AssertionError):
            assert_same_bits(one, np.array(other))


# The choice


def test_numba_is_the_default_where_it_can_be_imported() -> None:
    code = "import tensor; print(tensor.kernels_in_use())"
    for given, expected in (({}, "numba"), ({"SMOLGRAD_KERNELS": "numpy"}, "numpy")):
        assert run(code, given) == expected


def test_kernels_hold_until_the_end_of_a_block_or_from_now_on() -> None:
    with tensor.use_kernels("numpy"):
        assert tensor.kernels_in_use() == "numpy"
        with tensor.use_kernels("numba"):
            assert tensor.kernels_in_use() == "numba"
        assert tensor.kernels_in_use() == "numpy"
        tensor.use_kernels("numba")
        assert tensor.kernels_in_use() == "numba"


def test_other_names_are_refused() -> None:
    before = tensor.kernels_in_use()
    with pytest.raises(ValueError, match=r"must be one of \('numpy', 'numba'\), got 'cuda'"):
        tensor.use_kernels("cuda")
    assert tensor.kernels_in_use() == before


def test_numba_that_is_not_there_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choice, "find_spec", lambda name: None)
    with tensor.use_kernels("numpy"), pytest.raises(ImportError, match=r"smolgrad\[fast\]"):
        tensor.use_kernels("numba")


def test_every_twin_belongs_to_a_kernel_of_its_name_and_parameters() -> None:
    kernels = (optimizers, reference, norms, scatter, functions)
    modules = (gemm, jit, rows, special_loops, steps)
    assert [module.__name__.rpartition(".")[2] for module in modules] == list(choice.TWINS)
    twins = {name: getattr(module, name) for module in modules for name in module.__all__}
    for name, twin in twins.items():
        (kernel,) = (getattr(module, name) for module in kernels if hasattr(module, name))
        wanted, found = (list(inspect.signature(f).parameters) for f in (kernel, twin))
        assert wanted == found, name
    assert sorted(twins) == sorted(choice._accelerated)


def test_a_twin_is_asked_first_and_may_leave_operands_to_numpy(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[Any] = []

    def twin(a: Array) -> Any:
        asked.append(a)
        return NotImplemented if a.ndim == 0 else "twin"

    def kernel(a: Array) -> Any:
        """Say who answers."""
        return "numpy"

    monkeypatch.setattr(choice, "_accelerated", [*choice._accelerated])
    chosen = choice.accelerated(kernel)
    assert chosen.__doc__ == kernel.__doc__
    assert inspect.signature(chosen) == inspect.signature(kernel)
    monkeypatch.setattr(choice, "_twins", {"kernel": twin})
    assert chosen(np.ones(2)) == "twin" and chosen(np.ones(())) == "numpy"
    assert len(asked) == 2
    monkeypatch.setattr(choice, "_twins", {})
    assert chosen(np.ones(2)) == "numpy" and len(asked) == 2


def test_a_twin_that_fails_is_given_up_with_one_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    def twin(*args: Any) -> Any:
        raise RuntimeError("no compiler\nand more")

    a = np.ones((2, 3))
    monkeypatch.setattr(choice, "_twins", dict.fromkeys(choice._accelerated, twin))
    with pytest.warns(RuntimeWarning, match=r"failed \(RuntimeError: no compiler\)") as caught:
        totals = [reference.sum(a, (0,), False).tolist() for _ in range(2)]
    assert totals == [[2.0, 2.0, 2.0]] * 2
    assert len(caught) == 1
    assert tensor.kernels_in_use() == "numpy"


def run(code: str, environment: Mapping[str, str] | None = None) -> str:
    """What a new process prints that runs ``code`` with warnings as errors."""
    root = Path(tensor.__file__).parent.parent
    inherited = {k: v for k, v in os.environ.items() if k != "SMOLGRAD_KERNELS"}
    result = subprocess.run(
        [sys.executable, "-W", "error", "-c", textwrap.dedent(code)],
        env={**inherited, "PYTHONPATH": str(root), **(environment or {})},
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    return result.stdout.strip()


def test_numba_is_imported_by_the_first_kernel_that_needs_it() -> None:
    code = """
        import sys, tensor
        x = tensor.ones((2, 3)) * 2 + 1
        assert "numba" not in sys.modules
        x.sum(0)
        print("numba" in sys.modules)
    """
    assert run(code) == "True"
    assert run(code, {"SMOLGRAD_KERNELS": "numpy"}) == "False"


def test_numba_that_cannot_be_imported_is_given_up_with_a_warning(tmp_path: Path) -> None:
    (tmp_path / "numba.py").write_text("raise ImportError('it needs another numpy')")
    code = f"""
        import sys, warnings
        sys.path.insert(0, {str(tmp_path)!r})
        import tensor
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            total = tensor.ones((2, 3)).sum(0)
            total = tensor.ones((2, 3)).sum(0)
        print(len(caught), "it needs another numpy" in str(caught[0].message), total.tolist())
        print(tensor.kernels_in_use())
    """
    assert run(code).split("\n") == ["1 True [2.0, 2.0, 2.0]", "numpy"]


def test_without_a_folder_for_the_cache_kernels_are_compiled_anew(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    right = compiled.numba.njit

    def njit(function: Any, cache: bool = False, **flags: Any) -> Any:
        if cache:
            raise RuntimeError("cannot cache function: no locator available")
        return right(function, **flags)

    monkeypatch.setattr(compiled.numba, "njit", njit)

    def twice(a: Any) -> Any:
        return a + a

    assert compiled.exact(twice)(1.5) == 3.0


# Optimizers, bit for bit


@both_dtypes
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_an_optimizer_takes_the_same_steps_bit_for_bit(case: Any, dtype: str) -> None:
    trajectories = []
    for kernels in ("numpy", "numba"):
        with tensor.use_kernels(kernels):
            params = [Tensor(numbers(i, (9 + 40 * i,), dtype, i == 1)) for i in range(2)]
            for p in params:
                p.requires_grad_()
            optimizer = getattr(optim, case.name)(params, **case.options)
            seen: list[Array] = []
            for step in range(3):
                for i, p in enumerate(params):
                    p.grad = Tensor(numbers(10 * step + i, p.shape, dtype, i == 1))
                optimizer.step()
                for p in params:
                    seen.append(p.data.copy())
                    state = optimizer.state.get(p, {})
                    seen += [np.copy(state[k]) for k in sorted(state) if k != "step"]
            trajectories.append(seen)
    for one, other in zip(*trajectories, strict=True):
        assert_same_bits(one, other)


def test_optimizers_of_half_precision_are_left_to_numpy() -> None:
    p = np.ones(5, np.float16)
    work = optimizers.workspace(p.dtype)
    options: dict[str, Any] = {"lr": 0.1, "weight_decay": 0, "maximize": False, "momentum": 0}
    options |= {"dampening": 0, "nesterov": False, "step": 1}
    assert steps.sweep(optimizers.sgd, p, p.copy(), {}, work, **options) is NotImplemented


# Layers, bit for bit

SHAPES: Final = ((1, 1), (3, 5), (7, 130), (0, 4), (4, 0))


@both_dtypes
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("activation", [None, "relu", "tanh", "sigmoid"])
def test_bias_and_activation_are_applied_bit_for_bit(
    activation: str | None, shape: tuple[int, int], dtype: str
) -> None:
    product, bias = numbers(1, shape, dtype, True), numbers(2, shape[1:], dtype, True)
    results = []
    for kernels in choice.KERNELS:
        out = product.copy()
        under(kernels, reference.finish, out, bias, activation)
        results.append(out)
    assert_same_bits(*results)


@both_dtypes
@pytest.mark.parametrize("shape", [*SHAPES, (17, 40)])
@pytest.mark.parametrize("activation", [None, "relu", "tanh", "sigmoid"])
def test_a_product_is_turned_and_finished_bit_for_bit(
    activation: str | None, shape: tuple[int, int], dtype: str
) -> None:
    plain, bias = numbers(1, shape, dtype, True), numbers(2, shape[1:], dtype, True)
    turned = np.ascontiguousarray(plain.T)
    for kernels in choice.KERNELS:
        expected, out = plain.copy(), np.empty_like(plain)
        under(kernels, reference.finish, expected, bias, activation)
        under(kernels, reference.finish_turned, turned, bias, activation, out)
        assert_same_bits(out, expected)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int64"])
@pytest.mark.parametrize("shape", [(3, 5), (1, 130), (70, 1), (0, 4), (4, 0)])
def test_an_outer_product_rounds_once_with_either_kernels(
    shape: tuple[int, int], dtype: str
) -> None:
    m, n = shape
    a, b = numbers(1, (2 * m, 1), dtype)[::2], numbers(2, (1, 2 * n), dtype)[:, ::2]
    for kernels, given in itertools.product(choice.KERNELS, (False, True)):
        out = np.empty((m, n), dtype) if given else None
        result = under(kernels, reference.product, a, b, out)
        assert_same_bits(result, a * b)
        assert out is None or result is out


@both_dtypes
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("activation", [None, "relu", "tanh", "sigmoid"])
def test_the_gradients_of_activation_and_bias_are_those_of_numpy(
    activation: str | None, shape: tuple[int, int], dtype: str
) -> None:
    for special, summed in itertools.product((False, True), repeat=2):
        g, out = numbers(3, shape, dtype, special), numbers(4, shape, dtype, special)
        (one, total), (other, also) = (
            under(kernels, reference.activation_backward, g, out, activation, summed)
            for kernels in choice.KERNELS
        )
        assert_same_bits(one, other)
        assert (total is not None) == (also is not None) == summed
        if total is not None and also is not None:
            assert_close(also, total)


@both_dtypes
def test_a_sum_over_rows_is_that_of_numpy_bit_for_bit(dtype: str) -> None:
    for shape in (*SHAPES, (300, 33)):
        a = numbers(5, shape, dtype, shape == (3, 5))
        for keepdim in (False, True):
            one, other = (under(k, reference.sum, a, (0,), keepdim) for k in choice.KERNELS)
            assert_same_bits(np.asarray(one), np.asarray(other))


@pytest.mark.parametrize("width", [1, 15, 16, 17, 130])
def test_a_sum_of_each_row_is_that_of_numpy_within_rounding(width: int) -> None:
    for special in (False, True):
        a = numbers(width, (3, 4, width), "float32", special)
        for keepdim in (False, True):
            assert jit.sum(a, (2,), keepdim) is not NotImplemented
            one, other = (under(k, reference.sum, a, (2,), keepdim) for k in choice.KERNELS)
            assert_close(other, one)
    assert jit.sum(a.astype(np.float64), (2,), False) is NotImplemented
    assert jit.sum(a[..., :0], (2,), False) is NotImplemented


@both_dtypes
def test_a_sum_over_leading_dimensions_is_that_of_numpy(dtype: str) -> None:
    for shape in ((3, 4, 5), (2, 3, 2, 40), (0, 2, 3), (2, 3, 0)):
        a = numbers(5, shape, dtype, shape == (3, 4, 5))
        for count in range(1, len(shape)):
            over = tuple(range(count))
            for keepdim in (False, True):
                assert jit.sum(a, over, keepdim) is not NotImplemented
                one, other = (under(k, reference.sum, a, over, keepdim) for k in choice.KERNELS)
                assert_close(np.asarray(other), np.asarray(one))
        assert jit.sum(a, tuple(range(len(shape))), False) is NotImplemented


@both_dtypes
@pytest.mark.parametrize("shape", SHAPES)
def test_dropout_is_that_of_numpy_bit_for_bit(shape: tuple[int, int], dtype: str) -> None:
    a, mask = numbers(12, shape, dtype, True), numbers(13, shape, dtype) < 0.5
    for p in (0.0, 0.3, 1.0):
        one, other = (under(k, reference.dropout, a, mask, p) for k in choice.KERNELS)
        assert_same_bits(one, other)


@both_dtypes
def test_the_error_function_and_gelu_are_those_of_numpy_bit_for_bit(dtype: str) -> None:
    a = np.concatenate([np.linspace(-8, 8, 9001).astype(dtype), np.array(SPECIAL).astype(dtype)])
    g = numbers(14, a.shape, dtype)
    for x in (a, a[::-2], a[:0]):
        one, other = (under(k, functions.erf, x) for k in choice.KERNELS)
        assert_same_bits(one, other)
        for approximate in ("none", "tanh"):
            one, other = (under(k, functions.gelu, x, approximate) for k in choice.KERNELS)
            assert_same_bits(one, other)
            gradients = (
                under(k, functions.gelu_backward, g[: len(x)], (True,), x, approximate)[0]
                for k in choice.KERNELS
            )
            assert_same_bits(*gradients)


# Layers that normalise, whatever their shape and layout


def normalised(kernels: str, a: Array, g: Array, groups: int, affine: bool) -> list[Array]:
    """Return what every kernel of normalisation makes of planes (N, C, ...)."""
    channels = a.shape[1]
    rng = np.random.default_rng(0)
    weight, bias, moments = (rng.normal(size=(k, channels)).astype(a.dtype) for k in (1, 1, 2))
    w, b = (weight[0], bias[0]) if affine else (None, None)
    statistics = np.abs(moments) + a.dtype.type(0.5)
    every = (True,) * 4
    shape = a.shape[2:]
    of_layer = np.ones(shape, a.dtype) * a.dtype.type(1.5) if affine else None
    return [
        under(kernels, norms.layer_norm, a, of_layer, of_layer, shape, 1e-5),
        *under(kernels, norms.layer_norm_backward, g, every[:3], a, of_layer, shape, 1e-5),
        under(kernels, norms.rms_norm, a, of_layer, shape, 1e-5),
        *under(kernels, norms.rms_norm_backward, g, every[:2], a, of_layer, shape, 1e-5),
        under(kernels, norms.group_norm, a, w, b, groups, 1e-5),
        *under(kernels, norms.group_norm_backward, g, every[:3], a, w, groups, 1e-5),
        under(kernels, norms.batch_moments, a),
        *under(kernels, norms.batch_moments_backward, moments, every[:1], a, statistics),
        under(kernels, norms.batch_norm, a, statistics, w, b, 1e-5),
        *under(kernels, norms.batch_norm_backward, g, every, a, statistics, w, 1e-5),
    ]


@both_dtypes
@pytest.mark.parametrize("affine", [False, True])
@pytest.mark.parametrize("shape", [(3, 4, 5), (5, 6, 1), (2, 2, 3, 7), (1, 4, 40), (0, 4, 3)])
def test_normalisation_agrees_between_the_kernels(
    shape: tuple[int, ...], affine: bool, dtype: str
) -> None:
    a, g = numbers(15, shape, dtype), numbers(16, shape, dtype)
    layouts: list[tuple[Array, Array]] = [(a, g)]
    layouts.append((np.asfortranarray(a), np.repeat(g, 2, axis=-1)[..., ::2]))
    layouts.append((a, np.broadcast_to(g[..., :1], shape)))
    for x, h in layouts:
        one, other = (normalised(k, x, h, 2, affine) for k in choice.KERNELS)
        for wanted, found in zip(one, other, strict=True):
            assert found.shape == wanted.shape
            assert_close(found, wanted)


# The rest, within rounding


def compare_op(name: str, sample: Sample, dtype: str) -> None:
    """Fail unless forward and fused pullback agree between the kernels."""
    op = OPS[name]
    values = arguments(name, sample, dtype)
    given = {k: values[k] for k in (*op.operands, *op.spec.attrs)}
    one, other = (np.asarray(under(k, op.kernel, **given)) for k in choice.KERNELS)
    assert_close(other, one, name)
    if op.fused is None:
        return
    g = weights_for(one)
    needs = [values[x] is not None and x != "target" for x in op.operands]
    mentioned = {x: values[x] for x in op.fused.names}
    pairs = (under(k, op.fused.function, g, needs, **mentioned) for k in choice.KERNELS)
    for need, a, b in zip(needs, *pairs, strict=True):
        assert (a is not None) == (b is not None) == need
        if need:
            assert_close(b, a, name)


@every(OPS_WITH_TWINS)
def test_ops_agree_between_the_kernels(name: str, sample: Sample) -> None:
    for dtype in ("float16", "float32", "float64"):
        compare_op(name, sample, dtype)


@every(OPS_WITH_TWINS, "points")
def test_ops_agree_between_the_kernels_at_their_points(name: str, point: Sample) -> None:
    for dtype in ("float32", "float64"):
        compare_op(name, point, dtype)


@pytest.mark.parametrize("width", [1, 10, 15, 16, 17, 65])
def test_softmax_and_its_kin_take_rows_of_any_length_and_not_a_number(width: int) -> None:
    for special in (False, True):
        a = numbers(width, (40, width), "float32", special)
        for kernel in (reference.softmax, reference.log_softmax):
            one, other = (under(k, kernel, a, 1) for k in choice.KERNELS)
            assert_close(other, one)
        target = np.arange(40) % width
        target[::7] = -100
        for reduction in ("mean", "sum"):
            one, other = (
                np.asarray(under(k, reference.cross_entropy, a, target, -100, reduction, 0.0))
                for k in choice.KERNELS
            )
            assert_close(other, one)
            g = np.array(1.5, np.float32)
            one, other = (
                under(
                    k, reference.cross_entropy_backward,
                    g, (True, False), a, target, -100, reduction, 0.0,
                )[0]
                for k in choice.KERNELS
            )  # fmt: skip
            assert_close(other, one)


@pytest.mark.parametrize("wrong", [-1, 10])
def test_a_class_that_is_none_is_refused_under_both_kernels(wrong: int) -> None:
    logits, target = Tensor(np.zeros((2, 10), np.float32)), Tensor(np.array([3, wrong]))
    messages = []
    for kernels in choice.KERNELS:
        with tensor.use_kernels(kernels), pytest.raises(IndexError) as caught:
            tensor.cross_entropy(logits, target)
        messages.append(str(caught.value))
    assert messages[0] == messages[1]


def test_normalisation_passes_not_a_number_on() -> None:
    a = numbers(6, (5, 33), "float32")
    a[2, 7], a[3, 0] = np.nan, np.inf
    w, g = numbers(7, (33,), "float32"), numbers(8, (5, 33), "float32")
    for function in (
        lambda: (norms.layer_norm(a, w, w, (33,), 1e-5),),
        lambda: norms.layer_norm_backward(g, (True,) * 3, a, w, (33,), 1e-5),
        lambda: norms.rms_norm_backward(g, (True,) * 2, a, w, (33,), 1e-5),
    ):
        for one, other in zip(*(under(k, function) for k in choice.KERNELS), strict=True):
            assert_close(other, one)


@both_dtypes
def test_arrays_that_do_not_lie_in_order_are_left_to_numpy(dtype: str) -> None:
    a = numbers(9, (6, 8), dtype)
    for view in (a.T, a[:, ::2], a[::-1], a.astype(a.dtype.newbyteorder())):
        assert jit.sum(view, (0,), False) is NotImplemented
        assert jit.softmax(view, 1) is NotImplemented
        one, other = (under(k, reference.sum, view, (0,), False) for k in choice.KERNELS)
        assert_close(other, one)


def test_a_read_only_operand_is_taken() -> None:
    a = numbers(10, (6, 8), "float32")
    a.flags.writeable = False
    one, other = (under(k, reference.softmax, a, 1) for k in choice.KERNELS)
    assert_close(other, one)


@both_dtypes
def test_rows_are_added_in_order_and_one_that_is_not_finite_spoils_its_own_place(
    dtype: str,
) -> None:
    values, indices = numbers(11, (50, 7), dtype), np.arange(50) * 3 % 8
    wanted = np.zeros((9, 7), dtype)
    np.add.at(wanted, indices, values)
    np.testing.assert_array_equal(jit.add_rows(values, indices, 9), wanted)
    values[4, 2], values[5, 0] = np.nan, np.inf
    one, other = (under(k, scatter.add_rows, values, indices, 9) for k in choice.KERNELS)
    assert np.isnan(one).sum() == 1
    assert_close(other, one)
