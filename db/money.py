"""Budgets in US dollars, held under concurrency: what is reserved and what was spent never exceeds a limit.

An amount is a whole number of millionths of a dollar, so that sums are exact. `reserve` locks every budget
that covers a run, in the order of their ids, sums what counts against each, and reserves the upper bound of
the quote only where all of them have room; call it in the transaction that writes the run. SQLite has one
writer at a time; PostgreSQL holds the rows until the transaction ends.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Decimal

from sqlalchemy import BigInteger, ColumnElement, and_, case, cast, func, or_, select, type_coerce
from sqlalchemy.orm import Session

from configs.quantities import format_usd
from db.clock import now
from db.labels import Noun, format_label
from db.models import MoneyBudget, RemoteRun
from db.states import BudgetScope, RemoteRunState

MICRO = 1_000_000
"""Millionths in a dollar."""

DAY_MS = 86_400_000

NOTHING_YET = 0
"""What is approved of a job about which the user is asked whatever it costs, until they have answered."""

RISE_UNASKED = 0.1
"""The share by which a price may rise above what was told before the user is asked anew: budgets bound it all
the same, and nobody is to be woken for cents."""


@dataclass(frozen=True)
class BudgetStanding:
    """A budget, and what counts against it now: `spent` of runs that ended, `reserved` for those that have
    not; millionths of a dollar. A day's budget is told of this day."""

    id: int
    scope: BudgetScope
    name: str
    limit: int
    approve_above: int | None
    spent: int
    reserved: int

    @property
    def left(self) -> int:
        """What may still be reserved; below zero where more was spent than reserved."""
        return self.limit - self.spent - self.reserved

    @property
    def version(self) -> str:
        """Its figures, by which who changes it says which budget they saw."""
        return f"{self.limit}.{'' if self.approve_above is None else self.approve_above}"

    @property
    def words(self) -> str:
        """Which budget it is, as it stands in a sentence."""
        if self.scope is BudgetScope.DAY:
            return "the budget of a day"
        what = (
            format_label(Noun.CAMPAIGN, int(self.name)) if self.scope is BudgetScope.CAMPAIGN else self.name
        )
        return f"the budget of {what}"


def microusd(usd: float) -> int:
    """Dollars as millionths, rounded up: a bound is never understated."""
    return math.ceil(Decimal(str(usd)) * MICRO)


def usd(micro: int) -> float:
    """Millionths as dollars."""
    return micro / MICRO


