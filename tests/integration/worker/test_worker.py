"""What one worker does with the jobs it takes: the worker runs in this process, its jobs in real ones."""

import threading
from dataclasses import asdict
from functools import partial
from pathlib import Path

import pytest
from sqlalchemy import select, update

from agent.judge.launch_interval import LaunchIntervalJudge
from db import queue
from db.models import Artifact, Experiment, ExperimentArtifact, Job, Launch, StageRun, Worker
from db.session import Database
from db.states import ExperimentState, JobState, StageOutcome, WorkerState
from experiments.job.journal import read_records
from experiments.job.result import HeldMemory, JobResult, StageRecord
from experiments.measurement.evidence import Arm, Metric, Stage
from experiments.measurement.judging import Outcome
from experiments.recording import load_evidence, load_launches, load_noise, load_stages, record_result
from experiments.space.configuration import Configuration
from experiments.worker.settings import WorkerName
from experiments.worker.worker import run_worker
from tests.integration.worker.in_process import TIMES, Work
from tests.integration.worker.processes import assert_recorded_once, events_of
from tests.simulated.places import simulated_executor
from tests.simulated.queueing import TARGET, enqueue_job
from tests.simulated.specs import CONTROL, FASTER, PLAN, a_baseline_job, a_test_job


def test_a_test_job_is_recorded_with_all_its_samples(
    database: Database, campaign: int, work: Work, tmp_path: Path
):
    experiment_id, job_id = enqueue_job(database, campaign, a_test_job)
    assert work() == 1
    assert_recorded_once(database, [experiment_id])
    [folder] = (tmp_path / "jobs").iterdir()
    told = read_records(folder / "records.jsonl")
    with database.read() as session:
        assert load_launches(session, experiment_id) == told.launches
        experiment = session.get_one(Experiment, experiment_id)
        assert (experiment.failure, experiment.stage, experiment.wall_s) == (None, None, told.wall_s)
        assert experiment.progress == {"stop_reason": "The list of steps is done."}
        assert experiment.started_at is not None
        assert session.get_one(Job, job_id).process is None
        outcomes = session.execute(select(StageRun.stage, StageRun.outcome).order_by(StageRun.id)).all()
        assert outcomes == [(s, StageOutcome.DONE) for s in ("static", "quick", "evaluate")]
        [artifact] = session.execute(select(Artifact)).scalars()
        assert artifact.kind == "evaluation"
        assert session.get(ExperimentArtifact, (experiment_id, artifact.digest)) is not None
        [worker] = session.execute(select(Worker)).scalars()
        assert worker.state is WorkerState.STOPPED


def test_the_evidence_comes_back_as_the_judge_saw_it(
    database: Database, campaign: int, work: Work, tmp_path: Path
):
    noise = {"target_key": TARGET, "launches": 5, "degrees_of_freedom": 3, "launch_sd_log": 0.01}
    experiment_id, _ = enqueue_job(database, campaign, partial(a_test_job, noise=noise))
    work()
    with database.read() as session:
        plan, evidence = load_evidence(session, experiment_id)
    spec = a_test_job(noise=noise)
    assert plan == spec.plan
    assert (evidence.noise.launch_sd_log, evidence.noise.degrees_of_freedom) == (0.01, 3)
    assert [str(change) for change in evidence.changes] == ["simulated.tpot_ms 10.0 → 7.0"]
    assert len(evidence.of(Arm.CONTROL, Stage.QUICK)) == 1
    assert evidence.failure is None


@pytest.mark.parametrize(("at_once", "in_turn"), [(None, False), (1, True)])
def test_the_evidence_tells_how_long_it_took_by_the_clock_and_whether_launches_were_in_turn(
    database: Database, campaign: int, work: Work, at_once: int | None, in_turn: bool
) -> None:
    experiment_id, _ = enqueue_job(database, campaign, partial(a_test_job, at_once=at_once))
    work()
    with database.read() as session:
        _, evidence = load_evidence(session, experiment_id)
        walls = {each.stage: each.wall_s for each in load_stages(session, experiment_id)}
        took_s = session.get_one(Experiment, experiment_id).wall_s
    assert evidence.in_turn is in_turn
    assert evidence.measured_s is not None
    assert evidence.measured_s == pytest.approx(walls[Stage.QUICK] + walls[Stage.EVALUATE])
    assert took_s is not None
    assert max(each.load_s for each in evidence.launches) < evidence.measured_s < took_s


def test_a_baseline_feeds_the_noise_profile_and_tells_choice_and_parts(
    database: Database, campaign: int, work: Work
):
    slow = {"simulated.tpot_ms": 12.0}
    experiment_id, _ = enqueue_job(database, campaign, partial(a_baseline_job, (slow, CONTROL)))
    work()
    with database.read() as session:
        profile = load_noise(session, TARGET, "simulated-fingerprint", Metric.TPOT_MS)
        stages = {stage.stage: stage for stage in load_stages(session, experiment_id)}
    assert (profile.launches, profile.degrees_of_freedom) == (3, 2)
    assert profile.launch_sd_log is not None
    assert 0 < profile.launch_sd_log < 0.05
    assert stages[Stage.SWEEP].detail["chosen"] == CONTROL
    parts = stages[Stage.PROFILE].detail["parts"]
    assert isinstance(parts, list)
    assert [part["part"] for part in parts if isinstance(part, dict)] == ["layers", "rest"]
    assert "added 3 launches" in events_of(database, "noise.recorded")[0]


