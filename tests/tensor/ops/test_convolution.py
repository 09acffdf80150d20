"""Convolution and pooling beyond the table: any way a kernel can move, and what it costs."""

from __future__ import annotations

import tracemalloc
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn import functional

import tensor
from tensor import Tensor, avg_pool2d, conv2d, grad, max_pool2d
from tensor.dispatch import raw
from tensor.kernels import convolution
from tests.tensor.tolerances import assert_close

Array = np.ndarray[Any, Any]
Call = tuple[list[Array | None], dict[str, Any]]

_rng = np.random.default_rng(31)


def _plane(
    data: Any, taps: tuple[int, int], padding: tuple[int, int], dilation: tuple[int, int]
) -> list[int]:
    """Sizes that a kernel fits into."""
    return [
        max(1, d * (k - 1) + 1 - 2 * p + data.draw(st.integers(0, 4)))
        for k, p, d in zip(taps, padding, dilation, strict=True)
    ]


@st.composite
def convolutions(draw: Any) -> Call:
    """The operands and the attributes of a convolution."""
    data = type("Data", (), {"draw": staticmethod(draw)})
    pair = st.tuples(*[st.integers(1, 3)] * 2)
    taps, stride, dilation = draw(pair), draw(pair), draw(pair)
    padding: Any = draw(st.tuples(*[st.integers(0, 2)] * 2) | st.sampled_from(["same", "valid"]))
    given_padding = (0, 0) if isinstance(padding, str) else padding
    if padding == "same":
        stride = (1, 1)
    groups = draw(st.integers(1, 3))
    each, out_each = draw(st.integers(1, 2)), draw(st.integers(1, 2))
    lead = draw(st.sampled_from([(), (1,), (2,), (3,)]))
    shape = (*lead, groups * each, *_plane(data, taps, given_padding, dilation))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    bias = rng.normal(size=groups * out_each) if draw(st.booleans()) else None
    weight = rng.normal(size=(groups * out_each, each, *taps))
    attrs = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
    return [rng.normal(size=shape), weight, bias], attrs


