"""Value: what it is, what it records, and what a bad call gets."""

from __future__ import annotations

import copy
import math
import operator
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest

import micro
from micro import Value
from micro.value import CONSTANT, PARTIALS, topological

# What a Value is


def test_a_value_shows_its_data_and_its_gradient() -> None:
    assert repr(Value(2.0)) == "Value(data=2.0, grad=0)"
    assert repr(Value(Fraction(1, 3))) == "Value(data=1/3, grad=0)"
    assert f"{Value(2.0)}" == "Value(data=2.0, grad=0)"


def test_format_formats_the_number() -> None:
    assert f"{Value(math.pi):.3f}" == "3.142"
    assert f"{Value(Fraction(1, 4)):.2f}" == "0.25"
    assert f"{Value(1 + 2j):.1f}" == "1.0+2.0j"
    assert f"{Value(Value(math.pi)):8.2f}" == "    3.14"


def test_an_int_a_bool_and_a_numpy_number_become_floats() -> None:
    for number in (3, np.float32(3), np.float64(3), np.int64(3)):
        assert type(Value(number).data) is float
        assert Value(number).data == 3.0
    assert Value(True).data == 1.0
    assert Value(10**400).data == math.inf
    assert Value(-(10**400)).data == -math.inf


def test_a_value_converts_to_pythons_numbers() -> None:
    assert float(Value(2.5)) == 2.5
    assert int(Value(2.5)) == 2
    assert complex(Value(2.5)) == 2.5 + 0j
    assert float(Value(Value(2.5))) == 2.5
    assert not Value(0.0)
    assert Value(-0.5)


def test_a_value_has_no_room_for_other_attributes() -> None:
    with pytest.raises(AttributeError):
        Value(1.0).gard = 2.0  # type: ignore[attr-defined]


def test_equality_compares_the_numbers_and_the_hash_is_by_identity() -> None:
    a, b = Value(2.0), Value(2.0)
    assert a == b
    assert a == 2.0
    assert operator.eq(2.0, a)
    assert a != 3
    assert (a != b) is False
    assert len({a, b}) == 2
    assert Value(math.nan) != Value(math.nan)


def test_a_value_equals_nothing_that_is_not_a_number() -> None:
    for other in ("2.0", None, [2.0], object()):
        assert (Value(2.0) == other) is False
        assert (Value(2.0) != other) is True


def test_comparisons_give_plain_bools() -> None:
    a = Value(2.0)
    assert (a < 3) is True
    assert (a <= 2) is True
    assert operator.lt(3, a) is False
    assert (a >= Value(2.5)) is False
    assert a.isnan() is False
    assert micro.isinf(math.inf) is True


# What is recorded


def test_inputs_keep_order_and_multiplicity() -> None:
    x, y = Value(3.0), Value(4.0)
    assert (x * x).inputs == (x, x)
    assert all(a is x for a in (x * x).inputs)
    out = x - y
    assert out.inputs[0] is x
    assert out.inputs[1] is y
    assert out._prev is out.inputs


def test_an_op_goes_by_its_name_and_a_drawing_by_its_symbol() -> None:
    x = Value(3.0)
    shown = [(v.op, v._op) for v in (x, x + x, x**x, x.relu(), x.exp())]
    assert shown == [("", ""), ("add", "+"), ("pow", "**"), ("relu", "ReLU"), ("exp", "exp")]


def test_a_number_beside_a_value_is_a_constant_and_no_input() -> None:
    x = Value(3.0)
    for out, index in ((x + 1, 1), (1 - x, 0), (2 / x, 0), (x**2, 1), (micro.maximum(x, 0), 1)):
        assert out.inputs[1 - index] is x
        assert out.inputs[index].op == CONSTANT
        assert type(out.inputs[index].data) is float
        assert out.inputs[index]._op == ""
        out.backward()
        assert out.inputs[index].grad == 0


