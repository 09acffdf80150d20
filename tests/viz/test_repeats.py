from __future__ import annotations

import random
from itertools import product

import pytest

from viz.repeats import Repeat, repeats


def all_are(start: int, period: int, most: int) -> int:
    return most


def written_once(text: str) -> str:
    """The text with each repetition in brackets, once, and how often it comes."""
    out, done = "", 0
    for r in repeats(text, all_are):
        out += f"{text[done : r.start]}({text[r.start : r.start + r.period]}){r.copies}"
        done = r.stop
    return out + text[done:]


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("", ""),
        ("abc", "abc"),
        ("aa", "aa"),  # saves one element, which is not worth a box
        ("aaa", "(a)3"),
        ("abab", "(ab)2"),
        ("xabcabcabcy", "x(abc)3y"),
        ("lqqqolqqqolqqqo", "(lqqqo)3"),  # not (q)3 three times
        ("aaaabcbcbc", "(a)4(bc)3"),
        ("abababa", "(ab)3a"),
    ],
)
def test_the_repetitions_that_save_most_are_found(text: str, wanted: str) -> None:
    assert written_once(text) == wanted


def test_what_is_found_is_repeated_and_does_not_overlap() -> None:
    rng = random.Random(3)
    for _ in range(300):
        text = "".join(rng.choice("abc") for _ in range(rng.randrange(40)))
        found, done = repeats(text, all_are), 0
        for r in found:
            assert r.start >= done
            assert text[r.start : r.stop] == text[r.start : r.start + r.period] * r.copies
            assert r.saved >= 2
            done = r.stop


def test_a_repetition_is_found_in_any_short_text_that_has_one() -> None:
    for letters in product("ab", repeat=7):
        text = "".join(letters)
        has = any(
            text[i : i + p] * n == text[i : i + p * n]
            for i in range(7)
            for p in range(1, 4)
            for n in range(2, 8)
            if p * (n - 1) >= 2 and i + p * n <= 7
        )
        assert bool(repeats(text, all_are)) == has, text


def test_copies_that_only_look_alike_are_not_taken() -> None:
    def none_is(start: int, period: int, most: int) -> int:
        return 1

    def up_to_ten(start: int, period: int, most: int) -> int:
        return min(most, max((10 - start) // period, 1))

    assert repeats("ab" * 20, none_is) == []
    assert repeats("ab" * 20, up_to_ten) == [Repeat(0, 2, 5)]
