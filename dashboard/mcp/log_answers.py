"""The running log as the tools answer it."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy.orm import Session

from dashboard.mcp.answers import Answer
from dashboard.mcp.quoting import Quoted, quoted
from db import events
from db.event_kinds import EventKind
from knowledge.queries.log import event_view
from knowledge.queries.lookup import campaign_filter


class EventAnswer(Answer):
    """A line of the log."""

    id: int
    at: datetime
    kind: str
    subject: str | None
    campaign: str | None
    text: Quoted


class LogAnswer(Answer):
    """Lines of the log, oldest first; go on with `after_id` = `last_id`."""

    events: tuple[EventAnswer, ...]
    last_id: int


def log(
    session: Session, label: str | None, after_id: int | None, kinds: tuple[EventKind, ...], limit: int
) -> LogAnswer:
    """Lines of the log: the last ones, or the first after an id."""
    campaign_id = campaign_filter(session, label)
    wanted = kinds or None
    if after_id is None:
        rows = events.latest(session, limit, wanted, campaign_id)
    else:
        rows = events.read(session, after_id, limit, wanted, campaign_id)
    last = rows[-1].id if rows else events.last_id(session) if after_id is None else after_id
    views = map(event_view, rows)
    return LogAnswer(
        events=tuple(
            EventAnswer(
                id=each.id,
                at=each.at,
                kind=each.kind,
                subject=each.subject,
                campaign=each.campaign,
                text=quoted(each.brief),
            )
            for each in views
        ),
        last_id=last,
    )
