"""The queue, the form and the tree by the keyboard alone; and two people who edit one queue."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, Route, expect
from sqlalchemy import update

from db import events
from db.event_kinds import EventKind
from db.models import Verdict
from db.session import open_database
from db.states import VerdictOutcome
from tests.history.large_history import large_history
from tests.history.large_story import Size
from tests.integration.dashboard.accessibility import faults_of
from tests.integration.dashboard.browser import browser, looking
from tests.integration.dashboard.serving import serving
from tests.new_database import database_url

__all__ = ["browser"]

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

PUSHES = 5

MOST_STEPS = 60
"""Of the Tab key from one control to another: what is farther can't be called reachable."""

HERE = "document.activeElement.getAttribute('aria-label') || document.activeElement.textContent.trim()"
ROW = "document.activeElement.closest('tr')?.id"


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("journeys")
    database = large_history(folder, Size(experiments=24, events=60))
    with database.write() as session:  # the best so far is the baseline, whose change any machine can test
        session.execute(update(Verdict).values(outcome=VerdictOutcome.REFUTED))
    database.close()
    return folder


@pytest.fixture(scope="module")
def address(data_dir: Path) -> Iterator[str]:
    with serving(data_dir) as found:
        yield found


def ranked(data_dir: Path) -> int:
    """The queue was put in order again, which its page tells; the id of the event."""
    database = open_database(database_url(data_dir))
    try:
        with database.write() as session:
            return events.append(session, EventKind.QUEUE_RANKED, "Ranked again.", campaign_id=1)
    finally:
        database.close()


def tab_to(page: Page, there: Callable[[], bool], key: str = "Tab") -> None:
    for _ in range(MOST_STEPS):
        page.keyboard.press(key)
        if there():
            return
    raise AssertionError(f"{MOST_STEPS} steps of {key} from the beginning lead to {page.evaluate(HERE)!r}")


def on(page: Page, words: str) -> Callable[[], bool]:
    """Whether the focus is on what is called so."""
    return lambda: re.search(words, page.evaluate(HERE)) is not None


def opened(page: Page, address: str, path: str) -> None:
    page.goto(address + path)


def labels(page: Page) -> list[str]:
    found: list[str] = page.eval_on_selector_all("tr[data-place]", "rows => rows.map(row => row.id)")
    return found


def test_the_queue_is_moved_pinned_and_withdrawn_by_keys(browser: Browser, address: str) -> None:
    with looking(browser, address) as (page, complaints):
        opened(page, address, "/queue")
        first, second, third, *_ = labels(page)
        said = page.locator("#said")

        page.keyboard.press("j")  # the row that is tested
        while page.evaluate(ROW) != first:
            page.keyboard.press("j")
        page.keyboard.press("Alt+ArrowDown")
        expect(said).to_contain_text(f"{first} is put at place 2.")
        expect(page.locator(f"#{first}")).to_contain_text("Goes to 2 at the next ranking.")
        assert page.evaluate(ROW) == first

        tab_to(page, on(page, f"^Pin {second}$"))
        page.keyboard.press("Enter")
        expect(page.get_by_role("button", name=f"Unpin {second}")).to_have_attribute("aria-pressed", "true")
        expect(said).to_contain_text(f"{second} is pinned.")
        assert on(page, f"^Unpin {second}$")(), "the focus stays on the button"

        tab_to(page, on(page, f"^Move, withdraw or steer {second}$"))
        page.keyboard.press("Enter")
        assert faults_of(page) == []
        tab_to(page, lambda: page.evaluate("document.activeElement.name") == "why")
        page.keyboard.type("measured by hand")
        page.keyboard.press("Enter")
        expect(said).to_contain_text(f"{second} is withdrawn: measured by hand.")
        expect(page.locator(f"#{second}")).to_have_count(0)
        expect(page.locator(f"#{third}:focus-within")).to_have_count(1)  # it came into the place

        tab_to(page, on(page, f"^Move, withdraw or steer {third}$"))
        page.keyboard.press("Enter")
        tab_to(page, lambda: page.evaluate("document.activeElement.name") == "to")
        page.keyboard.type("5")
        page.keyboard.press("Enter")
        expect(said).to_contain_text(f"{third} is put at place 5.")
        assert on(page, f"^Move, withdraw or steer {third}$")(), "the focus goes back to what opened the menu"
        assert complaints.found == []


