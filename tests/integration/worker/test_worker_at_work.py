"""A worker at work beside its test: what it tells, and how it ends; its jobs run in real processes."""

from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from sqlalchemy import select

from configs.errors import DiskFull
from db import queue, workers
from db.claims import BoundProcess
from db.models import Event, Experiment, Job, StageRun, Worker
from db.session import Database
from db.states import ExperimentState, JobState, WorkerState
from experiments.executors.port import RunState, Status
from experiments.executors.process_group import led_by
from experiments.job.result import JobProgress, StageTurn
from experiments.measurement.evidence import Stage
from experiments.worker.cancelling import cancel
from experiments.worker.claiming import Taken
from experiments.worker.reporting import Reporter
from experiments.worker.settings import WorkerName
from experiments.worker.worker import run_worker
from tests.integration.worker.in_process import TIMES, Running, Work, stage_is
from tests.integration.worker.processes import assert_recorded_once, events_of, processes_of
from tests.simulated.places import simulated_executor
from tests.simulated.queueing import enqueue_job
from tests.simulated.specs import FASTER, a_test_job
from tests.waiting import wait_for

HANGS = FASTER | {"simulated.hangs": "generate"}


def test_progress_is_told_while_the_job_runs(database: Database, campaign: int, tmp_path: Path):
    experiment_id, _ = enqueue_job(database, campaign, partial(a_test_job, HANGS))
    with Running(database, tmp_path):
        wait_for(lambda: stage_is(database, experiment_id, "quick"))
        with database.read() as session:
            experiment = session.get_one(Experiment, experiment_id)
            assert experiment.progress == {"done": 0, "planned": 4, "text": "time launch pair 1"}
            assert session.execute(select(Worker.state)).scalar_one() is WorkerState.BUSY
            assert experiment.state is ExperimentState.RUNNING
        assert events_of(database, "stage.started") == [
            "E-0001: check both configurations.",
            "E-0001: time launch pair 1.",
        ]
        assert events_of(database, "stage.finished")[0].startswith(
            "E-0001: check both configurations, done after"
        ), "each stands at its own end, and not at the job's"


def test_every_stage_is_told_once_when_it_begins_and_once_when_it_ends(
    database: Database, campaign: int, work: Work
):
    enqueue_job(database, campaign, a_test_job)
    work()
    with database.read() as session:
        kinds = ("stage.started", "stage.finished")
        told = session.scalars(select(Event).where(Event.kind.in_(kinds)).order_by(Event.id)).all()
        stages = session.scalars(select(StageRun.stage).order_by(StageRun.id)).all()
    assert [(each.data or {})["stage"] for each in told if each.kind == "stage.finished"] == stages
    assert [(each.data or {})["turn"] for each in told] == list(range(len(told)))
    assert [each.kind for each in told] == [*kinds] * len(stages)


def test_a_worker_that_takes_a_run_over_tells_no_stage_again(database: Database, campaign: int):
    enqueue_job(database, campaign, a_test_job)
    with database.write() as session:
        claimed = queue.claim(session, "first", "desk/cpu", ("cpu",), TIMES.lease_s)
    assert claimed is not None
    pair = StageTurn(Stage.QUICK, "time launch pair 1")
    ended = replace(pair, outcome="done", wall_s=3.0)
    next_ = StageTurn(Stage.FULL, "time launch pair 2")
    taken = Taken(claimed, "job1")
    for turns in ((pair,), (pair, ended, next_)):
        progress = JobProgress(turns[-1].stage, 0, 2, turns[-1].text, turns=turns)
        reporter = Reporter(database, taken, TIMES, 0)  # each time another worker's
        reporter.beat(progress)
        reporter.beat(replace(progress, done=1))
    assert events_of(database, "stage.started") == [
        "E-0001: time launch pair 1.",
        "E-0001: time launch pair 2.",
    ]
    assert events_of(database, "stage.finished") == ["E-0001: time launch pair 1, done after 3 s."]


def test_a_load_that_takes_minutes_is_told_with_what_it_does_once_a_minute(
    database: Database, campaign: int, monkeypatch: pytest.MonkeyPatch
):
    experiment_id, _ = enqueue_job(database, campaign, a_test_job)
    with database.write() as session:
        claimed = queue.claim(session, "first", "desk/cpu", ("cpu",), TIMES.lease_s)
    assert claimed is not None
    reporter = Reporter(database, Taken(claimed, "job1"), TIMES, 0)
    turns = (StageTurn(Stage.QUICK, "time launch pair 1"),)
    progress = JobProgress(Stage.QUICK, 0, 2, turns[0].text, turns=turns)
    reporter.beat(progress)
    reporter.beat(replace(progress, loading="loading, for 5 s by now: importing vLLM for 5 s"))
    assert events_of(database, "stage.progressed") == [], "not in the first minute"
    monkeypatch.setattr("experiments.worker.reporting.PROGRESS_EVENT_S", 0.0)
    reporter.beat(replace(progress, loading="loading, for 1 min 5 s by now: compiling for 30 s"))
    with database.read() as session:
        stored = session.get_one(Experiment, experiment_id).progress
    assert (stored or {})["loading"] == "loading, for 1 min 5 s by now: compiling for 30 s"
    reporter.beat(replace(progress, done=1))
    assert events_of(database, "stage.progressed") == [
        "E-0001: loading, for 1 min 5 s by now: compiling for 30 s."
    ]
    with database.read() as session:
        assert "loading" not in (session.get_one(Experiment, experiment_id).progress or {})


