"""The backward pass itself: on ndarrays, or on the recording ops.

Nodes are numbered as they are made, and an op can only use what exists
already: the reverse of that order visits every node after all its uses, which
is why each gradient is complete when it is passed on. Nothing recurses.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from operator import attrgetter
from typing import Any, NoReturn, TypeAlias

import numpy as np

from . import modes
from .dispatch import OPS, Op, quietly, raw, recording
from .graph import Array, Edge, Node, Recipe, Recomputation, Saved
from .rules import anchored
from .tensor import Tensor
from .tracing import Pullback, Tracer, writer

__all__ = ["Gradient", "Pass", "RecordedPass", "end_of", "reachable"]

_by_sequence = attrgetter("sequence")

# A gradient on its way: an ndarray, or a Tensor where the pass itself is recorded.
Gradient: TypeAlias = Any


def end_of(tensor: Tensor) -> Node | Tensor:
    """Return where the gradient of ``tensor`` arrives: its node, or a leaf itself."""
    return tensor if tensor.node is None else tensor.node


class Pass:
    """One backward pass on ndarrays, from checked outputs and seeds to gradients by target.

    Args:
        outputs: what to differentiate.
        seeds: the gradient of each, of its shape and dtype; None is 1.
        targets: for what gradients are wanted, or None for every leaf.
        keep: whether nodes keep what they have saved.
        unused: whether there may be targets that the outputs do not depend on.

    Raises:
        RuntimeError: the pass cannot be done; nothing has changed.
    """

    graph = False  # whether what is done is recorded
    xp = raw  # what the rules run on, and the type of gradients
    kind: type = np.ndarray
    targets: dict[int, Tensor] | None = None
    useful: set[int] | None = None  # what lies on the way to a target
    twins: dict[Recomputation, list[Node | None]] | None = None

    def __init__(
        self,
        outputs: list[Tensor],
        seeds: Sequence[Tensor | None],
        targets: list[Tensor] | None,
        keep: bool,
        unused: bool = True,
    ) -> None:
        self.keep = keep
        self.watched = modes.is_anomaly_enabled()  # whether every gradient is looked at
        self.grads: dict[int, Gradient] = {}
        self.lent: set[int] = set()  # those whose memory may be somebody else's
        self.summed: set[int] = set()  # those in which several were added up
        self.leaves: dict[int, Tensor] = {}
        self.found: dict[int, tuple[Tensor, Gradient]] = {}
        roots = list(map(end_of, outputs))
        self.order = visited = reachable(roots)
        if targets is not None:
            self.targets = {id(end_of(t)): t for t in targets}
            self.useful = useful = self._toward_targets()
            if not unused:
                self._refuse_unused(roots, targets)
            self.order = [node for node in self.order if id(node) in useful]
            ends = self.targets
            visited = [x for x in self.order if id(x) not in ends or self._needed(x)]
        runs = None
        for node in visited:
            saved = node.saved
            if saved is None:
                _freed(node)
            for name in saved:
                if saved[name][1].count != saved[name][2]:
                    _changed(node, name, saved[name])
            if node.recipe is not None:
                runs = runs or set()
                runs.add(node.recipe.run)
        for run in runs or ():
            run.check()
        for i, root in enumerate(roots):
            key = id(root)
            if self.useful is not None and key not in self.useful:
                continue
            seed = self._seed(outputs[i], seeds[i])
            if key in self.grads:
                self._add_up(key, seed)
                continue
            self.grads[key] = seed
            self.lent.add(key)
            if type(root) is not Node:
                self.leaves[key] = outputs[i]

    def _seed(self, output: Tensor, seed: Tensor | None) -> Gradient:
        """Return the gradient that the pass begins with at ``output``."""
        if seed is not None:
            return seed._array
        one = output._array.copy()
        one.fill(1)
        return one

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
            if id(end_of(tensor)) not in reached:
                raise RuntimeError(
                    f"grad: inputs[{i}] of shape {tensor.shape} was not used to compute the "
                    "outputs; pass allow_unused=True to get None for it"
                )

    def run(self) -> dict[int, tuple[Tensor, Gradient]]:
        """Return the gradient of every target (or leaf, or retained Tensor) that one reached."""
        grads, useful, targets, keep = self.grads, self.useful, self.targets, self.keep
        lent, found = self.lent, self.found
        for node in self.order:
            g = grads.pop(id(node))  # every use of it has passed something on
            if node.hooks:
                g = self._hooked(node.hooks, g, node)
            if targets is not None or node.retains is not None:
                self._keep(node, g)
            if useful is None or self._needed(node):
                self._visit(node, g)
                if not keep:
                    node.saved = node.recipe = None
        for key, tensor in self.leaves.items():
            g = grads.pop(key)
            if tensor._hooks:
                g = self._hooked(tensor._hooks, g, tensor)
                lent.add(key)
            if targets is None or key in targets:
                found[key] = tensor, self._copied_for(tensor, g) if key in lent else g
        return found

    def _copied_for(self, leaf: Tensor, g: Gradient) -> Gradient:
        """Return the gradient of a leaf in memory of its own."""
        return self._copied(g)

    def _copied(self, g: Gradient) -> Gradient:
        """Return ``g`` in memory of its own."""
        return g.copy()

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
        """Return what hooks make of a gradient."""
        for hook in list(hooks.values()):
            seen = self._copied(g)
            with modes.set_grad_enabled(self.graph):
                replaced = hook(seen if isinstance(seen, Tensor) else Tensor._wrap(seen))
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
            g = replaced if isinstance(seen, Tensor) else replaced.data
        return g

    def _visit(self, node: Node, g: Gradient) -> None:
        """Pass the gradient of ``node`` on to its operands."""
        op = OPS.get(node.op) or _missing(node)
        useful, inputs, totals = self.useful, node.inputs, self.grads
        needs = node.needs if useful is None else [id(edge) in useful for edge in inputs]
        saved = node.saved if node.recipe is None else self._made_again(node.recipe)
        if saved is None:
            _freed(node)
        values = self._arguments(op, node, saved)
        grads = None if op.is_plain else self._pulled_at_once(op, node, g, needs, values)
        for i, need in enumerate(needs):
            if not need or (op.adds is not None and self.summed and self._added(op, node, i, g)):
                continue
            gradient = self._pulled(op, node, i, g, values) if grads is None else grads[i]
            if gradient is None:
                raise RuntimeError(f"{op.name}: its rule gave no gradient for {_operand(op, i)}")
            edge: Any = inputs[i]
            own = edge if type(edge) is Node else edge._array
            if type(gradient) is not self.kind:
                gradient = np.asarray(gradient)
            if gradient.shape != own.shape or gradient.dtype is not own.dtype:
                gradient = _fitted(self.xp, node, i, gradient)
            key = id(edge)
            if key in totals:
                self._add_up(key, gradient)
            else:
                totals[key] = gradient
                if not op.trusted or not _is_fresh(gradient, g, saved):
                    self.lent.add(key)
                if own is not edge:
                    self.leaves[key] = edge
            if self.watched:
                self._look(op, node, i, gradient, g, values)

    def _look(
        self,
        op: Op,
        node: Node,
        i: int,
        gradient: Gradient,
        g: Gradient,
        values: Mapping[str, Any],
    ) -> None:
        """Look at what the rule for operand ``i`` has made of ``g`` and what it was given."""
        _examine(node, i, gradient)

    def _added(self, op: Op, node: Node, i: int, g: Gradient) -> bool:
        """Add to the sum at operand ``i`` where its gradient is not 0; return whether it is done.

        Only the third gradient and those after it: that 0 is added elsewhere makes of -0 a 0.
        """
        key = id(node.inputs[i])
        if key not in self.summed or self.watched or op.adds is None:
            return False
        done: bool = quietly().run(op.adds, self.grads[key], g, **node.attrs)
        return done

    def _arguments(self, op: Op, node: Node, saved: Mapping[str, Saved]) -> dict[str, Any]:
        """Return everything that the rules of ``op`` may ask for by name."""
        values: dict[str, Any] = op.blank.copy()
        for name, kept in saved.items():
            if kept[1].count != kept[2]:
                _changed(node, name, kept)
            values[name] = kept[0]
        for name, place in op.asked:
            if place is not None:
                values[name] = node.inputs[place].shape
            else:
                values[name] = node.attrs if name == "attrs" else node.attrs[name]
        if op.variadic:
            count = len(node.inputs)
            names = [_operand(op, i) for i in range(count)] if saved else []
            values["others"] = list(map(values.get, names)) if saved else [None] * count
            values["shapes"] = [x.shape for x in node.inputs]
        return values

    def _made_again(self, recipe: Recipe | None) -> dict[str, Saved] | None:
        """Return what a node had to save, from its twin in a second run of a part of the graph."""
        saved = None
        while recipe is not None:
            if self.twins is None:
                self.twins = {}
            twins = self.twins.get(recipe.run)
            if twins is None:
                twins = self.twins[recipe.run] = recipe.run()
            twin, twins[recipe.place] = twins[recipe.place], None  # its arrays die when it was used
            assert twin is not None
            saved, recipe = twin.saved, twin.recipe
        return saved

    def _pulled_at_once(
        self, op: Op, node: Node, g: Gradient, needs: Sequence[bool], values: dict[str, Any]
    ) -> Any:
        """Return the gradients of all operands, where one function gives them."""
        if op.fused is not None:
            return quietly().run(op.fused.function, g, needs, **op.fused.given(values))
        return self._pulled_together(op, node, g, needs, values)

    def _pulled_together(
        self, op: Op, node: Node, g: Gradient, needs: Sequence[bool], values: dict[str, Any]
    ) -> list[Any]:
        """Return the gradients of the operands of an op that takes any number of them."""
        values["needs"] = needs
        grads = self._pulled(op, node, 0, g, values)
        if not isinstance(grads, list) or len(grads) != len(needs):
            raise RuntimeError(
                f"{op.name}: its rule must return a list of {len(needs)} gradients, "
                "one for each operand and None where none is needed"
            )
        return grads

    def _pulled(self, op: Op, node: Node, i: int, g: Gradient, values: dict[str, Any]) -> Any:
        """Return the gradient that the rule for operand ``i`` gives."""
        function, names, by_keyword = op.rules[op.operands[i]]
        if by_keyword:
            return quietly().run(function, raw, g, **{name: values[name] for name in names})
        if len(names) == 1:  # the most, and in half the time
            return quietly().run(function, raw, g, values[names[0]])
        return quietly().run(function, raw, g, *map(values.__getitem__, names))

    def _add_up(self, key: int, gradient: Gradient) -> None:
        """Add to what has arrived; in place once the sum is the engine's own."""
        before = self.grads[key]
        if key in self.lent:
            self.grads[key] = np.asarray(quietly().run(np.add, before, gradient))
            self.lent.remove(key)
        else:
            quietly().run(np.add, before, gradient, before)
        self.summed.add(key)


