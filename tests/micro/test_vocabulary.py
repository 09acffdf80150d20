"""Every op of the vocabulary is there, once, under one name and with one signature."""

from __future__ import annotations

import inspect

import pytest

import micro
from micro import Value
from micro.value import OPS, PARTIALS, op, predicate
from micro.vocab import OPERATORS, VOCAB, OpSpec
from tests.micro.cases import BOOLEAN, CASES, PREDICATES, SPECS, Case

by_name = pytest.mark.parametrize("spec", SPECS, ids=lambda spec: spec.name)


def test_micro_has_the_ops_whose_scope_is_both_and_no_others() -> None:
    assert set(OPS) == {spec.name for spec in SPECS}
    assert set(PARTIALS) == set(OPS) - BOOLEAN


@by_name
def test_an_op_has_the_signature_of_the_vocabulary(spec: OpSpec) -> None:
    signature = inspect.signature(getattr(micro, spec.name))
    parameters = list(signature.parameters.values())
    assert tuple(p.name for p in parameters[: len(spec.inputs)]) == spec.inputs
    assert all(p.default is inspect.Parameter.empty for p in parameters[: len(spec.inputs)])
    assert {p.name: p.default for p in parameters[len(spec.inputs) :]} == spec.attrs


@by_name
def test_an_op_is_a_function_and_the_same_function_is_the_method(spec: OpSpec) -> None:
    assert getattr(micro, spec.name) is OPS[spec.name]
    assert vars(Value)[spec.name] is OPS[spec.name]
    assert spec.name in micro.__all__


@pytest.mark.parametrize("case", CASES, ids=str)
def test_an_op_has_one_derivative_for_each_input(case: Case) -> None:
    assert len(PARTIALS[case.spec.name]) == len(case.spec.inputs)
    for point in case.smooth(2):
        partials = case(*map(Value, point)).partials()
        assert [type(d) for d in partials] == [float] * len(point)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_operands_can_be_named(case: Case) -> None:
    point = next(case.smooth())
    named = dict(zip(case.spec.inputs, map(Value, point), strict=True))
    function = getattr(micro, case.spec.name)
    assert repr(function(**named, **case.attrs)) == repr(case(*point))


@pytest.mark.parametrize("case", PREDICATES, ids=str)
def test_a_predicate_takes_named_operands_and_answers_with_a_bool(case: Case) -> None:
    point = (2.0, 3.0)[: len(case.spec.inputs)]
    named = dict(zip(reversed(case.spec.inputs), reversed(point), strict=True))
    answer = getattr(micro, case.spec.name)(**named)
    assert type(answer) is bool
    assert answer is case(*point)


@pytest.mark.parametrize("dunder", [d for d, (name, _) in OPERATORS.items() if name in OPS])
def test_every_operator_means_its_op(dunder: str) -> None:
    name, form = OPERATORS[dunder]
    arity = len(VOCAB[name].inputs)
    a, b = Value(2.0), Value(3.0)
    out = getattr(a, dunder)(*(b,) * (arity - 1))
    expected = OPS[name](b, a) if form == "r" else OPS[name](*(a, b)[:arity])
    assert out == expected
    if isinstance(out, Value):
        assert out.op == name
        assert out.inputs == expected.inputs


def test_a_derivative_that_is_missing_is_refused() -> None:
    def mul(a: float, b: float) -> float:
        return a * b

    before = PARTIALS["mul"], OPS["mul"]
    with pytest.raises(TypeError, match="mul: wanted a derivative by each of"):
        op(da=1)(mul)
    assert (PARTIALS["mul"], OPS["mul"]) == before


def test_an_op_that_is_not_in_the_vocabulary_is_refused() -> None:
    def cube(a: float) -> float:
        return a * a * a

    with pytest.raises(KeyError, match="cube"):
        op(da=1)(cube)
    with pytest.raises(KeyError, match="cube"):
        predicate()(cube)  # type: ignore[arg-type]
    assert "cube" not in OPS
