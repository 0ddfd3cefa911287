"""Seconds that stopping early saved over a campaign, where they are known, and told alike everywhere."""

from __future__ import annotations

from datetime import UTC, datetime

from sqlalchemy import update

from agent.campaign.learning.outcome import campaign_outcome
from dashboard.report.markdown import as_markdown
from db.models import Verdict
from db.states import VerdictOutcome
from experiments.measurement.judging import BY_CLOCK
from knowledge.queries.present.now import now_view
from knowledge.queries.spent.saved_time import SavedView, saved_sentence, saved_time
from knowledge.queries.story import story_facts
from knowledge.report.gathering import report
from knowledge.telling.summary import summarize
from tests.history.campaign_history import History

MADE = datetime(2026, 11, 23, 12, tzinfo=UTC)


def told(
    history: History, verdict: int, spent_s: float | None, planned_s: float | None, *, by_clock: bool = True
) -> None:
    """Let a verdict tell what measuring took, and what the whole plan would have; without `by_clock` as one
    of an older version does."""
    times = {"metric": "tpot_ms", "spent_s": spent_s, "planned_s": planned_s}
    details = {"details": {**times, BY_CLOCK: True} if by_clock else times}
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
        experiments=2, unknown=2, by_clock=True, spent_s=131.0, planned_s=250.0, saved_s=119.0
    )


def test_the_launch_time_of_older_verdicts_is_told_as_what_it_is_and_on_no_page_of_the_clock(
    full_history: History,
) -> None:
    told(full_history, 1, 497.0, 1400.0, by_clock=False)
    told(full_history, 2, 245.0, 1394.0, by_clock=False)
    assert saved(full_history) == SavedView(
        experiments=2, unknown=2, spent_s=742.0, planned_s=2794.0, saved_s=2052.0
    )
    assert saved_sentence(saved(full_history)) == (
        "Stopping early saved 34 min 12 s of 46 min 34 s of planned launch time, in which launches side by "
        "side count each, over 2 timed experiments."
    )
    with full_history.database.read() as session:
        budget = now_view(session, None, None, MADE).budget
    assert budget is not None
    assert budget.saved_s == 0.0


def test_older_verdicts_are_added_to_none_that_go_by_the_clock(full_history: History) -> None:
    told(full_history, 1, 497.0, 1400.0, by_clock=False)
    told(full_history, 2, 41.0, 160.0)
    assert saved(full_history) == SavedView(
        experiments=1, older=1, unknown=2, by_clock=True, spent_s=41.0, planned_s=160.0, saved_s=119.0
    )
    assert saved_sentence(saved(full_history)) == (
        "Stopping early saved 1 min 59 s by the clock, of an estimated 2 min 40 s for the whole plans of 1 "
        "timed experiment; 1 older one tells launch time, in which launches side by side count each."
    )


def test_what_an_ended_campaign_of_an_older_version_told_of_itself_can_still_be_read() -> None:
    before = {
        "experiments": 1,
        "again": 0,
        "unknown": 0,
        "spent_s": 60.0,
        "planned_s": 100.0,
        "saved_s": 40.0,
    }
    assert "launch time" in str(saved_sentence(SavedView.model_validate(before)))


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
        "Stopping early saved 4 min 9 s by the clock, of an estimated 5 min 20 s for the whole plans of 2 "
        "timed experiments, 1 of them run once more."
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
        "Stopping early saved nothing by the clock, of an estimated 2 min 40 s for the whole plans of 1 "
        "timed experiment."
    )
