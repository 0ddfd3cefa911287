"""SIGKILL a remote worker at every named point: the next one goes on with the same run, and nothing is paid
twice."""

import signal
from pathlib import Path

import psutil
import pytest
from sqlalchemy import select, update

from db import queue
from db.clock import after
from db.models import Job, RemoteRun
from db.session import Database
from db.states import JobState, RemoteRunState
from experiments.executors.port import RunState
from experiments.kill_points import FREEZE_VARIABLE, KILL_VARIABLE, ONCE_VARIABLE, KillPoint
from experiments.remote.settings import RemoteTimes
from experiments.remote.worker import RemoteWorker
from tests.integration.remote.conftest import RemoteWorkers, enqueue, give_budget
from tests.integration.worker.processes import all_done, assert_recorded_once, events_of, job_states
from tests.simulated.queueing import start_campaign
from tests.simulated.remote_executor import FileProvider
from tests.simulated.remote_worker_main import TARGET
from tests.waiting import PATIENCE_S, wait_for

NO_PROCESS = 2**30
"""An id that no process has: Linux gives none above 2²²."""


@pytest.fixture
def experiment(database: Database, campaign: int) -> int:
    give_budget(database, 5.0)
    return enqueue(database, campaign)[0]


def runs(database: Database) -> list[RemoteRun]:
    with database.read() as session:
        return list(session.scalars(select(RemoteRun).order_by(RemoteRun.id)))


def run_out(database: Database) -> None:
    """Let all leases run out, as they do when their owners fall silent: who takes over looks for that at its
    start, and then after a third of its own lease."""
    with database.write() as session:
        session.execute(update(Job).values(lease_expires_at=after(-1)))


KILLED = (
    KillPoint.BEFORE_SUBMIT,
    KillPoint.AFTER_SUBMIT,
    KillPoint.WHILE_RUNNING,
    KillPoint.BEFORE_RESULT,
    KillPoint.BETWEEN_RESULT_AND_STATE,
)


ON_POSTGRESQL = KillPoint.BETWEEN_RESULT_AND_STATE
"""Where a worker on PostgreSQL is killed in the suite: within a transaction. `make bench` has all points."""


@pytest.mark.parametrize(
    ("any_url", "point"),
    [
        *(("sqlite", point) for point in KILLED),
        *(
            pytest.param(
                "postgresql", point, marks=pytest.mark.bench_only if point is not ON_POSTGRESQL else ()
            )
            for point in KILLED
        ),
    ],
    indirect=["any_url"],
)
def test_the_next_worker_goes_on_with_the_run_of_one_killed(
    any_workers: RemoteWorkers, any_database: Database, provider: FileProvider, point: KillPoint
):
    workers, database = any_workers, any_database
    give_budget(database, 5.0)
    experiment, _ = enqueue(database, start_campaign(database))
    first = workers.start(lease_s=60, **{KILL_VARIABLE: point.value})
    if point is not KillPoint.BEFORE_SUBMIT:
        wait_for(lambda: bool(provider.submits()))
    if point in (KillPoint.BEFORE_RESULT, KillPoint.BETWEEN_RESULT_AND_STATE):
        provider.end(provider.reconcile()[0])
    assert first.wait(PATIENCE_S) == -signal.SIGKILL
    assert job_states(database) == {1: JobState.RUNNING}
    [run] = runs(database)
    assert run.state is not RemoteRunState.ENDED
    assert (run.ref is None) is (point in (KillPoint.BEFORE_SUBMIT, KillPoint.AFTER_SUBMIT))

    workers.start(lease_s=60)  # the first's lease has not run out, but its process is gone
    wait_for(lambda: len(events_of(database, "job.taken_over")) == 1)
    wait_for(lambda: len(provider.submits()) == 1)
    for ref in provider.reconcile():
        provider.end(ref)
    wait_for(lambda: all_done(database))
    assert_recorded_once(database, [experiment])
    assert provider.submits() == [run.key], "one submit reached the provider"
    [run] = runs(database)
    assert (run.state, run.outcome, run.actual_microusd) == (RemoteRunState.ENDED, "done", 200_000)
    assert not events_of(database, "job.requeued")


def test_a_lost_lease_re_attaches_and_a_woken_worker_changes_nothing(
    workers: RemoteWorkers, database: Database, provider: FileProvider, experiment: int
):
    """The fence: the first holds the result when it freezes; the second records it; then the first wakes."""
    first = workers.start(
        **{FREEZE_VARIABLE: KillPoint.BEFORE_RESULT.value, ONCE_VARIABLE: str(workers.folder / "once")}
    )
    wait_for(lambda: len(provider.reconcile()) == 1)
    provider.end(provider.reconcile()[0])
    wait_for(lambda: psutil.Process(first.pid).status() == psutil.STATUS_STOPPED)
    run_out(database)
    workers.start(lease_s=60)
    wait_for(lambda: all_done(database))
    first.send_signal(signal.SIGCONT)
    first.send_signal(signal.SIGTERM)
    assert first.wait(PATIENCE_S) == 0
    assert_recorded_once(database, [experiment])
    assert len(provider.submits()) == 1
    assert "taken over by another worker" in workers.said