def test_attributes_are_kept_beside_the_inputs() -> None:
    out = Value(3.0).clip(-1, 1)
    assert (out.data, out.attrs) == (1.0, {"min": -1, "max": 1})
    assert micro.gelu(Value(1.0), "tanh").attrs == {"approximate": "tanh"}
    assert (Value(1.0) + 1).attrs == {}


def test_partials_are_the_local_derivatives_and_none_for_a_constant() -> None:
    x, y = Value(3.0), Value(4.0)
    assert (x * y).partials() == (4.0, 3.0)
    assert (x * x).partials() == (3.0, 3.0)
    assert (x**2).partials() == (6.0, None)
    assert (x - y).partials() == (1.0, -1.0)
    assert micro.where(x > y, x, y).partials() == (None, 0.0, 1.0)
    assert x.partials() == ()
    assert (Value(Fraction(3)) + Value(Fraction(1))).partials() == (Fraction(1), Fraction(1))


def test_the_exponent_of_a_square_is_not_differentiated_by() -> None:
    x = Value(-3.0)
    (x**2).backward()
    assert x.grad == -6.0
    y = Value(Fraction(-3))  # whose logarithm would raise
    (y**2).backward()
    assert y.grad == Fraction(-6)


def test_labels_are_kept() -> None:
    x = Value(3.0, label="x")
    y = x * x
    y.label = "y"
    assert (x.label, y.label, (x + 1).label) == ("x", "y", "")


# The backward pass


def test_a_second_backward_leaves_the_gradients_of_results_as_they_were() -> None:
    a, b, d = Value(3.0), Value(2.0), Value(1.0)
    c = a + b
    e = c * d
    e.backward()
    e.backward()
    assert (c.grad, e.grad) == (1.0, 1.0)


def test_two_results_add_up_in_the_inputs_that_they_share() -> None:
    x = Value(3.0)
    h = x * x
    (2 * h).backward()
    (5 * h).backward()
    assert (x.grad, h.grad) == (42.0, 5.0)


def test_backward_of_an_input_counts_the_input_itself() -> None:
    x = Value(3.0)
    x.backward()
    x.backward()
    assert x.grad == 2


def test_deepcopy_of_a_result_copies_what_it_was_made_of() -> None:
    x = Value(2.0, label="x")
    y = x
    for _ in range(100_000):
        y = y + x
    y.backward()
    twin = copy.deepcopy(y)
    nodes, twins = topological(y), topological(twin)
    assert len(twins) == len(nodes) == 100_001
    assert not set(nodes) & set(twins)
    assert twins[-1].label == "x"
    twin.backward()
    assert twins[-1].grad == 2 * x.grad == 200_002.0


def test_deepcopy_keeps_what_is_shared_shared() -> None:
    x = Value(Value(2.0))
    y = x * x + 1
    y.backward()
    x2, y2, inner = copy.deepcopy((x, y, x.data))
    assert topological(y2)[-1] is x2 or x2 in topological(y2)
    assert x2.data is inner
    assert x2.data is not x.data
    assert x2.grad is not x.grad
    assert float(x2.grad) == 4.0
    x2.grad.backward()
    assert inner.grad == 2.0
    assert x.data.grad == 0


def test_a_backward_that_fails_changes_no_gradient() -> None:
    base, exponent = Value(Fraction(3)), Value(Fraction(2))
    out = base**exponent * base
    for v in topological(out):
        v.grad = Fraction(7)
    with pytest.raises(TypeError, match="log: not defined for Fraction"):
        out.backward()
    assert [v.grad for v in topological(out)] == [Fraction(7)] * 4


def test_a_gradient_that_cannot_be_added_to_leaves_the_others_alone() -> None:
    x, y = Value(3.0), Value(4.0)
    out = x * y
    y.grad = "four"
    with pytest.raises(TypeError):
        out.backward()
    assert (x.grad, y.grad, out.grad) == (0, "four", 0)


# micro.grad


