"""Every kind of number that a Value can hold: what the ops and their derivatives are on it."""

from __future__ import annotations

import cmath
import math
import random
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any, Final

import mpmath
import pytest

import micro
from micro import Value, fields
from micro.value import PARTIALS
from tests.micro.cases import CASES, KINKED, TOLERANCE, Case

inf, nan = math.inf, math.nan


def case(name: str) -> Case:
    return next(c for c in CASES if c.spec.name == name)


def same(a: Any, b: Any) -> bool:
    """Equal, with the sign of 0, and nan equal to nan."""
    return repr(a) == repr(b)


# float: IEEE 754

IEEE: Final[list[tuple[str, tuple[float, ...], float, tuple[float, ...]]]] = [
    # op, operands, value, gradient
    ("div", (1.0, 0.0), inf, (inf, -inf)),
    ("div", (1.0, -0.0), -inf, (-inf, -inf)),
    ("div", (0.0, 0.0), nan, (inf, nan)),
    ("log", (0.0,), -inf, (inf,)),
    ("log", (-1.0,), nan, (-1.0,)),
    ("log1p", (-1.0,), -inf, (inf,)),
    ("sqrt", (0.0,), 0.0, (inf,)),
    ("sqrt", (-1.0,), nan, (nan,)),
    ("pow", (0.0, 0.0), 1.0, (0.0, 0.0)),
    ("pow", (0.0, 1.0), 0.0, (1.0, 0.0)),
    ("pow", (0.0, -1.0), inf, (-inf, -inf)),
    ("pow", (-0.0, -3.0), -inf, (-inf, inf)),
    ("pow", (-8.0, 1 / 3), nan, (nan, nan)),
    ("pow", (-10.0, 309.0), -inf, (inf, nan)),
    ("exp", (1000.0,), inf, (inf,)),
    ("exp", (-1000.0,), 0.0, (0.0,)),
    ("expm1", (1000.0,), inf, (inf,)),
    ("tanh", (1e4,), 1.0, (0.0,)),
    ("tanh", (-1e4,), -1.0, (0.0,)),
    ("sigmoid", (1e4,), 1.0, (0.0,)),
    ("sigmoid", (-1e4,), 0.0, (0.0,)),
    ("sin", (inf,), nan, (nan,)),
    ("abs", (-0.0,), 0.0, (0.0,)),
    ("relu", (0.0,), 0.0, (0.0,)),
    ("relu", (nan,), nan, (1.0,)),
    ("mul", (1e200, 1e200), inf, (1e200, 1e200)),
    ("rsqrt", (0.0,), inf, (-inf,)),
    ("rsqrt", (-1.0,), nan, (nan,)),
    ("rsqrt", (1e300,), 1e-150, (-0.0,)),
    ("reciprocal", (-0.0,), -inf, (-inf,)),
    ("reciprocal", (1e-200,), 1e200, (-inf,)),
    ("log2", (2.0**-1074,), -1074.0, (inf,)),
    ("log2", (0.0,), -inf, (inf,)),
    ("log10", (1e22,), 22.0, (1 / (1e22 * math.log(10)),)),
    ("log10", (-1.0,), nan, (-1 / math.log(10),)),
    ("exp2", (1023.0,), 2.0**1023, (math.log(2) * 2.0**1023,)),
    ("exp2", (1024.0,), inf, (inf,)),
    ("tan", (inf,), nan, (nan,)),
    ("atan", (-inf,), -math.pi / 2, (0.0,)),
    ("sinh", (-1000.0,), -inf, (inf,)),
    ("cosh", (-1000.0,), inf, (-inf,)),
    ("logsigmoid", (1000.0,), 0.0, (0.0,)),
    ("logsigmoid", (-1000.0,), -1000.0, (1.0,)),
    ("logsigmoid", (-inf,), -inf, (1.0,)),
    ("softplus", (1000.0,), 1000.0, (1.0,)),
    ("softplus", (-1000.0,), 0.0, (0.0,)),
    ("softplus", (-40.0,), math.exp(-40), (math.exp(-40),)),
    ("silu", (-1e4,), -0.0, (-0.0,)),
    ("silu", (1e4,), 1e4, (1.0,)),
    ("elu", (-1e-20,), -1e-20, (1.0,)),
    ("elu", (-1e4,), -1.0, (0.0,)),
    ("elu", (0.0,), 0.0, (1.0,)),
    ("elu", (1000.0,), 1000.0, (1.0,)),
    ("leaky_relu", (-0.0,), -0.0, (0.01,)),
    ("floor", (-0.5,), -1.0, (0.0,)),
    ("floor", (-inf,), -inf, (0.0,)),
    ("ceil", (-0.5,), -0.0, (0.0,)),
    ("ceil", (nan,), nan, (0.0,)),
    ("round", (0.5,), 0.0, (0.0,)),
    ("round", (1.5,), 2.0, (0.0,)),
    ("round", (-0.25,), -0.0, (0.0,)),
    ("floor_divide", (1.0, 0.1), 9.0, (0.0, 0.0)),
    ("floor_divide", (-1.0, 0.0), -inf, (0.0, 0.0)),
    ("remainder", (-7.0, 3.0), 2.0, (1.0, 3.0)),
    ("remainder", (7.0, -3.0), -2.0, (1.0, 3.0)),
    ("remainder", (1.0, 0.0), nan, (1.0, -inf)),
    ("remainder", (inf, 1.0), nan, (1.0, nan)),
]