@st.composite
def windows(draw: Any, average: bool) -> Call:
    """The operand and the attributes of pooling; small integers, so that there are ties."""
    data = type("Data", (), {"draw": staticmethod(draw)})
    taps = draw(st.tuples(*[st.integers(1, 3)] * 2))
    dilation = (1, 1) if average else draw(st.tuples(*[st.integers(1, 2)] * 2))
    padding = tuple(draw(st.integers(0, k // 2)) for k in taps)
    attrs: dict[str, Any] = {
        "kernel_size": taps,
        "stride": draw(st.none() | st.tuples(*[st.integers(1, 4)] * 2)),
        "padding": padding,
        "ceil_mode": draw(st.booleans()),
    }
    if average:
        attrs["count_include_pad"] = draw(st.booleans())
        attrs["divisor_override"] = draw(st.none() | st.integers(1, 5))
    else:
        attrs["dilation"] = dilation
    lead = draw(st.sampled_from([(1,), (2,), (2, 1), (1, 3)]))
    # Windows that hold nothing but padding are refused here, and undefined in PyTorch.
    sizes = [
        max(n, d) for n, d in zip(_plane(data, taps, padding, dilation), dilation, strict=True)
    ]
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    a = rng.integers(-2, 3, (*lead, *sizes)).astype(float)
    if not average and draw(st.booleans()):
        a[rng.random(a.shape) < 0.2] = draw(st.sampled_from([np.nan, -np.inf, np.inf]))
    return [a], attrs


def compare(ours: Callable[..., Tensor], theirs: Callable[..., Any], call: Call) -> None:
    """Value, gradients, and their derivatives, against PyTorch."""
    operands, attrs = call
    mine = [None if x is None else Tensor(x, requires_grad=True) for x in operands]
    other = [None if x is None else torch.tensor(x, requires_grad=True) for x in operands]
    with warnings.catch_warnings():  # PyTorch warns of a copy for padding on one side
        warnings.filterwarnings("ignore", "Using padding='same'", UserWarning)
        expected = theirs(*other, **attrs)
    out = ours(*mine, **attrs)
    assert_close(out.data, expected.detach().numpy(), note="value")
    leaves, there = [x for x in mine if x is not None], [x for x in other if x is not None]
    g = _rng.normal(size=out.shape)
    seed, seed_there = Tensor(g, requires_grad=True), torch.tensor(g, requires_grad=True)
    plain = grad(out, leaves, Tensor(g), retain_graph=True)
    first = grad(out, leaves, seed, create_graph=True)
    first_there = torch.autograd.grad(expected, there, seed_there, create_graph=True)
    for i, (once, recorded, wanted) in enumerate(zip(plain, first, first_there, strict=True)):
        assert once is not None and recorded is not None
        assert_close(once.data, wanted.detach().numpy(), note=f"gradient {i}")
        assert_close(recorded.data, wanted.detach().numpy(), note=f"recorded gradient {i}")
    factors = [_rng.normal(size=x.shape) for x in leaves]
    second = grad(first, [*leaves, seed], [Tensor(f) for f in factors], allow_unused=True)
    second_there = torch.autograd.grad(
        first_there,
        [*there, seed_there],
        [torch.tensor(f) for f in factors],
        allow_unused=True,
    )
    for i, (found, wanted) in enumerate(zip(second, second_there, strict=True)):
        expected_here = np.zeros((*leaves, seed)[i].shape) if wanted is None else wanted.numpy()
        actual = np.zeros(expected_here.shape) if found is None else found.data
        assert_close(actual, expected_here, note=f"second derivative {i}")


@given(convolutions())
def test_a_kernel_moves_as_in_torch_however_it_moves(call: Call) -> None:
    compare(conv2d, functional.conv2d, call)


@given(windows(average=False))
def test_the_largest_of_every_window_and_its_gradient_are_torchs(call: Call) -> None:
    compare(max_pool2d, functional.max_pool2d, call)


@given(windows(average=True))
def test_the_mean_of_every_window_and_its_gradient_are_torchs(call: Call) -> None:
    compare(avg_pool2d, functional.avg_pool2d, call)


def test_a_kernel_that_moves_otherwise_is_found() -> None:
    operands = [_rng.normal(size=(1, 2, 5, 5)), _rng.normal(size=(2, 2, 2, 2)), None]

    def turned(a: Any, weight: Any, bias: Any) -> Any:
        return functional.conv2d(a, weight.flip(-1), bias)

    with pytest.raises(AssertionError, match="value"):
        compare(conv2d, turned, (operands, {}))

    def steeper(a: Any, weight: Any, bias: Any) -> Any:
        return functional.conv2d(1.01 * a - 0.01 * a.detach(), weight, bias)

    with pytest.raises(AssertionError, match="gradient 0"):
        compare(conv2d, steeper, (operands, {}))


@given(convolutions())
def test_a_convolution_and_its_adjoints_have_one_product_with_a_third_array(call: Call) -> None:
    (a, weight, _), attrs = call
    assert a is not None and weight is not None
    # Of integers the three products are equal exactly.
    a, weight = np.rint(2 * a).astype(np.int64), np.rint(2 * weight).astype(np.int64)
    out = raw.conv2d(a, weight, None, **attrs)
    g = _rng.integers(-3, 4, out.shape)
    product = (g * out).sum()
    assert product == (raw.conv2d_input_adjoint(g, weight, a.shape, **attrs) * a).sum()
    assert product == (raw.conv2d_weight_adjoint(g, a, weight.shape, **attrs) * weight).sum()


# The ways to compute it


@pytest.mark.parametrize("few_steps", [0, 10**6])
@pytest.mark.parametrize("block", [1, 2**12, 2**24])
def test_the_division_of_the_work_changes_nothing(
    block: int, few_steps: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(convolution, "BLOCK", block)
    monkeypatch.setattr(convolution, "FEW_STEPS", few_steps)
    for stride in (1, (2, 1)):
        a, weight, bias = (_rng.normal(size=s) for s in ((5, 4, 6, 7), (6, 2, 3, 2), (6,)))
        attrs = {"stride": stride, "padding": (2, 1), "groups": 2}
        compare(conv2d, functional.conv2d, ([a, weight, bias], attrs))


def peak_of(function: Callable[[], Any]) -> int:
    """The most memory, in bytes, that a call had at once."""
    tracemalloc.start()
    try:
        function()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_the_columns_never_exist_all_at_once() -> None:
    a, weight = np.ones((64, 8, 32, 32), np.float32), np.ones((8, 8, 3, 3), np.float32)
    out = raw.conv2d(a, weight)
    columns = out.nbytes * 9
    assert peak_of(lambda: raw.conv2d(a, weight)) < columns / 3
    assert peak_of(lambda: raw.conv2d_weight_adjoint(out, a, weight.shape)) < columns / 3
    assert peak_of(lambda: raw.conv2d_input_adjoint(out, weight, a.shape)) < columns / 3


def _input_gradient(g: Array, weight: Array, shape: tuple[int, ...]) -> Array:
    """The definition, one product at a time, for a stride of 1 and no padding."""
    out = np.zeros(shape)
    with np.errstate(invalid="ignore"):
        for i, j in np.ndindex(*weight.shape[2:]):
            for y, x in np.ndindex(*g.shape[2:]):
                out[:, :, y + i, x + j] += g[:, :, y, x] @ weight[:, :, i, j]
    return out


@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan])
def test_what_is_not_finite_reaches_just_what_it_is_multiplied_with(value: float) -> None:
    a, weight, g = (_rng.normal(size=s) for s in ((2, 2, 4, 4), (2, 2, 3, 3), (2, 2, 2, 2)))
    weight[0, 1, 2, 0] = value
    np.testing.assert_array_equal(
        np.isfinite(raw.conv2d_input_adjoint(g, weight, a.shape)),
        np.isfinite(_input_gradient(g, weight, a.shape)),
    )
    weight[0, 1, 2, 0], a[1, 0, 0, 3] = 1.0, value
    seen = ~np.isfinite(raw.conv2d(a, weight))
    assert seen[1, :, 0, 1].all() and seen.sum() == 2
    seen = ~np.isfinite(raw.conv2d_weight_adjoint(g, a, weight.shape))
    assert seen[:, 0, 0, 2].all() and seen.sum() == 2
    a[1, 0, 0, 3], g[0, 0, 1, 1] = 1.0, value
    seen = ~np.isfinite(raw.conv2d_input_adjoint(g, weight, a.shape))
    assert seen[0, :, 1:, 1:].all() and seen.sum() == 2 * 9


def test_a_kernel_of_one_tap_reads_its_input_where_it_lies() -> None:
    a, weight = np.ones((8, 4, 64, 64), np.float32), np.ones((4, 4, 1, 1), np.float32)
    out = raw.conv2d(a, weight)
    assert peak_of(lambda: raw.conv2d(a, weight)) < 1.2 * out.nbytes


# Arguments


def test_planes_without_a_batch_are_a_batch_of_one() -> None:
    a, weight = _rng.normal(size=(2, 5, 6)), _rng.normal(size=(3, 2, 2, 2))
    for function in (
        lambda x: conv2d(x, Tensor(weight)),
        lambda x: max_pool2d(x, 2, 1),
        lambda x: avg_pool2d(x, 2, 1),
    ):
        one, many = Tensor(a, requires_grad=True), Tensor(a[None], requires_grad=True)
        out, outs = function(one), function(many)
        np.testing.assert_array_equal(out.data, outs.data[0])
        out.sum().backward()
        outs.sum().backward()
        assert one.grad is not None and many.grad is not None
        np.testing.assert_array_equal(one.grad.data, many.grad.data[0])


def test_a_list_that_is_changed_after_the_call_changes_no_gradient() -> None:
    stride = [2, 1]
    for name, operands, attrs in (
        ("conv2d", [_rng.normal(size=(1, 1, 5, 5)), _rng.normal(size=(1, 1, 2, 2))], {}),
        ("max_pool2d", [_rng.normal(size=(1, 5, 5))], {"kernel_size": 2}),
        ("avg_pool2d", [_rng.normal(size=(1, 5, 5))], {"kernel_size": 2}),
    ):
        x, *rest = (Tensor(operand, requires_grad=True) for operand in operands)
        function = getattr(tensor, name)
        out = function(x, *rest, stride=stride, **attrs)
        (wanted,) = grad(out, x, Tensor(np.ones(out.shape)), retain_graph=True)
        stride[0] = 1
        (found,) = grad(out, x, Tensor(np.ones(out.shape)))
        stride[0] = 2
        assert found is not None and wanted is not None
        np.testing.assert_array_equal(found.data, wanted.data)


def test_numbers_of_numpy_are_integers_too() -> None:
    a = Tensor(_rng.normal(size=(1, 1, 6, 6)))
    two = np.int64(2)
    np.testing.assert_array_equal(max_pool2d(a, two, two).data, max_pool2d(a, 2).data)
    weight = Tensor(np.ones((1, 1, 2, 2)))
    wanted = conv2d(a, weight, stride=2, padding=1, groups=1)
    found = conv2d(a, weight, stride=(two,), padding=np.int32(1), groups=np.int64(1))
    np.testing.assert_array_equal(found.data, wanted.data)


@pytest.mark.parametrize("name", ["conv2d", "max_pool2d", "avg_pool2d"])
def test_no_rule_keeps_more_than_it_mentions(name: str) -> None:
    shape = (1, 1, 4, 4)
    operands = [np.ones(shape), np.ones((1, 1, 2, 2))] if name == "conv2d" else [np.ones(shape)]
    attrs = {} if name == "conv2d" else {"kernel_size": 2}
    node = getattr(tensor, name)(*(Tensor(x, requires_grad=True) for x in operands), **attrs).node
    kept = {"conv2d": {"a", "weight"}, "max_pool2d": {"a", "out"}, "avg_pool2d": set()}
    assert node is not None and set(node.saved or {}) == kept[name]


# A network


def test_a_small_convolutional_network_equals_torchs() -> None:
    shapes = [(4, 1, 3, 3), (4,), (6, 2, 3, 3), (6,), (3, 24), (3,)]
    parameters = [_rng.normal(size=s) / np.sqrt(np.prod(s[1:])) for s in shapes]
    images, labels = _rng.normal(size=(5, 1, 12, 12)), _rng.integers(0, 3, 5)

    def forward(nn: Any, ops: Any, x: Any, y: Any, p: list[Any]) -> Any:
        x = ops.max_pool2d(nn.relu(ops.conv2d(x, p[0], p[1], padding=1)), 3, 2, 1)
        x = ops.avg_pool2d(nn.tanh(ops.conv2d(x, p[2], p[3], stride=1, groups=2)), 2)
        return ops.cross_entropy(ops.linear(x.reshape(5, -1), p[4], p[5]), y)

    ours = [Tensor(p, requires_grad=True) for p in parameters]
    theirs = [torch.tensor(p, requires_grad=True) for p in parameters]
    loss = forward(tensor, tensor, Tensor(images), Tensor(labels), ours)
    expected = forward(torch, functional, torch.tensor(images), torch.tensor(labels), theirs)
    loss.backward()
    expected.backward()
    np.testing.assert_allclose(loss.item(), expected.item(), rtol=1e-12)
    for mine, other in zip(ours, theirs, strict=True):
        assert mine.grad is not None and other.grad is not None
        wanted = other.grad.numpy()
        np.testing.assert_allclose(
            mine.grad.data, wanted, rtol=1e-10, atol=1e-10 * np.abs(wanted).max()
        )
