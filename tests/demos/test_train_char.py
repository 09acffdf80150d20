"""The character program, on small texts and for few steps."""

from __future__ import annotations

import csv
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.demos.programs import load, offline, run

char = load("train_char")

TEXT = "the cat sat on the mat.\nthe dog sat on the log.\n\n" * 40
QUICK = ("--hidden", "16", "--width", "4", "--batch-size", "32", "--threads", "1")


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("text") / "cats.txt"
    path.write_text(TEXT)
    return path


@pytest.fixture(scope="module")
def trained(corpus: Path) -> tuple[Path, str, str]:
    out = corpus.parent / "out"
    options = ("--steps", "120", "--every", "50", "--lr", "0.02", "--length", "30")
    done = run(
        "train_char", "--corpus", str(corpus), *QUICK, *options, "--tag", "t", "--out", str(out)
    )
    assert done.returncode == 0, done.stderr
    return out, done.stdout, done.stderr


def test_the_model_of_the_reference_has_its_parameters() -> None:
    assert sum(p.numel() for p in char.build(65).parameters()) == 299_105


def test_it_learns_more_than_pairs_of_letters(trained: tuple[Path, str, str]) -> None:
    summary = json.loads((trained[0] / "char_cats_summary_t.json").read_text())
    assert summary["corpus"] == "cats"
    assert summary["validation_loss_final"] < summary["bigram_loss"] - 0.2
    assert summary["bigram_loss"] < summary["unigram_loss"] < summary["uniform_loss"]
    assert summary["below_bigram"] == pytest.approx(
        summary["bigram_loss"] - summary["validation_loss_final"], abs=1e-5
    )
    assert {"load_average", "versions", "threads", "seed", "command", "steps"} <= set(summary)


