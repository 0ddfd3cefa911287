"""The report where a table is wider than the screen: that there is more of it is seen at its edge."""

from __future__ import annotations

import io
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

import pytest
from PIL import Image
from playwright.sync_api import Browser, Locator, expect

from dashboard.report.html import as_html
from knowledge.report.gathering import report
from tests.history.campaign_history import a_full_history
from tests.integration.dashboard.browser import browser

__all__ = ["browser"]

SEEN = 12
"""Levels of grey, of 255, by which an edge is another one than the paper beside it."""


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("report")
    history = a_full_history(folder)
    with history.database.read() as session:
        text = as_html(report(session, 1, datetime(2026, 11, 23, 12, tzinfo=UTC)))
    history.close()
    file = folder / "report.html"
    file.write_text(text, encoding="utf-8")
    return file


def shaded(table: Locator) -> tuple[bool, bool]:
    """Whether there is a shadow at the left edge of a table, and at its right one; its text is hidden."""
    drawn = Image.open(io.BytesIO(table.screenshot())).convert("L")
    row = drawn.height // 2
    paper = drawn.getpixel((drawn.width // 2, row))
    ends = (drawn.getpixel((place, row)) for place in (1, drawn.width - 2))
    assert isinstance(paper, int)
    left, right = (isinstance(each, int) and abs(each - paper) >= SEEN for each in ends)
    return left, right


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_a_table_that_goes_on_has_a_shadow_at_the_edge_behind_which_it_does(
    browser: Browser, written: Path, theme: Literal["light", "dark"]
) -> None:
    context = browser.new_context(viewport={"width": 390, "height": 844}, color_scheme=theme)
    page = context.new_page()
    page.goto(written.as_uri())
    tables = page.locator(".tab").all()
    wide = next(each for each in tables if each.evaluate("e => e.scrollWidth > e.clientWidth + 60"))
    wide.evaluate("e => { e.firstElementChild.style.visibility = 'hidden' }")
    expect(wide).to_be_attached()
    assert shaded(wide) == (False, True)
    wide.evaluate("e => { e.scrollLeft = 30 }")
    assert shaded(wide) == (True, True)
    wide.evaluate("e => { e.scrollLeft = e.scrollWidth }")
    assert shaded(wide) == (True, False)
    page.set_viewport_size({"width": 2400, "height": 844})
    wide.evaluate("e => { e.firstElementChild.style.minInlineSize = '0' }")
    assert shaded(wide) == (False, False), "where all of it is seen there is none"
    context.close()
