"""Players and drawings in a browser: Debian's Chromium, headless. Run by ``make test-browser``."""

from __future__ import annotations

import html
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, sync_playwright

import micro
import tensor
from tests.viz.fakes import network
from tests.viz.players import (
    GRAPHS,
    contributions,
    embedded,
    expression,
    numbers,
    observed,
    scalar_mlp,
)
from viz import draw, play
from viz.player.numbers import show

pytestmark = pytest.mark.browser

PHONE: Final[dict[str, Any]] = {
    "viewport": {"width": 360, "height": 640},
    "is_mobile": True,
    "has_touch": True,
    "device_scale_factor": 2,
}


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    found = [os.environ.get("CHROMIUM"), *map(shutil.which, ("chromium", "chromium-browser"))]
    path = next((path for path in found if path), None)
    assert path, "these tests need Chromium on PATH (Debian: apt-get install chromium) or $CHROMIUM"
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=path, args=["--no-sandbox", "--disable-gpu"]
        )
        yield browser
        browser.close()


@pytest.fixture
def visit(browser: Browser) -> Iterator[Callable[..., Page]]:
    """Open a page, and hold at the end that nothing went wrong in it and nothing left it."""
    contexts: list[BrowserContext] = []
    complaints: list[str] = []

    def visit(path: Path, address: str = "", **options: Any) -> Page:
        context = browser.new_context(**{"reduced_motion": "reduce", **options})
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("request", lambda request: requested(request.url))

        def requested(url: str) -> None:
            if not url.startswith((path.as_uri(), "data:")):
                complaints.append(url)

        page.goto(path.as_uri() + address)
        return page

    yield visit
    for context in contexts:
        context.close()
    assert complaints == []


@pytest.mark.parametrize("sandbox", ["", 'sandbox="allow-scripts"'])
def test_within_another_page_a_player_leaves_address_and_history_alone(
    visit: Callable[..., Page], tmp_path: Path, sandbox: str
) -> None:
    player = play(expression(), tmp_path / "inner.html").read_text("utf-8")
    outer = tmp_path / "outer.html"
    frame = f'<iframe {sandbox} width="900" height="700" srcdoc="{html.escape(player)}"></iframe>'
    outer.write_text(f"<!DOCTYPE html><title>outer</title>{frame}", "utf-8")
    page = visit(outer)
    entries = page.evaluate("history.length")
    inner = page.frame_locator("iframe")
    step = inner.locator("#player")
    inner.locator("#next").click()
    inner.locator("#next").click()
    page.wait_for_timeout(500)  # the address of a page of its own would have followed
    assert step.get_attribute("data-step") == "2"
    inner.locator("#row-5 a").click()
    page.wait_for_timeout(100)
    assert step.get_attribute("data-step") == "5"
    assert page.url == outer.as_uri()
    assert page.evaluate("history.length") == entries


@pytest.fixture
def page(visit: Callable[..., Page], tmp_path: Path) -> Page:
    with micro.record_sites():
        output = expression()
    return visit(play(output, tmp_path / "a.html"))


def step(page: Page) -> int:
    return int(page.get_attribute("#player", "data-step") or -1)


def text_of(page: Page, row: str, node: int) -> str:
    return page.locator(f'[data-node="{node}"] [data-row="{row}"]').text_content() or ""


@pytest.mark.parametrize("make", GRAPHS.values(), ids=GRAPHS)
def test_every_step_shows_the_gradient_of_the_engine(
    make: Callable[[], Any], visit: Callable[..., Page], tmp_path: Path
) -> None:
    output = make()
    path = play(output, tmp_path / "a.html")
    page, steps, told = visit(path), embedded(path)["steps"], iter(seen_by(output))
    for n, said in enumerate(steps):
        assert step(page) == n
        assert page.text_content("#says") == said["says"]
        if contributions({"steps": [said]}):
            total = next(told)
            assert text_of(page, "grad", said["target"]) == f"grad {show(total, in_node=True)}"
            assert page.locator(".node.works").get_attribute("data-node") == str(said["node"])
            assert page.locator(".edge.moves").count() == 1
            assert page.get_attribute("#player", "data-exact") in (str(numbers(total)), "")
        page.keyboard.press("ArrowRight")
    assert next(told, None) is None
    output.backward()
    for i, leaf in leaves(output, steps[-1]):
        shown, grad = text_of(page, "grad", i), show(getattr(leaf.grad, "data", leaf.grad), True)
        assert shown == f"grad {grad}" or (shown, grad) == ("grad -0", "0")  # -0 added to 0 is 0