WHY = "Whoever waited for the reproduction went away."


def test_a_job_is_bound_to_the_group_that_runs_it(database: Database, campaign: int, tmp_path: Path):
    experiment_id, job_id = enqueue_job(database, campaign, partial(a_test_job, HANGS))
    with Running(database, tmp_path):
        wait_for(lambda: stage_is(database, experiment_id, "quick"))
        with database.read() as session:
            bound = BoundProcess(**(session.get_one(Job, job_id).process or {}))
        group = led_by(bound.pgid)
    assert bound.host == WorkerName.here("cpu").host
    assert (bound.kernel, bound.started_ticks) == (group.kernel, group.started_ticks)
    assert group.started_ticks is not None


def test_a_cancelled_job_ends_with_all_its_processes(database: Database, campaign: int, tmp_path: Path):
    experiment_id, job_id = enqueue_job(database, campaign, partial(a_test_job, HANGS))
    next_id, _ = enqueue_job(database, campaign, a_test_job)
    with Running(database, tmp_path):
        wait_for(lambda: stage_is(database, experiment_id, "quick"))
        with database.write() as session:
            assert cancel(session, job_id, WHY) is JobState.RUNNING

        def next_is_done() -> bool:
            with database.read() as session:
                return session.get_one(Experiment, next_id).state is ExperimentState.DONE

        wait_for(next_is_done)
        with database.read() as session:
            job, experiment = session.get_one(Job, job_id), session.get_one(Experiment, experiment_id)
            assert (job.state, job.error) == (JobState.CANCELLED, WHY)
            assert (experiment.state, experiment.failure) == (ExperimentState.CANCELLED, WHY)
    assert processes_of(tmp_path) == []
    assert events_of(database, "job.cancelled") == [f"J-{job_id} is cancelled: {WHY}"]


def test_a_stopped_worker_gives_its_job_back(database: Database, campaign: int, tmp_path: Path):
    experiment_id, job_id = enqueue_job(database, campaign, partial(a_test_job, HANGS), max_attempts=1)
    with Running(database, tmp_path) as running:
        wait_for(lambda: stage_is(database, experiment_id, "quick"))
        running.stop.set()
    assert processes_of(tmp_path) == []
    with database.read() as session:
        job = session.get_one(Job, job_id)
        assert (job.state, job.attempt, job.max_attempts) == (JobState.QUEUED, 1, 2)


def test_what_finds_no_room_in_the_database_is_recorded_when_there_is_some(
    database: Database, campaign: int, work: Work, monkeypatch: pytest.MonkeyPatch
):
    """Given up at once, a result that took hours would be measured again."""
    experiment_id, job_id = enqueue_job(database, campaign, a_test_job)
    record, tries = Reporter.record, list[int]()

    def without_room_at_first(*arguments: object) -> None:
        tries.append(1)
        if len(tries) < 3:
            raise DiskFull("No space is left on the disk of autoinfer.db.", "Free some.")
        record(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr("experiments.worker.worker.AWAY_S", 0.01)
    monkeypatch.setattr(Reporter, "record", without_room_at_first)
    assert work() == 1
    assert_recorded_once(database, [experiment_id])
    with database.read() as session:
        assert session.get_one(Job, job_id).attempt == 1


@pytest.mark.parametrize("others", [True, False], ids=["others-go-on", "alone"])
def test_a_host_whose_disk_is_full_is_put_aside_where_others_go_on(
    database: Database, campaign: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, others: bool
):
    """What one of them has no room for another may run."""
    experiment_id, job_id = enqueue_job(database, campaign, a_test_job)
    enqueue_job(database, campaign, a_test_job)
    monkeypatch.setattr(WorkerName, "here", lambda device, target=None: WorkerName("attic", device, 7))
    with database.write() as session:
        workers.register(session, "cellar/cpu#1", "cellar" if others else "attic", 1, "cpu")
        workers.register(session, "cellar/cuda:0#2", "cellar", 2, "cuda:0")
    executor = simulated_executor(tmp_path)
    full = Status(RunState.FAILED, failure="No space is left for runs in /data.", failure_kind="disk_full")
    monkeypatch.setattr(executor, "poll", lambda ref: full)
    ended = run_worker(database, executor, "cpu", times=TIMES, once=True)
    with database.read() as session:
        states = [session.get_one(Job, each).state for each in (job_id, job_id + 1)]
        experiment = session.get_one(Experiment, experiment_id)
    if others:
        assert (ended, states) == (0, [JobState.QUEUED, JobState.QUEUED])
        (told,) = events_of(database, "job.requeued")
        assert told.endswith(
            "goes back to its place: The disk is that of attic. No space is left for runs in /data. "
            "Other hosts go on; attic takes no job for 10 min."
        )
    else:
        assert (ended, states) == (2, [JobState.FAILED, JobState.FAILED])
        assert experiment.failure_kind == "disk_full"
        assert experiment.failure == "No space is left for runs in /data."
