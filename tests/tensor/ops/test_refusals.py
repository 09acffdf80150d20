"""Every op: calls that must be refused, with a message that helps, and nothing changed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from micro.vocab import REQUIRED, VOCAB
from tensor import (
    ShapeError,
    Tensor,
    default_generator,
    enable_grad,
    grad,
    is_grad_enabled,
    linear,
    no_grad,
)
from tests.tensor.ops.cases import CASES
from tests.tensor.ops.harness import call, every, leaves, requiring, weights_for
from tests.tensor.ops.table import Bad


def given(operand: Any) -> Any:
    """An array that a Tensor can hold as one; anything else as it is."""
    if type(operand) is not np.ndarray or operand.dtype.kind not in "fiub":
        return operand
    return Tensor(operand, requires_grad=operand.dtype.kind == "f")


@every(list(VOCAB), "bad")
def test_a_bad_call_is_refused_with_a_reason_and_changes_nothing(name: str, bad: Bad) -> None:
    operands = [given(operand) for operand in bad.operands]
    tensors = [x for x in operands if isinstance(x, Tensor)]
    before = [x.data.copy() for x in tensors]
    state = default_generator.get_state()
    for mode in (enable_grad, no_grad):
        with mode():
            enabled = is_grad_enabled()
            with pytest.raises(bad.error) as caught:
                call(name, operands, bad.attrs)
            assert is_grad_enabled() is enabled
        missing = [word for word in bad.words if word not in str(caught.value)]
        assert not missing, f"{missing} not in {caught.value}"
    for x, old in zip(tensors, before, strict=True):
        np.testing.assert_array_equal(x.data, old)
        assert x.version == 0 and x.grad is None and x.node is None
    assert default_generator.get_state() == state

    sample = CASES[name].samples[0]
    good = leaves(name, sample)
    out = call(name, good, sample.attrs)
    if out.requires_grad:
        grad(out, requiring(good), Tensor(weights_for(out)))


SHAPES = [(name, bad) for name in CASES for bad in CASES[name].bad if bad.error is ShapeError]


@pytest.mark.parametrize("base", [RuntimeError, ValueError])
def test_errors_about_shapes_can_be_caught_either_way(base: type[Exception]) -> None:
    assert len(SHAPES) > 50
    for name, bad in SHAPES:
        with pytest.raises(base):
            call(name, [given(operand) for operand in bad.operands], bad.attrs)


@pytest.mark.parametrize("name", VOCAB)
def test_an_argument_too_many_twice_or_unknown_is_refused(name: str) -> None:
    sample = CASES[name].samples[0]
    operands = leaves(name, sample)
    attrs = {k: v for k, v in VOCAB[name].attrs.items() if v is not REQUIRED}
    attrs = {**attrs, **sample.attrs}
    call(name, operands, attrs)
    with pytest.raises(TypeError):
        call(name, operands, {**attrs, "surplus": 1})
    if not VOCAB[name].variadic:
        with pytest.raises(TypeError):
            call(name, [*operands, *(attrs[k] for k in VOCAB[name].attrs), 1], {})
    for key in attrs:
        ahead = [attrs[k] for k in VOCAB[name].attrs][: list(VOCAB[name].attrs).index(key) + 1]
        if not VOCAB[name].variadic:
            with pytest.raises(TypeError, match=f"{name}.*{key}.*twice"):
                call(name, [*operands, *ahead], {key: attrs[key]})


@pytest.mark.parametrize("name", [n for n in VOCAB if not VOCAB[n].variadic])
def test_a_missing_operand_is_named(name: str) -> None:
    sample = CASES[name].samples[0]
    spec = VOCAB[name]
    needed = [i for i, operand in enumerate(spec.inputs) if operand not in spec.optional]
    operands = leaves(name, sample)[: needed[-1]]
    with pytest.raises(TypeError, match=spec.inputs[needed[-1]]) as caught:
        call(name, operands, sample.attrs)
    assert name in str(caught.value) and "missing" in str(caught.value)


def test_an_operand_that_was_not_given_is_not_reported() -> None:
    with pytest.raises(ShapeError, match=r"\(operands: a \(2, 3\), weight \(4, 5\)\)$"):
        linear(Tensor(np.ones((2, 3))), Tensor(np.ones((4, 5))))
