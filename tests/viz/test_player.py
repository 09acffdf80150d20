from __future__ import annotations

import base64
import functools
import hashlib
import io
import json
import math
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any

import mpmath
import numpy as np
import pytest
from matplotlib.image import imread

import micro
import tensor
from micro import Value
from micro.value import PARTIALS
from tensor import Tensor
from tests.viz.fakes import NASTY_LABELS, Fake
from tests.viz.players import (
    GRAPHS,
    Page,
    broadcast,
    contributions,
    diamond,
    embedded,
    expression,
    numbers,
    observed,
)
from viz import DrawingError, play
from viz.player.rules import rule_text

graphs = pytest.mark.parametrize("make", GRAPHS.values(), ids=GRAPHS)


# The engines' traces


def leaves_of(output: Any) -> list[Any]:
    """Every leaf with a gradient, in any order."""
    found, stack = [], [output]
    while stack:
        x = stack.pop()
        stack += x.inputs
        if not x.inputs and isinstance(x, Value | Tensor) and all(x is not y for y in found):
            found.append(x)
    return [x for x in found if getattr(x, "op", "") != "const"]


@graphs
def test_a_trace_ends_with_the_gradients_of_a_backward_pass(make: Callable[[], Any]) -> None:
    output = make()
    seen = observed(output)
    result = output.trace_backward(lambda *args, **said: None)
    output.backward()
    leaves = leaves_of(output)
    assert {id(x) for x, _ in result} == {id(x) for x in leaves}
    for leaf, g in result:
        last = [s["total"] for s in seen if s["receiver"] is leaf][-1]
        assert last == numbers(g) == numbers(leaf.grad)


@graphs
def test_every_total_is_what_was_added_so_far(make: Callable[[], Any]) -> None:
    output = make()
    totals: dict[int, Any] = {}
    for step in observed(output):
        key = id(step["receiver"])
        part = np.asarray(step["contribution"])
        totals[key] = totals[key] + part if key in totals else part
        np.testing.assert_allclose(step["total"], totals[key], rtol=1e-6, atol=1e-12)


@graphs
def test_a_node_passes_its_gradient_on_when_all_its_uses_are_in(make: Callable[[], Any]) -> None:
    output = make()
    seen = observed(output)
    first = {id(s["node"]): i for i, s in reversed(list(enumerate(seen)))}
    received = [s for i, s in enumerate(seen) if first.get(id(s["receiver"]), i + 1) <= i]
    assert received == []
    for step in seen[1:]:
        mine = [s["total"] for s in seen if s["receiver"] is step["node"]]
        assert not mine or step["g"] == mine[-1]


@graphs
def test_taking_a_trace_leaves_everything_as_it_was(make: Callable[[], Any]) -> None:
    output = make()
    leaves = leaves_of(output)
    for leaf in leaves:
        leaf.grad = Tensor(np.ones_like(leaf.data)) if isinstance(leaf, Tensor) else 0.25
    before = [(x.grad, numbers(x), numbers(x.grad), getattr(x, "version", 0)) for x in leaves]
    first, second = observed(output), observed(output)
    assert [s["total"] for s in first] == [s["total"] for s in second]
    assert [(x.grad, numbers(x), numbers(x.grad), getattr(x, "version", 0)) for x in leaves] == (
        before
    )
    output.backward()  # the graph is still there


def test_an_observer_cannot_disturb_the_pass() -> None:
    output = broadcast()

    def observe(node: Any, argument: int, **said: Any) -> None:
        for x in (said["g"], said["contribution"], said["total"], *said["given"].values()):
            if isinstance(x, np.ndarray):
                x[...] = math.nan

    disturbed = output.trace_backward(observe)
    output.backward()
    for leaf, g in disturbed:
        assert g.tolist() == leaf.grad.tolist()


def test_a_trace_calls_hooks_as_any_pass_does() -> None:
    x = Tensor(3.0, requires_grad=True)
    x.register_hook(lambda g: g * 10)
    ((_, g),) = (x * x).trace_backward(lambda *args, **said: None)
    assert g == 60.0


def test_an_error_in_the_observer_comes_out_and_changes_nothing() -> None:
    x = Tensor([1.0, 2.0], requires_grad=True)
    y = (x * x).sum()

    def observe(*args: Any, **said: Any) -> None:
        raise KeyError("planted")

    with pytest.raises(KeyError, match="planted"):
        y.trace_backward(observe)
    assert x.grad is None
    y.backward()
    assert numbers(x.grad) == [2.0, 4.0]


