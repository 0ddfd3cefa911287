"""Workers of two hosts, each with its own folder, on one PostgreSQL that they reach through a network that
fails."""

import signal
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import psutil
import pytest
from sqlalchemy import select

from db import workers as roll
from db.models import Job, Worker
from db.session import Database
from db.states import JobState, WorkerState
from experiments.kill_points import FREEZE_VARIABLE, KILL_VARIABLE, ONCE_VARIABLE, KillPoint
from experiments.worker.worker import run_worker
from tests.integration.worker.in_process import TIMES
from tests.integration.worker.processes import (
    Workers,
    all_done,
    assert_recorded_once,
    events_of,
    job_states,
    processes_of,
)
from tests.postgresql import PASSWORD, Server
from tests.proxy import Proxy
from tests.simulated.places import simulated_executor
from tests.simulated.queueing import enqueue_job, start_campaign
from tests.simulated.specs import FASTER, a_test_job
from tests.waiting import PATIENCE_S, wait_for

SLOWER = FASTER | {"simulated.request_s": 0.05}


@pytest.fixture
def proxy(server: Server) -> Iterator[Proxy]:
    made = Proxy(server.port)
    yield made
    made.close()


@pytest.fixture
def here(tmp_path: Path, url: str) -> Iterator[Workers]:
    yield from workers_in(tmp_path / "here", url)


@pytest.fixture
def there(tmp_path: Path, server: Server, name: str, proxy: Proxy) -> Iterator[Workers]:
    """Workers of another host, behind the proxy."""
    yield from workers_in(tmp_path / "there", server.url(name, port=proxy.port))


def workers_in(folder: Path, url: str) -> Iterator[Workers]:
    folder.mkdir()
    made = Workers(folder, url)
    yield made
    made.end()
    wait_for(lambda: not processes_of(folder))


@pytest.fixture
def experiment(database: Database) -> int:
    return enqueue_job(database, start_campaign(database), partial(a_test_job, SLOWER))[0]


def stopped(workers: Workers) -> list[psutil.Process]:
    return [job for job in processes_of(workers.folder) if job.status() == psutil.STATUS_STOPPED]


def running(database: Database) -> bool:
    return JobState.RUNNING in job_states(database).values()


def attempt_of(database: Database) -> int:
    with database.read() as session:
        return session.execute(select(Job.attempt)).scalar_one()


@pytest.mark.parametrize(
    "point",
    [
        KillPoint.AFTER_CLAIM,
        # in the suite a worker is killed there in worker/test_takeover.py
        pytest.param(KillPoint.BETWEEN_RESULT_AND_STATE, marks=pytest.mark.bench_only),
    ],
)
def test_another_host_takes_over_from_a_worker_that_was_killed(
    here: Workers, there: Workers, database: Database, experiment: int, point: KillPoint
) -> None:
    assert there.start(**{KILL_VARIABLE: point.value}).wait(PATIENCE_S) == -signal.SIGKILL
    here.start("cpu:1")
    wait_for(lambda: all_done(database))
    assert attempt_of(database) == 2
    assert_recorded_once(database, [experiment])


def test_the_result_of_a_host_that_slept_too_long_is_refused(
    here: Workers, there: Workers, database: Database, experiment: int
) -> None:
    sleeper = there.start(**{FREEZE_VARIABLE: KillPoint.BEFORE_RESULT.value})
    wait_for(lambda: psutil.Process(sleeper.pid).status() == psutil.STATUS_STOPPED)
    here.start("cpu:1")
    wait_for(lambda: all_done(database))
    sleeper.send_signal(signal.SIGCONT)
    sleeper.send_signal(signal.SIGTERM)
    assert sleeper.wait(PATIENCE_S) == 0
    assert attempt_of(database) == 2
    assert_recorded_once(database, [experiment])


def test_a_run_goes_on_while_its_network_is_cut_and_is_recorded_afterwards(
    there: Workers, database: Database, experiment: int, proxy: Proxy
) -> None:
    """The job is held after its first samples until the network is cut."""
    once = {FREEZE_VARIABLE: KillPoint.AFTER_MEASURE.value, ONCE_VARIABLE: str(there.folder / "once")}
    worker = there.start(lease_s=60, **once)
    wait_for(lambda: bool(stopped(there)))
    proxy.cut()
    for job in stopped(there):
        job.resume()
    records = there.folder / "jobs"
    wait_for(lambda: any('"record":"end"' in each.read_text() for each in records.glob("*/records.jsonl")))
    assert running(database)
    proxy.mend()
    wait_for(lambda: all_done(database))
    assert worker.poll() is None
    assert attempt_of(database) == 1
    assert_recorded_once(database, [experiment])


