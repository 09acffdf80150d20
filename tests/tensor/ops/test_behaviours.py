"""Small inputs with their right answers, each a behaviour that users have asked about."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import tensor as st
from tensor import ShapeError, Tensor, grad

inf, nan = math.inf, math.nan


def leaf(*values: Any, dtype: str = "float64") -> Tensor:
    return Tensor(np.array(values, dtype), requires_grad=True)


def slope(function: Callable[[Tensor], Tensor], *values: float, dtype: str = "float64") -> Any:
    """The gradient of the sum of a function of a vector."""
    x = leaf(*values, dtype=dtype)
    (g,) = grad(function(x).sum(), x)
    assert g is not None
    return g.data


# Shapes and indexing


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


def test_reductions_of_nothing() -> None:
    x = Tensor(np.zeros((0, 3)))
    assert x.sum().item() == 0
    assert math.isnan(x.mean().item()) and math.isnan(x.var().item())
    assert x.logsumexp((0, 1)).item() == -inf
    for choose in (st.max, st.min, st.argmax, st.argmin):
        with pytest.raises(ShapeError, match="no elements"):
            choose(x)


UNFIT: dict[str, tuple[type[Exception], Callable[[Tensor], Any]]] = {
    "a sum that does not broadcast": (RuntimeError, lambda x: x + Tensor([1.0, 2.0])),
    "a product of unlike lengths": (RuntimeError, lambda x: x @ x),
    "a shape of other size": (RuntimeError, lambda x: x.reshape(5)),
    "a dimension too many": (IndexError, lambda x: x.sum(2)),
    "a dimension twice": (RuntimeError, lambda x: x.sum((0, 0))),
    "a dimension twice, once negative": (RuntimeError, lambda x: x.mean((1, -1))),
    "an index too large": (IndexError, lambda x: x[2]),
    "an index too low": (IndexError, lambda x: x[:, -4]),
    "an index that is no integer": (IndexError, lambda x: x[1.0]),
    "a tensor of such indices": (IndexError, lambda x: x[Tensor([0.0])]),
}


@pytest.mark.parametrize("what", UNFIT)
def test_shapes_dimensions_and_indices_that_do_not_fit(what: str) -> None:
    error, call = UNFIT[what]
    x = Tensor(np.ones((2, 3)), requires_grad=True)
    with pytest.raises(error):
        call(x)
    assert x.grad is None and x.version == 0
    (x * 2).sum().backward()
    assert x.grad is not None


LISTS: dict[str, tuple[list[int], Callable[[Tensor, list[int]], Tensor]]] = {
    "permute": ([1, 0], st.permute),
    "sum": ([1], st.sum),
    "var": ([1], st.var),
    "logsumexp": ([0], st.logsumexp),
    "reshape": ([3, 2], st.reshape),
    "expand": ([4, 2, 3], st.expand),
    "index": ([1, 0, 0], lambda x, numbers: x[numbers]),
    "index of a column": ([0, 2], lambda x, numbers: x[:, numbers]),
    "layer_norm": ([3], lambda x, numbers: st.layer_norm(x, None, None, numbers)),
}


@pytest.mark.parametrize("name", LISTS)
def test_a_list_given_as_an_argument_may_be_changed_afterwards(name: str) -> None:
    given, call = LISTS[name]
    values = np.random.default_rng(0).normal(size=(2, 3))

    def gradient(change: bool) -> Any:
        x, numbers = Tensor(values, requires_grad=True), list(given)
        y = call(x, numbers)
        if change:
            numbers[:] = [*numbers[::-1], 0]
        (g,) = grad((y * y).sum(), x)
        assert g is not None
        return g.data

    np.testing.assert_array_equal(gradient(True), gradient(False))


# dtype


@pytest.mark.parametrize("order", [">", "<"])
def test_the_byte_order_of_an_operand_does_not_matter(order: str) -> None:
    array = np.array([1.5, -2.0]).astype(f"{order}f8")
    x = leaf(2.0, 3.0)
    out = x * array
    assert out.data.dtype.isnative and out.tolist() == [3, -6]
    (g,) = grad(out.sum(), x)
    assert g is not None and g.tolist() == [1.5, -2]


@pytest.mark.parametrize(
    ("operand", "what"),
    [
        (np.array([object()]), "object"),
        (np.array(["a"]), "<U1"),
        (np.array([1j]), "complex128"),
        (np.ma.masked_array([1.0], [True]), "masked"),
        (np.array(["2020-01-01"], "datetime64[D]"), "datetime64"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_a_tensor_cannot_hold_is_refused_on_either_side(operand: Any, what: str) -> None:
    x = leaf(1.0)
    calls = [lambda: x + operand, lambda: st.maximum(x, operand), lambda: st.sub(operand, x)]
    if what != "masked":  # numpy does not ask the Tensor there
        calls.append(lambda: operand + x)
    for call in calls:
        with pytest.raises(TypeError, match=what):
            call()


def test_a_number_that_no_integer_can_hold_is_refused() -> None:
    for x in (leaf(1.0), Tensor([1, 2])):
        for number in (2**63, -(2**63) - 1, 10**400):
            with pytest.raises(TypeError, match="does not fit into int64; write it as a float"):
                x + number
    assert (leaf(1.0) * 1e30).item() == 1e30
    assert (Tensor([0]) + -(2**63)).item() == -(2**63)
    assert (Tensor([0]) + (2**63 - 1)).item() == 2**63 - 1


@pytest.mark.parametrize("dtype", ["uint8", "int8", "int32", "int64"])
def test_targets_may_be_integers_of_any_size(dtype: str) -> None:
    logits = np.random.default_rng(2).normal(size=(3, 200))
    target = np.array([100, 3, 99])
    for classes in (target, target + (56 if dtype != "int8" else 0)):  # 156 is -100 in uint8
        x, y = Tensor(logits, requires_grad=True), Tensor(logits, requires_grad=True)
        loss = st.cross_entropy(x, Tensor(classes, dtype))
        wanted = st.cross_entropy(y, classes)
        assert loss.item() == wanted.item()
        for create_graph in (False, True):
            gx = grad(loss, x, create_graph=create_graph, retain_graph=True)[0]
            gy = grad(wanted, y, create_graph=create_graph, retain_graph=True)[0]
            assert gx is not None and gy is not None
            np.testing.assert_array_equal(gx.data, gy.data)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int64", "bool"])
def test_a_choice_of_zero_is_a_choice_whatever_the_other_side_holds(dtype: str) -> None:
    values = np.array([[-inf, -2.5, -0.0], [0.0, 1.5, nan], [inf, 3.0, 5e-8]])
    zeros: list[Any] = [0, 0.0, -0.0, np.zeros(3, dtype)]
    if dtype in ("int64", "bool"):
        values, zeros = np.arange(-4, 5).reshape(3, 3), [False, np.zeros(3, dtype)]
    a = values.astype(dtype)
    for mask in (a > 0, np.array([True, False, True]), np.array([[False], [True], [True]])):
        for zero in zeros:
            wide = np.asarray(zero).astype(dtype)
            for ours, wanted in (
                (st.where(mask, Tensor(a), zero), np.where(mask, a, wide)),
                (st.where(mask, zero, Tensor(a)), np.where(mask, wide, a)),
            ):
                assert ours.dtype == wanted.dtype
                assert ours.data.tobytes() == wanted.tobytes()


# Numbers


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_ieee_values_without_an_exception_or_a_warning(dtype: str) -> None:
    def at(*values: float) -> Tensor:
        return Tensor(np.array(values, dtype))

    assert (at(1, -1) / at(0, 0)).tolist() == [inf, -inf]
    assert math.isnan((at(0) / at(0)).item())
    assert at(0).log().item() == -inf and math.isnan(at(-1).log().item())
    assert at(0).sqrt().item() == 0 and math.isnan(at(-1).sqrt().item())
    assert (at(0) ** 0).item() == 1 and (at(0) ** -1).item() == inf
    assert (at(-0.0) ** -1).item() == -inf
    assert math.isnan((at(-8) ** (1 / 3)).item())
    assert (at(-2) ** at(3)).item() == -8 and (at(-2) ** at(-2)).item() == 0.25
    assert at(1000).exp().item() == inf and at(-1000).exp().item() == 0
    assert at(1e4, -1e4).tanh().tolist() == [1, -1]
    assert at(1e4, -1e4).sigmoid().tolist() == [1, 0]
    assert at(-750).sigmoid().item() < 1e-30


def test_slopes_at_points_without_one_are_torch_s() -> None:
    assert slope(lambda x: x.sqrt(), 0.0, 4.0).tolist() == [inf, 0.25]
    assert slope(lambda x: x.log(), 0.0).tolist() == [inf]
    assert slope(lambda x: x.abs(), 0.0, -0.0, -2.0).tolist() == [0, 0, -1]
    assert slope(lambda x: x.relu(), 0.0, -1.0, 1.0).tolist() == [0, 0, 1]
    assert slope(lambda x: x.tanh(), 1e4, -1e4).tolist() == [0, 0]
    assert slope(lambda x: x.sigmoid(), 1e4, -1e4).tolist() == [0, 0]
    assert slope(lambda x: x.exp(), 1000.0).tolist() == [inf]
    assert slope(lambda x: x.clip(0, 1), -0.1, 0.0, 0.5, 1.0, 1.1).tolist() == [0, 1, 1, 1, 0]


def test_a_masked_infinity_stays_out_of_the_gradient() -> None:
    # sqrt has an infinite slope at 0, which relu's 0 must stop.
    assert slope(lambda x: x.relu().sqrt(), -1.0, 4.0).tolist() == [0, 0.25]
    assert slope(lambda x: st.maximum(x, 0.0).sqrt(), -1.0, 4.0).tolist() == [0, 0.25]
    assert slope(lambda x: x.clip(0).sqrt(), -1.0, 4.0).tolist() == [0, 0.25]


def test_powers_at_zero_have_flat_slopes() -> None:
    a, b = leaf(0.0), leaf(1.0)
    ga, gb = grad((a**b).sum(), [a, b])
    assert ga is not None and gb is not None
    assert (ga.item(), gb.item()) == (1, 0)
    assert slope(lambda x: x**0, 0.0, 2.0).tolist() == [0, 0]
    assert slope(lambda x: x**1, 0.0).tolist() == [1]
    assert slope(lambda x: x**2, 0.0, -3.0).tolist() == [0, -6]
    assert slope(lambda x: x**3, 0.0, -2.0).tolist() == [0, 12]
    assert slope(lambda x: 0.0**x, 2.0, 0.0).tolist() == [0, 0]
    assert slope(lambda x: 2.0**x, 3.0)[0] == pytest.approx(8 * math.log(2))


@pytest.mark.parametrize(
    ("base", "exponent", "derivatives"),
    [
        (0.0, 3.0, [0, 0, 6, 0]),
        (0.0, 2.0, [0, 2, 0, 0]),
        (0.0, 1.0, [1, 0, 0, 0]),
        (0.0, 0.0, [0, 0, 0, 0]),
        (-2.0, 3.0, [12, -12, 6, 0]),
        (-2.0, -1.0, [-1 / 4, -1 / 4, -3 / 8, -3 / 4]),
        (4.0, 0.5, [1 / 4, -1 / 32, 3 / 256, -15 / 2048]),
    ],
)
def test_four_derivatives_of_a_power(
    base: float, exponent: float, derivatives: list[float]
) -> None:
    x = leaf(base)
    y, found = (x**exponent).sum(), []
    for _ in range(4):
        (g,) = grad(y, x, create_graph=True)
        assert g is not None
        y = g.sum()
        found.append(y.item())
    assert found == derivatives


def test_derivatives_by_the_exponent_of_a_power_of_zero_are_zero() -> None:
    x = leaf(0.5, 1.0, 2.0)
    y = (0.0**x).sum()
    for _ in range(3):
        (g,) = grad(y, x, create_graph=True)
        assert g is not None and g.tolist() == [0, 0, 0]
        y = g.sum()


def test_equal_operands_share_the_gradient_of_their_maximum() -> None:
    for choose in (st.maximum, st.minimum):
        a, b = leaf(2.0), leaf(2.0)
        ga, gb = grad(choose(a, b).sum(), [a, b])
        assert ga is not None and gb is not None and ga.tolist() == gb.tolist() == [0.5]
        x = leaf(2.0)
        (g,) = grad(choose(x, x).sum(), x)
        assert g is not None and g.tolist() == [1]


def test_ties_share_the_gradient_over_all_and_the_first_wins_along_a_dimension() -> None:
    for choose in (st.max, st.min):
        assert slope(lambda x, f=choose: f(x), 3.0, 3.0, 3.0).tolist() == [1 / 3] * 3
        x = Tensor(np.full((2, 3), 5.0), requires_grad=True)
        chosen = choose(x, 1)
        assert chosen.indices.tolist() == [0, 0]
        (g,) = grad(chosen.values.sum(), x)
        assert g is not None and g.tolist() == [[1, 0, 0], [1, 0, 0]]


def test_a_branch_not_taken_is_nan_unless_its_argument_is_chosen_too() -> None:
    def naive(a: Tensor) -> Tensor:
        return st.where(a <= 0, a.exp(), 1 + a)

    def careful(a: Tensor) -> Tensor:
        return st.where(a <= 0, st.where(a <= 0, a, 0).exp(), 1 + a)

    assert math.isnan(slope(naive, 100.0, dtype="float32")[0])
    assert slope(careful, 100.0, dtype="float32").tolist() == [1]


def test_a_constant_has_variance_0_with_slope_0() -> None:
    assert slope(lambda x: x.var(), 3.0, 3.0, 3.0).tolist() == [0, 0, 0]
    assert slope(lambda x: (x * x).sum(), 0.0, 0.0).tolist() == [0, 0]


def test_a_variance_without_degrees_of_freedom() -> None:
    with pytest.warns(UserWarning, match="degrees of freedom"):
        wanted = torch.tensor([1.0, 2.0, 3.0]).var(correction=5).item()
    x = leaf(1.0, 2.0, 3.0)
    assert x.var(correction=3).item() == x.var(correction=5).item() == wanted == inf
    assert math.isnan(leaf(1.0).var().item())
    np.testing.assert_array_equal(
        slope(lambda x: x.var(correction=3), 1.0, 2.0, 3.0), [-inf, nan, inf]
    )


def test_cross_entropy_of_large_logits() -> None:
    x = Tensor(np.array([[-431.0, 279.0, 427.0]]), requires_grad=True)
    loss = st.cross_entropy(x, np.array([0]))
    assert loss.item() == 858
    (g,) = grad(loss, x)
    assert g is not None
    np.testing.assert_allclose(g.data, [[-1, 0, 1]], atol=1e-60)


def test_cross_entropy_in_closed_form() -> None:
    logits = np.random.default_rng(0).normal(size=(5, 4))
    target = np.array([3, 0, 1, 1, 2])
    x = Tensor(logits, requires_grad=True)
    (g,) = grad(st.cross_entropy(x, target), x)
    assert g is not None
    softmax = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    np.testing.assert_allclose(g.data, (softmax - np.eye(4)[target]) / 5, rtol=1e-13, atol=1e-15)


def test_ignored_rows_count_for_nothing() -> None:
    logits = np.random.default_rng(1).normal(size=(5, 4))
    target = np.array([3, -100, 1, -100, 2])
    kept = target != -100
    for smoothing in (0.0, 0.2):
        for reduction in ("mean", "sum"):
            settings = {"reduction": reduction, "label_smoothing": smoothing}
            x, y = Tensor(logits, requires_grad=True), Tensor(logits[kept], requires_grad=True)
            loss = st.cross_entropy(x, target, **settings)
            wanted = st.cross_entropy(y, target[kept], **settings)
            assert loss.item() == pytest.approx(wanted.item(), rel=1e-14)
            gx, gy = grad(loss, x)[0], grad(wanted, y)[0]
            assert gx is not None and gy is not None
            np.testing.assert_allclose(gx.data[kept], gy.data, rtol=1e-13)
            np.testing.assert_array_equal(gx.data[~kept], 0)


def test_a_loss_of_ignored_rows_alone() -> None:
    x, target = Tensor(np.ones((2, 3)), requires_grad=True), np.full(2, -100)
    assert math.isnan(st.cross_entropy(x, target).item())
    total = st.cross_entropy(x, target, reduction="sum")
    assert total.item() == 0
    (g,) = grad(total, x)
    assert g is not None and not g.data.any()


def test_logsumexp_of_infinities() -> None:
    rows = np.array([[-inf, -inf], [-inf, 0.5], [0.0, 0.0]])
    x = Tensor(rows, requires_grad=True)
    y = x.logsumexp(1)
    np.testing.assert_allclose(y.data, [-inf, 0.5, math.log(2)])
    for create_graph in (False, True):
        (g,) = grad(y.sum(), x, create_graph=create_graph, retain_graph=True)
        assert g is not None
        np.testing.assert_allclose(g.data, [[0, 0], [0, 1], [0.5, 0.5]])


def test_softmax_of_a_row_that_is_partly_minus_infinity() -> None:
    x = Tensor(np.array([-inf, 0.0, 0.0]), requires_grad=True)
    assert x.softmax(0).tolist() == [0, 0.5, 0.5]
    (g,) = grad(x.softmax(0), x, Tensor(np.array([5.0, 1.0, 2.0])))
    assert g is not None
    np.testing.assert_allclose(g.data, [0, -0.25, 0.25])


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_large_numbers_do_not_overflow_on_the_way(dtype: str) -> None:
    top = float(np.finfo(dtype).max) * 0.9
    x = Tensor(np.array([top, top, -top], dtype), requires_grad=True)
    for y in (x.softmax(0), x.log_softmax(0)[:2], x.logsumexp(0), x.sigmoid(), x.tanh()):
        assert np.isfinite(y.data).all()
        (g,) = grad(y.sum(), x)
        assert g is not None and np.isfinite(g.data).all()


# Sums of halves: one by one, they would stop at 2048.
MANY = 5000

HALVES: dict[str, tuple[Callable[..., Tensor], tuple[tuple[int, ...], ...]]] = {
    "sum": (lambda a: a.sum(0), ((MANY, 2),)),
    "mean": (lambda a: a.mean(0), ((MANY, 2),)),
    "std": (lambda a: a.std(0) * 10, ((MANY, 2),)),
    "norm": (lambda a: a.norm(2, 0), ((MANY, 2),)),
    "cumsum": (lambda a: a.cumsum(0)[::1000], ((MANY, 2),)),
    "softmax": (lambda a: a.softmax(0) * 1000, ((MANY, 2),)),
    "log_softmax": (lambda a: a.log_softmax(0), ((MANY, 2),)),
    "logsumexp": (lambda a: a.logsumexp(0), ((MANY, 2),)),
    "matmul": (lambda a, b: a @ b, ((2, MANY), (MANY, 2))),
    "linear": (st.linear, ((MANY, 2), (2, 2), (2,))),
    "layer_norm": (lambda a, w, b: st.layer_norm(a, w, b, 2), ((MANY, 2), (2,), (2,))),
    "embedding": (lambda w: st.embedding(w, np.zeros(MANY, int)), ((3, 2),)),
    "index": (lambda a: a[np.zeros(MANY, int), np.zeros(MANY, int)], ((3, 2),)),
    "broadcast": (lambda a: a * np.ones((MANY, 1)), ((1, 2),)),
}


@pytest.mark.parametrize("name", HALVES)
def test_sums_of_halves_are_made_in_single_precision(name: str) -> None:
    function, shapes = HALVES[name]
    rng = np.random.default_rng(3)
    arrays = [rng.uniform(0.9, 1.1, shape).astype(np.float16) for shape in shapes]
    weights = rng.uniform(0.5, 1.5, function(*map(Tensor, arrays)).shape).astype(np.float16)

    def results(dtype: str) -> list[Any]:
        operands = [Tensor(a, dtype, requires_grad=True) for a in arrays]
        out = function(*operands)
        found = grad(out, operands, Tensor(weights))
        return [out.data, *(g.data for g in found if g is not None)]

    for half, exact in zip(results("float16"), results("float64"), strict=True):
        assert half.dtype == np.float16
        np.testing.assert_allclose(half, exact, rtol=5e-3, atol=5e-3)


def test_squares_of_halves_do_not_overflow_on_the_way() -> None:
    values = np.zeros(100, np.float16)
    values[0] = 300
    assert Tensor(values).var().item() == 900
    normal = st.layer_norm(Tensor(np.array([300, -300], np.float16)), None, None, 2)
    assert normal.tolist() == [1, -1]
