"""Tensor as a Python object: numbers, truth, length, iteration, text, identity and copies."""

from __future__ import annotations

import copy
import json
import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tensor as st
from tensor import Tensor, no_grad
from tests.tensor.engine.helpers import cases, leaf

# Python numbers


@pytest.mark.parametrize(
    ("tensor", "expected"),
    [
        (Tensor(2.5), 2.5),
        (Tensor([[2.5]]), 2.5),
        (Tensor(3), 3),
        (Tensor([True]), True),
        (Tensor(np.float64(0.1)), 0.1),
        (leaf(1).detach() * 0 + 7, 7.0),
    ],
    ids=str,
)
def test_item_is_a_python_number(tensor: Tensor, expected: Any) -> None:
    assert tensor.item() == expected and type(tensor.item()) is type(expected)


def test_conversion_to_python_numbers() -> None:
    x = Tensor(2.75, requires_grad=True)
    assert (float(x), int(x), bool(x)) == (2.75, 2, True)
    assert (float(Tensor([3])), int(Tensor([-1.5]))) == (3.0, -1)
    assert math.sqrt(Tensor(4.0)) == 2 and round(float(Tensor(2.6))) == 3


@pytest.mark.parametrize(("value", "expected"), [(0.0, False), (2.0, True), (np.nan, True)])
def test_the_truth_of_one_element(value: float, expected: bool) -> None:
    assert bool(Tensor([[value]])) is expected
    assert (not Tensor(value)) is (not expected)


def test_an_integer_tensor_is_an_index() -> None:
    values, two = [10, 20, 30], Tensor(2)
    assert values[two] == 30
    assert list(range(Tensor([2]))) == [0, 1]
    assert np.arange(5)[Tensor(3)] == 3


@pytest.mark.parametrize(
    "tensor", [Tensor(1.0), Tensor([1, 2]), Tensor(True), Tensor([[]])], ids=repr
)
def test_nothing_else_is_an_index(tensor: Tensor) -> None:
    with pytest.raises(TypeError, match="only an integer Tensor of one element can be an index"):
        range(tensor)


def test_tolist_is_made_of_python_numbers() -> None:
    assert Tensor([[1.5, 2.0]]).tolist() == [[1.5, 2.0]]
    assert Tensor(3).tolist() == 3
    assert Tensor(np.zeros((2, 0))).tolist() == [[], []]
    assert json.dumps(Tensor([True, False]).tolist()) == "[true, false]"


# Length and iteration


def test_the_length_is_that_of_the_first_dimension() -> None:
    assert len(Tensor(np.ones((3, 2)))) == 3 and len(Tensor([])) == 0


def test_a_number_has_no_elements() -> None:
    with pytest.raises(TypeError, match="iteration over a 0-d"):
        iter(Tensor(1.0))
    with pytest.raises(TypeError, match="iteration over a 0-d"):
        list(leaf())


def test_iteration_gives_rows_through_which_gradients_flow() -> None:
    x = leaf(3, 2)
    rows = list(x)
    assert [r.shape for r in rows] == [(2,)] * 3
    first, second, third = x
    (first + 2 * second + 3 * third).sum().backward()
    np.testing.assert_array_equal(x.grad, [[1, 1], [2, 2], [3, 3]])
    assert [list(pair) for pair in zip(Tensor([1, 2]), [3, 4], strict=True)] == [[1, 3], [2, 4]]


def test_membership_is_equality_with_an_element() -> None:
    t = Tensor([1.0, 2.0, 3.0])
    assert 2 in t and 5 not in t
    assert max(t).item() == 3 and min(t).item() == 1 and sum(t).item() == 6


# Identity


def test_equality_is_elementwise_and_the_hash_is_the_identity() -> None:
    a, b = Tensor([1.0, 2.0]), Tensor([1.0, 2.0])
    assert (a == b).tolist() == [True, True] and (a != b).tolist() == [False, False]
    assert hash(a) == hash(a) and len({a, b}) == 2 and {a: 1, b: 2}[b] == 2
    seen = {a}
    assert a in seen and b not in seen
    assert [a, b].index(a) == 0