@pytest.mark.parametrize(
    ("name", "point", "value", "gradient"), IEEE, ids=[f"{n}{p}" for n, p, *_ in IEEE]
)
def test_a_float_never_raises_and_gives_what_ieee_754_says(
    name: str, point: tuple[float, ...], value: float, gradient: tuple[float, ...]
) -> None:
    xs = [Value(p) for p in point]
    out = case(name)(*xs)
    out.backward()
    assert same(out.data, value)
    assert [float(x.grad) for x in xs] == pytest.approx(list(gradient), nan_ok=True, abs=0)


def test_the_condition_of_where_may_be_a_value_and_has_gradient_0() -> None:
    c, a, b = Value(2.0), Value(3.0), Value(5.0)
    out = c.where(a, b)
    out.backward()
    assert (out.data, c.grad, a.grad, b.grad) == (3.0, 0.0, 1.0, 0.0)


def test_data_that_was_set_to_an_int_counts_as_a_float() -> None:
    x, y = Value(1.0), Value(2.0)
    x.data = 3
    for out in (x * x, x * y, x.relu(), micro.maximum(x, y), x / x):
        assert type(out.data) is float
    (x * y).backward()
    assert (x.grad, y.grad) == (2.0, 3.0)


def test_the_largest_ints_become_infinities() -> None:
    assert (Value(1.0) * 10**400).data == inf
    assert (Value(1.0) - 10**400).data == -inf


# Fraction: exact


def test_rational_ops_are_exact_and_so_are_their_gradients() -> None:
    a, b = Value(Fraction(1, 3)), Value(Fraction(-2, 7))
    y = (a * b - 1) / (a + b**3) + micro.abs(b) ** -2 * micro.square(a) - micro.relu(b)
    y = y + micro.maximum(a, b) - micro.clip(b, Fraction(-1, 9), 1) + micro.where(a > b, a, 0)
    y.backward()
    p, q = Fraction(1, 3), Fraction(-2, 7)
    assert y.data == (p * q - 1) / (p + q**3) + p**2 / q**2 + p + Fraction(1, 9) + p
    assert a.grad == (q * (p + q**3) - (p * q - 1)) / (p + q**3) ** 2 + 2 * p / q**2 + 2
    assert b.grad == ((p * (p + q**3) - (p * q - 1) * 3 * q**2) / (p + q**3) ** 2 - 2 * p**2 / q**3)
    assert [type(v) for v in (y.data, a.grad, b.grad)] == [Fraction] * 3


