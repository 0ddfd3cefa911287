"""Setting, changing and dropping budgets in dollars: writes, each with its event and what it says."""

from __future__ import annotations

from sqlalchemy.orm import Session

from configs.errors import UsageError
from configs.quantities import format_usd
from configs.targets import is_rented
from db import events, money
from db.event_kinds import EventKind
from db.labels import Noun, format_label
from db.states import BudgetScope
from knowledge.queries.lookup import labelled


def scope_of(
    session: Session, campaign: str | None, day: bool, target: str | None
) -> tuple[BudgetScope, str]:
    """Which budget is meant, as it is kept; raises `UsageError` unless exactly one is named, and exists."""
    if (campaign is not None) + day + (target is not None) != 1:
        raise UsageError(
            "A budget is one of a campaign, of a day or of a target.",
            "Name one: --campaign C-1, --day, or --target modal:H100!",
        )
    if campaign is not None:
        return BudgetScope.CAMPAIGN, str(labelled(session, Noun.CAMPAIGN, campaign))
    if target is not None:
        if not is_rented(target):
            raise UsageError(f"{target[:60]!r} is no paid target.", "Write one such as modal:H100!.")
        return BudgetScope.TARGET, target
    return BudgetScope.DAY, ""


def set_budget(
    session: Session, scope: BudgetScope, name: str, limit: int, above: int | None
) -> tuple[money.BudgetStanding, str]:
    """Set or change a budget, in millionths of a dollar; gives how it stands, and that in a sentence."""
    row = money.set_budget(session, scope, name, limit, above)
    found = next(each for each in money.budgets(session) if each.id == row.id)
    asks = "" if above is None else f"; above {format_usd(money.usd(above))} a job waits for approval"
    text = f"{found.words[0].upper()}{found.words[1:]} is {format_usd(money.usd(limit))}{asks}."
    _tell(session, text, scope, name)
    return found, text


def drop_budget(session: Session, scope: BudgetScope, name: str) -> str:
    """Take a budget away, and say so; raises `UsageError` where there is none."""
    if not money.drop_budget(session, scope, name):
        raise UsageError("There is no such budget.", "List them with: autoinfer budget list")
    campaign = format_label(Noun.CAMPAIGN, int(name)) if scope is BudgetScope.CAMPAIGN else ""
    text = f"The budget of {campaign or name or 'a day'} was dropped."
    _tell(session, text, scope, name)
    return text


def _tell(session: Session, text: str, scope: BudgetScope, name: str) -> None:
    campaign_id = int(name) if scope is BudgetScope.CAMPAIGN else None
    subject = None if campaign_id is None else format_label(Noun.CAMPAIGN, campaign_id)
    session.flush()
    events.append(session, EventKind.BUDGET_SET, text, subject, campaign_id)
