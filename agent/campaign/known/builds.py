"""What was built ahead; reads only."""

from __future__ import annotations

from sqlalchemy import select
from sqlalchemy.orm import Session

from db.models import Job
from db.states import JobState
from experiments.job.spec import BUILD
from experiments.space.configuration import Configuration


def read_built_ahead(session: Session, campaign_id: int) -> tuple[Configuration, ...]:
    """The configurations whose checkpoints jobs of the campaign's own built, the first first."""
    done = (Job.campaign_id == campaign_id, Job.kind == BUILD, Job.state == JobState.DONE)
    specs = session.scalars(select(Job.spec).where(*done).order_by(Job.id))
    return tuple(Configuration.of(each["configuration"]) for each in specs)
