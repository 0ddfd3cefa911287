"""The queue on SQLite does whatever a plain list of jobs in memory would do, in any order of operations."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, invariant, rule, run_state_machine_as_test
from sqlalchemy import delete, select, update

from configs.errors import LeaseLost
from db import queue
from db.clock import after
from db.models import Job
from db.queue import ClaimedJob
from db.session import Database, open_database
from db.states import FINAL_JOB_STATES, JobState

LEASE_S = 3600.0
"""Longer than any test: a lease runs out when the test says so."""

CLASSES = st.sampled_from(["cpu", "cuda"])
DEVICES = st.sampled_from(["desk/cpu", "desk/cuda:0", "attic/cpu"])


@dataclass
class Remembered:
    """A job as the model holds it."""

    priority: float
    device_class: str
    max_attempts: int
    seq: int
    state: JobState = JobState.QUEUED
    attempt: int = 0
    device: str | None = None
    cancel_requested: bool = False


class QueueAgainstAList(RuleBasedStateMachine):
    """Each rule does the same to the database and to `self.jobs`, and compares what came back."""

    database: Database
    claims = Bundle("claims")

    def __init__(self) -> None:
        super().__init__()
        self.jobs: dict[int, Remembered] = {}
        with self.database.write() as session:
            session.execute(delete(Job))

    @rule(priority=st.sampled_from([0.0, 1.0, 2.5]), device_class=CLASSES, max_attempts=st.integers(1, 3))
    def enqueue(self, priority: float, device_class: str, max_attempts: int) -> None:
        with self.database.write() as session:
            job_id = queue.enqueue(
                session, "x", {}, priority=priority, device_class=device_class, max_attempts=max_attempts
            )
        assert job_id not in self.jobs
        self.jobs[job_id] = Remembered(priority, device_class, max_attempts, len(self.jobs))

    @rule(target=claims, device=DEVICES, classes=st.sets(CLASSES))
    def claim(self, device: str, classes: set[str]) -> ClaimedJob | None:
        with self.database.write() as session:
            claimed = queue.claim(session, "me", device, classes, LEASE_S)
        running = {job.device for job in self.jobs.values() if job.state is JobState.RUNNING}
        waiting = [
            (job.priority, job.seq, job_id)
            for job_id, job in self.jobs.items()
            if job.state is JobState.QUEUED and job.device_class in classes
        ]
        if device in running or not waiting:
            assert claimed is None
            return None
        assert claimed is not None
        _, _, first = min(waiting)
        job = self.jobs[first]
        job.state, job.device, job.attempt = JobState.RUNNING, device, job.attempt + 1
        assert (claimed.id, claimed.attempt, claimed.device) == (first, job.attempt, device)
        return claimed

    def holds(self, claimed: ClaimedJob) -> bool:
        job = self.jobs[claimed.id]
        return job.state is JobState.RUNNING and job.attempt == claimed.attempt

    @rule(claimed=claims)
    def heartbeat(self, claimed: ClaimedJob | None) -> None:
        if claimed:
            with self.database.write() as session:
                beaten = queue.heartbeat(session, claimed.id, claimed.attempt, LEASE_S)
            assert beaten is self.holds(claimed)

    @rule(claimed=claims, state=st.sampled_from(sorted(FINAL_JOB_STATES)))
    def finish(self, claimed: ClaimedJob | None, state: JobState) -> None:
        if not claimed:
            return
        try:
            with self.database.write() as session:
                queue.finish(session, claimed, state)
        except LeaseLost:
            assert not self.holds(claimed)
        else:
            assert self.holds(claimed)
            self.jobs[claimed.id].state = state

    @rule(claimed=claims)
    def release(self, claimed: ClaimedJob | None) -> None:
        if not claimed:
            return
        try:
            with self.database.write() as session:
                queue.release(session, claimed)
        except LeaseLost:
            assert not self.holds(claimed)
        else:
            assert self.holds(claimed)
            self.jobs[claimed.id].state = JobState.QUEUED
            self.jobs[claimed.id].max_attempts += 1

    @rule(claimed=claims)
    def give_up(self, claimed: ClaimedJob | None) -> None:
        if not claimed:
            return
        try:
            with self.database.write() as session:
                state = queue.give_up(session, claimed, "it broke off")
        except LeaseLost:
            assert not self.holds(claimed)
        else:
            assert self.holds(claimed)
            job = self.jobs[claimed.id]
            job.state = JobState.FAILED if job.attempt >= job.max_attempts else JobState.QUEUED
            assert state is job.state

    @rule(silent=st.sets(DEVICES))
    def fall_silent_and_reap(self, silent: set[str]) -> None:
        with self.database.write() as session:
            lost = update(Job).where(Job.state == JobState.RUNNING, Job.device.in_(silent))
            session.execute(lost.values(lease_expires_at=after(-1)))
            reaped = {each.job_id: each.state for each in queue.reap(session)}
        expected = {}
        for job_id, job in self.jobs.items():
            if job.state is JobState.RUNNING and job.device in silent:
                used_up = job.attempt >= job.max_attempts
                job.state = JobState.FAILED if used_up else JobState.QUEUED
                job.state = JobState.CANCELLED if job.cancel_requested else job.state
                expected[job_id] = job.state
        assert reaped == expected

    @rule(data=st.data())
    def cancel(self, data: st.DataObject) -> None:
        job_id = data.draw(st.sampled_from([*self.jobs, -1]))
        with self.database.write() as session:
            state = queue.cancel(session, job_id)
        job = self.jobs.get(job_id)
        if job and job.state in (JobState.QUEUED, JobState.RUNNING):
            job.cancel_requested = True
        if job and job.state is JobState.QUEUED:
            job.state = JobState.CANCELLED
        assert state == (job.state if job else None)

    @rule(data=st.data())
    def reprioritize(self, data: st.DataObject) -> None:
        priorities = data.draw(
            st.dictionaries(st.sampled_from([*self.jobs, -1]), st.sampled_from([-1.0, 0.5, 3.0]))
        )
        with self.database.write() as session:
            queue.set_priorities(session, priorities)
        for job_id, priority in priorities.items():
            job = self.jobs.get(job_id)
            if job and job.state is JobState.QUEUED:
                job.priority = priority

    @invariant()
    def agrees(self) -> None:
        columns = (Job.id, Job.state, Job.attempt, Job.priority, Job.cancel_requested)
        with self.database.read() as session:
            stored = [tuple(row) for row in session.execute(select(*columns).order_by(Job.id))]
        assert stored == [
            (job_id, job.state, job.attempt, job.priority, job.cancel_requested)
            for job_id, job in self.jobs.items()
        ]


@pytest.fixture(scope="module")
def shared_database(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    path: Path = tmp_path_factory.mktemp("queue") / "a.db"
    database = open_database(f"sqlite:///{path}", create=True)
    yield database
    database.close()


def test_the_queue_agrees_with_a_list(shared_database: Database) -> None:
    class Machine(QueueAgainstAList):
        database = shared_database

    run_state_machine_as_test(
        Machine,
        settings=settings(
            max_examples=40,
            stateful_step_count=40,
            deadline=None,
            suppress_health_check=[HealthCheck.too_slow],
        ),
    )
