"""The durable queue in SQL: each statement built once, since building one costs more than running it.

Parameters are named `given_…`. `HELD` is the fence: the row of a job only while an attempt holds it.
"""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Integer,
    String,
    and_,
    bindparam,
    case,
    cast,
    func,
    insert,
    literal,
    or_,
    select,
    type_coerce,
    update,
)

from db.clock import Instant, now
from db.models.base import Base
from db.states import JobState

JOB = Base.metadata.tables["job"]

_LEASE_END = type_coerce(
    type_coerce(now(), BigInteger) + bindparam("given_lease_ms", type_=BigInteger), Instant
)


def _word(state: JobState) -> object:
    return literal(state, JOB.c.state.type)


HELD = and_(
    JOB.c.id == bindparam("given_id", type_=Integer),
    JOB.c.attempt == bindparam("given_attempt", type_=Integer),
    JOB.c.state == JobState.RUNNING,
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

_first = (
    select(JOB.c.id)
    .where(
        JOB.c.state == JobState.QUEUED,
        JOB.c.device_class.in_(bindparam("given_device_classes", expanding=True)),
    )
    .order_by(JOB.c.priority, JOB.c.seq, JOB.c.id)
    .limit(1)
    .with_for_update(skip_locked=True)
    .scalar_subquery()
)
_other = JOB.alias()
_device_is_busy = (
    select(_other.c.id)
    .where(_other.c.device == bindparam("given_device"), _other.c.state == JobState.RUNNING)
    .exists()
)

CLAIM = (
    update(JOB)
    .where(JOB.c.id == _first, JOB.c.state == JobState.QUEUED, ~_device_is_busy)
    .values(
        state=JobState.RUNNING,
        attempt=JOB.c.attempt + 1,
        owner=bindparam("given_owner"),
        device=bindparam("given_device"),
        lease_expires_at=_LEASE_END,
        started_at=now(),
        error=None,
    )
    .returning(
        JOB.c.id,
        JOB.c.attempt,
        JOB.c.kind,
        JOB.c.spec,
        JOB.c.campaign_id,
        JOB.c.experiment_id,
        JOB.c.priority,
        JOB.c.device_class,
        JOB.c.lease_expires_at,
        JOB.c.process,
    )
)

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

HOLD = select(JOB.c.id).where(HELD).with_for_update()

_used_up = JOB.c.attempt >= JOB.c.max_attempts

REAP = (
    update(JOB)
    .where(JOB.c.state == JobState.RUNNING, JOB.c.lease_expires_at <= now())
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
    .where(JOB.c.id == bindparam("given_id"), JOB.c.state == JobState.QUEUED)
    .values(state=JobState.CANCELLED, cancel_requested=True, finished_at=now())
)

CANCEL_RUNNING = (
    update(JOB)
    .where(JOB.c.id == bindparam("given_id"), JOB.c.state == JobState.RUNNING)
    .values(cancel_requested=True)
)

STATE = select(JOB.c.state).where(JOB.c.id == bindparam("given_id"))

SET_PRIORITY = (
    update(JOB)
    .where(JOB.c.id == bindparam("given_id"), JOB.c.state == JobState.QUEUED)
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
