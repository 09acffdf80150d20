"""The backward pass.

Nodes are numbered as they are made, and an op can only use what exists
already: the reverse of that order visits every node after all its uses, which
is why each gradient is complete when it is passed on. Nothing recurses.

The pass collects gradients in a dict of its own and hands them to the leaves
at the end, so that a pass that fails has changed no ``grad``.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from operator import attrgetter
from typing import Any, NoReturn, TypeAlias

import numpy as np

from . import modes
from .dispatch import OPS, Op, quietly, raw, recording
from .errors import ShapeError
from .graph import Array, Constant, Edge, Node, Recipe, Recomputation, Saved
from .rules import anchored
from .tensor import Tensor
from .tracing import TRACER, Pullback, writer

__all__ = ["backward", "grad"]

_by_sequence = attrgetter("sequence")

# Passes in several threads may end at the same leaves.
_collecting = threading.RLock()

# A gradient on its way: an ndarray, or a Tensor where the pass itself is recorded.
Gradient: TypeAlias = Any


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
    found = _Pass(outputs, seeds, chosen, create_graph, keep).run()
    with _collecting:
        for tensor, value in found.values():
            if tensor._grad is not None and tensor._grad.shape != value.shape:
                raise ShapeError(
                    f"backward: a gradient of shape {value.shape} cannot be added to grad of shape "
                    f"{tensor._grad.shape}: the Tensor was given other data; set its grad to None"
                )
        for tensor, value in found.values():
            _collect(tensor, value)


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
    found = _Pass(given, seeds, wanted, create_graph, keep, unused=allow_unused).run()
    results: dict[int, Tensor] = {}
    for key, (_, value) in found.items():
        results[key] = value if isinstance(value, Tensor) else Tensor._wrap(value)
    return tuple(results.get(id(_edge(tensor))) for tensor in wanted)


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


def _edge(tensor: Tensor) -> Node | Tensor:
    return tensor if tensor.node is None else tensor.node


def _seeds(name: str, outputs: list[Tensor], given: Any) -> list[Tensor]:
    """Return a gradient for every output, of its shape and dtype; check all first."""
    if given is None:
        given = [None] * len(outputs)
    elif isinstance(given, (Tensor, np.ndarray)) or not isinstance(given, Iterable):
        given = [given]
    else:
        given = list(given)
    if len(given) != len(outputs):
        raise RuntimeError(f"{name}: got {len(given)} gradients for {len(outputs)} outputs")
    seeds: list[Tensor] = []
    for i, tensor in enumerate(outputs):
        seed = given[i]
        if not (tensor.node or tensor.requires_grad):
            raise RuntimeError(
                f"{name}: element {i} of tensors, of shape {tensor.shape}, does not require grad "
                "and does not have a graph: it was made without an operand that requires grad, "
                "or under no_grad()"
            )
        if seed is None:
            array = tensor._array
            if array.size != 1:
                raise RuntimeError(
                    f"{name}: grad can be implicitly created only for scalar outputs, got shape "
                    f"{tensor.shape}; pass a gradient of that shape or reduce it first"
                )
            one = np.empty(array.shape, array.dtype)
            one.fill(1)
            seed = Tensor._wrap(one)
            tracer = TRACER.get()
            if tracer is not None:
                tracer.constant(seed)
            seeds.append(seed)
            continue
        if not isinstance(seed, Tensor):
            seed = Tensor(seed)
        if seed.shape != tensor.shape:
            raise ShapeError(
                f"{name}: mismatch in shape: gradient {i} has shape {seed.shape}, but output {i} "
                f"has shape {tensor.shape}"
            )
        if seed.dtype != tensor.dtype:
            seed = seed.to(tensor.dtype)
        seeds.append(seed)
    return seeds


class _Pass:
    """One backward pass, from checked outputs and seeds to gradients by target."""

    def __init__(
        self,
        outputs: list[Tensor],
        seeds: list[Tensor],
        targets: list[Tensor] | None,
        record: bool,
        keep: bool,
        unused: bool = True,
    ) -> None:
        self.graph = record
        # A pass that is traced runs on the recording ops too, though it may record nothing.
        self.tracer = TRACER.get()
        self.record = record or self.tracer is not None
        self.keep = keep
        self.grads: dict[int, Gradient] = {}
        self.owned: set[int] = set()
        self.leaves: dict[int, Tensor] = {}
        self.found: dict[int, tuple[Tensor, Gradient]] = {}
        self.twins: dict[Recomputation, list[Node | None]] = {}
        roots = [_edge(tensor) for tensor in outputs]
        self.order = _reachable(roots)
        self.targets: dict[int, Tensor] | None = None
        self.useful: set[int] | None = None
        visited = self.order
        if targets is not None:
            self.targets = {id(_edge(t)): t for t in targets}
            self.useful = useful = self._toward_targets()
            if not unused:
                self._refuse_unused(roots, targets)
            self.order = [node for node in self.order if id(node) in useful]
            ends = self.targets
            visited = [x for x in self.order if id(x) not in ends or self._needed(x)]
        runs = set()
        for node in visited:
            _check(node, node.saved)
            if node.recipe is not None:
                runs.add(node.recipe.run)
        for run in runs:
            run.check()
        for root, seed in zip(roots, seeds, strict=True):
            if self.useful is None or id(root) in self.useful:
                self._add(root, seed if self.record else seed._array, fresh=False)

    def _toward_targets(self) -> set[int]:
        """Return what lies on a path from the outputs to a target, targets included."""
        assert self.targets is not None
        useful = set(self.targets)
        for node in reversed(self.order):
            if any(id(edge) in useful for edge in node.inputs):
                useful.add(id(node))
        return useful

    def _needed(self, node: Node) -> bool:
        """Return whether the pass goes on past ``node``."""
        assert self.useful is not None
        return any(id(edge) in self.useful for edge in node.inputs)

    def _refuse_unused(self, roots: Iterable[Edge], targets: list[Tensor]) -> None:
        reached = {id(node) for node in self.order} | {id(root) for root in roots}
        reached |= {id(edge) for node in self.order for edge in node.inputs}
        for i, tensor in enumerate(targets):
            if id(_edge(tensor)) not in reached:
                raise RuntimeError(
                    f"grad: inputs[{i}] of shape {tensor.shape} was not used to compute the "
                    "outputs; pass allow_unused=True to get None for it"
                )

    def run(self) -> dict[int, tuple[Tensor, Gradient]]:
        """Return the gradient of every target (or leaf, or retained Tensor) that one reached."""
        if self.record:
            with modes.set_grad_enabled(self.graph):
                self._walk()
        else:  # on ndarrays, of which nothing is recorded
            self._walk()
        return self.found

    def _walk(self) -> None:
        anomaly = modes.is_anomaly_enabled()
        grads, useful = self.grads, self.useful
        calls = writer() if self.record else None
        for node in self.order:
            g = grads.pop(id(node), None)
            if g is None:
                continue
            if node.hooks:
                g = self._hooked(node.hooks, g, node)
            if self.targets is not None or node.retains is not None:
                self._keep(node, g)
            if useful is None or self._needed(node):
                if calls is None:
                    self._visit(node, g, anomaly)
                else:
                    with calls.going_back(node.module):
                        self._visit(node, g, anomaly)
                if not self.keep:
                    node.saved = node.recipe = None
        for key, tensor in self.leaves.items():
            g = grads.pop(key)
            if tensor._hooks:
                g = self._hooked(tensor._hooks, g, tensor)
                self.owned.discard(key)
            if self.targets is None or key in self.targets:
                if key not in self.owned:
                    with nullcontext() if calls is None else calls.going_back(calls.owner(tensor)):
                        g = self._copied(g)
                self.found[key] = (tensor, g)

    def _copied(self, g: Gradient) -> Gradient:
        """Return ``g`` in memory of its own."""
        return recording.clone(g) if self.record else g.copy()

    def _keep(self, node: Node, g: Gradient) -> None:
        """Note the gradient of an intermediate that was asked for."""
        tensor = None
        if self.targets is not None:
            tensor = self.targets.get(id(node))
        if tensor is None and node.retains is not None:
            tensor = node.retains()
        if tensor is not None:
            self.found[id(node)] = (tensor, self._copied(g))

    def _hooked(self, hooks: dict[object, Callable[..., Any]], g: Gradient, edge: Edge) -> Gradient:
        for hook in list(hooks.values()):
            seen = self._copied(g)
            with modes.set_grad_enabled(self.graph):
                replaced = hook(seen if self.record else Tensor._wrap(seen))
            if replaced is None:
                continue
            if not isinstance(replaced, Tensor) or replaced.shape != edge.shape:
                got = replaced.shape if isinstance(replaced, Tensor) else type(replaced).__name__
                where = f"the result of {edge.op}" if edge.op else "a leaf"
                raise RuntimeError(
                    f"a hook of {where} must return None or a Tensor of shape {edge.shape}, "
                    f"got {got}"
                )
            replaced = replaced.to(edge.dtype)
            g = replaced if self.record else replaced.data
        return g

    def _visit(self, node: Node, g: Gradient, anomaly: bool) -> None:
        """Pass the gradient of ``node`` on to its operands."""
        op = OPS.get(node.op) or _missing(node)
        useful, record = self.useful, self.record
        if useful is None:
            needs = [type(edge) is not Constant for edge in node.inputs]
        else:
            needs = [id(edge) in useful for edge in node.inputs]
        saved = node.saved if node.recipe is None else self._made_again(node.recipe)
        values = self._arguments(op, node, saved)
        grads: Any
        if op.fused is not None and not record:
            grads = quietly().run(op.fused.function, g, needs, **op.fused.given(values))
        elif op.fused is not None and self._whole(op):
            grads = self._fused(op, g, needs, values)
        elif op.variadic:
            values["needs"] = needs
            grads = self._pulled(op, node, 0, g, values)
            if not isinstance(grads, list) or len(grads) != len(needs):
                raise RuntimeError(
                    f"{op.name}: its rule must return a list of {len(needs)} gradients, "
                    "one for each operand and None where none is needed"
                )
        else:
            grads = None  # each has a rule of its own
        for i, edge in enumerate(node.inputs):
            if not needs[i]:
                continue
            gradient = self._pulled(op, node, i, g, values) if grads is None else grads[i]
            if gradient is None:
                raise RuntimeError(f"{op.name}: its rule gave no gradient for {_operand(op, i)}")
            if not record and type(gradient) is not np.ndarray:
                gradient = np.asarray(gradient)
            if gradient.shape != edge.shape or gradient.dtype != edge.dtype:
                gradient = _fitted(recording if record else raw, node, i, gradient)
            array, passed = (gradient._array, g._array) if record else (gradient, g)
            if anomaly:
                _examine(node, i, array)
            # An array that is no view, did not pass through and was not saved is nobody else's,
            # unless a rule that is not ours has kept it.
            fresh = op.trusted and array.base is None and array is not passed
            if fresh and saved:
                for kept in saved.values():
                    if array is kept.array:
                        fresh = False
            self._add(edge, gradient, fresh)

    def _arguments(self, op: Op, node: Node, saved: Mapping[str, Saved] | None) -> dict[str, Any]:
        """Return everything that the rules of ``op`` may ask for by name."""
        _check(node, saved)
        assert saved is not None
        attrs, record = node.attrs, self.record
        values: dict[str, Any]
        if op.variadic:
            values = {"attrs": attrs, **attrs, "shapes": [edge.shape for edge in node.inputs]}
            others: list[Any] = [None] * len(node.inputs)
            values["others"] = others
            for i, edge in enumerate(node.inputs) if saved else ():
                kept = saved.get(_operand(op, i))
                if kept is not None:
                    others[i] = _revived(kept, edge) if record else kept.array
            if "out" in saved:
                values["out"] = _revived(saved["out"], node) if record else saved["out"].array
            return values
        values = {}
        for name, place in op.asked.items():
            if name in saved:
                kept = saved[name]
                edge = node if place is None else node.inputs[place]
                values[name] = _revived(kept, edge) if record else kept.array
            elif name in attrs:
                values[name] = attrs[name]
            elif name == "attrs":
                values[name] = attrs
            elif place is not None:  # a shape, or an operand that is not there or not needed
                values[name] = node.inputs[place].shape if name not in op.operands else None
        return values

    def _whole(self, op: Op) -> bool:
        """Return whether a traced pass calls the hand-fused pullback of ``op``."""
        # What that of ``linear`` calls is in the vocabulary, and stays open to fusing.
        return (
            self.tracer is not None and self.tracer.whole and not self.graph and op.name != "linear"
        )

    def _fused(self, op: Op, g: Tensor, needs: list[bool], values: Mapping[str, Any]) -> list[Any]:
        """Return what a hand-fused pullback yields, as Tensors, and write it down."""
        assert op.fused is not None
        assert self.tracer is not None
        given = op.fused.given(values)
        operands = {name: value for name, value in given.items() if isinstance(value, Tensor)}
        attrs = {name: value for name, value in given.items() if name not in operands}
        pull = Pullback(op.fused.function, tuple(needs), tuple(operands), attrs)
        sources = [g, *operands.values()]
        arrays: tuple[Array | None, ...] = quietly().run(pull, *(x.data for x in sources))
        shown = {"needs": pull.needs, **attrs}
        self.tracer.several(f"{op.name}_backward", pull, sources, arrays, shown)
        return [None if array is None else Tensor._wrap(array) for array in arrays]

    def _made_again(self, recipe: Recipe | None) -> dict[str, Saved] | None:
        """Return what a node had to save, from its twin in a second run of a part of the graph."""
        saved = None
        while recipe is not None:
            twins = self.twins.get(recipe.run)
            if twins is None:
                twins = self.twins[recipe.run] = recipe.run()
            twin, twins[recipe.place] = twins[recipe.place], None  # its arrays die when it was used
            assert twin is not None
            saved, recipe = twin.saved, twin.recipe
        return saved

    def _pulled(self, op: Op, node: Node, i: int, g: Gradient, values: dict[str, Any]) -> Any:
        """Return the gradient that the rule for operand ``i`` gives; of a variadic op, them all."""
        rule = op.rules[op.operands[i]]
        if not self.record and not rule.by_keyword:  # in few steps
            return quietly().run(rule.function, raw, g, *map(values.__getitem__, rule.names))
        given = rule.given(values)
        if not self.record:
            return quietly().run(rule.function, raw, g, **given)
        try:
            gradient = rule.function(recording, g, **given)
            if op.variadic or gradient is None or not self.graph:
                return gradient
            if not gradient.requires_grad and not g.requires_grad:
                for value in given.values():
                    if isinstance(value, Tensor) and value.requires_grad:
                        gradient = anchored(recording, gradient, value)
            return gradient
        except RuntimeError as error:
            if not modes.is_anomaly_enabled():
                raise
            raise RuntimeError(
                f"{op.name}: the backward failed for operand {_operand(op, i)}: {error}; "
                f"the op was made at {_made(node)}"
            ) from error

    def _add(self, edge: Edge, gradient: Gradient, fresh: bool) -> None:
        """Add to what has arrived at ``edge``; in place once the sum is the engine's own."""
        key = id(edge)
        before = self.grads.get(key)
        if before is None:
            self.grads[key] = gradient
            if fresh:
                self.owned.add(key)
            if isinstance(edge, Tensor):
                self.leaves[key] = edge
        elif self.record:
            self.grads[key] = recording.add(before, gradient)
            self.owned.add(key)
        elif key in self.owned:
            quietly().run(np.add, before, gradient, before)
        else:
            self.grads[key] = np.asarray(quietly().run(np.add, before, gradient))
            self.owned.add(key)


