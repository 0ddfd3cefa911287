"""What a campaign tells whose machine was taken away: four H200s left its database in the middle of tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from dashboard.page import Request
from dashboard.pages.hypothesis import HypothesisView
from dashboard.pages.now import PAGE, NowFilters
from dashboard.pages.queue import PAGE as QUEUE
from dashboard.pages.queue import QueueFilters
from db.session import Database
from knowledge.queries.claims.hypothesis_detail import hypothesis_detail
from knowledge.queries.devices import on_devices
from knowledge.queries.facts import campaign_facts
from knowledge.telling.summary import summarize
from tests.recorded.levers_on_four import levers_on_four


@pytest.fixture
def left(tmp_path: Path) -> Iterator[Database]:
    database = levers_on_four(tmp_path)
    yield database
    database.close()


def test_nobody_is_told_that_it_still_measures(left: Database) -> None:
    with left.read() as session:
        now = Request({}, NowFilters(since=None))
        shown = PAGE.read(session, now, None)  # type: ignore[arg-type]
        page = PAGE.live(shown, now)
        said = summarize(campaign_facts(session, 1))
        devices = on_devices(session)
        hypothesis = HypothesisView(**dict(hypothesis_detail(session, 8)))
        queue = Request({}, QueueFilters())
        rows = QUEUE.live(QUEUE.read(session, queue, None), queue)  # type: ignore[arg-type]
    assert shown.lead == "Interrupted: nothing drives this campaign."
    assert page.count("Nobody measures it any more: its worker of vm/cuda:") == 2
    assert "Running for" not in page
    assert "autoinfer run --resume C-1 --budget 30m" in page
    assert said.validating.sentence == "2 tests were interrupted; 52 hypotheses in the queue."
    assert said.go_on == "Go on with: autoinfer run --resume C-1 --budget 30m"
    assert devices == {}
    assert hypothesis.word == "Interrupted under test."
    assert "autoinfer run --resume C-1 --budget 30m" in rows
    assert said.interrupted
    assert rows.count("Interrupted under test on vm/cuda:") == 2
