"""Programs: they compute what walking the graph does, number for number, and can be read."""

from __future__ import annotations

import importlib.util
import math
import random
from collections.abc import Callable, Sequence
from fractions import Fraction
from pathlib import Path
from types import ModuleType

import pytest

import micro
from micro import Value, compilation
from tests.micro.cases import CASES, Case, weight

every_case = pytest.mark.parametrize("case", CASES, ids=str)


def bits(x: float) -> str:
    """A number to the last bit; every nan is the same."""
    return float(x).hex()


def walked(function: Callable[..., Value], point: Sequence[float]) -> list[str]:
    """The value and the gradients that a new recording and its backward pass give."""
    values = [Value(p) for p in point]
    y = function(*values)
    y.backward()
    return [bits(y.data), *(bits(x.grad) for x in values)]


def compiled(
    values: list[Value], program: compilation.Compiled, point: Sequence[float]
) -> list[str]:
    """The same from a program."""
    for x, p in zip(values, point, strict=True):
        x.data = p
    return [bits(program()), *(bits(x.grad) for x in values)]


def differences(function: Callable[..., Value], points: Sequence[Sequence[float]]) -> list[str]:
    """Where the program of the recording at the first point differs from walking, at any point."""
    values = [Value(p) for p in points[0]]
    program = micro.compile(function(*values))
    return [
        f"at {point}: {found}, walked {expected}"
        for point in points
        if (found := compiled(values, program, point)) != (expected := walked(function, point))
    ]


def test_a_program_of_something_else_is_found() -> None:
    values = [Value(2.0)]
    program = micro.compile(values[0] * 1.0000000000000002)
    assert compiled(values, program, [3.0]) != walked(lambda x: x * 1.0, [3.0])
    assert bits(0.0) != bits(-0.0) and bits(math.nan) == bits(-math.nan)


@every_case
def test_every_op_at_points_where_it_is_smooth(case: Case) -> None:
    c = weight(case)
    assert differences(lambda *xs: case(*xs) * c, list(case.smooth())) == []


@every_case
def test_every_op_where_something_is_tied_huge_or_undefined(case: Case) -> None:
    c = weight(case)
    assert differences(lambda *xs: case(*xs) * c, list(case.extreme())) == []


@every_case
def test_every_op_with_one_value_for_all_operands_and_with_literals(case: Case) -> None:
    count = len(case.spec.inputs)
    points = [(p,) for p in (0.75, -0.5, 0.0, 2.0)]
    assert differences(lambda x: case(*[x] * count) + x, points) == []
    for place in range(count if count > 1 else 0):
        literals = [0.5] * count
        assert (
            differences(lambda x, k=place, n=literals: case(*n[:k], x, *n[k + 1 :]), points) == []
        )


def random_program(seed: int) -> Callable[..., Value]:
    """A computation of many ops of two inputs, each of which can be used several times."""

    def run(*xs: Value) -> Value:
        rng = random.Random(seed)
        values = list(xs)
        for _ in range(60):
            case = rng.choice(CASES)
            operands = [rng.choice([*values, 1.5]) for _ in case.spec.inputs]
            values.append(case(*operands) if any(isinstance(x, Value) for x in operands) else xs[0])
        total = values[-1]
        for x in values[:-1]:
            total = total + x * rng.uniform(-1, 1)
        return total

    return run


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("length", [1, 7, 4_000])
def test_random_programs_in_functions_of_any_length(
    seed: int, length: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compilation, "LENGTH", length)
    rng = random.Random(seed)
    points = [[rng.uniform(-2, 2) for _ in range(2)] for _ in range(6)]
    assert differences(random_program(seed), points) == []


def test_tens_of_thousands_of_ops() -> None:
    def chain(x: Value, w: Value) -> Value:
        for i in range(15_000):
            x = micro.relu(x * w + 1e-4) if i % 2 else x - w * 1e-5
        return x

    assert differences(chain, [(0.5, 0.999), (-0.5, 1.0001), (math.nan, 1.0)]) == []


# What a call does


def test_choices_are_made_anew_by_every_call() -> None:
    a, b = Value(1.0), Value(2.0)
    program = micro.compile(micro.maximum(a, b) * 3)
    for x, y, wanted in ((1.0, 2.0, (0.0, 3.0)), (5.0, 2.0, (3.0, 0.0)), (4.0, 4.0, (1.5, 1.5))):
        a.data, b.data = x, y
        assert program() == 3 * max(x, y)
        assert (a.grad, b.grad) == wanted


def test_gradients_are_set_and_not_added_to() -> None:
    x = Value(3.0)
    y = x * x
    between = y * 2
    loss = between + 1
    program = micro.compile(loss)
    x.data = 4.0
    for _ in range(2):
        assert program() == 33.0
        assert x.grad == 16.0
    assert loss.data == 33.0 and between.data == 18.0 and between.grad == 0


