from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import tensor
from tensor import (
    GradcheckError,
    Tensor,
    default_generator,
    gradcheck,
    gradgradcheck,
    no_grad,
    passes,
)
from tensor.dispatch import OPS, Rule

# The function has the module's name.
gradcheck_module = importlib.import_module("tensor.gradcheck")

VALUES = np.array([[-1.3, 0.4, 0.9], [2.1, -0.2, 1.7]])


def leaf(values: Any = VALUES) -> Tensor:
    return Tensor(np.asarray(values, dtype=np.float64), requires_grad=True)


both_modes = pytest.mark.parametrize("fast_mode", [False, True])


def frozen(x: Tensor) -> Tensor:
    """A part of the forward that the backward does not see."""
    return x.detach()


# Right gradients


def test_right_gradients_pass_for_several_inputs_and_outputs() -> None:
    x, y = leaf(), leaf([0.5, 1.5, -2.0])
    assert gradcheck(lambda x, y: (x * y, (x / y).exp().sum(0), y), [x, y]) is True
    assert gradgradcheck(lambda x, y: (x * y, (x / y).exp().sum(0), y), [x, y]) is True


def test_a_right_gradient_lands_near_1e_10() -> None:
    assert gradcheck(lambda x: (x * x.sin()).tanh(), leaf(), atol=1e-9, rtol=1e-8)
    assert gradgradcheck(lambda x: (x * x.sin()).tanh(), leaf(), atol=1e-8, rtol=1e-7)


def test_a_gradient_that_vanishes_is_right_although_higher_derivatives_do_not() -> None:
    assert gradcheck(lambda x: x * x * x, leaf([0.0, 1.0]))
    assert gradcheck(lambda x: x * x, leaf([0.0]))


@pytest.mark.parametrize("scale", [1e-9, 1.0, 1e9])
def test_the_size_of_the_outputs_does_not_matter(scale: float) -> None:
    assert gradcheck(lambda x: x.exp() * scale, leaf())
    with pytest.raises(GradcheckError):
        gradcheck(lambda x: (x.exp() * 0.9 + frozen(x.exp()) * 0.1) * scale, leaf())


def test_inputs_that_are_not_tensors_are_passed_through() -> None:
    def func(x: Tensor, power: int, name: str, constant: Tensor, nothing: None) -> Tensor:
        assert (power, name, nothing) == (3, "name", None)
        assert not constant.requires_grad
        return x**power * constant

    assert gradcheck(func, [leaf([1.5, 2.0]), 3, "name", Tensor([2, 3]), None])


def test_outputs_that_are_not_floating_tensors_are_left_aside() -> None:
    assert gradcheck(lambda x: (x.max(1).values, x.max(1).indices, x > 0, 7, None), leaf())


def test_an_output_of_no_elements_and_an_input_of_none_pass() -> None:
    assert gradcheck(lambda x: x[:0], leaf())
    assert gradcheck(lambda x: (x * 2).sum(), leaf(np.zeros((0, 3))))


# Private copies


def test_a_result_of_other_ops_is_checked_as_if_it_were_a_leaf() -> None:
    x = leaf()
    assert gradcheck(lambda y: y * y, x * 3)
    assert x.grad is None


def test_neither_grads_nor_generators_nor_the_mode_change() -> None:
    x, before = leaf(), default_generator.get_state()
    x.grad = Tensor(np.ones((2, 3)))
    for func in (lambda x: tensor.dropout(x * x), lambda x: frozen(x) * x):
        for check in (gradcheck, gradgradcheck):
            with no_grad():
                check(func, x, raise_exception=False)
                assert not tensor.is_grad_enabled()
    np.testing.assert_array_equal(x.grad.data, 1)
    np.testing.assert_array_equal(x.data, VALUES)
    assert default_generator.get_state() == before


def test_a_function_that_changes_its_inputs_is_given_new_ones_each_time() -> None:
    def func(x: Tensor) -> Tensor:
        y = x * x
        with no_grad():
            x.fill_(7.0)
        return y.sin()

    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        gradcheck(func, leaf())

    def harmless(x: Tensor, constant: Tensor) -> Tensor:
        y = x * x * constant.sum().item()
        constant.mul_(2.0)
        return y

    assert gradcheck(harmless, [leaf(), Tensor([1.0, 2.0])])


def test_draws_from_the_default_generator_are_the_same_at_every_evaluation() -> None:
    assert gradcheck(lambda x: tensor.dropout(x * x, 0.3), leaf())
    assert gradgradcheck(lambda x: tensor.dropout(x * x, 0.3), leaf())


# Faults that must be found

