"""Random programs in three engines: values and derivatives of two orders, within rounding."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings

import micro
from micro.value import Value
from micro.vocab import VOCAB
from tensor import passes
from tensor.dispatch import OPS, Rule, raw
from tests.crosscheck import draws, generate
from tests.crosscheck.bounds import UNIT, C, bounds
from tests.crosscheck.check import Disagreement, check, check_exact, shrunk
from tests.crosscheck.generate import draw, pairs
from tests.crosscheck.programs import CHANGES, Leaf, Program, Step
from tests.crosscheck.regressions import REGRESSIONS
from tests.crosscheck.strategy import programs
from tests.structure import ROOT

EXACT_OPS = [name for name in draws.OPS if name in generate.EXACT]

# Every block is a test of its own, so that several processes can share them.
BLOCKS, PROGRAMS, EXACT_PROGRAMS = 20, 100, 30


# The programs


def test_every_op_can_be_drawn() -> None:
    assert [name for name in VOCAB if name not in draws.drawable()] == []


def test_an_op_that_cannot_be_drawn_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(draws.DRAWS, "softmax")
    assert [name for name in VOCAB if name not in draws.drawable()] == ["softmax"]


def test_every_op_with_a_kink_is_kept_away_from_it() -> None:
    watched = {name for name, spec in VOCAB.items() if spec.kinks} - UNWATCHED
    assert sorted(watched - {*generate.DISTANCES}) == []


# Their kinks are at the edge of a domain that operands are kept inside of, or follow from integers
# and truth values.
UNWATCHED = {
    *("sqrt", "rsqrt", "pow", "where", "softplus", "logsumexp", "cross_entropy", "setitem"),
    *("index_put", "masked_fill"),
    *("scatter", "attention_weights", "scaled_dot_product_attention"),
}


def test_a_thousand_programs_hold_every_op_and_every_feature() -> None:
    ops: Counter[str] = Counter()
    seen: Counter[str] = Counter()
    for seed in range(1_000):
        program = draw(seed, ops=draws.OPS)
        ops.update(step.op for step in program.steps)
        seen.update(_features(program))
    assert sorted({*draws.OPS} - {*ops}) == []
    assert sorted({*FEATURES} - {f for f in seen if seen[f] >= 10}) == []


FEATURES = (
    *("fan-out", "an operand twice", "several outputs", "0-d", "size 0", "constants", "ties"),
    *("detached", "repeated indices", "broadcasting", "views", "a leaf used twice", "zeros"),
    *("hooked", "a copy changed in place", "a result changed in place"),
)


def _features(program: Program) -> Iterator[str]:
    uses = Counter(i for step in program.steps for i in step.operands)
    first = len(program.leaves)
    for i, leaf in enumerate(program.leaves):
        real = leaf.kind == "float"
        yield from ["a leaf used twice"] * (uses[i] > 1)
        yield from ["0-d"] * (real and leaf.grad and leaf.shape == ())
        yield from ["size 0"] * (real and 0 in leaf.shape)
        yield from ["constants"] * (real and not leaf.grad and leaf.shape != ())
        yield from ["ties"] * (real and len(set(leaf.values)) < len(leaf.values))
        yield from ["zeros"] * (real and 0.0 in leaf.values)
    yield from ["several outputs"] * (len(program.outputs) > 1)
    for i, step in enumerate(program.steps, first):
        operands = [j for j in step.operands if j is not None]
        yield from ["fan-out"] * (uses[i] > 1)
        yield from ["an operand twice"] * (len(set(operands)) < len(operands))
        yield from ["detached"] * (step.op == "detach")
        yield from ["hooked"] * (step.op == "hook")
        yield from ["views"] * (step.op in VOCAB and VOCAB[step.op].view)
        if step.op in CHANGES:
            yield f"a {'copy' if step.attrs['copy'] else 'result'} changed in place"
        index = step.attrs.get("index")
        yield from ["repeated indices"] * (isinstance(index, list) and len({*index}) < len(index))
        shapes = {program.leaves[j].shape for j in operands if j < first}
        yield from ["broadcasting"] * (step.op in ("add", "mul", "sub", "div") and len(shapes) > 1)


def test_a_pair_of_ops_is_drawn_on_demand() -> None:
    wanted = pairs(draws.OPS)
    assert len(wanted) > 5_000
    for seed, pair in enumerate(wanted[:: len(wanted) // 100]):
        program = draw(seed, pair=pair, ops=draws.OPS)
        assert pair in {found[:2] for found in program.pairs()}


def test_the_same_seed_draws_the_same_program() -> None:
    assert draw(7, ops=draws.OPS) == draw(7, ops=draws.OPS)


def test_a_printed_program_is_python_and_so_is_its_script() -> None:
    program = draw(3, ops=draws.OPS)
    code = (
        "from tests.crosscheck.generate import draw\nfrom tests.crosscheck import draws\n"
        f"from tests.crosscheck.programs import CHANGES, Leaf, Program, Step\nprogram = {program}\n"
        "assert program == draw(3, ops=draws.OPS)\n" + program.code()
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "Tensor" in done.stdout


# The three engines


@pytest.mark.parametrize("block", range(BLOCKS))
def test_engines_agree_within_rounding(block: int) -> None:
    for seed in range(block * PROGRAMS, (block + 1) * PROGRAMS):
        examine(draw(seed, ops=draws.OPS), check)


@given(programs())
@settings(max_examples=100)
def test_engines_agree_on_programs_that_hypothesis_draws(program: Program) -> None:
    check(program)


@pytest.mark.parametrize("block", range(BLOCKS))
def test_engines_agree_to_the_last_bit_where_nothing_rounds(block: int) -> None:
    seeds = range(block * EXACT_PROGRAMS, (block + 1) * EXACT_PROGRAMS)
    exact = 0
    for seed in seeds:
        exact += bool(examine(draw(seed, ops=EXACT_OPS, exact=True), check_exact))
    assert exact >= 0.83 * EXACT_PROGRAMS  # of the rest some number is too long


@pytest.mark.parametrize("name", REGRESSIONS)
def test_a_program_that_failed_once_does_not_again(name: str) -> None:
    check(REGRESSIONS[name])


def examine(program: Program, checker: Callable[[Program], Any]) -> Any:
    """Check a program; where it fails, show a small one that fails too."""
    try:
        return checker(program)
    except Disagreement:
        checker(shrunk(program, lambda smaller: fails(smaller, checker)))
        raise


def fails(program: Program, checker: Callable[[Program], Any] = check) -> bool:
    try:
        checker(program)
    except Disagreement:
        return True
    return False


# The bound


def test_the_bound_of_a_sum_counts_every_term_and_partial_sum() -> None:
    a, b, c = (micro.exp(Value(x)) for x in (0.0, 0.0, 0.0))
    # Each exp is 1 and may be off by 1 unit, the first sum by 2, the second by 3.
    total = a + b + c
    assert bounds([total])[id(total)] == 3 * 1 + 2 + 3


def test_the_bound_of_a_difference_is_that_of_what_cancels() -> None:
    x = Value(3.0)
    difference = micro.square(x) - micro.square(x)
    assert difference.data == 0
    assert bounds([difference])[id(difference)] == 9 + 9 + 18


def test_the_bound_grows_with_the_derivative() -> None:
    x = micro.mul(Value(1.0), Value(8.0))
    y = micro.log(x)
    assert bounds([y])[id(y)] == pytest.approx(np.log(8) + 8 / 8)


def test_no_error_reaches_a_quarter_of_what_the_bound_allows() -> None:
    worst: dict[str, float] = {}
    refused = 0
    for seed in range(100):
        report = check(draw(seed, ops=draws.OPS))
        refused += report.refused
        for engine_, ratio in report.worst.items():
            worst[engine_] = max(worst.get(engine_, 0.0), ratio)
    assert refused < 5  # what is changed in place is not what most programs are about
    assert set(UNIT) == {name.split()[1].strip(",") for name in worst}
    assert 0 < max(worst.values()) < C / 4


# Planted faults


Plant = Callable[[pytest.MonkeyPatch], None]


def rule(op: str, operand: str, function: Callable[..., Any]) -> Plant:
    """A fault in one rule: its function is replaced, its parameters' names stay."""

    def plant(monkeypatch: pytest.MonkeyPatch) -> None:
        names = OPS[op].rules[operand].names
        monkeypatch.setitem(OPS[op].rules, operand, Rule(function, names))

    return plant


