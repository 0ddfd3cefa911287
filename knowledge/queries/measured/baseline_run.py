"""Which experiment measured a campaign's baseline."""

from __future__ import annotations

from sqlalchemy import select
from sqlalchemy.orm import Session

from db.models import Experiment
from db.states import ExperimentKind, ExperimentState


def newest_baseline(session: Session, campaign_id: int) -> int | None:
    """The id of the newest baseline experiment that is done; None where there is none. One statement."""
    return session.scalar(
        select(Experiment.id)
        .where(
            Experiment.campaign_id == campaign_id,
            Experiment.kind == ExperimentKind.BASELINE,
            Experiment.state == ExperimentState.DONE,
        )
        .order_by(Experiment.id.desc())
        .limit(1)
    )
