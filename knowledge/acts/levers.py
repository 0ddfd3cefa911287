"""The levers that a campaign may be steered by."""

from __future__ import annotations

from sqlalchemy.orm import Session

from db.models import Campaign
from experiments.space.loading import load_space


def levers_of(space: str) -> tuple[str, ...]:
    """The levers of the space of this name or path, in its order; raises `UsageError` as `load_space`."""
    return load_space(space).levers


def known_levers(session: Session, campaign_id: int) -> tuple[str, ...]:
    """The levers of the space of a campaign that exists."""
    spec = session.get_one(Campaign, campaign_id).spec
    return levers_of(str(spec.get("space", "reference")))
