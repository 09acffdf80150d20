"""The generator: its stream, its state, what its draws look like and what they refuse."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tensor.random import Generator, default_generator, fork_rng, manual_seed


def drawn_by_all(generator: Generator) -> list[Any]:
    return [
        generator.uniform(-1, 1, 3).tolist(),
        generator.normal(0, 1, (2, 2)).tolist(),
        generator.integers(0, 100, 5).tolist(),
        generator.permutation(6).tolist(),
        generator.bernoulli(0.5, 7).tolist(),
    ]


def test_one_seed_is_one_stream_and_another_seed_another() -> None:
    assert drawn_by_all(Generator(3)) == drawn_by_all(Generator(3))
    assert drawn_by_all(Generator(3)) != drawn_by_all(Generator(4))


def test_a_generator_without_a_seed_is_reproducible() -> None:
    assert Generator().initial_seed() == Generator().initial_seed()


def test_manual_seed_returns_the_generator_at_the_start_of_the_stream() -> None:
    generator = Generator(3)
    first = drawn_by_all(generator)
    assert generator.manual_seed(3) is generator
    assert drawn_by_all(generator) == first


def test_seed_starts_a_fresh_stream_and_says_which() -> None:
    generator = Generator(3)
    seed = generator.seed()
    assert seed == generator.initial_seed() != 3
    assert drawn_by_all(generator) == drawn_by_all(Generator(seed))


def test_the_state_survives_json_and_continues_the_stream() -> None:
    generator = Generator(3)
    generator.bernoulli(0.5, 3)  # an odd count leaves half a word in the generator
    state = json.loads(json.dumps(generator.get_state()))
    wanted = drawn_by_all(generator)
    other = Generator(9)
    other.set_state(state)
    assert drawn_by_all(other) == wanted
    assert other.initial_seed() == 3


def test_numpys_global_generator_is_neither_read_nor_changed() -> None:
    before = np.random.get_state(legacy=False)
    first = drawn_by_all(Generator(3))
    with fork_rng():
        drawn_by_all(manual_seed(3))
    after = np.random.get_state(legacy=False)
    assert json.dumps(before, default=np.ndarray.tolist) == json.dumps(
        after, default=np.ndarray.tolist
    )
    assert drawn_by_all(Generator(3)) == first


def test_manual_seed_seeds_the_default_generator() -> None:
    with fork_rng():
        assert manual_seed(3) is default_generator
        assert drawn_by_all(default_generator) == drawn_by_all(Generator(3))


def test_fork_rng_restores_the_default_generator_even_after_an_exception() -> None:
    before = default_generator.get_state()
    with pytest.raises(KeyError), fork_rng() as generator:
        drawn_by_all(generator.manual_seed(1))
        raise KeyError
    assert default_generator.get_state() == before


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_uniform_stays_in_its_half_open_range_in_every_dtype(dtype: type) -> None:
    drawn = Generator(0).uniform(-2.0, 3.0, 20_000, dtype)
    assert drawn.dtype == dtype
    assert drawn.min() >= -2 and drawn.max() < 3
    # five standard errors of the mean of 20,000 numbers with variance 25 / 12
    assert abs(drawn.mean(dtype=np.float64) - 0.5) < 5 * (25 / 12 / 20_000) ** 0.5


def test_rounding_to_half_never_reaches_the_open_bound() -> None:
    assert Generator(0).uniform(0, 1, 100_000, np.float16).max() < 1


def test_uniform_of_an_empty_range_is_its_bound() -> None:
    assert Generator(0).uniform(2, 2, 3).tolist() == [2, 2, 2]


def test_normal_has_its_mean_and_deviation() -> None:
    drawn = Generator(0).normal(2.0, 3.0, 40_000, np.float64)
    assert abs(drawn.mean() - 2) < 5 * 3 / 200
    assert abs(drawn.std() - 3) < 5 * 3 / (2 * 40_000) ** 0.5


def test_float32_draws_are_the_float64_draws_rounded() -> None:
    single, double = Generator(5), Generator(5)
    assert np.array_equal(
        single.normal(0, 1, 9), double.normal(0, 1, 9, np.float64).astype(np.float32)
    )
    assert np.array_equal(
        single.uniform(0, 1, 9), double.uniform(0, 1, 9, np.float64).astype(np.float32)
    )


def test_integers_cover_their_half_open_range() -> None:
    drawn = Generator(0).integers(-1, 2, 200)
    assert drawn.dtype == np.int64
    assert set(drawn.tolist()) == {-1, 0, 1}


def test_permutation_holds_every_index_once() -> None:
    drawn = Generator(0).permutation(100)
    assert drawn.dtype == np.int64
    assert sorted(drawn.tolist()) == list(range(100)) != drawn.tolist()
    assert Generator(0).permutation(0).shape == (0,)


def test_bernoulli_keeps_the_share_asked_for() -> None:
    drawn = Generator(0).bernoulli(0.3, (100, 400))
    assert drawn.dtype == bool and drawn.shape == (100, 400)
    assert abs(drawn.mean() - 0.3) < 5 * (0.21 / 40_000) ** 0.5
    assert Generator(0).bernoulli(1.0, 1000).all()
    assert not Generator(0).bernoulli(0.0, 1000).any()


@pytest.mark.parametrize("shape", [(), 3, np.int64(3), (2, 3), [2, 3], (0, 4)])
def test_a_shape_is_an_integer_or_a_sequence(shape: Any) -> None:
    generator = Generator(0)
    wanted = np.empty(shape).shape
    assert generator.uniform(0, 1, shape).shape == wanted
    assert generator.normal(0, 1, shape).shape == wanted
    assert generator.integers(0, 2, shape).shape == wanted
    assert generator.bernoulli(0.5, shape).shape == wanted


REFUSED: list[tuple[str, Callable[[Any], object], type[Exception], str]] = [
    ("negative seed", lambda g: g.manual_seed(-1), ValueError, "seed is -1"),
    ("large seed", lambda g: g.manual_seed(2**64), ValueError, r"seed < 2\*\*64"),
    ("float seed", lambda g: g.manual_seed(1.0), TypeError, "seed is 1.0 .float."),
    ("bool seed", lambda g: g.manual_seed(True), TypeError, "seed is True"),
    ("text seed", lambda g: g.manual_seed("1"), TypeError, "wanted an integer"),
    ("array seed", lambda g: g.manual_seed(np.arange(2)), TypeError, "seed"),
    ("state of a wrong type", lambda g: g.set_state(3), TypeError, "get_state"),
    ("empty state", lambda g: g.set_state({}), ValueError, "wanted"),
    ("foreign state", lambda g: g.set_state(altered(g, algorithm="MT")), ValueError, "'MT'"),
    ("rounded state", lambda g: g.set_state(altered(g, state=1e30)), TypeError, "state is 1e"),
    ("even increment", lambda g: g.set_state(altered(g, inc=2)), ValueError, "odd"),
    ("negative field", lambda g: g.set_state(altered(g, uinteger=-1)), ValueError, "uinteger"),
    ("extra field", lambda g: g.set_state(altered(g, more=1)), ValueError, "more"),
    ("crossed bounds", lambda g: g.uniform(1, 0, 2), ValueError, "uniform: low is 1"),
    ("infinite bound", lambda g: g.uniform(0, np.inf, 2), ValueError, "high is inf"),
    ("too wide", lambda g: g.uniform(-1e30, 1e39, 2), ValueError, "too wide for float32"),
    ("text bound", lambda g: g.uniform("a", 1, 2), TypeError, "low is 'a'"),
    ("integer dtype", lambda g: g.uniform(0, 1, 2, np.int64), TypeError, "int64"),
    ("negative size", lambda g: g.normal(0, 1, (2, -1)), ValueError, r"\(2, -1\)"),
    ("float size", lambda g: g.normal(0, 1, (2.0,)), TypeError, "shape"),
    ("negative std", lambda g: g.normal(0, -1, 2), ValueError, "std is -1"),
    ("nan mean", lambda g: g.normal(np.nan, 1, 2), ValueError, "mean is nan"),
    ("no integer", lambda g: g.integers(3, 3, 2), ValueError, "low < high"),
    ("float integer", lambda g: g.integers(0, 2.5, 2), TypeError, "high is 2.5"),
    ("negative n", lambda g: g.permutation(-1), ValueError, "n is -1"),
    ("probability above 1", lambda g: g.bernoulli(1.5, 2), ValueError, "keep_probability"),
    ("probability nan", lambda g: g.bernoulli(np.nan, 2), ValueError, "keep_probability"),
]


def altered(generator: Generator, **fields: object) -> dict[str, Any]:
    return {**generator.get_state(), **fields}


@pytest.mark.parametrize(
    ("call", "error", "message"), [row[1:] for row in REFUSED], ids=[row[0] for row in REFUSED]
)
def test_a_refused_call_names_its_argument_and_leaves_the_stream_where_it_was(
    call: Callable[[Generator], object], error: type[Exception], message: str
) -> None:
    generator = Generator(3)
    drawn_by_all(generator)
    before = generator.get_state()
    with pytest.raises(error, match=message):
        call(generator)
    assert generator.get_state() == before