def test_what_a_job_held_of_a_gpu_is_kept_with_its_last_stage(database: Database, campaign: int):
    experiment_id, _ = enqueue_job(database, campaign, a_test_job)
    began = "2026-01-01T00:00:00+00:00"
    result = JobResult(
        stages=tuple(StageRecord(each, began, 1.0, "done") for each in (Stage.STATIC, Stage.QUICK)),
        memory=HeldMemory(1, 30, 2, 0.5),
    )
    with database.write() as session:
        record_result(session, experiment_id, 1, a_test_job(), result)
    with database.read() as session:
        static, quick = load_stages(session, experiment_id)
    assert static.detail == {}
    assert quick.detail["device_memory"] == asdict(HeldMemory(1, 30, 2, 0.5))


def test_each_control_launch_makes_the_noise_profile_grow(database: Database, campaign: int, work: Work):
    for _ in range(2):
        enqueue_job(database, campaign, a_test_job)
    work()
    with database.read() as session:
        profile = load_noise(session, TARGET, "simulated-fingerprint", Metric.TPOT_MS)
    assert (profile.launches, profile.degrees_of_freedom) == (2, 0)


def test_a_screen_in_a_configuration_that_the_spec_does_not_name_is_recorded(
    database: Database, campaign: int, work: Work
):
    candidate = FASTER | {"quantization.method": "rtn", "simulated.load_s": 0.01, "simulated.bits": 1200.0}
    make_spec = partial(a_test_job, candidate, judge="launch-interval")
    experiment_id, job_id = enqueue_job(database, campaign, make_spec)
    work()
    plain = Configuration.of({k: v for k, v in candidate.items() if k != "simulated.load_s"})
    with database.read() as session:
        assert session.get_one(Job, job_id).state is JobState.DONE
        control, screened = load_launches(session, experiment_id)
    assert (control.stage, screened.stage) == (Stage.SCREEN, Stage.SCREEN)
    assert screened.configuration_digest == plain.digest


def test_a_claim_that_is_scored_comes_back_with_both_parts_and_tells_no_noise(
    database: Database, campaign: int, work: Work
):
    margins = PLAN.margins.model_copy(update={"task_points": 10.0})
    plan = PLAN.model_copy(update={"metric": Metric.NLL_BITS, "min_effect": 0.005, "margins": margins})
    candidate = FASTER | {"simulated.bits": 980.0}
    make_spec = partial(a_test_job, candidate, judge="launch-interval", plan=plan)
    experiment_id, _ = enqueue_job(database, campaign, make_spec)
    work()
    with database.read() as session:
        told, evidence = load_evidence(session, experiment_id)
        noise = load_noise(session, TARGET, "simulated-fingerprint", Metric.NLL_BITS)
    assert told == plan
    assert [record.stage for record in evidence.of(Arm.CANDIDATE)] == [Stage.EVALUATE, Stage.VALIDATION]
    assert noise.launches == 0
    assert LaunchIntervalJudge().verdict(plan, evidence).outcome is Outcome.SUPPORTED


def test_an_infeasible_candidate_is_done_with_its_cause(database: Database, campaign: int, work: Work):
    candidate = FASTER | {"simulated.fails": "load"}
    experiment_id, job_id = enqueue_job(database, campaign, partial(a_test_job, candidate))
    work()
    with database.read() as session:
        experiment = session.get_one(Experiment, experiment_id)
        assert (experiment.state, experiment.failure_kind) == (ExperimentState.DONE, "crashed")
        assert session.get_one(Job, job_id).state is JobState.DONE
        assert load_evidence(session, experiment_id)[1].failure == experiment.failure


def test_a_control_that_fails_makes_the_experiment_fail(database: Database, campaign: int, work: Work):
    control = CONTROL | {"simulated.fails": "load"}
    experiment_id, job_id = enqueue_job(database, campaign, partial(a_test_job, control=control))
    work()
    with database.read() as session:
        experiment = session.get_one(Experiment, experiment_id)
        assert (experiment.state, experiment.failure_kind) == (ExperimentState.FAILED, "control")
        assert session.get_one(Job, job_id).state is JobState.FAILED
    assert "The control did not run" in events_of(database, "experiment.failed")[0]