# The line that made a node


def test_ops_note_the_caller_s_line_only_where_that_is_asked_for() -> None:
    for leaf, record_sites in (
        (Value(2.0), micro.record_sites),
        (Tensor(2.0, requires_grad=True), tensor.record_sites),
    ):
        before = leaf * leaf
        with pytest.raises(KeyError), record_sites():
            inside = leaf * leaf
            raise KeyError
        after = leaf * leaf
        sites = [
            getattr(getattr(x, "node", x), "site", None) or None for x in (before, inside, after)
        ]
        line = ops_line("inside = leaf * leaf")
        assert sites == [None, f"{__file__}:{line}", None]


def ops_line(text: str) -> int:
    lines = Path(__file__).read_text("utf-8").splitlines()
    return next(i for i, line in enumerate(lines, 1) if line.strip() == text)


def test_ops_inside_a_model_note_the_line_that_called_it() -> None:
    model = micro.nn.MLP(2, [2, 1])
    with micro.record_sites():
        output = model([1.0, 2.0])
    assert output.site == f"{__file__}:{ops_line('output = model([1.0, 2.0])')}"


# The text of a rule


def test_a_rule_is_written_as_its_source_has_it() -> None:
    texts = {name: [rule_text(rule, {"a": 1.0}) for rule in PARTIALS[name]] for name in PARTIALS}
    assert texts["mul"] == ["b", "a"]  # two lambdas on a line
    assert texts["sub"] == ["1", "-1"]
    assert texts["relu"] == ["0 if a <= 0 else 1"]
    assert texts["exp"] == ["exp(a)"]
    assert texts["tanh"] == ["4 * sigmoid(2 * a) * sigmoid(-2 * a)"]
    assert texts["gelu"][0].startswith("def _gelu_slope(")
    assert not [text for several in texts.values() for text in several if "lambda" in text]


def test_a_rule_without_source_is_named() -> None:
    assert rule_text(math.sin, {"x": 1.0}) == "sin(x)"
    assert rule_text(functools.partial(pow, 2.0), {"x": 1.0}) == "partial(x)"


# The page


@graphs
def test_a_page_shows_what_the_engine_did(make: Callable[[], Any], tmp_path: Path) -> None:
    output = make()
    steps = contributions(embedded(play(output, tmp_path / "a.html")))
    seen = observed(output)
    assert len(steps) == len(seen) > 3
    for step, said in zip(steps, seen, strict=True):
        assert step["exact"] in (str(said["total"]), "")
    output.backward()
    shown = [json.loads(step["exact"]) for step in steps if step["exact"]]
    for leaf in leaves_of(output):
        assert np.size(numbers(leaf.grad)) > 12 or numbers(leaf.grad) in shown


@graphs
def test_the_edge_that_moves_is_that_of_the_argument(
    make: Callable[[], Any], tmp_path: Path
) -> None:
    output = make()
    path = play(output, tmp_path / "a.html")
    found = re.findall(r'data-edge="(\d+)">\s*<title>(.*?)</title>', path.read_text("utf-8"))
    titles = {int(number): title for number, title in found}
    for step, said in zip(contributions(embedded(path)), observed(output), strict=True):
        (edge,) = step["edges"]
        ends, _, label = titles[edge].partition(", ")
        assert ends == f"n{step['target']} to n{step['node']}"
        if len(said["node"].inputs) > 1:
            assert label.partition(":")[0] == str(said["argument"] + 1)


