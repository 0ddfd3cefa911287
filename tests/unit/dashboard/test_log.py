"""The Log page's view: it begins with the story of a campaign, and links what a language model answered."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from dashboard.page import Request
from dashboard.pages import log
from dashboard.pages.log import PAGE, LogFilters, LogView
from db import events
from db.event_kinds import EventKind
from db.models import Campaign
from db.noise import SERIES_NAME
from knowledge.queries.story import campaign_story
from tests.history.campaign_history import History, a_full_history


@pytest.fixture
def history(tmp_path: Path) -> Iterator[History]:
    found = a_full_history(tmp_path)
    yield found
    found.close()


def shown(history: History, **filters: object) -> tuple[LogView, str]:
    request = Request({}, LogFilters.model_validate(filters))
    with history.database.read() as session:
        found = PAGE.read(session, request, None)  # type: ignore[arg-type]
    return found, PAGE.live(found, request)


@pytest.mark.parametrize("filters", [{}, {"campaign": "C-1"}, {"limit": 5}])
def test_it_begins_with_the_story_of_the_campaign_it_shows(
    history: History, filters: dict[str, object]
) -> None:
    found, html = shown(history, **filters)
    with history.database.read() as session:
        assert found.story == campaign_story(session, history.campaign_id)
    assert "The story of C-1" in html
    assert '<a class="nb" href="/hypotheses/H-001">H-001</a>: One thread is faster' in html
    assert html.index("The story of C-1") < html.index("Event by event") < html.index('<tr id="event-')


@pytest.mark.parametrize("filters", [{"kind": "campaign"}, {"q": "thread"}, {"since": 0}])
def test_where_events_are_sought_out_no_story_stands_before_them(
    history: History, filters: dict[str, object]
) -> None:
    found, html = shown(history, **filters)
    assert found.story is None
    assert found.events
    assert "The story of" not in html


def test_a_large_campaign_s_story_and_that_of_a_series_are_not_told(
    history: History, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(log, "MOST_TOLD", 3)
        assert shown(history)[0].story is None
    with history.database.write() as session:
        session.get_one(Campaign, history.campaign_id).name = SERIES_NAME
    assert shown(history)[0].story is None
    assert shown(history, campaign="C-1")[0].story is None


def test_what_was_refused_of_an_answer_leads_to_the_answer(history: History) -> None:
    with history.database.write() as session:
        kind, data = EventKind.HYPOTHESIS_REFUSED, {"proposer": "language-model", "answer": 7}
        events.append(session, kind, "b=2, by language-model: No knob.", campaign_id=1, data=data)
    assert '<a href="/language-model?answer=7">answer 7</a>' in shown(history)[1]


def test_an_order_of_the_queue_is_told_with_its_first_moves_and_their_reasons(history: History) -> None:
    moves = [f"H-00{n} {n + 1} → {n}: H-009 left the queue ahead of it" for n in (1, 2, 3, 4)]
    with history.database.write() as session:
        data = {"order": [1], "told": moves}
        events.append(
            session,
            EventKind.QUEUE_RANKED,
            "Ranked 4 hypotheses; 1 entered and 4 moved",
            campaign_id=1,
            data=data,
        )
    html = shown(history, kind="queue")[1]
    assert "H-003</a> 4 → 3: <a" in html
    assert "5 → 4" not in html
