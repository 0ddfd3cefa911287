"""The durable queue: who runs what, under a lease, and recorded exactly once.

A job is `queued`, then `running` under one attempt of one owner on one device, then `done`, `failed` or
`cancelled`. A claim raises `attempt` and sets a lease by the database's clock; the owner's heartbeats extend
it. When the lease runs out, `reap` puts the job back to its place (or fails it when its attempts are used up)
and another owner may claim it, under the next attempt. Whatever the first owner still writes is fenced by
`(id, attempt, state)`: its heartbeat returns false and its `finish` raises `LeaseLost`, which rolls back the
transaction that carried its results. So a job may run more than once, but is recorded once. Call `finish` in
the transaction that writes the results.

A job that has an open run on a remote target (`db.remote_runs`) is never put back by `reap`: another worker
takes it over, under the next attempt, and goes on looking at the same run.

At most one job runs on a device, held by a unique index. All functions work inside the caller's session:
writing ones want `Database.write()`, whose transaction excludes other writers; rows are claimed with `FOR
UPDATE SKIP LOCKED` on PostgreSQL all the same, so that a claim needs no other protection.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict
from typing import Any

from sqlalchemy import CursorResult, Executable, Row
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from configs.errors import LeaseLost
from db import queue_statements as sql
from db.claims import BoundProcess, ClaimedJob, Leftover, Reaped
from db.models.base import JsonObject
from db.states import FINAL_JOB_STATES, JobState

__all__ = [
    "DEFAULT_MAX_ATTEMPTS",
    "BoundProcess",
    "ClaimedJob",
    "Leftover",
    "Reaped",
    "bind_process",
    "cancel",
    "cancel_reason",
    "claim",
    "claim_one",
    "claimed_job",
    "enqueue",
    "finish",
    "forget_process",
    "give_up",
    "has_ended",
    "heartbeat",
    "heartbeat_all",
    "hold",
    "is_cancel_requested",
    "leftovers",
    "reap",
    "release",
    "release_unknown",
    "set_priorities",
]

DEFAULT_MAX_ATTEMPTS = 3
"""Attempts a job has before a lost lease fails it for good."""


def enqueue(
    session: Session,
    kind: str,
    spec: JsonObject,
    *,
    campaign_id: int | None = None,
    experiment_id: int | None = None,
    priority: float = 0.0,
    device_class: str = "cpu",
    max_attempts: int = DEFAULT_MAX_ATTEMPTS,
) -> int:
    """Put a job into the queue and return its id; lower `priority` goes first, then the older one."""
    row = {
        "given_kind": kind,
        "given_spec": spec,
        "given_campaign_id": campaign_id,
        "given_experiment_id": experiment_id,
        "given_priority": priority,
        "given_device_class": device_class,
        "given_max_attempts": max_attempts,
    }
    job_id: int = session.connection().execute(sql.ENQUEUE, row).scalar_one()
    return job_id


def claim(
    session: Session,
    owner: str,
    device: str,
    device_classes: Collection[str],
    lease_s: float,
    *,
    spec_version: int | None = None,
    target: str | None = None,
) -> ClaimedJob | None:
    """Take the first queued job of the `device_classes` for `owner` on `device`, for `lease_s` seconds.

    Whose campaign it is makes no difference: the lowest priority goes first, then what has waited longest.
    With `spec_version` only jobs written as that version, with `target` only those of experiments for that
    target (or of none) are taken; others keep their places. Returns None when nothing of that is queued, or
    when the device runs a job already.
    """
    wanted = {
        "given_owner": owner,
        "given_device": device,
        **{f"given_class_{index}": name for index, name in enumerate(device_classes)},
        "given_lease_ms": _milliseconds(lease_s),
        **({} if spec_version is None else {"given_version": str(spec_version)}),
        **({} if target is None else {"given_target": target}),
    }
    statement = sql.claim(len(device_classes), spec_version is not None, target is not None)
    try:
        with _guard(session):
            row = session.connection().execute(statement, wanted).one_or_none()
    except IntegrityError:  # another transaction claimed for this device and has committed since
        return None
    return None if row is None else claimed_job(row)


def claim_one(session: Session, job_id: int, owner: str, device: str, lease_s: float) -> ClaimedJob | None:
    """Take this job for `owner`, for `lease_s` seconds; None when it does not wait any more.

    `device` must be unique to the job while it runs.
    """
    given = {"given_id": job_id, "given_owner": owner, "given_device": device}
    given["given_lease_ms"] = _milliseconds(lease_s)
    row = session.connection().execute(sql.CLAIM_ONE, given).one_or_none()
    return None if row is None else claimed_job(row)


def heartbeat_all(session: Session, owner: str, lease_s: float) -> frozenset[tuple[int, int]]:
    """Extend all leases of `owner` to `lease_s` seconds from now; return the jobs that it holds, each with
    its attempt."""
    given = {"given_owner": owner, "given_lease_ms": _milliseconds(lease_s)}
    rows = session.connection().execute(sql.HEARTBEAT_ALL, given)
    return frozenset((row.id, row.attempt) for row in rows)


def claimed_job(row: Row[Any]) -> ClaimedJob:
    """The claim that a statement of `queue_statements` gave back."""
    return ClaimedJob(
        id=row.id,
        attempt=row.attempt,
        kind=row.kind,
        spec=row.spec,
        campaign_id=row.campaign_id,
        experiment_id=row.experiment_id,
        priority=row.priority,
        device=row.device,
        device_class=row.device_class,
        owner=row.owner,
        lease_expires_at=row.lease_expires_at,
        predecessor=_process(row.process),
    )


def heartbeat(session: Session, job_id: int, attempt: int, lease_s: float) -> bool:
    """Extend the lease to `lease_s` seconds from now; false when the attempt no longer holds the job."""
    return _changed(session, sql.HEARTBEAT, job_id, attempt, given_lease_ms=_milliseconds(lease_s))


def is_cancel_requested(session: Session, job_id: int, attempt: int) -> bool:
    """Return whether the attempt should stop: the job was cancelled, or is no longer the attempt's."""
    fence = {"given_id": job_id, "given_attempt": attempt}
    asked: bool | None = session.connection().execute(sql.CANCEL_REQUESTED, fence).scalar_one_or_none()
    return asked is None or asked


