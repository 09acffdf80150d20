"""What a test may not leave behind, and how that is noticed."""

from __future__ import annotations

import os
import random
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final, NamedTuple

import numpy as np

SEED: Final = 20_260_101


class LeakedStateError(AssertionError):
    """A test changed something that outlives it."""


class Watched(NamedTuple):
    """One piece of global state: how to read it and how to put it back.

    ``module`` is looked up and never imported, so that tests of the scalar engine do not pay for
    the array engine; ``initial`` is the state of a module that has not been imported yet.
    """

    what: str
    module: str
    initial: Any
    read: Callable[[Any], Any]
    restore: Callable[[Any, Any], object]

    def now(self) -> Any:
        module = sys.modules.get(self.module)
        return self.initial if module is None else self.read(module)


def _read_numpy_generator(module: Any) -> tuple[Any, ...]:
    name, key, *rest = module.random.get_state()
    return name, key.tobytes(), *rest


def _restore_numpy_generator(module: Any, state: tuple[Any, ...]) -> None:
    name, key, *rest = state
    module.random.set_state((name, np.frombuffer(key, dtype=np.uint32), *rest))


def _close_figures(module: Any, opened_before: list[int]) -> None:
    for number in set(module.get_fignums()) - set(opened_before):
        module.close(number)


def _added_ops(module: Any) -> list[str]:
    return sorted(module.OPS.keys() - module.VOCAB.keys())


def _remove_ops(module: Any, added_before: list[str]) -> None:
    for name in set(_added_ops(module)) - set(added_before):
        module.unregister(name)


WATCHED: Final = (
    Watched(
        "grad mode or anomaly mode",
        "tensor.modes",
        None,
        lambda modes: modes.ACTIVE.get(),
        lambda modes, entries: modes.ACTIVE.set(entries),
    ),
    Watched("the ops", "tensor.dispatch", [], _added_ops, _remove_ops),
    Watched(
        "the kernels in use",
        "tensor.kernels.choice",
        os.environ.get("SMOLGRAD_KERNELS") or "numba",
        lambda choice: choice.kernels_in_use(),
        lambda choice, name: choice.use_kernels(name),
    ),
    Watched(
        "numpy's global random generator",
        "numpy",
        None,
        _read_numpy_generator,
        _restore_numpy_generator,
    ),
    Watched(
        "numpy's handling of floating-point errors",
        "numpy",
        None,
        lambda numpy: numpy.geterr(),
        lambda numpy, handling: numpy.seterr(**handling),
    ),
    Watched(
        "the open matplotlib figures",
        "matplotlib.pyplot",
        [],
        lambda pyplot: pyplot.get_fignums(),
        _close_figures,
    ),
    Watched(
        "torch's grad mode",
        "torch",
        True,
        lambda torch: torch.is_grad_enabled(),
        lambda torch, enabled: torch._C._set_grad_enabled(enabled),
    ),
    Watched(
        "torch's default dtype",
        "torch",
        "torch.float32",
        lambda torch: str(torch.get_default_dtype()),
        lambda torch, name: torch.set_default_dtype(getattr(torch, name.removeprefix("torch."))),
    ),
)


def seed_generators() -> None:
    """Start the generators that a test may draw from, so that no test depends on another.

    numpy's global one is not among them: nothing here may draw from it.
    """
    random.seed(SEED)
    for name in ("tensor.random", "torch"):
        if name in sys.modules:
            sys.modules[name].default_generator.manual_seed(SEED)


@contextmanager
def isolated() -> Iterator[None]:
    """Seed the generators; afterwards put global state back and say what was changed.

    Raises:
        LeakedStateError: the block changed a piece of state that is watched.
    """
    seed_generators()
    before = [watched.now() for watched in WATCHED]
    yield
    leaked = []
    for watched, old in zip(WATCHED, before, strict=True):
        new = watched.now()
        if new != old:
            watched.restore(sys.modules[watched.module], old)
            leaked.append(watched.what)
    if leaked:
        raise LeakedStateError(f"the test changed and did not put back: {', '.join(leaked)}")
