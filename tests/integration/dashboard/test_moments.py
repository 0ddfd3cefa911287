"""Moments on pages are told by the clock of the machine that serves them, and the page says whose that is."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, timezone
from urllib.request import urlopen
from zoneinfo import ZoneInfo

import pytest
from playwright.sync_api import Browser, expect

from configs.moments import format_moment
from tests.history.campaign_history import a_full_history
from tests.integration.dashboard.browser import browser
from tests.integration.dashboard.serving import serving

__all__ = ["browser"]

SERVER = timezone(timedelta(hours=5, minutes=30))
DAY = r"\d{4}-\d\d-\d\d"
LOOKED_AT = "2026-11-27T20:30:05.123Z"


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("full")
    a_full_history(folder).close()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TZ", "IST-5:30")
        with serving(folder) as found:
            yield found


@pytest.fixture(scope="module")
def in_berlin(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("berlin")
    a_full_history(folder).close()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TZ", "CET-1CEST,M3.5.0,M10.5.0/3")
        with serving(folder) as found:
            yield found


def read(url: str) -> str:
    with urlopen(url) as answer:
        text: str = answer.read().decode()
    return text


def test_a_page_tells_when_a_campaign_started_by_its_server_s_clock(address: str) -> None:
    began = datetime.fromisoformat(json.loads(read(f"{address}/now.json"))["campaign"]["started_at"])
    html = read(address)
    assert f">{format_moment(began, SERVER)}</time>" in html
    assert ">Times in UTC+05:30</span>" in html


def test_a_browser_elsewhere_tells_what_it_tells_itself_by_that_clock_too(
    address: str, browser: Browser
) -> None:
    context = browser.new_context(timezone_id="America/New_York")
    page = context.new_page()
    page.goto(address)
    seen = json.dumps({"id": 1, "at": LOOKED_AT})
    page.evaluate("seen => localStorage.setItem('now.seen.C-1', seen)", seen)
    page.goto(address)
    expect(page.locator("#since time")).to_have_text("2026-11-28 02:00:05")
    of_a_chart = page.evaluate("import('/static/js/moments.js').then(({ clock }) => clock(0))")
    assert of_a_chart == "05:30:00"
    context.close()


def test_a_page_tells_both_offsets_of_a_zone_with_summer_time(in_berlin: str) -> None:
    [foot] = re.findall(r">Times of the last year in ([^<]*)</span>", read(in_berlin))
    assert re.fullmatch(rf"UTC\+0[12]:00, from {DAY} to {DAY} in UTC\+0[12]:00", foot)
    assert "UTC+01:00" in foot
    assert "UTC+02:00" in foot


def test_a_browser_tells_each_moment_with_the_offset_of_its_own_date(
    in_berlin: str, browser: Browser
) -> None:
    now = datetime.now(UTC)
    moments = [now - timedelta(days=each) for each in range(0, 360, 20)]
    page = browser.new_page()
    page.goto(in_berlin)
    told = page.evaluate(
        "async all => { const { moment } = await import('/static/js/moments.js'); return all.map(moment) }",
        [each.timestamp() * 1000 for each in moments],
    )
    assert told == [format_moment(each, ZoneInfo("Europe/Berlin")) for each in moments]
    page.close()