@pytest.mark.parametrize("stranger", [None, "a", [1.0, 2.0], {}, object()])
def test_what_is_no_operand_is_unequal_to_a_tensor(stranger: Any) -> None:
    t = Tensor([1.0, 2.0])
    assert (t == stranger) is False and (stranger == t) is False
    assert (t != stranger) is True and (stranger != t) is True
    assert [stranger, t].index(t) == 1
    with pytest.raises(TypeError, match="eq: b"):
        t.eq(stranger)
    with pytest.raises(TypeError, match="'<' not supported between instances of 'Tensor'"):
        assert t < stranger


def test_comparisons_have_no_gradient() -> None:
    x = leaf(3)
    for t in (x == x, x != 1, x < 1, x <= 1, x < 1, x >= x):
        assert t.dtype == np.bool_ and not t.requires_grad


# Text

TEXTS: dict[str, tuple[Callable[[], Tensor], str]] = {
    "number": (lambda: Tensor(2.5), "Tensor(2.5)"),
    "list": (lambda: Tensor([1.0, 2.0]), "Tensor([1., 2.])"),
    "integers": (lambda: Tensor([1, 2]), "Tensor([1, 2])"),
    "bool": (lambda: Tensor(True), "Tensor(True)"),
    "float64": (lambda: Tensor([1.0], dtype="float64"), "Tensor([1.], dtype=float64)"),
    "int32": (lambda: Tensor([1], dtype="int32"), "Tensor([1], dtype=int32)"),
    "empty": (lambda: Tensor([]), "Tensor([], shape=(0,), dtype=float32)"),
    "leaf": (lambda: Tensor([1.0], requires_grad=True), "Tensor([1.], requires_grad=True)"),
    "result": (lambda: Tensor([1.0], requires_grad=True) * 2, "Tensor([2.], op=mul)"),
    "label": (lambda: Tensor([1.0], label="w"), "Tensor([1.], label='w')"),
    "matrix": (lambda: Tensor([[1.0], [2.0]]), "Tensor([[1.],\n        [2.]])"),
    "not finite": (lambda: Tensor([np.nan, np.inf]), "Tensor([nan, inf])"),
}


@cases("make, text", TEXTS)
def test_repr_shows_values_dtype_and_origin(make: Callable[[], Tensor], text: str) -> None:
    assert repr(make()) == text == str(make())


def test_repr_of_a_large_tensor_is_short() -> None:
    assert len(repr(Tensor(np.zeros((1_000, 1_000))))) < 1_000


def test_repr_changes_nothing() -> None:
    x = leaf(3)
    y = x.exp()
    before = (y.version, x.version, y.node.sequence)
    repr(y), str(x), f"{x}"
    assert (y.version, x.version, y.node.sequence) == before
    assert (x * 1).node.sequence == before[2] + 1


def test_format_of_a_number_is_the_numbers() -> None:
    x = Tensor(3.14159, requires_grad=True)
    assert f"{x:.2f}" == "3.14" and f"{Tensor(7):>4d}" == "   7" and f"{Tensor(0.5)}" == "0.5"


def test_format_of_several_is_text() -> None:
    t = Tensor([1.0])
    assert f"{t}" == repr(t) and f"{t:>20}" == f"{t!r:>20}"
    with pytest.raises(ValueError, match="format"):
        f"{t:.2f}"


# Fields


def test_shape_and_size() -> None:
    t = Tensor(np.zeros((2, 3, 4)))
    assert (t.shape, t.ndim, t.dim(), t.numel()) == ((2, 3, 4), 3, 3, 24)
    assert (t.size(), t.size(1), t.size(-1)) == ((2, 3, 4), 3, 4)
    assert (t.T.shape, t.mT.shape) == ((4, 3, 2), (2, 4, 3))
    with pytest.raises(IndexError):
        t.size(3)


def test_conversions_keep_the_tensor_where_nothing_changes() -> None:
    t = Tensor([1.5])
    assert t.to("float32") is t and t.float() is t
    kinds = [t.double(), t.half(), t.long(), t.bool()]
    assert [k.dtype for k in kinds] == ["float64", "float16", "int64", "bool"]
    assert kinds[2].item() == 1


