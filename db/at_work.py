"""Which jobs are at work now."""

from __future__ import annotations

from sqlalchemy import ColumnElement, and_

from db.clock import now
from db.models import Job
from db.states import JobState


def at_work() -> ColumnElement[bool]:
    """Whether a job is held by a worker that was heard of within its lease."""
    return and_(Job.state == JobState.RUNNING, Job.lease_expires_at > now())
