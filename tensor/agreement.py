"""Whether a replay does what the function does: both are run, and all that they change compared."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from . import random
from .graph import Array
from .optim._optimizer import TakenStep
from .program import Program, leaves, tensors
from .tensor import Tensor
from .tracing import Captured

__all__ = ["checked"]

# How far apart numbers may be, relative to the largest: what reordered sums come to, by itemsize.
_TOLERANCE = {2: 1e-2, 4: 1e-4, 8: 1e-10}


class _State(NamedTuple):
    """What a step may change, by what it is called, and how to bring it back."""

    arrays: dict[str, tuple[Tensor, Array]]
    gradients: dict[str, tuple[Tensor, Array | None]]
    optimizers: list[tuple[Any, Any]]
    generators: list[tuple[random.Generator, Any]]

    @classmethod
    def of(cls, program: Program, given: list[Tensor]) -> _State:
        """Return a copy of the state as it is."""
        named = [(leaf.label, leaf.tensor) for leaf in program.captured if leaf.leaf is None]
        named += [
            (argument.label, tensor)
            for argument, tensor in zip(program.arguments, given, strict=True)
        ]
        arguments = dict(zip(map(id, program.arguments), given, strict=True))
        collecting = [
            (leaf.label, leaf.tensor if isinstance(leaf, Captured) else arguments[id(leaf)])
            for leaf, _ in program.gradients
        ]
        steps = [i.effect for i in program.instructions if isinstance(i.effect, TakenStep)]
        optimizers = {id(step.optimizer): step.optimizer for step in steps}
        return cls(
            {label: (tensor, tensor._array.copy()) for label, tensor in named},
            {
                label: (tensor, None if tensor._grad is None else tensor._grad._array.copy())
                for label, tensor in collecting
            },
            [(optimizer, optimizer.state_dict()) for optimizer in optimizers.values()],
            [(generator, generator.get_state()) for generator in random.generators()],
        )

    def restore(self) -> None:
        """Bring everything back."""
        for tensor, array in self.arrays.values():
            if not np.array_equal(tensor._array, array, equal_nan=array.dtype.kind == "f"):
                np.copyto(tensor._array, array)
        for tensor, gradient in self.gradients.values():
            tensor._grad = None if gradient is None else Tensor._wrap(gradient.copy())
        for optimizer, state in self.optimizers:
            optimizer.load_state_dict(state)
        for generator, position in self.generators:
            generator.set_state(position)

    def differences(self, other: _State) -> Iterator[str]:
        """Yield what differs."""
        for label, (_, array) in self.arrays.items():
            if not _close(array, other.arrays[label][1]):
                yield f"{label} afterwards"
        for label, (_, gradient) in self.gradients.items():
            if not _close(gradient, other.gradients[label][1]):
                yield f"the gradient of {label}"
        for (generator, mine), (_, theirs) in zip(self.generators, other.generators, strict=True):
            if mine != theirs:
                yield f"how many random numbers {generator} drew"


def checked(
    function: Callable[..., Any],
    program: Program,
    replay: Callable[[], Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> Any:
    """Run the replay, take it back, run the function and return what that returns.

    Raises:
        RuntimeError: they differ.
    """
    given = tensors((args, kwargs))
    before = _State.of(program, given)
    found = _kept(replay())
    replayed = _State.of(program, given)
    before.restore()
    result = function(*args, **kwargs)
    differing = []
    wanted = _kept(result)
    if len(found) != len(wanted):
        differing.append(f"the number of results: {len(found)} and not {len(wanted)}")
    else:
        differing += [
            f"result {i}"
            for i, (a, b) in enumerate(zip(found, wanted, strict=True))
            if not _close(a, b)
        ]
    differing += replayed.differences(_State.of(program, given))
    if differing:
        raise RuntimeError(
            f"{program.name}: the replay and the function differ in {', '.join(differing)}; the "
            "function depends on something that is no argument, such as a branch, a count or an "
            "attribute: make it an argument, or choose with where()"
        )
    return result


def _kept(result: Any) -> list[Any]:
    return [leaf.data.copy() if isinstance(leaf, Tensor) else leaf for leaf in leaves(result)]


def _close(a: Any, b: Any) -> bool:
    if not (isinstance(a, np.ndarray) and isinstance(b, np.ndarray)):
        return bool(a is b or a == b)
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    if a.dtype.kind != "f" or not a.size:
        return bool(np.array_equal(a, b))
    finite = np.abs(b[np.isfinite(b)])
    bound = _TOLERANCE[b.dtype.itemsize] * float(finite.max(initial=0))
    return bool(np.allclose(a, b, rtol=0, atol=bound, equal_nan=True))