def _reachable(roots: Iterable[Edge]) -> list[Node]:
    """Return every node that the roots depend on, and they themselves, newest first."""
    stack = [root for root in roots if isinstance(root, Node)]
    seen = set(stack)
    while stack:
        for edge in stack.pop().inputs:
            if type(edge) is Node and edge not in seen:
                seen.add(edge)
                stack.append(edge)
    return sorted(seen, key=_by_sequence, reverse=True)


def _missing(node: Node) -> NoReturn:
    raise RuntimeError(
        f"{node.op} of shape {node.shape}: there is no such op any more, so its result cannot "
        "be differentiated; register it again and repeat the forward pass"
    )


def _check(node: Node, saved: Mapping[str, Saved] | None) -> None:
    """Raise if ``node``, for which ``saved`` was saved, cannot be differentiated any more."""
    if saved is None:
        raise RuntimeError(
            f"{node.op} of shape {node.shape}: trying to backward through the graph a second time, "
            "but what it saved was freed by the first pass; specify retain_graph=True there"
        )
    for name, (array, version, expected) in saved.items():
        if version.count != expected:
            made = f", made at {node.site}" if node.site else ""
            raise RuntimeError(
                f"{node.op}: one of the variables needed for gradient computation has been "
                f"modified by an inplace operation: {name} of shape {array.shape} is at "
                f"version {version.count}, expected version {expected}{made}; "
                "change a copy (.clone()) or use the op that returns a new Tensor"
            )


