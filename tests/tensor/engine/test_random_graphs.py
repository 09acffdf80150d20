"""Random programs: fan-out, views, changes in place, hooks, several outputs; against PyTorch.

Where the two libraries disagree about what may be changed in place, or where there is nothing to
compare with, finite differences decide.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st_

import tensor as st
from tensor import Tensor
from tensor.dispatch import OPS, Rule
from tests.tensor.engine.random_graphs import (
    OURS,
    THEIRS,
    Generator,
    Program,
    leaf_values,
    our_leaves,
    run,
    their_leaves,
)

# Chains of a dozen steps in float64, sums in another order: far above rounding, far below a fault.
RTOL, ATOL = 1e-9, 1e-10

# What finite differences do not see.
HIDDEN = {"hook", "detach", "half detached", "no_grad"}

seeds = st_.integers(0, 2**32 - 1)
Differentiate = Callable[..., Sequence[Any]]


def weights_like(values: Sequence[Any], seed: int) -> list[np.ndarray[Any, Any]]:
    random = np.random.default_rng([seed, 1])
    return [random.normal(size=tuple(v.shape)) for v in values]


def contracted(values: Sequence[Any], seed: int, wrap: Callable[[Any], Any]) -> Any:
    """The sum of ``values``, each contracted with random weights."""
    pairs = zip(values, weights_like(values, seed), strict=True)
    return sum((wrap(w) * v).sum() for v, w in pairs)


def numbers(value: Any) -> np.ndarray[Any, Any]:
    """The values of either library's tensor; of None, a zero."""
    if value is None:
        return np.zeros(())
    return value.data if isinstance(value, Tensor) else value.numpy(force=True)


def compare(ours: Sequence[Any], theirs: Sequence[Any], what: str, program: Program) -> None:
    for i, (actual, expected) in enumerate(zip(ours, theirs, strict=True)):
        np.testing.assert_allclose(
            *np.broadcast_arrays(numbers(actual), numbers(expected)),
            rtol=RTOL, atol=ATOL, err_msg=f"{what} {i} of\n{program}",
        )  # fmt: skip


class Refused(Exception):  # noqa: N818 - no fault, but a reason to leave a program aside
    """One of the libraries does not follow a change in place, and says so."""


@contextmanager
def refusals() -> Iterator[None]:
    try:
        yield
    except RuntimeError as error:
        if not re.search(r"modified by an inplace operation|Please clone\(\)", str(error)):
            raise
        raise Refused from error


def differentiated(differentiate: Differentiate, *args: Any, **kwargs: Any) -> Sequence[Any]:
    with refusals():
        return differentiate(*args, allow_unused=True, **kwargs)


def check_against_torch(program: Program, seed: int) -> None:
    """Values and gradients of the first two orders, of leaves and of an intermediate."""
    values = leaf_values(program, seed)
    ours, theirs = our_leaves(values), their_leaves(values)
    mine = run(program, ours, OURS)
    with refusals():
        other = run(program, theirs, THEIRS)
    compare(mine, other, "value", program)
    assert [v.requires_grad for v in mine] == [v.requires_grad for v in other], program
    # What torch returns for a Tensor with a hook depends on which others are asked for.
    middle = [i for i, v in enumerate(mine) if v.node is not None and not v.node.hooks][-1:]
    inputs, targets = ours + [mine[i] for i in middle], theirs + [other[i] for i in middle]
    loss = contracted([mine[i] for i in program.outputs], seed, Tensor)
    wanted = contracted([other[i] for i in program.outputs], seed, torch.tensor)
    first = differentiated(st.grad, loss, inputs, create_graph=True)
    expected = differentiated(torch.autograd.grad, wanted, targets, create_graph=True)
    compare(first, expected, "gradient", program)
    plain = differentiated(st.grad, loss, inputs, retain_graph=True)
    compare(plain, first, "gradient of an unrecorded pass", program)
    kept = [
        i for i, (g, e) in enumerate(zip(first, expected, strict=True))
        if g is not None and e is not None and g.requires_grad and e.requires_grad
    ]  # fmt: skip
    if kept:
        loss = contracted([first[i] for i in kept], seed, Tensor)
        wanted = contracted([expected[i] for i in kept], seed, torch.tensor)
        second = differentiated(st.grad, loss, ours)
        expected = differentiated(torch.autograd.grad, wanted, theirs)
        compare(second, expected, "second derivative", program)


