"""Remote runs in the queue: taken over under a fence, one open run a job, settled once."""

from collections.abc import Callable

import pytest
from sqlalchemy.exc import IntegrityError

from configs.errors import LeaseLost
from db import queue, remote_runs
from db.claims import ClaimedJob
from db.models import Job, RemoteRun
from db.remote_runs import Run
from db.session import Database
from db.states import JobState

TARGET = "files:T"


def claim(database: Database, job_id: int) -> tuple[ClaimedJob, Run]:
    with database.write() as session:
        claimed = queue.claim_one(session, job_id, "first", f"{TARGET}/{job_id}", 60)
        assert claimed is not None
        return claimed, intend(session, claimed)


def intend(session: object, claimed: ClaimedJob) -> Run:
    return remote_runs.intend(
        session,  # type: ignore[arg-type]
        claimed,
        executor="files",
        target=TARGET,
        key=f"job{claimed.id}-{claimed.attempt}",
        expected_s=1,
        expected=1,
        bound=2,
        basis="a price",
    )


@pytest.fixture
def job_id(database: Database) -> int:
    with database.write() as session:
        return queue.enqueue(session, "test", {}, device_class=TARGET, max_attempts=1)


def take_over(database: Database, owner: str = "second") -> list[tuple[ClaimedJob, Run]]:
    with database.write() as session:
        found = remote_runs.abandoned(session, "files", TARGET)
        return remote_runs.take_over(session, found, owner, 60)


def test_the_stale_owner_of_a_run_that_was_taken_over_can_write_nothing(
    database: Database, job_id: int, expire: Callable[[int], None]
) -> None:
    """The fence, step by step: the lease runs out, all reap, another takes over, and the first wakes."""
    first, run = claim(database, job_id)
    assert take_over(database) == [], "its lease holds"
    expire(job_id)
    with database.write() as session:
        assert queue.reap(session) == []
    [(second, taken)] = take_over(database)
    assert (taken.id, taken.key) == (run.id, run.key), "the same run goes on"
    assert second.attempt == first.attempt + 1
    with database.write() as session:
        assert not queue.heartbeat(session, first.id, first.attempt, 60)
        assert (first.id, first.attempt) not in queue.heartbeat_all(session, "first", 60)
    with pytest.raises(LeaseLost), database.write() as session:
        queue.finish(session, first, JobState.DONE)
    with database.write() as session:
        queue.finish(session, second, JobState.DONE)
        assert remote_runs.settle(session, taken.id, "done", 1.0, 1)


def test_a_takeover_is_not_held_against_the_job(
    database: Database, job_id: int, expire: Callable[[int], None]
) -> None:
    claim(database, job_id)
    for number in range(5):
        expire(job_id)
        [(claimed, _)] = take_over(database, f"worker {number}")
    with database.read() as session:
        job = session.get_one(Job, job_id)
    assert (job.attempt, job.max_attempts) == (6, 6)
    with database.write() as session:
        remote_runs.settle(session, 1, "lost")
        assert queue.give_up(session, claimed, "It broke.") is JobState.FAILED, "it had one attempt in all"


def test_only_one_of_two_takes_a_run_over(
    database: Database, job_id: int, expire: Callable[[int], None]
) -> None:
    claim(database, job_id)
    expire(job_id)
    with database.read() as session:
        found = remote_runs.abandoned(session, "files", TARGET)
    for owner, taken in (("second", 1), ("third", 0)):
        with database.write() as session:
            assert len(remote_runs.take_over(session, found, owner, 60)) == taken


def test_a_job_has_one_open_run_at_most(database: Database, job_id: int) -> None:
    claimed, run = claim(database, job_id)
    with pytest.raises(IntegrityError), database.write() as session:
        session.add(
            RemoteRun(
                job_id=job_id,
                executor="files",
                target=TARGET,
                kind="test",
                key="another",
                day=1,
                expected_s=1,
                expected_microusd=1,
                reserved_microusd=1,
                basis="a price",
            )
        )
    with database.write() as session:
        assert remote_runs.settle(session, run.id, "lost")
        assert not remote_runs.settle(session, run.id, "done", 9.0, 9), "it is settled once"
        queue.release(session, claimed)
    with database.write() as session:
        again = queue.claim_one(session, job_id, "second", f"{TARGET}/{job_id}", 60)
        assert again is not None
        assert intend(session, again).key != run.key


def test_once_its_run_has_ended_a_job_is_requeued_as_any_other(
    database: Database, job_id: int, expire: Callable[[int], None]
) -> None:
    _, run = claim(database, job_id)
    with database.write() as session:
        remote_runs.settle(session, run.id, "lost")
    expire(job_id)
    with database.write() as session:
        assert [each.job_id for each in queue.reap(session)] == [job_id]