def test_a_derivative_without_a_graph_has_no_backward_and_says_how_to_get_one() -> None:
    x = Value(2.0)
    constant = micro.grad(micro.exp(3 * x), x)
    with pytest.raises(RuntimeError, match="create_graph=True"):
        micro.grad(constant, x)
    with pytest.raises(RuntimeError, match="create_graph=True"):
        constant.backward()
    with pytest.raises(RuntimeError, match="create_graph=True"):
        (2 * constant).backward()


PIECEWISE_LINEAR: list[tuple[Callable[[Value], Value], float, float]] = [
    (micro.relu, 2.0, 1.0),
    (micro.relu, -2.0, 0.0),
    (micro.abs, -2.0, -1.0),
    (lambda x: micro.clip(x, min=0.0), 2.0, 1.0),
    (lambda x: micro.maximum(x, 1.0), 1.0, 0.5),
    (lambda x: 3 * micro.relu(2 * x), 2.0, 6.0),
    (lambda x: x**0, 2.0, 0.0),
    (lambda x: micro.relu(-x), math.inf, 0.0),
]


@pytest.mark.parametrize(("function", "at", "slope"), PIECEWISE_LINEAR)
def test_a_derivative_that_only_compares_can_be_differentiated_to_0(
    function: Callable[[Value], Value], at: float, slope: float
) -> None:
    x = Value(at)
    first = micro.grad(function(x), x, create_graph=True)
    assert first.data == slope
    assert micro.grad(first, x).data == 0.0


@pytest.mark.parametrize(
    "function", [lambda x: 2 * x, lambda x: x / 2, lambda x: x + x], ids=["2x", "x/2", "x+x"]
)
def test_a_derivative_that_uses_no_input_depends_on_none(
    function: Callable[[Value], Value],
) -> None:
    x = Value(2.0)
    first = micro.grad(function(x), x, create_graph=True)
    with pytest.raises(RuntimeError, match="does not depend on"):
        micro.grad(first, x)
    assert micro.grad(first, x, allow_unused=True) is None


def test_grad_leaves_every_gradient_alone() -> None:
    x = Value(2.0)
    y = x.sin() * x
    x.grad = 7.0
    micro.grad(micro.grad(y, x, create_graph=True), x)
    assert [v.grad for v in topological(y)] == [0, 0, 7.0]


def test_grad_gives_a_value_for_a_value_and_a_tuple_for_a_sequence() -> None:
    x, y = Value(2.0), Value(5.0)
    out = x * y * y
    assert micro.grad(out, x).data == 25.0
    assert [g.data for g in micro.grad(out, [y, x, y])] == [20.0, 25.0, 20.0]
    assert isinstance(micro.grad(out, (x,)), tuple)


def test_grad_by_an_intermediate_and_by_what_it_was_made_of() -> None:
    x = Value(3.0)
    h = x * x
    k = h + x
    y = h * k
    assert [g.data for g in micro.grad(y, (h, x, k, y))] == [21.0, 135.0, 9.0, 1.0]


def test_an_x_without_influence_raises_unless_that_is_allowed() -> None:
    x, other = Value(2.0), Value(5.0)
    with pytest.raises(RuntimeError, match=r"does not depend on xs\[1\].*allow_unused=True"):
        micro.grad(x * x, (x, other))
    g, none = micro.grad(x * x, (x, other), allow_unused=True)
    assert (g.data, none) == (4.0, None)
    assert micro.grad(x * x, other, allow_unused=True) is None


def test_grad_evaluates_no_derivative_that_is_not_asked_for() -> None:
    base, exponent = Value(Fraction(3)), Value(Fraction(2))
    assert micro.grad(base**exponent, base).data == 6
    with pytest.raises(TypeError, match="log"):
        micro.grad(base**exponent, exponent)


def test_the_mixed_derivatives_of_two_variables_agree() -> None:
    x, y = Value(0.7), Value(1.3)
    out = micro.sin(x * y) / (x + y**2)
    dx, dy = micro.grad(out, (x, y), create_graph=True)
    assert micro.grad(dx, y).data == pytest.approx(micro.grad(dy, x).data, rel=1e-14)