def _overwritten(monkeypatch: pytest.MonkeyPatch) -> None:
    """= for +=: what arrives at a node second replaces what came first."""

    def add_up(self: Any, key: int, gradient: Any) -> None:
        self.grads[key] = gradient

    monkeypatch.setattr(passes.Pass, "_add_up", add_up)


def _unsummed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A missing un-broadcast: the first of the repeated gradients stands for their sum."""

    def fitted(xp: Any, node: Any, i: int, g: Any) -> Any:
        shape = node.inputs[i].shape
        first = tuple([0] * (g.ndim - len(shape)) + [slice(0, n) for n in shape])
        return xp.cast(xp.getitem(g, first), node.inputs[i].dtype)

    monkeypatch.setattr(passes, "_fitted", fitted)


def _stale(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stale saved value: of two results of one shape the older is used for both."""
    kept: dict[Any, Any] = {}

    def tanh(xp: Any, g: Any, out: Any) -> Any:
        old = kept.setdefault(tuple(out.shape), np.array(out if xp is raw else out.data))
        return g * (1 - old * old)

    rule("tanh", "a", tanh)(monkeypatch)


FAULTS: dict[str, tuple[str, Plant]] = {
    "a wrong sign": ("sub", rule("sub", "b", lambda xp, g: g)),
    "a wrong factor": ("square", rule("square", "a", lambda xp, g, a: g * 1.9 * a)),
    "a factor that is off in the ninth digit": (
        "mul",
        rule("mul", "a", lambda xp, g, b: g * b * (1 + 1e-9)),
    ),
    "a missing term": ("softmax", rule("softmax", "a", lambda xp, g, out, dim: g * out)),
    "swapped operands": ("div", rule("div", "a", lambda xp, g, b: g * b)),
    "= for +=": ("mul", _overwritten),
    "a missing un-broadcast": ("add", _unsummed),
    "a stale saved value": ("tanh", _stale),
    ">= for >": (
        "relu",
        rule("relu", "a", lambda xp, g, out: xp.where(out < 0, 0.0, g)),
    ),
    "a gradient that is cut off": (
        "exp",
        rule("exp", "a", lambda xp, g, out: (g if xp is raw else g.detach()) * out),
    ),
}

