"""Runs on remote targets: intended before they are submitted, taken over by the next worker, settled once.

A run is written as `intended`, with its key and the reservation of its upper bound, in the transaction that
claims its job; then it is submitted under that key, and `submitted` stores the executor's ref. Whoever takes
a job over goes on with the run that is open: with its ref, or by its key where the ref was lost. `settle`
ends it, in the transaction that ends or requeues the job. At most one run of a job is open, held by a unique
index.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import BigInteger, ColumnElement, Row, and_, func, insert, or_, select, type_coerce, update
from sqlalchemy.orm import Session

from db.claims import ClaimedJob
from db.clock import after, now
from db.models import Job, RemoteRun, Worker
from db.money import today
from db.queue import claimed_job
from db.states import JobState, RemoteRunState

TIMED_OUT = "timed_out"
"""The outcome of a run that was ended at the limit of its whole job."""

_MOST_IDS = 500
"""Ids in one statement: SQLite takes no more than some thousand values."""


@dataclass(frozen=True, slots=True)
class Run:
    """A remote run as its worker holds it; `ref` None while it is not known, `limit_s` the limit of the whole
    job that it is submitted with, None for those of its stages alone. Amounts in millionths of a
    dollar."""

    id: int
    job_id: int
    executor: str
    target: str
    key: str
    ref: str | None
    reserved: int
    age_s: float
    limit_s: float | None = None


def intend(
    session: Session,
    claimed: ClaimedJob,
    *,
    executor: str,
    target: str,
    key: str,
    expected_s: float,
    expected: int,
    bound: int,
    basis: str,
    limit_s: float | None = None,
) -> Run:
    """Write that the job is about to be submitted under `key`, and reserve `bound`; amounts in millionths of
    a dollar."""
    values = {
        "job_id": claimed.id,
        "campaign_id": claimed.campaign_id,
        "experiment_id": claimed.experiment_id,
        "executor": executor,
        "target": target,
        "kind": claimed.kind,
        "key": key,
        "day": today(session),
        "expected_s": expected_s,
        "expected_microusd": expected,
        "reserved_microusd": bound,
        "basis": basis,
        "limit_s": limit_s,
    }
    run_id: int = session.execute(insert(RemoteRun).values(values).returning(RemoteRun.id)).scalar_one()
    return Run(run_id, claimed.id, executor, target, key, None, bound, 0.0, limit_s)


def submitted(session: Session, refs: Mapping[int, str]) -> None:
    """Store the refs that the executor gave, by the id of the run."""
    for run_id, ref in refs.items():
        session.execute(
            update(RemoteRun)
            .where(RemoteRun.id == run_id, RemoteRun.state == RemoteRunState.INTENDED)
            .values(ref=ref, state=RemoteRunState.SUBMITTED, submitted_at=now())
            .execution_options(synchronize_session=False)
        )


def settle(
    session: Session,
    run_id: int,
    outcome: str,
    actual_s: float | None = None,
    actual: int | None = None,
    *,
    billed: bool = False,
) -> bool:
    """End a run: nothing of it runs any more. `actual` is what it cost in millionths of a dollar; where that
    is None, what was reserved still counts; `billed` where the provider's bill says so.
    False when it had ended."""
    ended = session.execute(
        update(RemoteRun)
        .where(RemoteRun.id == run_id, RemoteRun.state != RemoteRunState.ENDED)
        .values(
            state=RemoteRunState.ENDED,
            outcome=outcome,
            actual_s=actual_s,
            actual_microusd=actual,
            billed=billed,
            ended_at=now(),
        )
        .returning(RemoteRun.id)
        .execution_options(synchronize_session=False)
    ).one_or_none()
    return ended is not None


def open_runs(session: Session, executor: str | None = None) -> list[Run]:
    """Runs that may still run, oldest first, of this executor or of all."""
    query = select(RemoteRun, _age_ms()).where(RemoteRun.state != RemoteRunState.ENDED).order_by(RemoteRun.id)
    if executor is not None:
        query = query.where(RemoteRun.executor == executor)
    return [_run(row, age_ms) for row, age_ms in session.execute(query)]


def open_runs_of(session: Session, campaign_id: int) -> list[Run]:
    """Runs of a campaign that may still run, oldest first."""
    query = select(RemoteRun, _age_ms()).where(
        RemoteRun.state != RemoteRunState.ENDED, RemoteRun.campaign_id == campaign_id
    )
    return [_run(row, age_ms) for row, age_ms in session.execute(query.order_by(RemoteRun.id))]


def executors_known(session: Session) -> list[str]:
    """Names of the executors that ever got a run of this database."""
    return sorted(session.scalars(select(RemoteRun.executor).distinct()))


def abandoned(
    session: Session,
    executor: str,
    target: str,
    gone: Collection[str] = (),
    campaign_id: int | None = None,
) -> list[int]:
    """Jobs with an open run there whose lease has run out, or whose owner is one of `gone`, of the campaign
    or of all; reads only."""
    query = (
        select(Job.id)
        .join(RemoteRun, RemoteRun.job_id == Job.id)
        .where(_open_at(executor, target), Job.state == JobState.RUNNING)
        .where(or_(Job.lease_expires_at <= now(), Job.owner.in_(list(gone))))
        .order_by(Job.id)
    )
    if campaign_id is not None:
        query = query.where(Job.campaign_id == campaign_id)
    return list(session.scalars(query))


def owners(session: Session, executor: str, target: str) -> list[tuple[str, str, int]]:
    """Who holds jobs with an open run there: owner, host and process id of each."""
    held = (
        select(Job.owner)
        .join(RemoteRun, RemoteRun.job_id == Job.id)
        .where(_open_at(executor, target), Job.state == JobState.RUNNING)
        .distinct()
    )
    query = select(Worker.name, Worker.host, Worker.pid).where(Worker.name.in_(held)).distinct()
    return [(row.name, row.host, row.pid) for row in session.execute(query)]


def take_over(
    session: Session,
    job_ids: Collection[int],
    owner: str,
    lease_s: float,
    gone: Collection[str] = (),
    *,
    by_force: bool = False,
) -> list[tuple[ClaimedJob, Run]]:
    """Take jobs with an open run from owners whose lease ran out or who are `gone`, or, `by_force`, from
    anyone; each comes with its run. The next attempt is not held against the job, and fences off the last."""
    free: ColumnElement[bool] = or_(Job.lease_expires_at <= now(), Job.owner.in_(list(gone)))
    taken: list[tuple[ClaimedJob, Run]] = []
    ids = sorted(job_ids)
    for start in range(0, len(ids), _MOST_IDS):
        some = ids[start : start + _MOST_IDS]
        change = update(Job).where(Job.id.in_(some), Job.state == JobState.RUNNING)
        rows: list[Row[Any]] = list(
            session.connection().execute(
                (change if by_force else change.where(free))
                .values(
                    attempt=Job.attempt + 1,
                    max_attempts=Job.max_attempts + 1,
                    owner=owner,
                    lease_expires_at=after(lease_s),
                )
                .returning(*Job.__table__.c)
            )
        )
        runs = {
            row.job_id: _run(row, age_ms)
            for row, age_ms in session.execute(
                select(RemoteRun, _age_ms()).where(
                    RemoteRun.job_id.in_([row.id for row in rows]), RemoteRun.state != RemoteRunState.ENDED
                )
            )
        }
        taken += [
            (claimed_job(row), runs[row.id]) for row in sorted(rows, key=lambda row: row.id) if row.id in runs
        ]
    return taken


def let_go(session: Session, owner: str) -> None:
    """End the leases of an owner on jobs with an open run: the next worker takes them over at once."""
    open_of_job = select(RemoteRun.job_id).where(RemoteRun.state != RemoteRunState.ENDED)
    session.execute(
        update(Job)
        .where(Job.owner == owner, Job.state == JobState.RUNNING, Job.id.in_(open_of_job))
        .values(lease_expires_at=now())
        .execution_options(synchronize_session=False)
    )


def cancels_asked(session: Session, owner: str) -> frozenset[int]:
    """Jobs of the owner that the user asked to end."""
    query = select(Job.id).where(Job.owner == owner, Job.state == JobState.RUNNING, Job.cancel_requested)
    return frozenset(session.scalars(query))


def keys_of(session: Session, job_id: int) -> list[str]:
    """The keys of a job's remote runs, the first one first."""
    return list(
        session.scalars(select(RemoteRun.key).where(RemoteRun.job_id == job_id).order_by(RemoteRun.id))
    )


