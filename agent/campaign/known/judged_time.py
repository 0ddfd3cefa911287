"""What an experiment took without its further workloads: nothing is ranked by these, so their time is no cost
of a change either, though the campaign's budget pays for it."""

from __future__ import annotations

from sqlalchemy import func, select

from db.models import Experiment, StageRun
from experiments.measurement.evidence import Stage

JUDGED_S = (
    Experiment.wall_s
    - select(func.coalesce(func.sum(StageRun.wall_s), 0.0))
    .where(StageRun.experiment_id == Experiment.id, StageRun.stage == Stage.FURTHER.value)
    .correlate(Experiment)
    .scalar_subquery()
).label("judged_s")
"""Seconds, as a column of a statement that selects from `Experiment`; None where it took no known time."""