def cancel_reason(session: Session, claimed: ClaimedJob) -> str | None:
    """Why the attempt is to stop, as who cancelled its job said; None where nobody did, or gave no reason."""
    fence = {"given_id": claimed.id, "given_attempt": claimed.attempt}
    reason: str | None = session.connection().execute(sql.CANCEL_REASON, fence).scalar_one_or_none()
    return reason


def bind_process(session: Session, job_id: int, attempt: int, process: BoundProcess) -> bool:
    """Record the process group that works for the attempt, so that a successor on its host can end it.

    False when the attempt no longer holds the job; end the group then.
    """
    return _changed(session, sql.BIND_PROCESS, job_id, attempt, given_process=asdict(process))


def finish(session: Session, claimed: ClaimedJob, state: JobState, error: str | None = None) -> None:
    """End a job as `done`, `failed` or `cancelled`, in the transaction that writes its results.

    Its bound process counts as ended. Raises `LeaseLost`, which must roll the transaction back, when the
    attempt no longer holds the job, and `ValueError` for a state that is not an end.
    """
    if state not in FINAL_JOB_STATES:
        raise ValueError(f"a job cannot finish as {state.value}")
    if not _changed(session, sql.FINISH, claimed.id, claimed.attempt, given_state=state, given_error=error):
        raise _lost(claimed)


def release(session: Session, claimed: ClaimedJob) -> None:
    """Give a job back unfinished, in good order; the attempt is not held against it.

    Raises `LeaseLost` when the attempt no longer holds the job.
    """
    if not _changed(session, sql.RELEASE, claimed.id, claimed.attempt):
        raise _lost(claimed)


def release_unknown(session: Session, owner: str) -> list[int]:
    """Give back what `owner`, who runs nothing, was given without hearing of it; returns the jobs' ids.

    So it is after a claim whose commit was cut off from its answer. The attempts are not held against them.
    """
    return sorted(session.connection().execute(sql.RELEASE_UNKNOWN, {"given_owner": owner}).scalars())


def has_ended(session: Session, claimed: ClaimedJob) -> bool:
    """Whether the job came to an end under this attempt: its result is recorded, whoever heard of it."""
    row = session.connection().execute(sql.ENDED, {"given_id": claimed.id}).one_or_none()
    return row is not None and row.attempt == claimed.attempt and row.state in FINAL_JOB_STATES