def today(session: Session) -> int:
    """Days since 1970 by the database's clock, UTC."""
    return int(session.execute(select(type_coerce(now(), BigInteger) // DAY_MS)).scalar_one())


def set_budget(
    session: Session, scope: BudgetScope, name: str, limit: int, approve_above: int | None
) -> MoneyBudget:
    """Set or change the budget of a scope; what was spent within it stays."""
    query = select(MoneyBudget).where(MoneyBudget.scope == scope, MoneyBudget.name == name)
    row = session.scalars(query.with_for_update()).one_or_none()
    if row is None:
        row = MoneyBudget(scope=scope, name=name, limit_microusd=limit, approve_above_microusd=approve_above)
        session.add(row)
    else:
        row.limit_microusd, row.approve_above_microusd = limit, approve_above
    session.flush()
    return row


def drop_budget(session: Session, scope: BudgetScope, name: str) -> bool:
    """Delete the budget of a scope; false where there is none."""
    query = select(MoneyBudget).where(MoneyBudget.scope == scope, MoneyBudget.name == name)
    row = session.scalars(query).one_or_none()
    if row is not None:
        session.delete(row)
    return row is not None


def budgets(session: Session) -> list[BudgetStanding]:
    """Every budget with what counts against it, in the order in which they were made."""
    day = today(session)
    return [
        _standing(session, row, day) for row in session.scalars(select(MoneyBudget).order_by(MoneyBudget.id))
    ]


def covering(
    session: Session, campaign_id: int | None, target: str, *, lock: bool = False
) -> list[BudgetStanding]:
    """The budgets that a run for the campaign on the target counts against; `lock` keeps others from
    reserving in them until the transaction ends."""
    query = select(MoneyBudget).where(_covers(campaign_id, target)).order_by(MoneyBudget.id)
    rows = session.scalars(query.with_for_update() if lock else query).all()
    day = today(session)
    return [_standing(session, row, day) for row in rows]


def spent_by(session: Session, campaign_id: int) -> int:
    """What counts of a campaign's runs that ended, and is reserved for those that have not."""
    counted = case(
        (
            RemoteRun.state == RemoteRunState.ENDED,
            func.coalesce(RemoteRun.actual_microusd, RemoteRun.reserved_microusd),
        ),
        else_=RemoteRun.reserved_microusd,
    )
    query = select(cast(func.coalesce(func.sum(counted), 0), BigInteger))
    return int(session.execute(query.where(RemoteRun.campaign_id == campaign_id)).scalar_one())


def refusal(
    standings: list[BudgetStanding],
    target: str,
    bound: int,
    approved: int | None,
    as_told: int | None = None,
) -> tuple[str | None, bool]:
    """Why a run that costs `bound` at most may not be submitted, in a sentence, and whether the user's
    approval would help; None where it may. Pure.

    `approved` is what the user approved, None where they need not be asked but by a budget. `as_told` is what
    it would cost at most at the price that they were told when the campaign began, None where none was: above
    that they are asked too, unless a budget says above which price they are.
    """
    if not standings:
        return (
            f"No budget in dollars covers {target}: nothing is submitted to a paid target without one. Give "
            f"one with: autoinfer budget set --target {target} USD",
            False,
        )
    most = f"It costs {format_usd(usd(bound))} at most"
    for each in standings:
        if bound > each.left:
            left, limit = format_usd(usd(max(0, each.left))), format_usd(usd(each.limit))
            return f"{most}, and {each.words} has {left} left of {limit}.", False
    if approved == NOTHING_YET and bound > NOTHING_YET:
        return f"{most}, and you are asked first.", True
    if approved is not None and bound <= approved:
        return None, False
    more = "" if approved is None else f" now, {format_usd(usd(bound - approved))} more than you approved"
    if thresholds := [each.approve_above for each in standings if each.approve_above is not None]:
        if bound <= min(thresholds):
            return None, False
        return f"{most}{more}, and above {format_usd(usd(min(thresholds)))} you are asked.", True
    if approved is not None:
        return f"{most}{more}, and you are asked again.", True
    if as_told is not None and bound > as_told * (1 + RISE_UNASKED):
        told = format_usd(usd(as_told))
        return f"{most} now, and {told} at the price that you were told; you are asked again.", True
    return None, False


def _covers(campaign_id: int | None, target: str) -> ColumnElement[bool]:
    found = [
        MoneyBudget.scope == BudgetScope.DAY,
        and_(MoneyBudget.scope == BudgetScope.TARGET, MoneyBudget.name == target),
    ]
    if campaign_id is not None:
        found.append(and_(MoneyBudget.scope == BudgetScope.CAMPAIGN, MoneyBudget.name == str(campaign_id)))
    return or_(*found)


def _standing(session: Session, row: MoneyBudget, day: int) -> BudgetStanding:
    within = {
        BudgetScope.CAMPAIGN: lambda: RemoteRun.campaign_id == int(row.name),
        BudgetScope.TARGET: lambda: RemoteRun.target == row.name,
        BudgetScope.DAY: lambda: RemoteRun.day == day,
    }[row.scope]()
    ended = RemoteRun.state == RemoteRunState.ENDED
    counted = func.coalesce(RemoteRun.actual_microusd, RemoteRun.reserved_microusd)
    sums = select(
        func.coalesce(func.sum(case((ended, counted), else_=0)), 0).label("spent"),
        func.coalesce(func.sum(case((ended, 0), else_=RemoteRun.reserved_microusd)), 0).label("reserved"),
    ).where(within)
    found = sums.subquery().c
    query = select(cast(found.spent, BigInteger), cast(found.reserved, BigInteger))
    spent, reserved = session.execute(query).one()
    return BudgetStanding(
        id=row.id,
        scope=row.scope,
        name=row.name,
        limit=row.limit_microusd,
        approve_above=row.approve_above_microusd,
        spent=int(spent),
        reserved=int(reserved),
    )