# At the first order there is nothing to detach.
SECOND_ORDER = {"a gradient that is cut off"}


def found(op: str, checker: Callable[[Program], Any], exact: bool) -> Program:
    """The first of sixty programs around an op that a checker rejects."""
    ops = EXACT_OPS if exact else draws.OPS
    for seed in range(60):
        pair = (op, ("add", "mul", "sub")[seed % 3])
        program = draw(seed, pair=pair, ops=ops, exact=exact)
        if fails(program, checker):
            return program
    raise AssertionError("the fault was not found")


@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_is_found_and_shrunk(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    op, plant = FAULTS[fault]
    plant(monkeypatch)
    program = shrunk(found(op, check, exact=False), fails)
    assert len(program.steps) <= 4
    assert fails(program)


@pytest.mark.parametrize("fault", [f for f in FAULTS if FAULTS[f][0] in EXACT_OPS])
def test_a_planted_fault_is_found_where_nothing_rounds(
    fault: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    op, plant = FAULTS[fault]
    plant(monkeypatch)
    assert found(op, check_exact, exact=True)


def test_a_promoted_dtype_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = OPS["neg"].kernel
    monkeypatch.setattr(OPS["neg"], "kernel", lambda a: kernel(a).astype(np.float64))
    program = Program((Leaf((2,), (1.0, 2.0)),), (Step("neg", (0,)),), (1,))
    with pytest.raises(Disagreement, match=r"output 0.*float32 against micro: dtype float64"):
        check(program)


def test_a_wrong_derivative_in_micro_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(micro.value.PARTIALS, "sin", (lambda a: -micro.fields.cos(a),))
    program = Program((Leaf((2,), (1.0, 2.0)),), (Step("sin", (0,)),), (1,))
    with pytest.raises(Disagreement, match="gradient 0: tensor float64"):
        check(program)


def test_a_shrunk_program_has_nothing_that_it_could_do_without() -> None:
    program = draw(11, ops=draws.OPS)
    extended = dataclasses.replace(
        program,
        steps=(*program.steps, Step("sin", (0,)), Step("mul", (0, 0))),
        outputs=(*program.outputs, len(program.leaves) + len(program.steps)),
    )

    def has_sine(candidate: Program) -> bool:
        check(candidate)
        return any(step.op == "sin" for step in candidate.steps)

    small = shrunk(extended, has_sine)
    assert [step.op for step in small.steps] == ["sin"]
    assert len(small.leaves) == 1
