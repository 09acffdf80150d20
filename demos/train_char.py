"""Train a character model on Tiny Shakespeare, and let it write.

Question: how much better than counting pairs of letters is a small network that sees
the last sixteen characters?

The model is Bengio's (Bengio et al., 2003, JMLR 3) on characters: an embedding of the
last 16, one hidden layer with LayerNorm and tanh, and a softmax over the next one.
Uniform, unigram and bigram models are scored on the same held-out tenth of the text.

--corpus takes "shakespeare", "pydoc" (the help that every Python ships; needs no
download) or the path of a text of your own. Where Tiny Shakespeare cannot be had the
model is trained on pydoc instead; the output and the results then say so.
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import tyro
from numpy.lib.stride_tricks import sliding_window_view
from report import (
    RESULTS,
    STYLES,
    check_out,
    check_range,
    command,
    environment,
    figure,
    limit_threads,
    progress,
    rounded,
    save_figure,
    tagged,
    write_csv,
    write_json,
    write_text,
)

import tensor
from tensor import Generator, nn, optim
from tensor.data import (
    CorruptDataError,
    DownloadError,
    pydoc_corpus,
    text_corpus,
    tiny_shakespeare,
)

EVALUATION_BATCH = 2_048
# While training, the validation loss is taken on every eighth window; at the end, on all.
STRIDE = 8


@dataclass
class Options:
    """Options of the training run."""

    corpus: str = "shakespeare"
    """what to read: shakespeare, pydoc, or the path of a UTF-8 text"""
    steps: int = 6_000
    """steps to train"""
    batch_size: int = 256
    """windows in a step"""
    lr: float = 3e-3
    """AdamW's learning rate; it falls linearly to 0 over the last quarter of the steps"""
    weight_decay: float = 0.01
    """AdamW's weight decay"""
    context: int = 16
    """characters that the model sees"""
    width: int = 32
    """numbers in the embedding of a character"""
    hidden: int = 512
    """units in the hidden layer"""
    every: int = 500
    """steps between two looks at the validation loss"""
    prompt: str = ""
    """what the samples begin with"""
    temperature: float = 0.8
    """below 1, samples keep to likely characters; 0 always takes the likeliest"""
    samples: int = 3
    """texts to write at the end"""
    length: int = 500
    """characters in each of them, after the prompt"""
    seed: int = 0
    """of the weights, the batches and the samples"""
    threads: int | None = None
    """threads of the matrix products; by default one for each core"""
    tag: str = ""
    """added to the names of the results"""
    out: Path = RESULTS
    """the folder that the results go to"""


def check(options: Options) -> None:
    """Leave with a message that names the option if one makes no sense."""
    check_out(options.out)
    for name, value, low in (
        ("steps", options.steps, 1),
        ("batch-size", options.batch_size, 1),
        ("lr", options.lr, 0),
        ("weight-decay", options.weight_decay, 0),
        ("context", options.context, 1),
        ("width", options.width, 1),
        ("hidden", options.hidden, 1),
        ("every", options.every, 1),
        ("temperature", options.temperature, 0),
        ("samples", options.samples, 0),
        ("length", options.length, 0),
        ("seed", options.seed, 0),
    ):
        check_range(name, value, low)


# The text


def read(corpus: str) -> tuple[str, str]:
    """Return the name of the corpus, as it goes into the names of files, and its text."""
    if corpus == "pydoc":
        return "pydoc", pydoc_corpus()
    if corpus != "shakespeare":
        try:
            return Path(corpus).stem, text_corpus(corpus)
        except (OSError, ValueError) as error:
            raise SystemExit(
                f"--corpus must be shakespeare, pydoc or the path of a UTF-8 text: {error}"
            ) from None
    try:
        return "shakespeare", tiny_shakespeare()
    except CorruptDataError as error:
        raise SystemExit(str(error)) from None
    except DownloadError as error:
        print(
            f"WARNING: this is NOT Tiny Shakespeare. {error}\n"
            "WARNING: training on Python's own help texts instead; the results are named so.",
            file=sys.stderr,
        )
        return "pydoc", pydoc_corpus()


class Vocabulary:
    """The distinct characters of a text, in order; a character's number is its place."""

    def __init__(self, text: str) -> None:
        self.characters = sorted(set(text))
        self._numbers = {character: i for i, character in enumerate(self.characters)}

    def __len__(self) -> int:
        return len(self.characters)

    def encode(self, text: str) -> np.ndarray:
        """Return the numbers of the characters, int64 (len(text),)."""
        return np.array([self._numbers[character] for character in text], np.int64)

    def decode(self, numbers: np.ndarray) -> str:
        """Return the text of some numbers (n,)."""
        return "".join(self.characters[i] for i in numbers)

    def check(self, prompt: str) -> None:
        """Leave with a message if the prompt has a character that the text has not."""
        for i, character in enumerate(prompt):
            if character not in self._numbers:
                raise SystemExit(
                    f"--prompt: the character {character!r} at position {i} does not occur in the "
                    "corpus, so the model cannot know it. These do: "
                    + repr("".join(self.characters))[1:-1]
                )


