"""Norms beyond one call: running averages over several batches, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from tensor import ShapeError, Tensor, grad, nn, no_grad, ops, trace
from tensor.kernels import norms
from tests.tensor.nn.twins import load
from tests.tensor.tolerances import assert_close

BATCHES = [np.random.default_rng(i).normal(i, 1 + i, (4 + i, 3, 2, 5)) for i in range(4)]


@pytest.mark.parametrize("momentum", [0.1, 1.0, 0.0, None])
def test_running_averages_follow_the_batches_as_pytorchs(momentum: float | None) -> None:
    ours, theirs = (lib.BatchNorm2d(3, momentum=momentum) for lib in (nn, torch.nn))
    load(ours, theirs, "float64")
    for batch in BATCHES:
        assert_close(ours(Tensor(batch)).data, theirs(torch.tensor(batch)).detach().numpy())
    after = theirs.state_dict()
    for name, value in ours.state_dict().items():
        assert_close(value.data, after[name].numpy(), note=name)
    assert ours.num_batches_tracked.item() == len(BATCHES)
    evaluated, expected = ours.eval()(Tensor(BATCHES[0])), theirs.eval()(torch.tensor(BATCHES[0]))
    assert_close(evaluated.data, expected.detach().numpy())


def test_the_mean_of_all_batches_is_kept_without_momentum() -> None:
    layer = nn.BatchNorm2d(3, momentum=None, dtype="float64")
    for batch in BATCHES:
        layer(Tensor(batch))
    means = [batch.mean((0, 2, 3)) for batch in BATCHES]
    assert_close(layer.running_mean.data, np.mean(means, axis=0))


def test_running_averages_can_be_reset() -> None:
    layer = nn.BatchNorm2d(3, dtype="float64")
    fresh = layer.state_dict()
    layer(Tensor(BATCHES[1]))
    layer.reset_running_stats()
    for name, value in layer.state_dict().items():
        assert np.array_equal(value.data, fresh[name].data), name
    assert len(list(layer.buffers())) == 3


def test_running_averages_record_no_history_and_change_in_place() -> None:
    layer = nn.BatchNorm2d(3, dtype="float64")
    mean = layer.running_mean
    x = Tensor(BATCHES[0], requires_grad=True)
    first, second = layer(x), layer(x * 2.0)
    assert layer.running_mean is mean and mean.node is None and not mean.requires_grad
    (first.sum() + second.square().sum()).backward()
    assert x.grad is not None and np.isfinite(x.grad.data).all()


def test_a_gradient_of_evaluation_survives_more_training() -> None:
    layer = nn.BatchNorm1d(3, dtype="float64").eval()
    x = Tensor(np.random.default_rng(0).normal(size=(4, 3)), requires_grad=True)
    y = (layer(x) * x).sum()
    scale = 1 / np.sqrt(layer.running_var.data + layer.eps)
    layer.train()(x)
    y.backward()  # of the averages as they were
    assert x.grad is not None
    assert_close(x.grad.data, 2 * x.data * scale)


def test_statistics_in_use_carry_gradients_of_their_own() -> None:
    a = Tensor(np.random.default_rng(0).normal(size=(5, 3)), requires_grad=True)
    statistics = ops.batch_moments(a)
    out = ops.batch_norm(a, statistics)
    weights = np.random.default_rng(1).normal(size=(5, 3))
    (through,) = grad((out * weights).sum(), a, retain_graph=True)
    (apart,) = grad((ops.batch_norm(a, statistics.detach()) * weights).sum(), a)
    assert not np.allclose(through.data, apart.data)


def refused_without_change(layer: nn.Module, x: Tensor, words: str) -> None:
    before = layer.state_dict()
    with pytest.raises(ValueError, match=words):
        layer(x)
    for name, value in layer.state_dict().items():
        assert np.array_equal(value.data, before[name].data), name


@pytest.mark.parametrize(("kind", "shape"), [(nn.BatchNorm1d, (1, 3)), (nn.BatchNorm1d, (1, 3, 1))])
def test_one_value_per_channel_is_refused_in_training(kind: Any, shape: tuple[int, ...]) -> None:
    x = Tensor(np.ones(shape, np.float32))
    words = rf"Expected more than 1 value per channel when training, got input size \({shape[0]}, 3"
    refused_without_change(kind(3), x, words)
    assert kind(3).eval()(x).shape == shape


@pytest.mark.parametrize(
    ("layer", "shape", "words"),
    [
        (nn.BatchNorm1d(3), (3,), "BatchNorm1d: expected 2D or 3D input"),
        (nn.BatchNorm1d(3), (2, 3, 4, 5), "BatchNorm1d: expected 2D or 3D input"),
        (nn.BatchNorm2d(3), (2, 3, 4), "BatchNorm2d: expected 4D input .got 3D"),
        (nn.BatchNorm2d(3), (2, 4, 3, 3), r"batch_norm: running_mean must have shape \(4,\)"),
        (nn.BatchNorm2d(3).eval(), (2, 4, 3, 3), "batch_norm: statistics must have shape"),
        (nn.GroupNorm(2, 4), (2, 6, 3), r"group_norm: weight must have shape \(6,\)"),
        (nn.GroupNorm(2, 4), (4,), "group_norm"),
        (nn.RMSNorm(4), (2, 6), r"rms_norm: .*\(4,\).*\(2, 6\)"),
    ],
)
def test_an_input_that_does_not_fit_is_refused_and_changes_nothing(
    layer: nn.Module, shape: tuple[int, ...], words: str
) -> None:
    refused_without_change(layer, Tensor(np.ones(shape, np.float32)), words)


def test_evaluation_needs_averages() -> None:
    with pytest.raises(ValueError, match="running_mean and running_var are needed in evaluation"):
        nn.functional.batch_norm(Tensor(BATCHES[0]), None, None)


@pytest.mark.parametrize("wrong", ["running_mean", "running_var"])
def test_averages_of_another_shape_are_refused_before_either_has_changed(wrong: str) -> None:
    averages = {name: Tensor(np.ones(3)) for name in ("running_mean", "running_var")}
    averages[wrong] = Tensor(np.ones(2))
    with pytest.raises(ShapeError, match=rf"{wrong} must have shape \(3,\), got \(2,\)"):
        nn.functional.batch_norm(Tensor(BATCHES[0]), **averages, training=True)
    assert all((average.data == 1).all() and not average.version for average in averages.values())


@pytest.mark.parametrize("groups", [0, 3, -2])
def test_groups_divide_the_channels(groups: int) -> None:
    with pytest.raises(ShapeError, match="GroupNorm: num_channels must be divisible"):
        nn.GroupNorm(groups, 4)


def test_norms_are_exact_where_the_mean_is_large_against_the_deviation() -> None:
    noise = np.random.default_rng(3).normal(size=(64, 2))
    x = Tensor(noise + 1e8)
    with no_grad():
        y = nn.BatchNorm1d(2, affine=False, dtype="float64")(x).data
    exact = (noise - noise.mean(0)) / np.sqrt(noise.var(0) + 1e-5)
    np.testing.assert_allclose(y, exact, atol=1e-7)  # the sum noise + 1e8 keeps 8 digits


# Blocks


@pytest.mark.parametrize("bytes_", [1, 200, 2**40])
def test_the_size_of_a_block_changes_the_rounding_alone(
    bytes_: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(5)
    a, g, weight, bias = (rng.normal(size=s) for s in ((7, 6, 5), (7, 6, 5), (6,), (6,)))
    last, statistics = rng.normal(size=5), np.stack([rng.normal(size=6), rng.uniform(1, 2, 6)])

    def everything() -> list[Any]:
        return [
            norms.layer_norm(a, last, last, (5,), 1e-5),
            *norms.layer_norm_backward(g, [True] * 3, a, last, 5, 1e-5),
            norms.rms_norm(a, last, (5,), 1e-5),
            *norms.rms_norm_backward(g, [True] * 2, a, last, (5,), 1e-5),
            norms.group_norm(a, weight, bias, 3, 1e-5),
            *norms.group_norm_backward(g, [True] * 3, a, weight, 3, 1e-5),
            norms.batch_moments(a),
            *norms.batch_moments_backward(statistics, [True], a, statistics),
            norms.batch_norm(a, statistics, weight, bias, 1e-5),
            *norms.batch_norm_backward(g, [True] * 4, a, statistics, weight, 1e-5),
        ]

    expected = everything()
    monkeypatch.setattr(norms, "BLOCK", bytes_)
    for actual, wanted in zip(everything(), expected, strict=True):
        assert_close(actual, wanted)


def test_a_traced_step_counts_the_batches_that_it_is_replayed_on() -> None:
    traced, eager = (nn.BatchNorm2d(3, momentum=None, dtype="float64") for _ in range(2))
    batches = [Tensor(batch[:4]) for batch in BATCHES]
    program = trace(traced)(batches[0])
    eager(batches[0])
    for batch in batches[1:]:
        assert_close(program(batch).data, eager(batch).data)
    expected = eager.state_dict()
    for name, value in traced.state_dict().items():
        assert_close(value.data, expected[name].data, note=name)
