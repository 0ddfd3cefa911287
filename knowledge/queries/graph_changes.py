"""Whether the graph may have changed: by the last event that is not known to leave it as it is."""

from __future__ import annotations

from sqlalchemy import select
from sqlalchemy.orm import Session

from db.event_kinds import EventKind
from db.models import Event

LEAVE_IT = frozenset(
    {
        EventKind.HYPOTHESIS_REFUSED,
        EventKind.QUEUE_RANKED,
        EventKind.STAGE_STARTED,
        EventKind.STAGE_FINISHED,
        EventKind.DIRECTIVE_GIVEN,
        EventKind.DIRECTIVE_LIFTED,
        EventKind.NOTE_ADDED,
        EventKind.NOISE_RECORDED,
        EventKind.ARTIFACT_BUILT,
        EventKind.ARTIFACT_PRUNED,
        EventKind.JOB_PRUNED,
        EventKind.WORKER_STARTED,
        EventKind.WORKER_STOPPED,
        EventKind.WORKER_LOST,
        EventKind.WORKER_MISSING,
    }
)
"""Events that change no node and no edge: most of what a campaign writes while it measures."""


def last_change(session: Session) -> int:
    """Return the id of the last event that may have changed the graph, 0 where there is none."""
    leave_it = [kind.value for kind in LEAVE_IT]
    newest = select(Event.id).where(Event.kind.not_in(leave_it)).order_by(Event.id.desc()).limit(1)
    return session.scalar(newest) or 0
