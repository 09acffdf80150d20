"""Train twins, one here and one in PyTorch, and find out why their weights drift apart.

Question: two correct engines round differently; how fast do their weights part, and is a
ReLU that falls on the other side of zero what makes the difference jump?

Both twins start from the same weights and see the same batches of MNIST. After every step
the largest difference between two weights is written down, with its place; in every
forward pass the signs of all pre-activations are compared. Runs are made in float64 and
float32 with SGD (momentum) and AdamW, and again with one thing changed:

  equal masks   both twins open and close their ReLUs by the signs in this engine's twin,
                whose own run therefore does not change
  tanh          tanh in the place of ReLU: no signs matter
  equal products  the forward products of PyTorch's twin are computed by numpy too. The
                libraries add the terms of a long inner product in blocks, and cut them
                at different places; all their other products agree to the bit
  eps 1e-4      AdamW with a larger eps. A first step is lr * g / (|g| + eps): where g is
                as small as eps, it magnifies the rounding of g by lr / eps

Needs torch. Where MNIST cannot be had, generated digits take its place; the output and
the results then say so.
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import train_mnist
import tyro
from report import (
    RESULTS,
    STYLES,
    check_out,
    check_range,
    command,
    environment,
    figure,
    import_torch,
    limit_threads,
    progress,
    rounded,
    save_figure,
    tagged,
    write_csv,
    write_json,
)

import tensor
from tensor import Generator, Tensor, nn, optim

SIZES = (784, 512, 256, 10)
FLOAT64_LIMIT = 1.5e-14
# The variants in which each twin opens its ReLUs by its own signs.
WITH_SIGNS = ("relu", "equal products", "eps 1e-4")
# A difference that grows by more than this in one step has jumped.
JUMP = 3.0
# How the first flip is marked in a plot.
MARK = {"color": "black", "marker": "v", "markersize": 7, "linestyle": "none"}


@dataclass
class Options:
    """Options of the runs."""

    steps: int = 300
    """steps of every run"""
    seeds: tuple[int, ...] = (0, 1, 2)
    """of the weights and the order of the batches; every run is made with each"""
    batch_size: int = 128
    """images in a step"""
    lr_sgd: float = 0.1
    """learning rate of SGD, whose momentum is 0.9"""
    lr_adamw: float = 1e-3
    """learning rate of AdamW"""
    images: int | None = None
    """use only so many training images, for a quick trial"""
    data: Literal["mnist", "generated"] = "mnist"
    """train on generated digits even where MNIST can be had"""
    threads: int = 1
    """threads of the matrix products, in both engines"""
    tag: str = ""
    """added to the names of the results"""
    out: Path = RESULTS
    """the folder that the results go to"""


class Run(NamedTuple):
    """One run: what is trained, how, and what is changed."""

    dtype: str
    optimizer: str
    variant: str = "relu"

    @property
    def name(self) -> str:
        """What the run is called in the output."""
        return f"{self.dtype}, {self.optimizer}, {self.variant}"


RUNS = (
    Run("float64", "SGD"),
    *(Run("float64", "AdamW", variant) for variant in ("relu", "equal products", "eps 1e-4")),
    *(Run("float32", "SGD", variant) for variant in ("relu", "equal masks", "tanh")),
    *(Run("float32", "AdamW", variant) for variant in ("relu", "equal masks", "tanh", "eps 1e-4")),
)


class Flip(NamedTuple):
    """A unit whose pre-activation is positive in one twin alone."""

    layer: int
    sample: int
    unit: int
    ours: float
    theirs: float


class Twins:
    """The network twice, from the same weights, step by step on the same batches."""

    def __init__(self, run: Run, options: Options, seed: int, torch: Any) -> None:
        self.run, self.torch = run, torch
        tensor.manual_seed(seed)
        layers = [nn.Linear(m, n) for m, n in itertools.pairwise(SIZES)]
        model = nn.Sequential(*layers).to(np.dtype(run.dtype))
        self.ours = list(model.parameters())
        self.theirs = [torch.tensor(p.data, requires_grad=True) for p in self.ours]
        self.optimizers = [
            _optimizer(library, parameters, run, options)
            for library, parameters in ((optim, self.ours), (torch.optim, self.theirs))
        ]

    def step(self, x: Tensor, y: Tensor) -> tuple[float, list[Flip]]:
        """Take one step in each; return our loss and the units that differ in sign."""
        torch = self.torch
        ours, theirs = x, torch.from_numpy(x.data)
        flips: list[Flip] = []
        last = len(SIZES) - 2
        for layer in range(last + 1):
            place = slice(2 * layer, 2 * layer + 2)
            ours = tensor.linear(ours, *self.ours[place])
            theirs = self._product(theirs, *self.theirs[place])
            if layer < last:
                flips += _flips(layer, ours.data, theirs.detach().numpy())
                ours, theirs = self._activated(ours, theirs)
        loss = tensor.cross_entropy(ours, y)
        losses = (loss, torch.nn.functional.cross_entropy(theirs, torch.from_numpy(y.data)))
        for optimizer, one in zip(self.optimizers, losses, strict=True):
            optimizer.zero_grad()
            one.backward()
            optimizer.step()
        return loss.item(), flips

    def _product(self, x: Any, weight: Any, bias: Any) -> Any:
        """Return PyTorch's ``linear``, with our numbers in it if products are to be equal."""
        product = self.torch.nn.functional.linear(x, weight, bias)
        if self.run.variant == "equal products":
            operands = (tensor.from_numpy(z.detach().numpy()) for z in (x, weight, bias))
            product.data.copy_(self.torch.from_numpy(tensor.linear(*operands).data))
        return product

    def _activated(self, ours: Tensor, theirs: Any) -> tuple[Tensor, Any]:
        match self.run.variant:
            case "tanh":
                return ours.tanh(), theirs.tanh()
            case "equal masks":
                mask = (ours.data > 0).astype(ours.dtype)
                return ours * tensor.from_numpy(mask), theirs * self.torch.from_numpy(mask)
        return ours.relu(), theirs.relu()

    def differences(self) -> list[np.ndarray]:
        """Return the absolute difference of every parameter."""
        return [
            np.abs(p.data - q.detach().numpy()) for p, q in zip(self.ours, self.theirs, strict=True)
        ]

    def fingerprint(self) -> str:
        """Return a hash of our weights."""
        digest = hashlib.sha256()
        for p in self.ours:
            digest.update(p.data.tobytes())
        return digest.hexdigest()