def jobs_of_keys(session: Session, keys: Collection[str]) -> dict[str, int]:
    """The job of each of these keys that a run of this database ever had, open or ended."""
    found: dict[str, int] = {}
    some = sorted(keys)
    for start in range(0, len(some), _MOST_IDS):
        query = select(RemoteRun.key, RemoteRun.job_id)
        rows = session.execute(query.where(RemoteRun.key.in_(some[start : start + _MOST_IDS])))
        found |= {row.key: row.job_id for row in rows}
    return found


def past_seconds(session: Session, target: str, kind: str, most: int) -> list[float]:
    """How long the newest runs of this kind on this target took that came to an end, seconds."""
    query = (
        select(RemoteRun.actual_s)
        .where(RemoteRun.target == target, RemoteRun.kind == kind, RemoteRun.outcome == "done")
        .where(RemoteRun.actual_s.is_not(None))
        .order_by(RemoteRun.id.desc())
        .limit(most)
    )
    return [each for each in session.scalars(query) if each is not None]


def reached_limit_s(session: Session, target: str, kind: str, most: int) -> float | None:
    """The longest limit that ended one of the newest runs of this kind on this target; None where none was
    ended so."""
    newest = (
        select(RemoteRun.limit_s, RemoteRun.outcome)
        .where(RemoteRun.target == target, RemoteRun.kind == kind, RemoteRun.outcome.is_not(None))
        .order_by(RemoteRun.id.desc())
        .limit(most)
        .subquery()
    )
    query = select(func.max(newest.c.limit_s)).where(newest.c.outcome == TIMED_OUT)
    found: float | None = session.scalar(query)
    return found


def in_flight(session: Session, executor: str, target: str) -> int:
    """How many runs are open there."""
    query = select(func.count()).select_from(RemoteRun).where(_open_at(executor, target))
    return int(session.execute(query).scalar_one())


def _open_at(executor: str, target: str) -> ColumnElement[bool]:
    return and_(
        RemoteRun.executor == executor, RemoteRun.target == target, RemoteRun.state != RemoteRunState.ENDED
    )


def _age_ms() -> ColumnElement[int]:
    return (type_coerce(now(), BigInteger) - type_coerce(RemoteRun.created_at, BigInteger)).label("age_ms")


def _run(row: RemoteRun, age_ms: int) -> Run:
    return Run(
        row.id,
        row.job_id,
        row.executor,
        row.target,
        row.key,
        row.ref,
        row.reserved_microusd,
        age_ms / 1000,
        row.limit_s,
    )
