"""The profiles of candidates, as their experiments told them."""

from __future__ import annotations

from sqlalchemy import select
from sqlalchemy.orm import Session

from db.models import Experiment, StageRun
from db.states import ExperimentKind
from experiments.engines.port import PartTime
from experiments.measurement.evidence import Stage


def candidate_profiles(session: Session, campaign_id: int) -> dict[int, tuple[PartTime, ...]]:
    """The parts of a decode step of each candidate that was profiled, by experiment; one statement."""
    query = (
        select(StageRun.experiment_id, StageRun.detail)
        .join(Experiment, Experiment.id == StageRun.experiment_id)
        .where(
            Experiment.campaign_id == campaign_id,
            Experiment.kind == ExperimentKind.TEST,
            StageRun.stage == Stage.PROFILE.value,
        )
        .order_by(StageRun.id)
    )
    found = {}
    for experiment_id, detail in session.execute(query):
        parts = (detail or {}).get("parts")
        if isinstance(parts, list):
            found[experiment_id] = tuple(PartTime(**part) for part in parts)
    return found
