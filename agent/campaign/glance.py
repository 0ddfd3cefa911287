"""A campaign at a glance: what the loop reads while something is measured, and how soon it looks again."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import and_, or_, select
from sqlalchemy.orm import Session

from agent.campaign.learn import unlearnt
from agent.campaign.order import newest_cause
from db.models import Campaign, Job
from db.states import CampaignState, JobState

_ALIVE = (JobState.QUEUED, JobState.RUNNING)


@dataclass(frozen=True)
class Seen:
    """What tells whether there is a step to take; a few statements, whatever the size of the campaign.

    `flying`: a job of it waits or runs; `unlearnt`: experiments that ended and were not concluded yet;
    `newest_cause`: id of the newest event that may change the order of the queue.
    """

    state: CampaignState
    has_baseline: bool
    flying: bool
    unlearnt: tuple[int, ...]
    newest_cause: int
    wall_s: float
    spent_s: float


def look(session: Session, campaign_id: int) -> Seen:
    """The campaign at one moment: what ends after it is seen as flying, and learnt at the next look."""
    campaign = session.get_one(Campaign, campaign_id)
    alive = select(Job.id).where(Job.campaign_id == campaign_id, Job.state.in_(_ALIVE)).limit(1)
    flying = session.scalar(alive) is not None
    return Seen(
        state=campaign.state,
        has_baseline=campaign.baseline_configuration_id is not None,
        flying=flying,
        unlearnt=tuple(unlearnt(session, campaign_id)),
        newest_cause=newest_cause(session, campaign_id),
        wall_s=float(campaign.budget["wall_s"]),
        spent_s=float(campaign.budget.get("spent_s", 0.0)),
    )


def nothing_soon(session: Session, campaign_id: int) -> bool:
    """Whether the next look may wait: the campaign is paused, a job of it is out, or one of anybody's runs on
    its device, whose measurement many looks would disturb."""
    campaign = session.get_one(Campaign, campaign_id)
    if campaign.state is CampaignState.PAUSED:
        return True
    own = and_(Job.campaign_id == campaign_id, Job.state.in_(_ALIVE))
    measured = and_(Job.device_class == str(campaign.spec["target"]), Job.state == JobState.RUNNING)
    return session.scalar(select(Job.id).where(or_(own, measured)).limit(1)) is not None
