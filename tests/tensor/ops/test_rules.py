"""The rules themselves: fused against plain, and the checks against rules that are wrong."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from micro.vocab import VOCAB
from tensor import Tensor, grad, gradcheck, gradgradcheck
from tensor.dispatch import OPS, Rule, quietly, raw
from tests.tensor.ops.cases import CASES
from tests.tensor.ops.harness import (
    DIFFERENTIABLE,
    FLAT,
    call,
    every,
    leaves,
    requiring,
    weights_for,
)
from tests.tensor.ops.table import Sample
from tests.tensor.tolerances import assert_close

FUSED = [name for name, op in OPS.items() if op.fused is not None]


# Fused pullbacks


def arguments(name: str, sample: Sample, dtype: str) -> dict[str, Any]:
    """Everything that a rule may ask for by name, as raw arrays."""
    spec = VOCAB[name]
    arrays = [
        a if a is None else np.asarray(a, dtype=None if kind == "index" else dtype)
        for a, kind in zip(sample.operands, spec.domain, strict=True)
    ]
    attrs = {**spec.attrs, **sample.attrs}
    values: dict[str, Any] = dict(zip(spec.inputs, arrays, strict=True))
    shapes = {f"{key}_shape": np.shape(a) for key, a in values.items()}
    out = np.asarray(quietly().run(OPS[name].kernel, **values, **attrs))
    return {**values, **shapes, **attrs, "attrs": attrs, "out": out}


def summed(g: Any, like: Any) -> Any:
    """A gradient of the broadcast shape, summed down to its operand's."""
    while g.ndim > like.ndim:
        g = g.sum(0)
    return g


def compare_fused(name: str, sample: Sample, dtype: str) -> None:
    op, values = OPS[name], arguments(name, sample, dtype)
    assert op.fused is not None
    g = weights_for(values["out"])
    frozen = {k: v.copy() for k, v in {**values, "g": g}.items() if isinstance(v, np.ndarray)}
    plain = {
        key: summed(
            np.asarray(quietly().run(rule.function, raw, g, **{n: values[n] for n in rule.names})),
            values[key],
        )
        for key, rule in op.rules.items()
        if values[key] is not None
    }
    possible = [[False, True] if key in plain else [False] for key in op.operands]
    for needs in filter(any, itertools.product(*possible)):  # a pass asks for one at least
        given = {n: values[n] for n in op.fused.names}
        fused: Sequence[Any] = quietly().run(op.fused.function, g, list(needs), **given)
        assert len(fused) == len(op.operands)
        for key, need, found in zip(op.operands, needs, fused, strict=True):
            if not need:
                assert found is None, f"{key} was not asked for"
                continue
            assert_close(found, plain[key], name, f"{dtype} {needs}: {key}")
            assert found.base is None or found.base is not g
        for key, old in frozen.items():
            now = g if key == "g" else values[key]
            np.testing.assert_array_equal(now, old, f"{key} was written into")


@every(FUSED)
def test_a_fused_pullback_equals_the_plain_rules(name: str, sample: Sample) -> None:
    for dtype in ("float32", "float64"):
        compare_fused(name, sample, dtype)


@every(FUSED, "points")
def test_a_fused_pullback_equals_the_plain_rules_at_its_points(name: str, point: Sample) -> None:
    compare_fused(name, point, "float64")


def test_a_fused_pullback_passes_not_a_number_as_the_plain_rules_do() -> None:
    values = np.array([[np.nan, -1.0, 1.0, np.inf]])
    for activation in ("relu", "tanh", "sigmoid"):
        sample = Sample((values, np.eye(4)[:, :4], np.zeros(4)), {"activation": activation})
        compare_fused("linear", sample, "float64")


def test_a_fused_pullback_that_is_wrong_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    sample = CASES["linear"].samples[0]
    right = OPS["linear"].fused
    assert right is not None

    def wrong(g: Any, needs: Any, **values: Any) -> Any:
        a, weight, bias = right.function(g, needs, **values)
        return a, weight, None if bias is None else bias * 1.01

    monkeypatch.setattr(OPS["linear"], "fused", Rule(wrong, right.names))
    with pytest.raises(AssertionError, match="bias"):
        compare_fused("linear", sample, "float64")


# Rules that are wrong


RULES = [(name, operand) for name, op in OPS.items() for operand in op.rules]


def rejected(name: str, check: Callable[..., bool]) -> bool:
    """Whether a sample of the op, the smallest first, makes the check fail."""
    samples = sorted(
        CASES[name].samples, key=lambda s: sum(np.size(a) for a in s.operands if a is not None)
    )
    return not all(
        check(
            lambda *operands, attrs=sample.attrs: call(name, operands, attrs),
            leaves(name, sample),
            raise_exception=False,
        )
        for sample in samples
    )


def each(change: Callable[[Any], Any], result: Any) -> Any:
    """A rule's result, changed; where it is a list, each of its gradients."""
    if isinstance(result, list):
        return [x if x is None else change(x) for x in result]
    return change(result)


@pytest.mark.parametrize(("name", "operand"), RULES)
def test_a_rule_that_is_off_by_a_little_is_rejected(
    name: str, operand: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    right = OPS[name].rules[operand]

    def wrong(xp: Any, g: Any, **values: Any) -> Any:
        result = right.function(xp, g, **values)
        if name in FLAT:  # of 0, a little more is nothing
            return result + 1e-4 * g
        return each(lambda x: x * (1 + 1e-4), result)

    monkeypatch.setattr(OPS[name], "fused", None)
    monkeypatch.setattr(OPS[name], "is_plain", not OPS[name].variadic)
    monkeypatch.setattr(OPS[name], "plans", {})  # what to save depends on the rules
    monkeypatch.setitem(OPS[name].rules, operand, Rule(wrong, right.names))
    assert rejected(name, gradcheck)


@pytest.mark.parametrize(("name", "operand"), [rule for rule in RULES if rule[0] not in FLAT])
def test_a_rule_that_stops_the_second_order_is_rejected(
    name: str, operand: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    right = OPS[name].rules[operand]

    def wrong(xp: Any, g: Any, **values: Any) -> Any:
        result = right.function(xp, g, **values)
        return each(lambda x: x.detach() if isinstance(x, Tensor) else x, result)

    monkeypatch.setitem(OPS[name].rules, operand, Rule(wrong, right.names))
    assert rejected(name, gradgradcheck)


@pytest.mark.parametrize("name", DIFFERENTIABLE)
def test_a_rule_leaves_the_gradient_and_what_was_saved_alone(name: str) -> None:
    for sample in CASES[name].samples:
        operands = leaves(name, sample)
        out = call(name, operands, sample.attrs)
        seed = Tensor(weights_for(out))
        arrays = [x.data for x in (*operands, out, seed) if x is not None]
        before = [array.copy() for array in arrays]
        wanted = requiring(operands)
        first = grad(out, wanted, seed, retain_graph=True)
        second = grad(out, wanted, seed)
        for array, old in zip(arrays, before, strict=True):
            np.testing.assert_array_equal(array, old, str(sample))
        for a, b in zip(first, second, strict=True):
            assert a is not None and b is not None
            assert a.data.tobytes() == b.data.tobytes()
            assert not any(np.shares_memory(a.data, array) for array in arrays)
