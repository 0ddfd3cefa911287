"""Cancelling a job, with what follows from it in the database."""

from __future__ import annotations

from sqlalchemy import select
from sqlalchemy.orm import Session

from db import events, queue
from db.event_kinds import EventKind
from db.labels import Noun, format_label
from db.models import Job
from db.states import ExperimentState, JobState
from experiments.worker.reaping import end_experiment, experiment_label

ENDS_WITH_WHAT_IT_HAS = "Ended with what was measured: "
"""How the reason begins with which a job that runs is to end its measuring and keep what it has."""


def end_measuring(session: Session, job_id: int, why: str) -> JobState | None:
    """As `cancel`, but that a job which runs keeps what it measured, as far as its executor can do that and
    it obeys in time; `why` is a clause."""
    return cancel(session, job_id, f"{ENDS_WITH_WHAT_IT_HAS}{why}.")


def cancel(session: Session, job_id: int, why: str) -> JobState | None:
    """Cancel a job and return its state: one that waits at once, with its experiment, `why` in a sentence.

    One that runs goes on until its worker obeys, which then tells why. None when there is no such job.
    """
    state = queue.cancel(session, job_id, why)
    if state is JobState.CANCELLED:
        job = session.execute(select(Job.experiment_id, Job.campaign_id).where(Job.id == job_id)).one()
        label = format_label(Noun.JOB, job_id)
        if job.experiment_id is not None:
            end_experiment(session, job.experiment_id, ExperimentState.CANCELLED, "cancelled", why)
        text = f"{label} is cancelled: {why}"
        subject = experiment_label(job.experiment_id) or label
        events.append(session, EventKind.JOB_CANCELLED, text, subject, job.campaign_id)
    return state
