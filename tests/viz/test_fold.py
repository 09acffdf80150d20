from __future__ import annotations

import re
import time
from collections import Counter
from typing import Any

import pytest

import micro
from tests.viz.fakes import Fake, chain, network, tangle
from viz import Drawing, draw
from viz.fold import fold
from viz.graph import depths, walk


def edges_of(drawing: Drawing) -> int:
    return sum(edge.count for node in drawing.graph.nodes for edge in node.inputs)


def table(drawing: Drawing) -> str:
    return drawing.text().partition("\n\n")[2]


def test_nothing_is_folded_within_the_budget() -> None:
    drawing = draw(tangle(150), max_nodes=150)
    assert len(drawing.graph.nodes) == 150
    assert drawing.graph.folded == 0
    assert edges_of(drawing) == 2 * 149
    assert "fold" not in drawing.dot() + drawing.text()


@pytest.mark.parametrize("max_nodes", [2, 3, 10, 149])
def test_a_large_graph_is_folded_to_the_budget_and_says_how_much(max_nodes: int) -> None:
    drawing = draw(tangle(3_000), max_nodes=max_nodes)
    assert len(drawing.graph.nodes) == max_nodes
    folded = 3_000 - (max_nodes - 1)
    assert drawing.graph.folded == folded
    assert f"{folded:,} nodes folded" in drawing.dot()
    assert f"{folded:,} of 3,000 nodes are folded" in drawing.dot()
    assert f"{folded:,} of 3,000 nodes are folded" in drawing.text()


def test_every_edge_out_of_what_is_folded_is_counted() -> None:
    graph = walk(tangle(300))
    groups = fold(graph, 20)
    rest = set(groups[-1].members)
    crossing = sum(
        source in rest
        for i, inputs in enumerate(graph.inputs)
        if i not in rest
        for source in inputs
    )
    drawing = draw(tangle(300), max_nodes=20)
    last = len(drawing.graph.nodes) - 1
    counted = sum(e.count for node in drawing.graph.nodes for e in node.inputs if e.source == last)
    assert counted == crossing > 1


def test_whatever_uses_a_node_that_is_drawn_is_drawn_too() -> None:
    graph = walk(tangle(500, reach=90))
    groups = fold(graph, 50)
    rest = set(groups[-1].members)
    for i in rest:
        assert rest.issuperset(graph.inputs[i])
    depth = depths(graph.inputs)
    kept = [group.members[0] for group in groups[:-1]]
    assert max(depth[i] for i in kept) <= min(depth[i] for i in rest)


def test_every_record_is_in_one_group_at_any_budget() -> None:
    for graph in (walk(tangle(200)), walk(chain(100)), walk(Fake("mul", (chain(30), chain(30))))):
        for budget in (2, 5, 50, None):
            members = Counter(m for group in fold(graph, budget) for m in group.members)
            assert members == Counter(range(len(graph.records)))


def test_a_run_of_one_op_becomes_one_node_with_its_result() -> None:
    drawing = draw(chain(1_000), max_nodes=10)
    node, leaf = drawing.graph.nodes
    assert node.symbol == "add x 1,000"
    assert node.members == 2_000  # the literals that only the run uses are in it
    assert node.data is not None
    assert node.data.text == "1000"
    assert leaf.label == "x"


def test_a_run_ends_where_a_result_is_used_twice_or_has_a_label() -> None:
    first = chain(20)
    second = Fake("add", (first, Fake(data=1.0, is_constant=True)))
    third = Fake("add", (second, first))
    assert [len(g.members) > 1 for g in fold(walk(third), 10)].count(True) == 1
    named = chain(20)
    named.label = "half way"
    for _ in range(20):
        named = Fake("add", (named, Fake(data=1.0, is_constant=True)))
    drawing = draw(named, max_nodes=10)
    assert [node.label for node in drawing.graph.nodes if node.label] == ["half way", "x"]
    assert re.findall(r"add x (\d+)", table(drawing)) == ["20", "19"]


def test_a_run_ends_where_the_attributes_change() -> None:
    out = Fake(label="x")
    for i in range(40):
        out = Fake("clip", (out,), {"max": 1 if i < 20 else 2})
    assert re.findall(r"clip x (\d+)", table(draw(out, max_nodes=5))) == ["20", "20"]


def test_what_is_added_along_a_run_stays_in_the_drawing() -> None:
    shared = Fake(label="w")
    out = Fake(label="x")
    for _ in range(30):
        out = Fake("add", (out, shared))
    drawing = draw(out, max_nodes=5)
    nodes = drawing.graph.nodes
    assert {nodes[e.source].label: e.count for e in nodes[0].inputs} == {"w": 30, "x": 1}
    assert " 30 edges " in drawing.dot()


