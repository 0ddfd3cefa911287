"""Whether everything from launch to verdict is known to work where a campaign runs; reads only."""

from __future__ import annotations

from sqlalchemy import select
from sqlalchemy.orm import Session

from db.models import Campaign, Experiment, Verdict
from db.states import ExperimentKind, VerdictOutcome

SETTLED = (VerdictOutcome.SUPPORTED, VerdictOutcome.REFUTED)
"""Verdicts that decide a claim; of these only what was measured counts."""


def worked_before(session: Session, campaign: Campaign, engine: str) -> bool:
    """Whether a test of another campaign of this database with this engine was measured and settled on this
    campaign's target.

    What did not run or gave no samples shows nothing, nor does what was measured elsewhere: on another
    target, or in the database that a verdict was imported from.
    """
    found = (
        select(Verdict.id)
        .join(Experiment, Experiment.id == Verdict.experiment_id)
        .join(Campaign, Campaign.id == Experiment.campaign_id)
        .where(
            Campaign.id != campaign.id,
            Campaign.spec["engine"].as_string() == engine,
            Experiment.target == campaign.target,
            Experiment.kind == ExperimentKind.TEST,
            Verdict.outcome.in_(SETTLED),
            Verdict.effect_log.is_not(None),
            Verdict.samples > 0,
        )
    )
    return session.scalar(found.limit(1)) is not None
