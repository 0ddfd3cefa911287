"""What the durable queue promises, on a real SQLite file."""

from collections.abc import Callable

import pytest
from sqlalchemy import select, update
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from configs.errors import LeaseLost
from db import queue
from db.models import Job
from db.queue import BoundProcess, ClaimedJob
from db.session import Database
from db.states import JobState

LEASE_S = 60.0
PROCESS = BoundProcess(
    host="desk", pgid=4242, started_at_s=1000.5, kernel="a boot and a namespace", started_ticks=77
)


def enqueue(
    database: Database, priority: float = 0.0, device_class: str = "cpu", max_attempts: int = 3
) -> int:
    with database.write() as session:
        return queue.enqueue(
            session, "experiment", {}, priority=priority, device_class=device_class, max_attempts=max_attempts
        )


def claim(
    database: Database, device: str = "desk/cpu", owner: str = "me", classes: tuple[str, ...] = ("cpu",)
) -> ClaimedJob:
    with database.write() as session:
        claimed = queue.claim(session, owner, device, classes, LEASE_S)
    assert claimed is not None
    return claimed


def finish(database: Database, claimed: ClaimedJob, state: JobState = JobState.DONE) -> None:
    with database.write() as session:
        queue.finish(session, claimed, state)


def job(database: Database, job_id: int) -> Job:
    with database.read() as session:
        found = session.get(Job, job_id)
    assert found is not None
    return found


def claim_one(database: Database, max_attempts: int = 3) -> ClaimedJob:
    enqueue(database, max_attempts=max_attempts)
    return claim(database)


def record_and(
    database: Database, last_write: Callable[[Session, ClaimedJob], None], claimed: ClaimedJob
) -> None:
    """Write a result and, in the same transaction, what the fence guards."""
    with database.write() as session:
        queue.enqueue(session, "a result that must not be kept", {})
        last_write(session, claimed)


def queued_kinds(database: Database) -> list[str]:
    with database.read() as session:
        return list(session.scalars(select(Job.kind).where(Job.state == JobState.QUEUED)))


def test_the_lowest_priority_number_goes_first_then_the_oldest(database: Database) -> None:
    late, first, second = (enqueue(database, priority) for priority in (2.0, 1.0, 1.0))
    order = []
    for _ in range(3):
        claimed = claim(database)
        order.append(claimed.id)
        finish(database, claimed)
    assert order == [first, second, late]


def test_a_claim_carries_what_was_enqueued(database: Database, campaign_id: int) -> None:
    spec = {"plan": {"launches": 3}, "text": "größer"}
    with database.write() as session:
        job_id = queue.enqueue(session, "experiment", spec, campaign_id=campaign_id, priority=1.5)
    claimed = claim(database)
    assert (claimed.id, claimed.attempt, claimed.kind, claimed.spec) == (job_id, 1, "experiment", spec)
    assert (claimed.campaign_id, claimed.experiment_id, claimed.priority) == (campaign_id, None, 1.5)
    assert (claimed.owner, claimed.device, claimed.device_class) == ("me", "desk/cpu", "cpu")
    stored = job(database, job_id)
    assert stored.started_at is not None
    assert claimed.lease_expires_at == stored.lease_expires_at
    lease_s = (claimed.lease_expires_at - stored.started_at).total_seconds()
    assert lease_s == pytest.approx(LEASE_S, abs=0.05)


def test_only_the_asked_classes_of_device_are_claimed(database: Database) -> None:
    enqueue(database, device_class="cuda")
    with database.write() as session:
        assert queue.claim(session, "me", "desk/cpu", ["cpu"], LEASE_S) is None
        assert queue.claim(session, "me", "desk/cpu", [], LEASE_S) is None
    assert claim(database, classes=("cpu", "cuda")).device_class == "cuda"


def test_a_device_runs_one_job_at_a_time(database: Database) -> None:
    enqueue(database), enqueue(database)
    first = claim(database)
    with database.write() as session:
        assert queue.claim(session, "other", "desk/cpu", ["cpu"], LEASE_S) is None
    assert claim(database, device="desk/cuda:0", owner="other").id != first.id
    finish(database, first)


def test_the_database_itself_refuses_two_running_jobs_on_a_device(database: Database) -> None:
    second = [enqueue(database), enqueue(database)][1]
    claim(database)
    with pytest.raises(IntegrityError), database.write() as session:
        session.execute(update(Job).where(Job.id == second).values(state=JobState.RUNNING, device="desk/cpu"))


