"""What the runs of one provider count for by day, to be held against its bill; one statement."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, timedelta

from sqlalchemy import case, func, select
from sqlalchemy.orm import Session

from db.models import RemoteRun
from db.money import usd
from db.states import RemoteRunState
from knowledge.queries.spent.money import EPOCH


@dataclass(frozen=True)
class CountedDay:
    """A day's runs of a provider in US dollars: what those that ended count for, by time and rates or as
    quoted, and what those in flight may cost at most."""

    runs: int = 0
    counted_usd: float = 0.0
    open_usd: float = 0.0


def counted_by_day(session: Session, executor: str, first: date) -> dict[date, CountedDay]:
    """The days (UTC) from `first` on on which runs were reserved."""
    ended = RemoteRun.state == RemoteRunState.ENDED
    counts = func.coalesce(RemoteRun.actual_microusd, RemoteRun.reserved_microusd)
    query = (
        select(
            RemoteRun.day,
            func.count(),
            func.coalesce(func.sum(case((ended, counts), else_=0)), 0),
            func.coalesce(func.sum(case((ended, 0), else_=RemoteRun.reserved_microusd)), 0),
        )
        .where(RemoteRun.executor == executor, RemoteRun.day >= (first - EPOCH).days)
        .group_by(RemoteRun.day)
    )
    return {
        EPOCH + timedelta(days=day): CountedDay(runs, usd(int(counted)), usd(int(open_)))
        for day, runs, counted, open_ in session.execute(query)
    }