def test_a_wrong_rule_shows_in_the_page(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The page follows the engine, also where the engine is wrong."""
    monkeypatch.setitem(PARTIALS, "mul", (lambda a, b: 2 * b, PARTIALS["mul"][1]))
    steps = contributions(embedded(play(expression(), tmp_path / "a.html")))
    assert ["rule", "∂(a * b)/∂a = 2 * b"] in [detail for s in steps for detail in s["details"]]
    assert steps[1]["exact"] == "0.5"  # not 0.25


def test_the_diamond_is_told_step_by_step(tmp_path: Path) -> None:
    path = tmp_path / "a.html"
    with micro.record_sites():
        output = diamond()
    assert play(output, path) == path
    steps = embedded(path)["steps"]
    assert [s["says"] for s in steps[1:5]] == [
        "y = 3 * x = 3 * 2 = 6.",
        "v1 = 2 * y = 2 * 6 = 12.",
        "v2 = 5 * y = 5 * 6 = 30.",
        "v3 = v1 + v2 = 12 + 30 = 42.",
    ]
    assert [s["says"] for s in steps[-4:-1]] == [
        (
            "v1 passes its gradient on to y: 1 · 2 = 2. That was 1 of 2 uses of y: its gradient "
            "is not complete yet."
        ),
        (
            "v2 passes its gradient on to y: 1 · 5 = 5. y had 2 already; the two are added: "
            "2 + 5 = 7. All 2 uses of y have sent theirs now: its gradient is complete."
        ),
        "y passes its gradient on to x: 7 · 3 = 21.",
    ]
    assert steps[-2]["details"] == [
        ["rule", "∂(a * b)/∂b = a"],
        ["with", "a = 3"],
        ["derivative", "3"],
        ["contribution", "gradient of y · derivative = 7 · 3 = 21"],
        ["gradient of x", "21"],
    ]
    assert steps[-2]["site"][0].startswith("players.py:")
    assert steps[-2]["site"][1] == "y = 3 * x"
    assert "x gets 21." in steps[-1]["says"]


def test_an_array_that_no_rule_needs_is_said_to_be_gone(tmp_path: Path) -> None:
    x = Tensor([1.0, 2.0], requires_grad=True, label="x")
    says = [s["says"] for s in embedded(play((x + 1).sum(), tmp_path / "a.html"))["steps"]]
    assert says[1] == "v1 = x + 1, (2,) float32. No rule needs its elements: not kept."


def test_the_first_number_that_is_not_finite_is_pointed_out(tmp_path: Path) -> None:
    x = Value(0.0, label="x")
    y = x.log() * 2 + x
    steps = embedded(play(y, tmp_path / "a.html"))["steps"]
    found = [(s["phase"], s["says"]) for s in steps if "not finite for the first time" in s["says"]]
    assert [phase for phase, _ in found] == ["forward", "backward"]
    assert found[0][1].startswith("v1 = log(x) = log(0) = -inf.")
    assert found[1][1].startswith("v1 passes its gradient on to x")


@pytest.mark.parametrize("number", [Fraction(3, 4), mpmath.mpf("1.5"), 2j], ids=str)
def test_numbers_of_every_field_are_played(number: Any, tmp_path: Path) -> None:
    x = Value(number, label="x")
    y = x * x + 1
    steps = contributions(embedded(play(y, tmp_path / "a.html")))
    y.backward()
    assert steps[-1]["exact"] == str(x.grad)


def test_a_derivative_is_played_as_any_other_result(tmp_path: Path) -> None:
    x = Value(2.0, label="x")
    first = micro.grad(x**3, x, create_graph=True)
    assert contributions(embedded(play(first, tmp_path / "a.html")))[-1]["exact"] == "12.0"


def test_sums_of_arrays_are_told_too(tmp_path: Path) -> None:
    x = Tensor([1.0, 2.0], requires_grad=True, label="x")
    steps = contributions(embedded(play((x * x).sum(), tmp_path / "a.html")))
    assert steps[-1]["says"] == (
        "v1 passes its gradient on to x: [1, 2]. x had a part of its gradient already; the sum is "
        "[2, 4]. All 2 uses of x have sent theirs now: its gradient is complete."
    )
    assert steps[-1]["details"][-1] == ["gradient of x", "[1, 2] + [1, 2] = [2, 4]"]


@graphs
def test_a_page_is_sound_and_names_nothing_outside_itself(
    make: Callable[[], Any], tmp_path: Path
) -> None:
    page = Page(play(make(), tmp_path / "a.html").read_text("utf-8"))
    assert page.faults == []
    assert page.tags.count("svg") == page.tags.count("table") == 1
    digest = base64.b64encode(hashlib.sha256(page.texts["script"][-1].encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}'" in page.text
    assert "default-src 'none'" in page.text


@pytest.mark.parametrize(
    ("old", "new", "fault"),
    [
        ("</h1>", "", "</body> closes nothing"),
        ("<h2 ", '<h2 id="player" ', "id player is there twice"),
        ("<h2 ", '<img src="a.png"><h2 ', "links to a.png"),
        ("html {", "html { background: url(https://a.b/c);", "https://a.b/c"),
        ("<h2 ", '<h2 onclick="f()" ', "<h2> has onclick"),
    ],
)
def test_a_fault_of_a_page_is_found(old: str, new: str, fault: str, tmp_path: Path) -> None:
    text = play(expression(), tmp_path / "a.html").read_text("utf-8")
    assert any(fault in found for found in Page(text.replace(old, new, 1)).faults)


HOSTILE = (
    "</script><script>alert(1)</script>",
    "<!-- <script>",
    "\u2028\u2029'\"`",
    "{{title}} {{svg}} \\u003c",
    "</title></svg></table>",
    *NASTY_LABELS,
)


@pytest.mark.parametrize("label", HOSTILE)
def test_a_label_of_any_characters_is_text(label: str, tmp_path: Path) -> None:
    x = Value(2.0, label=label)
    path = play(x * x, tmp_path / "a.html", title=label)
    page = Page(path.read_text("utf-8"))
    assert page.faults == []
    assert page.tags.count("script") == 2
    assert "".join(page.texts["h1"]) == label
    says = embedded(path)["steps"][1]["says"]
    assert says.startswith(f"v1 = {' '.join(label.split())[:23]}")


def test_the_same_computation_gives_the_same_page(tmp_path: Path) -> None:
    pages = [play(expression(), tmp_path / f"{i}.html").read_bytes() for i in range(2)]
    assert pages[0] == pages[1]


@dataclass(eq=False)
class FakePlayable(Fake):
    """A result of no engine, with a pass of one step."""

    g: Any = field(default=1.0)

    def trace_backward(self, observe: Callable[..., object]) -> list[tuple[Any, Any]]:
        (x,) = self.inputs
        said = {"operands": ("x",), "given": {"x": 3.0}, "local": 6.0}
        observe(self, 0, rule=lambda x: 2 * x, g=1.0, contribution=6.0, total=6.0, **said)
        return [(x, 6.0)]


def test_what_belongs_to_no_engine_is_played_too(tmp_path: Path) -> None:
    square = FakePlayable("square", (Fake(label="x", data=3.0),), data=9.0)
    (step,) = contributions(embedded(play(square, tmp_path / "a.html")))
    assert step["details"][0] == ["rule", "∂(square(x))/∂x = 2 * x"]
    assert step["exact"] == "6.0"


# What is refused


def freed() -> Any:
    y = broadcast()
    y.backward()
    return y


NO_PASS: dict[str, tuple[Callable[[], Any], type[Exception], str]] = {
    "a leaf of micro": (lambda: Value(1.0), ValueError, "play: obj is a leaf"),
    "a number": (lambda: 3.0, TypeError, "play: obj is a float; wanted .* trace_backward"),
    "a class": (lambda: Value, TypeError, "play: obj is a type; wanted"),
    "no graph": (lambda: Tensor([1.0]), RuntimeError, "does not require grad"),
    "a leaf": (lambda: Tensor(1.0, requires_grad=True), ValueError, "play: obj is a leaf"),
    "no scalar": (
        lambda: Tensor([1.0, 2.0], requires_grad=True) * 2,
        RuntimeError,
        "only for scalar",
    ),
    "a freed graph": (freed, RuntimeError, "retain_graph=True"),
}


@pytest.mark.parametrize(("make", "error", "message"), NO_PASS.values(), ids=NO_PASS)
def test_what_has_no_backward_pass_is_refused(
    make: Callable[[], Any], error: type[Exception], message: str, tmp_path: Path
) -> None:
    with pytest.raises(error, match=message) as caught:
        play(make(), tmp_path / "a.html", frames=tmp_path / "frames")
    assert "\n" not in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_a_value_of_constants_alone_is_refused(tmp_path: Path) -> None:
    x = Value(2.0)
    with pytest.raises(RuntimeError, match="made of constants alone"):
        play(micro.grad(x * x, x), tmp_path / "a.html")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("path", "options", "error", "message"),
    [
        ("missing/a.html", {}, FileNotFoundError, "there is no folder .*missing"),
        ("a.html", {"frames": "missing/b"}, FileNotFoundError, "there is no folder .*missing"),
        ("a.png", {}, ValueError, r"wanted \.html"),
        ("a", {}, ValueError, r"wanted \.html"),
        ("folder.html", {}, IsADirectoryError, "is a folder"),
        ("a.html", {"frames": "file"}, NotADirectoryError, "a file; wanted a folder"),
        ("a.html", {"max_nodes": 4}, ValueError, "has 7 nodes, and max_nodes is 4"),
        ("a.html", {"max_nodes": 1}, ValueError, "wanted at least 2"),
        ("a.html", {"max_nodes": "9"}, TypeError, "play: max_nodes is '9'; wanted an int"),
        ("a.html", {"direction": "up"}, ValueError, "play: direction is 'up'"),
        ("a.html", {"parameters": 3}, TypeError, "play: parameters is a int"),
        ("a.html", {"frames": "frames", "scale": 0}, ValueError, "scale is 0"),
    ],
)
def test_an_argument_that_makes_no_sense_is_refused(
    path: str, options: dict[str, Any], error: type[Exception], message: str, tmp_path: Path
) -> None:
    (tmp_path / "folder.html").mkdir()
    (tmp_path / "file").write_text("")
    before = sorted(tmp_path.rglob("*"))
    if "frames" in options:
        options = {**options, "frames": tmp_path / options["frames"]}
    with pytest.raises(error, match=message):
        play(expression(), tmp_path / path, **options)
    assert sorted(tmp_path.rglob("*")) == before


def test_a_graph_beyond_the_limit_is_refused_before_the_pass(tmp_path: Path) -> None:
    x = Value(1.0)
    y = x
    for _ in range(100_000):
        y = y + x
    with pytest.raises(ValueError, match="has 100,001 nodes, and max_nodes is 150; play a smaller"):
        play(y, tmp_path / "a.html")
    assert list(tmp_path.iterdir()) == []


def test_a_limit_of_none_is_no_limit(tmp_path: Path) -> None:
    y = x = Value(1.0, label="x")
    for _ in range(160):
        y = y * x
    steps = contributions(embedded(play(y, tmp_path / "a.html", max_nodes=None)))
    assert steps[-1]["exact"] == "161.0"


def test_without_a_layout_nothing_is_written(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("viz.render.RENDERERS", ())
    with pytest.raises(DrawingError, match=r"smolgrad\[viz\]"):
        play(expression(), tmp_path / "a.html")
    assert list(tmp_path.iterdir()) == []


def test_a_page_is_written_beside_its_place_and_then_put_there(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    written: list[Path] = []
    write = Path.write_bytes
    monkeypatch.setattr(Path, "write_bytes", lambda p, b: (written.append(p), write(p, b))[1])
    path = play(expression(), tmp_path / "a.html")
    assert len(written) == 1
    assert written[0] != path
    assert list(tmp_path.iterdir()) == [path]


def test_a_page_that_cannot_be_completed_leaves_the_old_one(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    path = tmp_path / "a.html"
    path.write_text("old")
    write = Path.write_bytes

    def full(self: Path, content: bytes) -> int:
        write(self, content[:100])
        raise OSError("no space left")

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(OSError, match="no space left"):
        play(expression(), path)
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


# Frames


def test_every_step_is_a_frame(tmp_path: Path) -> None:
    folder = tmp_path / "frames"
    folder.mkdir()
    for name in ("step-099.png", "mine.png"):
        (folder / name).write_bytes(b"old")
    path = play(expression(), tmp_path / "a.html", frames=folder, scale=1.0)
    steps = embedded(path)["steps"]
    frames = sorted(folder.glob("step-*.png"))
    assert [frame.name for frame in frames] == [f"step-{n:03}.png" for n in range(len(steps))]
    assert (folder / "mine.png").read_bytes() == b"old"
    colours = {"forward": (0x12, 0x57, 0xA8), "backward": (0xA3, 0x47, 0x00)}
    for frame, step in zip(frames, steps, strict=True):
        image = np.round(imread(io.BytesIO(frame.read_bytes()))[..., :3] * 255).astype(int)
        for phase, colour in colours.items():
            there = bool((np.abs(image - colour).max(axis=-1) < 8).any())
            assert there == (step["phase"] == phase), frame.name
    assert len({frame.read_bytes() for frame in frames}) == len(frames)


def test_a_picture_has_the_texts_of_its_step() -> None:
    from viz.graph import Group, read, walk
    from viz.player.picture import Picture
    from viz.player.steps import tell
    from viz.trace import trace

    output = expression()
    found = walk(output)
    graph = read(found, [Group([i]) for i in range(len(found.records))], {})
    picture = Picture(tell(graph, found, trace(output)), "title", "LR")
    texts = [re.findall(r">([^<>]+)</text>", picture.svg(n)) for n in (0, 4, -1)]
    assert "data ·" in texts[0] and "grad ·" in texts[0]
    assert "data ·" not in texts[1] and "grad ·" in texts[1]
    assert "grad -1.5" in texts[2] and "grad ·" not in texts[2]
    at = texts[2].index("d")
    assert texts[2][at - 1 : at + 3] == ["+", "d", "data 4", "grad 0.5"]
