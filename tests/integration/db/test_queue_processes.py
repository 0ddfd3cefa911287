"""Workers as processes on one SQLite file: killed and frozen at named points and at random."""

import os
import random
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from sqlalchemy import select

from configs.errors import DatabaseLocked
from db import events, queue
from db.models import Job
from db.session import Database, open_database
from db.states import JobState
from tests.waiting import PATIENCE_S

ROOT = Path(__file__).parents[3]
SCRIPT = Path(__file__).parent / "queue_process.py"
Process = subprocess.Popen[str]
Start = Callable[[str, str], Process]


@pytest.fixture
def start(url: str, database: Database) -> Iterator[Start]:
    """Start a worker process by name and role; all are ended after the test."""
    started: list[Process] = []

    def start(name: str, role: str) -> Process:
        process = subprocess.Popen(
            [sys.executable, str(SCRIPT), url, name, role],
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()


def heard(process: Process) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def go_on(process: Process) -> None:
    assert process.stdin is not None
    process.stdin.write("\n")
    process.stdin.flush()


def kill(process: Process) -> None:
    process.send_signal(signal.SIGKILL)
    process.wait()


def enqueue(database: Database, count: int = 1, max_attempts: int = 1000) -> None:
    with database.write() as session:
        for number in range(count):
            queue.enqueue(session, "experiment", {}, priority=number % 3, max_attempts=max_attempts)


def results(database: Database) -> Counter[str | None]:
    with database.read() as session:
        return Counter(event.subject for event in events.read(session))


def states(database: Database) -> list[tuple[JobState, int]]:
    with database.read() as session:
        return [(row.state, row.attempt) for row in session.execute(select(Job.state, Job.attempt))]


def take_over(database: Database, expire: Callable[[int], None]) -> None:
    expire(1)
    with database.write() as session:
        assert [reaped.state for reaped in queue.reap(session)] == [JobState.QUEUED]


def test_a_worker_killed_after_its_claim_is_replaced(
    database: Database, start: Start, expire: Callable[[int], None]
) -> None:
    enqueue(database)
    first = start("first", "stop after claim")
    assert heard(first) == "claimed"
    kill(first)
    assert states(database) == [(JobState.RUNNING, 1)]
    with database.write() as session:
        assert queue.claim(session, "second", "desk/second", ["cpu"], 60) is None
    take_over(database, expire)
    second = start("second", "run")
    assert heard(second) == "recorded"
    assert states(database) == [(JobState.DONE, 2)]
    assert results(database) == {"J-1": 1}


def test_a_worker_killed_between_result_and_state_leaves_neither(
    database: Database, start: Start, expire: Callable[[int], None]
) -> None:
    enqueue(database)
    first = start("first", "stop between result and state")
    assert heard(first) == "inside"
    kill(first)
    assert results(database) == {}
    assert states(database) == [(JobState.RUNNING, 1)]
    take_over(database, expire)
    assert heard(start("second", "run")) == "recorded"
    assert results(database) == {"J-1": 1}


def test_a_frozen_worker_that_wakes_up_too_late_records_nothing(
    database: Database, start: Start, expire: Callable[[int], None]
) -> None:
    enqueue(database)
    first = start("first", "stop after claim")
    assert heard(first) == "claimed"
    first.send_signal(signal.SIGSTOP)
    take_over(database, expire)
    assert heard(start("second", "run")) == "recorded"
    first.send_signal(signal.SIGCONT)
    go_on(first)
    assert heard(first) == "lost"
    assert results(database) == {"J-1": 1}
    assert states(database) == [(JobState.DONE, 2)]


def test_a_worker_frozen_in_a_transaction_blocks_writers_alone_and_no_longer_than_it_lives(
    url: str, database: Database, start: Start, expire: Callable[[int], None]
) -> None:
    enqueue(database)
    first = start("first", "stop between result and state")
    assert heard(first) == "inside"
    first.send_signal(signal.SIGSTOP)
    impatient = open_database(url, busy_timeout_s=0.05)
    assert states(impatient) == [(JobState.RUNNING, 1)]
    with pytest.raises(DatabaseLocked), impatient.write():
        pytest.fail("the frozen worker holds the lock")
    impatient.close()
    kill(first)
    take_over(database, expire)
    assert heard(start("second", "run")) == "recorded"
    assert results(database) == {"J-1": 1}


def test_two_workers_share_a_queue_without_losing_or_doubling(database: Database, start: Start) -> None:
    enqueue(database, 200)
    workers = [start(name, "work until done") for name in ("first", "second")]
    for worker in workers:
        worker.communicate(timeout=PATIENCE_S)
        assert worker.returncode == 0
    assert results(database) == {f"J-{number}": 1 for number in range(1, 201)}
    assert set(states(database)) == {(JobState.DONE, 1)}


@pytest.mark.parametrize(
    ("count", "kills"), [(40, 2), pytest.param(120, 6, marks=[pytest.mark.bench_only, pytest.mark.slow])]
)
def test_workers_killed_at_random_lose_and_double_nothing(
    database: Database, start: Start, count: int, kills: int
) -> None:
    enqueue(database, count)
    chance = random.Random(20260101)
    survivor = start("survivor", "work among the dying")
    for number in range(kills):
        victim = start(f"victim-{number}", "work among the dying")
        for _ in range(chance.randrange(1, 5)):
            heard(victim)
        kill(victim)
    survivor.communicate(timeout=PATIENCE_S)
    assert survivor.returncode == 0
    assert results(database) == {f"J-{number}": 1 for number in range(1, count + 1)}
    assert {state for state, _ in states(database)} == {JobState.DONE}