class RecordedPass(Pass):
    """A pass on the recording ops, so that it can be differentiated, or traced.

    Args:
        outputs: and the following: as of Pass.
        graph: whether what is done is recorded.
        tracer: what writes down what is done, if anything does.
    """

    xp = recording
    kind = Tensor

    def __init__(
        self,
        outputs: list[Tensor],
        seeds: Sequence[Tensor | None],
        targets: list[Tensor] | None,
        keep: bool,
        unused: bool,
        graph: bool,
        tracer: Tracer | None,
    ) -> None:
        self.graph = graph
        self.tracer = tracer
        super().__init__(outputs, seeds, targets, keep, unused)

    def _seed(self, output: Tensor, seed: Tensor | None) -> Gradient:
        if seed is None:
            seed = Tensor._wrap(super()._seed(output, None))
            if self.tracer is not None:
                self.tracer.constant(seed)
        return seed

    def run(self) -> dict[int, tuple[Tensor, Gradient]]:
        """Return the gradients, as Tensors."""
        with modes.set_grad_enabled(self.graph):
            return super().run()

    def _copied(self, g: Gradient) -> Gradient:
        return recording.clone(g)

    def _copied_for(self, leaf: Tensor, g: Gradient) -> Gradient:
        calls = writer()
        with nullcontext() if calls is None else calls.going_back(calls.owner(leaf)):
            return self._copied(g)

    def _visit(self, node: Node, g: Gradient) -> None:
        calls = writer()
        with nullcontext() if calls is None else calls.going_back(node.module):
            super()._visit(node, g)

    def _arguments(self, op: Op, node: Node, saved: Mapping[str, Saved]) -> dict[str, Any]:
        values = super()._arguments(op, node, saved)
        for name, kept in saved.items():
            if name == "out":
                values[name] = _revived(kept, node)
            elif op.variadic:
                i = next(i for i in range(len(node.inputs)) if name == _operand(op, i))
                values["others"][i] = _revived(kept, node.inputs[i])
            else:
                values[name] = _revived(kept, node.inputs[op.operands.index(name)])
        return values

    def _pulled_at_once(
        self, op: Op, node: Node, g: Gradient, needs: Sequence[bool], values: dict[str, Any]
    ) -> Any:
        if op.fused is None:
            return self._pulled_together(op, node, g, needs, values)
        # What that of ``linear`` calls is in the vocabulary, and stays open to fusing.
        whole = self.tracer is not None and self.tracer.whole and op.name != "linear"
        return self._fused(op, g, needs, values) if whole and not self.graph else None

    def _fused(
        self, op: Op, g: Tensor, needs: Sequence[bool], values: Mapping[str, Any]
    ) -> list[Any]:
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

    def _pulled(self, op: Op, node: Node, i: int, g: Gradient, values: dict[str, Any]) -> Any:
        rule = op.rules[op.operands[i]]
        given = rule.given(values)
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

    def _add_up(self, key: int, gradient: Gradient) -> None:
        self.grads[key] = recording.add(self.grads[key], gradient)
        self.lent.discard(key)


