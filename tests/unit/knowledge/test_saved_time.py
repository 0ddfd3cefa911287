"""Seconds that stopping early saved over a campaign, where they are known, and told alike everywhere."""

from __future__ import annotations

from datetime import UTC, datetime

from sqlalchemy import update

from agent.campaign.learning.outcome import campaign_outcome
from dashboard.report.markdown import as_markdown
from db.models import Verdict
from db.states import VerdictOutcome
from knowledge.queries.present.now import now_view
from knowledge.queries.spent.saved_time import SavedView, saved_sentence, saved_time
from knowledge.queries.story import story_facts
from knowledge.report.gathering import report
from knowledge.telling.summary import summarize
from tests.history.campaign_history import History

MADE = datetime(2026, 11, 23, 12, tzinfo=UTC)


def told(history: History, verdict: int, spent_s: float | None, planned_s: float | None) -> None:
    """Let a verdict tell what its launches took, and what the whole plan would have."""
    details = {"details": {"metric": "tpot_ms", "spent_s": spent_s, "planned_s": planned_s}}
    with history.database.write() as session:
        session.execute(update(Verdict).where(Verdict.id == verdict).values(judge=details))


def saved(history: History) -> SavedView:
    with history.database.read() as session:
        return saved_time(session, history.campaign_id)


def test_what_was_saved_is_summed_over_the_verdicts_that_tell_their_plan(full_history: History) -> None:
    told(full_history, 1, 41.0, 160.0)
    told(full_history, 2, 90.04, 90.04)
    told(full_history, 3, None, None)
    told(full_history, 4, 12.0, None)
    assert saved(full_history) == SavedView(
        experiments=2, unknown=2, spent_s=131.0, planned_s=250.0, saved_s=119.0
    )


def test_without_verdicts_nothing_was_saved_and_nothing_is_said(history: History) -> None:
    assert saved(history) == SavedView()
    assert saved_sentence(saved(history)) is None


def test_summary_story_report_and_pages_count_a_test_that_was_run_once_more_alike(
    full_history: History,
) -> None:
    told(full_history, 1, 41.0, 160.0)
    again = full_history.judge(1, VerdictOutcome.SUPPORTED, reproduces=1)
    told(full_history, again.verdict_id, 30.0, 160.0)
    sentence = (
        "Stopping early saved 4 min 9 s of 5 min 20 s of planned launch time, over 2 timed experiments, 1 of "
        "them run once more."
    )
    with full_history.database.read() as session:
        facts = story_facts(session, 1).campaign
        told_by_report = as_markdown(report(session, 1, MADE))
        outcome = campaign_outcome(session, 1)["stopped_early"]
        budget = now_view(session, None, None, MADE).budget
    assert summarize(facts).spent.lines == (sentence,)
    assert sentence in told_by_report.splitlines()
    assert (outcome["experiments"], outcome["again"], outcome["saved_s"]) == (2, 1, 249.0)
    assert budget is not None
    assert budget.saved_s == outcome["saved_s"]


def test_what_ran_to_its_end_saved_nothing(full_history: History) -> None:
    told(full_history, 1, 160.0, 160.4)
    assert saved_sentence(saved(full_history)) == (
        "Stopping early saved nothing of 2 min 40 s of planned launch time, over 1 timed experiment."
    )