def test_sixty_doublings_are_drawn_one_by_one_and_folded() -> None:
    out = Fake(label="x")
    for _ in range(60):
        out = Fake("add", (out, out))
    drawing = draw(out)
    assert (len(drawing.graph.nodes), edges_of(drawing)) == (61, 120)
    assert [n.members for n in draw(out, max_nodes=3).graph.nodes] == [60, 1]


class Counted(Fake):
    """Counts how often it is asked for its inputs."""

    asked = 0

    def __getattribute__(self, name: str) -> Any:
        if name == "inputs":
            self.asked += 1
        return super().__getattribute__(name)


@pytest.mark.parametrize("ops", [("add",), ("add", "mul")])
def test_a_chain_of_a_hundred_thousand_is_drawn_without_recursion_in_linear_time(
    ops: tuple[str, ...], wasi: None
) -> None:
    x = out = Counted(label="x")
    nodes = [x]
    for i in range(100_000):
        out = Counted(ops[i % len(ops)], (out, x))
        nodes.append(out)
    for node in nodes:
        node.asked = 0
    drawing = draw(out)
    assert drawing.graph.nodes_in_all == 100_001
    assert len(drawing.graph.nodes) <= 150
    assert drawing.svg().count("<text") > 2
    assert max(node.asked for node in nodes) <= 12


def test_the_first_bad_value_is_pointed_at_though_it_is_folded() -> None:
    with micro.record_sites():
        x = micro.Value(0.0, label="x")
        bad = x.log()
        y = bad
        for _ in range(60):
            y = y + 1.0
    y.backward()
    drawing = draw(y, max_nodes=5)
    (box,) = (node for node in drawing.graph.nodes if node.kind == "folded")
    (note,) = (n for node in drawing.graph.nodes for n in node.notes if "value" in n)
    whole = draw(y, max_nodes=None).graph.nodes
    assert [node.op for node in whole if any("value" in n for n in node.notes)] == ["log"]
    assert "made at test_fold.py:" in note
    assert note.endswith(": bad = x.log()")
    assert note in drawing.text()
    hidden = draw(y, max_nodes=2).graph.nodes
    assert hidden[1].notes[0].startswith("first value that is not finite in here, of log, made at")
    assert hidden[1].notes[1] == "first gradient that is not finite in here"
    assert box.members > 2


def test_three_thousand_nodes_are_laid_out(renderer: str) -> None:
    svg = draw(tangle(3_000)).svg()
    assert svg.count('class="node') == 150
    assert "2,851 of 3,000 nodes are folded" in svg


def test_a_graph_with_long_edges_is_laid_out(renderer: str) -> None:
    weight = Fake(label="w", is_parameter=True)
    out = Fake(label="x")
    for i in range(70):  # a recurrent network: every step uses the one weight
        out = Fake(("mul", "tanh")[i % 2], (out, weight)[: 2 - i % 2])
        out = Fake("sub", (out, weight))
    drawing = draw(out)
    assert drawing.graph.span > 1_500
    assert drawing.svg().count('class="edge"') == sum(len(n.inputs) for n in drawing.graph.nodes)


@pytest.mark.parametrize(
    ("max_nodes", "error"), [(1, ValueError), (0, ValueError), (2.5, TypeError), (True, TypeError)]
)
def test_a_budget_that_makes_no_sense_is_refused(max_nodes: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match=rf"max_nodes is {max_nodes}; wanted"):
        draw(chain(3), max_nodes=max_nodes)


# Modules and repeated blocks


def symbols(drawing: Drawing) -> list[str]:
    return [node.symbol for node in drawing.graph.nodes if node.kind in ("op", "folded")]


def blocks(count: int, break_at: int = -1) -> Fake:
    """Blocks of three ops that know of no module; at ``break_at`` one is wired otherwise."""
    x = mask = Fake("exp", (Fake(label="x"),))
    for i in range(count):
        normed = Fake("norm", (x, Fake(is_parameter=True)))
        masked = Fake("mul", (normed, mask))
        x = Fake("add", (x, masked) if i != break_at else (masked, x))
    return Fake("sum", (x,))


def test_a_module_is_folded_into_a_box_of_its_name_with_its_own_parameters() -> None:
    drawing = draw(network(3), depth=2)
    assert symbols(drawing) == ["sum", "blocks.2", "blocks.1", "blocks.0", "linear"]
    box = drawing.graph.nodes[1]
    assert (box.members, box.contents, box.module) == (4, "norm, relu, add", "blocks")
    assert box.data is not None and box.data.text == "1"
    assert [node.label for node in drawing.graph.nodes if node.kind == "parameter"] == ["w"]
    assert drawing.graph.folded == 12
    assert "12 of 16 nodes are folded" in drawing.text()


