"""What is not there to make some values, kept with the campaign so that its queue says so."""

from __future__ import annotations

from collections.abc import Iterable

from sqlalchemy.orm import Session

from agent.ground.stored_spec import keep_found
from agent.plan.tools_there import MissingTool
from db.models import Campaign
from knowledge.queries.order.missing_tools import MISSING


def keep_missing(session: Session, campaign_id: int, missing: Iterable[MissingTool]) -> None:
    """Keep what is missing now, in place of what was when the campaign was started before."""
    kept = [
        {
            "values": {knob: list(values) for knob, values in each.values.items()},
            "told": each.told,
            "command": each.command,
        }
        for each in missing
    ]
    keep_found(session.get_one(Campaign, campaign_id), MISSING, kept)
