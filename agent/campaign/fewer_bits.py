"""What a campaign begins from next, where what it was to begin from does not run.

What fits by count is begun from before anything was loaded, and may yet not run: parts of the count are
guesses, and kernels of an engine are known when it loads. Where the agent chose it, the least change of fewer
bits comes next (`agent.plan.start`); where the user named it, and after the last, the campaign ends.
"""

from __future__ import annotations

from sqlalchemy.orm import Session

from agent.ground.stored_spec import FOUND, START, THEN, keep_found
from db import events
from db.event_kinds import EventKind
from db.labels import Noun, format_label
from db.models import Campaign

WORTH_FEWER_BITS = ("out_of_memory", "unsupported")
"""Failures of a baseline that fewer bits may not have."""

STEPS = "steps"
"""Where the stored start keeps what comes next, and how often that was taken."""


def begin_from_fewer_bits(session: Session, campaign_id: int, kind: str | None, cause: str) -> bool:
    """Let the campaign begin from what comes next, told as an event; False where nothing does."""
    campaign = session.get_one(Campaign, campaign_id)
    start = campaign.spec[FOUND].get(START) or {}
    following = start.get(THEN)
    if kind not in WORTH_FEWER_BITS or not following:
        return False
    following = {**following, STEPS: steps(campaign) + 1}
    keep_found(campaign, START, following)
    label = format_label(Noun.CAMPAIGN, campaign_id)
    text = f"{start['words']} does not run: {cause.rstrip('.')}. {following['told']}"
    events.append(session, EventKind.CAMPAIGN_BEGINS_FROM, text, label, campaign_id)
    return True


def steps(campaign: Campaign) -> int:
    """How often a campaign has gone on to fewer bits before its baseline."""
    return int((campaign.spec[FOUND].get(START) or {}).get(STEPS, 0))
