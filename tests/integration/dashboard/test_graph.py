"""The whole graph in a real browser: drawn, moved and zoomed by hand, and what a push adds moves nothing."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from db.states import VerdictOutcome
from tests.history.campaign_history import a_full_history
from tests.history.large_history import large_history
from tests.history.large_story import Size
from tests.integration.dashboard.accessibility import faults_of, sideways
from tests.integration.dashboard.browser import PATIENCE_MS, browser, looking
from tests.integration.dashboard.serving import serving
from tests.waiting import wait_for

__all__ = ["browser"]

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

PLACES = """Object.fromEntries(document.getElementById("canvas").graph.nodes().map((each) =>
    [each.id(), [each.position("x"), each.position("y")]]))"""

READABLE_ZOOM = 0.5
"""At which a name of 11 px takes no more than the 20 px from one row to the next, by far."""

VIEW = """(({ graph }) => ({ zoom: graph.zoom(), ...graph.pan() }))(document.getElementById("canvas"))"""

RESTS = "!document.getElementById('canvas').graph.renderer().scrollingPage"
"""Whether the page scrolls no more: until then the wheel is the page's."""

COLOURS = """(() => {
  const canvas = document.querySelector("#canvas canvas");
  const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
  const seen = new Set();
  for (let at = 0; at < data.length; at += 4) {
    if (data[at + 3] === 255) seen.add(data.slice(at, at + 3).join());
  }
  return seen.size;
})()"""
"""How many colours were drawn that nothing shines through."""


def test_the_graph_is_drawn_dragged_zoomed_and_grows_without_moving_a_node(
    browser: Browser, tmp_path: Path
) -> None:
    history = a_full_history(tmp_path)
    with serving(tmp_path) as address, looking(browser, address) as (page, complaints):
        page.goto(f"{address}/knowledge?whole=1")
        expect(page.locator("#canvas[data-nodes]")).to_have_count(1, timeout=PATIENCE_MS)
        before = page.evaluate(PLACES)
        assert page.evaluate(COLOURS) > 3
        expect(page.locator("#canvas-told")).to_contain_text(f"{len(before)} nodes")

        assert [*faults_of(page), *sideways(page)] == []
        page.get_by_role("button", name="All of it").click()

        page.locator("#canvas").scroll_into_view_if_needed()
        box = page.locator("#canvas").bounding_box()
        assert box is not None
        x, y = box["x"] + box["width"] / 2, box["y"] + 12
        view = page.evaluate(VIEW)
        page.mouse.move(x, y)
        page.mouse.down()
        page.mouse.move(x + 30, y + 40, steps=5)
        page.mouse.up()
        moved = page.evaluate(VIEW)
        assert (moved["x"] - view["x"], moved["y"] - view["y"]) == pytest.approx((30, 40))
        wait_for(lambda: page.evaluate(RESTS))
        page.mouse.wheel(0, 120)
        assert page.evaluate(VIEW)["zoom"] < moved["zoom"]
        page.get_by_role("button", name="All of it").click()
        assert page.evaluate(VIEW) == view

        page.locator("#canvas").focus()
        page.keyboard.press("ArrowRight")
        page.keyboard.press("+")
        assert page.evaluate(VIEW)["zoom"] == pytest.approx(2 * view["zoom"])
        page.keyboard.press("0")
        assert page.evaluate(VIEW) == view
        page.get_by_role("button", name="Further").click()

        view = page.evaluate(VIEW)
        more = history.propose(
            {"serving.threads": 1, "serving.dtype": "bfloat16"}, claim="Both are faster.", parents=[1]
        )
        history.judge(more, VerdictOutcome.SUPPORTED)
        history.database.close()
        with_more = page.locator(f"#canvas:not([data-nodes='{len(before)}'])")
        expect(with_more).to_have_count(1, timeout=PATIENCE_MS)
        after = page.evaluate(PLACES)
        assert set(before) < set(after)
        assert {node: after[node] for node in before} == before
        assert page.evaluate(VIEW) == view

        box = page.locator("#canvas").bounding_box()  # what stands above it may have grown
        assert box is not None
        place = after["H-001"]
        zoom, left, top = view["zoom"], view["x"], view["y"]
        page.mouse.click(box["x"] + left + zoom * place[0], box["y"] + top + zoom * place[1])
        page.wait_for_url("**/knowledge?node=H-001")
        assert complaints.found == []


LINES = """(({ graph }) => {
  const { scene } = graph.renderer().picture;
  const shown = [...scene.plain, ...scene.against].map((place) => scene.nodes[place][1]);
  return { shown: [...new Set(shown)].sort(), pointed: scene.pointed };
})(document.getElementById("canvas"))"""
"""Kinds of nodes at the ends of lines, and the place of the one that is pointed at."""


def test_lines_that_nearly_every_node_has_show_where_one_is_pointed_at_alone(
    browser: Browser, tmp_path: Path
) -> None:
    a_full_history(tmp_path).database.close()
    with serving(tmp_path) as address, looking(browser, address) as (page, complaints):
        page.goto(f"{address}/knowledge?whole=1")
        expect(page.locator("#canvas[data-nodes]")).to_have_count(1, timeout=PATIENCE_MS)
        assert page.evaluate(LINES) == {"shown": ["experiment", "finding", "hypothesis"], "pointed": -1}

        page.locator("#canvas").scroll_into_view_if_needed()
        box, view, place = page.locator("#canvas").bounding_box(), page.evaluate(VIEW), page.evaluate(PLACES)
        assert box is not None
        x, y = place["H-001"]
        page.mouse.move(box["x"] + view["x"] + view["zoom"] * x, box["y"] + view["y"] + view["zoom"] * y)
        expect(page.locator("#canvas")).to_have_attribute("title", re.compile("^H-001: "))
        named = "(at => document.getElementById('canvas').graph.renderer().picture.scene.nodes[at][0])"
        assert page.evaluate(named, page.evaluate(LINES)["pointed"]) == "H-001"
        assert complaints.found == []


def test_a_large_graph_begins_where_its_names_can_be_read(browser: Browser, tmp_path: Path) -> None:
    large_history(tmp_path, Size(experiments=250, events=300)).close()
    with serving(tmp_path) as address, looking(browser, address) as (page, complaints):
        for width in (390, 1280):
            page.set_viewport_size({"width": width, "height": 844})
            page.goto(f"{address}/knowledge?whole=1")
            expect(page.locator("#canvas[data-nodes]")).to_have_count(1, timeout=PATIENCE_MS)
            assert int(page.locator("#canvas").get_attribute("data-nodes") or 0) > 500
            start = page.evaluate(VIEW)
            assert start["zoom"] >= READABLE_ZOOM
            page.get_by_role("button", name="All of it").click()
            assert page.evaluate(VIEW)["zoom"] < start["zoom"]
            assert [*faults_of(page), *sideways(page)] == []
        assert complaints.found == []
