"""A test that ended while nothing drives its campaign is told as what it is, not as one under test."""

from __future__ import annotations

import pytest

from dashboard.pages.hypothesis import HypothesisView
from dashboard.pages.queue_words import why
from db import campaign_lease, queue
from db.models import Experiment, Hypothesis, Job
from db.states import ExperimentState, HypothesisState, JobState
from knowledge.queries.claims.hypotheses import list_hypotheses
from knowledge.queries.claims.hypothesis_detail import hypothesis_detail
from knowledge.queries.ended_tests import ended_tests
from knowledge.queries.facts import campaign_facts
from knowledge.queries.order.queue import queue_page
from knowledge.telling.summary import summarize
from tests.history.campaign_history import History

LEASE_S = 60.0

WHY = "The GPU has no room for 40 GB of weights."


def left(
    history: History,
    job: JobState,
    experiment: ExperimentState,
    failure: str | None = None,
    error: str | None = None,
) -> int:
    """A hypothesis under test whose job and experiment came to be in these states."""
    hypothesis_id = history.propose({"serving.threads": 1})
    experiment_id = history.start_testing(hypothesis_id)
    with history.database.write() as session:
        job_id = queue.enqueue(
            session, "test", {}, campaign_id=history.campaign_id, experiment_id=experiment_id
        )
        row, found = session.get_one(Job, job_id), session.get_one(Experiment, experiment_id)
        row.state, row.error = job, error
        found.state, found.failure = experiment, failure
    return hypothesis_id


@pytest.mark.parametrize(
    ("job", "experiment", "failure", "error", "word", "clause"),
    [
        (
            JobState.DONE,
            ExperimentState.FAILED,
            WHY,
            None,
            "test failed",
            f"E-0001 failed: {WHY[:-1]}; what follows from that is decided when the campaign goes on",
        ),
        (
            JobState.DONE,
            ExperimentState.DONE,
            None,
            None,
            "test done",
            "E-0001 was measured to its end; it is judged when the campaign goes on",
        ),
        (
            JobState.CANCELLED,
            ExperimentState.CANCELLED,
            "The campaign was stopped.",
            None,
            "test cancelled",
            "E-0001 was cancelled: The campaign was stopped; it waits again when the campaign goes on",
        ),
        (
            JobState.FAILED,
            ExperimentState.RUNNING,
            None,
            "out of memory",
            "test failed",
            "E-0001 failed: out of memory; what follows from that is decided when the campaign goes on",
        ),
    ],
)
def test_it_says_how_it_ended_and_that_it_waits_for_the_campaign_on_every_view(
    history: History,
    job: JobState,
    experiment: ExperimentState,
    failure: str | None,
    error: str | None,
    word: str,
    clause: str,
) -> None:
    number = left(history, job, experiment, failure, error)
    with history.database.read() as session:
        (row,) = list_hypotheses(session, limit=10).items
        (place,) = queue_page(session, history.campaign_id, limit=10).items
        detail = hypothesis_detail(session, number)
        part = summarize(campaign_facts(session, history.campaign_id)).validating
    assert (row.standing, place.standing, detail.standing) == (word, word, word)
    assert why(place) == f"{clause}."
    page = HypothesisView(**dict(detail))
    assert (page.word, page.reason) == (f"{word.capitalize()}.", f"{clause}.")
    assert part.sentence == "1 test has ended and waits for the campaign to go on; the queue is empty."
    assert part.lines[0].endswith(f" ({clause})")


def test_while_a_loop_drives_the_campaign_it_is_under_test_until_that_has_concluded(history: History) -> None:
    left(history, JobState.DONE, ExperimentState.FAILED, WHY)
    with history.database.write() as session:
        assert campaign_lease.take(session, history.campaign_id, "elsewhere", LEASE_S)
    with history.database.read() as session:
        (row,) = list_hypotheses(session, limit=10).items
    assert (row.standing, row.ended) == ("testing", None)


def test_one_that_was_tested_anew_is_told_by_its_newest_test(history: History) -> None:
    number = left(history, JobState.CANCELLED, ExperimentState.CANCELLED)
    again = history.start_testing(number)
    with history.database.write() as session:
        queue.enqueue(session, "test", {}, campaign_id=history.campaign_id, experiment_id=again)
    with history.database.read() as session:
        assert ended_tests(session, [number]) == {}


@pytest.mark.parametrize("state", [HypothesisState.QUEUED, HypothesisState.INFEASIBLE])
def test_one_that_is_not_under_test_any_more_is_told_by_its_state(
    history: History, state: HypothesisState
) -> None:
    number = left(history, JobState.DONE, ExperimentState.FAILED, WHY)
    with history.database.write() as session:
        session.get_one(Hypothesis, number).state = state
    with history.database.read() as session:
        assert hypothesis_detail(session, number).standing == state.value
