"""Kill anything at any time: the next worker takes over, nothing is lost or doubled, nothing goes on."""

import random
import signal
import subprocess
import sys
from contextlib import ExitStack
from dataclasses import asdict
from functools import partial
from pathlib import Path

import psutil
import pytest
from sqlalchemy import select, update

from configs.errors import DatabaseLocked
from db import queue
from db.claims import BoundProcess
from db.clock import after
from db.models import Experiment, Job
from db.session import Database, open_database
from db.states import JobState
from db.workers import register
from experiments.executors.process_group import led_by
from experiments.kill_points import FREEZE_VARIABLE, KILL_VARIABLE, ONCE_VARIABLE, KillPoint
from experiments.own_processes import runs
from experiments.worker.claiming import take
from experiments.worker.settings import WorkerName, WorkerTimes
from tests.integration.worker.processes import (
    LEASE_S,
    REPOSITORY,
    Workers,
    all_done,
    assert_recorded_once,
    events_of,
    job_states,
    launches_alive,
    processes_of,
)
from tests.simulated.clock import HOUR_S, boot_again, set_clock
from tests.simulated.places import simulated_executor
from tests.simulated.queueing import database_url, enqueue_job, start_campaign
from tests.simulated.specs import FASTER, a_test_job
from tests.waiting import PATIENCE_S, wait_for

SLOWER = FASTER | {"simulated.request_s": 0.05}
"""A candidate that takes a moment, so that something can happen meanwhile."""


@pytest.fixture
def experiment(database: Database) -> int:
    return enqueue_job(database, start_campaign(database), partial(a_test_job, SLOWER))[0]


def stage_of(database: Database, experiment_id: int) -> str | None:
    with database.read() as session:
        return session.get_one(Experiment, experiment_id).stage


def attempt_of(database: Database) -> int:
    with database.read() as session:
        return session.execute(select(Job.attempt)).scalar_one()


@pytest.mark.parametrize(
    "point",
    [
        # in the suite a worker is killed there in hosts/test_workers_on_postgresql.py
        pytest.param(KillPoint.AFTER_CLAIM, marks=pytest.mark.bench_only),
        KillPoint.AFTER_SUBMIT,
        KillPoint.BEFORE_RESULT,
        KillPoint.BETWEEN_RESULT_AND_STATE,
    ],
)
def test_the_next_worker_takes_over_from_one_killed(
    workers: Workers, database: Database, experiment: int, point: KillPoint
):
    first = workers.start(**{KILL_VARIABLE: point.value})
    assert first.wait(PATIENCE_S) == -signal.SIGKILL
    assert job_states(database) == {1: JobState.RUNNING}
    workers.start()
    wait_for(lambda: all_done(database))
    assert attempt_of(database) == 2
    assert_recorded_once(database, [experiment])
    assert len(events_of(database, "job.requeued")) == 1
    assert len(events_of(database, "worker.lost")) == 1


def samples_of_attempt(folder: Path, attempt: int) -> int:
    """Blocks of samples that the attempt's run has written."""
    (records,) = (folder / "jobs").glob(f"*-{attempt}/records.jsonl")
    return records.read_text().count('"record":"block"')


def once(folder: Path, variable: str, point: KillPoint) -> dict[str, str]:
    """The environment in which the first process that reaches the point dies or freezes there."""
    return {variable: point.value, ONCE_VARIABLE: str(folder / "once")}


def test_a_job_killed_after_it_measured_is_run_again_at_once(
    workers: Workers, database: Database, experiment: int
):
    first = workers.start(lease_s=60, **once(workers.folder, KILL_VARIABLE, KillPoint.AFTER_MEASURE))
    wait_for(lambda: all_done(database))
    assert samples_of_attempt(workers.folder, 1) == 1, "it had measured"
    assert attempt_of(database) == 2
    assert first.poll() is None
    assert_recorded_once(database, [experiment])
    assert "killed by signal 9" in events_of(database, "job.requeued")[0]


def test_the_next_worker_takes_over_a_job_that_has_measured(
    workers: Workers, database: Database, experiment: int
):
    """The job is held right after its first samples; its worker is killed, and the next one begins anew."""
    first = workers.start(**once(workers.folder, FREEZE_VARIABLE, KillPoint.AFTER_MEASURE))
    wait_for(lambda: any(job.status() == psutil.STATUS_STOPPED for job in processes_of(workers.folder)))
    assert samples_of_attempt(workers.folder, 1) == 1
    first.kill()
    assert first.wait() == -signal.SIGKILL
    workers.start()
    wait_for(lambda: all_done(database))
    assert attempt_of(database) == 2
    assert_recorded_once(database, [experiment])
    assert len(events_of(database, "worker.lost")) == 1