def give_up(session: Session, claimed: ClaimedJob, error: str) -> JobState:
    """Give a job back whose run broke off, the attempt held against it; returns the state it is in now.

    That is `queued` as long as it has attempts left, else `failed` with `error`; its process counts as ended.
    Raises `LeaseLost` when the attempt no longer holds the job.
    """
    given = {"given_id": claimed.id, "given_attempt": claimed.attempt, "given_error": error}
    state: JobState | None = session.connection().execute(sql.GIVE_UP, given).scalar_one_or_none()
    if state is None:
        raise _lost(claimed)
    return state


def hold(session: Session, claimed: ClaimedJob) -> None:
    """Make sure that a write transaction of the attempt is still its own, such as one that stores progress.

    Raises `LeaseLost`, which must roll the transaction back, when the attempt no longer holds the job.
    """
    fence = {"given_id": claimed.id, "given_attempt": claimed.attempt}
    if session.connection().execute(sql.HOLD, fence).one_or_none() is None:
        raise _lost(claimed)


def reap(session: Session) -> list[Reaped]:
    """Take every job whose lease has run out from its owner, and return what was done, by id.

    A job goes back to its place in the queue; it is cancelled instead when that was asked for, and failed
    when its attempts are used up. The process it bound stays recorded for `leftovers`.
    """
    return sorted(
        (
            Reaped(
                job_id=row.id,
                attempt=row.attempt,
                state=row.state,
                campaign_id=row.campaign_id,
                experiment_id=row.experiment_id,
                owner=row.owner,
                device=row.device,
                process=_process(row.process),
            )
            for row in session.connection().execute(sql.REAP)
        ),
        key=lambda reaped: reaped.job_id,
    )


def cancel(session: Session, job_id: int, why: str | None = None) -> JobState | None:
    """Cancel a queued job at once, or ask the owner of a running one to stop; `why`, a sentence, is kept as
    its `error`.

    Returns the state the job is in now (`running` until its owner obeys), None when there is no such job.
    """
    connection, which = session.connection(), {"given_id": job_id}
    asked = which | {"given_error": why}
    connection.execute(sql.CANCEL_QUEUED, asked)
    connection.execute(sql.CANCEL_RUNNING, asked)
    state: JobState | None = connection.execute(sql.STATE, which).scalar_one_or_none()
    return state


def set_priorities(session: Session, priorities: Mapping[int, float]) -> None:
    """Give queued jobs new priorities by id, lower first; jobs that are no longer queued keep theirs."""
    if priorities:
        rows = [{"given_id": job_id, "given_priority": priority} for job_id, priority in priorities.items()]
        session.connection().execute(sql.SET_PRIORITY, rows)


def leftovers(session: Session, host: str) -> list[Leftover]:
    """Return the processes on `host` that jobs bound and that no running attempt answers for."""
    rows = session.connection().execute(sql.LEFTOVERS)
    found = [Leftover(row.id, row.attempt, BoundProcess(**row.process)) for row in rows]
    return [leftover for leftover in found if leftover.process.host == host]


def forget_process(session: Session, leftover: Leftover) -> None:
    """Record that the process of a leftover has ended; does nothing when the job was claimed again."""
    _changed(session, sql.FORGET_PROCESS, leftover.job_id, leftover.attempt)


def _changed(session: Session, statement: Executable, job_id: int, attempt: int, **given: object) -> bool:
    parameters = {"given_id": job_id, "given_attempt": attempt, **given}
    result: CursorResult[Any] = session.connection().execute(statement, parameters)
    return result.rowcount == 1


def _guard(session: Session) -> AbstractContextManager[object]:
    # SQLite admits one writer, so nobody claims in between; PostgreSQL needs a point to return to.
    return session.begin_nested() if session.get_bind().dialect.name == "postgresql" else nullcontext()


def _milliseconds(seconds: float) -> int:
    return round(seconds * 1000)


def _process(document: JsonObject | None) -> BoundProcess | None:
    return None if document is None else BoundProcess(**document)


def _lost(claimed: ClaimedJob) -> LeaseLost:
    return LeaseLost(
        f"Attempt {claimed.attempt} of job {claimed.id} lost its lease: another worker may have it.",
        "Its results were not recorded; the attempt that holds the job records them.",
    )
