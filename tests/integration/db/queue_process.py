"""A process that uses the queue, for tests that kill it: `queue_process.py URL NAME ROLE`.

It says on its standard output where it has come to, and waits there for a line on its standard input.
"""

import sys
import threading

from sqlalchemy import exists, select

from configs.errors import LeaseLost
from db import events, queue
from db.event_kinds import EventKind
from db.models import Job
from db.queue import ClaimedJob
from db.session import Database, open_database
from db.states import JobState

LONG_LEASE_S = 3600.0
SHORT_LEASE_S = 0.5
PAUSE_S = 0.01


def stop_at(point: str) -> None:
    print(point, flush=True)
    sys.stdin.readline()


def claim(database: Database, name: str, lease_s: float) -> ClaimedJob | None:
    with database.write() as session:
        return queue.claim(session, name, f"desk/{name}", ["cpu"], lease_s)


def record(database: Database, claimed: ClaimedJob, name: str, point: str | None = None) -> None:
    """Write the result of a job and its end in one transaction, stopping between the two at `point`."""
    with database.write() as session:
        events.append(session, EventKind.EXPERIMENT_JUDGED, name, subject=f"J-{claimed.id}")
        if point:
            stop_at(point)
        queue.finish(session, claimed, JobState.DONE)


def one_job(database: Database, name: str, role: str) -> None:
    claimed = claim(database, name, LONG_LEASE_S)
    assert claimed is not None
    if role == "stop after claim":
        stop_at("claimed")
    try:
        record(database, claimed, name, "inside" if role == "stop between result and state" else None)
    except LeaseLost:
        print("lost", flush=True)
    else:
        print("recorded", flush=True)


def work_until_done(database: Database, name: str, lease_s: float) -> None:
    """Take jobs, and those of workers that were killed, until none is left."""
    pause = threading.Event()
    while True:
        with database.write() as session:
            queue.reap(session)
        claimed = claim(database, name, lease_s)
        if claimed is not None:
            print("claimed", claimed.id, flush=True)
            try:
                record(database, claimed, name)
            except LeaseLost:
                continue
        elif no_job_is_left(database):
            return
        else:
            pause.wait(PAUSE_S)


def no_job_is_left(database: Database) -> bool:
    with database.read() as session:
        return not session.scalar(select(exists().where(Job.state.in_([JobState.QUEUED, JobState.RUNNING]))))


if __name__ == "__main__":
    url, name, role = sys.argv[1:]
    opened = open_database(url)
    if role == "work until done":
        work_until_done(opened, name, LONG_LEASE_S)
    elif role == "work among the dying":
        work_until_done(opened, name, SHORT_LEASE_S)
    else:
        one_job(opened, name, role)
    opened.close()