def test_pushes_keep_an_open_menu_and_what_is_typed_in_it(
    browser: Browser, address: str, data_dir: Path
) -> None:
    with looking(browser, address) as (page, complaints):
        opened(page, address, "/queue")
        label = labels(page)[2]
        menu = page.locator(f"#menu-{label}")
        menu.locator("summary").click()
        field = menu.locator("input[name=why]")
        field.fill("half a reason")
        field.evaluate("field => { field.kept = true; field.setSelectionRange(5, 11); }")
        for _ in range(PUSHES):
            number = ranked(data_dir)
            expect(page.locator("#view .sub").first).to_contain_text(f"event {number}")
        expect(menu).to_have_attribute("open", "")
        assert field.input_value() == "half a reason"
        state = "[field.kept, document.activeElement === field, field.selectionStart, field.selectionEnd]"
        assert field.evaluate(f"field => {state}") == [True, True, 5, 11]
        assert complaints.found == []


def test_what_would_follow_is_told_in_a_row_s_menu_and_stays_there_while_pushes_come(
    browser: Browser, address: str, data_dir: Path
) -> None:
    with looking(browser, address) as (page, complaints):
        opened(page, address, "/queue")
        label = labels(page)[2]
        menu = page.locator(f"#menu-{label}")
        menu.locator("summary").click()
        menu.locator("select[name=outcome]").select_option("refuted")
        expect(menu.locator("input[name=saves]")).to_be_hidden()
        menu.get_by_role("button", name="Show").click()
        told = menu.locator(".q-then")
        expect(told).to_contain_text(f"If {label} is refuted, so that it changes nothing")
        number = ranked(data_dir)
        expect(page.locator("#view .sub").first).to_contain_text(f"event {number}")
        expect(menu).to_have_attribute("open", "")
        expect(told).to_contain_text(f"If {label} is refuted")
        assert complaints.found == []


def test_a_hypothesis_is_filled_in_previewed_and_sent_by_keys(browser: Browser, address: str) -> None:
    with looking(browser, address) as (page, complaints):
        opened(page, address, "/enqueue")
        knob, preview = "document.activeElement.dataset.knob", page.locator(".eq-r .df-k")
        tab_to(page, lambda: page.evaluate(knob) == "serving.dtype")
        page.keyboard.press("ArrowDown")
        expect(preview).to_contain_text("serving.dtype")  # before there is a claim
        assert page.evaluate(knob) == "serving.dtype"
        tab_to(page, lambda: page.evaluate("document.activeElement.id") == "claim", "Shift+Tab")
        page.keyboard.type("Half the <bits> are enough")
        tab_to(page, lambda: page.evaluate(knob) == "serving.compile")
        page.keyboard.press("ArrowDown")
        expect(preview).to_have_count(2)
        assert page.evaluate(knob) == "serving.compile"
        assert page.locator("#claim").input_value() == "Half the <bits> are enough"
        assert "serving.compile" in page.url
        assert faults_of(page) == []
        tab_to(page, on(page, "^Enqueue$"))
        page.keyboard.press("Enter")
        page.wait_for_url("**/queue#H-*")
        row = page.locator(f"#{page.url.partition('#')[2]}")
        expect(row).to_contain_text("Half the <bits> are enough")
        assert complaints.found == []


