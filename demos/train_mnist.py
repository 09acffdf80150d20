"""Train a 784-512-256-10 ReLU network on MNIST with AdamW, and say how well it does.

Question: does this engine train a real model on real data, and does its float64
arithmetic follow PyTorch's to rounding?

Without --torch-twin, 5,000 training images are set aside to choose the best epoch.
With it, a PyTorch model starts from the same weights and sees the same batches; the
largest difference between any two weights is written down after every epoch.

Where no mirror can be reached the network is trained on generated digits instead; the
output and the results then say so.
"""

from __future__ import annotations

import hashlib
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
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
    log_ticks,
    progress,
    rounded,
    save_figure,
    tagged,
    write_csv,
    write_json,
)

import tensor
from tensor import Generator, Tensor, nn, optim
from tensor.data import (
    CorruptDataError,
    DataLoader,
    DownloadError,
    TensorDataset,
    generated_digits,
    mnist,
)

IMAGES, TEST_IMAGES = 60_000, 10_000
EVALUATION_BATCH = 1_000


@dataclass
class Options:
    """Options of the training run."""

    epochs: int = 10
    """passes over the training images"""
    max_steps: int | None = None
    """stop after so many steps, whatever the epoch"""
    batch_size: int = 128
    """images in a step"""
    lr: float = 1e-3
    """AdamW's learning rate"""
    weight_decay: float = 0.01
    """AdamW's weight decay"""
    dtype: Literal["float32", "float64"] = "float32"
    """dtype of weights and images"""
    seed: int = 0
    """of the weights, the validation split and the order of the batches"""
    threads: int | None = None
    """threads of the matrix products; by default one for each core"""
    images: int | None = None
    """use only so many training images, for a quick trial"""
    validation: int = 5_000
    """training images set aside to choose the best epoch; 0 for none"""
    torch_twin: bool = False
    """train the same model in PyTorch beside it and compare the weights (needs torch)"""
    data: Literal["mnist", "generated"] = "mnist"
    """train on generated digits even where MNIST can be had"""
    tag: str = ""
    """added to the names of the results"""
    out: Path = RESULTS
    """the folder that the results go to"""


@dataclass
class Split:
    """Images (N, 784) and their digits (N,)."""

    images: Tensor
    labels: Tensor

    def __len__(self) -> int:
        return len(self.labels)

    def batches(self) -> Iterator[tuple[Tensor, Tensor]]:
        """Yield the whole split in order."""
        for start in range(0, len(self), EVALUATION_BATCH):
            part = slice(start, start + EVALUATION_BATCH)
            yield self.images[part], self.labels[part]


def check(options: Options) -> None:
    """Leave with a message that names the option if one makes no sense."""
    check_out(options.out)
    images = IMAGES if options.images is None else options.images
    for name, value, low, high in (
        ("epochs", options.epochs, 1, None),
        ("batch-size", options.batch_size, 1, None),
        ("max-steps", options.max_steps, 1, None),
        ("images", options.images, 1, IMAGES),
        ("validation", options.validation, 0, images - 1),
    ):
        check_range(name, value, low, high)


def load(options: Options) -> tuple[str, Split, Split, Split | None]:
    """Return the data's name, and the splits for training, test and validation."""
    name = "mnist"
    try:
        if options.data == "generated":
            raise DownloadError("generated digits were asked for")
        train, test = mnist(split="train"), mnist(split="test")
    except CorruptDataError as error:
        raise SystemExit(str(error)) from None
    except DownloadError as error:
        name = "generated digits"
        print(
            f"WARNING: this is NOT MNIST. {error}\n"
            "WARNING: training on generated digits instead; the results are named so.",
            file=sys.stderr,
        )
        train = generated_digits(options.images or IMAGES, Generator(options.seed + 1))
        test = generated_digits(TEST_IMAGES, Generator(options.seed + 2))
    dtype = np.dtype(options.dtype)
    order = np.arange(len(train[1]))
    if options.validation:
        order = Generator(options.seed).permutation(len(order))
    order = order[: options.images]
    chosen, held = order[options.validation :], order[: options.validation]

    def split(data: tuple[Tensor, Tensor], rows: Any = slice(None)) -> Split:
        return Split(data[0][rows].to(dtype), data[1][rows])

    validation = split(train, held) if options.validation else None
    return name, split(train, chosen), split(test), validation


def build(options: Options) -> nn.Sequential:
    """Return the network, initialised from the seed as PyTorch would."""
    tensor.manual_seed(options.seed)
    model = nn.Sequential(
        nn.Linear(784, 512),
        nn.ReLU(),
        nn.Linear(512, 256),
        nn.ReLU(),
        nn.Linear(256, 10),
    )
    return model.to(np.dtype(options.dtype))