def test_requires_grad_of_a_leaf_can_be_set_and_of_a_result_cannot_be_unset() -> None:
    x = Tensor([1.0])
    assert x.requires_grad_() is x and x.requires_grad and x.is_leaf
    y = x * 2
    assert y.requires_grad_() is y
    with pytest.raises(RuntimeError, match=r"made by mul cannot be switched off; use \.detach"):
        y.requires_grad = False
    assert y.requires_grad
    x.requires_grad = False
    assert not x.requires_grad and not (x * 2).requires_grad


def test_a_shape_is_given_in_one_piece_or_in_several() -> None:
    t = Tensor(np.zeros((2, 3)))
    assert t.reshape(3, 2).shape == t.reshape((3, 2)).shape == t.view([3, -1]).shape == (3, 2)
    assert t.permute(1, 0).shape == t.permute((1, 0)).shape == (3, 2)
    assert t.expand(4, -1, 3).shape == t.expand((4, 2, 3)).shape == (4, 2, 3)


# Copies


@pytest.mark.parametrize("how", [copy.copy, copy.deepcopy])
def test_a_copy_of_a_leaf_shares_nothing(how: Callable[[Tensor], Tensor]) -> None:
    x = leaf(3)
    x.label = "x"
    (x * x).sum().backward()
    y = how(x)
    assert (y.requires_grad, y.label, y.is_leaf, y.dtype) == (True, "x", True, x.dtype)
    np.testing.assert_array_equal(y.data, x.data)
    np.testing.assert_array_equal(y.grad, x.grad)
    with no_grad():
        y.zero_()
        y.grad.zero_()
    assert x.version == 0 and (x.data != 0).all() and (x.grad.data != 0).all()


def test_deepcopy_keeps_tied_tensors_tied() -> None:
    x = leaf(3)
    twin = copy.deepcopy({"a": x, "b": [x]})
    assert twin["a"] is twin["b"][0] and twin["a"] is not x


def test_the_copy_of_a_gradient_with_history_has_none() -> None:
    x = leaf(3)
    (x**3).sum().backward(create_graph=True)
    twin = copy.deepcopy(x)
    assert twin.grad.is_leaf and not twin.grad.requires_grad
    x.grad = None


@pytest.mark.parametrize("how", [copy.copy, copy.deepcopy])
def test_a_result_is_not_copied(how: Callable[[Tensor], Tensor]) -> None:
    with pytest.raises(RuntimeError, match=r"made by mul: use \.clone\(\) or \.detach\(\)"):
        how(leaf(3) * 2)


def test_a_clone_has_memory_of_its_own_and_passes_gradients_on() -> None:
    x = leaf(3)
    y = x.clone()
    assert not np.shares_memory(x.data, y.data)
    (y * 3).sum().backward()
    np.testing.assert_array_equal(x.grad, [3, 3, 3])


@pytest.mark.parametrize("make", [lambda: leaf(3), lambda: leaf(3) * 2], ids=["leaf", "result"])
def test_a_tensor_is_not_pickled(make: Callable[[], Tensor]) -> None:
    with pytest.raises(TypeError, match=r"a Tensor is not pickled.*numpy\.save or safetensors"):
        make().__reduce_ex__(2)


# Operators


def test_numbers_of_every_kind_on_the_left() -> None:
    x = leaf(3)
    for out, op in ((2 + x, "add"), (2 - x, "sub"), (2 * x, "mul"), (2 / x, "div"), (2**x, "pow")):
        assert out.op == op and out.inputs[0].value == 2
    np.testing.assert_allclose((2 - x).data, 2 - x.data)


@pytest.mark.parametrize(
    "other", ["a", None, [1.0, 2.0, 3.0], {}, object()], ids=lambda other: type(other).__name__
)
def test_an_operand_of_another_kind_is_refused(other: Any) -> None:
    x = leaf(3)
    for op in (st.add, st.mul, st.lt):
        with pytest.raises(
            TypeError, match=r"b (is None|must be a Tensor, an ndarray or a number)"
        ):
            op(x, other)


