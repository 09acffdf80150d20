"""The twins: that they agree, that a unit on the other side of zero is found and shows."""

from __future__ import annotations

import csv
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tests.demos.programs import load

divergence = load("divergence")
Run, Flip = divergence.Run, divergence.Flip
OPTIONS = divergence.Options(steps=3, batch_size=16)


def digits(count: int = 48) -> tuple[Any, Any]:
    generator = divergence.Generator(5)
    images = divergence.Tensor(generator.uniform(shape=(count, 784)))
    return images, divergence.Tensor(generator.integers(0, 10, count))


def trace(run: Any) -> tuple[list[dict[str, Any]], list[dict[str, Any]], dict[str, Any]]:
    return divergence.trace(run, *digits(), 0, OPTIONS, torch)


def planted(variant: str) -> tuple[Any, Any, Flip]:
    """Twins in which one bias of PyTorch's is moved, so that one unit differs for one sample."""
    twins = divergence.Twins(Run("float64", "SGD", variant), OPTIONS, 0, torch)
    x, y = digits(16)
    x = x.to("float64")
    before = divergence.tensor.linear(x, *twins.ours[:2]).data
    sample, unit = np.unravel_index(np.abs(before).argmin(), before.shape)
    z = float(before[sample, unit])
    with torch.no_grad():
        twins.theirs[1][unit] -= 1.5 * z
    return twins, (x, y), Flip(0, int(sample), int(unit), z, -z / 2)


@pytest.mark.parametrize("optimizer", ["SGD", "AdamW"])
def test_float64_twins_agree_to_rounding(optimizer: str) -> None:
    rows, traced, found = trace(Run("float64", optimizer))
    assert 0 < found["max_difference"] < 1e-12
    assert found["signs_that_differ"] == 0
    assert found["first_flip"] is None
    assert traced == []
    assert [row["step"] for row in rows] == [1, 2, 3]


def test_equal_masks_leave_our_run_as_it_is_and_tanh_does_not() -> None:
    plain, masked, smooth = (
        trace(Run("float32", "SGD", variant))[2]["our_weights_sha256"]
        for variant in ("relu", "equal masks", "tanh")
    )
    assert plain == masked
    assert plain != smooth


def test_a_unit_on_the_other_side_of_zero_is_found_and_its_weights_part() -> None:
    twins, batch, wanted = planted("relu")
    _, flips = twins.step(*batch)
    assert [flip[:3] for flip in flips] == [wanted[:3]]
    assert flips[0][3:] == pytest.approx(wanted[3:])
    weights = twins.differences()[0].max(1)
    assert weights.argmax() == wanted.unit
    assert weights[wanted.unit] > 1e3 * np.delete(weights, wanted.unit).max()


def test_with_equal_masks_the_same_unit_changes_nothing() -> None:
    twins, batch, wanted = planted("equal masks")
    _, flips = twins.step(*batch)
    assert [flip[:3] for flip in flips] == [wanted[:3]]
    plain, batch, _ = planted("relu")
    plain.step(*batch)
    assert twins.differences()[0].max() < 1e-3 * plain.differences()[0].max()


def test_equal_products_are_ours_and_can_still_be_differentiated() -> None:
    twins = divergence.Twins(Run("float64", "AdamW", "equal products"), OPTIONS, 0, torch)
    x, _ = digits(16)
    x = x.to("float64")
    weight, bias = twins.theirs[:2]
    product = twins._product(torch.from_numpy(x.data), weight, bias)
    np.testing.assert_array_equal(
        product.detach().numpy(), divergence.tensor.linear(x, *twins.ours[:2]).data
    )
    cotangent = torch.from_numpy(np.random.default_rng(0).normal(size=product.shape))
    (gradient,) = torch.autograd.grad(product, weight, cotangent)
    np.testing.assert_allclose(gradient.numpy(), cotangent.numpy().T @ x.data, rtol=1e-12)


def test_a_larger_eps_shrinks_what_adamw_makes_of_rounding() -> None:
    plain, damped = (
        trace(Run("float64", "AdamW", variant))[2]["after_first_step"]
        for variant in ("relu", "eps 1e-4")
    )
    assert damped < plain / 10