def evaluate(model: nn.Module, split: Split) -> tuple[float, float]:
    """Return the mean loss and the share of images classified right."""
    loss, right = 0.0, 0
    with tensor.no_grad():
        for images, labels in split.batches():
            logits = model(images)
            loss += tensor.cross_entropy(logits, labels, reduction="sum").item()
            right += int((logits.argmax(1) == labels).sum().item())
    return loss / len(split), right / len(split)


class Twin:
    """The same network in PyTorch, from the same weights."""

    def __init__(self, model: nn.Module, options: Options, threads: int) -> None:
        self.torch = torch = import_torch(threads, "--torch-twin")
        self.model = torch.nn.Sequential(
            torch.nn.Linear(784, 512),
            torch.nn.ReLU(),
            torch.nn.Linear(512, 256),
            torch.nn.ReLU(),
            torch.nn.Linear(256, 10),
        ).to(getattr(torch, options.dtype))
        self.model.load_state_dict(
            {name: torch.tensor(p.data) for name, p in model.named_parameters()}
        )
        self.optimizer = torch.optim.AdamW(
            self.model.parameters(), lr=options.lr, weight_decay=options.weight_decay
        )

    def step(self, images: Tensor, labels: Tensor) -> None:
        """Take one step on a batch."""
        logits = self.model(self.torch.from_numpy(images.data))
        loss = self.torch.nn.functional.cross_entropy(logits, self.torch.from_numpy(labels.data))
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()

    def accuracy(self, split: Split) -> float:
        """Return the share of images classified right."""
        right = 0
        with self.torch.no_grad():
            for images, labels in split.batches():
                guesses = self.model(self.torch.from_numpy(images.data)).argmax(1).numpy()
                right += int((guesses == labels.data).sum())
        return right / len(split)

    def difference(self, model: nn.Module) -> float:
        """Return the largest absolute difference between two weights."""
        theirs = dict(self.model.named_parameters())
        return max(
            float(np.abs(p.data - theirs[name].detach().numpy()).max())
            for name, p in model.named_parameters()
        )


def digest(model: nn.Module) -> str:
    """Return the SHA-256 of all weights, in order."""
    return hashlib.sha256(b"".join(p.data.tobytes() for p in model.parameters())).hexdigest()


