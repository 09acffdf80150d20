"""Scalarizing: every op of the table, expanded into numbers, gives what the array engine gives."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import micro
import tensor
from micro.value import OPS as SCALAR_OPS
from micro.value import Value, topological
from micro.vocab import VOCAB, OpSpec
from tensor import Tensor, softmax, trace
from tensor.dispatch import OPS, Rule, register, unregister
from tensor.expansions import ADJOINTS, EXPANSIONS, MOVES
from tensor.scalarize import scalarize
from tests.crosscheck.contraction import contracted, second_weights
from tests.tensor.ops.cases import CASES
from tests.tensor.ops.harness import (
    DIFFERENTIABLE,
    PRIMITIVE,
    call,
    every,
    leaves,
    requiring,
    weights_for,
)
from tests.tensor.ops.table import Sample
from tests.tensor.tolerances import assert_close

# Every op


def without_expansion(vocabulary: dict[str, OpSpec], expansions: Sequence[str]) -> list[str]:
    """The ops that scalarize cannot expand."""
    return [
        name
        for name, spec in vocabulary.items()
        if spec.differentiable
        and not spec.composite
        and name not in {*SCALAR_OPS, *MOVES, *ADJOINTS, *expansions}
    ]


def test_every_op_has_an_expansion() -> None:
    assert without_expansion(dict(VOCAB), list(EXPANSIONS)) == []


def test_an_op_without_an_expansion_is_named() -> None:
    expansions = [name for name in EXPANSIONS if name != "softmax"]
    assert without_expansion(dict(VOCAB), expansions) == ["softmax"]


def test_no_op_is_expanded_in_two_ways() -> None:
    ways = [*SCALAR_OPS, *MOVES, *ADJOINTS, *EXPANSIONS]
    assert len({*ways}) == len(ways)
    assert {*ways} <= {*PRIMITIVE}


def numbers(values: Any) -> np.ndarray[Any, Any]:
    """The data of an array of Values, or of one."""
    array = np.asarray(values, object)
    return np.array([float(x) for x in array.flat]).reshape(array.shape)


def check_sample(name: str, sample: Sample) -> None:
    """Value and gradients of the first two orders."""
    operands = leaves(name, sample)
    wanted = requiring(operands)
    scalar = scalarize(lambda: call(name, operands, sample.attrs))()
    out = call(name, operands, sample.attrs)
    where = f"{name} {sample}"
    assert_close(numbers(scalar.output), out.data, name, where)
    w = weights_for(out)
    first = tensor.grad([out], wanted, [Tensor(w)], create_graph=True, allow_unused=True)
    columns = [scalar.leaves.get(x) for x in wanted]
    values = [v for column in columns if column is not None for v in column.flat]
    total = contracted(scalar.output, w)
    if total is None or not values:
        assert all(g is None or not g.data.any() for g in first), where
        return
    mine = micro.grad(total, values, create_graph=True, allow_unused=True)
    by_value = dict(zip(map(id, values), mine, strict=True))
    for x, column, g in zip(wanted, columns, first, strict=True):
        if column is None:
            assert g is None or not g.data.any(), where
            continue
        data = [0.0 if (d := by_value[id(v)]) is None else float(d) for v in column.flat]
        expected = np.zeros(x.shape) if g is None else g.data
        assert_close(np.reshape(data, x.shape), expected, name, f"{where}: gradient")
    check_second(name, where, wanted, columns, first, by_value)


def check_second(
    name: str,
    where: str,
    wanted: Sequence[Tensor],
    columns: Sequence[Any],
    first: Sequence[Tensor | None],
    by_value: dict[int, Value | None],
) -> None:
    able = [g is not None and g.requires_grad for g in first]
    if not any(able):
        return
    weights = [second_weights(x.shape) for x in wanted]
    seeds = [Tensor(w) for w, ok in zip(weights, able, strict=True) if ok]
    outputs = [g for g, ok in zip(first, able, strict=True) if ok]
    second = tensor.grad(outputs, list(wanted), seeds, allow_unused=True)
    pairs = [
        (by_value[id(v)], c)
        for column, w, ok in zip(columns, weights, able, strict=True)
        if ok and column is not None
        for v, c in zip(column.flat, w.flat, strict=True)
    ]
    total = contracted(
        [g for g, _ in pairs if g is not None], [c for g, c in pairs if g is not None]
    )
    values = [v for column in columns if column is not None for v in column.flat]
    mine: Sequence[Any] = [None] * len(values)
    if total is not None:
        mine = micro.grad(total, values, allow_unused=True)
    again = iter(mine)
    for x, column, g in zip(wanted, columns, second, strict=True):
        if column is not None:
            data = [0.0 if (d := next(again)) is None else float(d) for _ in column.flat]
            expected = np.zeros(x.shape) if g is None else g.data
            assert_close(np.reshape(data, x.shape), expected, name, f"{where}: second derivative")


@every([name for name in DIFFERENTIABLE if name in CASES])
def test_values_and_gradients_of_two_orders_agree_with_the_array_engine(
    name: str, sample: Sample
) -> None:
    check_sample(name, sample)


def test_a_wrong_rule_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    rule = Rule(lambda xp, g, out, dim: out * (g + xp.sum(g * out, dim, True)), ("out", "dim"))
    monkeypatch.setitem(OPS["softmax"].rules, "a", rule)
    with pytest.raises(AssertionError, match=r"softmax .* gradient"):
        check_sample("softmax", CASES["softmax"].samples[0])


def test_a_wrong_expansion_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(EXPANSIONS, "mean", EXPANSIONS["sum"])
    with pytest.raises(AssertionError, match="mean"):
        check_sample("mean", CASES["mean"].samples[0])


# What the graph of numbers looks like


def leaf(*shape: int, label: str | None = None) -> Tensor:
    data = np.linspace(0.5, 2.0, int(np.prod(shape)))
    return Tensor(data.reshape(shape), requires_grad=True, label=label)


def test_elements_of_leaves_are_labelled_by_tensor_and_index() -> None:
    w, b, anonymous = leaf(2, 2, label="w"), leaf(label="b"), leaf(2)
    scalar = scalarize((w * b + anonymous).sum())
    assert [x.label for x in scalar.leaves[w].flat] == ["w[0,0]", "w[0,1]", "w[1,0]", "w[1,1]"]
    assert [x.label for x in scalar.leaves[b].flat] == ["b"]
    assert [x.label for x in scalar.leaves[anonymous].flat] == ["", ""]


def test_an_op_of_both_engines_keeps_its_name_and_attributes() -> None:
    out = scalarize(leaf(2).clip(max=0.75).tanh()).output
    assert [x.op for x in out] == ["tanh", "tanh"]
    assert [x.inputs[0].op for x in out] == ["clip", "clip"]
    assert out[0].inputs[0].attrs["max"] == 0.75


def test_a_matrix_product_is_products_and_sums() -> None:
    x, w = leaf(3), leaf(2, 3)
    scalar = scalarize(w @ x)
    assert [v.op for v in scalar.output] == ["add", "add"]
    ops = [v.op for v in topological(scalar.output[0])]
    assert sorted(ops) == ["", "", "", "", "", "", "add", "add", "mul", "mul", "mul"]


def test_moving_elements_makes_no_values() -> None:
    x = leaf(2, 3)
    scalar = scalarize(x.T.reshape(6)[::2])
    moved = [scalar.leaves[x].T.reshape(6)[i] for i in (0, 2, 4)]
    assert all(a is b for a, b in zip(scalar.output, moved, strict=True))


def test_intermediates_keep_their_shapes() -> None:
    x = leaf(2, 3, label="x")
    h = x.exp()
    y = h.sum(0)
    scalar = scalarize(y.mean())
    assert scalar[h].shape == (2, 3) and scalar[y].shape == (3,) and scalar[x].shape == (2, 3)
    assert isinstance(scalar.output, Value)
    with pytest.raises(KeyError, match=r"\(4,\)"):
        scalar[leaf(4)]


def test_several_outputs_share_their_graph() -> None:
    x = leaf(2)
    h = x.sin()
    scalar = scalarize([h * 2, h.sum()])
    doubled, total = scalar.output
    assert total.inputs[0] is doubled[0].inputs[0]


def test_what_is_detached_is_constant() -> None:
    x = leaf(2)
    scalar = scalarize(lambda x: (x.detach() * x, x.detach()))(x)
    product, detached = scalar.output
    assert [v.op for v in product[0].inputs] == ["const", ""]
    assert [v.op for v in detached] == ["const", "const"]


def test_numbers_may_be_of_another_kind() -> None:
    x = leaf(2)
    scalar = scalarize((x * x).mean(), number=Fraction)
    assert scalar.output.data == Fraction(17, 8)
    (g, _) = micro.grad(scalar.output, list(scalar.leaves[x]))
    assert g.data == Fraction(1, 2) and isinstance(g.data, Fraction)


def test_a_long_chain_is_expanded_without_recursion() -> None:
    x = leaf()
    y = x
    for _ in range(5_000):
        y = y + 1
    scalar = scalarize(y)
    scalar.output.backward()
    assert scalar.leaves[x].item().grad == 1


def test_a_traced_program_is_expanded_like_a_function() -> None:
    w = leaf(3, label="w")

    def loss(x: Tensor) -> dict[str, Tensor]:
        return {"loss": (softmax(w * x, -1) * np.array([1.0, 2.0, 3.0])).sum()}

    x = leaf(3)
    program = trace(loss)(x)
    scalar = scalarize(program)(x)
    out = scalar.output["loss"]
    out.backward()
    expected = loss(x)["loss"]
    expected.backward()
    assert float(out) == pytest.approx(expected.item(), rel=1e-14)
    for tensor_ in (w, x):
        assert tensor_.grad is not None
        grads = [v.grad for v in scalar.leaves[tensor_]]
        np.testing.assert_allclose(grads, tensor_.grad.data, rtol=1e-13)
    assert [v.label for v in scalar.leaves[w]] == ["w[0]", "w[1]", "w[2]"]
    assert [v.label for v in scalar[x]] == ["x0[0]", "x0[1]", "x0[2]"]


def test_a_program_that_does_more_than_compute_is_refused() -> None:
    program = trace(lambda x: tensor.dropout(x, 0.5) * 2)(leaf(3))
    with pytest.raises(NotImplementedError, match="does more than compute: bernoulli"):
        scalarize(program)(leaf(3))
    with pytest.raises(tensor.ShapeError, match=r"traced with shape \(3,\)"):
        scalarize(program)(leaf(2))


# Refusals


def test_constants_that_the_record_does_not_keep_are_asked_for() -> None:
    def shifted(x: Tensor) -> Tensor:
        return x + np.array([1.0, 2.0])

    x = leaf(2)
    with pytest.raises(
        RuntimeError, match=r"numbers of b of add.*\(2,\).*scalarize\(fn\)\(\*args\)"
    ):
        scalarize(shifted(x))
    np.testing.assert_array_equal(numbers(scalarize(shifted)(x).output), [1.5, 4.0])


def test_constants_that_a_rule_needs_are_found_in_the_record() -> None:
    product = leaf(2) * np.array([3.0, 4.0])
    np.testing.assert_array_equal(numbers(scalarize(product).output), [1.5, 8.0])


def test_a_saved_constant_that_was_changed_since_is_not_used() -> None:
    c = Tensor(np.array([3.0, 4.0]))
    product = leaf(2) * c
    c.fill_(0.0)
    with pytest.raises(RuntimeError, match="numbers of b of mul"):
        scalarize(product)


def test_constants_are_kept_only_while_a_function_is_scalarized() -> None:
    x = leaf(2)
    with pytest.raises(ZeroDivisionError):
        scalarize(lambda: 1 / 0)()
    node = (x + np.ones(2)).node
    assert node is not None and node.inputs[1].array is None  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("build", "count"),
    [
        (lambda: leaf(400, 300).exp(), "240,000"),  # more elements than that
        (lambda: leaf(60, 60) @ leaf(60, 60), "223,200"),  # more products
    ],
)
def test_a_graph_above_the_limit_is_refused_before_it_is_made(
    build: Callable[[], Tensor], count: str
) -> None:
    with pytest.raises(
        ValueError, match=rf"needs {count} Values, and the limit is 100,000.*limit="
    ):
        scalarize(build())


def test_the_limit_is_an_argument() -> None:
    x = leaf(3)
    with pytest.raises(ValueError, match="needs 6 Values, and the limit is 5"):
        scalarize(x.exp(), limit=5)
    assert scalarize(x.exp(), limit=6).output.shape == (3,)


def test_an_output_without_a_graph_is_refused() -> None:
    with pytest.raises(RuntimeError, match="no output has a graph"):
        scalarize(Tensor([1.0]))
    with pytest.raises(TypeError, match="output 1 must be a Tensor, got float"):
        scalarize([leaf(2), 1.0])  # type: ignore[list-item]


def test_a_custom_op_is_refused_by_name() -> None:
    spec = OpSpec("cubed", ("a",), domain=("real",), scope="tensor")
    cubed = register(spec, lambda a: a**3, {"a": lambda xp, g, a: 3 * a * a * g})
    try:
        with pytest.raises(NotImplementedError, match="cubed is not in the vocabulary"):
            scalarize(cubed(leaf(2)))
    finally:
        unregister("cubed")


def test_a_convolution_of_no_channels_is_a_sum_of_nothing() -> None:
    x, weight = Tensor(np.zeros((1, 0, 2, 3))), Tensor(np.zeros((2, 0, 2, 2)), requires_grad=True)
    scalar = scalarize(lambda: tensor.nn.functional.conv2d(x, weight))()
    assert np.asarray(scalar.output, object).shape == (1, 2, 1, 2)
    assert [v.data for v in np.asarray(scalar.output, object).flat] == [0, 0, 0, 0]
