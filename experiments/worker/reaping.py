"""Taking jobs from owners that stopped answering, with everything that follows from it in the database."""

from __future__ import annotations

from sqlalchemy import update
from sqlalchemy.orm import Session

from db import events, queue
from db.claims import Reaped
from db.clock import now
from db.event_kinds import EventKind
from db.labels import Noun, format_label
from db.models import Experiment, Worker
from db.states import ExperimentState, JobState, WorkerState


def reap(session: Session) -> list[Reaped]:
    """Take every job whose lease ran out from its owner, as `db.queue.reap`, and say so.

    The worker is marked as lost; an experiment whose job has no attempt left, or was to be cancelled, is
    ended. Whoever looks after a queue calls this, not `db.queue.reap`: workers before a claim, a campaign
    now and then.
    """
    reaped = queue.reap(session)
    for each in reaped:
        _tell(session, each)
    return reaped


def experiment_label(experiment_id: int | None) -> str | None:
    """The label of an experiment, None for none."""
    return None if experiment_id is None else format_label(Noun.EXPERIMENT, experiment_id)


def end_experiment(
    session: Session, experiment_id: int, state: ExperimentState, failure_kind: str, failure: str
) -> None:
    """Mark an experiment as ended without a result, unless it has ended."""
    ended = (ExperimentState.DONE, ExperimentState.FAILED, ExperimentState.CANCELLED)
    session.execute(
        update(Experiment)
        .where(Experiment.id == experiment_id, Experiment.state.not_in(ended))
        .values(state=state, failure_kind=failure_kind, failure=failure, finished_at=now(), stage=None)
        .execution_options(synchronize_session=False)
    )


def _tell(session: Session, reaped: Reaped) -> None:
    label = format_label(Noun.JOB, reaped.job_id)
    subject = experiment_label(reaped.experiment_id) or label
    who = reaped.owner or "A worker"
    lost = session.execute(
        update(Worker)
        .where(Worker.name == reaped.owner, Worker.state.in_((WorkerState.IDLE, WorkerState.BUSY)))
        .values(state=WorkerState.LOST)
        .returning(Worker.id)
    ).first()
    if lost is not None:
        events.append(session, EventKind.WORKER_LOST, f"{who} stopped answering.", label, reaped.campaign_id)
    gone = f"the lease of attempt {reaped.attempt} ran out"
    kind, state, text = {
        JobState.QUEUED: (EventKind.JOB_REQUEUED, None, f"{label} goes back to its place: {gone}."),
        JobState.CANCELLED: (
            EventKind.JOB_CANCELLED,
            ExperimentState.CANCELLED,
            f"{label} is cancelled: {gone}.",
        ),
        JobState.FAILED: (
            EventKind.JOB_FAILED,
            ExperimentState.FAILED,
            f"{label} failed: {gone}, and it has no attempt left.",
        ),
    }[reaped.state]
    if state is not None and reaped.experiment_id is not None:
        end_experiment(session, reaped.experiment_id, state, "lost", text)
    events.append(session, kind, text, subject, reaped.campaign_id)