def test_an_int_or_a_bool_in_an_input_counts_as_a_float() -> None:
    x = Value(3.0)
    program = micro.compile(x * x)
    for given in (2, True):
        x.data = given
        assert bits(program()) == bits(float(given) ** 2)


def test_another_kind_of_number_is_refused_by_a_call_that_changes_nothing() -> None:
    x, w = Value(3.0), Value(1.0)
    y = x * w
    program = micro.compile(y)
    program()
    w.data = 7.0
    x.data = Fraction(1, 2)
    with pytest.raises(TypeError, match="holds Fraction Fraction\\(1, 2\\)"):
        program()
    assert (y.data, x.grad, w.grad) == (3.0, 1.0, 3.0)


def test_an_input_alone_is_a_program() -> None:
    x = Value(3.0, label="x")
    program = micro.compile(x)
    assert program.source == "def program(x):\n    dx = 1.0\n    return x, dx\n"
    x.data = 5.0
    assert (program(), x.grad) == (5.0, 1.0)


def test_training_with_programs_takes_the_same_steps() -> None:
    losses = []
    for use in (False, True):
        model = micro.nn.MLP(2, [4, 1], rng=random.Random(1))
        points = [([0.5, -1.0], 1.0), ([-0.25, 0.75], -1.0)]

        def loss(model: micro.nn.MLP = model) -> Value:
            total = Value(0.0)
            for x, t in points:  # noqa: B023
                total = total + (model(x) - t) ** 2
            return total

        optimizer = micro.optim.SGD(model.parameters(), lr=0.05)
        program = micro.compile(loss())
        seen = []
        for _ in range(5):
            if use:
                seen.append(program())
            else:
                optimizer.zero_grad()
                y = loss()
                y.backward()
                seen.append(y.data)
            optimizer.step()
        losses.append(seen)
    assert losses[0] == losses[1]


# The text


def loaded(source: str, folder: Path) -> ModuleType:
    file = folder / "written.py"
    file.write_text(source, "utf-8")
    spec = importlib.util.spec_from_file_location("written", file)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("seed", range(3))
def test_the_source_is_a_module_that_computes_the_same(seed: int, tmp_path: Path) -> None:
    values = [Value(0.5, label="a"), Value(-0.7, label="b")]
    program = micro.compile(random_program(seed)(*values))
    module = loaded(program.source, tmp_path)
    result, *gradients = module.program(*(x.data for x in program.inputs))
    assert bits(result) == bits(program())
    assert [bits(g) for g in gradients] == [bits(x.grad) for x in program.inputs]


def test_what_is_not_finite_has_a_name(tmp_path: Path) -> None:
    x = Value(1.0, label="x")
    program = micro.compile(micro.minimum(x, math.inf) + micro.maximum(x, -math.inf) * math.nan)
    assert math.isnan(program())
    (result, dx) = loaded(program.source, tmp_path).program(1.0)
    assert math.isnan(result) and math.isnan(dx)


def test_labels_become_names_where_they_can() -> None:
    labels = ["w", "w", "dw", "exp", "for", "1.w[0][3]", "v3", "größe", "x); import os #\n", "inf"]
    values = [Value(float(i), label=label) for i, label in enumerate(labels)]
    y = values[0]
    for x in values[1:]:
        y = y * x
    program = micro.compile(y)
    head = program.source.partition("\n")[0]
    names = head.removeprefix("def program(").removesuffix("):").split(", ")
    assert len(set(names)) == len(names) == len(values)
    by_label = {x.label: name for x, name in zip(program.inputs, names, strict=True)}
    assert by_label["1.w[0][3]"] == "x_1_w_0_3"
    assert by_label["x); import os #\n"] == "x_import_os"
    assert {"for", "exp", "inf", "v3", "größe"}.isdisjoint(names)
    assert ("w" in names) != ("dw" in names)  # d of the one is the other
    assert program() == 0.0


def test_a_choice_that_has_one_outcome_in_several_cases_is_written_once() -> None:
    a, b = Value(1.0, label="a"), Value(2.0, label="b")
    assert "v1 = a if a > b or a != a else b\n" in micro.compile(micro.maximum(a, b)).source


# What is refused


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Value(Fraction(1, 2)) * 2, "an input or a literal holds Fraction"),
        (lambda: Value(1.0) * 2j, "holds complex"),
        (lambda: Value(Value(2.0)) * 2, "holds Value"),
    ],
)
def test_numbers_other_than_floats_are_refused(make: Callable[[], Value], words: str) -> None:
    with pytest.raises(TypeError, match=words):
        micro.compile(make())


def test_what_is_no_value_is_refused() -> None:
    with pytest.raises(TypeError, match=r"compile: wanted a Value, got float: 1\.5"):
        micro.compile(1.5)  # type: ignore[arg-type]


def test_constants_alone_are_refused() -> None:
    x = Value(2.0)
    with pytest.raises(RuntimeError, match="made of constants alone"):
        micro.compile(micro.grad(x * x, x))
