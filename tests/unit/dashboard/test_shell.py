"""The bar: campaigns to choose from that keep the rest of the address, pages that keep the campaign."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from dashboard.app import PAGES
from dashboard.navigation import ENTRIES
from dashboard.page import Request
from dashboard.pages import find, log, what_if
from dashboard.shell import Shell, shell_of, short_target
from tests.history.campaign_history import History, a_full_history


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory) -> Iterator[History]:
    made = a_full_history(tmp_path_factory.mktemp("shell"))
    made.start("second")
    yield made
    made.close()


def bar(history: History, **asked: str) -> Shell:
    with history.database.read() as session:
        filters = log.LogFilters.model_validate(asked)
        return shell_of(session, log.PAGE, Request({}, filters), "/log")


def test_the_newest_campaign_is_shown_unless_another_is_asked_for(history: History) -> None:
    newest, first = bar(history), bar(history, campaign="C-1")
    assert newest.shown is not None
    assert newest.shown.id == "C-2"
    assert newest.all_url is None
    assert first.shown is not None
    assert first.shown.id == "C-1"
    assert first.all_url == "/log"


def test_another_campaign_keeps_the_filters_and_other_pages_keep_the_campaign(history: History) -> None:
    found = bar(history, campaign="C-1", kind="queue")
    assert [each.url for each in found.campaigns] == [
        "/log?kind=queue&campaign=C-2",
        "/log?kind=queue&campaign=C-1",
    ]
    assert all(link.url.endswith("?campaign=C-1") for link in found.links)
    assert [link.title for link in found.links if link.current] == ["Log"]


def test_another_campaign_is_not_asked_for_what_is_in_this_one(history: History) -> None:
    asked = what_if.WhatIfFilters(campaign="C-1", hypothesis="H-001")
    with history.database.read() as session:
        found = shell_of(session, what_if.PAGE, Request({}, asked), "/queue/what-if")
    assert [each.url for each in found.campaigns] == [f"/queue/what-if?campaign=C-{n}" for n in (2, 1)]
    assert found.all_url == "/queue/what-if"


@pytest.mark.parametrize(
    ("path", "title"),
    [
        ("/language-model", "Hypotheses"),
        ("/predictions", "Hypotheses"),
        ("/compare", "Experiments"),
        ("/enqueue", "Queue"),
        ("/knowledge/ask", "Knowledge"),
    ],
)
def test_a_page_of_a_page_shows_in_the_bar_where_it_belongs(path: str, title: str) -> None:
    assert [each.title for each in ENTRIES if each.holds(path)] == [title]
    assert path in {page.path for page in PAGES}


def test_a_page_that_knows_no_campaign_leads_to_the_first_page(history: History) -> None:
    with history.database.read() as session:
        found = shell_of(session, find.PAGE, Request({}, find.FindFilters()), "/find")
    assert found.campaigns[0].url == "/?campaign=C-2"


def test_a_target_is_named_by_its_device() -> None:
    assert short_target("cpu:Example CPU:2 cores") == "Example CPU"
    assert short_target("desk") == "desk"