def seen_by(output: Any) -> list[Any]:
    totals: list[Any] = []
    output.trace_backward(lambda node, i, **said: totals.append(said["total"]))
    return totals


def leaves(output: Any, last: dict[str, Any]) -> list[tuple[int, Any]]:
    """The leaves of the graph that get a gradient, by their numbers in the drawing."""
    from viz.graph import walk

    records = walk(output).records
    found = [place for row, place, _, _ in last["shows"] if row == "grad"]
    assert found
    return [(i, records[i]) for i in found]


def test_a_gradient_builds_up_and_comes_down_again(page: Page) -> None:
    d = next(
        int(node.get_attribute("data-node") or -1)
        for node in page.locator(".node").all()
        if "d" in node.locator("text").all_text_contents()
    )
    seen = []
    for _ in range(9):
        seen.append(text_of(page, "grad", d))
        page.keyboard.press("ArrowRight")
    assert seen[5:] == ["grad ·", "grad ·", "grad 0.25", "grad 0.5"]
    for _ in range(9):
        page.keyboard.press("ArrowLeft")
    assert step(page) == 0
    assert text_of(page, "grad", d) == "grad ·"


def test_keys_and_buttons_and_the_scrubber_go_to_steps(page: Page) -> None:
    last = int(page.get_attribute("#scrubber", "max") or 0)
    assert step(page) == 0 and last == 13
    for key, wanted in (
        ("ArrowLeft", 0),
        ("ArrowRight", 1),
        ("End", last),
        ("ArrowRight", last),
        ("ArrowLeft", last - 1),
        ("Home", 0),
    ):
        page.keyboard.press(key)
        assert step(page) == wanted, key
    for button, wanted in (
        ("#next", 1),
        ("#next", 2),
        ("#back", 1),
        ("#last", last),
        ("#next", last),
        ("#first", 0),
        ("#back", 0),
    ):
        page.click(button, force=True)  # at the ends they say that they are disabled
        assert step(page) == wanted, button
        assert page.input_value("#scrubber") == str(wanted)
    page.locator("#scrubber").fill("7")
    assert step(page) == 7
    page.focus("#scrubber")
    for key, wanted in (("ArrowRight", 8), ("ArrowLeft", 7), ("End", last), ("Home", 0)):
        page.keyboard.press(key)
        assert step(page) == wanted, key
    page.keyboard.press("Control+End")
    assert step(page) in (0, last)  # the browser's own
    assert page.get_attribute("#scrubber", "aria-valuetext")


def test_it_plays_by_itself_until_it_is_stopped(visit: Callable[..., Page], tmp_path: Path) -> None:
    page = visit(play(expression(), tmp_path / "a.html"))
    page.clock.install()
    page.reload()
    page.keyboard.press("Space")
    assert page.text_content("#run") == "Pause"
    page.clock.run_for(4_000)
    assert step(page) == 2
    page.click("#run")
    page.clock.run_for(10_000)
    assert step(page) == 2
    page.click("#run")
    page.clock.run_for(100_000)
    assert step(page) == 13
    assert page.text_content("#run") == "Play"
    page.keyboard.press("Space")  # the focus is on the button: pressed once, not twice
    assert step(page) == 0
    page.keyboard.press("ArrowRight")
    assert page.text_content("#run") == "Play"


