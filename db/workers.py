"""The roll of workers: who takes jobs, where, and when each was last heard of by the database's clock."""

from __future__ import annotations

from collections.abc import Collection

from sqlalchemy import CursorResult, select, update
from sqlalchemy.orm import Session

from db.clock import after, now
from db.models.job import Worker
from db.states import WorkerState

_PRESENT = (WorkerState.IDLE, WorkerState.BUSY)


def register(session: Session, name: str, host: str, pid: int, device: str) -> int:
    """Enter a worker that begins to take jobs on `device`, and return its id."""
    worker = Worker(name=name, host=host, pid=pid, device=device)
    session.add(worker)
    session.flush()
    return worker.id


def beat(session: Session, worker_id: int, state: WorkerState) -> bool:
    """Record a sign of life and what the worker does; false when it was given up as lost or had stopped."""
    change = update(Worker).where(Worker.id == worker_id, Worker.state.in_(_PRESENT))
    result = session.execute(
        change.values(state=state, heartbeat_at=now()).execution_options(synchronize_session=False)
    )
    assert isinstance(result, CursorResult)
    return result.rowcount == 1


def are_elsewhere(session: Session, host: str, devices: Collection[str], silence_s: float) -> bool:
    """Whether workers of other hosts, heard of within `silence_s` seconds, take jobs for one of these devices
    or classes of them."""
    present = select(Worker.device).where(
        Worker.host != host, Worker.state.in_(_PRESENT), Worker.heartbeat_at > after(-silence_s)
    )
    found = set(session.scalars(present))
    return any(each in devices or each.partition(":")[0] in devices for each in found)


def give_up_named(session: Session, names: Collection[str]) -> list[str]:
    """Mark as lost the present workers of these names, and return those that were present."""
    if not names:
        return []
    gone = update(Worker).where(Worker.name.in_(list(names)), Worker.state.in_(_PRESENT))
    lost = session.scalars(
        gone.values(state=WorkerState.LOST)
        .returning(Worker.name)
        .execution_options(synchronize_session=False)
    )
    return sorted(lost)


def give_up_silent(session: Session, silence_s: float) -> list[Worker]:
    """Mark as lost every present worker not heard of for `silence_s` seconds, and return them."""
    silent = session.scalars(
        select(Worker)
        .where(Worker.state.in_(_PRESENT), Worker.heartbeat_at <= after(-silence_s))
        .order_by(Worker.id)
        .with_for_update(skip_locked=True)
    ).all()
    for worker in silent:
        worker.state = WorkerState.LOST
    return list(silent)