def _revived(saved: Saved, edge: Edge) -> Tensor:
    """Return a saved array as the Tensor it was, with its history and its version."""
    if isinstance(edge, Tensor):
        if edge.data is saved.array:
            return edge
        # It was converted to the op's dtype, or has been given other data since.
        tensor: Tensor = recording.cast(edge, saved.array.dtype)
        tensor._array = saved.array
    else:
        node = edge if isinstance(edge, Node) and modes.is_grad_enabled() else None
        tensor = Tensor._wrap(saved.array, node)
    tensor._version = saved.version
    return tensor


def _fitted(xp: Any, node: Node, i: int, g: Gradient) -> Gradient:
    """Sum a gradient down to its operand's shape and cast it to its dtype.

    Only what broadcasting has repeated may be summed: a dimension in front, or
    one of length 1, that is longer in the result.
    """
    edge = node.inputs[i]
    shape, wanted, full = tuple(g.shape), edge.shape, node.shape
    if shape != wanted:
        extra = len(shape) - len(wanted)
        narrow = tuple(
            k for k, n in enumerate(shape) if k < extra or (wanted[k - extra] == 1 and n != 1)
        )
        summed = tuple(1 if k in narrow else n for k, n in enumerate(shape))
        widened = all(shape[k : k + 1] == full[k : k + 1] for k in narrow)
        if summed[extra:] != wanted or not widened:
            raise RuntimeError(
                f"{node.op}: its rule gave a gradient of shape {shape} for operand "
                f"{_operand(OPS[node.op], i)} of shape {wanted}"
            )
        g = xp.reshape(xp.sum(g, narrow, True), wanted)
    return xp.cast(g, edge.dtype) if g.dtype != edge.dtype else g