def test_a_gradient_can_be_part_of_what_is_differentiated() -> None:
    x = Value(1.5)
    slope = micro.grad(x**3, x, create_graph=True)
    penalty = slope * slope + x  # 9 x^4 + x
    penalty.backward()
    assert x.grad == pytest.approx(36 * 1.5**3 + 1, rel=1e-15)


# Values inside Values


def test_a_value_in_a_value_is_differentiated_twice() -> None:
    x = Value(Value(0.5))
    (x.tanh() * x.sin()).backward()
    x.grad.backward()
    t, s, c = math.tanh(0.5), math.sin(0.5), math.cos(0.5)
    assert float(x.grad) == pytest.approx((1 - t * t) * s + t * c, rel=1e-14)
    second = -2 * t * (1 - t * t) * s + 2 * (1 - t * t) * c - t * s
    assert x.data.grad == pytest.approx(second, rel=1e-14)


def test_three_levels_give_the_third_derivative() -> None:
    innermost = Value(2.0)
    x = Value(Value(innermost))
    (x**4).backward()
    x.grad.backward()
    x.data.grad.backward()
    assert innermost.grad == 48.0


def test_a_value_of_a_lower_level_is_a_constant_on_the_upper_one() -> None:
    w = Value(3.0)
    x = Value(w)
    y = x * w * w  # d/dx is w^2, whose derivative by w is 2 w
    y.backward()
    assert float(x.grad) == 9.0
    assert w.grad == 0
    x.grad.backward()
    assert w.grad == 6.0


def test_grad_of_nested_values_stays_on_the_level_of_y() -> None:
    inner = Value(2.0)
    x = Value(inner)
    first = micro.grad(x**3, x, create_graph=True)
    second = micro.grad(first, x)
    assert float(second) == 12.0
    assert isinstance(second.data, Value)
    assert micro.grad(second.data, inner).data == 6.0


# Bad calls


@pytest.mark.parametrize("bad", ["a", None, [1.0], object()], ids=lambda bad: type(bad).__name__)
def test_what_is_not_a_number_is_refused(bad: object) -> None:
    with pytest.raises(TypeError, match=r"Value: data must be a number .*got .*convert it first"):
        Value(bad)


def test_a_label_that_is_not_a_string_is_refused() -> None:
    with pytest.raises(TypeError, match="Value: label must be a str, got int: 3"):
        Value(1.0, 3)  # type: ignore[arg-type]


@pytest.mark.parametrize("bad", ["x", None, [1.0], np.ones(2)], ids=repr)
def test_an_operand_that_is_not_a_number_is_refused_and_nothing_changes(bad: object) -> None:
    x = Value(2.0)
    for call, name in (
        (lambda: x + bad, "add"),
        (lambda: x**bad, "pow"),
        (lambda: micro.mul(bad, x), "mul"),
        (lambda: micro.exp(bad), "exp"),
        (lambda: micro.where(True, x, bad), "where"),
        (lambda: micro.gelu(bad), "gelu"),
        (lambda: x < bad, "lt"),
        (lambda: micro.isnan(bad), "isnan"),
    ):
        with pytest.raises(TypeError, match=f"{name}: an operand must be a number .*got"):
            call()
    assert (x.data, x.grad, x.inputs) == (2.0, 0, ())
    assert (x + 1).data == 3.0


def test_what_has_no_order_is_not_compared() -> None:
    z = Value(1j)
    for name in ("relu", "abs", "sign"):
        with pytest.raises(TypeError, match=f"^{name} of .complex.: "):
            getattr(z, name)()
    with pytest.raises(TypeError, match=r"maximum of .complex, complex.: "):
        micro.maximum(z, 2)
    with pytest.raises(TypeError, match=r"lt of .complex, float.: "):
        _ = z < 2.0