def test_the_address_and_the_table_lead_to_steps(
    visit: Callable[..., Page], tmp_path: Path
) -> None:
    path = play(expression(), tmp_path / "a.html")
    page = visit(path, "#step-8")
    assert step(page) == 8
    page.click("#row-3 a")
    page.wait_for_selector("#player[data-step='3']")
    assert page.get_attribute("tr[aria-current]", "id") == "row-3"
    page.keyboard.press("ArrowRight")
    page.wait_for_url(path.as_uri() + "#step-4")
    for address in ("#step-99", "#step-", "#elsewhere"):
        assert step(visit(path, address)) == (13 if address == "#step-99" else 0)


def test_the_keyboard_alone_reaches_everything_and_is_never_held(page: Page) -> None:
    reached = []
    for _ in range(60):
        page.keyboard.press("Tab")
        focus = page.evaluate(
            """() => {
              const e = document.activeElement, style = getComputedStyle(e);
              return [e.id || e.tagName, e.matches(':focus-visible') && style.outlineStyle];
            }"""
        )
        reached.append(focus[0])
        if focus[0] == "BODY":
            break
        assert focus[1] not in (False, "none"), focus
    assert reached[:7] == ["graph", "first", "back", "run", "next", "last", "scrubber"]
    assert reached[-1] == "BODY"  # out of the page again
    page.focus("#next")
    page.keyboard.press("Enter")
    page.keyboard.press("Space")
    assert step(page) == 2
    assert page.get_attribute("#says", "aria-live") == "polite"


def test_every_button_is_named(page: Page) -> None:
    for name in ("First step", "Step back", "Play", "Next step", "Last step"):
        assert page.get_by_role("button", name=name, exact=True).count() == 1
    assert page.get_by_role("slider", name="Step").count() == 1
    assert page.get_by_role("img", name="Graph of y").count() == 1


@pytest.mark.parametrize("make", [expression, scalar_mlp, GRAPHS["array_mlp"]])
def test_a_phone_scrolls_no_page_sideways_and_has_large_buttons(
    make: Callable[[], Any], visit: Callable[..., Page], tmp_path: Path
) -> None:
    page = visit(play(make(), tmp_path / "a.html"), **PHONE)
    for _ in range(int(page.get_attribute("#scrubber", "max") or 0)):
        page.tap("#next")
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    for button in page.locator("button").all():
        box = button.bounding_box()
        assert box
        assert min(box["width"], box["height"]) >= 44
    box = page.locator("#next").bounding_box()
    assert box
    assert box["y"] + box["height"] <= 640  # in reach of the thumb


def test_what_moves_is_in_sight(visit: Callable[..., Page], tmp_path: Path) -> None:
    page = visit(play(scalar_mlp(), tmp_path / "a.html", direction="LR"), **PHONE)
    for _ in range(int(page.get_attribute("#scrubber", "max") or 0)):
        page.tap("#next")
        inside = page.evaluate(
            """() => {
              const frame = document.getElementById('graph').getBoundingClientRect();
              const node = document.querySelector('.gets') ?? document.querySelector('.works');
              if (!node) return true;
              const box = node.getBoundingClientRect(), x = (box.left + box.right) / 2;
              return frame.left <= x && x <= frame.right;
            }"""
        )
        assert inside, step(page)


def colours(page: Page) -> list[Any]:
    return list(
        page.evaluate(
            """() => [
              getComputedStyle(document.documentElement).backgroundColor,
              getComputedStyle(document.querySelector('.paper')).fill,
              getComputedStyle(document.querySelector('.op text')).fill,
            ]"""
        )
    )


def test_a_dark_screen_is_dark_and_paper_is_light(
    visit: Callable[..., Page], tmp_path: Path
) -> None:
    path = play(expression(), tmp_path / "a.html")
    light, dark = (visit(path, color_scheme=scheme) for scheme in ("light", "dark"))
    white = ["rgb(255, 255, 255)"] * 2
    assert colours(light)[:2] == white
    assert colours(dark)[:2] == ["rgb(22, 24, 29)"] * 2
    assert colours(dark)[2] != colours(light)[2]
    dark.emulate_media(media="print", color_scheme="dark")
    assert colours(dark)[:2] == white