def _optimizer(library: Any, parameters: list[Any], run: Run, options: Options) -> Any:
    """Return the run's optimizer from either library: their arguments are the same."""
    if run.optimizer == "SGD":
        return library.SGD(parameters, lr=options.lr_sgd, momentum=0.9)
    eps = 1e-4 if run.variant == "eps 1e-4" else 1e-8
    return library.AdamW(parameters, lr=options.lr_adamw, eps=eps)


def _flips(layer: int, ours: np.ndarray, theirs: np.ndarray) -> list[Flip]:
    places = np.argwhere((ours > 0) != (theirs > 0))
    return [Flip(layer, i, j, float(ours[i, j]), float(theirs[i, j])) for i, j in places.tolist()]


def batches(
    images: Tensor, labels: Tensor, dtype: str, seed: int, options: Options
) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield a batch for every step, in an order that the seed decides."""
    order = Generator(seed).permutation(len(labels))
    for step in range(options.steps):
        start = step * options.batch_size
        rows = order[np.arange(start, start + options.batch_size) % len(order)]
        yield images[rows].to(dtype), labels[rows]


def trace(
    run: Run, images: Tensor, labels: Tensor, seed: int, options: Options, torch: Any
) -> tuple[list[dict[str, Any]], list[dict[str, Any]], dict[str, Any]]:
    """Make one run.

    Returns a row for every step; a row for every step about the first unit that differs in
    sign, if one does; and what was found.
    """
    twins = Twins(run, options, seed, torch)
    kind = {"seed": seed, **run._asdict()}
    rows: list[dict[str, Any]] = []
    by_unit: list[list[np.ndarray]] = []  # by step and hidden layer: the worst weight of each unit
    first: tuple[int, list[Flip]] | None = None
    source = batches(images, labels, run.dtype, seed, options)
    for step, (x, y) in enumerate(progress(source, total=options.steps, desc=run.name), 1):
        loss, flips = twins.step(x, y)
        found = twins.differences()
        worst = int(np.argmax([d.max() for d in found]))
        place = np.unravel_index(int(found[worst].argmax()), found[worst].shape)
        gradient = twins.ours[worst].grad
        assert gradient is not None
        rows.append(
            {
                **kind,
                "step": step,
                "loss": rounded(loss),
                "max_difference": rounded(found[worst][place], 4),
                "signs_that_differ": len(flips),
                "parameter": f"{worst // 2}.{('weight', 'bias')[worst % 2]}",
                "unit": int(place[0]),
                "gradient_there": rounded(gradient.data[place], 3),
            }
        )
        by_unit.append(
            [np.maximum(found[2 * i].max(1), found[2 * i + 1]) for i in range(len(SIZES) - 2)]
        )
        if flips and first is None:
            first = step, flips
    result = {
        **kind,
        "max_difference": max(row["max_difference"] for row in rows),
        "after_first_step": rows[0]["max_difference"],
        "signs_that_differ": sum(row["signs_that_differ"] for row in rows),
        "largest_jump": _largest_jump(rows),
        "first_flip": None,
        "our_weights_sha256": twins.fingerprint(),
    }
    if first is None:
        return rows, [], result
    step, flips = first
    traced = [{**kind, **row} for row in _around(flips, by_unit)]
    result["first_flip"] = _first_flip(step, flips[0], traced)
    return rows, traced, result


def _around(flips: list[Flip], by_unit: list[list[np.ndarray]]) -> Iterator[dict[str, Any]]:
    """Yield by step how far apart the weights of the first unit are, and the worst of the others.

    The others are those of its layer that did not differ in sign in the same step.
    """
    layer, unit = flips[0].layer, flips[0].unit
    flipped = {flip.unit for flip in flips if flip.layer == layer}
    others = [i for i in range(SIZES[layer + 1]) if i not in flipped]
    for step, differences in enumerate(by_unit, 1):
        yield {
            "step": step,
            "unit_difference": rounded(differences[layer][unit], 4),
            "others_difference": rounded(differences[layer][others].max(), 4),
        }


def _first_flip(step: int, flip: Flip, traced: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the first flip, and how far apart its unit's weights and all others' then were."""
    after = traced[step - 1]
    # before the first step all weights were equal
    before = traced[step - 2] if step > 1 else dict.fromkeys(after, 0.0)
    return {
        "step": step,
        **flip._asdict(),
        "unit_before": before["unit_difference"],
        "unit_after": after["unit_difference"],
        "others_before": before["others_difference"],
        "others_after": after["others_difference"],
    }


