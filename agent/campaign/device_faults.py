"""When a campaign ends because of its device: a lost GPU at once, one that others use after a few tries."""

from __future__ import annotations

from sqlalchemy import select
from sqlalchemy.orm import Session

from db.models import Experiment
from db.states import ExperimentState
from experiments.engines.port import DEVICE_BUSY, DEVICE_LOST

MOST_BUSY = 3
"""Experiments in a row that may find others on the device, each after it has waited for them, before the
campaign ends instead of trying again."""


def device_gave_out(session: Session, campaign_id: int, experiment_id: int) -> str | None:
    """Why the campaign can't go on after this experiment, None where it can. Its hypothesis waits again."""
    experiment = session.get_one(Experiment, experiment_id)
    told = (experiment.failure or "").rstrip(".")
    if experiment.failure_kind == DEVICE_LOST:
        return f"its device was lost: {told}"
    if experiment.failure_kind != DEVICE_BUSY:
        return None
    latest = session.scalars(
        select(Experiment.failure_kind)
        .where(
            Experiment.campaign_id == campaign_id,
            Experiment.id <= experiment_id,
            Experiment.state != ExperimentState.CANCELLED,
        )
        .order_by(Experiment.id.desc())
        .limit(MOST_BUSY)
    ).all()
    if len(latest) < MOST_BUSY or any(kind != DEVICE_BUSY for kind in latest):
        return None
    return f"{MOST_BUSY} experiments in a row found its device used by others: {told}"