def test_clip_needs_a_bound_and_takes_numbers_only() -> None:
    x = Value(0.5)
    with pytest.raises(RuntimeError, match="clip: at least one of min and max must be given"):
        x.clip()
    with pytest.raises(TypeError, match=r"clip: min must be a number .*got str"):
        x.clip("0", 1)
    with pytest.raises(TypeError, match=r"clip: max must be a plain number.*maximum and minimum"):
        x.clip(max=Value(1.0))


def test_clip_with_crossed_bounds_gives_the_upper_one() -> None:
    x = Value(0.5)
    out = x.clip(2, -1)
    out.backward()
    assert (out.data, x.grad) == (-1.0, 0.0)


@pytest.mark.parametrize(
    ("name", "parameter"),
    [
        *(("leaky_relu", "negative_slope"), ("elu", "alpha")),
        *(("softplus", "beta"), ("softplus", "threshold"), ("clip", "min")),
    ],
)
def test_a_parameter_is_a_plain_number_and_no_value(name: str, parameter: str) -> None:
    x = Value(-0.5)
    with pytest.raises(TypeError, match=f"^{name}: {parameter} must be a plain number, got Value"):
        getattr(x, name)(**{parameter: Value(0.5)})
    with pytest.raises(TypeError, match=f"{name}: {parameter} must be a number .*got str"):
        getattr(x, name)(**{parameter: "0.5"})


@pytest.mark.parametrize("decimals", [0.5, True, "1"])
def test_round_takes_whole_decimals(decimals: object) -> None:
    with pytest.raises(TypeError, match=r"round.*decimals must be an int"):
        Value(0.5).round(decimals)  # type: ignore[arg-type]


def test_rounding_a_number_whose_multiple_would_overflow_leaves_it() -> None:
    assert Value(1e308).round(2).data == 1e308
    assert Value(-1.7e308).round(-307).data == -1.7e308


def test_steps_have_the_gradient_0_and_stay_in_the_graph() -> None:
    x, y = Value(2.5), Value(-0.7)
    for out in (x.sign(), x.floor(), x.ceil(), x.round(), x // y):
        x.grad = y.grad = 0
        (3 * out + x * y).backward()
        assert (x.grad, y.grad) == (-0.7, 2.5)
        assert micro.grad(out, x).data == 0


def test_gelu_knows_two_forms() -> None:
    with pytest.raises(RuntimeError, match="gelu: approximate must be 'none' or 'tanh', got 'erf'"):
        Value(0.5).gelu("erf")


def test_an_unknown_argument_is_refused() -> None:
    with pytest.raises(TypeError, match="clip: got an unexpected keyword argument 'lower'"):
        micro.clip(Value(1.0), lower=0)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match=r"exp\(\) takes 1 positional argument"):
        micro.exp(Value(1.0), 2)  # type: ignore[call-arg]


def test_grad_takes_values_only() -> None:
    x = Value(2.0)
    with pytest.raises(TypeError, match=r"grad: y must be a Value, got float: 3\.0"):
        micro.grad(3.0, x)  # type: ignore[call-overload]
    with pytest.raises(TypeError, match=r"grad: xs\[1\] must be a Value, got int: 1"):
        micro.grad(x * x, [x, 1])  # type: ignore[list-item]
    with pytest.raises(TypeError, match="grad: xs must be a Value or a sequence of Values, got"):
        micro.grad(x * x, 3)  # type: ignore[call-overload]
    with pytest.raises(RuntimeError, match="grad: xs is empty"):
        micro.grad(x * x, [])


def test_a_derivative_that_fails_to_be_found_names_its_op(monkeypatch: pytest.MonkeyPatch) -> None:
    x = Value(2.0)
    y = x.exp()
    monkeypatch.delitem(PARTIALS, "exp")
    with pytest.raises(KeyError, match="exp"):
        y.backward()
    assert (x.grad, y.grad) == (0, 0)
