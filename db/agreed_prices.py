"""The price of a second on a paid target that a campaign's user was told of and went on with, or approved.

It stands in the campaign's budget. What rose above it is asked about anew (`db.money.refusal`).
"""

from __future__ import annotations

from collections.abc import Mapping

from sqlalchemy.orm import Session

from db.models import Campaign

AGREED_USD_PER_S = "agreed_usd_per_s"
"""Where a stored campaign's budget keeps it, by target."""


def agreed_usd_per_s(session: Session, campaign_id: int | None, target: str) -> float | None:
    """US dollars a second that were agreed to; None where nothing was told of the target."""
    campaign = None if campaign_id is None else session.get(Campaign, campaign_id)
    told = None if campaign is None else _by_target(campaign).get(target)
    return told if isinstance(told, float | int) else None


def agree(session: Session, campaign_id: int, usd_per_s: Mapping[str, float]) -> None:
    """Keep what the user was told of these targets, in place of what they were told before."""
    if not usd_per_s:
        return
    campaign = session.get_one(Campaign, campaign_id, with_for_update=True)
    agreed = {**_by_target(campaign), **usd_per_s}
    campaign.budget = {**campaign.budget, AGREED_USD_PER_S: agreed}


def agree_to_rise(session: Session, campaign_id: int | None, target: str, usd_per_s: float) -> None:
    """Keep a price that the user approved, where it is above what was agreed to before."""
    before = agreed_usd_per_s(session, campaign_id, target)
    if campaign_id is not None and before is not None and usd_per_s > before:
        agree(session, campaign_id, {target: usd_per_s})


def _by_target(campaign: Campaign) -> dict[str, object]:
    found = campaign.budget.get(AGREED_USD_PER_S)
    return dict(found) if isinstance(found, Mapping) else {}