def train(options: Options) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Train as the options say; return a row for each epoch and the summary."""
    check(options)
    threads = limit_threads(options.threads)
    name, training, test, validation = load(options)
    model = build(options)
    parameters = sum(p.numel() for p in model.parameters())
    optimizer = optim.AdamW(model.parameters(), lr=options.lr, weight_decay=options.weight_decay)
    twin = Twin(model, options, threads) if options.torch_twin else None
    loader = DataLoader(
        TensorDataset(training.images, training.labels),
        batch_size=options.batch_size,
        shuffle=True,
        generator=Generator(options.seed),
    )
    place = environment(threads, ("numpy", "smolgrad", *(("torch",) if twin else ())))
    print(
        f"{name}: {len(training):,} images to train on, {options.validation:,} to choose by, "
        f"{len(test):,} to test on; {parameters:,} parameters, {options.dtype}, "
        f"threads {threads}"
    )
    rows: list[dict[str, Any]] = []
    steps, seconds = 0, 0.0
    for epoch in range(1, options.epochs + 1):
        start, total, seen = time.perf_counter(), 0.0, 0
        for images, labels in progress(loader, desc=f"epoch {epoch}", unit="step"):
            if steps == options.max_steps:
                break
            loss = tensor.cross_entropy(model(images), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if twin:
                twin.step(images, labels)
            steps, seen = steps + 1, seen + len(labels)
            total += loss.item() * len(labels)
        if not seen:
            break
        seconds += time.perf_counter() - start
        test_loss, test_accuracy = evaluate(model, test)
        row: dict[str, Any] = {
            "epoch": epoch,
            "steps": steps,
            "seconds": round(seconds, 2),
            "train_loss": rounded(total / seen),
            "test_loss": rounded(test_loss),
            "test_accuracy": test_accuracy,
        }
        if validation:
            row["validation_loss"], row["validation_accuracy"] = evaluate(model, validation)
            row["validation_loss"] = rounded(row["validation_loss"])
        if twin:
            row["torch_test_accuracy"] = twin.accuracy(test)
            row["max_weight_difference"] = twin.difference(model)
        rows.append(row)
        print(
            f"epoch {epoch:2}: {steps:5} steps, {seconds:6.1f} s, "
            f"training loss {row['train_loss']:.4f}, test accuracy {test_accuracy:.2%}"
            + (f", validation {row['validation_accuracy']:.2%}" if validation else "")
            + (f", largest weight difference {row['max_weight_difference']:.2e}" if twin else "")
        )
    last = rows[-1]
    best = max(rows, key=lambda row: row["validation_accuracy"]) if validation else last
    summary = {
        "data": name,
        "command": command(),
        "parameters": parameters,
        "epochs": last["epoch"],
        "steps": steps,
        "batch_size": options.batch_size,
        "lr": options.lr,
        "weight_decay": options.weight_decay,
        "dtype": options.dtype,
        "seed": options.seed,
        "training_images": len(training),
        "validation_images": options.validation,
        "seconds": last["seconds"],
        "test_accuracy_final": last["test_accuracy"],
        "test_loss_final": last["test_loss"],
        "best_epoch_by_validation": best["epoch"] if validation else None,
        "test_accuracy_at_best_validation": best["test_accuracy"] if validation else None,
        "weights_sha256": digest(model),
        **place,
    }
    if twin:
        summary["torch_test_accuracy_final"] = last["torch_test_accuracy"]
        summary["max_weight_difference"] = max(row["max_weight_difference"] for row in rows)
        summary["equal_accuracy_every_epoch"] = all(
            row["test_accuracy"] == row["torch_test_accuracy"] for row in rows
        )
    return rows, summary


def plot(rows: list[dict[str, Any]], summary: dict[str, Any], stem: Path) -> list[Path]:
    """Draw loss and accuracy by epoch (and, with a twin, the weight difference)."""
    twin = "max_weight_difference" in summary
    drawing, axes = figure(3 if twin else 2)
    epochs = [row["epoch"] for row in rows]
    for name, style in zip(("train", "validation", "test"), STYLES, strict=False):
        if f"{name}_loss" in rows[0]:
            axes[0].plot(epochs, [row[f"{name}_loss"] for row in rows], label=name, **style)
        if f"{name}_accuracy" in rows[0]:
            errors = [100 * (1 - row[f"{name}_accuracy"]) for row in rows]
            axes[1].plot(epochs, errors, label=name, **style)
    axes[0].set(title="Cross-entropy", ylabel="nats per image", yscale="log")
    log_ticks(axes[0])
    if twin:
        errors = [100 * (1 - row["torch_test_accuracy"]) for row in rows]
        axes[1].plot(epochs, errors, label="test, PyTorch", **STYLES[3])
        differences = [row["max_weight_difference"] for row in rows]
        axes[2].plot(epochs, differences, **STYLES[0])
        axes[2].set(title="Largest difference of a weight to PyTorch", ylim=(0, None))
    axes[1].set(title="Images classified wrongly", ylabel="per cent", ylim=(0, None))
    for ax in axes:
        ax.set_xlabel("epoch")
        ax.xaxis.get_major_locator().set_params(integer=True)
    axes[0].legend()
    axes[1].legend()
    drawing.suptitle(
        f"{summary['data']}, {summary['parameters']:,} parameters, {summary['dtype']}", fontsize=10
    )
    return save_figure(drawing, stem)


def main(options: Options) -> None:
    """Train, report, and write the results."""
    rows, summary = train(options)
    base = "mnist" if summary["data"] == "mnist" else "generated"
    out = options.out
    written = [
        write_csv(out / f"{tagged(base + '_train', options.tag)}.csv", rows),
        write_json(out / f"{tagged(base + '_summary', options.tag)}.json", summary),
        *plot(rows, summary, out / tagged(base + "_curves", options.tag)),
    ]
    print(
        f"test accuracy {summary['test_accuracy_final']:.2%} after {summary['epochs']} epochs"
        + (
            f" ({summary['test_accuracy_at_best_validation']:.2%} at the epoch that validation "
            f"chose, {summary['best_epoch_by_validation']})"
            if summary["best_epoch_by_validation"]
            else ""
        )
        + f"; {summary['steps']:,} steps in {summary['seconds']:.1f} s"
    )
    if options.torch_twin:
        print(
            f"PyTorch: {summary['torch_test_accuracy_final']:.2%}; largest weight difference "
            f"{summary['max_weight_difference']:.2e}"
        )
    print("written: " + ", ".join(str(path) for path in written))


if __name__ == "__main__":
    main(tyro.cli(Options, description=__doc__))