def test_on_paper_there_is_the_last_picture_and_the_table_of_all_steps(page: Page) -> None:
    page.emulate_media(media="print")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert not page.is_visible("#controls")
    assert not page.is_visible("#now")
    assert text_of(page, "grad", 0) == "grad 1"
    assert page.locator("tbody tr").count() == 14
    assert page.locator("tbody tr:visible").count() == 14
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    assert text_of(page, "grad", 0) == "grad ·"
    assert len(page.pdf()) > 10_000


@pytest.mark.parametrize(("motion", "animated"), [("reduce", "none"), ("no-preference", "flow")])
def test_nothing_moves_where_that_is_not_wanted(
    motion: str, animated: str, visit: Callable[..., Page], tmp_path: Path
) -> None:
    page = visit(play(expression(), tmp_path / "a.html"), "#step-8", reduced_motion=motion)
    assert (
        page.evaluate("getComputedStyle(document.querySelector('.moves path')).animationName")
        == animated
    )


def test_without_scripts_there_are_the_last_picture_and_the_table(
    visit: Callable[..., Page], tmp_path: Path
) -> None:
    page = visit(play(expression(), tmp_path / "a.html"), java_script_enabled=False)
    assert "grad -1.5" in page.locator("[data-row=grad]").all_text_contents()
    assert page.locator("tbody tr").count() == 14
    assert "Without scripts" in (page.text_content("noscript") or "")


def test_a_hostile_label_stays_text(visit: Callable[..., Page], tmp_path: Path) -> None:
    label = "</script><img src=x onerror=alert(1)>\u2028'\"{{svg}}"
    x = tensor.Tensor(2.0, requires_grad=True, label=label)
    page = visit(play(x * x, tmp_path / "a.html", title=label))
    assert page.title() == label
    assert page.locator("img").count() == 0
    page.keyboard.press("End")
    assert label[:20] in (page.text_content("#says") or "")


def test_a_step_that_is_shown_wrongly_is_found(visit: Callable[..., Page], tmp_path: Path) -> None:
    """The comparison above can fail: here a page says 0.75 where the engine has 0.5."""
    path = play(expression(), tmp_path / "a.html")
    path.write_text(path.read_text("utf-8").replace("grad 0.5", "grad 0.75"), "utf-8")
    page = visit(path, "#step-8")
    totals = [said["total"] for said in observed(expression())]
    target = embedded(path)["steps"][8]["target"]
    assert text_of(page, "grad", target) != f"grad {show(totals[2])}"


def test_a_request_that_leaves_the_page_is_refused_by_it(browser: Browser, tmp_path: Path) -> None:
    path = play(expression(), tmp_path / "a.html")
    context = browser.new_context()
    page = context.new_page()
    refused: list[str] = []
    page.on("console", lambda message: refused.append(message.text))
    page.goto(path.as_uri())
    page.evaluate("fetch('https://example.org/').catch(() => 0)")
    context.close()
    assert any("Content Security Policy" in text for text in refused)


def test_a_click_on_a_node_of_a_drawing_opens_what_is_in_it(
    visit: Callable[..., Page], tmp_path: Path
) -> None:
    drawing = draw(network(2), depth=2, zoom=True)
    page = visit(drawing.save(tmp_path / "a.html"))
    (name,) = [node.name for node in drawing.graph.nodes if node.symbol == "blocks.0"]
    assert not page.locator(f"#zoom-{name}").is_visible()
    page.locator(f'a[href="#zoom-{name}"]').click()
    assert page.locator(f"#zoom-{name}").is_visible()
    assert page.locator("details[open]").count() == 1
    page.locator("summary").first.focus()
    page.keyboard.press("Enter")
    assert page.locator("details[open]").count() == 2
