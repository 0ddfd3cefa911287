"""What experiments took whose time nobody wrote down."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from sqlalchemy import update

from db import events, queue, workers
from db.event_kinds import EventKind
from db.labels import Noun, format_label
from db.models import Event, Experiment, Job, Worker
from db.states import JobState
from knowledge.queries.campaigns import SpentView
from knowledge.queries.facts import campaign_facts
from knowledge.queries.spent.untimed import UntimedView, attempts_s, untimed
from knowledge.telling.spent_words import experiments_told
from knowledge.telling.summary import summarize
from tests.history.campaign_history import History

BEGAN = datetime(2026, 11, 1, 12, tzinfo=UTC)
WORKER, DEVICE = "desk/cuda:1#7", "desk/cuda:1"


def after(seconds: float) -> datetime:
    return BEGAN + timedelta(seconds=seconds)


def test_an_attempt_took_at_least_from_its_begin_to_the_last_that_was_heard_of_it() -> None:
    assert attempts_s([(after(0), True), (after(90), False), (after(30), False)]) == [90.0]


def test_what_passed_between_two_attempts_is_of_neither() -> None:
    signs = [(after(0), True), (after(60), False), (after(86_400), True), (after(86_410), False)]
    assert attempts_s(reversed(signs)) == [60.0, 10.0]


def test_an_attempt_of_which_nothing_more_was_heard_took_at_least_nothing() -> None:
    assert attempts_s([(after(0), True), (after(5), True)]) == [0.0, 0.0]
    assert attempts_s([(after(0), False)]) == []


def tell(history: History, experiment_id: int, kind: EventKind, seconds: float) -> None:
    with history.database.write() as session:
        subject = format_label(Noun.EXPERIMENT, experiment_id)
        event_id = events.append(session, kind, "Told.", subject, history.campaign_id)
        session.execute(update(Event).where(Event.id == event_id).values(at=after(seconds)))


def under_test(history: History, state: JobState = JobState.RUNNING, attempt: int = 1) -> int:
    """A test whose worker took it 20 seconds after the noon and was heard of last at 500."""
    experiment_id = history.start_testing(history.propose({"serving.threads": 1}))
    with history.database.write() as session:
        job_id = queue.enqueue(
            session, "test", {}, campaign_id=history.campaign_id, experiment_id=experiment_id
        )
        assert queue.claim_one(session, job_id, WORKER, DEVICE, 60.0) is not None
        workers.register(session, WORKER, "desk", 7, "cuda:1")
        session.execute(
            update(Job).where(Job.id == job_id).values(state=state, attempt=attempt, started_at=after(20))
        )
        session.execute(update(Worker).values(heartbeat_at=after(500)))
    tell(history, experiment_id, EventKind.JOB_CLAIMED, 20)
    tell(history, experiment_id, EventKind.STAGE_STARTED, 120)
    return experiment_id


def found(history: History) -> UntimedView:
    with history.database.read() as session:
        assert untimed(session, None) == untimed(session, history.campaign_id)
        return untimed(session, history.campaign_id)


def test_one_that_its_worker_still_holds_counts_to_its_last_sign_of_life(history: History) -> None:
    assert found(history) == UntimedView()
    under_test(history)
    assert found(history) == UntimedView(unfinished_s=480.0)


def test_one_that_was_taken_back_counts_to_its_last_stage_and_not_to_when_that_was_found_out(
    history: History,
) -> None:
    experiment_id = under_test(history, JobState.QUEUED)
    tell(history, experiment_id, EventKind.JOB_REQUEUED, 90_000)
    assert found(history) == UntimedView(unfinished_s=100.0)


def test_an_attempt_that_broke_off_counts_beside_the_one_that_ended(history: History) -> None:
    experiment_id = under_test(history, JobState.DONE, attempt=2)
    tell(history, experiment_id, EventKind.JOB_CLAIMED, 90_000)
    tell(history, experiment_id, EventKind.STAGE_FINISHED, 90_042)
    with history.database.write() as session:
        session.execute(
            update(Experiment)
            .where(Experiment.id == experiment_id)
            .values(finished_at=after(90_042), wall_s=42.0)
        )
    assert found(history) == UntimedView(attempts=1, broken_off_s=100.0)


def test_one_that_was_given_up_counts_with_all_its_attempts(history: History) -> None:
    experiment_id = under_test(history, JobState.FAILED)
    with history.database.write() as session:
        session.execute(
            update(Experiment)
            .where(Experiment.id == experiment_id)
            .values(finished_at=after(90_000), wall_s=None)
        )
    assert found(history) == UntimedView(attempts=1, broken_off_s=100.0)


def test_it_is_told_as_the_least_in_the_summary(history: History) -> None:
    under_test(history)
    with history.database.read() as session:
        spent = summarize(campaign_facts(session, history.campaign_id)).spent.sentence
    assert spent.startswith("0 experiments in 0 s, beside 1 that has not ended, of at least 8 min;")


def test_attempts_that_broke_off_are_told_behind_what_has_not_ended() -> None:
    spent = SpentView(experiments=3, experiment_s=60.0, wall_s=90.0, unfinished=2)
    lost = UntimedView(unfinished_s=120.0, attempts=1, broken_off_s=45.0)
    assert experiments_told(spent.model_copy(update={"untimed": lost})) == (
        "1 experiment in 1 min, beside 2 that have not ended, of at least 2 min, "
        "and at least 45 s of 1 attempt that broke off"
    )
    assert experiments_told(spent) == "1 experiment in 1 min, beside 2 that have not ended"
