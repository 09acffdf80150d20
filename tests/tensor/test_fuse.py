"""Rewrites of programs: the instructions before and after, and that the values are the same."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tensor
from tensor import Program, Tensor, fuse, trace

A = Tensor(np.linspace(-1.0, 2.0, 6).reshape(2, 3), label="a")
B = Tensor(np.linspace(3.0, -2.0, 6).reshape(2, 3), label="b")


def lines(program: Program) -> list[str]:
    return [line.strip().replace(": float64[2, 3]", "") for line in str(program).splitlines()[1:]]


def rewritten(
    function: Callable[..., Any], rewrite: Callable[[Program], Program], *args: Tensor
) -> Program:
    """Return the rewritten program, after comparing what it yields with the original's."""
    args = args or (A, B)
    program = trace(function)(*args)
    shorter = rewrite(program)
    for found, wanted in zip(
        tensor.program.leaves(shorter(*args)), tensor.program.leaves(program(*args)), strict=True
    ):
        np.testing.assert_array_equal(found.data, wanted.data, strict=True)
    return shorter


def test_what_depends_on_constants_alone_is_computed_once() -> None:
    assert lines(rewritten(lambda a, b: a * tensor.exp(np.float64(0.0)), fuse.folded)) == [
        "%0 = mul(a, 1.0)",
        "return %0",
    ]


def test_equal_instructions_are_merged() -> None:
    assert lines(rewritten(lambda a, b: (a * b).sum() + (a * b).sum(), fuse.merged)) == [
        "%0 = mul(a, b)",
        "%1: float64[] = sum(%0, dim=None, keepdim=False)",
        "%2: float64[] = add(%1, %1)",
        "return %2",
    ]


@pytest.mark.parametrize(
    "function",
    [
        lambda a, b: a * 0.0 + a * -0.0,
        lambda a, b: a.sum(0) + a.sum(),
        lambda a, b: a[0] + a[1],
        lambda a, b: a[[0, 1]] + a[[1, 0]],
        lambda a, b: tensor.rand(3) + tensor.rand(3) + a,
    ],
    ids=["signs", "attributes", "indices", "arrays", "draws"],
)
def test_instructions_that_differ_are_not_merged(function: Callable[..., Any]) -> None:
    program = trace(function)(A, B)
    assert len(fuse.merged(program)) == len(program)


def test_a_parameter_is_read_again_after_it_was_changed() -> None:
    w = Tensor([1.0])

    def run(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
        first = w * 2
        kept = w.clone()
        w.add_(1)
        return first + w * 2, kept

    program = fuse.optimized(trace(run)(A, B))
    w.copy_([1.0])
    first, kept = program(A, B)
    assert (first.item(), kept.item()) == (6.0, 1.0)


def test_what_nothing_needs_is_dropped_and_effects_are_kept() -> None:
    w = Tensor([1.0])

    def run(a: Tensor, b: Tensor) -> Tensor:
        (a * b).exp()
        tensor.rand(2)
        w.add_(1)
        return a - b

    assert lines(rewritten(run, fuse.pruned)) == [
        "%0: float32[2] = uniform()",
        "%1: float32[1] = add(t0, 1.0)",
        "%2: float32[1] = setitem(t0, %1, index=Ellipsis, accumulate=False)",
        "%3 = sub(a, b)",
        "return %3",
    ]


def test_gradients_are_kept() -> None:
    w = Tensor(np.ones((2, 3)), requires_grad=True, label="w")

    def run(a: Tensor, b: Tensor) -> None:
        (w * a).sum().backward()

    program = fuse.optimized(trace(run)(A, B))
    assert lines(program) == [
        "%0 = expand(1.0, shape=(2, 3))",
        "%1 = mul(%0, a)",
        "w.grad = %1",
        "return None",
    ] or [leaf.label for leaf, _ in program.gradients] == ["w"]
    w.grad = None
    program(B, A)
    assert w.grad is not None
    np.testing.assert_array_equal(w.grad.data, B.data)


def test_needless_copies_are_dropped() -> None:
    def run(a: Tensor, b: Tensor) -> Tensor:
        c = tensor.cast(a + b, "float64").clone()
        return c.reshape(2, 3) * a.clone()

    assert lines(rewritten(run, fuse.without_copies)) == [
        "%0 = add(a, b)",
        "%1 = clone(a)",
        "%2 = mul(%0, %1)",
        "return %2",
    ]


def test_a_program_that_overwrites_its_own_results_is_left_as_it_is() -> None:
    def run(a: Tensor, b: Tensor) -> Tensor:
        c = a + b
        d = c.clone()
        c[0] = 7
        return c * 2 + c * 2 + d

    program = trace(run)(A, B)
    assert fuse.overwrites(program)
    kept = rewritten(run, fuse.optimized)
    assert [i.op for i in kept.instructions] == [i.op for i in program.instructions]
