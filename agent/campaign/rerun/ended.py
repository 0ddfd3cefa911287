"""Waiting for an experiment's job on behalf of somebody who asked for it and wants its verdict."""

from __future__ import annotations

from collections.abc import Callable

from sqlalchemy import select

from db.models import Job
from db.session import Database
from db.states import FINAL_JOB_STATES
from experiments.worker.cancelling import cancel


def until_ended(
    database: Database,
    experiment_id: int,
    wait: Callable[[], None],
    stop: Callable[[], None],
    gone: str,
) -> None:
    """Return when the experiment's job has ended; `wait` is called between looks.

    What interrupts the waiting ends the experiment: `stop` is called, which ends a worker that was started
    for it, and its jobs are cancelled with the reason `gone`.
    """
    try:
        while not _has_ended(database, experiment_id):
            wait()
    except BaseException:
        stop()
        with database.write() as session:
            for job_id in session.scalars(select(Job.id).where(Job.experiment_id == experiment_id)).all():
                cancel(session, job_id, gone)
        raise


def _has_ended(database: Database, experiment_id: int) -> bool:
    with database.read() as session:
        state = session.scalar(
            select(Job.state).where(Job.experiment_id == experiment_id).order_by(Job.id.desc()).limit(1)
        )
    return state in FINAL_JOB_STATES
