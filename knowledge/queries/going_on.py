"""How a campaign goes on, as who pauses, resumes or ends it is told."""

from __future__ import annotations

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from db.campaign_owner import is_driven
from db.labels import Noun, format_label
from db.models import Campaign, Hypothesis, Verdict
from db.states import CampaignState, VerdictOutcome
from knowledge.going_on import how_to_go_on
from knowledge.stored import number


def going_on(session: Session, campaign_id: int) -> str | None:
    """Return how the campaign, which must exist, goes on, in a sentence (`how_to_go_on`), else None."""
    campaign = session.get_one(Campaign, campaign_id)
    judged = (
        select(func.count(Verdict.id))
        .join(Hypothesis, Hypothesis.id == Verdict.hypothesis_id)
        .where(Hypothesis.campaign_id == campaign_id, Verdict.outcome != VerdictOutcome.INFEASIBLE)
    )
    return how_to_go_on(
        format_label(Noun.CAMPAIGN, campaign_id),
        campaign.state,
        campaign.stopped_because,
        interrupted=campaign.state is not CampaignState.STOPPED and not is_driven(session, campaign),
        judged=session.scalar(judged) or 0,
        spent_s=number(campaign.budget.get("spent_s")) or 0.0,
        budget_s=number(campaign.budget.get("wall_s")) or 0.0,
    )