def _largest_jump(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return the step at which the difference grew most, by what factor, and at what flips."""
    best = {"step": 0, "factor": 0.0, "signs_that_differ": 0}
    for before, after in itertools.pairwise(rows):
        if before["max_difference"] > 0:
            factor = after["max_difference"] / before["max_difference"]
            if factor > best["factor"]:
                signs = after["signs_that_differ"]
                best = {
                    "step": after["step"],
                    "factor": rounded(factor, 3),
                    "signs_that_differ": signs,
                }
    return best


# What is reported


def conclude(found: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return, for each question, the figures that answer it."""

    def of(*wanted: str) -> list[dict[str, Any]]:
        return [f for f in found if tuple(f[k] for k in Run._fields)[: len(wanted)] == wanted]

    jumped = [f for f in found if f["largest_jump"]["factor"] > JUMP]
    with_signs = [f for f in of("float32") if f["variant"] in WITH_SIGNS]
    without = [f for f in of("float32") if f["variant"] not in WITH_SIGNS]
    flipped = [f["first_flip"] for f in with_signs if f["first_flip"]]
    plain = {(f["seed"], f["optimizer"]): f for f in of("float32") if f["variant"] == "relu"}
    return {
        "float64_limit": FLOAT64_LIMIT,
        "float64_max_difference": {
            f"{run.optimizer}, {run.variant}": {
                str(f["seed"]): f["max_difference"] for f in of(*run)
            }
            for run in RUNS
            if run.dtype == "float64"
        },
        "float64_signs_that_differ": sum(f["signs_that_differ"] for f in of("float64")),
        "jumps_above": JUMP,
        "runs_that_jumped": len(jumped),
        "of_them_at_a_step_with_a_flip": sum(
            f["largest_jump"]["signs_that_differ"] > 0 for f in jumped
        ),
        "relu_runs_float32": len(with_signs),
        "relu_runs_with_a_flip": len(flipped),
        "first_flips_after_which_their_unit_is_the_worst": sum(
            f["unit_after"] > f["others_after"] for f in flipped
        ),
        "largest_jump_with_relu": max((f["largest_jump"]["factor"] for f in with_signs), default=0),
        "largest_jump_with_equal_masks_or_tanh": max(
            (f["largest_jump"]["factor"] for f in without), default=0
        ),
        "equal_masks_leave_our_run_as_it_was": all(
            f["our_weights_sha256"] == plain[f["seed"], f["optimizer"]]["our_weights_sha256"]
            for f in without
            if f["variant"] == "equal masks"
        ),
        "adamw_difference_after_first_step": {
            f"{run.dtype}, {run.variant}": max(f["after_first_step"] for f in of(*run))
            for run in RUNS
            if run.optimizer == "AdamW" and run.variant in WITH_SIGNS
        },
    }


def plot(rows: Sequence[dict[str, Any]], found: Sequence[dict[str, Any]], stem: Path) -> list[Path]:
    """Draw the largest difference by step for every run."""
    drawing, axes = figure(3, width=4.6, height=4.0)
    for ax, (dtype, optimizers) in zip(
        axes, (("float64", "SGD and AdamW"), ("float32", "SGD"), ("float32", "AdamW")), strict=True
    ):
        runs = [run for run in RUNS if run.dtype == dtype and run.optimizer in optimizers]
        for run, style in zip(runs, STYLES, strict=False):
            label = run.variant if dtype == "float32" else f"{run.optimizer}, {run.variant}"
            for one in (f for f in found if _run(f) == run):
                mine = [row for row in rows if (row["seed"], _run(row)) == (one["seed"], run)]
                steps = [row["step"] for row in mine]
                differences = [row["max_difference"] for row in mine]
                ax.plot(steps, differences, label=label, **{**style, "marker": ""})
                label = None  # one entry in the legend for all seeds
                if one["first_flip"] and run.variant in WITH_SIGNS:
                    step = one["first_flip"]["step"]
                    ax.plot(step, differences[step - 1], **MARK, zorder=3)
        ax.set(title=f"{dtype}, {optimizers}", xlabel="step", yscale="log")
    axes[0].axhline(FLOAT64_LIMIT, color="#555555", linewidth=1, linestyle=(0, (1, 2)))
    axes[0].set_ylabel("largest difference between two weights")
    for ax in axes[1:]:
        ax.plot([], [], **MARK, label="first sign differs")
    for ax in axes:
        ax.legend(fontsize=9)
    return save_figure(drawing, stem)


def _run(row: dict[str, Any]) -> Run:
    """Return the run that a row is about."""
    return Run(*(row[name] for name in Run._fields))


def plot_flips(
    traced: Sequence[dict[str, Any]],
    found: Sequence[dict[str, Any]],
    stem: Path,
    around: int = 25,
    panels: int = 4,
) -> list[Path]:
    """Draw, around first flips, the weights of the unit beside the worst of all others."""
    flipped = [f for f in found if f["first_flip"] and f["variant"] == "relu"]
    by_optimizer = ([f for f in flipped if f["optimizer"] == name] for name in ("SGD", "AdamW"))
    flipped = [f for some in by_optimizer for f in some[: panels // 2]]
    if not flipped:
        return []
    drawing, axes = figure(len(flipped), width=3.6, height=3.4)
    for ax, one in zip(np.atleast_1d(axes), flipped, strict=True):
        flip, run = one["first_flip"], _run(one)
        for variant, column, label, style in zip(
            ("relu", "relu", "equal masks"),
            ("unit_difference", "others_difference", "unit_difference"),
            ("the unit that flips", "worst of the others", "the unit, equal masks"),
            STYLES,
            strict=False,
        ):
            near = [
                row
                for row in traced
                if (row["seed"], _run(row)) == (one["seed"], run._replace(variant=variant))
                and abs(row["step"] - flip["step"]) <= around
            ]
            ax.plot([r["step"] for r in near], [r[column] for r in near], label=label, **style)
        ax.axvline(flip["step"], color="#555555", linewidth=1, linestyle=(0, (1, 2)))
        ax.set_title(
            f"{run.optimizer}, seed {one['seed']}: layer {flip['layer']}, unit {flip['unit']}",
            fontsize=10,
        )
        ax.set(xlabel="step", yscale="log")
    first = np.atleast_1d(axes)[0]
    first.set_ylabel("largest difference in its weights")
    first.legend(fontsize=8)
    return save_figure(drawing, stem)


def check(options: Options) -> None:
    """Leave with a message that names the option if one makes no sense."""
    check_out(options.out)
    for name, value, low in (
        ("steps", options.steps, 2),
        ("batch-size", options.batch_size, 1),
        ("lr-sgd", options.lr_sgd, 0),
        ("lr-adamw", options.lr_adamw, 0),
        ("images", options.images, 1),
        *(("seeds", seed, 0) for seed in options.seeds),
    ):
        check_range(name, value, low)
    if not options.seeds:
        raise SystemExit("--seeds must name at least one seed")


def main(options: Options) -> None:
    """Make every run, report, and write the results."""
    check(options)
    threads = limit_threads(options.threads)
    torch = import_torch(threads, "divergence.py")
    name, training, _, _ = train_mnist.load(
        train_mnist.Options(data=options.data, images=options.images, validation=0)
    )
    place = environment(threads, ("numpy", "torch", "smolgrad"))
    rows: list[dict[str, Any]] = []
    traced: list[dict[str, Any]] = []
    found: list[dict[str, Any]] = []
    for seed in options.seeds:
        for run in RUNS:
            steps, unit, result = trace(run, training.images, training.labels, seed, options, torch)
            rows += steps
            traced += unit
            found.append(result)
            print(f"seed {seed}, {run.name:28}: {describe(result)}")
    conclusions = conclude(found)
    summary = {
        "data": name,
        "command": command(),
        "steps": options.steps,
        "batch_size": options.batch_size,
        "lr_sgd": options.lr_sgd,
        "lr_adamw": options.lr_adamw,
        "conclusions": conclusions,
        "runs": found,
        **place,
    }
    base = tagged("divergence" if name == "mnist" else "generated_divergence", options.tag)
    written = [
        write_csv(options.out / f"{base}.csv", rows),
        *([write_csv(options.out / f"{base}_flips.csv", traced)] if traced else []),
        write_json(options.out / f"{base}.json", summary),
        *plot(rows, found, options.out / base),
        *plot_flips(traced, found, options.out / f"{base}_flips"),
    ]
    for key, value in conclusions.items():
        print(f"{key.replace('_', ' ')}: {value}")
    print("written: " + ", ".join(str(path) for path in written))


def describe(result: dict[str, Any]) -> str:
    """Return what a run found, in a line."""
    text = (
        f"{result['max_difference']:.1e} at most, {result['signs_that_differ']} signs differ, "
        f"largest growth x{result['largest_jump']['factor']:g} "
        f"at step {result['largest_jump']['step']}"
    )
    flip = result["first_flip"]
    if flip:
        text += (
            f"; first flip at step {flip['step']}, layer {flip['layer']}, unit {flip['unit']} "
            f"({flip['ours']:.1e} here, {flip['theirs']:.1e} there): its weights "
            f"{flip['unit_before']:.0e} -> {flip['unit_after']:.0e}, "
            f"all others {flip['others_before']:.0e} -> {flip['others_after']:.0e}"
        )
    return text


if __name__ == "__main__":
    main(tyro.cli(Options, description=__doc__))
