"""Every page in a real browser: no complaint, nothing from elsewhere or sideways; and what a push keeps."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, Route, expect
from sqlalchemy import select

from db import events
from db.event_kinds import EventKind
from db.labels import Noun
from db.models import Hypothesis
from db.session import open_database
from tests.history.large_history import large_history
from tests.history.large_story import Size
from tests.integration.dashboard.accessibility import Part, faults_of, faults_of_looks, sideways
from tests.integration.dashboard.browser import THEMES, Complaints, Look, browser, looking
from tests.integration.dashboard.serving import addresses, serving
from tests.new_database import database_url, new_database

__all__ = ["browser"]

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

SIZE = Size(experiments=24, events=60)
"""Enough for an outcome of each kind that is drawn, and for a finding: what axe costs grows with the rows."""

NUMBERS = {Noun.CAMPAIGN: 1, Noun.HYPOTHESIS: 5, Noun.EXPERIMENT: 6, Noun.FINDING: 1}
PUSHES, MANY_PUSHES = 5, 20
"""Pushes that a page must bear, in the suite and in `make looks`."""

SMALL_PHONE_PX, TABLET_PX = 360, 740
BETWEEN_PX = (SMALL_PHONE_PX, 660, TABLET_PX, 830, 920)
"""Widths between those that every page is looked at in, below and above which layouts change."""
LATE_MS = 1_000
SAY_OF_STREAM = """([word, age]) => {
  document.querySelector("[data-live-text]").textContent = word;
  document.querySelector("[data-live-age]").textContent = age;
}"""

ROWS = 8
"""Of a list's page: there is another page after it, and axe need not look at the same row again and again."""

LOOKS = [Look(theme, width) for theme in THEMES for width in (390, 1440)]
"""Each theme of a phone and a laptop: all of them are looked at by `make looks`."""


DOZEN = (
    *("caching", "chunking", "context", "drafting", "gdn_prefill", "gdn_state"),
    *("graphs", "kernel", "kv_cache", "pruning", "quantization", "sequences"),
)
"""Levers that one hypothesis changes together."""


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("full")
    database = large_history(folder, SIZE)
    with database.write() as session:
        for row in session.scalars(select(Hypothesis).where(Hypothesis.rank.is_not(None)).limit(2)):
            row.lever = "+".join(DOZEN)  # as random search proposes them
    database.close()
    return folder


@pytest.fixture(scope="module")
def address(data_dir: Path) -> Iterator[str]:
    with serving(data_dir) as found:
        yield found


@pytest.fixture(scope="module")
def empty_address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("empty")
    new_database(folder).close()
    with serving(folder) as found:
        yield found


def happens(data_dir: Path, text: str) -> None:
    database = open_database(database_url(data_dir))
    try:
        with database.write() as session:
            events.append(session, EventKind.NOTE_ADDED, text)
    finally:
        database.close()


TOP = "id => document.getElementById(id).getBoundingClientRect().top"
"""Pixels of an element below the window's upper edge."""


def looked_at(page: Page, complaints: Complaints, url: str, status: int, part: Part) -> list[str]:
    """Open a page; what is wrong with it, a line each."""
    answer = page.goto(url)
    assert answer is not None
    expect(page.locator("main h1")).to_have_count(1)
    said = [each for each in complaints.found if status == 200 or str(status) not in each]
    complaints.found.clear()
    told = [] if answer.status == status else [f"answers {answer.status}"]
    return [*told, *said, *faults_of(page, part), *sideways(page)]


def turned(page: Page, complaints: Complaints, look: Look, part: Part) -> list[str]:
    """The same in another theme and width, without loading it again, and whether it fits further widths."""
    look.turn(page)
    said = [*complaints.found, *faults_of_looks(page, part), *sideways(page)]
    complaints.found.clear()
    for width in SMALL_PHONE_PX, TABLET_PX:
        Look(look.theme, width).turn(page)
        said += [f"at {width} px: {each}" for each in sideways(page)]
    return said