def test_a_difference_in_the_optimizers_would_show() -> None:
    twins = divergence.Twins(Run("float64", "SGD"), OPTIONS, 0, torch)
    twins.optimizers[1].param_groups[0]["lr"] *= 1.9 / 2
    x, y = digits(16)
    twins.step(x.to("float64"), y)
    assert max(d.max() for d in twins.differences()) > 1e-5


# What is made of the rows


def test_the_largest_jump_is_the_largest_factor_between_two_steps() -> None:
    rows = [
        {"step": i, "max_difference": d, "signs_that_differ": s}
        for i, (d, s) in enumerate(((0.0, 0), (1.0, 0), (1.5, 0), (15.0, 2), (30.0, 9)), 1)
    ]
    jump = divergence._largest_jump(rows)
    assert jump == {"step": 4, "factor": 10.0, "signs_that_differ": 2}


def test_the_others_leave_out_every_unit_that_flips_in_the_same_step() -> None:
    first, second = np.zeros(512), np.zeros(256)
    second[[3, 4, 5]] = 7.0, 9.0, 2.0
    flips = [Flip(1, 0, 3, 1.0, -1.0), Flip(1, 0, 4, 1.0, -1.0), Flip(0, 0, 5, 1.0, -1.0)]
    (row,) = divergence._around(flips, [[first, second]])
    assert row == {"step": 1, "unit_difference": 7.0, "others_difference": 2.0}
    found = divergence._first_flip(1, flips[0], [row])
    assert (found["unit_before"], found["unit_after"]) == (0.0, 7.0)
    assert (found["others_before"], found["others_after"]) == (0.0, 2.0)


def test_batches_go_round_a_small_data_set() -> None:
    images, labels = digits(20)
    seen = [y.data for _, y in divergence.batches(images, labels, "float64", 0, OPTIONS)]
    assert [len(y) for y in seen] == [16, 16, 16]
    assert sorted(np.concatenate(seen)[:20]) == sorted(labels.data)


# The program


def test_it_makes_every_run_and_writes_what_it_found(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    divergence.main(
        divergence.Options(
            data="generated",
            images=40,
            steps=2,
            batch_size=8,
            seeds=(4,),
            tag="t",
            out=tmp_path,
        )
    )
    assert "NOT MNIST" in capsys.readouterr().err
    with (tmp_path / "generated_divergence_t.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 2 * len(divergence.RUNS)
    summary = json.loads((tmp_path / "generated_divergence_t.json").read_text())
    assert {"load_average", "versions", "threads", "command", "data"} <= set(summary)
    assert [one["seed"] for one in summary["runs"]] == [4] * len(divergence.RUNS)
    conclusions = summary["conclusions"]
    assert conclusions["equal_masks_leave_our_run_as_it_was"] is True
    assert conclusions["float64_signs_that_differ"] == 0
    assert set(conclusions["float64_max_difference"]) == {
        *("SGD, relu", "AdamW, relu", "AdamW, equal products", "AdamW, eps 1e-4")
    }
    for suffix in ("svg", "png"):
        assert (tmp_path / f"generated_divergence_t.{suffix}").stat().st_size > 500


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"steps": 1}, "--steps must be at least 2, got 1"),
        ({"seeds": ()}, "--seeds must name at least one seed"),
        ({"seeds": (0, -1)}, "--seeds must be at least 0, got -1"),
        ({"batch_size": 0}, "--batch-size must be at least 1, got 0"),
        ({"lr_sgd": -1.0}, "--lr-sgd must be at least 0, got -1.0"),
    ],
)
def test_a_bad_option_is_named(options: dict[str, Any], words: str) -> None:
    with pytest.raises(SystemExit, match=words):
        divergence.check(divergence.Options(**options))


def test_where_torch_is_missing_the_message_says_what_to_do(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(SystemExit, match=r"divergence.py needs torch: pip install torch"):
        load("report").import_torch(1, "divergence.py")