def test_a_woken_worker_leaves_the_run_that_another_took_over_alone(
    workers: RemoteWorkers, database: Database, provider: FileProvider, experiment: int
):
    once = {ONCE_VARIABLE: str(workers.folder / "once")}
    first = workers.start(**{FREEZE_VARIABLE: KillPoint.WHILE_RUNNING.value}, **once)
    wait_for(lambda: psutil.Process(first.pid).status() == psutil.STATUS_STOPPED)
    run_out(database)
    workers.start(lease_s=60)
    wait_for(lambda: len(events_of(database, "job.taken_over")) == 1)
    first.send_signal(signal.SIGCONT)
    wait_for(lambda: "taken over by another worker" in workers.said)
    first.send_signal(signal.SIGTERM)
    assert first.wait(PATIENCE_S) == 0
    assert len(provider.reconcile()) == 1, "it goes on for the second"
    provider.end(provider.reconcile()[0])
    wait_for(lambda: all_done(database))
    assert_recorded_once(database, [experiment])


def test_a_job_that_may_run_remotely_is_never_requeued_by_whoever_reaps(
    database: Database, provider: FileProvider, workers: RemoteWorkers, experiment: int
):
    """Deterministic: the lease runs out, everyone reaps, and the job stays with its run."""
    first = workers.start(lease_s=60, **{KILL_VARIABLE: KillPoint.AFTER_SUBMIT.value})
    assert first.wait(PATIENCE_S) == -signal.SIGKILL
    run_out(database)
    with database.write() as session:
        assert queue.reap(session) == []
    assert job_states(database) == {1: JobState.RUNNING}


def test_a_run_that_the_provider_lost_is_paid_once_and_tried_again_under_another_key(
    database: Database, provider: FileProvider, workers: RemoteWorkers, experiment: int
):
    workers.start()
    wait_for(lambda: len(provider.reconcile()) == 1)
    provider.end(provider.reconcile()[0], RunState.LOST, wall_s=50)
    wait_for(lambda: len(provider.submits()) == 2)
    provider.end(provider.reconcile()[0])
    wait_for(lambda: all_done(database))
    assert_recorded_once(database, [experiment])
    first, second = runs(database)
    assert first.key != second.key
    assert (first.outcome, first.actual_microusd) == ("lost", 50_000)
    assert (second.outcome, second.actual_microusd) == ("done", 200_000)


def test_a_worker_that_is_asked_to_end_leaves_nothing_paid_running(
    database: Database, provider: FileProvider, workers: RemoteWorkers, experiment: int
):
    worker = workers.start()
    wait_for(lambda: len(provider.reconcile()) == 1)
    worker.terminate()
    assert worker.wait(PATIENCE_S) == 0
    assert provider.reconcile() == []
    assert job_states(database) == {1: JobState.QUEUED}
    [run] = runs(database)
    assert (run.state, run.outcome) == (RemoteRunState.ENDED, "released")


def test_a_worker_that_may_leave_its_runs_hands_them_to_the_next_at_once(
    database: Database, provider: FileProvider, workers: RemoteWorkers, experiment: int
):
    worker = workers.start("leave", lease_s=60)
    wait_for(lambda: any(run.ref for run in runs(database)))
    worker.terminate()
    assert worker.wait(PATIENCE_S) == 0
    assert len(provider.reconcile()) == 1
    workers.start(lease_s=60)
    wait_for(lambda: len(events_of(database, "job.taken_over")) == 1)
    provider.end(provider.reconcile()[0])
    wait_for(lambda: all_done(database))
    assert_recorded_once(database, [experiment])
    assert len(provider.submits()) == 1


def test_progress_and_log_come_to_the_experiment_while_it_runs(
    database: Database, provider: FileProvider, workers: RemoteWorkers, experiment: int, tmp_path: Path
):
    workers.start()
    wait_for(lambda: len(provider.reconcile()) == 1)
    [ref] = provider.reconcile()
    provider.tell(ref, 1, "loading weights\nready µ\n")
    log = tmp_path / "jobs" / ref.removeprefix("fc-") / "log.txt"
    wait_for(lambda: log.exists() and log.read_text() == "loading weights\nready µ\n")
    wait_for(lambda: bool(events_of(database, "stage.started")))
    provider.end(ref)
    wait_for(lambda: all_done(database))
    assert_recorded_once(database, [experiment])


def worker(database: Database, provider: FileProvider) -> RemoteWorker:
    return RemoteWorker(database, provider, TARGET, times=RemoteTimes(look_s=0.0, soonest_s=0.0))


def test_a_worker_that_came_again_with_the_process_id_of_the_last_one_takes_its_runs_over(
    database: Database, provider: FileProvider, experiment: int
):
    """As in a container that is started again: its processes get the same ids, and its name is given."""
    first = worker(database, provider)
    first.begin()
    first.turn()
    second = worker(database, provider)
    second.begin()
    run_out(database)
    second.turn()
    assert (second.in_flight, second.looked_at) == (1, 1)
    assert len(provider.submits()) == 1
    first._beat()
    assert first.in_flight == 0, "and the last one, should it live, lets go"


@pytest.mark.parametrize(("place", "taken"), [("", 1), ("another container's", 0)])
def test_a_process_that_is_not_seen_counts_as_gone_only_where_it_would_be_seen(
    database: Database,
    provider: FileProvider,
    experiment: int,
    monkeypatch: pytest.MonkeyPatch,
    place: str,
    taken: int,
):
    with monkeypatch.context() as patch:
        if place:
            patch.setattr("experiments.remote.worker.place_mark", lambda: "c0ffee")
        patch.setattr("os.getpid", lambda: NO_PROCESS)
        first = worker(database, provider)
        first.begin()
        first.turn()
    second = worker(database, provider)
    second.begin()
    second.turn()
    assert second.in_flight == taken