def test_a_stale_owner_is_fenced_out(database: Database, expire: Callable[[int], None]) -> None:
    job_id = enqueue(database)
    stale = claim(database, owner="first")
    expire(job_id)
    with database.write() as session:
        (reaped,) = queue.reap(session)
    assert (reaped.job_id, reaped.attempt, reaped.state, reaped.owner) == (
        job_id,
        1,
        JobState.QUEUED,
        "first",
    )
    fresh = claim(database, owner="second")
    assert (fresh.id, fresh.attempt) == (job_id, 2)

    with database.write() as session:
        assert queue.heartbeat(session, stale.id, stale.attempt, LEASE_S) is False
        assert queue.bind_process(session, stale.id, stale.attempt, PROCESS) is False
        assert queue.is_cancel_requested(session, stale.id, stale.attempt) is True
    for late in (queue.release, queue.hold, lambda session, mine: queue.finish(session, mine, JobState.DONE)):
        with pytest.raises(LeaseLost):
            record_and(database, late, stale)
    assert queued_kinds(database) == []
    assert job(database, job_id).owner == "second"

    finish(database, fresh)
    with pytest.raises(LeaseLost):
        finish(database, fresh)
    stored = job(database, job_id)
    assert (stored.state, stored.attempt, stored.owner) == (JobState.DONE, 2, "second")
    with database.write() as session:
        assert queue.claim(session, "me", "desk/cpu", ["cpu"], LEASE_S) is None


def test_an_owner_that_is_late_but_not_yet_reaped_keeps_its_job(
    database: Database, expire: Callable[[int], None]
) -> None:
    claimed = claim_one(database)
    expire(claimed.id)
    with database.write() as session:
        assert queue.heartbeat(session, claimed.id, claimed.attempt, LEASE_S) is True
        assert queue.reap(session) == []
    expire(claimed.id)
    finish(database, claimed)
    assert job(database, claimed.id).state is JobState.DONE


def test_a_reaped_job_returns_to_its_place(database: Database, expire: Callable[[int], None]) -> None:
    first = claim_one(database)
    enqueue(database)
    expire(first.id)
    with database.write() as session:
        queue.reap(session)
    stored = job(database, first.id)
    assert stored.error == "the worker stopped answering: the lease of attempt 1 ran out"
    assert stored.finished_at is None
    assert claim(database).id == first.id
    assert job(database, first.id).error is None


def test_a_job_whose_attempts_are_used_up_fails(database: Database, expire: Callable[[int], None]) -> None:
    claimed = claim_one(database, max_attempts=2)
    for expected in (JobState.QUEUED, JobState.FAILED):
        expire(claimed.id)
        with database.write() as session:
            assert [reaped.state for reaped in queue.reap(session)] == [expected]
        if expected is JobState.QUEUED:
            claim(database)
    stored = job(database, claimed.id)
    assert stored.finished_at is not None
    assert stored.error == "the worker stopped answering: the lease of attempt 2 ran out"


def test_giving_a_job_back_costs_no_attempt(database: Database, expire: Callable[[int], None]) -> None:
    claimed = claim_one(database, max_attempts=1)
    with database.write() as session:
        queue.release(session, claimed)
    again = claim(database)
    assert (again.id, again.attempt) == (claimed.id, 2)
    expire(again.id)
    with database.write() as session:
        assert [reaped.state for reaped in queue.reap(session)] == [JobState.FAILED]


def test_a_run_that_broke_off_costs_an_attempt(database: Database) -> None:
    claimed = claim_one(database, max_attempts=2)
    for expected in (JobState.QUEUED, JobState.FAILED):
        with database.write() as session:
            queue.bind_process(session, claimed.id, claimed.attempt, PROCESS)
            assert queue.give_up(session, claimed, "killed by signal 9") is expected
        if expected is JobState.QUEUED:
            claimed = claim(database)
    stored = job(database, claimed.id)
    assert (stored.error, stored.process, stored.lease_expires_at) == ("killed by signal 9", None, None)
    assert stored.finished_at is not None
    with pytest.raises(LeaseLost), database.write() as session:
        queue.give_up(session, claimed, "again")


def test_cancelling_a_queued_job_ends_it(database: Database) -> None:
    job_id = enqueue(database)
    with database.write() as session:
        assert queue.cancel(session, job_id) is JobState.CANCELLED
        assert queue.claim(session, "me", "desk/cpu", ["cpu"], LEASE_S) is None


