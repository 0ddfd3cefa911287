"""The two ends of a loop's work on its campaign, as the database tells them: taken up, and ended."""

from __future__ import annotations

from collections.abc import Collection

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from agent.campaign.known.facts import Facts
from agent.campaign.night import tell_of_question
from agent.campaign.resources.devices import leave_out
from db import events
from db.clock import now
from db.event_kinds import EventKind
from db.labels import Noun, format_label
from db.models import Campaign, Experiment
from db.states import CampaignState
from knowledge.figures import counted
from knowledge.queries.devices import devices_of_campaign

_WAS = {
    CampaignState.RUNNING: "",
    CampaignState.PAUSED: "was paused and ",
    CampaignState.STOPPING: "was about to end and ",
    CampaignState.STOPPED: "had ended and ",
}
"""What a campaign that is taken up was: who starts a loop for it wants it to run."""


def take_up(session: Session, campaign_id: int, absent: Collection[str]) -> None:
    """Let the campaign run, and say so where it ran before; `absent` are devices of it that are not there."""
    campaign = session.get_one(Campaign, campaign_id)
    before = campaign.state
    begun = session.scalar(
        select(func.count()).select_from(Experiment).where(Experiment.campaign_id == campaign.id)
    )
    campaign.state = CampaignState.RUNNING
    campaign.ended_at = campaign.stopped_because = None
    if begun or before is not CampaignState.RUNNING:
        events.append(
            session,
            EventKind.CAMPAIGN_RESUMED,
            f"The campaign {_WAS[before]}goes on where it was left",
            format_label(Noun.CAMPAIGN, campaign.id),
            campaign.id,
        )
    for device in absent:
        rest = [each for each in devices_of_campaign(campaign) if each not in absent]
        leave_out(session, campaign.id, device, "it is not there", rest)


def end(session: Session, campaign_id: int, reason: str) -> None:
    """End the campaign for a reason, and say so."""
    campaign = session.get_one(Campaign, campaign_id)
    campaign.state = CampaignState.STOPPED
    campaign.stopped_because = reason
    campaign.ended_at = now()
    tell_of_question(session, campaign.id)
    events.append(
        session,
        EventKind.CAMPAIGN_STOPPED,
        f"The campaign ended: {reason}",
        format_label(Noun.CAMPAIGN, campaign.id),
        campaign.id,
    )


def left_open(reason: str, facts: Facts) -> str:
    """The reason to end, with the campaign's own questions that it leaves open."""
    if not facts.open_questions:
        return reason
    asked = counted(len(facts.open_questions), "question")
    return f"{reason}; {asked} of {len(facts.spec.questions)} left open: {', '.join(facts.open_questions)}"