def toured(
    browser: Browser,
    address: str,
    pages: Mapping[str, int],
    first: Look,
    second: Look | None = None,
    part: Part = "html",
) -> list[str]:
    """Look at a part of pages, each with the status it should have; then turn each to the second look.

    The first page is looked at as a whole, and what turning changes is looked at in what is a page's own.
    """
    told = []
    opening = next(iter(pages))
    with looking(browser, address, first) as (page, complaints):
        for path, status in pages.items():
            first.turn(page)
            said = looked_at(page, complaints, address + path, status, "html" if path == opening else part)
            told += [f"{path} {first}: {each}" for each in said]
            if second is not None:
                said = turned(page, complaints, second, "html" if path == opening else "main")
                told += [f"{path} {second}: {each}" for each in said]
    return told


FULL = dict.fromkeys(addresses(NUMBERS, ROWS).values(), 200)
EMPTY = {path: 404 if any(each in path for each in ("-0", "/C-1")) else 200 for path in FULL}
"""Pages of things that are not there say so."""


def test_every_page_is_clean_and_accessible_in_both_themes_and_never_wider_than_its_window(
    browser: Browser, address: str
) -> None:
    told = toured(browser, address, FULL, Look("dark", 390), Look("light", 1440), "main")
    assert not told, "\n".join(told)


@pytest.mark.bench_only
def test_an_empty_database_is_as_clean(browser: Browser, empty_address: str) -> None:
    missing = [path for path, status in EMPTY.items() if status == 404]
    pages = {path: status for path, status in EMPTY.items() if path not in missing[1:]}  # they look the same
    told = toured(browser, empty_address, pages, Look("light", 1440), Look("dark", 390), "main")
    assert not told, "\n".join(told)


@pytest.mark.bench_only
@pytest.mark.parametrize("look", LOOKS, ids=str)
def test_every_page_opened_in_each_theme_and_width(
    browser: Browser, address: str, empty_address: str, look: Look
) -> None:
    told = toured(browser, address, FULL, look) + toured(browser, empty_address, EMPTY, look)
    assert not told, "\n".join(told)


def test_the_bar_is_never_wider_than_the_window(browser: Browser, address: str) -> None:
    told = []
    with looking(browser, address) as (page, _):
        page.goto(f"{address}/costs")
        expect(page.locator("[data-live-age]")).not_to_be_empty()  # then the bar is widest
        for width in range(340, 1441, 70):
            Look("light", width).turn(page)
            told += [f"{width}: {each}" for each in sideways(page)]
    assert not told, "\n".join(told)


@pytest.mark.bench_only  # in the suite every page is laid out for a small phone and a tablet above
def test_no_page_scrolls_sideways_on_a_small_phone_or_a_tablet(browser: Browser, address: str) -> None:
    told = []
    with looking(browser, address) as (page, _):
        for path in addresses(NUMBERS, ROWS).values():
            page.goto(f"{address}{path}")
            for width in BETWEEN_PX:
                Look("light", width).turn(page)
                told += [f"{path} at {width} px: {each}" for each in sideways(page)]
    assert not told, "\n".join(told)


BUDGET_APART = """([spent, left]) => {
  const [one, other] = document.querySelector(".ph-b .bud-h").children;
  one.textContent = spent;
  other.textContent = left;
  const [before, after] = [one.getBoundingClientRect(), other.getBoundingClientRect()];
  return after.top >= before.bottom ? Infinity : after.left - before.right;
}"""
"""The pixels between what of a budget is spent and what is left, with these words; no limit below it."""


@pytest.mark.parametrize("width", [SMALL_PHONE_PX, 390, 1440])
def test_what_is_spent_of_a_budget_and_what_is_left_never_touch(
    browser: Browser, address: str, width: int
) -> None:
    words = ["1 min 14 s of 9 min 40 s", "1 min 12 s for what runs · 7 min 14 s left"]
    with looking(browser, address, Look("dark", width)) as (page, _):
        page.goto(f"{address}/")
        assert page.evaluate(BUDGET_APART, words) >= 8


