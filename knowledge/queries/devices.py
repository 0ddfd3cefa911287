"""What runs on which device."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import select
from sqlalchemy.orm import Session

from db.labels import Noun, format_label
from db.models import Experiment, Hypothesis, Job
from db.states import JobState
from knowledge.queries.view import View


class OnDevice(View):
    """A job that runs on a device, such as `desk/cuda:0`; with its experiment, if it is for one."""

    device: str
    kind: str
    experiment: str | None
    hypothesis: str | None
    claim: str | None
    stage: str | None
    started_at: datetime | None


def on_devices(session: Session) -> dict[str, OnDevice]:
    """The running job of each device that has one, by device; one statement."""
    query = (
        select(Job, Experiment.stage, Hypothesis.id, Hypothesis.claim)
        .outerjoin(Experiment, Experiment.id == Job.experiment_id)
        .outerjoin(Hypothesis, Hypothesis.id == Experiment.hypothesis_id)
        .where(Job.state == JobState.RUNNING, Job.device.is_not(None))
        .order_by(Job.device)
    )
    return {
        job.device: OnDevice(
            device=job.device,
            kind=job.kind,
            experiment=None
            if job.experiment_id is None
            else format_label(Noun.EXPERIMENT, job.experiment_id),
            hypothesis=None if hypothesis is None else format_label(Noun.HYPOTHESIS, hypothesis),
            claim=claim,
            stage=stage,
            started_at=job.started_at,
        )
        for job, stage, hypothesis, claim in session.execute(query)
        if job.device is not None
    }