@pytest.mark.parametrize(
    ("depth", "boxes"), [(1, ["blocks", "stem"]), (2, ["blocks.1", "blocks.0"]), (4, [])]
)
def test_depth_says_which_modules_are_folded(depth: int, boxes: list[str]) -> None:
    nodes = draw(network(2), depth=depth).graph.nodes
    assert [node.symbol for node in nodes if node.kind == "folded"] == boxes


def test_no_way_leads_out_of_a_box_and_back() -> None:
    x = Fake(label="x")
    first = Fake("exp", (x,), module="a")
    outside = Fake("log", (first,))
    again = Fake("exp", (outside,), module="a")
    drawing = draw(Fake("mul", (again, first), module="a"), depth=1)
    assert symbols(drawing) == ["a", "log", "exp"]
    for node in drawing.graph.nodes:
        assert all(edge.source > node.id for edge in node.inputs)


def test_within_the_budget_as_much_as_fits_is_shown() -> None:
    whole = len(draw(network(12)).graph.nodes)
    assert whole == 52
    sizes = [len(draw(network(12), max_nodes=n).graph.nodes) for n in range(2, whole + 1)]
    assert sizes == sorted(sizes)
    assert all(size <= n for size, n in zip(sizes, range(2, whole + 1), strict=True))
    assert set(sizes) >= {2, 5, 16, 40, 52}


def test_blocks_of_modules_are_named_from_the_first_to_the_last() -> None:
    drawing = draw(network(12), max_nodes=9)
    assert symbols(drawing) == ["sum", "blocks.0 … blocks.11 x 12", "linear"]
    assert drawing.graph.nodes[1].contents == "norm, relu, add"
    assert "blocks.0 … blocks.11 x 12" in drawing.dot()


def test_repeated_blocks_of_several_ops_become_one_node() -> None:
    drawing = draw(blocks(50), max_nodes=20)
    assert symbols(drawing) == ["sum", "(norm, mul, add) x 50", "exp"]
    box = drawing.graph.nodes[1]
    assert box.members == 200
    assert edges_of(drawing) == 1 + 52 + 1  # every block's mask, and the first one's two others
    assert drawing.graph.edges_in_all == 50 * 6 + 2


@pytest.mark.parametrize("break_at", [20, 21])
def test_a_block_that_is_wired_otherwise_is_no_copy(break_at: int) -> None:
    drawing = draw(blocks(50, break_at), max_nodes=20)
    counts = [int(n) for n in re.findall(r" x (\d+)", " ".join(symbols(drawing)))]
    assert sum(counts) in (48, 49)
    assert len(counts) == 2
    assert symbols(drawing).count("add") >= 1


def test_ops_that_follow_each_other_in_a_list_of_instructions_are_folded_in_that_order() -> None:
    class Listed(Fake):
        instructions: list[Fake]

    x = Fake(label="x")
    a, b = [x], [x]
    made = []
    for _ in range(10):  # two chains whose ops take turns
        for chain_ in (a, b):
            chain_.append(Fake("exp" if chain_ is a else "log", (chain_[-1],)))
            made.append(chain_[-1])
    output = Listed("return", (a[-1], b[-1]))
    output.instructions = made
    assert symbols(draw(output, max_nodes=10)) == ["return", "(exp, log) x 10"]
    del output.instructions
    assert symbols(draw(output, max_nodes=10)) == ["return", "exp x 10", "log x 10"]


def test_a_graph_of_ten_thousand_nodes_is_drawn_in_under_five_seconds(wasi: None) -> None:
    start = time.process_time()
    for graph in (tangle(10_000), network(2_500), blocks(2_500)):
        drawing = draw(graph)
        assert drawing.graph.nodes_in_all >= 10_000
        assert re.search(r"[\d,]+ of 1\d,\d{3} nodes are folded", drawing.svg())
    assert time.process_time() - start < 3 * 5


def test_an_input_that_was_not_given_is_not_drawn_and_the_others_keep_their_numbers() -> None:
    missing = Fake(is_missing=True)
    graph = Fake("norm", (Fake(label="x"), missing, Fake(label="b")), local=(2.0, None, 1.0))
    drawing = draw(graph)
    assert [node.label for node in drawing.graph.nodes] == ["", "x", "b"]
    edges = drawing.graph.nodes[0].inputs
    assert [(e.argument, e.derivative) for e in edges] == [(1, "2"), (3, "1")]


@pytest.mark.parametrize(("depth", "error"), [(0, ValueError), (1.5, TypeError), (True, TypeError)])
def test_a_depth_that_makes_no_sense_is_refused(depth: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match=rf"depth is {depth}; wanted"):
        draw(chain(3), depth=depth)
