"""The durable queue in SQL: each statement built once, since building one costs more than running it.

Parameters are named `given_…`. `HELD` is the fence: the row of a job only while an attempt holds it.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    FromClause,
    Integer,
    String,
    and_,
    bindparam,
    case,
    cast,
    false,
    func,
    insert,
    literal,
    literal_column,
    or_,
    select,
    type_coerce,
    update,
)
from sqlalchemy.sql.dml import ReturningUpdate

from db.clock import Instant, now
from db.models.base import Base
from db.states import JobState, RemoteRunState

JOB = Base.metadata.tables["job"]
REMOTE_RUN = Base.metadata.tables["remote_run"]

_LEASE_END = type_coerce(
    type_coerce(now(), BigInteger) + bindparam("given_lease_ms", type_=BigInteger), Instant
)


def _is(state: JobState, job: FromClause = JOB) -> ColumnElement[bool]:
    # Written out, not as a parameter: SQLite uses a partial index only where it can see the condition.
    return job.c.state == literal_column(f"'{state.value}'")


def _word(state: JobState) -> ColumnElement[JobState]:
    return literal(state, JOB.c.state.type)


HELD = and_(
    JOB.c.id == bindparam("given_id", type_=Integer),
    JOB.c.attempt == bindparam("given_attempt", type_=Integer),
    _is(JobState.RUNNING),
)

ENQUEUE = (
    insert(JOB)
    .values(
        kind=bindparam("given_kind"),
        spec=bindparam("given_spec", type_=JOB.c.spec.type),
        campaign_id=bindparam("given_campaign_id", type_=Integer),
        experiment_id=bindparam("given_experiment_id", type_=Integer),
        priority=bindparam("given_priority"),
        seq=select(func.coalesce(func.max(JOB.c.id), 0)).scalar_subquery() + 1,
        device_class=bindparam("given_device_class"),
        max_attempts=bindparam("given_max_attempts"),
    )
    .returning(JOB.c.id)
)

_other = JOB.alias()
_device_is_busy = (
    select(_other.c.id)
    .where(_other.c.device == bindparam("given_device"), _is(JobState.RUNNING, _other))
    .exists()
)


_CLAIMED = {
    "state": JobState.RUNNING,
    "attempt": JOB.c.attempt + 1,
    "owner": bindparam("given_owner"),
    "device": bindparam("given_device"),
    "lease_expires_at": _LEASE_END,
    "started_at": now(),
    "error": None,
}
"""What a claim writes."""

_TAKEN = (
    JOB.c.id,
    JOB.c.attempt,
    JOB.c.kind,
    JOB.c.spec,
    JOB.c.campaign_id,
    JOB.c.experiment_id,
    JOB.c.priority,
    JOB.c.device,
    JOB.c.device_class,
    JOB.c.owner,
    JOB.c.lease_expires_at,
    JOB.c.process,
)
"""What a claim gives back."""

written_as = cast(JOB.c.spec["version"].as_string(), String)
"""The version that a job's spec was written as, as text, since nobody knows what another program wrote there;
null where it names none."""

_EXPERIMENT = Base.metadata.tables["experiment"]


def made_for(target: ColumnElement[str]) -> ColumnElement[bool]:
    """Whether a job's experiment is for this target; a job without an experiment is for any."""
    asked = select(_EXPERIMENT.c.target).where(_EXPERIMENT.c.id == JOB.c.experiment_id)
    return or_(JOB.c.experiment_id.is_(None), asked.correlate(JOB).scalar_subquery() == target)


@cache
def claim(device_classes: int, of_version: bool = False, for_target: bool = False) -> ReturningUpdate[Any]:
    """Return the statement that claims a job of any of so many classes, `given_class_0` and so on; where that
    is asked, only of `given_version` and for `given_target`."""
    wanted = [bindparam(f"given_class_{index}", type_=String) for index in range(device_classes)]
    fits = []
    if of_version:
        fits.append(written_as == bindparam("given_version", type_=String))
    if for_target:
        fits.append(made_for(bindparam("given_target", type_=String)))
    first = (
        select(JOB.c.id)
        .where(_is(JobState.QUEUED), or_(false(), *(JOB.c.device_class == each for each in wanted)), *fits)
        .order_by(JOB.c.priority, JOB.c.seq, JOB.c.id)
        .limit(1)
        .with_for_update(skip_locked=True)
        .scalar_subquery()
    )
    return (
        update(JOB)
        .where(JOB.c.id == first, _is(JobState.QUEUED), ~_device_is_busy)
        .values(**_CLAIMED)
        .returning(*_TAKEN)
    )


CLAIM_ONE = (
    update(JOB)
    .where(JOB.c.id == bindparam("given_id", type_=Integer), _is(JobState.QUEUED))
    .values(**_CLAIMED)
    .returning(*_TAKEN)
)
"""Claims the job of this id, if it still waits."""

