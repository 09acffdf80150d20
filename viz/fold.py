"""Making a large graph small enough to be looked at, without losing count."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .graph import Group, Walk, depths, is_constant, symbol_of
from .summary import describe_attrs

__all__ = ["fold"]

SHORTEST_CHAIN = 3


def fold(graph: Walk, max_nodes: int | None) -> list[Group]:
    """Put the records into at most ``max_nodes`` groups, one record in each where that is enough.

    First a run of one op, in which each result is used by the next alone, becomes one node.
    If that is not enough, the nodes nearest the output stay (by the longest way, so that whatever
    uses a node that stays does too) and the rest becomes one.
    """
    singles = [Group([i]) for i in range(len(graph.records))]
    if max_nodes is None or len(singles) <= max_nodes:
        return singles
    groups = _fold_chains(graph)
    if len(groups) <= max_nodes:
        return groups
    depth = depths(_inputs(graph, groups))
    by_depth = sorted(range(len(groups)), key=depth.__getitem__)
    near = sorted(by_depth[: max_nodes - 1])
    far = [member for i in by_depth[max_nodes - 1 :] for member in groups[i].members]
    return [*(groups[i] for i in near), Group(far, "…")]


def _fold_chains(graph: Walk) -> list[Group]:
    users: list[list[int]] = [[] for _ in graph.records]
    for i, inputs in enumerate(graph.inputs):
        for x in inputs:
            users[x].append(i)
    following = [_next_in_chain(graph, users, i) for i in range(len(graph.records))]
    taken: set[int] = set()
    groups: list[Group] = []
    for i in range(len(graph.records)):  # the output's end of a chain comes first
        if i in taken:
            continue
        chain = [i]
        while (link := following[chain[-1]]) is not None:
            chain.append(link)
        if len(chain) < SHORTEST_CHAIN:
            groups.append(Group([i]))
            continue
        inside = set(chain)
        sources = {x for link in chain for x in graph.inputs[link] if not graph.inputs[x]}
        literals = {
            x for x in sources if is_constant(graph.records[x]) and inside.issuperset(users[x])
        }
        taken |= inside | literals
        title = f"{symbol_of(graph.records[i])} x {len(chain):,}"
        groups.append(Group([*chain, *sorted(literals)], title, has_one_result=True))
    # a literal comes after the chain that swallows it: it is one of that chain's inputs
    return groups


def _next_in_chain(graph: Walk, users: Sequence[Sequence[int]], i: int) -> int | None:
    """The one input of i made by the same op, with the same attributes and for i alone."""
    record = graph.records[i]
    alike = [
        x
        for x in dict.fromkeys(graph.inputs[i])
        if graph.inputs[x]
        and graph.records[x].op == record.op
        and all(user == i for user in users[x])
        and not getattr(graph.records[x], "label", "")
        and _attrs(graph.records[x]) == _attrs(record)
    ]
    return alike[0] if len(alike) == 1 else None


def _attrs(record: Any) -> str:
    return describe_attrs(getattr(record, "attrs", {}))


def _inputs(graph: Walk, groups: Sequence[Group]) -> list[list[int]]:
    """The groups that each group takes its inputs from."""
    place = {member: i for i, group in enumerate(groups) for member in group.members}
    return [
        [place[x] for member in group.members for x in graph.inputs[member] if place[x] != i]
        for i, group in enumerate(groups)
    ]