def split(numbers: np.ndarray, context: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the text to train on and the last tenth, each with room for one window."""
    window = context + 1
    held = max(len(numbers) // 10, window)
    if len(numbers) < held + window:
        raise SystemExit(
            f"the corpus has {len(numbers)} characters; to train and to validate, windows of "
            f"{context} characters and the next one need at least {2 * window}. "
            "Take a longer text or a smaller --context"
        )
    return numbers[:-held], numbers[-held:]


def lead(text: str, context: int) -> str:
    """Return the characters before a place in the text where a paragraph, or else a line, begins.

    A sample needs a full window before it, and one that the model could have seen.
    """
    for end in ("\n\n", "\n", " "):
        place = text.find(end, context)
        if place >= 0:
            return text[: place + len(end)][-context:]
    return text[:context]


def baselines(train: np.ndarray, held: np.ndarray, size: int, context: int) -> dict[str, float]:
    """Return nats per character of held-out text for models that count, one is added to counts.

    They are asked for the same characters as the network: those with a whole window before them.
    """
    before, target = held[context - 1 : -1], held[context:]
    singles = np.bincount(train, minlength=size) + 1.0
    pairs = np.bincount(train[:-1] * size + train[1:], minlength=size * size) + 1.0
    pairs = pairs.reshape(size, size)
    return {
        "uniform": math.log(size),
        "unigram": -float(np.log(singles / singles.sum())[target].mean()),
        "bigram": -float(np.log(pairs / pairs.sum(1, keepdims=True))[before, target].mean()),
    }


# The model


def build(size: int, context: int = 16, width: int = 32, hidden: int = 512) -> nn.Sequential:
    """Return the network for an alphabet of ``size``: (B, context) numbers to (B, size) logits."""
    return nn.Sequential(
        nn.Embedding(size, width),
        nn.Flatten(),
        nn.Linear(context * width, hidden),
        nn.LayerNorm(hidden),
        nn.Tanh(),
        nn.Linear(hidden, size),
    )


def batches(
    windows: np.ndarray, size: int, generator: Generator, count: int
) -> Iterator[tuple[tensor.Tensor, tensor.Tensor]]:
    """Yield ``count`` random batches of windows (B, context) and the characters after them (B,)."""
    for _ in range(count):
        chosen = windows[generator.integers(0, len(windows), size)]
        yield tensor.from_numpy(chosen[:, :-1]), tensor.from_numpy(chosen[:, -1])


def evaluate(model: nn.Module, windows: np.ndarray) -> float:
    """Return the mean loss over windows, in nats per character."""
    total = 0.0
    with tensor.no_grad():
        for start in range(0, len(windows), EVALUATION_BATCH):
            part = windows[start : start + EVALUATION_BATCH]
            logits = model(tensor.from_numpy(part[:, :-1]))
            target = tensor.from_numpy(part[:, -1])
            total += tensor.cross_entropy(logits, target, reduction="sum").item()
    return total / len(windows)


def rate(step: int, options: Options) -> float:
    """Return the learning rate of a step, counted from 0."""
    return options.lr * min(1.0, 4 * (options.steps - step) / options.steps)


def train(
    model: nn.Module, windows: np.ndarray, held: np.ndarray, options: Options
) -> list[dict[str, Any]]:
    """Train the model on windows (n, context + 1); return a row for each look at the loss."""
    optimizer = optim.AdamW(model.parameters(), lr=options.lr, weight_decay=options.weight_decay)
    source = batches(windows, options.batch_size, Generator(options.seed), options.steps)
    rows: list[dict[str, Any]] = []
    seconds, total, since = 0.0, 0.0, 0
    start = time.perf_counter()
    for step, (x, y) in enumerate(progress(source, total=options.steps, unit="step")):
        optimizer.param_groups[0]["lr"] = rate(step, options)
        loss = tensor.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total, since = total + loss.item(), since + 1
        if (step + 1) % options.every and step + 1 < options.steps:
            continue
        seconds += time.perf_counter() - start
        if not math.isfinite(total):
            raise SystemExit(f"the loss is {total} by step {step + 1}: try a smaller --lr")
        row = {
            "step": step + 1,
            "seconds": round(seconds, 2),
            "lr": rounded(rate(step, options)),
            "train_loss": rounded(total / since),
            "validation_loss": rounded(evaluate(model, held[::STRIDE])),
        }
        rows.append(row)
        print(
            f"step {step + 1:5}: {seconds:6.1f} s, training loss {row['train_loss']:.3f}, "
            f"validation {row['validation_loss']:.3f}"
        )
        total, since, start = 0.0, 0, time.perf_counter()
    return rows


def write(model: nn.Module, vocabulary: Vocabulary, before: str, options: Options) -> list[str]:
    """Return texts that the model writes after ``before`` and the prompt.

    At temperature 0 all would be the same, so there is one.
    """
    count = min(options.samples, 1) if options.temperature == 0 else options.samples
    seen = np.tile(vocabulary.encode(before + options.prompt), (count, 1))  # (S, T)
    generator = Generator(options.seed + 1)
    with tensor.no_grad():
        for _ in range(options.length if count else 0):
            logits = model(tensor.from_numpy(seen[:, -options.context :])).data  # (S, V)
            below_top = logits.astype(np.float64) - logits.max(1, keepdims=True)
            if options.temperature == 0:
                drawn = below_top.argmax(1)
            else:
                chances = np.exp(below_top / options.temperature).cumsum(1)
                level = generator.uniform(shape=(count, 1), dtype=np.float64) * chances[:, -1:]
                drawn = (chances > level).argmax(1)
            seen = np.concatenate([seen, drawn[:, None]], 1)
    return [vocabulary.decode(row[len(before) :]) for row in seen]


# What is reported


def plot(rows: list[dict[str, Any]], summary: dict[str, Any], stem: Path) -> list[Path]:
    """Draw the losses by step, and the baselines as level lines."""
    drawing, ax = figure(1, width=6.6, height=4.0)
    steps = [row["step"] for row in rows]
    for name, style in zip(("train", "validation"), STYLES, strict=False):
        ax.plot(steps, [row[f"{name}_loss"] for row in rows], label=name, **style)
    for name in ("uniform", "unigram", "bigram"):
        level = summary[f"{name}_loss"]
        ax.axhline(level, color="#555555", linewidth=1, linestyle=(0, (1, 2)))
        ax.annotate(
            f"{name} {level:.2f}",
            (1, level),
            xycoords=("axes fraction", "data"),
            xytext=(-4, 3),
            textcoords="offset points",
            ha="right",
            color="#333333",
        )
    ax.set(
        title=f"{summary['corpus']}, {summary['parameters']:,} parameters",
        xlabel="step",
        ylabel="nats per character",
        xlim=(0, None),
    )
    ax.legend(loc="best")
    return save_figure(drawing, stem)


def main(options: Options) -> None:
    """Train, sample, report, and write the results."""
    check(options)
    threads = limit_threads(options.threads)
    name, text = read(options.corpus)
    vocabulary = Vocabulary(text)
    vocabulary.check(options.prompt)
    numbers = vocabulary.encode(text)
    training, held = split(numbers, options.context)
    counted = baselines(training, held, len(vocabulary), options.context)
    tensor.manual_seed(options.seed)
    model = build(len(vocabulary), options.context, options.width, options.hidden)
    parameters = sum(p.numel() for p in model.parameters())
    place = environment(threads, ("numpy", "smolgrad"))
    print(
        f"{name}: {len(training):,} characters to train on, {len(held):,} to validate on, "
        f"{len(vocabulary)} distinct; {parameters:,} parameters, threads {threads}"
    )
    print("nats per character: " + ", ".join(f"{k} {v:.3f}" for k, v in counted.items()))
    windows, held_windows = (
        sliding_window_view(part, options.context + 1) for part in (training, held)
    )
    rows = train(model, windows, held_windows, options)
    loss = evaluate(model, held_windows)
    summary: dict[str, Any] = {
        "corpus": name,
        "command": command(),
        "characters": len(text),
        "vocabulary": len(vocabulary),
        "training_characters": len(training),
        "validation_characters": len(held),
        "parameters": parameters,
        "steps": options.steps,
        "batch_size": options.batch_size,
        "context": options.context,
        "lr": options.lr,
        "weight_decay": options.weight_decay,
        "seed": options.seed,
        "seconds": rows[-1]["seconds"],
        "ms_per_step": rounded(1e3 * rows[-1]["seconds"] / options.steps, 4),
        "validation_loss_final": rounded(loss),
        "validation_bits_final": rounded(loss / math.log(2)),
        **{f"{k}_loss": rounded(v) for k, v in counted.items()},
        "below_bigram": rounded(counted["bigram"] - loss),
        "temperature": options.temperature,
        **place,
    }
    texts = write(model, vocabulary, lead(text, options.context), options)
    shown = "".join(
        f"--- sample {i} of {len(texts)}, temperature {options.temperature:g}\n{sample}\n"
        for i, sample in enumerate(texts, 1)
    )
    print(shown, end="")
    base = "char" if name == "shakespeare" else f"char_{name}"
    written = [
        write_csv(options.out / f"{tagged(base + '_train', options.tag)}.csv", rows),
        write_json(options.out / f"{tagged(base + '_summary', options.tag)}.json", summary),
        write_text(options.out / f"{tagged(base + '_samples', options.tag)}.txt", shown),
        *plot(rows, summary, options.out / tagged(base + "_curves", options.tag)),
    ]
    print(
        f"validation loss {loss:.3f} nats per character on {name}, "
        f"{counted['bigram'] - loss:.3f} below the bigram model; "
        f"{options.steps:,} steps in {summary['seconds']:.1f} s"
    )
    print("written: " + ", ".join(str(path) for path in written))


if __name__ == "__main__":
    main(tyro.cli(Options, description=__doc__))
