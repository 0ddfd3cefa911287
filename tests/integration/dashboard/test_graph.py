"""The whole graph in a real browser: drawn, moved and zoomed by hand, and what a push adds moves nothing."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from db.states import VerdictOutcome
from tests.history.campaign_history import a_full_history
from tests.integration.dashboard.accessibility import faults_of, sideways
from tests.integration.dashboard.browser import PATIENCE_MS, browser, looking
from tests.integration.dashboard.serving import serving

__all__ = ["browser"]

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

PLACES = """Object.fromEntries(document.getElementById("canvas").graph.nodes().map((each) =>
    [each.id(), [each.position("x"), each.position("y")]]))"""

VIEW = """(({ graph }) => ({ zoom: graph.zoom(), ...graph.pan() }))(document.getElementById("canvas"))"""

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
        page.mouse.wheel(0, 120)
        assert page.evaluate(VIEW)["zoom"] < moved["zoom"]
        page.get_by_role("button", name="All of it").click()
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

        place = after["H-001"]
        zoom, left, top = view["zoom"], view["x"], view["y"]
        page.mouse.click(box["x"] + left + zoom * place[0], box["y"] + top + zoom * place[1])
        page.wait_for_url("**/knowledge?node=H-001")
        assert complaints.found == []