FIRST_ORDER: dict[str, Callable[..., Any]] = {
    "1.9x for 2x": lambda x: 0.95 * x * x + 0.05 * frozen(x * x),
    "wrong sign": lambda x: 2 * frozen(x.exp()) - x.exp(),
    "missing term": lambda x: x * frozen(x.exp()),
    "right only on average": lambda x: x.mean() + frozen(x - x.mean()),
    "right only in the sum": lambda x: (
        x.flatten()[::-1].reshape(x.shape) + frozen(x - x.flatten()[::-1].reshape(x.shape))
    ),
    "no gradient": frozen,
    "no gradient of the second output": lambda x: (x, frozen(x)),
    "off by 1e-5": lambda x: x * (1 + 1e-5) - frozen(x) * 1e-5,
    "a small part is wrong": lambda x: x * 1e6 + x * x - frozen(x * x),
    "infinite": lambda x: frozen(x) + (x - frozen(x)).sqrt(),
    "not a number": lambda x: frozen(x) + (x - frozen(x)).abs().sqrt(),
}


WHOLE = r"^gradcheck: \d+ of (36|72) elements of the Jacobian"
FAST = r"^gradcheck: \d+ of 6 elements of the gradient"


@both_modes
@pytest.mark.parametrize("fault", FIRST_ORDER)
def test_a_wrong_first_derivative_is_rejected(fault: str, fast_mode: bool) -> None:
    with pytest.raises(GradcheckError, match=FAST if fast_mode else WHOLE):
        gradcheck(FIRST_ORDER[fault], leaf(), fast_mode=fast_mode)
    assert (
        gradcheck(FIRST_ORDER[fault], leaf(), raise_exception=False, fast_mode=fast_mode) is False
    )


def test_one_wrong_element_among_many_is_rejected() -> None:
    mask = np.zeros((2, 3), dtype=bool)
    mask[1, 0] = True

    def func(x: Tensor) -> Tensor:
        return tensor.where(mask, frozen(x), x)

    with pytest.raises(GradcheckError, match=r"1 of 6 .*inputs\[0\] at \[1, 0\]: analytic 0,"):
        gradcheck(func, leaf(), fast_mode=True)
    place = r"outputs\[0\] at \[1, 0\] by inputs\[0\] at \[1, 0\]"
    with pytest.raises(GradcheckError, match=rf"1 of 36 .*{place}: analytic 0,"):
        gradcheck(func, leaf())


def test_a_wrong_rule_of_an_op_is_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    assert gradcheck(tensor.square, leaf())
    wrong = Rule(lambda xp, g, a: g * (1.9 * a), ("a",))
    monkeypatch.setitem(OPS["square"].rules, "a", wrong)
    with pytest.raises(GradcheckError, match="6 of 36"):
        gradcheck(tensor.square, leaf())
    assert gradgradcheck(tensor.square, leaf())  # a right derivative of the wrong rule


@pytest.mark.parametrize(
    "func",
    [
        lambda x: 2 * frozen(x) * x - frozen(x * x),
        lambda x: x * x + 1e-5 * (x - frozen(x)) ** 2,
        lambda x: x * x - (x - frozen(x)) ** 2,
    ],
    ids=["missing term", "off by 1e-5", "half"],
)
def test_a_wrong_second_derivative_of_a_right_first_is_rejected(func: Any) -> None:
    assert gradcheck(func, leaf())
    with pytest.raises(GradcheckError, match=r"^gradgradcheck: "):
        gradgradcheck(func, leaf())
    assert gradgradcheck(func, leaf(), raise_exception=False) is False


