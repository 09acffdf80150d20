"""Random programs: what passes over a graph collect is what ``grad`` returns, and nobody else's.

The same programs' numbers are held against the scalar engine and PyTorch in tests/crosscheck.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tensor
from tensor import Tensor
from tests.crosscheck.draws import OPS
from tests.crosscheck.engines import Refused, refusals, tensor_call
from tests.crosscheck.generate import draw
from tests.crosscheck.programs import FIRST, Program, cotangent, run


def check_collecting(program: Program) -> None:
    """Two passes over a kept graph, retained gradients, and what .grad holds in the end."""
    leaves = [Tensor(leaf.array(), requires_grad=leaf.grad) for leaf in program.leaves]
    with refusals(program):
        results = run(program, leaves, tensor_call)
        places = [i for i in program.outputs if results[i].requires_grad]
        outputs = [results[i] for i in places]
        seeds = [Tensor(cotangent(program.seed, FIRST + i, results[i].shape)) for i in places]
        # A change in place gives back the Tensor that it changed: each counts once.
        unique = list({id(v): v for v in results if v.requires_grad}.values())
        found = tensor.grad(outputs, unique, seeds, retain_graph=True, allow_unused=True)
        for v in unique:
            v.retain_grad()
        tensor.backward(outputs, seeds, retain_graph=True)
    once = [numbers(v.grad).copy() for v in unique]
    tensor.backward(outputs, seeds)
    for v, first, g in zip(unique, once, found, strict=True):
        # Sums of several gradients may be made in another order.
        np.testing.assert_allclose(first, numbers(g), 1e-12, 1e-12, err_msg=str(program))
        np.testing.assert_array_equal(numbers(v.grad), 2 * first, err_msg=str(program))
    grads = [v.grad.data for v in unique if v.grad is not None]
    for i, g in enumerate(grads):
        assert not any(np.shares_memory(g, other) for other in grads[:i]), program
        assert not any(np.shares_memory(g, v.data) for v in results), program


def numbers(value: Tensor | None) -> np.ndarray[Any, Any]:
    return np.zeros(()) if value is None else value.data


@pytest.mark.parametrize("block", range(4))
def test_collected_gradients_are_those_returned_and_nobody_elses(block: int) -> None:
    for seed in range(100 * block, 100 * (block + 1)):
        program = draw(seed, ops=OPS)
        try:
            check_collecting(program)
        except Refused:
            assert any(not step.attrs.get("copy", True) for step in program.steps), program


def test_a_gradient_that_is_shared_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tensor.passes.Pass, "_copied", lambda self, g: g)
    with pytest.raises(AssertionError):
        for seed in range(100):
            try:
                check_collecting(draw(seed, ops=OPS))
            except Refused:
                continue