def test_a_woken_worker_s_result_is_refused(workers: Workers, database: Database, experiment: int):
    """The fence: the first holds its result when it freezes; the second has taken over when it wakes."""
    first = workers.start(**{FREEZE_VARIABLE: KillPoint.BEFORE_RESULT.value})
    wait_for(lambda: psutil.Process(first.pid).status() == psutil.STATUS_STOPPED)
    assert job_states(database) == {1: JobState.RUNNING}
    second = workers.start()
    wait_for(lambda: all_done(database))
    assert attempt_of(database) == 2
    first.send_signal(signal.SIGCONT)
    first.send_signal(signal.SIGTERM)
    assert first.wait(PATIENCE_S) == 0
    assert second.poll() is None
    assert_recorded_once(database, [experiment])
    assert (
        "Its run is ended" in (workers.folder / "workers.log").read_text()
        or "were not recorded" in (workers.folder / "workers.log").read_text()
    )


def test_a_worker_frozen_in_the_middle_of_writing_holds_others_up_until_it_wakes_and_loses_nothing(
    workers: Workers, database: Database, experiment: int
):
    """A file has one writer at a time: nobody can take the job over, so that its result still counts."""
    first = workers.start(**{FREEZE_VARIABLE: KillPoint.BETWEEN_RESULT_AND_STATE.value})
    wait_for(lambda: psutil.Process(first.pid).status() == psutil.STATUS_STOPPED)
    impatient = open_database(workers.url, busy_timeout_s=0.1)
    with pytest.raises(DatabaseLocked, match="keeps the database"), impatient.write():
        pass
    impatient.close()
    assert job_states(database) == {1: JobState.RUNNING}, "what is read is read all the same"
    second = workers.start()
    first.send_signal(signal.SIGCONT)
    wait_for(lambda: all_done(database))
    assert attempt_of(database) == 1
    assert_recorded_once(database, [experiment])
    assert (first.poll(), second.poll()) == (None, None)


def test_a_woken_worker_finds_that_its_run_was_ended(workers: Workers, database: Database):
    """The first freezes while its job measures; the second ends that job before its own begins."""
    hangs = FASTER | {"simulated.hangs": "generate"}
    experiment, job_id = enqueue_job(database, start_campaign(database), partial(a_test_job, hangs))
    first = workers.start()
    wait_for(lambda: stage_of(database, experiment) == "quick" and len(processes_of(workers.folder)) == 2)
    old = {process.pid for process in processes_of(workers.folder)}
    old_launches = launches_alive(workers.folder)
    first.send_signal(signal.SIGSTOP)
    workers.start()
    wait_for(lambda: attempt_of(database) == 2)
    wait_for(lambda: len(processes_of(workers.folder)) == 2)
    assert not old & {process.pid for process in processes_of(workers.folder)}
    assert not old_launches & launches_alive(workers.folder)
    first.send_signal(signal.SIGCONT)
    first.send_signal(signal.SIGTERM)
    assert first.wait(PATIENCE_S) == 0
    assert job_states(database) == {job_id: JobState.RUNNING}, "the second still has it"


@pytest.mark.bench_only
def test_workers_and_jobs_killed_at_random_lose_and_double_nothing(workers: Workers, database: Database):
    campaign = start_campaign(database)
    candidate = FASTER | {"simulated.request_s": 0.01}
    experiments = [
        enqueue_job(database, campaign, partial(a_test_job, candidate, seed=seed), max_attempts=50)[0]
        for seed in range(8)
    ]
    chaos = random.Random(7)
    for _ in range(6):
        worker = workers.start()
        seen = len(events_of(database, "stage.started")) + len(events_of(database, "job.claimed"))
        goal = seen + chaos.randrange(1, 4)
        wait_for(
            lambda goal=goal: (
                all_done(database)
                or len(events_of(database, "stage.started")) + len(events_of(database, "job.claimed")) >= goal
            )
        )
        victims = [process.pid for process in processes_of(workers.folder)]
        if chaos.random() < 0.5 and victims:
            try:
                psutil.Process(chaos.choice(victims)).kill()
            except psutil.NoSuchProcess:
                continue
        else:
            worker.kill()
            worker.wait()
    workers.start()
    wait_for(lambda: all_done(database))
    assert_recorded_once(database, experiments)


