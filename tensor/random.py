"""Seeded random numbers of our own: a generator, its state, and the draws the engine needs.

Everything here works on plain arrays. numpy's global generator is neither read nor changed, so a
program that seeds it gets the same numbers with and without this library, and the other way round.
"""

from __future__ import annotations

import functools
import math
import operator
import secrets
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Concatenate, Final, ParamSpec, SupportsIndex, TypeVar, cast
from weakref import WeakSet

import numpy as np
from numpy.typing import DTypeLike, NDArray

from .kernels.room import Memory, fresh
from .tracing import TRACER

__all__ = ["Generator", "default_generator", "fork_rng", "generators", "manual_seed"]

P = ParamSpec("P")
R = TypeVar("R", bound=NDArray[Any])
Shape = SupportsIndex | Sequence[SupportsIndex]

# The seed of a Generator that is given none; PyTorch's choice.
DEFAULT_SEED: Final = 67280421310721

# The fields of a state and the bound below which each must lie.
_STATE_BOUNDS: Final[Mapping[str, int]] = {
    "initial_seed": 2**64,
    "state": 2**128,
    "inc": 2**128,
    "has_uint32": 2,
    "uinteger": 2**32,
}
_ALGORITHM: Final = "PCG64"

# Every Generator there is.
_generators: WeakSet[Generator] = WeakSet()
_listing = threading.RLock()


def _drawn(draw: Callable[Concatenate[Generator, P], R]) -> Callable[Concatenate[Generator, P], R]:
    """Have a traced function draw again at every replay."""

    @functools.wraps(draw)
    def method(self: Generator, *args: P.args, **kwargs: P.kwargs) -> R:
        drawn = draw(self, *args, **kwargs)
        tracer = TRACER.get()
        if tracer is not None:
            again = functools.partial(draw, self, *args, **kwargs)
            fill = getattr(self, f"_fill_{draw.__name__}", None)
            if fill is not None:  # where a plan has memory for what is drawn
                again.into = functools.partial(fill, *args, **kwargs)  # type: ignore[attr-defined]
            tracer.effect(draw.__name__, again, out=drawn)
        return drawn

    return cast("Callable[Concatenate[Generator, P], R]", method)


