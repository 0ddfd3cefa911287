"""What the baseline of a campaign takes, on any latency metric."""

from __future__ import annotations

from math import exp, log

import numpy as np
from sqlalchemy import func, select
from sqlalchemy.orm import Session

from db.models import Campaign, Experiment, Launch, Measurement
from db.models.base import JsonObject
from experiments.measurement.evidence import Stage
from knowledge.stored import number

BASELINE_LAUNCHES = 6
"""Launches of the baseline, the first ones, that its latency is the mean of where no event tells it."""

_TIMED = (Stage.NOISE, Stage.QUICK, Stage.FULL, Stage.VALIDATION)


def baseline_time_ms(
    session: Session, campaign: Campaign, metric: str, told: JsonObject | None
) -> float | None:
    """The baseline's time on `metric`: as `told` by the event that told it, else of its launches; None where
    neither has it. One statement at most."""
    found = number((told or {}).get(metric))
    if found is not None:
        return found
    first = (
        select(Launch.id)
        .join(Experiment, Experiment.id == Launch.experiment_id)
        .where(
            Experiment.campaign_id == campaign.id,
            Launch.configuration_id == campaign.baseline_configuration_id,
            Launch.stage.in_([stage.value for stage in _TIMED]),
        )
        .order_by(Launch.id)
        .limit(BASELINE_LAUNCHES)
    )
    means = session.scalars(
        select(func.avg(Measurement.value))
        .where(Measurement.launch_id.in_(first), Measurement.metric == metric)
        .group_by(Measurement.launch_id)
    ).all()
    return exp(float(np.mean([log(each) for each in means]))) if means and min(means) > 0 else None