@pytest.mark.parametrize("jobs", [8, pytest.param(30, marks=pytest.mark.bench_only)])
def test_two_workers_on_one_file_run_each_of_many_jobs_once(workers: Workers, database: Database, jobs: int):
    campaign = start_campaign(database)
    experiments = [enqueue_job(database, campaign, partial(a_test_job, seed=seed))[0] for seed in range(jobs)]
    first = workers.start("once", lease_s=30)
    second = workers.start("once", "cpu:1", lease_s=30)
    assert (first.wait(120), second.wait(120)) == (0, 0)
    assert_recorded_once(database, experiments)
    with database.read() as session:
        rows = session.execute(select(Job.device, Job.attempt)).all()
    assert {attempt for _, attempt in rows} == {1}
    assert len({device for device, _ in rows}) == 2


PARENT = """
import os, subprocess, sys
module = [sys.executable, "-m", "tests.simulated.worker_main"]
worker = subprocess.Popen([*module, *sys.argv[1:], "60", str(os.getpid())])
print(worker.pid, flush=True)
worker.wait()
"""


def test_a_worker_whose_campaign_was_gone_before_it_began_ends_at_once(workers: Workers):
    not_its_parent = str(psutil.Process().ppid())
    assert workers.start(not_its_parent).wait(PATIENCE_S) == 0


def test_a_worker_ends_with_its_campaign_and_leaves_nothing(
    workers: Workers, database: Database, experiment: int
):
    command = [sys.executable, "-c", PARENT, database_url(workers.folder), str(workers.folder)]
    with subprocess.Popen(command, cwd=REPOSITORY, stdout=subprocess.PIPE, text=True) as campaign:
        assert campaign.stdout is not None
        worker = psutil.Process(int(campaign.stdout.readline()))
        wait_for(lambda: stage_of(database, experiment) == "quick")
        campaign.kill()
    wait_for(lambda: not runs(worker))
    wait_for(lambda: not processes_of(workers.folder))
    assert job_states(database) == {1: JobState.QUEUED}, "given back in good order"


def test_a_worker_killed_with_its_campaign_leaves_nothing(
    workers: Workers, database: Database, experiment: int
):
    worker = workers.start(lease_s=60)
    wait_for(lambda: stage_of(database, experiment) == "quick" and bool(processes_of(workers.folder)))
    worker.kill()
    wait_for(lambda: not processes_of(workers.folder))


@pytest.mark.parametrize("boots", [False, True])
def test_what_a_dead_attempt_left_is_ended_however_the_clock_was_set_but_not_after_a_boot(
    database: Database, experiment: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, boots: bool
):
    name = WorkerName.here("cpu")
    command = [sys.executable, "-c", "import time; time.sleep(600)"]
    with subprocess.Popen(command, start_new_session=True) as left, ExitStack() as ending:
        ending.callback(left.kill)
        with database.write() as session:
            worker = register(session, name.owner, name.host, name.pid, name.device)
            claimed = queue.claim(session, "dead", name.device_key, name.device_classes, LEASE_S)
            assert claimed is not None
            bound = BoundProcess(name.host, **asdict(led_by(left.pid)))
            assert queue.bind_process(session, claimed.id, claimed.attempt, bound)
            session.execute(update(Job).values(lease_expires_at=after(-1)))
        set_clock(monkeypatch, HOUR_S)
        if boots:
            boot_again(monkeypatch)
        taken = take(database, simulated_executor(tmp_path), name, WorkerTimes(), worker)
        assert taken is not None
        assert taken.job.attempt == 2
        assert (left.poll() is None) is boots


def test_a_database_made_anew_does_not_meet_old_runs(workers: Workers, database: Database, experiment: int):
    workers.start("once").wait(PATIENCE_S)
    old = Path(workers.folder / "autoinfer.db")
    database.close()
    for path in workers.folder.glob("autoinfer.db*"):
        path.unlink()
    from tests.simulated.queueing import new_database

    anew = new_database(workers.folder)
    again, _ = enqueue_job(anew, start_campaign(anew), a_test_job)
    workers.start("once").wait(PATIENCE_S)
    assert_recorded_once(anew, [again])
    assert len(list((workers.folder / "jobs").iterdir())) == 2
    assert old.exists()
    anew.close()
