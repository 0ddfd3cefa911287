"""Every page in a real browser: no complaint, nothing from elsewhere or sideways; and what a push keeps."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, expect

from db import events
from db.event_kinds import EventKind
from db.labels import Noun
from db.session import open_database
from tests.history.large_history import large_history
from tests.history.large_story import Size
from tests.integration.dashboard.browser import browser, looking
from tests.integration.dashboard.serving import addresses, serving
from tests.new_database import database_url, new_database

__all__ = ["browser"]

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

SIZE = Size(experiments=40, events=600)
NUMBERS = {Noun.CAMPAIGN: 1, Noun.HYPOTHESIS: 5, Noun.EXPERIMENT: 6, Noun.FINDING: 1}
PUSHES = 20

LOOKS = [
    ("dark", 390),
    ("light", 1440),
    pytest.param("dark", 1440, marks=pytest.mark.bench_only),
    pytest.param("light", 390, marks=pytest.mark.bench_only),
]
"""Theme and width of the window. Each theme and each width is looked at in every run, and with `make looks`
each theme at each width."""


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("full")
    large_history(folder, SIZE).close()
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


def faults_of(page: Page) -> list[str]:
    """What axe finds, a line each with the element it found it on."""
    found = Axe().run(page)
    return [
        f"{each['id']}: {node['html'][:160]}"
        for each in found.response["violations"]
        for node in each["nodes"]
    ]


def sideways(page: Page) -> float:
    """Pixels that the page is wider than its window."""
    wider = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
    return float(wider)


@pytest.mark.parametrize(("theme", "width"), LOOKS)
def test_every_page_opens_without_a_complaint_and_is_accessible(
    browser: Browser, address: str, theme: str, width: int
) -> None:
    told = []
    with looking(browser, address, theme, width) as (page, complaints):
        for name, path in addresses(NUMBERS).items():
            page.goto(address + path)
            expect(page.locator("main h1")).to_have_count(1)
            told += [f"{name}: {each}" for each in (*complaints.found, *faults_of(page))]
            complaints.found.clear()
            if (pixels := sideways(page)) > 0:
                told.append(f"{name}: scrolls {pixels:.0f} px sideways")
    assert not told, "\n".join(told)


NEED_A_CAMPAIGN = ("what_if", "enqueue")
"""Pages that say in a sentence that there is no campaign where there is none."""


@pytest.mark.parametrize(("theme", "width"), LOOKS[:2])
def test_an_empty_database_is_as_clean(browser: Browser, empty_address: str, theme: str, width: int) -> None:
    told = []
    with looking(browser, empty_address, theme, width) as (page, complaints):
        for name, path in addresses(NUMBERS).items():
            answer = page.goto(empty_address + path)
            assert answer is not None
            missing = answer.status == 404 and ("-0" in path or "/C-1" in path)  # what its path names
            if answer.status == 404 and name in NEED_A_CAMPAIGN:
                expect(page.locator("main")).to_contain_text("There is no campaign yet.")
                missing = True
            said = [each for each in complaints.found if not (missing and "404" in each)]
            told += [f"{name}: {each}" for each in (*said, *faults_of(page))]
            complaints.found.clear()
            if (pixels := sideways(page)) > 0:
                told.append(f"{name}: scrolls {pixels:.0f} px sideways")
    assert not told, "\n".join(told)


def test_pushes_keep_focus_selection_scroll_and_what_was_typed(
    browser: Browser, address: str, data_dir: Path
) -> None:
    with looking(browser, address, "light", 1440) as (page, complaints):
        page.goto(f"{address}/log")
        expect(page.locator("#live")).to_have_attribute("data-state", "live")
        page.locator("input[name=since]").fill("12")
        row = page.locator("#view tbody tr").nth(40)
        known = row.get_attribute("id")
        page.evaluate("id => { document.getElementById(id).kept = true; }", known)
        page.evaluate("scrollTo(0, 300)")
        page.locator(f"#{known} a").first.focus(timeout=5_000)
        page.evaluate("id => getSelection().selectAllChildren(document.getElementById(id))", known)
        selected = page.evaluate("getSelection().toString()")
        place = page.evaluate("scrollY")
        for number in range(PUSHES):
            happens(data_dir, f"push {number} came")
            expect(page.locator("#view")).to_contain_text(f"push {number} came")
        assert page.evaluate("id => document.getElementById(id).kept", known), "the row is another node"
        assert page.evaluate("id => document.getElementById(id).contains(document.activeElement)", known)
        assert page.evaluate("getSelection().toString()") == selected
        assert page.locator("input[name=since]").input_value() == "12"
        moved = page.evaluate("id => document.getElementById(id).getBoundingClientRect().top", known)
        assert 0 < moved < 900, f"the row went out of sight: {moved} px, scrolled {place}"
        assert complaints.found == []


def test_paused_counts_what_is_new_and_going_on_shows_it_without_a_reload(
    browser: Browser, address: str, data_dir: Path
) -> None:
    with looking(browser, address, "dark", 1440) as (page, complaints):
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
    with looking(browser, address, "light", 1440) as (page, complaints):
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
    with looking(browser, address, "light", 390) as (page, complaints):
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


def test_a_server_that_is_away_is_told_and_its_return_is_seen_by_itself(
    browser: Browser, tmp_path: Path
) -> None:
    large_history(tmp_path, Size(experiments=20, events=200)).close()
    with serving(tmp_path) as address:
        port = int(address.rpartition(":")[2])
        shown = looking(browser, address, "light", 1440)
        page, _ = shown.__enter__()
        page.goto(f"{address}/log")
        expect(page.locator("#live")).to_have_attribute("data-state", "live")
    try:
        expect(page.locator("#lost")).to_be_visible(timeout=20_000)
        expect(page.locator("#live")).to_have_attribute("data-state", "lost")
        happens(tmp_path, "it happened meanwhile")
        with serving(tmp_path, port):
            expect(page.locator("#view")).to_contain_text("it happened meanwhile", timeout=20_000)
            expect(page.locator("#lost")).not_to_be_visible()
    finally:
        shown.__exit__(None, None, None)
