"""The engine adds in place to arrays of its own alone."""

from __future__ import annotations

import numpy as np
import pytest

from tensor import Tensor, grad
from tensor.dispatch import OPS, Rule
from tests.tensor.engine.helpers import leaf, weights


def collected(last: str) -> tuple[Tensor, Tensor, Tensor]:
    """A leaf, the result of an op on it, and the leaf's gradient, to which that op adds first."""
    x, w = leaf(3), weights(3)
    others = x * w + x * w
    y = getattr(x, last)()
    (g,) = grad((others + y).sum(), x)
    assert g is not None
    return x, y, g


def test_a_saved_operand_that_a_rule_returns_is_not_added_to(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(OPS["square"].rules, "a", Rule(lambda xp, g, a: a, ("a",)))
    x, _, g = collected("square")
    np.testing.assert_array_equal(x.data, leaf(3).data)
    np.testing.assert_allclose(g, x.data + 2 * weights(3).data)


def test_a_saved_result_that_a_rule_returns_is_not_added_to(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(OPS["exp"].rules, "a", Rule(lambda xp, g, out: out, ("out",)))
    x, y, g = collected("exp")
    np.testing.assert_array_equal(y.data, np.exp(x.data))
    np.testing.assert_allclose(g, y.data + 2 * weights(3).data)
