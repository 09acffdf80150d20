"""Making a large graph small enough to be looked at, without losing count.

Ops are taken in the order in which they were made. What is folded is a stretch of that order, so
that no way leads out of a folded node and back into it: the calls of a module, or a block of ops
that is repeated. The constants and parameters that only the stretch uses go with it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from .graph import BACKWARD, Group, Walk, attrs_of, depths, kind_of, module_of, symbol_of
from .repeats import Repeat, repeats
from .sites import of_record

__all__ = ["REST", "fold"]

REST: Final = "…"  # the title of what is far from the output
MOST_SYMBOLS: Final = 3  # in the title of a repeated block


@dataclass(frozen=True, slots=True)
class _Unit:
    """A stretch of ops that is drawn as one node: the ops from ``start`` up to ``stop``.

    ``module`` is the one that it lies in; ``copies`` how often its block is repeated.
    """

    start: int
    stop: int
    title: str = ""
    module: str = ""
    copies: int = 1


def fold(
    graph: Walk,
    max_nodes: int | None,
    depth: int | None = None,
    names: Mapping[int, str] | None = None,
) -> list[Group]:
    """Put the records into at most ``max_nodes`` groups, one record in each where that is enough.

    If it is not, modules are folded, the innermost first; then blocks that are repeated, of one op
    or of several; and if that is not enough either, the nodes nearest the output stay (by the
    longest way, so that whatever uses a node that stays does too) and the rest becomes one.

    Args:
        graph: the walk.
        max_nodes: the budget; None for no limit.
        depth: modules that lie deeper in the tree of modules than this are folded in any case.
        names: by id, the objects that are parameters.
    """
    folder = _Folder(graph, names or {})
    if depth is None and (max_nodes is None or len(graph.records) <= max_nodes):
        return folder.singles()
    deepest = max((path.count(".") + 1 for path in folder.modules if path), default=0)
    # One level more than there is folds no module.
    levels = [depth] if depth is not None else [*range(deepest + 1, 0, -1)]
    tried: list[list[Group]] = []
    for units in map(folder.modules_at, levels):
        fits = max_nodes is None or len(units) <= max_nodes
        if fits:  # unless there are too many leaves
            tried.append(folder.groups(units))
            fits = max_nodes is None or len(tried[-1]) <= max_nodes
        if not fits:
            tried.append(folder.groups(folder.repeats_in(units)))
    fitting = [groups for groups in tried if max_nodes is None or len(groups) <= max_nodes]
    if fitting:
        return max(fitting, key=len)  # the first of them, if there are several
    return _cut(graph, min(tried, key=len), max_nodes or 0)


def _cut(graph: Walk, groups: list[Group], max_nodes: int) -> list[Group]:
    depth = depths(_inputs(graph, groups))
    by_depth = sorted(range(len(groups)), key=depth.__getitem__)
    near = sorted(by_depth[: max_nodes - 1])
    far = [member for i in by_depth[max_nodes - 1 :] for member in groups[i].members]
    return [*(groups[i] for i in near), Group(far, REST)]


class _Folder:
    """A graph whose ops are in the order in which they were made."""

    def __init__(self, graph: Walk, names: Mapping[int, str]) -> None:
        self.graph = graph
        self.names = names
        self.ops = _in_order(graph)
        self.place = {op: at for at, op in enumerate(self.ops)}
        self.modules = [module_of(graph.records[op]) for op in self.ops]
        self.first_use: dict[int, int] = {}  # of leaves: the earliest op that takes it
        self.last_use: dict[int, int] = {}  # the latest one, but for going back through the same
        self.last_user = [-1] * len(self.ops)  # of ops: the latest op that takes it
        for at, op in enumerate(self.ops):
            for x in graph.inputs[op]:
                if x in self.place:
                    self.last_user[self.place[x]] = at
                else:
                    first = self.first_use.setdefault(x, at)
                    if self.modules[at] != BACKWARD + self.modules[first]:
                        self.last_use[x] = at
        self.tokens: list[int] = []

    def singles(self) -> list[Group]:
        """Every record by itself."""
        count = len(self.graph.records)
        return [Group([i], module=self._module_around(i)) for i in range(count)]

    def modules_at(self, depth: int) -> list[_Unit]:
        """The ops, with one unit for each stretch of calls of a module at this depth."""
        units: list[_Unit] = []
        for at, path in enumerate(self.modules):
            parts = path.split(".") if path else []
            if len(parts) < depth:
                units.append(_Unit(at, at + 1, module=path))
                continue
            name = ".".join(parts[:depth])
            if units and units[-1].title == name:
                units[-1] = _Unit(units[-1].start, at + 1, name, _parent(name))
            else:
                units.append(_Unit(at, at + 1, name, _parent(name)))
        return units

    def repeats_in(self, units: Sequence[_Unit]) -> list[_Unit]:
        """The units, with one for each block of them that is repeated."""
        if not self.tokens:
            numbers: dict[Any, int] = {}
            self.tokens = [
                numbers.setdefault(self._token(at), len(numbers)) for at in range(len(self.ops))
            ]
        folded: list[_Unit] = []
        done = 0
        for found in repeats(
            [tuple(self.tokens[unit.start : unit.stop]) for unit in units], self._copies(units)
        ):
            folded += units[done : found.start]
            folded.append(self._repeated(units, found))
            done = found.stop
        return [*folded, *units[done:]]

    def _repeated(self, units: Sequence[_Unit], found: Repeat) -> _Unit:
        block = units[found.start : found.start + found.period]
        last = units[found.stop - found.period : found.stop]
        # Where each copy is made by a module of its own, these are named.
        ends = [_common([unit.title or unit.module for unit in copy]) for copy in (block, last)]
        if ends[0] != ends[1]:
            title = " … ".join(ends)
        elif len(block) > MOST_SYMBOLS:
            title = f"{sum(unit.stop - unit.start for unit in block):,} ops"
        else:
            title = ", ".join(unit.title or self._symbol(unit.start) for unit in block)
            title = f"({title})" if len(block) > 1 else title
        module = _common(ends) if ends[0] != ends[1] else block[0].module
        title = f"{title} x {found.copies:,}"
        return _Unit(block[0].start, last[-1].stop, title, module, found.copies)

    def _symbol(self, at: int) -> str:
        return symbol_of(self.graph.records[self.ops[at]])

    def _token(self, at: int) -> tuple[Any, ...]:
        """What two ops have in common that may be copies of each other.

        A label is unique, unless it is of the op's module: "0.weight.grad" of "backward of 0".
        """
        op = self.ops[at]
        record = self.graph.records[op]
        label = getattr(record, "label", None) or ""
        module = f"{self.modules[at].removeprefix(BACKWARD)}."
        name = label.removeprefix(module) if label.startswith(module) or not label else at
        shape = getattr(record, "shape", None)
        return (record.op, len(self.graph.inputs[op]), str(shape), attrs_of(record), name)

    def _copies(self, units: Sequence[_Unit]) -> Callable[[int, int, int], int]:
        """Return the function that counts how many copies of a block there really are."""

        def count(start: int, period: int, most: int) -> int:
            first = units[start].start
            size = units[start + period].start - first
            for k in range(size, most * size):
                if not self._is_copy(first, size, first + k):
                    return k // size
            return most

        return count

    def _is_copy(self, start: int, size: int, at: int) -> bool:
        """Whether an op takes its inputs as the op ``size`` before it does, within a repetition."""
        is_module = self.modules[at] != self.modules[at - size]
        ours = self.graph.inputs[self.ops[at]]
        theirs = self.graph.inputs[self.ops[at - size]]
        for x, y in zip(ours, theirs, strict=True):
            a, b = self.place.get(x, -1), self.place.get(y, -1)
            if a < 0 and b < 0:
                continue  # each copy has leaves of its own, or all have the same
            if 0 <= a < start and (a == b or (is_module and 0 <= b < start)):
                continue  # from outside the same, or, of modules, what each is given
            if b >= start and a - b == size:
                continue  # from the same place in the copy itself, or in the one before
            if at < start + 2 * size and b < start <= a < start + size:
                continue  # the first copy has from outside what the second has from the first
            return False
        return True

    def groups(self, units: Sequence[_Unit]) -> list[Group]:
        """The units and the leaves, in backward order."""
        unit_of = [i for i, unit in enumerate(units) for _ in range(unit.start, unit.stop)]
        inside: dict[int, list[int]] = {}
        keyed: list[tuple[float, int, Group]] = []
        for i in range(len(self.graph.records)):
            if i in self.place:
                continue
            at, last = self.first_use.get(i, -1), self.last_use.get(i, -1)
            home = unit_of[at] if at >= 0 else -1
            if at >= 0 and home == unit_of[last] and self._goes_along(i, units[home]):
                inside.setdefault(home, []).append(i)
            else:
                group = Group([i], module=self._module_around(i, units, unit_of))
                keyed.append((0.5 - at, i, group))
        for i, unit in enumerate(units):
            members = [self.ops[at] for at in range(unit.stop - 1, unit.start - 1, -1)]
            members += inside.get(i, [])
            group = Group(
                members,
                unit.title if len(members) > 1 else "",
                self._has_one_result(unit),
                self._contents(unit),
                unit.module,
                unit.copies,
            )
            keyed.append((1.0 - unit.stop, -1, group))
        return [group for _, _, group in sorted(keyed, key=lambda entry: entry[:2])]

    def _goes_along(self, leaf: int, unit: _Unit) -> bool:
        """Whether a leaf that this unit uses, and no other forward, is folded with it."""
        kind = kind_of(self.graph.records[leaf], self.names)
        return bool(unit.title) and kind in ("constant", "parameter")

    def _has_one_result(self, unit: _Unit) -> bool:
        """Whether only the last op of the unit is used outside."""
        if unit.stop - unit.start == 1:
            return True
        return all(0 <= self.last_user[at] < unit.stop for at in range(unit.start, unit.stop - 1))

    def _contents(self, unit: _Unit) -> str:
        """What ops are in it; in one of the copies, if there are several."""
        size = (unit.stop - unit.start) // unit.copies
        counts = Counter(map(self._symbol, range(unit.start, unit.start + size)))
        words = [f"{symbol} x {n:,}" if n > 1 else symbol for symbol, n in counts.most_common()]
        return "" if unit.title == f"{words[0]} x {unit.copies:,}" else ", ".join(words)

    def _module_around(
        self, i: int, units: Sequence[_Unit] = (), unit_of: Sequence[int] = ()
    ) -> str:
        """The module that a record is drawn in: an op's own, and a leaf's if only that uses it."""
        if i in self.place:
            return self.modules[self.place[i]]
        if i not in self.first_use or kind_of(self.graph.records[i], self.names) == "input":
            return ""
        ends = self.first_use[i], self.last_use[i]
        if units:
            return _common([units[unit_of[at]].module for at in ends])
        return _common([self.modules[at] for at in ends])


def _in_order(graph: Walk) -> list[int]:
    """The ops in the order in which they were made, as far as that is known."""
    ops = [i for i in range(len(graph.records)) if graph.inputs[i]]
    listed = getattr(graph.records[0], "instructions", None)
    if listed is not None:
        order = {id(record): at for at, record in enumerate(listed)}
        return sorted(ops, key=lambda i: order.get(id(graph.records[i]), len(order)))
    made = [of_record(graph.records[i], "sequence") for i in ops]
    if None in made:
        return ops[::-1]
    return [i for _, i in sorted(zip(made, ops, strict=True))]


def _inputs(graph: Walk, groups: Sequence[Group]) -> list[list[int]]:
    """The groups that each group takes its inputs from."""
    place = {member: i for i, group in enumerate(groups) for member in group.members}
    return [
        [place[x] for member in group.members for x in graph.inputs[member] if place[x] != i]
        for i, group in enumerate(groups)
    ]


def _parent(module: str) -> str:
    return module.rpartition(".")[0]


def _common(modules: Sequence[str]) -> str:
    """The innermost module that all of these lie in."""
    paths = [module.split(".") for module in modules]
    common: list[str] = []
    for parts in zip(*paths, strict=False):
        if len(set(parts)) > 1:
            break
        common.append(parts[0])
    return ".".join(common)
