"""A summary and a story of what was supported and is not believed any more, or is disputed."""

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from sqlalchemy import select

from agent.recipe.promising import denied
from dashboard.page import Request
from dashboard.pages.now import PAGE, NowFilters
from db.models import Finding
from db.states import FindingStatus, VerdictOutcome
from knowledge.acts.notes import add_note
from knowledge.findings.importing import export_verdicts, import_verdicts
from knowledge.findings.told import Telling, tell
from knowledge.findings.verdict_fact import Saying
from knowledge.queries.present.now import now_view
from knowledge.queries.story import campaign_story, story_facts
from knowledge.telling.summary import SummaryView, summarize
from tests.history.campaign_history import History
from tests.unit.knowledge.stories import baseline, best, stop

SUPPORTED, REFUTED = VerdictOutcome.SUPPORTED, VerdictOutcome.REFUTED
NO_GAIN = (0.0, -0.01, 0.01)


@pytest.fixture
def elsewhere(tmp_path: Path) -> Iterator[History]:
    """Another database, in which the same can be tested."""
    found = History(tmp_path / "elsewhere")
    yield found
    found.close()


def summary(history: History) -> SummaryView:
    with history.database.read() as session:
        return summarize(story_facts(session, 1).campaign)


def chapter(history: History, title: str) -> list[str]:
    with history.database.read() as session:
        story = campaign_story(session, 1)
    return [line.text for each in story.chapters if each.title == title for line in each.lines]


def contradicted_by(history: History, elsewhere: History) -> None:
    elsewhere.judge(elsewhere.propose({"serving.threads": 1}), REFUTED, effect=NO_GAIN)
    with elsewhere.database.read() as session:
        told = export_verdicts(session, "lab")
    with history.database.write() as session:
        import_verdicts(session, told)


def test_a_summary_says_which_of_the_supported_was_contradicted_since(
    history: History, elsewhere: History
) -> None:
    history.judge(history.propose({"serving.threads": 1}), SUPPORTED)
    history.judge(history.propose({"serving.dtype": "bfloat16"}), SUPPORTED)
    baseline(history)
    best(history, "E-0001", 1.111)
    before = summary(history)
    assert "contradicted" not in f"{before.supported} {before.best}"
    contradicted_by(history, elsewhere)
    found = summary(history)
    assert found.supported.sentence.startswith("2 hypotheses are supported; 1 of them is in doubt")
    assert [line.endswith("(E-0001; F-001 is contradicted)") for line in found.supported.lines] in (
        [True, False],
        [False, True],
    )
    told = "E-0001 is in doubt: F-001 is contradicted."
    assert told in found.best.lines
    with history.database.read() as session:
        assert denied(session, 1, ("E-0001", "E-0002")) == (told,), "whoever deploys it is told"
        now = now_view(session, None, None, datetime.now(UTC))
    assert now.best_in_doubt == ("F-001 is contradicted",)
    stop(history, "nothing left is worth its price")
    request = Request({}, NowFilters())
    with history.database.read() as session:
        page = PAGE.live(PAGE.read(session, request, None), request)  # type: ignore[arg-type]
    assert re.search(r"It is in doubt: <a [^>]*>F-001</a> is contradicted\.", page)


def test_where_a_fresh_run_of_the_campaign_s_own_differs_that_is_told_and_not_both(history: History) -> None:
    first = history.judge(history.propose({"serving.threads": 1}), SUPPORTED)
    history.judge(1, REFUTED, effect=NO_GAIN, reproduces=first.experiment_id)
    (line,) = summary(history).supported.lines
    assert line.endswith("(E-0001; E-0002, a fresh run, differs)")


def test_a_summary_says_which_of_the_supported_a_note_made_stale(history: History) -> None:
    history.judge(history.propose({"serving.threads": 1}), SUPPORTED)
    with history.database.write() as session:
        add_note(session, "another governor", stale="serving.threads")
    assert summary(history).supported.lines[0].endswith("(E-0001; F-001 is stale)")


def test_a_finding_that_a_newer_one_repeats_casts_no_doubt(history: History) -> None:
    history.judge(history.propose({"serving.threads": 1}), SUPPORTED)
    with history.database.write() as session:
        session.scalars(select(Finding)).one().status = FindingStatus.SUPERSEDED
    assert summary(history).supported.lines[0].endswith("(E-0001)")


def test_a_story_tells_what_disputes_its_findings(history: History, elsewhere: History) -> None:
    history.judge(history.propose({"serving.threads": 1}), SUPPORTED)
    assert chapter(history, "Disputed") == []
    contradicted_by(history, elsewhere)
    (line,) = chapter(history, "Disputed")
    assert "verdicts within F-001 disagree" in line


def test_a_dispute_that_was_told_of_another_s_finding_is_told_where_its_own_is_the_other_side(
    history: History,
) -> None:
    history.judge(history.propose({"serving.threads": 1}), SUPPORTED)
    with history.database.write() as session:
        tell(
            session,
            Telling(
                claim="It does not on the card of the lab",
                assignments=("serving.threads=1",),
                says=Saying.DOES_NOT_HELP,
                target="gpu:NVIDIA L4:24 GB",
            ),
            1,
        )
    (line,) = chapter(history, "Disputed")
    assert "F-001 says that it helps, F-002 that it does not help" in line