def test_the_table_has_a_row_for_every_look_and_one_for_the_end(
    trained: tuple[Path, str, str],
) -> None:
    with (trained[0] / "char_cats_train_t.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["step"] for row in rows] == ["50", "100", "120"]
    assert float(rows[-1]["train_loss"]) < float(rows[0]["train_loss"])


def test_samples_are_printed_and_saved_and_so_is_the_plot(trained: tuple[Path, str, str]) -> None:
    out, stdout, stderr = trained
    samples = (out / "char_cats_samples_t.txt").read_text()
    assert samples in stdout
    assert samples.count("--- sample") == 3
    assert "temperature 0.8" in samples
    for suffix in ("svg", "png"):
        assert (out / f"char_cats_curves_t.{suffix}").stat().st_size > 500
    assert "\r" not in stdout + stderr


def quickly_trained(**given: Any) -> tuple[list[dict[str, Any]], list[str]]:
    """Train and sample without a process of its own."""
    options = char.Options(**{"steps": 6, "every": 3, "context": 4, "length": 20, **given})
    vocabulary = char.Vocabulary(TEXT)
    numbers = vocabulary.encode(TEXT)
    char.tensor.manual_seed(options.seed)
    model = char.build(len(vocabulary), context=4, width=2, hidden=8)
    windows, held = (char.sliding_window_view(part, 5) for part in char.split(numbers, 4))
    rows = char.train(model, windows, held, options)
    return rows, char.write(model, vocabulary, char.lead(TEXT, 4), options)


def test_the_same_seed_gives_the_same_losses_and_texts_and_another_does_not() -> None:
    (rows, texts), (rows_again, texts_again) = quickly_trained(), quickly_trained()
    without_times = [[row | {"seconds": 0} for row in part] for part in (rows, rows_again)]
    assert without_times[0] == without_times[1]
    assert texts == texts_again
    assert quickly_trained(seed=1)[1] != texts


def test_a_loss_that_is_not_finite_ends_the_run() -> None:
    with pytest.raises(SystemExit, match=r"the loss is (nan|inf) by step 3: try a smaller --lr"):
        quickly_trained(lr=1e38)


def test_without_tiny_shakespeare_it_trains_on_pydoc_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, value in offline(tmp_path).items():
        monkeypatch.setenv(name, value)
    name, text = char.read("shakespeare")
    assert name == "pydoc"
    assert text == char.pydoc_corpus()
    said = capsys.readouterr().err
    assert "NOT Tiny Shakespeare" in said
    assert "the results are named so" in said


# Baselines, schedule and split


def test_the_baselines_are_those_counted_by_hand() -> None:
    # a follows a twice and b once; b is followed by a once; the held-out targets are a and b
    train, held = np.array([0, 0, 0, 1, 0]), np.array([1, 1, 0, 1])
    counted = char.baselines(train, held, size=2, context=2)
    assert counted["uniform"] == pytest.approx(math.log(2))
    assert counted["unigram"] == pytest.approx(-(math.log(5 / 7) + math.log(2 / 7)) / 2)
    assert counted["bigram"] == pytest.approx(-(math.log(2 / 3) + math.log(2 / 5)) / 2)


def test_the_rate_falls_linearly_over_the_last_quarter() -> None:
    options = char.Options(steps=100, lr=0.4)
    rates = [char.rate(step, options) for step in range(100)]
    assert rates[:76] == [0.4] * 76
    assert np.diff(rates[75:]) == pytest.approx(-0.4 / 25)
    assert rates[-1] == pytest.approx(0.4 / 25)


def test_the_last_tenth_is_held_out() -> None:
    train, held = char.split(np.arange(1000), context=16)
    assert (len(train), len(held)) == (900, 100)
    assert held[0] == 900


@pytest.mark.parametrize("length", [0, 16, 33])
def test_a_text_shorter_than_two_windows_is_refused(length: int) -> None:
    with pytest.raises(SystemExit, match=rf"has {length} characters.* at least 34.*--context"):
        char.split(np.zeros(length, np.int64), context=16)
    assert [len(part) for part in char.split(np.zeros(34, np.int64), context=16)] == [17, 17]


# Samples


def model_and_options(**given: object) -> tuple[object, object, object]:
    vocabulary = char.Vocabulary("abc\n")
    options = char.Options(context=3, length=12, **given)
    return char.build(len(vocabulary), context=3, width=2, hidden=4), vocabulary, options


def test_temperature_zero_takes_the_likeliest_character_and_writes_one_text() -> None:
    model, vocabulary, options = model_and_options(temperature=0, samples=3)
    texts = char.write(model, vocabulary, "abc", options)
    assert len(texts) == 1
    seen = vocabulary.encode("abc")
    for character in vocabulary.encode(texts[0]):
        logits = model(char.tensor.from_numpy(seen[None, -3:])).data
        assert character == logits.argmax()
        seen = np.append(seen, character)


def test_a_temperature_near_zero_does_the_same_and_overflows_nowhere() -> None:
    model, vocabulary, options = model_and_options(temperature=1e-300, samples=2)
    texts = char.write(model, vocabulary, "abc", options)
    options.temperature = 0
    assert set(texts) == set(char.write(model, vocabulary, "abc", options))


def test_a_high_temperature_draws_every_character() -> None:
    model, vocabulary, options = model_and_options(temperature=1e9, samples=20)
    assert set("".join(char.write(model, vocabulary, "abc", options))) == set("abc\n")


def test_a_sample_begins_with_the_prompt_however_long_it_is() -> None:
    for prompt in ("", "a", "abcabcabc"):
        model, vocabulary, options = model_and_options(prompt=prompt, samples=1)
        (text,) = char.write(model, vocabulary, "abc", options)
        assert text.startswith(prompt)
        assert len(text) == len(prompt) + 12


def test_no_samples_are_no_texts() -> None:
    model, vocabulary, options = model_and_options(samples=0)
    assert char.write(model, vocabulary, "abc", options) == []


@pytest.mark.parametrize(
    ("text", "before"),
    [
        ("one\ntwo\n\nthree", "two\n\n"),
        ("a\n\none two\nthree", " two\n"),
        ("one two three", "two "),
        ("onetwothree", "onetw"),
    ],
)
def test_a_sample_starts_where_a_paragraph_could(text: str, before: str) -> None:
    assert char.lead(text, 5)[-len(before) :] == before
    assert len(char.lead(text, 5)) == 5


# What a user gets for what cannot be


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--temperature", "-1"), "--temperature must be at least 0, got -1.0"),
        (("--prompt", "the é"), "--prompt: the character 'é' at position 4"),
    ],
)
def test_a_bad_option_is_named_before_anything_is_done(
    corpus: Path, tmp_path: Path, options: tuple[str, ...], words: str
) -> None:
    given = {"--corpus": str(corpus), "--out": str(tmp_path / "out")}
    given |= dict(zip(options[::2], options[1::2], strict=True))
    done = run("train_char", *QUICK, *(text for pair in given.items() for text in pair))
    assert done.returncode == 1
    assert words in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("name", "value"),
    [("steps", 0), ("batch_size", 0), ("lr", -1.0), ("context", 0), ("every", 0), ("seed", -1)],
)
def test_an_option_out_of_range_is_refused(name: str, value: float) -> None:
    with pytest.raises(SystemExit, match=f"--{name.replace('_', '-')} must be at least"):
        char.check(char.Options(**{name: value}))


def test_a_text_that_is_absent_or_empty_or_not_utf8_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match=r"--corpus must be shakespeare, pydoc or the path of"):
        char.read(str(tmp_path / "nowhere.txt"))
    for name, content in (("empty", b""), ("latin", b"caf\xe9")):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(SystemExit, match=r"--corpus must be .*(empty|not UTF-8)"):
            char.read(str(tmp_path / name))
