"""Products with Jacobians and Hessians against PyTorch's and closed forms."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch.autograd import functional as theirs

import tensor as st
from tensor import Tensor, grad, hessian, hvp, jacobian, jvp, no_grad, vhp, vjp
from tests.tensor.engine.helpers import cases, leaf, weights
from tests.tensor.tolerances import assert_close

OURS: dict[str, Callable[..., Any]] = {
    "vjp": vjp, "jvp": jvp, "vhp": vhp, "hvp": hvp, "jacobian": jacobian, "hessian": hessian,
}  # fmt: skip

Function = Callable[..., Any]


def compare(ours: Any, expected: Any, note: str = "") -> None:
    """The same form, and in every Tensor the same shape, dtype and numbers."""
    if isinstance(expected, tuple):
        assert isinstance(ours, tuple) and len(ours) == len(expected), note
        for k, (a, b) in enumerate(zip(ours, expected, strict=True)):
            compare(a, b, f"{note}[{k}]")
    else:
        assert isinstance(ours, Tensor) and ours.requires_grad == expected.requires_grad, note
        assert_close(ours.data, expected.detach().numpy(), note=note)


def pair(x: Any) -> tuple[Any, Any]:
    """Inputs or vectors for us and for PyTorch."""
    if isinstance(x, tuple):
        ours, others = zip(*(pair(item) for item in x), strict=True)
        return ours, others
    return Tensor(x), torch.tensor(np.asarray(x))


def array(*shape: int, seed: int = 0, dtype: Any = np.float64) -> Any:
    return np.random.default_rng(seed).uniform(0.5, 1.5, shape).astype(dtype)


# Functions written alike in both libraries: inputs, and the shapes of the outputs.
ALIKE: dict[str, tuple[Function, Any]] = {
    "elementwise": (lambda x: (x * x).exp(), array(3)),
    "one number": (lambda x: x.sin(), array()),
    "to one number": (lambda x: (x * x.exp()).sum(), array(2, 3)),
    "matrix": (lambda x: (x @ x).tanh(), array(3, 3)),
    "single precision": (lambda x: (x * x).exp(), array(3, dtype=np.float32)),
    "two inputs": (lambda x, y: (x * y).exp() + y, (array(2, 1), array(3, seed=1))),
    "two outputs": (lambda x: (x.sum(0), (x * x).mean()), array(2, 3)),
    "two of each": (
        lambda x, y: (x * y, (x @ y).sin()),
        (array(3), array(3, seed=1)),
    ),
    "three inputs, one unused": (
        lambda x, y, z: (x * z).sin(),
        (array(3), array(2, seed=1), array(3, seed=2)),
    ),
    "an input returned": (lambda x: (x, x * 2), array(3)),
    "an input in a tuple": (lambda x: x.exp(), (array(3),)),
    "a tuple of one output": (lambda x: (x.exp(),), array(3)),
    "an output that is constant": (lambda x: (x * 2, x.detach() * 1), array(3)),
    "linear": (lambda x: 3 * x, array(3)),
    "size 0": (lambda x: x * 2, array(0)),
    "size 0 from an input": (lambda x: x[:0] * 2, array(3)),
    "size 0 to a number": (lambda x: (x * x).sum(), array(0, 2)),
    "a kink": (lambda x: x.relu() * x, np.array([-1.0, 0.0, 2.0])),
    "views": (lambda x: x.T.reshape(-1)[1:4] * x[0, 0], array(2, 3)),
    "softmax": (lambda x: x.softmax(-1).log(), array(2, 3)),
}


def outputs_of(function: Function, inputs: Any) -> Any:
    ours, _ = pair(inputs)
    return function(*(ours if isinstance(ours, tuple) else (ours,)))


def empty(function: Function, inputs: Any) -> bool:
    outputs = outputs_of(function, inputs)
    return isinstance(outputs, Tensor) and outputs.numel() == 0


def vectors(like: Any) -> Any:
    if isinstance(like, tuple):
        return tuple(vectors(x) for x in like)
    return np.random.default_rng(5).normal(size=like.shape).astype(like.dtype)


def required(inputs: Any) -> None:
    for x in inputs if isinstance(inputs, tuple) else (inputs,):
        x.requires_grad_()


@pytest.mark.parametrize("create_graph", [False, True])
@pytest.mark.parametrize("name", ["vjp", "jvp", "jacobian"])
@cases("function, inputs", ALIKE)
def test_products_and_jacobians_equal_pytorchs(
    function: Function, inputs: Any, name: str, create_graph: bool
) -> None:
    ours, others = pair(inputs)
    arguments: list[Any] = [[ours], [others]]
    if name != "jacobian":
        v = vectors(outputs_of(function, inputs) if name == "vjp" else inputs)
        for call, vector in zip(arguments, pair(v), strict=True):
            call.append(vector)
    if create_graph:
        required(ours)
        required(others)
    found = OURS[name](function, *arguments[0], create_graph=create_graph)
    if name == "jacobian" and empty(function, inputs):
        compare(found, torch.zeros(0, *inputs.shape, dtype=torch.float64))
        return  # PyTorch fails: it stacks no rows
    expected = getattr(theirs, name)(function, *arguments[1], create_graph=create_graph)
    if name != "jacobian" and not create_graph:
        assert_detached(found)
    if create_graph:  # PyTorch's jacobian of a linear function is a constant, ours may not be
        found, expected = detached(found), detached(expected)
    compare(found, expected, name)


def detached(results: Any) -> Any:
    return tuple(map(detached, results)) if isinstance(results, tuple) else results.detach()


def assert_detached(results: Any) -> None:
    if isinstance(results, tuple):
        for result in results:
            assert_detached(result)
    else:
        assert not results.requires_grad and results.node is None


SCALAR: dict[str, tuple[Function, Any]] = {
    "cube": (lambda x: (x**3).sum(), array(3)),
    "one number": (lambda x: x.exp(), array()),
    "one element": (lambda x: x.exp() * x.sum(), array(1)),
    "coupled": (lambda x: (x @ x).exp() / x.sum(), array(3)),
    "matrix": (lambda x: (x @ x).tanh().sum(), array(2, 2)),
    "single precision": (lambda x: (x**3).sum(), array(3, dtype=np.float32)),
    "two inputs": (lambda x, y: (x * y).exp().sum(), (array(2, 1), array(3, seed=1))),
    "independent inputs": (lambda x, y: (x**3).sum() + (y**2).sum(), (array(2), array(3, seed=1))),
    "an input unused": (lambda x, y: (x**3).sum(), (array(2), array(3, seed=1))),
    "linear": (lambda x: (3 * x).sum(), array(3)),
    "size 0": (lambda x: (x * x).sum(), array(0)),
    "a kink": (lambda x: (x.relu() * x).sum(), np.array([-1.0, 0.0, 2.0])),
}


@pytest.mark.parametrize("create_graph", [False, True])
@pytest.mark.parametrize("name", ["vhp", "hvp", "hessian"])
@cases("function, inputs", SCALAR)
def test_second_derivatives_equal_pytorchs(
    function: Function, inputs: Any, name: str, create_graph: bool
) -> None:
    ours, others = pair(inputs)
    if create_graph:
        required(ours)
        required(others)
    v = () if name == "hessian" else pair(vectors(inputs))
    found = OURS[name](function, ours, *v[:1], create_graph=create_graph)
    if name == "hessian" and not isinstance(inputs, tuple) and inputs.size == 0:
        compare(found, torch.zeros(0, 0, dtype=torch.float64))
        return  # PyTorch fails: it stacks no rows
    expected = getattr(theirs, name)(function, others, *v[1:], create_graph=create_graph)
    if not create_graph and name != "hessian":
        assert_detached(found)
    compare(detached(found), detached(expected), name)


@pytest.mark.parametrize("name", OURS)
def test_the_parameters_are_those_of_pytorch(name: str) -> None:
    wanted = inspect.signature(getattr(theirs, name)).parameters
    left_out = {"vectorize", "strategy", "outer_jacobian_strategy"}
    expected = [(n, p.kind, p.default) for n, p in wanted.items() if n not in left_out]
    found = inspect.signature(OURS[name]).parameters
    assert [(n, p.kind, p.default) for n, p in found.items()] == expected


# Closed forms


def test_the_jacobian_of_a_linear_map_is_its_matrix() -> None:
    m = weights(4, 3)
    np.testing.assert_array_equal(jacobian(lambda x: m @ x, leaf(3)), m)


def test_the_products_are_those_with_the_jacobian() -> None:
    def func(x: Tensor) -> Tensor:
        return (x.reshape(3, 1) * x).tanh().sum(0) * x.exp()

    x, u, v = leaf(3), weights(3), weights(3, seed=7)
    j = jacobian(func, x).data
    np.testing.assert_allclose(vjp(func, x, u)[1], u.data @ j, rtol=1e-13)
    np.testing.assert_allclose(jvp(func, x, v)[1], j @ v.data, rtol=1e-13)


def test_the_hessian_of_a_quadratic_form() -> None:
    m, v = weights(3, 3), weights(3, seed=7)
    form = lambda x: x @ m @ x  # noqa: E731
    wanted = m.data + m.data.T
    np.testing.assert_allclose(hessian(form, leaf(3)), wanted, rtol=1e-13)
    for product in (vhp, hvp):
        value, result = product(form, leaf(3), v)
        np.testing.assert_allclose(result, wanted @ v.data, rtol=1e-13)
        assert value.item() == pytest.approx(form(leaf(3)).item())


def test_the_jacobian_is_that_of_finite_differences() -> None:
    def func(x: Tensor) -> Tensor:
        return (x @ x.T).softmax(-1)[0]

    x, eps = leaf(2, 3), 1e-6
    found = jacobian(func, x).data
    for i in np.ndindex(x.shape):
        step = np.zeros(x.shape)
        step[i] = eps
        ahead, behind = (func(Tensor(x.data + s)).data for s in (step, -step))
        np.testing.assert_allclose(found[(..., *i)], (ahead - behind) / 2 / eps, atol=1e-9)


def test_derivatives_of_fourth_order_by_nesting() -> None:
    def bell(x: Tensor) -> Tensor:
        return (-x * x).exp().sum()

    x = Tensor([0.0], dtype="float64")
    second = lambda x: hessian(bell, x, create_graph=True).sum()  # noqa: E731
    assert second(x).item() == -2
    assert hessian(second, x).item() == 12
    gradient = lambda x: vjp(bell, x, create_graph=True)[1]  # noqa: E731
    assert jacobian(lambda x: jacobian(gradient, x, create_graph=True), x).item() == 0
    along = lambda x: jvp(gradient, x, Tensor([1.0]), create_graph=True)[1]  # noqa: E731
    assert jvp(along, x, Tensor([1.0]))[1].item() == 0
    twice = lambda x: jvp(along, x, Tensor([1.0]), create_graph=True)[1]  # noqa: E731
    assert jvp(twice, x, Tensor([1.0]))[1].item() == 12


def test_a_product_along_a_direction_never_makes_the_jacobian() -> None:
    x = Tensor(np.ones(200_000))
    _, product = jvp(lambda x: x.exp() * x, x, x)
    np.testing.assert_allclose(product, 2 * np.e)
    _, product = hvp(lambda x: (x**3).sum(), x, x)
    np.testing.assert_allclose(product, 6)


def test_a_jvp_is_defined_where_the_gradient_of_0_is_not_a_number() -> None:
    _, product = jvp(lambda x: x.sqrt(), Tensor([0.0, 4.0]), Tensor([1.0, 1.0]))
    assert product.tolist() == [np.inf, 0.25]


@cases("call", {
    "vjp": lambda x, v, c: vjp(lambda a: (a * c).exp(), x, v, create_graph=True),
    "jvp": lambda x, v, c: jvp(lambda a: (a * c).exp(), x, v, create_graph=True),
    "vhp": lambda x, v, c: vhp(lambda a: (a * c).exp().sum(), x, v, create_graph=True),
    "hvp": lambda x, v, c: hvp(lambda a: (a * c).exp().sum(), x, v, create_graph=True),
    "jacobian": lambda x, v, c: (v, jacobian(lambda a: (a * c).exp(), x, create_graph=True)),
    "hessian": lambda x, v, c: (v, hessian(lambda a: (a * c).exp().sum(), x, create_graph=True)),
})  # fmt: skip
def test_results_with_a_graph_can_be_differentiated_by_everything(call: Any) -> None:
    assert st.gradcheck(call, [leaf(3), leaf(3, seed=1), leaf(3, seed=2)])


def test_functions_of_every_op_that_is_fused_have_their_products() -> None:
    """jvp goes through the plain rules, vjp through the fused ones."""
    x = leaf(4, 3)
    for func in (
        lambda x: st.layer_norm(x, None, None, (3,)),
        lambda x: st.linear(x, x[:2], None, "relu"),
        lambda x: st.cross_entropy(x, np.array([0, 2, 1, 1])),
        lambda x: st.scaled_dot_product_attention(x, x, x, is_causal=True),
    ):
        u, v = weights(*func(x).shape), weights(4, 3, seed=7)
        _, pulled = vjp(func, x, u)
        _, pushed = jvp(func, x, v)
        assert (pulled * v).sum().item() == pytest.approx((pushed * u).sum().item(), rel=1e-11)


@pytest.mark.parametrize("name", OURS)
def test_a_traced_derivative_can_be_replayed_elsewhere(name: str) -> None:
    v = () if name in ("jacobian", "hessian") else (weights(3),)
    func = lambda x: (x**3).sin()  # noqa: E731
    if name in ("vhp", "hvp", "hessian"):
        func = lambda x: (x**3).sin().sum()  # noqa: E731
    program = st.trace(lambda x: OURS[name](func, x, *v))(leaf(3))
    other = leaf(3, seed=1)
    found, wanted = program(other), OURS[name](func, other, *v)
    if not v:
        found, wanted = (found,), (wanted,)
    for a, b in zip(found, wanted, strict=True):
        np.testing.assert_allclose(a.detach(), b, rtol=1e-13)


# Independence


def test_an_output_that_depends_on_nothing_has_derivatives_of_0() -> None:
    x, y = leaf(2), leaf(3, seed=1)

    def func(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        return x * 2, Tensor([1.0, 2.0]), y.sum() > 0

    cotangents = (Tensor([1.0, 1]), Tensor([1.0, 1]), Tensor(True))
    assert [g.tolist() for g in vjp(func, (x, y), cotangents)[1]] == [[2, 2], [0, 0, 0]]
    _, pushed = jvp(func, (x, y), (Tensor(x.data), Tensor(y.data)))
    assert [t.tolist() for t in pushed] == [(2 * x.data).tolist(), [0, 0], False]
    assert [[b.shape for b in row] for row in jacobian(func, (x, y))] == [
        [(2, 2), (2, 3)], [(2, 2), (2, 3)], [(2,), (3,)]]  # fmt: skip
    assert not jacobian(func, (x, y))[1][0].data.any()


INDEPENDENT: dict[str, tuple[Function, Any, bool]] = {
    "an output": (lambda x: (x * 2, x.detach() * 1), array(3), False),
    "an input": (lambda x, y: x * 2, (array(3), array(2)), False),
    "of each other": (lambda x, y: (x * 2, y * 3), (array(3), array(2)), False),
    "a linear function": (lambda x: 2 * x, array(3), True),
}


@pytest.mark.parametrize("name", ["vjp", "jvp", "jacobian"])
@cases("function, inputs, create_graph", INDEPENDENT)
def test_strict_refuses_independence_where_pytorch_does(
    function: Function, inputs: Any, create_graph: bool, name: str
) -> None:
    ours, others = pair(inputs)
    calls: list[list[Any]] = [[ours], [others]]
    if name != "jacobian":
        v = vectors(outputs_of(function, inputs) if name == "vjp" else inputs)
        for call, vector in zip(calls, pair(v), strict=True):
            call.append(vector)
    OURS[name](function, *calls[0], create_graph=create_graph)
    try:
        getattr(theirs, name)(function, *calls[1], create_graph, True)
    except RuntimeError:
        with pytest.raises(RuntimeError, match=rf"^{name}: .*independent.*strict=True"):
            OURS[name](function, *calls[0], create_graph, True)
    else:
        OURS[name](function, *calls[0], create_graph, True)


@pytest.mark.parametrize("name", ["vhp", "hvp", "hessian"])
@cases(
    "function, inputs",
    {
        "a linear function": (lambda x: (2 * x).sum(), array(3)),
        "an input": (lambda x, y: (x**2).sum(), (array(3), array(2))),
        "the output": (lambda x: Tensor(3.0, dtype="float64"), array(3)),
    },
)
def test_strict_refuses_independence_of_second_derivatives(
    function: Function, inputs: Any, name: str
) -> None:
    ours, _ = pair(inputs)
    v = () if name == "hessian" else (pair(vectors(inputs))[0],)
    OURS[name](function, ours, *v)
    with pytest.raises(RuntimeError, match=rf"^{name}: .*independent.*strict=True"):
        OURS[name](function, ours, *v, strict=True)


@pytest.mark.parametrize("name", OURS)
def test_strict_lets_through_what_depends(name: str) -> None:
    x = leaf(3)
    function = (lambda x: (x**3).sum()) if name in ("vhp", "hvp", "hessian") else lambda x: x**3
    v = () if name in ("jacobian", "hessian") else (weights(3),)
    for create_graph in (False, True):
        OURS[name](function, x, *v, create_graph=create_graph, strict=True)


# What stays as it is


@pytest.mark.parametrize("name", OURS)
@pytest.mark.parametrize("create_graph", [False, True])
def test_inputs_grads_and_the_mode_stay_as_they_are(name: str, create_graph: bool) -> None:
    x, c = leaf(3), leaf(3, seed=1)
    x.grad = Tensor(np.ones(3))
    function = lambda x: x**3 * c  # noqa: E731
    if name in ("vhp", "hvp", "hessian"):
        function = lambda x: (x**3 * c).sum()  # noqa: E731
    v = () if name in ("jacobian", "hessian") else (weights(3),)
    with no_grad():
        results = OURS[name](function, x, *v, create_graph=create_graph)
        assert not st.is_grad_enabled()
    result = results[1] if isinstance(results, tuple) else results
    assert result.requires_grad == create_graph
    np.testing.assert_array_equal(x.grad, np.ones(3))
    assert c.grad is None and x.is_leaf and x.version == 0


def test_the_same_tensor_given_twice_is_two_inputs() -> None:
    x = leaf(3)
    a, b = vjp(lambda x, y: x * x * y, (x, x), weights(3))[1]
    np.testing.assert_allclose(a, 2 * b.data, rtol=1e-14)


def test_a_function_may_close_over_its_own_input() -> None:
    x = leaf(3)
    np.testing.assert_allclose(vjp(lambda y: y * x, x, weights(3))[1], x.data * weights(3).data)


def test_a_result_of_other_ops_can_be_an_input() -> None:
    x = leaf(3)
    h = x * 2
    np.testing.assert_allclose(jacobian(lambda h: h * h, h), np.diag(4 * x.data))
    j = jacobian(lambda h: h * h, h, create_graph=True)
    np.testing.assert_allclose(grad(j.sum(), x)[0], [4, 4, 4])


def test_the_numbers_of_v_are_taken_in_the_outputs_dtype() -> None:
    _, product = vjp(lambda x: x.double() * 2, Tensor([1.0]), Tensor([1.5]))
    assert product.dtype == np.float32 and product.tolist() == [3]


# Calls that are refused

BAD: dict[str, tuple[Callable[[], Any], type[Exception], str]] = {
    "list": (lambda: vjp(lambda x: x, [leaf(1)]), TypeError, "vjp: inputs must be .*got list"),
    "array": (lambda: jacobian(lambda x: x, np.ones(2)), TypeError, "jacobian: inputs .*ndarray"),
    "array within": (
        lambda: jvp(lambda x, y: x, (leaf(1), np.ones(2))), TypeError, "ndarray in place 1"),
    "integers": (
        lambda: jacobian(lambda x: x, Tensor([1, 2])), RuntimeError,
        r"jacobian: inputs\[0\] must be floating .*int64"),
    "output": (lambda: vjp(lambda x: 3.0, leaf(1)), TypeError, "vjp: the result of func .*float"),
    "outputs": (lambda: jvp(lambda x: [x], leaf(1)), TypeError, "jvp: the result of func .*list"),
    "no v": (lambda: vjp(lambda x: x, leaf(2)), RuntimeError, r"vjp: v may be left .*\(2,\)"),
    "no v of inputs": (
        lambda: jvp(lambda x, y: x, (leaf(1), leaf(1))), RuntimeError, "jvp: v may be left out"),
    "v": (lambda: vjp(lambda x: x, leaf(2), 1.0), TypeError, "vjp: v must be .*float"),
    "count of v": (
        lambda: vjp(lambda x: x, leaf(2), (leaf(2), leaf(2))), RuntimeError,
        "vjp: got 2 Tensors in v for 1 outputs"),
    "shape of v": (
        lambda: jvp(lambda x: x, leaf(2), leaf(3)), RuntimeError,
        r"jvp: v has shape \(3,\), but input 0 has shape \(2,\)"),
    "shape within v": (
        lambda: vjp(lambda x: (x, x), leaf(2), (leaf(2), leaf(1, 2))), ValueError,
        r"vjp: v\[1\] has shape \(1, 2\), but output 1"),
    "hessian of a vector": (
        lambda: hessian(lambda x: x, leaf(2)), RuntimeError, r"hessian: func .*element.*\(2,\)"),
    "hessian of two": (
        lambda: hessian(lambda x: (x, x), leaf(1)), TypeError, "hessian: func .*got tuple"),
    "vhp of a vector": (lambda: vhp(lambda x: x, leaf(2), leaf(2)), RuntimeError, "vhp: func"),
    "hvp's v": (
        lambda: hvp(lambda x: x.sum(), leaf(2), leaf(3)), RuntimeError, r"hvp: v has shape \(3,\)"),
    "vhp's v": (
        lambda: vhp(lambda x: x.sum(), leaf(2)), RuntimeError, "vhp: v may be left out .*input"),
}  # fmt: skip


@cases("call, error, message", BAD)
def test_what_does_not_fit_is_refused(
    call: Callable[[], Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        call()
    assert st.is_grad_enabled()


def test_an_error_of_the_function_reaches_the_caller() -> None:
    for call in (vjp, jvp, jacobian, hessian, vhp, hvp):
        with pytest.raises(ZeroDivisionError):
            call(lambda x: x * (1 // 0), leaf(1))