def test_choices_faster_than_the_answers_are_all_kept(browser: Browser, address: str) -> None:
    """Changes while the first is being answered: form, preview and address show all three. What is chosen
    within a moment is asked about at once, so they are two questions or three."""
    wanted = ("serving.dtype", "serving.compile", "serving.threads")
    asked: list[str] = []

    def late(route: Route) -> None:
        asked.append(route.request.url)
        if len(asked) > 1:
            route.continue_()

    with looking(browser, address) as (page, complaints):
        opened(page, address, "/enqueue")
        page.route(re.compile("/enqueue[?]"), late)
        for knob in wanted:
            page.locator(f"[data-knob='{knob}']").focus()
            page.keyboard.press("ArrowDown")
        expect(page.locator(".eq-r .df-k")).to_have_count(len(wanted))
        assert len(asked) > 1, "the first is never answered, so another had all"
        assert all(knob in page.url for knob in wanted)
        assert complaints.found == []


def test_the_tree_is_walked_and_opened_by_keys(browser: Browser, address: str) -> None:
    with looking(browser, address) as (page, complaints):
        opened(page, address, "/knowledge")
        inside = "document.activeElement.matches('#tree [role=treeitem]')"
        key = "document.activeElement.parentElement.id"
        tab_to(page, lambda: bool(page.evaluate(inside)))
        root = page.evaluate(key)
        page.keyboard.press("ArrowRight")
        child = page.evaluate(key)
        assert child != root
        page.keyboard.press("ArrowLeft")
        while page.evaluate(key) != root:
            page.keyboard.press("ArrowLeft")
        page.keyboard.press("ArrowLeft")
        assert page.evaluate("document.activeElement.getAttribute('aria-expanded')") == "false"
        expect(page.locator(f"#{child}")).not_to_be_visible()
        assert faults_of(page) == []
        page.keyboard.press("ArrowRight")
        expect(page.locator(f"#{child}")).to_be_visible()
        page.keyboard.press("End")
        last = page.evaluate(key)
        page.keyboard.press("Home")
        assert page.evaluate(key) == root != last
        page.keyboard.press("ArrowDown")
        assert page.evaluate(key) == child
        page.keyboard.press("Tab")
        assert not page.evaluate(inside), "the tree is one stop of the Tab key"
        page.keyboard.press("Shift+Tab")
        assert page.evaluate(key) == child
        goal = page.evaluate("document.activeElement.href")
        page.keyboard.press("Enter")
        page.wait_for_url(goal)
        expect(page.locator("#tree .sel")).to_have_count(1)
        assert complaints.found == []


def test_two_who_edit_one_queue_see_each_other_and_undo_nothing(browser: Browser, address: str) -> None:
    with looking(browser, address) as (one, _), looking(browser, address) as (other, complaints):
        for page in (one, other):
            opened(page, address, "/queue")
            expect(page.locator("#live")).to_have_attribute("data-state", "live")
        *_, wanted, disputed = labels(one)

        one.get_by_role("button", name=f"Pin {disputed}").click()
        expect(other.get_by_role("button", name=f"Unpin {disputed}")).to_be_visible()  # by a push

        other.locator("#live").click()  # looks at what stands, as one who reads does
        one.get_by_role("button", name=f"Unpin {disputed}").click()
        expect(one.locator("#said")).to_contain_text(f"{disputed} is no longer pinned.")
        expect(other.locator("#live")).to_contain_text(re.compile(r"Paused · [1-9]\d* new"))
        assert complaints.found == []
        other.get_by_role("button", name=f"Pin {wanted}").click()
        expect(other.locator("#said")).to_contain_text("Somebody changed the queue meanwhile")
        assert {each for each in complaints.found if "409" not in each} == set()
        expect(one.get_by_role("button", name=f"Pin {wanted}")).to_be_visible()

        other.locator("#live").click()
        expect(other.get_by_role("button", name=f"Pin {disputed}")).to_be_visible()
        other.get_by_role("button", name=f"Pin {wanted}").click()
        expect(one.get_by_role("button", name=f"Unpin {wanted}")).to_be_visible()