def test_rounding_and_quotients_of_fractions_are_exact() -> None:
    a, b = Value(Fraction(-7, 2)), Value(Fraction(2, 3))
    assert [x.data for x in (a.floor(), a.ceil(), a.round(), b.round(), b.round(1))] == [
        *(-4, -3, -4, 1),
        Fraction(7, 10),
    ]
    assert ((a // b).data, (a % b).data) == (-6, Fraction(1, 2))
    assert (Value(Fraction(125)).round(-1).data, Value(Fraction(3)).exp2().data) == (120, 8)
    assert (3 // b).data == 4 and (3 % b).data == Fraction(1, 3)
    (a % b).backward()
    assert (a.grad, b.grad) == (1, 6)
    out = b.reciprocal() + a.leaky_relu(Fraction(1, 2))
    out.backward()
    assert (out.data, b.grad) == (Fraction(3, 2) - Fraction(7, 4), 6 - Fraction(9, 4))
    for x in (a.floor(), a.ceil(), a.round(1), a // b, a % b, b.reciprocal(), out):
        assert type(x.data) is Fraction
    for operation in (micro.floor_divide, micro.remainder):
        with pytest.raises(ZeroDivisionError, match="is no Fraction"):
            operation(a, 0)


def test_quotients_of_mpf_are_whole_and_their_remainders_small() -> None:
    with mpmath.workdps(50):
        a, b = Value(mpmath.mpf(10) ** 30 + mpmath.mpf("0.3")), Value(mpmath.mpf("0.1"))
        q, r = a // b, a % b
        assert q.data == mpmath.floor(q.data) and 0 <= r.data < b.data
        assert abs(q.data * b.data + r.data - a.data) < mpmath.mpf(10) ** -18
        assert (Value(mpmath.mpf(1)) // mpmath.mpf(0)).data == mpmath.inf
        assert mpmath.isnan((Value(mpmath.mpf(1)) % mpmath.mpf(0)).data)


def test_ties_split_exactly() -> None:
    a, b = Value(Fraction(1, 3)), Value(Fraction(1, 3))
    micro.maximum(a, b).backward()
    assert (repr(a.grad), repr(b.grad)) == ("Fraction(1, 2)", "Fraction(1, 2)")


def test_the_hundredth_derivative_of_a_power_is_exact() -> None:
    x = Value(Fraction(1, 2))
    y = x**20
    for _ in range(20):
        y = micro.grad(y, x, create_graph=True)
    assert y.data == math.factorial(20)


def test_second_derivatives_of_fractions_are_exact_on_both_ways() -> None:
    x = Value(Fraction(2, 3))
    recorded = micro.grad(micro.grad(1 / x**2, x, create_graph=True), x)
    assert recorded.data == 6 / Fraction(2, 3) ** 4
    nested = Value(Value(Fraction(2, 3)))
    (1 / nested**2).backward()
    nested.grad.backward()
    assert nested.data.grad == 6 / Fraction(2, 3) ** 4


@pytest.mark.parametrize(
    "name",
    [
        *("sqrt", "exp", "log", "log1p", "expm1", "sin", "cos", "tanh", "sigmoid", "erf", "gelu"),
        *("rsqrt", "log2", "log10", "tan", "atan", "sinh", "cosh"),
        *("logsigmoid", "silu"),
    ],
)
def test_what_is_irrational_is_refused_for_a_fraction(name: str) -> None:
    x = Value(Fraction(1, 4))
    with pytest.raises(TypeError, match=f"^{name} of .Fraction.: .*hold a float or an mpmath mpf"):
        getattr(x, name)()


def test_a_fraction_has_no_broken_power_and_no_quotient_by_0() -> None:
    x, zero = Value(Fraction(1, 4)), Value(Fraction(0))
    with pytest.raises(TypeError, match=r"pow of .Fraction, Fraction.: .*hold a float or an mpf"):
        _ = x ** Fraction(1, 2)
    with pytest.raises(ZeroDivisionError, match="div: 1/4 / 0 is no Fraction"):
        _ = x / zero
    with pytest.raises(ZeroDivisionError, match=r"pow: 0 \*\* -1 is no Fraction"):
        _ = zero**-1


def test_a_float_beside_an_mpf_or_a_complex_number_becomes_one() -> None:
    for x in (Value(mpmath.mpf(-1)), Value(complex(-1))):
        assert type(micro.where(False, x, 0.5).data) is type(x.data)
    x = Value(mpmath.mpf(-1))
    for out in (micro.maximum(x, 0.5), x.clip(0.5), x.clip(max=-1.5), x.relu()):
        assert type(out.data) is mpmath.mpf


def test_a_float_beside_a_fraction_makes_a_float() -> None:
    assert same((Value(Fraction(1, 2)) * 0.5).data, 0.25)
    assert same((Value(Fraction(1, 2)) / 0.0).data, inf)
    assert same((1.0 / Value(Fraction(1, 2))).data, 2.0)


# mpmath: at 50 digits

MPMATH: Final[Mapping[str, Callable[..., Any]]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "div": lambda a, b: a / b,
    "neg": lambda a: -a,
    "pow": mpmath.power,
    "square": lambda a: a * a,
    "sqrt": mpmath.sqrt,
    "exp": mpmath.exp,
    "log": mpmath.log,
    "log1p": lambda a: mpmath.log(1 + a),
    "expm1": lambda a: mpmath.exp(a) - 1,
    "sin": mpmath.sin,
    "cos": mpmath.cos,
    "tanh": lambda a: (mpmath.exp(2 * a) - 1) / (mpmath.exp(2 * a) + 1),
    "reciprocal": lambda a: 1 / a,
    "remainder": lambda a, b: a - b * mpmath.floor(a / b),
    "rsqrt": lambda a: mpmath.power(a, mpmath.mpf(-1) / 2),
    "exp2": lambda a: mpmath.exp(a * mpmath.log(2)),
    "log2": lambda a: mpmath.log(a) / mpmath.log(2),
    "log10": lambda a: mpmath.log(a) / mpmath.log(10),
    "tan": mpmath.tan,
    "atan": mpmath.atan,
    "sinh": mpmath.sinh,
    "cosh": mpmath.cosh,
    "sigmoid": lambda a: mpmath.exp(a) / (mpmath.exp(a) + 1),
    "logsigmoid": lambda a: a - mpmath.log(1 + mpmath.exp(a)),
    "softplus": lambda a: mpmath.log(1 + mpmath.exp(a)),
    "softplus-beta=2.0-threshold=5.0": lambda a: (
        a if a > 2.5 else mpmath.log(1 + mpmath.exp(2 * a)) / 2
    ),
    "softplus-beta=-1.5": lambda a: -mpmath.log(1 + mpmath.exp(-1.5 * a)) / 1.5,
    "silu": lambda a: a / (1 + mpmath.exp(-a)),
    "leaky_relu": lambda a: a if a > 0 else 0.01 * a,
    "leaky_relu-negative_slope=-0.5": lambda a: a if a > 0 else -a / 2,
    "elu": lambda a: a if a > 0 else mpmath.exp(a) - 1,
    "elu-alpha=0.5": lambda a: a if a > 0 else (mpmath.exp(a) - 1) / 2,
    "erf": mpmath.erf,
    "gelu-approximate=none": lambda a: a * mpmath.ncdf(a),
    "gelu-approximate=tanh": lambda a: (
        a / 2 * (1 + mpmath.tanh(mpmath.sqrt(2 / mpmath.pi) * (a + 0.044715 * a**3)))
    ),
}
SMOOTH: Final = [c for c in CASES if c.spec.name not in KINKED]


def digits_lost(c: Case, point: tuple[float, ...], order: int) -> list[str]:
    """Where a derivative of that order, by each input alone, is not mpmath's to 50 digits."""
    faults = []
    for i, name in enumerate(c.spec.inputs):
        with mpmath.workdps(50):
            xs = [Value(mpmath.mpf(p)) for p in point]
            actual = c(*xs)
            for _ in range(order):
                actual = micro.grad(actual, xs[i], create_graph=True, allow_unused=True)
                actual = Value(mpmath.mpf(0)) if actual is None else actual
        with mpmath.workdps(110):
            exact = [mpmath.mpf(p) for p in point]
            along = lambda t: MPMATH[str(c)](*exact[:i], t, *exact[i + 1 :])  # noqa: E731, B023
            expected = mpmath.diff(along, exact[i], order)
            if abs(actual.data - expected) > TOLERANCE["50 digits"] * max(1, abs(expected)):
                faults.append(f"d{name}^{order} at {point}: {actual.data}, mpmath {expected}")
    return faults


def test_every_smooth_op_is_compared_with_mpmath() -> None:
    assert {str(c) for c in SMOOTH} == set(MPMATH)


@pytest.mark.parametrize("order", [0, 1, 2])
@pytest.mark.parametrize("c", SMOOTH, ids=str)
def test_fifty_digits(c: Case, order: int) -> None:
    assert [fault for point in c.smooth(3) for fault in digits_lost(c, point, order)] == []


def test_a_derivative_right_to_16_digits_only_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(PARTIALS, "erf", (lambda a: 1.1283791670955126 * micro.exp(-a * a),))
    assert len(digits_lost(case("erf"), (0.5,), 1)) == 1


def test_mpf_has_the_conventions_at_kinks_and_poles() -> None:
    for c in (c for c in CASES if c.spec.name in KINKED):
        for point in c.smooth(4):
            precise = [Value(mpmath.mpf(p)) for p in point]
            floats = [Value(p) for p in point]
            # An mpf has no -0.
            assert repr(float(c(*precise)) + 0.0) == repr(float(c(*floats)) + 0.0)
            assert type(c(*precise).data) is mpmath.mpf
            assert c(*precise).partials() == c(*floats).partials()
    zero, one = Value(mpmath.mpf(0)), Value(mpmath.mpf(1))
    assert (one / zero).data == mpmath.inf
    assert (-one / zero).data == -mpmath.inf
    assert mpmath.isnan((zero / zero).data)
    assert (zero**-1).data == mpmath.inf
    assert zero.log().data == -mpmath.inf
    assert zero.relu().partials() == (0,)
    assert type(zero.relu().data) is mpmath.mpf
    assert micro.isnan(zero / zero)
    assert micro.isinf(one / zero)
    assert f"{one:.2f}" == "1.00"


# complex: holomorphic

# What compares numbers, or has no complex form in the standard library.
REAL: Final = ("softplus", "leaky_relu", "elu", "remainder", "erf")
HOLOMORPHIC: Final = [
    c for c in SMOOTH if c.spec.name not in REAL and str(c) != "gelu-approximate=none"
]


@pytest.mark.parametrize("c", HOLOMORPHIC, ids=str)
def test_the_complex_step_gives_the_derivative(c: Case) -> None:
    h = 1e-30
    for point in c.smooth(6):
        xs = [Value(p) for p in point]
        c(*xs).backward()
        for i, x in enumerate(xs):
            shifted = [complex(p, h if i == j else 0.0) for j, p in enumerate(point)]
            assert c(*shifted).data.imag / h == pytest.approx(x.grad, rel=1e-13, abs=1e-15)


@pytest.mark.parametrize("c", HOLOMORPHIC, ids=str)
def test_complex_values_and_derivatives_agree_with_mpmath(c: Case) -> None:
    rng = random.Random(str(c))
    for _ in range(6):
        point = [complex(rng.uniform(-2, 2), rng.uniform(-2, 2)) for _ in c.spec.inputs]
        ours, theirs = [Value(z) for z in point], [Value(mpmath.mpc(z)) for z in point]
        out, reference = c(*ours), c(*theirs)
        out.backward()
        reference.backward()
        pairs = [(x.grad, y.grad) for x, y in zip(ours, theirs, strict=True)]
        for a, b in ((out.data, reference.data), *pairs):
            assert abs(complex(a) - complex(b)) <= 1e-13 * max(1.0, abs(complex(b)))


def test_log1p_and_expm1_of_a_small_complex_number_keep_their_digits() -> None:
    z = complex(3e-12, 4e-12)
    for name in ("log1p", "expm1"):
        with mpmath.workdps(50):
            exact = complex(MPMATH[name](mpmath.mpc(z)))
        assert abs(case(name)(Value(z)).data - exact) <= 1e-15 * abs(exact)


def test_complex_never_raises_at_its_poles() -> None:
    zero, one = Value(0j), Value(1 + 0j)
    assert cmath.isnan((one / zero).data)
    assert cmath.isnan((zero**-1).data)
    assert zero.log().data == complex(-inf)
    assert cmath.isnan(Value(1000 + 1j).exp().data)
    assert Value(-1000 + 1j).sigmoid().data == 0
    assert Value(1000 + 1j).sigmoid().data == 1
    assert Value(complex(-1)).sqrt().data == 1j
    assert micro.isinf(Value(complex(0, -inf)))
    assert micro.isnan(Value(complex(nan, 0)))


@pytest.mark.parametrize("name", ["softplus", "leaky_relu", "elu", "floor", "round", "relu"])
def test_what_compares_numbers_is_refused_for_complex_ones(name: str) -> None:
    with pytest.raises(TypeError, match=f"^{name} of .complex.: .*(not supported|not defined)"):
        getattr(Value(1j), name)()


def test_complex_numbers_have_no_remainder() -> None:
    for operation in (micro.remainder, micro.floor_divide):
        with pytest.raises(TypeError, match=r"of .complex, complex.: .* not defined for 1j and"):
            operation(Value(1j), 2)


@pytest.mark.parametrize("name", ["erf", "gelu"])
def test_what_the_standard_library_has_no_complex_form_of_is_refused(name: str) -> None:
    with pytest.raises(TypeError, match=f"^{name} of .complex.: erf: not defined for complex"):
        case(name)(Value(1j))


# The functions on plain numbers


def test_the_elementary_functions_take_plain_numbers_too() -> None:
    assert fields.exp(0) == 1.0
    assert fields.div(1, 4) == 0.25
    assert fields.div(1, Fraction(4)) == Fraction(1, 4)
    assert fields.pow(Fraction(1, 2), 2) == Fraction(1, 4)
    assert fields.pow(2, 1j) == 2**1j
    assert fields.sign(-3) == -1.0
    assert same(fields.like(Value(Fraction(3)), 2), Fraction(2))


def test_a_subclass_of_a_number_is_that_kind_of_number() -> None:
    class Tagged(Fraction):
        pass

    x = Value(Tagged(1, 2))
    assert fields.field(x.data) is fields.Rational
    assert (x * 2).data == 1
