"""Ops from outside: the engine, the checks, the derivatives and the drawings know them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

import tensor as st
import viz
from micro.vocab import VOCAB, OpSpec
from tensor import Tensor, custom_op, grad, gradcheck, gradgradcheck, remove_op
from tensor.dispatch import OPS, raw, recording, register, unregister
from tensor.graph import SYMBOLS
from tests.tensor.engine.helpers import cases, leaf, weights

HYPOT: dict[str, Callable[..., Any]] = {
    "a": lambda xp, g, a, out: g * a / out,
    "b": lambda xp, g, b, out: g * b / out,
}


def hypot(a: Any, b: Any, *, scale: float = 1.0) -> Any:
    """Return ``scale * sqrt(a**2 + b**2)``."""
    return scale * np.hypot(a, b)


SCALED: dict[str, Callable[..., Any]] = {
    "a": lambda xp, g, a, b, scale: g * (scale * a / xp.hypot(a, b)),
    "b": lambda xp, g, a, b, scale: g * (scale * b / xp.hypot(a, b)),
}


@contextmanager
def added(function: Callable[..., Any], **settings: Any) -> Iterator[Any]:
    """An op that there is for the length of a block."""
    op = custom_op(**settings)(function)
    try:
        yield op
    finally:
        if function.__name__ in OPS:
            remove_op(op)


@pytest.fixture
def op() -> Iterator[Any]:
    with added(hypot, rules=SCALED, symbol="hyp") as made:
        yield made


# What an op can do


def test_values_dtypes_and_broadcasting(op: Any) -> None:
    x, y = leaf(2, 1, dtype=np.float32), leaf(3, seed=1, dtype=np.float32)
    out = op(x, y, scale=2.0)
    assert (out.op, out.shape, out.dtype, out.requires_grad) == ("hypot", (2, 3), "float32", True)
    np.testing.assert_allclose(out.data, 2 * np.hypot(x.data, y.data), rtol=1e-6)
    out.backward(weights(2, 3, dtype=np.float32))
    assert x.grad.shape == (2, 1) and x.grad.dtype == np.float32 and y.grad.shape == (3,)
    np.testing.assert_allclose(op(3, b=4.0).item(), 5)
    assert op(x, y.double()).dtype == np.float64


def test_it_has_the_kernels_name_signature_and_documentation(op: Any) -> None:
    assert op.__name__ == "hypot" and "sqrt" in op.__doc__
    assert recording.hypot is op and raw.hypot(np.array(3.0), np.array(4.0)) == 5


def test_gradcheck_and_gradgradcheck_pass(op: Any) -> None:
    x, y = leaf(2, 1), leaf(3, seed=1)
    for check in (gradcheck, gradgradcheck):
        assert check(lambda a, b: op(a, b, scale=1.5), [x, y], check_grad_dtypes=True)
        assert check(lambda a: op(a, 2.0), x)


def test_gradcheck_rejects_a_wrong_rule() -> None:
    rules = {**HYPOT, "b": lambda xp, g, b, out: 1.9 * g * b / out / 2}

    def hypot(a: Any, b: Any) -> Any:
        return np.hypot(a, b)

    with added(hypot, rules=rules) as op:
        assert gradcheck(lambda a: op(a, 2.0), leaf(3))
        with pytest.raises(st.GradcheckError, match=r"inputs\[1\]"):
            gradcheck(op, [leaf(3), leaf(3, seed=1)])


def test_derivatives_of_every_order_and_products(op: Any) -> None:
    x = Tensor([3.0, 4.0], dtype="float64", requires_grad=True)

    def length(x: Tensor) -> Tensor:
        return op(x[0], x[1])

    r, unit = 5.0, np.array([0.6, 0.8])
    np.testing.assert_allclose(st.jacobian(length, x), unit)
    np.testing.assert_allclose(st.hessian(length, x), (np.eye(2) - np.outer(unit, unit)) / r)
    _, along = st.jvp(length, x, Tensor([1.0, 0.0]))
    assert along.item() == pytest.approx(0.6)
    loss = st.checkpoint(length, x)
    np.testing.assert_allclose(grad(loss, x)[0], unit)


def test_it_is_traced_and_replayed(op: Any) -> None:
    def step(x: Tensor) -> Tensor:
        (g,) = grad(op(x, 2.0, scale=3.0).sum(), x)
        return g

    program = st.trace(step)(leaf(3))
    assert "hypot" in str(program)
    other = leaf(3, seed=1)
    np.testing.assert_allclose(program(other), step(other), rtol=1e-14)


def test_it_is_drawn_with_its_symbol(op: Any) -> None:
    x = leaf(1)
    x.label = "x"
    out = op(x, 2.0)
    assert out.symbol == "hyp" and out.node.symbol == "hyp"
    assert "hyp" in viz.draw(out).dot()
    assert "hypot node" in repr(out.node)


def test_only_what_the_rules_ask_for_is_kept() -> None:
    def halved(a: Any, b: Any) -> Any:
        return a / 2 + b

    rules = {"a": lambda xp, g: g / 2, "b": lambda xp, g, b: g * b / b}
    with added(halved, rules=rules) as op:
        assert set(op(leaf(3), weights(3)).node.saved) == set()
        assert set(op(leaf(3), leaf(3)).node.saved) == {"b"}


def test_its_record_holds_operands_and_attributes(op: Any) -> None:
    x = leaf(3)
    node = op(x, 2.0, scale=3.0).node
    assert node.inputs[0] is x and node.inputs[1].value == 2.0
    assert dict(node.attrs) == {"scale": 3.0}


def test_optional_operands_domains_and_attributes_without_a_default() -> None:
    def pick(a: Any, mask: Any, bias: Any = None, *, power: float) -> Any:
        assert mask.dtype == bool
        out = np.where(mask, a**power, 0)
        return out if bias is None else out + bias

    rules: dict[str, Callable[..., Any]] = {
        "a": lambda xp, g, a, mask, power: xp.where(mask, g * power * a ** (power - 1), 0.0),
        "bias": lambda xp, g: g,
    }
    mask = Tensor(np.array([True, False, True]))
    with added(pick, rules=rules, domain={"mask": "bool"}) as op:
        x, b = leaf(3), leaf(3, seed=1)
        assert gradcheck(lambda a: op(a, mask, power=3.0), x)
        assert gradcheck(lambda a, b: op(a, mask, b, power=3.0), [x, b])
        assert gradgradcheck(lambda a, b: op(a, mask, bias=b, power=3.0), [x, b])
        with pytest.raises(TypeError, match="pick: argument 'power' is missing"):
            op(x, mask)
        with pytest.raises(TypeError, match="pick: argument 'mask' is missing"):
            op(x, power=2.0)


def test_without_rules_there_is_no_gradient() -> None:
    def sign_of(a: Any) -> Any:
        return np.sign(a)

    with added(sign_of) as op:
        assert not op(leaf(3)).requires_grad


def test_an_operand_without_a_rule_may_not_require_grad() -> None:
    with added(hypot, rules={"a": SCALED["a"]}) as op:
        assert op(leaf(3), 2.0).requires_grad
        with pytest.raises(RuntimeError, match=r"hypot: there is no rule for .*\['b'\]"):
            op(2.0, leaf(3))


def test_a_view_shares_its_operands_memory_and_version() -> None:
    def rows(a: Any, *, stop: int) -> Any:
        return a[:stop]

    def adjoint(xp: Any, g: Any, a_shape: Any, stop: int) -> Any:
        return xp.getitem_adjoint(g, slice(0, stop), a_shape)

    with added(rows, rules={"a": adjoint}, view=True) as op:
        assert gradcheck(lambda a: op(a, stop=2), leaf(3, 2))
        x = Tensor(np.ones((3, 2)))
        y = op(x, stop=2)
        assert np.shares_memory(x.data, y.data)
        y.add_(1)
        assert x.version == 1


def test_a_fused_pullback_is_used_for_the_first_order() -> None:
    calls: list[Any] = []

    def fused(g: Any, needs: Any, a: Any, b: Any, scale: float) -> Any:
        calls.append(list(needs))
        r = np.hypot(a, b)
        return [g * scale * a / r, g * scale * b / r]

    with added(hypot, rules=SCALED, fused=fused) as op:
        assert gradcheck(op, [leaf(3), leaf(3, seed=1)])
        assert calls and gradgradcheck(op, [leaf(3), leaf(3, seed=1)])


def test_policies() -> None:
    whole, half = Tensor([1, 2]), Tensor([1.0, 2.0])
    with added(hypot, rules=SCALED, policy="float") as op:
        assert op(whole, whole).dtype == np.float32
    with (
        added(hypot, rules=SCALED, policy="strict") as op,
        pytest.raises(RuntimeError, match="hypot: operands must have one dtype"),
    ):
        op(half, half.double())


def test_an_error_of_the_kernel_has_the_ops_name_and_shapes(op: Any) -> None:
    with pytest.raises(RuntimeError, match=r"hypot: .*operands: a \(2,\), b \(3,\)"):
        op(leaf(2), leaf(3))


def test_an_op_of_any_number_of_operands_is_registered_with_an_entry() -> None:
    spec = OpSpec("total", ("*tensors",), symbol="Σ", domain=("real",), scope="tensor")
    op = register(
        spec,
        lambda tensors: sum(tensors[1:], start=tensors[0] + 0),
        {"tensors": lambda xp, g, needs: [g if need else None for need in needs]},
    )
    try:
        assert gradcheck(lambda *xs: op(xs), [leaf(3), leaf(3, seed=1), leaf(3, seed=2)])
        assert op([leaf(3), leaf(3)]).symbol == "Σ"
    finally:
        unregister("total")


# What is not the engine's stays as it is


def cached(a: Any) -> Any:
    return a * 1


@pytest.mark.parametrize("create_graph", [False, True])
@pytest.mark.parametrize("fused", [False, True])
def test_an_array_that_a_rule_keeps_is_never_written_to(fused: bool, create_graph: bool) -> None:
    kept = np.array([1.0, 2.0, 3.0])
    given = Tensor._wrap(kept)
    rule = lambda xp, g: given if isinstance(g, Tensor) else kept  # noqa: E731
    settings: dict[str, Any] = {"fused": (lambda g, needs: [kept])} if fused else {}
    with added(cached, rules={"a": rule}, **settings) as op:
        x = leaf(3)
        y = x * 1.0
        y.retain_grad()
        total = op(x) + op(x) + op(y) + op(y) + (x * 2)
        total.backward(weights(3), retain_graph=True, create_graph=create_graph)
        (g,) = grad(op(x), x, weights(3), create_graph=create_graph)
        assert not np.shares_memory(x.grad.data, kept) and not np.shares_memory(g.data, kept)
        assert not np.shares_memory(y.grad.data, kept)
        x.grad.data[:] = np.nan
        g.data[:] = np.nan
        x.grad = None
        for _ in range(3):
            op(x).backward(weights(3))
        np.testing.assert_array_equal(kept, [1, 2, 3])
        np.testing.assert_array_equal(x.grad, [3, 6, 9])


def test_a_trusted_rule_that_keeps_its_array_would_be_overwritten() -> None:
    """The danger that the test above is there to exclude."""
    kept = np.array([1.0, 2.0, 3.0])
    spec = OpSpec("cached", ("a",), domain=("real",), scope="tensor")
    op = register(spec, cached, {"a": lambda xp, g: kept}, trusted=True)
    try:
        x = leaf(3)
        (op(x) + op(x)).backward(weights(3))
        assert kept.tolist() != [1, 2, 3]
    finally:
        unregister("cached")


def test_a_kernel_that_returns_its_operand_gives_the_result_memory_of_its_own() -> None:
    def same(a: Any) -> Any:
        return a

    def turned(a: Any) -> Any:
        return a.T

    for kernel in (same, turned):
        with added(kernel, rules={"a": lambda xp, g: g}) as op:
            x = leaf(3)
            y = op(x)
            assert not np.shares_memory(x.data, y.data)


def test_a_kernel_cannot_write_to_its_operands() -> None:
    def doubled(a: Any) -> Any:
        a *= 2
        return a

    with added(doubled, rules={"a": lambda xp, g: 2 * g}) as op:
        x = leaf(3)
        before = x.data.copy()
        with pytest.raises(RuntimeError, match=r"doubled: .*read-only"):
            op(x)
        np.testing.assert_array_equal(x.data, before)
        assert x.data.flags.writeable


@pytest.mark.parametrize("result", [None, "text", np.ones(3, complex), np.ma.masked_array([1.0])])
def test_a_kernel_that_returns_no_array_is_named(result: Any) -> None:
    def broken(a: Any) -> Any:
        return result

    with (
        added(broken, rules={"a": lambda xp, g: g}) as op,
        pytest.raises(TypeError, match=r"broken: the result of the kernel: .*operands: a \(3,\)"),
    ):
        op(leaf(3))


def test_a_rule_that_breaks_a_contract_is_named_and_leaves_the_gradients() -> None:
    for rule, message in (
        (lambda xp, g: None, "cached: its rule gave no gradient for a"),
        (lambda xp, g: xp.sum(g), r"cached: its rule gave a gradient of shape \(\)"),
    ):
        with added(cached, rules={"a": rule}) as op:
            x = leaf(3)
            x.sum().backward()
            with pytest.raises(RuntimeError, match=message):
                op(x).sum().backward()
            np.testing.assert_array_equal(x.grad, [1, 1, 1])


# Adding and removing


def state() -> tuple[Any, ...]:
    return {**OPS}, {**SYMBOLS}, {**vars(raw)}, {**vars(recording)}, dict(VOCAB)


def test_an_op_that_is_removed_leaves_nothing_behind() -> None:
    before = state()
    with added(hypot, rules=SCALED):
        assert state() != before
    assert state() == before
    with added(hypot, rules=SCALED) as op:
        remove_op("hypot")
        assert state() == before
        with pytest.raises(ValueError, match="'hypot' is not registered"):
            remove_op(op)


def test_a_result_of_an_op_that_is_gone_cannot_be_differentiated() -> None:
    x = leaf(3)
    with added(hypot, rules=SCALED) as op:
        loss = (op(x, 2.0) + x).sum()
    x.sum().backward()
    with pytest.raises(RuntimeError, match=r"hypot of shape \(3,\): there is no such op any more"):
        loss.backward()
    np.testing.assert_array_equal(x.grad, [1, 1, 1])
    assert loss.node.inputs[0].inputs[0].symbol == "hypot"


def test_an_op_of_the_library_cannot_be_removed() -> None:
    for op in ("exp", st.exp):
        with pytest.raises(ValueError, match="'exp' is one of the vocabulary"):
            remove_op(op)
    assert "exp" in OPS


@pytest.mark.parametrize("name", ["exp", "hypot"])
def test_a_name_that_is_taken_is_refused(name: str, op: Any) -> None:
    def again(a: Any) -> Any:
        return a * 1

    again.__name__ = name
    before = OPS[name]
    with pytest.raises(ValueError, match=f"{name}: there is an op of this name already"):
        custom_op(rules={"a": lambda xp, g: g})(again)
    spec = OpSpec(name, ("a",), domain=("real",))
    with pytest.raises(ValueError, match=f"{name}: there is an op of this name already"):
        register(spec, again, {})
    assert OPS[name] is before


def with_default(a: Any, b: Any = 2.0) -> Any:
    return a


def with_any(*arrays: Any) -> Any:
    return arrays[0]


def with_nothing(*, scale: float = 1.0) -> Any:
    return np.ones(3)


BAD: dict[str, tuple[Callable[..., Any], dict[str, Any], type[Exception], str]] = {
    "a rule for a stranger": (
        hypot, {"rules": {"c": lambda xp, g: g}}, ValueError, r"rules for \['c'\]"),
    "a rule that asks for a stranger": (
        hypot, {"rules": {"a": lambda xp, g, z: g}}, ValueError, r"rule for a asks for \['z'\]"),
    "a fused rule that asks for a stranger": (
        hypot, {"rules": SCALED, "fused": lambda g, needs, z: g}, ValueError, r"asks for \['z'\]"),
    "a rule that is no function": (
        hypot, {"rules": {"a": 3}}, TypeError, "rule for a must be a function, got int"),
    "a default": (with_default, {}, TypeError, "operand b has the default 2.0"),
    "any number": (with_any, {}, TypeError, "stands for any number of arguments"),
    "no operand": (with_nothing, {}, TypeError, "the op has no operand"),
    "no name": (lambda a: a, {}, TypeError, "must be a function with a name"),
    "a domain for a stranger": (hypot, {"domain": {"z": "bool"}}, ValueError, "domain 'z': 'bool'"),
    "a strange domain": (hypot, {"domain": {"a": "even"}}, ValueError, "domain 'a': 'even'"),
    "a strange policy": (hypot, {"policy": "any"}, ValueError, "policy must be one of .*'any'"),
}  # fmt: skip


@cases("function, settings, error, message", BAD)
def test_what_does_not_fit_is_refused_and_nothing_is_added(
    function: Callable[..., Any], settings: dict[str, Any], error: type[Exception], message: str
) -> None:
    before = state()
    with pytest.raises(error, match=message):
        custom_op(**settings)(function)
    assert state() == before