@pytest.mark.parametrize("step_px", [80, pytest.param(20, marks=pytest.mark.bench_only)])
def test_the_bar_has_room_for_whatever_it_says_of_the_stream(
    browser: Browser, address: str, step_px: int
) -> None:
    told = []
    with looking(browser, address) as (page, _):
        page.goto(f"{address}/queue")
        for width in range(320, 1200, step_px):
            Look("light", width).turn(page)
            for said in (
                ("Connecting", ""),
                ("Reconnecting", " · 59 s ago"),
                ("Paused · 12 new", " · 59 s ago"),
            ):
                page.evaluate(SAY_OF_STREAM, list(said))
                told += [f"{said} at {width} px: {each}" for each in sideways(page)]
    assert not told, "\n".join(told)


@pytest.mark.parametrize("pushes", [PUSHES, pytest.param(MANY_PUSHES, marks=pytest.mark.bench_only)])
def test_pushes_keep_focus_selection_scroll_and_what_was_typed(
    browser: Browser, address: str, data_dir: Path, pushes: int
) -> None:
    with looking(browser, address) as (page, complaints):
        page.goto(f"{address}/log")
        expect(page.locator("#live")).to_have_attribute("data-state", "live")
        page.locator("input[name=since]").fill("12")
        row = page.locator("#view tbody tr").nth(40)
        known = row.get_attribute("id")
        page.evaluate("id => { document.getElementById(id).kept = true; }", known)
        page.evaluate("scrollTo(0, 300)")
        page.locator(f"#{known} a").first.focus()
        page.evaluate("id => getSelection().selectAllChildren(document.getElementById(id))", known)
        selected = page.evaluate("getSelection().toString()")
        place = page.evaluate(TOP, known)
        for number in range(pushes):
            happens(data_dir, f"push {number} came")
            expect(page.locator("#view")).to_contain_text(f"push {number} came")
        assert page.evaluate("id => document.getElementById(id).kept", known), "the row is another node"
        assert page.evaluate("id => document.getElementById(id).contains(document.activeElement)", known)
        assert page.evaluate("getSelection().toString()") == selected
        assert page.locator("input[name=since]").input_value() == "12"
        assert page.evaluate(TOP, known) == pytest.approx(place, abs=1), "the row moved under the eye"
        assert complaints.found == []


def test_paused_counts_what_is_new_and_going_on_shows_it_without_a_reload(
    browser: Browser, address: str, data_dir: Path
) -> None:
    with looking(browser, address, Look("dark", 1440)) as (page, complaints):
        page.goto(f"{address}/log")
        live = page.locator("#live")
        expect(live).to_have_attribute("data-state", "live")
        page.evaluate("window.same = true")
        live.click()
        for number in range(3):
            happens(data_dir, f"while paused {number}")
        expect(live).to_contain_text("3 new")
        expect(page.locator("#view")).not_to_contain_text("while paused")
        live.click()
        expect(page.locator("#view")).to_contain_text("while paused 2")
        expect(live).to_have_attribute("data-state", "live")
        assert page.evaluate("window.same")
        assert complaints.found == []


