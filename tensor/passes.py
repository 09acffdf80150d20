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

    def __init__(
        self,
        outputs: list[Tensor],
        seeds: Sequence[Tensor | None],
        targets: list[Tensor] | None,
        keep: bool,
        unused: bool = True,
    ) -> None:
        self.keep = keep
        self.anomaly = modes.is_anomaly_enabled()
        self.grads: dict[int, Gradient] = {}
        self.owned: set[int] = set()
        self.summed: set[int] = set()  # what several gradients have been added up in
        self.leaves: dict[int, Tensor] = {}
        self.found: dict[int, tuple[Tensor, Gradient]] = {}
        self.twins: dict[Recomputation, list[Node | None]] = {}
        roots = [end_of(tensor) for tensor in outputs]
        self.order = visited = reachable(roots)
        self.targets: dict[int, Tensor] | None = None
        self.useful: set[int] | None = None
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
            _check(node, node.saved)
            if node.recipe is not None:
                runs = runs or set()
                runs.add(node.recipe.run)
        for run in runs or ():
            run.check()
        for i, root in enumerate(roots):
            if self.useful is None or id(root) in self.useful:
                self._add(root, self._seed(outputs[i], seeds[i]), fresh=False)

    def _seed(self, output: Tensor, seed: Tensor | None) -> Gradient:
        """Return the gradient that the pass begins with at ``output``."""
        if seed is not None:
            return seed._array
        array = output._array
        one = np.empty(array.shape, array.dtype)
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
                self.owned.discard(key)
            if targets is None or key in targets:
                self.found[key] = (tensor, g if key in self.owned else self._copied_for(tensor, g))
        return self.found

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
        useful, inputs = self.useful, node.inputs
        needs = node.needs if useful is None else [id(edge) in useful for edge in inputs]
        saved = node.saved if node.recipe is None else self._made_again(node.recipe)
        values = self._arguments(op, node, saved)
        assert saved is not None
        grads = None if op.is_plain else self._pulled_at_once(op, node, g, needs, values)
        for i, need in enumerate(needs):
            if need and not (self.summed and op.adds and self._added(op, node, i, g)):
                gradient = self._pulled(op, node, i, g, values) if grads is None else grads[i]
                if gradient is None:
                    raise RuntimeError(
                        f"{op.name}: its rule gave no gradient for {_operand(op, i)}"
                    )
                self._pass_on(op, node, i, gradient, g, saved)

    def _added(self, op: Op, node: Node, i: int, g: Gradient) -> bool:
        """Add to the sum at operand ``i`` where its gradient is not 0; return whether it is done.

        Only the third gradient and those after it: that 0 is added elsewhere makes of -0 a 0.
        """
        key = id(node.inputs[i])
        if key not in self.summed or self.anomaly or op.adds is None:
            return False
        done: bool = quietly().run(op.adds, self.grads[key], g, **node.attrs)
        return done

    def _pass_on(
        self,
        op: Op,
        node: Node,
        i: int,
        gradient: Gradient,
        g: Gradient,
        saved: Mapping[str, Saved],
    ) -> None:
        """Add what a rule gave for operand ``i`` to what has arrived there."""
        if type(gradient) is not np.ndarray:
            gradient = np.asarray(gradient)
        edge = node.inputs[i]
        own: Any = edge if type(edge) is Node else edge._array  # type: ignore[union-attr]
        if gradient.shape != own.shape or gradient.dtype is not own.dtype:
            gradient = _fitted(raw, node, i, gradient)
        if self.anomaly:
            _examine(node, i, gradient)
        self._add(edge, gradient, op.trusted and _is_fresh(gradient, g, saved))

    def _arguments(self, op: Op, node: Node, saved: Mapping[str, Saved] | None) -> dict[str, Any]:
        """Return everything that the rules of ``op`` may ask for by name."""
        if saved is None:
            _check(node, saved)
        assert saved is not None
        attrs, inputs = node.attrs, node.inputs
        values: dict[str, Any]
        if op.variadic:
            others: list[Any] = [None] * len(inputs)
            _check(node, saved)
            for i in range(len(inputs)) if saved else ():
                name = _operand(op, i)
                if name in saved:
                    others[i] = saved[name].array
            values = {"attrs": attrs, **attrs, "shapes": [x.shape for x in inputs]}
            values["others"] = others
            if "out" in saved:
                values["out"] = saved["out"].array
            return values
        values = {}
        for name, kind, place in op.asked:
            if kind == "array":  # None if it is not there, or not needed
                values[name] = None
                if name in saved:
                    values[name], version, expected = saved[name]
                    if version.count != expected:
                        _changed(node, name, saved[name])
            elif kind == "shape":
                values[name] = inputs[place].shape
            else:
                values[name] = attrs if name == "attrs" else attrs[name]
        return values

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
        return quietly().run(function, raw, g, *map(values.__getitem__, names))

    def _add(self, edge: Edge, gradient: Gradient, fresh: bool) -> None:
        """Add to what has arrived at ``edge``; in place once the sum is the engine's own."""
        key, grads = id(edge), self.grads
        before = grads.get(key)
        if before is None:
            grads[key] = gradient
            if fresh:
                self.owned.add(key)
            if isinstance(edge, Tensor):
                self.leaves[key] = edge
        elif key in self.owned:
            quietly().run(np.add, before, gradient, before)
            self.summed.add(key)
        else:
            self.summed.add(key)
            grads[key] = np.asarray(quietly().run(np.add, before, gradient))
            self.owned.add(key)