def test_runs_that_can_t_be_written_fail_the_job_at_once_with_a_sentence(
    database: Database, campaign: int, tmp_path: Path
):
    experiment_id, job_id = enqueue_job(database, campaign, a_test_job)
    nowhere = Path("/sys")  # where nobody may make a folder, root neither
    executor = simulated_executor(nowhere)
    assert run_worker(database, executor, "cpu", times=TIMES, once=True) == 1
    with database.read() as session:
        job, experiment = session.get_one(Job, job_id), session.get_one(Experiment, experiment_id)
        assert (job.state, job.attempt) == (JobState.FAILED, 1)
        assert (experiment.state, experiment.failure_kind) == (ExperimentState.FAILED, "error")
        assert "You may not write at /sys/jobs" in (experiment.failure or "")


@pytest.mark.parametrize("version", [2, "2", None])
def test_a_job_of_another_version_stays_in_the_queue_and_the_log_says_who_can_t_take_it(
    database: Database, campaign: int, work: Work, version: object
):
    experiment_id, job_id = enqueue_job(database, campaign, a_test_job)
    behind, _ = enqueue_job(database, campaign, a_test_job)
    with database.write() as session:
        spec = dict(session.get_one(Job, job_id).spec) | {"version": version}
        session.execute(update(Job).where(Job.id == job_id).values(spec=spec))
    assert work() == 1
    with database.read() as session:
        job = session.get_one(Job, job_id)
        assert (job.state, job.attempt, job.error) == (JobState.QUEUED, 0, None)
        assert session.get_one(Experiment, experiment_id).state is ExperimentState.PLANNED
    assert_recorded_once(database, [behind])
    owner = WorkerName.here("cpu").owner
    assert events_of(database, "job.left") == [
        f"{owner} leaves J-1 in the queue: it was written as version {version}, and this worker runs 1."
    ]


def test_a_job_for_another_device_than_the_worker_s_stays_in_the_queue(
    database: Database, campaign: int, work: Work
):
    for _ in range(2):
        _, job_id = enqueue_job(database, campaign, a_test_job)
    assert work(target="cuda:NVIDIA L4:24 GB") == 0
    with database.read() as session:
        assert session.get_one(Job, job_id).state is JobState.QUEUED
    owner = WorkerName.here("cpu").owner
    assert events_of(database, "job.left") == [
        f"{owner} leaves J-1 in the queue: it is for {TARGET}, and this device is cuda:NVIDIA L4:24 GB."
    ]
    assert work(target=TARGET) == 2


def test_a_malformed_spec_is_refused_with_a_sentence(database: Database, campaign: int, work: Work):
    _, job_id = enqueue_job(database, campaign, a_test_job)
    with database.write() as session:
        spec = dict(session.get_one(Job, job_id).spec) | {"seed": "soon"}
        session.execute(update(Job).where(Job.id == job_id).values(spec=spec))
    work()
    with database.read() as session:
        error = session.get_one(Job, job_id).error
    assert error is not None
    assert "malformed at test.seed" in error


def test_a_job_whose_process_keeps_dying_fails_when_its_attempts_are_used_up(
    database: Database, campaign: int, tmp_path: Path
):
    experiment_id, job_id = enqueue_job(database, campaign, a_test_job, max_attempts=2)
    dying = simulated_executor(tmp_path, {"AUTOINFER_TEST_KILL_AT": "after-measure"})
    run_worker(database, dying, "cpu", times=TIMES, once=True)
    with database.read() as session:
        job, experiment = session.get_one(Job, job_id), session.get_one(Experiment, experiment_id)
        assert (job.state, job.attempt) == (JobState.FAILED, 2)
        assert (experiment.state, experiment.failure_kind) == (ExperimentState.FAILED, "crashed")
        assert session.execute(select(Launch.id)).all() == []
    assert len(events_of(database, "job.requeued")) == 1
    assert len(events_of(database, "job.failed")) == 1


class Waits(threading.Event):
    """The waits of an idle worker, which is stopped after the third."""

    def __init__(self) -> None:
        super().__init__()
        self.seconds: list[float | None] = []

    def wait(self, timeout: float | None = None) -> bool:
        self.seconds.append(timeout)
        if len(self.seconds) == 3:
            self.set()
        return self.is_set()


@pytest.mark.parametrize(("device", "wait_s"), [("cpu", TIMES.busy_poll_s), ("cpu:1", TIMES.idle_poll_s)])
def test_an_idle_worker_looks_rarely_while_its_device_is_measured(
    database: Database, campaign: int, tmp_path: Path, device: str, wait_s: float
):
    """Such as the second of two campaigns, or a reproduction's beside a campaign's; both jobs are for cpu."""
    for _ in range(2):
        enqueue_job(database, campaign, a_test_job)
    measuring = WorkerName.here(device)
    with database.write() as session:
        assert queue.claim(session, "another", measuring.device_key, ("cpu",), 60) is not None
        other = session.scalars(select(Job.id).where(Job.state == JobState.QUEUED)).one()
        queue.cancel(session, other)
    waits = Waits()
    run_worker(database, simulated_executor(tmp_path), "cpu", times=TIMES, stop=waits)
    assert waits.seconds == [wait_s] * 3