def test_keys_move_find_and_list_themselves(browser: Browser, address: str) -> None:
    with looking(browser, address) as (page, complaints):
        page.goto(f"{address}/log")
        expect(page.locator("#live")).to_have_attribute("aria-pressed", "false")
        page.keyboard.press("j")
        first = page.evaluate("document.activeElement.closest('tr').id")
        page.keyboard.press("j")
        assert page.evaluate("document.activeElement.closest('tr').id") != first
        page.keyboard.press("k")
        assert page.evaluate("document.activeElement.closest('tr').id") == first
        page.keyboard.press("?")
        expect(page.locator("#keys")).to_be_visible()
        assert faults_of(page) == []
        page.keyboard.press("Escape")
        expect(page.locator("#keys")).not_to_be_visible()
        page.keyboard.press("Control+k")
        page.keyboard.type("idea 7")
        expect(page.locator("#found li").first).to_contain_text("H-007")
        assert faults_of(page) == []
        page.keyboard.press("Enter")
        page.wait_for_url("**/hypotheses/H-007")
        page.keyboard.press("g")
        page.keyboard.press("l")
        page.wait_for_url("**/log")
        assert [each for each in complaints.found if "404" not in each] == []


def test_a_theme_is_kept_and_more_opens_and_closes_on_a_phone(browser: Browser, address: str) -> None:
    with looking(browser, address, Look("light", 390)) as (page, complaints):
        page.goto(f"{address}/log")
        page.locator("[data-toggle-theme]").click()
        page.goto(f"{address}/pareto")
        assert page.evaluate("document.documentElement.dataset.theme") == "dark"
        page.locator(".more summary").click()
        expect(page.locator(".more .menu")).to_be_visible()
        assert faults_of(page) == []
        page.keyboard.press("Escape")
        expect(page.locator(".more .menu")).not_to_be_visible()
        assert complaints.found == []


def test_a_stream_begins_however_late_its_extension_comes(
    browser: Browser, address: str, data_dir: Path
) -> None:
    with looking(browser, address) as (page, complaints):

        def late(route: Route) -> None:
            page.wait_for_timeout(LATE_MS)
            route.continue_()

        page.route("**/hx-sse.min.js*", late)
        page.goto(f"{address}/log")
        happens(data_dir, "it happened all the same")
        expect(page.locator("#view")).to_contain_text("it happened all the same")
        expect(page.locator("#live")).to_have_attribute("data-state", "live")
        assert complaints.found == []


def test_a_stream_that_could_not_begin_is_told_and_tried_again(
    browser: Browser, address: str, data_dir: Path
) -> None:
    answers: list[Callable[[Route], None]] = [
        lambda route: route.abort(),
        lambda route: route.fulfill(status=503, json={"error": "The database is locked.", "hint": "Wait."}),
    ]
    with looking(browser, address) as (page, _):
        page.route("**/log.stream*", lambda route: answers.pop(0)(route), times=len(answers))
        page.goto(f"{address}/log")
        expect(page.locator("#lost")).to_be_visible()
        shown = page.locator("#view").inner_html()
        expect(page.locator("#live")).to_have_attribute("data-state", "live")
        assert answers == []
        assert page.locator("#view").inner_html() == shown, "words in place of a view were shown as one"
        happens(data_dir, "it happened after all")
        expect(page.locator("#view")).to_contain_text("it happened after all")


# In the suite a stream ends and begins again above, and goes on without a gap in test_log_page.py.
@pytest.mark.bench_only
def test_a_server_that_is_away_is_told_and_its_return_is_seen_by_itself(
    browser: Browser, tmp_path: Path
) -> None:
    large_history(tmp_path, Size(experiments=20, events=200)).close()
    with serving(tmp_path) as address:
        port = int(address.rpartition(":")[2])
        shown = looking(browser, address)
        page, _ = shown.__enter__()
        page.goto(f"{address}/log")
        happens(tmp_path, "it happened before")
        expect(page.locator("#view")).to_contain_text("it happened before")
        expect(page.locator("#live")).to_have_attribute("data-state", "live")
    try:
        expect(page.locator("#lost")).to_be_visible()
        expect(page.locator("#live")).to_have_attribute("data-state", "lost")
        happens(tmp_path, "it happened meanwhile")
        with serving(tmp_path, port):
            expect(page.locator("#view")).to_contain_text("it happened meanwhile")
            expect(page.locator("#lost")).not_to_be_visible()
    finally:
        shown.__exit__(None, None, None)