def reachable(roots: Iterable[Edge]) -> list[Node]:
    """Return every node that the roots depend on, and they themselves, newest first."""
    found: list[Node] = []
    seen: set[Node] = set()
    pending: list[Iterable[Edge]] = [roots]
    for edges in pending:  # which grows meanwhile
        for edge in edges:
            if type(edge) is Node and edge not in seen:
                seen.add(edge)
                found.append(edge)
                pending.append(edge.inputs)
    if len(found) > 1:
        found.sort(key=_by_sequence, reverse=True)
    return found


def _missing(node: Node) -> NoReturn:
    raise RuntimeError(
        f"{node.op} of shape {node.shape}: there is no such op any more, so its result cannot "
        "be differentiated; register it again and repeat the forward pass"
    )


def _freed(node: Node) -> NoReturn:
    raise RuntimeError(
        f"{node.op} of shape {node.shape}: trying to backward through the graph a second time, "
        "but what it saved was freed by the first pass; specify retain_graph=True there"
    )


def _changed(node: Node, name: str, kept: Saved) -> None:
    """Raise, since a saved array was changed in place."""
    array, version, expected = kept
    made = f", made at {node.site}" if node.site else ""
    raise RuntimeError(
        f"{node.op}: one of the variables needed for gradient computation has been "
        f"modified by an inplace operation: {name} of shape {array.shape} is at "
        f"version {version.count}, expected version {expected}{made}; "
        "change a copy (.clone()) or use the op that returns a new Tensor"
    )


