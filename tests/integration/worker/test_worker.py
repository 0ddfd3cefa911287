"""What one worker does with the jobs it takes: the worker runs in this process, its jobs in real ones."""

import threading
from collections.abc import Callable, Iterator
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path

import pytest
from sqlalchemy import select, update

from agent.judge.launch_interval import LaunchIntervalJudge
from configs.errors import DiskFull
from db import queue, workers
from db.claims import BoundProcess
from db.models import Artifact, Event, Experiment, ExperimentArtifact, Job, Launch, StageRun, Worker
from db.session import Database
from db.states import ExperimentState, JobState, StageOutcome, WorkerState
from experiments.executors.port import RunState, Status
from experiments.executors.process_group import led_by
from experiments.job.journal import read_records
from experiments.job.result import HeldMemory, JobProgress, JobResult, StageRecord, StageTurn
from experiments.measurement.evidence import Arm, Metric, Stage
from experiments.measurement.judging import Outcome
from experiments.recording import load_evidence, load_launches, load_noise, load_stages, record_result
from experiments.space.configuration import Configuration
from experiments.worker.cancelling import cancel
from experiments.worker.claiming import Taken
from experiments.worker.reporting import Reporter
from experiments.worker.settings import WorkerName, WorkerTimes
from experiments.worker.worker import run_worker
from tests.integration.worker.processes import assert_recorded_once, events_of, processes_of
from tests.simulated.places import simulated_executor
from tests.simulated.queueing import TARGET, enqueue_job, start_campaign
from tests.simulated.specs import CONTROL, FASTER, PLAN, a_baseline_job, a_test_job
from tests.waiting import PATIENCE_S, wait_for

TIMES = WorkerTimes(lease_s=5, busy_poll_s=0.1, idle_poll_s=0.02, progress_s=0.05)

Work = Callable[..., int]


@pytest.fixture
def campaign(database: Database) -> int:
    return start_campaign(database)


@pytest.fixture
def work(database: Database, tmp_path: Path) -> Iterator[Work]:
    """Runs the queue to its end."""
    executor = simulated_executor(tmp_path)
    yield partial(run_worker, database, executor, "cpu", times=TIMES, once=True)
    executor.close()


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


class Running:
    """A worker in a thread, and the means to stop it."""

    def __init__(self, database: Database, folder: Path) -> None:
        self.stop = threading.Event()
        executor = simulated_executor(folder)
        work = partial(run_worker, database, executor, "cpu", times=TIMES, stop=self.stop)
        self.thread = threading.Thread(target=work)

    def __enter__(self) -> "Running":
        self.thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.stop.set()
        self.thread.join(PATIENCE_S)
        assert not self.thread.is_alive()


def stage_is(database: Database, experiment_id: int, stage: str) -> bool:
    with database.read() as session:
        return session.get_one(Experiment, experiment_id).stage == stage


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
    assert events_of(database, "stage.finished") == ["E-0001: time launch pair 1, done after 3.0 s."]


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
    reporter.beat(replace(progress, loading="loading, for 5s by now: importing vLLM for 5s"))
    assert events_of(database, "stage.progressed") == [], "not in the first minute"
    monkeypatch.setattr("experiments.worker.reporting.PROGRESS_EVENT_S", 0.0)
    reporter.beat(replace(progress, loading="loading, for 1m5s by now: compiling for 30s"))
    with database.read() as session:
        stored = session.get_one(Experiment, experiment_id).progress
    assert (stored or {})["loading"] == "loading, for 1m5s by now: compiling for 30s"
    reporter.beat(replace(progress, done=1))
    assert events_of(database, "stage.progressed") == ["E-0001: loading, for 1m5s by now: compiling for 30s."]
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
            "Other hosts go on; attic takes no job for 10m."
        )
    else:
        assert (ended, states) == (2, [JobState.FAILED, JobState.FAILED])
        assert experiment.failure_kind == "disk_full"
        assert experiment.failure == "No space is left for runs in /data."
