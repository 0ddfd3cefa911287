"""Filters of lists: below the title of the page, and what is typed there outlasts a push."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect
from sqlalchemy import select

from db import events
from db.event_kinds import EventKind
from db.models import Hypothesis
from tests.history.campaign_history import History
from tests.integration.dashboard.browser import Look, browser, looking
from tests.integration.dashboard.serving import serving

__all__ = ["browser"]

pytestmark = pytest.mark.slow

LISTS = ("/queue", "/experiments", "/hypotheses", "/knowledge", "/knowledge?whole=1", "/log")
TOP = "each => each.getBoundingClientRect().top"


VIEWS = ("/compare?ids=E-0001", "/experiments/E-0001/samples")
"""Pages of another kind with a form that says what they show."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("lists")


@pytest.fixture(scope="module")
def history(folder: Path) -> Iterator[History]:
    found = History(folder)
    found.propose({"serving.threads": 1}, rank=1, rank_reason="It pays most.")
    found.start_testing(found.propose({"serving.threads": 4}))
    yield found
    found.close()


@pytest.fixture(scope="module")
def address(folder: Path, history: History) -> Iterator[str]:
    with serving(folder) as found:
        yield found


@pytest.mark.parametrize("path", LISTS)
def test_the_filter_of_a_list_stands_below_the_title_and_keeps_what_is_typed(
    browser: Browser, address: str, history: History, path: str
) -> None:
    for width in (390, 1280):
        with looking(browser, address, Look("light", width)) as (page, complaints):
            page.goto(f"{address}{path}")
            expect(page.locator("#live")).to_have_attribute("data-state", "live")
            title, form = page.locator("main .sentence").first, page.locator("main form[role=search]")
            assert title.evaluate(TOP) < form.evaluate(TOP), f"at {width} px"
            form.locator("input[type=search]").fill("thre")
            told = f"Pushed to {path} at {width} px."
            with history.database.write() as session:
                for row in session.scalars(select(Hypothesis)):
                    row.claim = told
                events.append(session, EventKind.EXPERIMENT_STARTED, told, campaign_id=history.campaign_id)
            expect(page.locator("#view")).to_contain_text(told)
            assert form.locator("input[type=search]").input_value() == "thre"
            assert complaints.found == []


@pytest.mark.parametrize("path", VIEWS)
def test_the_form_of_a_view_stands_below_its_title(browser: Browser, address: str, path: str) -> None:
    for width in (390, 1280):
        with looking(browser, address, Look("light", width)) as (page, complaints):
            page.goto(f"{address}{path}")
            assert page.locator("main h1").evaluate(TOP) < page.locator("main form.filters").evaluate(TOP)
            assert complaints.found == []
