"""A verdict that is believed no more and a finding that is disputed say so wherever a page lists them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from configs.settings import Settings
from dashboard.page import Ground, Page, Request
from dashboard.pages import campaign, experiment, experiments, hypotheses, hypothesis, knowledge, now, queue
from db import events
from db.event_kinds import EventKind
from db.models import Move
from db.states import VerdictOutcome
from knowledge.findings.told import Telling, tell
from knowledge.findings.verdict_fact import Saying
from tests.history.campaign_history import History
from tests.unit.knowledge.stories import baseline, best
from tests.unit.knowledge.test_told_of_doubt import NO_GAIN, contradicted_by

SUPPORTED, REFUTED = VerdictOutcome.SUPPORTED, VerdictOutcome.REFUTED

CONTRADICTED = 'In doubt: <a class="nb" href="/knowledge/F-001">F-001</a> is contradicted'
DIFFERS = 'In doubt: <a class="nb" href="/experiments/E-0004">E-0004</a>, a fresh run, differs'


@pytest.fixture
def history(tmp_path: Path) -> Iterator[History]:
    """Two are supported, the first is the best, and what waits in the queue is there because of it."""
    found = History(tmp_path)
    found.judge(found.propose({"serving.threads": 1}, claim="One thread."), SUPPORTED)
    found.judge(found.propose({"serving.dtype": "bfloat16"}, claim="Half."), SUPPORTED)
    baseline(found)
    best(found, "E-0001", 1.111)
    waiting = found.propose({"serving.threads": 4}, rank=1, rank_reason="Its gain rose, after E-0001")
    with found.database.write() as session:
        cause = events.append(session, EventKind.QUEUE_RANKED, "Ranked", campaign_id=1, data={"order": [3]})
        session.add(
            Move(
                hypothesis_id=waiting,
                event_id=cause,
                ranking_event_id=cause,
                from_rank=2,
                to_rank=1,
                reason="Its gain rose, after E-0001",
            )
        )
    yield found
    found.close()


@pytest.fixture
def elsewhere(tmp_path: Path) -> Iterator[History]:
    found = History(tmp_path / "elsewhere")
    yield found
    found.close()


def html_of(history: History, page: Page[Any, Any], **path: str) -> str:
    request = Request(path, page.filters())
    with history.database.read() as session:
        return page.live(page.read(session, request, Ground(Settings(data_dir=Path("unused")))), request)


LISTS = {
    "experiments": (experiments.PAGE, {}),
    "experiment": (experiment.PAGE, {"label": "E-0001"}),
    "hypotheses": (hypotheses.PAGE, {}),
    "hypothesis": (hypothesis.PAGE, {"label": "H-001"}),
    "now": (now.PAGE, {}),
}


@pytest.mark.parametrize("name", LISTS)
def test_a_supported_test_whose_finding_is_contradicted_is_marked(
    history: History, elsewhere: History, name: str
) -> None:
    page, path = LISTS[name]
    assert "In doubt" not in html_of(history, page, **path)
    contradicted_by(history, elsewhere)
    assert CONTRADICTED in html_of(history, page, **path)


@pytest.mark.parametrize("name", LISTS)
def test_a_supported_test_that_a_fresh_run_denies_is_marked(history: History, name: str) -> None:
    history.judge(1, REFUTED, effect=NO_GAIN, reproduces=1)
    page, path = LISTS[name]
    assert DIFFERS in html_of(history, page, **path)


def test_only_the_row_that_is_in_doubt_is_marked(history: History, elsewhere: History) -> None:
    contradicted_by(history, elsewhere)
    rows = re.findall(r'<tr id="(E-\d+)"(.*?)</tr>', html_of(history, experiments.PAGE), re.DOTALL)
    assert [label for label, _ in rows] == ["E-0003", "E-0002", "E-0001"]
    assert [label for label, row in rows if "In doubt" in row] == ["E-0001"]


def test_the_queue_says_of_the_best_and_of_a_reason_that_they_are_in_doubt(
    history: History, elsewhere: History
) -> None:
    contradicted_by(history, elsewhere)
    page = html_of(history, queue.PAGE)
    head, _, rows = page.partition('<tbody id="rows">')
    told = '<a class="nb" href="/experiments/E-0001">E-0001</a> is in doubt'
    assert "The best so far" in head
    assert told in head
    assert told in rows.partition("</tbody>")[0], "beside the reason that names it"


def test_a_disputed_finding_is_marked_where_a_hypothesis_and_an_experiment_list_it(history: History) -> None:
    with history.database.write() as session:
        telling = Telling(
            claim="It does not on the card of the lab",
            assignments=("serving.threads=1",),
            says=Saying.DOES_NOT_HELP,
            target="gpu:NVIDIA L4:24 GB",
        )
        tell(session, telling, 1)
    disputed = 'But <a class="nb" href="/knowledge/F-003">F-003</a> disputes it.'
    assert disputed in html_of(history, hypothesis.PAGE, label="H-001")
    assert disputed in html_of(history, experiment.PAGE, label="E-0001")
    assert disputed in html_of(history, knowledge.PAGE)
    assert "disputes it" not in html_of(history, hypothesis.PAGE, label="H-002")


def test_what_is_settled_says_so_beside_the_list_and_on_the_page_of_the_campaign(
    history: History, elsewhere: History
) -> None:
    contradicted_by(history, elsewhere)
    for page, path in ((hypotheses.PAGE, {}), (campaign.PAGE, {"label": "C-1"})):
        settled = html_of(history, page, **path).partition('settled">')[2].partition("</section>")[0]
        assert settled.count(CONTRADICTED) == 1