def test_a_worker_goes_on_after_the_server_was_restarted(
    server: Server, here: Workers, database: Database, experiment: int
) -> None:
    worker = here.start(lease_s=60)
    wait_for(lambda: running(database))
    server.stop(signal.SIGQUIT)
    server.start()
    wait_for(lambda: all_done(database))
    more, _ = enqueue_job(database, 1, a_test_job)
    wait_for(lambda: all_done(database))
    assert worker.poll() is None
    assert attempts(database) == [1, 1]
    assert_recorded_once(database, [experiment, more])


def test_a_job_is_given_nothing_of_the_database(
    here: Workers, database: Database, experiment: int, url: str
) -> None:
    here.start(AUTOINFER_DATABASE_URL=url, PGPASSWORD=PASSWORD, PGPASSFILE="/somewhere")
    wait_for(lambda: bool(processes_of(here.folder)))
    for process in processes_of(here.folder):
        environment = process.environ()
        assert not {"AUTOINFER_DATABASE_URL", "PGPASSWORD", "PGPASSFILE"} & set(environment)
        assert PASSWORD not in "".join(environment.values())
    wait_for(lambda: all_done(database))


def attempts(database: Database) -> list[int]:
    with database.read() as session:
        return list(session.scalars(select(Job.attempt).order_by(Job.id)))


def test_a_claim_whose_answer_was_lost_is_given_back_without_holding_it_against_the_job(
    database: Database, experiment: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from configs.errors import DatabaseUnreachable
    from experiments.worker import worker as module

    real, cuts = module.take, iter([True])

    def claimed_and_cut(*given: object) -> object:
        taken = real(*given)  # type: ignore[arg-type]
        if taken is not None and next(cuts, False):
            raise DatabaseUnreachable("The answer never came.")
        return taken

    monkeypatch.setattr(module, "take", claimed_and_cut)
    executor = simulated_executor(tmp_path)
    assert run_worker(database, executor, "cpu", times=TIMES, once=True) == 1
    executor.close()
    assert "was cut off while it took it" in events_of(database, "job.requeued")[0]
    with database.read() as session:
        job = session.scalars(select(Job)).one()
    assert (job.state, job.max_attempts - job.attempt) == (JobState.DONE, 2)
    assert_recorded_once(database, [experiment])


def test_a_result_whose_answer_was_lost_is_recorded_once(
    database: Database, experiment: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from configs.errors import DatabaseUnreachable
    from experiments.worker.reporting import Reporter

    real, cuts = Reporter.record, iter([True])

    def recorded_and_cut(self: Reporter, *given: object) -> None:
        real(self, *given)  # type: ignore[arg-type]
        if next(cuts, False):
            raise DatabaseUnreachable("The answer never came.")

    monkeypatch.setattr(Reporter, "record", recorded_and_cut)
    executor = simulated_executor(tmp_path)
    assert run_worker(database, executor, "cpu", times=TIMES, once=True) == 1
    executor.close()
    assert_recorded_once(database, [experiment])


def test_a_worker_given_up_as_lost_is_on_the_roll_again_when_it_is_heard_of(
    database: Database, tmp_path: Path
) -> None:
    stop = threading.Event()
    executor = simulated_executor(tmp_path)
    thread = threading.Thread(target=run_worker, args=(database, executor, "cpu"), kwargs={"stop": stop})
    thread.start()
    try:
        wait_for(lambda: states(database) == [WorkerState.IDLE])
        with database.write() as session:
            assert len(roll.give_up_silent(session, -1.0)) == 1
        wait_for(lambda: states(database) == [WorkerState.LOST, WorkerState.IDLE])
    finally:
        stop.set()
        thread.join()


def states(database: Database) -> list[WorkerState]:
    with database.read() as session:
        return list(session.scalars(select(Worker.state).order_by(Worker.id)))