class Generator:
    """A seeded stream of random numbers (PCG64, O'Neill 2014).

    Draws are made in float64 and then rounded to the dtype asked for, so that a float32 and a
    float64 model of one seed start from the same weights.

    >>> a, b = Generator(0), Generator(0)
    >>> bool((a.permutation(5) == b.permutation(5)).all())
    True
    """

    __slots__ = ("__weakref__", "_initial_seed", "_rng")

    def __init__(self, seed: int = DEFAULT_SEED) -> None:
        self.manual_seed(seed)
        with _listing:
            _generators.add(self)

    def __repr__(self) -> str:
        return f"Generator(initial_seed={self._initial_seed})"

    # seed and state

    def manual_seed(self, seed: int) -> Generator:
        """Start the stream of ``seed``, an integer with 0 <= seed < 2**64, and return self.

        Raises:
            TypeError: ``seed`` is not an integer.
            ValueError: ``seed`` is out of range.
        """
        seed = _integer("manual_seed", "seed", seed)
        if not 0 <= seed < 2**64:
            raise ValueError(f"manual_seed: seed is {seed}, wanted 0 <= seed < 2**64")
        self._rng = np.random.Generator(np.random.PCG64(seed))
        self._initial_seed = seed
        return self

    def seed(self) -> int:
        """Start the stream of a seed taken from the operating system, and return that seed."""
        seed = secrets.randbits(64)
        self.manual_seed(seed)
        return seed

    def initial_seed(self) -> int:
        """The seed that the stream was started with."""
        return self._initial_seed

    def get_state(self) -> dict[str, Any]:
        """The position in the stream, as a dict of one string and integers that JSON can hold."""
        state: Mapping[str, Any] = self._rng.bit_generator.state
        return {
            "algorithm": _ALGORITHM,
            "initial_seed": self._initial_seed,
            "state": int(state["state"]["state"]),
            "inc": int(state["state"]["inc"]),
            "has_uint32": int(state["has_uint32"]),
            "uinteger": int(state["uinteger"]),
        }

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Go to a position that ``get_state`` returned.

        Raises:
            TypeError: ``state`` is not a mapping, or one of its fields is not an integer.
            ValueError: a field is missing, unknown or out of range. Nothing is changed.
        """
        if not isinstance(state, Mapping):
            raise TypeError(
                f"set_state: state is a {type(state).__name__}, wanted what get_state() returned"
            )
        wanted = {"algorithm", *_STATE_BOUNDS}
        if set(state) != wanted:
            raise ValueError(
                f"set_state: state has the fields {sorted(map(str, state))}, "
                f"wanted {sorted(wanted)}, as get_state() returns them"
            )
        if state["algorithm"] != _ALGORITHM:
            raise ValueError(
                f"set_state: algorithm is {state['algorithm']!r}, wanted {_ALGORITHM!r}"
            )
        fields = {name: _integer("set_state", name, state[name]) for name in _STATE_BOUNDS}
        for name, bound in _STATE_BOUNDS.items():
            if not 0 <= fields[name] < bound:
                raise ValueError(
                    f"set_state: {name} is {fields[name]}, wanted 0 <= {name} < {bound}"
                )
        if fields["inc"] % 2 == 0:
            raise ValueError(f"set_state: inc is {fields['inc']}, wanted an odd number")
        bits = np.random.PCG64(0)
        bits.state = {
            "bit_generator": _ALGORITHM,
            "state": {"state": fields["state"], "inc": fields["inc"]},
            "has_uint32": fields["has_uint32"],
            "uinteger": fields["uinteger"],
        }
        self._rng = np.random.Generator(bits)
        self._initial_seed = fields["initial_seed"]

    # draws

    @_drawn
    def uniform(
        self,
        low: float = 0.0,
        high: float = 1.0,
        shape: Shape = (),
        dtype: DTypeLike = np.float32,
    ) -> NDArray[Any]:
        """Numbers uniform in ``[low, high)``; ``low`` itself where the two are equal.

        Raises:
            TypeError: ``dtype`` is not a floating one.
            ValueError: a bound is not finite or too large for ``dtype``, ``low > high``, or
                ``shape`` has a negative size.
        """
        low, high = _finite("uniform", "low", low), _finite("uniform", "high", high)
        floating, sizes = _floating("uniform", dtype), _sizes("uniform", shape)
        if low > high:
            raise ValueError(f"uniform: low is {low} and high is {high}, wanted low <= high")
        if max(abs(low), abs(high), high - low) > float(np.finfo(floating).max):
            raise ValueError(f"uniform: low is {low} and high is {high}, too wide for {floating}")
        drawn: NDArray[Any] = np.asarray(low + (high - low) * self._rng.random(sizes))
        drawn = drawn.astype(floating, copy=False)
        if low < high:  # rounding may have reached the open bound
            top = floating.type(high)
            np.minimum(drawn, np.nextafter(top, floating.type(low)), out=drawn)
        return drawn

    @_drawn
    def normal(
        self,
        mean: float = 0.0,
        std: float = 1.0,
        shape: Shape = (),
        dtype: DTypeLike = np.float32,
    ) -> NDArray[Any]:
        """Numbers of the normal distribution with the given mean and standard deviation.

        Raises:
            TypeError: ``dtype`` is not a floating one.
            ValueError: a parameter is not finite, ``std < 0``, or ``shape`` has a negative size.
        """
        mean, std = _finite("normal", "mean", mean), _finite("normal", "std", std)
        if std < 0:
            raise ValueError(f"normal: std is {std}, wanted std >= 0")
        floating, sizes = _floating("normal", dtype), _sizes("normal", shape)
        drawn: NDArray[Any] = np.asarray(mean + std * self._rng.standard_normal(sizes))
        return drawn.astype(floating, copy=False)

    @_drawn
    def integers(self, low: int, high: int, shape: Shape = ()) -> NDArray[np.int64]:
        """int64 numbers uniform in ``[low, high)``.

        Raises:
            TypeError: a bound is not an integer.
            ValueError: no int64 lies in the range, or ``shape`` has a negative size.
        """
        low, high = _integer("integers", "low", low), _integer("integers", "high", high)
        if not -(2**63) <= low < high <= 2**63:
            raise ValueError(
                f"integers: low is {low} and high is {high}, wanted low < high, both in int64"
            )
        return np.asarray(self._rng.integers(low, high, _sizes("integers", shape), np.int64))

    @_drawn
    def permutation(self, n: int) -> NDArray[np.int64]:
        """The numbers 0 to n - 1 in random order, int64 of shape (n,).

        Raises:
            TypeError: ``n`` is not an integer.
            ValueError: ``n`` is negative.
        """
        n = _integer("permutation", "n", n)
        if n < 0:
            raise ValueError(f"permutation: n is {n}, wanted n >= 0")
        return self._rng.permutation(np.arange(n, dtype=np.int64))

    @_drawn
    def bernoulli(self, keep_probability: float, shape: Shape = ()) -> NDArray[np.bool_]:
        """True with probability ``keep_probability`` (to 2**-24), independently; a bool array.

        Raises:
            ValueError: the probability is outside [0, 1], or ``shape`` has a negative size.
        """
        p = _finite("bernoulli", "keep_probability", keep_probability)
        if not 0 <= p <= 1:
            raise ValueError(f"bernoulli: keep_probability is {p}, wanted 0 <= p <= 1")
        sizes = _sizes("bernoulli", shape)
        return self._fill_bernoulli(p, into=np.empty(sizes, bool))

    def _fill_bernoulli(
        self, p: float, shape: Shape = (), *, into: NDArray[np.bool_], room: Memory = fresh
    ) -> NDArray[np.bool_]:
        # 24 random bits each: half the cost of a float64 draw, and this one is made every step.
        numbers = room("numbers", into.shape, np.float32)
        self._rng.random(dtype=np.float32, out=numbers)
        return np.less(numbers, p, out=into)


def manual_seed(seed: int) -> Generator:
    """Seed the default generator (0 <= seed < 2**64) and return it."""
    return default_generator.manual_seed(seed)


def generators() -> list[Generator]:
    """Return every Generator there is, the default one included."""
    with _listing:
        return list(_generators)


@contextmanager
def fork_rng() -> Iterator[Generator]:
    """Give the default generator back at the end of the block as it was at the beginning.

    >>> before = default_generator.get_state()
    >>> with fork_rng() as generator:
    ...     _ = generator.manual_seed(1).uniform(shape=3)
    >>> default_generator.get_state() == before
    True
    """
    state = default_generator.get_state()
    try:
        yield default_generator
    finally:
        default_generator.set_state(state)


def _integer(op: str, name: str, value: object) -> int:
    """``value`` as an int; a bool or a float is a mistake, not a number."""
    if isinstance(value, SupportsIndex) and not isinstance(value, bool | np.bool_):
        try:
            return operator.index(value)
        except TypeError:  # an array that is not one integer
            pass
    raise TypeError(f"{op}: {name} is {value!r} ({type(value).__name__}), wanted an integer")


def _finite(op: str, name: str, value: Any) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError) as error:
        raise TypeError(
            f"{op}: {name} is {value!r} ({type(value).__name__}), wanted a number"
        ) from error
    if not math.isfinite(number):
        raise ValueError(f"{op}: {name} is {number}, wanted a finite number")
    return number


def _floating(op: str, dtype: DTypeLike) -> np.dtype[np.floating[Any]]:
    given: np.dtype[Any] = np.dtype(dtype)
    if not np.issubdtype(given, np.floating):
        raise TypeError(f"{op}: dtype is {given}, wanted a floating one")
    return given


def _sizes(op: str, shape: Shape) -> tuple[int, ...]:
    given: Sequence[SupportsIndex] = shape if isinstance(shape, Sequence) else (shape,)
    sizes = tuple(_integer(op, "a size of shape", size) for size in given)
    if any(size < 0 for size in sizes):
        raise ValueError(f"{op}: shape is {sizes}, wanted sizes >= 0")
    return sizes


# The stream used where no generator is given. Its seed differs from run to run until manual_seed.
default_generator: Final = Generator(secrets.randbits(64))
