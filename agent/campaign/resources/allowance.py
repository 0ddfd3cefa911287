"""What a campaign may spend, of time and of dollars: as it is begun, and when it gets more."""

from __future__ import annotations

from sqlalchemy import select
from sqlalchemy.orm import Session

from configs.campaign import ApprovalSpec
from configs.errors import UsageError
from configs.quantities import format_duration, format_usd
from configs.targets import is_rented
from db import events, money
from db.event_kinds import EventKind
from db.labels import Noun, format_label
from db.models import Campaign, Job
from db.noise import SERIES_NAME
from db.states import BudgetScope
from knowledge.acts.approvals import APPROVE_ABOVE_S


def extended_s(session: Session, campaign_id: int, more_s: float) -> float:
    """The whole budget in seconds of a campaign that may spend `more_s` from now on, or what was left when
    `more_s` is 0.

    Raises `UsageError` when nothing is left and nothing is added, and for an A/A series.
    """
    campaign = session.get_one(Campaign, campaign_id)
    if campaign.name == SERIES_NAME:
        label = format_label(Noun.CAMPAIGN, campaign_id)
        raise UsageError(f"{label} is an A/A series and tests nothing.", "Go on with: autoinfer aa")
    spent_s = float(campaign.budget.get("spent_s", 0.0))
    wall_s = float(campaign.budget["wall_s"])
    if more_s > 0:
        return spent_s + more_s
    if spent_s >= wall_s:
        raise UsageError(
            f"{format_label(Noun.CAMPAIGN, campaign_id)} has spent its budget of {format_duration(wall_s)}.",
            "Give it more: --budget 30m",
        )
    return wall_s


def extend(
    session: Session, campaign_id: int, more_s: float, approve_above: ApprovalSpec | None = None
) -> None:
    """Give a campaign the budget of `extended_s`, which see, and another cost to ask above, if one is given.

    What it was started with stays as it was, so that the command that started it finds it again.
    """
    wall_s = extended_s(session, campaign_id, more_s)
    campaign = session.get_one(Campaign, campaign_id)
    campaign.budget = {**campaign.budget, "wall_s": wall_s, **asked_above(approve_above)}


def set_dollars(
    session: Session, campaign_id: int, limit_usd: float | None, approve_above_usd: float | None
) -> None:
    """Set the campaign's budget in dollars, and above which price of a job the user is asked; None leaves
    either as it is. Raises `UsageError` for a price to ask above where there is no budget."""
    if limit_usd is None and approve_above_usd is None:
        return
    label, name = format_label(Noun.CAMPAIGN, campaign_id), str(campaign_id)
    own = (
        each for each in money.budgets(session) if each.scope is BudgetScope.CAMPAIGN and each.name == name
    )
    known = next(own, None)
    limit = None if known is None else known.limit
    if limit_usd is not None:
        limit = money.microusd(limit_usd)
    if limit is None:
        raise UsageError(
            f"{label} has no budget in dollars to ask above a price in.",
            "Give it one beside: --budget-usd 20",
        )
    above = None if known is None else known.approve_above
    if approve_above_usd is not None:
        above = money.microusd(approve_above_usd)
    money.set_budget(session, BudgetScope.CAMPAIGN, name, limit, above)
    asks = "" if above is None else f"; above {format_usd(money.usd(above))} a job waits for approval"
    text = f"The budget of {label} is {format_usd(money.usd(limit))}{asks}."
    events.append(session, EventKind.BUDGET_SET, text, label, campaign_id)


def more_dollars(
    session: Session, campaign_id: int, more_usd: float, approve_above_usd: float | None
) -> None:
    """Add to the campaign's budget in dollars; one that it never had begins with what it has spent.

    Raises `UsageError` where it measures nothing on rented machines and nothing of it was confirmed there.
    """
    spec = session.get_one(Campaign, campaign_id).spec
    target = str(spec["target"])
    ran_on = session.scalars(select(Job.device_class).where(Job.campaign_id == campaign_id).distinct())
    if not any(map(is_rented, (target, *map(str, spec.get("confirm_on") or ()), *ran_on))):
        raise UsageError(
            f"{format_label(Noun.CAMPAIGN, campaign_id)} measures on {target}, which costs no dollars.",
            "Leave --budget-usd and --approve-above-usd out.",
        )
    standings = money.covering(session, campaign_id, target)
    own = next((each for each in standings if each.scope is BudgetScope.CAMPAIGN), None)
    has = money.spent_by(session, campaign_id) if own is None else own.limit
    limit_usd = money.usd(has + money.microusd(more_usd)) if more_usd else None
    set_dollars(session, campaign_id, limit_usd, approve_above_usd)


def asked_above(approve_above: ApprovalSpec | None) -> dict[str, float]:
    """Where a stored campaign's budget keeps above which cost the user is asked."""
    return {} if approve_above is None else {APPROVE_ABOVE_S: approve_above.wall_s}
