"""The durable queue claims and finishes 1,000 jobs a second or more on an SQLite file, commits synced.

A job costs two synced commits, so the figure is the machine's as much as ours. Before each round plain
SQLite is timed at trivial commits: a round counts only where these leave room for the target, and the best
round counts, since other work on the machine only ever slows one down. Where no round counts, the machine is
too busy, or its disk too slow, to say anything, and the test is skipped with the figures.
"""

import os
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from db import queue
from db.session import Database, open_database
from db.states import JobState

TARGET_PER_S = 1000
"""Jobs claimed and finished per second that ARCHITECTURE.md asks for on two cores."""

PLAIN_COMMITS_NEEDED_PER_S = 8 * TARGET_PER_S
"""Trivial synced commits per second below which a machine has no room for the target; idle, ours does
20,000."""

PLAIN_COMMITS = 400
JOBS_PER_ROUND = 1000
ROUNDS = 8
LEASE_S = 60.0
ROOT = Path(__file__).parents[2]

WORK_UNTIL_EMPTY = """
import sys
from db import queue
from db.session import open_database
from db.states import JobState
url, name = sys.argv[1:]
database = open_database(url)
print("ready", flush=True)
for _ in sys.stdin:
    done = 0
    while True:
        with database.write() as session:
            claimed = queue.claim(session, name, f"desk/{name}", ["cpu"], 60.0)
        if claimed is None:
            break
        with database.write() as session:
            queue.finish(session, claimed, JobState.DONE)
        done += 1
    print(done, flush=True)
"""


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/queue.db"


@pytest.fixture
def database(url: str) -> Iterator[Database]:
    database = open_database(url, create=True)
    yield database
    database.close()


def plain_commits_per_s(path: Path) -> float:
    connection = sqlite3.connect(path, isolation_level=None)
    for statement in (
        "PRAGMA journal_mode=WAL",
        "PRAGMA synchronous=FULL",
        "CREATE TABLE IF NOT EXISTS t (x)",
    ):
        connection.execute(statement)
    begun = time.perf_counter()
    for _ in range(PLAIN_COMMITS):
        connection.execute("INSERT INTO t VALUES (1)")
    elapsed_s = time.perf_counter() - begun
    connection.close()
    return PLAIN_COMMITS / elapsed_s


def assert_target_is_reached(database: Database, folder: Path, work: Callable[[], None]) -> None:
    plain: list[float] = []
    reached: list[float] = []
    for _ in range(ROUNDS):
        plain.append(plain_commits_per_s(folder / "plain.db"))
        if plain[-1] < PLAIN_COMMITS_NEEDED_PER_S:
            continue
        with database.write() as session:
            for number in range(JOBS_PER_ROUND):
                queue.enqueue(session, "experiment", {"number": number}, priority=number % 7)
        begun = time.perf_counter()
        work()
        reached.append(JOBS_PER_ROUND / (time.perf_counter() - begun))
        if (
            plain_commits_per_s(folder / "plain.db") < PLAIN_COMMITS_NEEDED_PER_S
            and reached[-1] < TARGET_PER_S
        ):
            reached.pop()  # the machine became busy meanwhile
    if not reached:
        pytest.skip(f"too busy or too slow a disk: {max(plain):.0f} plain synced commits/s at best")
    print(f"{max(reached):.0f} jobs/s at best, plain synced commits {max(plain):.0f}/s")
    assert max(reached) >= TARGET_PER_S


def test_one_process_reaches_the_target(database: Database, tmp_path: Path) -> None:
    def work() -> None:
        while True:
            with database.write() as session:
                claimed = queue.claim(session, "me", "desk/cpu", ["cpu"], LEASE_S)
            if claimed is None:
                return
            with database.write() as session:
                queue.finish(session, claimed, JobState.DONE)

    assert_target_is_reached(database, tmp_path, work)


def test_two_contending_processes_reach_the_target_together(
    url: str, database: Database, tmp_path: Path
) -> None:
    workers = [
        subprocess.Popen(
            [sys.executable, "-c", WORK_UNTIL_EMPTY, url, name],
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for name in ("first", "second")
    ]

    def hear(worker: "subprocess.Popen[str]") -> str:
        assert worker.stdout is not None
        return worker.stdout.readline().strip()

    def work() -> None:
        for worker in workers:
            assert worker.stdin is not None
            worker.stdin.write("go\n")
            worker.stdin.flush()
        assert sum(int(hear(worker)) for worker in workers) == JOBS_PER_ROUND

    try:
        assert [hear(worker) for worker in workers] == ["ready", "ready"]
        assert_target_is_reached(database, tmp_path, work)
    finally:
        for worker in workers:
            worker.kill()
            worker.communicate()