def test_cancelling_a_running_job_asks_its_owner(database: Database) -> None:
    claimed = claim_one(database)
    with database.read() as session:
        assert queue.is_cancel_requested(session, claimed.id, claimed.attempt) is False
    with database.write() as session:
        assert queue.cancel_reason(session, claimed) is None
        assert queue.cancel(session, claimed.id, "It is too dear.") is JobState.RUNNING
        assert queue.cancel(session, claimed.id, "And late.") is JobState.RUNNING
    with database.read() as session:
        assert queue.is_cancel_requested(session, claimed.id, claimed.attempt) is True
        assert queue.cancel_reason(session, claimed) == "It is too dear.", "of who asked first"
    finish(database, claimed, JobState.CANCELLED)
    assert job(database, claimed.id).state is JobState.CANCELLED


def test_a_cancelled_job_of_a_dead_owner_is_not_queued_again(
    database: Database, expire: Callable[[int], None]
) -> None:
    claimed = claim_one(database)
    with database.write() as session:
        queue.cancel(session, claimed.id)
    expire(claimed.id)
    with database.write() as session:
        assert [reaped.state for reaped in queue.reap(session)] == [JobState.CANCELLED]


def test_cancelling_changes_nothing_that_has_ended(database: Database) -> None:
    claimed = claim_one(database)
    finish(database, claimed, JobState.FAILED)
    with database.write() as session:
        assert queue.cancel(session, claimed.id) is JobState.FAILED
        assert queue.cancel(session, claimed.id + 1) is None
    assert job(database, claimed.id).cancel_requested is False


def test_new_priorities_order_what_is_queued_alone(database: Database) -> None:
    running = claim_one(database)
    first, second = enqueue(database, 1.0), enqueue(database, 2.0)
    with database.write() as session:
        queue.set_priorities(session, {first: 5.0, second: 4.0, running.id: 9.0})
        queue.set_priorities(session, {})
    assert [job(database, each).priority for each in (running.id, first, second)] == [0.0, 5.0, 4.0]
    finish(database, running)
    assert claim(database).id == second


def test_the_process_of_a_dead_attempt_is_handed_to_its_successor(
    database: Database, expire: Callable[[int], None]
) -> None:
    claimed = claim_one(database)
    assert claimed.predecessor is None
    with database.write() as session:
        assert queue.bind_process(session, claimed.id, claimed.attempt, PROCESS) is True
        assert queue.leftovers(session, "desk") == []
    expire(claimed.id)
    with database.write() as session:
        (reaped,) = queue.reap(session)
        (leftover,) = queue.leftovers(session, "desk")
        assert queue.leftovers(session, "another host") == []
    assert reaped.process == leftover.process == PROCESS
    successor = claim(database)
    assert successor.predecessor == PROCESS
    with database.write() as session:
        queue.forget_process(session, leftover)  # too late: the job runs again
    assert job(database, claimed.id).process is not None
    finish(database, successor)
    with database.read() as session:
        assert queue.leftovers(session, "desk") == []


def test_a_process_that_an_older_version_bound_is_handed_on_too(
    database: Database, expire: Callable[[int], None]
) -> None:
    claimed = claim_one(database)
    older = {"host": "desk", "pgid": 4242, "started_at_s": 1000.5}
    with database.write() as session:
        queue.bind_process(session, claimed.id, claimed.attempt, PROCESS)
        session.get_one(Job, claimed.id).process = older
    expire(claimed.id)
    with database.write() as session:
        queue.reap(session)
        (leftover,) = queue.leftovers(session, "desk")
    assert leftover.process == BoundProcess("desk", 4242, 1000.5)


def test_a_leftover_of_a_failed_job_is_remembered_until_it_was_ended(
    database: Database, expire: Callable[[int], None]
) -> None:
    claimed = claim_one(database, max_attempts=1)
    with database.write() as session:
        queue.bind_process(session, claimed.id, claimed.attempt, PROCESS)
    expire(claimed.id)
    with database.write() as session:
        queue.reap(session)
    with database.write() as session:
        (leftover,) = queue.leftovers(session, "desk")
        queue.forget_process(session, leftover)
        assert queue.leftovers(session, "desk") == []


@pytest.mark.parametrize("state", [JobState.QUEUED, JobState.RUNNING])
def test_a_job_finishes_only_in_a_final_state(database: Database, state: JobState) -> None:
    claimed = claim_one(database)
    with pytest.raises(ValueError, match=state.value), database.write() as session:
        queue.finish(session, claimed, state)
