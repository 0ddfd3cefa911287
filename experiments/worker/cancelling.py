"""Cancelling a job, with what follows from it in the database."""

from __future__ import annotations

from sqlalchemy import select
from sqlalchemy.orm import Session

from db import queue
from db.models import Job
from db.states import ExperimentState, JobState
from experiments.worker.reaping import end_experiment


def cancel(session: Session, job_id: int, why: str) -> JobState | None:
    """Cancel a job and return its state: one that waits at once, with its experiment, `why` in a sentence.

    One that runs goes on until its worker obeys. None when there is no such job.
    """
    state = queue.cancel(session, job_id)
    if state is JobState.CANCELLED:
        experiment_id = session.scalar(select(Job.experiment_id).where(Job.id == job_id))
        if experiment_id is not None:
            end_experiment(session, experiment_id, ExperimentState.CANCELLED, "cancelled", why)
    return state
