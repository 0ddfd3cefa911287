"""What the best configuration ran when it was last measured, as its engine told it."""

from __future__ import annotations

from sqlalchemy import select
from sqlalchemy.orm import Session

from db.models import Launch
from db.models.base import JsonObject


def resolved_of(session: Session, experiment_id: int, configuration_id: int) -> JsonObject:
    """The resolved configuration of the experiment's last launch of it; empty where there was none."""
    found = session.scalar(
        select(Launch.resolved)
        .where(Launch.experiment_id == experiment_id, Launch.configuration_id == configuration_id)
        .order_by(Launch.id.desc())
        .limit(1)
    )
    return found or {}
