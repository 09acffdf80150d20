"""From a backward pass to the steps of a player: what each shows, and what it says."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal, TypeAlias

from ..graph import Graph, Node, Walk
from ..sites import of_record, site_of
from ..summary import Summary
from ..trace import Contribution, Trace, operands_of, places, values_of
from .numbers import exact, is_finite, short, show
from .rules import rule_text, words

__all__ = ["Phase", "Show", "Step", "Story", "tell"]

Phase: TypeAlias = Literal["start", "forward", "backward", "end"]
Row: TypeAlias = Literal["data", "grad", "edge"]

UNKNOWN: Final = "·"  # what stands where a number is still to come
LONGEST: Final = 24  # characters of a label within a sentence

_INFIX: Final = {"+", "-", "*", "/", "**", "@"}


@dataclass(frozen=True, slots=True)
class Show:
    """A change of the picture.

    Attributes:
        row: which text changes: a node's data or gradient, or an edge's derivative.
        place: the node's id, or the edge's number.
        text: what is written there from now on.
        faulty: whether that is not finite.
    """

    row: Row
    place: int
    text: str
    faulty: bool = False


@dataclass(frozen=True, slots=True)
class Step:
    """One step of a player.

    Attributes:
        phase: what is going on.
        says: what happens, in sentences.
        details: names and texts: the rule, the numbers put into it, the sum.
        site: ``file:line`` of the code that made the node, and that line; empty if not known.
        node: the id of the node at work, if there is one.
        target: the id of the node that receives a gradient.
        edges: the numbers of the edges along which something moves.
        shows: the changes of the picture.
        exact: every digit of the number that the step arrives at: the node's value, or the
            target's gradient so far; "" of a large array, or where it is not known.
    """

    phase: Phase
    says: str
    details: tuple[tuple[str, str], ...] = ()
    site: tuple[str, str] = ("", "")
    node: int | None = None
    target: int | None = None
    edges: tuple[int, ...] = ()
    shows: tuple[Show, ...] = ()
    exact: str = ""


@dataclass(frozen=True, slots=True)
class Story:
    """A graph laid out for all that it will show, and the steps through it.

    Attributes:
        graph: the graph; each text in it is the longest that will stand in its place.
        names: what the steps call each node.
        blank: what the picture shows before the first step.
        steps: the steps.
    """

    graph: Graph
    names: tuple[str, ...]
    blank: tuple[Show, ...]
    steps: tuple[Step, ...]

    def shown(self, n: int) -> Iterator[Show]:
        """All changes of the picture up to step ``n``, oldest first."""
        yield from self.blank
        for step in self.steps[: n + 1]:
            yield from step.shows


def tell(graph: Graph, walk: Walk, trace: Trace) -> Story:
    """Make the steps: forward through the graph, then backward as the trace has it.

    Args:
        graph: one node for each record of the walk, in its order.
        walk: the records.
        trace: a backward pass over them.
    """
    return _Teller(graph, walk, trace).story()


class _Teller:
    def __init__(self, graph: Graph, walk: Walk, trace: Trace) -> None:
        self.records, self.inputs, self.arguments = walk
        self.walk, self.place = walk, places(walk)
        self.contributions = trace.contributions
        self.leaves = [(self.place[id(leaf)], g) for leaf, g in trace.leaves]
        self.ops = self._in_forward_order()
        self.values = values_of(walk, trace)
        self.graph = self._named(graph)
        self.names = [self._name(node) for node in self.graph.nodes]
        self.uses = Counter(self._receiver(c) for c in self.contributions)
        self.received: dict[int, list[Contribution]] = {i: [] for i in self.uses}
        self.first_edge = [sum(map(len, self.inputs[:i])) for i in range(len(self.inputs))]
        self.fault_is_found = False

    def story(self) -> Story:
        steps = [self._start(), *map(self._forward, self.ops)]
        self.fault_is_found = False
        steps.append(self._seed())
        steps += map(self._backward, self.contributions)
        steps.append(self._end())
        blank = [
            *(Show("data", i, UNKNOWN) for i in self.ops),
            *(Show("grad", i, UNKNOWN) for i in (0, *self.uses)),
            *(
                Show("edge", self.first_edge[i] + k, "")
                for i, inputs in enumerate(self.inputs)
                for k in range(len(inputs))
            ),
        ]
        graph = self._with_room([*blank, *(show for step in steps for show in step.shows)])
        return Story(graph, tuple(self.names), tuple(blank), tuple(steps))

    # What is known of the graph

    def _in_forward_order(self) -> list[int]:
        """The ops in the order in which they were made, if that was recorded.

        If not, in one in which they can have been made: each after its operands, left to right.
        """
        ops = [i for i in _operands_first(self.inputs) if self.inputs[i]]
        made = [of_record(self.records[i], "sequence") for i in ops]
        return ops if None in made else [i for _, i in sorted(zip(made, ops, strict=True))]

    def _node(self, c: Contribution) -> int:
        return self.place[id(c.node)]

    def _receiver(self, c: Contribution) -> int:
        return self.inputs[self._node(c)][self._position(c)]

    def _position(self, c: Contribution) -> int:
        """Which of the inputs that were given receives."""
        return self.arguments[self._node(c)].index(c.argument)

    def _edge(self, c: Contribution) -> int:
        return self.first_edge[self._node(c)] + self._position(c)

    def _named(self, graph: Graph) -> Graph:
        """The graph with a name for every op and input that has none."""
        nodes = list(graph.nodes)
        taken = {node.label for node in nodes}
        count = {"v": 0, "x": 0}
        leaves = [i for i, inputs in enumerate(self.inputs) if not inputs]
        for i in [*self.ops, *leaves]:
            if not nodes[i].label and nodes[i].kind != "constant":
                letter = "v" if self.inputs[i] else "x"
                name = letter
                while name == letter or name in taken:
                    count[letter] += 1
                    name = f"{letter}{count[letter]}"
                nodes[i] = replace(nodes[i], label=name)
        return replace(graph, nodes=tuple(nodes))

    def _name(self, node: Node) -> str:
        label = " ".join(node.label.split())
        if not label:
            value = self.values.get(node.id)
            label = node.shape or "a constant" if value is None else show(value)
        return short(label, LONGEST)

    def _with_room(self, shows: Sequence[Show]) -> Graph:
        """The graph with the longest text that each place will show."""
        longest: dict[tuple[Row, int], str] = {}
        for s in shows:
            longest[s.row, s.place] = max(longest.get((s.row, s.place), ""), s.text, key=len)

        def room(row: Row, i: int) -> Summary | None:
            return Summary(longest[row, i]) if (row, i) in longest else None

        nodes = []
        for i, node in enumerate(self.graph.nodes):
            edges = tuple(
                replace(edge, derivative=longest["edge", self.first_edge[i] + k])
                for k, edge in enumerate(node.inputs)
            )
            data, grad = room("data", i), room("grad", i)
            nodes.append(replace(node, inputs=edges, data=data, grad=grad, notes=(), size=None))
        return replace(self.graph, nodes=tuple(nodes))

    # The steps

    def _start(self) -> Step:
        leaves = [i for i, inputs in enumerate(self.inputs) if not inputs]
        says = (
            f"The graph of {self.names[0]}. Its leaves hold their numbers. Forward first: each "
            "op computes its value as soon as its operands are there."
        )
        shows = tuple(self._shown("data", i, self.values[i]) for i in leaves if i in self.values)
        return Step("start", says, shows=shows)

    def _forward(self, i: int) -> Step:
        names = self._formula(i, [self.names[x] for x in self.inputs[i]])
        known = [self.values.get(x) for x in self.inputs[i]]
        numbers = ""
        if all(x is not None and _is_number(x) for x in known):
            numbers = self._formula(i, [show(x) for x in known])
        value = self.values.get(i)
        if value is None:
            shape = self.graph.nodes[i].shape
            says = f"{self.names[i]} = {names}, {shape}. No rule needs its elements: not kept."
            return self._at(i, Step("forward", says))
        parts = list(
            dict.fromkeys([self.names[i], names, *([numbers] if numbers else []), show(value)])
        )
        says = f"{' = '.join(parts)}.{self._fault(value, self.names[i])}"
        return self._at(
            i, Step("forward", says, exact=exact(value), shows=(self._shown("data", i, value),))
        )

    def _at(self, i: int, step: Step) -> Step:
        edges = tuple(self.first_edge[i] + k for k in range(len(self.inputs[i])))
        return replace(step, node=i, edges=edges, site=site_of(self.records[i]))

    def _seed(self) -> Step:
        name, g = self.names[0], self.contributions[0].g
        return Step(
            "backward",
            f"Now backward, from the output: the gradient of {name} by itself is {show(g)}.",
            site=site_of(self.records[0]),
            target=0,
            shows=(self._shown("grad", 0, g),),
            exact=exact(g),
        )

    def _backward(self, c: Contribution) -> Step:
        i, target = self._node(c), self._receiver(c)
        name, to = self.names[i], self.names[target]
        g, added, total = show(c.g), show(c.contribution), show(c.total)
        before = self.received[target]
        rule = ("rule", self._rule(c))
        details = [("with", text) for text in [self._given(c)] if text]
        if c.local is None:
            says = f"{name} passes its gradient on to {to}: {added}."
            details += [("gradient of " + name, g), ("contribution", added)]
        else:
            local = show(c.local)
            says = f"{name} passes its gradient on to {to}: {g} · {_wrapped(local)} = {added}."
            details += [
                ("derivative", local),
                (
                    "contribution",
                    f"gradient of {name} · derivative = {g} · {_wrapped(local)} = {added}",
                ),
            ]
        sum_ = total
        if before:
            sum_ = f"{show(before[-1].total)} + {_wrapped(added)} = {total}"
            if _is_number(c.total):
                says += f" {to} had {show(before[-1].total)} already; the two are added: {sum_}."
            else:
                says += f" {to} had a part of its gradient already; the sum is {total}."
        before.append(c)
        details.append((f"gradient of {to}", sum_))
        details.insert(len(details) if "\n" in rule[1] else 0, rule)  # a long one comes last
        says += self._progress(target) + self._fault(c.contribution, f"the gradient of {to}")
        shows = [self._shown("grad", target, c.total)]
        if c.local is not None:
            shows.append(Show("edge", self._edge(c), show(c.local)))
        return Step(
            "backward",
            says,
            tuple(details),
            site_of(self.records[i]),
            node=i,
            target=target,
            edges=(self._edge(c),),
            shows=tuple(shows),
            exact=exact(c.total),
        )

    def _progress(self, target: int) -> str:
        """How many uses of a node have sent it their part of its gradient."""
        name, uses, received = self.names[target], self.uses[target], len(self.received[target])
        if uses == 1:
            return ""
        if received < uses:
            return (
                f" That was {received} of {uses} uses of {name}: its gradient is not complete yet."
            )
        return f" All {uses} uses of {name} have sent theirs now: its gradient is complete."

    def _end(self) -> Step:
        parts = ", ".join(f"{self.names[i]} gets {show(g)}" for i, g in self.leaves)
        says = f"Done. Each leaf has its gradient, which backward() adds to its grad: {parts}."
        return Step("end", says, shows=tuple(self._shown("grad", i, g) for i, g in self.leaves))

    # Their parts

    def _shown(self, row: Row, i: int, value: Any) -> Show:
        return Show(row, i, show(value, in_node=True), not is_finite(value))

    def _fault(self, value: Any, what: str) -> str:
        """The first number of a phase that is not finite is pointed out."""
        if self.fault_is_found or is_finite(value):
            return ""
        self.fault_is_found = True
        return f" Here {what} is not finite for the first time."

    def _formula(self, i: int, operands: Sequence[str]) -> str:
        """The op applied to operands that are written as given."""
        node = self.graph.nodes[i]
        if node.symbol in _INFIX and len(operands) == 2:
            a, b = operands
            return f"{_wrapped(a) if node.symbol == '**' else a} {node.symbol} {_wrapped(b)}"
        return f"{node.op}({', '.join([*operands, *([node.attrs] if node.attrs else [])])})"

    def _rule(self, c: Contribution) -> str:
        text = rule_text(c.rule, c.given)
        if "\n" in text:
            return text
        if c.local is None or not c.operands:
            return f"contribution = {text}"
        node = self.graph.nodes[self._node(c)]
        return f"∂({self._formula(node.id, c.operands)})/∂{c.operands[c.argument]} = {text}"

    def _given(self, c: Contribution) -> str:
        """What was put into the rule: its names, what they are in this graph, their values."""
        mentioned = words(rule_text(c.rule, c.given))
        place = operands_of(self.walk, self._node(c), c)
        parts = []
        for name, value in c.given.items():
            if name not in mentioned or value is None:
                continue
            called = self.names[place[name]] if name in place else name
            text = show(value)
            parts.append(" = ".join(dict.fromkeys([name, called, text])))
        return "\n".join(parts)


def _operands_first(inputs: Sequence[Sequence[int]]) -> list[int]:
    """All nodes, each after its inputs."""
    order: list[int] = []
    found: set[int] = set()
    stack = [(0, False)]
    while stack:
        i, inputs_are_placed = stack.pop()
        if inputs_are_placed:
            order.append(i)
        elif i not in found:
            found.add(i)
            stack.append((i, True))
            stack.extend((x, False) for x in reversed(inputs[i]))
    return order


def _is_number(value: Any) -> bool:
    return getattr(value, "size", 1) == 1


def _wrapped(text: str) -> str:
    return f"({text})" if text.startswith("-") else text