RUNS_REMOTELY = (
    select(REMOTE_RUN.c.id)
    .where(
        REMOTE_RUN.c.job_id == JOB.c.id,
        REMOTE_RUN.c.state != literal_column(f"'{RemoteRunState.ENDED.value}'"),
    )
    .exists()
)
"""Whether something of the job may run on a remote target: it is taken over then, never queued again."""

HEARTBEAT_ALL = (
    update(JOB)
    .where(JOB.c.owner == bindparam("given_owner"), _is(JobState.RUNNING))
    .values(lease_expires_at=_LEASE_END)
    .returning(JOB.c.id, JOB.c.attempt)
)
"""Extends every lease of an owner at once."""


HEARTBEAT = update(JOB).where(HELD).values(lease_expires_at=_LEASE_END)

CANCEL_REQUESTED = select(JOB.c.cancel_requested).where(HELD)

BIND_PROCESS = update(JOB).where(HELD).values(process=bindparam("given_process", type_=JOB.c.process.type))

FINISH = (
    update(JOB)
    .where(HELD)
    .values(
        state=bindparam("given_state", type_=JOB.c.state.type),
        error=bindparam("given_error", type_=String),
        finished_at=now(),
        lease_expires_at=None,
        process=None,
    )
)

RELEASE = (
    update(JOB)
    .where(HELD)
    .values(
        state=JobState.QUEUED,
        owner=None,
        lease_expires_at=None,
        process=None,
        max_attempts=JOB.c.max_attempts + 1,
    )
)

RELEASE_UNKNOWN = (
    update(JOB)
    .where(JOB.c.owner == bindparam("given_owner"), _is(JobState.RUNNING), JOB.c.process.is_(None))
    .values(state=JobState.QUEUED, owner=None, lease_expires_at=None, max_attempts=JOB.c.max_attempts + 1)
    .returning(JOB.c.id)
)

ENDED = select(JOB.c.state, JOB.c.attempt).where(JOB.c.id == bindparam("given_id"))

HOLD = select(JOB.c.id).where(HELD).with_for_update()

_used_up = JOB.c.attempt >= JOB.c.max_attempts

GIVE_UP = (
    update(JOB)
    .where(HELD)
    .values(
        state=case((_used_up, _word(JobState.FAILED)), else_=_word(JobState.QUEUED)),
        error=bindparam("given_error", type_=String),
        finished_at=case((_used_up, now()), else_=None),
        lease_expires_at=None,
        process=None,
    )
    .returning(JOB.c.state)
)

REAP = (
    update(JOB)
    .where(_is(JobState.RUNNING), JOB.c.lease_expires_at <= now(), ~RUNS_REMOTELY)
    .values(
        state=case(
            (JOB.c.cancel_requested, _word(JobState.CANCELLED)),
            (_used_up, _word(JobState.FAILED)),
            else_=_word(JobState.QUEUED),
        ),
        error=literal("the worker stopped answering: the lease of attempt ", String)
        + cast(JOB.c.attempt, String)
        + literal(" ran out", String),
        finished_at=case((or_(JOB.c.cancel_requested, _used_up), now()), else_=None),
        lease_expires_at=None,
    )
    .returning(
        JOB.c.id,
        JOB.c.attempt,
        JOB.c.state,
        JOB.c.campaign_id,
        JOB.c.experiment_id,
        JOB.c.owner,
        JOB.c.device,
        JOB.c.process,
    )
)

CANCEL_QUEUED = (
    update(JOB)
    .where(JOB.c.id == bindparam("given_id"), _is(JobState.QUEUED))
    .values(
        state=JobState.CANCELLED,
        cancel_requested=True,
        finished_at=now(),
        error=bindparam("given_error", type_=String),
    )
)

CANCEL_RUNNING = (
    update(JOB)
    .where(JOB.c.id == bindparam("given_id"), _is(JobState.RUNNING), JOB.c.cancel_requested.is_(False))
    .values(cancel_requested=True, error=bindparam("given_error", type_=String))
)
"""Who asks first gives the reason."""

CANCEL_REASON = select(JOB.c.error).where(HELD, JOB.c.cancel_requested.is_(True))

STATE = select(JOB.c.state).where(JOB.c.id == bindparam("given_id"))

SET_PRIORITY = (
    update(JOB)
    .where(JOB.c.id == bindparam("given_id"), _is(JobState.QUEUED))
    .values(priority=bindparam("given_priority"))
)

LEFTOVERS = (
    select(JOB.c.id, JOB.c.attempt, JOB.c.process)
    .where(JOB.c.process.is_not(None), JOB.c.state != JobState.RUNNING)
    .order_by(JOB.c.id)
)

FORGET_PROCESS = (
    update(JOB)
    .where(
        JOB.c.id == bindparam("given_id"),
        JOB.c.attempt == bindparam("given_attempt"),
        JOB.c.state != JobState.RUNNING,
    )
    .values(process=None)
)