def _examine(node: Node, i: int, gradient: Array) -> None:
    """In anomaly mode, raise if the gradient of an operand is not finite."""
    if not quietly().run(np.isfinite, gradient).all():
        bad = "NaN" if np.isnan(gradient).any() else "inf"
        raise RuntimeError(
            f"{node.op}: the backward yielded {bad} for operand {_operand(OPS[node.op], i)}; "
            f"the op was made at {_made(node)}"
        )


def _made(node: Node) -> str:
    return node.site or "a line unknown: the forward ran outside detect_anomaly()"


def _operand(op: Op, i: int) -> str:
    return f"{op.operands[0]}[{i}]" if op.variadic else op.operands[i]


def _collect(tensor: Tensor, value: Gradient) -> None:
    """Add a finished gradient to a Tensor's ``grad``."""
    before, tracer = tensor._grad, TRACER.get()
    if tracer is not None:
        tracer.gathered(tensor)
    if before is None and isinstance(value, Tensor):
        tensor._grad = value
    elif before is None:
        tensor._grad = Tensor._wrap(value if tensor._slot is None else tensor._slot.put(value))
    elif isinstance(value, Tensor) or before.node is not None or not before.data.flags.writeable:
        tensor._grad = recording.add(before, value)
    else:
        quietly().run(np.add, before.data, value, before.data)
        before._shared_version().count += 1
