"""``backward`` and ``grad``: what is asked for, and what is handed over.

A pass (``passes.py``) collects gradients in a dict of its own. They are handed to the leaves at the
end, so that a pass that fails has changed no ``grad``.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from .dispatch import quietly, recording
from .errors import ShapeError
from .passes import Pass, RecordedPass, end_of
from .tensor import Tensor
from .tracing import TRACER, Tracer

__all__ = ["backward", "grad"]

# Passes in several threads may end at the same leaves.
_collecting = threading.RLock()


def backward(
    tensors: Tensor | Sequence[Tensor],
    grad_tensors: Tensor | Sequence[Tensor | None] | None = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    inputs: Sequence[Tensor] | Tensor | None = None,
) -> None:
    """Add the gradient of ``tensors`` to ``grad`` of every leaf they were computed from.

    Args:
        tensors: what to differentiate; several are summed.
        grad_tensors: the gradient of each of them, of its shape; 1 for a Tensor of one element.
        retain_graph: keep what the rules need, so that another pass can follow.
            By default as ``create_graph``.
        create_graph: record the pass, so that the gradients can be differentiated.
        inputs: collect gradients for these alone.

    Raises:
        RuntimeError: no graph, a graph already freed, a gradient missing or of
            another shape, or a saved array that was changed in place since. No
            ``grad`` has changed then.
    """
    outputs = [tensors] if isinstance(tensors, Tensor) else _listed("backward: tensors", tensors)
    seeds = _seeds("backward", outputs, grad_tensors)
    chosen = None if inputs is None else _wanted("backward", inputs)
    keep = create_graph if retain_graph is None else retain_graph
    tracer = TRACER.get()
    found = _pass(outputs, seeds, chosen, keep, True, create_graph, tracer).run()
    with _collecting:
        for tensor, value in found.values():
            before = tensor._grad
            if before is not None and before.shape != value.shape:
                raise ShapeError(
                    f"backward: a gradient of shape {value.shape} cannot be added to grad of shape "
                    f"{before.shape}: the Tensor was given other data; set its grad to None"
                )
        for tensor, value in found.values():
            if tracer is not None:
                tracer.gathered(tensor)
            before, slot = tensor._grad, tensor._slot
            if before is None and type(value) is np.ndarray:
                tensor._grad = Tensor._wrap(value if slot is None else slot.put(value))
            elif before is None and slot and tracer and not create_graph:
                tensor._grad = tracer.moved(value, slot.put(value._array))
            elif before is None:
                tensor._grad = value
            elif isinstance(value, Tensor) or before.node or not before.data.flags.writeable:
                tensor._grad = recording.add(before, value)
            else:
                quietly().run(np.add, before.data, value, before.data)
                before._shared_version().count += 1


def grad(
    outputs: Tensor | Sequence[Tensor],
    inputs: Tensor | Sequence[Tensor],
    grad_outputs: Tensor | Sequence[Tensor | None] | None = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    allow_unused: bool = False,
) -> tuple[Tensor | None, ...]:
    """Return the gradients of ``outputs`` with respect to ``inputs``; no ``grad`` is touched.

    Args:
        outputs: what to differentiate; several are summed.
        inputs: with respect to what, leaves or intermediates.
        grad_outputs: the gradient of each output, of its shape; 1 for one element.
        retain_graph: keep what the rules need, so that another pass can follow.
            By default as ``create_graph``.
        create_graph: record the pass, so that its results can be differentiated again.
        allow_unused: give None, not an error, for an input that the outputs do not depend on.

    Returns:
        One gradient per input, each of its input's shape and dtype.

    Raises:
        RuntimeError: as ``backward``; or an input that does not require grad or was not used.
    """
    given = _listed("grad: outputs", outputs)
    wanted = _wanted("grad", inputs)
    seeds = _seeds("grad", given, grad_outputs)
    keep = create_graph if retain_graph is None else retain_graph
    found = _pass(given, seeds, wanted, keep, allow_unused, create_graph, TRACER.get()).run()
    results: dict[int, Tensor] = {}
    for key, (_, value) in found.items():
        results[key] = value if isinstance(value, Tensor) else Tensor._wrap(value)
    return tuple(results.get(id(end_of(tensor))) for tensor in wanted)


def _listed(what: str, tensors: Any) -> list[Tensor]:
    if not isinstance(tensors, (Tensor, Iterable)):
        raise TypeError(
            f"{what} must be a Tensor or a sequence of them, got {type(tensors).__name__}"
        )
    listed = [tensors] if isinstance(tensors, Tensor) else list(tensors)
    for i, tensor in enumerate(listed):
        if not isinstance(tensor, Tensor):
            raise TypeError(f"{what}[{i}] must be a Tensor, got {type(tensor).__name__}")
    return listed


def _wanted(name: str, inputs: Any) -> list[Tensor]:
    listed = _listed(f"{name}: inputs", inputs)
    if not listed:
        raise RuntimeError(f"{name}: inputs must not be empty")
    for i, tensor in enumerate(listed):
        if not tensor.requires_grad:
            raise RuntimeError(f"{name}: inputs[{i}] of shape {tensor.shape} does not require grad")
    return listed


def _seeds(name: str, outputs: list[Tensor], given: Any) -> list[Tensor | None]:
    """Return a gradient for every output, of its shape and dtype, or None for 1; check all."""
    seeds: list[Tensor | None]
    if given is None:
        seeds = [None] * len(outputs)
    elif isinstance(given, (Tensor, np.ndarray)) or not isinstance(given, Iterable):
        seeds = [given]  # type: ignore[list-item]
    else:
        seeds = list(given)
    if len(seeds) != len(outputs):
        raise RuntimeError(f"{name}: got {len(seeds)} gradients for {len(outputs)} outputs")
    for i, tensor in enumerate(outputs):
        seed: Any = seeds[i]
        if tensor.node is None and not tensor._requires_grad:
            raise RuntimeError(
                f"{name}: element {i} of tensors, of shape {tensor.shape}, does not require grad "
                "and does not have a graph: it was made without an operand that requires grad, "
                "or under no_grad()"
            )
        if seed is None:
            if tensor._array.size != 1:
                raise RuntimeError(
                    f"{name}: grad can be implicitly created only for scalar outputs, got shape "
                    f"{tensor.shape}; pass a gradient of that shape or reduce it first"
                )
            continue
        if not isinstance(seed, Tensor):
            seed = Tensor(seed)
        if seed.shape != tensor.shape:
            raise ShapeError(
                f"{name}: mismatch in shape: gradient {i} has shape {seed.shape}, but output {i} "
                f"has shape {tensor.shape}"
            )
        seeds[i] = seed if seed.dtype == tensor.dtype else seed.to(tensor.dtype)
    return seeds


def _pass(
    outputs: list[Tensor],
    seeds: list[Tensor | None],
    targets: list[Tensor] | None,
    keep: bool,
    unused: bool,
    create_graph: bool,
    tracer: Tracer | None,
) -> Pass:
    """Return a pass that has refused what it must; one that is traced runs on the ops too."""
    if create_graph or tracer is not None:
        return RecordedPass(outputs, seeds, targets, keep, unused, create_graph, tracer)
    return Pass(outputs, seeds, targets, keep, unused)