class RecordedPass(Pass):
    """A pass on the recording ops, so that it can be differentiated, or traced.

    Args:
        outputs: and the following: as of Pass.
        graph: whether what is done is recorded.
        tracer: what writes down what is done, if anything does.
    """

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

    def _pass_on(
        self,
        op: Op,
        node: Node,
        i: int,
        gradient: Gradient,
        g: Gradient,
        saved: Mapping[str, Saved],
    ) -> None:
        edge = node.inputs[i]
        if gradient.shape != edge.shape or gradient.dtype != edge.dtype:
            gradient = _fitted(recording, node, i, gradient)
        if self.anomaly:
            _examine(node, i, gradient._array)
        self._add(edge, gradient, op.trusted and _is_fresh(gradient._array, g._array, saved))

    def _arguments(self, op: Op, node: Node, saved: Mapping[str, Saved] | None) -> dict[str, Any]:
        values = super()._arguments(op, node, saved)
        for name, kept in (saved or {}).items():
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

    def _add(self, edge: Edge, gradient: Gradient, fresh: bool) -> None:
        before = self.grads.get(id(edge))
        if before is None:
            super()._add(edge, gradient, fresh)
        else:
            self.grads[id(edge)] = recording.add(before, gradient)
            self.owned.add(id(edge))


def reachable(roots: Iterable[Edge]) -> list[Node]:
    """Return every node that the roots depend on, and they themselves, newest first."""
    found = list(dict.fromkeys(root for root in roots if type(root) is Node))
    seen = set(found)
    for node in found:  # which grows meanwhile
        for edge in node.inputs:
            if type(edge) is Node and edge not in seen:
                seen.add(edge)
                found.append(edge)
    found.sort(key=_by_sequence, reverse=True)
    return found


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
    for name, kept in saved.items():
        if kept[1].count != kept[2]:
            _changed(node, name, kept)


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


def _is_fresh(gradient: Array, g: Array, saved: Mapping[str, Saved]) -> bool:
    """Return whether a rule has just made what it returned, so that nobody else has it.

    That is an array that is no view, did not pass through and was not saved. Of rules that are not
    ours it is not known: they may have kept it.
    """
    if gradient.base is not None or gradient is g:
        return False
    return not any([gradient is array for array, _, _ in saved.values()])  # noqa: C419 - faster


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