STRANGERS: dict[str, Callable[[Any, Any], Any]] = {
    name: getattr(operator, name)
    for name in (
        *("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul", "and_", "or_", "xor"),
        *("lt", "le", "gt", "ge"),
        *("iadd", "isub", "imul", "itruediv", "ifloordiv", "imod", "ipow", "imatmul"),
    )
}


@pytest.mark.parametrize("name", STRANGERS)
def test_operators_name_the_type_that_nobody_handles(name: str) -> None:
    x = Tensor([1.0, 2.0])
    for other in (None, "a", [1.0, 2.0], object()):
        with pytest.raises(TypeError, match=r"'Tensor' and '|must be a Tensor") as caught:
            STRANGERS[name](x, other)
        assert type(other).__name__ in str(caught.value)
    assert x.version == 0


@pytest.mark.parametrize("name", STRANGERS)
def test_a_stranger_that_knows_tensors_gets_its_turn(name: str) -> None:
    plain = name.removeprefix("i").removesuffix("_")
    mirrored = {"lt": "gt", "le": "ge", "gt": "lt", "ge": "le"}.get(plain, f"r{plain}")
    kind = type("Stranger", (), {f"__{mirrored}__": lambda self, other: ("mine", other)})
    x = Tensor([1.0, 2.0], requires_grad=True)
    assert STRANGERS[name](x, kind()) == ("mine", x)


@pytest.mark.parametrize("other", ["ab", b"ab", [1, 2], (1, 2)], ids=repr)
def test_a_sequence_is_not_repeated_by_a_tensor(other: Any) -> None:
    for call in (lambda: Tensor(2) * other, lambda: other * Tensor(2)):
        with pytest.raises(TypeError, match=r"mul: [ab] must be a Tensor, an ndarray or a number"):
            call()


def test_a_tensor_answers_for_a_stranger_that_does_not_know_it() -> None:
    class Shy:
        def __add__(self, other: Any) -> Any:
            return NotImplemented

    with pytest.raises(TypeError, match="'Shy' and 'Tensor'"):
        Shy() + Tensor([1.0])


def test_operators_that_tensors_do_not_have() -> None:
    x = leaf(3)
    for call in (lambda: x << 1, lambda: divmod(x, 2), lambda: +x):
        with pytest.raises(TypeError, match=r"unsupported|bad operand"):
            call()


def test_shape_errors_can_be_caught_in_either_habit() -> None:
    for error in (RuntimeError, ValueError, st.ShapeError):
        with pytest.raises(error, match=r"add: .*\(3,\).*\(4,\)"):
            leaf(3) + leaf(4)


def test_data_can_be_replaced_by_the_result_of_a_computation() -> None:
    w = Tensor([1.0, 2.0], requires_grad=True)
    (w * w).sum().backward()
    assert w.grad is not None
    w.data = w.data - 0.25 * w.grad
    assert type(w.data) is np.ndarray
    assert w.tolist() == [0.5, 1.0]
    assert w.is_leaf
    assert w.requires_grad


def test_data_set_to_a_tensor_shares_its_memory_and_the_count_of_its_changes() -> None:
    w, source = Tensor([1.0], requires_grad=True), Tensor([3.0])
    w.data = source
    y = w * w
    source.fill_(5.0)
    assert w.item() == 5.0
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.backward()


@pytest.mark.parametrize("value", [2.0, [1.0, 2.0], None, "text"])
def test_data_refuses_what_is_no_array_and_stays(value: object) -> None:
    w = Tensor([1.0, 2.0], requires_grad=True)
    with pytest.raises(TypeError, match="data must be set to an ndarray or a Tensor"):
        w.data = value  # type: ignore[assignment]
    assert w.tolist() == [1.0, 2.0]


def test_data_of_a_tensor_that_requires_grad_stays_floating() -> None:
    w = Tensor([1.0, 2.0], requires_grad=True)
    with pytest.raises(RuntimeError, match="must be floating, got int64"):
        w.data = np.array([1, 2])
    assert w.tolist() == [1.0, 2.0]
