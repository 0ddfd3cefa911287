"""A job that is asked to end with what it measured keeps that; one that does not obey is ended as it is."""

from functools import partial
from pathlib import Path

import pytest
from sqlalchemy import select

from db.models import Experiment, Job, Launch
from db.session import Database
from db.states import ExperimentState, JobState
from experiments.recording import load_launches
from experiments.space.configuration import KnobValue
from experiments.worker.cancelling import ENDS_WITH_WHAT_IT_HAS, end_measuring
from tests.integration.worker.in_process import Running, stage_is
from tests.integration.worker.processes import processes_of
from tests.simulated.queueing import enqueue_job
from tests.simulated.specs import FASTER, a_test_job
from tests.waiting import wait_for

WHY = "the budget of 8 min was spent 1 min before, and no test may overrun it by more"
SCORES_FOR_EVER: dict[str, KnobValue] = FASTER | {"simulated.hangs": "score"}


def ended(database: Database, job_id: int) -> bool:
    with database.read() as session:
        return session.get_one(Job, job_id).state not in (JobState.QUEUED, JobState.RUNNING)


def test_what_a_test_measured_is_recorded_with_why_it_ended(
    database: Database, campaign: int, tmp_path: Path
) -> None:
    make = partial(a_test_job, SCORES_FOR_EVER, judge="launch-interval")
    experiment_id, job_id = enqueue_job(database, campaign, make)
    with Running(database, tmp_path):
        wait_for(lambda: stage_is(database, experiment_id, "evaluate"))
        with database.write() as session:
            assert end_measuring(session, job_id, WHY) is JobState.RUNNING
        wait_for(lambda: ended(database, job_id))
    with database.read() as session:
        job, experiment = session.get_one(Job, job_id), session.get_one(Experiment, experiment_id)
        assert (job.state, experiment.state) == (JobState.DONE, ExperimentState.DONE)
        assert experiment.failure is None
        assert len(load_launches(session, experiment_id)) >= 2, "the pair that was timed before"
    assert processes_of(tmp_path) == []
    assert (experiment.progress or {})["stop_reason"] == f"{ENDS_WITH_WHAT_IT_HAS}{WHY}."


def test_one_whose_worker_is_stopped_meanwhile_does_not_go_back_to_be_ended_again(
    database: Database, campaign: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[object] = []
    monkeypatch.setattr("experiments.executors.local.ask_to_end", lambda *told: asked.append(told))
    experiment_id, job_id = enqueue_job(database, campaign, partial(a_test_job, SCORES_FOR_EVER))
    with Running(database, tmp_path) as running:
        wait_for(lambda: stage_is(database, experiment_id, "evaluate"))
        with database.write() as session:
            end_measuring(session, job_id, WHY)
        wait_for(lambda: bool(asked))
        running.stop.set()
    with database.read() as session:
        assert session.get_one(Job, job_id).state is JobState.CANCELLED
        assert session.get_one(Experiment, experiment_id).state is ExperimentState.CANCELLED


def test_one_that_does_not_obey_is_ended_as_it_is(
    database: Database, campaign: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its hypothesis waits again then, as that of any test that was cancelled."""
    monkeypatch.setattr("experiments.worker.worker.ENDS_WITHIN_S", 0.0)
    monkeypatch.setattr("experiments.executors.local.ask_to_end", lambda *_: None)
    experiment_id, job_id = enqueue_job(database, campaign, partial(a_test_job, SCORES_FOR_EVER))
    with Running(database, tmp_path):
        wait_for(lambda: stage_is(database, experiment_id, "evaluate"))
        with database.write() as session:
            end_measuring(session, job_id, WHY)
        wait_for(lambda: ended(database, job_id))
    with database.read() as session:
        assert session.get_one(Job, job_id).state is JobState.CANCELLED
        assert session.scalars(select(Launch)).all() == []
    assert processes_of(tmp_path) == []
