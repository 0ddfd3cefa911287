"""The best of each campaign as it was last told: the event carries the figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from db.event_kinds import EventKind
from db.models import Event
from db.models.base import JsonObject
from knowledge.queries.view import View
from knowledge.stored import number


class BestView(View):
    """A campaign's best: how many times as fast as the baseline, with its interval where one is known (none
    for a chain of steps); `tpot_ms` in milliseconds a token."""

    experiment: str | None
    speedup: float
    low: float | None
    high: float | None
    chain: bool
    tpot_ms: float | None
    configuration: JsonObject
    text: str


def bests(session: Session, campaign_ids: Sequence[int]) -> Mapping[int, BestView]:
    """Return the best of each of these campaigns that has one; one statement."""
    # By kind alone, of which there are few: by campaign, the database would look at every event of it, and
    # the sum keeps it from doing so.
    own = Event.campaign_id + 0
    last = (
        select(func.max(Event.id).label("id"), own.label("campaign_id"))
        .where(Event.kind == EventKind.CAMPAIGN_BEST.value)
        .group_by(own)
        .subquery()
    )
    among = select(last.c.id).where(last.c.campaign_id.in_(campaign_ids))
    found = {}
    for event in session.scalars(select(Event).where(Event.id.in_(among))):
        best = best_of(event.data or {}, event.text)
        if event.campaign_id is not None and best is not None:
            found[event.campaign_id] = best
    return found


def best_of(told: Mapping[str, Any], text: str) -> BestView | None:
    """Return the best that an event told, with its sentence; None where it tells none."""
    speedup = number(told.get("speedup"))
    if speedup is None:
        return None
    interval = told.get("speedup_interval") or (None, None)
    return BestView(
        experiment=told.get("experiment"),
        speedup=speedup,
        low=number(interval[0]),
        high=number(interval[1]),
        chain=told.get("speedup_basis") == "chain",
        tpot_ms=number(told.get("tpot_ms")),
        configuration=told.get("configuration") or {},
        text=text,
    )