def _is_fresh(gradient: Gradient, g: Gradient, saved: Mapping[str, Saved]) -> bool:
    """Return whether a rule has just made what it returned, so that nobody else has it.

    That is an array that is no view, did not pass through and was not saved. Of rules that are not
    ours it is not known: they may have kept it.
    """
    if type(gradient) is not np.ndarray:
        gradient, g = gradient._array, g._array
    if gradient.base is not None or gradient is g:
        return False
    for kept in saved.values():  # noqa: SIM110 - faster
        if kept[0] is gradient:
            return False
    return True


def _revived(saved: Saved, edge: Edge) -> Tensor:
    """Return a saved array as the Tensor it was, with its history and its version."""
    array, version, _ = saved
    if isinstance(edge, Tensor):
        if edge.data is array:
            return edge
        # It was converted to the op's dtype, or has been given other data since.
        tensor: Tensor = recording.cast(edge, array.dtype)
        tensor._array = array
    else:
        node = edge if isinstance(edge, Node) and modes.is_grad_enabled() else None
        tensor = Tensor._wrap(array, node)
    tensor._version = version
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


def _examine(node: Node, i: int, gradient: Gradient) -> None:
    """In anomaly mode, raise if the gradient of an operand is not finite."""
    gradient = gradient._array if isinstance(gradient, Tensor) else gradient
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