def check_against_differences(program: Program, seed: int) -> None:
    """The slope along a random direction, by a central difference."""
    values = leaf_values(program, seed)
    directions = weights_like(values, seed + 1)

    def loss(leaves: Sequence[Tensor]) -> Tensor:
        results = run(program, leaves, OURS)
        return contracted([results[i] for i in program.outputs], seed, Tensor)

    def moved(step: float) -> float:
        pairs = zip(values, directions, strict=True)
        return loss(our_leaves([v + step * d for v, d in pairs])).item()

    leaves = our_leaves(values)
    grads = differentiated(st.grad, loss(leaves), leaves)
    slope = sum((numbers(g) * d).sum() for g, d in zip(grads, directions, strict=True))
    h = 1e-6
    right, here, left = moved(h), moved(0.0), moved(-h)
    if abs((right - here) - (here - left)) > 1e-3 * abs(right - left) + 1e-9:
        return  # a kink within reach
    assert slope == pytest.approx((right - left) / (2 * h), rel=1e-5, abs=1e-6), program


def check_collecting(program: Program, seed: int) -> None:
    """Two passes over a kept graph, retained gradients, and what .grad holds in the end."""
    leaves = our_leaves(leaf_values(program, seed))
    results = run(program, leaves, OURS)
    outputs = [results[i] for i in program.outputs]
    # A change in place gives back the Tensor that it changed: each counts once.
    kept = list({id(v): v for v in results[len(leaves) :] if v.node is not None}.values())
    loss = contracted(outputs, seed, Tensor)
    expected = differentiated(st.grad, loss, [*leaves, *kept], retain_graph=True)
    for v in kept:
        v.retain_grad()
    loss.backward(retain_graph=True)
    once = [numbers(v.grad).copy() for v in (*leaves, *kept)]
    loss.backward()
    for i, v in enumerate((*leaves, *kept)):
        np.testing.assert_allclose(once[i], numbers(expected[i]), RTOL, ATOL, err_msg=str(program))
        np.testing.assert_array_equal(numbers(v.grad), 2 * once[i], err_msg=str(program))
    grads = [v.grad.data for v in (*leaves, *kept) if v.grad is not None]
    for i, g in enumerate(grads):
        assert not any(np.shares_memory(g, other) for other in grads[:i]), program
        assert not any(np.shares_memory(g, v.data) for v in results), program


@given(seeds)
def test_values_and_gradients_of_two_orders_agree_with_torch(seed: int) -> None:
    program = Generator(seed).draw(10)
    try:
        check_against_torch(program, seed)
    except Refused:
        # One of the two refuses; the other's answer, if it has one, is checked below.
        assert any(step.name.endswith("_") for step in program.steps)


@given(seeds)
def test_gradients_agree_with_finite_differences(seed: int) -> None:
    program = Generator(seed).draw(8)
    if HIDDEN.isdisjoint(step.name for step in program.steps):
        try:
            check_against_differences(program, seed)
        except Refused:
            assert any(step.name.endswith("_") for step in program.steps)


@given(seeds)
def test_collected_gradients_are_those_returned_and_nobody_elses(seed: int) -> None:
    program = Generator(seed).draw(8)
    try:
        check_collecting(program, seed)
    except Refused:
        assert any(step.name.endswith("_") for step in program.steps)


def test_the_generator_draws_every_kind_of_step() -> None:
    drawn = {step.name for seed in range(200) for step in Generator(seed).draw(10).steps}
    assert drawn == set(OURS) == set(THEIRS)


def test_a_change_in_place_is_not_what_most_programs_fail_by() -> None:
    refused = 0
    for seed in range(60):
        try:
            check_against_torch(Generator(seed).draw(10), seed)
        except Refused:
            refused += 1
    assert refused < 20  # as often as something was saved before it was changed


CHECKS: dict[str, Callable[[Program, int], None]] = {
    "torch": check_against_torch,
    "differences": check_against_differences,
}

WRONG: dict[str, tuple[str, Callable[..., Any]]] = {
    "tanh": ("a", lambda xp, g, out: g * (1 - out)),
    "add": ("b", lambda xp, g: 1.9 * g),
    "mul": ("a", lambda xp, g, b: g * b * (1 + 1e-3)),
    "getitem": ("a", lambda xp, g, index, a_shape: 2 * xp.getitem_adjoint(g, index, a_shape)),
}


@pytest.mark.parametrize("check", CHECKS)
@pytest.mark.parametrize("op", WRONG)
def test_a_wrong_rule_is_found(op: str, check: str, monkeypatch: pytest.MonkeyPatch) -> None:
    operand, rule = WRONG[op]
    names = OPS[op].rules[operand].names
    monkeypatch.setitem(OPS[op].rules, operand, Rule(rule, names))
    found = 0
    for seed in range(60):
        program = Generator(seed).draw(6)
        if HIDDEN.isdisjoint(step.name for step in program.steps):
            try:
                CHECKS[check](program, seed)
            except AssertionError:
                found += 1
            except Refused:
                pass
    assert found > 0