def test_a_second_derivative_that_ignores_the_incoming_gradient_is_rejected(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def rule(xp: Any, g: Any, a: Any) -> Any:
        seed = g.detach() if isinstance(g, Tensor) else g
        return seed * (2 * a)

    monkeypatch.setitem(OPS["square"].rules, "a", Rule(rule, ("a",)))
    assert gradcheck(tensor.square, leaf())
    with pytest.raises(GradcheckError, match=r"inputs\[1\]"):
        gradgradcheck(tensor.square, leaf())


def test_a_rule_that_writes_into_what_was_saved_is_rejected(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def rule(xp: Any, g: Any, a: Any) -> Any:
        slope = g * (2 * a)
        a *= 1.5
        return slope

    monkeypatch.setitem(OPS["square"].rules, "a", Rule(rule, ("a",)))
    with pytest.raises(GradcheckError, match="backward is not repeatable"):
        gradcheck(lambda x: (x * 1.0).square(), leaf())


def test_a_function_that_is_not_deterministic_is_rejected() -> None:
    calls = iter(range(10_000))
    with pytest.raises(GradcheckError, match="func is not deterministic"):
        gradcheck(lambda x: x * next(calls), leaf())


def test_the_message_says_which_input_and_element_and_by_how_much() -> None:
    def func(a: Tensor, name: str, b: Tensor) -> Tensor:
        return a + b - 0.25 * (b - frozen(b))

    with pytest.raises(GradcheckError) as caught:
        gradcheck(func, [leaf(), "text", leaf()], fast_mode=True)
    message = str(caught.value)
    assert message.startswith("gradcheck: 6 of 12 elements of the gradient are wrong")
    assert "atol 1e-06 and rtol 1e-06" in message
    found = re.findall(
        r"inputs\[2\] at \[(\d), (\d)\]: analytic (\S+), numeric (\S+), difference (\S+?);", message
    )
    assert len(found) == 5 and message.endswith("; and 1 more")
    for row, column, analytic, numeric, difference in found:
        assert 0 <= int(row) < 2 and 0 <= int(column) < 3
        assert float(analytic) / float(numeric) == pytest.approx(0.75, rel=1e-6)
        assert float(difference) == pytest.approx(abs(float(analytic) - float(numeric)), rel=1e-2)


def test_both_tolerances_are_required() -> None:
    def off_by(part: float) -> Any:
        return lambda x: x * (1 - part) + frozen(x) * part

    large = lambda x: off_by(1e-4)(x) * 1e3  # noqa: E731
    with pytest.raises(GradcheckError):
        gradcheck(large, leaf(), rtol=1e-2)  # an absolute difference of 0.1
    with pytest.raises(GradcheckError):
        gradcheck(lambda x: off_by(1e-2)(x) * 1e-3, leaf(), atol=1e-2)  # a relative one of 1e-2
    assert gradcheck(large, leaf(), atol=1.0, rtol=1e-2)


# Kinks


def test_a_kink_is_skipped_and_named() -> None:
    with pytest.warns(UserWarning, match=r"^gradcheck: not checked.*inputs\[0\] at \[1\] \(a kink"):
        assert gradcheck(tensor.relu, leaf([-1.0, 0.0, 2.0]))


def test_a_kink_within_a_step_is_skipped_wherever_it_lies() -> None:
    near = leaf([*np.linspace(-9.5e-7, 9.5e-7, 77), 1.0])
    with pytest.warns(UserWarning, match=r"inputs\[0\] at \[0\].*and \d+ more"):
        assert gradcheck(tensor.relu, near)


def test_a_jump_is_skipped_and_named() -> None:
    with pytest.warns(UserWarning, match=r"inputs\[0\] at \[0\] \(numeric 1e\+06, but 2e\+06"):
        assert gradcheck(tensor.sign, leaf([0.0, 1.0]))


def test_the_edge_of_the_domain_is_skipped_and_named() -> None:
    with pytest.warns(UserWarning, match=r"inputs\[0\] at \[1\] \(func is not finite nearby"):
        assert gradcheck(tensor.sqrt, leaf([1.0, 0.0, 2.0]))


def test_a_gradient_outside_the_two_slopes_of_a_kink_is_rejected() -> None:
    def func(x: Tensor) -> Tensor:
        return x.relu() + 1.5 * (x - frozen(x)) * (x.data == 0)

    with pytest.raises(GradcheckError, match=r"1 of 9 .* at \[1\]: analytic"):
        gradcheck(func, leaf([-1.0, 0.0, 2.0]))


def test_curvature_is_no_kink() -> None:
    def func(x: Tensor) -> Tensor:
        return x * x + x - frozen(x)

    with pytest.raises(GradcheckError, match="3 of 9"):
        gradcheck(func, leaf([0.0, 1e-7, 3.0]))


def test_a_fault_beside_a_kink_is_found() -> None:
    with pytest.raises(GradcheckError, match=r"1 of 4 .* at \[1\]"):
        gradcheck(lambda x: 0.5 * x.relu() + 0.5 * frozen(x.relu()), leaf([0.0, 1.0]))


def test_a_check_in_which_nothing_could_be_judged_fails() -> None:
    with pytest.raises(GradcheckError, match="nothing could be checked"):
        gradcheck(tensor.relu, leaf([0.0, 0.0]))


# Flags: a fault each that is found because of the flag alone


def test_the_whole_jacobian_finds_what_one_combination_of_the_outputs_cancels() -> None:
    (w,) = gradcheck_module._weights([leaf([0.0, 0.0])])
    unseen = Tensor(np.array([w[1], -w[0]]))

    def func(x: Tensor) -> Tensor:
        return x * x + unseen * (x.sum() - frozen(x.sum()))

    assert gradcheck(func, leaf([0.5, 1.5]), fast_mode=True)
    with pytest.raises(GradcheckError, match=r"4 of 4 .*outputs\[0\] at \[1\] by inputs\[0\]"):
        gradcheck(func, leaf([0.5, 1.5]))


def test_the_whole_jacobian_finds_what_one_combination_of_the_gradients_cancels() -> None:
    (w,) = gradcheck_module._weights([leaf([0.0, 0.0])])
    unseen = Tensor(np.array([w[1], -w[0]]))

    def func(x: Tensor) -> Tensor:  # its gradient, 2 x, has the wrong derivative 2 + unseen
        return (x * x).sum() + 0.5 * (unseen * (x - frozen(x))).sum() * (x - frozen(x)).sum()

    x, ones = leaf([0.5, 1.5]), Tensor(1.0, dtype="float64")
    assert gradcheck(func, x) and gradcheck(func, x, fast_mode=True)
    with pytest.raises(GradcheckError, match=r"of the Jacobian"):
        gradgradcheck(func, x, ones)


def test_one_combination_needs_one_backward_pass_for_the_derivatives(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    passes: list[int] = []

    def counted(outputs: Any, *args: Any, **kwargs: Any) -> Any:
        passes.append(1)
        return tensor.grad(outputs, *args, **kwargs)

    monkeypatch.setattr(gradcheck_module, "grad", counted)
    counts = []
    for fast_mode in (True, False):
        passes.clear()
        gradcheck(lambda x: x * x, leaf(), fast_mode=fast_mode, check_undefined_grad=False)
        counts.append(len(passes))
    assert counts == [2, 2 + 6]


def test_a_rule_that_is_wrong_for_a_gradient_of_0_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def rule(xp: Any, g: Any, a: Any) -> Any:
        array = g.data if isinstance(g, Tensor) else g
        return g * (2 * a) + (0.0 if array.any() else 1.0)

    monkeypatch.setitem(OPS["square"].rules, "a", Rule(rule, ("a",)))
    assert gradcheck(tensor.square, leaf(), check_undefined_grad=False)
    with pytest.raises(GradcheckError, match=r"gradient of 0 for every output .* off by 1$"):
        gradcheck(tensor.square, leaf())
    assert gradgradcheck(tensor.square, leaf(), check_undefined_grad=False)


def test_an_output_without_a_gradient_that_changes_another_is_found() -> None:
    def func(x: Tensor) -> tuple[Tensor, Tensor]:
        a, b = x * 2, x * 3
        seen: list[Tensor] = []
        b.register_hook(seen.append)

        def hook(g: Tensor) -> Tensor | None:
            if not seen:
                return g * 2
            seen.clear()
            return None

        a.register_hook(hook)
        return a, b

    assert gradcheck(func, leaf(), fast_mode=True, check_undefined_grad=False)
    with pytest.raises(GradcheckError, match=r"outputs\[0\] alone, none for the others"):
        gradcheck(func, leaf(), fast_mode=True)


def test_of_a_gradient_that_is_infinite_a_gradient_of_0_says_nothing() -> None:
    with pytest.warns(UserWarning, match="func is not finite nearby"):
        assert gradcheck(tensor.sqrt, leaf([1.0, 0.0]), check_undefined_grad=True)


@pytest.mark.parametrize(
    ("check", "op", "operand"), [(gradcheck, "square", "a"), (gradgradcheck, "mul", "b")]
)
def test_a_gradient_of_another_dtype_is_found(
    check: Any, op: str, operand: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    right = OPS[op].rules[operand]

    def rule(xp: Any, g: Any, a: Any) -> Any:
        return xp.cast(right.function(xp, g, a), "float32")

    monkeypatch.setitem(OPS[op].rules, operand, Rule(rule, ("a",)))
    monkeypatch.setattr(passes, "_fitted", lambda xp, node, i, g: g)
    assert check(tensor.square, leaf(np.array([0.5, 1.5])))
    with pytest.raises(GradcheckError, match=r"gradient of inputs\[\d\] is float32, .* float64"):
        check(tensor.square, leaf(np.array([0.5, 1.5])), check_grad_dtypes=True)


def test_right_gradients_have_the_dtype_of_their_inputs() -> None:
    assert gradcheck(lambda x: x.exp(), leaf(), check_grad_dtypes=True)
    assert gradgradcheck(lambda x: x.exp(), leaf(), check_grad_dtypes=True)


def test_a_rule_that_takes_gradients_for_contiguous_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def rule(xp: Any, g: Any, a: Any) -> Any:
        if isinstance(g, Tensor) and not g.data.flags.c_contiguous:
            g = Tensor(g.data)  # a copy to work on, and the history is lost
        return g * (2 * a)

    assert gradgradcheck(tensor.square, leaf(), gen_non_contig_grad_outputs=True)
    monkeypatch.setitem(OPS["square"].rules, "a", Rule(rule, ("a",)))
    assert gradgradcheck(tensor.square, leaf())
    with pytest.raises(GradcheckError, match=r"by inputs\[1\]"):
        gradgradcheck(tensor.square, leaf(), gen_non_contig_grad_outputs=True)


REFUSED = {
    gradcheck: {
        "check_batched_grad": (True, "there is no vmap"),
        "check_batched_forward_grad": (True, "there is no vmap"),
        "check_forward_ad": (True, "no forward-mode .* jvp is made of two backward passes"),
        "check_backward_ad": (False, "nothing would be checked"),
        "masked": (True, "no sparse Tensors"),
    },
    gradgradcheck: {
        "check_batched_grad": (True, "there is no vmap"),
        "check_fwd_over_rev": (True, "no forward-mode"),
        "check_rev_over_rev": (False, "nothing would be checked"),
        "masked": (True, "no sparse Tensors"),
    },
}


@pytest.mark.parametrize(
    ("check", "flag"), [(check, flag) for check, flags in REFUSED.items() for flag in flags]
)
def test_a_flag_for_what_there_is_not_is_refused(check: Any, flag: str) -> None:
    value, reason = REFUSED[check][flag]
    other = rf"{check.__name__}: {flag}={value}: .*{reason}.*; pass {flag}={not value}"
    with pytest.raises(NotImplementedError, match=other):
        check(lambda x: x * 2, leaf(), raise_exception=False, **{flag: value})
    assert check(lambda x: x * 2, leaf(), **{flag: not value})


@pytest.mark.parametrize("check", [gradcheck, gradgradcheck])
def test_the_parameters_are_those_of_pytorch(check: Any) -> None:
    theirs = inspect.signature(getattr(torch.autograd, check.__name__)).parameters
    ours = inspect.signature(check).parameters
    assert list(ours) == list(theirs)
    assert [p.kind for p in ours.values()] == [p.kind for p in theirs.values()]
    differ = {n for n, p in ours.items() if p.default != theirs[n].default}
    assert differ == {"atol", "rtol"}  # stricter


# Calls that are refused


def test_single_precision_is_refused() -> None:
    x = Tensor([1.0, 2.0], requires_grad=True)
    with pytest.raises(TypeError, match=r"inputs\[1\] is float32; .* float64"):
        gradcheck(lambda a, x: x * a, [leaf([1.0]), x])
    with pytest.raises(TypeError, match=r"output 1 of func is float32"):
        gradcheck(lambda x: (x, x.float()), leaf())


@pytest.mark.parametrize(
    "settings",
    [
        {"eps": 0.0},
        {"eps": -1e-6},
        {"eps": float("nan")},
        {"atol": -1.0},
        {"rtol": float("inf")},
        {"nondet_tol": -1.0},
    ],
    ids=str,
)
def test_a_step_or_tolerance_that_makes_no_sense_is_refused(settings: dict[str, float]) -> None:
    (name,) = settings
    for check in (gradcheck, gradgradcheck):
        with pytest.raises(ValueError, match=f"{check.__name__}: {name} must be"):
            check(lambda x: x, leaf(), **settings)


def test_a_step_that_is_lost_beside_the_input_is_an_error() -> None:
    with pytest.raises(GradcheckError, match=r"eps is lost beside an element of 1e\+12;"):
        gradcheck(lambda x: x * 2, leaf([1e12]))
    assert gradcheck(lambda x: x * 2, leaf([1e12]), eps=1e6)


def test_grad_outputs_can_be_given_and_are_counted() -> None:
    x, seeds = leaf(), [Tensor(VALUES + 0.1)]
    assert gradgradcheck(lambda x: x.exp(), x, seeds)
    assert gradgradcheck(lambda x: x.exp(), x, seeds[0])
    assert not seeds[0].requires_grad
    with pytest.raises(ValueError, match="got 2 grad_outputs for 1 outputs"):
        gradgradcheck(lambda x: x.exp(), x, seeds * 2)


def test_an_error_of_the_function_reaches_the_caller() -> None:
    with pytest.raises(ZeroDivisionError):
        gradcheck(lambda x: x * (1 // 0), leaf(), raise_exception=False)
